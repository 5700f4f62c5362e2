"""The command as a user runs it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus, DiscreteICA, heldout, load, metrics, simulate
from momentopic.demo import module_tokens

from .conftest import planted_topics


def run(*arguments, code=0):
    done = subprocess.run(
        [sys.executable, "-m", "momentopic", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    done = run("simulate", folder / "x.npz", "--docs", 4000, "-k", 4, "--words", 150, "--mean-length", 60, "--seed", 3)
    assert "4000 documents" in done.stdout
    return folder


def test_simulate_fit_and_topics(simulated):
    with np.load(simulated / "x.truth.npz") as truth:
        D, c = truth["D"], truth["c"]
    assert D.shape == (150, 4)
    assert c.sum() == pytest.approx(1)
    (simulated / "vocab.txt").write_text("\n".join(f"gene{m}" for m in range(150)))
    done = run("fit", simulated / "x.npz", "-k", 4, "-o", simulated / "model", "--threads", 1)
    assert "4000 documents, 150 words" in done.stdout
    assert "whitening" in done.stdout
    model = load(simulated / "model")
    assert metrics.recovery_error(model.components_, D) < 0.08
    assert model.engine == "auto"
    done = run("topics", simulated / "model", "-n", 3)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["topic", "share", "words"]
    assert len(lines) == 5
    assert lines[1].split()[2:] == [word for word, _ in model.topics(3)[0]]
    assert lines[1].split()[2].startswith("gene")


@pytest.mark.parametrize(
    "options",
    [
        ["--algorithm", "tpm"],
        ["--algorithm", "spectral", "--seed", "4"],
        ["--projections", "vocabulary"],
        ["--moments", "lda", "--c0", "1.0"],
    ],
)
def test_fit_by_every_method(simulated, tmp_path, options):
    run("fit", simulated / "x.npz", "-k", 4, "-o", tmp_path / "model", *options)
    assert load(tmp_path / "model").get_params()[options[0][2:]] == options[1]


@pytest.mark.parametrize(("model", "lengths"), [("lda-fix", {12}), ("lda-fix2", {12, 30})])
def test_simulate_the_other_models_from_given_parameters(tmp_path, model, lengths):
    D = planted_topics(20, 3)
    np.savez(tmp_path / "parameters.npz", D=D, c=np.array([1.0, 2.0, 3.0]))
    run("simulate", tmp_path / "x.npz", "--model", model, "--docs", 50, "--parameters", tmp_path / "parameters.npz",
        "--length", 12, "--length2", 30, "--c0", 2)  # fmt: skip
    X = sp.load_npz(tmp_path / "x.npz")
    assert set(np.asarray(X.sum(axis=1)).ravel()) == lengths
    with np.load(tmp_path / "x.truth.npz") as truth:
        np.testing.assert_allclose(truth["D"], D)
        np.testing.assert_allclose(truth["c"], [1 / 3, 2 / 3, 1])


def test_fit_texts(tmp_path):
    rng = np.random.default_rng(0)
    themes = [["cat", "dog", "fur"], ["star", "moon", "sky"]]
    (tmp_path / "texts").mkdir()
    for i in range(200):
        words = rng.choice(themes[i % 2], size=rng.integers(3, 40))
        (tmp_path / "texts" / f"{i:03}.txt").write_text(" ".join(words))
    run("fit", tmp_path / "texts", "-k", 2, "-o", tmp_path / "model", "--max-df", "1.0")
    topics = load(tmp_path / "model").topics(3)
    assert {frozenset(word for word, _ in topic) for topic in topics} == {frozenset(theme) for theme in themes}


def test_errors_are_one_line_and_leave_nothing_behind(simulated, tmp_path):
    (tmp_path / "occupied").mkdir()
    (tmp_path / "occupied" / "file").touch()
    np.savez(tmp_path / "no_d.npz", c=np.ones(2))
    x = simulated / "x.npz"
    for arguments, message in (
        (("fit", tmp_path / "absent.npz", "-k", 2, "-o", tmp_path / "m"), "there is no file or folder"),
        (("fit", x, "-k", 2, "-o", tmp_path / "occupied"), "will not be replaced"),
        (("fit", x, "-k", 2, "-o", tmp_path / "no" / "m"), "there is no folder"),
        (("fit", x, "-k", 200, "-o", tmp_path / "m"), "200 topics cannot be told apart with 150 words"),
        (("fit", x, "-k", 120, "-o", tmp_path / "m", "--refine", "none"), "positive eigenvalues"),
        (("fit", x, "-k", 2, "-o", tmp_path / "m", "--moments", "lda"), "needs c0"),
        (("topics", tmp_path / "absent"), "there is no model folder"),
        (("topics", tmp_path / "occupied"), "is not a momentopic model"),
        (("simulate", tmp_path / "x.csv"), "written as .npz"),
        (("simulate", tmp_path / "x.npz", "--parameters", tmp_path / "no_d.npz"), "has no array D"),
        (("simulate", tmp_path / "no" / "x.npz"), "No such file"),
    ):
        done = run(*arguments, code=2)
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["no_d.npz", "occupied"]


def test_warnings_are_one_line(tmp_path):
    X = simulate.lda_mixed(planted_topics(40, 2), np.ones(2), 500, fraction=0.1, lengths=(40, 2))
    sp.save_npz(tmp_path / "x.npz", X)
    done = run("fit", tmp_path / "x.npz", "-k", 2, "-o", tmp_path / "m", "--moments", "lda", "--c0", 2)
    assert done.stderr.startswith("momentopic: warning: 50 of 500 documents have fewer than 3 tokens")
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.skipif(os.name == "nt", reason="signals differ on Windows")
def test_interrupting_a_fit_leaves_no_half_written_model(tmp_path):
    X = simulate.gamma_poisson(planted_topics(3000, 30), np.full(30, 0.1), 20_000, mean_length=100)
    sp.save_npz(tmp_path / "x.npz", X, compressed=False)
    process = subprocess.Popen(
        [sys.executable, "-m", "momentopic", "fit", str(tmp_path / "x.npz"), "-k", "400", "-o", str(tmp_path / "m")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "documents" in process.stdout.readline()  # the fit has begun
    try:
        # again and again, as a user would: where kernels are being compiled, a callback of LLVM may swallow the first
        for _ in range(60):
            time.sleep(0.3)
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2)
                break
        _, stderr = process.communicate(timeout=10)
    finally:
        process.kill()
    assert process.returncode == 130
    # what a callback of LLVM swallows, Python reports by itself
    stderr = re.sub(r"Exception ignored.*?KeyboardInterrupt[^\n]*\n", "", stderr, flags=re.DOTALL)
    assert "Traceback" not in stderr
    assert stderr.endswith("momentopic: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_demo_finds_topics_in_the_docstrings_of_this_machine(tmp_path):
    done = run("demo", "-k", 10, "--report", tmp_path / "demo.html")
    lines = done.stdout.splitlines()
    assert "docstrings of" in done.stdout
    assert sum("%" in line for line in lines) == 10
    assert "scipy." in done.stdout
    assert "whitening" in lines[-2]
    assert lines[-2].endswith("s in all")
    assert lines[-1] == f"Look at them: {tmp_path / 'demo.html'}"
    assert "scipy." in (tmp_path / "demo.html").read_text()


def test_module_tokens_are_the_planted_ones():
    D = planted_topics(50, 3)
    counts = simulate.dica(D, lambda rng, n: np.tile([30.0, 0, 5], (n, 1)), 40, random_state=0)
    other = simulate.dica(D, lambda rng, n: np.tile([0, 20.0, 0], (n, 1)), 40, random_state=1)
    names, tokens = module_tokens(
        D.T, sp.vstack([counts, other, other[:5]]).tocsr(), ["a"] * 40 + ["b"] * 40 + ["c"] * 5
    )
    assert names == ["a", "b"]
    np.testing.assert_allclose(tokens, [[1200, 0, 200], [0, 800, 0]], atol=100)


def test_words_are_not_markup(simulated, tmp_path):
    words = ["[unk]", "[bold]", "a[b]c", "[/foo]", ":smile:"] * 30
    (tmp_path / "words.txt").write_text("\n".join(words))
    run("fit", simulated / "x.npz", "-k", 2, "-o", tmp_path / "m", "--vocab", tmp_path / "words.txt")
    shown = run("topics", tmp_path / "m", "-n", 150).stdout
    for word in set(words):
        assert shown.count(word) == 60


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"\x93NUMPY"])
def test_damaged_parameters(tmp_path, content):
    (tmp_path / "p.npz").write_bytes(content)
    done = run("simulate", tmp_path / "x.npz", "--parameters", tmp_path / "p.npz", code=2)
    assert "truncated" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_transform_and_evaluate(simulated, tmp_path):
    run("fit", simulated / "x.npz", "-k", 4, "-o", tmp_path / "m", "--refine", "collapsed")
    model = load(tmp_path / "m")
    assert model.refine == "collapsed"
    X = sp.load_npz(simulated / "x.npz")
    for name in ("theta.npy", "theta.csv"):
        done = run("transform", tmp_path / "m", simulated / "x.npz", "-o", tmp_path / name)
        assert "4000 documents x 4 topics" in done.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "theta.npy"), model.transform(Corpus(X)))
    np.testing.assert_allclose(np.loadtxt(tmp_path / "theta.csv", delimiter=","), model.transform(Corpus(X)), atol=1e-5)
    sp.save_npz(tmp_path / "few.npz", X[:40])
    for estimator, function in (("chib", heldout.chib), ("completion", heldout.completion)):
        done = run("evaluate", tmp_path / "m", tmp_path / "few.npz", "--estimator", estimator, "--seed", 5)
        expected = function(X[:40], model.components_, model.concentration_, random_state=5)
        assert done.stdout.startswith(f"{expected.bits_per_token:.4f} bits per token, standard error")
        assert "40 documents" in done.stdout
    done = run("evaluate", tmp_path / "m", tmp_path / "few.npz", "--estimator", "completion", "--coherence", "npmi")
    assert f"{metrics.coherence(model, X[:40], 'npmi').mean:.4f} coherence (npmi)" in done.stdout
    sp.save_npz(tmp_path / "narrow.npz", X[:, :99])
    for arguments, message in (
        (("transform", tmp_path / "m", tmp_path / "narrow.npz", "-o", tmp_path / "t.npy"), "has 99 words"),
        (("evaluate", tmp_path / "m", tmp_path / "narrow.npz"), "has 99 words, but the model was fitted on 150"),
        (("transform", tmp_path / "m", simulated / "x.npz", "-o", tmp_path / "t.txt"), "written as .npy or .csv"),
    ):
        assert message in run(*arguments, code=2).stderr
    assert not list(tmp_path.glob("t.*"))


def test_texts_are_counted_with_the_words_of_the_model(tmp_path):
    rng = np.random.default_rng(0)
    themes = [["cat", "dog", "fur"], ["star", "moon", "sky"]]
    lines = [json.dumps({"text": " ".join(rng.choice(themes[i % 2], size=rng.integers(3, 40)))}) for i in range(200)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    (tmp_path / "new.jsonl").write_text('{"text": "cat Dog zebra"}\n{"text": "moon"}\n{"text": "zebra"}\n')
    run("fit", tmp_path / "train.jsonl", "-k", 2, "-o", tmp_path / "m", "--max-df", "1.0")
    run("transform", tmp_path / "m", tmp_path / "new.jsonl", "-o", tmp_path / "t.npy")
    theta, model = np.load(tmp_path / "t.npy"), load(tmp_path / "m")
    cats = [{word for word, _ in topic} for topic in model.topics(3)].index({"cat", "dog", "fur"})
    assert theta[0].argmax() == cats != theta[1].argmax()
    np.testing.assert_allclose(theta[2], model.concentration_ / model.concentration_.sum())


def test_usage_errors_are_one_line_and_codes_tell_them_apart(tmp_path):
    for arguments, message in (
        (("fit", "x"), "Missing option '-k' / '--topics'. See: momentopic fit --help"),
        (("fit", "x", "-k", 0, "-o", "m"), "Invalid value for '-k'"),
        (("nonsense",), "No such command 'nonsense'"),
        (("topics", "m", "--nonsense"), "No such option: --nonsense"),
        (
            ("fit", tmp_path, "-k", 2, "-o", tmp_path / "m", "--stop-words", "klingon"),
            "no list of stop words for 'klin",
        ),
        (("fit", tmp_path, "-k", 2, "-o", tmp_path / "m"), "has no .txt files"),
    ):
        done = run(*arguments, code=2)
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert not done.stdout
    assert run("--version").stdout.startswith("momentopic 0.")
    assert run(code=2).stdout.count("Usage") == 1
    for command in ("fit", "topics", "report", "spectrum", "transform", "evaluate", "simulate", "demo"):
        shown = run(command, "--help").stdout
        assert f"$ momentopic {command}" in shown


def test_json_for_scripts(simulated, tmp_path):
    x = simulated / "x.npz"
    fitted = json.loads(run("fit", x, "-k", 3, "-o", tmp_path / "m", "--json").stdout)
    assert fitted["documents"] == 4000
    assert fitted["n_topics"] == 3
    assert fitted["seconds"]["refinement"] > 0
    model = load(tmp_path / "m")
    topics = json.loads(run("topics", tmp_path / "m", "-n", 2, "--json").stdout)["topics"]
    assert [list(topic["words"].items()) for topic in topics] == model.topics(2)
    assert [topic["topic"] for topic in topics] == [0, 1, 2]
    sp.save_npz(tmp_path / "few.npz", sp.load_npz(x)[:40])
    scored = json.loads(run("evaluate", tmp_path / "m", tmp_path / "few.npz", "--json").stdout)
    expected = heldout.chib(sp.load_npz(x)[:40], model.components_, model.concentration_, random_state=0)
    assert scored["bits_per_token"] == expected.bits_per_token
    done = json.loads(run("transform", tmp_path / "m", x, "-o", tmp_path / "t.npy", "--json").stdout)
    assert done == {"output": str(tmp_path / "t.npy"), "documents": 4000, "n_topics": 3}


def test_raw_texts_with_labels_from_fit_to_transform(tmp_path):
    rng = np.random.default_rng(0)
    themes = [["cat", "dog", "fur"], ["star", "moon", "sky"]]
    rows = [f"{i % 2};{' '.join(rng.choice(themes[i % 2], size=rng.integers(3, 40)))}" for i in range(200)]
    (tmp_path / "train.csv").write_text("\n".join(["side;body", *rows, "1;zzz"]))
    done = run("fit", tmp_path / "train.csv", "--text", "body", "--label", "side", "-k", 2, "-o", tmp_path / "m",
               "--max-df", "1.0", "--ngrams", 2)  # fmt: skip
    assert done.stderr.startswith("momentopic: warning: 1 of the 201 documents")
    assert len(done.stderr.strip().splitlines()) == 1
    model = load(tmp_path / "m")
    assert model.text_settings_.ngram_range == (1, 2)
    (tmp_path / "new.csv").write_text("body\ncat dog\n")
    run("transform", tmp_path / "m", tmp_path / "new.csv", "-o", tmp_path / "t.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), model.transform(["cat dog"]))
    (tmp_path / "other.jsonl").write_text('{"content": "cat dog"}\n')
    assert "no column 'body'" in run("transform", tmp_path / "m", tmp_path / "other.jsonl", "-o", tmp_path / "u.npy",
                                     code=2).stderr  # fmt: skip
    run("transform", tmp_path / "m", tmp_path / "other.jsonl", "--text", "content", "-o", tmp_path / "u.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "u.npy"), np.load(tmp_path / "t.npy"))


def test_report_and_spectrum(tmp_path):
    rng = np.random.default_rng(0)
    themes = [["cat", "dog", "fur"], ["star", "moon", "sky"]]
    rows = [
        {
            "body": " ".join(rng.choice(themes[i % 2], size=rng.integers(3, 40))),
            "side": "ab"[i % 2],
            "year": 1990 + i % 4,
        }
        for i in range(200)
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    x, m = tmp_path / "x.jsonl", tmp_path / "m"
    done = run("fit", x, "--text", "body", "--label", "side", "-k", 2, "-o", m, "--max-df", "1.0", "--report",
               tmp_path / "fit.html")  # fmt: skip
    assert done.stdout.splitlines()[-1] == f"report in {tmp_path / 'fit.html'}"
    run("report", m, x)
    assert '"labels":{"names":["a","b"]' in (tmp_path / "m.html").read_text()
    assert (tmp_path / "m.html").read_text() == (tmp_path / "fit.html").read_text()
    run("report", m, x, "--date", "year", "--title", "A <title>", "-o", tmp_path / "dated.html")
    page = (tmp_path / "dated.html").read_text()
    assert '"names":["1990","1991","1992","1993"]' in page
    assert "A &lt;title&gt;" in page
    assert json.loads(run("report", m, "--json", "-o", tmp_path / "alone.html").stdout)["bytes"] > 10_000
    found = json.loads(run("spectrum", x, "--text", "body", "--max-df", "1.0", "--json").stdout)
    assert found["supported"] == 2
    shown = run("spectrum", x, "--text", "body", "--max-df", "1.0", "--plot", tmp_path / "s.png").stdout
    assert "The corpus supports" in shown
    assert (tmp_path / "s.png").stat().st_size > 5000
    for arguments, message in (
        (("report", m, x, "-o", tmp_path / "no" / "r.html"), "there is no folder"),
        (("report", m, tmp_path / "absent.jsonl", "-o", tmp_path / "r.html"), "there is no file or folder"),
        (("report", m, x, "--date", "month", "-o", tmp_path / "r.html"), "no column 'month' for the date"),
        (("fit", x, "-k", 2, "-o", tmp_path / "n", "--report", tmp_path), "it is a folder"),
        (("fit", x, "-k", 2, "-o", tmp_path / "n"), "no column 'text' for the text (it has: body, side, year)"),
        (("spectrum", x, "--text", "body", "--plot", tmp_path / "s.doc"), "written as .png, .svg or .pdf"),
    ):
        done = run(*arguments, code=2)
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("r*"))
    assert not (tmp_path / "n").exists()


def test_shell_completion_can_be_shown(monkeypatch):
    # a test run without a shell among its parents has none to be detected: the argument says which
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    done = run("--show-completion", "bash")
    assert "complete" in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("x.csv", "text\ncafé\n".encode("latin-1"), (), "is not UTF-8 text"),
        ("x.csv", b"body\ncats\n", (), "has no column 'text' for the text (it has: body)"),
        ("x.jsonl", b'{"text": "cats and dogs"}\n', (), "the 1 text of"),
        ("x.jsonl", b'{"text": "cats and dogs"}\n', ("--min-df", 1, "--max-df", 1.0), "at least 3 documents"),
        (
            "x.jsonl",
            b'{"text": "cats"}\n{"text": 3}\n',
            ("--min-df", 1),
            "line 2 has no text in the column 'text' but 3",
        ),
        ("x.jsonl", b'{"text": "cats"}\n{"text": "do', ("--min-df", 1), "line 2 is not JSON"),
        ("x.csv", b'text\n"cats and', ("--min-df", 1), "is not well-formed CSV"),
        ("x.jsonl", b'{"text": "the"}\n' * 9, (), "cannot be counted"),
    ],
)
def test_bad_texts_are_refused_in_one_line_and_leave_nothing(tmp_path, name, content, options, message):
    (tmp_path / name).write_bytes(content)
    done = run("fit", tmp_path / name, "-k", 2, "-o", tmp_path / "m", "--report", tmp_path / "r.html", *options, code=2)
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "spark"), "engine must be 'auto', 'threads', 'cuda', 'dask'"),
        (("--engine", "dask", "--threads", 2), "for --engine threads, not for dask"),
    ],
)
def test_an_engine_that_is_not_there_is_refused_before_any_work(tmp_path, options, message):
    done = run("fit", tmp_path / "absent.npz", "-k", 2, "-o", tmp_path / "model", *options, code=2)
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_fit_on_a_cluster_of_this_machine(simulated):
    pytest.importorskip("distributed")
    arguments = ("fit", simulated / "x.npz", "-k", 4, "--refine", "none")
    done = run(*arguments, "-o", simulated / "dask", "--engine", "dask")
    assert "whitening" in done.stdout
    here = DiscreteICA(4, refine=None).fit(Corpus.from_file(simulated / "x.npz"))
    assert load(simulated / "dask").components_.tobytes() == here.components_.tobytes()
