"""A record cut into windows, each with a free start, or thinned: what its samples tell over shorter spans."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from fim_dynsys.regression.observed import Cut, Observations

LEAST = 5
"""Samples in a window at least: a start takes as much from the data as one of them tells."""


def in_windows(observations: Observations, length: float) -> Observations:
    """The observations cut into windows of about a length.

    Parameters
    ----------
    observations : Observations
        Whole pieces, or windows, which are put together first.
    length : float
        In scaled time; windows have five samples at least.

    Returns
    -------
    Observations
        In the same units; the whole pieces where none is twice as long as a window.
    """
    whole = observations if observations.cut is None else observations.cut.whole
    bounds: list[tuple[int, int, int]] = []
    for k, (t, _) in enumerate(whole.samples):
        # by time, so that windows of an irregular record are equally hard to predict
        count = max(min(round(t[-1] / length), len(t) // LEAST), 1)
        edges = np.searchsorted(t, np.linspace(0.0, t[-1], count + 1)[1:-1])
        kept = [0]
        for edge in edges.tolist():
            if edge - kept[-1] >= LEAST and len(t) - edge >= LEAST:
                kept.append(edge)
        bounds += [(k, a, b) for a, b in pairwise([*kept, len(t)])]
    if len(bounds) == len(whole.samples):
        return whole
    cut = Cut(whole, tuple(bounds))
    longest = max(b - a for _, a, b in bounds)
    rows = [(k, np.minimum(np.arange(a, a + longest), b - 1)) for k, a, b in bounds]
    inside = [np.arange(longest) < b - a for _, a, b in bounds]
    times = np.stack([whole.samples[k][0][rows_of_window] for k, rows_of_window in rows])
    samples = [whole.samples[k] for k, _, _ in bounds]
    shown = zip(samples, cut.bounds, strict=True)
    weights = np.stack([whole.weights[k][rows_of_window] for k, rows_of_window in rows])
    states, slopes = zip(*whole.splines, strict=True)
    return replace(
        whole,
        samples=[(t[a:b] - t[a], z[a:b]) for (t, z), (_, a, b) in shown],
        origin=tuple((whole.origin[k][0], whole.origin[k][1] + a) for k, a, _ in bounds),
        t=times - times[:, :1],
        z=np.stack([whole.z[k][rows_of_window] for k, rows_of_window in rows]),
        weights=np.where(np.array(inside)[:, :, None], weights, 0.0),
        splines=list(zip(cut.of(states), cut.of(slopes), strict=True)),
        inputs=cut.of(whole.inputs),
        curves=[whole.curves[k][a : b - 1] for k, a, b in bounds],
        known=None if whole.known is None else cut.of(whole.known),
        cut=cut,
    )


def every(observations: Observations, stride: int) -> Observations:
    """Every so manieth sample of each piece, in the same units; without inputs."""
    rows = [np.arange(0, len(t), stride) for t, _ in observations.samples]
    longest = max(map(len, rows))
    padded = [np.append(kept, np.full(longest - len(kept), kept[-1])) for kept in rows]
    inside = np.stack([np.arange(longest) < len(kept) for kept in rows])
    weights = np.stack([part[kept] for part, kept in zip(observations.weights, padded, strict=True)])
    return replace(
        observations,
        samples=[(t[kept], z[kept]) for (t, z), kept in zip(observations.samples, rows, strict=True)],
        t=np.stack([part[kept] for part, kept in zip(observations.t, padded, strict=True)]),
        z=np.stack([part[kept] for part, kept in zip(observations.z, padded, strict=True)]),
        weights=np.where(inside[:, :, None], weights, 0.0),
        splines=[
            (states[kept], slopes[kept])
            for (states, slopes), kept in zip(observations.splines, rows, strict=True)
        ],
        inputs=[u[kept] for u, kept in zip(observations.inputs, rows, strict=True)],
        curves=[np.zeros((len(kept) - 1, 4, 0)) for kept in rows],
        known=None,
        cut=None,
    )


def split_at(observations: Observations, nodes: np.ndarray) -> list[np.ndarray]:
    """States (N, d) at all samples, one array for each piece."""
    return np.split(nodes, np.cumsum([len(t) for t, _ in observations.samples])[:-1])
