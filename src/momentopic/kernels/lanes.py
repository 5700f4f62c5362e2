"""Vectors over topics, written as LLVM vectors: loops that the compiler would not turn into them by itself.

The order of every addition is fixed here, so the bits depend neither on where arrays lie nor on the width of the
machine's vectors (but `renew_tokens` multiplies and adds in one step, where the machine can).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import extending, types
from numba.core import cgutils as untyped_cgutils

from momentopic.kernels.tiles import Tile, pieces, prefetch_line

# numba's types for these are of no use to a caller
intrinsic: Any = extending.intrinsic
cgutils: Any = untyped_cgutils

LANES = 16
_FLOAT = ir.FloatType()
_VECTOR = ir.VectorType(_FLOAT, LANES)
_TILE = Tile(types.float32, 4 * LANES)
_LINE = 16  # floats in a cache line
_AHEAD = 4  # entries of a document: the row of a word is asked for that early
IN_REGISTERS = 8 * LANES  # topics, of three vectors that a processor with 32 registers of this width can hold


def padded_length(n_topics: int) -> int:
    """Return the length that arrays over topics are padded to: the next multiple of LANES."""
    return -(-n_topics // LANES) * LANES


def _row(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value)


def _load(builder: Any, data: Any, offset: Any) -> Any:
    return builder.load(builder.bitcast(builder.gep(data, [offset]), _VECTOR.as_pointer()), align=4)


def _store(builder: Any, vector: Any, data: Any, offset: Any) -> None:
    builder.store(vector, builder.bitcast(builder.gep(data, [offset]), _VECTOR.as_pointer()), align=4)


def _broadcast(builder: Any, value: Any) -> Any:
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _tree_sum(builder: Any, vector: Any) -> Any:
    """Return the sum of a vector: halves added to each other until one number is left."""
    width = LANES
    while width > 1:
        width //= 2
        index = ir.VectorType(ir.IntType(32), width)
        low, high = (ir.Constant(index, list(range(first, first + width))) for first in (0, width))
        vector = builder.fadd(builder.shuffle_vector(vector, vector, low), builder.shuffle_vector(vector, vector, high))
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def _pairwise_sum(builder: Any, vectors: list[Any]) -> Any:
    """Return the sum of some vectors: neighbours added to each other until one is left."""
    while len(vectors) > 1:
        last = vectors[len(vectors) - len(vectors) % 2 :]
        pairs = zip(vectors[::2], vectors[1::2], strict=False)
        vectors = [builder.fadd(a, b) for a, b in pairs] + last
    return vectors[0]


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


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
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        smoothing = _broadcast(builder, args[2])
        total = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range(builder, builder.udiv(length, ir.Constant(length.type, LANES))) as loop:
            offset = builder.mul(loop.index, ir.Constant(length.type, LANES))
            smoothed = builder.fadd(_load(builder, counts.data, offset), smoothing)
            product = builder.fmul(_load(builder, weights.data, offset), smoothed)
            builder.store(builder.fadd(builder.load(total), product), total)
        result = builder.load(total)
        builder.store(result, builder.bitcast(out.data, _VECTOR.as_pointer()), align=4)
        return _tree_sum(builder, result)

    return signature, generate


def _is_lane(builder: Any, lane: Any) -> Any:
    """Return a vector of bits of which only that of a lane is set."""
    index = ir.VectorType(lane.type, LANES)
    first = builder.insert_element(ir.Constant(index, ir.Undefined), lane, ir.Constant(ir.IntType(32), 0))
    wanted = builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))
    return builder.icmp_unsigned("==", ir.Constant(index, list(range(LANES))), wanted)


def _only(builder: Any, lane: Any, value: Any) -> Any:
    """Return a vector that has `value` in a lane and zeros elsewhere."""
    return builder.select(_is_lane(builder, lane), _broadcast(builder, value), ir.Constant(_VECTOR, [0.0] * LANES))


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
        vector = builder.fadd(_load(builder, array.data, start), _only(builder, lane, args[2]))
        _store(builder, vector, array.data, start)

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
        vector = builder.select(here, _broadcast(builder, args[2]), _load(builder, array.data, start))
        _store(builder, vector, array.data, start)

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
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        number = ir.IntType(32)
        ends = _load(builder, values.data, ir.Constant(ir.IntType(64), 0))
        ends = builder.fsub(ends, _only(builder, args[1], args[2]))
        shift = 1
        while shift < LANES:
            # each lane takes in the one `shift` before it, if there is one
            source = [i - shift if i >= shift else LANES for i in range(LANES)]
            index = ir.Constant(ir.VectorType(number, LANES), source)
            ends = builder.fadd(ends, builder.shuffle_vector(ends, zero, index))
            shift *= 2
        one = builder.gep(out.data, [ir.Constant(ir.IntType(64), 1)])
        builder.store(ends, builder.bitcast(one, _VECTOR.as_pointer()), align=4)
        builder.store(ir.Constant(_FLOAT, 0.0), out.data)
        below = builder.fcmp_ordered("<=", ends, _broadcast(builder, args[3]))
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
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        total = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range(builder, n_vectors) as loop:
            offset = builder.mul(loop.index, ir.Constant(length.type, LANES))
            p, c, given, own = (_load(builder, data[i], offset) for i in (0, 1, 2, 3))
            left = _larger(builder, builder.fsub(given, own), zero)
            fresh = builder.fmul(p, builder.fadd(left, c))
            _store(builder, fresh, data[7], offset)
            builder.store(builder.fadd(builder.load(total), fresh), total)
        whole = _tree_sum(builder, builder.load(total))
        nothing = ir.Constant(_FLOAT, 0.0)
        with builder.if_then(builder.fcmp_ordered(">", whole, nothing)):
            scale = _broadcast(builder, builder.fdiv(ir.Constant(_FLOAT, 1.0), whole))
            tokens, relax = _broadcast(builder, args[4]), _broadcast(builder, args[5])
            with cgutils.for_range(builder, n_vectors) as loop:
                offset = builder.mul(loop.index, ir.Constant(length.type, LANES))
                fresh, own, n = (_load(builder, data[i], offset) for i in (7, 3, 6))
                way = builder.fsub(builder.fmul(fresh, scale), own)
                fresh = builder.fadd(own, builder.fmul(relax, way))
                fresh = _larger(builder, fresh, zero)
                _store(builder, fresh, data[3], offset)
                step = builder.fmul(tokens, builder.fsub(fresh, own))
                _store(builder, builder.fadd(n, step), data[6], offset)
        return whole

    return signature, generate


@intrinsic
def renew_tokens(typing: Any, words: Any, counts: Any, phi: Any, c: Any, relax: Any, G: Any, n: Any) -> Any:
    """Do what `reassign` does, for the words of a document one after the other and at most IN_REGISTERS topics.

    The counts of the document stay in registers from the first word to the last.

    Parameters
    ----------
    words, counts : arrays of shape (entries,)
    phi : float32 array of shape (M, K)
    c, n : float32 arrays of shape (K,)
    relax : float32
    G : float32 array of shape (entries, K)
        Responsibilities.
    """
    signature = types.void(words, counts, phi, c, types.float32, G, n)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        words, counts, phi, c, relax, G, n = pieces(context, builder, signature, args)
        width = builder.extract_value(c.shape, 0)
        zero, nothing = ir.Constant(_VECTOR, [0.0] * LANES), ir.Constant(_FLOAT, 0.0)
        rest = _broadcast(builder, builder.fsub(ir.Constant(_FLOAT, 1.0), relax))
        starts = [ir.Constant(width.type, first) for first in range(0, IN_REGISTERS, LANES)]
        last = builder.sub(builder.extract_value(words.shape, 0), ir.Constant(width.type, 1))

        def row_of(entry: Any) -> Any:
            word = builder.sext(builder.load(builder.gep(words.data, [entry])), width.type)
            return builder.gep(phi.data, [builder.mul(word, width)])

        def renew(entry: Any, sums: list[Any]) -> None:
            ahead = builder.add(entry, ir.Constant(width.type, _AHEAD))
            ahead = builder.select(builder.icmp_signed("<", ahead, last), ahead, last)
            for start in starts[: len(sums)]:
                prefetch_line(builder, builder.gep(row_of(ahead), [start]), write=False)
            row, place = row_of(entry), builder.gep(G.data, [builder.mul(entry, width)])
            tokens = _broadcast(builder, _TILE.number(builder, builder.load(builder.gep(counts.data, [entry]))))
            own = [_load(builder, place, start) for start in starts[: len(sums)]]
            fresh = []
            for total, start, g in zip(sums, starts, own, strict=False):
                left = _larger(builder, builder.fsub(builder.load(total), g), zero)
                left = builder.fadd(left, _load(builder, c.data, start))
                fresh.append(builder.fmul(_load(builder, row, start), left))
            whole = _tree_sum(builder, _pairwise_sum(builder, fresh))
            possible = builder.fcmp_ordered(">", whole, nothing)
            scale = _broadcast(builder, builder.select(possible, builder.fdiv(relax, whole), nothing))
            for total, start, g, f in zip(sums, starts, own, fresh, strict=False):
                new = _larger(builder, _TILE.add_product(builder, builder.fmul(g, rest), f, scale), zero)
                _store(builder, new, place, start)
                builder.store(_TILE.add_product(builder, builder.load(total), tokens, builder.fsub(new, g)), total)

        # a loop for each number of vectors: registers cannot be counted through
        for length in range(LANES, IN_REGISTERS + 1, LANES):
            with builder.if_then(builder.icmp_signed("==", width, ir.Constant(width.type, length))):
                places = starts[: length // LANES]
                sums = [cgutils.alloca_once_value(builder, _load(builder, n.data, start)) for start in places]
                with cgutils.for_range(builder, builder.extract_value(words.shape, 0)) as loop:
                    renew(loop.index, sums)
                for start, total in zip(places, sums, strict=True):
                    _store(builder, builder.load(total), n.data, start)

    return signature, generate


@intrinsic
def exchange(
    typing: Any, f: Any, n: Any, own: Any, eta: Any, alpha: Any, scale: Any, x: Any, change: Any, g: Any
) -> Any:
    """Give x tokens of a word new responsibilities, each left out of the counts; all counts follow at once.

    own_k ∝ (max(f_k - own_k, 0) + eta) (max(n_k - own_k, 0) + alpha_k) scale_k. Returns Σ_k |change of own_k|.

    Parameters
    ----------
    f, n, own, alpha, scale, change, g : float32 arrays, contiguous, of one length that is a multiple of LANES
        The counts of the word and of the document, the responsibilities, the prior, the inverse totals of the topics,
        what their totals change by, and scratch space.
    eta, x : float32
    """
    signature = types.float32(f, n, own, eta, alpha, scale, x, change, g)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        arrays = {i: _row(context, builder, signature.args[i], args[i]) for i in (0, 1, 2, 4, 5, 7, 8)}
        length = builder.extract_value(arrays[0].shape, 0)
        data = {i: array.data for i, array in arrays.items()}
        n_vectors = builder.udiv(length, ir.Constant(length.type, LANES))
        zero = ir.Constant(_VECTOR, [0.0] * LANES)
        smoothing, tokens = _broadcast(builder, args[3]), _broadcast(builder, args[6])

        def without(counts: Any, own: Any) -> Any:
            return _larger(builder, builder.fsub(counts, own), zero)

        total = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range(builder, n_vectors) as loop:
            offset = builder.mul(loop.index, ir.Constant(length.type, LANES))
            f, n, own, alpha, scale = (_load(builder, data[i], offset) for i in (0, 1, 2, 4, 5))
            fresh = builder.fmul(
                builder.fmul(
                    builder.fadd(without(f, own), smoothing),
                    builder.fadd(without(n, own), alpha),
                ),
                scale,
            )
            _store(builder, fresh, data[8], offset)
            builder.store(builder.fadd(builder.load(total), fresh), total)
        whole = _tree_sum(builder, builder.load(total))
        inverse = _broadcast(builder, builder.fdiv(ir.Constant(_FLOAT, 1.0), whole))
        moved = cgutils.alloca_once_value(builder, zero)
        with cgutils.for_range(builder, n_vectors) as loop:
            offset = builder.mul(loop.index, ir.Constant(length.type, LANES))
            fresh = builder.fmul(_load(builder, data[8], offset), inverse)
            step = builder.fsub(fresh, _load(builder, data[2], offset))
            _store(builder, fresh, data[2], offset)
            added = builder.fmul(tokens, step)
            for i in (0, 1, 7):
                _store(builder, builder.fadd(_load(builder, data[i], offset), added), data[i], offset)
            size = builder.select(builder.fcmp_ordered("<", step, zero), builder.fsub(zero, step), step)
            builder.store(builder.fadd(builder.load(moved), size), moved)
        return _tree_sum(builder, builder.load(moved))

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
