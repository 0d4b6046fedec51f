"""Questions to the package, each made from a generator: proper arguments, some of them replaced by others."""

import contextlib
import functools
import io
import shutil
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from sklearn.exceptions import NotFittedError

import fim_dynsys
from benchmarks.reliability import editing, hostile
from benchmarks.reliability.subjects import make, spiral
from fim_dynsys import (
    CallableField,
    FieldFamily,
    FieldPlane,
    Knowledge,
    Region,
    SymbolicField,
    Trajectories,
    analyze,
    plot,
)
from fim_dynsys.__main__ import main
from fim_dynsys.explorer.page import write_explorer
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.equations import EquationsModel

Rng = np.random.Generator
Question = tuple[str, Callable[[], Any]]
"""What is asked, in words, and the call."""

REFUSALS = (ValueError, TypeError, NotFittedError, IndexError, OSError)
LEFT_OUT = object()
"""In the place of an argument that is not given."""

_NAN, _INF = float("nan"), float("inf")
THINGS: list[Any] = [None, True, -1, 0, 1, 2.5, 1e300, 5e-324, _NAN, _INF, 1j, "", "a", "x", "path", b"x"]
THINGS += [[], [[]], {}, {"x": 1}, {"a": []}, {1.0}, object(), range(3), lambda *a: None, np.array(None)]
THINGS += [np.zeros((2, 2)), np.full(2, _NAN), np.array(["a"]), [None], ["x", "x"], (0, 1), (1, 0), (0, 0)]
THINGS += [np.zeros((0, 2)), np.zeros(2, "c16"), [1, "a"], [[1], [1, 2]], np.datetime64("2020"), Path("no")]
THINGS += [[("x", 1)], np.ma.masked, pd.NA, [_NAN], [_INF], [0.5, 0.5], [np.zeros((3, 2))] * 2, type, "0"]
TEXTS: list[Any] = ["v", "x", "-x", "x*v", "x**2", "-0.2*v - x", "-9.81 + ...", "...", "+ ...", "x + ...", ""]
TEXTS += [" ", "x/0", "a/(b-b)", "sin(x)", "x**100", "x**101", "(x+v)**50", "((x+1)**100)**100", "y", "x +"]
TEXTS += ["__import__('os')", "x" * 20_000, "é", "x\0v", "1e999", "1e300*x", "nan", "inf", "0", "x - x", "3"]
TEXTS += ["x**-1", "x**0.5", "v**2/2 + x**2/2", "log(x)", "x/(1+v)", "(" * 200 + "x" + ")" * 200, "x.v", "-"]
TEXTS += [
    "x[0]",
    "x if v else 1",
    "x; v",
    "x\n+ v",
    3,
    None,
    b"x",
    1.5,
    ["x"],
    "a*x + b*v",
    "a**b",
    "exp(a*x)",
]
TEXTS += [
    "x0",
    "x1*x0",
    "lambda",
    "x**v",
    "abs(x)",
    "sign(x)*v",
    "pi",
    "1j",
    "2**2**2**2**2",
    "exp(exp(exp(x)))",
]


# ---------------------------------------------------------------------------------------------- choosing


def one(rng: Rng, values: Sequence[Any]) -> Any:
    """Return one of some values as it is, where numpy's choice would make an array of them."""
    return values[rng.integers(len(values))]


def ask(rng: Rng, function: Callable[..., Any], choices: Mapping[str, Sequence[Any]]) -> Question:
    """Ask a function with the first, proper value of each argument, but for two at most.

    These take another of their values, or whatever comes. Names of positional arguments begin with ``*``.
    """
    changed = rng.permutation(len(choices))[: one(rng, [0, 1, 1, 1, 2, 2])]
    given = {}
    for place, (name, values) in enumerate(choices.items()):
        others = THINGS if rng.random() < 0.35 else values
        given[name] = one(rng, others) if place in changed else values[0]
    given = {name: value for name, value in given.items() if value is not LEFT_OUT}
    places = [value for name, value in given.items() if name.startswith("*")]
    named = {name: value for name, value in given.items() if not name.startswith("*")}
    about = ", ".join(f"{name.lstrip('*')}={_brief(value)}" for name, value in given.items())
    name = getattr(function, "__name__", type(function).__name__)
    return f"{name}({about})", lambda: function(*places, **named)


def _brief(value: Any) -> str:
    text = "".join(repr(value).split())
    return text if len(text) < 40 else f"{type(value).__name__} {text[:30]}..."


# --------------------------------------------------------------------------------------------- subjects


