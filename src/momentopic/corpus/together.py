"""Several corpora of the same words, as one, without a copy of their counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from momentopic.corpus.blocks import Block, Corpus


class Together(Corpus):
    """The blocks of several corpora, one corpus after another; what asks for blocks alone can be done with it.

    Parameters
    ----------
    parts : sequence of Corpus
        Of the same words.
    """

    def __init__(self, parts: Sequence[Corpus]) -> None:
        words = {part.shape[1] for part in parts}
        if len(words) > 1:
            raise ValueError(f"corpora of different numbers of words do not add up: {sorted(words)}")
        named = [part.vocabulary for part in parts if part.vocabulary is not None]
        if any(vocabulary != named[0] for vocabulary in named):
            raise ValueError("corpora of different words do not add up: count the same vocabulary in all of them")
        self.parts = list(parts)
        self.shape = (sum(part.shape[0] for part in parts), words.pop())
        self.vocabulary = named[0] if named else None
        self.documents, self.settings, self.name = None, parts[0].settings, None

    @property
    def n_blocks(self) -> int:
        """The number of row blocks."""
        return sum(part.n_blocks for part in self.parts)

    @property
    def nonzeros(self) -> int:
        """The number of counts above zero."""
        return sum(part.nonzeros for part in self.parts)

    def block(self, i: int) -> Block:
        """Return block number `i`, sharing the memory of its corpus."""
        first = 0
        for part in self.parts:
            if i < part.n_blocks:
                block = part.block(i)
                return replace(block, first=block.first + first)
            i -= part.n_blocks
            first += part.shape[0]
        raise IndexError("there are not so many blocks")

    def __repr__(self) -> str:
        return f"Together({self.parts})"
