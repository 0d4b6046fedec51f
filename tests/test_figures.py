"""Tables in README and docs are what the committed results hold; README's few claims follow from them."""

import math
import re
import tomllib

import pytest

from benchmarks.comparators.tables import OSCILLATIONS, OWN
from benchmarks.oscillators import __main__ as oscillators
from benchmarks.oscillators import contexts
from benchmarks.polynomials import __main__ as polynomials
from fim_dynsys.registry import KNOWN_PLUGINS
from tests import pages
from tests.figures import SETTINGS, TABLES, TASKS, cell, filled, places, results, table
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
    """`auto` follows more paths than sparse regression, `fim-ode` as many, and both more than the paper."""
    for setting in SETTINGS:
        for task in TASKS:
            sparse = max(cell("percent_r2_090", name, setting, task) for name in ("sindy-strong", "sindy"))
            assert cell("percent_r2_090", "auto", setting, task) > sparse
            assert cell("percent_r2_090", "fim-ode", setting, task) >= sparse
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


def test_what_the_page_on_the_paper_says_of_its_tables():
    """Ratios and orders that stand in prose beside the generated tables."""
    sizes = table(results("oscillators", "contexts"))
    with contexts.PUBLISHED.open("rb") as file:
        theirs = {tuple(row["cell"]): row["values"] for row in tomllib.load(file)["context"]}
    assert all(
        theirs[row.task, row.mode, row.trajectories][2] > 10 * row.median for row in sizes.itertuples()
    )

    found = table(results("oscillators")).query("targets == 'clean'").set_index(["model", "task"])
    with oscillators.PUBLISHED.open("rb") as file:
        published = {row["method"]: row["mse"] for row in tomllib.load(file)["row"]}
    shared = [found.fixed["auto", task] for task in OSCILLATIONS]
    for method, printed in published.items():
        if not method.endswith("chosen on the test"):
            ahead = [own < other for own, other in zip(shared, printed, strict=True)]
            assert all(ahead), method
    theirs = published["FIM-ODE, fine-tuned, chosen on training loss"]
    for column, expected in (("fixed", 2), ("median", 1)):
        tuned = [found[column]["fim-ode-neural+finetune", task] for task in OSCILLATIONS]
        assert sum(own < other for own, other in zip(tuned, theirs, strict=True)) == expected

    few = table(results("sparse")).set_index(["kind", "amount", "model", "task"]).percent_r2_090
    ours, auto = (few.xs((name, TASKS[0]), level=("model", "task")) for name in ("fim-ode", "auto"))
    assert all((auto[kind] > ours[kind]).all() for kind in ("several rates", "missing coordinates", "pieces"))
    for name in ("fim-ode", "auto"):
        assert few["pieces", 16, name, TASKS[1]] > few["points", 50, name, TASKS[1]]

    study = table(results("polynomials")).query("group == 'all' and model == 'fim-ode' and part != 'grid'")
    rates = study.set_index(["degree", "task", "part"])["percent_r2_0.9"]
    with polynomials.PUBLISHED.open("rb") as file:
        (printed,) = [row for row in tomllib.load(file)["row"] if row["method"] == "FIM-ODE"]
    for degree in (3, 6):
        for task, value in zip(TASKS, printed[str(degree)], strict=True):
            assert rates[degree, task, "clean"] > value
            above = rates[degree, task, "noisy"] - value
            if (degree, task) == (6, TASKS[0]):  # within two standard errors of a share of 400 trials
                assert abs(above) < 2.0 * 100.0 * math.sqrt(0.87 * 0.13 / 400.0)
            else:
                assert above > 0.0


def test_what_the_page_on_other_methods_says_of_its_tables():
    seen = table(results("comparators"))
    seen = seen[~seen.task.isin(OSCILLATIONS)]
    starts = seen[seen.task.str.contains("generalisation")].pivot(
        index="model", columns="task", values="value"
    )
    trained = starts.loc[["neural-ode", "npode", "gpode", "gp-dnf", "latent-sde", "ode2vae"]]
    assert trained.max().max() < starts.loc["auto"].min()
    assert (starts.drop(list(OWN)).idxmax() == "operon").all()
    cost = seen.groupby("model").infer_seconds.median()
    assert cost["operon"] > 10 * cost["auto"]


def test_fixed_points_finds_all_zeros_of_random_cubics():
    rates = table(results("analysis")).set_index("quantity").value
    assert rates["cubics, random: recall of zeros"] == 1 and rates["cubics, random: false zeros"] == 0
