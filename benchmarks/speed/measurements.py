"""What the speed benchmark measures; each function returns its rows of the table."""

import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fim_dynsys
from benchmarks.harness.trials import Problem, list_trials, observe
from benchmarks.odebench import facts
from benchmarks.speed import finetuning, peers, states
from benchmarks.speed.timing import Measurement, interleaved
from fim_dynsys.corruption import add_noise
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.trajectories.container import Trajectories

SEED = 0
OBSERVATIONS = 200
BATCH = 256


OPINION = "fim-ode, no search"


def van_der_pol(x: np.ndarray) -> np.ndarray:
    """Return the Van der Pol field with mu = 1 at points ``(n, 2)``."""
    return np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1)


def context(n_trajectories: int, n: int = OBSERVATIONS) -> Trajectories:
    """Return noisy Van der Pol trajectories (5 %, multiplicative) of n observations on [0, 10]."""
    rng = np.random.default_rng(SEED)
    starts = rng.uniform(-2, 2, (n_trajectories, 2))
    clean = simulate(CallableField(van_der_pol, 2), starts, np.linspace(0, 10, n))
    plain = Trajectories.from_arrays(list(clean.x), np.linspace(0, 10, n))
    return add_noise(plain, 0.05, rng)


# ------------------------------------------------------------------------------- the published network


def published_queries(repeats: int) -> list[Measurement]:
    """Single queries on a random network of the published size, with and without per-layer summaries."""
    import torch

    from fim_dynsys.models.fim_ode.field import Decoder
    from fim_dynsys.models.fim_ode.published import PublishedNetwork

    torch.manual_seed(SEED)
    network = PublishedNetwork().eval()
    decoder = Decoder(network, torch.float32)
    point = torch.tensor([[[0.5, -0.3]]])
    normalised = torch.tensor([[0.5, -0.3, 0.0]])
    functions: dict[str, Callable[[], object]] = {}
    for k in (1, 9):
        t, x, mask = (torch.from_numpy(np.ascontiguousarray(part)) for part in context(k).padded())
        batch = (t[None].float(), x[None].float(), mask[None].all(-1))
        with torch.no_grad():
            encoding = network.encode(*batch)
        one = [_first_context(summary) for summary in decoder.summarise(encoding.tokens, encoding.mask)]
        functions[f"encode K={k}"] = lambda batch=batch: network.encode(*batch)
        functions[f"uncached K={k}"] = lambda encoding=encoding: network.decode(encoding, point)
        functions[f"cached K={k}"] = lambda one=one: decoder(normalised, one)
    with torch.no_grad():
        seconds = interleaved(functions, repeats)
    note = f"published sizes, random weights, float32, one thread, {OBSERVATIONS} observations a trajectory"
    rows = [
        Measurement(
            f"published network, {_QUERY_NAMES[name.split()[0]]}, {name.split()[1]}",
            1e3 * value,
            "ms",
            repeats,
            note,
        )
        for name, value in seconds.items()
    ]
    for k in (1, 9):
        ratio = seconds[f"uncached K={k}"] / seconds[f"cached K={k}"]
        rows.append(
            Measurement(f"published network, uncached / cached query, K={k}", ratio, "x", repeats, note)
        )
    growth = seconds["cached K=9"] / seconds["cached K=1"]
    rows.append(Measurement("published network, cached query, K=9 / K=1", growth, "x", repeats, note))
    return rows


_QUERY_NAMES = {"encode": "encode", "uncached": "one query, uncached", "cached": "one query, cached"}


def _first_context(summary: Any) -> Any:
    return type(summary)(*(None if part is None else part[0] for part in summary))


