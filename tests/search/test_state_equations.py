"""Right-hand sides of single states, and fields made of them."""

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.state_equations import StateEquation, combined, state_equations_of, together


def test_terms_that_others_explain_are_left_out():
    states = np.random.default_rng(0).uniform(0.2, 1.5, (200, 2))
    rows = [([1, 0], 0, 0, 1.0), ([2, 0], 0, 0, 1.0), ([1, 0], 0, 0, 1.0)]
    rates = 3.0 * states[:, 0] - states[:, 0] ** 2
    side = StateEquation.regressed([(row, ()) for row in rows], states, rates)
    assert side.terms.names() == ["x0", "x0^2"]
    np.testing.assert_allclose(side.coefficients, [3.0, -1.0], rtol=1e-12)
    assert StateEquation.regressed([(([0, 0], Kind.LOG, 0, 1.0), ())], -states, rates) is None
    assert StateEquation.regressed([], states, rates) is None


def test_sides_together_share_equal_numbers():
    terms = Dictionary([[1, 0], [0, 1]], [0, 4], [0, 0], [1.0, 2.0])
    first = StateEquation(terms, np.array([1.0, -2.0]), ((1, 0),))
    item = together([first, first.subset([1], [3.0], 0.0)], np.zeros((1, 2)), Stage.PROPOSED, "guesses")
    assert item.coefficients.tolist() == [[1.0, 0.0], [-2.0, 3.0]]
    assert item.numbers.tolist() == [2.0]
    assert item.origin.text() == "guesses: hill x0"
    for side, expected in zip(state_equations_of(item), ([1.0, -2.0], [3.0]), strict=True):
        assert side.coefficients.tolist() == expected
    assert state_equations_of(item)[1].free == ((0, 0),)


def test_one_state_at_a_time_is_replaced():
    costs = {"a": 3.0, "b": 1.0, "c": 2.0, "d": 0.5}
    seen = []

    def fit(sides):
        seen.append("".join(sides))
        return sum(costs[side] for side in sides)

    combined([["a", "b"], ["c", "d"]], ["a", "c"], 5.0, fit)
    assert min(seen, key=lambda s: sum(costs[k] for k in s)) == "bd"
    assert seen[:3] == ["ac", "ac", "bc"]  # the best of all first, then about the given ones
