"""What users pass as observations: into checked float64 arrays, or a ValueError that says what is wrong."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fim_dynsys.errors import DataWarning, warn

_NEAR = 0.1  # of the span so far: as close to the first time a trial has to begin, as in files
RESERVED = frozenset({"x", "t", "u", "n_obs", "sample", "state", "input"})


def as_real(values: Any, what: str) -> np.ndarray:
    """Float64 array with masked entries as NaN, or a ValueError naming ``what``."""
    if _hides_masks(values):
        raise ValueError(
            f"Trajectories: expected one masked array for {what}, got a list with masked entries, whose "
            "masks numpy would drop; join them by np.ma.stack or write NaN"
        )
    try:
        array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"Trajectories: expected real numbers for {what}, got {type(values).__name__} that numpy cannot "
            f"convert ({error}); pass a list of arrays, one per trajectory"
        ) from error
    if array.dtype.kind not in "iuf":
        raise ValueError(
            f"Trajectories: expected real numbers for {what}, got dtype {array.dtype}; {_advice(array)}"
        )
    with np.errstate(over="ignore"):  # long doubles beyond float64 become inf, refused with their place
        if isinstance(array, np.ma.MaskedArray):
            return np.ma.filled(array.astype(np.float64), np.nan)
        return np.array(array, dtype=np.float64)


def _advice(array: np.ndarray) -> str:
    if array.dtype.kind == "c":
        return "give real and imaginary part as two states"
    if array.dtype.kind in "mM":
        return "convert to numbers in one unit, as (t - t[0]) / np.timedelta64(1, 's') does"
    if array.dtype.kind == "O":
        return "pass a list of arrays, one per trajectory, or convert with astype(float)"
    return "convert with astype(float)"


def _hides_masks(values: Any) -> bool:
    """Whether a masked array sits inside a list."""
    if not isinstance(values, list | tuple):
        return False
    return any(isinstance(entry, np.ma.MaskedArray) or _hides_masks(entry) for entry in values)


def _depth(value: Any) -> int:
    """Number of axes of an array, or of nested lists counted down to the deepest entry."""
    ndim = getattr(value, "ndim", None)
    if isinstance(ndim, int):
        return ndim
    if isinstance(value, list | tuple):
        return 1 + (max(_depth(entry) for entry in value) if value else 0)
    return 0


def as_input_arrays(u: Any, lengths: Sequence[int]) -> list[np.ndarray]:
    """One (n, m) array of inputs per trajectory, without gaps in it."""
    entries = list(u) if is_list_of_trajectories(u) else [u]
    if len(entries) != len(lengths):
        raise ValueError(
            f"Trajectories: expected inputs u of {len(lengths)} trajectories, got {len(entries)}; pass a "
            "list with one array for each"
        )
    arrays = [as_real(entry, f"u of trajectory {k}") for k, entry in enumerate(entries)]
    arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
    for k, (array, n) in enumerate(zip(arrays, lengths, strict=True)):
        if array.ndim != 2 or array.shape[:2] != (n, arrays[0].shape[1]) or not array.shape[1]:
            raise ValueError(
                f"Trajectories: expected inputs u of shape ({n}, m) in trajectory {k}, a row for each sample "
                f"and the same inputs in all trajectories, got {array.shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError(
                f"Trajectories: expected finite inputs u at every sample, got others in trajectory {k}; "
                "interpolate them first"
            )
    return arrays


def checked_input_names(names: Any, count: int, state_names: Sequence[str]) -> tuple[str, ...]:
    """``count`` different names that no state bears; ``u0, u1, ...`` for None."""
    if names is None:
        names = [f"u{i}" for i in range(count)]
    names = (names,) if isinstance(names, str) else tuple(names)
    valid = all(isinstance(name, str) and name for name in names)
    if not valid or len(names) != count or len({*names, *state_names, "t"}) != count + len(state_names) + 1:
        raise ValueError(
            f"Trajectories: expected {count} different names of inputs (str) other than 't' and those of the "
            f"states {list(state_names)}, got {names!r}"
        )
    return names


def is_list_of_trajectories(x: Any) -> bool:
    """Whether it lists arrays of trajectories, and is no nested list of one trajectory's samples."""
    if not isinstance(x, list | tuple):
        return False
    entries_are_arrays = any(not isinstance(entry, list | tuple) and _depth(entry) > 0 for entry in x)
    return entries_are_arrays or _depth(x) > 2


