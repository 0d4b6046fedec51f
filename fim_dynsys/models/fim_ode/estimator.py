"""FIM-ODE as a model: weights and observations in, vector fields out."""

import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.fim_ode.calibration import Calibration, Evidence
from fim_dynsys.models.fim_ode.card import read_card
from fim_dynsys.models.fim_ode.checkpoint import find_checkpoint, read_checkpoint
from fim_dynsys.models.fim_ode.choice import consider
from fim_dynsys.models.fim_ode.compiled import regression, smoothed
from fim_dynsys.models.fim_ode.field import Decoder, make_fields, parse_precision
from fim_dynsys.models.fim_ode.weights import (
    CALIBRATION,
    SELECTOR,
    build_network,
    read_header,
    read_part,
    shipped,
    weights_version,
)
from fim_dynsys.search.selector import Selector
from fim_dynsys.trajectories import Trajectories

DEFAULT_WEIGHTS = "fim-ode"
_NAMES = {"amortised": "fim-ode", "published": "fim-ode-published"}

# Contexts encoded together hold at most this many slots, padding included: 20,000 tokens of the published
# network take about 200 MB in float32.
_SLOTS_AT_ONCE = 20_000
_NETWORKS_KEPT = 4


class Operator(NamedTuple):
    """A network ready for inference.

    Attributes
    ----------
    network : nn.Module
    decoder : Decoder or None
        Of networks whose fields are decoded point by point.
    architecture : str
    version : str
        First 8 hexadecimal digits of the sha256 of its weights file.
    max_dim : int
    selector : Selector or None
        Of our own operator, where the file holds one.
    calibration : Calibration or None
        Likewise.
    """

    network: torch.nn.Module
    decoder: Decoder | None
    architecture: str
    version: str
    max_dim: int
    selector: Selector | None = None
    calibration: Calibration | None = None


