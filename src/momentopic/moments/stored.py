"""Sketched moments as a folder: numbers in safetensors, the rest in JSON, with a format version. No pickle.

    moments.json          what it is, words, text settings, and the checksum of the other file
    arrays.safetensors    the basis and the sums

A folder is written under a temporary name beside its place and renamed when it is whole, as a model folder is.
"""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

import numpy as np

from momentopic.corpus.text import TextSettings
from momentopic.moments.basis import Basis
from momentopic.moments.sketched import SUMS, SketchedMoments
from momentopic.moments.triples import packed_size
from momentopic.persist import _checksum, _move_into_place

FORMAT = "momentopic-moments"
FORMAT_VERSION = 1

_DESCRIPTION = "moments.json"
_ARRAYS = "arrays.safetensors"


class MomentsFolderError(ValueError):
    """The folder does not hold moments that can be read; the message says why."""


def save_moments(moments: SketchedMoments, path: str | Path) -> None:
    """Write moments to the folder `path`, replacing moments that are there but nothing else.

    Parameters
    ----------
    moments : SketchedMoments
    path : str or Path
        The folder; its parent must exist.

    Raises
    ------
    FileExistsError
        If something other than saved moments is at `path`.
    """
    from safetensors.numpy import save_file

    from momentopic import __version__

    path = Path(path)
    check_destination(path)
    arrays = {name[1:]: np.ascontiguousarray(getattr(moments, name)) for name in SUMS}
    arrays["basis"] = np.ascontiguousarray(moments.basis.vectors)
    arrays["center"] = np.ascontiguousarray(moments.basis.center)
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "momentopic_version": __version__,
        "documents": moments.n_docs,
        "words": moments.n_words,
        "directions": moments.basis.rank,
        "vocabulary": moments.vocabulary,
        "text_settings": None if moments.settings is None else moments.settings.to_json(),
    }
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    temporary.mkdir()
    try:
        save_file(arrays, temporary / _ARRAYS)
        description["sha256"] = _checksum(temporary / _ARRAYS)
        text = json.dumps(description, ensure_ascii=False, indent=1)
        (temporary / _DESCRIPTION).write_text(text, encoding="utf-8")
        _move_into_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load_moments(path: str | Path, *, engine: Any = "auto") -> SketchedMoments:
    """Read moments that `save_moments` wrote.

    Parameters
    ----------
    path : str or Path
        The folder.
    engine : "auto", "threads" or an Engine
        Who does the sums over documents that are added later.

    Raises
    ------
    FileNotFoundError
        If there is no folder at `path`.
    MomentsFolderError
        If the folder holds something else, damaged moments, or those of a newer format.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no folder of moments at {path}")
    description = _read_description(path)
    arrays = _read_arrays(path, description)
    try:
        vocabulary, settings = description["vocabulary"], description["text_settings"]
        moments = SketchedMoments(
            Basis(arrays["basis"], arrays["center"]),
            vocabulary=vocabulary,
            settings=None if settings is None else TextSettings.from_json(settings),
            engine=engine,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise MomentsFolderError(f"the moments in {path} are damaged: {_DESCRIPTION} is not whole ({error})") from error
    for name in SUMS:
        setattr(moments, name, arrays[name[1:]])
    return moments


def check_destination(path: str | Path) -> None:
    """Raise an OSError if moments cannot be saved at `path`: call it before any work."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save to {path}: there is no folder {path.parent}")
    if not path.exists() and not path.is_symlink():
        return
    if path.is_dir() and not path.is_symlink():
        there = {entry.name for entry in path.iterdir()}
        if not there or (there <= {_DESCRIPTION, _ARRAYS} and _describes_moments(path)):
            return
    raise FileExistsError(
        f"{path} exists and does not hold momentopic moments alone, so it will not be replaced: choose another name"
    )


def _describes_moments(path: Path) -> bool:
    try:
        _read_description(path)
    except MomentsFolderError:
        return False
    return True


def _read_description(path: Path) -> dict[str, Any]:
    file = path / _DESCRIPTION
    if not file.is_file():
        raise MomentsFolderError(f"{path} holds no momentopic moments: it has no {_DESCRIPTION}")
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise MomentsFolderError(
            f"the moments in {path} are damaged: {_DESCRIPTION} cannot be read ({error})"
        ) from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise MomentsFolderError(f"{path} holds no momentopic moments: {file} describes something else")
    version = description.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise MomentsFolderError(f"the moments in {path} are damaged: their format version is {version!r}")
    if version > FORMAT_VERSION:
        raise MomentsFolderError(
            f"the moments in {path} were written by momentopic {description.get('momentopic_version')} in format "
            f"{version}; this version reads formats up to {FORMAT_VERSION}: upgrade momentopic"
        )
    return description


def _read_arrays(path: Path, description: dict[str, Any]) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = path / _ARRAYS
    if not file.is_file():
        raise MomentsFolderError(f"the moments in {path} are damaged: {_ARRAYS} is missing")
    if _checksum(file) != description.get("sha256"):
        raise MomentsFolderError(
            f"the moments in {path} are damaged: {_ARRAYS} is not as it was written (truncated or changed). "
            "Copy the folder again from its source."
        )
    try:
        arrays: dict[str, Any] = load_file(file)
    except SafetensorError as error:
        raise MomentsFolderError(f"the moments in {path} are damaged: {_ARRAYS} cannot be read ({error})") from error
    if set(arrays) != {*(name[1:] for name in SUMS), "basis", "center"} or not _consistent(arrays):
        raise MomentsFolderError(f"the moments in {path} are damaged: the arrays do not belong together")
    return arrays


def _consistent(arrays: dict[str, Any]) -> bool:
    if arrays["basis"].ndim != 2:
        return False
    M, r = arrays["basis"].shape
    shapes = {"center": (r,), "numbers": (4,), "totals": (M,), "products": (M, r), "pairs": (r, r),
              "third": (packed_size(r),)}  # fmt: skip
    return all(arrays[name].shape == shape for name, shape in shapes.items())
