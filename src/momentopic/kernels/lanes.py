"""Vectors over topics, written as LLVM vectors: loops that the compiler would not turn into them by itself.

The order of every addition is fixed here, so the bits depend neither on where arrays lie nor on the width of the
machine's vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils as untyped_cgutils

from momentopic.kernels.tiles import Tile, prefetch_line

# numba's types for these are of no use to a caller
intrinsic: Any = extending.intrinsic
cgutils: Any = untyped_cgutils

LANES = 16
TILE = Tile(types.float32, 4 * LANES)
FLOAT, ZERO = TILE.scalar, TILE.zero()
_LINE = 16  # floats in a cache line


def padded_length(n_topics: int) -> int:
    """Return the length that arrays over topics are padded to: the next multiple of LANES."""
    return -(-n_topics // LANES) * LANES


def zeros_in_lines(n: int, width: int) -> Any:
    """Return a float32 array of n rows, each of which begins with a cache line, as vectors are read fastest."""
    space = np.zeros(n * width + _LINE, dtype=np.float32)
    first = -(space.ctypes.data // space.itemsize) % _LINE
    return space[first : first + n * width].reshape((n, width))


def _row(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value)


def tree_sum(builder: Any, vector: Any) -> Any:
    """Return the sum of a vector: halves added to each other until one number is left."""
    width = LANES
    while width > 1:
        width //= 2
        index = ir.VectorType(ir.IntType(32), width)
        low, high = (ir.Constant(index, list(range(first, first + width))) for first in (0, width))
        vector = builder.fadd(builder.shuffle_vector(vector, vector, low), builder.shuffle_vector(vector, vector, high))
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def pairwise_sum(builder: Any, vectors: list[Any]) -> Any:
    """Return the sum of some vectors: neighbours added to each other until one is left."""
    while len(vectors) > 1:
        last = vectors[len(vectors) - len(vectors) % 2 :]
        pairs = zip(vectors[::2], vectors[1::2], strict=False)
        vectors = [builder.fadd(a, b) for a, b in pairs] + last
    return vectors[0]


def _multiply_add(builder: Any, a: Any, b: Any, total: Any) -> Any:
    """Return total + a b, in one step where the machine can."""
    kind = ir.FunctionType(TILE.vector, [TILE.vector] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fmuladd.v{LANES}f32")
    return builder.call(function, [a, b, total])


def running_sums(builder: Any, vectors: list[Any]) -> list[Any]:
    """Return, for each vector, the sums of its lanes up to each one."""
    shift = 1
    while shift < LANES:
        # each lane takes in the one `shift` before it; those that have none take in nothing of another
        before = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [(i - shift) % LANES for i in range(LANES)])
        some = ir.Constant(TILE.vector, [float(i >= shift) for i in range(LANES)])
        vectors = [_multiply_add(builder, builder.shuffle_vector(v, v, before), some, v) for v in vectors]
        shift *= 2
    return vectors


def larger(builder: Any, a: Any, b: Any) -> Any:
    """Return the larger of two vectors, lane by lane."""
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def without(builder: Any, counts: Any, own: Any) -> Any:
    """Return counts less what a token has of them itself, but no less than 0."""
    return larger(builder, builder.fsub(counts, own), ZERO)


@intrinsic
def weighted_lanes(typing: Any, a: Any, f: Any, eta: Any, lanes: Any) -> Any:
    """Write Σ_b a_{bL+j} (f_{bL+j} + eta) into lanes[j], j < L = LANES, and return the sum of them all.

    Parameters
    ----------
    a, f : float32 arrays, contiguous, of one length that is a multiple of LANES
    eta : float32
    lanes : float32 array of shape (LANES,)
    """
    signature = types.float32(a, f, eta, lanes)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        weights, counts, out = (_row(context, builder, signature.args[i], args[i]) for i in (0, 1, 3))
        length = builder.extract_value(weights.shape, 0)
        smoothing = TILE.broadcast(builder, args[2])
        total = cgutils.alloca_once_value(builder, ZERO)
        with cgutils.for_range(builder, builder.udiv(length, ir.Constant(length.type, LANES))) as loop:
            offset = builder.mul(loop.index, ir.Constant(length.type, LANES))
            smoothed = builder.fadd(TILE.load(builder, counts.data, offset), smoothing)
            product = builder.fmul(TILE.load(builder, weights.data, offset), smoothed)
            builder.store(builder.fadd(builder.load(total), product), total)
        result = builder.load(total)
        builder.store(result, builder.bitcast(out.data, TILE.vector.as_pointer()), align=4)
        return tree_sum(builder, result)

    return signature, generate


@intrinsic
def product(typing: Any, a: Any, b: Any) -> Any:
    """Return Σ_k a_k b_k for float32 rows, contiguous, of one length that is a multiple of LANES."""
    signature = types.float32(a, b)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = (_row(context, builder, kind, value) for kind, value in zip(signature.args, args, strict=True))
        length = builder.extract_value(a.shape, 0)
        first, step = (ir.Constant(length.type, value) for value in (0, LANES))
        total = cgutils.alloca_once_value(builder, ZERO)
        with cgutils.for_range_slice(builder, first, length, step) as (place, _):
            x, y = (TILE.load(builder, each.data, place) for each in (a, b))
            builder.store(_multiply_add(builder, x, y, builder.load(total)), total)
        return tree_sum(builder, builder.load(total))

    return signature, generate


def _is_lane(builder: Any, lane: Any) -> Any:
    """Return a vector of bits of which only that of a lane is set."""
    index = ir.VectorType(lane.type, LANES)
    first = builder.insert_element(ir.Constant(index, ir.Undefined), lane, ir.Constant(ir.IntType(32), 0))
    wanted = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
    return builder.icmp_unsigned("==", ir.Constant(index, list(range(LANES))), wanted)


def _only(builder: Any, lane: Any, value: Any) -> Any:
    """Return a vector that has `value` in a lane and zeros elsewhere."""
    return builder.select(_is_lane(builder, lane), TILE.broadcast(builder, value), ZERO)


@intrinsic
def add_at(typing: Any, row: Any, k: Any, value: Any) -> Any:
    """Add `value` to row[k].

    By way of the whole vector that it is in: a vector that is read while a single number of it is still on its way to
    the cache has to wait for it, a vector as such is passed on at once.

    Parameters
    ----------
    row : float32 array, contiguous, of a multiple of LANES
    k : uint32
    value : float32
    """
    signature = types.void(row, types.uint32, types.float32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = _row(context, builder, signature.args[0], args[0])
        lane = builder.and_(args[1], ir.Constant(args[1].type, LANES - 1))
        start = builder.zext(builder.sub(args[1], lane), ir.IntType(64))
        vector = builder.fadd(TILE.load(builder, array.data, start), _only(builder, lane, args[2]))
        TILE.store(builder, vector, array.data, start)

    return signature, generate


@intrinsic
def put_at(typing: Any, row: Any, k: Any, value: Any) -> Any:
    """Set row[k] to `value`, by way of the whole vector that it is in, as `add_at`."""
    signature = types.void(row, types.uint32, types.float32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = _row(context, builder, signature.args[0], args[0])
        lane = builder.and_(args[1], ir.Constant(args[1].type, LANES - 1))
        start = builder.zext(builder.sub(args[1], lane), ir.IntType(64))
        here = _is_lane(builder, lane)
        vector = builder.select(here, TILE.broadcast(builder, args[2]), TILE.load(builder, array.data, start))
        TILE.store(builder, vector, array.data, start)

    return signature, generate


@intrinsic
def passed_lanes(typing: Any, lanes: Any, lane: Any, held: Any, u: Any, before: Any) -> Any:
    """Write the sum of the lanes before each one into `before`; return how many lanes end at u or before it.

    Without a branch: where a random number falls is what no processor predicts.

    Parameters
    ----------
    lanes, before : float32 arrays of shape (LANES,) and (LANES + 1,)
    lane : uint32
        One of the lanes, of which `held` is taken out.
    held, u : float32
    """
    signature = types.int64(lanes, types.uint32, types.float32, types.float32, before)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values, out = (_row(context, builder, signature.args[i], args[i]) for i in (0, 4))
        ends = TILE.load(builder, values.data, ir.Constant(ir.IntType(64), 0))
        ends = builder.fsub(ends, _only(builder, args[1], args[2]))
        (ends,) = running_sums(builder, [ends])
        one = builder.gep(out.data, [ir.Constant(ir.IntType(64), 1)])
        builder.store(ends, builder.bitcast(one, TILE.vector.as_pointer()), align=4)
        builder.store(ir.Constant(FLOAT, 0.0), out.data)
        below = builder.fcmp_ordered("<=", ends, TILE.broadcast(builder, args[3]))
        mask = builder.bitcast(below, ir.IntType(LANES))
        return builder.ctpop(builder.zext(mask, ir.IntType(64)))

    return signature, generate


@intrinsic
def reassign(typing: Any, p: Any, c: Any, given: Any, own: Any, x: Any, relax: Any, n: Any, g: Any) -> Any:
    """Give x tokens of a word new responsibilities: own_k ∝ p_k (max(given_k - own_k, 0) + c_k); n follows.

    Only a part `relax` of the way there, or, if it is above 1, that much beyond, but never below 0. Where no topic can
    produce the word, nothing changes. Returns the sum before normalisation.

    Parameters
    ----------
    p, c, given, own, n, g : float32 arrays, contiguous, of one length that is a multiple of LANES
        The probability of the word under each topic, the prior, the topic counts of the document as they are to be
        taken, the responsibilities so far, the counts that are kept up to date (may be `given`), and scratch space.
    x, relax : float32
    """
    signature = types.float32(p, c, given, own, types.float32, types.float32, n, g)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = {i: _row(context, builder, signature.args[i], args[i]) for i in (0, 1, 2, 3, 6, 7)}
        length = builder.extract_value(arrays[0].shape, 0)
        data = {i: array.data for i, array in arrays.items()}
        n_vectors = builder.udiv(length, ir.Constant(length.type, LANES))
        total = cgutils.alloca_once_value(builder, ZERO)
        with cgutils.for_range(builder, n_vectors) as loop:
            offset = builder.mul(loop.index, ir.Constant(length.type, LANES))
            p, c, given, own = (TILE.load(builder, data[i], offset) for i in (0, 1, 2, 3))
            left = without(builder, given, own)
            fresh = builder.fmul(p, builder.fadd(left, c))
            TILE.store(builder, fresh, data[7], offset)
            builder.store(builder.fadd(builder.load(total), fresh), total)
        whole = tree_sum(builder, builder.load(total))
        nothing = ir.Constant(FLOAT, 0.0)
        with builder.if_then(builder.fcmp_ordered(">", whole, nothing)):
            scale = TILE.broadcast(builder, builder.fdiv(ir.Constant(FLOAT, 1.0), whole))
            tokens, relax = TILE.broadcast(builder, args[4]), TILE.broadcast(builder, args[5])
            with cgutils.for_range(builder, n_vectors) as loop:
                offset = builder.mul(loop.index, ir.Constant(length.type, LANES))
                fresh, own, n = (TILE.load(builder, data[i], offset) for i in (7, 3, 6))
                way = builder.fsub(builder.fmul(fresh, scale), own)
                fresh = builder.fadd(own, builder.fmul(relax, way))
                fresh = larger(builder, fresh, ZERO)
                TILE.store(builder, fresh, data[3], offset)
                step = builder.fmul(tokens, builder.fsub(fresh, own))
                TILE.store(builder, builder.fadd(n, step), data[6], offset)
        return whole

    return signature, generate


@intrinsic
def prefetch(typing: Any, row: Any) -> Any:
    """Ask for a contiguous float32 row, of a multiple of LANES, to be brought into the cache."""
    signature = types.void(row)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = _row(context, builder, signature.args[0], args[0])
        length = builder.extract_value(array.shape, 0)
        with cgutils.for_range(builder, builder.udiv(length, ir.Constant(length.type, _LINE))) as loop:
            offset = builder.mul(loop.index, ir.Constant(length.type, _LINE))
            prefetch_line(builder, builder.gep(array.data, [offset]), write=False)

    return signature, generate


@intrinsic
def ask_for(typing: Any, array: Any, place: Any) -> Any:
    """Ask for the cache line of array[place]; the array has one dimension."""
    signature = types.void(array, types.int64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = _row(context, builder, signature.args[0], args[0]).data
        prefetch_line(builder, builder.gep(data, [args[1]]), write=False)

    return signature, generate
