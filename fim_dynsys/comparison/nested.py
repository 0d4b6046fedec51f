"""Evidence and posterior of parameters by nested sampling, with checkpoints and a progress bar."""

import hashlib
import os
import pickle
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fim_dynsys.comparison.likelihoods import Likelihood
from fim_dynsys.comparison.posteriors import Posterior
from fim_dynsys.comparison.priors import JointPrior

if TYPE_CHECKING:
    from dynesty import NestedSampler

_CHECKPOINT_SECONDS = 60  # an interrupted run loses a minute at most
_ELLIPSOIDS_UP_TO = 3  # parameters and starts; beyond, slices in random directions
_REPORT_EVERY = 50  # iterations between updates of the progress bar


def sample_nested(
    likelihood: Likelihood,
    prior: JointPrior,
    live_points: int = 250,
    seed: int = 0,
    resume: bool = False,
    progress: bool | None = None,
    name: str = "",
) -> Posterior:
    """Evidence and posterior by nested sampling.

    Parameters
    ----------
    likelihood : callable
        ``theta (q,) -> float``, finite; a module-level object where the run shall be resumable.
    prior : JointPrior
        Maps the unit cube to parameters.
    live_points : int
        The error falls as its root.
    seed : int
        Of the sampler.
    resume : bool
        Whether to keep checkpoints and to go on from one that an interrupted run of the same question left.
        They are pickles, in a folder of the system's temporary directory that only its owner may enter.
    progress : bool, optional
        Whether a progress bar is shown; default on a terminal.
    name : str
        For the progress bar.

    Returns
    -------
    Posterior

    Raises
    ------
    ValueError
        With ``resume``, if the folder for checkpoints belongs to someone else or is open to others.

    References
    ----------
    J. Skilling, Nested sampling for general Bayesian computation, Bayesian Analysis 1 (2006) 833; J. Speagle,
    dynesty, MNRAS 493 (2020) 3132.
    """
    from dynesty import NestedSampler

    checkpoint = _Checkpoint.of(likelihood, prior, live_points, seed) if resume else None
    sampler = None if checkpoint is None else checkpoint.restored()
    resumed = sampler is not None
    if sampler is None:
        rng = np.random.default_rng(seed)
        # uniform draws from ellipsoids stall where oscillations make the likelihood ragged (Lotka-Volterra)
        method = "unif" if len(prior.priors) <= _ELLIPSOIDS_UP_TO else "rslice"
        sampler = NestedSampler(
            likelihood, prior, len(prior.priors), nlive=live_points, sample=method, rstate=rng
        )
    with _Bar(name, progress) as bar:
        sampler.run_nested(
            print_progress=bar.shown,
            print_func=bar,
            checkpoint_file=None if checkpoint is None else str(checkpoint.path),
            checkpoint_every=_CHECKPOINT_SECONDS,
            resume=resumed,
        )
    results = sampler.results
    if checkpoint is not None:
        checkpoint.remove()
    log_weights = np.array(results["logwt"])
    return Posterior(
        float(results["logz"][-1]),
        float(results["logzerr"][-1]),
        np.array(results["samples"]),
        log_weights - np.logaddexp.reduce(log_weights),
        np.array(results["logl"]),
        int(np.sum(results["ncall"])),
        seed,
    )


class _Bar:
    """dynesty's reports as one progress bar."""

    def __init__(self, name: str, progress: bool | None):
        from tqdm import tqdm

        self._bar = tqdm(desc=name or None, unit="it", disable=None if progress is None else not progress)

    @property
    def shown(self) -> bool:
        return not self._bar.disable

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def __call__(self, results: Any, niter: int, ncall: int, **kwargs: Any) -> None:
        if niter % _REPORT_EVERY == 0:
            self._bar.update(niter - self._bar.n)
            self._bar.set_postfix(calls=ncall, logz=f"{results.logz:.1f}", left=f"{results.delta_logz:.2g}")


@dataclass(frozen=True)
class _Checkpoint:
    """A checkpoint in a folder that we made, of a name that the question decides."""

    path: Path

    @classmethod
    def of(cls, *question: object) -> Self:
        import dynesty

        # another version of dynesty need not read the file
        text = pickle.dumps((dynesty.__version__, *question))
        digest = hashlib.sha256(text).hexdigest()[:24]
        user = os.getuid() if hasattr(os, "getuid") else "user"
        folder = Path(tempfile.gettempdir()) / f"fim-dynsys-{user}"
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.stat()
        own = not hasattr(os, "getuid") or about.st_uid == os.getuid()
        if folder.is_symlink() or not own or stat.S_IMODE(about.st_mode) & 0o077:
            raise ValueError(
                f"sample_nested: expected {folder} to be a folder that only its owner may enter, got mode "
                f"{stat.S_IMODE(about.st_mode):o} of user {about.st_uid}; remove it or run without resume."
            )
        return cls(folder / f"{digest}.checkpoint")

    def restored(self) -> "NestedSampler | None":
        from dynesty import NestedSampler

        return NestedSampler.restore(str(self.path)) if self.path.is_file() else None

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
