"""The topic at which a sum of responsibilities passes a random number, for the tokens of a word."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types

from momentopic.kernels.lanes import LANES, TILE, ZERO, cgutils, intrinsic, running_sums
from momentopic.kernels.tiles import LONG, pieces

Array = np.ndarray[Any, Any]

_NOTHING = np.float32(0)
_ROUNDING = 2.0**-23  # times the topics: more than sums in two orders can differ by


@intrinsic
def add_up(typing: Any, row: Any, sums: Any) -> Any:
    """Write the sums of a row up to each topic.

    Parameters
    ----------
    row, sums : float32 arrays, contiguous, of one length that is a multiple of LANES
    """
    signature = types.void(row, sums)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row, sums = pieces(context, builder, signature, args)
        before = cgutils.alloca_once_value(builder, ZERO)
        last = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [LANES - 1] * LANES)
        zero, step = ir.Constant(LONG, 0), ir.Constant(LONG, LANES)
        with cgutils.for_range_slice(builder, zero, builder.extract_value(row.shape, 0), step) as (place, _):
            (ends,) = running_sums(builder, [TILE.load(builder, row.data, place)])
            ends = builder.fadd(ends, builder.load(before))
            TILE.store(builder, ends, sums.data, place)
            builder.store(builder.shuffle_vector(ends, ends, last), before)

    return signature, generate


@intrinsic
def count_passed(typing: Any, sums: Any, u: Any, close: Any) -> Any:
    """Return how many of the sums are at most u; -1 if one of them is so close to it that rounding may decide.

    Parameters
    ----------
    sums : float32 array, contiguous, of a multiple of LANES
    u, close : float32
    """
    signature = types.int64(sums, types.float32, types.float32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sums, u, close = pieces(context, builder, signature, args)
        number, limit = TILE.broadcast(builder, u), TILE.broadcast(builder, close)
        opposite = builder.fsub(ZERO, limit)
        passed = cgutils.alloca_once_value(builder, ir.Constant(LONG, 0))
        near = cgutils.alloca_once_value(builder, ir.Constant(ir.IntType(LANES), 0))
        zero, step = ir.Constant(LONG, 0), ir.Constant(LONG, LANES)
        with cgutils.for_range_slice(builder, zero, builder.extract_value(sums.shape, 0), step) as (place, _):
            beyond = builder.fsub(TILE.load(builder, sums.data, place), number)
            at_most = builder.bitcast(builder.fcmp_ordered("<=", beyond, ZERO), ir.IntType(LANES))
            count = builder.ctpop(builder.zext(at_most, LONG))
            builder.store(builder.add(builder.load(passed), count), passed)
            inside = builder.and_(builder.fcmp_ordered("<", beyond, limit), builder.fcmp_ordered(">", beyond, opposite))
            builder.store(builder.or_(builder.load(near), builder.bitcast(inside, ir.IntType(LANES))), near)
        certain = builder.icmp_unsigned("==", builder.load(near), ir.Constant(ir.IntType(LANES), 0))
        return builder.select(certain, builder.load(passed), ir.Constant(LONG, -1))

    return signature, generate


@njit(cache=True, nogil=True)
def choose(row: Array, sums: Array, u: Any) -> int:
    """Return the topic at which the sum of a row, of which `sums` has the sums up to each topic, passes u."""
    new = count_passed(sums, u, np.float32(row.shape[0] * _ROUNDING))
    return new if 0 <= new < row.shape[0] else one_after_the_other(row, u)


@njit(cache=True, nogil=True)
def one_after_the_other(row: Array, u: Any) -> int:
    """Do the same in the order of the topics, which decides what rounding does; the last possible one if none does."""
    new = 0
    for k in range(row.shape[0]):
        if row[k] > _NOTHING:
            new = k
            u -= row[k]
            if u < _NOTHING:
                break
    return new
