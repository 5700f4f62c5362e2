"""What a fit has reached, written now and then, so that a fit that was killed goes on from there to the same bits.

    checkpoint.json            what is fitted, and the file and checksum of each stage
    STAGE-TOKEN.safetensors    the arrays of a stage

A stage is written under a name of its own before the description points to it: there is never half a stage.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import time
import uuid
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from momentopic.corpus.shards import read_sealed, write_sealed, write_whole
from momentopic.corpus.validate import InputFileError

FORMAT = "momentopic-checkpoint"
FORMAT_VERSION = 1

_DESCRIPTION = "checkpoint.json"
_OURS = re.compile(r"[a-z]+-[0-9a-f]{8}\.safetensors|\..*\.[0-9a-f]{8}\.tmp")
_TYPES = {
    "float32": "F32",
    "float64": "F64",
    "int32": "I32",
    "int64": "I64",
    "uint8": "U8",
    "uint16": "U16",
    "uint64": "U64",
}
_EVERY = 60.0  # seconds at least between two states of a stage that is under way


class CheckpointError(ValueError):
    """The checkpoint cannot be used for this fit; the message says why."""


class Stage(NamedTuple):
    """A stage as it was saved."""

    arrays: dict[str, Any]
    values: dict[str, Any]


class Checkpoint:
    """The stages of one fit, in a folder.

    Parameters
    ----------
    folder : str or Path
        Made if it is not there; its parent must exist.
    task : dict
        What is fitted, as JSON knows it: a checkpoint of another task is refused.

    Raises
    ------
    CheckpointError
        If the folder holds a checkpoint of something else, or other files.
    """

    def __init__(self, folder: str | Path, task: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self.task = task
        self._stages: dict[str, dict[str, Any]] = {}
        self._saved = time.monotonic()
        self._open()

    def load(self, stage: str, **key: Any) -> Stage | None:
        """Return a stage that was saved under this key; None if there is none."""
        from safetensors import SafetensorError, safe_open

        found = self._stages.get(stage)
        if found is None or found["key"] != key:
            return None
        path = self.folder / found["file"]
        try:
            with path.open("rb") as file:
                sound = hashlib.file_digest(file, "sha256").hexdigest() == found["sha256"]
            arrays = None
            if sound:
                with safe_open(path, framework="numpy") as stored:
                    # copies: how an array is aligned in memory must not depend on where it came from
                    arrays = {name: np.array(stored.get_tensor(name)) for name in stored.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            arrays = None
        if arrays is None:
            warnings.warn(f"{path} is damaged: this stage of the fit is done again", UserWarning, stacklevel=2)
            return None
        return Stage(arrays, found["values"])

    def save(self, stage: str, arrays: dict[str, Any], values: dict[str, Any] | None = None, **key: Any) -> None:
        """Write a stage in the place of what there was of it."""
        name = f"{stage}-{uuid.uuid4().hex[:8]}.safetensors"
        digest = hashlib.sha256()
        write_whole(self.folder / name, lambda file: _write_arrays(file, arrays, digest))
        before = self._stages.get(stage)
        entry = {"file": name, "sha256": digest.hexdigest(), "key": key, "values": values or {}}
        self._stages[stage] = entry
        self._describe()
        if before is not None:
            (self.folder / before["file"]).unlink(missing_ok=True)
        self._saved = time.monotonic()

    def due(self) -> bool:
        """Whether the last state is old enough for another one to be worth its time."""
        return time.monotonic() - self._saved >= _EVERY

    def _describe(self) -> None:
        content = {"format": FORMAT, "format_version": FORMAT_VERSION, "task": self.task, "stages": self._stages}
        write_sealed(self.folder / _DESCRIPTION, content)

    def _open(self) -> None:
        folder, path = self.folder, self.folder / _DESCRIPTION
        if not folder.exists():
            if not folder.absolute().parent.is_dir():
                raise FileNotFoundError(f"cannot write a checkpoint to {folder}: there is no folder {folder.parent}")
            folder.mkdir()
        if not path.is_file():
            if not folder.is_dir() or len(list(folder.iterdir())) > len(_files(folder)):
                raise CheckpointError(f"{folder} holds something other than a checkpoint: choose another folder")
            self._describe()
            return
        try:
            content = read_sealed(path)
        except InputFileError as error:
            raise CheckpointError(f"{path} is damaged: delete {folder}, and the fit begins anew") from error
        if content.get("format") != FORMAT or content.get("format_version") != FORMAT_VERSION:
            raise CheckpointError(f"{path} describes something else: choose another folder for the checkpoint")
        self._refuse_other(content["task"])
        self._stages = content["stages"]
        used = {stage["file"] for stage in self._stages.values()}
        for left in _files(folder):  # by a process that was killed
            if left.name not in used:
                left.unlink()

    def _refuse_other(self, task: dict[str, Any]) -> None:
        different = [name for name in {**task, **self.task} if task.get(name) != self.task.get(name)]
        if not different:
            return
        if "corpus" in different:
            what = "of a fit of another corpus"
        else:
            told = (f"{name}={task.get(name)!r} where now {self.task.get(name)!r} is asked for" for name in different)
            what = f"of a fit with {', '.join(told)}"
        raise CheckpointError(
            f"the checkpoint in {self.folder} is {what}: choose another folder, or delete it to begin anew"
        )


def _write_arrays(file: Any, arrays: dict[str, Any], digest: Any) -> None:
    """Write arrays as safetensors one after another: the library's own function holds a copy of all of them."""
    header: dict[str, Any] = {}
    offset = 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {"dtype": _TYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    for part in (len(text).to_bytes(8, "little"), text, *arrays.values()):
        content = part if isinstance(part, bytes) else np.ascontiguousarray(part).reshape(-1).view(np.uint8).data
        digest.update(content)
        file.write(content)


def remove_checkpoint(folder: str | Path) -> None:
    """Delete a checkpoint whose fit is done, and nothing else."""
    folder = Path(folder)
    for path in _files(folder):
        path.unlink(missing_ok=True)
    (folder / _DESCRIPTION).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if _OURS.fullmatch(path.name)]


def fit_task(model: Any, corpus: Any, seed: int) -> dict[str, Any]:
    """Say what a fit depends on: the corpus, the parameters that the result depends on, and the version."""
    from momentopic import __version__

    names = (
        "n_components", "moments", "algorithm", "projections", "n_projections", "c0", "refine", "n_sweeps", "smoothing"
    )  # fmt: skip
    task: dict[str, Any] = {"corpus": corpus.fingerprint(), "random_state": seed, "momentopic_version": __version__}
    for name in names:
        value = getattr(model, name)
        task[name] = value.item() if isinstance(value, np.generic) else value
    return task
