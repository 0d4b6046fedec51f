"""What is compared: rows, each a model or a reference, and what they may see of a trial."""

import ast
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self

import numpy as np

import fim_dynsys
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.models.base import TrajectoryModel, VectorFieldModel
from fim_dynsys.trajectories.container import Trajectories

Inferred = VectorField | TrajectoryModel
"""What a row infers: a field, which is integrated, or a fitted model, which forecasts."""


class Row(Protocol):
    """A line of a benchmark's tables.

    `name` and `version` say whose outcomes the cache holds; a row may have ``params`` for it too.
    """

    @property
    def name(self) -> str:
        """Unique in a run."""

    @property
    def version(self) -> str:
        """Changes whenever the outcomes do."""

    @property
    def sees_truth(self) -> bool:
        """Whether the row is a reference that may read the problem and the trial."""

    def infer(self, view: "View") -> Inferred:
        """Return the field, or the fitted model, for one trial."""


@dataclass(frozen=True)
class View:
    """What a row sees of one trial: the corrupted context, and the truth only if it declares that it does."""

    context: Trajectories
    _truth: tuple[Any, Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, row: Row, context: Trajectories, problem: Any, trial: Any) -> Self:
        """Return the view of `row`; what it may not see is not in it."""
        return cls(context, (problem, trial) if row.sees_truth else None)

    @property
    def problem(self) -> Any:
        """The benchmark's problem, references included."""
        return self._seen()[0]

    @property
    def trial(self) -> Any:
        """Which context this is, and how it was corrupted."""
        return self._seen()[1]

    def _seen(self) -> tuple[Any, Any]:
        if self._truth is None:
            raise PermissionError(
                "View: expected a row that declares sees_truth = True to ask for the truth, got another; "
                "infer from view.context."
            )
        return self._truth


@functools.lru_cache(maxsize=8)
def _load(name: str, params: tuple[tuple[str, Any], ...]) -> Any:
    return fim_dynsys.load(name, **dict(params))


@dataclass(frozen=True)
class ModelRow:
    """A registered model. It is given the corrupted context and nothing else."""

    name: str
    model: str
    version: str
    params: tuple[tuple[str, Any], ...] = ()
    sees_truth: ClassVar[bool] = False

    @classmethod
    def resolve(cls, spec: str, **params: Any) -> "ModelRow":
        """Load the model once, so that a missing one stops the run and its version is known.

        Parameters
        ----------
        spec : str
            A registry name, or ``NAME:key=value,key=value`` with Python literals as values.
        **params
            Further parameters, not shown in the row's name.
        """
        model, _, options = spec.partition(":")
        given = dict(_option(item) for item in options.split(",") if item)
        items = tuple(sorted({**given, **params}.items()))
        return cls(name=spec, model=model, version=str(_load(model, items).version), params=items)

    @property
    def together(self) -> int:
        """Trials to integrate side by side: a decoder's weights are read once for all that is asked."""
        decoded = sys.modules.get("fim_dynsys.models.fim_ode.decoded")  # not imported for others: torch
        model = _load(self.model, self.params)
        return 16 if decoded is not None and isinstance(model, decoded.DecodedFIMODE) else 1

    def infer(self, view: View) -> Inferred:
        """Return the model's field for the context; a model without fields is fitted to it instead."""
        model = _load(self.model, self.params)
        return model.infer(view.context) if isinstance(model, VectorFieldModel) else model.fit(view.context)

    def fit(self, *observed: Any, **options: Any) -> Any:
        """Return the model itself, fitted to one context or to what else its ``fit`` takes."""
        return _load(self.model, self.params).fit(*observed, **options)

    def candidates(self, context: Trajectories) -> list[VectorField]:
        """Return the fields that the model chooses among, its own choice first."""
        return _load(self.model, self.params).candidates(context)


@dataclass(frozen=True)
class FineTunedRow(ModelRow):
    """A registered model that is fine-tuned to each context, as long as it takes, before it predicts."""

    suffix: ClassVar[str] = "+finetune"
    together = 1

    @classmethod
    def resolve(cls, spec: str, **params: Any) -> "FineTunedRow":
        """Load the model once; see `ModelRow.resolve`.

        Parameters
        ----------
        spec : str
            ``NAME+finetune``, or ``NAME+finetune:key=value,...`` with arguments of `finetune`.
        **params
            Parameters of the model.
        """
        model, _, options = spec.partition(":")
        own = ModelRow.resolve(model.removesuffix(cls.suffix), **params)
        given = tuple(sorted(_option(item) for item in options.split(",") if item))
        return cls(spec, own.model, own.version, (*own.params, ("finetune", given)))

    def infer(self, view: View) -> Inferred:
        """Return the field after fine-tuning."""
        return self.fit(view.context).field_

    def fit(self, context: Trajectories) -> Any:
        """Return the model fine-tuned to one context."""
        params = dict(self.params)
        options = dict(params.pop("finetune"))
        model = _load(self.model, tuple(params.items()))
        return model.finetune(context, **{"max_seconds": None, "progress": False, **options})


@dataclass(frozen=True)
class ConstantRow:
    """The zero field: the prediction is the start."""

    name: str = "constant"
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def infer(self, view: View) -> VectorField:
        """Return f = 0."""
        return CallableField(np.zeros_like, view.context.dim)


@dataclass(frozen=True)
class TruthRow:
    """The true field: what the integrator and the stored references allow.

    Attributes
    ----------
    truth : callable
        Returns the true field of a problem; importable by workers.
    """

    truth: Callable[[Any], VectorField]
    name: str = "truth"
    version: str = "1"
    sees_truth: ClassVar[bool] = True

    def infer(self, view: View) -> VectorField:
        """Return the true field of the trial's problem."""
        return self.truth(view.problem)


def _option(item: str) -> tuple[str, Any]:
    key, separator, value = item.partition("=")
    if not separator:
        raise ValueError(f"Model options: expected key=value, got {item!r}; write NAME:key=value,key=value.")
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value