def published_field(repeats: int) -> list[Measurement]:
    """The published network as a field: a 10,000-point grid in float64 and in float32, and one query."""
    field = _published_field()
    grid = _grid()
    low = field.to("float32")
    functions = {
        "10,000 points, float64": lambda: field(grid),
        "10,000 points, float32": lambda: low(grid),
        "one query, float64": lambda: field(grid[:1]),
        "one Jacobian, float64": lambda: field.jacobian(grid[:1]),
    }
    rounds = max(1, repeats // 10)
    seconds = interleaved(functions, rounds)
    return [
        Measurement(f"published network as a field, {name}", 1e3 * value, "ms", rounds)
        for name, value in seconds.items()
    ]


def _published_field() -> Any:
    import torch

    from fim_dynsys.models.fim_ode.field import Decoder, make_fields
    from fim_dynsys.models.fim_ode.published import PublishedNetwork

    torch.manual_seed(SEED)
    network = PublishedNetwork().eval()
    t, x, mask = (torch.from_numpy(np.ascontiguousarray(part)) for part in context(1).padded())
    with torch.no_grad():
        encoding = network.encode(t[None].float(), x[None].float(), mask[None].all(-1))
    return make_fields(Decoder(network), encoding, [2], [np.ones(2)], [{}])[0]


def _grid() -> np.ndarray:
    axis = np.linspace(-2.5, 2.5, 100)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


# --------------------------------------------------------------------------------------- integration


def batched_simulation(repeats: int, batch: int = BATCH) -> list[Measurement]:
    """Many Van der Pol trajectories together against one scipy call each, same pair and tolerances."""
    from scipy.integrate import solve_ivp

    starts = np.random.default_rng(SEED).uniform(-2.5, 2.5, (batch, 2))
    t = np.linspace(0, 20, OBSERVATIONS)
    rtol, atol = 1e-7, 1e-9
    field = CallableField(van_der_pol, 2)

    def plain(_: float, x: np.ndarray) -> list[float]:
        return [x[1], (1 - x[0] ** 2) * x[1] - x[0]]

    def loop(rhs: Callable[[float, np.ndarray], Any]) -> np.ndarray:
        options = {"method": "DOP853", "t_eval": t, "rtol": rtol, "atol": atol}
        return np.stack([solve_ivp(rhs, (0, 20), start, **options).y.T for start in starts])

    def together() -> np.ndarray:
        return simulate(field, starts, t, rtol=rtol, atol=atol).x

    gap = float(np.abs(together() - loop(plain)).max())
    rounds = max(1, repeats // 10)
    functions = {
        "together": together,
        "loop": lambda: loop(plain),
        "loop of the field": lambda: loop(field.ivp),
    }
    seconds = interleaved(functions, rounds)
    note = f"{batch} Van der Pol trajectories to t = 20, DOP853, rtol {rtol:g}, atol {atol:g}"
    return [
        Measurement(
            f"simulate, {batch} trajectories together", 1e3 * seconds["together"], "ms", rounds, note
        ),
        Measurement("solve_ivp in a loop, plain Python field", 1e3 * seconds["loop"], "ms", rounds, note),
        Measurement(
            "solve_ivp in a loop, CallableField", 1e3 * seconds["loop of the field"], "ms", rounds, note
        ),
        Measurement("solve_ivp loop / simulate", seconds["loop"] / seconds["together"], "x", rounds, note),
        Measurement("largest difference between the two", gap, "state", rounds, note),
    ]


# -------------------------------------------------------------------------------------------- models


def models(repeats: int) -> list[Measurement]:
    """Inference per data set: one noisy context each of dimension 1, 2 and 3."""
    contexts = {1: _decay(), 2: context(1), 3: _lorenz()}
    rows = []
    variants = {"fim-ode": {}, OPINION: {"refine": False}, "sindy": {}, "sindy-strong": {}, "auto": {}}
    for name, parameters in variants.items():
        model = fim_dynsys.load(name.partition(",")[0], **parameters)
        rounds = repeats if name in ("sindy", OPINION) else max(1, repeats // 10)
        functions = {
            dim: (lambda data=data, model=model: model.infer(data)) for dim, data in contexts.items()
        }
        seconds = _quietly(lambda functions=functions, rounds=rounds: interleaved(functions, rounds))
        rows += [
            Measurement(f"{name}, infer, d={dim}", 1e3 * value, "ms", rounds, f"{OBSERVATIONS} observations")
            for dim, value in seconds.items()
        ]
    return rows + _fim_ode_queries(repeats, contexts)


def _fim_ode_queries(repeats: int, contexts: dict[int, Trajectories]) -> list[Measurement]:
    """The operator's estimate alone: contexts one by one and in a batch, queries of short and long ones."""
    model = fim_dynsys.load("fim-ode", refine=False)
    states = {dim: data.x[0] for dim, data in contexts.items()}

    def both(dim: int) -> np.ndarray:
        return model.infer(contexts[dim])(states[dim])

    field, longer, grid = model.infer(contexts[2]), model.infer(context(1, 4000)), _grid()
    functions = {f"infer and 200 queries, d={dim}": (lambda dim=dim: both(dim)) for dim in contexts}
    functions |= {"10,000 points, d=2": lambda: field(grid), "one query, d=2": lambda: field(grid[:1])}
    functions |= {"10,000 points, d=2, 4,000 observations": lambda: longer(grid)}
    seconds = _quietly(lambda: interleaved(functions, repeats))
    note = f"{OBSERVATIONS} observations, one thread"
    rows = [Measurement(f"{OPINION}, {name}", 1e3 * v, "ms", repeats, note) for name, v in seconds.items()]
    hundred = [context(1) for _ in range(100)]
    together = {"alone": lambda: model.infer(hundred[0]), "together": lambda: model.infer_many(hundred)}
    rounds = max(1, repeats // 10)
    seconds = _quietly(lambda: interleaved(together, rounds))
    ratio = 100 * seconds["alone"] / seconds["together"]
    return [*rows, Measurement(f"{OPINION}, alone / in a batch of 100, d=2", ratio, "x", rounds, note)]


def latency(repeats: int, problems: Sequence[Problem] | None = None) -> list[Measurement]:
    """Time from a context of ODEBench to its field and 200 values of it: medians over the contexts."""
    problems = {problem.system: problem for problem in problems or facts.problems()}
    variants = {"fim-ode": fim_dynsys.load("fim-ode"), OPINION: fim_dynsys.load("fim-ode", refine=False)}
    rounds = max(1, repeats // 10)
    seconds: dict[tuple[str, str], list[float]] = {}
    for trial in list_trials(list(problems.values()), [(0.05, 0.0)], ["paper"], [SEED]):
        data = observe(problems[trial.system], trial)
        functions = {
            name: (lambda data=data, model=model: model.infer(data)(data.x[0]))
            for name, model in variants.items()
        }
        timed = _quietly(lambda functions=functions: interleaved(functions, rounds))
        for name, value in timed.items():
            for group in (f"d={data.dim}", "all"):
                seconds.setdefault((name, group), []).append(value)
    return [
        Measurement(
            f"{name}, infer and 200 queries, ODEBench, {group}",
            1e3 * statistics.median(values),
            "ms",
            rounds,
            f"median over {len(values)} contexts, {OBSERVATIONS} observations, noise 0.05, one thread",
        )
        for (name, group), values in sorted(seconds.items())
    ]


def _quietly(function: Callable[[], dict[str, float]]) -> dict[str, float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


def _decay() -> Trajectories:
    t = np.linspace(0, 10, OBSERVATIONS)
    clean = Trajectories.from_arrays(10 / (1 + 9 * np.exp(-t)), t)
    return add_noise(clean, 0.05, np.random.default_rng(SEED))


def _lorenz() -> Trajectories:
    def rhs(x: np.ndarray) -> np.ndarray:
        a, b, c = x.T
        return np.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], axis=1)

    t = np.linspace(0, 4, OBSERVATIONS)
    clean = simulate(CallableField(rhs, 3), np.array([1.0, 1.0, 20.0]), t)
    return add_noise(Trajectories.from_arrays(clean.x[0], t), 0.05, np.random.default_rng(SEED))


# ------------------------------------------------------------------------------------------- imports


def imports(repeats: int) -> list[Measurement]:
    """CPU and wall time of ``import fim_dynsys`` in a fresh process, an empty process subtracted."""
    rounds = max(3, repeats // 5)
    empty, full = [], []
    for _ in range(rounds):
        empty.append(_process("pass"))
        full.append(_process("import fim_dynsys"))
    cpu = float(np.median([seconds for seconds, _ in full]) - np.median([seconds for seconds, _ in empty]))
    wall = float(np.median([seconds for _, seconds in full]) - np.median([seconds for _, seconds in empty]))
    return [
        Measurement("import fim_dynsys, fresh process", 1e3 * cpu, "ms", rounds),
        Measurement("import fim_dynsys, fresh process, wall", 1e3 * wall, "ms wall", rounds),
    ]


def _process(code: str) -> tuple[float, float]:
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    after, stop = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, stop - start


# ------------------------------------------------------------------------------------ cost against samples

_SYSTEMS = {1: "logistic", 2: "van_der_pol", 3: "lorenz"}
_SAMPLES = (1_000, 10_000, 100_000, 1_000_000)
_GROUPS = (1, 50)  # trajectories that hold them


def samples(
    repeats: int,
    sizes: Sequence[int] = _SAMPLES,
    names: Sequence[str] = ("sindy-strong", "fim-ode"),
    dims: Sequence[int] = (1, 2, 3),
) -> list[Measurement]:
    """CPU time and peak memory of one inference against samples, states and trajectories.

    Each in a process of its own that has made a small inference before; memory is what the process grows by.
    """
    rows = []
    for name in names:
        for dim in dims:
            for groups in _GROUPS:
                for n in sizes:
                    code = "from benchmarks.speed.measurements import one_inference\n"
                    code += f"one_inference({name!r}, {dim}, {n}, {groups})"
                    done = subprocess.run(
                        [sys.executable, "-c", code], check=True, capture_output=True, text=True
                    )
                    seconds, megabytes = map(float, done.stdout.split())
                    what = (
                        f"{name}, d={dim}, {n:,} samples, {groups} trajector{'y' if groups == 1 else 'ies'}"
                    )
                    rows.append(Measurement(f"{what}, infer", 1e3 * seconds, "ms", 1))
                    rows.append(Measurement(f"{what}, memory", megabytes, "MB", 1))
    return rows


def one_inference(name: str, dim: int, n: int, groups: int) -> None:
    """Print the CPU seconds of an inference and the megabytes that the process grew by."""
    model = fim_dynsys.load(name)
    small, large = _record(dim, 1_000, 1), _record(dim, n, groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.infer(small)
        before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        model.infer(large)
    seconds = time.process_time() - start
    print(seconds, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e3)


def _record(dim: int, n: int, groups: int) -> Trajectories:
    """Samples of a logistic, a Van der Pol or a Lorenz system with 5 % noise, in equal trajectories."""
    system = fim_dynsys.systems.get(_SYSTEMS[dim])
    rng = np.random.default_rng(SEED)
    t = np.linspace(0, 10, n // groups)
    starts = system.initial_states[0] + 0.1 * system.region.size * rng.uniform(-1, 1, (groups, dim))
    clean = simulate(system.field(), starts, t)
    return add_noise(Trajectories.from_arrays(list(clean.x), t), 0.05, rng)


# ------------------------------------------------------------------------------------------ many data sets


def many(repeats: int, count: int = 64, dims: Sequence[int] = (1, 2, 3)) -> list[Measurement]:
    """`fit_many` of ``fim-ode`` in one process and in two: CPU time of all processes for each data set.

    Other work on the machine does not matter to it. What two idle cores gain follows, and how many cores the
    process that hands out the work can keep busy.
    """
    model = fim_dynsys.load("fim-ode")
    rows = []
    for dim in dims:
        system = fim_dynsys.systems.get(_SYSTEMS[dim])
        clean = simulate(system.field(), system.initial_states[0], np.linspace(0, 10, OBSERVATIONS))
        data = [add_noise(clean, 0.05, np.random.default_rng(seed)) for seed in range(count)]
        alone, together, parent = _fit_many_seconds(model, data, max(1, repeats // 10))
        note = f"{count} data sets of {OBSERVATIONS} samples, batches of {_MANY_BATCH}"
        about = f"fit_many, fim-ode, d={dim}"
        values = {
            "a data set, one process": (1e3 * alone, "ms"),
            "a data set, two processes together": (1e3 * together, "ms"),
            "two idle cores / one": (2 * alone / together, "x"),
            "10,000 data sets on two idle cores": (1e4 * together / 2 / 60, "min"),
            "cores that one parent keeps busy": (together / parent, "cores"),
        }
        rows += [
            Measurement(f"{about}, {what}", *v, max(1, repeats // 10), note) for what, v in values.items()
        ]
    return rows


_MANY_BATCH = 8


def _fit_many_seconds(
    model: VectorFieldModel, data: Sequence[Trajectories], rounds: int
) -> tuple[float, float, float]:
    """Medians per data set: CPU of one process, of two and their parent, and of that parent alone."""

    def fitted(processes: int) -> tuple[float, float]:
        start = time.process_time()
        table = fim_dynsys.fit_many(model, data, n_jobs=processes, batch=_MANY_BATCH, progress=False)
        own = time.process_time() - start
        return (own + (table["seconds"].sum() if processes > 1 else 0.0)) / len(data), own / len(data)

    found = [(*fitted(1)[:1], *fitted(2)) for _ in range(rounds + 1)][1:]  # the first loads compiled code
    alone, together, parent = (statistics.median(values) for values in zip(*found, strict=True))
    return alone, together, parent


SECTIONS: dict[str, Callable[[int], list[Measurement]]] = {
    "import": imports,
    "processes": peers.processes,
    "peers": peers.beside_peers,
    "simulate": batched_simulation,
    "published": published_queries,
    "published-field": published_field,
    "models": models,
    "latency": latency,
    "samples": samples,
    "many": many,
    "states": states.chains,
    "finetune": finetuning.network_steps,
    "finetune-residual": finetuning.residuals,
}
