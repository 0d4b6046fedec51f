"""Public names with their types; written by `python -m tests.stubs`."""

from fim_dynsys import analyze as analyze
from fim_dynsys import comparison as comparison
from fim_dynsys import corruption as corruption
from fim_dynsys import distillation as distillation
from fim_dynsys import errors as errors
from fim_dynsys import estimation as estimation
from fim_dynsys import explorer as explorer
from fim_dynsys import fields as fields
from fim_dynsys import many as many
from fim_dynsys import metrics as metrics
from fim_dynsys import models as models
from fim_dynsys import plot as plot
from fim_dynsys import reduction as reduction
from fim_dynsys import regions as regions
from fim_dynsys import registry as registry
from fim_dynsys import regression as regression
from fim_dynsys import report as report
from fim_dynsys import search as search
from fim_dynsys import simulation as simulation
from fim_dynsys import systems as systems
from fim_dynsys import testing as testing
from fim_dynsys import trajectories as trajectories
from fim_dynsys.comparison.models import evidence as evidence
from fim_dynsys.corruption import add_noise as add_noise
from fim_dynsys.corruption import add_outliers as add_outliers
from fim_dynsys.corruption import drop as drop
from fim_dynsys.corruption import truncate as truncate
from fim_dynsys.distillation import Distillation as Distillation
from fim_dynsys.distillation import distill as distill
from fim_dynsys.estimation.petab import equations_from_petab as equations_from_petab
from fim_dynsys.estimation.sbml import from_sbml as from_sbml
from fim_dynsys.estimation.sbml_writing import to_sbml as to_sbml
from fim_dynsys.fields.affine import AffineField as AffineField
from fim_dynsys.fields.base import VectorField as VectorField
from fim_dynsys.fields.callable import CallableField as CallableField
from fim_dynsys.fields.ensemble import EnsembleField as EnsembleField
from fim_dynsys.fields.exports import to_c as to_c
from fim_dynsys.fields.exports import to_julia as to_julia
from fim_dynsys.fields.family import FieldFamily as FieldFamily
from fim_dynsys.fields.plane import FieldPlane as FieldPlane
from fim_dynsys.fields.symbolic import SymbolicField as SymbolicField
from fim_dynsys.many import fit_many as fit_many
from fim_dynsys.models.base import TrajectoryModel as TrajectoryModel
from fim_dynsys.models.base import VectorFieldModel as VectorFieldModel
from fim_dynsys.models.held_out import compare as compare
from fim_dynsys.reduction import PCAReduction as PCAReduction
from fim_dynsys.regions import Region as Region
from fim_dynsys.registry import ModelSpec as ModelSpec
from fim_dynsys.registry import available as available
from fim_dynsys.registry import load as load
from fim_dynsys.registry import load_fitted as load_fitted
from fim_dynsys.registry import register as register
from fim_dynsys.regression.outliers import without_outliers as without_outliers
from fim_dynsys.search.knowledge import Knowledge as Knowledge
from fim_dynsys.simulation.problem import Status as Status
from fim_dynsys.simulation.solution import simulate as simulate
from fim_dynsys.trajectories.container import Trajectories as Trajectories
from fim_dynsys.trajectories.container import concatenate as concatenate

__version__: str
__all__ = [
    "AffineField",
    "CallableField",
    "Distillation",
    "EnsembleField",
    "FieldFamily",
    "FieldPlane",
    "Knowledge",
    "ModelSpec",
    "PCAReduction",
    "Region",
    "Status",
    "SymbolicField",
    "Trajectories",
    "TrajectoryModel",
    "VectorField",
    "VectorFieldModel",
    "__version__",
    "add_noise",
    "add_outliers",
    "available",
    "compare",
    "concatenate",
    "distill",
    "drop",
    "equations_from_petab",
    "evidence",
    "fit_many",
    "from_sbml",
    "load",
    "load_fitted",
    "register",
    "simulate",
    "to_c",
    "to_julia",
    "to_sbml",
    "truncate",
    "without_outliers",
]
