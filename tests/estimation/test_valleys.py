"""Second minima in valleys of numbers that replace each other."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import fim_dynsys
from fim_dynsys.errors import DataWarning

SEIR = {"S": "-b*S*I/N", "E": "b*S*I/N - s*E", "I": "s*E - g*I"}
T = np.arange(0.0, 101.0, 2.0)


def infected(b, s, g):
    def rates(_, y):
        return [-b * y[0] * y[2] / 1e5, b * y[0] * y[2] / 1e5 - s * y[1], s * y[1] - g * y[2]]

    return solve_ivp(rates, (0.0, 100.0), [99990.0, 0.0, 10.0], "LSODA", T, rtol=1e-9, atol=1e-9).y[2]


@pytest.mark.parametrize("seed", [4, 13])
def test_latent_and_infectious_periods_that_change_places(seed):
    """Reported cases of an epidemic fit with s near .21 and near .35; only the former, worse one came."""
    counts = np.random.default_rng(seed).poisson(0.3 * infected(0.6, 0.25, 0.2)).astype(float)
    start = {"S": 99990, "E": 0, "I": 10}
    model = fim_dynsys.load("equations", expressions=SEIR, fixed={"N": 1e5}, initial=start)
    with pytest.warns(DataWarning, match=r"another minimum fits about as well: .* s = 0\.2"):
        model.fit(counts, T, observed=["rho*I"], sigma="poisson")

    def deviances(logs):
        b, s, g, rho = np.exp(logs)
        mean = np.maximum(rho * infected(b, s, g), 1e-12)
        ratios = np.where(counts > 0, np.maximum(counts, 1e-300) / mean, 1.0)
        return np.sqrt(2.0 * np.maximum(mean - counts + counts * np.log(ratios), 0.0))

    least = least_squares(deviances, np.log([0.52, 0.35, 0.195, 0.3]), max_nfev=30).cost
    estimates = [model.parameters_[name] for name in ("b", "s", "g", "rho")]
    assert 0.5 * np.sum(deviances(np.log(estimates)) ** 2) < least + 0.05
