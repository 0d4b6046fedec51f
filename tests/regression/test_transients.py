"""Steps of fits and rollouts where the state moves far faster than it does on average."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regression.observed import STEP_LIMIT, observe, transient_limits
from fim_dynsys.regression.rollout import rollout
from fim_dynsys.search.problem import Search


def hindmarsh_rose(_, s):
    fast = s[1] - s[0] ** 3 + 3.0 * s[0] ** 2 - s[2] + 3.0
    return [fast, 1.0 - 5.0 * s[0] ** 2 - s[1], 0.006 * (4.0 * (s[0] + 1.6) - s[2])]


TERMS = {
    (0, 0, 0): (3.0, 1.0, 0.0384),
    (1, 0, 0): (0.0, 0.0, 0.024),
    (0, 1, 0): (1.0, -1.0, 0.0),
    (0, 0, 1): (-1.0, 0.0, -0.006),
    (2, 0, 0): (3.0, -5.0, 0.0),
    (3, 0, 0): (-1.0, 0.0, 0.0),
}


def test_the_true_field_of_a_bursting_neuron_is_closer_to_its_record():
    """Steps of one length miss it by a tenth of its size; shorter ones in its spikes by a hundredth."""
    t = np.linspace(0.0, 60.0, 200)
    x = solve_ivp(hindmarsh_rose, (0, 60), [-1.0, 0.0, 2.8], "Radau", t, rtol=1e-10, atol=1e-12).y.T
    observations = observe([(t, x)])
    terms = Dictionary.polynomial(3, 3)
    given = np.array([TERMS.get(tuple(powers), (0.0, 0.0, 0.0)) for powers in terms.exponents.tolist()])
    dictionary, coefficients = terms.rescaled(given, 1.0 / observations.scale, 1.0 / observations.time_unit)
    start = (x[0] / observations.scale)[None, None]
    path = Search(observations, dictionary).paths(coefficients[None], start)[0, 0]
    alike = rollout(dictionary, coefficients[None], start, observations.t, STEP_LIMIT)[0, 0]
    errors = [np.abs(own - observations.z[0]).max() for own in (path, alike)]
    assert errors[0] < 0.2 * errors[1] and errors[1] > 0.05
    assert observations.padded_limits.min() < 0.5 * STEP_LIMIT


def test_smooth_and_noisy_records_have_steps_of_one_length():
    t = np.linspace(0.0, 20.0, 200)
    wave = np.stack([np.sin(t), np.cos(t)], 1) * np.sqrt(2.0)
    noisy = wave + 0.3 * np.random.default_rng(0).standard_normal(wave.shape)
    for z, level in ((wave, 0.0), (noisy, 0.3)):
        assert (transient_limits(t, z, np.full(2, level)) == STEP_LIMIT).all()


def test_a_jump_has_a_step_for_each_part_of_it():
    t = np.arange(40) * 0.1
    z = np.where(t > 2.05, 1.5, 0.0)[:, None]
    limits = transient_limits(t, z, np.zeros(1))
    assert (limits[19:22] == pytest.approx(0.1 / 10)) and (limits[:19] == STEP_LIMIT).all()
    assert (limits[22:] == STEP_LIMIT).all()
