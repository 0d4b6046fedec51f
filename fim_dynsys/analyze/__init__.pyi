"""Public names with their types; written by `python -m tests.stubs`."""

from fim_dynsys.analyze.bands.basins import BasinProbabilities as BasinProbabilities
from fim_dynsys.analyze.bands.basins import basin_probabilities as basin_probabilities
from fim_dynsys.analyze.bands.branches import BranchBand as BranchBand
from fim_dynsys.analyze.bands.branches import BranchBands as BranchBands
from fim_dynsys.analyze.bands.branches import branch_bands as branch_bands
from fim_dynsys.analyze.bands.conditioned import conditioned_draws as conditioned_draws
from fim_dynsys.analyze.bands.cycles import CycleBands as CycleBands
from fim_dynsys.analyze.bands.cycles import cycle_bands as cycle_bands
from fim_dynsys.analyze.bands.experiments import NextMeasurement as NextMeasurement
from fim_dynsys.analyze.bands.experiments import next_measurement as next_measurement
from fim_dynsys.analyze.bands.manifolds import ManifoldBands as ManifoldBands
from fim_dynsys.analyze.bands.manifolds import manifold_bands as manifold_bands
from fim_dynsys.analyze.bands.phase_response import PhaseResponse as PhaseResponse
from fim_dynsys.analyze.bands.phase_response import phase_response as phase_response
from fim_dynsys.analyze.bands.plane import CurvesFromData as CurvesFromData
from fim_dynsys.analyze.bands.plane import curves_from_data as curves_from_data
from fim_dynsys.analyze.bands.resilience import Resilience as Resilience
from fim_dynsys.analyze.bands.resilience import resilience as resilience
from fim_dynsys.analyze.bands.tipping import Tipping as Tipping
from fim_dynsys.analyze.bands.tipping import tipping as tipping
from fim_dynsys.analyze.bifurcation.arclength import continuation as continuation
from fim_dynsys.analyze.bifurcation.curves import bifurcation_curves as bifurcation_curves
from fim_dynsys.analyze.bifurcation.measured import DataBifurcations as DataBifurcations
from fim_dynsys.analyze.bifurcation.measured import MeasuredBifurcation as MeasuredBifurcation
from fim_dynsys.analyze.bifurcation.measured import bifurcations_from_data as bifurcations_from_data
from fim_dynsys.analyze.bifurcation.tracks import Track as Track
from fim_dynsys.analyze.bifurcation.two_parameters import BifurcationCurve as BifurcationCurve
from fim_dynsys.analyze.bifurcation.two_parameters import BifurcationCurves as BifurcationCurves
from fim_dynsys.analyze.bifurcation.two_parameters import CodimensionTwo as CodimensionTwo
from fim_dynsys.analyze.cycles.isochrons import Isochrons as Isochrons
from fim_dynsys.analyze.cycles.isochrons import isochrons as isochrons
from fim_dynsys.analyze.cycles.periodic import CycleKind as CycleKind
from fim_dynsys.analyze.cycles.periodic import CycleStatus as CycleStatus
from fim_dynsys.analyze.cycles.periodic import LimitCycles as LimitCycles
from fim_dynsys.analyze.cycles.periodic import SeedEnd as SeedEnd
from fim_dynsys.analyze.cycles.periodic import limit_cycles as limit_cycles
from fim_dynsys.analyze.cycles.sections import PoincareSection as PoincareSection
from fim_dynsys.analyze.cycles.sections import poincare as poincare
from fim_dynsys.analyze.equilibria.balance import IndexCheck as IndexCheck
from fim_dynsys.analyze.equilibria.kinds import Kind as Kind
from fim_dynsys.analyze.equilibria.points import fixed_points as fixed_points
from fim_dynsys.analyze.equilibria.result import FixedPoints as FixedPoints
from fim_dynsys.analyze.equilibria.result import PointStatus as PointStatus
from fim_dynsys.analyze.exponents import LyapunovSpectrum as LyapunovSpectrum
from fim_dynsys.analyze.exponents import lyapunov as lyapunov
from fim_dynsys.analyze.members import Group as Group
from fim_dynsys.analyze.members import MemberResults as MemberResults
from fim_dynsys.analyze.members import ensemble as ensemble
from fim_dynsys.analyze.phase_space.basin import BasinLabel as BasinLabel
from fim_dynsys.analyze.phase_space.basin import Basins as Basins
from fim_dynsys.analyze.phase_space.basin import basins as basins
from fim_dynsys.analyze.phase_space.capture import Attractor as Attractor
from fim_dynsys.analyze.phase_space.capture import AttractorKind as AttractorKind
from fim_dynsys.analyze.phase_space.invariant import ManifoldBranch as ManifoldBranch
from fim_dynsys.analyze.phase_space.invariant import ManifoldEnd as ManifoldEnd
from fim_dynsys.analyze.phase_space.invariant import Manifolds as Manifolds
from fim_dynsys.analyze.phase_space.invariant import manifolds as manifolds
from fim_dynsys.analyze.phase_space.nullcline import Nullclines as Nullclines
from fim_dynsys.analyze.phase_space.nullcline import NullclineStatus as NullclineStatus
from fim_dynsys.analyze.phase_space.nullcline import nullclines as nullclines
from fim_dynsys.analyze.results import Effort as Effort
from fim_dynsys.analyze.results import Result as Result
from fim_dynsys.analyze.signals.chaos import permutation_entropy as permutation_entropy
from fim_dynsys.analyze.signals.chaos import zero_one_test as zero_one_test
from fim_dynsys.analyze.signals.compared import Measures as Measures
from fim_dynsys.analyze.signals.compared import measures as measures
from fim_dynsys.analyze.signals.dimension import CorrelationDimension as CorrelationDimension
from fim_dynsys.analyze.signals.dimension import correlation_dimension as correlation_dimension
from fim_dynsys.analyze.signals.embedding import Embedding as Embedding
from fim_dynsys.analyze.signals.embedding import delay_embedding as delay_embedding
from fim_dynsys.analyze.signals.recurrence import Recurrence as Recurrence
from fim_dynsys.analyze.signals.recurrence import recurrence as recurrence
from fim_dynsys.analyze.tracing.branches import Bifurcation as Bifurcation
from fim_dynsys.analyze.tracing.branches import BifurcationKind as BifurcationKind
from fim_dynsys.analyze.tracing.branches import Branch as Branch
from fim_dynsys.analyze.tracing.branches import BranchKind as BranchKind
from fim_dynsys.analyze.tracing.branches import Continuation as Continuation
from fim_dynsys.analyze.tracing.branches import LimitKind as LimitKind
from fim_dynsys.analyze.tracing.branches import LongPeriod as LongPeriod
from fim_dynsys.analyze.tracing.curve import BranchEnd as BranchEnd

