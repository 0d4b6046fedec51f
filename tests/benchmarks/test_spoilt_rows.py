"""Rows with outliers: every model sees the same ones, and the share that is stated."""

import numpy as np

from benchmarks.development.__main__ import ROWS
from benchmarks.development.outliers import MODELS, SHARE, SIZE, SpoiltRow
from benchmarks.harness.rows import View
from fim_dynsys.trajectories.container import Trajectories

CONTEXT = Trajectories.from_arrays(2.0 + np.sin(np.arange(4000.0)).reshape(2000, 2), 0.1)


class Seen:
    """A model that keeps what it is given."""

    name, version, params = "seen", "1", ()

    def infer(self, view):
        self.x = view.context.x[0]


def test_outliers_are_the_same_for_every_model():
    first, second = Seen(), Seen()
    for model in (first, second):
        SpoiltRow(model).infer(View(CONTEXT))
    np.testing.assert_array_equal(first.x, second.x)
    off = np.abs(first.x / CONTEXT.x[0] - 1.0)
    hit = off > 0.5 * SIZE
    np.testing.assert_allclose(off[hit], SIZE)
    assert abs(hit.mean() - SHARE) < 4 * np.sqrt(SHARE / hit.size)


def test_rows_are_named_after_their_model():
    assert SpoiltRow(Seen()).name == "seen, outliers"
    assert {f"{model}-outliers" for model in MODELS} <= ROWS.keys()
