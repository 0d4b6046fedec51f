"""Scoring of weights: a perfect model scores full marks, a motionless one none, and noise is drawn once."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.trajectories.container import Trajectories
from training.calibration.bands import band_scores
from training.evaluate import (
    SETTINGS,
    KnownSystem,
    bands,
    development_systems,
    evaluate,
    held_out_systems,
    summarise,
)


class Stand:
    """Answers every context with the same field and remembers what it saw."""

    def __init__(self, field: VectorField):
        self.field = field
        self.seen: list[Trajectories] = []

    def infer_many(self, contexts: list[Trajectories]) -> list[VectorField]:
        self.seen += contexts
        return [self.field] * len(contexts)


@pytest.fixture
def system() -> KnownSystem:
    t = np.linspace(0.0, 5.0, 200)
    states = np.stack([a * np.stack([np.cos(t), -np.sin(t)], 1) for a in (1.0, 2.0)])
    return KnownSystem("test", "oscillator", rotation(1.0), t, states)


def rotation(speed: float) -> VectorField:
    turn: Callable = lambda x: speed * np.stack([x[:, 1], -x[:, 0]], 1)  # noqa: E731
    return CallableField(turn, 2)


def test_truth_scores_full_marks(system: KnownSystem) -> None:
    table = summarise(evaluate(Stand(system.truth), [system]))
    assert [line["reconstruction"] for line in table] == [100.0] * len(table)
    assert [line["generalisation"] for line in table] == [100.0] * len(table)
    assert max(line["error own"] for line in table) < 1e-12
    assert table[0]["trials"] == 2


def test_motionless_and_slow_fields_are_told_apart(system: KnownSystem) -> None:
    still = summarise(evaluate(Stand(rotation(0.0)), [system]))[0]
    assert (still["reconstruction"], still["generalisation"], still["error own"]) == (0.0, 0.0, 1.0)
    slow = summarise(evaluate(Stand(rotation(0.97)), [system]))[0]
    assert slow["reconstruction"] == 100.0
    assert slow["error own"] == pytest.approx(0.03)


def test_further_trajectories_are_observed_beside_the_first(system: KnownSystem) -> None:
    more = np.stack([3.0 * system.states[0], 4.0 * system.states[0]])
    wider = replace(system, states=np.concatenate([system.states, more]))
    model = Stand(system.truth)
    table = summarise(evaluate(model, [wider], more=1))
    assert table[0]["trials"] == 2  # both of the two are scored, none of the others
    assert {len(seen) for seen in model.seen} == {2}
    first, second = (x for _, x in model.seen[0].arrays())
    np.testing.assert_array_equal(first, system.states[0])
    np.testing.assert_array_equal(second, 3.0 * system.states[0])


def test_every_model_sees_the_same_noise(system: KnownSystem) -> None:
    first, second = Stand(system.truth), Stand(system.truth)
    evaluate(first, [system])
    evaluate(second, [system])
    assert len(first.seen) == 2 * len(SETTINGS)
    for a, b in zip(first.seen, second.seen, strict=True):
        np.testing.assert_array_equal(a.x, b.x)
    assert not np.array_equal(first.seen[0].x, first.seen[2].x)  # clean, noisy
    assert first.seen[-1].n_obs[0] == 100  # half of the samples dropped


class Sure(CallableField):
    """A field that is off by one everywhere and says by how much it may be."""

    def __init__(self, deviation: float):
        super().__init__(lambda x: rotation(1.0)(x) + 1.0, 2)
        self.deviation = deviation

    def scale(self, x):
        return np.full(np.shape(x), self.deviation)


def test_coverage_and_interval_scores_of_a_known_error(system: KnownSystem) -> None:
    line = summarise(evaluate(Stand(Sure(1.0)), [system]))[0]
    assert (line["cover 50"], line["cover 90"]) == (0.0, 100.0)  # an error of one deviation
    wide = summarise(evaluate(Stand(Sure(2.0)), [system]))[0]
    assert wide["score 90"] == pytest.approx(2 * line["score 90"])  # all inside: the score is the width
    assert wide["cover 50"] == 100.0
    exact = band_scores(np.ones(50), np.full(50, 2.0))
    assert (exact["constant 90"], exact["constant 50"]) == (2.0, 2.0)  # from -1 to 1, as narrow as can be
    assert "cover 90" not in summarise(evaluate(Stand(rotation(1.0)), [system]))[0]


def test_sources_are_the_development_split_and_unseen_systems_of_the_prior(tmp_path) -> None:
    systems = [*islice(development_systems(), 6), *held_out_systems("sparse", 1, 5, tmp_path)]
    assert len(systems) > 6
    for system in systems:
        found = solve_ivp(
            lambda _, x, truth=system.truth: truth(x[None])[0],
            system.t[[0, -1]],
            system.states[0, 0],
            "DOP853",
            system.t,
            rtol=1e-10,
            atol=1e-12,
        )
        gap = np.abs(found.y.T - system.states[0]).max()
        assert gap < 1e-5 * system.states[0].std()  # clean states are the true field's, not Euler's


def test_bands_leave_out_points_where_the_truth_is_not_defined() -> None:
    class Sure(CallableField):
        def scale(self, x: np.ndarray) -> np.ndarray:
            return np.full_like(x, 0.1)

    t = np.linspace(0.0, 1.0, 50)
    truth = CallableField(lambda x: -np.sqrt(x), 1)
    system = KnownSystem(
        "test", "tank", truth, t, np.stack([(1.0 - 0.5 * t)[:, None] ** 2, (0.5 - 0.5 * t)[:, None] ** 2])
    )
    found = bands(Sure(lambda x: -np.sqrt(np.abs(x)), 1), system, 0)
    assert np.isfinite(found).all() and 48 <= found.shape[1] < 72
