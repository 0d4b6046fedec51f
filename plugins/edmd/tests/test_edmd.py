"""Generator EDMD: contract, what it must recover, and a library that computes the same matrix."""

import numpy as np
import pytest
import scipy.linalg

import fim_dynsys
from benchmarks.oscillators.tasks import tasks
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.testing import check_model, check_trajectory_model
from fim_dynsys_edmd.generator import lifted, regressed
from fim_dynsys_edmd.map import EDMDMap
from fim_dynsys_edmd.model import EDMD


def _oscillator(n=120, span=6.0, start=(1.0, 0.0)):
    t = np.linspace(0.0, span, n)
    a, b = start
    turned = np.stack([a * np.cos(2 * t) + b * np.sin(2 * t), b * np.cos(2 * t) - a * np.sin(2 * t)], axis=1)
    return turned, t


def test_contract():
    check_model(lambda: fim_dynsys.load("edmd"))


def test_recovers_a_harmonic_oscillator():
    x, t = _oscillator()
    model = fim_dynsys.load("edmd").fit(x, t)
    assert model.field_.fit_info.path_r2 > 0.9999
    assert np.allclose(model.predict(np.eye(2)), [[0.0, -2.0], [2.0, 0.0]], atol=5e-3)


def test_eigenvalues_are_those_of_the_flow():
    """Of monomials up to degree 2: sums of up to two of the rates +2i and -2i."""
    x, t = zip(_oscillator(), _oscillator(start=(0.5, 1.0)), strict=True)
    model = EDMD(degree=2, ridge=0.0)
    context = fim_dynsys.Trajectories.from_arrays(list(x), list(t))
    found = np.sort(model.generator(context).eigenvalues.imag)
    assert np.allclose(found, [-4.0, -2.0, 0.0, 0.0, 2.0, 4.0], atol=2e-2)
    reported = model.infer(context).fit_info.report["eigenvalues"]
    assert np.allclose(np.sort([imag for _, imag in reported]), found)


def test_linear_flow_of_an_invariant_span():
    """x' = -x, y' = -3 y + x^2: monomials x, y, x^2 and products are closed under the flow."""
    t = np.linspace(0.0, 3.0, 200)
    starts = np.array([[1.0, 0.5], [-1.0, 1.0], [0.5, -1.0]])
    exact = [
        np.stack([a * np.exp(-t), (b - a**2) * np.exp(-3 * t) + a**2 * np.exp(-2 * t)], axis=1)
        for a, b in starts
    ]
    generator = EDMD(degree=2, ridge=0.0).generator(fim_dynsys.Trajectories.from_arrays(exact, t))
    ahead = generator.advance(np.array([0.8, 0.2]), np.array([0.7]))
    known = [0.8 * np.exp(-0.7), (0.2 - 0.64) * np.exp(-2.1) + 0.64 * np.exp(-1.4)]
    assert np.allclose(ahead[0], known, atol=1e-3)


def test_matrix_is_the_logarithm_of_deeptime_s():
    """Snapshots an instant apart: the Koopman matrix is the identity plus the generator times the lag."""
    decomposition = pytest.importorskip("deeptime.decomposition")
    basis = pytest.importorskip("deeptime.basis")
    rng, lag = np.random.default_rng(0), 1e-5
    rates = np.array([[-0.5, 2.0], [-2.0, -0.5]])
    x = rng.standard_normal((400, 2))
    dictionary = Dictionary.polynomial(2, 2)
    ours = regressed(*lifted(dictionary, x, x @ rates.T), np.ones(400), 0.0)
    y = x @ scipy.linalg.expm(lag * rates).T
    monomials = basis.Monomials(p=2, d=2)
    koopman = decomposition.EDMD(monomials, n_eigs=5).fit((x, y)).fetch_model().operator
    theirs = scipy.linalg.logm(koopman) / lag
    # deeptime orders its monomials otherwise: compare by what the rows stand for
    probe = rng.standard_normal((6, 2))
    change = np.linalg.solve(dictionary.evaluate(probe), monomials(probe))
    assert np.allclose(change @ theirs @ np.linalg.inv(change), ours, atol=1e-3)


def test_beats_holding_the_first_state():
    task = tasks()[0]
    model = fim_dynsys.load("edmd").fit(task.context(121))
    path = model.simulate(task.start, np.concatenate([[0.0], task.target_t]))[1:]
    held = np.mean((task.start - task.target_x) ** 2)
    assert np.mean((path - task.target_x) ** 2) < 0.25 * held


def test_ragged_trajectories_and_names():
    x, t = _oscillator()
    context = fim_dynsys.Trajectories.from_arrays([x, x[:50], x[60:100]], [t, t[:50], t[60:100]], ["u", "v"])
    model = fim_dynsys.load("edmd").fit(context)
    assert model.field_.state_names == ("u", "v")
    assert model.field_.fit_info.path_r2 > 0.99


@pytest.mark.parametrize("bad", [{"degree": 0}, {"degree": 1.5}, {"ridge": -1.0}, {"ridge": np.nan}])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ValueError, match=f"edmd: expected {next(iter(bad))}"):
        fim_dynsys.load("edmd", **bad).fit(*_oscillator())


# ---------------------------------------------------------------------- the discrete map


def test_map_keeps_the_contract():
    check_trajectory_model(lambda: fim_dynsys.load("edmd-map"))


def test_map_recovers_a_harmonic_oscillator(tmp_path):
    x, t = _oscillator(150)
    model = fim_dynsys.load("edmd-map").fit(x[:100], t[:100])
    path = model.forecast(x[0], t).x[0]
    assert 1.0 - np.sum((path - x) ** 2) / np.sum((x - x.mean(axis=0)) ** 2) > 0.999
    model.save(tmp_path)
    assert np.array_equal(fim_dynsys.load_fitted(tmp_path).forecast(x[0], t).x[0], path)


def test_map_is_deeptime_s():
    decomposition = pytest.importorskip("deeptime.decomposition")
    basis = pytest.importorskip("deeptime.basis")
    x, t = _oscillator(60)
    model = EDMDMap(degree=1, ridge=0.0).fit(x, t)
    theirs = decomposition.EDMD(basis.Monomials(p=1, d=2), n_eigs=2).fit((x[:-1], x[1:])).fetch_model()
    assert np.allclose(
        np.sort_complex(model.eigenvalues), np.sort_complex(np.linalg.eigvals(theirs.operator)), atol=1e-3
    )


def test_map_beats_holding_the_first_state():
    task = tasks()[0]
    model = fim_dynsys.load("edmd-map").fit(task.context(121))
    path = model.forecast(task.start, np.concatenate([[0.0], task.target_t])).x[0, 1:]
    held = np.mean((task.start - task.target_x) ** 2)
    assert np.mean((path - task.target_x) ** 2) < 0.5 * held


def test_map_forecasts_at_any_times_within_bounds():
    x, t = _oscillator()
    model = fim_dynsys.load("edmd-map").fit(x, t)
    with pytest.raises(ValueError, match="horizon"):
        model.forecast(x[0], [0.0, 1e9])
    between = model.forecast(x[0], np.array([0.0, 0.0123, 1.0, 1.001])).x[0]
    exact = np.stack([np.cos([0.0, 0.0246, 2.0, 2.002]), -np.sin([0.0, 0.0246, 2.0, 2.002])], axis=1)
    assert np.allclose(between, exact, atol=2e-2)
