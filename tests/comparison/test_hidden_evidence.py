"""Evidence of models with states that nobody observed, and with inputs."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.stats import norm

from fim_dynsys import SymbolicField, Trajectories, evidence, simulate
from fim_dynsys.comparison.closed_forms import log_evidence_of_line
from fim_dynsys.comparison.models import quadrature_check
from fim_dynsys.fields.symbolic import DrivenExpressions
from fim_dynsys.regression.observed import observe

RNG = np.random.default_rng(5)
T = np.linspace(0.0, 3.0, 25)
THROWN = {"x": "v", "v": "a"}
THROWN_PRIORS = {"a": ("normal", 0.0, 2.0), "v(0)": ("normal", 0.0, 1.5), "x(0)": ("normal", 0.0, 3.0)}


def thrown():
    """A body of which only the place was seen, and the evidence of constant acceleration in closed form."""
    y = 0.5 + 1.2 * T - 0.5 * T**2 + 0.1 * RNG.normal(size=len(T))
    design = np.column_stack([0.5 * T**2, T, np.ones_like(T)])
    exact = log_evidence_of_line(design, y, 0.1, 1.0 / np.array([2.0, 1.5, 3.0]) ** 2)
    return Trajectories.from_arrays(y, T, state_names=["x"]), exact


@pytest.mark.parametrize("method", ["laplace", "nested"])
def test_a_velocity_that_nobody_saw_is_integrated_out_in_closed_form(method):
    data, exact = thrown()
    options = {"live_points": 40, "seed": 1, "progress": False} if method == "nested" else {}
    found = evidence({"thrown": THROWN}, data, THROWN_PRIORS, 0.1, method, observed=["x"], **options)
    model = found["thrown"]
    error = 1e-4 if method == "laplace" else 4 * model.error
    assert model.log_evidence == pytest.approx(exact, abs=error)
    assert model.mean["a"] == pytest.approx(-1.0, abs=0.3)
    assert [prior.second for prior in model.start_priors] == [3.0, 1.5]
    tree = model.to_xarray()
    assert list(tree["posterior"]["state"].values) == ["x", "v"]
    velocity = tree["posterior"]["initial_state"].sel(state="v")
    assert float(velocity.mean()) == pytest.approx(1.2, abs=0.3)
    assert tree["observed_data"]["x"].sizes["state"] == 1
    (field,) = model.fields(1)
    assert field.state_names == ("x", "v")
    np.testing.assert_allclose(field([[0.0, 0.7]]), [[0.7, field.parameters["a"]]])


def test_a_hidden_source_agrees_with_sums_over_a_grid():
    t = np.linspace(0.0, 5.0, 20)
    y = 0.3 + 2.0 * (1.0 - np.exp(-0.6 * t)) + 0.08 * RNG.normal(size=20)
    data = Trajectories.from_arrays(y, t, state_names=["x"])
    priors = {"k": ("loguniform", 0.1, 3.0), "h(0)": ("uniform", 0.0, 6.0), "x(0)": ("normal", 0.0, 1.0)}
    model = {"h": "-k*h", "x": "k*h"}
    log_k, h, x0 = np.meshgrid(
        np.linspace(np.log(0.1), np.log(3.0), 121),
        np.linspace(0.0, 6.0, 121),
        np.linspace(-0.2, 0.8, 61),
        indexing="ij",
    )
    weights = observe(data.arrays()).weights[0, :, 0]
    total = norm.logpdf(x0)
    for time_, value, weight in zip(t, y, weights, strict=True):
        path = x0 + h * (1.0 - np.exp(-np.exp(log_k) * time_))
        total = total + norm.logpdf(value, path, 0.08 / np.sqrt(weight))
    # priors are uniform in log k and in h, and the grid of x0 is 1 wide
    exact = total.max() + np.log(np.mean(np.exp(total - total.max())))
    laplaced, found = quadrature_check(model, data, priors, 0.08, nodes=9, observed=["x"])
    assert found == pytest.approx(exact, abs=0.05)
    assert laplaced == pytest.approx(exact, abs=0.5)


def epidemic(expressions, parameters, start, n=60):
    t = np.linspace(0.0, 60.0, n)
    x = simulate(SymbolicField(expressions, parameters), start, t).x[0]
    infected = x[:, -1:]
    noise = 0.03 * infected.std() * np.random.default_rng(0).normal(size=infected.shape)
    return Trajectories.from_arrays(infected + noise, t, state_names=["i"])


SIR = {"s": "-b*s*i", "i": "b*s*i - g*i"}
SIS = {"s": "-b*s*i + g*i", "i": "b*s*i - g*i"}


def test_which_epidemic_it_was_is_seen_from_the_infected_alone():
    data = epidemic(["-b*x0*x1", "b*x0*x1 - g*x1"], {"b": 5e-4, "g": 0.15}, [990.0, 10.0])
    found = evidence({"SIR": SIR, "SIS": SIS}, data, method="laplace", observed=["i"])
    assert found.models[0].name == "SIR"
    assert found.probability[0] > 0.99
    assert found["SIR"].mean["g"] == pytest.approx(0.15, rel=0.1)
    # the default prior of a hidden start is as wide as its path is high, and wider ones are tried too
    spread = found["SIR"].start_priors[0].second
    assert 300.0 < spread < 1000.0
    assert found["SIR"].wide < found["SIR"].log_evidence


def push(t):
    return np.sin(0.7 * t) + 0.5 * np.sin(0.31 * t)


def test_inputs_act_on_the_models():
    t = np.linspace(0.0, 20.0, 80)
    x = solve_ivp(lambda s, x: [x[1], -x[0] - 0.3 * x[1] + push(s)], (0, 20), [1.0, 0.0], t_eval=t, rtol=1e-9)
    y = x.y[0] + 0.05 * np.random.default_rng(0).normal(size=len(t))
    data = Trajectories.from_arrays(y, t, state_names=["x"], u=push(t), input_names=["F"])
    models = {
        "driven": {"x": "v", "v": "-k*x - c*v + h*F"},
        "free": {"x": "v", "v": "-k*x - c*v"},
    }
    found = evidence(models, data, noise=0.05, method="laplace", observed=["x"])
    assert found.models[0].name == "driven"
    for name, value in {"k": 1.0, "c": 0.3, "h": 1.0}.items():
        assert found["driven"].mean[name] == pytest.approx(value, abs=0.05)
    (field,) = found["driven"].fields(1)
    assert isinstance(field, DrivenExpressions)
    assert field.input_names == ("F",)
    with pytest.raises(ValueError, match="no inputs for method 'linear'"):
        evidence(models, data, method="linear", observed=["x"])


@pytest.mark.parametrize(
    ("models", "options", "words"),
    [
        ({"a": SIR}, {}, r"1 right-hand sides, one per state, got 2"),
        ({"a": {"q": "-q"}}, {}, "expressions of the states i, got those of q"),
        ({"a": SIR}, {"observed": "i"}, "observed as a list of 1 different"),
        ({"a": SIR}, {"observed": ["s", "i"]}, "observed as a list of 1 different"),
        ({"a": SIR}, {"observed": ["q"]}, "'q', which holds none"),
        ({"a": SIR}, {"observed": ["i"], "priors": {"r(0)": ("normal", 0, 1)}}, r"got \['r\(0\)'\]"),
        ({"a": SIR}, {"observed": ["i"], "method": "linear"}, "method 'linear', got hidden"),
    ],
)
def test_what_is_not_observed_is_named(models, options, words):
    data = Trajectories.from_arrays(np.exp(-T), T, state_names=["i"])
    with pytest.raises(ValueError, match=words):
        evidence(models, data, **options)
