"""The analysis benchmark: fields with known zeros, what counts as found, resuming, the parts' summary."""

import csv

import numpy as np
import pytest
import sympy

from benchmarks.analysis import __main__ as command
from benchmarks.analysis import cubics, equilibria
from benchmarks.parts import Figure, Part


def test_elimination_agrees_with_a_resultant():
    """Nine zeros; their y coordinates are the roots of the resultant that sympy eliminates x to."""
    for number in (0, 1):
        cubic = cubics.random_cubic(number)
        zeros = cubics.complex_zeros(cubic.coefficients)
        assert len(zeros) == 9
        x, y = sympy.symbols("x y")
        f = [
            sum(sympy.Rational(float(c)) * x**i * y**j for (i, j), c in zip(cubics.POWERS, row, strict=True))
            for row in cubic.coefficients
        ]
        roots = [complex(root) for root in sympy.Poly(sympy.resultant(*f, x), y).nroots(n=30, maxsteps=200)]
        np.testing.assert_allclose(
            np.sort_complex(zeros[:, 1].round(9)), np.sort_complex(np.round(roots, 9)), atol=1e-7
        )


def test_products_of_lines_vanish_where_these_cross():
    cubic = cubics.lines_cubic(3)
    assert cubic.zeros.shape == (9, 2)
    field = cubic.field()
    size = np.abs(field(cubics.BOX.sobol(64))).max()
    assert np.abs(field(cubic.zeros)).max() < 1e-12 * size * (1 + np.abs(cubic.zeros).max() ** 3)
    plain = type(field)(lambda x: field(x), 2)
    x = cubics.BOX.sobol(8)
    np.testing.assert_allclose(field.jacobian(x), plain.jacobian(x), rtol=1e-8, atol=1e-8 * size)


def test_found_missed_and_extra_zeros_are_counted():
    true = np.array([[0.0, 0.0], [1.0, 1.0]])
    outside = np.array([[9.0, 9.0]])
    x = np.array([[1e-9, 0.0], [0.5, 0.5], [9.0, 9.0]])
    assert equilibria.compare(x, true, np.concatenate([true, outside])) == {"true": 2, "found": 1, "extra": 1}
    assert equilibria.compare(np.empty((0, 2)), true, true) == {"true": 2, "found": 0, "extra": 0}


def test_figures_of_a_miss():
    row = dict.fromkeys(equilibria.COUNTS, 0) | {"task": "t", "kind": "random", "seconds": 0.1}
    row |= {"fields": 50, "unsolved": 1, "true": 100, "found": 99, "missed_balanced": 1}
    values = {figure.quantity: (figure.value, figure.reached) for figure in equilibria.figures([row])}
    assert values["cubics, random: recall of zeros"] == (0.99, "no")
    assert values["cubics, random: share of fields with a miss and a balanced check"] == (1 / 49, "no")
    assert values["cubics, random: false zeros"] == (0, "yes")


CALLS = []


def _square(number):
    CALLS.append(number)
    return {"square": number**2}


TOY = Part(
    "toy",
    "1",
    lambda: {f"task {n}": (n,) for n in range(3)},
    _square,
    lambda rows: [Figure("sum", sum(row["square"] for row in rows), goal="<= 4", n=len(rows))],
)


PART = TOY  # as the file of a part has it


def test_runs_resume_and_parts_keep_their_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "PARTS", {"toy": __name__, "equilibria": "benchmarks.analysis.equilibria"})

    def run(*options):
        return command.main([*options, "--out", str(tmp_path)])

    CALLS.clear()
    assert run("--only", "toy", "--limit", "2") == 0
    assert sorted(CALLS) == [0, 1]
    run("--only", "toy")
    assert sorted(CALLS) == [0, 1, 2]
    run("--only", "equilibria", "--limit", "1")
    run("--only", "toy", "--fresh")
    assert sorted(CALLS) == [0, 0, 1, 1, 2, 2]
    with (tmp_path / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["part"] for row in rows] == ["toy"] + ["equilibria"] * 3
    assert (rows[0]["value"], rows[0]["goal"], rows[0]["reached"]) == ("5", "<= 4", "no")
    assert rows[1]["reached"] == "yes"
    with (tmp_path / "equilibria.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["task"], row["true"], row["found"], row["extra"]) == ("closed form: logistic", "2", "2", "0")


def test_goals():
    assert [Figure("q", 1.0, goal=goal).reached for goal in ("", "<= 1", "< 1", ">= 1", "== 0")] == [
        "",
        "yes",
        "no",
        "yes",
        "no",
    ]
    assert equilibria.tasks()["seconds: sindy on bautin"] == ("seconds", "sindy", "bautin")
    with pytest.raises(SystemExit):
        command.main(["--only", "nothing"])
