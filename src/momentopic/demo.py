"""The demonstration: topics of the docstrings of the Python packages that are installed here."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from momentopic._types import FloatArray
from momentopic.corpus.blocks import Corpus
from momentopic.corpus.docstrings import installed_docstrings
from momentopic.model import DiscreteICA

_LEAST_DOCUMENTS = 20  # of a module, for it to be named beside a topic


@dataclass(frozen=True, eq=False)
class Demonstration:
    """What the demonstration found.

    Attributes
    ----------
    model : DiscreteICA
    corpus : Corpus
        With the module of each docstring as its label.
    shares : array of shape (K,)
        The part of all tokens that each topic explains.
    modules : list of list of str
        For each topic, the modules with most of it.
    n_modules : int
    seconds : dict of str to float
        How long each step took.
    """

    model: DiscreteICA
    corpus: Corpus
    shares: FloatArray
    modules: list[list[str]]
    n_modules: int
    seconds: dict[str, float]


def demonstrate(n_topics: int = 20, random_state: int = 0) -> Demonstration:
    """Fit the docstrings of the installed packages and say which modules each topic comes from.

    Parameters
    ----------
    n_topics : int
    random_state : int
    """
    seconds = {}
    begin = time.perf_counter()
    found = installed_docstrings()
    seconds["read docstrings"] = time.perf_counter() - begin
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a few docstrings without common words are no news
        corpus = Corpus.from_texts(found.texts, labels=found.modules, min_df=20, max_df=0.15)
        corpus.name = "docstrings of the installed Python packages"
        seconds["count words"] = time.perf_counter() - begin
        model = DiscreteICA(n_topics, random_state=random_state).fit(corpus)
    seconds.update(model.timings_)
    begin = time.perf_counter()
    names, tokens = module_tokens(model.components_, corpus.counts, found.modules)
    seconds["modules"] = time.perf_counter() - begin
    lift = tokens / tokens.sum(axis=1, keepdims=True) * np.sqrt(tokens)
    modules = [[names[j] for j in np.argsort(-lift[:, k], kind="stable")[:4]] for k in range(n_topics)]
    shares = tokens.sum(axis=0) / tokens.sum()
    return Demonstration(model, corpus, shares, modules, len(set(found.modules)), seconds)


def module_tokens(components: FloatArray, counts: sp.csr_matrix, labels: list[str]) -> tuple[list[str], FloatArray]:
    """Return the tokens of each topic in each module, by nonnegative least squares on the module's word totals.

    Parameters
    ----------
    components : array of shape (K, M)
        Topics are rows.
    counts : csr_matrix of shape (N, M)
    labels : list of str
        The module of each document; modules of few documents are left out.

    Returns
    -------
    names : list of str
    tokens : array of shape (modules, K)
    """
    names = sorted(name for name, n in Counter(labels).items() if n >= _LEAST_DOCUMENTS)
    number = {name: j for j, name in enumerate(names)}
    rows = [(number[label], n) for n, label in enumerate(labels) if label in number]
    j, n = (np.array(column) for column in zip(*rows, strict=True))
    member = sp.csr_matrix((np.ones(len(j)), (j, n)), shape=(len(names), len(labels)))
    totals = (member @ counts).toarray()
    # least squares on K x K: R'R = D'D and R'y = D'x
    R = np.linalg.cholesky(components @ components.T).T
    targets = np.linalg.solve(R.T, components @ totals.T)
    tokens = np.array([nnls(R, target)[0] for target in targets.T])
    return names, tokens + 1e-12
