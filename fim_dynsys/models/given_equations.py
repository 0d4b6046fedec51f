"""Given equations with inputs, with states that were not observed, or of counts."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference
from fim_dynsys.fields.symbolic import DrivenExpressions, SymbolicField, parameter_names
from fim_dynsys.regression.criteria import Noise
from fim_dynsys.regression.given import Given
from fim_dynsys.regression.observed import Observations
from fim_dynsys.trajectories.container import Trajectories


class Observed(NamedTuple):
    """What the columns of the data are, and the names of the states of the equations."""

    columns: tuple[str, ...]
    states: tuple[str, ...]


def fitted_in_part(
    given: Given,
    trajectories: Trajectories,
    observations: Observations,
    noise: Noise,
    start: Mapping[str, float] | None,
) -> SymbolicField | DrivenExpressions:
    """Parameters and states by all trajectories together.

    Parameters
    ----------
    given : Given
        Right-hand sides.
    trajectories : Trajectories
        What was observed: the complete samples of trajectories of two or more.
    observations : Observations
        The same, scaled.
    noise : Noise
        What is assumed of their errors.
    start : mapping of str to float, optional
        Where parameters, and states that were not observed, start.

    Returns
    -------
    SymbolicField or DrivenExpressions
        Its context has the observed states, and the fitted ones where none were.
    """
    fit = given.fit("SymbolicModel.fit", trajectories, observations, noise, start)
    states = given.states_of(fit.paths, trajectories, observations)
    own_names = parameter_names(given.expressions, [*given.state_symbols, *given.input_symbols])
    rows = [given.names.index(name) for name in own_names]
    parameters = {name: fit.parameters[name] for name in own_names}
    report = {
        "chosen": "given expressions",
        "score": fit.score,
        "status": fit.status.value,
        "covariance": fit.covariance[np.ix_(rows, rows)].tolist(),
        "observed": list(given.observed),
        "observation_parameters": {n: v for n, v in fit.parameters.items() if n not in own_names},
        "observation_noise": observations.noise_level.tolist(),
        "start_errors": fit.start_errors.tolist(),
    }
    facts = Inference(noise=noise, undetermined=fit.undetermined)
    if fit.undetermined:
        facts = facts.noting(f"the data do not determine {', '.join(fit.undetermined)}")
    starts = np.stack([x[0] for _, x in states.arrays()])
    info = FitInfo(
        initial_states=starts if np.isfinite(starts).all() else None,
        noise_level=observations.noise_level if given.full else None,
        report=report,
        inference=facts,
    )
    covariance = fit.covariance[np.ix_(rows, rows)]
    context = trajectories if given.full else states
    if given.inputs:
        return DrivenExpressions(
            given.expressions,
            parameters,
            covariance,
            input_names=given.inputs,
            context=context,
            fit_info=info,
        )
    return SymbolicField(given.expressions, parameters, covariance, context=context, fit_info=info)
