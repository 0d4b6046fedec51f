"""Many data sets: one model fitted to each, in parallel, with failures as rows and a file to go on from."""

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np
import pandas as pd

from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.errors import DataWarning, FitWarning, check_flags, check_whole, warn
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.inputs import as_trajectories
from fim_dynsys.models.parameters import separate
from fim_dynsys.threads import on_one_thread
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.writing import replace_file

_ROWS = "rows.jsonl"
_MODELS = "models"
_SUFFIXES = (".csv", ".nc")
_LONGEST = 500  # characters of a message

Row = dict[str, Any]
T = TypeVar("T")
Datasets = Iterable | Mapping[str, Any] | Trajectories | str | os.PathLike
"""What `fit_many` takes."""


@dataclass(frozen=True)
class _Job:
    """One data set, in memory or on the disk; what is wrong with it is found where it is fitted."""

    name: str
    data: Any
    digest: str


@on_one_thread
def fit_many(
    model: VectorFieldModel,
    datasets: Datasets,
    *,
    group: str | None = None,
    folder: str | os.PathLike | None = None,
    save_models: bool = False,
    backend: str | None = None,
    n_jobs: int = -1,
    batch: int = 16,
    progress: bool | None = None,
) -> pd.DataFrame:
    """Fit a model to each of many data sets, one context each.

    Data sets are read as they are needed and forgotten when they are fitted, so that memory does not grow
    with their number. One that cannot be fitted is a row that says why.

    Parameters
    ----------
    model : VectorFieldModel
        Its parameters are used; it stays as it is.
    datasets : iterable, mapping, Trajectories or path
        Data sets as `fit` takes them (Trajectories, DataFrames, Datasets), or pairs of a name and one; a
        mapping of names to them; Trajectories with a `group`; or a folder of CSV and netCDF files.
    group : str, optional
        Coordinate of `datasets` (Trajectories) by whose values the trajectories are grouped.
    folder : path, optional
        Where rows are kept as soon as they are known, in ``rows.jsonl``. Called again, it fits only what is
        missing there, has failed, or has changed, the model included.
    save_models : bool
        Whether each fitted model is saved too, in ``folder/models/<name>``; see `VectorFieldModel.save`.
    backend : str, optional
        Of joblib: "loky" (default), "threading", "dask" where a client is running, or what was registered
        with `joblib.register_parallel_backend`, as Ray registers itself.
    n_jobs : int
        Processes; -1 for one on each core.
    batch : int
        Data sets that one process is given at once; a model that infers in batches takes these together.
    progress : bool, optional
        Whether a bar with the time left is shown; default on a terminal.

    Returns
    -------
    DataFrame
        A row for each data set, in their order: ``name``, ``status`` ("fitted" or "failed"), ``message`` of
        a failure, ``trajectories``, ``samples``, ``path_r2``, ``window_r2``, ``follows`` and ``trust`` (see
        `FitInfo`), ``problems`` and ``warnings`` as text, ``equations``, ``coefficients`` (a list of state,
        term and number) and ``seconds`` of CPU.

    Raises
    ------
    TypeError
        For a model that infers no field, or data sets of another kind.
    ValueError
        For names that occur twice, a group without Trajectories, a folder without files, or `save_models`
        without a folder.

    Warns
    -----
    DataWarning
        For damaged rows in the folder, whose data sets are fitted again.

    See Also
    --------
    VectorFieldModel.fit : One data set.
    load_fitted : Reads models that were saved.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> read = fim_dynsys.Trajectories.from_arrays
    >>> sets = {"a": read(np.exp(-0.5 * t), t), "b": read(np.exp(-t), t)}
    >>> table = fim_dynsys.fit_many(fim_dynsys.load("sindy-strong"), sets, n_jobs=1)
    >>> table["equations"].tolist()
    ["x0' = -0.5 x0", "x0' = -x0"]
    """
    if not isinstance(model, VectorFieldModel):
        raise TypeError(f"fit_many: expected a model with a vector field, got {type(model).__name__}.")
    if save_models and folder is None:
        raise ValueError("fit_many: expected a folder to save models in, got none.")
    check_whole("fit_many", 1, batch=batch)
    check_flags("fit_many", save_models=save_models)
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or not n_jobs:
        raise ValueError(f"fit_many: expected n_jobs as a number of processes or -1, got {n_jobs!r}.")
    home = None if folder is None else Path(folder)
    found: dict[str, Row] = {}
    order: list[str] = []
    total, named = _named(datasets, group)
    known = {} if home is None else _kept(home)
    digest = _digest(
        f"{model.name} {model.version} {sorted(model.get_params(deep=False).items())!r}".encode()
    )
    with progress_bar(progress, total, f"fit {model.name}", "data sets") as bar:

        def waiting() -> Iterator[_Job]:
            """What must be fitted; rows that are known are taken as they are."""
            for name, data in named:
                if name in seen:
                    raise ValueError(f"fit_many: expected a name for each data set, got {name!r} twice.")
                seen.add(name)
                order.append(name)
                job = _job(name, data, digest)
                old = known.get(name)
                if old is not None and old["digest"] == job.digest and old["status"] == "fitted":
                    found[name] = old
                    bar.update()
                else:
                    yield job

        seen: set[str] = set()
        models = home / _MODELS if home is not None and save_models else None
        jobs = waiting()
        batches = iter(lambda: tuple(islice(jobs, batch)), ())
        tasks = ((model, own_jobs, models) for own_jobs in batches)
        for rows in calls(_fit_batch, tasks, n_jobs, backend):
            for row in rows:
                found[row["name"]] = row
                if home is not None:
                    append_line(home / _ROWS, json.dumps(row))
            bar.update(len(rows))
    table = pd.DataFrame([found[name] for name in order], columns=list(_row(_Job("", None, ""))))
    return table.drop(columns="digest")


