"""Fields that follow their data, yet leave more than noise."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys.errors import DataWarning, FitWarning
from fim_dynsys.fields.inference import Inference


def driven(size, noise=0.01):
    """A damped oscillator under a weak drive that is not given, and its times."""
    t = np.linspace(0.0, 60.0, 300)
    x = solve_ivp(
        lambda s, x: [x[1], -x[0] - 0.1 * x[1] + size * np.cos(2.5 * s)],
        (0, 60),
        [1.0, 0.0],
        t_eval=t,
        rtol=1e-8,
        atol=1e-10,
    ).y.T
    return x + noise * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape), t


@pytest.mark.parametrize("name", ["fim-ode", "auto"])
def test_a_weak_drive_that_was_not_given_is_noticed(name, tmp_path):
    """It takes a tenth of the spread: too little to fail, nine times the noise."""
    with pytest.warns(FitWarning, match="lacks something, such as a term, a state or a drive in time"):
        model = fim_dynsys.load(name).fit(*driven(0.1))
    facts = model.field_.fit_info.inference
    assert facts.beyond_noise > 5.0 and model.field_.fit_info.problems == ()
    assert Inference.of_entries(facts.entries()).beyond_noise == facts.beyond_noise
    again = fim_dynsys.load_fitted(model.save(tmp_path / "kept"))
    assert again.field_.fit_info.inference.beyond_noise == facts.beyond_noise


def test_noise_alone_is_not():
    model = fim_dynsys.load("fim-ode").fit(*driven(0.0))
    assert model.field_.fit_info.inference.beyond_noise is None


def test_errors_that_were_given_are_named_instead(recwarn):
    x, t = driven(0.1)
    fim_dynsys.load("fim-ode").fit(x, t, sigma=0.01 * x.std(axis=0))
    said = [str(w.message) for w in recwarn if "times the" in str(w.message)]
    assert len(said) == 1 and "times the errors that sigma gives" in said[0]


def test_windows_across_spikes_do_not_make_given_errors_too_small():
    """FitzHugh and Nagumo's spikes, 80 samples with their true errors: windows left 2.5 times, paths 0.95."""
    field = fim_dynsys.SymbolicField(
        ["x - x**3/3 - y + 0.5", "0.08*(x + 0.7 - 0.8*y)"], {}, state_names=["x", "y"]
    )
    t = np.linspace(0.0, 100.0, 80)
    states = fim_dynsys.simulate(field, [-1.0, 1.0], t, rtol=1e-9).x[0]
    sigma = 0.02 + 0.1 * np.abs(states)
    noisy = states + sigma * np.random.default_rng(0).standard_normal(states.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        fim_dynsys.load("fim-ode").fit(noisy, t, sigma=sigma)
