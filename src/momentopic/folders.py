"""Folders of numbers in safetensors and the rest in JSON: what models and moments on disk have in common.

A folder is written under a temporary name beside its place and renamed when it is whole: there is never half of one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ARRAYS = "arrays.safetensors"


@dataclass(frozen=True)
class Format:
    """A kind of folder, and how its errors speak of it.

    Attributes
    ----------
    name, version : str, int
        Of the format; the versions up to this one are read.
    description : str
        The name of the JSON file.
    error : type
        What is raised where a folder cannot be read.
    what, damaged, written, none : str
        "the model in", "is damaged", "was written", "is not a momentopic model".
    cure : str
        For files that were changed or truncated.
    """

    name: str
    version: int
    description: str
    error: type[ValueError]
    what: str
    damaged: str
    written: str
    none: str
    cure: str

    def write(
        self, path: Path, arrays: dict[str, Any], description: dict[str, Any], plain: Callable[[Any], Any] | None = None
    ) -> None:
        """Write a folder, replacing one of the same kind but nothing else; `plain` is for what JSON does not know."""
        from safetensors.numpy import save_file

        from momentopic import __version__

        self.check_destination(path)
        head = {"format": self.name, "format_version": self.version, "momentopic_version": __version__}
        temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
        temporary.mkdir()
        try:
            save_file(arrays, temporary / ARRAYS)
            whole = {**head, **description, "sha256": checksum(temporary / ARRAYS)}
            text = json.dumps(whole, ensure_ascii=False, indent=1, default=plain)
            (temporary / self.description).write_text(text, encoding="utf-8")
            move_into_place(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def read(self, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return description and arrays of a folder, which is whole and of a version that can be read."""
        description = self.read_description(path)
        return description, self._read_arrays(path, description)

    def broken(self, path: Path, why: str) -> ValueError:
        """Return the error for a folder that is damaged."""
        return self.error(f"{self.what} {path} {self.damaged}: {why}")

    def check_destination(self, path: str | Path) -> None:
        """Raise an OSError if a folder cannot be written at `path`: call it before any long work."""
        path = Path(path)
        if not path.parent.is_dir():
            raise FileNotFoundError(f"cannot save to {path}: there is no folder {path.parent}")
        if not path.exists() and not path.is_symlink():
            return
        if path.is_dir() and not path.is_symlink():
            there = {entry.name for entry in path.iterdir()}
            if not there or (there <= {self.description, ARRAYS} and self._is_one(path)):
                return
        raise FileExistsError(f"{path} exists and {self.none} alone, so it will not be replaced: choose another name")

    def _is_one(self, path: Path) -> bool:
        try:
            self.read_description(path)
        except self.error:
            return False
        return True

    def read_description(self, path: Path) -> dict[str, Any]:
        """Return the description of a folder."""
        file = path / self.description
        if not file.is_file():
            raise self.error(f"{path} {self.none}: it has no {self.description}")
        try:
            description = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise self.broken(path, f"{self.description} cannot be read ({error})") from error
        if not isinstance(description, dict) or description.get("format") != self.name:
            raise self.error(f"{path} {self.none}: {file} describes something else")
        version = description.get("format_version")
        if not isinstance(version, int) or version < 1:
            raise self.broken(path, f"the format version is {version!r}")
        if version > self.version:
            raise self.error(
                f"{self.what} {path} {self.written} by momentopic {description.get('momentopic_version')} in format "
                f"{version}; this version reads formats up to {self.version}: upgrade momentopic"
            )
        return description

    def _read_arrays(self, path: Path, description: dict[str, Any]) -> dict[str, Any]:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        file = path / ARRAYS
        if not file.is_file():
            raise self.broken(path, f"{ARRAYS} is missing")
        if checksum(file) != description.get("sha256"):
            raise self.broken(path, f"{ARRAYS} is not as it was written (truncated or changed). {self.cure}")
        try:
            arrays: dict[str, Any] = load_file(file)
        except SafetensorError as error:
            raise self.broken(path, f"{ARRAYS} cannot be read ({error})") from error
        return arrays


def move_into_place(temporary: Path, path: Path) -> None:
    """Rename the finished folder; an old one steps aside first, and comes back if the rename fails."""
    if not path.exists():
        os.rename(temporary, path)
        return
    old = path.parent / f".{path.name}.{uuid.uuid4().hex}.old"
    os.rename(path, old)
    try:
        os.rename(temporary, path)
    except BaseException:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def checksum(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
