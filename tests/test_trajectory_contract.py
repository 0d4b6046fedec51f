"""The contract of models without a field: a small latent model holds it, and breaking any clause is seen."""

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from fim_dynsys import testing
from fim_dynsys.models.base import ModelKind, TrajectoryModel
from fim_dynsys.models.inputs import as_trajectories
from fim_dynsys.registry import ModelEntry, ModelSpec
from fim_dynsys.saved import SavedModel
from fim_dynsys.simulation.problem import Status
from fim_dynsys.testing import check_trajectory_model, requirements
from fim_dynsys.trajectories.container import Trajectories


class LinearLatent(TrajectoryModel, BaseEstimator):
    """Principal components, and a linear flow among them, from least squares."""

    name, kind = "linear-latent", ModelKind.LATENT

    def __init__(self, n_components=2):
        self.n_components = n_components

    def fit(self, x, t=None):
        data = as_trajectories(x, t).drop_incomplete(self.name)
        states = np.concatenate([values for _, values in data.arrays()])
        slopes = np.concatenate([np.gradient(values, times, axis=0) for times, values in data.arrays()])
        axes = np.linalg.svd(states, full_matrices=False)[2][: self.n_components].T
        flow = np.linalg.lstsq(states @ axes, slopes @ axes, rcond=None)[0]
        self.context_, self.axes_, self.flow_ = data, axes, flow
        return self

    def forecast(self, x0, t):
        if "flow_" not in vars(self):
            raise NotFittedError(f"{self.name}: expected a fitted model, got an unfitted one.")
        starts, times = np.atleast_2d(np.asarray(x0, dtype=float)), np.asarray(t, dtype=float)
        if starts.shape[1] != len(self.axes_) or times.ndim == 0:
            raise ValueError(f"{self.name}: expected states (n, d) and times (m,), got {x0!r} and {t!r}.")
        if not (np.isfinite(starts).all() and np.isfinite(times).all()):
            raise ValueError(f"{self.name}: expected finite states and times, got {x0!r} and {t!r}.")
        times = np.broadcast_to(times, (len(starts), times.shape[-1]))
        values, vectors = np.linalg.eig(self.flow_)
        with np.errstate(all="ignore"):
            modes = (starts @ self.axes_ @ vectors)[:, None] * np.exp(
                (times - times[:, :1])[..., None] * values
            )
            states = (modes @ np.linalg.inv(vectors)).real @ self.axes_.T
        return self.answer(times, states)

    def answer(self, times, states):
        sound = np.logical_and.accumulate((np.abs(states) < 1e12).all(axis=2), axis=1)
        status = np.where(sound.all(axis=1), Status.SUCCESS, Status.LEFT_BOUNDS).astype(np.int8)
        stop = np.array([t[max(n - 1, 0)] for t, n in zip(times, sound.sum(axis=1), strict=True)])
        return Trajectories.from_arrays(
            list(np.where(sound[..., None], states, np.nan)),
            list(times),
            state_names=self.context_.state_names,
            coords={"status": status, "t_stop": stop},
        )

    def save(self, folder):
        arrays = {"axes": self.axes_, "flow": self.flow_}
        kept = SavedModel(self.name, self.version, self.get_params(), self.context_, "flow", arrays, None, {})
        return kept.write(folder)

    def restore(self, saved):
        self.context_, self.axes_, self.flow_ = saved.context, saved.arrays["axes"], saved.arrays["flow"]
        return self


def test_a_latent_model_holds_the_contract():
    check_trajectory_model(LinearLatent)
    check_trajectory_model(lambda: LinearLatent(1), dim=3)


class ReturnsNothing(LinearLatent):
    def fit(self, x, t=None):
        super().fit(x, t)


class WithoutKind(LinearLatent):
    kind = None


class AnswersUnfitted(LinearLatent):
    def forecast(self, x0, t):
        if "flow_" not in vars(self):
            return None
        return super().forecast(x0, t)


class Shortened(LinearLatent):
    def answer(self, times, states):
        return super().answer(times[:, :-1], states[:, :-1])


class Anonymous(LinearLatent):
    def answer(self, times, states):
        pairs = super().answer(times, states)
        return Trajectories.from_arrays(list(pairs.x), list(pairs.t), coords=pairs.coords)


class Hopeful(LinearLatent):
    """Reports success whatever happened."""

    def answer(self, times, states):
        pairs = super().answer(times, states)
        return pairs.with_coords(status=np.zeros(len(pairs), dtype=np.int8))


