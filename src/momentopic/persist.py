"""A model as a folder: numbers in safetensors, the rest in JSON, with a format version. No pickle.

    model.json            what it is, parameters, scalars, words, text settings, and the checksum of the other file
    arrays.safetensors    components_, concentration_, ...

A folder is written under a temporary name beside its place and renamed when it is whole: there is never half a model.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from momentopic.model import DiscreteICA

FORMAT = "momentopic-model"
# 2 added the text settings and what is known of the training data, 3 the moments of groups of documents and n_groups;
# 1 and 2 are read as before
FORMAT_VERSION = 3

_DESCRIPTION = "model.json"
_ARRAYS = "arrays.safetensors"
_REQUIRED = ("components_", "concentration_", "eigenvalues_")
_OPTIONAL = ("intensity_mean_", "intensity_variance_", "intensity_third_cumulant_", "stability_")
_GROUPS = "groups."  # what the names of the arrays begin with that `confidence` needs
_SCALARS = ("rate_", "n_iter_", "converged_", "timings_", "n_features_in_")


class ModelFolderError(ValueError):
    """The folder does not hold a model that can be read; the message says why."""


def save(model: DiscreteICA, path: str | Path) -> None:
    """Write a fitted model to the folder `path`, replacing a model that is there but nothing else.

    Parameters
    ----------
    model : DiscreteICA
        Fitted. An `engine` object or a RandomState cannot be saved: the loaded model has "auto" and None in their
        place.
    path : str or Path
        The folder; its parent must exist.

    Raises
    ------
    FileExistsError
        If something other than a saved model is at `path`.
    """
    from safetensors.numpy import save_file
    from sklearn.utils.validation import check_is_fitted

    from momentopic import __version__
    from momentopic.confidence import evidence_arrays

    check_is_fitted(model)
    path = Path(path)
    check_destination(path)
    arrays = {name: np.ascontiguousarray(getattr(model, name)) for name in (*_REQUIRED, *_OPTIONAL)
              if hasattr(model, name)}  # fmt: skip
    arrays |= {f"{_GROUPS}{name}": np.ascontiguousarray(array) for name, array in evidence_arrays(model).items()}
    params = model.get_params()
    if not isinstance(params["engine"], str):
        params["engine"] = "auto"
    if params["random_state"] is not None and not isinstance(params["random_state"], Integral):
        params["random_state"] = None
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "momentopic_version": __version__,
        "class": "DiscreteICA",
        "params": params,
        "fitted": {name: getattr(model, name) for name in _SCALARS},
        "feature_names": [str(name) for name in model.feature_names_in_]
        if hasattr(model, "feature_names_in_")
        else None,
        "text_settings": None if model.text_settings_ is None else model.text_settings_.to_json(),
        "training_data": model.training_data_,
    }
    temporary = path.parent / f".{path.name}.{uuid.uuid4().hex}.tmp"
    temporary.mkdir()
    try:
        save_file(arrays, temporary / _ARRAYS)
        description["sha256"] = _checksum(temporary / _ARRAYS)
        (temporary / _DESCRIPTION).write_text(
            json.dumps(description, ensure_ascii=False, indent=1, default=_plain), encoding="utf-8"
        )
        _move_into_place(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def load(path: str | Path) -> DiscreteICA:
    """Read a model that `DiscreteICA.save` wrote.

    Parameters
    ----------
    path : str or Path
        The folder.

    Returns
    -------
    DiscreteICA
        Fitted, with the bits it was saved with.

    Raises
    ------
    FileNotFoundError
        If there is no folder at `path`.
    ModelFolderError
        If the folder holds something else, a damaged model, or one of a newer format.
    """
    from momentopic.confidence import evidence
    from momentopic.corpus.text import TextSettings
    from momentopic.model import DiscreteICA

    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no model folder at {path}")
    description = _read_description(path)
    arrays = _read_arrays(path, description)
    try:
        fitted: dict[str, Any] = description["fitted"]
        names = description["feature_names"]
        model = DiscreteICA(**description["params"])
        for name in _SCALARS:
            setattr(model, name, fitted[name])
        text_settings = description.get("text_settings")
        model.text_settings_ = None if text_settings is None else TextSettings.from_json(text_settings)
        model._training_data = description.get("training_data", {})
        kept = {name: arrays.pop(name) for name in list(arrays) if name.startswith(_GROUPS)}
        model._evidence = evidence({name.removeprefix(_GROUPS): array for name, array in kept.items()})
        K, M = arrays["components_"].shape
        consistent = (
            fitted["n_features_in_"] == M
            and all(a.shape == (K,) for name, a in arrays.items() if name != "components_")
            and (names is None or len(names) == M)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFolderError(f"the model in {path} is damaged: {_DESCRIPTION} is incomplete ({error})") from error
    if not consistent:
        raise ModelFolderError(f"the model in {path} is damaged: its files do not belong together")
    for name, array in arrays.items():
        setattr(model, name, array)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def check_destination(path: str | Path) -> None:
    """Raise an OSError if a model cannot be saved at `path`: call it before a long fit."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot save to {path}: there is no folder {path.parent}")
    if not path.exists() and not path.is_symlink():
        return
    if path.is_dir() and not path.is_symlink():
        there = {entry.name for entry in path.iterdir()}
        if not there:
            return
        if there <= {_DESCRIPTION, _ARRAYS}:
            try:
                _read_description(path)
            except ModelFolderError:
                pass
            else:
                return
    raise FileExistsError(
        f"{path} exists and is not a momentopic model alone, so it will not be replaced: choose another name"
    )


def _read_description(path: Path) -> dict[str, Any]:
    file = path / _DESCRIPTION
    if not file.is_file():
        raise ModelFolderError(f"{path} is not a momentopic model: it has no {_DESCRIPTION}")
    try:
        description = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelFolderError(f"the model in {path} is damaged: {_DESCRIPTION} cannot be read ({error})") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ModelFolderError(f"{path} is not a momentopic model: {file} describes something else")
    version = description.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise ModelFolderError(f"the model in {path} is damaged: its format version is {version!r}")
    if version > FORMAT_VERSION:
        raise ModelFolderError(
            f"the model in {path} was written by momentopic {description.get('momentopic_version')} in format "
            f"{version}; this version reads formats up to {FORMAT_VERSION}: upgrade momentopic"
        )
    return description


def _read_arrays(path: Path, description: dict[str, Any]) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    file = path / _ARRAYS
    if not file.is_file():
        raise ModelFolderError(f"the model in {path} is damaged: {_ARRAYS} is missing")
    if _checksum(file) != description.get("sha256"):
        raise ModelFolderError(
            f"the model in {path} is damaged: {_ARRAYS} is not as it was written (truncated or changed). "
            "Copy the folder again from its source or fit again."
        )
    try:
        arrays: dict[str, Any] = load_file(file)
    except SafetensorError as error:
        raise ModelFolderError(f"the model in {path} is damaged: {_ARRAYS} cannot be read ({error})") from error
    missing = [name for name in _REQUIRED if name not in arrays]
    unknown = [name for name in arrays if name not in (*_REQUIRED, *_OPTIONAL) and not name.startswith(_GROUPS)]
    if missing or unknown:
        raise ModelFolderError(f"the model in {path} is damaged: arrays missing {missing}, unknown {unknown}")
    return arrays


def _move_into_place(temporary: Path, path: Path) -> None:
    """Rename the finished folder; an old model steps aside first, and comes back if the rename fails."""
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


def _checksum(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _plain(value: Any) -> Any:
    """Turn numpy scalars, which users pass as parameters, into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be saved")
