"""Which quantiles of its members' paths a model's forecast bands are taken at."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fim_dynsys.fields.inference import Judge

WIDEST = 0.99
"""Share of the paths of the widest band that they make themselves."""


@dataclass(frozen=True)
class Levels:
    """Which share of the paths a band must hold so that it holds a given share of what happens.

    Attributes
    ----------
    nominal : tuple of float (P,)
        Shares of what happens, increasing between 0 and 1.
    paths : tuple of tuples of float (D, P)
        Shares of the paths round their median, in 1, 2, ... D states; those of D states hold for more. Beyond
        `WIDEST`, its band is stretched about the median in proportion.

    References
    ----------
    V. Kuleshov, N. Fenner, S. Ermon, Accurate uncertainties for deep learning using calibrated regression
    (ICML 2018), section 3. Y. Romano, E. Patterson, E. Candes, Conformalized quantile regression (NeurIPS
    2019), for bands that are stretched.
    """

    nominal: tuple[float, ...]
    paths: tuple[tuple[float, ...], ...]

    def of_paths(self, shares: np.ndarray, dim: int) -> np.ndarray:
        """Shares of the paths for nominal `shares`, in ``dim`` states; that of the last for larger ones."""
        known = self.paths[min(dim, len(self.paths)) - 1]
        return np.interp(shares, [0.0, *self.nominal], [0.0, *known])


NOMINAL = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Shares of what happens for which levels are learned."""


def _learned(*paths: tuple[float, ...]) -> Levels:
    return Levels(NOMINAL, paths)


FORECAST_LEVELS: Mapping[str, Mapping[Judge, Levels]] = {
    "fim-ode": {
        Judge.EXACT: _learned(
            (0.06, 0.09, 0.16, 0.3, 0.42, 0.61, 0.84, 0.98, 4.716, 25.729, 398.11),
            (0.05, 0.11, 0.21, 0.34, 0.53, 0.71, 0.9, 1.013, 2.339, 9.541, 35.826),
            (0.07, 0.23, 0.42, 0.59, 0.8, 0.9, 1.002, 1.859, 5.129, 10.172, 186.375),
        ),
        Judge.EXTENDED_BIC: _learned(  # of fields that a selector chose, until version 14
            (0.06, 0.13, 0.23, 0.3, 0.4, 0.53, 0.67, 0.8, 0.9, 1.156, 1.741),
            (0.05, 0.11, 0.17, 0.23, 0.3, 0.38, 0.5, 0.62, 0.83, 0.95, 2.081),
            (0.07, 0.13, 0.2, 0.29, 0.36, 0.46, 0.59, 0.73, 0.9, 0.99, 1.763),
        ),
    },
    "auto": {
        Judge.EXACT: _learned(
            (0.06, 0.09, 0.22, 0.4, 0.58, 0.75, 0.93, 2.119, 7.506, 53.427, 737.897),
            (0.04, 0.11, 0.19, 0.35, 0.54, 0.77, 0.9, 1.368, 5.545, 13.085, 47.33),
            (0.08, 0.21, 0.4, 0.64, 0.87, 0.91, 1.075, 1.807, 3.858, 10.582, 152.855),
        ),
        Judge.BIC: _learned(  # of fields that a selector chose, until version 20
            (0.1, 0.21, 0.31, 0.41, 0.54, 0.63, 0.75, 0.81, 0.9, 0.98, 1.958),
            (0.11, 0.22, 0.34, 0.47, 0.56, 0.67, 0.78, 0.87, 0.98, 1.275, 2.858),
            (0.1, 0.21, 0.33, 0.46, 0.58, 0.7, 0.8, 0.9, 1.035, 1.368, 3.918),
        ),
    },
}
"""By model and by what chose the field (python -m training.calibration.forecasts)."""
