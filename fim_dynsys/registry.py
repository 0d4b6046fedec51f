"""Models by name: the built-in ones, and those that installed plugins offer through an entry point.

A little above five hundred lines: a third of it is the table of names.
"""

import difflib
import html
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from fim_dynsys.entry_points import disabled, distribution, listed, loaded, owner
from fim_dynsys.errors import FimDynsysWarning, PluginError, check_installed, warn, warn_of_rename
from fim_dynsys.importing import imported

if TYPE_CHECKING:
    from fim_dynsys.models.auto import Auto
    from fim_dynsys.models.base import VectorFieldModel
    from fim_dynsys.models.fim_ode.decoded import PublishedFIMODE
    from fim_dynsys.models.fim_ode.neural import NeuralFIMODE
    from fim_dynsys.models.fim_ode.own import FIMODE
    from fim_dynsys.models.sindy import SINDy
    from fim_dynsys.models.sindy_strong import StrongSINDy
    from fim_dynsys.models.symbolic import SymbolicModel

ENTRY_POINT_GROUP = "fim_dynsys.models"
_OWN_DISTRIBUTION = "fim-dynsys"


@dataclass(frozen=True)
class ModelSpec:
    """What is known of a model without importing it.

    A plugin offers one as the target of an entry point in the group ``fim_dynsys.models``, in a module
    that imports nothing else.

    Attributes
    ----------
    name : str
        What users pass to `load`; for a plugin, also the entry point's name.
    summary : str
        One line.
    factory : str
        ``"module:callable"``; called with the parameters given to `load`, returns the model.
    api_version : str
        Version of this contract the model is written for.
    max_dim : int or None
        Largest dimension of the state.
    needs_training : bool
        Whether fitting trains the model from scratch, for minutes: `fim_dynsys.testing` then fits it less
        often.
    needs : str
        An optional package that the model needs, and the name of the package's extra that installs it.
    """

    name: str
    summary: str
    factory: str
    api_version: str = "1"
    max_dim: int | None = None
    needs_training: bool = False
    needs: str = ""


_BUILT_IN = {
    spec.name: spec
    for spec in (
        ModelSpec(
            name="fim-ode",
            summary="pretrained operator with closed-form regression inside; milliseconds per data set",
            factory="fim_dynsys.models.fim_ode.own:fim_ode",
            max_dim=6,
        ),
        ModelSpec(
            name="fim-ode-published",
            summary="the network of the FIM-ODE paper; needs the authors' weights",
            factory="fim_dynsys.models.fim_ode.decoded:fim_ode_published",
            max_dim=3,
            needs="torch",
        ),
        ModelSpec(
            name="fim-ode-neural",
            summary="a network of the paper's design, weights in the package; a start for fine-tuning",
            factory="fim_dynsys.models.fim_ode.neural:fim_ode_neural",
            max_dim=3,
            needs="torch",
        ),
        ModelSpec(
            name="sindy",
            summary="stock pysindy.SINDy behind this interface",
            factory="fim_dynsys.models.sindy:SINDy",
        ),
        ModelSpec(
            name="sindy-strong",
            summary="SINDy with smoothers, degrees and sparsity chosen on the observed data",
            factory="fim_dynsys.models.sindy_strong:StrongSINDy",
        ),
        ModelSpec(
            name="equations",
            summary="your own equations: parameters, initial states, doses, noise; from many starts",
            factory="fim_dynsys.models.equations:EquationsModel",
        ),
        ModelSpec(
            name="symbolic",
            summary="textbook functions beyond polynomials by search",
            factory="fim_dynsys.models.symbolic:symbolic",
        ),
        ModelSpec(
            name="auto",
            summary="a wider search: operator, regression, functions, local search; chosen on the data",
            factory="fim_dynsys.models.auto:Auto",
        ),
    )
}


_REGISTERED: dict[str, tuple[ModelSpec, Callable[..., Any]]] = {}  # by `register`, in this process


