"""A learned choice among candidate fields, trained on known systems."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.origins import Origin

CLIP = 5.0
"""Standardised features are cut here."""

_UNFOUNDED = 30.0  # BIC by which a fit must follow the samples better
_BEHIND = 10.0  # BIC by which a choice may be beaten without a word


def unfitted_and_far_behind(candidates: Sequence[Candidate]) -> np.ndarray:
    """Which candidates (C,) nobody fitted to the trajectories, though a fit follows them far better.

    Such a one is an opinion or a regression: it is no answer, whatever a selector expects of it.
    """
    scores = np.array([c.score for c in candidates])
    fitted = np.array([c.refined for c in candidates])
    return ~fitted & (scores > scores[fitted].min(initial=np.inf) + _UNFOUNDED)


def beaten(candidates: Sequence[Candidate], chosen: Candidate) -> tuple[Origin, float] | None:
    """Of which structure the BIC is clearly smaller than that of a choice, and by how much; None of none."""
    best = candidates[int(np.argmin([c.score for c in candidates]))]
    behind = float(chosen.score - best.score)
    return (best.origin, behind) if behind > _BEHIND else None


@dataclass(frozen=True)
class Selector:
    """A small network that ranks candidates, each beside the others of its data set.

    Attributes
    ----------
    members : list of dict
        Weights of networks whose logits are averaged, by the names in `training.choice.ranker`.
    centre, spread : array (F,)
        By which features are standardised.
    """

    members: list
    centre: np.ndarray
    spread: np.ndarray

    def logits(self, values: np.ndarray) -> np.ndarray:
        """One number per candidate from `features` (C, F), higher is better: array (C,)."""
        x = np.clip((values - self.centre) / self.spread, -CLIP, CLIP)
        return np.mean([_forward(member, x) for member in self.members], axis=0)

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, np.ndarray]) -> "Selector":
        """From the arrays of a weights file, names ``member/layer``, ``centre`` and ``spread``."""
        names = sorted({name.split("/")[0] for name in tensors if "/" in name})
        members = [
            {k.split("/")[1]: np.asarray(v, float) for k, v in tensors.items() if k.startswith(f"{name}/")}
            for name in names
        ]
        return cls(members, np.asarray(tensors["centre"], float), np.asarray(tensors["spread"], float))


def _forward(w: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    hidden = _gelu(x @ w["in"] + w["in_bias"])
    hidden = _gelu(hidden @ w["own"] + w["own_bias"])
    pooled = np.concatenate([hidden.mean(axis=0), hidden.max(axis=0), hidden[0]])
    hidden = hidden + _gelu(hidden @ w["mix"] + pooled @ w["pool"] + w["mix_bias"])
    pooled = np.concatenate([hidden.mean(axis=0), hidden.max(axis=0), hidden[0]])
    hidden = hidden + _gelu(hidden @ w["mix2"] + pooled @ w["pool2"] + w["mix2_bias"])
    return (hidden @ w["out"])[:, 0]


def _gelu(x: np.ndarray) -> np.ndarray:
    """The tanh form of the Gaussian error linear unit (Hendrycks & Gimpel 2016)."""
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
