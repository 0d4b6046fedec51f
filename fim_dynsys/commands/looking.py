"""The command `look`: what is in a file, and how one may fit it."""

import argparse
import json as as_json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np

from fim_dynsys.commands import reading
from fim_dynsys.trajectories.container import Trajectories
from fim_dynsys.trajectories.parts import READ

_BARS = " ▁▂▃▄▅▆▇█"
_SHOWN = 12  # states that are listed and drawn
_WIDTH = 60  # characters of a curve in text
_VELOCITY = re.compile(
    r"(.*[_ ])?(v|vel|velocity|speed|omega|dot|dx|dy|rate)([_ ].*)?|.*(dot|velocity|speed)|v[xyz]|"
    r"d[a-z]+(/|_)?dt",
    re.IGNORECASE,
)
_POSITION = re.compile(
    r"(.*[_ ])?(pos|position|angle|theta|phi|displacement|deflection|height|ort|winkel|weg)([_ ].*)?",
    re.IGNORECASE,
)
_COMMANDED = re.compile(
    r"u\d*|u[A-Z_].*|inputs?|force|torque|voltage|command|cmd|control|setpoint|valve|pump|heater|duty|pwm|"
    r"throttle|motor.*|stellgr.*",
    re.IGNORECASE,
)
_HELD = 0.5  # share of steps in which a commanded signal does not change
_LEVELS = 0.1  # of the samples: as many values a signal has that is commanded in steps
_DENSE = 200  # samples within one turn of a state; as many as fits need are a quarter
_LONG = 4000  # samples: below, dense records cost nothing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `look`."""
    reading.add_arguments(parser)
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="picture of the states against time: .png, .svg or .pdf"
    )
    parser.add_argument("--json", action="store_true", help="machine-readable output")


def look(data: str, plot: Path | None, json: bool, command: str, **options: Any) -> int:
    """Show what a file holds, how it was read, and a command to fit it.

    Example: fim-dynsys look pendulum.csv --plot pendulum.png
    """
    if plot is not None:
        reading.check_picture("--plot", plot)
    given = reading.taken(options)
    trajectories = reading.read(data, given)
    proposed = proposal(data, trajectories, command)
    if json:
        facts = {
            "read": [line.strip() for line in reading.account(trajectories, data).splitlines()],
            "trajectories": len(trajectories),
            "samples": trajectories.n_obs.tolist(),
            "states": list(trajectories.state_names),
            "inputs": list(trajectories.input_names),
            "units": trajectories.units,
            "command": proposed[0],
            "why": proposed[1],
        }
        print(as_json.dumps(facts, indent=2))
    else:
        print(reading.in_options(reading.account(trajectories, data)), file=sys.stderr)
        shown = repr(trajectories).removesuffix(f"\n  {trajectories.dataset.attrs.get(READ)}").split("\n")
        more = [f"  ... and {len(shown) - _SHOWN - 1} lines more"] if len(shown) > _SHOWN + 1 else []
        print("\n".join([*shown[: _SHOWN + 1], *more]))  # the account was given above
        for name, curve in curves(trajectories)[:_SHOWN]:
            print(f"  {name:>12.12s} {curve}")
        print("\n".join(["", f"To fit it:  {proposed[0]}", *(f"  {why}" for why in proposed[1])]))
        if trajectories.dim > 1 and not trajectories.input_names and "--inputs" not in proposed[0]:
            print("  Add --inputs NAME where a column drives the others, such as a force or a voltage.")
    if plot is not None:
        from fim_dynsys import plot as drawing  # loads matplotlib

        reading.save_picture(drawing.time_series(trajectories), plot)
        print(f"{plot} written", file=sys.stderr)
    return 0


def curves(data: Trajectories) -> list[tuple[str, str]]:
    """Each state of the first trajectory as a line of bars."""
    t, x = data.arrays()[0]
    places = np.linspace(t[0], t[-1], _WIDTH)
    lines = []
    for name, values in zip(data.state_names, x.T, strict=True):
        seen = np.isfinite(values)
        if not seen.any() or len(t) < 2:
            continue
        low, high = values[seen].min(), values[seen].max()
        heights = np.interp(
            places, t[seen], (values[seen] - low) / (high - low) if high > low else values[seen] * 0.0
        )
        lines.append((name, "".join(_BARS[1 + round(7 * float(h))] for h in heights)))
    return lines


