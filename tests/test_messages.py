"""Warnings point at the user's line, and errors name what the user typed."""

import warnings

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import analyze
from fim_dynsys.errors import FimDynsysWarning

T = np.linspace(0.0, 10.0, 101)
WALK = np.cumsum(np.random.default_rng(0).standard_normal((101, 2)), axis=0)  # no field describes it


@pytest.fixture(scope="module")
def walker():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FimDynsysWarning)
        return fim_dynsys.load("sindy-strong", degree=1).fit(WALK, T)


def model():
    return fim_dynsys.load("sindy-strong", degree=1)


CALLS = {
    "fit": lambda fitted: model().fit(WALK, T),
    "forecast": lambda fitted: fitted.forecast(fitted.context_, 1.0, n_draws=2, progress=False),
    "simulate": lambda fitted: fim_dynsys.simulate(
        fim_dynsys.SymbolicField({"x0": "x0^2"}), [1.0], np.linspace(0.0, 2.0, 11)
    ),
    "compare": lambda fitted: fim_dynsys.compare({"a": model()}, fitted.context_, folds=2, progress=False),
}


@pytest.mark.parametrize("name", CALLS)
def test_warnings_point_at_the_line_of_the_user(walker, name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", FimDynsysWarning)
        CALLS[name](walker)
    ours = [w for w in caught if issubclass(w.category, FimDynsysWarning)]
    assert {w.filename for w in ours} == {__file__}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.predict([1, 2, 3]), r"^sindy-strong\.predict: expected states of shape \(2,\) or"),
        (lambda m: m.predict(np.zeros((4, 3))), r"columns x0, x1, got \(4, 3\)"),
        (lambda m: m.forecast([1, 2, 3], T), r"^sindy-strong\.forecast: expected states x0 of shape \(2,\)"),
        (lambda m: m.simulate([1, 2, 3], T), r"^sindy-strong\.simulate: expected x0 of shape \(2,\)"),
        (lambda m: m.field_([1, 2, 3]), r"^field of the states x0, x1: expected points of shape"),
        (lambda m: analyze.fixed_points(m, [[0, 1]]), "expected a region with bounds of each of the states"),
    ],
)
def test_errors_name_what_was_typed(walker, call, words):
    with pytest.raises(ValueError, match=words):
        call(walker)


def test_a_path_in_place_of_observations_is_refused_with_the_way_to_read_it():
    with pytest.raises(ValueError, match=r"got the text 'a\.csv'; a file is read by Trajectories\.from_file"):
        model().fit("a.csv")


def test_an_unknown_argument_is_named_with_the_model_and_the_known_ones():
    given = {"noise": 0.1}
    for name, options in (("auto", {}), ("sindy", {}), ("equations", {"expressions": {"x0": "-k*x0"}})):
        with pytest.raises(
            TypeError, match=rf"^{name}\.fit: expected arguments among x, t, .*, got noise\.$"
        ):
            fim_dynsys.load(name, **options).fit(WALK[:, :1], T, **given)


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("fit_info", "model.field_.fit_info is one"),
        ("jacobian", "model.field_.jacobian is one"),
        ("trust", "model.field_.fit_info.trust is one"),
        ("fixed_points", "fim_dynsys.analyze.fixed_points(model) is a function"),
        ("phase_portrait", "fim_dynsys.plot.phase_portrait(model) is a function"),
        ("card", 'load("fim-ode").card()'),
    ],
)
def test_guesses_that_exist_elsewhere_are_told_where(walker, name, where):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; ") as caught:
        getattr(walker, name)
    assert where in str(caught.value)
    with pytest.raises(AttributeError, match="; ") as caught:
        getattr(model(), name)
    assert where in str(caught.value)
    assert not hasattr(walker, "nowhere")
