"""The posterior of a field's coefficients: its formula, its draws, units, and where it is kept."""

import pickle

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, simulate
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.fim_ode.calibration import N_CONTEXT, N_TOKEN, Calibration, Evidence, describe
from fim_dynsys.models.fim_ode.weights import CALIBRATION, read_header, shipped, write_part
from fim_dynsys.trajectories.container import Trajectories

CUBICS = Dictionary.polynomial(2, 3)
M = len(CUBICS)
POINTS = np.random.default_rng(3).normal(size=(6, 2))


def weights(seed=0, width=5):
    """A calibration with random weights: what holds for any holds for the shipped one."""
    rng = np.random.default_rng(seed)
    sizes = {
        "data_1": (width, N_CONTEXT),
        "data_2": (1, width),
        "term_1": (width, N_CONTEXT + N_TOKEN),
        "term_2": (width, width),
        "term_3": (1, width),
    }
    tensors = {f"{name}_weight": 0.3 * rng.normal(size=size) for name, size in sizes.items()}
    tensors |= {f"{name}_bias": 0.3 * rng.normal(size=size[0]) for name, size in sizes.items()}
    for name, size in (("context", N_CONTEXT), ("token", N_TOKEN)):
        tensors[f"{name}_centre"] = rng.normal(size=size)
        tensors[f"{name}_spread"] = np.exp(rng.normal(size=size))
    return tensors | {"factor": np.array([0.9, 1.2])}


def observed(scale=(1.0, 1.0), time_unit=1.0):
    """A noisy spiral, its field, and evidence of the right kind, in any units."""
    rng = np.random.default_rng(1)
    scale = np.asarray(scale)
    t = np.linspace(0, 6, 80)
    x = np.exp(-0.2 * t)[:, None] * np.stack([np.cos(2 * t), -np.sin(2 * t)], 1) + 0.3
    x = x + 0.02 * rng.normal(size=x.shape)
    coefficients = 0.1 * rng.normal(size=(M, 2))
    columns = CUBICS.evaluate(x)
    information = np.stack([columns.T @ columns / 0.04, columns.T @ columns / 0.09])
    factor = scale / time_unit / np.prod(scale**CUBICS.exponents, axis=1)[:, None]
    own = factor.T
    evidence = Evidence(
        (coefficients + 0.01) * factor,
        np.exp(rng.normal(size=(M, 2))) * factor,
        0.05 * factor,
        information / (own[:, :, None] * own[:, None]),
        searched=True,
    )
    context = Trajectories.from_arrays(x * scale, t * time_unit)
    return DictionaryField(CUBICS, coefficients * factor, context=context), evidence


def test_deviations_are_those_of_the_draws():
    field, evidence = observed()
    field = PosteriorField.of(field, Calibration(weights()).roots(field, evidence))
    values = np.array([member(POINTS) for member in field.draws(4000)])
    # 4000 draws: the standard error of a standard deviation is 1.1 %, of a mean 1.6 % of one
    np.testing.assert_allclose(values.std(axis=0) / field.scale(POINTS), 1.0, atol=0.06)
    np.testing.assert_allclose((values.mean(axis=0) - field(POINTS)) / field.scale(POINTS), 0.0, atol=0.08)
    assert np.array_equal(field.draws(2, seed=5)[1].coefficients, field.draws(2, seed=5)[1].coefficients)


def test_covariance_is_that_of_the_information_and_the_prior():
    field, evidence = observed()
    tensors = weights()
    for name in ("data_1", "data_2", "term_1", "term_2", "term_3"):
        tensors[f"{name}_weight"] *= 0.0
        tensors[f"{name}_bias"] *= 0.0
    roots = Calibration(tensors).roots(field, evidence)
    about = describe(field, evidence)
    # without weights the network returns its offsets: log v = -4, log w = -1
    for i in range(2):
        unit = about.rate[i] / about.power
        precision = np.exp(-4.0) * evidence.information[i] + np.diag(np.exp(2.0) / unit**2)
        covariance = 1.2**2 * np.linalg.inv(precision)
        np.testing.assert_allclose(roots[i].T @ roots[i], covariance, rtol=1e-6, atol=1e-12)


def test_more_data_narrow_the_field_on_the_path_most():
    field, evidence = observed()
    much = Evidence(
        evidence.operator, evidence.deviation, evidence.spread, 100 * evidence.information, searched=True
    )
    tensors = weights() | {"data_1_weight": np.zeros((5, N_CONTEXT)), "term_1_weight": np.zeros((5, 19))}
    narrow, wide = (PosteriorField.of(field, Calibration(tensors).roots(field, e)) for e in (much, evidence))
    path, away = field.context.x[0], 4.0 + np.zeros((1, 2))
    gain = np.median(wide.scale(path) / narrow.scale(path), axis=0)
    assert (gain > 3).all()
    assert (wide.scale(away) / narrow.scale(away) >= 1).all()


def test_units_do_not_matter():
    scale, time_unit = np.array([250.0, 0.004]), 37.0
    calibration = Calibration(weights())
    plain, moved = (
        PosteriorField.of(field, calibration.roots(field, evidence))
        for field, evidence in (observed(), observed(scale, time_unit))
    )
    np.testing.assert_allclose(
        moved.scale(POINTS * scale), plain.scale(POINTS) * scale / time_unit, rtol=1e-6
    )


