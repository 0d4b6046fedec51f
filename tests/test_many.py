"""Many data sets: rows in order, failures among them, and a folder to go on from."""

import json

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import Trajectories, concatenate, fit_many, load
from fim_dynsys.errors import DataWarning

T = np.linspace(0.0, 3.0, 30)


def decay(rate, n=30):
    return Trajectories.from_arrays(np.exp(-rate * T[:n])[:, None], T[:n], state_names=["u"])


def rates(table):
    return [round(row[0][2], 2) if row else None for row in table["coefficients"]]


@pytest.fixture(scope="module")
def linear():
    import pysindy as ps

    model = load("sindy")
    return model.set_params(feature_library=ps.PolynomialLibrary(1, include_bias=False))


def test_failures_are_rows(linear):
    table = fit_many(linear, {"a": decay(0.5), "short": decay(1.0, 2), "b": decay(1.0)}, n_jobs=1)
    assert table["name"].tolist() == ["a", "short", "b"]
    assert table["status"].tolist() == ["fitted", "failed", "fitted"]
    assert "at least" in table["message"][1] and rates(table) == [-0.5, None, -1.0]
    assert table["path_r2"][0] > 0.99 and table["samples"][2] == 30
    assert table["equations"][0].startswith("u' = -0.5")


def test_a_folder_is_gone_on_from(linear, tmp_path, monkeypatch):
    first = {"a": decay(0.5), "short": decay(1.0, 2)}
    fit_many(linear, first, folder=tmp_path, n_jobs=1)
    rows = tmp_path / "rows.jsonl"
    assert [json.loads(line)["name"] for line in rows.read_text().splitlines()] == ["a", "short"]
    with rows.open("a") as stream:
        stream.write('{"name": "c", "sta')  # killed while it wrote
    fitted = []
    fit = type(linear).fit

    def noted(self, x, *arguments, **options):
        fitted.append(x)
        return fit(self, x, *arguments, **options)

    monkeypatch.setattr(type(linear), "fit", noted)
    again = fit_many(linear, first | {"short": decay(1.0), "c": decay(2.0)}, folder=tmp_path, n_jobs=1)
    assert len(fitted) == 2 and rates(again) == [-0.5, -1.0, -2.0]
    fit_many(linear, {"a": decay(0.7)}, folder=tmp_path, n_jobs=1)
    assert len(fitted) == 3  # the data have changed


def test_the_model_stays_as_it_is():
    model = load("sindy")
    before = repr(model.get_params(deep=False))
    fit_many(model, {"a": decay(0.5)}, n_jobs=1)
    fim_dynsys.compare([model], decay(0.5), decay(1.0))
    assert repr(model.get_params(deep=False)) == before


def test_damaged_rows_are_counted_and_fitted_again(linear, tmp_path):
    fit_many(linear, {"a": decay(0.5), "b": decay(1.0)}, folder=tmp_path, n_jobs=1)
    rows = tmp_path / "rows.jsonl"
    first, _ = rows.read_bytes().splitlines()
    rows.write_bytes(
        b"\n".join([first, b"[" * 100_000, b'{"name": "b"}', b'{"name": ["b"]}', b"\xff\x00", b"3"])
    )
    with pytest.warns(
        DataWarning, match=r"rows\.jsonl has 5 damaged lines, whose data sets are fitted again"
    ):
        again = fit_many(linear, {"a": decay(0.5), "b": decay(1.0)}, folder=tmp_path, n_jobs=1)
    assert rates(again) == [-0.5, -1.0]
    assert [json.loads(line)["name"] for line in rows.read_text().splitlines()] == ["a", "b"]


def test_groups_files_and_pairs(linear, tmp_path):
    both = [decay(rate).with_coords(site=[place]) for rate, place in ((0.5, "N"), (1.0, "S"))]
    assert rates(fit_many(linear, concatenate(both), group="site", n_jobs=1)) == [-0.5, -1.0]
    for name, data in zip(("one.csv", "two.nc"), both, strict=True):
        data.to_file(tmp_path / name)
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "broken.csv").write_text("t,u\n1,\n")
    table = fit_many(linear, tmp_path, n_jobs=1)
    assert table["name"].tolist() == ["broken.csv", "one.csv", "two.nc"]
    assert table["status"].tolist() == ["failed", "fitted", "fitted"]
    assert fit_many(linear, iter([("x", both[0]), both[1]]), n_jobs=1)["name"].tolist() == ["x", "1"]


def test_data_sets_are_drawn_as_they_are_needed(linear, monkeypatch):
    drawn, ahead = [], []

    def records():
        for k in range(12):
            drawn.append(k)
            yield decay(0.5 + k / 10)

    fit = type(linear).fit

    def noted(self, *arguments, **options):
        ahead.append(len(drawn) - len(ahead))
        return fit(self, *arguments, **options)

    monkeypatch.setattr(type(linear), "fit", noted)
    assert len(fit_many(linear, records(), n_jobs=1, batch=3)) == 12
    assert max(ahead) == 3


def test_models_are_saved(linear, tmp_path):
    fit_many(linear, {"a/b": decay(0.5)}, folder=tmp_path, save_models=True, n_jobs=1)
    again = fim_dynsys.load_fitted(tmp_path / "models" / "a%2Fb")
    assert again.predict(np.array([[1.0]]))[0, 0] == pytest.approx(-0.5, abs=0.01)


def test_batches_give_what_single_fits_give():
    data = [decay(rate) for rate in (0.5, 1.0)]
    model = load("fim-ode")
    together = fit_many(model, data, n_jobs=1)
    alone = fit_many(model, data, n_jobs=1, batch=1)
    assert together["equations"].tolist() == alone["equations"].tolist()
    np.testing.assert_allclose(together["path_r2"], alone["path_r2"], rtol=1e-9)


@pytest.mark.slow
def test_processes_give_the_same(linear):
    data = [decay(rate) for rate in (0.5, 1.0, 1.5)]
    alone, together = (fit_many(linear, data, n_jobs=n, batch=1).drop(columns="seconds") for n in (1, 2))
    assert alone.equals(together)


@pytest.mark.parametrize("backend", ["dask"])
@pytest.mark.slow
def test_other_backends_where_they_are_installed(linear, backend):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    with distributed.Client(n_workers=2, threads_per_worker=1, dashboard_address=None):
        assert rates(fit_many(linear, [decay(0.5), decay(1.0)], backend=backend, batch=1)) == [-0.5, -1.0]


def test_what_is_no_collection_is_refused(linear, tmp_path):
    with pytest.raises(TypeError, match="many data sets, got one"):
        fit_many(linear, decay(1.0))
    with pytest.raises(ValueError, match="coordinate 'site'"):
        fit_many(linear, decay(1.0), group="site")
    with pytest.raises(ValueError, match="got none"):
        fit_many(linear, tmp_path)
    with pytest.raises(ValueError, match="'a' twice"):
        fit_many(linear, [("a", decay(1.0)), ("a", decay(2.0))], n_jobs=1)
    with pytest.raises(ValueError, match="folder to save models in"):
        fit_many(linear, [decay(1.0)], save_models=True)
    with pytest.raises(TypeError, match="vector field"):
        fit_many(object(), [])