class FIMODE(VectorFieldModel):
    """A pretrained operator that reads the vector field off the observations in one pass.

    What is inferred follows from the weights: with our own operator a polynomial field in closed form, with
    the published network a field that is decoded point by point (its equations are a distillation). Our
    operator's opinion is also the start of a short search: structures that it and a few sparse regressions
    suggest are fitted to the trajectories themselves, and a small network, trained like the operator on known
    systems, chooses among all of them; `field_.fit_info.report` says which one won. Contexts
    may hold any number of trajectories, ragged and irregularly sampled; samples with a missing coordinate are
    dropped with a warning. Results do not depend on the order of trajectories, nor on units or the origin of
    time.

    Weights are read when first needed. A process keeps the last few, keyed by their hash, and models share
    them; a saved or pickled model holds the path only, a pickled field the numbers it needs.

    Parameters
    ----------
    weights : path-like, optional
        A weights file, or a folder or file with the published network as its authors distribute it. Default:
        our operator's weights, part of the package.
    attention : {"softmax-gnot", "softmax"}, optional
        Published network only: the attention map, overriding what its configuration says.
    precision : {"float32", "float64"}
        Published network only: type in which contexts are encoded. Fields are decoded in float64.
    device : str
        Where contexts are encoded and published fields decoded, as torch names it.
    refine : bool
        Our operator only: whether to search round its opinion; False gives its own field, ten times faster.

    Examples
    --------
    >>> model = FIMODE(weights="path/to/published")  # doctest: +SKIP
    >>> model.fit(x, t).predict(x)  # doctest: +SKIP
    """

    min_observations = 4
    scale_equivariance = 1e-5  # float32 encoding; exact up to rounding in float64

    def __init__(self, weights=None, attention=None, precision="float32", device="cpu", refine=True):
        self.weights = weights
        self.attention = attention
        self.precision = precision
        self.device = device
        self.refine = refine

    @property
    def name(self) -> str:
        """Registry name of the operator that the weights hold."""
        return _NAMES[_architecture(self._path)]

    @property
    def version(self) -> str:
        """First 8 hexadecimal digits of the weights' sha256."""
        return self.operator.version

    @property
    def max_dim(self) -> int:
        """Largest dimension of the states that the weights take."""
        return self.operator.max_dim

    @property
    def operator(self) -> Operator:
        """The network, read at first use."""
        settings = (self._path, self.attention, self.precision, str(self.device))
        if vars(self).get("_operator_settings") != settings:
            self._operator = load_operator(*settings)
            self._operator_settings = settings
        return self._operator

    def infer(self, trajectories: Trajectories) -> VectorField:
        """Infer the field behind `trajectories`; see `infer_many`."""
        return self.infer_many([trajectories])[0]

    def infer_many(self, contexts: Sequence[Trajectories]) -> list[VectorField]:
        """Infer one field per context, several contexts to a pass through the network.

        Parameters
        ----------
        contexts : sequence of Trajectories
            Of any number, length and dimension.

        Returns
        -------
        list of VectorField

        Raises
        ------
        ValueError
            If a context has too few observations or too many states.
        """
        closed_form = self.operator.decoder is None
        return self._in_batches(self._amortised_fields if closed_form else _decoded_fields, contexts)

    def infer_with_evidence(self, contexts: Sequence[Trajectories]) -> list[tuple[DictionaryField, Evidence]]:
        """Fields without their posterior, and what it is read off; see `training.calibration`.

        Parameters
        ----------
        contexts : sequence of Trajectories
            Of any number, length and dimension.

        Returns
        -------
        list of (DictionaryField, Evidence)

        Raises
        ------
        ValueError
            As `infer_many`; also for weights of the published network, which has no coefficients.
        """
        _ = self._own_operator
        return self._in_batches(self._with_evidence, contexts)

    def _in_batches(self, infer_batch, contexts) -> list:
        """Results of ``infer_batch(operator, complete, contexts)`` for all contexts, in their order."""
        operator, contexts = self.operator, list(contexts)
        complete = [context.drop_incomplete(self._who) for context in contexts]
        for context in complete:
            self._check_limits(context, operator.max_dim)
        results: list = [None] * len(contexts)
        for batch in _batches(complete):
            members = infer_batch(operator, [complete[i] for i in batch], [contexts[i] for i in batch])
            for i, result in zip(batch, members, strict=True):
                results[i] = result
        return results

    @property
    def degree(self) -> int:
        """Largest total degree of the monomials of our own operator."""
        return self._own_operator.network.config.degree

    def opinions(self, contexts: Sequence[Trajectories]) -> list[tuple[np.ndarray, np.ndarray]]:
        """What our own operator says of the coefficients of some contexts of one dimension.

        Parameters
        ----------
        contexts : sequence of Trajectories
            Samples with a missing coordinate are dropped.

        Returns
        -------
        list of (solves (S, m, d), variances (m, d))
            Successive estimates for the terms of ``Dictionary.polynomial(d, degree)``, and posterior
            variances of the last, in the units of the data.

        Raises
        ------
        ValueError
            As `infer_many`; also for weights of the published network, which has no coefficients.
        """
        operator = self._own_operator
        complete = [context.drop_incomplete(self._who) for context in contexts]
        for context in complete:
            self._check_limits(context, operator.max_dim)
        return [(said.solves, said.variances) for said in operator_coefficients(operator, complete)]

    @property
    def _own_operator(self) -> Operator:
        if self.operator.architecture != "amortised":
            raise ValueError(
                f"{self._who}: expected weights of our own operator, got the architecture "
                f"{self.operator.architecture!r}, which has no coefficients."
            )
        return self.operator

    def _amortised_fields(self, operator: Operator, complete, contexts) -> list[VectorField]:
        """Fields of contexts of one dimension, with a posterior where the weights hold one."""
        known = self._with_evidence(operator, complete, contexts)
        if operator.calibration is None:
            return [field for field, _ in known]
        return [PosteriorField.of(f, partial(operator.calibration.roots, evidence=e)) for f, e in known]

    def _with_evidence(self, operator: Operator, complete, contexts) -> list[tuple]:
        """Pairs of a field of terms and its evidence, for contexts of one dimension."""
        pairs = []
        said = operator_coefficients(operator, complete)
        for answer, samples, context in zip(said, complete, contexts, strict=True):
            options = _options(operator, context)
            found = None
            if self.refine:
                found = consider(samples, answer.dictionary, answer.solves, answer.variances)
            if found is None:
                field = DictionaryField(answer.dictionary, answer.solves[-1], **options)
                others = answer.solves
            else:
                best, report = found.choose(operator.selector)
                report = options["fit_info"].report | report
                field = best.field(found.observations, answer.dictionary, context, report)
                others = found.coefficients
            pairs.append((field, Evidence.of(field, others, *answer[:3], searched=found is not None)))
        return pairs

    @property
    def _path(self) -> str:
        return str(shipped(DEFAULT_WEIGHTS)) if self.weights is None else os.fspath(self.weights)

    def _check_limits(self, context: Trajectories, max_dim: int) -> None:
        observed = int(context.n_obs.sum())
        if observed < self.min_observations or context.n_obs.max() < 2:
            raise ValueError(
                f"{self._who}: expected at least {self.min_observations} complete observations, two of them "
                f"in one trajectory, got {observed} in {len(context)} trajectories; give more samples."
            )
        if context.dim > max_dim:
            raise ValueError(
                f"{self._who}: expected at most {max_dim} states, which is what these weights "
                f"take, got {context.dim}; reduce them first, for example with PCAReduction."
            )

    def ensemble(self, n: int = 20, seed: int = 0) -> EnsembleField:
        """Fields drawn from the posterior of the coefficients; where there is none, a context bootstrap.

        Parameters
        ----------
        n : int
            Number of members.
        seed : int
            Equal seeds give equal members.

        Returns
        -------
        EnsembleField
        """
        field = self._fitted_field()
        return field.draws(n, seed) if isinstance(field, PosteriorField) else super().ensemble(n, seed)

    def card(self) -> str:
        """Model card of the weights, in Markdown: what they are, how they were made, what was measured.

        Raises
        ------
        ValueError
            For weights that the package's card does not describe.
        """
        return read_card(self.version)

    def _refit_members(self, field, contexts) -> list[VectorField]:
        return self.infer_many(contexts)

    def __getstate__(self):
        return {
            key: value for key, value in super().__getstate__().items() if not key.startswith("_operator")
        }


