"""Sparse rows times tall matrices, a register tile of columns at a time, written as LLVM vectors.

The sum over the words of a document is kept in registers: each nonzero costs one load of a row of the tall matrix, or
one load and one store. The compiler's own loops keep that sum in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, njit, types
from numba.core import cgutils as untyped_cgutils

intrinsic: Any = extending.intrinsic
cgutils: Any = untyped_cgutils

Array = np.ndarray[Any, Any]

TILE_BYTES = 64  # rows are whole cache lines
WIDE_BYTES = 2 * TILE_BYTES  # taken at a time where there are so many: four registers of 32 bytes
LONG, _INT = ir.IntType(64), ir.IntType(32)
_AHEAD = 8  # nonzeros: rows are asked for that early


def pieces(context: Any, builder: Any, signature: Any, args: Any) -> tuple[Any, ...]:
    """Return the arrays among the arguments as structures, the others as they are."""
    return tuple(
        context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args, args, strict=True)
    )


class Tile:
    """A vector of so many bytes of float32 or float64."""

    def __init__(self, kind: Any, size: int) -> None:
        self.size = size
        self.scalar = ir.FloatType() if kind.bitwidth == 32 else ir.DoubleType()
        self.width = size // (kind.bitwidth // 8)
        self.vector = ir.VectorType(self.scalar, self.width)

    def pointer(self, builder: Any, data: Any, offset: Any) -> Any:
        """Return the address of the tile that begins at an offset."""
        return builder.bitcast(builder.gep(data, [offset]), self.vector.as_pointer())

    def load(self, builder: Any, data: Any, offset: Any) -> Any:
        """Return the tile that begins at an offset."""
        return builder.load(self.pointer(builder, data, offset), align=4)

    def store(self, builder: Any, value: Any, data: Any, offset: Any) -> None:
        """Write the tile that begins at an offset."""
        builder.store(value, self.pointer(builder, data, offset), align=4)

    def zero(self) -> Any:
        """Return a tile of zeros."""
        return ir.Constant(self.vector, [0.0] * self.width)

    def broadcast(self, builder: Any, value: Any) -> Any:
        """Return a tile of one number."""
        first = builder.insert_element(ir.Constant(self.vector, ir.Undefined), value, ir.Constant(_INT, 0))
        return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(_INT, self.width), [0] * self.width))

    def number(self, builder: Any, value: Any) -> Any:
        """Return a count as a scalar of the tile."""
        if isinstance(value.type, ir.IntType):
            return builder.sitofp(value, self.scalar)
        if value.type == self.scalar:
            return value
        return (builder.fptrunc if self.scalar == ir.FloatType() else builder.fpext)(value, self.scalar)

    def add_product(self, builder: Any, total: Any, a: Any, b: Any) -> Any:
        """Return total + a b."""
        # "contract": a fused multiply-add where the machine has one
        return builder.fadd(total, builder.fmul(a, b, flags=("contract",)), flags=("contract",))


def _row_offset(builder: Any, indices: Any, p: Any, matrix: Any, column: Any) -> Any:
    """Return where the tile of the row that indices[p] names begins."""
    index = builder.sext(builder.load(builder.gep(indices.data, [p])), LONG)
    width = builder.extract_value(matrix.shape, 1)
    return builder.add(builder.mul(index, width), column)


def prefetch_line(builder: Any, address: Any, *, write: bool) -> None:
    """Ask for a cache line, which will be written to soon or only read."""
    pointer = ir.IntType(8).as_pointer()
    function = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(ir.VoidType(), [pointer, _INT, _INT, _INT]), "llvm.prefetch.p0"
    )
    # kept in every cache, data
    flags = (ir.Constant(_INT, flag) for flag in (int(write), 3, 1))
    builder.call(function, [builder.bitcast(address, pointer), *flags])


def _prefetch(builder: Any, indices: Any, p: Any, end: Any, matrix: Any, column: Any, tile: Tile) -> None:
    """Ask for a row that will be written to soon. Rows that are only read come sooner if nobody asks: measured."""
    ahead = builder.add(p, ir.Constant(LONG, _AHEAD))
    # the last ones ask for a row they need not: cheaper than a branch
    inside = builder.select(builder.icmp_signed("<", ahead, end), ahead, p)
    offset = _row_offset(builder, indices, inside, matrix, column)
    for line in range(0, tile.width, tile.width * TILE_BYTES // tile.size):
        prefetch_line(builder, builder.gep(matrix.data, [builder.add(offset, ir.Constant(LONG, line))]), write=True)


def _gathers(size: int) -> Any:
    @intrinsic
    def gather(typing: Any, indices: Any, counts: Any, begin: Any, end: Any, V: Any, column: Any, y: Any) -> Any:
        """Write Σ_p counts_p V[indices_p, column : column + tile], begin <= p < end, into y[column : column + tile]."""
        signature = types.void(indices, counts, types.int64, types.int64, V, types.int64, y)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            tile = Tile(signature.args[4].dtype, size)
            indices, counts, begin, end, V, column, y = pieces(context, builder, signature, args)
            total = cgutils.alloca_once_value(builder, tile.zero())
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(LONG, 1)) as (p, _):
                x = tile.broadcast(builder, tile.number(builder, builder.load(builder.gep(counts.data, [p]))))
                row = tile.load(builder, V.data, _row_offset(builder, indices, p, V, column))
                builder.store(tile.add_product(builder, builder.load(total), x, row), total)
            tile.store(builder, builder.load(total), y.data, column)

        return signature, generate

    return gather


def _scatters(size: int) -> Any:
    @intrinsic
    def scatter(typing: Any, indices: Any, counts: Any, begin: Any, end: Any, y: Any, column: Any, out: Any) -> Any:
        """Add counts_p y[column : column + tile] to out[indices_p, column : column + tile] for begin <= p < end."""
        signature = types.void(indices, counts, types.int64, types.int64, y, types.int64, out)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            tile = Tile(signature.args[6].dtype, size)
            indices, counts, begin, end, y, column, out = pieces(context, builder, signature, args)
            added = tile.load(builder, y.data, column)
            with cgutils.for_range_slice(builder, begin, end, ir.Constant(LONG, 1)) as (p, _):
                _prefetch(builder, indices, p, end, out, column, tile)
                x = tile.broadcast(builder, tile.number(builder, builder.load(builder.gep(counts.data, [p]))))
                offset = _row_offset(builder, indices, p, out, column)
                row = tile.load(builder, out.data, offset)
                tile.store(builder, tile.add_product(builder, row, x, added), out.data, offset)

        return signature, generate

    return scatter


_gather, _gather_wide = _gathers(TILE_BYTES), _gathers(WIDE_BYTES)
_scatter, _scatter_wide = _scatters(TILE_BYTES), _scatters(WIDE_BYTES)


@njit(cache=True, nogil=True)
def project(indptr: Array, indices: Array, counts: Array, V: Array, out: Array) -> None:
    """Write X V into `out`: X is n x M sparse, V is M x r, out is n x r; r a multiple of the tile."""
    wide = WIDE_BYTES // V.itemsize
    r = V.shape[1]
    for n in range(indptr.shape[0] - 1):
        for column in range(0, r - wide + 1, wide):
            _gather_wide(indices, counts, indptr[n], indptr[n + 1], V, column, out[n])
        if r % wide:
            _gather(indices, counts, indptr[n], indptr[n + 1], V, r - r % wide, out[n])


@njit(cache=True, nogil=True)
def second_product(
    indptr: Array, indices: Array, counts: Array, weights: Array, V: Array, center: Array, out: Array
) -> None:
    """Add the sum over documents of w_n x_n (x_n' V - center) to `out`: V and out are M x r, center has length r.

    r must be a multiple of the tile. All tiles of a document come before the next one, while its nonzeros are cached.
    """
    wide = WIDE_BYTES // V.itemsize
    r = V.shape[1]
    rest = r - r % wide
    y = np.empty(r, dtype=V.dtype)
    for n in range(indptr.shape[0] - 1):
        begin, end = indptr[n], indptr[n + 1]
        for column in range(0, rest, wide):
            _gather_wide(indices, counts, begin, end, V, column, y)
        if rest < r:
            _gather(indices, counts, begin, end, V, rest, y)
        for j in range(r):
            y[j] = weights[n] * (y[j] - center[j])
        for column in range(0, rest, wide):
            _scatter_wide(indices, counts, begin, end, y, column, out)
        if rest < r:
            _scatter(indices, counts, begin, end, y, rest, out)


@njit(cache=True, nogil=True)
def third_words(
    indptr: Array,
    indices: Array,
    shifted: Array,
    counts: Array,
    weights: Array,
    P: Array,
    V: Array,
    n_words: int,
    out: Array,
) -> None:
    """Add the sum over documents of x_nm (p_n - w_n x_n' V) to row m of `out`, for `n_words` words m.

    P (n x r), V (M x r) and out (n_words x r) are one wide tile; `shifted` are the indices less the first of the words.
    """
    y = np.empty(V.shape[1], dtype=V.dtype)
    for n in range(indptr.shape[0] - 1):
        words = shifted[indptr[n] : indptr[n + 1]]
        begin = indptr[n] + np.searchsorted(words, 0)
        end = indptr[n] + np.searchsorted(words, n_words)
        if begin == end:
            continue
        _gather_wide(indices, counts, indptr[n], indptr[n + 1], V, 0, y)
        for j in range(y.shape[0]):
            y[j] = P[n, j] - weights[n] * y[j]
        _scatter_wide(shifted, counts, begin, end, y, 0, out)


@njit(cache=True, nogil=True)
def pair_products(A: Array, k: Array, l: Array, out: Array) -> None:
    """Write A[:, k] A[:, l] into the first columns of `out`."""
    for m in range(A.shape[0]):
        for j in range(k.shape[0]):
            out[m, j] = A[m, k[j]] * A[m, l[j]]