def quietly(call: Callable[[], Any]) -> Any:
    """Make a subject, about which nothing is asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


@functools.cache
def record() -> Trajectories:
    """Two noisy trajectories of a damped oscillator, x and v."""
    return spiral(0, 40)


@functools.cache
def driven() -> Trajectories:
    """The same under an input."""
    rng, t = np.random.default_rng(5), np.linspace(0.0, 8.0, 60)
    u = np.sin(1.3 * t) + (t > 4)
    x = np.zeros((len(t), 2))
    for k in range(len(t) - 1):  # Euler's, in small steps
        own = x[k].copy()
        for _ in range(20):
            own += (t[1] - t[0]) / 20 * np.array([own[1], -own[0] - 0.4 * own[1] + u[k]])
        x[k + 1] = own
    return Trajectories.from_arrays(
        x + 0.01 * rng.normal(size=x.shape), t, ["x", "v"], u=u[:, None], input_names=["u"]
    )


@functools.cache
def fitted(name: str, **params: Any) -> Any:
    """A model fitted to the record, or to the driven one under a name that ends in `` driven``."""
    data = driven() if name.endswith(" driven") else record()
    return quietly(lambda: make(name.removesuffix(" driven")).set_params(**params).fit(data))


@functools.cache
def forced() -> Any:
    """A model with a forcing."""
    return quietly(lambda: make("sindy-strong").fit(driven().without_inputs(), forcing={"omega": 1.3}))


@functools.cache
def _scratch() -> Path:
    import atexit

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def fresh() -> Path:
    """Return an empty folder, gone when the process ends."""
    return Path(tempfile.mkdtemp(dir=_scratch()))


def damaged(rng: Rng, array: np.ndarray, table: Mapping[str, hostile.Damage] = hostile.DATA) -> Any:
    """Return an array after one of the damages of a table, or as it is."""
    if rng.random() < 0.3:
        return array
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return hostile._damaged(one(rng, list(table.values())), rng, array)


# --------------------------------------------------------------------------------------------- surfaces

_FITS = ("sindy-strong", "sindy-strong", "sindy", "fim-ode", "symbolic", "auto")
FITTED = ("fim-ode", "sindy", "sindy-strong", "sindy-strong driven", "sindy driven")
"""What most questions go to."""
_LIGHT = {"symbolic": {"effort": "quick"}, "auto": {"effort": "fast"}}


def light(name: str) -> Any:
    """Return a model whose search is short."""
    return make(name).set_params(**_LIGHT.get(name, {}))


def inputs(rng: Rng) -> Question:
    """Inputs of a fit, and of everything that is asked of a fitted model that has them."""
    data, (t, x) = driven(), driven().arrays()[0]
    u = data.input_arrays()[0]
    wrong = [damaged(rng, u) for _ in range(8)]
    functions = [
        np.sin,
        lambda s: [np.sin(s), 1.0],
        lambda s: _NAN,
        lambda s: "a",
        lambda s: None,
        lambda s: [[s]],
    ]
    given = [
        u,
        [u],
        u[:, 0],
        u.tolist(),
        pd.DataFrame(u),
        xr.DataArray(u),
        [u, u],
        u[:-1],
        -1.0,
        *wrong,
        *functions,
    ]
    kind = rng.integers(8)
    if kind <= 2:
        names = [
            LEFT_OUT,
            ["x", "v"],
            ["x", "v", "u"],
            ["x", "v", "x"],
            ["a", "b", "c", "d"],
            ["x", "v", "t"],
            ["u"],
        ]
        model = light(one(rng, _FITS))
        return ask(rng, model.fit, {"*x": [x], "*t": [t], "u": given, "feature_names": names})
    model = one(rng, [fitted("sindy-strong driven"), fitted("sindy driven"), fitted("sindy-strong")])
    if kind == 3:
        return ask(rng, model.predict, {"*x": [x, x[0], [x, x], pd.DataFrame(x)], "u": [*given, LEFT_OUT]})
    if kind == 4:
        makers = [LEFT_OUT, lambda t, u: lambda s: 0.0, lambda t, u, **k: np.sin, lambda t, u: None]
        return ask(
            rng,
            model.simulate,
            {
                "*x0": [x[0]],
                "*t": [t, t[:3], t[:1]],
                "u": given,
                "interpolator": makers,
                "interpolator_kws": [LEFT_OUT],
            },
        )
    if kind == 5:
        return ask(rng, model.score, {"*x": [x, data], "*t": [t, None], "u": [*given, LEFT_OUT]})
    field = fitted("sindy-strong driven").field_
    if kind == 6:
        return ask(rng, field.at_input, {"*u": [1.0, [0.5], {"u": 1.0}, {"w": 1.0}, [1.0, 2.0]]})
    family = {"*input_name": ["u", "w"], "at": [LEFT_OUT, {}, {"u": 1.0}, {"w": 2.0}]}
    return one(rng, [ask(rng, field.family, family), ask(rng, field, {"*x": [x], "*u": given})])


def forcing(rng: Rng) -> Question:
    """Forcing and time of a fit, and questions to a forced model."""
    data = driven()
    if rng.random() < 0.6:
        omegas: list[Any] = [
            1.3,
            [1.3, 2.6],
            [1.3, 1.3],
            -1.0,
            0.0,
            _NAN,
            1e300,
            1e-300,
            "a",
            [],
            [[1.0]],
            None,
            1j,
        ]
        forcings = [{"omega": omega} for omega in omegas] + [
            {"period": 1.0},
            {"omega": 1.0, "phase": 0.0},
            {},
        ]
        options = {
            "*x": [data.without_inputs(), data, data.without_inputs()[[0]]],
            "forcing": [*forcings, LEFT_OUT],
            "time": [LEFT_OUT, LEFT_OUT, LEFT_OUT, True],
            "order": [LEFT_OUT] * 5 + [2],
            "u": [LEFT_OUT] * 5 + [np.sin],
        }
        return ask(rng, light(one(rng, _FITS[:4])).fit, options)
    model, (t, x) = forced(), data.arrays()[0]
    questions = [
        ask(
            rng,
            model.simulate,
            {"*x0": [x[0]], "*t": [t], "u": [LEFT_OUT, np.sin, driven().input_arrays()[0]]},
        ),
        ask(rng, model.predict, {"*x": [x], "u": [LEFT_OUT, np.zeros((len(x), 2))]}),
        ask(
            rng,
            model.score,
            {"*x": [x, data.without_inputs()], "*t": [t, None], "metric": [LEFT_OUT, "path"]},
        ),
        ask(rng, model.forecast, {"*x0": [x[0], x[:2], data], "*t": [t, t[:3], 3.0]}),
        ask(rng, analyze.fixed_points, {"*field": [model], "*region": [None, [(-1, 1)] * 2, [(-1, 1)] * 4]}),
    ]
    return one(rng, questions)


def _facts(rng: Rng) -> dict[str, Any]:
    def states() -> Any:
        return one(rng, ["x", "v"] if rng.random() < 0.9 else ["y", "", 3, None])

    def text() -> Any:
        return one(rng, ["v", "x", "x*v", "x**2", "-x - 0.1*v", "-x + ..."] if rng.random() < 0.8 else TEXTS)

    def end() -> Any:
        return one(rng, [None, 0, 1.0, -1.0] if rng.random() < 0.8 else [_NAN, _INF, "a", 1e300, True])

    facts: dict[str, Any] = {}
    for _ in range(rng.integers(1, 4)):
        name = one(
            rng, ["known", "known", "forbid", "require", "equal", "bounds", "nonnegative", "conserved"]
        )
        if rng.random() < 0.1:
            facts[name] = one(rng, THINGS)
        elif name == "known":
            facts[name] = {states(): text() for _ in range(rng.integers(1, 3))}
        elif name in ("forbid", "require"):
            facts[name] = {
                states(): [text() for _ in range(rng.integers(3))] for _ in range(rng.integers(1, 3))
            }
        elif name == "equal":
            facts[name] = [
                {states(): text() for _ in range(rng.integers(3))} for _ in range(rng.integers(1, 3))
            ]
        elif name == "bounds":
            pair = one(rng, [(end(), end()), [end(), end()], (end(),), end(), "ab"])
            facts[name] = {states(): {text(): pair}}
        else:
            facts[name] = [text() if name == "conserved" else states() for _ in range(rng.integers(1, 3))]
    return facts


def knowledge(rng: Rng) -> Question:
    """Facts that cannot be read, contradict each other, or name what is not there."""
    facts = _facts(rng)
    about = f"Knowledge(**{_brief(facts)})"
    if rng.random() < 0.6:
        terms = Dictionary.polynomial(2, int(rng.integers(1, 4)))

        def told() -> None:
            Knowledge(**facts).restriction(terms, ["x", "v"])

        return f"{about}.restriction, degree {terms.degree}: {facts}", told
    name = one(rng, ["sindy-strong", "sindy-strong", "fim-ode", "symbolic", "sindy"])

    def fit() -> None:
        light(name).set_params(knowledge=Knowledge(**facts)).fit(record()).print(file=io.StringIO())

    if name == "sindy":
        return f"sindy, {about}", lambda: fim_dynsys.load("sindy", knowledge=Knowledge(**facts))
    if rng.random() < 0.1:
        thing = one(rng, THINGS)
        return (
            f"{name}, knowledge={_brief(thing)}",
            lambda: light(name).set_params(knowledge=thing).fit(record()),
        )
    return f"{name}, {about}: {facts}", fit


def sigma_and_order(rng: Rng) -> Question:
    """Known errors of the observations, and second-order equations."""
    t, x = record().arrays()[0]
    errors = [
        one(rng, [0.02, LEFT_OUT]),
        [0.02, 0.03],
        {"x": 0.02, "v": 0.1},
        {"x": 0.02},
        np.full(x.shape, 0.02),
        [np.full(x.shape, 0.1)],
    ]
    errors += [
        -0.1,
        0.0,
        1e-300,
        1e300,
        [0.1],
        {"x": "a", "v": None},
        damaged(rng, np.full(x.shape, 0.02)),
        LEFT_OUT,
    ]
    data = [x, x[:, :1], x[:4, :1], np.tile(x, (1, 2)), damaged(rng, x)]
    options = {
        "*x": data,
        "*t": [t, 0.1, t[:4]],
        "sigma": errors,
        "order": [one(rng, [LEFT_OUT, 2]), 1, 3, 2.0, "2"],
        "x_dot": [LEFT_OUT] * 6 + [x],
        "feature_names": [LEFT_OUT] * 6 + [["x", "x_dot"], ["x_dot"]],
    }
    return ask(rng, light(one(rng, _FITS[:5])).fit, options)


def parameters(rng: Rng) -> Question:
    """Parameters of models, which are seen when they are fitted."""
    name = one(rng, _FITS)
    model = light(name)
    known = sorted(set(model.get_params(deep=False)) - {"weights", "device", "progress"})
    parameter = one(rng, known)
    value = one(rng, [*THINGS, 2, 7, "full", "fast", "quick"])

    def fit() -> None:
        model.set_params(**{parameter: value}).fit(record())

    return f"{name}, {parameter}={_brief(value)}", fit


def expressions(rng: Rng) -> Question:
    """Right-hand sides as text, with parameters."""
    given = [one(rng, ["v", "-a*x - b*v", one(rng, TEXTS)]) for _ in range(one(rng, [1, 2, 2, 2, 2, 3]))]
    values = [
        LEFT_OUT,
        {"a": 1.0, "b": 2.0},
        {"a": 1.0},
        {"a": _NAN},
        {"a": "x"},
        {"x": 1.0},
        {"a": 1e300, "b": -1e9},
    ]
    if rng.random() < 0.5:
        options = {"*expressions": [given], "*parameters": [values[1], *values]}
        question, call = ask(rng, SymbolicField, {**options, "state_names": [["x", "v"], LEFT_OUT, ["x"]]})
        return question, lambda: _used(call())
    thing = given if rng.random() < 0.9 else one(rng, THINGS)
    start = one(rng, [None, *values[1:], *THINGS[:8]])

    def fit() -> None:
        model = EquationsModel(thing, start=start).fit(record())
        model.print(file=io.StringIO())
        _used(model.field_)

    return f"symbolic, expressions={_brief(thing)}: {given}, start={_brief(start)}", fit


def _used(field: Any) -> None:
    points = np.random.default_rng(0).normal(size=(3, field.dim))
    field(points), field.jacobian(points), field.directional(points, points), repr(field)
    field.equations(), field.to_dataframe()


def compare(rng: Rng) -> Question:
    """Models side by side."""
    strong = make("sindy-strong").set_params(refined=0)
    models = [
        {"a": strong, "b": make("sindy")},
        [strong],
        [strong, strong],
        {"a": strong, "b": "sindy"},
        ["sindy"],
    ]
    models += [[fitted("sindy-strong")], strong, fim_dynsys.load]
    short = record()[[0]]
    held = [LEFT_OUT, LEFT_OUT, short, record().select_states(["x"]), driven()]
    options = {
        "*models": models,
        "*train": [record(), short, driven(), record().to_dataframe(), record().x[0]],
        "held_out": held,
        "by": [LEFT_OUT, "trajectory", "block", "sample"],
        "folds": [LEFT_OUT, 2, 3, 1, 100],
        "horizon": [LEFT_OUT, 1.0, 1e-9, 1e300, -1.0, "1"],
    }
    question, call = ask(rng, fim_dynsys.compare, options)

    def drawn() -> None:
        found = call()
        if rng.random() < 0.2:
            plot.comparison(found)
            _close()

    return question, drawn


def fit_many(rng: Rng) -> Question:
    """Many data sets, some of them none, into folders that hold something already."""
    folder = fresh()
    lines = [
        '{"name": "0"}',
        '{"name": 3}',
        "[]",
        "3",
        "\0",
        '{"name": "0", "digest": "", "status": "fitted"}',
        "{",
    ]
    lines += [
        '{"name": null, "digest": null, "status": null}',
        '{"name": ["a"]}',
        "[" * 5000,
        "ÿ",
        '{"name": {}}',
    ]
    if rng.random() < 0.4:
        (folder / "rows.jsonl").write_text("\n".join(one(rng, lines) for _ in range(5)), "utf-8")
    elif rng.random() < 0.2:
        (folder / "rows.jsonl").write_bytes(b"\xff\xfe\x00" + bytes(range(256)))
    elif rng.random() < 0.2:
        (folder / "rows.jsonl").mkdir()
    files = fresh()
    for k in range(3):
        path = files / f"{k}.csv"
        record()[[k % 2]].to_file(path)
        if rng.random() < 0.5:
            one(rng, list(editing.BYTES.values()))(rng, path)
    frames = [record()[[0]].to_dataframe(), pd.DataFrame({"a": ["b"]})]
    sets: list[Any] = [
        [record(), driven()],
        {"a": record(), "b": None},
        files,
        record(),
        fresh(),
        frames,
        "nowhere",
    ]
    sets += [
        [("a", record()), ("a", record())],
        [("a", 3), ("../../b", record())],
        iter([record()]),
        [one(rng, THINGS)],
    ]
    sets += [
        {"": record()},
        {"a/b": record(), "x" * 300: record()},
        {one(rng, [3, None, "é\0"]): record()},
        [],
    ]
    models = [make("sindy"), make("sindy-strong").set_params(refined=0), fim_dynsys.load, "sindy"]
    grouped = record().with_coords(mu=[1.0, 2.0])
    options = {
        "*model": models[:2] * 4 + models,
        "*datasets": [*sets, grouped],
        "group": [LEFT_OUT] * 6 + ["mu", "nu"],
        "folder": [one(rng, [folder, LEFT_OUT]), folder / "new" / "er"],
        "save_models": [LEFT_OUT, True],
        "batch": [LEFT_OUT, 1, 2, 0, -1],
    }
    question, call = ask(rng, functools.partial(fim_dynsys.fit_many, n_jobs=1), options)

    def rows() -> str:
        found = call()
        failed = found[found.status == "failed"]
        unexplained = [text for text in failed.message if "expected" not in text and "[Errno " not in text]
        return f"a row says {unexplained[0]}" if unexplained else ""

    return f"fit_many{question[question.index('(') :]}", rows


def forecast(rng: Rng) -> Question:
    """Paths from states, and bands beyond trajectories."""
    model = one(rng, [fitted("sindy-strong"), fitted("fim-ode"), fitted("sindy-strong driven"), forced()])
    (t, x), data = record().arrays()[0], record()
    hole = np.where(np.arange(len(x))[:, None] > 5, _NAN, x)
    told = [
        data,
        data[[0]],
        driven(),
        Trajectories.from_arrays(hole, t),
        Trajectories.from_arrays(x[:1], t[:1]),
    ]
    told += [Trajectories.from_arrays(1e30 * x, t), Trajectories.from_arrays(x[:, :1], t)]
    if rng.random() < 0.3:
        starts = [x[0], x[:3], x[0].tolist(), 1e200 * x[:2], damaged(rng, x[:3])]
        return ask(
            rng,
            model.forecast,
            {"*x0": starts, "*t": [t, t[::-1], t[:1], 1.0, damaged(rng, t, hostile.TIMES)]},
        )
    options = {
        "*x0": told,
        "*t": [1.0, 10.0, [0.5, 1.0], [1.0, 0.5], -1.0, 1e300, 1e-300],
        "bands": [LEFT_OUT, [0.5], [0.0], [1.0, 2.0], (0.9, 0.1), []],
        "members": [LEFT_OUT, 3, 1, 0, -2, 2.0],
        "observed": [LEFT_OUT, True],
        "seed": [LEFT_OUT, 1, -1, 2.5],
    }
    return ask(rng, model.forecast, options)


def simulate(rng: Rng) -> Question:
    """Integration of fields, of models, and of what is neither."""
    field, t = CallableField(lambda x: _normal_form(x, 1.0), 2), np.linspace(0.0, 3.0, 7)
    others = [
        fitted("sindy-strong driven"),
        forced(),
        make("sindy"),
        [field] * 2,
        [],
        np.sin,
        CallableField(np.exp, 2),
    ]
    options = {
        "*field": [one(rng, [field, fitted("sindy-strong")]), CallableField(lambda x: x * _NAN, 2), *others],
        "*x0": [[0.5, 0.1], np.ones((3, 2)), [[0.5, 0.1]] * 2, [0.5], damaged(rng, np.ones((3, 2)))],
        "*t": [t, t[::-1], t[:1], [t, t[:3]], 1.0, damaged(rng, t, hostile.TIMES)],
        "rtol": [LEFT_OUT, 1e-3, 1e-30, -1.0, "1e-3"],
        "atol": [LEFT_OUT, 1e-9, [1e-9, 1e-6], [1e-9] * 3, -1.0],
        "events": [LEFT_OUT, lambda t, x: x[:, 0], [lambda t, x: x[:, 1]], lambda t, x: _NAN],
        "method": [LEFT_OUT, "rk45", "radau", "lsoda", "euler"],
        "max_steps": [LEFT_OUT, 5, 0, 2.5],
        "max_step": [LEFT_OUT, 0.1, 0.0, -1.0],
        "escape": [LEFT_OUT, 2.0, 0.0],
    }
    if rng.random() < 0.5:
        return ask(rng, fim_dynsys.simulate, options)
    kws = [
        LEFT_OUT,
        {"rtol": 1e-3},
        {"method": "BDF"},
        {"method": "foo"},
        {"foo": 1},
        {"rtol": "a"},
        {"events": None},
    ]
    kws += [{"method": "RK23", "rtol": -1.0}, {"method": "RK23", "rtol": "a"}, {"events": lambda t, x: x[0]}]
    model, own = fitted("sindy-strong"), {"integrator": [LEFT_OUT, "odeint", "euler"], "integrator_kws": kws}
    return ask(rng, model.simulate, {"*x0": options["*x0"], "*t": options["*t"], **own})


def score(rng: Rng) -> Question:
    """Scores of slopes and of paths."""
    model, (t, x), data = fitted("sindy-strong"), record().arrays()[0], record()
    options = {
        "*x": [x, data, x[:2], x[:, :1], np.full_like(x, _NAN), np.ones_like(x), 1e200 * x, damaged(rng, x)],
        "*t": [t, None, 0.1, damaged(rng, t, hostile.TIMES)],
        "x_dot": [LEFT_OUT, LEFT_OUT, x, [x], damaged(rng, x)],
        "metric": [
            one(rng, [LEFT_OUT, "path"]),
            "foo",
            lambda a, b: 1.0,
            lambda a, b: _NAN,
            lambda a, b: None,
        ],
        "horizon": [LEFT_OUT, LEFT_OUT, 1.0, -1.0, 1e-300, _NAN, "a"],
    }
    return ask(rng, model.score, options)


def alternatives(rng: Rng) -> Question:
    """What else the samples allow, and choosing among it."""
    model = fitted("auto", effort="fast")
    if rng.random() < 0.4:
        return ask(rng, model.select, {"*k": [0, 1, -1, 99, 0.0, "0"]})
    questions = [
        ("alternatives_", lambda: (repr(model.alternatives_), model.alternatives_._repr_html_())),
        ask(rng, plot.front, {"*model": [model, fitted("sindy-strong"), make("auto")], "ax": [LEFT_OUT]}),
        ask(rng, model.ensemble, {"*n": [1, 3, 0, -1], "seed": [LEFT_OUT, 0, -1]}),
        ask(rng, make("auto").set_params, {"effort": ["fast", "slow"], "seed": [0, -1], "progress": [None]}),
    ]
    question, call = one(rng, questions)

    def asked() -> None:
        call()
        _close()

    return question, asked


def finetune(rng: Rng) -> Question:
    """What a field misses."""
    (t, x), data = record().arrays()[0], record()
    path = fresh() / "checkpoint.npz"
    if rng.random() < 0.3:
        path.write_bytes(one(rng, [b"", b"PK\x03\x04", bytes(range(256)), b"{}"]))
    options = {
        "*x": [data, x, x[:5], driven(), damaged(rng, x)],
        "*t": [LEFT_OUT, t, 0.1],
        "method": [LEFT_OUT, "single-shooting", "shooting"],
        "moves": [LEFT_OUT, "residual", "decoder", "all"],
        "max_seconds": [0.2, 0.05, 0.0, -1.0],
        "seed": [LEFT_OUT, 3],
        "checkpoint": [LEFT_OUT, path, path.parent, "/nowhere/file"],
        "n": [LEFT_OUT] * 9 + [3],
    }
    model = one(
        rng, [fitted("sindy-strong"), fitted("fim-ode"), make("sindy-strong"), fitted("sindy-strong driven")]
    )
    return ask(rng, model.finetune, options)


def explore(rng: Rng) -> Question:
    """Pages that one can touch."""
    folder = fresh()
    regions = [
        LEFT_OUT,
        [(-1, 1), (-2, 2)],
        {"x": (-1, 1), "v": (-1, 1)},
        {"x": (-1, 1)},
        [(1, -1), (0, 1)],
        [(0, 1)],
    ]
    regions += [{"x": (-1, 1), "w": (-1, 1)}, [(-1e300, 1e300)] * 2, [(0, 5e-324)] * 2, [(_NAN, 1), (0, 1)]]
    paths = [folder / "page.html", folder, folder / "no" / "page.html", ""]
    if rng.random() < 0.5:
        model = one(
            rng, [fitted("sindy-strong"), fitted("fim-ode"), fitted("sindy-strong driven"), make("sindy")]
        )
        members = [0, 0, 2, -1]
        return ask(
            rng, model.explore, {"*path": paths, "region": regions, "members": members, "folder": [LEFT_OUT]}
        )
    family = FieldFamily.from_callable(lambda x, p: p * x - x**3, 1, "mu")
    fields = [
        family,
        CallableField(lambda x: -x, 2),
        CallableField(lambda x: x * _NAN, 2),
        fitted("sindy"),
        make("sindy"),
    ]
    options = {
        "*field": fields,
        "*path": paths,
        "region": [[(-2, 2)], *regions],
        "parameter": [np.linspace(-1, 1, 5), LEFT_OUT, [1, 0], [0.0], np.zeros((2, 2)), [_NAN, 1.0]],
        "ensemble": [LEFT_OUT] * 4 + [fim_dynsys.EnsembleField([CallableField(lambda x: -x, 2)])],
        "cycles": [False, LEFT_OUT],
    }
    return ask(rng, write_explorer, options)


def _normal_form(x: np.ndarray, p: float) -> np.ndarray:
    r = np.sum(x**2, axis=1, keepdims=True)
    return p * x + x[:, ::-1] * [-1.0, 1.0] - r * x


def continuation(rng: Rng) -> Question:
    """Branches and curves of bifurcations, and bifurcations from data."""
    fold = FieldFamily.from_callable(lambda x, p: p + x - x**3, 1, "mu")
    hopf = FieldFamily.from_callable(_normal_form, 2, "mu")
    rough = FieldFamily.from_callable(lambda x, p: np.full_like(x, _NAN), 1, "mu")
    cusp = FieldPlane.from_callable(lambda x, p, q: p + q * x - x**3, 1, ("h", "r"))
    ranges = [
        (-1, 1),
        (-1.0, 1.0),
        (1, -1),
        (0, 0),
        (0, _INF),
        (_NAN, 1),
        (0, 1e300),
        [0, 1],
        (0, 1, 2),
        (0, 1e-300),
    ]
    regions = [LEFT_OUT, [(-2, 2)], [(-2, 2)] * 2, {"x0": (-1, 1)}, {"y": (-1, 1)}, [(2, -2)]]
    states = [[1.0], [0.0, 0.0], 0.5, [_NAN], [1e300], [[1.0]], [[1.0], [-1.0]]]
    kind = rng.integers(5)
    if kind <= 1:
        family, start = one(rng, [(fold, [1.0]), (hopf, [0.0, 0.0])])
        options = {
            "*family": [family, rough, cusp],
            "*x0": [start, *states],
            "*p_range": ranges,
            "region": regions,
            "p0": [LEFT_OUT, LEFT_OUT, 0.0, 5.0, _NAN, [0.0]],
            "cycles": [False, LEFT_OUT],
            "doublings": [LEFT_OUT, 0, 1, -1],
            "max_points": [20, 50, 0, 1, -5],
            "budget": [20_000, 0, 1, -1],
        }
        return ask(rng, analyze.continuation, options)
    if kind <= 3:
        options = {
            "*plane": [cusp, hopf],
            "*x0": states,
            "*p_range": ranges,
            "*q_range": ranges,
            "region": regions,
            "p0": [LEFT_OUT, LEFT_OUT, 0.0, 5.0, _NAN],
            "q0": [LEFT_OUT, LEFT_OUT, 1.0, 5.0, _NAN],
            "max_points": [30, 0, -5, 1],
            "budget": [20_000, 0, 1, -1],
        }
        return ask(rng, analyze.bifurcation_curves, options)
    options = {
        "*model": [make("sindy-strong").set_params(refined=0), make("sindy"), "sindy"],
        "*trajectories": [_measured_family(), record(), driven(), _measured_family()[[0, 1]]],
        "parameter": ["mu", "mu", "nu", LEFT_OUT],
        "region": regions,
        "n_draws": [3, 0, 1, -1],
        "level": [LEFT_OUT, 0.9, 0.0, 1.0, 2.0],
        "cycles": [False],
        "others": [LEFT_OUT, [], ["sindy"], [make("sindy")]],
    }
    return ask(rng, analyze.bifurcations_from_data, options)


@functools.cache
def _measured_family() -> Trajectories:
    t, p = np.linspace(0.0, 6.0, 50), np.array([-1.0, -0.5, -0.25, -0.1])
    rng = np.random.default_rng(3)
    x = [np.exp(own * t)[:, None] + 0.01 * rng.normal(size=(50, 1)) for own in p]
    return Trajectories.from_arrays(x, [t] * len(p), coords={"mu": p})


def analyses(rng: Rng) -> Question:
    """Analyses of fields, of models and of what is neither."""
    cycle = CallableField(lambda x: _normal_form(x, 1.0), 2)
    poor = [
        make("sindy"),
        "sindy",
        CallableField(lambda x: x * _NAN, 2),
        CallableField(lambda x: x, 1),
        record(),
    ]
    fields = [
        one(rng, [cycle, fitted("sindy-strong"), fitted("fim-ode")]),
        fitted("sindy-strong driven"),
        *poor,
    ]
    regions = [
        [(-1.5, 1.5), (-1.5, 1.5)],
        LEFT_OUT,
        {"x0": (-1, 1), "x1": (-1, 1)},
        {"x": (-1, 1)},
        [(1, -1), (0, 1)],
    ]
    regions += [
        [(0, 1)],
        [(-1e300, 1e300)] * 2,
        [(0, 5e-324)] * 2,
        [(_NAN, 1), (0, 1)],
        Region([-1, -1], [1, 1]),
        "ab",
    ]
    seeds, budgets = [LEFT_OUT, 0, -1, 1.5], [20_000, 20_000, 0, 1, -1, 2.5]
    questions: list[tuple[Callable[..., Any], dict[str, list[Any]]]] = [
        (
            analyze.fixed_points,
            {"n_seeds": [8, 0, -1, LEFT_OUT], "n_draws": [4, 0, -1], "slow": [LEFT_OUT, 0.0, _NAN, -1]},
        ),
        (analyze.limit_cycles, {"n_seeds": [4, 0, -1, 1]}),
        (
            analyze.nullclines,
            {"resolution": [16, 1, 0, -3, 2.5], "states": [LEFT_OUT, (0, 1), (0, 0), ("a", "b"), (5, 6)]},
        ),
        (
            analyze.basins,
            {"resolution": [8, 0, -1], "n_sample": [16, 0, -1], "t_max": [LEFT_OUT, 1.0, 0.0, _INF]},
        ),
        (analyze.manifolds, {"spacing": [LEFT_OUT, 0.0, _NAN, 0.1], "longest": [LEFT_OUT, 1.0, -1.0]}),
    ]
    starts = [[0.5, 0.5], [1e300, 0.0], [_NAN, 0.0], [1.0], [[0.5, 0.5]]]
    kind = rng.integers(7)
    if kind < 5:
        function, own = questions[kind]
        options = {"*field": fields, "*region": regions, **own, "budget": budgets}
        options |= {"seed": seeds} if kind in (0, 1, 3) else {}
    elif kind == 5:
        function = analyze.lyapunov
        options = {
            "*field": fields,
            "*x0": starts,
            "n_pieces": [8, 0, -1, 1],
            "precision": [0.1, 0.0, -1.0, _NAN],
        }
        options |= {"budget": budgets, "transient": [LEFT_OUT, 0.0, -1.0, 1.0, _INF]}
    else:
        function = analyze.poincare
        planes = [
            ("x0", 0.0),
            (0, 0.0),
            ("y", 0.0),
            (9, 0.0),
            ([1.0, 0.0], 0.0),
            ([0.0, 0.0], 0.0),
            (0, _NAN),
            (0, "a"),
            3,
        ]
        options = {
            "*field": fields,
            "*x0": starts,
            "*plane": planes,
            "n": [5, 0, -1],
            "direction": [1, -1, 0, 2],
        }
        options |= {
            "transient": [LEFT_OUT, -1.0, 1.0],
            "t_max": [10.0, LEFT_OUT, 0.0, _NAN],
            "budget": budgets,
        }
    question, call = ask(rng, function, options)

    def shown() -> None:
        found = call()
        repr(found), found._repr_html_(), found.to_xarray(), found.to_dataframe()

    return question, shown


def evidence(rng: Rng) -> Question:
    """Evidence of given models."""
    good = ["v", "-a*x - b*v"]
    texts = [[one(rng, TEXTS), one(rng, TEXTS)] for _ in range(3)]
    models = [
        {"a": good},
        [good],
        {"a": good, "b": ["v", "-a*x"]},
        {"a": texts[0]},
        texts[1:],
        [fitted("sindy-strong")],
    ]
    models += [good, {}, {"a": make("sindy")}, {3: good}]
    priors = [
        LEFT_OUT,
        LEFT_OUT,
        {"a": ("normal", 2.0, 1.0)},
        {"a": ("normal", 2.0, -1.0)},
        {"c": ("normal", 0, 1)},
    ]
    priors += [
        {"a": ("uniform", 1.0, 0.0)},
        {"a": ("gamma", 1, 1)},
        {"a": 3},
        {"a": ("loguniform", 0.0, 1.0)},
    ]
    options = {
        "*models": models,
        "*trajectories": [record(), record(), record()[[0]], driven()],
        "priors": priors,
        "noise": [LEFT_OUT, LEFT_OUT, 0.02, [0.02, 0.02], -1.0, 0.0, [0.1] * 3, _NAN],
        "method": [one(rng, ["laplace", "linear"]), "magic"],
        "seed": [LEFT_OUT, 1, -1],
    }
    question, call = ask(rng, fim_dynsys.evidence, options)

    def shown() -> None:
        found = call()
        repr(found), found._repr_html_()

    return question, shown


def figures(rng: Rng) -> Question:
    """Pictures of models, data and results."""
    model, cycle = fitted("sindy-strong"), CallableField(lambda x: _normal_form(x, 1.0), 2)
    regions = [LEFT_OUT, [(-1, 1), (-1, 1)], [(1, -1), (0, 1)], {"y": (0, 1)}]
    states = [LEFT_OUT, (0, 1), ("x", "v"), ("a", "b"), (0, 0), (7, 8), (0,)]
    results = [_points(), record(), 3]
    questions: list[tuple[Callable[..., Any], dict[str, list[Any]]]] = [
        (
            plot.phase_portrait,
            {"*field": [model, cycle, make("sindy"), record()], "region": regions, "states": states},
        ),
        (plot.time_series, {"*data": [record(), driven(), record().x], "states": states}),
        (plot.support_map, {"*field": [model, cycle, make("sindy")], "region": regions}),
        (plot.uncertainty_map, {"*field": [model, fitted("fim-ode"), cycle], "region": regions}),
        (
            plot.compare_fields,
            {"*a": [model, cycle], "*b": [cycle, fitted("fim-ode"), "a"], "region": regions},
        ),
        (plot.draw, {"*result": results}),
        (plot.spectrum, {"*result": results}),
        (plot.comparison, {"*result": [xr.Dataset(), *results]}),
        (_points().plot, {"states": states}),
    ]
    question, call = ask(rng, *one(rng, questions))

    def drawn() -> None:
        try:
            call()
        finally:
            _close()

    return question, drawn


@functools.cache
def _points() -> Any:
    return quietly(lambda: analyze.fixed_points(fitted("sindy-strong"), n_seeds=8, n_draws=0))


def _close() -> None:
    import matplotlib.pyplot as plt

    plt.close("all")


def command_line(rng: Rng) -> Question:
    """Commands with files that are damaged, missing, or none."""
    folder = fresh()
    path = folder / one(rng, ["data.csv", "data.nc", "data.csv", "data.txt", "data"])
    data = folder / ("data.nc" if path.suffix == ".nc" else "data.csv")
    record().to_file(data)
    if path != data:
        data.rename(path)
    if rng.random() < 0.5:
        one(rng, list(editing.BYTES.values()))(rng, path)
    elif rng.random() < 0.3:
        path.write_text(
            one(
                rng,
                ["", "t,x\n", "t,x\n0,1\n", "a,b\nc,d\n", "t,x\n0,1\n1,2\n2,3\n", "t;x\n0;1\n1;2\n", "\0"],
            )
        )
    where = [path, path, path, folder, folder / "missing.csv", "", "/dev/null"]
    command = one(rng, ["fit", "fit", "fit", "analyze", "explore", "other"])
    if command == "fit":
        words = [
            "fit",
            one(rng, where),
            "--model",
            one(rng, ["sindy", "sindy-strong", "sindy", "no", "fim-ode-published", ""]),
        ]
        words += ["--out", one(rng, [folder / "out", folder / "out", path, "/dev/null/x"])]
        words += one(
            rng,
            [
                [],
                [],
                ["--states", "x"],
                ["--states", "x", "x"],
                ["--time", "x"],
                ["--trajectory", "v"],
                ["-x"],
            ],
        )
    elif command == "other":
        words = one(
            rng,
            [["info", "--json"], ["available"], [], ["--help"], ["fit", "--help"], ["inform"], ["info", "3"]],
        )
    else:
        saved = folder / "saved"
        shutil.copytree(_saved(), saved)
        if rng.random() < 0.5:
            files = sorted(own for own in saved.rglob("*") if own.is_file())
            one(rng, list(editing.BYTES.values()))(rng, one(rng, files))
        words = [
            command,
            one(rng, [saved, saved, folder, path]),
            "--report" if command == "analyze" else "--out",
        ]
        words += [one(rng, [folder / "page.html", folder, folder / "no" / "page.html", "/dev/null/x"])]
        words += one(
            rng,
            [
                [],
                ["--region", "x=-1:1", "v=-1:1"],
                ["--region", "x=1:-1", "v=0:1"],
                ["--region", "y=0:1"],
                ["--region", "x"],
            ],
        )
        words += one(rng, [[], ["--members", "-1"], ["--members", "2"]]) if command == "explore" else []
    typed = [str(word) for word in words]
    return " ".join(typed).replace(str(folder), "FOLDER"), lambda: _commanded(typed)


@functools.cache
def _saved() -> Path:
    return fitted("sindy").save(fresh() / "model")


def _commanded(words: Sequence[str]) -> str:
    """What is wrong with how a command ended; nothing, as a rule."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code: Any = main(words)
        except SystemExit as ended:  # argparse's
            code = ended.code
    said = err.getvalue().strip()
    if code not in (0, 2) or "Traceback" in said:
        return f"exit code {code}: {said}"
    if code == 2 and not said.startswith(("fim-dynsys", "usage: ")):
        return f"a refusal that says {said!r}"
    return ""


SURFACES: dict[str, Callable[[Rng], Question]] = {
    "inputs": inputs,
    "forcing": forcing,
    "knowledge": knowledge,
    "sigma and order": sigma_and_order,
    "parameters": parameters,
    "expressions": expressions,
    "compare": compare,
    "fit_many": fit_many,
    "forecast": forecast,
    "simulate": simulate,
    "score": score,
    "alternatives": alternatives,
    "finetune": finetune,
    "explore": explore,
    "continuation": continuation,
    "analyses": analyses,
    "evidence": evidence,
    "figures": figures,
    "command line": command_line,
}
