"""Every analysis ends within its budget on fields that no one would choose, and says what it did not do."""

import time
import warnings

import numpy as np
import pytest

from fim_dynsys import analyze
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.family import FieldFamily
from fim_dynsys.regions import Region

BOX = Region([-1.0, -1.0], [1.2, 1.2])
FIELDS = {
    "zero": np.zeros_like,
    "constant": np.ones_like,
    "line of equilibria": lambda x: x * [-1.0, 0.0],
    "nearly a line of equilibria": lambda x: x * [-1.0, 0.0] + [0.0, 1e-9],
    "centre": lambda x: x[:, ::-1] * [1.0, -1.0],
    "jumps": lambda x: -np.sign(x - 0.1),
    "turns at a jump": lambda x: np.where(x > 0.03, 1.0, -1.0) * x[:, ::-1],
    "not a number on one side": lambda x: np.where(x[:, :1] > 0, np.nan, -x),
    "never a number": lambda x: x * np.nan,
    "huge": lambda x: 1e300 * x,
    "tiny": lambda x: -1e-300 * x,
    "explosive": lambda x: np.sinh(300.0 * x),
    "infinite on a cross": lambda x: 1.0 / np.where(np.abs(x) < 0.3, 0.0, x),
    "finer than any grid": lambda x: np.sin(1e6 * x),
}
SMALL = 5_000


def family(f):
    return FieldFamily.from_callable(lambda x, p: f(x) + 0.0 * p, 2, region=BOX)


ANALYSES = {
    "fixed_points": lambda field, f: analyze.fixed_points(field, BOX, budget=SMALL),
    "nullclines": lambda field, f: analyze.nullclines(field, BOX, resolution=32, budget=SMALL),
    "limit_cycles": lambda field, f: analyze.limit_cycles(field, BOX, n_seeds=8, budget=SMALL),
    "poincare": lambda field, f: analyze.poincare(field, [0.5, 0.5], (0, 0.1), budget=SMALL),
    "lyapunov": lambda field, f: analyze.lyapunov(field, [0.5, 0.4], n_pieces=4, budget=SMALL),
    "manifolds": lambda field, f: analyze.manifolds(field, BOX, budget=SMALL),
    "basins": lambda field, f: analyze.basins(field, BOX, resolution=4, n_sample=8, budget=SMALL),
    "continuation": lambda field, f: analyze.continuation(family(f), [0.0, 0.0], (0, 1), budget=SMALL),
    "ensemble": lambda field, f: analyze.ensemble(
        analyze.fixed_points, [field, field], BOX, budget=SMALL // 2
    ),
}
# A Jacobian by differences counts as one point and takes eight values; scales and the last round, which is
# not cut short, come on top, as do the searches for equilibria and cycles before basins and manifolds.
MOST = {"lyapunov": 500_000}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("analysis", ANALYSES)
def test_ends_within_its_budget(analysis, name):
    f, points = FIELDS[name], 0

    def counting(x):
        nonlocal points
        points += len(x)
        with np.errstate(all="ignore"):
            return f(x)

    field = CallableField(counting, 2, region=BOX)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = ANALYSES[analysis](field, counting)
        except ValueError as error:  # no equilibrium to start from
            assert analysis == "continuation" and "near an equilibrium" in str(error)
            return
    assert points <= MOST.get(analysis, 200_000)
    assert str(result)
    if result.effort.points > result.effort.budget:
        assert result.effort.exhausted


def test_three_coupled_phases_nearly_on_a_line_of_equilibria():
    """The surface of the box passes so near the line that its degree was refined without end."""
    phases = CallableField(lambda x: 1e-6 + np.sin(x[:, None] - x[:, :, None]).sum(axis=2) / 3, 3)
    found = analyze.fixed_points(phases, [(0.0, 2 * np.pi)] * 3, budget=30_000)
    assert found.effort.exhausted and found.index_check == "not_run"


SLIDING = CallableField(lambda x: np.stack([np.where(x[:, 0] > 0, -1.0, 1.0), -x[:, 1]], axis=1), 2)
SEARCHES = {
    "basins": lambda **limit: analyze.basins(SLIDING, [(-2, 2)] * 2, resolution=12, n_sample=32, **limit),
    "limit_cycles": lambda **limit: analyze.limit_cycles(SLIDING, [(-2, 2)] * 2, **limit),
    "lyapunov": lambda **limit: analyze.lyapunov(SLIDING, [1.0, 1.0], **limit),
    "poincare": lambda **limit: analyze.poincare(SLIDING, [1.0, 1.0], (1, 0.0), t_max=1e6, **limit),
}


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.SimulationWarning")
@pytest.mark.parametrize("search", SEARCHES)
def test_a_time_limit_holds_inside_the_integrations(search):
    """Where the field jumps and trajectories slide, steps shrink to nothing and one window takes minutes."""
    began = time.perf_counter()
    found = SEARCHES[search](max_seconds=0.5)
    assert time.perf_counter() - began < 20.0
    if search == "limit_cycles":  # which recognises the sliding, and ends by itself
        assert "x0 = 0" in repr(found)
    else:
        assert found.effort.exhausted


def food_chain(x):
    """Hastings and Powell, Ecology 72 (1991) 896: chaos, and poles at negative populations."""
    prey, eater, top = x.T
    first, second = 5.0 * prey / (1 + 3.0 * prey) * eater, 0.1 * eater / (1 + 2.0 * eater) * top
    return np.stack([prey * (1 - prey) - first, first - second - 0.4 * eater, second - 0.01 * top], axis=1)


def test_no_single_path_takes_the_whole_budget():
    """By count, with default budgets: what runs into a pole or slides along a jump ends, the rest go on."""
    points = 0

    def counting(x):
        nonlocal points
        points += len(x)
        return food_chain(x)

    box = [(0, 1), (0, 0.5), (5, 11)]
    found = analyze.limit_cycles(CallableField(counting, 3), box, n_seeds=4)
    assert points < 12_000_000 and not found.effort.exhausted  # 1.0 million, each with six for the Jacobian
    assert sum(found.seed_ends.values()) == 2 * 4  # each start, in both directions of time
    image = analyze.basins(SLIDING, [(-2, 2)] * 2, resolution=4, n_sample=8)
    assert image.out_of_steps == 24 and (image.labels == analyze.BasinLabel.UNDECIDED).all()
    assert image.effort.points < 24 * 200_000 and "24 trajectories out of steps" in str(image)
