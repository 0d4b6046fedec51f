"""Priors as stated, fields and their integration against independent routes, systems made while training."""

from dataclasses import replace
from multiprocessing.context import ForkServerContext
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from fim_dynsys.fields.terms import Dictionary
from training.preset import read_preset
from training.source import _STREAM_SEED, Stream, held_out, made_by_processes
from training.systems import chaos, generation, priors
from training.systems.chaos import ChaoticPrior, chaotic
from training.systems.families import (
    LinearPrior,
    OscillatorPrior,
    PotentialPrior,
    SmoothPrior,
    TermsPrior,
    reframed,
)
from training.systems.fields import FUNCTIONS, Fields, exponents, rates
from training.systems.generation import (
    BOUND,
    EULER_STEPS,
    N_SAMPLES,
    N_TRAJECTORIES,
    SAMPLING_STEP,
    Integration,
    cached,
    fingerprint,
    generate,
    generate_fixed,
    generate_single,
    integrate,
    spacing,
)
from training.systems.polynomials import PolynomialPrior
from training.systems.priors import components, exists, names, single

FAMILIES = [n for n in names() if exists(n, 2) and components(n, 2, 10) == [(n, 10)]]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Integration:
    """Thirty samples at the paper's spacing: an eighth of the work."""
    monkeypatch.setattr(generation, "spacing", lambda samples: SAMPLING_STEP)
    return Integration(samples=30)


def jacobians(fields: Fields, x: torch.Tensor) -> torch.Tensor:
    """(n, d, d) of each field at a point of its own (n, d)."""
    x = x.double().requires_grad_()
    f = fields(x[:, None])[:, 0]
    rows = [torch.autograd.grad(f[:, i].sum(), x, retain_graph=True)[0] for i in range(f.shape[1])]
    return torch.stack(rows, 1)


# --- the paper's prior ---


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_paper_prior_has_its_stated_statistics(dim: int) -> None:
    coefficients = PolynomialPrior().sample(6000, dim, seeded())
    degree = exponents(dim).sum(1)
    used = torch.stack([(coefficients[:, degree == k] != 0).any(1) for k in range(4)], -1)  # (n, dim, 4)
    # 1..4 degrees, uniformly: each degree is present with probability 2.5 / 4
    assert used.float().mean((0, 1)).numpy() == pytest.approx(0.625 * np.ones(4), abs=0.025)
    assert (used.sum(-1).float().mean()) == pytest.approx(2.5, abs=0.05)
    # of each degree's monomials 1..count, uniformly: half of them plus one half
    for k in range(4):
        count = int((degree == k).sum())
        kept = (coefficients[:, degree == k] != 0).sum(1)[used[..., k]].float().mean()
        assert float(kept) == pytest.approx((count + 1) / 2, rel=0.04)
    # N(0, 1) times U(0, 2): variance 4 / 3
    assert float(coefficients[coefficients != 0].var()) == pytest.approx(4 / 3, rel=0.05)


@pytest.mark.parametrize(("dim", "rate"), [(1, 0.495), (2, 0.26), (3, 0.10)])
def test_acceptance_of_the_rejection(dim: int, rate: float) -> None:
    n = 600
    draws = seeded(1)
    fields = PolynomialPrior().fields(n, dim, draws)
    states, alive = integrate(fields, PolynomialPrior().starts(n, N_TRAJECTORIES, dim, draws))
    assert len(alive) / n == pytest.approx(rate, abs=3.5 * np.sqrt(rate * (1 - rate) / n))
    assert float(states.abs().max()) < BOUND
    assert states.shape == (len(alive), N_TRAJECTORIES, N_SAMPLES, dim)


