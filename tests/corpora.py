"""Corpora on disk and in chunks for tests, what they must be like, and another process to look at them."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import scipy.sparse as sp

from momentopic import Corpus
from momentopic.corpus import ShardWriter


def written(folder, X, *, step=700, shard_nonzeros=1 << 23, **finish):
    with ShardWriter(folder, shard_nonzeros=shard_nonzeros) as writer:
        for first in range(0, X.shape[0], step):
            writer.add(X[first : first + step])
        writer.finish(X.shape[1], **finish)
    return Corpus.open(folder)


def chunked(X, cuts):
    import dask
    import dask.array as da

    chunks = [
        da.from_delayed(dask.delayed(X[a:b]), (b - a, X.shape[1]), dtype=X.dtype, meta=sp.csr_matrix((0, X.shape[1])))
        for a, b in zip(cuts, cuts[1:], strict=False)
    ]
    return da.concatenate(chunks)


def assert_same_blocks(one, other):
    np.testing.assert_array_equal(one.boundaries, other.boundaries)
    for i in range(one.n_blocks):
        a, b = one.block(i), other.block(i)
        assert (a.first, a.n_words) == (b.first, b.n_words)
        for name in ("indptr", "indices", "counts"):
            left, right = getattr(a, name), getattr(b, name)
            assert left.dtype == right.dtype
            np.testing.assert_array_equal(left, right)


def assert_same_corpus(one, other):
    assert one.shape == other.shape
    assert_same_blocks(one, other)
    assert one.vocabulary == other.vocabulary
    assert one.settings == other.settings
    assert one.name == other.name
    assert (one.documents is None) == (other.documents is None)
    if one.documents is not None:
        assert one.documents.labels == other.documents.labels
        assert one.documents.ids == other.documents.ids
        assert (one.documents.dates is None) == (other.documents.dates is None)
        if one.documents.dates is not None:
            np.testing.assert_array_equal(one.documents.dates, other.documents.dates)


def run(*arguments, code="from momentopic.cli.app import main; main()", **options):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def flip(path, position, bit=3):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)
