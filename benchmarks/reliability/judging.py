"""What counts as a proper end of a call: a result, an error of the package's own, warnings by name."""

import re
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.exceptions import NotFittedError

import fim_dynsys
from fim_dynsys.errors import FimDynsysWarning

REFUSALS: tuple[type[Exception], ...] = (ValueError, TypeError, NotFittedError)
PACKAGE = str(Path(fim_dynsys.__file__).parent)
_CALLERS = str(Path(__file__).parent)
_UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)  # by default


@dataclass(frozen=True)
class Verdict:
    """What became of a call.

    Attributes
    ----------
    value : object
        What it returned; None after an error.
    refusal : str
        Message of a proper error; empty after a result.
    foreign : str
        An error that is not ours: raised elsewhere than in the package, or of another type.
    leaked : str
        The first warning that is no `FimDynsysWarning`.
    inside : str
        The first warning that points into the package and not at the call.
    """

    value: Any = None
    refusal: str = ""
    foreign: str = ""
    leaked: str = ""
    inside: str = ""

    @property
    def unexplained(self) -> bool:
        """Whether it is an error that does not say what was expected, nor one of the system about a file."""
        return bool(self.refusal) and "expected" not in self.refusal and "[Errno " not in self.refusal


def judge(call: Callable[[], Any], refusals: tuple[type[Exception], ...] = REFUSALS) -> Verdict:
    """Call, and say what became of it; errors of these types may be raised in the package's own code."""
    value, refusal, foreign = None, "", ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for category in _UNSEEN:
            warnings.simplefilter("ignore", category)
        try:
            value = call()
        except (Exception, SystemExit) as error:  # whatever comes is what is asked about
            text = plain(f"{type(error).__name__}: {error}")
            if _is_own(error, refusals):
                refusal = text
            else:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                foreign = f"{text} ({Path(frame.filename).name}:{frame.lineno} {frame.name})"
    leaked = [w for w in caught if not issubclass(w.category, FimDynsysWarning)]
    inside = [w for w in caught if w.filename.startswith(PACKAGE)]
    return Verdict(value, refusal, foreign, _first(leaked), _first(inside))


def _is_own(error: BaseException, refusals: tuple[type[Exception], ...]) -> bool:
    innermost = traceback.extract_tb(error.__traceback__)[-1].filename
    if isinstance(error, TypeError) and innermost.startswith(_CALLERS):
        return TypeError in refusals  # Python's own, of arguments that a signature does not have
    if isinstance(error, OSError) and error.filename is not None:
        return OSError in refusals  # the system's, which names the file
    if isinstance(error, TypeError) and str(error).startswith("expected str, bytes or os.PathLike object"):
        return TypeError in refusals  # Python's own, of what is no path
    own = type(error).__module__.partition(".")[0] == fim_dynsys.__name__
    return innermost.startswith(PACKAGE) and (own or isinstance(error, refusals))


def _first(caught: list[warnings.WarningMessage]) -> str:
    if not caught:
        return ""
    first = caught[0]
    return plain(f"{first.category.__name__}: {first.message} ({Path(first.filename).name}:{first.lineno})")


def plain(text: str) -> str:
    """Return a text on one line, without the folders of files, not too long for a table."""
    return re.sub(r"(?:/[\w.+-]+)+/", "", " ".join(text.split()))[:300]
