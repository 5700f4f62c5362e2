"""Texts into counts."""

from __future__ import annotations

from collections.abc import Sequence

from momentopic.corpus.blocks import Corpus

WORD = r"(?u)\b[^\W\d_]{3,}\b"  # three letters or more, no digits


def vectorize(
    texts: Sequence[str],
    *,
    source: str = "the corpus",
    min_df: float = 5,
    max_df: float = 0.5,
    stop_words: str | None = "english",
) -> Corpus:
    """Count the words of texts with scikit-learn's CountVectorizer.

    Parameters
    ----------
    texts : sequence of str
        One document each.
    source : str
        What to call the texts in an error message.
    min_df, max_df : int or float
        Words in fewer (more) documents than this are left out; a number below 1 (1.0) is a share of the documents.
    stop_words : str or None
        "english" leaves out common English words.

    Returns
    -------
    Corpus
        With its vocabulary; the words are sequences of three letters or more, in lower case.
    """
    from sklearn.feature_extraction.text import CountVectorizer

    # whole numbers count documents and fractions are shares: "5" from a command line means 5 documents
    least = int(min_df) if float(min_df).is_integer() and min_df >= 1 else float(min_df)
    most = int(max_df) if float(max_df).is_integer() and max_df > 1 else float(max_df)
    vectorizer = CountVectorizer(token_pattern=WORD, min_df=least, max_df=most, stop_words=stop_words)
    try:
        X = vectorizer.fit_transform(texts)
    except ValueError as error:
        raise ValueError(
            f"the {len(texts)} texts of {source} cannot be counted with min_df={min_df} and max_df={max_df}: {error}"
        ) from error
    return Corpus(X, list(vectorizer.get_feature_names_out()))


def count_known(texts: Sequence[str], words: Sequence[str]) -> Corpus:
    """Count the given words in texts, as `vectorize` does; other words are passed over."""
    from sklearn.feature_extraction.text import CountVectorizer

    X = CountVectorizer(token_pattern=WORD, vocabulary=list(words)).transform(texts)
    return Corpus(X, list(words), empty_ok=True)
