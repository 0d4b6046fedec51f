"""Facts of an inference: what code reads, and the report that is written from them."""

from dataclasses import replace

import numpy as np

from fim_dynsys import CallableField
from fim_dynsys.fields.frame import FitInfo
from fim_dynsys.fields.inference import Inference, Judge, Noise

FACTS = Inference(
    Judge.BIC,
    selected=True,
    noise=Noise.GIVEN,
    outliers=3,
    positions=("x", "y"),
    smoother="splines",
    refined=False,
    windows=5,
    window=2.5,
    undetermined=("a b",),
    notes=("one", "two"),
)


def test_a_report_that_is_read_again_gives_the_same_facts():
    assert Inference.of_entries(FACTS.entries()) == FACTS
    assert Inference.of_entries({}) == Inference()


def test_reports_of_older_files_are_understood():
    old = {"chosen by": "fit to the digits", "undetermined": ["k"], "noise": "Poisson"}
    facts = Inference.of_entries(old)
    assert (facts.judge, facts.undetermined, facts.noise) == (Judge.EXACT, ("k",), Noise.POISSON)
    assert Inference.of_entries({"chosen by": "selector"}).judge is Judge.EXTENDED_BIC


def test_facts_win_over_free_entries_of_the_report():
    info = FitInfo(report={"candidates": 4, "outliers": 1}, inference=FACTS)
    assert info.report["candidates"] == 4 and info.report["outliers"] == 3
    assert info.report["chosen by"] == "select" and info.report["ranked by"] == "BIC"
    field = CallableField(lambda x: -x, 1).with_fit_info(info)
    changed = field.with_fit_info(inference=replace(FACTS, selected=False))
    assert changed.fit_info.report["chosen by"] == "BIC"
    assert field.fit_info.report["chosen by"] == "select"
    assert np.array_equal(changed([[2.0]]), [[-2.0]])
