"""A plugin of thirty lines, built into a wheel and installed, is a model like any other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "fim-dynsys-ridge-toy"
version = "0.1"

[project.entry-points."fim_dynsys.models"]
ridge-toy = "ridge_toy:SPEC"

[tool.setuptools]
packages = ["ridge_toy"]
"""

SPEC = """
from fim_dynsys.registry import ModelSpec

SPEC = ModelSpec("ridge-toy", "ridge regression on cubics", "ridge_toy.model:RidgeToy", max_dim=4)
"""

MODEL = '''
import numpy as np
from sklearn.linear_model import Ridge

from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary


class RidgeToy(VectorFieldModel):
    """scikit-learn's ridge regression of finite differences on monomials."""

    name, version = "ridge-toy", "1"
    min_observations, max_dim = 8, 4

    def __init__(self, degree=3, alpha=1e-3):
        self.degree = degree
        self.alpha = alpha

    def infer(self, trajectories):
        data = trajectories.drop_incomplete(self.name)
        dictionary = Dictionary.polynomial(data.dim, self.degree)
        x = np.concatenate([x for _, x in data.arrays()])
        slopes = np.concatenate([self.differentiate(x, t) for t, x in data.arrays()])
        ridge = Ridge(alpha=self.alpha, fit_intercept=False).fit(dictionary.evaluate(x), slopes)
        return DictionaryField(dictionary, ridge.coef_.reshape(data.dim, -1).T, context=data)
'''

USE = """
import os
import sys
import numpy as np
import fim_dynsys
from fim_dynsys.__main__ import main
from fim_dynsys.testing import check_model

assert "ridge_toy" not in sys.modules
os.environ["FIM_DYNSYS_DISABLE_PLUGINS"] = "1"
main(["available"])
print("-- and with plugins")
del os.environ["FIM_DYNSYS_DISABLE_PLUGINS"]
main(["available"])
print("-- and used")
check_model(lambda: fim_dynsys.load("ridge-toy"))
assert type(fim_dynsys.load("ridge-toy", alpha=2.0)).__module__ == "ridge_toy.model"
(entry,) = [entry for entry in fim_dynsys.available() if entry.name == "ridge-toy"]
assert entry.distribution == "fim-dynsys-ridge-toy", entry

t = np.linspace(0, 4, 400)
model = fim_dynsys.load("ridge-toy", degree=1, alpha=1e-9).fit(np.exp(-0.5 * t), t)
model.save(sys.argv[1])
again = fim_dynsys.load_fitted(sys.argv[1])
print(again.name, round(float(again.predict([1.0])[0]), 3))
"""


def _run(arguments, cwd=None, **environment):
    run = subprocess.run(arguments, capture_output=True, text=True, cwd=cwd, env=os.environ | environment)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder into which the plugin's wheel is installed, built without isolation or network."""
    source = tmp_path_factory.mktemp("source")
    package = source / "ridge_toy"
    package.mkdir()
    (source / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").write_text(SPEC)
    (package / "model.py").write_text(MODEL)
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    offline = {"PIP_NO_INDEX": "1"}
    build = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    _run([sys.executable, "-c", build, str(wheels)], cwd=source)
    (wheel,) = wheels.glob("*.whl")
    _run([*pip, "install", "--no-deps", "--target", str(folder), str(wheel)], **offline)
    return folder


@pytest.fixture(scope="module")
def printed(site, tmp_path_factory):
    """What a process with the plugin prints: two tables of models, without it and with it, and an answer."""
    path = os.pathsep.join([str(site), str(ROOT)])
    saved = tmp_path_factory.mktemp("saved") / "saved"
    said = _run([sys.executable, "-c", USE, str(saved)], PYTHONPATH=path)
    without, _, rest = said.partition("-- and with plugins\n")
    return without, *rest.split("-- and used\n")


def test_plugin_passes_the_contract(printed):
    assert printed[2].split() == ["ridge-toy", "-0.5"]


def test_command_line_lists_it(printed):
    without, listed, _ = printed
    (line,) = [line for line in listed.splitlines() if line.startswith("ridge-toy")]
    assert line.split()[:3] == ["ridge-toy", "4", "fim-dynsys-ridge-toy"]
    assert "sindy" in without and "ridge-toy" not in without
