"""The field that a network infers and decodes point by point, in float64."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor, nn

from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.fim_ode.published import (
    NORM_EPS,
    STABILISER,
    Encoding,
    PublishedNetwork,
    Summary,
    at_distance,
    summarise,
)

PRECISIONS = {"float32": torch.float32, "float64": torch.float64}

# Rows decoded at once: 256 was as fast as any number up to 1024 (0.27 ms a row), 2048 a quarter slower.
# Reverse passes also hold every layer's intermediate values, about 0.3 MB a row, more for each further order.
_ROWS, _JACOBIAN_ROWS, _DIRECTIONAL_ROWS = 256, 128, 32


class _Layer(NamedTuple):
    """Weights of one decoder block, named as in `published.Block`."""

    query: tuple[Tensor, Tensor]
    key: tuple[Tensor, Tensor]
    value: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]
    norm1: tuple[Tensor, Tensor]
    expand: tuple[Tensor, Tensor]
    contract: tuple[Tensor, Tensor]
    norm2: tuple[Tensor, Tensor]


class Decoder:
    """The decoder's weights, frozen, in one type on one device; shared by all fields of a network.

    The arithmetic is that of `PublishedNetwork.decode` in evaluation mode, as plain tensor functions: for a
    single query, walking through modules costs a fifth more.

    Parameters
    ----------
    network : PublishedNetwork
        Copied; later training of it leaves this decoder as it is.
    dtype : torch.dtype
        Type of the copy.
    """

    def __init__(self, network: PublishedNetwork, dtype: torch.dtype = torch.float64) -> None:
        self.config = network.config
        self._origin = network.field_head[0].get_parameter("weight").dtype

        def frozen(module: nn.Module) -> tuple[Tensor, Tensor]:
            weight, bias = module.get_parameter("weight"), module.get_parameter("bias")
            return weight.detach().to(dtype, copy=True), bias.detach().to(dtype, copy=True)

        self._embedding = tuple(frozen(network.query_embedding[i]) for i in (0, 2))
        self._layers = tuple(
            _Layer(
                *(frozen(getattr(block.attention, name)) for name in ("query", "key", "value", "out")),
                *(frozen(getattr(block, name)) for name in ("norm1", "expand", "contract", "norm2")),
            )
            for block in network.decoder
        )
        self._head = tuple(frozen(network.field_head[i]) for i in (0, 3, 6))

    @property
    def dtype(self) -> torch.dtype:
        """Type the decoder computes in."""
        return self._head[0][0].dtype

    @property
    def device(self) -> torch.device:
        """Device the decoder computes on."""
        return self._head[0][0].device

    def to(self, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> "Decoder":
        """The same decoder in another type or on another device."""
        moved = object.__new__(Decoder)
        moved.config, moved._origin = self.config, self._origin

        def move(part: Any) -> Any:
            return part.to(device=device, dtype=dtype) if isinstance(part, Tensor) else tuple(map(move, part))

        moved._embedding, moved._head = move(self._embedding), move(self._head)
        moved._layers = tuple(_Layer(*move(layer)) for layer in self._layers)
        return moved

    def __getstate__(self) -> dict[str, Any]:
        """Weights in the network's own type, half the size where that is float32, and as exact."""
        return {"kept": vars(self.to(self._origin)), "dtype": self.dtype}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["kept"])
        vars(self).update(vars(self.to(state["dtype"])))

    @torch.no_grad()
    def summarise(self, tokens: Tensor, mask: Tensor) -> tuple[Summary, ...]:
        """Summary of a batch of encoded contexts (B, J, width), mask (B, J), for each layer."""
        tokens = tokens.to(self.dtype)
        return tuple(
            summarise(
                F.linear(tokens, *layer.key),
                F.linear(tokens, *layer.value),
                mask,
                self.config.heads,
                self.config.attention,
            )
            for layer in self._layers
        )

    def __call__(self, z: Tensor, summaries: tuple[Summary, ...]) -> Tensor:
        """Normalised field (n, max_dim) at normalised states `z` (n, max_dim).

        `summaries` hold, per layer, one context's matrix (H, C, C) and weight (H, C), or one of each per row,
        (n, H, C, C) and (n, H, C).
        """
        first, second = self._embedding
        h = F.linear(F.relu(F.linear(z, *first)), *second)
        rows, width = h.shape
        for layer, summary in zip(self._layers, summaries, strict=True):
            queries = F.linear(h, *layer.query).view(rows, self.config.heads, -1).softmax(-1)
            mixed = _mix(queries, summary).reshape(rows, width)
            h = _layer_norm(h + F.linear(mixed, *layer.out), *layer.norm1)
            hidden = F.gelu(F.linear(h, *layer.expand))
            h = _layer_norm(h + F.linear(hidden, *layer.contract), *layer.norm2)
        for part in self._head[:-1]:
            h = F.gelu(F.linear(h, *part))
        return at_distance(F.linear(h, *self._head[-1]), z, self.config)


