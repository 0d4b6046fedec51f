"""What README and docs say in numbers is what the committed tables hold, of the models as they are."""

import ast
import re
from functools import cache

import pytest

from benchmarks.harness.rows import ModelRow
from fim_dynsys.registry import KNOWN_PLUGINS
from tests import pages
from tests.figures import MEASURED, PLAIN, ROOT, table

GENERATED = {"docs/science/model_card.md", "docs/science/model_card_neural.md"}  # tests/training/test_card.py
PAGES = sorted({pages.name(path) for path in pages.PAGES} - GENERATED)

# Code, what it prints and addresses of links are not read; comments beside commands are.
UNREAD = re.compile(
    r"^```python\n.*?^```$(?:\n\n```\n.*?^```$)?|`[^`\n]*`|(?<=\])\([^)\s]*\)|https?://\S+|<!--.*?-->|^```\w*$|^(?:python|make|torchrun)\b[^#\n]*",
    re.MULTILINE | re.DOTALL,
)
_UNIT = r"%|percent\b|x\b|-fold\b|(?:CPU-)?(?:m?s|seconds?|minutes?|hours?|[MGK]i?B|million|billion)\b"
_WORD = "(?:two|three|four|five|six|seven|eight|nine|ten|twenty|fifty|(?:a )?(?:hundred|thousand))"
FIGURE = re.compile(
    rf"""(?<![\w.])(?:
        \d*\.\d+(?:e[+-]?\d+)?              # 0.9, .05
        | \d+e[+-]?\d+                      # 1e-9
        | \d{{1,3}}(?:,\d{{3}})+            # 1,580
        | \d+(?=[\ -]?(?:{_UNIT}))          # 90 %, 6 ms
        | (?:\d+|{_WORD})\ times\b(?!\ series)
        | (?:{_WORD}|few|some|several|tens\ of|hundreds\ of|takes|for)
          \ (?:CPU-|milli|micro)?(?:seconds|minutes|hours)\b
        | a\ second\b(?!\ (?:small\ )?network)
        | (?:gigabytes|megabytes)\b
        | (?:half|thirds?|quarters?|fifths?|tenths?)\ (?:of\ (?:it|the\ time|a\ second)|the\ time)\b
        | (?:faster|slower|fastest|slowest|strongest|twice\ as|half\ as|state\ of\ the\ art|outperforms?)\b
    )""",
    re.VERBOSE | re.IGNORECASE,
)

RESULTS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("benchmarks/*/results/*.csv"))


@cache
def version(name):
    """The version that a row's model has today."""
    base = "auto" if name.startswith("oracle") else re.split("[:,+]", name)[0]
    stated = plugin_versions()
    if base in stated:
        return stated[base]
    return ModelRow.resolve(name if name.startswith(f"{base}:") else base).version


@cache
def plugin_versions():
    """The versions that the models of plugins state in their classes, by name; none need be installed."""
    stated = {}
    for path in (ROOT / "plugins").glob("*/src/*/*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            lines = [line for line in getattr(node, "body", []) if isinstance(line, ast.Assign)]
            values = {
                target.id: value.value
                for targets, parts in map(_assigned, lines)
                for target, value in zip(targets, parts, strict=True)
                if isinstance(target, ast.Name) and isinstance(value, ast.Constant)
            }
            if isinstance(node, ast.ClassDef) and {"name", "version"} <= set(values):
                stated[values["name"]] = values["version"]
    return stated


def _assigned(line):
    """Names and values of ``a = 1`` and of ``a, b = 1, 2``."""
    (target,) = line.targets
    both = isinstance(target, ast.Tuple) and isinstance(line.value, ast.Tuple)
    return (target.elts, line.value.elts) if both else ([target], [line.value])


def test_plugins_state_their_versions():
    assert plugin_versions()["edmd"] == plugin_versions()["edmd-map"]
    assert {plugin.name for plugin in KNOWN_PLUGINS} <= set(plugin_versions())


def text(page):
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def measured(page):
    return list(MEASURED[page]()) if page in MEASURED else []


def spans(page, piece):
    """Where a piece of text stands in a page, wherever its lines are broken."""
    pattern = r"\s+".join(re.escape(word) for word in piece.split())
    return [match.span() for match in re.finditer(rf"(?<![\w.]){pattern}", text(page))]


def figures(page):
    """Where a page states a number with a unit, a fraction, or a comparison of speeds."""
    read = UNREAD.sub(lambda found: re.sub(r"[^\n]", "\N{FULL BLOCK}", found.group()), text(page))
    return [match.span() for match in FIGURE.finditer(read)]


@pytest.mark.parametrize("page", MEASURED)
def test_figures_are_those_of_the_tables(page):
    absent = [piece for piece in measured(page) if not spans(page, piece)]
    assert not absent, "\n".join([f"by the committed tables, {page} should say", *absent])


@pytest.mark.parametrize("page", PAGES)
def test_every_figure_has_a_source(page):
    """A new one belongs into MEASURED of tests/figures.py, or into PLAIN if nobody measured it."""
    plain = PLAIN.get(page, [])
    assert [piece for piece in plain if not spans(page, piece)] == [], f"no longer in {page}"
    known = [span for piece in [*measured(page), *plain] for span in spans(page, piece)]
    found = text(page)
    unknown = [
        f"{found.count(chr(10), 0, start) + 1}: " + " ".join(found[max(start - 40, 0) : end + 30].split())
        for start, end in figures(page)
        if not any(low <= start and end <= high for low, high in known)
    ]
    assert not unknown, "\n".join([f"no source in tests/figures.py, {page}", *unknown])


def test_a_claim_is_noticed():
    claims = [
        "fits in 3 ms",
        "some ten seconds",
        "in tens of milliseconds",
        "90 % of trials",
        "within 0.002",
        "2x faster",
        "of 1,580 zeros",
    ]
    claims += [
        "a second or two",
        "the strongest answer",
        "a third of the time",
        "1e-9",
        "takes 40 CPU-seconds",
        "five times",
    ]
    assert [claim for claim in claims if not FIGURE.search(claim)] == []
    assert [
        plain for plain in ["degree 3", "a second network", "x0", "becomes seconds"] if FIGURE.search(plain)
    ] == []


@pytest.mark.parametrize("path", [path for path in RESULTS if "version" in table(path).columns])
def test_results_are_of_the_models_as_they_are(path):
    """Rows of a benchmark carry the version that the model has in the code."""
    rows = table(path)[["model", "version"]].dropna().drop_duplicates()
    rows = rows[~rows.model.isin(["truth", "truth-fit", "constant", "spline"])]
    stale = {name: (stated, version(name)) for name, stated in rows.values if stated != version(name)}
    said = {
        name
        for name, (stated, _) in stale.items()
        if f"version {stated}" in text("docs/science/benchmarks.md")
    }
    assert set(stale) == said, f"run the benchmark again, or say so in docs/science/benchmarks.md: {stale}"
