"""Corpora on disk: the same blocks and bits as in memory; damage is told."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from momentopic import Corpus, DiscreteICA
from momentopic.corpus import InputFileError
from momentopic.corpus import shards as shards_module
from momentopic.corpus.blocks import block_boundaries
from momentopic.engine import ThreadEngine

from .corpora import assert_same_blocks, assert_same_corpus, flip, run, written


@pytest.fixture
def packed(counts, tmp_path):
    return written(tmp_path / "packed", counts, shard_nonzeros=20_000)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_blocks_of_any_shards_are_those_in_memory(data):
    n_docs, n_words = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 12))
    largest = data.draw(st.sampled_from([1, 300, 70_000, 2**31 + 5]))
    seed = data.draw(st.integers(0, 2**16))
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, largest, size=(n_docs, n_words), endpoint=True) * (rng.random((n_docs, n_words)) < 0.4)
    dense[rng.integers(n_docs), rng.integers(n_words)] = largest
    memory = Corpus(sp.csr_matrix(dense))
    with tempfile.TemporaryDirectory() as folder:
        disk = written(
            Path(folder) / "c",
            sp.csr_matrix(dense),
            step=data.draw(st.integers(1, 41)),
            shard_nonzeros=data.draw(st.integers(1, 200)),
        )
        assert_same_corpus(memory, disk)
        documents, parts = data.draw(st.integers(1, 41)), data.draw(st.integers(1, 9))
        assert_same_blocks(memory.cut(documents), disk.cut(documents))
        assert_same_blocks(memory.divided(parts), disk.divided(parts))
        assert memory.summary() == disk.summary()
        assert (memory.nonzeros, memory.tokens) == (disk.nonzeros, disk.tokens)
        np.testing.assert_array_equal(memory.document_lengths(), disk.document_lengths())
        np.testing.assert_array_equal(memory.word_totals(), disk.word_totals())
        chosen = rng.integers(n_docs, size=3)
        assert (memory.rows(chosen) != disk.rows(chosen)).nnz == 0
        assert (memory.counts != disk.counts).nnz == 0
        assert_same_blocks(disk, pickle.loads(pickle.dumps(disk)))


@pytest.mark.parametrize(
    "parameters",
    [
        {"refine": None},
        {"refine": None, "moments": "lda", "c0": 1.0},
        {"refine": None, "algorithm": "spectral"},
        {"n_sweeps": 15},
        {"refine": "variational"},
    ],
    ids=str,
)
@pytest.mark.parametrize("shard_nonzeros", [7_000, 10**9])
def test_topics_have_the_same_bits(counts, tmp_path, parameters, shard_nonzeros):
    disk = written(tmp_path / "c", counts, shard_nonzeros=shard_nonzeros)
    memory = DiscreteICA(4, **parameters).fit(counts)
    for n_threads in (1, 3):
        found = DiscreteICA(4, engine=ThreadEngine(n_threads), **parameters).fit(disk)
        assert found.components_.tobytes() == memory.components_.tobytes()
        assert found.concentration_.tobytes() == memory.concentration_.tobytes()
    assert found.transform(disk).tobytes() == memory.transform(counts).tobytes()
    assert found.score(disk) == memory.score(counts)


@pytest.mark.usefixtures("short_rounds")
def test_a_refinement_that_begins_with_a_part_of_the_tokens_has_the_same_bits(counts, tmp_path):
    disk = written(tmp_path / "c", counts, shard_nonzeros=7_000)
    found, memory = (DiscreteICA(4, n_sweeps=7).fit(documents) for documents in (disk, counts))
    assert found.components_.tobytes() == memory.components_.tobytes()
    assert found.concentration_.tobytes() == memory.concentration_.tobytes()


def test_blocks_are_bounded_and_those_of_smaller_corpora_as_before():
    M = 100_000
    for n_docs, row in ((2_000_000, 60), (1_600_000, 100), (6_000_000, 100), (9_000_000, 3)):
        indptr = np.arange(n_docs + 1, dtype=np.int64) * row
        boundaries = block_boundaries(indptr, M)
        assert np.diff(indptr[boundaries]).max() <= 1.1 * 2**23
        assert np.diff(boundaries).max() <= 1.1 * 2**18 or n_docs * row <= 16 * 2**23
        if n_docs * row <= 16 * 2**23 and n_docs <= 16 * 2**18:
            assert len(boundaries) - 1 == 16


@pytest.mark.parametrize("where", [0, 9, -1, "middle", "words"])
def test_a_flipped_bit_of_a_shard_is_found_before_a_model_comes_of_it(packed, where):
    shard = sorted(packed.folder.glob("*.shard"))[2]
    size = shard.stat().st_size
    flip(shard, {"middle": size // 2, "words": size - 30_000}.get(where, where))
    with pytest.raises(InputFileError, match=rf"{shard.name} is damaged: its checksum is wrong.*pack it again"):
        DiscreteICA(4, refine=None).fit(Corpus.open(packed.folder))


def test_a_shard_that_was_sound_when_opened_is_checked_when_read(packed):
    flip(sorted(packed.folder.glob("*.shard"))[1], -5)
    with pytest.raises(InputFileError, match="damaged"):
        DiscreteICA(4, refine=None).fit(packed)
    with pytest.raises(InputFileError, match="damaged"):
        packed.check()


def test_truncated_missing_and_foreign_files_are_named(packed, tmp_path):
    folder = packed.folder
    first, second = sorted(folder.glob("*.shard"))[:2]
    content = first.read_bytes()
    first.write_bytes(content[:-1])
    with pytest.raises(InputFileError, match=rf"{first.name} is truncated: it has \d+ bytes and should have"):
        Corpus.open(folder)
    with pytest.raises(InputFileError, match="truncated while it was read|damaged"):
        packed.block(0)
    first.write_bytes(content)
    second.unlink()
    with pytest.raises(InputFileError, match=rf"{second.name} is missing"):
        Corpus.open(folder)
    with pytest.raises(FileNotFoundError, match="no folder"):
        Corpus.open(tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputFileError, match="no packed corpus"):
        Corpus.open(tmp_path / "other")


def test_every_damage_of_the_manifest_is_found(packed):
    path = packed.folder / "manifest.json"
    content = path.read_bytes()
    for position in range(0, len(content), 41):
        flip(path, position, bit=0)
        with pytest.raises(InputFileError):
            Corpus.open(packed.folder)
        path.write_bytes(content)
    for end in (0, 10, len(content) - 1):
        path.write_bytes(content[:end])
        with pytest.raises(InputFileError):
            Corpus.open(packed.folder)


def test_a_newer_format_is_refused(packed):
    manifest = shards_module.read_manifest(packed.folder)
    shards_module.write_sealed(packed.folder / "manifest.json", {**manifest, "format_version": 2})
    with pytest.raises(InputFileError, match="format 2.*upgrade"):
        Corpus.open(packed.folder)


def test_reading_a_corpus_does_not_hold_it(tmp_path):
    """A pass over 100 MB of shards, which would show in the peak of a process of its own."""
    n = 12_000_000
    words = np.tile(np.arange(40, dtype=np.int32), n // 40)
    X = sp.csr_matrix((np.ones(n, dtype=np.int32), words, np.arange(0, n + 1, 40)), shape=(n // 40, 40))
    written(tmp_path / "c", X, step=50_000, shard_nonzeros=1 << 20)
    code = (
        "import sys, resource; from momentopic import Corpus; c = Corpus.open(sys.argv[1]);"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; c.block(0);"
        "[c.block(i) for i in range(c.n_blocks)];"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    grown = int(run(tmp_path / "c", code=code).stdout)
    assert grown < 45_000  # kilobytes: a block or two of 750,000 nonzeros, not 12,000,000
