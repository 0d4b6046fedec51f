"""Hostile observations into every model: fits or our own refusals come out, in time, no stray warnings."""

import contextlib
import functools
import io
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.parts import Figure, Part
from benchmarks.reliability.children import Ending, answers
from benchmarks.reliability.hostile import Case, case
from benchmarks.reliability.judging import Verdict, judge, plain
from benchmarks.reliability.subjects import MODELS, make, spiral
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.base import VectorFieldModel

SECONDS = 60.0
TURNS = (
    100.0  # time scales that are simulated at most: what takes millions of steps is work, and does not hang
)
# Tasks of a model and inputs of a task: many where a fit costs little.
TASKS = {
    "fim-ode": (2, 1000),
    "sindy": (4, 2100),
    "sindy-strong": (4, 2000),
    "symbolic": (1, 600),
    "auto": (1, 600),
    "fim-ode-published": (1, 600),
}
BAD = ("foreign", "leaked", "nonsense", "hung", "died")
COUNTS = ("inputs", "fitted", "refused", *BAD, "unexplained", "inside")


def tasks() -> dict[str, tuple]:
    """Return one task for each model and seed; the models take turns."""
    order = sorted(
        (seed / count, model, seed, n) for model, (count, n) in TASKS.items() for seed in range(count)
    )
    return {f"{model} {seed}": (model, seed, n) for _, model, seed, n in order}


def measure(model: str, seed: int, inputs: int) -> dict[str, Any]:
    """Return counts over the inputs of one seed, and the first bad one of each kind in words."""
    items = [(model, seed, number) for number in range(inputs)]
    found = answers(attempt_one, items, SECONDS, functools.partial(warm_up, model))
    return {"model": model, **counted(seed, found)}


def counted(
    seed: int,
    found: Sequence[dict[str, str] | Ending],
    kinds: Sequence[str] = COUNTS,
    bad: Sequence[str] = BAD,
) -> dict[str, Any]:
    """Return how many inputs of a seed came to what, and the first bad one of each kind in words."""
    counts = dict.fromkeys(kinds, 0) | {"inputs": len(found)}
    first = {f"first {name}": "" for name in bad}
    for number, outcome in enumerate(found):
        if isinstance(outcome, Ending):
            kind = "hung" if outcome.reason.startswith("over") else "died"
            outcome = {kind: outcome.reason}
        for name in outcome:
            counts[name] += 1
        for name in bad:
            if name in outcome and not first[f"first {name}"]:
                first[f"first {name}"] = f"{seed}.{number} {outcome[name]}"
    return counts | first


def warm_up(model: str) -> None:
    """Fit plain data of each dimension, so that the time of compiling is no input's."""
    for dim in (1, 2, 3, 4):
        data = spiral()
        use(make(model), Case([np.tile(x, (1, 2))[:, :dim] for _, x in data.arrays()], data.arrays()[0][0]))


def attempt_one(item: tuple[str, int, int]) -> dict[str, str]:
    """Return what happened to one input, by the names of `COUNTS`."""
    model, seed, number = item
    instance = make(model)
    made = case(seed, number)
    with printed() as said:
        outcome = use(instance, made)
    if said:
        outcome.setdefault("leaked", plain(f"printed: {said[0]}"))
    about = "; ".join(made.done)
    return {name: f"{text} [{about}]" if text else "" for name, text in outcome.items()}


@contextlib.contextmanager
def printed() -> Iterator[list[str]]:
    """Give a list that holds, in the end, what was written to standard output and error, by LAPACK too."""
    said: list[str] = []
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            yield said
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])
            file.seek(0)
            said += filter(None, [file.read().decode(errors="replace").strip()])


def use(model: VectorFieldModel, made: Case) -> dict[str, str]:
    """Fit, then ask everything of the fitted model; the first complaint of each kind."""
    outcome: dict[str, str] = {}
    verdict = judge(lambda: model.fit(made.x, made.t, **made.options))
    note(outcome, "fit", verdict)
    if verdict.refusal or verdict.foreign:
        if verdict.refusal:
            outcome["refused"] = ""
        return outcome
    outcome["fitted"] = ""
    for name, call in _questions(model).items():
        note(outcome, name, judge(call))
    return outcome


