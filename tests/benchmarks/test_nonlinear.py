"""The benchmark of cascaded tanks: reading its table, and a model from record to score."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.harness.rows import ModelRow
from benchmarks.nonlinear import __main__ as nonlinear


def test_a_table_without_its_columns_is_refused(tmp_path):
    pd.DataFrame({"uEst": [1.0], "yEst": [1.0]}).to_csv(tmp_path / "tanks.csv", index=False)
    with pytest.raises(ValueError, match=r"tanks\.csv: expected columns .* got none of .*uVal.*yVal"):
        nonlinear.read(tmp_path / "tanks.csv")


def test_a_driven_oscillator_is_simulated_from_a_start_that_the_first_samples_determine():
    """Held inputs and exact levels of y'' = -0.004 y - 0.1 y' + 0.008 u, whose steps are solved exactly."""
    from scipy.linalg import expm

    a = np.zeros((3, 3))
    a[0, 1], a[1] = 1.0, (-0.004, -0.1, 0.008)
    move = expm(nonlinear.STEP * a)
    columns = []
    for seed in (0, 1):
        u = np.repeat(np.random.default_rng(seed).uniform(0.0, 5.0, 20), 10)
        state, levels = np.array([3.0, 0.0]), []
        for held in u:
            levels.append(state[0])
            state = move[:2] @ np.append(state, held)
        columns += [u, np.array(levels)]
    found = nonlinear.evaluate(
        ModelRow.resolve("sindy-strong"), nonlinear.Record("made"), np.column_stack(columns)
    )
    assert found["status"] == "SUCCESS" and found["rmse"] < 0.02


def test_equations_of_tanks_are_fitted_with_a_hidden_one():
    t = nonlinear.STEP * np.arange(50.0)
    u, y = 2.0 + np.sin(t / 30.0), 5.0 + np.sin(t / 30.0 - 1.0)
    found = nonlinear.evaluate(
        ModelRow.resolve("equations"), nonlinear.Record("made"), np.column_stack([u, y, u, y])
    )
    assert found["status"] == "SUCCESS" and found["rmse"] < 0.2


def test_failures_are_printed():
    trials = pd.DataFrame({"model": ["m"], "rmse": [np.inf], "trust": [""], "seconds": [1.0]})
    assert "inf" in nonlinear.text(trials)
