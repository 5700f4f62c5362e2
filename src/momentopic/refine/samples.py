"""What sweeps of a collapsed refinement have found so far: the sum of their counts, and its trend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from momentopic.refine.blocks import WordCounts

_FIRST_SAMPLE, _SAMPLE_EVERY = 12, 4


@dataclass(eq=False)
class Samples:
    """The samples that are averaged over, and the sweeps that they are from.

    Sweeps come in rounds, each of which begins with tokens drawn anew, and a round in stretches, between which there
    is a leap (`refine.collapsed`).

    Attributes
    ----------
    sums : list of arrays
        Of the counts of each part of the words, over so many samples.
    trend : list of arrays
        The same of the stretch, each sample weighted by its distance in time from their middle.
    n_samples, n : int
        Samples, and sweeps.
    round_begun, stretch_begun : int
        The sweeps before this round, and before this stretch of it.
    n_steps, last_step : int
        Estimates of the prior, and the sweep before which the last one was made.
    n_leaps : int
    moved : float
        How far the mean topics had moved at the last check.
    at_rest : bool
        Whether that was little enough, and no estimate was made since.
    earlier : array, optional
        What they were then; in rounds of expected sweeps, the topics before the round.
    """

    sums: list[Any] = field(default_factory=list)
    trend: list[Any] = field(default_factory=list)
    n_samples: int = 0
    n: int = 0
    round_begun: int = 0
    stretch_begun: int = 0
    n_steps: int = 0
    last_step: int = 0
    n_leaps: int = 0
    moved: float = 1.0
    at_rest: bool = False
    earlier: Any = None

    ARRAYS: ClassVar = ("sums", "trend", "earlier")

    def numbers(self) -> dict[str, Any]:
        """Return what is not an array."""
        return {name: value for name, value in vars(self).items() if name not in self.ARRAYS}

    @property
    def age(self) -> int:
        """The sweeps of this stretch."""
        return self.n - self.stretch_begun

    def times(self, length: int) -> Any:
        """Return the sweeps of a stretch of so many after which a sample is taken: not while it forgets its start."""
        first = _FIRST_SAMPLE if self.n_leaps == 0 else _SAMPLE_EVERY
        return np.arange(first, length + 1, _SAMPLE_EVERY)

    def due(self) -> bool:
        """Return whether the counts are to be added after this sweep."""
        return self.age in self.times(self.age)

    def add(self, words: list[WordCounts], K: int, weight: float | None = None) -> None:
        """Add the counts as they are to the sums and, with a weight, to the trend."""
        samples = [part.counts[:, :K] for part in words]
        if self.n_samples == 0:
            self.sums[:] = [sample.copy() for sample in samples]  # on a device, if they are there
        else:
            for total, sample in zip(self.sums, samples, strict=True):
                np.add(total, sample, out=total)
        self.n_samples += 1
        if weight is None:
            return
        if not self.trend:
            self.trend[:] = [sample * np.float32(weight) for sample in samples]
        else:
            for total, sample in zip(self.trend, samples, strict=True):
                np.add(total, sample * np.float32(weight), out=total)

    def weight(self, length: int) -> float:
        """Return the weight in the trend of a sample taken now, in a stretch of so many sweeps."""
        return float(self.age - self.times(length).mean())

    def beyond(self, n: int, length: int) -> Any:
        """Return what so many more sweeps would add to the counts: by least squares. Then there is no trend."""
        times = self.times(length)
        change = np.concatenate(self.trend)
        self.trend = []
        change *= np.float32(n / np.square(times - times.mean()).sum())
        return change

    def mean(self) -> Any:
        """Return the mean counts."""
        mean = np.concatenate(self.sums)
        mean /= np.float32(self.n_samples)
        return mean