# ---------------------------------------------------------------------- data sets


def _named(datasets: Datasets, group: str | None) -> tuple[int | None, Iterator[tuple[str, Any]]]:
    """How many there are, where that is known, and names with data."""
    if group is not None:
        known = isinstance(datasets, Trajectories) and isinstance(group, str) and group in datasets.coords
        if not known or not isinstance(datasets, Trajectories):
            raise ValueError(
                f"fit_many: expected Trajectories with a coordinate {group!r} to group by, got "
                f"{type(datasets).__name__}."
            )
        labels = np.asarray(datasets.coords[group])
        values = pd.unique(labels)
        return len(values), ((str(value), datasets[labels == value]) for value in values)
    if isinstance(datasets, str | os.PathLike):
        files = sorted(path for path in Path(datasets).iterdir() if path.suffix.lower() in _SUFFIXES)
        if not files:
            raise ValueError(f"fit_many: expected CSV or netCDF files in {datasets}, got none.")
        return len(files), ((path.name, path) for path in files)
    if isinstance(datasets, Mapping):
        return len(datasets), ((str(name), data) for name, data in datasets.items())
    if isinstance(datasets, Trajectories | pd.DataFrame | np.ndarray):
        raise TypeError(
            f"fit_many: expected many data sets, got one ({type(datasets).__name__}); pass a list of them, "
            "or group= the coordinate that tells them apart."
        )
    if not isinstance(datasets, Iterable) or isinstance(datasets, bytes):
        raise TypeError(
            f"fit_many: expected a list or dict of data sets, or a folder, got {type(datasets).__name__}."
        )
    total = len(datasets) if isinstance(datasets, Sequence) else None
    pairs = (
        item if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) else (str(i), item)
        for i, item in enumerate(datasets)
    )
    return total, pairs


def _job(name: str, data: Any, model_digest: str) -> _Job:
    if isinstance(data, Path):
        return _Job(name, data, _digest(model_digest.encode() + data.read_bytes()))
    try:
        data = as_trajectories(data, None, None)
        parts = [data.x.tobytes(), data.t.tobytes(), data.n_obs.tobytes(), repr(data.state_names).encode()]
        parts += [u.tobytes() for u in data.input_arrays()]
    except (TypeError, ValueError) as error:
        return _Job(name, error, model_digest)  # becomes the row of a failure
    return _Job(name, data, _digest(model_digest.encode() + b"".join(parts)))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]


# ---------------------------------------------------------------------- fitting


def _fit_batch(model: VectorFieldModel, jobs: Sequence[_Job], models: Path | None) -> list[Row]:
    begun = time.process_time()
    together = type(model).infer_many is not VectorFieldModel.infer_many and len(jobs) > 1
    fitted = _together(model, jobs) if together else None
    if fitted is None:
        return [_alone(model, job, models) for job in jobs]
    share = (time.process_time() - begun) / len(jobs)
    rows = [_told(job, one, [], share) for job, one in zip(jobs, fitted, strict=True)]
    for job, one in zip(jobs, fitted, strict=True):
        _save(one, job, models)
    return rows


