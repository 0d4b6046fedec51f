"""Pretraining: the prior as stated, honest generation, the loop's resume, few dependencies."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from fim_dynsys.models.fim_ode.weights import build_network
from training.corruption import Observation, observe
from training.generation import (
    BOUND,
    EULER_STEPS,
    N_SAMPLES,
    N_TRAJECTORIES,
    SAMPLING_STEP,
    generate,
    integrate,
)
from training.objective import TRIVIAL_LOSS, field_loss, relative_error
from training.pretrain import learning_rate, pretrain, read_preset
from training.prior import PRIORS, PolynomialPrior, exponents


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


# --- prior and generation ---


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_paper_prior_has_its_stated_statistics(dim: int) -> None:
    coefficients = PolynomialPrior().sample(6000, dim, seeded())
    degree = exponents(dim).sum(1)
    used = torch.stack([(coefficients[:, degree == k] != 0).any(1) for k in range(4)], -1)  # (n, dim, 4)
    # 1..4 degrees, uniformly: each degree is present with probability 2.5 / 4
    assert used.float().mean((0, 1)).numpy() == pytest.approx(0.625 * np.ones(4), abs=0.025)
    assert (used.sum(-1).float().mean()) == pytest.approx(2.5, abs=0.05)
    # of each degree's monomials 1..count, uniformly: half of them plus one half
    for k in range(4):
        count = int((degree == k).sum())
        kept = (coefficients[:, degree == k] != 0).sum(1)[used[..., k]].float().mean()
        assert float(kept) == pytest.approx((count + 1) / 2, rel=0.04)
    # N(0, 1) times U(0, 2): variance 4 / 3
    assert float(coefficients[coefficients != 0].var()) == pytest.approx(4 / 3, rel=0.05)


@pytest.mark.parametrize(("dim", "rate"), [(1, 0.495), (2, 0.26), (3, 0.10)])
def test_acceptance_of_the_rejection(dim: int, rate: float) -> None:
    n = 600
    generator = seeded(1)
    coefficients = PolynomialPrior().sample(n, dim, generator)
    start = torch.randn(n, N_TRAJECTORIES, dim, generator=generator)
    states, alive = integrate(coefficients, start)
    assert len(alive) / n == pytest.approx(rate, abs=3.5 * np.sqrt(rate * (1 - rate) / n))
    assert float(states.abs().max()) < BOUND
    assert states.shape == (len(alive), N_TRAJECTORIES, N_SAMPLES, dim)


@pytest.mark.parametrize("prior", sorted(PRIORS))
def test_trajectories_are_the_euler_solution(prior: str) -> None:
    systems = generate(prior, 2, 3, seed=2)
    powers = exponents(2).numpy()
    for coefficients, states in zip(
        systems.coefficients.double().numpy(), systems.states.numpy(), strict=True
    ):
        x = states[4, 0].astype(float)
        for expected in states[4]:
            # float32 sums of 4,000 Euler steps; unstable systems amplify rounding
            np.testing.assert_allclose(x, expected, rtol=2e-2, atol=2e-3)
            for _ in range(EULER_STEPS):
                x = x + SAMPLING_STEP / EULER_STEPS * (np.prod(x**powers, axis=1) @ coefficients)


def test_same_seed_same_systems_and_another_seed_others() -> None:
    first, again, other = (generate("paper", 1, 20, seed) for seed in (3, 3, 4))
    assert torch.equal(first.states, again.states)
    assert not torch.equal(first.states, other.states)


# --- observation and objective ---


def test_observation_keeps_an_exact_count_in_order_and_noise_is_multiplicative() -> None:
    states = torch.ones(400, 3, 200, 2) * torch.tensor([1.0, 100.0])
    context = observe(states, 0.1, Observation(clean_share=0.0, trajectory_counts=(2,)), seeded(5))
    assert context.x.shape[:2] == (400, 2) and 100 <= context.x.shape[2] <= 200
    assert (context.t.diff(dim=-1) > 0).all()
    relative = (context.x / torch.tensor([1.0, 100.0]) - 1).std((1, 2))  # sigma ~ U(0, 0.06) per context
    assert float(relative.mean()) == pytest.approx(0.03, abs=0.003)
    assert float(relative.max()) < 0.07
    clean = observe(states, 0.1, Observation(clean_share=1.0), seeded(5))
    assert torch.equal(clean.x[..., 0], torch.ones_like(clean.x[..., 0]))


def test_zero_field_has_the_trivial_loss_and_the_truth_none() -> None:
    truth = torch.randn(5, 3, 7, 2, generator=seeded(6))
    weights = torch.tensor([1.0, 1.0, 0.5])
    assert float(field_loss(relative_error(torch.zeros_like(truth), truth), weights)) == pytest.approx(
        TRIVIAL_LOSS
    )
    assert float(field_loss(relative_error(truth, truth), weights)) == 0.0


# --- the loop ---


def test_schedule_warms_up_and_ends_at_its_final_rate() -> None:
    preset = read_preset("ci")
    rates = [learning_rate(preset, step, 1000) for step in range(1001)]
    assert max(rates) == pytest.approx(preset.learning_rate)
    assert rates[0] == pytest.approx(preset.learning_rate / 30)
    assert rates[-1] == pytest.approx(preset.final_learning_rate)


def test_unknown_keys_and_presets_are_refused() -> None:
    with pytest.raises(ValueError, match=r"unknown keys \['learning_rat'\]"):
        read_preset("ci", {"learning_rat": 1.0})
    with pytest.raises(ValueError, match=r"known presets: .*ci"):
        read_preset("no-such-preset")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    pretrain(read_preset("ci"), folder)
    return folder


def test_loss_falls_below_the_trivial_predictor(uninterrupted: Path) -> None:
    rows = np.genfromtxt(uninterrupted / "log.csv", delimiter=",", names=True)
    assert rows["validation_loss"][-1] < 0.75 * TRIVIAL_LOSS
    assert rows["validation_loss"][-1] < rows["validation_loss"][0]
    assert np.isfinite(rows["gradient"]).all()


def test_interrupted_and_resumed_equals_uninterrupted(uninterrupted: Path) -> None:
    folder = uninterrupted.parent / "parts"
    preset = replace(read_preset("ci"), checkpoint_minutes=0.0)
    pretrain(preset, folder, stop_after=13)
    state = pretrain(preset, folder)
    assert state.step == 30
    assert (folder / "weights.safetensors").read_bytes() == (
        uninterrupted / "weights.safetensors"
    ).read_bytes()


def test_exported_weights_build_the_network(uninterrupted: Path) -> None:
    network, header = build_network(uninterrupted / "weights.safetensors")
    assert header["architecture"] == "amortised" and header["max_dim"] == 3
    t = torch.linspace(0, 4, 60, dtype=torch.float64)[None, None]
    x = torch.exp(-0.7 * t)[..., None]
    solves, variances = network.double().infer_coefficients(t, x, torch.ones_like(t, dtype=torch.bool))
    assert variances.shape == solves[:, -1].shape == (1, 4, 1)
    assert (variances > 0).all()


def test_pretraining_needs_torch_numpy_and_safetensors_only() -> None:
    """In a process where every other third-party package is blocked."""
    code = """
import sys
others = {"scipy", "xarray", "pandas", "sklearn", "pysindy", "matplotlib", "tqdm", "joblib", "h5netcdf"}
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in others:
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Block())
import training.pretrain
loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & others, loaded & others
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
