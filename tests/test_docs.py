"""The code of README and docs is run: Python blocks in one namespace a page, and every momentopic command."""

from __future__ import annotations

import json
import os
import re
import shutil
import textwrap
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner

from momentopic import Corpus, DiscreteICA
from momentopic.cli.app import app
from momentopic.corpus.docstrings import installed_docstrings

from .conftest import SHARED

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# files of the examples, and where the real data have them
REAL = {
    "newsgroups.jsonl.gz": "newsgroups20/docs.jsonl.gz",
    "sotu.jsonl.gz": "sotu_paragraphs/docs.jsonl.gz",
    "signatures.npz": "pcawg_sbs96/counts.npz",
    "signatures_words.txt": "pcawg_sbs96/vocab.txt",
    "signatures_labels.txt": "pcawg_sbs96/labels.txt",
}
BLOCK = re.compile(r"^([ ]*)```(\w+)\n(.*?)^\1```", re.DOTALL | re.MULTILINE)


def blocks(page, language):
    return [textwrap.dedent(m[3]) for m in BLOCK.finditer(page.read_text(encoding="utf-8")) if m[2] == language]


def commands(page):
    lines = [line for block in blocks(page, "console") for line in block.splitlines()]
    return [line[2:].split("  #")[0].strip() for line in lines if line.startswith("$ momentopic")]


@pytest.fixture(scope="module")
def data():
    """Real texts that are on every machine, with their packages as sections."""
    found = installed_docstrings(most_files=500)
    texts, modules = found.texts[:800], found.modules[:800]
    return texts, [module.split(".")[-1] for module in modules]


@pytest.fixture
def folder(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts, sections = data
    rows = [
        {"body": text, "text": text, "section": section, "published": f"{1990 + i % 20}", "key": f"d{i}"}
        for i, (text, section) in enumerate(zip(texts, sections, strict=True))
    ]
    import pandas as pd

    pd.DataFrame(rows).to_csv("articles.csv", index=False)
    pd.DataFrame(rows[:50]).to_csv("new.csv", index=False)
    (tmp_path / "posts.jsonl").write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    for name, place in REAL.items():
        if (SHARED / "datasets" / place).exists():
            (tmp_path / name).symlink_to((SHARED / "datasets" / place).resolve())
    return tmp_path


def skip_without_real_data(page):
    for name, place in REAL.items():
        if name in page.read_text(encoding="utf-8") and not (SHARED / "datasets" / place).exists():
            pytest.skip(f"the real data are not on this machine: {name} of {page.name}")


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.stem)
def test_python_of(page, folder, data, monkeypatch):
    skip_without_real_data(page)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    names = {"texts": data[0], "sections": data[1]}
    for code in blocks(page, "python"):
        if "gensim" in code:
            pytest.importorskip("gensim")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(code, f"{page.name}", "exec"), names)
    pyplot.close("all")
    keep = os.environ.get("KEEP_DOCS_OUTPUT")  # to bring the pictures of the examples up to date
    if keep:
        for file in folder.iterdir():
            if file.suffix in (".png", ".html") and file.is_file():
                (Path(keep) / file.name).write_bytes(file.read_bytes())


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    """The folder `model` that the commands of several pages begin with, made once."""
    folder = tmp_path_factory.mktemp("fitted")
    texts, sections = data
    DiscreteICA(5).fit(Corpus.from_texts(texts, labels=sections)).save(folder / "model")
    return folder / "model"


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_of(page, folder, fitted):
    """In this process: a process for each command would spend most of its time on the start (see test_cli)."""
    skip_without_real_data(page)
    if page.parent.name == "examples":
        pytest.skip("the Python code of the page does the same")
    shutil.copytree(fitted, "model")
    for line in commands(page):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = CliRunner().invoke(app, line.split()[1:])
        assert done.exit_code == 0, f"{line}\n{done.output}{done.exception}"


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