def _mix(queries: Tensor, summary: Summary) -> Tensor:
    """What queries (n, H, C) read from a summary shared by all rows or given per row."""
    if summary.matrix.ndim == 4:
        mixed = (queries[:, :, None] @ summary.matrix)[:, :, 0]
    else:
        mixed = torch.bmm(queries.transpose(0, 1), summary.matrix).transpose(0, 1)
    if summary.weight is None:
        return mixed
    return mixed / ((queries * summary.weight).sum(-1, keepdim=True) + STABILISER)


def _layer_norm(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm; from elementary operations where gradients are wanted.

    The third and higher derivatives of torch's fused kernel are wrong (torch 2.13: not even symmetric); those
    of its GELU and softmax are right.
    """
    if not torch.is_grad_enabled():
        return F.layer_norm(h, h.shape[-1:], weight, bias, NORM_EPS)
    centred = h - h.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + NORM_EPS) * weight + bias


def _with_gradients(method: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Run with gradients whatever mode the caller is in."""

    @functools.wraps(method)
    def run(*args: Any) -> np.ndarray:
        with torch.inference_mode(False), torch.enable_grad():
            return method(*args)

    return run


class DecodedField(VectorField):
    """The field that a network infers from one context and decodes point by point.

    A context is held per decoder layer as one matrix and one vector per head, so a query costs the same
    whatever the number and length of trajectories. Decoding is in float64; inference itself is as exact as
    the encoder's type. Jacobians and directional derivatives are exact derivatives of the network by reverse
    passes. The query embedding contains a ReLU: the field is continuous, its Jacobian piecewise so.

    Made by `PublishedFIMODE.infer`; picklable, weights included.

    Parameters
    ----------
    decoder : Decoder
        Shared weights.
    summaries : tuple of Summary
        Per layer, the context's matrix (H, C, C) and weight (H, C), in the decoder's type.
    mean, std : Tensor (d,)
        Centre and unit of the states.
    rate : float
        Normalised time per unit of time.
    **kwargs
        As for `VectorField`.
    """

    _accuracy = 1e-4  # far below what a network errs by; each evaluation takes milliseconds

    def __init__(
        self,
        decoder: Decoder,
        summaries: tuple[Summary, ...],
        mean: Tensor,
        std: Tensor,
        rate: float,
        **kwargs: Any,
    ) -> None:
        super().__init__(len(mean), **kwargs)
        self._decoder = decoder
        self._summaries = summaries
        self._rate = float(rate)
        self._mean, self._std = (
            torch.as_tensor(v, dtype=torch.float64, device=decoder.device) for v in (mean, std)
        )

    @property
    def precision(self) -> str:
        """Type the field is decoded in: "float64" or "float32"."""
        return str(self._decoder.dtype).removeprefix("torch.")

    @property
    def device(self) -> torch.device:
        """Device the field is decoded on."""
        return self._decoder.device

    def to(self, precision: str | None = None, device: torch.device | str | None = None) -> "DecodedField":
        """The same field decoded otherwise; points go in and come out as float64 numpy arrays all the same.

        Parameters
        ----------
        precision : {"float64", "float32"}, optional
            "float32" halves the cost of dense grids; relative errors near 1e-6 then make it unfit for
            Newton's method, finite differences and tight tolerances.
        device : torch.device or str, optional
            Where to compute.

        Returns
        -------
        DecodedField
            A new field.
        """
        dtype = None if precision is None else parse_precision("DecodedField.to", precision)
        decoder = self._decoder.to(dtype, device)
        summaries = tuple(s.each(lambda part: part.to(device=device, dtype=dtype)) for s in self._summaries)
        return DecodedField(
            decoder,
            summaries,
            self._mean,
            self._std,
            self._rate,
            frame=self.frame,
            fit_info=self.fit_info,
        )

    def decode(self, x: Tensor) -> Tensor:
        """Field (n, d) at states `x` (n, d) in the units of the data, float64, differentiable in `x`."""
        return _decoded(self._decoder, self._summaries, self._mean, self._std, self._rate, x)

    @classmethod
    def stack(cls, fields: Sequence["DecodedField"]) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """As `VectorField.stack`; one pass through the decoder for all rows where fields share theirs."""
        fields = tuple(fields)
        if len({(id(f._decoder), f.dim, f._summaries[0][0].shape) for f in fields}) != 1:
            return super().stack(fields)
        return _StackedRows(fields)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        with torch.inference_mode():
            for rows in _chunks(len(x), _ROWS):
                out[rows] = self.decode(self._tensor(x[rows])).cpu().numpy()
        return out

    @_with_gradients
    def _jac(self, x: np.ndarray) -> np.ndarray:
        """By d reverse passes over all rows at once, which do not influence one another."""
        out = np.empty((*x.shape, self.dim))
        for rows in _chunks(len(x), _JACOBIAN_ROWS):
            points = self._tensor(x[rows]).requires_grad_()
            f = self.decode(points)
            for i in range(self.dim):
                (gradient,) = torch.autograd.grad(f[:, i].sum(), points, retain_graph=i + 1 < self.dim)
                out[rows, i] = gradient.cpu().numpy()
        return out

    @_with_gradients
    def _directional(self, x: np.ndarray, directions: Sequence[np.ndarray]) -> np.ndarray:
        """Derivatives along s_k at 0 of f(x + sum s_k v_k), one reverse pass per order and component."""
        out = np.empty_like(x)
        for rows in _chunks(len(x), _DIRECTIONAL_ROWS):
            points = self._tensor(x[rows])
            steps = [points.new_zeros(len(points), 1).requires_grad_() for _ in directions]
            for step, direction in zip(steps, directions, strict=True):
                points = points + step * self._tensor(direction[rows])
            f = self.decode(points)
            for i in range(self.dim):
                derivative = f[:, i : i + 1]
                for step in steps:
                    (derivative,) = torch.autograd.grad(derivative.sum(), step, create_graph=True)
                out[rows, i] = derivative[:, 0].detach().cpu().numpy()
        return out

    def _tensor(self, x: np.ndarray) -> Tensor:
        return _copied(x, self.device)


class _StackedRows:
    """Rows of many decoded fields in one pass: each row meets the summaries of its own context."""

    def __init__(self, fields: tuple[DecodedField, ...]) -> None:
        first = fields[0]
        self._decoder, self._single = first._decoder, fields
        self._summaries = tuple(
            type(layer[0])(
                *(None if parts[0] is None else torch.stack(parts) for parts in zip(*layer, strict=True))
            )
            for layer in zip(*(f._summaries for f in fields), strict=True)
        )
        self._mean, self._std = (
            torch.stack([getattr(f, name) for f in fields]) for name in ("_mean", "_std")
        )
        self._rate = self._mean.new_tensor([[f._rate] for f in fields])

    def __call__(self, x: np.ndarray, which: np.ndarray) -> np.ndarray:
        which = np.asarray(which)
        if len(which) and (which == which[0]).all():
            return self._single[which[0]]._rhs(x)
        out = np.empty_like(x)
        with torch.inference_mode():
            for rows in _chunks(len(x), _ROWS):
                out[rows] = self._rows(x[rows], which[rows])
        return out

    def _rows(self, x: np.ndarray, which: np.ndarray) -> np.ndarray:
        index = _copied(which, self._mean.device)
        summaries = tuple(summary.each(lambda part: part[index]) for summary in self._summaries)
        points = _copied(x, self._mean.device)
        units = (self._mean[index], self._std[index], self._rate[index])
        return _decoded(self._decoder, summaries, *units, points).cpu().numpy()


def _member(i: int, part: Tensor) -> Tensor:
    return part[i].clone()


def make_fields(
    decoder: Decoder,
    encoding: Encoding,
    dims: Sequence[int],
    units: Sequence[ArrayLike],
    options: Sequence[dict[str, Any]],
) -> list[DecodedField]:
    """Fields of an encoded batch of contexts.

    Parameters
    ----------
    decoder : Decoder
        Weights of the network that encoded them.
    encoding : Encoding
        Of B contexts.
    dims : sequence of int (B)
        Dimension of each.
    units : sequence of array_like (B)
        What one unit of the encoded states is, (d,), in the units of the data.
    options : sequence of dict (B)
        What `VectorField` takes beside.

    Returns
    -------
    list of DecodedField
    """
    layers = decoder.summarise(encoding.tokens, encoding.mask)
    normalisation = encoding.normalisation
    fields = []
    for i, (d, unit, option) in enumerate(zip(dims, units, options, strict=True)):
        summaries = tuple(layer.each(functools.partial(_member, i)) for layer in layers)
        unit = torch.as_tensor(unit, dtype=torch.float64, device=normalisation.mean.device)
        mean, std = normalisation.mean[i, :d] * unit, normalisation.std[i, :d] * unit
        fields.append(DecodedField(decoder, summaries, mean, std, normalisation.rate[i].item(), **option))
    return fields


def parse_precision(caller: str, precision: str) -> torch.dtype:
    """The torch type a precision names."""
    if precision not in PRECISIONS:
        raise ValueError(f"{caller}: expected precision 'float32' or 'float64', got {precision!r}.")
    return PRECISIONS[precision]


def _decoded(
    decoder: Decoder,
    summaries: tuple[Summary, ...],
    mean: Tensor,
    std: Tensor,
    rate: float | Tensor,
    x: Tensor,
) -> Tensor:
    """Field at states in the units of the data; mean, std and rate are shared or given per row."""
    dim = x.shape[-1]
    z = F.pad((x - mean) / std, (0, decoder.config.max_dim - dim)).to(decoder.dtype)
    return decoder(z, summaries)[:, :dim].double() * (std * rate)


def _copied(values: np.ndarray, device: torch.device) -> Tensor:
    """Values as a tensor of their own; torch takes no negative strides, not even of an axis of length 1."""
    return torch.from_numpy(np.array(values, order="C")).to(device)


def _chunks(n: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, n)) for start in range(0, n, size))