def register(name: str, factory: Callable[..., Any], summary: str = "") -> None:
    """Make a model of your own loadable by name, in this process.

    A plugin does the same for every process; see `ModelSpec`.

    Parameters
    ----------
    name : str
        What `load` is given. Registering a name again replaces its model, as running a notebook's cell again
        does.
    factory : callable
        Called with the parameters given to `load`; returns the model. A model class is one.
    summary : str
        One line for `available`; default the first line of the factory's docstring.

    Raises
    ------
    ValueError
        If the name belongs to a model of the package or of a plugin.
    TypeError
        If the factory cannot be called.

    See Also
    --------
    load : Makes the model.
    available : Lists it.

    Examples
    --------
    >>> import fim_dynsys
    >>> class Decay(fim_dynsys.VectorFieldModel):
    ...     '''dx/dt = -x, whatever the data.'''
    ...     name = "decay"
    ...     def infer(self, trajectories):
    ...         return fim_dynsys.SymbolicField(["-x0"], context=trajectories)
    >>> fim_dynsys.register("decay", Decay)
    >>> fim_dynsys.load("decay").fit([1.0, 0.6, 0.4, 0.2], 0.5).field_([3.0])
    array([-3.])
    """
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"register: expected a name, got {name!r}.")
    if name in _BUILT_IN or name in _plugin_entry_points():
        raise ValueError(f"register: expected a name that is free, got {name!r}, which is a model already.")
    if not callable(factory):
        raise TypeError(f"register: expected a callable that returns a model, got {factory!r}.")
    line = summary or (inspect.getdoc(factory) or "").partition("\n")[0] or "registered in this process"
    home = f"{getattr(factory, '__module__', '')}:{getattr(factory, '__qualname__', repr(factory))}"
    _REGISTERED[name] = (ModelSpec(name, line, home), factory)


@dataclass(frozen=True)
class KnownPlugin:
    """A plugin that the repository holds beside the package, whether it is installed or not.

    Attributes
    ----------
    name, summary : str
        As of its `ModelSpec`.
    distribution : str
        What has to be installed.
    """

    name: str
    summary: str
    distribution: str

    @property
    def install(self) -> str:
        """The command that installs it, in a checkout of the repository."""
        return f"make plugins PLUGINS={self.distribution.removeprefix(f'{_OWN_DISTRIBUTION}-')}"


_FOLDERS = {"edmd-map": "edmd"}  # where a plugin's name is not that of its folder

KNOWN_PLUGINS = tuple(
    KnownPlugin(name, summary, f"{_OWN_DISTRIBUTION}-{_FOLDERS.get(name, name)}")
    for name, summary in (
        (
            "bayesian-neural-ode",
            "a posterior over networks as fields, sampled by NUTS on a multiple-shooting likelihood",
        ),
        ("edmd", "Koopman generator by regression on monomials: the linear standard"),
        ("edmd-map", "Koopman operator over one time step on monomials, a discrete map"),
        ("gp-dnf", "GPODE with flows of its field and of its posterior; our reading of Xu et al. 2025"),
        ("gpode", "sparse variational Gaussian-process field, by multiple shooting (Hegde et al. 2022)"),
        ("latent-sde", "latent SDE whose Gaussian moments are matched; forecasts without a vector field"),
        ("neural-ode", "a network as the field, fitted to trajectories by multiple shooting"),
        ("npode", "kernel field through inducing vectors, fitted to the path (Heinonen et al. 2018)"),
        ("ode2vae", "second-order latent ODE with a Bayesian network; forecasts without a vector field"),
        ("odeformer", "pretrained symbolic transformer; needs the authors' weights"),
        ("operon", "genetic programming on smoothed slopes, constants fitted to the trajectories"),
    )
)


# ---------------------------------------------------------------------- loading


