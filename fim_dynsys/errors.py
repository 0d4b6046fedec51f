"""Warnings and errors of fim-dynsys, so that users can filter or catch them by name."""

import os
import sys
import warnings

_PACKAGE = os.path.dirname(__file__) + os.sep


class FimDynsysWarning(UserWarning):
    """Base of every warning this package issues."""


class DataWarning(FimDynsysWarning):
    """Observations were dropped, or a property of the data limits what can be inferred."""


class FitWarning(FimDynsysWarning):
    """A fitted field does not describe the data it was fitted to."""


class TuningWarning(FimDynsysWarning):
    """Fine-tuning found nothing that predicts held-out data better; the untuned field is returned."""


class SimulationWarning(FimDynsysWarning):
    """At least one simulated trajectory stopped before its last requested time."""


class DistillationWarning(FimDynsysWarning):
    """Printed equations approximate a field that is not itself a finite sum of terms."""


class IgnoredInputWarning(FimDynsysWarning):
    """An argument was accepted for compatibility and had no effect."""


class WeightsWarning(FimDynsysWarning):
    """A weights file leaves something open that had to be assumed."""


class CacheWarning(FimDynsysWarning):
    """Compiled code cannot be kept where it usually is, so that it may have to be compiled again."""


class SamplingWarning(FimDynsysWarning):
    """Nested sampling missed a peak of the posterior, so that the evidence is too low."""


class FitError(ValueError):
    """A fit failed: it diverged, or ran out of time before anything usable was found."""


class PluginError(ImportError):
    """A model found through an entry point could not be imported or is incompatible."""


def warn(message: str, category: type[FimDynsysWarning]) -> None:
    """Warn at the line outside the package that led here, however deep in it the reason lies."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
