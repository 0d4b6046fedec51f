"""Public names with their types; written by `python -m tests.stubs`."""

from fim_dynsys.plot.canvas import Drawing as Drawing
from fim_dynsys.plot.diagrams import bifurcation_diagram as bifurcation_diagram
from fim_dynsys.plot.diagrams import two_parameter as two_parameter
from fim_dynsys.plot.errors import comparison as comparison
from fim_dynsys.plot.estimation import profiles as profiles
from fim_dynsys.plot.estimation import waterfall as waterfall
from fim_dynsys.plot.forecasts import forecast as forecast
from fim_dynsys.plot.front import front as front
from fim_dynsys.plot.maps import compare_fields as compare_fields
from fim_dynsys.plot.maps import support_map as support_map
from fim_dynsys.plot.maps import uncertainty_map as uncertainty_map
from fim_dynsys.plot.portraits import phase_portrait as phase_portrait
from fim_dynsys.plot.portraits import portrait_3d as portrait_3d
from fim_dynsys.plot.results import draw as draw
from fim_dynsys.plot.series import time_series as time_series
from fim_dynsys.plot.spectra import lyapunov_convergence as lyapunov_convergence
from fim_dynsys.plot.spectra import return_map as return_map
from fim_dynsys.plot.spectra import spectrum as spectrum

__all__ = [
    "Drawing",
    "bifurcation_diagram",
    "compare_fields",
    "comparison",
    "draw",
    "forecast",
    "front",
    "lyapunov_convergence",
    "phase_portrait",
    "portrait_3d",
    "profiles",
    "return_map",
    "spectrum",
    "support_map",
    "time_series",
    "two_parameter",
    "uncertainty_map",
    "waterfall",
]
