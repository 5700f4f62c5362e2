"""Sketched moments as a folder: numbers in safetensors, the rest in JSON, with a format version. No pickle.

    moments.json          what it is, words, text settings, and the checksum of the other file
    arrays.safetensors    the basis and the sums

How such folders are written and read is in `momentopic.folders`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from momentopic.corpus.text import TextSettings
from momentopic.folders import Format
from momentopic.moments.basis import Basis
from momentopic.moments.sketched import SUMS, SketchedMoments
from momentopic.moments.triples import packed_size


class MomentsFolderError(ValueError):
    """The folder does not hold moments that can be read; the message says why."""


FORMAT = Format(
    "momentopic-moments",
    1,
    "moments.json",
    MomentsFolderError,
    what="the moments in",
    damaged="are damaged",
    written="were written",
    none="does not hold momentopic moments",
    cure="Copy the folder again from its source.",
)


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
    arrays = {name[1:]: np.ascontiguousarray(getattr(moments, name)) for name in SUMS}
    arrays["basis"] = np.ascontiguousarray(moments.basis.vectors)
    arrays["center"] = np.ascontiguousarray(moments.basis.center)
    description = {
        "documents": moments.n_docs,
        "words": moments.n_words,
        "directions": moments.basis.rank,
        "vocabulary": moments.vocabulary,
        "text_settings": None if moments.settings is None else moments.settings.to_json(),
    }
    FORMAT.write(Path(path), arrays, description)


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
    description, arrays = FORMAT.read(path)
    if set(arrays) != {*(name[1:] for name in SUMS), "basis", "center"} or not _consistent(arrays):
        raise FORMAT.broken(path, "the arrays do not belong together")
    try:
        vocabulary, settings = description["vocabulary"], description["text_settings"]
        moments = SketchedMoments(
            Basis(arrays["basis"], arrays["center"]),
            vocabulary=vocabulary,
            settings=None if settings is None else TextSettings.from_json(settings),
            engine=engine,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FORMAT.broken(path, f"{FORMAT.description} is not whole ({error})") from error
    for name in SUMS:
        setattr(moments, name, arrays[name[1:]])
    return moments


def _consistent(arrays: dict[str, Any]) -> bool:
    if arrays["basis"].ndim != 2:
        return False
    M, r = arrays["basis"].shape
    shapes = {"center": (r,), "numbers": (4,), "totals": (M,), "products": (M, r), "pairs": (r, r),
              "third": (packed_size(r),)}  # fmt: skip
    return all(arrays[name].shape == shape for name, shape in shapes.items())
