"""The project files: pins, sizes, names and commands that a fresh clone relies on."""

import ast
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.pages import PAGES

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WEIGHTS_SUFFIXES = {".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".npz", ".npy", ".pkl", ".h5"}
# An absolute path of somebody's machine; parts of addresses and fractions in formulas do not match.
MACHINE_PATH = re.compile(r"(?<![\w.:/*)\]-])/(?:home|root|work|tmp|Users|mnt|opt)/\w")


def pins():
    """Pinned version of each distribution in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    assert all(re.fullmatch(r"==[\w.]+", str(r.specifier)) for r in requirements)
    return {canonicalize_name(r.name): str(r.specifier)[2:] for r in requirements}


def direct_requirements():
    """What pyproject.toml asks for, test tools included."""
    project = PYPROJECT["project"]
    optional = project["optional-dependencies"]
    return [Requirement(r) for r in project["dependencies"] + optional["torch"] + optional["test"]]


def closure(requirements):
    """Names of all installed distributions that the requirements bring along, directly or not."""
    names, waiting = set(), [(r, set(r.extras)) for r in requirements]
    while waiting:
        requirement, extras = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name in names:
            continue
        names.add(name)
        for line in importlib.metadata.requires(name) or []:
            child = Requirement(line)
            environments = [{"extra": extra} for extra in extras | {""}]
            if child.marker is None or any(child.marker.evaluate(e) for e in environments):
                waiting.append((child, set(child.extras)))
    return names


@pytest.fixture(scope="module")
def tracked():
    """Every file under version control."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    # A checkout that belongs to another user is still ours to list.
    git = ("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z")
    listing = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_torch_pin_admits_the_cpu_build():
    assert pins()["torch"] == "2.13.0"
    assert Requirement("torch==2.13.0").specifier.contains("2.13.0+cpu")


def test_pins_satisfy_the_declared_ranges():
    for requirement in direct_requirements():
        pinned = pins()[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pinned), f"{requirement} against {pinned}"


def test_everything_installed_is_pinned():
    gpu = re.compile(r"nvidia|cuda|triton")  # come with torch's default build only, in versions torch fixes
    missing = {name for name in closure(direct_requirements()) if not gpu.match(name)} - set(pins())
    assert missing == set()


def test_nothing_is_pinned_without_need():
    build_tools = {"setuptools", "wheel"}
    assert set(pins()) - build_tools - closure(direct_requirements()) == set()


def test_weights_files_stay_small(tracked):
    """Below 16 MiB, as exports of training do."""
    sizes = {path.name: path.stat().st_size for path in tracked if path.suffix in WEIGHTS_SUFFIXES}
    assert {name: size for name, size in sizes.items() if size >= 2**24} == {}
    assert sum(sizes.values()) < 64e6


def test_no_machine_paths(tracked):
    found = []
    for path in tracked:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(ROOT)}: {m.group()}" for m in MACHINE_PATH.finditer(text)]
    assert found == []


def test_no_pickles_are_tracked(tracked):
    assert [path.name for path in tracked if path.suffix in {".pkl", ".pickle", ".pt", ".pth", ".ckpt"}] == []


def test_style_is_configured():
    ruff = PYPROJECT["tool"]["ruff"]
    assert ruff["line-length"] == 110
    assert set(ruff["lint"]["select"]) == {"E", "F", "I", "UP", "B", "SIM", "NPY", "RUF", "D417"}


def test_make_commands_in_the_documentation_exist():
    targets = set(
        re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {"odebench", "test", "lint", "clean"} <= targets
    pages = [*PAGES, ROOT / ".ci" / "run"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    used = set(re.findall(r"^(?:\s*|`)make ([\w-]+)", text, re.MULTILINE))
    assert {"odebench", "test"} <= used <= targets


def test_ci_entry_runs_tests_and_style():
    entry = ROOT / ".ci" / "run"
    assert os.access(entry, os.X_OK)
    text = entry.read_text(encoding="utf-8")
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "make test" in text
    assert "make lint" in text


def test_versions_agree():
    version = PYPROJECT["project"]["version"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == version
    assert citation["license"] == PYPROJECT["project"]["license"] == "MIT"
    import fim_dynsys

    assert fim_dynsys.__version__ == version


def test_the_archive_is_told_what_is_cited():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    archive = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    for name in ("title", "license", "keywords"):
        assert archive[name] == citation[name]
    assert [who["name"] for who in archive["creators"]] == [who["name"] for who in citation["authors"]]


def test_metadata_is_that_of_the_checks():
    """Each Python that is stated is one that the workflow tests, and README names what is cited."""
    stated = re.findall(
        r"Programming Language :: Python :: (3\.\d+)", " ".join(PYPROJECT["project"]["classifiers"])
    )
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "checks.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["checks"]["strategy"]["matrix"]["python"] == stated
    assert PYPROJECT["project"]["requires-python"] == f">={stated[0]}"
    systems = {
        workflow["jobs"]["checks"]["runs-on"],
        *workflow["jobs"]["systems"]["strategy"]["matrix"]["os"],
    }
    assert systems == {"ubuntu-latest", "macos-latest", "windows-latest"}
    assert {"Typing :: Typed", "Development Status :: 4 - Beta"} <= set(PYPROJECT["project"]["classifiers"])
    assert (ROOT / "fim_dynsys" / "py.typed").is_file()
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.startswith(f"# {citation['title'].split(':')[0]}\n") and "CITATION.cff" in readme


def test_only_the_package_is_packed():
    assert PYPROJECT["tool"]["setuptools"]["packages"]["find"]["include"] == ["fim_dynsys", "fim_dynsys.*"]


def is_number(node):
    """Whether an expression is made of number literals alone."""
    if isinstance(node, ast.Tuple | ast.List):
        return bool(node.elts) and all(map(is_number, node.elts))
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def unexplained_constants(source):
    """Lines of numeric constants of a module without a comment on them or above, or a string below."""
    lines, body, found = source.splitlines(), ast.parse(source).body, []
    for node, below in zip(body, [*body[1:], None], strict=True):
        if not (isinstance(node, ast.Assign) and is_number(node.value)):
            continue
        explained = "#" in "".join(lines[node.lineno - 1 : node.end_lineno])
        explained |= lines[node.lineno - 2].startswith("#")
        explained |= isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if not explained:
            found.append(lines[node.lineno - 1])
    return found


def test_constants_state_their_unit_and_reason():
    assert unexplained_constants("A = 1  # s\n# m\nB = 2, 3\nC = -1.0\n") == ["C = -1.0"]
    unexplained = {
        str(path.relative_to(ROOT)): found
        for path in sorted((ROOT / "fim_dynsys").rglob("*.py"))
        if (found := unexplained_constants(path.read_text(encoding="utf-8")))
    }
    assert unexplained == {}
