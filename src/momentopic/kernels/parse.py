"""Numbers from text, at the speed of the memory rather than of an interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]

_SPACE, _TAB, _RETURN, _NEWLINE, _MINUS, _COLON, _ZERO, _NINE = (ord(c) for c in " \t\r\n-:09")
_MOST = 1 << 60


@njit(cache=True, nogil=True)
def integer_lines(text: Array, out: Array) -> tuple[int, int]:
    """Read lines of whole numbers, as many to a line as `out` has columns; blank lines are passed over.

    Parameters
    ----------
    text : uint8 array
        Whole lines.
    out : int64 array of shape (lines, columns)

    Returns
    -------
    int
        The lines read.
    int
        The number, from 0, of the first line that is not of that form; -1 where there is none.
    """
    n, column, line = 0, 0, 0
    value, sign, inside = 0, 1, False
    columns = out.shape[1]
    for i in range(text.shape[0] + 1):
        byte = int(text[i]) if i < text.shape[0] else _NEWLINE
        if _ZERO <= byte <= _NINE:
            if column == columns or value > _MOST // 10:
                return n, line
            value = 10 * value + byte - _ZERO
            inside = True
        elif byte == _MINUS and not inside and sign == 1:
            sign = -1
        elif byte in (_SPACE, _TAB, _RETURN, _NEWLINE):
            if inside:
                out[n, column] = sign * value
                column += 1
            elif sign == -1:
                return n, line
            value, sign, inside = 0, 1, False
            if byte == _NEWLINE:
                if column == columns:
                    n += 1
                elif column > 0:
                    return n, line
                column = 0
                line += 1
        else:
            return n, line
    return n, -1


@njit(cache=True, nogil=True)
def pair_lines(text: Array, ends: Array, out: Array) -> tuple[int, int]:
    """Read lines "n word:count ... word:count" with n pairs; blank lines are passed over.

    Parameters
    ----------
    text : uint8 array
        Whole lines.
    ends : int64 array of shape (lines + 1,)
        Where the pairs of each line end, after a 0.
    out : int64 array of shape (pairs + 1, 2)

    Returns
    -------
    int
        The lines read.
    int
        The number, from 0, of the first line that is not of that form; -1 where there is none.
    """
    n_lines, line = 0, 0
    column, announced = 0, 0  # of a line: how many numbers it has had, and the first of them
    value, sign, inside = 0, 1, False
    ends[0] = 0
    for i in range(text.shape[0] + 1):
        byte = int(text[i]) if i < text.shape[0] else _NEWLINE
        if _ZERO <= byte <= _NINE and value <= _MOST // 10:
            value = 10 * value + byte - _ZERO
            inside = True
        elif byte == _MINUS and not inside and sign == 1:
            sign = -1
        elif byte in (_SPACE, _TAB, _RETURN, _NEWLINE, _COLON):
            # a colon ends the words, which are the second, fourth, ... number, and nothing else; a count follows it
            if (byte == _COLON) != (inside and column % 2 == 1):
                return n_lines, line
            if not inside and (sign == -1 or (column > 0 and column % 2 == 0)):
                return n_lines, line
            if inside and column == 0:
                announced = sign * value
            elif inside:
                out[ends[n_lines] + (column - 1) // 2, (column - 1) % 2] = sign * value
            column += inside
            value, sign, inside = 0, 1, False
            if byte == _NEWLINE:
                if column > 0:
                    if column != 1 + 2 * announced:
                        return n_lines, line
                    n_lines += 1
                    ends[n_lines] = ends[n_lines - 1] + announced
                column = 0
                line += 1
        else:
            return n_lines, line
    return n_lines, -1
