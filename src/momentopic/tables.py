"""Data frames, where pandas is there."""

from __future__ import annotations

from typing import Any

from momentopic.exceptions import MissingPackageError


def data_frame(rows: Any, columns: Any = None) -> Any:
    """Return rows as a pandas DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingPackageError("pandas", "plot", "to make data frames") from error
    return pd.DataFrame(rows, columns=columns)
