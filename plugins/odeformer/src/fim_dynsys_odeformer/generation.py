"""Candidates of one trajectory: what the network generates, read as expressions in the units of the data."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import sympy
import torch

from fim_dynsys.fields.expressions import check_expression

MOST_POINTS = 200  # of a trajectory: the network has seen no longer ones
_TIME_RANGE = (1.0, 10.0)  # of the network's clock

_BINARY: dict[str, Callable[[sympy.Expr, sympy.Expr], sympy.Expr]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "pow": lambda a, b: a**b,
}
_UNARY: dict[str, Callable[[sympy.Expr], sympy.Expr]] = {
    "abs": sympy.Abs,
    "inv": lambda a: 1 / a,
    "sqrt": sympy.sqrt,
    "log": sympy.log,
    "exp": sympy.exp,
    "sin": sympy.sin,
    "arcsin": sympy.asin,
    "cos": sympy.cos,
    "arccos": sympy.acos,
    "tan": sympy.tan,
    "arctan": sympy.atan,
    "pow2": lambda a: a**2,
    "pow3": lambda a: a**3,
    "id": lambda a: a,
}
_CONSTANTS = {"e": sympy.E, "pi": sympy.pi, "euler_gamma": sympy.EulerGamma}


class OutOfTime(Exception):
    """The network was stopped in the middle of generating."""


def candidates(
    network: Any,
    t: np.ndarray,
    x: np.ndarray,
    *,
    beam_size: int,
    beam_temperature: float,
    seed: int,
    end: float,
) -> list[tuple[sympy.Expr, ...]]:
    """Right-hand sides in the states x0, x1, ... that the network samples for one trajectory.

    Times go to the range 1 to 10 and each state is divided by its first value (1 where that is 0), as in the
    source's package; the expressions are undone by substitution.

    Parameters
    ----------
    network : odeformer.model.ModelWrapper
        Encoder and decoder.
    t, x : arrays (n,), (n, d)
        Complete samples.
    beam_size : int
        Number of samples.
    beam_temperature : float
        Of the sampling.
    seed : int
        Of the sampling; torch's global source stays as it is.
    end : float
        Moment of `time.perf_counter` at which to stop.

    Raises
    ------
    OutOfTime
        At that moment.
    """
    rows = np.unique(np.linspace(0, len(t) - 1, MOST_POINTS).astype(int))
    first, last = _TIME_RANGE
    pace = (last - first) / (t[-1] - t[0])
    scale = np.where(x[0] == 0.0, 1.0, x[0])
    bag = [[first + pace * (t[k] - t[0]), x[k] / scale] for k in rows]
    with _made_to_run(network, beam_size, beam_temperature, seed, end):
        (trees,) = network([bag])
    found = {}
    for tree in trees:
        expressions = read(tree.prefix(), x.shape[1])
        if expressions is not None:
            found[str(expressions)] = in_units(expressions, scale, pace)
    return list(found.values())


def read(prefix: str, dim: int) -> tuple[sympy.Expr, ...] | None:
    """Right-hand sides from the network's prefix notation; None where they are no field on R^dim."""
    symbols = {f"x_{i}": sympy.Symbol(f"x{i}", real=True) for i in range(dim)}
    sides = [side.strip(",").split(",") for side in prefix.split("|")]
    try:
        read_sides = tuple([_read(iter(side), symbols) for side in sides])
        for side in read_sides:
            check_expression(side)
    except (KeyError, StopIteration, ValueError, RecursionError):
        return None  # time or another state in it, cut short, or nothing that can be evaluated
    return read_sides if len(read_sides) == dim else None


def _read(tokens: Iterator[str], symbols: dict[str, sympy.Symbol]) -> sympy.Expr:
    token = next(tokens)
    if token in _BINARY:
        a = _read(tokens, symbols)
        return _BINARY[token](a, _read(tokens, symbols))
    if token in _UNARY:
        return _UNARY[token](_read(tokens, symbols))
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    try:
        return sympy.Float(float(token))
    except ValueError:
        return symbols[token]


def in_units(expressions: Sequence[sympy.Expr], scale: np.ndarray, pace: float) -> tuple[sympy.Expr, ...]:
    """dx/dt, where the expressions are that of ``x / scale`` by a clock that is ``pace`` times as fast."""
    symbols = [sympy.Symbol(f"x{i}", real=True) for i in range(len(scale))]
    units = {s: s / float(unit) for s, unit in zip(symbols, scale, strict=True)}
    return tuple(
        float(unit * pace) * side.xreplace(units) for side, unit in zip(expressions, scale, strict=True)
    )


@contextmanager
def _made_to_run(
    network: Any, beam_size: int, beam_temperature: float, seed: int, end: float
) -> Iterator[None]:
    """Settings and repairs of odeformer 0.1.7 under today's torch, undone afterwards.

    It masks by bytes, which torch refuses since 2.0 (whenever a sample reaches the largest length), and seeds
    torch's global source. Generating cannot be interrupted but between two words.
    """
    decoder, forward, to_byte = network.decoder, network.decoder.forward, torch.Tensor.byte

    def in_time(*arguments: Any, **options: Any) -> torch.Tensor:
        if time.perf_counter() > end:
            raise OutOfTime
        return forward(*arguments, **options)

    settings = {"beam_type": "sampling", "beam_size": beam_size, "beam_temperature": beam_temperature}
    before = {name: getattr(network, name) for name in settings}
    try:
        for name, value in settings.items():
            setattr(network, name, value)
        decoder.forward = in_time
        decoder.generate = partial(type(decoder).generate, decoder, seed=seed)
        torch.Tensor.byte = torch.Tensor.bool  # type: ignore[method-assign]
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        torch.Tensor.byte = to_byte  # type: ignore[method-assign]
        del decoder.forward, decoder.generate
        for name, value in before.items():
            setattr(network, name, value)
