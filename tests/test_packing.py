"""Packing: what is written is what would be read; appending, full disks and kills are told or survived."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from momentopic import Corpus, DiscreteICA
from momentopic.corpus import Columns, InputFileError, ShardWriter, TextSettings, pack, read_corpus, streams, uci
from momentopic.corpus import shards as shards_module
from momentopic.corpus import writer as writer_module

from .corpora import assert_same_blocks, assert_same_corpus, flip, run, written

FORK = multiprocessing.get_context("fork")


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
