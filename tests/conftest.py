"""What all tests share: reproducible fuzzing, and a fixture without network."""

import gc
import socket
import sys

import numpy as np
import pytest
from hypothesis import settings

# Fuzzing draws the same examples on each run, so that a failure is one for everybody.
settings.register_profile("suite", derandomize=True, deadline=None, database=None, print_blob=True)
settings.load_profile("suite")


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """The garbage collector rests: modules and tests stay, and it would look at all of them again.

    Afterwards too it passes these over, and comes seldom: it took a twelfth of the time of the tests.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)  # containers instead of 700: their memory suffices
    gc.enable()


class NetworkUsed(RuntimeError):
    """A test without network opened a connection."""


@pytest.fixture
def no_network(monkeypatch):
    """Refuse every connection and every look-up of a host name."""

    def refuse(*args, **kwargs):
        raise NetworkUsed(f"network used: {args!r}")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    for name in ("create_connection", "getaddrinfo", "gethostbyname"):
        monkeypatch.setattr(socket, name, refuse)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of installed plugins; their modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith("toy_"):
            del sys.modules[name]


@pytest.fixture
def damped():
    """Two noise-free trajectories of dx/dt = A x, A = [[-0.1, 2], [-2, -0.1]], of unequal length."""
    t = [np.linspace(0.0, 5.0, 101), np.linspace(0.0, 4.0, 81)]
    x = [
        a * np.exp(-0.1 * s)[:, None] * np.stack([np.cos(2 * s), -np.sin(2 * s)], axis=1)
        for a, s in zip((1.0, -1.5), t, strict=True)
    ]
    return x, t


@pytest.fixture(scope="session")
def random_published_weights(tmp_path_factory):
    """A weights file of a small published network with random weights: answers mean nothing."""
    import torch

    from fim_dynsys.models.fim_ode.networks import save_weights
    from fim_dynsys.models.fim_ode.published import PublishedConfig, PublishedNetwork

    config = PublishedConfig(
        width=32, heads=4, feedforward=64, encoder_layers=1, decoder_layers=2, uncertainty_layers=1
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = PublishedNetwork(config).eval()
    path = tmp_path_factory.mktemp("weights") / "random-published.safetensors"
    return save_weights(path, network, "published", config, max_dim=3, dtype=torch.float32)
