"""The six tasks on motion capture: three subjects, each with short and with long sequences.

Frames have 50 coordinates, of which four never change. Principal components are those of all frames of the
training sequences; a model sees the standardised scores of the first frames of these sequences, and its field
is followed from the first frame of each test sequence to the end of it, which is beyond what it saw.

References
----------
P. Hegde et al., Variational multiple shooting for Bayesian ODEs with Gaussian processes, UAI 2022, section
5.2 (the data and how they are prepared).
"""

import hashlib
import os
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from fim_dynsys.trajectories.container import Trajectories

LENGTHS = {("09", "short"): 50, ("09", "long"): 100, ("35", "short"): 50}
LENGTHS |= {("35", "long"): 250, ("39", "short"): 100, ("39", "long"): 250}
"""Frames of each training sequence that a model sees."""

SPLITS = ("test", "validation")
TARGETS = ("raw", "pca5")
STEP = 0.01
_STILL = [24, 25, 31, 32]
_SMALL = 1e-5  # added to the deviations by which scores are divided, as in the source
_OF_TARGET = 5
PUBLISHED = Path(__file__).with_name("published.toml")


def published() -> dict[str, Any]:
    """Return the published rows and the digests of the files they are about."""
    with PUBLISHED.open("rb") as file:
        return tomllib.load(file)


@dataclass(frozen=True, eq=False)
class Capture:
    """One subject's sequences, and how much of them is seen.

    Attributes
    ----------
    subject, length : str
        Such as "35" and "short".
    train : ndarray (k, n, 50)
        Whole training sequences.
    scored : ndarray (m, l, 50)
        The sequences that are predicted.
    """

    subject: str
    length: str
    train: np.ndarray
    scored: np.ndarray

    @property
    def name(self) -> str:
        """Subject and length."""
        return f"{self.subject} {self.length}"

    @property
    def times(self) -> np.ndarray:
        """Times of the scored frames."""
        return STEP * np.arange(self.scored.shape[1])

    @cached_property
    def mean(self) -> np.ndarray:
        """Of all training frames (50,)."""
        return self.train.reshape(-1, self.train.shape[-1]).mean(axis=0)

    @cached_property
    def _directions(self) -> np.ndarray:
        frames = self.train.reshape(-1, self.train.shape[-1]) - self.mean
        return np.linalg.svd(frames, full_matrices=False)[2]

    @cached_property
    def _deviations(self) -> np.ndarray:
        scores = (self.train - self.mean) @ self._directions.T
        return scores.reshape(-1, scores.shape[-1]).std(axis=0) + _SMALL

    def scores(self, frames: np.ndarray, components: int) -> np.ndarray:
        """Standardised scores (..., components) of frames (..., 50)."""
        return (frames - self.mean) @ self._directions[:components].T / self._deviations[:components]

    def frames(self, scores: np.ndarray) -> np.ndarray:
        """Frames (..., 50) of standardised scores (..., m); the other components are at their mean."""
        m = scores.shape[-1]
        return (scores * self._deviations[:m]) @ self._directions[:m] + self.mean

    def context(self, components: int) -> Trajectories:
        """What a model sees."""
        seen = self.scores(self.train[:, : LENGTHS[self.subject, self.length]], components)
        return Trajectories.from_arrays(list(seen), [STEP * np.arange(seen.shape[1])] * len(seen))

    def starts(self, components: int) -> np.ndarray:
        """Scores (m, components) of the first scored frames."""
        return self.scores(self.scored[:, 0], components)

    def target(self, name: str) -> np.ndarray:
        """What predictions are compared with: the frames, or their parts in five components."""
        return self.scored if name == TARGETS[0] else self.frames(self.scores(self.scored, _OF_TARGET))

    def floor(self, target: str, components: int) -> float:
        """Smallest mean squared error of predictions in so many components."""
        best = self.frames(self.scores(self.target(target), components))
        return float(np.mean((best - self.target(target)) ** 2))

    def digest(self) -> str:
        """Return a digest of the data; a cache answers for the same data only."""
        parts = (np.ascontiguousarray(self.train).tobytes(), np.ascontiguousarray(self.scored).tobytes())
        return hashlib.sha256(b"".join((self.name.encode(), *parts))).hexdigest()[:16]


def captures(folder: str | os.PathLike[str], split: str = SPLITS[0]) -> list[Capture]:
    """Read the six tasks from the published files.

    Parameters
    ----------
    folder : path
        With ``mocap09.npz``, ``mocap35.npz`` and ``mocap39.npz``.
    split : {"test", "validation"}
        The sequences that are predicted: choices are made on the latter.

    Raises
    ------
    FileNotFoundError
        If a file is missing.
    ValueError
        If a file is another than the published one.
    """
    digests = published()["sha256"]
    found = []
    for subject in dict.fromkeys(subject for subject, _ in LENGTHS):
        path = Path(folder) / f"mocap{subject}.npz"
        if not path.is_file():
            raise FileNotFoundError(f"benchmarks.mocap: expected {str(path)!r}, got none; see --data.")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digests[path.name]:
            raise ValueError(
                f"benchmarks.mocap: expected {path} with sha256 {digests[path.name]}, got another file; take "
                "that of the source."
            )
        with np.load(path, allow_pickle=False) as file:
            train, scored = np.array(file["train"]), np.array(file[split])
        for frames in (train, scored):
            frames[..., _STILL] = 1e-6
        found += [Capture(subject, length, train, scored) for own, length in LENGTHS if own == subject]
    return found
