"""Whatever can take longer than two seconds tells how far it is, on a terminal, and is silent elsewhere."""

import inspect
import io

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import (
    CallableField,
    FieldFamily,
    FieldPlane,
    Region,
    Trajectories,
    analyze,
    compare,
    fit_many,
    load,
)
from fim_dynsys.comparison.nested import sample_nested
from fim_dynsys.explorer.page import write_explorer
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.paths import path_score

T = np.linspace(0.0, 4.0, 30)
LONG = (
    analyze.basins,
    analyze.bifurcation_curves,
    analyze.bifurcations_from_data,
    analyze.continuation,
    analyze.ensemble,
    analyze.limit_cycles,
    analyze.lyapunov,
    analyze.manifolds,
    analyze.poincare,
    compare,
    fim_dynsys.evidence,
    fit_many,
    sample_nested,
    write_explorer,
    VectorFieldModel.ensemble,
    VectorFieldModel.explore,
    VectorFieldModel.finetune,
    VectorFieldModel.forecast,
    type(load("auto")),
    type(load("symbolic")),
)


@pytest.mark.parametrize("call", LONG, ids=lambda call: call.__qualname__)
def test_long_calls_take_progress(call):
    assert inspect.signature(call).parameters["progress"].default is None


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = [a * np.exp(-0.5 * T)[:, None] + 0.01 * rng.standard_normal((30, 1)) for a in (1.0, 2.0)]
    return Trajectories.from_arrays(x, [T, T])


@pytest.fixture(scope="module")
def model(data):
    return load("sindy-strong", refined=0).fit(data)


@pytest.fixture
def bars(monkeypatch):
    """Every bar that was made: what it is about, whether it may be shown, and how far it came."""
    import tqdm

    made = []

    class Noted(tqdm.tqdm):
        def __init__(self, *arguments, **options):
            self.asked = options["disable"]
            super().__init__(*arguments, **options | {"disable": False, "file": io.StringIO()})
            made.append(self)

    monkeypatch.setattr(tqdm, "tqdm", Noted)
    return made


NAMES = (
    "ensemble",
    "compare",
    "forecast",
    "paths",
    "explore",
    "fit sindy-strong",
    "bifurcation curves",
    "continuation",
    "section",
    "unstable manifolds",
)


def calls(data, model, tmp_path):
    plane = FieldPlane.from_callable(lambda x, h, r: h + r * x - x**3, 1, ("h", "r"))
    fold = FieldFamily.from_callable(lambda x, p: p + x - x**3, 1, "h")
    decay = CallableField(lambda x: -0.5 * x, 1)  # sums of terms are followed by compiled code, without a bar
    field, saddle = model.field_, CallableField(lambda x: x * [1.0, -1.0], 2, region=Region([-1, -1], [1, 1]))
    cycle = CallableField(lambda x: x[:, ::-1] * [1.0, -1.0], 2)
    return {
        "ensemble": (lambda **p: model.ensemble(2, **p), 2),
        "compare": (lambda **p: compare([model], data[[0]], data[[1]], **p), 1),
        "forecast": (lambda **p: model.forecast(data, 1.0, n_draws=2, **p), 2),
        "paths": (lambda **p: path_score("score", decay, data, None, **p), 100),
        "explore": (lambda **p: write_explorer(field, tmp_path / "page.html", **p), 1),
        "fit sindy-strong": (lambda **p: fit_many(model, {"a": data, "b": data}, n_jobs=1, **p), 2),
        "bifurcation curves": (
            lambda **p: analyze.bifurcation_curves(plane, [0.0], (-1, 1), (1.0, -1), p0=0.0, **p),
            None,
        ),
        "section": (lambda **p: analyze.poincare(cycle, [1.0, 0.0], (0, 0.0), n=3, **p), 100),
        "unstable manifolds": (lambda **p: analyze.manifolds(saddle, **p), 100),
        "continuation": (lambda **p: analyze.continuation(fold, [0.0], (-1, 1), p0=0.0, **p), None),
    }


@pytest.mark.parametrize("name", NAMES)
def test_bars_reach_their_end(name, data, model, tmp_path, bars):
    call, total = calls(data, model, tmp_path)[name]
    for progress, disabled in ((None, None), (False, True), (True, False)):
        bars.clear()
        call(progress=progress)
        (bar,) = (bar for bar in bars if bar.desc == name)
        assert bar.asked is disabled
        assert bar.total is not None and 0 < bar.n <= bar.total  # there is a time left to tell
        assert total is None or bar.n == bar.total == total


def test_the_simplest_laws_are_counted(data, bars):
    model = load("auto", effort="fast", progress=False).fit(data)
    bars.clear()
    model.alternatives_  # noqa: B018
    assert all(bar.asked is True for bar in bars)
    assert [(bar.desc, bar.n == bar.total) for bar in bars if bar.desc == "alternatives"] in (
        [("alternatives", True)],
        [],  # clean data
    )


def test_nothing_is_shown_where_there_is_no_terminal(data, model, capfd):
    model.ensemble(2), model.score(data, metric="path"), compare([model], data[[0]], data[[1]])
    said = capfd.readouterr()
    assert said.out == said.err == ""
