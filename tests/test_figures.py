"""Tables in README and docs are what the committed results hold; README's few claims follow from them."""

import math
import re

import pytest

from fim_dynsys.registry import KNOWN_PLUGINS
from tests import pages
from tests.figures import SETTINGS, TABLES, TASKS, cell, filled, places
from tests.versions import plugin_versions

PAGES = [page for page in pages.PAGES if "<!-- generated:" in page.read_text(encoding="utf-8")]
# Shares and times in prose; those of tables, code and comments are not read.
FIGURE = re.compile(
    r"(?<![\w.])\d[\d.,]*(?=[ -]?(?:%|percent\b|x\b|times\b|CPU|m?s\b|seconds?\b|minutes?\b))"
)


def test_plugins_state_their_versions():
    assert plugin_versions()["edmd"] == plugin_versions()["edmd-map"]
    assert {plugin.name for plugin in KNOWN_PLUGINS} <= set(plugin_versions())


@pytest.mark.parametrize("page", PAGES, ids=pages.name)
def test_tables_are_those_of_the_results(page):
    """Dates of commits are not compared where git does not know the commits."""
    text = page.read_text(encoding="utf-8")
    date = r"\| (?:\d{4}-\d\d-\d\d)? ?\|"
    lines, own = (re.sub(date, "| |", t).splitlines() for t in (filled(text), text))
    assert lines == own, "python -m tests.figures writes the tables as they are"


def test_every_table_has_one_place():
    named = [name for page in PAGES for name in places(page.read_text(encoding="utf-8"))]
    assert sorted(named) == sorted(TABLES)


def test_a_changed_number_is_noticed():
    text = "<!-- generated: inputs -->\n<!-- end -->\n"
    assert filled(filled(text)) == filled(text) != text
    assert filled(re.sub(r"\d", "7", filled(text))) == filled(text)


def test_the_first_page_states_no_other_figures():
    text = (pages.ROOT / "README.md").read_text(encoding="utf-8")
    prose = re.sub(
        r"<!-- generated.*?<!-- end -->|^```.*?^```$|`[^`]*`|\]\([^)]*\)",
        "",
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
    assert FIGURE.findall(prose) == []
    assert FIGURE.findall("in 3 ms, 90 % of trials, 20 times as fast") == ["3", "90", "20"]


def test_the_order_that_the_first_page_states():
    """`fim-ode` and `auto` follow more trajectories than sparse regression and the published network."""
    for setting in SETTINGS:
        for task in TASKS:
            ours = min(cell("percent_r2_090", name, setting, task) for name in ("auto", "fim-ode"))
            assert ours > max(
                cell("percent_r2_090", name, setting, task) for name in ("sindy-strong", "sindy")
            )
    published = [row.split(" / ") for row in TABLES["readme"]()[-1][1:-1]]
    ours = [row.split(" / ") for row in TABLES["readme"]()[2][1:-1]]
    assert all(
        float(a) > float(b)
        for own, other in zip(ours, published, strict=True)
        for a, b in zip(own, other, strict=True)
    )


def test_auto_is_the_most_accurate_under_noise():
    for setting in SETTINGS[1:]:
        for task in TASKS:
            values = {
                name: cell("percent_r2_090", name, setting, task)
                for name in ("auto", "fim-ode", "sindy-strong")
            }
            assert max(values, key=values.get) == "auto" and math.isfinite(values["auto"])
