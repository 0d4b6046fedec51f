"""What must not matter: units, order of trajectories, company in a batch, time origin, order of states."""

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.development.problems import problems
from benchmarks.harness.trials import Trial, observe
from benchmarks.parts import Figure, Part
from benchmarks.reliability.judging import plain
from benchmarks.reliability.subjects import MODELS, make
from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.trajectories.container import Trajectories, concatenate

CONTEXTS = 50
SIGMA = 0.03
TOLERANCE = 1e-6
POINTS = 64
UNITS = ("binary units", "decimal units")
IN_UNITS = ("sindy",)  # stock pysindy, whose threshold is in the units of the data
IN_ORDER = ("fim-ode-published",)  # a network with a place for each coordinate


@dataclass(frozen=True)
class Change:
    """Other data that say the same, and the way from their field back to that of the data.

    Attributes
    ----------
    context : Trajectories
        The changed data.
    values : callable
        ``values(field, x)``: the field inferred from them at points x ``(n, d)`` of the data as they were,
        in their units.
    names : list of int
        Which state each of the changed data's states is.
    given : Trajectories
        The data that they are compared with.
    """

    context: Trajectories
    values: Callable[[VectorField, np.ndarray], np.ndarray]
    names: list[int]
    given: Trajectories


def tasks() -> dict[str, tuple]:
    """Return one task for each model and context; the models take turns."""
    return {f"{model} {number}": (model, number) for number in range(CONTEXTS) for model in MODELS}


def measure(model: str, number: int) -> dict[str, Any]:
    """Return by change the largest relative difference, and whether the terms are other ones."""
    context = development_context(number)
    subject = make(model)
    row: dict[str, Any] = {"model": model, "dim": context.dim, "promised": subject.scale_equivariance}
    if subject.max_dim is not None and context.dim > subject.max_dim:
        return row | {"status": "too many states"}
    companion = development_context(number + 1)
    few = companion.select_samples([np.arange(12)] * len(companion))
    return row | compare(subject, context, few)


def development_context(number: int) -> Trajectories:
    """Return both trajectories of one development system, with noise, 50 points each."""
    known = problems()
    problem = known[number % len(known)]
    seen = [observe(problem, Trial(problem.system, ic, SIGMA, 0.0, 0, "paper")) for ic in (1, 2)]
    pairs = [(t[::4], x[::4]) for each in seen for t, x in each.arrays()]
    return Trajectories.from_arrays([x for _, x in pairs], [t for t, _ in pairs])


