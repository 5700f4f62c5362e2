"""A fitted model as one HTML file that needs no network: `write_report`."""

from __future__ import annotations

from momentopic.report.data import prepare
from momentopic.report.page import render, write_report

__all__ = ["prepare", "render", "write_report"]
