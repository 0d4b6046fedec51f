"""Observations of all sorts, most of them wrong somewhere, each made from its number."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from fim_dynsys.trajectories.container import Trajectories

Rng = np.random.Generator
Damage = Callable[[Rng, Any], Any]


@dataclass
class Case:
    """Arguments of one fit, and what was done to them."""

    x: Any
    t: Any
    options: dict[str, Any] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)


def case(seed: int, number: int, max_dim: int = 4) -> Case:
    """Return the case of this seed and number; a third of them is strange in value only."""
    rng = np.random.default_rng([seed, number])
    made = _plain(rng, max_dim)
    for _ in range(int(rng.choice([0, 0, 1, 1, 2, 3]))):
        part, table = [("x", DATA), ("t", TIMES)][int(rng.random() < 0.4)]
        name = str(rng.choice(list(table)))
        arrays = getattr(made, part)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if rng.random() < 0.5 or not isinstance(arrays, list):
                arrays = [_damaged(table[name], rng, a) for a in _listed(arrays)]
            else:
                k = rng.integers(len(arrays))
                arrays = [_damaged(table[name], rng, a) if i == k else a for i, a in enumerate(arrays)]
        setattr(made, part, arrays)
        made.done.append(f"{part}: {name}")
    name = str(rng.choice(list(FORMS), p=FORM_SHARES))
    FORMS[name](rng, made)
    made.done.append(name)
    if rng.random() < 0.25:
        name = str(rng.choice(list(OPTIONS)))
        made.options = OPTIONS[name](rng, made)
        made.done.append(f"option: {name}")
    return made


def _listed(arrays: Any) -> list[Any]:
    return arrays if isinstance(arrays, list) else [arrays]


def _damaged(damage: Damage, rng: Rng, values: Any) -> Any:
    """The damage; what cannot be damaged twice stays."""
    try:
        return damage(rng, values)
    except (TypeError, ValueError, IndexError, ArithmeticError):
        return values


def _plain(rng: Rng, max_dim: int) -> Case:
    """Well-formed trajectories: oscillations, decays, walks, noise, rest; of any size and pace."""
    dim = int(rng.integers(1, max_dim + 1))
    wide = rng.random() < 0.2
    size = 10.0 ** rng.uniform(*((-200, 150) if wide else (-6, 6)))
    pace = 10.0 ** rng.uniform(*((-100, 100) if wide else (-3, 3)))
    shape = str(rng.choice(["oscillation", "decay", "growth", "walk", "noise", "rest", "levels"]))
    made = Case([], [], done=[f"{shape}, dimension {dim}"])
    for _ in range(int(rng.choice([1, 1, 2, 3]))):
        n = int(rng.choice([rng.integers(1, 8), rng.integers(8, 60)]))
        t = np.cumsum(rng.uniform(0.5, 1.0, n)) if rng.random() < 0.5 else np.arange(float(n))
        phase, rate = rng.uniform(0, 6, dim), rng.uniform(0.05, 0.5)
        values = {
            "oscillation": np.sin(rate * t[:, None] + phase),
            "decay": np.exp(-rate * t[:, None]) * phase,
            "growth": np.exp(rate * t[:, None]) * phase,
            "walk": np.cumsum(rng.normal(size=(n, dim)), axis=0),
            "noise": rng.normal(size=(n, dim)),
            "rest": np.full((n, dim), phase),
            "levels": rng.integers(-1, 2, (n, dim)).astype(float),
        }[shape]
        made.x.append(size * values * (1 + rng.choice([0.0, 0.03]) * rng.normal(size=values.shape)))
        made.t.append(pace * (t - rng.choice([0.0, t[0], 1e6])))
    return made


def _put(*values: float) -> Damage:
    """Some of these values at some places."""

    def damage(rng: Rng, x: Any) -> Any:
        x = np.array(x, dtype=np.float64) if np.isrealobj(x) else np.array(x)
        count = int(rng.integers(1, max(2, x.size // 3)))
        x.flat[rng.integers(0, x.size, count)] = rng.choice(values, count)
        return x

    return damage


def _cast(kind: str) -> Damage:
    return lambda rng, x: np.asarray(x).astype(kind)


def _mixed(rng: Rng, x: Any) -> np.ndarray:
    mixed = np.asarray(x, dtype=object).copy()
    strange = [None, "a", 1j, 2**70, [1.0], float("nan"), b"1", np.float32(1), True, {}]
    mixed.flat[rng.integers(mixed.size)] = strange[rng.integers(len(strange))]
    return mixed


def _repeat_rows(rng: Rng, x: Any) -> np.ndarray:
    x = np.array(x)
    return np.repeat(x, rng.integers(1, 4, len(x)), axis=0)


DATA: dict[str, Damage] = {
    "NaN": _put(np.nan),
    "infinite": _put(np.inf, -np.inf),
    "largest": _put(1.7e308, -1.7e308),
    "huge": _put(1e30, -1e20),
    "smallest": _put(5e-324, -5e-324, 0.0, -0.0),
    "all NaN": lambda rng, x: np.full_like(np.asarray(x, float), np.nan),
    "NaN column": lambda rng, x: np.concatenate([x[:, 1:], np.full((len(x), 1), np.nan)], 1),
    "constant": lambda rng, x: np.full_like(np.asarray(x, float), rng.choice([0.0, 1.0, 1e-300, 1e300])),
    "constant column": lambda rng, x: np.concatenate([np.asarray(x, float)[:, 1:], np.ones((len(x), 1))], 1),
    "twice the column": lambda rng, x: np.concatenate([x, x], axis=1),
    "nearly twice": lambda rng, x: np.concatenate([x, np.asarray(x) * (1 + 1e-15)], axis=1),
    "repeated rows": _repeat_rows,
    "rounded": lambda rng, x: np.round(np.asarray(x, float), int(rng.integers(0, 3))),
    "far off": lambda rng, x: np.asarray(x, float) + 10.0 ** rng.uniform(5, 17),
    "unequal units": lambda rng, x: np.asarray(x, float) * 10.0 ** rng.uniform(-30, 30, np.shape(x)[-1]),
    "half": _cast("f2"),
    "single": _cast("f4"),
    "extended": _cast("g"),
    "big endian": _cast(">f8"),
    "small integers": _cast("i1"),
    "unsigned": _cast("u8"),
    "booleans": _cast("?"),
    "complex": _cast("c16"),
    "objects": _cast("O"),
    "text": _cast("U"),
    "bytes": _cast("S"),
    "dates": lambda rng, x: np.asarray(x).astype("i8").astype("M8[s]"),
    "mixed objects": _mixed,
    "records": lambda rng, x: np.zeros(np.shape(x), [("a", "f8"), ("b", "i4")]),
    "masked": lambda rng, x: np.ma.masked_array(x, rng.random(np.shape(x)) < 0.3),
    "another axis": lambda rng, x: np.asarray(x)[None],
    "transposed": lambda rng, x: np.asarray(x).T,
    "flat": lambda rng, x: np.asarray(x).ravel(),
    "one number": lambda rng, x: np.asarray(x).flat[0],
    "empty": lambda rng, x: np.asarray(x)[:0],
    "no columns": lambda rng, x: np.asarray(x)[:, :0],
    "one row": lambda rng, x: np.asarray(x)[:1],
    "few rows": lambda rng, x: np.asarray(x)[: rng.integers(2, 6)],
    "many columns": lambda rng, x: np.tile(np.asarray(x, float), (1, 30 // np.shape(x)[1])),
    "strided": lambda rng, x: np.repeat(np.asarray(x), 2, axis=0)[::2],
    "backwards": lambda rng, x: np.asarray(x)[::-1],
    "Fortran order": lambda rng, x: np.asfortranarray(x),
    "read only": lambda rng, x: np.broadcast_to(np.asarray(x)[:1], np.shape(x)),
}

TIMES: dict[str, Damage] = {
    "NaN": _put(np.nan),
    "infinite": _put(np.inf, -np.inf),
    "repeated": lambda rng, t: np.repeat(t, 2)[: len(t)],
    "all equal": lambda rng, t: np.full_like(t, t[0]),
    "decreasing": lambda rng, t: np.asarray(t)[::-1],
    "shuffled": lambda rng, t: rng.permutation(t),
    "too short": lambda rng, t: np.asarray(t)[:-1],
    "too long": lambda rng, t: np.append(t, t[-1] + 1),
    "empty": lambda rng, t: np.asarray(t)[:0],
    "two columns": lambda rng, t: np.stack([t, t], axis=1),
    "a column": lambda rng, t: np.asarray(t)[:, None],
    "a gap": lambda rng, t: np.concatenate([t[: len(t) // 2], np.asarray(t[len(t) // 2 :]) * 1e12]),
    "very irregular": lambda rng, t: np.cumsum(10.0 ** rng.uniform(-12, 2, len(t))),
    "hardly apart": lambda rng, t: t[0] + np.arange(len(t)) * np.spacing(t[0]),
    "subnormal steps": lambda rng, t: np.arange(len(t)) * 5e-324,
    "to the largest": lambda rng, t: np.linspace(-1.7e308, 1.7e308, len(t)),
    "a step": lambda rng, t: float(t[1] - t[0]),
    "a strange step": lambda rng, t: rng.choice([0.0, -1.0, np.nan, np.inf, 1e-320, 1e300]),
    "integers": _cast("i8"),
    "single": _cast("f4"),
    "complex": _cast("c16"),
    "text": _cast("U"),
    "objects": _cast("O"),
    "mixed objects": _mixed,
    "dates": lambda rng, t: np.datetime64("2020-01-01") + np.arange(len(t)).astype("m8[h]"),
    "durations": lambda rng, t: np.arange(len(t)).astype("m8[ms]"),
    "booleans": _cast("?"),
}


def _as_lists(rng: Rng, made: Case) -> None:
    """As they are, one array for each trajectory; one alone sometimes without its list."""
    if isinstance(made.x, list) and len(made.x) == 1 and rng.random() < 0.7:
        made.x = made.x[0]
        if isinstance(made.t, list) and made.t:
            made.t = made.t[0]
    elif isinstance(made.t, list) and len(made.t) and rng.random() < 0.3:
        made.t = made.t[0]  # one for all


def _as_tuples(rng: Rng, made: Case) -> None:
    made.x, made.t = tuple(_listed(made.x)), tuple(_listed(made.t))


def _as_nested(rng: Rng, made: Case) -> None:
    made.x, made.t = [np.asarray(x).tolist() for x in made.x], [np.asarray(t).tolist() for t in made.t]
    if rng.random() < 0.5:
        made.x, made.t = made.x[0], made.t[0]


def _as_frame(rng: Rng, made: Case) -> None:
    """A long table of the first trajectory, with its times in a column, in the index or apart."""
    x, t = _first_two(made)
    if x is None:
        return
    made.x = pd.DataFrame(x, columns=[f"s{i}" for i in range(x.shape[1])])
    way = int(rng.integers(3))
    if way == 0:
        made.x.insert(0, "t", t)
        made.t = None
    elif way == 1:
        made.x.index, made.t = pd.Index(t, name="t"), None
    else:
        made.t = t


def _as_xarray(rng: Rng, made: Case) -> None:
    x, t = _first_two(made)
    if x is None:
        return
    made.x = xr.DataArray(x, dims=("time", "state"), coords={"time": t})
    made.t = None
    if rng.random() < 0.5:
        made.x = made.x.to_dataset(name=str(rng.choice(["x", "y"])))


def _first_two(made: Case) -> tuple[Any, Any]:
    """The first trajectory, where a table can hold it."""
    x, t = np.asarray(_listed(made.x)[0]), np.asarray(_listed(made.t)[0])
    fits = x.ndim == 2 and t.shape == x.shape[:1] and x.dtype.kind != "V" and x.size
    return (x, t) if fits else (None, None)


def _as_trajectories(rng: Rng, made: Case) -> None:
    """`Trajectories`, where they are accepted; else as they are."""
    try:
        made.x, made.t = Trajectories.from_arrays(made.x, made.t), None
    except (ValueError, TypeError):
        return


def _no_times(rng: Rng, made: Case) -> None:
    made.t = None


def _strange(rng: Rng, made: Case) -> None:
    """Something that is no data at all in one of the two places."""
    things: list[Any] = [None, "data.csv", 3.5, object(), {"x": [1, 2]}, {1.0, 2.0}, [], [[]], [[], [1.0]]]
    things += [b"abc", range(5), iter([1.0, 2.0]), np.array(None), [None, None], ["a", "b"], lambda x: x]
    things += [np.zeros((0, 0)), np.zeros((2, 2, 2, 2)), [np.zeros((3, 2)), np.zeros((3, 3))], 1 + 2j, True]
    thing = things[rng.integers(len(things))]
    if rng.random() < 0.7:
        made.x = thing
    else:
        made.t = thing


FORMS: dict[str, Callable[[Rng, Case], None]] = {
    "lists": _as_lists,
    "tuples": _as_tuples,
    "nested lists": _as_nested,
    "table": _as_frame,
    "xarray": _as_xarray,
    "trajectories": _as_trajectories,
    "no times": _no_times,
    "no data": _strange,
}
FORM_SHARES = (0.5, 0.05, 0.1, 0.08, 0.07, 0.08, 0.04, 0.08)


def _names(rng: Rng, made: Case) -> dict[str, Any]:
    choices: list[Any] = ["ab", ["a"], ["a", "a"], ["t", "x"], [1, 2], ["", " "], [None], 3]
    choices += [
        ["$\\frac{$"] * 2,
        ["x0", "é"],
        ("a", "b", "c"),
        {"a": 1},
        ["lambda"],
        np.array(["a", "b"]),
        [["a"]],
    ]
    return {"feature_names": choices[rng.integers(len(choices))]}


def _derivatives(rng: Rng, made: Case) -> dict[str, Any]:
    choices = [made.x, [made.x], None, 1.0, "x", np.zeros((3, 2)), [np.full((2, 2), np.nan)], made.t]
    return {"x_dot": choices[rng.integers(len(choices))]}


OPTIONS: dict[str, Callable[[Rng, Case], dict[str, Any]]] = {
    "names": _names,
    "derivatives": _derivatives,
    "control": lambda rng, made: {"u": rng.choice([0.0, 1.0])},
    "unknown": lambda rng, made: {str(rng.choice(["ensemble", "quiet", "X", "dt"])): True},
}
