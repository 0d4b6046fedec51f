"""A training loop that ends in time and keeps the best state by a held-out score."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch

from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.deadline import Deadline
from fim_dynsys.errors import FitError

State = TypeVar("State")


@dataclass(frozen=True)
class Trained(Generic[State]):
    """What `train` found.

    Attributes
    ----------
    state : object
        What `snapshot` gave where the score was lowest.
    score : float
        That score.
    step : int
        Steps taken by then.
    steps : int
        Steps taken in all.
    ended : str
        "all steps", "no improvement", "out of time" or "diverged".
    """

    state: State
    score: float
    step: int
    steps: int
    ended: str


def train(
    caller: str,
    step: Callable[[int], float],
    score: Callable[[], float],
    snapshot: Callable[[], State],
    *,
    steps: int,
    every: int = 20,
    patience: int | None = None,
    deadline: Deadline | None = None,
    progress: bool | None = None,
) -> Trained[State]:
    """Take steps until they are used up, the score no longer falls, or time is out.

    Parameters
    ----------
    caller : str
        The model, for messages and the progress bar.
    step : callable
        ``step(i)`` takes optimiser step i and returns the loss before it; one that is not finite ends the
        training.
    score : callable
        Error on held-out data, lower is better.
    snapshot : callable
        A copy of what is trained.
    steps, every : int
        Most steps, and steps between scores.
    patience : int, optional
        Steps without a lower score after which to stop.
    deadline : Deadline, optional
        When to stop at the latest, up to one step and one score.
    progress : bool, optional
        Whether a bar is shown; default on a terminal.

    Returns
    -------
    Trained

    Raises
    ------
    FitError
        Where no score was finite.
    """
    best, best_score, best_step, ended, taken = None, math.inf, 0, "all steps", 0
    with progress_bar(progress, steps, caller, "steps") as bar:
        for i in range(steps):
            if not math.isfinite(step(i)):
                ended = "diverged"
                break
            taken = i + 1
            bar.update()
            late = deadline is not None and deadline.passed()
            if taken % every and taken < steps and not (late and best is None):
                if late:
                    ended = "out of time"
                    break
                continue
            value = score()
            if value < best_score:
                best, best_score, best_step = snapshot(), value, taken
            if late:
                ended = "out of time"
                break
            if patience is not None and taken - best_step >= patience:
                ended = "no improvement"
                break
    if best is None:
        raise FitError(
            f"{caller}: expected a fit with a finite error on held-out data, got none in {taken} steps "
            f"({ended}); allow more time (max_seconds), give more samples, or choose another model."
        )
    return Trained(best, best_score, best_step, taken, ended)


def generator(seed: int) -> torch.Generator:
    """A source of random numbers of its own; the global one stays as it is."""
    return torch.Generator().manual_seed(seed)


@contextlib.contextmanager
def private_rng(seed: int) -> Iterator[None]:
    """torch's global source seeded inside and put back after, for libraries that draw from it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
