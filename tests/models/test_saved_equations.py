"""Models of given equations in folders: every documented form of their arguments comes back."""

import numpy as np
import pytest

import fim_dynsys

T = np.linspace(0.0, 5.0, 26)


@pytest.mark.parametrize(
    "options",
    [
        {"bounds": {"k": (0, None)}},
        {"doses": [(2.1, "x", 3.0)]},
        {"events": {2.1: {"x": 1.0}}},
        {"priors": {"k": ("lognormal", 0.5, 0.5)}},
        {"noise": ("normal", "a")},
        {"initial": {"x": (0.5, 5.0)}},
        {"t0": np.float64(0.0)},
        {"fixed": {"k": np.float64(0.5)}},
    ],
)
def test_every_form_of_an_argument_is_kept(options, tmp_path):
    x = np.exp(-0.5 * T) + 0.01 * np.random.default_rng(0).normal(size=26)
    if "doses" in options or "events" in options:
        x = np.where(T > 2.1, x + 1.0, x)
    model = fim_dynsys.load("equations", expressions={"x": "-k*x"}, n_starts=2, **options)
    model.fit(x, T, feature_names=["x"])
    again = fim_dynsys.load_fitted(model.save(tmp_path / "model"))
    assert again.parameters_ == model.parameters_
    refitted = again.fit(x, T, feature_names=["x"])
    assert refitted.parameters_ == pytest.approx(model.parameters_, rel=1e-6)


def test_a_file_is_no_folder(tmp_path):
    model = fim_dynsys.load("sindy-strong").fit(np.exp(-0.5 * T), T)
    (tmp_path / "model").write_text("mine")
    with pytest.raises(FileExistsError, match="save: expected a folder to save into, got the file"):
        model.save(tmp_path / "model")