def _questions(model: VectorFieldModel) -> dict[str, Callable[[], Any]]:
    """Plain and strange questions to a fitted model."""
    context = model.context_
    points = np.concatenate([x for _, x in context.arrays()])
    points = points[np.isfinite(points).all(axis=1)]
    t = context.arrays()[0][0]
    span = float(t[-1] - t[0]) or 1.0
    times = np.linspace(0.0, min(span, TURNS * model.field_.scales.time), 5)
    far = np.full((2, context.dim), [[np.nan], [1e300]])
    return {
        "predict": lambda: _values(model, points),
        "predict far off": lambda: model.predict(far),
        "the field far off": lambda: _surroundings(model.field_, far),
        "predict in another layout": lambda: _layouts(model, points),
        "predict text": lambda: model.predict("a"),
        "predict another dimension": lambda: model.predict(np.zeros((3, context.dim + 1))),
        "simulate": lambda: _states(model, points[0], times),
        "simulate from infinity": lambda: model.simulate(np.full(context.dim, np.inf), times),
        "simulate backwards in time": lambda: model.simulate(points[0], times[::-1] / 10),
        "simulate to nothing": lambda: model.simulate(points[0], []),
        "print": lambda: model.print(file=io.StringIO()),
        "score": lambda: model.score(context),
        "repr": lambda: (repr(model), model._repr_html_(), repr(model.field_)),
    }


def _values(model: VectorFieldModel, points: np.ndarray) -> str:
    values = model.predict(points)
    whole = np.shape(values) == points.shape and np.isfinite(values).all()
    return "" if whole else "predict: values at the observations are not finite or of another shape"


def _surroundings(field: VectorField, far: np.ndarray) -> None:
    """What else is asked of a field at points."""
    field.jacobian(far), field.directional(far, far), field.support(far), field.scale(far)


def _layouts(model: VectorFieldModel, points: np.ndarray) -> str:
    """The same values from arrays that lie otherwise in memory; none may be written to."""
    points = np.repeat(points, 2, axis=0)
    points.setflags(write=False)
    expected = model.predict(points)
    tolerance = 1e-6 * np.abs(expected).max(axis=0, initial=0.0)
    for other in (points[::-1], np.asfortranarray(points)[::-1], points[::2]):
        values = model.predict(other)
        own = expected[::2] if len(other) < len(points) else expected[::-1]
        if not (np.abs(values - own) <= tolerance)[np.isfinite(own)].all():
            return "predict: other values where the array lies otherwise in memory"
    return ""


def _states(model: VectorFieldModel, start: np.ndarray, times: np.ndarray) -> str:
    states = np.asarray(model.simulate(start, times))
    whole = states.shape == (len(times), len(start)) and np.array_equal(states[0], start)
    return "" if whole else "simulate: states of another shape or from another start"


def note(outcome: dict[str, str], name: str, verdict: Verdict) -> None:
    texts = {"foreign": verdict.foreign, "leaked": verdict.leaked, "inside": verdict.inside}
    texts["unexplained"] = verdict.refusal if verdict.unexplained else ""
    texts["nonsense"] = verdict.value if isinstance(verdict.value, str) else ""
    for kind, text in texts.items():
        if text:
            outcome.setdefault(kind, f"{name}: {text}")


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return counts of all that must not happen, and of what each model was given."""
    total = {name: sum(row[name] for row in rows) for name in COUNTS}

    def example(name: str) -> str:
        text = f"first {name}"
        return next((f"{row['model']} {row[text]}" for row in rows if row[text]), "")

    n = total["inputs"]
    share = f"{total['fitted']} fitted, {total['refused']} refused"
    return [
        Figure("inputs", n, goal=">= 20000", n=len(rows), note=share),
        Figure("foreign errors", total["foreign"], goal="== 0", n=n, note=example("foreign")),
        Figure("leaked warnings", total["leaked"], goal="== 0", n=n, note=example("leaked")),
        Figure("answers that are no numbers", total["nonsense"], goal="== 0", n=n, note=example("nonsense")),
        Figure(f"inputs over {SECONDS:g} s", total["hung"], goal="== 0", n=n, note=example("hung")),
        Figure("deaths of the process", total["died"], goal="== 0", n=n, note=example("died")),
        Figure("refusals that do not say what was expected", total["unexplained"], n=n),
        Figure("warnings that point into the package", total["inside"], n=n),
        *(
            Figure(f"inputs of {model}", sum(row["inputs"] for row in rows if row["model"] == model))
            for model in MODELS
        ),
    ]


PART = Part("fuzz", "2", tasks, measure, figures)
