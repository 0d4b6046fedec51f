"""Full disks, folders that may not be written to, cold caches of compiled code, damaged caches of runs."""

import contextlib
import ctypes
import io
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.run import Job, cached_outcomes
from benchmarks.parts import Figure, Part
from benchmarks.reliability.children import Ending, answers
from benchmarks.reliability.judging import plain
from benchmarks.reliability.subjects import MODELS, make, spiral
from benchmarks.reliability.writers import WRITERS, content

ROOM = (0.0, 0.1, 0.5, 0.9, 0.99)  # of the size of the largest file
TOGETHER = 3  # processes on a cold cache
SECONDS = 60.0
COMPILING = 3600.0
DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24  # linux/capability.h, linux/prctl.h


def tasks() -> dict[str, tuple]:
    """Return the writers with little room, the models without a place for caches, and damaged caches."""
    return {
        **{f"full: {name}, room {room:g}": ("full", name, room) for name in WRITERS for room in ROOM},
        **{f"damaged: {damage}": ("damaged", damage) for damage in DAMAGES},
        "read only: every model": ("read only", *MODELS),
        "cold: several at once": ("cold", *["fim-ode"] * TOGETHER),
    }


def measure(kind: str, *arguments: Any) -> dict[str, Any]:
    """Return how many attacks there were and did not hold, and in words what the first did."""
    attack = {"full": full, "read only": read_only, "cold": cold, "damaged": damaged}[kind]
    found = attack(*arguments)
    problems = [found] if isinstance(found, str) else found
    first = next(filter(None, problems), "")
    failed = sum(map(bool, problems))
    return {
        "kind": kind,
        "subject": arguments[0],
        "attacks": len(problems),
        "failed": failed,
        "problem": plain(first),
    }


# ------------------------------------------------------------------------------------------ a full disk


def full(name: str, room: float) -> str:
    """Save over an old content with room for a part of the new one; return what went wrong."""
    writer = WRITERS[name]
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / writer.name
        writer.write(content(writer, 1), path)
        files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
        limit = int(room * max(file.stat().st_size for file in files))
        writer.write(content(writer, 0), path)
        error, message = _save_in_child(name, path, limit)
        left = _left(name, path, 0 if error else 1)
        if error in ("", "OSError"):
            return left
        return "; ".join(filter(None, [f"{error} in place of OSError: {message}", left]))


def _save_in_child(name: str, path: Path, limit: int) -> tuple[str, str]:
    """Class and message of the error of a save with files limited to this size; empty after a success."""
    (ending,) = answers(_save_in, [(name, str(path), limit)], SECONDS)
    return (ending.reason, "the process ended") if isinstance(ending, Ending) else ending