def test_roots_are_computed_when_first_needed_and_checked():
    field, _ = observed()
    calls = []

    def roots(asked):
        calls.append(asked)
        return np.zeros((2, M, M))

    lazy = PosteriorField.of(field, roots)
    lazy(POINTS)
    assert not calls
    np.testing.assert_array_equal(lazy.scale(POINTS), 0.0)
    lazy.scale(POINTS)
    assert calls == [lazy]
    with pytest.raises(ValueError, match=r"expected finite roots of shape \(2, 10, 10\)"):
        PosteriorField.of(field, np.zeros((2, M, 3)))


# --------------------------------------------------------------------------------------------- the model


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory):
    """The shipped operator with a random calibration, fitted."""
    path = tmp_path_factory.mktemp("weights") / "calibrated.safetensors"
    write_part(shipped("fim-ode"), path, CALIBRATION, weights(), {"calibrated": True})
    assert read_header(path)["extra"]["calibrated"] is True
    field, _ = observed()
    return fim_dynsys.load("fim-ode", weights=str(path), refine=False).fit(field.context)


def test_operator_gives_a_posterior_and_draws(calibrated):
    field = calibrated.field_
    assert isinstance(field, PosteriorField)
    assert field.scale(POINTS).shape == POINTS.shape
    members = calibrated.ensemble(3, seed=2)
    assert len(members) == 3
    np.testing.assert_array_equal(members[0].coefficients, field.draws(3, seed=2)[0].coefficients)


def test_information_is_that_of_the_operator_s_last_solve(calibrated):
    """Where the operator's own precision adds little, information and posterior variance agree."""
    ((field, evidence),) = calibrated.infer_with_evidence([calibrated.context_])
    for i in range(2):
        deviation = np.sqrt(np.diagonal(np.linalg.inv(evidence.information[i])))
        assert (evidence.deviation[:, i] < deviation * (1 + 1e-6)).all()
        assert (evidence.deviation[:, i] > 0).all()
    np.testing.assert_array_equal(evidence.operator, field.coefficients)


def test_posterior_survives_keeping(calibrated, tmp_path):
    calibrated.save(tmp_path)
    again = fim_dynsys.load_fitted(tmp_path)
    np.testing.assert_allclose(again.field_.scale(POINTS), calibrated.field_.scale(POINTS), rtol=1e-12)
    copy = pickle.loads(pickle.dumps(calibrated.field_))
    np.testing.assert_array_equal(copy.scale(POINTS), calibrated.field_.scale(POINTS))


def test_uncalibrated_weights_have_no_scale(tmp_path):
    field, _ = observed()
    path = tmp_path / "plain.safetensors"
    write_part(shipped("fim-ode"), path, CALIBRATION, {}, {})
    model = fim_dynsys.load("fim-ode", weights=str(path), refine=False).fit(field.context)
    assert model.field_.scale(POINTS) is None
    assert len(model.ensemble(2)) == 2  # a bootstrap


def test_a_chain_of_five_states_with_error_bars():
    """The shipped weights were trained in up to three dimensions."""
    matrix = -0.3 * np.eye(5) + np.diag(np.full(4, 0.8), 1) - np.diag(np.full(4, 0.8), -1)
    rng, t = np.random.default_rng(0), np.linspace(0.0, 8.0, 150)
    x = simulate(CallableField(lambda x: x @ matrix.T, 5), rng.normal(size=5), t).x[0]
    model = fim_dynsys.load("fim-ode").fit(x * (1.0 + 0.02 * rng.normal(size=x.shape)), t)
    error = np.abs(model.predict(x) - x @ matrix.T)
    assert error.max() < 0.03
    assert 0.7 < np.mean(error < 1.645 * model.field_.scale(x)) <= 1.0
    assert model.field_.scale(x).max() < 0.2


def test_members_of_a_searched_field_follow_the_samples(tmp_path):
    """A field's own posterior knows no covariance of the paths' errors; fits of candidates do."""
    oscillator = CallableField(
        lambda x: np.stack([x[:, 1], -x[:, 0] + 0.5 * (1 - x[:, 0] ** 2) * x[:, 1]], axis=1), 2
    )
    t = np.linspace(0.0, 12.0, 150)
    clean = simulate(oscillator, [0.5, 0.0], t).x[0]
    noisy = clean + 0.05 * np.random.default_rng(1).standard_normal(clean.shape)
    model = fim_dynsys.load("fim-ode").fit(noisy, t)

    def width(members):
        return np.median(simulate(list(members), np.tile(clean[0], (len(members), 1)), t).x.std(axis=0))

    members = model.ensemble(24, seed=3)
    assert len({tuple(member.equations(9)) for member in members}) > 12
    assert 0.003 < width(members) < 0.5 * width(model.field_.draws(24, seed=3))
    model.save(tmp_path / "model")
    again = fim_dynsys.load_fitted(tmp_path / "model").ensemble(24, seed=3)
    for member, other in zip(members, again, strict=True):
        np.testing.assert_array_equal(member.coefficients, other.coefficients)
