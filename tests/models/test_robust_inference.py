"""Inference where some samples are off by more than noise."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fim_dynsys
from fim_dynsys import systems
from fim_dynsys.corruption import add_noise, add_outliers
from fim_dynsys.errors import DataWarning, FitWarning
from fim_dynsys.models import outliers
from fim_dynsys.simulation.solution import simulate

SYSTEM = systems.get("predator_prey_allee")


@pytest.fixture(scope="module")
def noisy():
    t = np.linspace(0.0, SYSTEM.t_end, 200)
    clean = simulate(SYSTEM.field(), SYSTEM.initial_states[1], t)
    return add_noise(clean, 0.02, 0)


@pytest.fixture(scope="module")
def spoilt(noisy):
    return add_outliers(noisy, 0.03, 0.16, 1)


@pytest.fixture(scope="module")
def auto(spoilt):
    return fim_dynsys.load("auto", effort="fast").fit(spoilt)


@pytest.mark.parametrize("name", ["fim-ode", "sindy-strong", "auto"])
def test_outliers_are_left_out_said_and_cost_little(name, noisy, spoilt, request):
    model = request.getfixturevalue("auto") if name == "auto" else fim_dynsys.load(name).fit(spoilt)
    field = model.field_
    count = field.fit_info.report["outliers"]
    assert 3 <= count <= 30
    assert f"{count} outliers left out" in field.fit_info.report["note"]
    assert field.context.n_obs.sum() == 200 - count
    points = noisy.x[0][::10]
    truth = SYSTEM.field()(points)
    error = np.abs(field(points) - truth).mean() / np.abs(truth).mean()
    without = np.abs(model.infer(noisy)(points) - truth).mean() / np.abs(truth).mean()
    assert error < 2.0 * without + 0.01


def test_members_and_alternatives_are_of_the_samples_that_stay(auto):
    kept, count = auto.field_.context, auto.field_.fit_info.report["outliers"]
    assert all(member.context is kept for member in auto.ensemble(3))
    rows = auto.alternatives_
    assert {row.field.fit_info.report["outliers"] for row in rows} == {count}
    assert all(row.field.context is kept for row in rows)
    assert auto.candidates(auto.context_)[0].coefficients == pytest.approx(auto.field_.coefficients)


def test_a_saved_model_and_one_whose_answer_was_selected_keep_what_was_left_out(auto, tmp_path):
    again = fim_dynsys.load_fitted(auto.save(tmp_path / "model"))
    assert again.field_.context.equals(auto.field_.context)
    rows = again.alternatives_
    other = next(k for k, row in enumerate(rows) if not row.is_preferred)
    again.select(other)
    assert again.field_.context.equals(auto.field_.context)
    assert [row.equations for row in again.alternatives_] == [row.equations for row in rows]


def test_resamples_hold_no_outliers(spoilt):
    model = fim_dynsys.load("sindy-strong").fit(spoilt)
    kept = {tuple(row) for row in model.field_.context.x[0]}
    for member in model.ensemble(3):
        seen = np.concatenate([x for _, x in member.context.arrays()])
        assert {tuple(row) for row in seen} <= kept


def test_how_well_a_field_fits_is_of_the_samples_that_stay(noisy, spoilt):
    with_outliers = fim_dynsys.load("sindy-strong").fit(spoilt).field_.fit_info
    without = fim_dynsys.load("sindy-strong").fit(noisy).field_.fit_info
    assert with_outliers.path_r2 == pytest.approx(without.path_r2, abs=0.01)


def test_known_errors_leave_no_sample_out(spoilt):
    field = fim_dynsys.load("sindy-strong").fit(spoilt, sigma=0.02).field_
    assert "outliers" not in field.fit_info.report


def test_without_outliers_nothing_changes(noisy):
    assert outliers.inferred_robustly(lambda *_: pytest.fail("inferred"), noisy, noisy) is None
    for name in ("fim-ode", "sindy-strong"):
        assert "outliers" not in fim_dynsys.load(name).infer(noisy).fit_info.report


def test_what_the_path_explains_is_no_outlier(noisy, monkeypatch):
    """A false alarm beside neighbours is taken back."""
    field = fim_dynsys.load("fim-ode").infer(noisy)
    monkeypatch.setattr(outliers, "beside", lambda own: [np.arange(len(t)) >= 190 for t, _ in own])
    assert outliers.inferred_robustly(lambda *_: field, noisy, noisy) is field
    assert "outliers" not in field.fit_info.report


@pytest.mark.parametrize("rows", [[50], [30, 70, 100]])
def test_outliers_that_a_fit_with_inputs_counts_are_named(rows):
    t = np.round(np.arange(0.0, 30.0, 0.2), 2)
    u = ((np.arange(len(t)) % 45) < 13).astype(float)
    x = [0.0]
    for held in u[:-1]:
        x.append(6.0 * held + (x[-1] - 6.0 * held) * np.exp(-0.05))
    noisy = np.array(x) + 0.01 * np.random.default_rng(0).standard_normal(len(t))
    noisy[rows] += 2.0
    named = ", ".join(f"{t[row]:g}" for row in rows)
    with pytest.warns(FitWarning), pytest.warns(DataWarning, match=f"outliers.*at t = {named}[.] Write NaN"):
        fim_dynsys.load("sindy-strong").fit(noisy, t, u=u)
    noisy[rows] = np.nan
    model = fim_dynsys.load("sindy-strong").fit(noisy, t, u=u)
    assert model.equations(precision=2) == ["-0.25 x0 + 1.5 u0"]


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FitWarning")
@pytest.mark.parametrize(
    ("turn", "call"), [(2.0 * np.pi, r"np.unwrap\(th\)"), (360.0, r"np.unwrap\(th, period=360\)")]
)
def test_angles_that_jump_by_a_turn_are_named(turn, call):
    """A turning pendulum, whose angle is kept within a turn; no swinging one, and no ramp that resets."""
    t = np.linspace(0.0, 12.0, 240)
    path = solve_ivp(lambda _, s: [s[1], -np.sin(s[0])], (0.0, 12.0), [0.0, 2.5], t_eval=t, rtol=1e-9).y.T
    unit = turn / (2.0 * np.pi)
    kept = np.column_stack([(path[:, 0] * unit) % turn, path[:, 1] * unit])
    with pytest.warns(DataWarning, match=f"th: jumps by a full turn.* pass {call} of each trajectory"):
        fim_dynsys.load("sindy-strong").fit(kept, t, feature_names=["th", "om"])
    swings, ramps = 0.45 * turn * np.sin(t), 0.95 * turn * (t % 1.0)
    others = [np.column_stack([swings, np.cos(t)]), np.column_stack([ramps, np.cos(t)]), path * unit]
    assert [outliers.wrapped_angles(fim_dynsys.Trajectories.from_arrays(x, t)) for x in others] == [{}] * 3


def test_codes_for_missing_values_are_named():
    """Where -999 stands in 2 % of the samples, the field was 0 and some times were named."""
    t, rng = np.linspace(0.0, 20.0, 300), np.random.default_rng(0)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1) + 0.02 * rng.normal(size=(300, 2))
    x[rng.random(x.shape) < 0.02] = -999.0
    with (
        pytest.warns(FitWarning, match="does not describe the data"),
        pytest.warns(DataWarning, match=r"x0 is -999 in \d+ samples; x1 is -999 in \d+ samples"),
    ):
        fim_dynsys.load("fim-ode").fit(x, t)
