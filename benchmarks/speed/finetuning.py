"""What fine-tuning costs: a step of a network against one that does not fold its context, and a residual."""

import statistics
import time
import warnings
from collections.abc import Callable

from benchmarks.oscillators.tasks import FIXED_SEED, tasks
from benchmarks.speed.timing import Measurement

SEED = 0
_SAMPLES = 6  # after one start, for which the slow ways are timed


def network_steps(repeats: int, **sizes: int) -> list[Measurement]:
    """A step of multiple shooting on Van der Pol T1, three ways that give the same loss.

    The two slow ones go start after start and evaluate the network as it is: on all tokens each time,
    or encoding the context there too. They are timed on a few samples after one start, since each evaluation
    costs the same.
    `sizes` are the network's, by default the published ones.
    """
    import torch

    from fim_dynsys.models.fim_ode.field import Decoder
    from fim_dynsys.models.fim_ode.finetuning.training import NetworkTuning, Problem
    from fim_dynsys.models.fim_ode.published import Encoding, PublishedConfig, PublishedNetwork
    from fim_dynsys.models.fim_ode.published_operators import DecodedOperator

    torch.manual_seed(SEED)
    network = PublishedNetwork(PublishedConfig(**sizes)).eval().requires_grad_(False)
    operator = DecodedOperator(network, Decoder(network), "random", network.config.max_dim)
    problem = Problem(operator, tasks()[0].context(FIXED_SEED), NetworkTuning(moves="decoder"))
    rolls = problem.rollouts
    one = rolls._replace(
        starts=rolls.starts[:1],
        counts=rolls.counts[:_SAMPLES],
        **{name: getattr(rolls, name)[:1, :_SAMPLES] for name in ("gaps", "targets", "fitted", "held_out")},
    )
    encoded = problem.network.encode(*problem.context)
    units = encoded.normalisation
    scale = units.std[0, :2] * units.rate[0]

    def plain(encode: Callable[[], Encoding]) -> Callable[[], float]:
        def rate(z: torch.Tensor) -> torch.Tensor:
            points = z.double() * units.std[0, :2] + units.mean[0, :2]
            return (problem.network.decode(encode(), points[None])[0] / scale).float()

        def step() -> float:
            problem.network.zero_grad()
            loss, _ = one.losses(one.paths(rate, one.starts))
            loss.backward()
            return loss.item()

        return step

    def folded() -> float:
        problem.network.zero_grad()
        return problem.backward(problem.rollouts)

    def folded_alone() -> float:
        whole, problem.rollouts = problem.rollouts, one
        with torch.no_grad():
            loss = problem.losses()[0].item()
        problem.rollouts = whole
        return loss

    count = len(rolls.starts) * sum(rolls.counts) / sum(one.counts)
    _, first = _timed(folded)
    ours = statistics.median(_timed(folded)[1] for _ in range(max(1, repeats // 10)))
    rows = [("context folded once a step, all starts together", ours, 0.0)]
    expected = folded_alone()
    for name, encode in (
        ("all tokens at each evaluation, start after start", lambda: encoded),
        (
            "re-encoded at each evaluation, start after start",
            lambda: problem.network.encode(*problem.context),
        ),
    ):
        loss, seconds = _timed(plain(encode))
        rows.append((name, count * seconds, abs(loss - expected) / abs(expected)))
    of = "given" if sizes else "published"
    note = f"{of} sizes, random weights, float32, one thread, {len(rolls.starts)} starts"
    found = [
        Measurement(f"a step of fine-tuning, {name}", 1e3 * seconds, "ms", 1, note)
        for name, seconds, _ in rows
    ]
    for name, seconds, gap in rows[1:]:
        short = name.split(" at ")[0]
        found.append(Measurement(f"a step, {short} / folded", seconds / ours, "x", 1, note))
        found.append(Measurement(f"relative difference of the loss, {short}", gap, "", 1, note))
    return [*found, Measurement("first step, folded", 1e3 * first, "ms", 1, note)]


def residuals(repeats: int) -> list[Measurement]:
    """Fine-tuning of our operator on Van der Pol T1, to its plateau."""
    import fim_dynsys

    model, data = fim_dynsys.load("fim-ode"), tasks()[0].context(FIXED_SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.infer(data)  # compiled code is read from the disk
        tuned, seconds = _timed(lambda: model.finetune(data, max_seconds=None, progress=False))
    history = tuned.history_
    note = f"{len(history) - 1} widths, {FIXED_SEED}: the shared draw"
    return [
        Measurement("fim-ode, fine-tuning to its plateau, VDP T1", 1e3 * seconds, "ms", 1, note),
        Measurement(
            "fim-ode, fine-tuning to its best state, VDP T1",
            1e3 * history.loc[history["best"], "seconds"].item(),
            "ms",
            1,
            note,
        ),
    ]


def _timed(function: Callable[[], object]) -> tuple:
    start = time.process_time()
    result = function()
    return result, time.process_time() - start
