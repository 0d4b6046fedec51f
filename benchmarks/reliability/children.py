"""Functions called in processes of their own, whose death or silence is an outcome like another.

Time is the child's own CPU time, so that a machine with other work to do is not taken for a child that hangs.
"""

import math
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

START_SECONDS = 600.0  # imports, and compiled code where there is none yet
PATIENCE = 100.0  # seconds of the clock for each of CPU time: a child that only waits has to end as well


@dataclass(frozen=True)
class Ending:
    """How a process ended that owed an answer: "SIGSEGV", "exit status 1", "over 60 s"."""

    reason: str


def answers(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    seconds: float,
    prepare: Callable[[], object] | None = None,
) -> list[Any]:
    """Return ``function(item)`` of each item, computed one after the other in a child process.

    Parameters
    ----------
    function : callable
        Importable by its name; takes and gives what can be pickled.
    items : sequence
        Its arguments.
    seconds : float
        CPU time for one item, whole seconds; a child that takes longer is killed.
    prepare : callable, optional
        Called first in each child, with more time.

    Returns
    -------
    list
        An `Ending` in the place of each item at which the child died, took too long or raised; a new child
        goes on with the next. A child that dies by a signal as it exits has died at its last item.
    """
    found: list[Any] = []
    while len(found) < len(items):
        found += _of_one_child(function, items[len(found) :], seconds, prepare)
    return found


def started(method: str) -> Any:
    """Return multiprocessing's context of this name, in a worker of joblib too.

    There the default is a method of joblib's own, of which the children of a child know nothing.
    """
    if multiprocessing.get_start_method(allow_none=True) == "loky":
        multiprocessing.set_start_method("spawn", force=True)
    return multiprocessing.get_context(method)


def _of_one_child(
    function: Callable[[Any], Any],
    items: Sequence[Any],
    seconds: float,
    prepare: Callable[[], object] | None,
) -> list[Any]:
    context = started("spawn")  # whose children end as any interpreter does
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(sender, function, items, seconds, prepare))
    process.start()
    sender.close()
    found: list[Any] = []
    try:
        for limit in (START_SECONDS, *[seconds] * len(items)):
            if not receiver.poll(PATIENCE * limit):
                process.kill()
                return [*found[1:], Ending(f"over {PATIENCE * limit:g} s of the clock")]
            found.append(receiver.recv())
    except EOFError:
        process.join(PATIENCE * seconds)
        over = process.exitcode == -signal.SIGXCPU
        return [*found[1:], Ending(f"over {limit:g} s" if over else _end(process.exitcode))]
    finally:
        if len(found) <= len(items):
            process.kill()
        process.join(PATIENCE * seconds)
        if process.is_alive():
            process.kill()
            process.join()
        receiver.close()
    if process.exitcode:
        found[-1] = Ending(_end(process.exitcode))
    return found[1:]


def _end(status: int | None) -> str:
    if status is not None and status < 0:
        return signal.Signals(-status).name
    return f"exit status {status}"


def _serve(
    sender: Connection,
    function: Callable[[Any], Any],
    items: Sequence[Any],
    seconds: float,
    prepare: Callable[[], object] | None,
) -> None:
    _allow(START_SECONDS)
    if prepare is not None:
        prepare()
    sender.send(None)
    for item in items:
        _allow(seconds)
        sender.send(function(item))


def _allow(seconds: float) -> None:
    """Have the system end this process after so many more seconds of CPU time, by SIGXCPU."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), hard))
