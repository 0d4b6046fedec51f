"""What every latent comparator must do, as tests that theirs inherit."""

import time
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fim_dynsys.errors import FitError
from fim_dynsys.metrics import r2_score
from fim_dynsys.registry import load, load_fitted
from fim_dynsys.testing.trajectories import check_trajectory_model
from fim_dynsys_common.latent import LatentModel

_QUICK = {"steps": 40, "window": 8, "restarts": 1}


def circles(*lengths: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """States and times of noise-free oscillations of period 2 pi, each from another start."""
    times = [np.linspace(0.0, 0.16 * n, n) for n in lengths]
    phases = [t + 0.7 * k for k, t in enumerate(times)]
    return [np.stack([np.cos(p), -np.sin(p)], axis=1) for p in phases], times


class LatentContract:
    """The tests of the latent model that is registered as `name`.

    Attributes
    ----------
    name : str
    task : benchmarks.oscillators.tasks.Oscillation
        A forecast that it must make better than by holding the first state.
    """

    name: ClassVar[str]
    task: ClassVar[Any]

    @classmethod
    def model(cls, **settings: Any) -> Any:
        """A new one."""
        return load(cls.name, **settings)

    @pytest.fixture(scope="class")
    @classmethod
    def fitted(cls) -> LatentModel:
        """On two ragged trajectories of an oscillator, one with a gap."""
        x, t = circles(45, 25)
        x[1][10:12] = np.nan
        return cls.model(steps=200, window=16, restarts=2).fit(x, t)

    def test_contract(self) -> None:
        check_trajectory_model(lambda: self.model(**_QUICK))

    def test_follows_a_harmonic_oscillator(self, fitted: LatentModel) -> None:
        (x,), (t,) = circles(45)
        assert r2_score(x, fitted.forecast(x[0], t).x[0]) > 0.99

    def test_draws_scatter_about_the_forecast(self, fitted: LatentModel) -> None:
        (x,), (t,) = circles(30)
        draws = fitted.sample(x[:2], t, n=30, seed=1)
        assert draws.shape == (30, 2, 30, 2)
        assert np.array_equal(draws, fitted.sample(x[:2], t, n=30, seed=1))
        apart = draws.mean(axis=0) - fitted.forecast(x[:2], t).x
        assert np.sqrt(np.mean(apart**2)) < 0.2 and (draws.std(axis=0) > 0.0).all()

    def test_saved_and_restored(self, fitted: LatentModel, tmp_path: Path) -> None:
        fitted.save(tmp_path)
        again: Any = load_fitted(tmp_path)  # a latent model has no vector field
        x, t = np.array([1.0, 0.0]), np.linspace(0.0, 5.0, 20)
        assert np.array_equal(again.forecast(x, t).x, fitted.forecast(x, t).x)
        assert again.report_ == fitted.report_
        other = self.model(hidden=7)
        with pytest.raises(ValueError, match=rf"{self.name}: expected saved arrays"):
            load_fitted(tmp_path, factory=lambda **params: other)

    def test_better_than_holding_the_first_state(self) -> None:
        task = self.task
        model = self.model(steps=120, window=16, restarts=2).fit(task.context(1000))
        path = model.forecast(task.start, np.concatenate([[0.0], task.target_t])).x[0, 1:]
        assert np.mean((path - task.target_x) ** 2) < np.mean((task.start - task.target_x) ** 2)

    def test_time_is_kept(self) -> None:
        (x,), (t,) = circles(60)
        begun = time.perf_counter()
        model = self.model(steps=100_000, max_seconds=2.0).fit(x, t)
        assert time.perf_counter() - begun < 12.0
        assert model.report_["ended"] == "out of time"

    @pytest.mark.parametrize(
        ("x", "t", "words"),
        [
            (np.zeros((5, 2)), np.arange(5.0), "at least 10 complete samples"),
            ([np.zeros((3, 2))] * 5, [np.arange(3.0)] * 5, "4 of them in one trajectory"),
        ],
    )
    def test_too_few_samples(self, x: Any, t: Any, words: str) -> None:
        with pytest.raises(ValueError, match=f"{self.name}: expected .*{words}"):
            self.model().fit(x, t)

    @pytest.mark.parametrize(
        ("setting", "words"),
        [
            ({"max_seconds": -1.0}, "max_seconds above 0"),
            ({"steps": 0}, "steps to be a positive integer"),
            ({"hidden": 2.5}, "hidden to be a positive integer"),
        ],
    )
    def test_settings_that_make_no_sense(self, setting: dict[str, Any], words: str) -> None:
        (x,), (t,) = circles(30)
        with pytest.raises(ValueError, match=f"{self.name}: expected {words}"):
            self.model(**setting).fit(x, t)

    def test_divergence_is_an_error(self) -> None:
        (x,), (t,) = circles(30)
        with pytest.raises(FitError, match=f"{self.name}: expected a fit with a finite error"):
            self.model(**_QUICK | {"learning_rate": 1e200}).fit(x, t)

    def test_forecasts_run_forward_only(self, fitted: LatentModel) -> None:
        with pytest.raises(ValueError, match="times that increase strictly"):
            fitted.forecast(np.zeros(2), [1.0, 0.5])