__all__ = [
    "Attractor",
    "AttractorKind",
    "BasinLabel",
    "BasinProbabilities",
    "Basins",
    "Bifurcation",
    "BifurcationCurve",
    "BifurcationCurves",
    "BifurcationKind",
    "Branch",
    "BranchBand",
    "BranchBands",
    "BranchEnd",
    "BranchKind",
    "CodimensionTwo",
    "Continuation",
    "CorrelationDimension",
    "CurvesFromData",
    "CycleBands",
    "CycleKind",
    "CycleStatus",
    "DataBifurcations",
    "Effort",
    "Embedding",
    "FixedPoints",
    "Group",
    "IndexCheck",
    "Isochrons",
    "Kind",
    "LimitCycles",
    "LimitKind",
    "LongPeriod",
    "LyapunovSpectrum",
    "ManifoldBands",
    "ManifoldBranch",
    "ManifoldEnd",
    "Manifolds",
    "MeasuredBifurcation",
    "Measures",
    "MemberResults",
    "NextMeasurement",
    "NullclineStatus",
    "Nullclines",
    "PhaseResponse",
    "PoincareSection",
    "PointStatus",
    "Recurrence",
    "Resilience",
    "Result",
    "SeedEnd",
    "Tipping",
    "Track",
    "basin_probabilities",
    "basins",
    "bifurcation_curves",
    "bifurcations_from_data",
    "branch_bands",
    "conditioned_draws",
    "continuation",
    "correlation_dimension",
    "curves_from_data",
    "cycle_bands",
    "delay_embedding",
    "ensemble",
    "fixed_points",
    "isochrons",
    "limit_cycles",
    "lyapunov",
    "manifold_bands",
    "manifolds",
    "measures",
    "next_measurement",
    "nullclines",
    "permutation_entropy",
    "phase_response",
    "poincare",
    "recurrence",
    "resilience",
    "tipping",
    "zero_one_test",
]