class Resuming(LinearLatent):
    """Goes on after a failure."""

    def answer(self, times, states):
        x = states.copy()
        x[:, 3] = np.nan
        pairs = super().answer(times, states)
        coords = {"status": np.full(len(x), Status.NON_FINITE, dtype=np.int8), "t_stop": pairs.t_stop}
        x = np.where(np.abs(x) < 1e12, x, np.nan)
        return Trajectories.from_arrays(
            list(x), list(times), state_names=self.context_.state_names, coords=coords
        )


class WithoutStatus(LinearLatent):
    def answer(self, times, states):
        pairs = super().answer(times, states)
        return Trajectories.from_arrays(list(pairs.x), list(pairs.t), state_names=pairs.state_names)


class Mixing(LinearLatent):
    """Several states influence each other."""

    def answer(self, times, states):
        return super().answer(times, states - 0.1 * (states.mean(axis=0) - states[0]))


class Careless(LinearLatent):
    """Takes what is not finite, and forgets the earlier fit."""

    def fit(self, x, t=None):
        if isinstance(x, np.ndarray) and not np.isfinite(np.asarray(x, dtype=complex)).all():
            return self
        return super().fit(x, t)


class Forgetful(LinearLatent):
    def fit(self, x, t=None):
        self.flow_ = 0.0 * vars(self).get("flow_", np.zeros((2, 2)))
        return super().fit(x, t)


class TakesAnyState(LinearLatent):
    def forecast(self, x0, t):
        return super().forecast(np.asarray(x0)[..., :2], t)


class Random(LinearLatent):
    def fit(self, x, t=None):
        super().fit(x, t)
        self.flow_ = self.flow_ * (1 + 0.01 * np.random.default_rng().uniform(0.5, 1))
        return self


class LosesItsFlow(LinearLatent):
    def __getstate__(self):
        return super().__getstate__() | {"flow_": np.zeros((2, 2))}


class SavesNothing(LinearLatent):
    def restore(self, saved):
        super().restore(dataclasses.replace(saved, arrays={**saved.arrays, "flow": np.zeros((2, 2))}))
        return self


class TripsOverGaps(LinearLatent):
    """Fails somewhere inside, with an error that tells users nothing."""

    def fit(self, x, t=None):
        data = as_trajectories(x, t)
        if any(np.isnan(values).any() for _, values in data.arrays()):
            raise ValueError("On entry to DLASCL parameter number 4 had an illegal value")
        return super().fit(x, t)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (dict, "expected a TrajectoryModel, got dict"),
        (ReturnsNothing, "fit: expected to return the model"),
        (WithoutKind, "kind: expected a ModelKind"),
        (AnswersUnfitted, "forecast before fit"),
        (Shortened, "forecast of one state: expected"),
        (Anonymous, "forecast: expected the states"),
        (Hopeful, "status SUCCESS is not so"),
        (Resuming, "states after a failure"),
        (WithoutStatus, "expected a status for each"),
        (Mixing, "a state alone differs"),
        (Careless, "infinite observation: expected ValueError, got no error"),
        (Forgetful, "a refused call changed the fitted model"),
        (TakesAnyState, "forecast from another dimension"),
        (Random, "another forecast"),
        (LosesItsFlow, "pickling the model"),
        (SavesNothing, "save and load_fitted"),
        (TripsOverGaps, "expected an error that names the model"),
    ],
)
def test_breaking_a_clause_is_seen(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_trajectory_model(broken)


def test_models_that_need_training_are_fitted_less_often(monkeypatch):
    fits = []
    fit = LinearLatent.fit
    monkeypatch.setattr(LinearLatent, "fit", lambda model, *data: fits.append(model) or fit(model, *data))
    check_trajectory_model(LinearLatent)
    # refused calls apart, which end before any work is done
    full = len(fits)
    spec = ModelSpec("linear-latent", "of this file", "nowhere:at_all", needs_training=True)
    monkeypatch.setattr(requirements, "available", lambda: [ModelEntry("linear-latent", "tests", spec)])
    fits.clear()
    check_trajectory_model(LinearLatent)
    assert len(fits) == full - 2
    check_trajectory_model(LinearLatent, cheap=False)
    assert len(fits) == full - 2 + full


def test_public_names_are_found():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(callable(getattr(testing, name)) for name in testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'check_mdoel'"):
        _ = testing.check_mdoel
