"""Columns of a table as what they are."""

import numpy as np
import pandas as pd


def is_text(column: pd.Series) -> bool:
    return (
        not pd.api.types.is_numeric_dtype(column.dtype)
        and column.dtype.kind not in "mM"
        and not isinstance(column.dtype, pd.DatetimeTZDtype)
    )


def numbers_of(column: pd.Series) -> np.ndarray:
    if not pd.api.types.is_numeric_dtype(column.dtype):
        return np.full(len(column), np.nan)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)
