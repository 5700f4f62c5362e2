"""Counts as they come in, made into the one form the rest of the library reads.

The form: CSR, int32 indices sorted within each row, no duplicates, no explicit zeros, counts as int32 (float64 only
where a count does not fit). Everything that can be wrong with counts is refused here, before any long work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from momentopic._types import FloatArray

_LARGEST_INT32 = np.iinfo(np.int32).max


class InputFileError(ValueError):
    """An input file cannot be read; the message names the file and the reason."""


class CountsError(ValueError):
    """The input is not a matrix of counts; the message names the cause and the cure."""


def as_counts(X: Any, *, empty_ok: bool = False) -> sp.csr_matrix:
    """Check that `X` holds counts and return it as canonical CSR, copying only what must change.

    Parameters
    ----------
    X : scipy sparse matrix or array of any format, or array-like, shape (N, M)
        Documents are rows, words are columns. Any real dtype, as long as every value is a whole number.
    empty_ok : bool
        Whether all documents may be empty.

    Returns
    -------
    csr_matrix of shape (N, M)
        int32 counts (float64 if some count exceeds the int32 range), int32 sorted indices, no explicit zeros.
        The caller's arrays are never changed.
    """
    csr = _to_csr(X)
    n_docs, n_words = csr.shape
    if n_docs == 0 or n_words == 0:
        raise CountsError(
            f"the count matrix is empty: its shape is {csr.shape}. It needs documents as rows and words as columns."
        )
    _refuse_damaged_indices(csr)
    if not csr.has_canonical_format:
        csr = _widened(csr, copy=True)
        csr.sum_duplicates()
    _refuse_non_counts(csr)
    if csr.nnz and csr.data.min() == 0:
        csr = csr.copy()
        csr.eliminate_zeros()
    if csr.nnz == 0 and not empty_ok:
        raise CountsError(
            f"every one of the {n_docs} documents is empty: there is not a single count above zero. "
            "Check the vectorizer's vocabulary, min_df and stop words."
        )
    dtype = np.int32 if csr.data.max(initial=0) <= _LARGEST_INT32 else np.float64
    data = csr.data.astype(dtype, copy=False)
    if n_words > _LARGEST_INT32:
        raise CountsError(f"{n_words} words are more than the {_LARGEST_INT32} that are supported.")
    indices = csr.indices.astype(np.int32, copy=False)
    counts: sp.csr_matrix = sp.csr_matrix((data, indices, csr.indptr), shape=csr.shape, copy=False)
    counts.has_canonical_format = True
    return counts


def document_lengths(counts: sp.csr_matrix) -> FloatArray:
    """Return L_n, the number of tokens of each row."""
    return np.asarray(counts.sum(axis=1, dtype=np.float64)).ravel()


def _to_csr(X: Any) -> sp.csr_matrix:
    """Return `X` as CSR; its arrays may be the caller's."""
    if sp.issparse(X):
        if X.ndim != 2:
            raise CountsError(f"counts must be a 2-D matrix, documents x words; got {X.ndim} dimensions.")
        _refuse_dtype(X.dtype)
        if X.format == "coo":
            X = _widened(X, copy=False)
        return sp.csr_matrix(X.tocsr(), copy=False)
    array = np.asarray(X)
    if array.ndim != 2:
        raise CountsError(
            f"counts must be a 2-D matrix, documents x words; got {array.ndim} dimension(s). "
            "Reshape your data: a single document is X.reshape(1, -1)."
        )
    _refuse_dtype(array.dtype)
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        array = array.astype(np.float64)  # scipy has no sparse float16
    return sp.csr_matrix(array.astype(array.dtype.newbyteorder("="), copy=False))


def _widened(X: Any, copy: bool) -> Any:
    """Return `X` with 8-byte values: repeated entries are about to be added, and 200 + 100 is not 44."""
    return X.astype(np.float64 if X.dtype.kind == "f" else np.int64, copy=copy)


def _refuse_dtype(dtype: np.dtype[Any]) -> None:
    if dtype.kind == "c":
        raise CountsError("Complex data not supported: counts must be whole numbers.")
    if dtype.kind not in "biuf":
        raise CountsError(
            f"counts must be numbers, got dtype {dtype}. Texts are turned into counts by "
            "sklearn.feature_extraction.text.CountVectorizer."
        )


def _refuse_damaged_indices(csr: sp.csr_matrix) -> None:
    """Compiled loops trust the indices, which a file or a hand-made matrix may have wrong."""
    indptr, indices = csr.indptr, csr.indices
    sound = indptr[0] == 0 and (np.diff(indptr) >= 0).all() and indptr[-1] <= min(len(indices), len(csr.data))
    used = indices[: indptr[-1]]
    if not sound or (used.size and (used.min() < 0 or used.max() >= csr.shape[1])):
        raise CountsError(
            f"the sparse matrix is damaged: its indices do not fit its shape {csr.shape}. Build it again from its "
            "source."
        )


def _refuse_non_counts(csr: sp.csr_matrix) -> None:
    data = csr.data
    if data.size == 0:
        return
    if data.dtype.kind == "f" and not np.isfinite(data).all():
        at, value = _where(csr, ~np.isfinite(data))
        name = "NaN" if np.isnan(value) else "infinity"
        raise CountsError(
            f"the counts contain {name} ({at}). Input X contains NaN or infinity where it must hold whole numbers: "
            "replace missing values by 0 or drop those rows."
        )
    if data.dtype.kind in "if" and data.min() < 0:
        at, value = _where(csr, data < 0)
        raise CountsError(
            f"Negative values in data passed to X: counts cannot be negative, but {at} is {value:g}. "
            "Pass raw counts, not centred or log-transformed values."
        )
    if data.dtype.kind == "f":
        fractional = data != np.floor(data)
        if fractional.any():
            at, value = _where(csr, fractional)
            raise CountsError(
                f"counts must be whole numbers, but {at} is {value:g}. The moments subtract the Poisson noise of raw "
                "counts, so tf-idf weights or normalised rows cannot be used: pass the output of CountVectorizer "
                "instead of TfidfVectorizer (for single cells, the raw counts layer)."
            )


def _where(csr: sp.csr_matrix, bad: np.ndarray[Any, Any]) -> tuple[str, float]:
    """Name the first stored entry for which `bad` is true."""
    position = int(np.argmax(bad))
    row = int(np.searchsorted(csr.indptr, position, side="right")) - 1
    return f"the entry at row {row}, column {int(csr.indices[position])}", float(csr.data[position])
