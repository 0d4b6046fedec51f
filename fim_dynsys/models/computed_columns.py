"""Columns that were computed from others: they share their noise, and equations with them are not unique."""

import numpy as np

from fim_dynsys.fields.notation import plain_sum
from fim_dynsys.trajectories.container import Trajectories

_OF_NOISE = 0.2  # share of a state's noise that a sum leaves; where it has noise of its own, all is left
_OF_SPREAD = 1e-3  # the same of its standard deviation, as in columns that are rounded to three digits
_SHOWN = 1e-3  # share of the standard deviation below which an addend is left out
_DIGITS = 4  # of the numbers of a sum
_SPARE = 10  # samples beyond the numbers of a sum, so that it cannot follow noise


def computed_columns(trajectories: Trajectories, noise: np.ndarray) -> dict[str, str]:
    """Columns that are sums of earlier ones, such as x2 of ``1.8 x0 + 32``, more exactly than noise allows.

    Parameters
    ----------
    trajectories : Trajectories
        Of states.
    noise : array (d,)
        Standard deviations of their errors.
    """
    x = np.concatenate([x for _, x in trajectories.arrays()])
    x = x[np.isfinite(x).all(axis=1)]
    if len(x) < trajectories.dim + _SPARE:
        return {}
    names, centre, spread = trajectories.state_names, x.mean(axis=0), x.std(axis=0)
    changing = np.flatnonzero(spread > 0.0)
    found, measured = {}, list(changing[:1])
    for k in changing[1:]:
        unit = (x - centre)[:, measured] / spread[measured]
        shares = np.linalg.lstsq(unit, x[:, k] - centre[k], rcond=None)[0] / spread[k]
        shares[np.abs(shares) < _SHOWN] = 0.0
        left = float(np.std((x[:, k] - centre[k]) / spread[k] - unit @ shares))
        if left < min(_OF_NOISE * noise[k] / spread[k], _OF_SPREAD):
            factors = shares * spread[k] / spread[measured]
            constant = centre[k] - factors @ centre[measured]
            constant = constant if abs(constant) > _SHOWN * spread[k] else 0.0
            terms = [*(names[j] for j in measured), "1"]
            found[names[k]] = plain_sum(np.append(factors, constant), terms, _DIGITS)
        else:
            measured.append(k)
    return found