def compare(model: VectorFieldModel, context: Trajectories, companion: Trajectories) -> dict[str, Any]:
    """Return the differences of one model on one context; `companion` shares a batch with it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            row: dict[str, Any] = {"status": "SUCCESS"}
            fields: dict[int, VectorField] = {}
            for name, change in changes(context).items():
                given = change.given
                field = fields[id(given)] = fields.get(id(given)) or model.infer(given)
                row |= _difference(name, field, model.infer(change.context), change)
            as_it_is = Change(context, lambda f, x: f(x), list(range(context.dim)), context)
            small = model.max_dim is not None and companion.dim > model.max_dim
            batch = model.infer_many([context, context if small else companion])
            return row | _difference("batch", fields[id(context)], batch[0], as_it_is)
        except Exception as error:  # a failure is a row
            return {"status": plain(f"{type(error).__name__}: {error}")}


def changes(context: Trajectories) -> dict[str, Change]:
    """Return the changes by name.

    Data in other units are compared with data that have units: without one a state may be an angle in
    radians, which it is no longer when its numbers change.
    """
    pairs, d = context.arrays(), context.dim
    own, backwards = list(range(d)), list(range(d))[::-1]
    x, t = [values for _, values in pairs], [times for times, _ in pairs]
    lengths = context.with_units(["m"] * d)
    shift = 2.0 ** np.ceil(np.log2(max(times[-1] for times in t)))

    def scaled(base: float, exponents: Sequence[int], exponent: int) -> Change:
        size, pace = base ** np.array([exponents[i % len(exponents)] for i in range(d)]), base**exponent
        units = [f"m/{base ** exponents[i % len(exponents)]:g}" for i in range(d)]
        data = Trajectories.from_arrays([v * size for v in x], [s * pace for s in t], units=units)
        return Change(data, lambda field, points: field(points * size) * pace / size, own, lengths)

    order = concatenate([context[k] for k in range(len(pairs))][::-1])
    permuted = Trajectories.from_arrays([v[:, ::-1] for v in x], t)
    later = Trajectories.from_arrays(x, [s + shift for s in t])
    return {
        "binary units": scaled(2.0, (12, -9, 5), -7),
        "decimal units": scaled(10.0, (3, -2, 1), -3),
        "order of trajectories": Change(order, lambda field, points: field(points), own, context),
        "time shift": Change(later, lambda field, points: field(points), own, context),
        "order of states": Change(
            permuted, lambda field, points: field(points[:, ::-1])[:, ::-1], backwards, context
        ),
    }


def _difference(name: str, field: VectorField, other: VectorField, change: Change) -> dict[str, Any]:
    box = change.given.box()
    points = box.sobol(POINTS)
    expected, got = field(points), change.values(other, points)
    longest = max(times[-1] - times[0] for times, _ in change.given.arrays())
    size = np.maximum(np.abs(expected).max(axis=0), (box.high - box.low) / longest)
    difference = float((np.abs(got - expected) / size).max())
    same = _terms(other, change.names) == _terms(field, list(range(change.given.dim)))
    return {name: difference if np.isfinite(difference) else float("inf"), f"{name}: same terms": same}


def _terms(field: VectorField, names: list[int]) -> list[list[str]] | None:
    """Terms of each right-hand side, states numbered as in `names` and factors in order."""
    terms = field.terms()
    if terms is None:
        return None
    renamed = [[_renamed(term, names) for term in of_state] for of_state in terms]
    return [sorted(renamed[names.index(i)]) for i in range(len(names))]


def _renamed(term: str, names: list[int]) -> str:
    """A term without the factors of states inside its function, which are in units of theirs."""
    text = re.sub(r"(?<![\w^.])-?[\d.]+(?:e[+-]?\d+)? (?=x\d)", "", term)
    text = re.sub(r"\((x\d+)\)\^", r"\1^", text)
    text = re.sub(r"x(\d+)", lambda match: f"x{names[int(match.group(1))]}", text)
    return " ".join(sorted(text.split(" ")))


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return by change and model the largest difference and how many structures changed.

    A model whose settings are in the units of the data is reported without a goal there, and so is one that
    tells coordinates by their place.
    """
    failed = [row for row in rows if row["status"] not in ("SUCCESS", "too many states")]
    note = f"{failed[0]['task']}: {failed[0]['status']}" if failed else ""
    result = [Figure("failures", len(failed), goal="== 0", n=len(rows), note=note)]
    done = [row for row in rows if row["status"] == "SUCCESS"]
    names = [name for name in (done[0] if done else {}) if f"{name}: same terms" in done[0]]
    for name in names:
        for model in MODELS:
            own = [row for row in done if row["model"] == model]
            if not own:
                continue
            free = IN_UNITS if name in UNITS else IN_ORDER if name == "order of states" else ()
            held = model not in free
            worst = max(own, key=lambda row: row[name])
            over = sum(row[name] >= TOLERANCE for row in own)
            about = f"{over} over; {worst['task']}" if over else ""
            promised = own[0]["promised"]
            if name in UNITS and promised is not None:
                about = "; ".join(filter(None, [about, f"declared: {promised:g}"]))
            changed = sum(not row[f"{name}: same terms"] for row in own)
            goals = (f"< {TOLERANCE:g}", "== 0") if held else ("", "")
            result += [
                Figure(f"{name}, {model}: largest difference", worst[name], "", goals[0], len(own), about),
                Figure(f"{name}, {model}: structures changed", changed, "", goals[1], len(own)),
            ]
    return result


PART = Part("invariance", "3", tasks, measure, figures)
