"""Fields that are forced periodically: inputs that are sines and cosines of the time."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.driven import DrivenField
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.holding import Hold

_NAME = re.compile(r"(sin|cos)\((\S+) t\)")


def wave_names(omegas: Sequence[float]) -> list[str]:
    """``sin(2 t)`` and ``cos(2 t)`` for each angular frequency."""
    return [f"{wave}({_written(omega)} t)" for omega in omegas for wave in ("sin", "cos")]


def omegas_of(names: Sequence[str]) -> tuple[float, ...]:
    """The angular frequencies of inputs that are named as `wave_names` does; none where any is not."""
    found = []
    for name in names:
        match = _NAME.fullmatch(name)
        try:
            found.append(float(match[2]) if match else np.nan)
        except ValueError:
            return ()
    omegas = tuple(found[::2])
    return omegas if list(names) == wave_names(omegas) else ()


def waves(omegas: Sequence[float], t: ArrayLike) -> np.ndarray:
    """Sine and cosine (..., 2 k) of each of k angular frequencies at times (...)."""
    phase = np.asarray(t, dtype=np.float64)[..., None] * np.asarray(omegas)
    return np.stack([np.sin(phase), np.cos(phase)], axis=-1).reshape(*phase.shape[:-1], -1)


def with_waves(trajectories: Trajectories, omegas: Sequence[float]) -> Trajectories:
    """The trajectories with sines and cosines of the time as inputs."""
    pairs = trajectories.arrays()
    return Trajectories.from_arrays(
        [x for _, x in pairs],
        [t for t, _ in pairs],
        trajectories.state_names,
        trajectories.coords,
        trajectories.units,
        [waves(omegas, t) for t, _ in pairs],
        wave_names(omegas),
    ).with_hold(Hold.SMOOTH)


class ForcedField(DrivenField):
    """A field ``dx/dt = f(x, sin wt, cos wt, ...)``, which needs no inputs but the time.

    Analyses read `autonomous`, in which the sines and cosines are states: crossings of ``sin(w t) = 0`` are
    the stroboscopic map, a periodic response is a limit cycle.

    Parameters
    ----------
    extended : DictionaryField
        The field of states and inputs.
    input_names : sequence of str
        As `wave_names` gives them.
    **kwargs
        Passed to `DrivenField`.

    Attributes
    ----------
    omegas : tuple of float
        Angular frequencies.
    """

    def __init__(self, extended: DictionaryField, input_names: Sequence[str], **kwargs: Any) -> None:
        super().__init__(extended, input_names, **kwargs)
        self.omegas = omegas_of(input_names)
        if not self.omegas:
            raise ValueError(
                f"ForcedField: expected inputs such as sin(2 t) and cos(2 t), got {list(input_names)}."
            )

    @staticmethod
    def recognised(field: DrivenField) -> DrivenField:
        """The field, forced where all of its inputs are sines and cosines of the time by their names."""
        terms = field.extended
        if not omegas_of(field.input_names) or not isinstance(terms, DictionaryField):
            return field
        return ForcedField(terms, field.input_names, frame=field.frame, fit_info=field.fit_info)

    def inputs(self, t: ArrayLike) -> np.ndarray:
        """Inputs (..., m) at times (...)."""
        return waves(self.omegas, t)

    def autonomous(self) -> DictionaryField:
        """The field of states and forcing (d + m,), without inputs.

        Each sine and cosine ``(s, c)`` turns as ``s' = w c + w s (1 - s^2 - c^2)`` and
        ``c' = -w s + w c (1 - s^2 - c^2)``: the circle attracts, so that the response to the forcing is a
        limit cycle as any other. Of its exponents, each pair adds 0 and ``-2 w``.

        Returns
        -------
        DictionaryField
        """
        extended, d = self.extended, self.dim
        assert isinstance(extended, DictionaryField)
        dim = extended.dim
        cubic = Dictionary.polynomial(dim, 3)
        turning = np.zeros((len(cubic), dim))
        place = {tuple(powers): row for row, powers in enumerate(cubic.exponents.tolist())}
        unit = np.eye(dim, dtype=int)
        for k, omega in enumerate(self.omegas):
            s, c = d + 2 * k, d + 2 * k + 1
            turning[place[tuple(unit[c])], s] += omega
            turning[place[tuple(unit[s])], c] -= omega
            for wave in (s, c):
                turning[place[tuple(unit[wave])], wave] += omega
                for other in (s, c):
                    turning[place[tuple(unit[wave] + 2 * unit[other])], wave] -= omega
        used = turning.any(axis=1)
        terms, (first, second) = union([extended.dictionary, cubic.subset(np.flatnonzero(used))])
        coefficients = np.zeros((len(terms), dim))
        coefficients[first] += extended.coefficients
        coefficients[second] += turning[used]
        names = [*self.state_names, *self.input_names]
        return DictionaryField(terms, coefficients, context=self._joined_context(), state_names=names)

    def _joined_context(self) -> Trajectories | None:
        """States and forcing of the context as states."""
        if self.context is None:
            return None
        kept = self.context.drop_incomplete("ForcedField")
        pairs = zip(kept.arrays(), kept.input_arrays(), strict=True)
        joined = [(t, np.concatenate([x, u], axis=1)) for (t, x), u in pairs]
        names = [*self.state_names, *self.input_names]
        return Trajectories.from_arrays([x for _, x in joined], [t for t, _ in joined], names)


def _written(omega: float) -> str:
    """A number as briefly as it can be read back."""
    return f"{omega:g}" if float(f"{omega:g}") == omega else repr(float(omega))
