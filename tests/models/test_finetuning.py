"""Fine-tuning of any field: the residual, the choice by held-out blocks, files to go on from."""

import hashlib
import io
import json
from collections import Counter

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import fim_dynsys
from fim_dynsys.delta import Delta, arrays_digest
from fim_dynsys.errors import FimDynsysWarning, TuningWarning
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.fields.dictionary import DictionaryField
from fim_dynsys.fields.residual import RadialBasis, ResidualField
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.base import VectorFieldModel
from fim_dynsys.models.finetuning import record, residual, shooting
from fim_dynsys.models.finetuning.blocks import held_out_blocks, of_blocks
from fim_dynsys.saved import with_residual
from fim_dynsys.simulation.solution import simulate
from fim_dynsys.testing import check_field
from fim_dynsys.trajectories.container import Trajectories


class Linear(VectorFieldModel):
    """Least squares on differences: all that it can say of a pendulum is its frequency."""

    name = "linear"

    def infer(self, trajectories):
        terms = Dictionary.polynomial(trajectories.dim, 1)
        columns = np.concatenate([terms.evaluate(x) for _, x in trajectories.arrays()])
        slopes = np.concatenate([self.differentiate(x, t) for t, x in trajectories.arrays()])
        return DictionaryField(terms, np.linalg.lstsq(columns, slopes, rcond=None)[0], context=trajectories)


class Right(Linear):
    """Knows the spiral."""

    def infer(self, trajectories):
        terms = Dictionary.polynomial(2, 1)
        return DictionaryField(terms, [[0, 0], [-0.1, -1.0], [1.0, -0.1]], context=trajectories)


def pendulum(x):
    return np.stack([x[:, 1], -np.sin(x[:, 0]) - 0.05 * x[:, 1]], axis=1)


def spiral(x):
    return x @ np.array([[-0.1, -1.0], [1.0, -0.1]])