@overload
def load(name: Literal["fim-ode"], **params: Any) -> "FIMODE": ...
@overload
def load(name: Literal["fim-ode-published"], **params: Any) -> "PublishedFIMODE": ...
@overload
def load(name: Literal["fim-ode-neural"], **params: Any) -> "NeuralFIMODE": ...
@overload
def load(name: Literal["sindy"], **params: Any) -> "SINDy": ...
@overload
def load(name: Literal["sindy-strong"], **params: Any) -> "StrongSINDy": ...
@overload
def load(name: Literal["symbolic"], **params: Any) -> "SymbolicModel": ...
@overload
def load(name: Literal["auto"], **params: Any) -> "Auto": ...
@overload
def load(name: str, **params: Any) -> "VectorFieldModel": ...


def load(name: str, **params: Any) -> Any:
    """Make the model registered as `name`.

    Parameters
    ----------
    name : str
        A name that `available()` lists.
    params
        Parameters of the model.

    Returns
    -------
    VectorFieldModel
        Not yet fitted. A plugin may offer another `TrajectoryModel`, which forecasts without a vector field.

    Raises
    ------
    ValueError
        Unknown name; the nearest names are offered. A folder that `model.save` wrote is for `load_fitted`.
    TypeError
        The model has no parameter of a given name.
    MissingPackageError
        The model needs an optional package, such as torch, that is not installed.
    PluginError
        The plugin that offers the name is not installed, cannot be imported, or is written for another
        version.

    See Also
    --------
    available : Lists the names.
    load_fitted : Restores a model that was saved.

    Examples
    --------
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> model = fim_dynsys.load("fim-ode").fit(3.0 * np.exp(-0.5 * t), t)
    >>> model.equations()
    ['-0.5 x0']
    """
    factory = _import_factory(find(name))
    for old in _EARLIER.get(name, {}).keys() & params.keys():
        warn_of_rename(f"load({name!r})", old, _EARLIER[name][old])
    params = in_present_names(name, params)
    _check_parameters(name, factory, params)
    return factory(**params)


_EARLIER = {"auto": {"budget": "effort"}}
"""Earlier names of parameters, by model: they work, with a DeprecationWarning."""