def as_trajectory_arrays(x: Any) -> list[np.ndarray]:
    """One (n, d) array per trajectory."""
    entries = list(x) if is_list_of_trajectories(x) else [x]
    arrays = [_as_states(entry, f"x of trajectory {k}") for k, entry in enumerate(entries)]
    for k, array in enumerate(arrays):
        if array.shape[1] != arrays[0].shape[1]:
            raise ValueError(
                f"Trajectories: expected {arrays[0].shape[1]} coordinates as in trajectory 0, "
                f"got {array.shape[1]} in trajectory {k}; all trajectories need the same states"
            )
    return arrays


def _as_states(values: Any, what: str) -> np.ndarray:
    array = as_real(values, what)
    if array.ndim == 3:
        raise ValueError(
            f"Trajectories: expected shape (n, d) or (n,) for {what}, got {array.shape}; "
            "pass list(x) if the first axis counts trajectories"
        )
    if array.ndim not in (1, 2):
        raise ValueError(f"Trajectories: expected shape (n, d) or (n,) for {what}, got {array.shape}")
    array = array[:, None] if array.ndim == 1 else array
    if array.size == 0:
        raise ValueError(
            f"Trajectories: expected at least one sample of one coordinate for {what}, got shape "
            f"{array.shape}; leave empty trajectories out"
        )
    return array


def as_time_arrays(t: Any, lengths: Sequence[int]) -> list[np.ndarray]:
    """One (n,) array of times per trajectory."""
    if isinstance(t, list | tuple) and _depth(t) > 1:
        if len(t) != len(lengths):
            raise ValueError(
                f"Trajectories: expected {len(lengths)} arrays of times, one per trajectory, got {len(t)}"
            )
        times = [as_real(entry, f"t of trajectory {k}") for k, entry in enumerate(t)]
        shared = False
    else:
        array = as_real(t, "t")
        if array.ndim == 0:
            return _regular_times(float(array), lengths)
        times, shared = [array] * len(lengths), True
    for k, (array, n) in enumerate(zip(times, lengths, strict=True)):
        if array.ndim != 1:
            raise ValueError(
                f"Trajectories: expected times of shape (n,) for trajectory {k}, got {array.shape}; "
                "pass list(t) if the first axis counts trajectories, t.ravel() for a column"
            )
        if array.size != n:
            hint = "; pass a list of times, one array per trajectory" if shared and len(lengths) > 1 else ""
            raise ValueError(
                f"Trajectories: expected as many times as samples, got {array.size} times and "
                f"{n} samples in trajectory {k}{hint}"
            )
    return times


def _regular_times(dt: float, lengths: Sequence[int]) -> list[np.ndarray]:
    if not (np.isfinite(dt) and dt > 0):
        raise ValueError(
            f"Trajectories: expected a positive, finite time step, got t = {dt:g}; "
            "a number means t = dt * arange(n), an array gives the times themselves"
        )
    with np.errstate(over="ignore"):  # an overflow becomes inf, refused with its place
        return [dt * np.arange(n) for n in lengths]


