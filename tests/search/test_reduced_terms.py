"""Terms whose quotient has a factor in common above and below."""

from dataclasses import replace

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.functions.reduction import reduced
from fim_dynsys.search.origins import Origin, Stage

X = np.random.default_rng(0).uniform(0.5, 2.0, (20, 2))


def candidate(rows, free=()):
    """Of terms (exponents, kind, inner, second) of the first state, with coefficients 1, 2, 3 and so on."""
    exponents, kind, inner, second = zip(*rows, strict=True)
    terms = Dictionary(np.array(exponents), kind, [0] * len(rows), inner, second)
    values = np.column_stack([np.arange(1.0, len(rows) + 1.0), np.ones(len(rows))])
    return Candidate(values, np.zeros((1, 2)), terms, Origin(Stage.GIVEN)).in_use(free)


def same_field(item, other):
    np.testing.assert_allclose(
        item.dictionary.evaluate(X) @ item.coefficients, other.dictionary.evaluate(X) @ other.coefficients
    )


def test_a_state_squared_over_itself_is_the_state_and_one_term_with_it():
    item = candidate(
        [([2, 0], Kind.INVERSE, 3.0, 0.0), ([1, 1], Kind.POWER, 1.0, -1.0), ([1, 0], Kind.MONOMIAL, 1.0, 0.0)]
    )
    short = reduced(item)
    same_field(item, short)
    assert sorted(short.dictionary.names(["x", "y"])) == ["x", "y"]


def test_powers_of_one_state_are_one_power():
    item = candidate([([1, 0], Kind.POWER, 2.0, -2.0 / 3.0), ([0, 1], Kind.INVERSE, 2.0, 0.0)])
    short = reduced(item)
    same_field(item, short)
    np.testing.assert_array_equal(short.dictionary.exponents, [[0, 0], [0, 1]])
    np.testing.assert_allclose(short.dictionary.second[0], 1.0 / 3.0)


def test_a_fitted_exponent_stays_fitted_and_a_shared_one_is_not_moved():
    rows = [([1, 0], Kind.POWER, 1.0, -0.4), ([2, 1], Kind.POWER, 1.0, -0.4)]
    alone = reduced(candidate(rows[:1], [(0, 1, 0)]))
    assert alone.labels == (0,) and alone.numbers[0] == 0.6
    shared = candidate(rows, [(0, 1, 0), (1, 1, 0)])
    assert reduced(shared) is shared


def test_inputs_have_no_rates():
    """The second coordinate is an input: coefficients have a column for the first alone."""
    item = candidate([([2, 0], Kind.INVERSE, 3.0, 0.0), ([0, 1], Kind.MONOMIAL, 1.0, 0.0)])
    driven = replace(item, coefficients=item.coefficients[:, :1], start=item.start[:, :1])
    same_field(driven, reduced(driven))
