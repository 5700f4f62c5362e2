"""The `momentopic` command."""

from __future__ import annotations

from momentopic.cli.app import app, main

__all__ = ["app", "main"]
