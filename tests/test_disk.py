"""Corpora on disk: the same blocks and bits as in memory; damage, full disks and kills are told or survived."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from momentopic import Corpus, DiscreteICA, simulate
from momentopic.corpus import Columns, InputFileError, ShardWriter, TextSettings, pack, read_corpus, streams, uci
from momentopic.corpus import shards as shards_module
from momentopic.corpus import writer as writer_module
from momentopic.corpus.blocks import block_boundaries
from momentopic.engine import ThreadEngine

from .conftest import planted_topics

FORK = multiprocessing.get_context("fork")


@pytest.fixture(scope="module")
def counts():
    return simulate.gamma_poisson(planted_topics(150, 4), np.full(4, 0.3), 3000, mean_length=60)


@pytest.fixture
def packed(counts, tmp_path):
    return written(tmp_path / "packed", counts, shard_nonzeros=20_000)


def written(folder, X, *, step=700, shard_nonzeros=1 << 23, **finish):
    with ShardWriter(folder, shard_nonzeros=shard_nonzeros) as writer:
        for first in range(0, X.shape[0], step):
            writer.add(X[first : first + step])
        writer.finish(X.shape[1], **finish)
    return Corpus.open(folder)


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


def flip(path, position, bit=3):
    content = bytearray(path.read_bytes())
    content[position] ^= 1 << bit
    path.write_bytes(content)


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


def rows(n=60):
    words = ["apple", "banana", "cherry", "damson", "elder", "fig", "grape"]
    rng = np.random.default_rng(1)
    return [
        {
            "text": " ".join(rng.choice(words, size=rng.integers(0, 9))),
            "kind": ["a", "b", None][i % 3],
            "day": ["1993-04-21", None, 2001][i % 3],
            "key": f"d{i}",
        }
        for i in range(n)
    ]


def write_input(form, folder, counts):
    X = counts[:200]
    words = [f"w{m}" for m in range(X.shape[1])]
    path = folder / {"docword": "docword.x.txt", "unsorted": "docword.x.txt"}.get(form, f"x.{form}")
    coo = X.tocoo()
    entries = np.column_stack([coo.row + 1, coo.col + 1, coo.data])
    if form == "npz":
        sp.save_npz(path, X)
    elif form == "coo.npz":
        sp.save_npz(path, coo)
    elif form == "mtx":
        scipy.io.mmwrite(path, X.tocsc())
    elif form in ("docword", "unsorted"):
        if form == "unsorted":
            entries = np.random.default_rng(0).permutation(entries)
        lines = [*map(str, (*X.shape, X.nnz)), *(" ".join(map(str, entry)) for entry in entries)]
        path.write_text("\n".join(lines) + "\n")
    elif form == "dat":
        lines = [f"{row.nnz} " + " ".join(f"{m}:{n}" for m, n in zip(row.indices, row.data, strict=True)) for row in X]
        path.write_text("\n".join(lines) + "\n")
    elif form == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows())))
    elif form == "csv":
        pd = pytest.importorskip("pandas")
        pd.DataFrame(rows()).to_csv(path, index=False)
    elif form == "parquet":
        pd = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        pd.DataFrame(rows()).astype({"day": str}).to_parquet(path)
    else:
        path = folder / "texts"
        path.mkdir()
        for row in rows():
            (path / row["kind"] if row["kind"] else path).mkdir(exist_ok=True)
            (path / (row["kind"] or "") / f"{row['key']}.txt").write_text(row["text"])
        return path
    if form in ("npz", "mtx", "docword"):
        (folder / "vocab.txt").write_text("\n".join(words))
    return path


@pytest.mark.filterwarnings("ignore:.*have none of the", "ignore:the dates of")
@pytest.mark.parametrize(
    "form", ["npz", "coo.npz", "mtx", "docword", "unsorted", "dat", "jsonl", "csv", "parquet", "folder"]
)
def test_packing_gives_what_reading_gives(form, tmp_path, counts, monkeypatch):
    path = write_input(form, tmp_path, counts)
    texts = form in ("jsonl", "csv", "parquet", "folder")
    options = {"settings": TextSettings(min_df=2, max_df=0.9, ngram_range=(1, 2))} if texts else {}
    if texts and form != "folder":
        options["columns"] = Columns("text", "kind", "day", "key")
    monkeypatch.setattr(streams, "BATCH", 100)
    monkeypatch.setattr("momentopic.corpus.packing.BATCH", 13)
    monkeypatch.setattr(streams, "_PART", 900)
    monkeypatch.setattr("momentopic.corpus.uci._CHUNK", 1000)
    memory = read_corpus(path, **options)
    disk = pack(path, tmp_path / "packed", shard_nonzeros=500 if not texts else 40, **options)
    assert len(list(disk.folder.glob("*.shard"))) > 3
    assert_same_corpus(memory, disk)
    assert_same_corpus(memory, read_corpus(disk.folder))
    assert memory.summary() == disk.summary()
    if texts:
        assert disk.documents.texts([3, 1]) == memory.documents.texts([3, 1])


def test_documents_are_appended_and_the_others_stay(counts, tmp_path):
    for name, part in (("one", counts[:100]), ("two", counts[100:250])):
        sp.save_npz(tmp_path / f"{name}.npz", part)
    pack(tmp_path / "one.npz", tmp_path / "packed")
    with pytest.raises(FileExistsError, match="append"):
        pack(tmp_path / "two.npz", tmp_path / "packed")
    disk = pack(tmp_path / "two.npz", tmp_path / "packed", append=True)
    assert_same_blocks(Corpus(counts[:250]), disk)
    sp.save_npz(tmp_path / "three.npz", counts[:9, :-1])
    with pytest.raises(ValueError, match="149 words, but .* has 150"):
        pack(tmp_path / "three.npz", tmp_path / "packed", append=True)
    assert_same_blocks(disk, Corpus.open(tmp_path / "packed"))
    assert len(list(disk.folder.iterdir())) == 3


@pytest.mark.filterwarnings("ignore:.*have none of the", "ignore:the dates of")
def test_appended_texts_are_counted_with_the_words_that_are_there(tmp_path):
    for name, part in (("one", rows()[:40]), ("two", rows()[40:])):
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, part)))
    options = {"columns": Columns("text", "kind", "day", "key")}
    first = pack(tmp_path / "one.jsonl", tmp_path / "packed", settings=TextSettings(min_df=20, max_df=1.0), **options)
    disk = pack(tmp_path / "two.jsonl", tmp_path / "packed", append=True, **options)
    assert 0 < disk.shape[1] < 7
    assert disk.vocabulary == first.vocabulary
    texts = [row["text"] for row in rows()]
    expected = Corpus.from_texts(texts, vocabulary=first.vocabulary, min_df=1, max_df=1.0)
    assert_same_blocks(expected, disk)
    assert disk.documents.ids == [row["key"] for row in rows()]
    assert disk.documents.texts([5, 50]) == [texts[5], texts[50]]


@pytest.mark.parametrize("append", [True, False])
def test_a_writer_that_has_to_wait_for_the_folder_sees_what_was_written(counts, tmp_path, monkeypatch, append):
    """Another one finishes after this one has looked and before it has the lock."""
    real, folder = writer_module._locked, tmp_path / "packed"
    if append:
        written(folder, counts[:100])

    def late(path):
        monkeypatch.undo()
        with ShardWriter(folder, append=append) as other:
            other.add(counts[100:200])
            other.finish(counts.shape[1])
        return real(path)

    monkeypatch.setattr(writer_module, "_locked", late)
    if append:
        with ShardWriter(folder, append=True) as writer:
            writer.add(counts[200:300])
            writer.finish(counts.shape[1])
        assert_same_blocks(Corpus(counts[:300]), Corpus.open(folder))
    else:
        with pytest.raises(FileExistsError, match="holds a packed corpus already"):
            ShardWriter(folder)
        assert_same_blocks(Corpus(counts[100:200]), Corpus.open(folder))


def test_what_is_not_ours_is_left_alone(counts, tmp_path):
    sp.save_npz(tmp_path / "x.npz", counts[:50])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.json").write_text("{}")
    with pytest.raises(FileExistsError, match="other files"):
        pack(tmp_path / "x.npz", tmp_path / "mine")
    with pytest.raises(FileNotFoundError, match="no folder"):
        pack(tmp_path / "x.npz", tmp_path / "no" / "where")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.json"]


def test_strange_characters_and_a_manifest_of_somebody_else(tmp_path):
    texts = ["un\ud800real thing", "thing", "unreal thing"] * 3
    (tmp_path / "x.jsonl").write_text("\n".join(json.dumps({"text": text, "key": f"\udfff{text}"}) for text in texts))
    options = {"settings": TextSettings(min_df=1, max_df=1.0), "columns": Columns("text", id="key")}
    assert_same_corpus(
        read_corpus(tmp_path / "x.jsonl", **options), pack(tmp_path / "x.jsonl", tmp_path / "c", **options)
    )
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "manifest.json").write_text("{}")
    for i in range(5):
        (tmp_path / "texts" / f"{i}.txt").write_text("apples and pears")
    assert read_corpus(tmp_path / "texts", settings=TextSettings(min_df=1, max_df=1.0)).shape == (5, 2)


def test_a_writer_that_fails_leaves_nothing(counts, tmp_path):
    def fail():
        with ShardWriter(tmp_path / "c", shard_nonzeros=1000) as writer:
            writer.add(counts[:500])
            writer.finish(counts.shape[1], vocabulary=["one"])

    with pytest.raises(ValueError, match="vocabulary has 1 words"):
        fail()
    assert not (tmp_path / "c").exists()
    with ShardWriter(tmp_path / "c") as writer:
        with pytest.raises(InputFileError, match="another process is packing"):
            ShardWriter(tmp_path / "c")
        with pytest.raises(ValueError, match="nothing to pack"):
            writer.finish(5)


def pack_and_die(path, folder, call, at):
    """Pack until the so-manieth call of a function of the operating system, and be killed there."""
    n = 0
    real = getattr(os, call)

    def fatal(*args, **kwargs):
        nonlocal n
        n += 1
        if n == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(os, call, fatal)
    streams.BATCH = 300
    uci._CHUNK = 2000
    pack(path, folder, shard_nonzeros=1500, settings=TextSettings(min_df=2))


def killed(target, *args):
    process = FORK.Process(target=target, args=args)
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("form", "call"),
    [(form, call) for form in ("npz", "unsorted", "jsonl") for call in ("fsync", "replace", "unlink")]
    + [("docword", "fsync"), ("dat", "fsync")],
)
def test_a_pack_that_is_killed_anywhere_is_finished_by_the_next(call, form, tmp_path, counts):
    path = write_input(form, tmp_path, counts)
    whole = pack(path, tmp_path / "whole", shard_nonzeros=1500, settings=TextSettings(min_df=2))
    step, n_kills = {"unsorted": 4, "jsonl": 1}.get(form, 3), 0
    for at in range(1, 200, step):
        folder = tmp_path / f"at{at}"
        if not killed(pack_and_die, path, folder, call, at):
            break
        n_kills += 1
        if not (folder / "manifest.json").exists():
            with pytest.raises(InputFileError, match="not packed to the end|no packed corpus"):
                Corpus.open(folder)
            pack(path, folder, shard_nonzeros=1500, settings=TextSettings(min_df=2))
        disk = Corpus.open(folder)
        assert_same_corpus(whole, disk)
        disk.check()
        assert not list(folder.glob(".*"))
    assert n_kills >= 1


def append_and_die(path, folder, at):
    n = 0
    real = os.fsync

    def fatal(file):
        nonlocal n
        n += 1
        if n == at:
            os.kill(os.getpid(), signal.SIGKILL)
        real(file)

    os.fsync = fatal
    unlink = os.unlink

    def last(name, *args, **kwargs):
        if at == 99 and str(name).endswith("packing.json"):
            os.kill(os.getpid(), signal.SIGKILL)
        unlink(name, *args, **kwargs)

    os.unlink = last
    pack(path, folder, append=True, shard_nonzeros=1500)


@pytest.mark.parametrize("at", [1, 2, 3, 5, 99])
def test_an_append_that_is_killed_loses_and_doubles_nothing(at, tmp_path, counts):
    for name, part in (("one", counts[:100]), ("two", counts[100:250])):
        sp.save_npz(tmp_path / f"{name}.npz", part)
    pack(tmp_path / "one.npz", tmp_path / "packed")
    assert killed(append_and_die, tmp_path / "two.npz", tmp_path / "packed", at)
    there = Corpus.open(tmp_path / "packed")  # the old corpus, until the new one is whole
    assert_same_blocks(Corpus(counts[: 250 if at == 99 else 100]), there)
    disk = pack(tmp_path / "two.npz", tmp_path / "packed", append=True, shard_nonzeros=1500)
    assert_same_blocks(Corpus(counts[:250]), disk)
    known = {shard["file"] for shard in shards_module.read_manifest(disk.folder)["shards"]}
    assert {path.name for path in disk.folder.iterdir()} == known | {"manifest.json"}


def test_an_unfinished_pack_of_something_else_is_not_mixed_with_this_one(tmp_path, counts):
    for name, part in (("one", counts[:100]), ("two", counts[100:250])):
        sp.save_npz(tmp_path / f"{name}.npz", part)
    assert killed(pack_and_die, tmp_path / "one.npz", tmp_path / "packed", "fsync", 4)
    with pytest.raises(InputFileError, match=r"unfinished pack of .*one\.npz.*delete .*packing\.json"):
        pack(tmp_path / "two.npz", tmp_path / "packed")
    sp.save_npz(tmp_path / "one.npz", counts[:90])
    with pytest.raises(InputFileError, match="changed since"):
        pack(tmp_path / "one.npz", tmp_path / "packed", shard_nonzeros=1500, settings=TextSettings(min_df=2))


def run(*arguments, code="from momentopic.cli.app import main; main()", **options):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )


def test_a_full_disk_is_named_and_nothing_half_written_is_left(tmp_path, counts):
    sp.save_npz(tmp_path / "x.npz", counts)
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, resource.RLIM_INFINITY));"
        "from momentopic.cli.app import main; main()"
    )
    done = run("pack", tmp_path / "x.npz", tmp_path / "packed", code=code)
    assert done.returncode == 2
    assert done.stderr.startswith("momentopic: the disk is full")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "packed").exists()
    pack(tmp_path / "x.npz", tmp_path / "packed")
    assert_same_blocks(Corpus(counts), Corpus.open(tmp_path / "packed"))


def test_after_a_full_disk_the_same_call_goes_on(tmp_path, counts, monkeypatch):
    sp.save_npz(tmp_path / "x.npz", counts)
    real, written_shards = shards_module.os.fsync, []

    def full(file):
        if len(written_shards) == 9:
            raise OSError(28, "No space left on device")
        written_shards.append(file)
        real(file)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="the disk is full.*run the same again"):
        pack(tmp_path / "x.npz", tmp_path / "packed", shard_nonzeros=9000)
    assert not list((tmp_path / "packed").glob(".*"))
    kept = {path.name for path in (tmp_path / "packed").glob("*.shard")}
    assert len(kept) == 4  # a shard and a journal each, after the first journal
    monkeypatch.undo()
    disk = pack(tmp_path / "x.npz", tmp_path / "packed", shard_nonzeros=9000)
    assert kept < {path.name for path in disk.folder.glob("*.shard")}
    assert_same_blocks(Corpus(counts), disk)


@pytest.fixture
def command(monkeypatch, capsys):
    """The command, in this process: exit code, standard output, standard error."""
    from momentopic.cli.app import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["momentopic", *map(str, arguments)])
        with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    return call


def test_the_command_packs_checks_and_fits(tmp_path, counts, command):
    sp.save_npz(tmp_path / "x.npz", counts)
    folder = tmp_path / "packed"
    assert "3000 documents, 150 words" in command("pack", tmp_path / "x.npz", folder)[1]
    assert "is sound" in command("check", folder)[1]
    common = ("-k", 4, "--refine", "none", "-o")
    assert command("fit", folder, *common, tmp_path / "disk", "--memory-limit", "2GB")[0] == 0
    assert command("fit", tmp_path / "x.npz", *common, tmp_path / "memory")[0] == 0
    models = [(tmp_path / name / "arrays.safetensors").read_bytes() for name in ("disk", "memory")]
    assert models[0] == models[1]
    code, _, told = command("fit", folder, *common, tmp_path / "none", "--memory-limit", "100MB")
    assert code == 2
    assert "more than the limit of 100 MB" in told
    flip(next(folder.glob("*.shard")), -1)
    code, _, told = command("check", folder)
    assert (code, told.count("\n")) == (2, 1)
    assert "is damaged" in told


def test_a_fit_with_a_checkpoint_has_a_report(tmp_path, counts, command):
    sp.save_npz(tmp_path / "x.npz", counts[:500])
    kept = ("--checkpoint", tmp_path / "state", "--report", tmp_path / "r.html", "-o", tmp_path / "model")
    code, _, told = command("fit", tmp_path / "x.npz", "-k", 3, "--refine", "none", *kept)
    assert (code, told) == (0, "")
    assert "<html" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert not (tmp_path / "state").exists()


def test_documents_of_other_words_are_refused(tmp_path, counts, command):
    words = [f"w{m}" for m in range(150)]
    sp.save_npz(tmp_path / "x.npz", counts[:500])
    DiscreteICA(3, refine=None).fit(Corpus(counts, words)).save(tmp_path / "model")
    pack(tmp_path / "x.npz", tmp_path / "packed", vocabulary=words[::-1])
    code, _, told = command("transform", tmp_path / "model", tmp_path / "packed", "-o", tmp_path / "theta.npy")
    assert code == 2
    assert "other words than those of the model" in told
    assert not (tmp_path / "theta.npy").exists()


def test_the_simulator_writes_shards(tmp_path, command):
    arguments = ("--docs", 500, "-k", 3, "--words", 80, "--seed", 4)
    for model in ("gp", "lda-fix2"):
        assert command("simulate", tmp_path / model, *arguments, "--model", model)[0] == 0
        assert command("simulate", tmp_path / f"{model}.npz", *arguments, "--model", model)[0] == 0
        memory, disk = Corpus(sp.load_npz(tmp_path / f"{model}.npz")), Corpus.open(tmp_path / model)
        assert_same_blocks(memory, disk)


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
