"""Replaced words and long sentences in README, docs and the package: python docs/check_prose.py.

The words are those of the table in `style.md`; `prose_allowed.toml` lists exceptions. In the package
they are looked for in public docstrings, and in whatever it may print: errors, warnings, legends, help.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
PACKAGE = ROOT / "fim_dynsys"
CARDS = ROOT / "training" / "cards"
INTERNAL = {"search", "regression"}  # nothing of these is public: their docstrings are comments
LONGEST_SENTENCE = 30  # words: longer ones are read twice
LONGEST_PAGE = 1500  # words: what is read in ten minutes

_GENERATED = re.compile(r"<!-- generated.*?<!-- end -->", re.DOTALL)
_BLOCK = re.compile(
    r"^(?P<fence>```+|~~~+|:::+).*?^(?P=fence)[ ]*$|^---\n.*?^---$|<!--.*?-->", re.DOTALL | re.MULTILINE
)
_CODE = re.compile(r"``.+?``|`[^`]*`|\$[^$\n]+\$")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|et al|Fig|Eq|ch|No|[A-Z])\.")
_NEW_PARAGRAPH = re.compile(r"\n[ ]*\n|\n[ ]*(?:[-*]|\d+\.)[ ]+|\n#+[ ]|\n(?=\|)|\||\n:")
_PARAMETER = re.compile(r"^[ ]*[\w*]+(?:, [\w*]+)* : .*$", re.MULTILINE)  # of a docstring: names and types
_SAMPLE = re.compile(r"^[ ]*(?:>>>|\.\.\.) .*$", re.MULTILINE)
_SCRIPT_TEXT = re.compile(r"\"([^\"\n]* [^\"\n]*)\"|`([^`\n]* [^`\n]*)`|>([^<>]* [^<>]*)<")
_SENTENCE_END = re.compile(r"(?<=[.!?])[)*_\"]*\s+")


def pages() -> list[Path]:
    """README and every page of the site, without fragments of the changelog."""
    found = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return [path for path in found if not {"_build", "changes"} & set(path.relative_to(ROOT).parts)]


def prose(text: str) -> str:
    """A page without code, generated parts and addresses; lines stay where they were."""

    def blank(match: re.Match) -> str:
        return "\n" * match.group().count("\n")

    text = _BLOCK.sub(blank, _GENERATED.sub(blank, text))
    text = _LINK.sub(lambda match: match[1], text)
    return _CODE.sub(lambda match: "code" + "\n" * match.group().count("\n"), text)


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """(line, sentence) of prose; list items, table cells and headings end sentences too."""
    text = _ABBREVIATION.sub(lambda match: match.group().replace(".", "\N{ONE DOT LEADER}"), text)
    start = 0
    for gap in [*_NEW_PARAGRAPH.finditer(text), None]:
        piece_end = gap.start() if gap else len(text)
        place = start
        for end in [*_SENTENCE_END.finditer(text, start, piece_end), None]:
            stop = end.start() if end else piece_end
            sentence = text[place:stop]
            lead = len(sentence) - len(sentence.lstrip())
            if sentence.strip():
                yield text.count("\n", 0, place + lead) + 1, " ".join(sentence.split())
            place = end.end() if end else stop
        start = gap.end() if gap else piece_end


def replaced_words() -> re.Pattern:
    """The left column of the table of words in `style.md`."""
    table = (DOCS / "style.md").read_text(encoding="utf-8").split("## Words")[1]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE)[2:]
    phrases = sorted((phrase.strip() for row in rows for phrase in row.split(",")), key=len, reverse=True)
    return re.compile(
        r"\b(?:" + "|".join(r"\s+".join(map(re.escape, p.split())) for p in phrases) + r")\b", re.IGNORECASE
    )


def words(sentence: str) -> int:
    """Words of a sentence: what stands between spaces and holds a letter or a digit."""
    return sum(bool(re.search(r"\w", word)) for word in sentence.split())


def problems(page: Path, banned: re.Pattern) -> Iterator[tuple[int, str, str]]:
    """(line, kind, text) of each replaced word, long sentence, and of a page that is too long."""
    text = prose(page.read_text(encoding="utf-8"))
    for line, sentence in sentences(text):
        for match in banned.finditer(sentence):
            yield line, f"replaced word: {match.group()}", sentence
        if words(sentence) > LONGEST_SENTENCE:
            yield line, f"{words(sentence)} words in a sentence", sentence
    if words(text) > LONGEST_PAGE:
        yield 1, f"{words(text)} words on a page", page.name


def visible(source: str, docstrings: bool) -> Iterator[tuple[int, str]]:
    """(line, text) of what a module may print, and of its public docstrings."""
    nodes = list(ast.walk(ast.parse(source)))
    documented = [node for node in nodes if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    of_contributors, of_users = set(), set()
    for node in nodes:  # such as the description of a constant below it
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            (of_users if docstrings else of_contributors).add(node.value)
    for node in documented:
        if getattr(node, "name", "").startswith("_") and ast.get_docstring(node) is not None:
            of_contributors.add(node.body[0].value)
    for node in nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)) or node in of_contributors:
            continue
        text = node.value
        if node in of_users:
            text = _SAMPLE.sub("", _PARAMETER.sub("", prose(text)))
        for k, line in enumerate(text.splitlines()):
            if node in of_users or " " in line:  # a word alone is a name
                yield node.lineno + k, line.strip()


def package_texts() -> Iterator[tuple[Path, list[tuple[int, str]]]]:
    """Each file of the package with what users may read of it, and the prose of model cards."""
    for path in sorted(PACKAGE.rglob("*.py")):
        internal = path.relative_to(PACKAGE).parts[0] in INTERNAL
        yield path, list(visible(path.read_text(encoding="utf-8"), docstrings=not internal))
    for path in sorted([*PACKAGE.rglob("*.js"), *PACKAGE.rglob("*.html")]):
        text = path.read_text(encoding="utf-8")
        found = _SCRIPT_TEXT.finditer(text)
        yield path, [(text.count("\n", 0, m.start()) + 1, next(filter(None, m.groups()))) for m in found]
    for path in sorted(CARDS.glob("*.md")):
        yield path, list(sentences(prose(path.read_text(encoding="utf-8"))))


def of_package(banned: re.Pattern) -> Iterator[tuple[str, int, str, str]]:
    """(file, line, kind, text) of each replaced word that a user of the package may read."""
    for path, texts in package_texts():
        for line, text in texts:
            for match in banned.finditer(text):
                yield path.relative_to(ROOT).as_posix(), line, f"replaced word: {match.group()}", text


def of_pages(banned: re.Pattern) -> Iterator[tuple[str, int, str, str]]:
    """(page, line, kind, text) of `problems` of README and the site."""
    for page in pages():
        if page.name != "style.md":  # quotes the words
            for line, kind, text in problems(page, banned):
                yield page.relative_to(ROOT).as_posix(), line, kind, text


def found(allowed: list[dict[str, str]]) -> Iterator[str]:
    """What has to be mended, exceptions that are used up, and exceptions that nothing needs."""
    banned, needless = replaced_words(), list(allowed)
    for name, line, kind, text in [*of_pages(banned), *of_package(banned)]:
        rules = [
            rule
            for rule in allowed
            if re.fullmatch(rule["page"], name) and rule["text"].lower() in text.lower()
        ]
        rules = [rule for rule in rules if rule["kind"] in kind]
        needless = [rule for rule in needless if rule not in rules]
        if not rules:
            yield f"{name}:{line}: {kind}: {text}"
    for rule in needless:
        yield f"docs/prose_allowed.toml: nothing needs {rule}"


def main() -> int:
    """Print what was found; the exit status is 1 where anything was."""
    with (DOCS / "prose_allowed.toml").open("rb") as file:
        allowed = tomllib.load(file)["allowed"]
    lines = list(found(allowed))
    print("\n".join([*lines, f"{len(lines)} places to mend in README, docs and the package"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
