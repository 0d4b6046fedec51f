"""What knows the truth: the true field, and the row that fits its constants to the context."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from benchmarks.harness.rows import View
from benchmarks.harness.trials import Problem, Trial, clean_context
from benchmarks.odebench.equations import TrueSystem, true_system
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.trajectories.container import Trajectories


def field_of(system: TrueSystem, parameters: np.ndarray, dim: int) -> VectorField:
    """Return the true field with the given constants."""
    return CallableField(lambda x: system.rhs(x, parameters), dim, jac=lambda x: system.jac_x(x, parameters))


def true_field(problem: Problem) -> VectorField:
    """Return the true field of one of ODEBench's problems."""
    system = true_system(problem.system)
    return field_of(system, system.constants, problem.dim)


@dataclass(frozen=True)
class TruthFitRow:
    """The true equations with constants and start fitted to the context: what the data hold.

    Levenberg-Marquardt from the true values, weighted by the setting's true noise law (standard deviation
    sigma |x| of the clean state), over 5 segments with free starts and then over 1, within 2 CPU-seconds. A
    reference, not a bound: the fit may end in another minimum, and a prior over structures may do better.
    """

    name: str = "truth-fit"
    version: str = "1"
    seconds: float = 2.0
    sees_truth: ClassVar[bool] = True

    def infer(self, view: View) -> VectorField:
        """Return the fitted field; the fitted start serves the fit alone."""
        from fim_dynsys.regression.refinement import fit_trajectory

        context, problem, sigma = view.context, view.problem, view.trial.sigma
        system = true_system(problem.system)
        if len(system.constants) == 0:
            return field_of(system, system.constants, problem.dim)
        clean = clean_states(context, problem, view.trial)
        fitted = fit_trajectory(
            system.rhs,
            system.jac_x,
            system.jac_p,
            system.constants,
            clean[:1],
            context,
            weights=[noise_weights(clean, sigma)],
            segments=(5, 1),
            time_limit=self.seconds,
        )
        return field_of(system, fitted.parameters, problem.dim)


def clean_states(context: Trajectories, problem: Problem, trial: Trial) -> np.ndarray:
    """Return the true states ``(n, d)`` at the times of the context."""
    clean = clean_context(problem, trial)
    return clean.x[0][np.searchsorted(clean.t[0], context.t[0])]


def noise_weights(clean: np.ndarray, sigma: float) -> np.ndarray:
    """Return one over the true variance at each clean state ``(n, d)``, up to a factor.

    The noise is sigma |x|; a floor of 1e-3 of each coordinate's root mean square keeps observations at a zero
    crossing, whose noise vanishes, from outweighing all others. Without noise, coordinates are weighted by
    their mean square alone.
    """
    mean_square = np.mean(clean**2, axis=0) + 1e-30
    if sigma == 0:
        return np.broadcast_to(1 / mean_square, clean.shape).copy()
    return 1 / np.maximum(clean**2, 1e-6 * mean_square)