@pytest.mark.parametrize("name", ["paper", "sparse"])
def test_trajectories_of_the_paper_are_the_euler_solution(name: str) -> None:
    systems = generate(name, 2, 2, seed=2)
    powers = exponents(2).numpy()
    for coefficients, states in zip(
        systems.coefficients.double().numpy(), systems.states.numpy(), strict=True
    ):
        x = states[4, 0].astype(float)
        for expected in states[4]:
            # float32 sums of 4,000 Euler steps; unstable systems amplify rounding
            np.testing.assert_allclose(x, expected, rtol=2e-2, atol=2e-3)
            for _ in range(EULER_STEPS):
                x = x + SAMPLING_STEP / EULER_STEPS * (np.prod(x**powers, axis=1) @ coefficients)


def test_same_seed_same_systems_and_another_seed_others() -> None:
    first, again, other = (generate("paper", 1, 20, seed) for seed in (3, 3, 4))
    assert torch.equal(first.states, again.states)
    assert not torch.equal(first.states, other.states)
    assert fingerprint(first) == fingerprint(again) != fingerprint(other)


# --- names and mixtures ---


def test_mixtures_are_resolved_to_their_shares() -> None:
    assert components("paper", 2, 7) == [("paper", 7)]
    parts = dict(components("broad", 3, 10_000))
    assert sum(parts.values()) == 10_000
    assert parts["paper"] == 4000 and parts["rational"] == 600 and parts["oscillator"] == 600
    few = components("broad", 3, 7)
    assert sum(count for _, count in few) == 7
    # one coordinate can neither turn nor conserve: the other families take that share
    alone = dict(components("mechanics", 1, 100))
    assert alone == {"gradient": 100}


def test_wrong_names_families_and_keys_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"prior among \[.*'paper'.*\], got 'papr'"):
        components("papr", 2, 5)
    with pytest.raises(ValueError, match="no systems of dimension 1"):
        components("oscillator", 1, 5)
    listed = {"a": {"family": "polinomial"}, "b": {"family": "linear", "decade": 2}}
    monkeypatch.setattr(priors, "_listed", lambda: listed)
    with pytest.raises(ValueError, match=r"'a' to have a family among .* got 'polinomial'"):
        single("a")
    with pytest.raises(ValueError, match=r"'b' has unknown keys \['decade'\]"):
        single("b")


# --- fields ---


def test_the_two_ways_to_evaluate_fields_agree_with_the_formula() -> None:
    """A joined batch of polynomials and ridge terms: points as rows, systems as columns, numpy by hand."""
    draws = seeded(7)
    parts = [single(name).fields(3, 2, draws) for name in ("paper", "mixed", "damped", "smooth")]
    fields = Fields.join(parts)
    x = torch.randn(12, 5, 2, generator=draws, dtype=torch.float64)
    values = fields(x)
    across = rates(fields.map(torch.Tensor.double).columns(), x.permute(2, 1, 0)).permute(2, 1, 0)
    torch.testing.assert_close(values, across, rtol=1e-12, atol=1e-12)
    for part, rows in zip(parts, x.split(3), strict=True):
        alone = part(rows)
        torch.testing.assert_close(values[: len(alone)], alone, rtol=1e-12, atol=1e-12)
        values = values[len(alone) :]
    mixed, point = parts[1], x[4, 0].numpy()
    ridge = mixed.ridge
    expected = np.prod(point ** exponents(2).numpy(), axis=1) @ mixed.coefficients[1].double().numpy()
    for s, name in enumerate(ridge.functions):
        w, b, a, q = (tensor[1, s].double().numpy() for tensor in ridge.tensors().values())
        g = FUNCTIONS[name](torch.tensor(w @ point + b)).item()
        expected = expected + a * (q[0] + q[1:] @ point) * g
    np.testing.assert_allclose(fields(x)[4, 0], expected, rtol=1e-12)


