"""Columns of a table as what they are."""

import numpy as np
import pandas as pd


def is_numeric(column: pd.Series) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column.dtype))


def is_text(column: pd.Series) -> bool:
    return (
        not is_numeric(column)
        and column.dtype.kind not in "mM"
        and not isinstance(column.dtype, pd.DatetimeTZDtype)
    )


def numbers_of(column: pd.Series) -> np.ndarray:
    if not is_numeric(column):
        return np.full(len(column), np.nan)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)
