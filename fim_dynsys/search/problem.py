"""What a search is about: the observations, and the terms that fields may have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.regression.following import followed
from fim_dynsys.regression.inputs import Inputs
from fim_dynsys.regression.observed import Observations, largest_degree, observe
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.search.restrictions import Restriction, in_units

_STIFF = 30.0  # rates times the gap of samples: explicit steps as short as are taken there are hardly stable
_FASTER = 10.0  # times the fastest growth: what decays less fast may as well have diverged
_RTOL, _STEPS_PER_SAMPLE = 1e-5, 20  # of paths of stiff fields
_NOISE_LEVELS, _LEAST_NEGATIVE = 6.0, 1e-6  # of noise, and of the largest value: what negative samples may be
_SAME = 1e-5  # of a monomial's size: what is left of it by lower ones
_A_LEVEL, _NEARLY_ALWAYS = 5, 0.9  # samples of one value, and the share of all samples that have such values


@dataclass(frozen=True)
class Search:
    """Observations and terms, which all candidates of a search have in common.

    Attributes
    ----------
    observations : Observations
        Data, in units of their size and pace.
    dictionary : Dictionary
        Terms, in the same units; of the states and, behind them, the inputs.
    restriction : Restriction or None
        What is known of the coefficients in advance, in the same units.
    """

    observations: Observations
    dictionary: Dictionary
    restriction: Restriction | None = None

    @classmethod
    def polynomial(
        cls,
        samples: Sequence[tuple[np.ndarray, np.ndarray]],
        degree: int | None = None,
        radians: np.ndarray | None = None,
        inputs: Inputs | None = None,
    ) -> "Search":
        """A search among polynomials.

        Parameters
        ----------
        samples : list of (t (n,), x (n, d))
            Complete samples.
        degree : int, optional
            Largest total degree; default the `largest_degree` for so many samples.
        radians : array (d,), optional
            See `observe`.
        inputs : Inputs, optional
            See `observe`; the monomials are then of states and inputs, those that are `distinguishable`.
        """
        observations = observe(samples, radians, inputs)
        dim = observations.dim + observations.n_inputs
        if degree is None:
            degree = largest_degree(dim, observations.n)
        dictionary = _polynomial(dim, degree)
        if observations.n_inputs:
            dictionary = dictionary.subset(distinguishable(dictionary, observations))
        return cls(observations, dictionary)

    def knowing(
        self, knowledge: Knowledge | None, state_names: Sequence[str], input_names: Sequence[str] = ()
    ) -> "Search":
        """The same search among the fields that some facts allow.

        Raises
        ------
        ValueError
            Where the facts contradict each other, or do not fit the terms, or a state that is nonnegative
            was negative by more than noise explains.
        """
        if knowledge is None:
            return self
        self._check_signs(knowledge, state_names)
        given = knowledge.restriction(self.dictionary, state_names, input_names)
        scale, unit = self.observations.scale, self.observations.time_unit
        sizes = np.prod(self.observations.extended_scale**self.dictionary.exponents, axis=1)
        factor = sizes[:, None] * unit / scale
        scaled = given.rescaled(factor)
        if scaled.beyond is not None:
            extended = self.observations.extended_scale
            scaled = replace(scaled, beyond=in_units(scaled.beyond, extended, unit))
        return replace(self, restriction=scaled)

    def restricted(
        self, dictionary: Dictionary, coefficients: np.ndarray
    ) -> tuple[Dictionary, np.ndarray, Restriction, np.ndarray]:
        """What is known of the terms of another dictionary, beside those of the search.

        Parameters
        ----------
        dictionary : Dictionary
            Of a candidate.
        coefficients : array (k, d)
            Its own.

        Returns
        -------
        (Dictionary of m terms, int array (k,), Restriction, array (m, d))
            All terms, which of them are the candidate's, the restriction of all, and all coefficients.
        """
        assert self.restriction is not None
        terms, (_, rows) = union([self.dictionary, dictionary])
        values = np.zeros((len(terms), coefficients.shape[1]))
        values[rows] = coefficients
        return terms, rows, self.restriction.extended(self.dictionary, terms), values

    def _check_signs(self, knowledge: Knowledge, state_names: Sequence[str]) -> None:
        """Refuse nonnegative states that were negative: no field that keeps them so moves as these do."""
        seen = self.observations
        lowest = np.min([z.min(axis=0) for _, z in seen.samples], axis=0)
        largest = np.max([np.abs(z).max(axis=0) for _, z in seen.samples], axis=0)
        allowed = np.maximum(_NOISE_LEVELS * seen.noise.level, _LEAST_NEGATIVE * largest)
        for name, low, limit, scale in zip(state_names, lowest, allowed, seen.scale, strict=True):
            if name in knowledge.nonnegative and low < -limit:
                raise ValueError(
                    f"Knowledge.nonnegative: expected samples of {name} of zero or more, up to noise, got "
                    f"{low * scale:.4g}; leave {name} out, or correct the record."
                )

    def measured(self, errors: Sequence[np.ndarray] | Noise | None) -> "Search":
        """The same search where the errors of the samples are known, see `Observations.measured`."""
        if errors is None:
            return self
        if isinstance(errors, Noise):
            return replace(self, observations=self.observations.counted())
        return replace(self, observations=self.observations.measured(errors))

    def observing(self, seen: Sequence[str] | None, state_names: Sequence[str]) -> "Search":
        """The same search where only these states were observed; None: all of them."""
        if seen is None:
            return self
        hidden = np.array([name not in seen for name in state_names])
        return replace(self, observations=self.observations.unseen(hidden))

    def paths(self, coefficients: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Paths (K, P, n, d) of fields (K, m, d) from starts (K, P, d) at the observation times.

        As `rollout`, in shorter steps where these err, and implicit ones where a field is too stiff for that;
        nan from where a field leaves every bound.
        """
        seen = self.observations
        paths = rollout(
            self.dictionary,
            coefficients,
            starts,
            seen.t,
            seen.padded_limits,
            inputs=seen.padded_curves,
            allowed=seen.allowed,
        )
        for k in np.flatnonzero(~np.isfinite(paths[:, :, -1]).all(axis=(1, 2))):
            if self._is_stiff(coefficients[k], paths[k]):
                paths[k] = self._implicit(coefficients[k], starts[k])
        return paths

    def _is_stiff(self, coefficients: np.ndarray, paths: np.ndarray) -> bool:
        """Whether a field decays too fast for `rollout` by the sample where its paths (P, n, d) ended."""
        if not np.isfinite(coefficients).all():
            return False
        seen, dim = self.observations, self.observations.dim
        piece = int(np.flatnonzero(~np.isfinite(paths[:, -1]).all(axis=1))[0])
        t, last = seen.samples[piece][0], int(np.isfinite(paths[piece]).all(axis=1).sum()) - 1
        last = min(max(last, 0), len(t) - 2)
        gap = float(t[last + 1] - t[last])
        x = np.concatenate([seen.path[piece][last], seen.inputs[piece][last]])
        slopes = np.einsum("mj,mi->ij", self.dictionary.gradient(x[None])[0], coefficients)[:, :dim]
        if not np.isfinite(slopes).all():
            return False
        rates = np.linalg.eigvals(slopes).real
        return bool(-rates.min() * gap > _STIFF and -rates.min() > _FASTER * max(rates.max(), 0.0))

    def _implicit(self, coefficients: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Paths (P, n, d) of one field with error control, implicit where it is stiff; as `paths`."""
        seen = self.observations
        found = followed(
            self.dictionary,
            coefficients,
            list(starts),
            [t for t, _ in seen.samples],
            rtol=_RTOL,
            atol=_RTOL * np.sqrt(np.maximum(seen.signal_variance, 1e-300)),
            bound=np.full(seen.dim, 1e6),
            max_steps=_STEPS_PER_SAMPLE * seen.z.shape[1],
            inputs=seen.curves if seen.n_inputs else None,
        )
        paths = np.full(seen.z.shape, np.nan)
        for row, path in zip(paths, found.paths, strict=True):
            row[: len(path)], row[len(path) :] = path, path[-1]
        return paths


def distinguishable(dictionary: Dictionary, observations: Observations) -> np.ndarray:
    """Which monomials (m,) of states and inputs the inputs at the samples distinguish from lower ones.

    The square of an input of two levels is a line in it, an input that is constant in all samples is a
    constant, and the squares of a sine and a cosine add up to one: of what inputs make the same, the lowest
    powers are kept, times each monomial of the states. The few samples in which an input is on its way from
    one level to another distinguish no powers above the first.
    """
    dim = observations.dim
    powers = dictionary.exponents[:, dim:]
    each, place = np.unique(powers, axis=0, return_inverse=True)
    degree = each.sum(axis=1)
    order = np.lexsort((*-each.T[::-1], degree))
    inputs, kept = np.concatenate(observations.inputs), np.zeros(len(each), dtype=bool)
    values = Dictionary(each[order]).evaluate(inputs)
    apart_at_levels = _independent(values[_at_levels(inputs)])
    kept[order] = np.where(degree[order] > 1, apart_at_levels, _independent(values))
    return np.flatnonzero(kept[place.ravel()])


def _at_levels(inputs: np.ndarray) -> np.ndarray:
    """Samples (n,) in which all inputs (n, m) that nearly always have one of a few values have such a one."""
    found = np.ones(len(inputs), dtype=bool)
    for values in inputs.T:
        _, which, count = np.unique(values, return_inverse=True, return_counts=True)
        often = count[which] >= _A_LEVEL
        found &= often | (often.mean() < _NEARLY_ALWAYS)
    return found


def _independent(columns: np.ndarray) -> np.ndarray:
    """Which of the columns (n, m) are no combinations of earlier ones, bool (m,)."""
    basis, kept = np.zeros((len(columns), 0)), np.zeros(columns.shape[1], dtype=bool)
    for number, column in enumerate(columns.T):
        rest = column - basis @ (basis.T @ column)
        rest -= basis @ (basis.T @ rest)
        size = np.linalg.norm(rest)
        if size > _SAME * np.linalg.norm(column):
            kept[number] = True
            basis = np.column_stack([basis, rest / size])
    return kept


@cache
def _polynomial(dim: int, degree: int) -> Dictionary:
    return Dictionary.polynomial(dim, degree)