def proposal(data: str, trajectories: Trajectories, command: str) -> tuple[str, list[str]]:
    """A command that fits the file, and why it has the options that it has."""
    words = shlex.split(command)[2:]
    kept = [
        word
        for k, word in enumerate(words)
        if word not in ("--json", "-q", "--quiet") and not _of_plot(words, k)
    ]
    why: list[str] = []
    extra: list[str] = []
    commanded = commanded_states(trajectories) if not trajectories.input_names else []
    if commanded and len(commanded) < trajectories.dim:
        extra += ["--inputs", *commanded]
        looks = "looks" if len(commanded) == 1 else "look"
        why.append(f"--inputs: {', '.join(commanded)} {looks} commanded, and not like a state")
    free = [name for name in trajectories.state_names if name not in commanded]
    if needs_second_order(trajectories, free, bool(commanded)):
        extra += ["--order", "2"]
        why.append("--order 2: positions without velocities; x'' = f(x, x') is fitted")
    every = spare_samples(trajectories)
    if every > 1 and "--every" not in kept:
        extra += ["--every", str(every)]
        why.append(f"--every {every}: samples are much denser than the motion")
    out = "fitted" if data == "-" else Path(data).name.split(".")[0] + "-fitted"
    return shlex.join(["fim-dynsys", "fit", *kept, *extra, "--out", out]), why


def _of_plot(words: list[str], k: int) -> bool:
    return words[k] == "--plot" or (k > 0 and words[k - 1] == "--plot") or words[k].startswith("--plot=")


def commanded_states(data: Trajectories) -> list[str]:
    """States that are held for a while and then step, or are called as inputs are."""
    found = []
    for i, name in enumerate(data.state_names):
        values = [x[np.isfinite(x[:, i]), i] for _, x in data.arrays()]
        steps = np.concatenate([np.diff(times) for times in values])
        levels = len(np.unique(np.concatenate(values)))
        held = len(steps) > 20 and np.mean(steps == 0) > _HELD and levels <= max(2, _LEVELS * len(steps))
        if (held and steps.any()) or _COMMANDED.fullmatch(name):
            found.append(name)
    return found


def needs_second_order(data: Trajectories, names: list[str], driven: bool = False) -> bool:
    """Whether states are positions alone: all called so, or one that turns round without being driven."""
    if any(_VELOCITY.fullmatch(name) for name in names) or not names:
        return False
    if all(_POSITION.fullmatch(name) for name in names):
        return True
    if len(names) > 1 or data.input_names or driven:
        return False
    i = data.state_names.index(names[0])
    for _, x in data.arrays():
        seen = x[np.isfinite(x[:, i]), i]
        if len(seen) > 10 and _turns(seen) > 2:
            return True
    return False


def _turns(values: np.ndarray) -> int:
    """How often a record goes back by a fifth of its range."""
    threshold, turns, direction = np.ptp(values) / 5, 0, 0
    low = high = values[0]
    for value in values:
        low, high = min(low, value), max(high, value)
        if direction >= 0 and high - value > threshold:
            turns, direction, low = turns + 1, -1, value
        elif direction <= 0 and value - low > threshold:
            turns, direction, high = turns + 1, 1, value
    return turns


def spare_samples(data: Trajectories) -> int:
    """Of how many samples one is enough."""
    n = int(data.n_obs.max())
    if n < _LONG:
        return 1
    x = data.arrays()[int(np.argmax(data.n_obs))][1]
    per_turn = []
    for values in x.T:
        finite = values[np.isfinite(values)]
        if len(finite) > 10 and np.ptp(finite) > 0:
            # Slopes over ten samples, for those between neighbours are of noise.
            step = np.median(np.abs(finite[10:] - finite[:-10])) / 10
            per_turn.append(np.ptp(finite) / step if step > 0 else np.inf)
    fastest = min(per_turn, default=1.0)
    return int(min(fastest / (_DENSE / 4), n / 500)) if np.isfinite(fastest) and fastest > _DENSE else 1
