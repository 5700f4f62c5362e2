"""What can go wrong that is worth catching by name."""

from __future__ import annotations


class RankError(ValueError):
    """The moments support fewer topics than were asked for.

    Attributes
    ----------
    asked : int
        The number of topics asked for.
    n_positive : int
        The number of positive eigenvalues of S: the most topics that these moments support.
    """

    def __init__(self, asked: int, n_positive: int) -> None:
        self.asked = asked
        self.n_positive = n_positive
        if n_positive:
            cure = f"Ask for at most {n_positive} topics, or give more or longer documents."
        else:
            cure = "No words vary together more than chance: give more, longer or less uniform documents."
        super().__init__(
            f"{asked} topics were asked for, but the second-order moment S of this corpus has only {n_positive} "
            f"positive eigenvalue{'' if n_positive == 1 else 's'}: each topic needs one. {cure}"
        )

    def __reduce__(self) -> tuple[type[RankError], tuple[int, int]]:
        return RankError, (self.asked, self.n_positive)


class ConvergenceWarning(UserWarning):
    """An iteration stopped at its limit before it reached its tolerance; the result says how far it came."""


class MemoryLimitError(ValueError):
    """A fit cannot keep under the memory limit that it was given; the message says what it needs."""


class MissingPackageError(ImportError):
    """A package that is needed for this, and for little else, is not installed; the message says how to install it."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{package} is needed {purpose}: pip install 'momentopic[{extra}]'")
