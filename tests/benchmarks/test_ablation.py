"""What is left out is left out, and gains are counted as the tables say."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.ablation import __main__ as ablation
from benchmarks.ablation.records import KINDS, miss, records
from benchmarks.ablation.rows import LEFT_OUT, AblatedRow
from fim_dynsys.search import stages


@pytest.mark.parametrize("model", LEFT_OUT)
def test_every_part_changes_the_row(model):
    rows = {part: AblatedRow(model, part)._loaded._row for part in LEFT_OUT[model]}
    for part, row in rows.items():
        assert (row == rows[""]) == (part == ""), part
    assert stages.reselection in rows[""].stages
    assert stages.reselection not in rows["reselection"].stages


def test_a_record_is_seen_with_noise_of_its_seed_and_the_true_path_scores_one():
    record = next(record for record in records() if record.kind == "few samples")
    (t, first), (_, again) = (record.context(0).arrays()[0] for _ in range(2))
    assert np.array_equal(first, again) and len(t) == 25
    assert not np.array_equal(first, record.context(1).arrays()[0][1])
    left = (first - record.x) / record.x.std(axis=0)
    assert 0.5 * record.sigma < left.std() < 2.0 * record.sigma
    assert len({(record.kind, record.name) for record in records()}) == len(records())
    assert tuple(dict.fromkeys(record.kind for record in records())) == KINDS


def test_gains_are_means_over_systems_of_what_is_lost_without():
    def trials(model, scores):
        return [
            {"kind": "few", "name": name, "seed": seed, "model": model, "version": "1", "r2": r2}
            | {"status": "SUCCESS", "infer_seconds": seconds}
            for (name, seed), (r2, seconds) in zip(
                [("a", 0), ("a", 1), ("b", 0), ("b", 1)], scores, strict=True
            )
        ]

    whole = trials("auto", [(0.99, 2.0), (0.99, 2.0), (0.5, 2.0), (0.999, 2.0)])
    without = trials("auto without growth", [(0.9, 1.0), (0.99, 1.0), (0.5, 1.0), (float("nan"), 1.0)])
    summary = ablation.summarise(pd.DataFrame(whole + without))
    line = summary[(summary["without"] == "growth") & (summary["kind"] == "few")].iloc[0]
    assert (line["n"], line["systems"], line["won"], line["lost"]) == (4, 2, 2, 0)
    assert line["gain_percent"] == 50.0 and line["se_percent"] == 0.0
    lost = np.array([0.5 * 1.0, 0.5 * (1.0 + 3.0)])  # decades: 0.01 to 0.1; 0.001 to 10
    np.testing.assert_allclose(line["gain_decades"], lost.mean())
    np.testing.assert_allclose(line["se_decades"], lost.std(ddof=1) / np.sqrt(2))
    assert line["share_of_time"] == 0.5
    assert miss(float("nan")) == 1.0 and miss(1.0) == -8.0
