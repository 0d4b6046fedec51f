"""What our operator and the published network share as models: limits, and batches of contexts."""

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from fim_dynsys.fields.base import VectorField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.trajectories.container import Trajectories

_T = TypeVar("_T")

# Contexts encoded together hold at most this many slots, padding included: 20,000 tokens of the published
# network take about 200 MB in float32.
_SLOTS_AT_ONCE = 20_000


class PretrainedModel(VectorFieldModel):
    """A model that reads the field off the observations in one pass of a network, several contexts at a time.

    A subclass writes `infer_batch`, `version` and `max_dim`. Samples with a missing coordinate are dropped
    with a warning.
    """

    min_observations = 4
    scale_equivariance = 1e-5  # float32 encoding; exact up to rounding in float64

    @abc.abstractmethod
    def infer_batch(
        self, complete: Sequence[Trajectories], contexts: Sequence[Trajectories]
    ) -> Sequence[VectorField]:
        """Fields of contexts of one dimension: their complete samples, and the contexts as given."""

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
        return self._in_batches(self.infer_batch, contexts)

    @np.errstate(all="ignore")  # what overflows is judged by what comes of it
    def _in_batches(
        self,
        infer_batch: Callable[[Sequence[Trajectories], Sequence[Trajectories]], Sequence[_T]],
        contexts: Sequence[Trajectories],
    ) -> list[_T]:
        """Results of ``infer_batch(complete, contexts)`` for all contexts, in their order."""
        contexts = list(contexts)
        complete = self._complete(contexts)
        results: dict[int, _T] = {}
        for batch in _batches(complete):
            members = infer_batch([complete[i] for i in batch], [contexts[i] for i in batch])
            results.update(zip(batch, members, strict=True))
        return [results[i] for i in range(len(contexts))]

    def _complete(self, contexts: Sequence[Trajectories]) -> list[Trajectories]:
        """Complete samples of contexts, each held against the limits of the weights."""
        complete = [context.drop_incomplete(self._caller) for context in contexts]
        max_dim = self.max_dim
        for context in complete:
            self._check_limits(context, max_dim)
        return complete

    def _check_limits(self, context: Trajectories, max_dim: int | None) -> None:
        observed = int(context.n_obs.sum())
        if observed < self.min_observations or context.n_obs.max() < 2:
            raise ValueError(
                f"{self._caller}: expected at least {self.min_observations} complete observations, two of "
                f"them in one trajectory, got {observed} in {len(context)} trajectories; give more samples."
            )
        dim = context.dim + len(context.input_names)
        if max_dim is not None and dim > max_dim:
            inputs = f" and {len(context.input_names)} inputs" if context.input_names else ""
            of_both = " and inputs together" if inputs else ""
            raise ValueError(
                f"{self._caller}: expected at most {max_dim} states{of_both}, which is what these weights "
                f"take, got {context.dim}{inputs}; reduce them first, for example with PCAReduction."
            )

    def _refit_members(self, field: VectorField, contexts: Iterable[Trajectories]) -> list[VectorField]:
        return self.infer_many(list(contexts))


def _batches(contexts: Sequence[Trajectories]) -> Iterator[list[int]]:
    """Indices of contexts to infer together: of one dimension and near in size, so that little is padded.

    Contexts with inputs are not together with those without.
    """
    sizes = [((c.dim, len(c.input_names)), len(c), int(c.n_obs.max())) for c in contexts]
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


def padded_batch(
    contexts: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]], dim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times (B, K, L), states (B, K, L, dim) and mask (B, K, L) of contexts from `scaled_samples`."""
    lengths = [[len(t) for t, _ in samples] for samples in contexts]
    shape = (len(contexts), max(map(len, lengths)), max(map(max, lengths)))
    t, x, mask = np.zeros(shape), np.zeros((*shape, dim)), np.zeros(shape, dtype=bool)
    for b, samples in enumerate(contexts):
        for k, (times, states) in enumerate(samples):
            n, d = states.shape
            t[b, k, :n], x[b, k, :n, :d], mask[b, k, :n] = times, states, True
    return t, x, mask


def scaled_samples(context: Trajectories, unit: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Times from the start and states in ``unit`` (d,) of each trajectory."""
    return [(t - t[0], x / unit) for t, x in context.arrays()]


def power_units(context: Trajectories) -> np.ndarray:
    """A power of two near each state's range (1 if it is constant): dividing by it is exact.

    The networks' statistics have an absolute floor (1e-6), so that without this the field would depend on
    the units in which small states are given.
    """
    x = np.concatenate([states for _, states in context.arrays()])
    half_range = x.max(0) / 2 - x.min(0) / 2
    return np.exp2(np.floor(np.log2(np.where(half_range > 0, half_range, 1.0))))
