"""The state of a collapsed refinement as arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from momentopic import kernels
from momentopic.checkpoint import Checkpoint, Stage
from momentopic.refine.blocks import BlockState

STAGE = "refinement"
_FIELDS = ("N", "random", "entry", "token", "first_token", "G", "z", "indptr", "indices", "counts")


def save_run(checkpoint: Checkpoint, run: Any, values: dict[str, Any], arrays: dict[str, Any], **key: Any) -> None:
    """Write the state of a run, with what its phase wants to know again.

    Parameters
    ----------
    checkpoint : Checkpoint
    run : a run of `refine_collapsed`
        States that another machine holds are not written: then the refinement begins again after a kill.
    values, arrays : dicts
        Of the phase.
    **key
        What the form of the refinement depends on.
    """
    if not all(isinstance(state, BlockState) for state in run.states):
        return
    kept = {f"phase.{name}": array for name, array in arrays.items() if array is not None}
    for i, state in enumerate(run.states):
        for name in _FIELDS:
            if (array := getattr(state, name)) is not None:
                kept[f"state.{i}.{name}"] = array
    kept["words"] = np.concatenate([part.counts for part in run.words])
    kept["totals"], kept["alpha"] = run.totals, run.alpha
    checkpoint.save(STAGE, kept, {**values, "eta": run.eta, "n_done": run.n_done}, **key)


def restore_run(run: Any, saved: Stage) -> dict[str, Any]:
    """Give a run the state that was saved; return the arrays of its phase."""
    states: dict[int, dict[str, Any]] = {}
    for name, array in saved.arrays.items():
        if name.startswith("state."):
            _, i, field = name.split(".")
            states.setdefault(int(i), {})[field] = array
    run.states = [BlockState(**states[i]) for i in range(len(states))]
    words = kernels.lanes.zeros_in_lines(*saved.arrays["words"].shape)
    words[:] = saved.arrays["words"]
    run.take(words)
    run.totals, run.alpha = saved.arrays["totals"], saved.arrays["alpha"]
    run.eta, run.n_done = saved.values["eta"], saved.values["n_done"]
    return {name.removeprefix("phase."): a for name, a in saved.arrays.items() if name.startswith("phase.")}