def test_a_frame_changes_coordinates_of_a_field() -> None:
    draws = seeded(8)
    coefficients = torch.randn(4, 20, 3, generator=draws, dtype=torch.float64)
    frame = torch.eye(3).double() + 0.3 * torch.randn(4, 3, 3, generator=draws, dtype=torch.float64)
    shift = torch.randn(4, 3, generator=draws, dtype=torch.float64)
    z = torch.randn(4, 6, 3, generator=draws, dtype=torch.float64)
    there = Fields(coefficients)(z @ frame.transpose(1, 2) + shift[:, None])
    back = torch.linalg.solve(frame, there.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(Fields(reframed(coefficients, frame, shift))(z), back, rtol=1e-9, atol=1e-9)


# --- families ---


@pytest.mark.parametrize("dim", [2, 3, 4])
def test_gradient_fields_have_no_curl_and_conservative_ones_no_divergence(dim: int) -> None:
    x = torch.randn(50, dim, generator=seeded(1))
    gradient = jacobians(PotentialPrior((1.0, 1.0), rotation=0.0).fields(50, dim, seeded(2)), x)
    scale = gradient.abs().amax((1, 2), keepdim=True)
    assert float(((gradient - gradient.transpose(1, 2)) / scale).abs().max()) < 1e-5  # float32 coefficients
    conservative = jacobians(PotentialPrior().fields(50, dim, seeded(3)), x)
    trace = conservative.diagonal(dim1=1, dim2=2).sum(-1)
    assert float((trace / conservative.abs().amax((1, 2))).abs().max()) < 1e-5
    damped = jacobians(PotentialPrior((0.5, 0.5), n_waves=0).fields(50, dim, seeded(3)), torch.zeros(50, dim))
    # damping pulls: on average over random potentials with walls the volume shrinks
    assert float(damped.diagonal(dim1=1, dim2=2).sum(-1).mean()) < 0


def test_linear_systems_are_stable_and_spread_over_decades() -> None:
    fields = LinearPrior(decades=3.0, fastest=30.0).fields(2000, 2, seeded(4))
    values = torch.linalg.eigvals(jacobians(fields, torch.randn(2000, 2, generator=seeded(5))))
    assert float(values.real.max()) < 0
    rate = -values.real
    assert float(rate.max()) == pytest.approx(30.0, rel=0.05)
    assert float(rate.min()) == pytest.approx(0.03, rel=0.05)
    turning = (values.imag.abs() > 1e-6).any(1)
    assert float(turning.double().mean()) == pytest.approx(1 / 3, abs=0.04)
    real = rate[~turning]
    # logarithms of two rates of a system are independent and uniform over three decades: mean distance 1
    assert float((real[:, 0] / real[:, 1]).log10().abs().mean()) == pytest.approx(1.0, abs=0.08)


def test_oscillators_settle_on_cycles() -> None:
    draws = seeded(6)
    sampler = OscillatorPrior(periods=(3.0, 8.0))
    fields = sampler.fields(60, 2, draws)
    states, kept = integrate(fields, sampler.starts(60, N_TRAJECTORIES, 2, draws), "dormand-prince")
    assert len(kept) > 50
    late = states[:, :, 130:]
    size = (late.amax(2) - late.amin(2)).amax(-1)  # (n, 9)
    median = size.median(1, keepdim=True).values
    settled = (size / median - 1).abs() < 0.1
    assert float(settled.float().mean()) > 0.75  # weak attraction takes longer than ten units of time
    assert float((size > 0.2).float().mean()) > 0.97  # hardly any comes to rest


def test_smooth_fields_have_a_gaussian_covariance() -> None:
    sampler = SmoothPrior(n_features=16, length=(1.0, 1.0))
    fields = sampler.fields(6000, 1, seeded(9))
    x = torch.tensor([0.0, 0.7, 1.5]).expand(6000, 3)[..., None]
    linear = Fields(fields.coefficients)(x)
    values = (fields(x) - linear)[..., 0].numpy()
    correlation = np.corrcoef(values.T)[0]
    assert correlation == pytest.approx(np.exp(-0.5 * np.array([0.0, 0.7, 1.5]) ** 2), abs=0.04)


def test_terms_are_as_many_as_stated() -> None:
    sampler = TermsPrior(functions=("sine", "hill", "exponential"), max_terms=2)
    ridge = sampler.fields(3000, 2, seeded(10)).ridge
    own = (
        torch.stack([ridge.amplitude[:, :3, 0], ridge.amplitude[:, 3:, 1]], 1) != 0
    )  # (n, equation, function)
    count = own.sum(-1)  # (n, equation)
    assert int(count.max()) == 2 and int(own.sum((1, 2)).min()) == 1
    assert ridge.functions == ("sine", "hill", "exponential") * 2
    alone = (ridge.factor[..., 0] == 1).float().mean()
    assert float(alone) == pytest.approx(0.6, abs=0.02)


# --- integration ---


def reference(fields: Fields, start: torch.Tensor, t: np.ndarray) -> np.ndarray:
    def rhs(_: float, y: np.ndarray) -> np.ndarray:
        return fields(torch.from_numpy(y)[None, None])[0, 0].numpy()

    found = solve_ivp(rhs, (0.0, 10.0), start.double().numpy(), "LSODA", t_eval=t, rtol=1e-9, atol=1e-11)
    return found.y.T


@pytest.mark.parametrize("name", ["paper", "trigonometric", "stiff"])
def test_accepted_trajectories_are_as_accurate_as_stated(name: str) -> None:
    """1e-4 of the range where float32 integrates, 1e-6 in float64."""
    draws = seeded(11)
    sampler = single(name)
    fields = sampler.fields(12, 2, draws)
    start = sampler.starts(12, N_TRAJECTORIES, 2, draws)
    t = SAMPLING_STEP * np.arange(N_SAMPLES)
    exact = None
    for dtype, bound in ((torch.float32, 1e-4), (torch.float64, 1e-6)):
        states, kept = integrate(
            fields.map(lambda tensor, dtype=dtype: tensor.to(dtype)), start.to(dtype), "dormand-prince"
        )
        own = int(kept[0])
        if exact is None:
            exact = reference(fields[own : own + 1], start[own, 0], t)
        error = np.abs(states[0, 0].double().numpy() - exact).max(0) / np.ptp(exact, axis=0)
        assert error.max() < bound


def test_inaccurate_systems_are_rejected_and_bounded_by_the_error_estimate() -> None:
    """x' = -rate x: the pair is unstable beyond 3.3 / 0.0125 = 265, and inaccurate well before."""
    rate = torch.tensor([1.0, 30.0, 150.0, 400.0])
    coefficients = torch.zeros(4, 4, 1)
    coefficients[:, 1, 0] = -rate
    start = torch.ones(4, N_TRAJECTORIES, 1)
    _, kept = integrate(Fields(coefficients), start, "dormand-prince")
    assert kept.tolist() == [0, 1]
    _, good = integrate(Fields(coefficients), start, "dormand-prince", compact=False)
    assert good.tolist() == [True, True, False, False]


@pytest.mark.parametrize("samples", [100, 600])
def test_samples_can_be_denser_over_the_same_span(samples: int) -> None:
    coefficients = torch.zeros(1, 4, 1)
    coefficients[0, 1, 0] = -0.5
    states, _ = integrate(Fields(coefficients), torch.ones(1, 9, 1), "dormand-prince", samples=samples)
    t = spacing(samples) * np.arange(samples)
    assert t[-1] == pytest.approx(9.95)
    np.testing.assert_allclose(states[0, 0, :, 0], np.exp(-0.5 * t), rtol=2e-5)


def test_fixed_shapes_keep_what_compaction_keeps() -> None:
    draws = seeded(12)
    sampler = single("sparse")
    fields = sampler.fields(200, 2, draws)
    start = sampler.starts(200, N_TRAJECTORIES, 2, draws)
    compact, kept = integrate(fields, start)
    fixed, good = integrate(fields, start, compact=False)
    assert good.nonzero()[:, 0].tolist() == kept.tolist()
    assert torch.equal(fixed[good], compact)


def test_a_block_of_fixed_size_is_full_or_says_how_short_it_is(short: Integration) -> None:
    cpu = torch.device("cpu")
    systems, found = generate_fixed("paper", 2, 30, 300, 5, cpu, short)
    assert len(systems) == 30 <= int(found)
    assert bool(systems.moving().all()) and float(systems.states.abs().max()) < BOUND
    again, few = generate_fixed("paper", 2, 30, 40, 5, cpu, short)
    assert int(few) < 30
    torch.testing.assert_close(again.states[: 30 - int(few)], again.states[int(few) :][: 30 - int(few)])


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_makes_systems_that_move(name: str, short: Integration) -> None:
    systems = generate(name, 3 if name in ("paper", "stiff") else 2, 6, 13, short)
    assert len(systems) == 6 and systems.states.dtype == torch.float32
    assert float(systems.moving().float().mean()) > 0.5
    # the field is that of the trajectories: central differences at the paper's spacing
    slopes = (systems.states[:, :, 2:] - systems.states[:, :, :-2]) / (2 * SAMPLING_STEP)
    field = systems.fields(systems.states[:, :, 1:-1])
    error = (slopes - field).abs().flatten(1).median(1).values
    assert float((error / field.abs().flatten(1).mean(1).clamp(min=1e-3)).median()) < 0.02


def test_systems_with_function_terms_are_kept_in_files(tmp_path: Path, short: Integration) -> None:
    first = cached(tmp_path, "nonpolynomial", 1, 12, 1, short)
    again = cached(tmp_path, "nonpolynomial", 1, 12, 1, short)
    assert len(list(tmp_path.iterdir())) == 1
    assert fingerprint(first) == fingerprint(again)
    assert first.fields.ridge.functions == again.fields.ridge.functions
    finer = cached(tmp_path, "nonpolynomial", 1, 12, 1, replace(short, samples=31))
    assert finer.states.shape[2] == 31 and len(list(tmp_path.iterdir())) == 2


# --- while training goes on ---

STREAMED = {"pools": [["trigonometric", 1, 12], ["paper", 1, 6]], "refresh": 4, "steps": 10, "samples": 30}


def test_a_stream_gives_the_same_systems_wherever_it_starts(short: Integration) -> None:
    preset = read_preset("ci", STREAMED)
    cpu = torch.device("cpu")
    first, later = Stream(preset, cpu), Stream(preset, cpu)
    blocks = [fingerprint(first.at(step, 10)[1]) for step in range(10)]
    assert len(set(blocks)) == 3 and blocks[0] == blocks[3] != blocks[4]
    assert fingerprint(later.at(9, 10)[1]) == blocks[9]
    other = Stream(replace(preset, seed=1), cpu)
    assert fingerprint(other.at(0, 4)[1]) != blocks[0]
    assert "made" in first.report() and first.seconds_per_step() > 0


def test_a_stream_of_fixed_shapes_fills_its_blocks(
    monkeypatch: pytest.MonkeyPatch, short: Integration
) -> None:
    monkeypatch.setattr("training.source._TRIAL", 200)
    stream = Stream(read_preset("ci", STREAMED), torch.device("cpu"), fixed=True)
    block = stream.at(0, 4)
    assert {dim: len(systems) for dim, systems in block.items()} == {1: 18}
    assert "repeated" not in stream.report()


def test_processes_make_the_systems_that_one_makes(
    forks: ForkServerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        torch.multiprocessing, "get_context", lambda method: forks
    )  # sooner there than by spawn
    preset = read_preset("ci", {"pools": [["paper", 1, 12], ["sparse", 2, 8]], "makers": 2, "samples": 30})
    cpu = torch.device("cpu")
    made = made_by_processes(preset, cpu)
    for number, (prior, dim, n) in enumerate(preset.pools):
        seed = _STREAM_SEED + 1000 * number
        expected = generate_single(prior, dim, n, seed, Integration(30), cpu, at_once=3 * n)
        assert fingerprint(made[dim]) == fingerprint(expected[expected.moving()])
    assert 0 < len(made[2]) <= 8 and bool(made[2].moving().all())


def test_validation_is_the_same_for_every_seed_and_unlike_training(tmp_path: Path) -> None:
    preset = read_preset("ci", {"pools": [["paper", 1, 8]], "validation": 8})
    systems, digest = held_out(preset, tmp_path)
    assert digest == fingerprint(systems[1])
    assert held_out(replace(preset, seed=5), tmp_path)[1] == digest
    assert held_out(replace(preset, seed=5, pools=(("sparse", 1, 8),)), tmp_path)[1] != digest
    assert generation.fingerprint(cached(tmp_path, "paper", 1, 8, 0)) != digest


# --- chaos ---


def flows(*systems: dict[tuple[int, str], float]) -> torch.Tensor:
    """Coefficients (n, m, 3) from terms ``{(equation, monomial): factor}``."""
    listed = Dictionary.polynomial(3, 3).names()
    out = torch.zeros(len(systems), len(listed), 3)
    for own, system in zip(out, systems, strict=True):
        for (equation, monomial), factor in system.items():
            own[listed.index(monomial), equation] = factor
    return out


def test_the_search_keeps_what_is_chaotic() -> None:
    """Sprott's case B (1994), among a cycle, a focus and an escape."""
    sprott_b = {(0, "x1 x2"): 1.0, (1, "x0"): 1.0, (1, "x1"): -1.0, (2, "1"): 1.0, (2, "x0 x1"): -1.0}
    cycle = {(0, "x1"): 1.0, (1, "x0"): -1.0, (1, "x1"): 1.0, (1, "x0^2 x1"): -1.0, (2, "x2"): -1.0}
    focus = {(0, "x1"): 1.0, (1, "x0"): -1.0, (1, "x1"): -0.1, (2, "x2"): -1.0}
    escape = {(0, "x0^2"): 1.0, (1, "1"): 1.0, (2, "x0"): 1.0}
    found, size, unit = chaotic(flows(cycle, sprott_b, focus, escape), 0.01, seeded(3))
    assert torch.equal(found, flows(sprott_b))
    assert size.shape == (1, 3) and 0.5 < float(size.min()) < float(size.max()) < 5.0
    assert 0.2 < float(unit) < 2.0


def test_flows_of_the_search_are_sparse_and_quadratic() -> None:
    drawn = ChaoticPrior()._random(400, 3, seeded(1))
    used = drawn != 0
    assert int(used.sum((1, 2)).min()) == 5 and int(used.sum((1, 2)).max()) == 8
    assert bool(used.any(1).all())
    assert not bool(used[:, exponents(3).sum(1) > 2].any())


def test_units_of_chaotic_flows_are_their_size_and_pace() -> None:
    """The same field: of states in units of their size, and fast enough to show so many turns."""
    family = ChaoticPrior(shortest=20.0, longest=20.0)
    own = flows({(0, "x1 x2"): 2.0, (1, "x0"): 3.0, (2, "1"): 1.0, (2, "x0 x1"): -1.0})
    size, unit = torch.tensor([[2.0, 0.5, 4.0]]), torch.tensor([0.3])
    scaled = Fields(family._scaled(own, size, unit, seeded()))
    z = torch.randn(1, 7, 3, generator=seeded(2))
    expected = Fields(own)(z * size) / size * 0.3 * 20.0 / family.span
    torch.testing.assert_close(scaled(z), expected, rtol=1e-5, atol=1e-5)


def test_a_search_without_success_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "_ROUNDS", 1)
    monkeypatch.setattr(chaos, "_DRAWN", 50)
    with pytest.raises(RuntimeError, match="expected 3 chaotic flows in 2 dimensions, found 0 among 50"):
        ChaoticPrior(terms=(2, 3)).fields(3, 2, seeded())
