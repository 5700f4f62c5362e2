"""The body of a message: without its headers, what it quotes, and its signature."""

from __future__ import annotations

import re

_HEADER = re.compile(r"[A-Za-z][\w.-]*:(\s|$)|[ \t]")  # a field, or the continuation of one
_QUOTED = re.compile(r"\s*[>|:}]|\s*[A-Za-z]{1,4}>")  # also with the initials of who is quoted
_ATTRIBUTION = re.compile(
    r"\s*(in article\b|on .{0,120}\bwrote\b|.{0,200}\b(writes|wrote|said|says)\s*:\s*$)"
    r"|.{0,200}<[^<>@\s]+@[^<>@\s]+>.{0,60}\bwr(ites|ote)\b",
    re.IGNORECASE,
)
_SIGNATURE = re.compile(r"\s*(--+|__+|==+|\*\*\*+|~~+)\s*$|-- ")
_LONGEST_SIGNATURE = 12  # lines: what follows a rule and is longer is a part of the message


def message_body(text: str) -> str:
    """Return the text of a mail or news message without headers, quotations and signature.

    Parameters
    ----------
    text : str
        A message. A text that does not begin with header fields keeps its beginning.
    """
    lines = _without_header(text.splitlines())
    lines = [line for line in lines if not _QUOTED.match(line) and not _ATTRIBUTION.match(line)]
    return "\n".join(_without_signature(lines)).strip()


def _without_header(lines: list[str]) -> list[str]:
    for n, line in enumerate(lines):
        if not line.strip():
            return lines[n + 1 :] if n else lines
        if not _HEADER.match(line) or (n == 0 and line[0] in " \t"):
            return lines
    return lines


def _without_signature(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    for n in range(end - 1, max(end - 1 - _LONGEST_SIGNATURE, 0), -1):
        if _SIGNATURE.match(lines[n]):
            return lines[:n]
    return lines[:end]
