"""The models under attack, and plain data for them."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import numpy as np
from sklearn.base import clone

import fim_dynsys
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.trajectories.container import Trajectories

MODELS = ("fim-ode", "sindy", "sindy-strong", "symbolic", "auto", "fim-ode-published")


def make(name: str) -> VectorFieldModel:
    """Return a registered model, unfitted; the published network with random weights, which are as hard."""
    return clone(_made(name))


@functools.cache
def _made(name: str) -> VectorFieldModel:
    """One of each name: looking for plugins costs more than many a fit."""
    options = {"weights": str(_random_weights())} if name == "fim-ode-published" else {}
    return fim_dynsys.load(name, **options)


@functools.cache
def _random_weights() -> Path:
    import torch

    from fim_dynsys.models.fim_ode.networks import save_weights
    from fim_dynsys.models.fim_ode.published import PublishedConfig, PublishedNetwork

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    config = PublishedConfig(
        width=32, heads=4, feedforward=64, encoder_layers=1, decoder_layers=2, uncertainty_layers=1
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = PublishedNetwork(config).eval()
    return save_weights(folder / "random.safetensors", network, "published", config, max_dim=3)


def spiral(number: int = 0, samples: int = 60) -> Trajectories:
    """Return two noisy trajectories of a damped oscillator, others for each number."""
    rng = np.random.default_rng([31, number])
    t = np.linspace(0.0, 6.0, samples)
    clean = [
        size * np.exp(-0.1 * t)[:, None] * np.stack([np.cos(1.5 * t), -np.sin(1.5 * t)], axis=1)
        for size in (1.0, 1.0 + rng.random())
    ]
    noisy = [x + 0.02 * rng.normal(size=x.shape) for x in clean]
    return Trajectories.from_arrays(noisy, [t, t], state_names=["x", "v"])
