"""Networks of the FIM-ODE paper's design as models: fields that are decoded point by point."""

from __future__ import annotations

import abc
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from sklearn.base import clone

from fim_dynsys.deadline import Deadline
from fim_dynsys.delta import Delta
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.models.fim_ode.batching import PretrainedModel, padded_batch, power_units, scaled_samples
from fim_dynsys.models.fim_ode.field import make_fields
from fim_dynsys.models.fim_ode.finetuning.delta import tuned_operator
from fim_dynsys.models.fim_ode.finetuning.training import NetworkTuning, tune_network
from fim_dynsys.models.fim_ode.published_operators import DecodedOperator, decoded_operator
from fim_dynsys.models.finetuning.residual import Tuned
from fim_dynsys.models.inputs import Observations, Times, as_trajectories
from fim_dynsys.saved import SavedModel
from fim_dynsys.trajectories.container import Trajectories


class DecodedFIMODE(PretrainedModel):
    """A network of the paper's design, of which `finetune` moves weights.

    A subclass has a parameter ``delta`` and says which network is read (`_untuned`).
    """

    def __init__(
        self,
        precision: str = "float32",
        device: str = "cpu",
        delta: str | os.PathLike | Delta | None = None,
    ) -> None:
        self.precision = precision
        self.device = device
        self.delta = delta

    @property
    def operator(self) -> DecodedOperator:
        """The network, read at first use."""
        untuned, delta = self._untuned, self._delta
        return untuned if delta is None else tuned_operator(untuned, delta)

    @property
    @abc.abstractmethod
    def _untuned(self) -> DecodedOperator:
        """The network without what `finetune` changed."""

    @property
    def _delta(self) -> Delta | None:
        return self.delta if self.delta is None or isinstance(self.delta, Delta) else Delta.read(self.delta)

    @property
    def version(self) -> str:
        """First 8 hexadecimal digits of the weights' sha256, and of the delta's where there is one."""
        return self.operator.version

    @property
    def max_dim(self) -> int:
        """Largest dimension of the states that the weights take."""
        return self.operator.max_dim

    def infer_batch(
        self, complete: Sequence[Trajectories], contexts: Sequence[Trajectories]
    ) -> Sequence[VectorField]:
        """Fields of contexts that are encoded together; states are scaled by powers of two on the way."""
        operator = self.operator
        units = [power_units(context) for context in complete]
        dim = max(context.dim for context in complete)
        device = next(operator.network.parameters()).device
        batch = padded_batch([scaled_samples(*pair) for pair in zip(complete, units, strict=True)], dim)
        t, x, mask = (torch.as_tensor(part, device=device) for part in batch)
        report = {
            "operator": self.name,
            "weights": operator.version,
            "attention": operator.network.config.attention,
        }
        options = [{"context": context, "fit_info": FitInfo(report=dict(report))} for context in contexts]
        dims = [context.dim for context in complete]
        with (
            torch.inference_mode(False),
            torch.no_grad(),
        ):  # an inference-mode tensor would refuse gradients later
            encoding = operator.network.encode(t, x, mask)
            return make_fields(operator.decoder, encoding, dims, units, options)

    def finetune(
        self,
        x: Observations,
        t: Times = None,
        *,
        method: str = "multiple-shooting",
        moves: str = "auto",
        max_seconds: float | None = 60.0,
        seed: int = 0,
        progress: bool | None = None,
        checkpoint: str | os.PathLike | None = None,
        **options: Any,
    ) -> Self:
        """A new fitted model whose network follows these observations better; this one stays as it is.

        Weights move by Adam so that paths of the inferred field, integrated from smoothed states, follow the
        samples after them: four at first, 25 in the end, for paths of a wrong field are lost on long ways.
        The context is encoded once, or once a step where the encoder moves. The state that predicts held-out
        blocks of the observations best is taken, on paths of 25 and of up to 100 samples. These blocks are
        kept from the loss; the network reads them as it reads the rest of the context.

        Parameters
        ----------
        x, t
            As for `fit`.
        method : {"multiple-shooting", "single-shooting"}
            Many starts, all in one batch, or the first samples alone, followed to the end.
        moves : {"auto", "decoder", "all", "low-rank", "last", "residual"}
            Which weights: those of the decoder (auto), the encoder's too, products of rank 4 added to the
            decoder's, the last layer's. ``"residual"`` moves none, but learns beside the field what it
            misses; see `VectorFieldModel.finetune`.
        max_seconds : float or None
            Wall-clock time after which the best so far is taken; None for no limit.
        seed : int
            Of the noise at the starts and of which blocks are held out.
        progress : bool, optional
            Whether a bar with the loss is shown; default on a terminal.
        checkpoint : path-like, optional
            File that a run which was killed goes on from, to the same bytes on the CPU.
        options
            ``steps``, ``learning_rate``, ``start_noise``, ``every``, ``patience``; see `NetworkTuning`.

        Returns
        -------
        DecodedFIMODE
            Fitted, of the same class, with what changed as its ``delta``, which `save` keeps.
            ``field_.fit_info.report["fine-tuning"]`` and ``history_`` as of `VectorFieldModel.finetune`.

        Raises
        ------
        ValueError
            Where the data are malformed or too few to hold any out, an argument is not one of those above,
            the checkpoint belongs to another run, or the model has a delta already.

        Warns
        -----
        TuningWarning
            No state predicts the held-out blocks better than the untuned one, which is returned.
        FitWarning
            As `fit`.

        References
        ----------
        M. Mauel et al., Foundation Inference Models for Ordinary Differential Equations, arXiv 2602.08733,
        appendix on fine-tuning.
        """
        if moves == "residual":
            return super().finetune(
                x,
                t,
                method=method,
                moves=moves,
                max_seconds=max_seconds,
                progress=progress,
                checkpoint=checkpoint,
                **options,
            )
        deadline = Deadline("finetune", max_seconds)
        how = NetworkTuning(
            method=method, moves="decoder" if moves == "auto" else moves, seed=seed, **options
        )
        if self.delta is not None:
            raise ValueError(
                f"{self._caller}.finetune: expected a model without a delta, got {self._delta}; fine-tune "
                "the model that it was made from, for more steps."
            )
        trajectories = as_trajectories(x, t, None)
        self.check_context(trajectories)
        (complete,) = self._complete([trajectories])
        found = tune_network(self._untuned, complete, how, deadline, progress, checkpoint)
        model = clone(self).set_params(delta=found.delta)
        field = model.infer(trajectories)
        field = field.with_fit_info(report={**field.fit_info.report, "fine-tuning": found.about})
        return model._tuned(Tuned(field, found.history), trajectories)

    def _to_save(self) -> SavedModel:
        saved, delta = super()._to_save(), self._delta
        if delta is None:
            return saved
        params = {key: value for key, value in saved.params.items() if key != "delta"}
        return replace(saved, version=self._untuned.version, params=params, delta=delta)

    def restore(self, saved: SavedModel) -> Self:
        """As `VectorFieldModel.restore`, with the delta that the folder holds."""
        if saved.delta is not None:
            self.delta = saved.delta
        return super().restore(saved)


