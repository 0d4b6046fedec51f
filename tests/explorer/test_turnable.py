"""The portrait that turns: what it holds, and that keys turn it."""

import json
import re

import numpy as np
import pytest

from fim_dynsys import CallableField, Region, Trajectories, analyze
from fim_dynsys.explorer.turnable import turnable
from tests.explorer.browser import CHROMIUM, REASON, act

BOX = Region({"x<y": (-2, 2), "y": (-2, 2), "z": (-1, 1)})


def field():
    """A cycle of radius 1 in the plane z = 0 round an unstable focus."""

    def f(x):
        grow = 1 - x[:, 0] ** 2 - x[:, 1] ** 2
        return np.stack([grow * x[:, 0] - x[:, 1], grow * x[:, 1] + x[:, 0], -x[:, 2]], axis=1)

    return CallableField(f, 3, region=BOX, state_names=BOX.names)


@pytest.fixture(scope="module")
def html():
    t = np.arange(0.0, 2.0, 0.1)
    data = Trajectories.from_arrays(np.stack([np.cos(t), np.sin(t), 0 * t], axis=1), t)
    found = [analyze.fixed_points(field()), analyze.limit_cycles(field())]
    return turnable(field(), found, region=BOX, data=data)


def test_everything_is_inside_the_box_and_the_page(html):
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', html)
    scene = json.loads(text)
    assert scene["names"] == ["x<y", "y", "z"] and scene["ends"][2] == ["-1", "1"]
    (cycle,) = [part for part in scene["parts"] if part["color"] == "#8e3b80"]
    x = np.array(cycle["line"])
    np.testing.assert_allclose(np.hypot(x[:, 0], x[:, 1]), 0.5, atol=1e-3)  # half of the box
    assert cycle["dash"] == []
    (point,) = [part for part in scene["parts"] if part["color"] == "#000000"]
    assert point["points"] == [[0, 0, 0]] and point["filled"] is False
    assert re.findall(r"https?:|@import|<link|<iframe", html) == []
    assert "x&lt;y" in html and "data" in html


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason=REASON)
def test_keys_turn_it(html, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(f"<!DOCTYPE html><html><body>{html}</body></html>", encoding="utf-8")
    seen = act(
        page,
        """
        const canvas = document.querySelector("canvas"), before = canvas.toDataURL();
        const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
        press("ArrowLeft"); const turned = canvas.toDataURL(); press("ArrowRight");
        return { turned: turned !== before, back: canvas.toDataURL() === before };
        """,
    )
    assert seen.console == [] and seen.value == {"turned": True, "back": True}
