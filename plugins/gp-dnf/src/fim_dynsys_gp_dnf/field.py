"""Fields that are a flow of a Gaussian process, and their posterior."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.ensemble import EnsembleField
from fim_dynsys_common.kernels import KernelField, check_arrays
from fim_dynsys_gp_dnf.flows import bent, planar
from fim_dynsys_gpode.field import Prior

_CENTRAL_DRAWS = 1000


class BentField(VectorField):
    """A field sent through monotone layers, coordinate by coordinate: ``f = speed * G(g(x))``.

    Parameters
    ----------
    inner : KernelField
        g.
    layers : array (l, 3, d)
        u, v and c of the layers ``g + u tanh(v g + c)``.
    speed : array (d,)
        Unit of the inner field's rates.
    **kwargs
        As for `VectorField`.
    """

    def __init__(self, inner: KernelField, layers: np.ndarray, speed: np.ndarray, **kwargs: Any):
        self._inner, self._layers, self._speed = inner, layers, speed
        super().__init__(inner.dim, **kwargs)

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._speed * bent(self._inner._rhs(x), self._layers)[0]

    def _jac(self, x: np.ndarray) -> np.ndarray:
        slopes = self._speed * bent(self._inner._rhs(x), self._layers)[1]
        return slopes[..., None] * self._inner._jac(x)


class FlowField(VectorField):
    """The posterior of a Gaussian process sent through a flow, whose inducing vectors went through another.

    The field itself is the flow of the mean Gaussian process: at each point the median where the inducing
    vectors are Gaussian. `draws` gives whole functions.

    Parameters
    ----------
    centres, lengths, signal, means, roots : arrays (m, d), (d, d), (d,), (d, m), (d, m, m)
        As of `fim_dynsys_gpode.field.GaussianProcessField`, the process counted in units of `speed`.
    planar_layers : array (3, l, d, m)
        u, w and b of the flow of the inducing vectors.
    layers, speed : arrays (l, 3, d), (d,)
        As of `BentField`.
    **kwargs
        As for `VectorField`.

    Raises
    ------
    ValueError
        Where shapes do not fit or an array is not finite.
    """

    def __init__(
        self,
        centres: ArrayLike,
        lengths: ArrayLike,
        signal: ArrayLike,
        means: ArrayLike,
        roots: ArrayLike,
        planar_layers: ArrayLike,
        layers: ArrayLike,
        speed: ArrayLike,
        **kwargs: Any,
    ):
        given = (centres, lengths, signal, means, roots, planar_layers, layers, speed)
        self._arrays = {name: np.array(part, dtype=float) for name, part in zip(_NAMES, given, strict=True)}
        m, d = self._arrays["centres"].shape
        n_planar = self._arrays["planar_layers"].shape[1:2]
        n_layers = self._arrays["layers"].shape[:1]
        shapes = ((m, d), (d, d), (d,), (d, m), (d, m, m), (3, *n_planar, d, m), (*n_layers, 3, d), (d,))
        check_arrays("FlowField", self._arrays, dict(zip(_NAMES, shapes, strict=True)))
        self._prior = Prior(*(self._arrays[name] for name in _NAMES[:3]))
        vectors = self._vectors(_CENTRAL_DRAWS, np.random.default_rng(0)).mean(axis=0)
        inner = KernelField(centres, lengths, self._prior.kernel_weights(vectors))
        self._central = BentField(inner, self._arrays["layers"], self._arrays["speed"])
        super().__init__(d, **kwargs)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Its eight arrays."""
        return dict(self._arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray], **description: Any) -> Self:
        """The field that `to_arrays` took apart, with keyword arguments of `VectorField`."""
        return cls(*(arrays[name] for name in _NAMES), **description)

    def draws(self, n: int, seed: int = 0) -> EnsembleField:
        """Whole functions drawn from the posterior (EnsembleField of `BentField`)."""
        rng = np.random.default_rng(seed)
        layers, speed = self._arrays["layers"], self._arrays["speed"]
        inner = [self._prior.draw(vectors, rng) for vectors in self._vectors(n, rng)]
        return EnsembleField([BentField(field, layers, speed, frame=self.frame) for field in inner])

    def _vectors(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Whitened inducing vectors (n, d, m) drawn from the posterior."""
        means, roots = self._arrays["means"], self._arrays["roots"]
        noise = rng.standard_normal((n, *means.shape))
        return planar(means + np.einsum("jmk,njk->njm", roots, noise), self._arrays["planar_layers"])

    def _rhs(self, x: np.ndarray) -> np.ndarray:
        return self._central._rhs(x)

    def _jac(self, x: np.ndarray) -> np.ndarray:
        return self._central._jac(x)


_NAMES = ("centres", "lengths", "signal", "means", "roots", "planar_layers", "layers", "speed")
