"""Paths as a score, and models side by side on what they have not seen."""

import itertools

import matplotlib
import numpy as np
import pysindy
import pytest

import fim_dynsys
from fim_dynsys import plot, simulate
from fim_dynsys.errors import FitWarning
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.paths import windows_of
from fim_dynsys.trajectories.container import Trajectories

pytestmark = pytest.mark.filterwarnings("ignore::fim_dynsys.errors.FitWarning")

matplotlib.use("Agg")


class Given(VectorFieldModel):
    """A model whose field is given."""

    name = "given"

    def __init__(self, rate=-1.0):
        self.rate = rate

    def infer(self, trajectories):
        turn = np.array([[self.rate, 1.0], [-1.0, self.rate]])
        return CallableField(lambda x: x @ turn.T, 2, context=trajectories)


def spirals(n=6, rate=-1.0, samples=40):
    field = Given(rate).infer(None)
    starts = np.random.default_rng(0).normal(size=(n, 2)) + 1.0
    return simulate(field, starts, np.linspace(0.0, 2.0, samples))


@pytest.fixture(scope="module")
def data():
    found = spirals()
    return Trajectories.from_arrays([x for _, x in found.arrays()], [t for t, _ in found.arrays()])


def test_the_right_field_scores_one_and_others_what_their_paths_leave(data):
    right, wrong = Given(-1.0).fit(data), Given(-0.5).fit(data)
    assert right.score(data, metric="path") == pytest.approx(1.0, abs=1e-8)
    observed = np.concatenate([x[1:] for _, x in data.arrays()])
    paths = simulate(wrong, data.x[:, 0], data.t[0]).x[:, 1:].reshape(-1, 2)
    left = ((paths - observed) ** 2).sum(axis=0) / ((observed - observed.mean(axis=0)) ** 2).sum(axis=0)
    assert wrong.score(data, metric="path") == pytest.approx(np.mean(1.0 - left), abs=1e-6)
    assert wrong.score(data, metric="path") < wrong.score(data, metric="path", horizon=0.2) < 1.0


def test_units_do_not_matter(data):
    scaled = data.with_x(data.x * [1e3, 1e-2])
    model = fim_dynsys.load("sindy-strong", degree=1, refined=0)
    plain, other = (model.fit(one).score(one, metric="path") for one in (data, scaled))
    assert plain == pytest.approx(other, rel=1e-6)


def test_a_model_that_refuses_the_data_has_failed_and_the_others_go_on():
    t = np.linspace(0.0, 1.0, 4)
    few = fim_dynsys.Trajectories.from_arrays(np.exp(-t)[:, None], t)
    models = [fim_dynsys.load("sindy"), fim_dynsys.load("sindy-strong")]
    with pytest.warns(FitWarning, match="compare: sindy-strong failed: sindy-strong: expected at least 5"):
        table = fim_dynsys.compare(models, few, few)
    assert np.isfinite(table["path_error"].sel(model="sindy")).all()
    assert np.isposinf(table["path_error"].sel(model="sindy-strong")).all()


def test_a_path_that_ends_early_scores_minus_infinity(data):
    model = Given().fit(data)
    model.field_ = CallableField(lambda x: 1e3 * x**3, 2)
    assert model.score(data, metric="path") == -np.inf


def test_windows_begin_with_complete_samples_and_leave_no_gap():
    x = np.arange(20.0).reshape(10, 2)
    x[0, 0] = x[6, 1] = np.nan
    field = DictionaryField(Dictionary.polynomial(2, 1), np.zeros((3, 2)))
    windows = windows_of("test", field, Trajectories.from_arrays(x, np.arange(10.0)), 3.0)
    assert [list(w.t) for w in windows] == [[1, 2, 3, 4], [4, 5, 6, 7], [7, 8, 9]]
    whole = windows_of("test", field, Trajectories.from_arrays(x, np.arange(10.0)), None)
    assert [len(w.t) for w in whole] == [9]


def test_arguments_that_mean_nothing_are_refused(data):
    model = Given().fit(data)
    with pytest.raises(ValueError, match="horizon"):
        model.score(data, metric="path", horizon=-1.0)
    with pytest.raises(ValueError, match="x_dot"):
        model.score(data, metric="path", x_dot=[x for _, x in data.arrays()])
    with pytest.raises(ValueError, match="metric"):
        model.score(data, metric="paths")


def test_comparison_tells_models_apart(data):
    models = {"right": Given(-1.0), "wrong": Given(-0.5)}
    table = fim_dynsys.compare(models, data[:4], data[4:])
    assert dict(table.sizes) == {"model": 2, "fold": 1}
    right, wrong = (table.sel(model=name, fold=0) for name in models)
    assert float(right.path_error) < 1e-4 < float(wrong.path_error)
    assert float(right.slope_error) < 0.02 < float(wrong.slope_error)
    assert float(wrong.path_r2) == pytest.approx(models["wrong"].fit(data).score(data[4:], metric="path"))
    assert "field_" not in vars(Given()) and np.isnan(float(right.terms))
    frame = table.to_dataframe()
    assert list(frame.columns) == ["path_r2", "path_error", "slope_error", "terms", "seconds"]