def checked_state_names(names: Any, dim: int) -> tuple[str, ...]:
    """``dim`` different, non-empty names other than that of time; ``x0, x1, ...`` for None."""
    if names is None:
        return tuple(f"x{i}" for i in range(dim))
    names = tuple(names) if isinstance(names, list | tuple) or _depth(names) == 1 else (names,)
    valid = all(isinstance(name, str) and name for name in names)
    if not valid or len(names) != dim or len(set(names)) != dim:
        raise ValueError(
            f"Trajectories: expected {dim} different state names (str), got {names!r}; one per column"
        )
    if "t" in names:
        raise ValueError(
            "Trajectories: expected state names other than 't', which is the time; rename that state"
        )
    return tuple(str(name) for name in names)


def pack(xs: Sequence[np.ndarray], ts: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Padded ``x (K, L, d)``, ``t (K, L)`` and ``n_obs (K,)``."""
    n_obs = np.array([len(t) for t in ts], dtype=np.int64)
    x = np.full((n_obs.size, n_obs.max(), xs[0].shape[1]), np.nan)
    t = np.full(x.shape[:2], np.nan)
    for k, n in enumerate(n_obs):
        x[k, :n], t[k, :n] = xs[k], ts[k]
    return x, t, n_obs


def padded_inputs(us: Sequence[np.ndarray], n_obs: np.ndarray, longest: int) -> np.ndarray:
    """Padded ``u (K, L, m)``."""
    u = np.full((n_obs.size, longest, us[0].shape[1]), np.nan)
    for k, n in enumerate(n_obs):
        u[k, :n] = us[k]
    return u


def padded_values(x: Any, n_obs: np.ndarray, longest: int) -> np.ndarray:
    """Values in padded form, from padded or listed ones, for trajectories of the lengths ``n_obs``."""
    if getattr(x, "ndim", 0) == 3:
        values = as_real(x, "x")
        if values.shape[:2] != (n_obs.size, longest) or values.shape[2] == 0:
            raise ValueError(
                f"Trajectories.with_x: expected shape {(n_obs.size, longest, 'd')}, got {values.shape}"
            )
        values[np.arange(longest) >= n_obs[:, None]] = np.nan
        return values
    arrays = as_trajectory_arrays(x)
    lengths = [len(array) for array in arrays]
    if lengths != n_obs.tolist():
        raise ValueError(
            f"Trajectories.with_x: expected trajectories of {n_obs.tolist()} samples, got {lengths}"
        )
    return pack(arrays, [np.zeros(n) for n in lengths])[0]


def checked_coords(coords: Mapping[str, Any] | None, n: int) -> dict[str, np.ndarray]:
    """Arrays of ``n`` numbers or strings by coordinate name."""
    checked = {}
    if not isinstance(coords, Mapping | None):
        raise ValueError(
            f"Trajectories: expected coords as a mapping from name to values, got {type(coords).__name__}"
        )
    for name, values in (coords or {}).items():
        if not isinstance(name, str) or not name or name in RESERVED:
            raise ValueError(
                f"Trajectories: expected a coordinate name other than {sorted(RESERVED)}, got {name!r}"
            )
        checked[name] = _coordinate(name, values, n)
    return checked


def with_free_names(names: Iterable[str], others: Iterable[str]) -> dict[str, str]:
    """Names of coordinates by those of columns: a column called as an axis of the data gets a line behind."""
    taken, free = {*RESERVED, *others}, {}
    for name in names:
        free[name] = name
        while name in RESERVED and free[name] in taken:
            free[name] += "_"
    return free


def _coordinate(name: str, values: Any, n: int) -> np.ndarray:
    if isinstance(values, np.ma.MaskedArray) or _hides_masks(values):
        raise ValueError(
            f"Trajectories: expected a plain array for coordinate {name!r}, got a masked one; fill it first"
        )
    try:
        array = np.atleast_1d(np.asarray(values))
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"Trajectories: expected {n} values for coordinate {name!r}: {error}") from error
    if array.shape != (n,):
        raise ValueError(
            f"Trajectories: expected {n} values for coordinate {name!r}, one per trajectory, "
            f"got shape {array.shape}"
        )
    if array.dtype.kind in "iufb":
        return array.copy()
    if not all(isinstance(value, str) for value in array):
        raise ValueError(
            f"Trajectories: expected numbers or strings for coordinate {name!r}, got dtype {array.dtype}"
        )
    return np.array([str(value) for value in array], dtype=object)


def checked_units(units: Any, state_names: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """Units by name of time, states and others, from a mapping or from one unit per state."""
    known = ["t", *state_names, *others]
    if isinstance(units, list | tuple):
        if len(units) != len(state_names):
            raise ValueError(
                f"Trajectories: expected {len(state_names)} units, one per state, got {len(units)}"
            )
        units = dict(zip(state_names, units, strict=True))
    if not isinstance(units, Mapping | None):
        raise ValueError(f"Trajectories: expected units as a mapping from name to text, got {units!r}")
    for name, unit in (units or {}).items():
        if name not in known or not isinstance(unit, str):
            raise ValueError(
                f"Trajectories: expected units as text for names among {known}, got {name!r}: {unit!r}"
            )
    return dict(units or {})


def check_values(x: np.ndarray, t: np.ndarray, n_obs: np.ndarray, may_decrease: bool) -> None:
    """Raise a ValueError that names trajectory and sample if a rule on the values is broken."""
    length = x.shape[1]
    if 0 in x.shape or n_obs.min() < 1 or n_obs.max() > length:
        raise ValueError(
            f"Trajectories: expected 1 to {length} samples in each trajectory, got n_obs = {n_obs.tolist()} "
            f"and x of shape {x.shape}"
        )
    inside = np.arange(length) < n_obs[:, None]
    wrong = _first(inside & ~np.isfinite(t))
    if wrong:
        raise ValueError(
            f"Trajectories: expected finite times, got {t[wrong]:g} at sample {wrong[1]} of trajectory "
            f"{wrong[0]}; drop that sample or give its time"
        )
    wrong = _first(np.isinf(x))
    if wrong:
        raise ValueError(
            f"Trajectories: expected finite values, got {x[wrong]:g} in coordinate {wrong[2]} at sample "
            f"{wrong[1]} of trajectory {wrong[0]}; write NaN for a missing observation"
        )
    wrong = _first(~inside & ~(np.isnan(t) & np.isnan(x).all(axis=2)))
    if wrong:
        raise ValueError(
            f"Trajectories: expected NaN beyond the {n_obs[wrong[0]]} samples of trajectory {wrong[0]}, "
            f"got numbers at sample {wrong[1]}; raise n_obs or blank them"
        )
    _check_order(t, inside, may_decrease)


def check_inputs(u: np.ndarray, n_obs: np.ndarray) -> None:
    """Raise a ValueError unless inputs (K, L, m) are finite at the samples and NaN beyond them."""
    inside = np.arange(u.shape[1]) < n_obs[:, None]
    wrong = _first(np.where(inside, ~np.isfinite(u).all(axis=2), ~np.isnan(u).all(axis=2)))
    if wrong:
        raise ValueError(
            "Trajectories: expected finite inputs u at the samples and NaN beyond them, got "
            f"{u[wrong].tolist()} at sample {wrong[1]} of trajectory {wrong[0]}; interpolate them first"
        )


def _check_order(t: np.ndarray, inside: np.ndarray, may_decrease: bool) -> None:
    step = np.where(inside[:, 1:], t[:, 1:] > t[:, :-1], True)
    if may_decrease:
        step = step | np.all(~inside[:, 1:] | (t[:, 1:] < t[:, :-1]), axis=1, keepdims=True)
    wrong = _first(~step)
    if wrong:
        k, i = wrong
        problem, remedy = "unsorted ones", "sort the samples by time"
        if t[k, i] == t[k, i + 1]:
            problem, remedy = "repeated ones", "average or drop the repeats"
        elif i > 0 and t[k, i + 1] - t[k, 0] <= _NEAR * (t[k, i] - t[k, 0]):  # no sorting: two trials
            problem = "times that start again"
            remedy = "give each trial by itself, or in tables a column of labels by trajectory="
        raise ValueError(
            f"Trajectories: expected strictly increasing times, got {problem}, {t[k, i]:g} then "
            f"{t[k, i + 1]:g}, at sample {i + 1} of trajectory {k}; {remedy}"
        )


def _first(wrong: np.ndarray) -> tuple[int, ...] | None:
    """Index of the first True, if there is one."""
    if not wrong.any():
        return None
    return tuple(int(i) for i in np.unravel_index(np.argmax(wrong), wrong.shape))


def positions(index: Any, n: int) -> np.ndarray:
    """Positions of the chosen trajectories, shape (m,)."""
    try:
        chosen = np.atleast_1d(np.arange(n)[index])
    except IndexError as error:
        raise IndexError(f"Trajectories: expected indices among {n} trajectories, got {index!r}") from error
    if chosen.ndim != 1 or chosen.size == 0:
        raise IndexError(f"Trajectories: expected an index that selects trajectories, got {index!r}")
    return chosen


def checked_rows(rows: Sequence[Any], n_obs: np.ndarray) -> list[np.ndarray]:
    """Positions of the chosen samples of each trajectory."""
    arrays = [np.asarray(chosen) for chosen in rows]
    if len(arrays) != len(n_obs):
        raise ValueError(
            f"Trajectories.select_samples: expected {len(n_obs)} arrays of positions, got {len(arrays)}"
        )
    for k, (chosen, n) in enumerate(zip(arrays, n_obs, strict=True)):
        valid = chosen.dtype.kind in "iu" and chosen.ndim == 1 and chosen.size > 0
        if not valid or chosen.min() < 0 or chosen.max() >= n:
            raise ValueError(
                f"Trajectories.select_samples: expected positions from 0 to {n - 1} for trajectory {k}, "
                f"got {chosen.tolist()}"
            )
    return arrays


def complete_rows(x: np.ndarray, n_obs: np.ndarray, caller: str) -> list[np.ndarray] | None:
    """Positions of each trajectory's complete samples, with a warning; None where all are complete."""
    inside = np.arange(x.shape[1]) < n_obs[:, None]
    keep = inside & ~np.isnan(x).any(axis=2)
    n_dropped = int(inside.sum() - keep.sum())
    if n_dropped == 0:
        return None
    n_used = int(keep.any(axis=1).sum())
    if n_used == 0:
        raise ValueError(
            f"{caller}: expected samples with every coordinate observed, got none among "
            f"{int(inside.sum())}; give complete samples or use a model that takes partial ones"
        )
    n_lost = len(x) - n_used
    lost = f", with them {n_lost} whole trajectories" if n_lost else ""
    warn(
        f"{caller} needs complete samples: dropped {n_dropped} of {int(inside.sum())} with a missing "
        f"coordinate{lost}",
        DataWarning,
    )
    return [np.flatnonzero(complete) for complete in keep]


def extent(x: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper corner (d,) of the smallest box of some width round values (K, L, d)."""
    low, high = (extreme.reduce(x, axis=(0, 1)) for extreme in (np.fmin, np.fmax))  # skip NaN
    for i in np.flatnonzero(np.isnan(low)):
        raise ValueError(
            f"Trajectories.box: expected observations of every state, got none of {names[int(i)]!r}; "
            "select the observed ones with select_states"
        )
    # Relative to the value, so that the box scales with the data; 1e-280 keeps it above underflow.
    half = 5e-4 * np.where(low == 0, 1.0, np.maximum(np.abs(low), 1e-280))
    constant = low == high
    return np.where(constant, low - half, low), np.where(constant, high + half, high)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether arrays of numbers or strings are equal, NaN equal to NaN."""
    numeric = a.dtype.kind in "iufb" and b.dtype.kind in "iufb"
    return np.array_equal(a, b, equal_nan=numeric)