def fim_ode(weights=None, attention=None, precision="float32", device="cpu", refine=True) -> FIMODE:
    """Our pretrained operator; its weights are part of the package.

    Parameters
    ----------
    weights : path-like, optional
        Another weights file, such as one exported by ``python -m training.pretrain``.
    attention, precision : str, optional
        For weights of the published network only, see `FIMODE`.
    device : str
        Where to compute, as torch names it.
    refine : bool
        Whether to search round the operator's opinion, see `FIMODE`.

    Returns
    -------
    FIMODE
        Not yet fitted; the weights have been read.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file does not hold an operator's weights.
    """
    model = FIMODE(weights, attention, precision, device, refine)
    model.operator  # noqa: B018 - wrong weights are an error now, not at the first fit
    return model


def fim_ode_published(weights=None, attention=None, precision="float32", device="cpu", refine=True) -> FIMODE:
    """The network of the FIM-ODE paper, with its authors' weights.

    Parameters
    ----------
    weights : path-like
        A folder with ``config.json`` and ``model.safetensors`` as the authors publish it, their safetensors
        file alone (then give `attention`), or a file in our format. The package does not hold them.
    attention : {"softmax-gnot", "softmax"}, optional
        The attention map, overriding what the configuration says.
    precision : {"float32", "float64"}
        Type in which contexts are encoded.
    device : str
        Where to compute, as torch names it.
    refine : bool
        Of no effect: only our own operator has a search, see `FIMODE`.

    Returns
    -------
    FIMODE
        Not yet fitted; the weights have been read.

    Warns
    -----
    WeightsWarning
        Where the configuration says ``softmax`` and `attention` is not given.

    Raises
    ------
    FileNotFoundError
        Naming the files expected.
    ValueError
        If the weights are not those of the published network, or leave the attention map open.
    """
    find_checkpoint(weights, attention or "softmax-gnot")  # only to tell what is missing or foreign
    model = FIMODE(weights, attention, precision, device, refine)
    _ = model.operator
    return model