class PublishedFIMODE(DecodedFIMODE):
    """The pretrained network of the FIM-ODE paper, with its authors' weights.

    What is inferred is a field that the network decodes point by point; its equations are a distillation.
    Contexts may hold any number of trajectories, ragged and irregularly sampled. Results do not depend on the
    order of trajectories, nor on units or the origin of time. Weights are read when first needed, and shared
    by the models of a process; a saved or pickled model holds the path only, a pickled field the numbers it
    needs.

    Parameters
    ----------
    weights : path-like
        A folder with ``config.json`` and ``model.safetensors`` as the authors publish it, their safetensors
        file alone (then give `attention`), or a file in our format. The package does not hold them.
    attention : {"softmax-gnot", "softmax"}, optional
        The attention map, overriding what the configuration says.
    precision : {"float32", "float64"}
        Type in which contexts are encoded. Fields are decoded in float64.
    device : str
        Where to compute, as torch names it.
    delta : path-like or Delta, optional
        What `finetune` changed of these weights.

    Examples
    --------
    >>> model = PublishedFIMODE(weights="path/to/published")  # doctest: +SKIP
    >>> model.fit(x, t).predict(x)  # doctest: +SKIP
    """

    name = "fim-ode-published"

    def __init__(
        self,
        weights: str | os.PathLike | None = None,
        attention: str | None = None,
        precision: str = "float32",
        device: str = "cpu",
        delta: str | os.PathLike | Delta | None = None,
    ) -> None:
        super().__init__(precision, device, delta)
        self.weights = weights
        self.attention = attention

    @property
    def _untuned(self) -> DecodedOperator:
        return decoded_operator(self.name, self.weights, self.attention, self.precision, str(self.device))


def fim_ode_published(
    weights: str | os.PathLike | None = None,
    attention: str | None = None,
    precision: str = "float32",
    device: str = "cpu",
    delta: str | os.PathLike | Delta | None = None,
) -> PublishedFIMODE:
    """The network of the FIM-ODE paper, with its authors' weights; see `PublishedFIMODE`.

    Returns
    -------
    PublishedFIMODE
        Not yet fitted; the weights have been read.

    Warns
    -----
    WeightsWarning
        Where the configuration says ``softmax`` and `attention` is not given.

    Raises
    ------
    FileNotFoundError
        Naming the files expected.
    ValueError
        If the weights are not those of the published network, or leave the attention map open.
    """
    model = PublishedFIMODE(weights, attention, precision, device, delta)
    _ = model.operator  # wrong weights are an error now, not at the first fit
    return model