def test_objects_of_pysindy_are_compared_as_they_are(data):
    stock = pysindy.SINDy(optimizer=pysindy.STLSQ(threshold=0.05))
    own = fim_dynsys.load("sindy", optimizer=pysindy.STLSQ(threshold=0.05))
    table = fim_dynsys.compare([stock, own, Given()], data, data)
    assert table["model"].values.tolist() == ["pysindy", "sindy", "given"]
    assert table["path_r2"].values[0, 0] == table["path_r2"].values[1, 0] > 0.9
    assert not hasattr(stock.optimizer, "coef_")  # what was given is not fitted
    with pytest.raises(ValueError, match=r"expected a pysindy\.SINDy, got STLSQ"):
        fim_dynsys.compare({"a": pysindy.STLSQ()}, data, data)


@pytest.mark.parametrize("by, folds", [("trajectory", 3), ("block", 4)])
def test_cross_validation_fits_what_it_does_not_predict(data, by, folds):
    seen = []

    class Watching(Given):
        def infer(self, trajectories):
            seen.append(trajectories)
            return super().infer(trajectories)

    table = fim_dynsys.compare([Watching()], data, by=by, folds=folds)
    assert table.sizes["fold"] == folds and float(table.path_error.max()) < 1e-4
    total = int(data.n_obs.sum())
    assert sum(total - int(one.n_obs.sum()) for one in seen) == total
    if by == "block":
        assert [len(one) for one in seen] == [6, 12, 12, 6]


def test_terms_are_those_that_are_printed():
    t = np.linspace(0, 6, 60)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    model = Given().fit(x, t)
    coefficients = np.array([[1e-13, 0.0], [0.0, -1.0], [1.0, 0.0]])
    model.field_ = DictionaryField(Dictionary.polynomial(2, 1), coefficients, context=model.context_)
    printed = " ".join(model.equations()).replace("-", "+").split("+")
    assert model.complexity == sum(bool(part.strip()) for part in printed) == 2


def test_wrong_comparisons_are_refused(data):
    with pytest.raises(ValueError, match="different names"):
        fim_dynsys.compare([Given(), Given()], data)
    with pytest.raises(ValueError, match="block"):
        fim_dynsys.compare([Given()], data, by="state")
    with pytest.raises(ValueError, match="trajectories"):
        fim_dynsys.compare([Given()], data, by="trajectory", folds=7)
    with pytest.raises(ValueError, match="samples"):
        fim_dynsys.compare([Given()], data, by="block", folds=20)
    with pytest.raises(ValueError, match="held-out"):
        fim_dynsys.compare([Given()], data, data, by="block")


def test_the_figure_shows_every_fold(data):
    table = fim_dynsys.compare({"a": Given(-1.0), "b": Given(-0.9)}, data, by="trajectory", folds=3)
    table["path_error"][1, 2] = np.inf
    drawing = plot.comparison(table)
    assert sum(len(line.get_xdata()) for line in drawing.artists["paths"]) == 5
    assert sum(len(line.get_xdata()) for line in drawing.artists["slopes"]) == 6
    (note,) = drawing.artists["failed"]
    assert note.get_text() == "1 of 3 failed"
    drawing.close()
    with pytest.raises(ValueError, match="path_error"):
        plot.comparison(table[["terms"]])


def test_ticks_of_the_figure_do_not_collide(data):
    """Labels of neighbouring ticks lie apart, whatever the range of the errors."""
    table = fim_dynsys.compare({"right": Given(-1.0), "wrong": Given(-0.5)}, data, data)
    for scale in (1.0, 1e-9):
        table["path_error"][0] = table["path_error"][1] * scale
        drawing = plot.comparison(table)
        drawing.figure.canvas.draw()
        axis = drawing.ax.xaxis
        ticks = [*axis.get_major_ticks(), *axis.get_minor_ticks()]
        boxes = [tick.label1.get_window_extent() for tick in ticks if tick.label1.get_text()]
        spans = sorted(
            (box.x0, box.x1) for box in boxes if drawing.ax.bbox.x0 <= box.x0 <= drawing.ax.bbox.x1
        )
        assert len(spans) >= 2
        assert all(left[1] < right[0] for left, right in itertools.pairwise(spans))
        drawing.close()


def test_held_out_observations_of_other_columns_are_refused(data):
    (t, x), *_ = data.arrays()
    wider = Trajectories.from_arrays(np.tile(x, (1, 2)), t)
    with pytest.raises(ValueError, match=r"^compare: expected held-out .* of the 2 states .* got 4"):
        fim_dynsys.compare({"a": Given(-1.0)}, data, wider)