def _together(model: VectorFieldModel, jobs: Sequence[_Job]) -> list[VectorFieldModel] | None:
    """All of a batch by one inference; None where anything is to be said of one of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", FitWarning)  # in the rows
            contexts = [_read(job) for job in jobs]
            for context in contexts:
                model.check_context(context)
            with np.errstate(all="ignore"):
                fields = model.infer_many(contexts)
                fitted = [copy(model) for _ in contexts]
                for one, field, context in zip(fitted, fields, contexts, strict=True):
                    one._adopt(field, context)
            return fitted
    except Exception:  # whatever it is, it is reported with the data set that it belongs to, fitted alone
        return None


def _alone(model: VectorFieldModel, job: _Job, models: Path | None) -> Row:
    begun = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            one = separate(model).fit(_read(job))
            _save(one, job, models)
        except Exception as error:  # of any model and any data: one must not end the others
            row = _row(job) | {"status": "failed", "seconds": time.process_time() - begun}
            return row | {"message": f"{type(error).__name__}: {error}"[:_LONGEST]}
    texts = dict.fromkeys(str(w.message) for w in caught if not issubclass(w.category, FitWarning))
    return _told(job, one, list(texts), time.process_time() - begun)


def _read(job: _Job) -> Trajectories:
    if isinstance(job.data, Exception):
        raise job.data
    return Trajectories.from_file(job.data) if isinstance(job.data, Path) else job.data


def _save(model: VectorFieldModel, job: _Job, models: Path | None) -> None:
    if models is not None:
        models.mkdir(parents=True, exist_ok=True)
        model.save(models / quote(job.name, safe=" "))


def _row(job: _Job) -> Row:
    numbers = dict.fromkeys(("path_r2", "window_r2", "follows"))
    return {
        "name": job.name,
        "status": "",
        "message": "",
        "trajectories": None,
        "samples": None,
        **numbers,
        "trust": "",
        "problems": "",
        "warnings": "",
        "equations": "",
        "coefficients": [],
        "seconds": None,
        "digest": job.digest,
    }


def _told(job: _Job, model: VectorFieldModel, texts: Sequence[str], seconds: float) -> Row:
    field, context = model.field_, model.context_
    info = field.fit_info
    return _row(job) | {
        "status": "fitted",
        "trajectories": len(context),
        "samples": int(context.n_obs.sum()),
        "path_r2": info.path_r2,
        "window_r2": info.window_r2,
        "follows": info.follows,
        "trust": "" if info.trust is None else info.trust.value,
        "problems": "; ".join(info.problems),
        "warnings": "; ".join(texts),
        "equations": "; ".join(field._shown_equations(errors=False)),
        "coefficients": [list(row) for row in field._coefficient_rows()],
        "seconds": seconds,
    }


# ---------------------------------------------------------------------- processes and lines on the disk


def calls(
    function: Callable[..., T], tasks: Iterable[tuple[Any, ...]], n_jobs: int, backend: str | None = None
) -> Iterator[T]:
    """Yield what ``function(*task)`` returns for each of the tasks, as they are done.

    Tasks are drawn as they are needed: few of them are in memory at a time.

    Parameters
    ----------
    function : callable
        Importable by other processes.
    tasks : iterable of tuple
        Arguments.
    n_jobs : int
        Processes; -1 for one on each core. With one and no backend all is done here, in order.
    backend : str, optional
        Of joblib; "loky" by default, whose processes compute on one thread each.
    """
    if n_jobs == 1 and backend is None:
        yield from (function(*task) for task in tasks)
        return
    import joblib  # deferred: nothing else of the package needs it

    name = backend or "loky"
    threads = {"inner_max_num_threads": 1} if name == "loky" else {}  # the processes share the cores
    with joblib.parallel_config(backend=name, n_jobs=n_jobs, **threads):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(function)(*task) for task in tasks)


def append_line(path: Path, line: str) -> None:
    """Add a line to a file at once, so that those of other processes do not come between."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        content = f"{line}\n".encode()
        while content:  # once, but where the disk is full
            content = content[os.write(handle, content) :]
    finally:
        os.close(handle)


def read_lines(path: Path, take: Callable[[Any], None], first: int = 0) -> int:
    """Give the values of JSON lines, from the `first` on, to a function; return how many are damaged.

    Damaged is what a killed process left half written, what is no JSON, and what the function refuses by a
    ValueError or a TypeError.
    """
    damaged = 0
    for line in filter(None, path.read_bytes().split(b"\n")[first:]):
        try:
            take(json.loads(line.decode()))
        except (ValueError, TypeError, RecursionError):  # not UTF-8, not JSON, refused, nested too deep
            damaged += 1
    return damaged


def _kept(folder: Path) -> dict[str, Row]:
    """Rows of an earlier call by name, in a file that holds them alone from now on."""
    path = folder / _ROWS
    rows: dict[str, Row] = {}
    columns = set(_row(_Job("", None, "")))

    def take(row: Any) -> None:
        if not isinstance(row, dict) or set(row) != columns or not isinstance(row["name"], str):
            raise ValueError("expected a row")
        rows[row["name"]] = row

    damaged = read_lines(path, take) if path.exists() else 0
    if damaged:
        warn(
            f"fit_many: {path} has {damaged} damaged line{'s' * (damaged > 1)}, whose data sets are fitted "
            "again.",
            DataWarning,
        )
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(path, "".join(f"{json.dumps(row)}\n" for row in rows.values()))
    return rows