def in_present_names(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a model, those with an earlier name under today's."""
    names = _EARLIER.get(name, {})
    return {names.get(key, key): value for key, value in params.items()}


def _check_parameters(name: str, factory: Callable[..., Any], params: dict[str, Any]) -> None:
    try:
        known = inspect.signature(factory).parameters
    except (TypeError, ValueError):  # a callable without one
        return
    if any(p.kind is p.VAR_KEYWORD for p in known.values()):
        return
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise TypeError(
            f"load: expected parameters of {name!r} among {', '.join(known) or 'none'}, got "
            f"{', '.join(unknown)}."
        )


def find(name: str) -> ModelSpec:
    """The spec registered as `name`; raises as `load` does."""
    if name in _REGISTERED:
        return _REGISTERED[name][0]
    plugins = _plugin_entry_points()
    if name not in _BUILT_IN and name not in plugins:  # it may have been installed meanwhile
        plugins = _plugin_entry_points(fresh=True)
    if name in _BUILT_IN:
        if name in plugins:
            _warn_clash(name, [_OWN_DISTRIBUTION, *map(distribution, plugins[name])])
        return _BUILT_IN[name]
    if name not in plugins:
        if isinstance(name, str | os.PathLike) and (Path(name) / "model.json").is_file():
            raise ValueError(
                f"load: expected the name of a registered model, got {str(name)!r}, the folder of a fitted "
                "one; fim_dynsys.load_fitted reads it."
            )
        for plugin in _not_installed(plugins):
            if plugin.name == name:
                raise PluginError(
                    f"load: expected an installed model, got {name!r}, a plugin that is not; in a checkout "
                    f"of the repository `{plugin.install}` installs it."
                )
        known = sorted({*_BUILT_IN, *_REGISTERED, *plugins})
        nearest = difflib.get_close_matches(str(name), known, n=3, cutoff=0.4) or known
        raise ValueError(
            f"load: expected the name of a registered model, got {name!r}; nearest: {', '.join(nearest)} "
            "(fim_dynsys.available() lists all)."
        )
    entry_points = plugins[name]
    if len(entry_points) > 1:
        _warn_clash(name, list(map(distribution, entry_points)))
    return _plugin_spec(entry_points[0])


def _warn_clash(name: str, distributions: Sequence[str]) -> None:
    warn(
        f"load: model name {name!r} is offered by {' and '.join(distributions)}; the one "
        f"of {distributions[0]} is used.",
        FimDynsysWarning,
    )


def _not_installed(entry_points: Collection[str]) -> tuple[KnownPlugin, ...]:
    """The repository's plugins that are not among the entry points; none where plugins are disabled."""
    return () if disabled() else tuple(p for p in KNOWN_PLUGINS if p.name not in entry_points)


def _plugin_entry_points(fresh: bool = False) -> dict[str, list[EntryPoint]]:
    return listed(ENTRY_POINT_GROUP, fresh)


def _plugin_spec(entry_point: EntryPoint) -> ModelSpec:
    """Import one plugin's spec and hold it against this version's contract."""
    spec: ModelSpec = loaded(entry_point, ModelSpec)
    if spec.name != entry_point.name:
        raise PluginError(
            f"{owner(entry_point)}: expected a ModelSpec of the entry point's name, got {spec.name!r}."
        )
    return spec


def _import_factory(spec: ModelSpec) -> Callable[..., Any]:
    registered, factory = _REGISTERED.get(spec.name, (None, None))
    if spec is registered and factory is not None:
        return factory
    module, _, attribute = spec.factory.partition(":")
    if spec.needs:
        check_installed(spec.name, spec.needs, spec.needs)
    if spec is _BUILT_IN.get(spec.name):
        return getattr(imported(module), attribute)
    try:
        return getattr(imported(module), attribute)
    except (Exception, SystemExit) as error:  # see `loaded`
        raise PluginError(
            f"plugin {spec.name!r}: cannot import {spec.factory}: {type(error).__name__}: {error}"
        ) from error


# ---------------------------------------------------------------------- listing


@dataclass(frozen=True)
class ModelEntry:
    """One row of `available()`: a model, where it comes from, and why it does not work if it does not."""

    name: str
    distribution: str
    spec: ModelSpec | None
    problem: str = ""


class ModelTable(Sequence[ModelEntry]):
    """The models that can be loaded; prints as a table, with the plugins that are not installed below.

    Parameters
    ----------
    entries : iterable of ModelEntry
        The models.
    not_installed : iterable of KnownPlugin
        What else there is.
    """

    def __init__(self, entries: Iterable[ModelEntry], not_installed: Iterable[KnownPlugin] = ()) -> None:
        self._entries = tuple(entries)
        self.not_installed = tuple(not_installed)

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index]

    @property
    def names(self) -> list[str]:
        """Names of the models that work, as `load` takes them."""
        return [entry.name for entry in self._entries if entry.spec is not None]

    def _rows(self) -> Iterator[tuple[str, ...]]:
        yield ("name", "max dim", "from", "summary")
        for entry in self._entries:
            limit = "any" if entry.spec is None or entry.spec.max_dim is None else str(entry.spec.max_dim)
            text = f"broken: {entry.problem}" if entry.spec is None else entry.spec.summary
            yield (entry.name, limit, entry.distribution, text)

    def _missing_rows(self) -> Iterator[tuple[str, ...]]:
        yield ("not installed", "command, in a checkout of the repository", "summary")
        for plugin in self.not_installed:
            yield (plugin.name, plugin.install, plugin.summary)

    def _tables(self) -> list[list[tuple[str, ...]]]:
        tables = [list(self._rows())]
        return [*tables, list(self._missing_rows())] if self.not_installed else tables

    def __repr__(self) -> str:
        return "\n\n".join(map(_text_table, self._tables()))

    def _repr_html_(self) -> str:
        return "".join(map(_html_table, self._tables()))