def _save_in(item: tuple[str, str, int]) -> tuple[str, str]:
    """What `_save_in_child` does, in the child."""
    name, path, limit = item
    writer = WRITERS[name]
    made = content(writer, 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # HDF5 reports what it could not write, line by line
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        writer.write(made, Path(path))
    except OSError as error:
        return "OSError", str(error)
    except Exception as error:  # what it is, is asked
        return type(error).__name__, str(error)
    return "", ""


def _left(name: str, path: Path, expected: int) -> str:
    """What is wrong with the file that is left; empty where it is whole and the expected one."""
    try:
        number = WRITERS[name].whole(path)
    except Exception as error:  # whatever a damaged file raises
        return f"left is nothing whole: {type(error).__name__}: {error}"
    return "" if number == expected else f"expected content {expected} to be left, got {number}"


# -------------------------------------------------------------------------- compiled code and its caches


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """Give a folder with a copy of the package and of these attacks, without anything compiled."""
    root = Path(__file__).parents[2]
    skipped = shutil.ignore_patterns("__pycache__", "results", "out")
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("fim_dynsys", "benchmarks"):
            shutil.copytree(root / name, Path(scratch) / name, ignore=skipped)
        for name in ("home", "tmp"):
            (Path(scratch) / name).mkdir()
        yield Path(scratch)
        for folder in [Path(scratch), *Path(scratch).rglob("*/")]:
            folder.chmod(0o755)


def read_only(*models: str) -> list[str]:
    """Fit each in a copy where neither package nor home can be written to; return what went wrong."""
    with copied() as root:
        for path in [root, *root.rglob("*")]:
            if path != root / "tmp":
                path.chmod(stat.S_IMODE(path.stat().st_mode) & ~0o222)
        return [_named(model, _complaint(_ended(_start(root, model)))) for model in models]


def cold(*models: str) -> list[str]:
    """Fit in several processes at once that share a cache of compiled code with nothing in it."""
    with copied() as root:
        running = [(model, _start(root, model)) for model in models]
        return [_named(model, _complaint(_ended(process))) for model, process in running]


def _named(model: str, problem: str) -> str:
    return problem and f"{model}: {problem}"


def _start(root: Path, model: str) -> subprocess.Popen:
    """A process that fits the model in the copy and says how it went, without root's right to write."""
    code = f"from benchmarks.reliability.disk import say_fit; say_fit({model!r})"
    folders = {"HOME": str(root / "home"), "TMPDIR": str(root / "tmp")}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_", "XDG_"))}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=root,
        env={**kept, **folders, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_as_anybody,  # one call of libc, in a process of one thread
    )


def _as_anybody() -> None:
    """Root loses the right to write where the permissions do not allow it; it stays lost after exec."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, DAC_OVERRIDE, 0, 0, 0)


def _ended(process: subprocess.Popen) -> dict[str, Any]:
    try:
        out, errors = process.communicate(timeout=COMPILING)
    except subprocess.TimeoutExpired:
        process.kill()
        out, errors = process.communicate()
        return {"problem": f"over {COMPILING:g} s"}
    if process.returncode:
        return {"problem": f"exit status {process.returncode}: {(errors.strip().splitlines() or [''])[-1]}"}
    return json.loads(out.splitlines()[-1])


def _complaint(said: dict[str, Any]) -> str:
    if "problem" in said:
        return said["problem"]
    if len(said["warnings"]) > 1:
        return f"{len(said['warnings'])} warnings: {'; '.join(said['warnings'])}"
    return "" if said["finite"] else "the field has no numbers at the observations"


def say_fit(model: str) -> None:
    """Fit plain data and print, as JSON, the warnings and whether the field has numbers."""
    import warnings

    import numpy as np

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        fitted = make(model).fit(spiral())
        values = fitted.predict(spiral().arrays()[0][1])
    texts = [f"{w.category.__name__}: {w.message}" for w in caught]
    print(json.dumps({"warnings": texts, "finite": bool(np.isfinite(values).all())}))


# ------------------------------------------------------------------------- damaged caches of benchmarks


@dataclass(frozen=True)
class Squared:
    """Names a number in a cache; the row of the same name squares it."""

    number: int = 0
    name: str = "square"
    version: str = "1"


def _square(row: Squared, number: int) -> dict[str, Any]:
    return {"square": number**2}


def _replaced(line: bytes, **changes: Any) -> bytes:
    return json.dumps({**json.loads(line), **changes}).encode()


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "NUL bytes": lambda line: b"\x00" * len(line),
    "a NUL byte": lambda line: line[:20] + b"\x00" + line[21:],
    "not UTF-8": lambda line: b'{"squared": "\xff\xfe\xe9"}',
    "deep nesting": lambda line: b"[" * 100_000,
    "deep nesting, closed": lambda line: b'{"a": ' * 50_000 + b"1" + b"}" * 50_000,
    "no object": lambda line: b"3",
    "two keys": lambda line: _replaced(line, other={"number": 1}),
    "a key that is no object": lambda line: _replaced(line, squared=[1, 2]),
    "a digest that is no text": lambda line: _replaced(line, data=["a"]),
    "an outcome that is no object": lambda line: _replaced(line, outcome=4),
    "an outcome with other columns": lambda line: _replaced(line, outcome={"cube": 4}),
    "a huge number": lambda line: b'{"squared": ' + b"9" * 10_000 + b"}",
    "torn": lambda line: line[: len(line) // 2],
}


def damaged(damage: str, lines: int = 12, spoiled: tuple[int, ...] = (3, 7, 12)) -> str:
    """Damage some lines of a cache and resume: those are measured again, the others not, and it is said."""
    jobs = [Job(Squared(number), "", (number,)) for number in range(lines)]
    with tempfile.TemporaryDirectory() as scratch:

        def run(function: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
            found = cached_outcomes(function, [Squared()], jobs, scratch, "reliability", needed=["square"])
            return [outcome for (outcome,) in found]

        expected = run(_square)
        (path,) = (Path(scratch) / "cache").iterdir()
        content_ = path.read_bytes().split(b"\n")
        for number in spoiled:
            content_[number] = DAMAGES[damage](content_[number])
        path.write_bytes(b"\n".join(content_))
        calls: list[int] = []

        def counted(row: Squared, number: int) -> dict[str, Any]:
            calls.append(number)
            return _square(row, number)

        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            again = run(counted)
        if again != expected:
            return "the resumed run gives other outcomes"
        if len(calls) != len(spoiled):
            return f"expected {len(spoiled)} outcomes to be measured again, got {len(calls)}"
        if f"{len(spoiled)} damaged lines skipped" not in said.getvalue():
            return f"expected {len(spoiled)} damaged lines to be named, got {said.getvalue()!r}"
        return ""


def figures(rows: Sequence[dict[str, Any]]) -> list[Figure]:
    """Return by kind how many attacks did not hold."""
    titles = {
        "full": "full disks: no OSError, or the old file not whole",
        "read only": "read-only package and home: models that do not fit",
        "cold": "cold caches shared by several processes: failures",
        "damaged": "damaged caches of benchmarks: not resumed",
    }
    result = []
    for kind, title in titles.items():
        own = [row for row in rows if row["kind"] == kind]
        if own:
            note = next((f"{row['task']}: {row['problem']}" for row in own if row["failed"]), "")
            failed, n = (sum(row[name] for row in own) for name in ("failed", "attacks"))
            result.append(Figure(title, failed, goal="== 0", n=n, note=note))
    return result


PART = Part("disk", "2", tasks, measure, figures)
