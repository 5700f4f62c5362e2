"""A model as a folder: numbers in safetensors, the rest in JSON, with a format version. No pickle.

    model.json            what it is, parameters, scalars, words, text settings, and the checksum of the other file
    arrays.safetensors    components_, concentration_, ...

How such folders are written and read is in `momentopic.folders`.
"""

from __future__ import annotations

from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from momentopic.folders import Format

if TYPE_CHECKING:
    from momentopic.model import DiscreteICA

# 2 added the text settings and what is known of the training data, 3 the moments of groups of documents and n_groups;
# 1 and 2 are read as before
FORMAT_VERSION = 3

_REQUIRED = ("components_", "concentration_", "eigenvalues_")
_OPTIONAL = ("intensity_mean_", "intensity_variance_", "intensity_third_cumulant_", "stability_")
_GROUPS = "groups."  # what the names of the arrays begin with that `confidence` needs
_SCALARS = ("rate_", "n_iter_", "converged_", "timings_", "n_features_in_")


class ModelFolderError(ValueError):
    """The folder does not hold a model that can be read; the message says why."""


FORMAT = Format(
    "momentopic-model",
    FORMAT_VERSION,
    "model.json",
    ModelFolderError,
    what="the model in",
    damaged="is damaged",
    written="was written",
    none="is not a momentopic model",
    cure="Copy the folder again from its source or fit again.",
)


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
    from sklearn.utils.validation import check_is_fitted

    from momentopic.confidence import evidence_arrays

    check_is_fitted(model)
    arrays = {name: np.ascontiguousarray(getattr(model, name)) for name in (*_REQUIRED, *_OPTIONAL)
              if hasattr(model, name)}  # fmt: skip
    arrays |= {f"{_GROUPS}{name}": np.ascontiguousarray(array) for name, array in evidence_arrays(model).items()}
    params = model.get_params()
    if not isinstance(params["engine"], str):
        params["engine"] = "auto"
    if params["random_state"] is not None and not isinstance(params["random_state"], Integral):
        params["random_state"] = None
    params["checkpoint"] = None  # of the fit that is done
    description = {
        "class": "DiscreteICA",
        "params": params,
        "fitted": {name: getattr(model, name) for name in _SCALARS},
        "feature_names": [str(name) for name in model.feature_names_in_]
        if hasattr(model, "feature_names_in_")
        else None,
        "text_settings": None if model.text_settings_ is None else model.text_settings_.to_json(),
        "training_data": model.training_data_,
    }
    FORMAT.write(Path(path), arrays, description, _plain)


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
    description, arrays = FORMAT.read(path)
    missing = [name for name in _REQUIRED if name not in arrays]
    unknown = [name for name in arrays if name not in (*_REQUIRED, *_OPTIONAL) and not name.startswith(_GROUPS)]
    if missing or unknown:
        raise FORMAT.broken(path, f"arrays missing {missing}, unknown {unknown}")
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
            and all(a.shape == (K,) for name, a in arrays.items() if name not in ("components_", "eigenvalues_"))
            # where topics were started from splits, the moments have fewer eigenvalues than there are topics
            and arrays["eigenvalues_"].ndim == 1
            and len(arrays["eigenvalues_"]) <= K
            and (names is None or len(names) == M)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FORMAT.broken(path, f"{FORMAT.description} is incomplete ({error})") from error
    if not consistent:
        raise FORMAT.broken(path, "its files do not belong together")
    for name, array in arrays.items():
        setattr(model, name, array)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    return model


def _plain(value: Any) -> Any:
    """Turn numpy scalars, which users pass as parameters, into what JSON knows."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a parameter of type {type(value).__name__} cannot be saved")
