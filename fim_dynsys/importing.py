"""First imports, which make several hundred thousand objects, without pauses of the garbage collector."""

import gc
import importlib
from types import ModuleType


def imported(name: str) -> ModuleType:
    """Import a module with the garbage collector at rest.

    What an import makes stays, yet each collection looks at it again: .2 of 1.0 CPU seconds between the start
    of Python and the end of a first noisy fit. Here it goes to the oldest generation unseen. A caller who has
    switched the collector off or has frozen objects keeps both as they are.
    """
    if not gc.isenabled() or gc.get_freeze_count():
        return importlib.import_module(name)
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.unfreeze()
        gc.enable()
