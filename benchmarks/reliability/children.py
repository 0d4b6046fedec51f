"""Functions called in processes of their own, whose death or silence is an outcome like another."""

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

START_SECONDS = 600.0  # imports, and compiled code where there is none yet


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
        For one item; a child that takes longer is killed.
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
    process = context.Process(target=_serve, args=(sender, function, items, prepare))
    process.start()
    sender.close()
    found: list[Any] = []
    try:
        for limit in (START_SECONDS, *[seconds] * len(items)):
            if not receiver.poll(limit):
                process.kill()
                return [*found[1:], Ending(f"over {limit:g} s")]
            found.append(receiver.recv())
    except EOFError:
        process.join(seconds)
        return [*found[1:], Ending(_end(process.exitcode))]
    finally:
        if len(found) <= len(items):
            process.kill()
        process.join(seconds)
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
    prepare: Callable[[], object] | None,
) -> None:
    if prepare is not None:
        prepare()
    sender.send(None)
    for item in items:
        sender.send(function(item))
