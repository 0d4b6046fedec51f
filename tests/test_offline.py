"""Nothing touches the network: not loading, fitting, predicting or simulating."""

import socket
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys.testing import example_data

MODELS = ["fim-ode", "sindy", "sindy-strong"]


def test_the_fixture_refuses_connections(no_network):
    with pytest.raises(RuntimeError, match="network used"):
        socket.create_connection(("127.0.0.1", 9))
    with pytest.raises(RuntimeError, match="network used"):
        socket.socket().connect(("127.0.0.1", 9))


@pytest.mark.parametrize("name", MODELS)
def test_models_work_without_network(no_network, name, tmp_path):
    x, t = example_data(2)
    model = fim_dynsys.load(name).fit(x, t)
    assert np.isfinite(model.predict(x[0])).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = model.simulate(x[0][0], t[0])
    assert np.array_equal(path[0], x[0][0])
    model.save(tmp_path)
    assert np.allclose(fim_dynsys.load_fitted(tmp_path).predict(x[0]), model.predict(x[0]), rtol=1e-9)
    fim_dynsys.available()


BLOCKED = """
import socket
def refuse(*args, **kwargs):
    raise SystemExit(f"network used: {args!r}")
socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = refuse
socket.create_connection = socket.getaddrinfo = refuse
import fim_dynsys, numpy as np
t = np.linspace(0, 3, 40)
fim_dynsys.load("fim-ode").fit(np.exp(-t), t).predict([0.5])
"""


def test_a_fresh_process_needs_no_network():
    """Imports too, which a fixture comes too late for."""
    root = Path(__file__).resolve().parents[1]
    run = subprocess.run([sys.executable, "-c", BLOCKED], cwd=root, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