# --- networks --------------------------------------------------------------------------------------------

_networks: OrderedDict[tuple, Operator] = OrderedDict()
_networks_lock = threading.Lock()


def load_operator(path: str, attention: str | None, precision: str, device: str) -> Operator:
    """The operator that `path` holds; read once for each content of the file and setting.

    Raises
    ------
    FileNotFoundError, ValueError
        As `find_checkpoint`, `read_checkpoint` and `build_network`; ValueError for an unknown precision or
        a device that is not there.
    """
    dtype = parse_precision("FIMODE", precision)
    where = _checked_device(device)
    architecture = _architecture(path)
    if architecture == "published":
        checkpoint = find_checkpoint(path, attention)
        tensors, settings = checkpoint.tensors, (checkpoint.attention, repr(checkpoint.settings), precision)
    elif attention is not None:
        raise ValueError(
            f"FIMODE: expected attention=None with {path!r}, got {attention!r}; only the published network "
            "has a choice of attention maps."
        )
    else:
        checkpoint, tensors, settings = None, path, (precision,)
    version = weights_version(tensors)
    key = (version, architecture, *settings, device)
    with _networks_lock:
        if key not in _networks:
            _networks[key] = _read_operator(checkpoint, tensors, architecture, version, dtype, where)
            if len(_networks) > _NETWORKS_KEPT:
                _networks.popitem(last=False)
        _networks.move_to_end(key)
        return _networks[key]


def _read_operator(checkpoint, path, architecture, version, dtype, device) -> Operator:
    if checkpoint is None:
        network, _ = build_network(path)
        network = network.to(device).requires_grad_(False)
        selector, calibration = read_part(path, SELECTOR), read_part(path, CALIBRATION)
        return Operator(
            network,
            None,
            architecture,
            version,
            len(network.tables),
            Selector.from_tensors(selector) if selector else None,
            Calibration(calibration) if calibration else None,
        )
    network = read_checkpoint(checkpoint).to(device).requires_grad_(False)
    decoder = Decoder(network, torch.float64)
    return Operator(network.to(dtype), decoder, architecture, version, network.config.max_dim)


def _architecture(path) -> str:
    """Architecture of a weights file; folders and files of other origin can only be the published."""
    if os.path.isdir(path):
        return "published"
    header = read_header(path)
    return "published" if header is None else header["architecture"]


def _checked_device(device: str) -> torch.device:
    try:
        where = torch.device(device)
        torch.empty(0, dtype=torch.float64, device=where)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise ValueError(
            f"FIMODE: expected a torch device that is there and holds float64, got {device!r} ({error}); "
            "device='cpu' always works."
        ) from error
    return where


# --- inference -------------------------------------------------------------------------------------------


def _decoded_fields(operator: Operator, complete, contexts) -> list[VectorField]:
    """Fields of contexts that are encoded together; states are scaled by powers of two on the way."""
    units = [_units(context) for context in complete]
    dim = max(context.dim for context in complete)
    t, x, mask = _padded_batch(complete, units, dim, next(operator.network.parameters()).device)
    with (
        torch.inference_mode(False),
        torch.no_grad(),
    ):  # an inference-mode tensor would refuse gradients later
        encoding = operator.network.encode(t, x, mask)
        options = [_options(operator, context) for context in contexts]
        dims = [context.dim for context in complete]
        return make_fields(operator.decoder, encoding, dims, units, options)


class Answer(NamedTuple):
    """What our operator says of one context, in the units of the data."""

    solves: np.ndarray  # (S, m, d) coefficients, the last are its best
    variances: np.ndarray  # (m, d) posterior variances of the last
    information: np.ndarray  # (d, m, m) what the data say of them
    dictionary: Dictionary  # the terms


