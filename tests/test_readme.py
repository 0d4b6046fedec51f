"""The first page: short, an install line and code on the first screen, lines that do what they promise."""

import re
import shutil
import types

import pytest

from tests.pages import DOCS, ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)[0]


def first_line_with(text):
    return TEXT.count("\n", 0, TEXT.index(text)) + 1


def test_it_is_short():
    assert len(TEXT.split()) <= 700
    assert first_line_with("pip install") <= 15
    assert first_line_with("```python") <= 25
    assert len([line for line in FIRST.splitlines() if line.strip()]) <= 8


def test_it_names_the_main_commands():
    assert {"make odebench", "make test"} <= set(re.findall(r"^make \w+", TEXT, re.MULTILINE))


def test_the_first_lines_end_in_a_picture_with_one_limit_cycle(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copy(DOCS / "examples" / "van_der_pol.csv", tmp_path)
    script = types.ModuleType("readme")
    exec(compile(FIRST, "README.md", "exec"), vars(script))
    assert script.cycles.stable.tolist() == [True]
    assert script.cycles.period[0] == pytest.approx(6.6633, rel=0.01)  # of Van der Pol's oscillator at mu = 1
    assert (tmp_path / "portrait.png").read_bytes().startswith(b"\x89PNG")
    assert "v" in capsys.readouterr().out
