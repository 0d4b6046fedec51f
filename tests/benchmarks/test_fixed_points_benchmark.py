"""The benchmark of fixed points: its cases, what it matches and counts, its printed rows."""

import csv
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

from benchmarks.fixed_points import __main__ as command
from benchmarks.fixed_points import learned, paper
from benchmarks.odebench.reference_rows import true_field
from fim_dynsys.analyze import IndexCheck, Kind
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.regions import Region


@pytest.fixture(scope="module")
def cases():
    """The first three systems."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learned, "SYSTEMS", 3)
        learned.known_regions.cache_clear()
        yield learned.known_regions()
    learned.known_regions.cache_clear()


def test_cases_follow_the_stated_rule(cases):
    assert [case.problem.system for case in cases] == ["24", "24", "25", "25", "26", "26"]
    assert [case.ic for case in cases] == [1, 2] * 3
    for case in cases:
        path = case.problem.references[case.ic - 1]
        margin = (path.min(axis=0) - case.region.low) / case.region.size
        np.testing.assert_allclose(margin, 0.1 / 1.2, rtol=1e-9)
        assert case.truth.index_check is IndexCheck.BALANCED
        assert np.abs(true_field(case.problem)(case.truth.x)).max() < 1e-9


@pytest.mark.parametrize("system", ["29", "31"])
def test_degenerate_and_continuous_sets_are_left_out(system):
    """A dipole-like fixed point, and a line of them."""
    assert not learned._is_clear(learned._known(paper.problem_of(system), 1).truth)


def points(x, kinds, support=None, slow=0):
    """What `fixed_points` returns, as far as matching reads it."""
    x = np.array(x, dtype=float).reshape(-1, 2)
    x = np.concatenate([x, np.zeros((slow, 2))])
    return SimpleNamespace(
        x=x,
        kind=np.array([*kinds, *[Kind.SLOW] * slow], dtype=object),
        is_root=np.arange(len(x)) < len(kinds),
        support=np.ones(len(x)) if support is None else np.array(support),
        residual=np.zeros(len(x)),
    )


def case(truth):
    return SimpleNamespace(region=Region([0, 0], [10, 100]), truth=truth)


TRUTH = points([[2, 20], [8, 80]], [Kind.STABLE_NODE, Kind.SADDLE])


def test_matching_is_in_units_of_the_region_and_one_to_one():
    found = points([[2.5, 20], [2.1, 22], [5, 50]], [Kind.SADDLE, Kind.STABLE_NODE, Kind.SADDLE], slow=1)
    first, second, *extra = learned.matched(case(TRUTH), found)
    assert first["found"] == [2.1, 22]
    assert first["error"] == pytest.approx(np.hypot(0.01, 0.02))
    assert "error" not in second
    assert [line["found"] for line in extra] == [[2.5, 20], [5, 50]]


def test_near_pairs_are_not_given_up_for_far_ones():
    """Least total distance alone would pair the second found zero with the first true one."""
    truth = points([[1, 10], [1.5, 10]], [Kind.SADDLE] * 2)
    found = points([[1.49, 10], [9, 90]], [Kind.SADDLE] * 2)
    lines = learned.matched(case(truth), found)
    assert [line.get("found") for line in lines] == [None, [1.49, 10], [9, 90]]


def test_nothing_found_and_failures():
    assert learned.matched(case(TRUTH), None) == [
        {"true": [2, 20], "true_kind": "stable node"},
        {"true": [8, 80], "true_kind": "saddle"},
    ]


@dataclass(frozen=True)
class Row:
    """A field that depends on nothing, or an exception."""

    name: str
    field: Any = None
    version: str = "1"
    sees_truth: ClassVar[bool] = False

    def infer(self, view):
        if self.field is None:
            raise RuntimeError("no field")
        return self.field


def test_tables_count_and_pool(cases, tmp_path):
    chosen = [c for c in cases if c.problem.system == "25"]
    damped = Row("damped", CallableField(lambda x: np.stack([x[:, 1], -x[:, 0] - 0.1 * x[:, 1]], 1), 2))
    records = learned.run([damped, Row("broken")], chosen, [0, 1, 2], tmp_path)
    trials, listed = learned.trial_table(records), learned.point_table(records)
    assert len(trials) == 2 * 2 * (1 + 3)
    own = trials[trials["model"] == "damped"]
    assert (own[["true", "found", "matched", "kind_right"]] == 1).all(axis=None)
    assert set(trials[trials["model"] == "broken"]["status"]) == {"RuntimeError"}
    summary = learned.summarise(trials, listed)
    whole = summary[summary["true_kind"] == "all"].set_index(["model", "sigma"])
    assert whole.loc[("damped", 0.05), ["precision", "recall", "kind_right", "true"]].tolist() == [1, 1, 1, 6]
    assert whole.loc[("broken", 0.05), ["recall", "failures"]].tolist() == [0, 6]
    assert np.isnan(whole.loc[("broken", 0.05), "precision"])
    again = learned.run([damped, Row("broken")], chosen, [0, 1, 2], tmp_path)
    assert [r["infer_seconds"] for r in again] == [r["infer_seconds"] for r in records]


def test_kinds_left_open_are_counted_apart():
    found = points([[2, 20], [8, 80]], [Kind.INDETERMINATE, Kind.SADDLE])
    record = dict.fromkeys(
        (*learned.LABELS, "slow", "index_check", "infer_seconds", "search_seconds", "message")
    )
    record |= {"sigma": 0.0, "model": "m", "version": "1", "status": "SUCCESS", "search_seconds": 1.0}
    record["points"] = learned.matched(case(TRUTH), found)
    trials, listed = learned.trial_table([record]), learned.point_table([record])
    assert trials.loc[0, ["matched", "kind_right", "kind_open"]].tolist() == [2, 1, 1]
    summary = learned.summarise(trials, listed).set_index("true_kind")
    assert summary.loc["all", ["kind_right", "kind_open"]].tolist() == [0.5, 0.5]
    assert summary.loc["stable node", ["kind_right", "kind_open"]].tolist() == [0, 1]


def test_context_of_the_paper():
    for system in paper.SYSTEMS:
        problem = paper.problem_of(system)
        observed = paper.context(problem)
        assert observed.x.shape == (1, 256, 2)
        steps = np.diff(observed.t[0]) / (problem.t[1] - problem.t[0])
        assert set(steps.round(6)) <= {2.0, 3.0}
        clean = problem.references[0][np.searchsorted(problem.t, observed.t[0])]
        away = np.abs(clean).min(axis=1) > 1e-3
        assert 0.025 < (observed.x[0][away] / clean[away] - 1).std() < 0.035


def test_printed_true_rows_are_the_true_fixed_points():
    """To the three digits printed; class and largest real part too."""
    for system, _, x, stability, growth, _ in paper.published()["true"]:
        field = true_field(paper.problem_of(system))
        assert np.abs(field(x)).max() < 5e-3
        values = np.linalg.eigvals(field.jacobian(x))
        assert abs(values.real.max() - growth) < 2e-3
        assert ("spiral" in stability or "centre" in stability) == bool(np.abs(values.imag).max() > 0)
    printed = np.array([row[2] for row in paper.published()["inferred"] if row[1] == "FIM-ODE (paper)"])
    nodes = np.linspace(-6, 6, 40)
    on_nodes = (np.abs(printed[:, :, None] - nodes).min(axis=2) < 1e-3).all(axis=1)
    assert (len(printed), on_nodes.sum()) == (12, 9)


def test_command_writes_its_tables(cases, tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "SYSTEMS", {"26": "Lotka-Volterra competition"})
    options = ["--models", "sindy", "--limit", "1", "--seeds", "0", "--workers", "1"]
    assert command.main([*options, "--out", str(tmp_path)]) == 0
    with (tmp_path / "summary.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["true_kind"] for line in lines] == ["all", "centre-like"] * 2
    table = pd.read_csv(tmp_path / "paper.csv")
    assert list(table.columns) == list(paper.COLUMNS)
    true = table[table["model"] == "true"]
    np.testing.assert_allclose(sorted(true["max_re_lambda"]), [-1, -1, np.sqrt(2) - 1, 3], atol=1e-5)
    assert (table[table["model"] == "sindy"]["residual"] < 1e-8).all()
    assert (tmp_path / "paper.png").read_bytes()[:4] == b"\x89PNG"
