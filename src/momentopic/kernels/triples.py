"""Sums of x_a y_b z_c over many columns for a <= b <= c, a tile of sums at a time in registers, as LLVM vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, njit, types
from numba.core import cgutils as untyped_cgutils

intrinsic: Any = extending.intrinsic
cgutils: Any = untyped_cgutils

Array = np.ndarray[Any, Any]

_A, _C = 4, 3  # rows of x and of z to a tile: its 12 sums, 3 vectors of z and one of x y are 16 registers
_BYTES = 32
CHUNK = 512  # columns at a time: the products stay in the first-level cache, the rows of z in the second
_LONG, _INT = ir.IntType(64), ir.IntType(32)


@intrinsic
def _dots(typing: Any, P: Any, Z: Any, c: Any, width: Any, out: Any) -> Any:
    """Write Σ_n P[i, n] Z[c + j, n], n < width, into out[3 i + j] for i < 4 and j < 3; width a multiple of 32 bytes."""
    signature = types.void(P, Z, types.int64, types.int64, out)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        bits = signature.args[0].dtype.bitwidth
        scalar = ir.FloatType() if bits == 32 else ir.DoubleType()
        lanes = 8 * _BYTES // bits
        vector = ir.VectorType(scalar, lanes)
        P, Z, c, width, out = (
            context.make_array(kind)(context, builder, value) if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, args, strict=True)
        )

        def row(array: Any, number: Any) -> Any:
            stride = builder.sdiv(builder.extract_value(array.strides, 0), ir.Constant(_LONG, bits // 8))
            return builder.gep(array.data, [builder.mul(number, stride)])

        def load(start: Any, n: Any) -> Any:
            return builder.load(builder.bitcast(builder.gep(start, [n]), vector.as_pointer()), align=bits // 8)

        zero = ir.Constant(vector, [0.0] * lanes)
        sums = [cgutils.alloca_once_value(builder, zero) for _ in range(_A * _C)]
        p_rows = [row(P, ir.Constant(_LONG, i)) for i in range(_A)]
        z_rows = [row(Z, builder.add(c, ir.Constant(_LONG, j))) for j in range(_C)]
        with cgutils.for_range_slice(builder, ir.Constant(_LONG, 0), width, ir.Constant(_LONG, lanes)) as (n, _):
            z = [load(start, n) for start in z_rows]
            for i, start in enumerate(p_rows):
                p = load(start, n)
                for j in range(_C):
                    place = sums[_C * i + j]
                    # "contract": a fused multiply-add where the machine has one
                    product = builder.fmul(p, z[j], flags=("contract",))
                    builder.store(builder.fadd(builder.load(place), product, flags=("contract",)), place)
        for number, place in enumerate(sums):
            total = builder.load(place)
            half = lanes
            while half > 1:  # halves are added to halves: always in this order
                half //= 2
                low = ir.Constant(ir.VectorType(_INT, half), list(range(half)))
                high = ir.Constant(ir.VectorType(_INT, half), list(range(half, 2 * half)))
                total = builder.fadd(
                    builder.shuffle_vector(total, total, low), builder.shuffle_vector(total, total, high)
                )
            scalar_total = builder.extract_element(total, ir.Constant(_INT, 0))
            builder.store(scalar_total, builder.gep(out.data, [ir.Constant(_LONG, number)]))

    return signature, generate


@njit(cache=True, nogil=True)
def _multiply(x: Array, y: Array, out: Array) -> None:
    for n in range(x.shape[0]):
        out[n] = x[n] * y[n]


@njit(cache=True, nogil=True)
def _multiply_add(x: Array, y: Array, out: Array) -> None:
    for n in range(x.shape[0]):
        out[n] += x[n] * y[n]


@njit(cache=True, nogil=True)
def add_triples(packed: Array, xs: tuple[Array, ...], ys: tuple[Array, ...], z: Array, K: int) -> None:
    """Add Σ_n (Σ_i x_an y_bn) z_cn, i running over the pairs of x and y, to `packed` for a <= b <= c < K.

    All arrays are contiguous, of one precision, of K + 2 rows, the last two of them zeros, and of a number of columns
    that is a multiple of 8. Within chunks of columns sums are in that precision, beyond in double.
    """
    P = np.zeros((_A, CHUNK), dtype=z.dtype)
    sums = np.empty(_A * _C, dtype=z.dtype)
    for start in range(0, z.shape[1], CHUNK):
        end = min(start + CHUNK, z.shape[1])
        z_chunk = z[:, start:end].copy()  # side by side: fewer pages to look up
        offset = 0
        for b in range(K):
            for first in range(0, b + 1, _A):
                rows = min(_A, b + 1 - first)
                for i in range(rows):
                    _multiply(xs[0][first + i, start:end], ys[0][b, start:end], P[i])
                    for f in range(1, len(xs)):
                        _multiply_add(xs[f][first + i, start:end], ys[f][b, start:end], P[i])
                for c in range(b, K, _C):
                    _dots(P, z_chunk, c, end - start, sums)
                    for i in range(rows):
                        place = offset + (first + i) * (K - b) + c - b
                        for j in range(min(_C, K - c)):
                            packed[place + j] += sums[_C * i + j]
            offset += (b + 1) * (K - b)