def _text_table(rows: list[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )


def _html_table(rows: list[tuple[str, ...]]) -> str:
    head, *body = (
        "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row)
        for tag, row in zip(["th"] + ["td"] * (len(rows) - 1), rows, strict=True)
    )
    lines = "".join(f"<tr>{row}</tr>" for row in body)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def available() -> ModelTable:
    """All registered models, built-in ones first.

    Returns
    -------
    ModelTable
        A sequence of ModelEntry that prints as a table. A plugin that cannot be imported is listed with
        the reason and disturbs no other model. `not_installed` are the repository's plugins that are not
        here, with the command that installs each.

    See Also
    --------
    load : Makes a model.
    register : Adds one of your own.

    Examples
    --------
    >>> import fim_dynsys
    >>> fim_dynsys.available().names[:3]
    ['fim-ode', 'fim-ode-published', 'fim-ode-neural']
    """
    entry_points = _plugin_entry_points(fresh=True)
    entries = [ModelEntry(name, _OWN_DISTRIBUTION, spec) for name, spec in _BUILT_IN.items()]
    entries += [ModelEntry(name, "this process", spec) for name, (spec, _) in _REGISTERED.items()]
    for name, offered in sorted(entry_points.items()):
        owners = [_OWN_DISTRIBUTION] * (name in _BUILT_IN) + list(map(distribution, offered))
        if len(owners) > 1:
            _warn_clash(name, owners)
        if name not in _BUILT_IN:
            entries.append(_plugin_entry(offered[0]))
    return ModelTable(entries, _not_installed(entry_points))


def _plugin_entry(entry_point: EntryPoint) -> ModelEntry:
    try:
        spec = _plugin_spec(entry_point)
    except PluginError as error:
        return ModelEntry(entry_point.name, distribution(entry_point), None, str(error))
    return ModelEntry(entry_point.name, distribution(entry_point), spec)


# ---------------------------------------------------------------------- fitted models


def load_fitted(folder: str | os.PathLike, factory: Callable[..., Any] | None = None) -> "VectorFieldModel":
    """Restore a fitted model that `model.save(folder)` wrote.

    Nothing is unpickled: model.json holds the parameters and names the files of the observations (netCDF) and
    of the field (npz) and of what fine-tuning changed (safetensors); where the field has no closed form it is
    inferred again.

    Parameters
    ----------
    folder : path
        The folder.
    factory : callable, optional
        Makes the model from its parameters, for one that is not registered; default `load` by name.

    Returns
    -------
    VectorFieldModel
        Fitted.

    Raises
    ------
    FileNotFoundError
        No fitted model in the folder.
    ValueError
        A file is damaged or foreign, or was written by a later version of the format.

    Warns
    -----
    FimDynsysWarning
        The model's version has changed since the folder was written.

    See Also
    --------
    VectorFieldModel.save : Writes the folder.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import fim_dynsys
    >>> t = np.linspace(0, 5, 50)
    >>> model = fim_dynsys.load("sindy-strong").fit(3.0 * np.exp(-0.5 * t), t)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = fim_dynsys.load_fitted(model.save(folder))
    >>> again.equations()
    ['-0.5 x0']
    """
    # deferred: scipy, xarray and scikit-learn, which looking a model up does not need
    from fim_dynsys.saved import SavedModel

    saved = SavedModel.read(folder)
    try:
        model = (
            load(saved.model, **in_present_names(saved.model, saved.params))
            if factory is None
            else factory(**saved.params)
        )
    except TypeError as error:
        raise ValueError(
            f"load_fitted: expected the parameters of {saved.model!r} in {folder}, got {saved.params} "
            f"({error})."
        ) from error
    if str(model.version) != saved.version:
        warn(
            f"load_fitted: {folder} was written by version {saved.version} of {saved.model}, this is version "
            f"{model.version}; fields may differ.",
            FimDynsysWarning,
        )
    return model.restore(saved)
