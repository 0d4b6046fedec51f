"""Each phrase of PHRASES leads to its page among the first three results of the built site.

Called as ``python docs/check_search.py docs/_build/html``. The ranking is that of Sphinx's `searchtools.js`,
which the site runs in the browser, with the weights of `scorer.js`.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

# What people type, and the page that answers it.
PHRASES = {
    "install": "start/install",
    "command line": "start/command_line",
    "CSV": "howto/data",
    "missing data": "howto/data",
    "irregular times": "howto/data",
    "train test split": "howto/compare",
    "cross-validation": "howto/compare",
    "confidence interval": "howto/uncertainty",
    "prediction interval": "howto/uncertainty",
    "forecast": "howto/uncertainty",
    "parameter estimation": "howto/given_equations",
    "hidden states": "howto/hidden_states",
    "measurement errors": "howto/errors",
    "custom model": "howto/own_models",
    "GPU": "howto/finetuning",
    "pysindy": "start/pysindy",
    "phase portrait": "analysis/plots",
    "bifurcation diagram": "analysis/continuation",
    "limit cycle": "analysis/limit_cycles",
    "basin of attraction": "analysis/basins",
    "Lyapunov exponent": "analysis/chaos",
}
_FIRST = 3  # results that people look at

# Weights of scorer.js.
_HEADING, _API = 10, -6
_TITLE, _PARTIAL_TITLE, _TERM, _PARTIAL_TERM = 15, 7, 5, 2
_OBJECT, _PARTIAL_OBJECT = 11, 6
_PRIORITIES = {0: 15, 1: 5, 2: -5}  # of objects; others have none


def read_index(site: Path) -> dict:
    """The index that a build wrote."""
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))


def _by_title(index: Mapping, query: str) -> Iterator[tuple[int, str, float]]:
    for title, places in index["alltitles"].items():
        if query in title.lower() and len(query) >= len(title) / 2:
            for file, anchor in places:
                score = int(_TITLE * len(query) / len(title) + 0.5)
                yield file, anchor or "", score + (index["titles"][file] == title) + _HEADING


def _by_object(index: Mapping, words: list[str]) -> Iterator[tuple[int, str, float]]:
    for word in words:
        for prefix, found in index["objects"].items():
            for file, kind, priority, _, name in found:
                full = f"{prefix}.{name}".lstrip(".").lower()
                last = full.rsplit(".", 1)[-1]
                text = f"{prefix} {name} {index['objnames'][str(kind)][2]} {index['titles'][file]}".lower()
                if word not in full or any(other not in text for other in words if other != word):
                    continue
                score = _OBJECT if word in (full, last) else _PARTIAL_OBJECT if word in last else 0
                yield file, full, score + _PRIORITIES.get(priority, 0)


def _by_words(index: Mapping, stems: list[str]) -> Iterator[tuple[int, str, float]]:
    scores: dict[int, dict[str, int]] = defaultdict(dict)
    for stem in stems:
        for part, whole, partial in (("terms", _TERM, _PARTIAL_TERM), ("titleterms", _TITLE, _PARTIAL_TITLE)):
            known = index[part]
            if stem in known:
                hits = [(stem, whole)]
            else:
                hits = [(term, partial) for term in known if len(stem) > 2 and stem in term]
            for term, score in hits:
                files = known[term] if isinstance(known[term], list) else [known[term]]
                for file in files:
                    scores[file][stem] = score
    needed = {len(stems), len([stem for stem in stems if len(stem) > 2])}
    for file, own in scores.items():
        if len(own) in needed:
            yield file, "", max(own.values())


def results(index: Mapping, query: str, stem: Callable[[str], str], stopwords: frozenset[str]) -> list[str]:
    """Pages for a query, best first, each once."""
    words = query.lower().replace("-", " ").split()
    stems = list(dict.fromkeys(stem(word) for word in words if word not in stopwords))
    found = [*_by_title(index, query.lower()), *_by_object(index, words), *_by_words(index, stems)]
    names = index["docnames"]
    scores = [(score + _API * names[file].startswith("api/"), file) for file, _, score in found]
    scores.sort(key=lambda hit: (-hit[0], index["titles"][hit[1]].lower()))
    return list(dict.fromkeys(names[file] for _, file in scores))


def main() -> int:
    """Print phrases that miss their page; the exit status is 1 where any does."""
    from sphinx.search.en import SearchEnglish

    language = SearchEnglish({})
    index = read_index(Path(sys.argv[1]))
    stopwords = frozenset(language.stopwords)
    missed = 0
    for phrase, page in PHRASES.items():
        pages = results(index, phrase, language.stem, stopwords)
        if page not in pages[:_FIRST]:
            missed += 1
            place = pages.index(page) + 1 if page in pages else "nowhere"
            print(f"{phrase}: {page} is {place}, before it {', '.join(pages[:_FIRST])}")
    print(f"{len(PHRASES) - missed} of {len(PHRASES)} phrases lead to their page")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