@pytest.fixture(scope="module", autouse=True)
def one_width():
    """One width in place of four: a quarter of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(residual, "_WIDTHS", (0.5,))
        yield


def observed(rhs, noise, n=70, start=(2.6, 0.0)):
    t = np.linspace(0.0, 14.0, n)
    x = simulate(CallableField(rhs, 2), np.array(start), t).x[0]
    return x + noise * x.std(axis=0) * np.random.default_rng(0).normal(size=x.shape), t, x


@pytest.fixture(scope="module")
def swinging():
    return observed(pendulum, 0.02)


@pytest.fixture(scope="module")
def tuned(swinging):
    return Linear().finetune(*swinging[:2], max_seconds=None)


def field_error(field, rhs, x):
    return np.sqrt(np.mean((field(x) - rhs(x)) ** 2) / np.mean(rhs(x) ** 2))


# --- what is learnt ----------------------------------------------------------------------------------------


def test_learns_what_the_terms_cannot_express(swinging, tuned):
    x, t, clean = swinging
    base = Linear().fit(x, t).field_
    assert isinstance(tuned.field_, ResidualField)
    assert field_error(tuned.field_, pendulum, clean) < 0.25 * field_error(base, pendulum, clean)
    # the mean is the model's own field, which the residual leaves alone far from the data
    np.testing.assert_array_equal(tuned.field_.base.coefficients, base.coefficients)
    far = np.array([[30.0, -40.0], [0.0, 50.0]])
    np.testing.assert_array_equal(tuned.field_(far), base(far))
    path = tuned.simulate(clean[0], t)
    assert np.sqrt(np.mean((path - clean) ** 2)) < 0.05 * clean.std()


def test_leaves_what_the_terms_express():
    x, t, _ = observed(spiral, 0.05)
    model = Right().fit(x, t)
    with pytest.warns(TuningWarning, match="untuned field is returned"):
        tuned = model.finetune(x, t, max_seconds=None)
    np.testing.assert_array_equal(tuned.field_.coefficients, model.field_.coefficients)
    assert type(tuned.field_) is DictionaryField
    assert tuned.history_["best"].tolist() == [True] + [False] * (len(tuned.history_) - 1)


def test_single_shooting(swinging):
    """One start for the whole record; windows are what several would be cut into."""
    x, t, clean = swinging
    tuned = Linear().finetune(x, t, method="single-shooting", max_seconds=None)
    assert field_error(tuned.field_, pendulum, clean) < 0.1
    samples = [(np.linspace(0.0, 60.0, 300), np.stack([np.cos(np.linspace(0, 60, 300))] * 2, axis=1))]
    several, whole = (shooting.Windows.of(samples, whole=whole) for whole in (False, True))
    assert whole.lengths == [300]
    assert len(several.lengths) == 5 and sum(several.lengths) == 300


def test_units_do_not_matter(swinging, tuned):
    x, t, clean = swinging
    units = np.array([1024.0, 2.0**-10])  # exact
    other = Linear().finetune(x * units, 4 * t, max_seconds=None)
    expected = tuned.field_(clean)
    np.testing.assert_allclose(4 * other.field_(clean * units) / units, expected, rtol=0, atol=1e-6)


def test_history_and_report(swinging, tuned):
    history, about = tuned.history_, tuned.field_.fit_info.report["fine-tuning"]
    assert list(history) == [*residual.HISTORY, "width"]
    assert history["step"].is_monotonic_increasing and history["seconds"].is_monotonic_increasing
    best = history[history["best"]]
    assert len(best) == 1
    assert best["held_out"].item() == about["held_out"] < 0.5 * about["held_out_untuned"]
    assert best["width"].item() == about["width"]
    assert about["standard_errors"] > 2
    assert about["ended"] == "all widths tried"
    with pytest.raises(NotFittedError):
        _ = Linear().history_


def test_the_model_stays_as_it_is(swinging):
    x, t, _ = swinging
    model = Linear().fit(x, t)
    before = model.field_
    tuned = model.finetune(x, t, max_seconds=None)
    assert model.field_ is before
    assert "history_" not in vars(model)
    assert tuned.field_.base.frame is tuned.field_.frame


# --- the field ---------------------------------------------------------------------------------------------


def test_field_contract(swinging, tuned):
    check_field(tuned.field_, swinging[2][::7])


def test_jacobian_against_differences(swinging, tuned):
    field, x = tuned.field_, swinging[2][::5]
    np.testing.assert_allclose(field.jacobian(x), CallableField(field, 2).jacobian(x), atol=1e-7)


@pytest.mark.parametrize(
    ("centres", "widths", "coefficients"),
    [((3, 2), (2,), (2, 2)), ((3, 1), (1,), (3, 2)), ((3, 2), (1,), (3, 2))],
)
def test_field_checks_its_parts(tuned, centres, widths, coefficients):
    basis = RadialBasis(np.ones(centres), np.ones(widths))
    with pytest.raises(ValueError, match=r"ResidualField: expected centres and coefficients \(m, 2\)"):
        ResidualField(tuned.field_.base, basis, np.ones(coefficients))


def test_saved_and_restored(swinging, tuned, tmp_path):
    tuned.save(tmp_path)
    restored = fim_dynsys.load_fitted(tmp_path, factory=Linear)
    x = swinging[2]
    np.testing.assert_array_equal(restored.field_(x), tuned.field_(x))
    np.testing.assert_array_equal(restored.field_.jacobian(x), tuned.field_.jacobian(x))
    assert restored.field_.fit_info.report == tuned.field_.fit_info.report


def test_a_residual_is_a_small_file_that_names_its_field(tuned, tmp_path):
    tuned.save(tmp_path)
    (path,) = tmp_path.glob("residual-*.safetensors")
    delta = Delta.read(path)
    assert delta.moves == "residual"
    assert {name: array.shape for name, array in delta.tensors.items()} == {
        "centres": tuned.field_.basis.centres.shape,
        "widths": (2,),
        "coefficients": tuned.field_.coefficients.shape,
    }
    assert path.stat().st_size < 16_384
    (field,) = tmp_path.glob("field-*.npz")
    with np.load(field) as stored:
        assert delta.base == arrays_digest(dict(stored))
        assert "coefficients" in stored.files  # of the field that was tuned: it is whole without the other

    # beside another field of the same kind it is refused
    (tmp_path / "other").mkdir()
    Linear().fit(*observed(spiral, 0.02)[:2]).save(tmp_path / "other")
    header = json.loads((tmp_path / "other" / "model.json").read_text())
    header["sha256"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "other" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "other" / "model.json").write_text(json.dumps(header))
    with pytest.raises(ValueError, match=f"expected the field {delta.base[:8]}, beside which .*got "):
        fim_dynsys.load_fitted(tmp_path / "other", factory=Linear)
    strange = Delta.of(delta.base, "residual", {"centres": np.zeros((1, 2)), "widths": np.ones(2)})
    with pytest.raises(ValueError, match="expected a residual, got other arrays"):
        with_residual(tuned.field_.base, strange, delta.base)


class Swing(VectorFieldModel):
    """A field without arrays, which is inferred again."""

    name, version, min_observations = "swing", "1", 4

    def infer(self, trajectories):
        return CallableField(spiral, 2, context=trajectories)


def test_a_residual_beside_a_field_that_is_inferred_again(swinging, tmp_path, monkeypatch):
    x, t, points = swinging
    tuned = Swing().finetune(x, t, max_seconds=None)
    assert isinstance(tuned.field_, ResidualField)
    tuned.save(tmp_path)
    assert not list(tmp_path.glob("field-*"))
    again = fim_dynsys.load_fitted(tmp_path, factory=Swing)
    np.testing.assert_array_equal(again.field_(points), tuned.field_(points))
    report = again.field_.fit_info.report
    assert report["fine-tuning"] == tuned.field_.fit_info.report["fine-tuning"]
    monkeypatch.setattr(Swing, "version", "2")  # which may infer another field
    with (
        pytest.warns(FimDynsysWarning, match="written by version 1"),
        pytest.raises(ValueError, match="expected the field 1, beside which a residual was learnt, got 2"),
    ):
        fim_dynsys.load_fitted(tmp_path, factory=Swing)


def test_folders_of_earlier_formats_hold_field_and_residual_in_one(swinging, tuned, tmp_path):
    tuned.save(tmp_path)
    (path,), (field,) = tmp_path.glob("residual-*"), tmp_path.glob("field-*")
    header = json.loads((tmp_path / "model.json").read_text())
    parts = Delta.read(path).tensors
    with np.load(field) as stored:
        arrays = dict(stored)
    own = tuned.field_.base.to_arrays()
    old = {name: array for name, array in arrays.items() if name not in own}
    old |= {"base_" + name: arrays[name] for name in own} | {"base": np.array(header["content"])}
    old |= {"centres": parts["centres"], "widths": parts["widths"], "residual": parts["coefficients"]}
    buffer = io.BytesIO()
    np.savez(buffer, **old)
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    (tmp_path / f"field-{digest[:16]}.npz").write_bytes(buffer.getvalue())
    kept = {name: value for name, value in header["sha256"].items() if name.startswith("context")}
    header |= {"content": "ResidualField", "format_version": 5}
    header["sha256"] = kept | {f"field-{digest[:16]}.npz": digest}
    (tmp_path / "model.json").write_text(json.dumps(header))
    again = fim_dynsys.load_fitted(tmp_path, factory=Linear)
    np.testing.assert_array_equal(again.field_(swinging[2]), tuned.field_(swinging[2]))
    assert again.field_.fit_info.report == tuned.field_.fit_info.report
    (tmp_path / "again").mkdir()
    again.save(tmp_path / "again")
    assert [p.name for p in (tmp_path / "again").glob("residual-*")] == [path.name]


# --- going on ----------------------------------------------------------------------------------------------


def saved_bytes(model, folder):
    model.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_goes_on_to_the_same_bytes(swinging, tuned, tmp_path, monkeypatch):
    """Killed ten times, at random, before or after what it had found was written."""
    x, t, _ = swinging
    rng = np.random.default_rng(0)
    kept, writes = record.replace_file, Counter()

    def dying(path, content):
        writes["all"] += 1
        writes["left"] -= 1
        if writes["left"] <= 0:
            if rng.random() < 0.5:
                kept(path, content)
            raise KeyboardInterrupt
        return kept(path, content)

    monkeypatch.setattr(record, "replace_file", dying)
    for _ in range(10):
        writes["left"] = int(rng.choice([1, 1, 1, 2]))  # of twelve writes in all
        with pytest.raises(KeyboardInterrupt):
            Linear().finetune(x, t, max_seconds=None, checkpoint=tmp_path / "run.json")
    monkeypatch.setattr(record, "replace_file", kept)
    resumed = Linear().finetune(x, t, max_seconds=None, checkpoint=tmp_path / "run.json")
    assert writes["all"] >= 10
    assert saved_bytes(resumed, tmp_path / "resumed") == saved_bytes(tuned, tmp_path / "whole")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{}", "another kind"),
        ("no JSON", "another kind"),
        (json.dumps({"format": record.FORMAT, "digest": "0", "results": {}}), "other data, another model"),
    ],
)
def test_foreign_checkpoints_are_refused(swinging, tmp_path, content, reason):
    path = tmp_path / "run.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=f"expected a checkpoint of this run in .*{reason}"):
        Linear().finetune(*swinging[:2], checkpoint=path)
    assert path.read_text() == content


def test_time_is_kept(swinging):
    with pytest.warns(TuningWarning, match="no residual was scored in max_seconds"):
        tuned = Linear().finetune(*swinging[:2], max_seconds=1e-9)
    assert type(tuned.field_) is DictionaryField
    assert tuned.history_.empty


# --- held-out blocks ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[100], [40, 7, 21], [8] * 12])
def test_blocks_are_held_out_once(lengths):
    masks = held_out_blocks(lengths, 6)
    for k, n in enumerate(lengths):
        times = np.sum([fold[k] for fold in masks], axis=0)
        assert times.max() <= 1
        assert len(times) == n
        assert times[0] == times[-1] == 0
    assert all(sum(mask.sum() for mask in fold) for fold in masks)


def test_values_by_block():
    mask = np.array([0, 1, 1, 0, 1, 0], dtype=bool)
    assert of_blocks(np.arange(6.0), mask) == [1.5, 4.0]


def test_too_few_samples():
    t = np.arange(6.0)
    data = Trajectories.from_arrays(np.stack([np.cos(t), np.sin(t)], axis=1), t)
    with pytest.raises(ValueError, match="finetune: expected at least 12 samples"):
        Linear().finetune(data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "shooting"}, "expected method 'multiple-shooting' or 'single-shooting', got 'shooting'"),
        ({"moves": "all"}, "expected moves 'auto' or 'residual'"),
        ({"steps": 3}, "got 'auto' and steps"),
        ({"max_seconds": 0}, "expected max_seconds above 0"),
    ],
)
def test_arguments_are_checked(swinging, options, message):
    with pytest.raises(ValueError, match=message):
        Linear().finetune(*swinging[:2], **options)


def test_members_of_an_ensemble_are_tuned_too(swinging, tuned):
    members = tuned.ensemble(2)
    clean = swinging[2]
    for member in members:
        assert isinstance(member, ResidualField)
        np.testing.assert_array_equal(member.basis.centres.shape, tuned.field_.basis.centres.shape)
        assert field_error(member, pendulum, clean) < field_error(member.base, pendulum, clean)


def test_what_a_residual_would_not_respect_is_refused():
    t = np.linspace(0.0, 8.0, 80)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    for model, data in (
        (fim_dynsys.load("sindy-strong").fit(x, t, forcing={"omega": 2.0}), x),
        (fim_dynsys.load("sindy-strong"), Trajectories.from_arrays(x, t, u=np.cos(2.0 * t)[:, None])),
        (fim_dynsys.load("sindy-strong").fit(x[:, :1], t, order=2), x[:, :1]),
        (fim_dynsys.load("sindy-strong", knowledge=fim_dynsys.Knowledge(known={"x0": "x1"})), x),
    ):
        times = None if isinstance(data, Trajectories) else t
        with pytest.raises(ValueError, match="expected a field of the states alone"):
            model.finetune(data, times)
