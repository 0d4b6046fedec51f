"""The frame of a field: found out once, shared, and the field itself never written."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from fim_dynsys.fields.affine import AffineField
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.frame import Frame, Given
from fim_dynsys.fields.posterior import PosteriorField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.regions import Region
from fim_dynsys.trajectories.container import Trajectories

POINTS = np.array([[0.3, -0.2], [1.5, 0.7]])


def rotation(x):
    return np.stack([x[:, 1], -x[:, 0]], axis=1)


@pytest.fixture
def circle():
    t = np.linspace(0, 6, 60)
    return Trajectories.from_arrays(np.column_stack([np.cos(t), -np.sin(t)]), t)


def linear(**parts):
    return DictionaryField(Dictionary.polynomial(2, 1), np.array([[0, 0], [0, -1], [1, 0.0]]), **parts)


def asked(field):
    """Everything that is found out about a field when first asked for."""
    scales = field.scales
    return field.region, field.frame.length, scales.speed, scales.time, field.context, field.support(POINTS)


@pytest.mark.parametrize("part", ["data", "region", "nothing"])
@pytest.mark.parametrize("outer", [False, True])
def test_nothing_that_is_asked_of_a_field_is_written_to_it(circle, part, outer):
    parts = {"data": {"context": circle}, "region": {"region": Region([-2, -2], [2, 2])}, "nothing": {}}
    field = CallableField(rotation, 2, **parts[part])
    field = AffineField(field, [2.0, -0.5], [1.0, 3.0], 10.0) if outer else field
    before = dict(vars(field))
    asked(field)
    assert vars(field).keys() == before.keys()
    assert all(vars(field)[name] is value for name, value in before.items())
    with pytest.raises(FrozenInstanceError):
        field.frame.given = Given()


def test_fields_of_the_same_data_share_what_was_found_out(circle):
    field = linear(context=circle)
    band = PosteriorField.of(field, np.zeros((2, 3, 3)))
    draw = band.draws(1)[0]
    assert band.frame is field.frame
    assert draw.frame.smoothed is field.frame.smoothed
    assert draw.scales is field.scales


def test_the_speed_on_a_region_is_that_of_each_field():
    field = linear(region=Region([-2, -2], [2, 2]))
    faster = DictionaryField(field.dictionary, 3.0 * field.coefficients, frame=field.frame)
    assert faster.scales.speed == pytest.approx(3.0 * field.scales.speed)
    assert faster.region is field.region


def test_smoothed_observations_in_other_units(circle):
    inner = CallableField(rotation, 2, context=circle)
    outer = AffineField(inner, [2.0, -0.5], [1.0, 3.0], 10.0)
    (path,), slopes, span = outer.frame.smoothed
    (inside,), rates, time = inner.frame.smoothed
    assert path == pytest.approx(np.array([1.0, 3.0]) + np.array([2.0, -0.5]) * inside)
    assert slopes == pytest.approx(np.array([2.0, -0.5]) / 10.0 * rates)
    assert span == pytest.approx(10.0 * time)
    assert CallableField(rotation, 2).frame.smoothed is None


def test_a_pickled_field_has_equal_numbers(circle):
    for field in (linear(context=circle), linear(region=Region([-2, -2], [2, 2]))):
        copy = pickle.loads(pickle.dumps(field))
        assert np.array_equal(copy.scales.speed, field.scales.speed)
        assert np.array_equal(copy.support(POINTS), field.support(POINTS))


def test_a_frame_stands_in_place_of_its_parts(circle):
    frame = Frame(2, Given(context=circle), None)
    assert linear(frame=frame).context is circle
    with pytest.raises(ValueError, match="in place of context"):
        linear(frame=frame, context=circle)
    with pytest.raises(ValueError, match="frame of dimension 1"):
        CallableField(lambda x: -x, 1, frame=frame)
