"""Fitting the posterior: its network is the one inference reads, and it finds deviations that are known."""

import numpy as np
import pytest
import torch

import fim_dynsys
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.models.fim_ode.calibration import N_CONTEXT, N_TOKEN, Calibration, describe
from fim_dynsys.models.fim_ode.weights import CALIBRATION, read_header, read_part, shipped
from fim_dynsys.models.forecast_levels import NOMINAL, Levels
from tests.models.fim_ode.test_posterior import POINTS, observed
from training.calibration import __main__ as command
from training.calibration import forecasts, shards
from training.calibration import reader as posterior
from training.calibration.bands import draw_points, typical_rate


def synthetic(n=200, d=2, m=4, seed=0):
    """Contexts whose errors have the deviation of their second context feature, and no information."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n, d, N_CONTEXT))
    deviation = np.exp(context[:, :, 1])
    data = {
        "context": context,
        "tokens": rng.normal(size=(n, d, m, N_TOKEN)),
        "information": np.zeros((n, d, m, m)),
        "columns": rng.normal(size=(n, 3 * shards.N_POINTS, m)),
        "typical": np.ones((n, d)),
    }
    size = np.linalg.norm(data["columns"], axis=2)[:, :, None] * deviation[:, None]
    data["errors"] = size * rng.normal(size=size.shape)
    return {name: torch.from_numpy(values) for name, values in data.items()}, deviation


def test_training_s_network_is_the_one_that_inference_reads():
    torch.manual_seed(1)
    reader = posterior.Reader().double()
    for buffer in reader.buffers():
        buffer.copy_(torch.rand(len(buffer)) + 0.5)
    field, evidence = observed()
    about = describe(field, evidence)
    batch = {
        "context": about.context,
        "tokens": about.tokens,
        "information": about.information,
        "columns": field.dictionary.evaluate(POINTS) / about.power,
    }
    with torch.no_grad():
        deviations = reader({name: torch.from_numpy(values)[None] for name, values in batch.items()})[0]
    calibration = Calibration(reader.arrays([1.0, 0.8]))
    read = PosteriorField.of(field, calibration.roots(field, evidence)).scale(POINTS)
    np.testing.assert_allclose(read, 0.8 * deviations.numpy() * about.rate, rtol=1e-8)


def test_known_deviations_are_found():
    data, deviation = synthetic()
    fresh, _ = synthetic(seed=1)
    reader = posterior.fit([data], steps=120)
    factor = posterior.last_factor(reader, data)
    scores = posterior.scores(reader, fresh, factor)
    assert abs(scores["cover 90"] - 90) < 4
    assert scores["score 90"] < 0.7 * scores["constant 90"]
    with torch.no_grad():
        found = (reader(data) / data["columns"].norm(dim=2)[..., None]).mean(1)
    assert np.corrcoef(np.log(found.numpy().ravel()), np.log(deviation.ravel()))[0, 1] > 0.95


def test_command_writes_a_calibrated_file_and_resumes(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "SHARD", 5)
    monkeypatch.setattr(shards, "SHARD", 5)
    monkeypatch.setattr(command, "DIMS", (1,))
    out = tmp_path / "calibrated.safetensors"
    report = command.calibrate(shipped("fim-ode"), out, tmp_path / "run", contexts=5, steps=3)
    assert set(report) == {"1-D"}
    assert set(read_part(out, CALIBRATION)) >= {"factor", "data_1_weight", "term_3_bias"}
    assert read_header(out)["extra"]["calibration"]["held out"] == report
    monkeypatch.setattr(command, "make_shard", lambda *_: pytest.fail("made a shard again"))
    assert command.calibrate(shipped("fim-ode"), out, tmp_path / "run", contexts=5, steps=3) == report


def test_points_lie_where_they_are_said_to():
    t = np.linspace(0, 1, 20)[:, None]
    paths = np.stack([np.hstack([t, 0 * t]), np.hstack([0 * t, 2 * t])])
    own, other, box = draw_points(paths, 50, np.random.default_rng(0)).reshape(3, 50, 2)
    assert (own[:, 1] == 0).all() and (other[:, 0] == 0).all()
    assert (box.min(0) < [0.1, 0.2]).all() and (box.max(0) <= [1.1, 2.2]).all() and (box[:, 1] > 2).any()
    # rates of 1 and 3 in units of 1 and 2: on average 1.25 units
    np.testing.assert_allclose(typical_rate(np.tile([1.0, 3.0], (4, 1)), np.array([1.0, 2.0])), [1.25, 2.5])


def test_levels_of_forecasts_hold_what_they_say():
    """Truth at levels whose square root is uniform: half of it within a quarter of the paths."""
    contexts = [np.linspace(0.0005, 0.9995, 1000)[:, None] ** 2] * 3
    found = forecasts.learned(contexts)
    np.testing.assert_allclose(found, np.square(NOMINAL), atol=2e-3)
    levels = Levels(NOMINAL, (found,))
    assert forecasts.held(contexts, levels, 0.5) == pytest.approx(50.0, abs=0.5)


def test_a_context_says_where_the_truth_is_among_the_paths():
    judge, levels = forecasts.truth_levels(fim_dynsys.load("fim-ode"), 0)
    assert judge == "extended BIC"
    assert levels.shape == (forecasts.TIMES, 1) and ((levels > 0) & (levels <= 1)).all()
