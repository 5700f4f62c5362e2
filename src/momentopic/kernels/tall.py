"""Products of a tall basis with blocks of sixteen columns, a register tile at a time, written as LLVM vectors.

BLAS copies its operands into an order of its own first, which pays for large products only: with sixteen columns it is
at a third to a half of its speed. Here twelve sums of sixteen numbers stay in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types

from momentopic.kernels.tiles import LONG, WIDE_BYTES, Tile, cgutils, intrinsic, pieces

Array = np.ndarray[Any, Any]

COLUMNS = WIDE_BYTES // 8
_TILE = 12  # sums in registers
_ROWS = 10 * _TILE  # at a time: a block of so many rows stays in the first-level cache


def _row(builder: Any, array: Any, i: Any) -> Any:
    """Return where row `i` begins, counted in numbers."""
    return builder.mul(i, builder.sdiv(builder.extract_value(array.strides, 0), ir.Constant(LONG, 8)))


def _plus(builder: Any, i: Any, more: int) -> Any:
    return builder.add(i, ir.Constant(LONG, more))


def _inner_tile(size: int) -> Any:
    @intrinsic
    def add_inner(typing: Any, B: Any, Z: Any, begin: Any, end: Any, column: Any, C: Any) -> Any:
        """Add B[begin:end, column : column + size]' Z[begin:end] to C[column : column + size]."""
        signature = types.void(B, Z, types.int64, types.int64, types.int64, C)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            tile = Tile(signature.args[1].dtype, WIDE_BYTES)
            B, Z, begin, end, column, C = pieces(context, builder, signature, args)
            places = [_row(builder, C, _plus(builder, column, j)) for j in range(size)]
            sums = [cgutils.alloca_once_value(builder, tile.load(builder, C.data, place)) for place in places]
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(LONG, 1)) as (i, _):
                z = tile.load(builder, Z.data, _row(builder, Z, i))
                first = builder.add(_row(builder, B, i), column)
                for j, total in enumerate(sums):
                    b = tile.broadcast(builder, builder.load(builder.gep(B.data, [_plus(builder, first, j)])))
                    builder.store(tile.add_product(builder, builder.load(total), b, z), total)
            for total, place in zip(sums, places, strict=True):
                tile.store(builder, builder.load(total), C.data, place)

        return signature, generate

    return add_inner


def _outer_tile(size: int) -> Any:
    @intrinsic
    def put_outer(typing: Any, B: Any, C: Any, row: Any, Z: Any, out: Any) -> Any:
        """Write Z[row : row + size] + B[row : row + size] C into out[row : row + size]."""
        signature = types.void(B, C, types.int64, Z, out)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            tile = Tile(signature.args[3].dtype, WIDE_BYTES)
            B, C, row, Z, out = pieces(context, builder, signature, args)
            rows = [_plus(builder, row, j) for j in range(size)]
            sums = [cgutils.alloca_once_value(builder, tile.load(builder, Z.data, _row(builder, Z, i))) for i in rows]
            firsts = [_row(builder, B, i) for i in rows]
            with cgutils.for_range(builder, builder.extract_value(B.shape, 1)) as loop:
                c = tile.load(builder, C.data, _row(builder, C, loop.index))
                for total, first in zip(sums, firsts, strict=True):
                    b = builder.load(builder.gep(B.data, [builder.add(first, loop.index)]))
                    b = tile.broadcast(builder, b)
                    builder.store(tile.add_product(builder, builder.load(total), b, c), total)
            for total, i in zip(sums, rows, strict=True):
                tile.store(builder, builder.load(total), out.data, _row(builder, out, i))

        return signature, generate

    return put_outer


_inner, _inner_4, _inner_2, _inner_1 = (_inner_tile(size) for size in (_TILE, 4, 2, 1))
_outer, _outer_4, _outer_1 = (_outer_tile(size) for size in (_TILE, 4, 1))


@njit(cache=True, nogil=True)
def _add_inner(B: Array, Z: Array, begin: int, end: int, C: Array) -> None:
    n = B.shape[1]
    column = 0
    while column + _TILE <= n:
        _inner(B, Z, begin, end, column, C)
        column += _TILE
    while column + 4 <= n:
        _inner_4(B, Z, begin, end, column, C)
        column += 4
    if column + 2 <= n:
        _inner_2(B, Z, begin, end, column, C)
        column += 2
    if column < n:
        _inner_1(B, Z, begin, end, column, C)


@njit(cache=True, nogil=True)
def _put_outer(B: Array, C: Array, Z: Array, begin: int, end: int, out: Array) -> None:
    row = begin
    while row + _TILE <= end:
        _outer(B, C, row, Z, out)
        row += _TILE
    while row + 4 <= end:
        _outer_4(B, C, row, Z, out)
        row += 4
    while row < end:
        _outer_1(B, C, row, Z, out)
        row += 1


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def _touch(B: Array) -> float:
    """Read rows one after the other, which is the fastest way to the cache; tiles go across them."""
    total = 0.0
    for i in range(B.shape[0]):
        for j in range(0, B.shape[1], 8):
            total += B[i, j]
    return total


@njit(cache=True, nogil=True)
def coefficients(B: Array, Z: Array, begin: int, end: int, C: Array) -> None:
    """Add B[begin:end]' Z[begin:end] to C.

    Parameters
    ----------
    B : float64 array of shape (M, n), rows contiguous
    Z : float64 array of shape (M, COLUMNS), rows contiguous
    begin, end : int
    C : float64 array of shape (n, COLUMNS)
    """
    for first in range(begin, end, _ROWS):
        _add_inner(B, Z, first, min(first + _ROWS, end), C)


@njit(cache=True, nogil=True)
def take_out(
    B: Array, nothing: int, C: Array, Z: Array, begin: int, end: int, out: Array, left: Array, gram: Array
) -> None:
    """Write Z - B C into `out`, which may be Z; add the coefficients B' out of that and its Gram matrix to the others.

    Of rows begin to end; other arguments as in `coefficients`. The first `nothing` rows of C are zeros.
    """
    negative = -C[nothing:]
    for first in range(begin, end, _ROWS):
        last = min(first + _ROWS, end)
        _touch(B[first:last])
        _put_outer(B[:, nothing:], negative, Z, first, last, out)
        _add_inner(B, out, first, last, left)
        _add_inner(out, out, first, last, gram)


@njit(cache=True, nogil=True)
def take_out_and_divide(B: Array, C: Array, Z: Array, begin: int, end: int, divisor: Array, gram: Array) -> None:
    """Replace Z by (Z - B C) divisor, and add the Gram matrix of that to `gram`; of rows begin to end."""
    negative = -C
    rest, nothing = np.empty((_ROWS, COLUMNS)), np.zeros((_ROWS, COLUMNS))
    for first in range(begin, end, _ROWS):
        n = min(_ROWS, end - first)
        part = Z[first : first + n]
        _put_outer(B[first : first + n], negative, part, 0, n, rest)
        _put_outer(rest, divisor, nothing, 0, n, part)
        _add_inner(part, part, 0, n, gram)
