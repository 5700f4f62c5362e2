"""Whether an engine can do more than sums: keep a state for each block."""

from __future__ import annotations

from typing import Any


def check_keeps_states(engine: Any, methods: tuple[str, ...], purpose: str, cure: str) -> None:
    """Raise a ValueError if an engine lacks methods that something needs: call it before any long work."""
    if not all(hasattr(engine, name) for name in methods):
        names = f"method{'s' * (len(methods) > 1)} {' and '.join(methods)}"
        raise ValueError(f"{engine!r} has no {names}, which {purpose}: {cure}")
