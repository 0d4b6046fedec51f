"""Long records: searched in a part, fitted to all of their samples."""

import numpy as np

from fim_dynsys.models.fim_ode.own import FIMODE
from fim_dynsys.regression.observed import observe
from fim_dynsys.regression.windows import in_windows, split_at
from fim_dynsys.search import part, stages
from fim_dynsys.search.candidates import Candidate
from fim_dynsys.search.origins import Origin, Stage
from fim_dynsys.search.part import part_of
from fim_dynsys.search.pruning import refine
from tests.search.test_comparison import TERMS, TRUE, lorenz

SEVEN = [{name for name, values in TRUE.items() if values[state]} for state in range(3)]


def test_a_part_is_evenly_spaced_stretches_of_a_long_record(monkeypatch):
    t, x, _ = lorenz(1000, 0.1)
    whole = observe([(t, x)])
    assert part_of(whole) is None
    monkeypatch.setattr(part, "SEARCHED", 400)
    seen = part_of(whole)
    assert 300 < seen.n < 500 and seen.cut is None and len(seen.samples) > 1
    assert seen.origin[0][1] == 0 and seen.origin[-1][1] > 700
    for (_, first), (own, z) in zip(seen.origin, seen.samples, strict=True):
        np.testing.assert_array_equal(z, whole.samples[0][1][first : first + len(own)])
    slow = observe([(0.01 * t, lorenz(1000, 0.0)[1] * 0.0 + np.sin(0.01 * t)[:, None] * [1.0, 2.0, 3.0])])
    assert part_of(slow) is None  # it would not show one motion twice


def test_structures_are_sought_in_the_part_and_fitted_to_all_samples(monkeypatch):
    t, x, _ = lorenz(1000, 0.1)
    monkeypatch.setattr(part, "SEARCHED", 400)
    searched = []
    propose = stages.propose

    def seen(search, *given):
        searched.append(search.observations.n)
        return propose(search, *given)

    monkeypatch.setattr(stages, "propose", seen)
    field = FIMODE().fit(x, t=t).field_
    assert searched and max(searched) < 500
    terms = [set(own) for own in field.terms()]
    assert terms == SEVEN
    np.testing.assert_allclose(field(x[:50]), _true(x[:50]), rtol=0.03, atol=4.0)


def _true(x):
    return np.column_stack(
        [
            10.0 * (x[:, 1] - x[:, 0]),
            x[:, 0] * (28.0 - x[:, 2]) - x[:, 1],
            x[:, 0] * x[:, 1] - 8.0 / 3.0 * x[:, 2],
        ]
    )


def test_a_fit_that_begins_with_a_path_keeps_it_where_steps_are_shortened():
    t, x, true = lorenz(1000, 0.2)
    whole = observe([(t, x)])
    scaled = true * np.prod(whole.scale**TERMS.exponents, axis=1)[:, None] * whole.time_unit / whole.scale
    candidate = Candidate(scaled, whole.start, TERMS, Origin(Stage.GIVEN)).in_use()
    nodes = np.concatenate(whole.path)
    left = []
    for length in (8.0, 16.0, 16.0):
        seen = in_windows(whole, length)
        candidate, fit = refine(seen, candidate, split_at(seen, nodes), (1,))
        nodes = np.concatenate(fit.paths)
        left.append(float(np.mean(candidate.variance / whole.noise_variance)))
    assert left[2] < 1.001 * left[1] and fit.iterations <= 4
