"""Terms with no factor in common above and below: ``k^2 / k`` is ``k``, ``k / k^0.5`` is ``k^0.5``."""

from dataclasses import replace

import numpy as np

from fim_dynsys.fields.functions import Kind
from fim_dynsys.fields.terms import Dictionary, union
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.functions.families import INNER, SECOND


def reduced(item: Candidate) -> Candidate:
    """The candidate with each power, or inverse, of a state times the state itself as one power.

    A power that is then a whole positive one is a monomial; equal terms are one. Powers whose exponent is
    fitted and shared with other terms stay as they are: it would be another number in each.
    """
    terms = item.dictionary
    labels = {(term, slot): k for term, slot, k in item.labelled}
    used = list(labels.values())
    every = np.arange(len(terms))
    factor = terms.exponents[every, terms.coordinate]
    inverse = (terms.kind == Kind.INVERSE) & (terms.second == 0.0)
    power = ((terms.kind == Kind.POWER) | inverse) & (terms.partner < 0) & (factor > 0)
    for term in np.flatnonzero(power).tolist():
        fitted = (term, SECOND) in labels and (inverse[term] or used.count(labels[term, SECOND]) > 1)
        power[term] = not fitted and (term, INNER) not in labels
    if not power.any() or item.restriction is not None:
        return item
    exponents, numbers = terms.exponents.copy(), [part.copy() for part in terms.numbers]
    kind, coordinate, coefficients = terms.kind.copy(), terms.coordinate.copy(), item.coefficients.copy()
    inner, second, _ = numbers
    second[inverse & power] = -1.0
    for term in np.flatnonzero(power).tolist():
        state = terms.coordinate[term]
        second[term] += factor[term]
        coefficients[term] *= inner[term] ** -float(factor[term])
        exponents[term, state] = 0
        if (term, SECOND) not in labels and second[term] >= 0.0 and second[term] == round(second[term]):
            coefficients[term] *= inner[term] ** second[term]
            exponents[term, state], kind[term], coordinate[term] = round(second[term]), 0, 0
            inner[term], second[term] = 1.0, 0.0
    rewritten = Dictionary(exponents, kind, coordinate, inner, second, terms.partner, numbers[2])
    distinct, (places,) = union([rewritten])
    sums = np.zeros((len(distinct), coefficients.shape[1]))  # inputs have no rates
    np.add.at(sums, places, coefficients)
    free = {(int(places[term]), slot): k for (term, slot), k in labels.items()}
    moved = replace(item, coefficients=sums, dictionary=distinct)
    return moved.in_use([(term, slot, k) for (term, slot), k in free.items()])
