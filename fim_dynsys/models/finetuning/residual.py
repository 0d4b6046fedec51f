"""Fine-tuning of any field: what its terms cannot express is learnt beside it, and kept where it predicts."""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from fim_dynsys.analyze.results import progress_bar
from fim_dynsys.deadline import Deadline
from fim_dynsys.errors import TuningWarning, warn
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.residual import RadialBasis, ResidualField
from fim_dynsys.models.finetuning.blocks import FOLDS, held_out_blocks, of_blocks
from fim_dynsys.models.finetuning.record import Record, digest_of
from fim_dynsys.models.finetuning.shooting import Prior, Windows, fit_residual
from fim_dynsys.regression.observed import complete_samples
from fim_dynsys.trajectories.container import Trajectories

METHODS = ("multiple-shooting", "single-shooting")
_WIDTHS = (0.5, 0.35, 0.25, 0.7)  # standard deviations; the likeliest first, should the time be short
_BLOCK = 0.7  # units of time: the state moves on by less than one standard deviation
_CLEAR = 2.0  # standard errors by which a residual must predict better than none
_LOST = 1e6  # variances of the noise: a path that is not finite is this far off
_VERSION = 1  # raised when results change: a checkpoint of an earlier way is then refused
HISTORY = ("step", "loss", "held_out", "seconds", "best")
"""Columns of every model's ``history_``; a residual adds its width."""

InferMany = Callable[[Sequence[Trajectories]], Sequence[VectorField]]


@dataclass(frozen=True, eq=False)
class Tuned:
    """What fine-tuning found.

    Attributes
    ----------
    field : VectorField
        With what was learnt; the untuned one where nothing predicted better.
    history : DataFrame
        A row for each state that was scored: ``step`` (iterations so far), ``loss`` of the fit and
        ``held_out`` of the blocks kept from it, ``seconds`` of CPU so far, and whether it is the ``best``,
        the one returned. Row 0 is the untuned field.
    """

    field: VectorField
    history: pd.DataFrame


def check_method(method: str) -> None:
    """ValueError unless it is one of `METHODS`."""
    if method not in METHODS:
        raise ValueError(f"finetune: expected method {' or '.join(map(repr, METHODS))}, got {method!r}.")


def tune_residual(
    name: str,
    infer_many: InferMany,
    base: VectorField,
    trajectories: Trajectories,
    *,
    method: str,
    deadline: Deadline,
    progress: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
) -> Tuned:
    """Learn what a field misses of the data as a sum of Gaussians, and keep it where it predicts.

    The field stays the mean of a Gaussian process whose amplitudes follow from the data. Whether it is kept,
    and its width, is decided by blocks of samples that neither the residual nor the field beside it has seen:
    a residual must predict these better than the field alone by two standard errors.

    Parameters
    ----------
    name : str
        Of the model and its version.
    infer_many : callable
        The model's, for fields without the held-out samples.
    base : VectorField
        Inferred from all of the data.
    trajectories : Trajectories
        The data.
    method : {"multiple-shooting", "single-shooting"}
        Starts in windows of about twelve times the time in which the state travels one standard deviation, or
        at the first samples alone.
    deadline : Deadline
        When to stop, up to one fit.
    progress : bool, optional
        Whether a bar is shown; default on a terminal.
    checkpoint : path-like, optional
        File that a killed run goes on from.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError
        If the samples are too few to hold any out, or the checkpoint belongs to another run.

    Warns
    -----
    TuningWarning
        Where nothing predicts better than the field as it is, which is returned.
    """
    check_method(method)
    samples = complete_samples(trajectories, "finetune", 4)
    windows = Windows.of(samples, whole=method == METHODS[1])
    gap = float(np.median(np.concatenate([np.diff(t) for t, _ in windows.samples])))
    masks = held_out_blocks(windows.lengths, max(1, round(_BLOCK / gap)))
    record = Record(checkpoint, digest_of(trajectories, name, method, _VERSION, _WIDTHS))
    search = _Search(windows, masks, base, infer_many, record, deadline)
    with progress_bar(progress, (1 + FOLDS) * (1 + len(_WIDTHS)), "finetune", "fits") as bar:
        for score in search.scores():
            bar.set_postfix(held_out=score)
            bar.update()
    return search.tuned()


def refitted(field: ResidualField, base: VectorField, context: Trajectories) -> ResidualField:
    """The residual of a field, its Gaussians kept, fitted to other data beside another base."""
    windows = Windows.of(complete_samples(context, "ensemble", 4), whole=False)
    basis = RadialBasis(field.basis.centres / windows.unit, field.basis.widths / windows.unit)
    fit, _, _ = fit_residual(windows, base, basis)
    return windows.residual_field(base, basis, fit.parameters)


@dataclass(frozen=True)
class _Scored:
    """A residual width (None: no residual), scored."""

    width: float | None
    iterations: int
    loss: float
    held_out: np.ndarray  # (blocks,)
    seconds: float

    @property
    def mean(self) -> float:
        """Held-out loss, the mean as of its logarithms: few bad blocks do not decide."""
        return float(np.expm1(np.mean(np.log1p(self.held_out))))

    def gain_over(self, other: "_Scored") -> float:
        """Standard errors by which blocks are predicted better."""
        gains = np.log1p(other.held_out) - np.log1p(self.held_out)
        error = float(np.std(gains, ddof=1)) / math.sqrt(len(gains))
        return float(np.mean(gains)) / error if error > 0 else 0.0