def operator_coefficients(operator: Operator, complete) -> list[Answer]:
    """What our operator says of contexts of one dimension; scaled by powers of two on the way.

    Raises
    ------
    ValueError
        Where those are not ordinary floating-point numbers.
    """
    dim = complete[0].dim
    units = [_units(context) for context in complete]
    t, x, mask = _padded_batch(complete, units, dim, next(operator.network.parameters()).device)
    spans = t.amax((1, 2))
    paces = torch.exp2(torch.floor(torch.log2(torch.where(spans > 0, spans, 1.0))))
    t = t / paces[:, None, None]
    network = operator.network
    twins = (None, None)  # torch does it all: for other devices
    if t.device.type == "cpu":
        twins = smoothed(t, x, mask, network.config), regression(network.config)
    estimate = network.infer_coefficients(t, x, mask, *twins)
    config = network.config
    dictionary = Dictionary.polynomial(dim, config.degree)
    exponents = dictionary.exponents
    said = []
    parts = zip(*(part.cpu().numpy() for part in (*estimate, paces)), units, strict=True)
    for solves, variances, information, scale, pace, unit in parts:
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            factor = unit / np.prod(unit**exponents, axis=1, keepdims=True) / pace
            own = factor.T
            answer = Answer(
                solves * factor,
                variances * factor**2,
                information / (own[:, :, None] * own[:, None]),
                dictionary.rescaled(solves[-1], scale * unit)[0],
            )
        if not np.isfinite(answer.solves).all():
            raise ValueError(
                "fim-ode: expected states and times in which the coefficients are ordinary floating-point "
                f"numbers, got states of size {unit} over times of size {pace}; change their units."
            )
        said.append(answer)
    return said


def _options(operator: Operator, context: Trajectories) -> dict:
    report = {"operator": _NAMES[operator.architecture], "weights": operator.version}
    if operator.architecture == "published":
        report["attention"] = operator.network.config.attention
    return {"context": context, "fit_info": FitInfo(report=report)}


def _batches(contexts: Sequence[Trajectories]):
    """Indices of contexts to infer together: of one dimension and near in size, so that little is padded."""
    sizes = [(c.dim, len(c), int(c.n_obs.max())) for c in contexts]
    batch: list[int] = []
    for i in sorted(range(len(contexts)), key=sizes.__getitem__):
        dim, count, length = sizes[i]
        trajectories = max([count, *(sizes[j][1] for j in batch)])
        samples = max([length, *(sizes[j][2] for j in batch)])
        full = (len(batch) + 1) * trajectories * samples > _SLOTS_AT_ONCE
        if batch and (full or sizes[batch[0]][0] != dim):
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


def _padded_batch(contexts, units, dim: int, device):
    """Times (B, K, L) from each start, states in `units` (B, K, L, dim) and mask (B, K, L), in float64."""
    shape = (len(contexts), max(map(len, contexts)), max(int(c.n_obs.max()) for c in contexts))
    t, x, mask = np.zeros(shape), np.zeros((*shape, dim)), np.zeros(shape, dtype=bool)
    for b, (context, unit) in enumerate(zip(contexts, units, strict=True)):
        for k, (times, states) in enumerate(context.arrays()):
            n, d = states.shape
            t[b, k, :n] = times - times[0]
            x[b, k, :n, :d] = states / unit
            mask[b, k, :n] = True
    return tuple(torch.as_tensor(a, device=device) for a in (t, x, mask))


def _units(context: Trajectories) -> np.ndarray:
    """A power of two near each state's range (1 if it is constant): dividing by it is exact.

    The network's statistics have an absolute floor (1e-6), so that without this the field would depend on
    the units in which small states are given.
    """
    x = np.concatenate([states for _, states in context.arrays()])
    half_range = x.max(0) / 2 - x.min(0) / 2
    return np.exp2(np.floor(np.log2(np.where(half_range > 0, half_range, 1.0))))
