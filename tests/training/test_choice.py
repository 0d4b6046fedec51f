"""The learned choice among candidates: its contexts, labels, training and export."""

from itertools import islice

import numpy as np
import pytest
import torch

import fim_dynsys
from fim_dynsys.fields.terms import Dictionary
from fim_dynsys.models.fim_ode.choice import N_CHOICE_FEATURES
from fim_dynsys.models.fim_ode.own import DEFAULT_WEIGHTS
from fim_dynsys.models.fim_ode.weights import CALIBRATION, SELECTOR, read_header, read_weights, shipped
from fim_dynsys.regression.observed import observe
from fim_dynsys.search.selector import CLIP
from training.choice import shards
from training.choice.contexts import draw
from training.choice.labels import N_LABELS, label, operator_candidates
from training.choice.ranker import Ranker, export, report, selector_tensors, train, utility
from training.choice.shards import (
    SHARES,
    LabelledContexts,
    make_development,
    make_shard,
    read_contexts,
    read_shards,
)
from training.evaluate import SETTINGS, development_systems


@pytest.mark.parametrize("prior", ["paper", "sparse", "functions", "rational"])
def test_contexts_are_of_the_system_they_name(prior):
    rng = np.random.default_rng(1)
    context = draw(prior, 2, rng)
    again = draw(prior, 2, np.random.default_rng(1))
    np.testing.assert_array_equal(context.x, again.x)
    assert context.paths.shape == (3, 200, 2)
    # the clean trajectory obeys the field: central differences
    t, path = context.label_t, context.paths[0]
    slope = (path[2:] - path[:-2]) / (t[2] - t[0])
    speed = np.abs(context.field(path)).max()
    assert np.abs(slope - context.field(path[1:-1])).max() < 0.02 * speed
    known = getattr(context.field, "dictionary", None)
    assert (known is not None and known.is_polynomial) == (prior in ("paper", "sparse"))
    assert (np.diff(context.t) > 0).all() and context.t[-1] <= context.label_t[-1] + 1e-12


def test_the_truth_is_labelled_right_and_no_motion_wrong():
    context = draw("sparse", 2, np.random.default_rng(3))
    observations = observe([(context.t, context.x)])
    dictionary = Dictionary.polynomial(2, 3)
    assert (context.field.dictionary.exponents == dictionary.exponents).all()
    factor = np.prod(observations.scale**dictionary.exponents, axis=1)[:, None]
    true = context.field.coefficients * factor * observations.time_unit / observations.scale
    more = np.where(true == 0.0, 1e-9, true)
    labels = label(context, observations, dictionary, np.stack([true, 0.0 * true, more]))
    np.testing.assert_allclose(labels[0], [1.0, 1.0, 0.0, 0.0, 1.0], atol=1e-9)
    assert labels[1, 0] == labels[1, 4] == 0.0 and labels[1, 2] == pytest.approx(1.0)
    np.testing.assert_allclose(labels[2], [1.0, 1.0, 0.0, 0.0, 0.0], atol=1e-6)


def random_data(n=300, seed=0):
    """Contexts of 3 to 6 candidates whose first feature says which one is right."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(n, 6, N_CHOICE_FEATURES, generator=generator)
    mask = torch.arange(6) < torch.randint(3, 7, (n, 1), generator=generator)
    labels = torch.zeros(n, 6, N_LABELS)
    best = features[..., 0].masked_fill(~mask, -9.0).argmax(-1)
    labels[torch.arange(n), best, :2] = 1.0
    labels[..., 2:4] = 1.0
    return LabelledContexts(features, labels, mask, torch.zeros(n, 2))


def test_training_finds_the_feature_that_tells():
    data = random_data()
    ranker = train(data, seed=0, steps=150, width=16)
    with torch.no_grad():
        untrained = report(data, Ranker(N_CHOICE_FEATURES, 8)(data.features, data.mask))["selector"][
            "reconstruction"
        ]
        result = report(data, ranker(data.features, data.mask))
    assert result["oracle"]["reconstruction"] == 100.0
    assert untrained < 60.0 < 80.0 < result["selector"]["reconstruction"]
    assert utility(data.labels).max() == pytest.approx(2.0 + 0.25 * (1 / 6 + 1 / 3))


def test_exported_networks_rank_as_in_training(tmp_path):
    torch.manual_seed(0)
    members = [Ranker(N_CHOICE_FEATURES, 8).eval() for _ in range(2)]
    centre, spread = torch.randn(N_CHOICE_FEATURES), torch.rand(N_CHOICE_FEATURES) + 0.5
    operator = shipped(DEFAULT_WEIGHTS)
    path = tmp_path / "weights.safetensors"
    export(path, operator, selector_tensors(members, centre, spread), {"contexts": 7})
    data = random_data(1)
    count = int(data.mask[0].sum())
    with torch.no_grad():
        scaled = ((data.features - centre) / spread).clamp(-CLIP, CLIP)
        expected = torch.stack([m(scaled, data.mask) for m in members]).mean(0)[0, :count]
    selector = fim_dynsys.load("fim-ode", weights=path).operator.selector
    logits = selector.logits(data.features[0, :count].double().numpy())
    np.testing.assert_allclose(logits, expected, rtol=1e-2, atol=2e-3)  # float16
    assert read_header(path)["extra"]["selector"] == {"contexts": 7}
    # the operator is as it was
    before, after = read_weights(operator)[1], read_weights(path)[1]
    own = [name for name in before if not name.startswith((SELECTOR, CALIBRATION))]
    assert all(np.array_equal(before[name], after[name]) for name in own)
    assert fim_dynsys.load("fim-ode", weights=path).operator.calibration is None


def test_shards_hold_what_inference_sees(tmp_path):
    candidates = operator_candidates(fim_dynsys.load("fim-ode", refine=False))
    for number in range(2):
        make_shard(tmp_path / f"shard-0000{number}.npz", [0, 0], SHARES, candidates, size=2)
    data = read_shards([tmp_path])
    assert data.features.shape[0] == 4 and data.features.shape[2] == N_CHOICE_FEATURES
    assert torch.equal(data.features[:2], data.features[2:])  # the seed decides
    kept = data.labels[data.mask]
    assert ((kept[:, :2] >= 0) & (kept[:, :2] <= 1)).all() and (kept[:, 2:] >= 0).all()
    assert kept[:, 0].max() == 1.0


def test_the_development_split_is_judged_by_setting(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "development_systems", lambda: islice(development_systems(), 2))
    seen = []

    def candidates(context, observed, rng):
        seen.append((context, observed))
        return np.zeros((3, N_CHOICE_FEATURES)), np.tile([1.0, 0.5, 0.1, 0.2, 0.0], (3, 1))

    make_development(tmp_path / "development.npz", candidates)
    data = read_contexts([tmp_path / "development.npz"])
    assert data.mask.shape == (2 * 2 * len(SETTINGS), 3)
    assert sorted(data.origin[:, 0].tolist()) == sorted(list(range(len(SETTINGS))) * 4)
    context, observed = seen[len(SETTINGS)]  # the other trajectory of the first system, without noise
    np.testing.assert_array_equal(observed.arrays()[0][1], context.paths[0])
    assert not np.array_equal(context.paths[0], seen[0][0].paths[0])
    assert report(data, torch.zeros(data.mask.shape))["selector"]["generalisation"] == 50.0
