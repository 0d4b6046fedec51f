"""What results of fitted models say of their own errors."""

import numpy as np
import pytest

from fim_dynsys import SymbolicField, add_noise, analyze, load, simulate
from fim_dynsys.errors import FitWarning

VAN_DER_POL = SymbolicField(["x1", "(1 - x0**2)*x1 - x0"])
HOLLING = SymbolicField(["x*(1 - x/5) - x*y/(1 + x)", "x*y/(1 + x) - 0.3*y"], state_names=["x", "y"])


@pytest.mark.parametrize("name", ["sindy-strong", "fim-ode"])
def test_cycles_of_few_samples_point_to_their_bands(name):
    data = add_noise(simulate(VAN_DER_POL, [2.0, 0.0], np.linspace(0, 20, 40)), 0.03, rng=0)
    model = load(name).fit(data)
    found = analyze.limit_cycles(model, n_seeds=16)
    assert len(found) and "No standard errors: analyze.cycle_bands(model) gives intervals" in str(found)
    assert "the fit of this field warned" not in str(found) and found.fit_problems == ()
    fixed = str(analyze.fixed_points(model))
    assert "exists" in fixed if name == "fim-ode" else "n_draws=model.ensemble" in fixed


def test_results_of_a_fit_that_warned_say_so_in_one_line():
    model = load("sindy")
    with pytest.warns(FitWarning, match="does not describe the data"):
        model.fit(simulate(HOLLING, [2.0, 1.0], np.linspace(0, 60, 200)))
    for found in (
        analyze.limit_cycles(model, n_seeds=8),
        analyze.fixed_points(model),
        analyze.basins(model, resolution=4, n_sample=8),
        analyze.nullclines(model),
        analyze.manifolds(model),
        analyze.lyapunov(model, [2.0, 1.0], n_pieces=4, precision=0.1, budget=20_000),
    ):
        assert found.fit_problems and found.to_xarray().attrs["fit_problems"]
        lines = [line for line in str(found).splitlines() if "the fit of this field warned" in line]
        assert len(lines) == 1 and "times the noise" in lines[0], type(found).__name__
