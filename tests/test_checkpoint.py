"""A fit that is killed and started again ends with the same bits; limits of memory are kept or refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp

from momentopic import Corpus, DiscreteICA, checkpoint, load, memory, simulate
from momentopic.checkpoint import Checkpoint, CheckpointError
from momentopic.engine import ThreadEngine
from momentopic.exceptions import MemoryLimitError

from .conftest import planted_topics


@pytest.fixture(scope="module")
def counts():
    return simulate.gamma_poisson(planted_topics(150, 4), np.full(4, 0.3), 1500, mean_length=60)


class Stopped(BaseException):
    pass


def stop_after(monkeypatch, n_saves):
    """Have a fit stop after it has saved so many states."""
    save, left = Checkpoint.save, [n_saves]

    def saved(self, *args, **kwargs):
        save(self, *args, **kwargs)
        left[0] -= 1
        if left[0] == 0:
            raise Stopped

    monkeypatch.setattr(Checkpoint, "save", saved)


@pytest.mark.parametrize(
    ("parameters", "stops"),
    [
        ({"n_sweeps": 40}, (1, 2, 5, 14, 15)),  # whitening, tensor, sweeps
        ({"n_sweeps": 0}, (4, 6, 9, 12)),
        ({"refine": None, "moments": "lda", "c0": 1.0}, (1, 1)),
        ({"refine": None, "algorithm": "tpm"}, (2,)),
        ({"refine": None, "algorithm": "spectral"}, (1,)),
        ({"refine": None, "projections": "random"}, (2,)),
        ({"refine": "variational"}, (3, 1)),
    ],
    ids=str,
)
def test_a_fit_goes_on_to_the_same_bits(counts, tmp_path, monkeypatch, parameters, stops):
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    whole = DiscreteICA(4, **parameters).fit(counts)
    for n_saves in stops:
        with monkeypatch.context() as patch:
            stop_after(patch, n_saves)
            with pytest.raises(Stopped):
                DiscreteICA(4, checkpoint=tmp_path / "state", **parameters).fit(counts)
    again = DiscreteICA(4, checkpoint=tmp_path / "state", engine=ThreadEngine(1), **parameters).fit(counts)
    for name in ("components_", "concentration_", "eigenvalues_"):
        assert getattr(again, name).tobytes() == getattr(whole, name).tobytes()
    assert (again.n_iter_, again.converged_, again.rate_) == (whole.n_iter_, whole.converged_, whole.rate_)


def test_a_fit_of_many_topics_goes_on_to_the_same_bits(counts, tmp_path, monkeypatch):
    monkeypatch.setattr("momentopic.solve._MANY_TOPICS", 4)
    monkeypatch.setattr("momentopic.moments.dica.DICAMoments.third", None)
    test_a_fit_goes_on_to_the_same_bits(counts, tmp_path, monkeypatch, {"n_sweeps": 0}, (2, 3))


@pytest.mark.usefixtures("short_rounds")
@pytest.mark.parametrize("n_saves", [3, 4, 5, 6])
def test_a_fit_goes_on_in_either_round_of_sweeps(counts, tmp_path, monkeypatch, n_saves):
    monkeypatch.setattr(checkpoint, "_EVERY", 0.0)
    whole = DiscreteICA(4, n_sweeps=7).fit(counts)
    with monkeypatch.context() as patch:
        stop_after(patch, n_saves)
        with pytest.raises(Stopped):
            DiscreteICA(4, n_sweeps=7, checkpoint=tmp_path / "state").fit(counts)
    again = DiscreteICA(4, n_sweeps=7, checkpoint=tmp_path / "state").fit(counts)
    assert again.components_.tobytes() == whole.components_.tobytes()
    assert again.concentration_.tobytes() == whole.concentration_.tobytes()


def test_what_was_saved_is_used(counts, tmp_path, monkeypatch):
    parameters = {"refine": None, "checkpoint": tmp_path / "state"}
    DiscreteICA(4, **parameters).fit(counts)
    monkeypatch.setattr("momentopic.solve.whiten", None)
    monkeypatch.setattr("momentopic.moments.dica.DICAMoments.third", None)
    DiscreteICA(4, **parameters).fit(counts)
    with pytest.raises(TypeError):
        DiscreteICA(4, refine=None).fit(counts)


def test_parameters_may_be_numbers_of_numpy(counts, tmp_path):
    K, n_sweeps = np.int64(4), np.int32(2)
    for _ in range(2):
        DiscreteICA(K, n_sweeps=n_sweeps, checkpoint=tmp_path / "state").fit(counts)


def test_a_checkpoint_of_something_else_is_refused(counts, tmp_path):
    state = tmp_path / "state"
    DiscreteICA(4, refine=None, checkpoint=state).fit(counts)
    with pytest.raises(CheckpointError, match="n_components=4 where now 3 is asked for.*another folder"):
        DiscreteICA(3, refine=None, checkpoint=state).fit(counts)
    with pytest.raises(CheckpointError, match="of another corpus"):
        DiscreteICA(4, refine=None, checkpoint=state).fit(counts[:-1])
    with pytest.raises(CheckpointError, match="random_state"):
        DiscreteICA(4, refine=None, checkpoint=state, random_state=1).fit(counts)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("text")
    with pytest.raises(CheckpointError, match="something other"):
        DiscreteICA(4, refine=None, checkpoint=tmp_path / "mine").fit(counts)
    with pytest.raises(FileNotFoundError, match="no folder"):
        DiscreteICA(4, refine=None, checkpoint=tmp_path / "a" / "b").fit(counts)


def test_a_damaged_stage_is_done_again_and_a_damaged_description_is_told(counts, tmp_path):
    state = tmp_path / "state"
    whole = DiscreteICA(4, refine=None, checkpoint=state).fit(counts)
    for path in state.glob("*.safetensors"):
        content = bytearray(path.read_bytes())
        content[-9] ^= 4
        path.write_bytes(content)
    with pytest.warns(UserWarning, match="damaged: this stage of the fit is done again"):
        again = DiscreteICA(4, refine=None, checkpoint=state).fit(counts)
    assert again.components_.tobytes() == whole.components_.tobytes()
    (state / "checkpoint.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged: delete"):
        DiscreteICA(4, refine=None, checkpoint=state).fit(counts)


def test_a_model_is_saved_without_its_checkpoint(counts, tmp_path):
    DiscreteICA(4, refine=None, checkpoint=tmp_path / "state", memory_limit="2GB").fit(counts).save(tmp_path / "model")
    assert load(tmp_path / "model").get_params()["checkpoint"] is None


COMMAND = "import momentopic.checkpoint as c; c._EVERY = 0.05; from momentopic.cli.app import main; main()"


def start(*arguments):
    return subprocess.Popen([sys.executable, "-c", COMMAND, *map(str, arguments)], stderr=subprocess.PIPE, text=True)


def test_a_fit_that_is_killed_by_signal_9_is_resumed(counts, tmp_path):
    counts = sp.vstack([counts] * 8, format="csr")
    sp.save_npz(tmp_path / "x.npz", counts)
    arguments = ("fit", tmp_path / "x.npz", "-k", 4, "--checkpoint", tmp_path / "state", "-o", tmp_path / "model")
    description = tmp_path / "state" / "checkpoint.json"
    process = start(*arguments)
    while process.poll() is None:
        if description.exists() and "n_steps" in description.read_text():
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.001)
    assert process.wait() == -signal.SIGKILL, process.stderr.read()
    assert not (tmp_path / "model").exists()
    process.stderr.close()
    (tmp_path / "state" / ".refinement-00000000.safetensors.12345678.tmp").write_bytes(b"half")  # as a kill may leave
    process = start(*arguments)
    assert (process.communicate()[1], process.returncode) == ("", 0)
    assert not (tmp_path / "state").exists()
    found, whole = load(tmp_path / "model"), DiscreteICA(4).fit(counts)
    assert found.components_.tobytes() == whole.components_.tobytes()
    assert found.n_iter_ == whole.n_iter_


@pytest.mark.parametrize(
    ("text", "size"),
    [("3GB", 3 * 10**9), ("2.5 GiB", 5 << 29), ("800mb", 8 * 10**8), ("123", 123), (77, 77), ("4k", 4000)],
)
def test_sizes(text, size):
    assert memory.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "3 apples", "-1GB", "1.2.3GB", "3ib"])
def test_sizes_that_are_none(text, counts):
    with pytest.raises(ValueError, match="as in 3GB"):
        DiscreteICA(4, memory_limit=text).fit(counts)


def test_fits_that_cannot_keep_their_limit_are_refused_with_a_cure(counts):
    with pytest.raises(MemoryLimitError, match=r"needs about \d+ MB .* more than the limit of 50 MB: allow"):
        DiscreteICA(4, refine=None, memory_limit="50MB").fit(counts)
    long = Corpus(np.full((2000, 40), 8))
    needs = [memory.moments_bytes(long, 4, 1), memory.refinement_bytes(long, 4, 1, "collapsed", None)]
    between = (needs[0] + needs[1]) // 2
    assert needs[0] < needs[1]
    with pytest.raises(MemoryLimitError, match="leave the refinement out"):
        DiscreteICA(4, memory_limit=between).fit(long)


def test_a_limit_chooses_fewer_threads_and_the_topics_stay_the_same(counts, monkeypatch):
    corpus, K = Corpus(counts), 4
    options = {"refine": "collapsed", "n_sweeps": 12, "n_threads": 4}
    assert memory.most_threads(corpus, K, 10**12, **options) == 4
    least = memory.refinement_bytes(corpus, K, 1, "collapsed", 12)
    assert memory.most_threads(corpus, K, max(least, memory.moments_bytes(corpus, K, 1)), **options) == 1
    monkeypatch.setattr(memory, "moments_bytes", lambda *_: 0)  # of so small a corpus it is more than all the rest
    for limit in np.linspace(least, 1.5 * least, 20).astype(int):
        n = memory.most_threads(corpus, K, int(limit), **options)
        assert memory.refinement_bytes(corpus, K, n, "collapsed", 12) <= limit
    light, free = (DiscreteICA(4, n_sweeps=12, memory_limit=limit).fit(counts) for limit in (least, None))
    assert light.components_.tobytes() == free.components_.tobytes()
    # expected sweeps remember more than draws
    assert memory.refinement_bytes(corpus, K, 1, "collapsed", None) > least


def test_groups_are_counted_in_the_estimate(counts):
    corpus = Corpus(counts)
    without, few, many = (memory.moments_bytes(corpus, 4, 2, n_groups) for n_groups in (None, 10, 200))
    assert few > without
    assert many - without == 20 * (few - without)
    limit = (few + many) // 2
    DiscreteICA(4, refine=None, n_groups=10, memory_limit=limit, engine=ThreadEngine(2)).fit(counts)
    with pytest.raises(MemoryLimitError, match="needs about"):
        DiscreteICA(4, refine=None, n_groups=200, memory_limit=limit, engine=ThreadEngine(2)).fit(counts)


class Device(ThreadEngine):
    """What fits as a device does."""

    def solve(self, *args, **kwargs):
        raise AssertionError


def test_a_device_is_not_taken_where_it_cannot_keep_what_is_asked_for(counts, tmp_path, monkeypatch):
    from momentopic.engine import base, cuda

    monkeypatch.setattr(base, "_LARGE", 0)
    monkeypatch.setattr(cuda, "device_available", lambda: True)
    monkeypatch.setattr(cuda, "CudaEngine", Device)
    for asked in ({"memory_limit": "4GB"}, {"checkpoint": tmp_path / "state"}):
        assert DiscreteICA(4, refine=None, **asked).fit(counts).converged_
        with pytest.raises(ValueError, match="use engine='threads', or leave"):
            DiscreteICA(4, refine=None, engine="cuda", **asked).fit(counts)


def test_the_estimate_is_above_what_a_fit_takes(tmp_path):
    """Many words and topics, so that the arrays and not the interpreter are what is measured."""
    X = simulate.gamma_poisson(planted_topics(20_000, 30), np.full(30, 0.1), 1000, mean_length=100)
    sp.save_npz(tmp_path / "x.npz", X)
    code = """
import scipy.sparse as sp, sys
from momentopic import Corpus, DiscreteICA, memory
from pathlib import Path
corpus = Corpus(sp.load_npz(sys.argv[1]))
DiscreteICA(30, refine=None).fit(corpus)
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
print(peak, memory.moments_bytes(corpus, 30, 2))
"""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("only Linux tells the peak of a process")
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "x.npz"], capture_output=True, text=True, check=True)
    peak, estimated = map(int, done.stdout.split())
    assert 0.4 * estimated < peak < estimated
