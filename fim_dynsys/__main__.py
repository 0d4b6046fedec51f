"""Command line: look at a file, fit it, analyse the fit; what is installed and whether it works."""

import argparse
import inspect
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import fim_dynsys
from fim_dynsys.commands import analysis, fitting, installation, looking, reading
from fim_dynsys.errors import FimDynsysWarning

PROGRAM = "fim-dynsys"
_PIPE_CLOSED = 141  # what shells say of a program that wrote where nobody reads
_INSTALLATION = {"info": installation.info, "available": installation.models, "doctor": installation.doctor}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code, 0 where all is well.

    Parameters
    ----------
    arguments : list of str, optional
        Default: those of the process.
    """
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # of `fim-dynsys info | head`, which has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
        return _PIPE_CLOSED
    return code


def _run(arguments: Sequence[str] | None) -> int:
    """Run one command, whose output may be read to the end or not."""
    parser = _Parser(prog=PROGRAM, description=fim_dynsys.__doc__)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {fim_dynsys.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    looking.add_arguments(_command(commands, "look", looking.look))
    fitting.add_arguments(_command(commands, "fit", fitting.fit))
    analysis.add_arguments(_command(commands, "analyze", analysis.analyze), "analyze")
    analysis.add_arguments(_command(commands, "explore", analysis.explore), "explore")
    for name, run in _INSTALLATION.items():
        installation.add_arguments(_command(commands, name, run), name)
    for each in commands.choices.values():
        each.words = tuple(sys.argv[1:] if arguments is None else arguments)
    options = vars(parser.parse_args(arguments))
    command, run = options.pop("command"), options.pop("run")
    if command in _INSTALLATION:
        options.pop("quiet")
        return run(*options.values())
    if command == "look":
        options.pop("quiet")
    usual = warnings.formatwarning

    def in_one_line(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        """A warning of ours without the line of Python that it came from."""
        if not issubclass(category, FimDynsysWarning):
            return usual(message, category, filename, lineno, line)
        return f"{PROGRAM} {command}: {category.__name__}: {reading.in_options(str(message))}\n"

    warnings.formatwarning = in_one_line
    try:
        return run(
            **options, command=shlex.join([PROGRAM, *(sys.argv[1:] if arguments is None else arguments)])
        )
    except BrokenPipeError:
        raise
    except (OSError, ImportError, TypeError, ValueError) as error:  # what users can mend
        print(f"{PROGRAM} {command}: {reading.in_options(str(error))}", file=sys.stderr)
        return 2
    finally:
        warnings.formatwarning = usual


class _Parser(argparse.ArgumentParser):
    """Says which option took the file or folder, where none is left."""

    words: tuple[str, ...] = ()

    def error(self, message: str) -> NoReturn:
        missing = message.rpartition("required: ")[2]
        options = [k for k, word in enumerate(self.words) if word.startswith("--")]
        if missing in ("data", "folder") and options and options[-1] < len(self.words) - 2:
            taken, option = self.words[-1], self.words[options[-1]]
            what = "file" if missing == "data" else "folder"
            message = f"{option} took {taken}; put the {what} first: {self.prog} {taken} {option} ..."
        super().error(message)


def _command(commands: Any, name: str, run: Callable[..., int]) -> argparse.ArgumentParser:
    about = inspect.cleandoc(run.__doc__ or name)
    command = commands.add_parser(
        name,
        help=about.splitlines()[0],
        description=about.replace("%", "%%"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("-q", "--quiet", action="store_true", help="results only")
    command.set_defaults(run=run)
    return command


if __name__ == "__main__":
    sys.exit(main())
