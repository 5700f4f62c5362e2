"""Texts into counts, a document at a time: no more than the counts and the vocabulary is ever held."""

from __future__ import annotations

import warnings
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic._types import IntArray
from momentopic.corpus.mail import message_body
from momentopic.corpus.stopwords import stop_words
from momentopic.corpus.validate import InputFileError

WORD = r"(?u)\b[^\W\d_]{3,}\b"  # three letters or more, no digits
_CHUNK = 1 << 20  # entries of the counts that are made compact at a time
_FORMAT_VERSION = 1


@dataclass(frozen=True)
class TextSettings:
    """How texts are turned into counts; all but the last are settings of scikit-learn's CountVectorizer.

    Attributes
    ----------
    stop_words : str, sequence of str or None
        Words that are left out: a language (`momentopic.corpus.stopwords.LANGUAGES`), or the words themselves.
    min_df, max_df : int or float
        Words in fewer (more) documents than this are left out; a number below 1 (up to 1.0) is a share of them.
    max_features : int or None
        Keep no more words than this, the most frequent ones.
    ngram_range : (int, int)
        Also count sequences of so many words: (1, 2) counts words and pairs of neighbours.
    lowercase : bool
    strip_accents : "unicode", "ascii" or None
        Whether "é" and "e" are one letter.
    token_pattern : str
        A regular expression for words; by default three letters or more of any script, without digits.
    email : bool
        Texts are mail or news messages: leave out headers, quotations and signatures (`momentopic.corpus.mail`).
    """

    stop_words: str | tuple[str, ...] | None = "english"
    min_df: float = 5
    max_df: float = 0.5
    max_features: int | None = None
    ngram_range: tuple[int, int] = (1, 1)
    lowercase: bool = True
    strip_accents: str | None = None
    token_pattern: str = WORD
    email: bool = False

    def __post_init__(self) -> None:
        if self.stop_words is not None and not isinstance(self.stop_words, str):
            object.__setattr__(self, "stop_words", tuple(self.stop_words))
        object.__setattr__(self, "ngram_range", tuple(self.ngram_range))
        for name, value in (("min_df", self.min_df), ("max_df", self.max_df)):
            if value < 0 or (value > 1 and not float(value).is_integer()):
                raise ValueError(f"{name} must be a number of documents or a share between 0 and 1, got {value:g}")
        low, high = self.ngram_range
        if not 1 <= low <= high:
            raise ValueError(f"ngram_range must be two numbers from 1 up, the smaller first, got {self.ngram_range}")

    def analyzer(self, wanted: Collection[str] = ()) -> Callable[[str], list[str]]:
        """Return CountVectorizer's function from a text to its words; wanted words are never stop words."""
        from sklearn.feature_extraction.text import CountVectorizer

        common = stop_words(self.stop_words) if isinstance(self.stop_words, str) else self.stop_words or ()
        with warnings.catch_warnings():
            # stop words that the token pattern would cut in two do no harm: their parts are words of their own
            warnings.filterwarnings("ignore", message="Your stop_words may be inconsistent")
            analyze: Callable[[str], list[str]] = CountVectorizer(
                stop_words=sorted(set(common).difference(wanted)) or None,
                ngram_range=self.ngram_range,
                lowercase=self.lowercase,
                strip_accents=self.strip_accents,
                token_pattern=self.token_pattern,
            ).build_analyzer()
        if self.email:
            return lambda text: analyze(message_body(text))
        return analyze

    def shown(self, text: str) -> str:
        """Return the part of a text that is counted, for people to read."""
        return message_body(text) if self.email else text

    def to_json(self) -> dict[str, Any]:
        """Return the settings as JSON knows them, with a format version."""
        return {"version": _FORMAT_VERSION, **asdict(self)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> TextSettings:
        """Make settings of what `to_json` returned.

        Raises
        ------
        ValueError
            If it is of a newer version or holds something else.
        """
        version = value.get("version")
        if version != _FORMAT_VERSION:
            raise ValueError(f"its text settings are of version {version!r}, this is {_FORMAT_VERSION}")
        known = {field.name for field in fields(cls)}
        unknown = set(value) - known - {"version"}
        if unknown:
            raise ValueError(f"its text settings hold {', '.join(sorted(unknown))}, which are not known here")
        return cls(**{name: setting for name, setting in value.items() if name in known})


# How texts are counted with words that came without settings, as those of a file of counts.
PLAIN = TextSettings(stop_words=None)


def count_words(
    texts: Iterable[str], settings: TextSettings, vocabulary: Sequence[str] | None = None, source: str = "the corpus"
) -> tuple[sp.csr_matrix, list[str]]:
    """Count the words of texts, read once, one after another.

    Parameters
    ----------
    texts : iterable of str
    settings : TextSettings
    vocabulary : sequence of str, optional
        Count these words and no others, in this order; `min_df`, `max_df` and `max_features` then do not apply.
    source : str
        What to call the texts in an error message.

    Returns
    -------
    counts : csr_matrix of shape (N, M)
    words : list of str
        In alphabetical order, unless they were given.
    """
    known = None if vocabulary is None else _numbered(vocabulary)
    counted = _Counts({} if known is None else known, grow=known is None)
    analyze = settings.analyzer(known or ())
    for text in texts:
        counted.add(analyze(text))
    if counted.n_docs == 0:
        raise InputFileError(f"there are no documents in {source}")
    if vocabulary is not None:
        return counted.matrix(np.arange(len(vocabulary)), len(vocabulary)), list(vocabulary)
    words = list(counted.words)
    kept = _kept(words, *counted.frequencies(), counted.n_docs, settings, source)
    number = np.full(len(words), -1, dtype=np.int64)
    number[kept] = np.arange(len(kept))
    return counted.matrix(number, len(kept)), [words[m] for m in kept]


def find_words(texts: Iterable[str], settings: TextSettings, source: str = "the corpus") -> list[str]:
    """Return the words that `count_words` would count in texts, in alphabetical order; nothing else is kept.

    Parameters
    ----------
    texts, settings, source
        As in `count_words`.
    """
    analyze = settings.analyzer()
    documents: Counter[str] = Counter()
    totals: Counter[str] = Counter()
    n_docs = 0
    for text in texts:
        tokens = Counter(analyze(text))
        documents.update(tokens.keys())
        totals.update(tokens)
        n_docs += 1
    found = {word: (count, totals[word]) for word, count in documents.items()}
    return frequent_words(found, n_docs, settings, source)


class WordCounter:
    """Counts known words in texts, and gives the counts a batch at a time.

    Parameters
    ----------
    words : sequence of str
    settings : TextSettings
    """

    def __init__(self, words: Sequence[str], settings: TextSettings) -> None:
        self._words = _numbered(words)
        self._analyze = settings.analyzer(self._words)
        self._counted = _Counts(self._words, grow=False)

    def add(self, text: str) -> int:
        """Count the words of one more document; return how many different ones it has."""
        self._counted.add(self._analyze(text))
        return self._counted.lengths[-1]

    def take(self) -> sp.csr_matrix:
        """Return the counts of the documents so far and forget them."""
        counted, self._counted = self._counted, _Counts(self._words, grow=False)
        return counted.matrix(np.arange(len(self._words)), len(self._words))


class _Counts:
    """The counts of documents so far, as compact arrays."""

    def __init__(self, words: dict[str, int], grow: bool) -> None:
        self.words = words
        self.grow = grow
        self.lengths = array("q")  # entries of each document
        self._chunks: list[tuple[IntArray, IntArray, int]] = []  # with the number of the document that follows
        self._indices, self._counts = array("i"), array("i")

    @property
    def n_docs(self) -> int:
        return len(self.lengths)

    def add(self, tokens: list[str]) -> None:
        words, indices, before = self.words, self._indices, len(self._indices)
        for word, count in Counter(tokens).items():
            number = words.setdefault(word, len(words)) if self.grow else words.get(word)
            if number is not None:
                indices.append(number)
                self._counts.append(count)
        self.lengths.append(len(indices) - before)
        if len(indices) > _CHUNK:
            self._pack()

    def _pack(self) -> None:
        counts = np.array(self._counts, dtype=np.int32)
        small = counts.astype(np.min_scalar_type(int(counts.max(initial=0))))  # most counts are below 256
        self._chunks.append((np.array(self._indices, dtype=np.int32), small, self.n_docs))
        self._indices, self._counts = array("i"), array("i")

    def frequencies(self) -> tuple[IntArray, IntArray]:
        """Return in how many documents each word is, and how often it is there in all."""
        self._pack()
        documents = np.zeros(len(self.words), dtype=np.int64)
        totals = np.zeros(len(self.words), dtype=np.int64)
        for indices, counts, _ in self._chunks:
            documents += np.bincount(indices, minlength=len(documents))
            totals += np.bincount(indices, weights=counts, minlength=len(totals)).astype(np.int64)
        return documents, totals

    def matrix(self, number: IntArray, n_words: int) -> sp.csr_matrix:
        """Return the counts of the words with a number of 0 or more, chunk by chunk; the object is then used up."""
        self._pack()
        lengths = np.frombuffer(self.lengths, dtype=np.int64)
        indptr = np.zeros(self.n_docs + 1, dtype=np.int64)
        n_kept = sum(int(np.count_nonzero(number[chunk] >= 0)) for chunk, _, _ in self._chunks)
        indices, counts = np.empty(n_kept, dtype=np.int32), np.empty(n_kept, dtype=np.int32)
        first = 0
        self._chunks.reverse()
        while self._chunks:  # each is given back as soon as it is copied: there are never two copies of all
            chunk, chunk_counts, last = self._chunks.pop()
            renumbered = number[chunk]
            keep = renumbered >= 0
            ends = np.cumsum(lengths[first:last])
            indptr[first + 1 : last + 1] = indptr[first] + np.concatenate(([0], np.cumsum(keep)))[ends]
            place = slice(indptr[first], indptr[last])
            indices[place], counts[place] = renumbered[keep], chunk_counts[keep]
            first = last
        X = sp.csr_matrix((counts, indices, indptr), shape=(self.n_docs, n_words))
        X.sort_indices()
        return X


def _numbered(vocabulary: Sequence[str]) -> dict[str, int]:
    numbers = {word: m for m, word in enumerate(vocabulary)}
    if len(numbers) < len(vocabulary):
        twice = next(word for word, n in Counter(vocabulary).items() if n > 1)
        raise ValueError(f"the word {twice!r} is in the vocabulary more than once: each word needs one column")
    return numbers


def _kept(
    words: list[str], documents: IntArray, totals: IntArray, N: int, settings: TextSettings, source: str
) -> IntArray:
    """Return which words stay, in alphabetical order, by the documents they are in and how often they occur."""
    least, most = _number(settings.min_df, 1, N), _number(settings.max_df, 1 + 1e-9, N)
    kept = np.flatnonzero((documents >= least) & (documents <= most))
    if settings.max_features is not None:
        order = np.argsort(-totals[kept], kind="stable")
        kept = np.sort(kept[order[: settings.max_features]])
    if len(kept) == 0:
        raise InputFileError(
            f"the {N} text{'' if N == 1 else 's'} of {source} cannot be counted with min_df={settings.min_df:g} and "
            f"max_df={settings.max_df:g}: of {len(documents)} different words none is in at least {least:g} and at "
            f"most {most:g} documents. Give more documents, a smaller min_df or a larger max_df."
        )
    return kept[np.argsort(np.array([words[m] for m in kept], dtype=object), kind="stable")]


def _number(limit: float, least_whole: float, n_docs: int) -> float:
    """Whole numbers count documents and fractions are shares: 5 from a command line means 5 documents."""
    return limit if limit >= least_whole and float(limit).is_integer() else limit * n_docs


def frequent_words(found: Mapping[str, tuple[int, int]], n_docs: int, settings: TextSettings, source: str) -> list[str]:
    """Return the words that `count_words` would keep, in its order.

    Parameters
    ----------
    found : dict
        For each word, in the order in which they first occur: in how many documents it is, and how often.
    n_docs : int
    settings : TextSettings
    source : str
        What to call the texts in an error message.
    """
    if n_docs == 0:
        raise InputFileError(f"there are no documents in {source}")
    words = list(found)
    documents, totals = np.array(list(found.values()), dtype=np.int64).reshape(-1, 2).T
    return [words[m] for m in _kept(words, documents, totals, n_docs, settings, source)]