def _chosen(none: _Scored, others: Sequence[_Scored]) -> _Scored:
    """The widest residual that is clearly better than none, and not worse than the best by a standard error.

    L. Breiman et al., Classification and Regression Trees (1984), section 3.4.3 (one-standard-error rule).
    """
    clear = [scored for scored in others if scored.gain_over(none) >= _CLEAR]
    if not clear:
        return none
    best = min(clear, key=lambda scored: scored.mean)
    as_good = [scored for scored in clear if best.gain_over(scored) < 1.0]
    return max(as_good, key=lambda scored: scored.width or 0.0)


class _Search:
    """Residuals of all widths, fitted and scored one after the other."""

    def __init__(
        self,
        windows: Windows,
        masks: Sequence[list[np.ndarray]],
        base: VectorField,
        infer_many: InferMany,
        record: Record,
        deadline: Deadline,
    ) -> None:
        self._windows, self._masks, self._base = windows, masks, base
        self._infer_many, self._record, self._deadline = infer_many, record, deadline
        self._scored: list[_Scored] = []
        self._fold_fields: list[VectorField] = []

    def scores(self) -> Iterator[float]:
        """Fit and score, giving the held-out loss after each fit; ends early where time is out."""
        for width in (None, *_WIDTHS):
            found = self._record.remembered(f"fit {width}", partial(self._fit, width))
            yield float(np.mean(found["loss"]))
            blocks: list[float] = []
            seconds = found["seconds"]
            for fold in range(FOLDS):
                key = f"fold {width} {fold}"
                if key not in self._record and self._deadline.passed():
                    return
                outcome = self._record.remembered(key, partial(self._hold_out, width, fold, found))
                blocks += outcome["held_out"]
                seconds += outcome["seconds"]
                yield float(np.mean(outcome["held_out"]))
            held_out = np.minimum(np.nan_to_num(blocks, nan=_LOST, posinf=_LOST), _LOST)
            self._scored.append(_Scored(width, found["iterations"], found["loss"], held_out, seconds))

    def _fit(self, width: float | None) -> dict[str, Any]:
        """The residual of one width on all samples."""
        start = time.process_time()
        if width is None:
            fit, amplitudes, iterations = self._windows.shoot(self._base), np.zeros(0), 0
        else:
            fit, prior, iterations = fit_residual(self._windows, self._base, self._windows.basis(width))
            amplitudes = prior.amplitudes
        loss = float(np.mean(np.concatenate(self._windows.squares(fit))))
        return {
            "coefficients": fit.parameters.tolist(),
            "amplitudes": amplitudes.tolist(),
            "iterations": iterations,
            "loss": loss if math.isfinite(loss) else _LOST,
            "seconds": time.process_time() - start,
        }

    def _hold_out(self, width: float | None, fold: int, found: dict[str, Any]) -> dict[str, Any]:
        """Losses of the blocks that one fold holds out, of the field and residual without them."""
        start = time.process_time()
        masks, windows = self._masks[fold], self._windows
        base = self._fold_field(fold)
        if width is None:
            fit = windows.shoot(base, held_out=masks)
        else:
            basis = windows.basis(width)
            prior = Prior.of(basis)._replace(amplitudes=np.array(found["amplitudes"]))
            fit = windows.shoot(base, basis, prior.precision, masks)
        squares = windows.squares(fit)
        losses = [loss for s, mask in zip(squares, masks, strict=True) for loss in of_blocks(s, mask)]
        return {
            "held_out": np.minimum(np.nan_to_num(losses, nan=_LOST, posinf=_LOST), _LOST).tolist(),
            "seconds": time.process_time() - start,
        }

    def _fold_field(self, fold: int) -> VectorField:
        if not self._fold_fields:
            contexts = []
            for masks in self._masks:
                times, states = zip(*self._windows.without(masks), strict=True)
                contexts.append(Trajectories.from_arrays(list(states), list(times)))
            self._fold_fields = list(self._infer_many(contexts))
        return self._fold_fields[fold]

    def tuned(self) -> Tuned:
        """The field of the best score, if it is clearly better than the untuned one."""
        if not self._scored:
            warn(
                "finetune: no residual was scored in max_seconds; the untuned field is returned. Allow more.",
                TuningWarning,
            )
            return Tuned(self._base, pd.DataFrame(columns=[*HISTORY, "width"]))
        none, *others = self._scored
        best = _chosen(none, others)
        ended = "all widths tried" if len(others) == len(_WIDTHS) else "out of time"
        if best is none:
            late = "" if len(others) == len(_WIDTHS) else ", of those that max_seconds allowed"
            warn(
                "finetune: no residual predicts the held-out blocks better than the untuned field"
                f"{late}; the untuned field is returned.",
                TuningWarning,
            )
        field = self._base
        if best.width is not None:
            basis = self._windows.basis(best.width)
            coefficients = np.array(self._record.remembered(f"fit {best.width}", dict)["coefficients"])
            field = self._windows.residual_field(self._base, basis, coefficients)
        about = {
            "moves": "residual",
            "width": best.width,
            "held_out": best.mean,
            "held_out_untuned": none.mean,
            "standard_errors": best.gain_over(none),
            "ended": ended,
        }
        report = {**field.fit_info.report, "fine-tuning": about}
        return Tuned(field.with_fit_info(report=report), self._history(best))

    def _history(self, best: _Scored) -> pd.DataFrame:
        rows: list[tuple] = []
        steps, seconds = 0, 0.0
        for scored in self._scored:
            steps, seconds = steps + scored.iterations, seconds + scored.seconds
            rows.append((steps, scored.loss, scored.mean, seconds, scored is best, scored.width or np.nan))
        return pd.DataFrame(rows, columns=[*HISTORY, "width"])
