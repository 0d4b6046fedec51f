"""The folder of plugins: layout, pins and names, of which nothing needs to be installed."""

import importlib.util
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from fim_dynsys import registry
from fim_dynsys.search import proposers

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "plugins"
PROJECTS = {
    path.parent.name: tomllib.loads(path.read_text(encoding="utf-8"))
    for path in sorted(FOLDER.glob("*/pyproject.toml"))
}
MODELS = {
    model: (folder, target)
    for folder, project in PROJECTS.items()
    for model, target in project["project"].get("entry-points", {}).get("fim_dynsys.models", {}).items()
}


def _pins(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    requirements = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    assert all(re.fullmatch(r"==[\w.]+", str(r.specifier)) for r in requirements)
    return {canonicalize_name(r.name): str(r.specifier)[2:] for r in requirements}


def _requirements(project):
    project = project["project"]
    optional = project.get("optional-dependencies", {}).values()
    return [Requirement(r) for r in [*project["dependencies"], *(r for group in optional for r in group)]]


@pytest.mark.parametrize("folder", PROJECTS)
def test_each_is_laid_out_alike(folder):
    module = f"fim_dynsys_{folder.replace('-', '_')}"
    assert PROJECTS[folder]["project"]["name"] == f"fim-dynsys-{folder}"
    assert (FOLDER / folder / "src" / module / "__init__.py").is_file()
    assert list((FOLDER / folder / "tests").glob("test_*.py"))
    if folder != "common":
        assert (FOLDER / folder / "README.md").is_file()
        assert f"[{folder}]({folder}/README.md)" in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_the_package_knows_them_all():
    """`available` lists what is not installed, by the names and summaries of the plugins themselves."""
    known = {plugin.name: plugin for plugin in registry.KNOWN_PLUGINS}
    assert set(known) == set(MODELS)
    for name, (folder, target) in MODELS.items():
        module, attribute = target.split(":")
        path = FOLDER / folder / "src" / module / "__init__.py"
        loaded = importlib.util.module_from_spec(importlib.util.spec_from_file_location(module, path))
        loaded.__spec__.loader.exec_module(loaded)
        spec = getattr(loaded, attribute)
        assert (spec.name, spec.summary) == (name, known[name].summary)
        assert known[name].distribution == f"fim-dynsys-{folder}"


def test_proposers_stand_where_their_entry_points_say():
    found = {
        (folder, target)
        for folder, project in PROJECTS.items()
        for target in project["project"].get("entry-points", {}).get(proposers.GROUP, {}).values()
    }
    assert {folder for folder, _ in found} == set(re.findall(r"\./plugins/(\w+)", proposers.NO_PLUGIN))
    for folder, target in found:
        module, attribute = target.split(":")
        text = (FOLDER / folder / "src" / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")
        assert re.search(rf"^{attribute} = ", text, re.MULTILINE)


def test_specifications_import_the_registry_only():
    for folder in PROJECTS:
        for path in (FOLDER / folder / "src").glob("*/__init__.py"):
            text = path.read_text(encoding="utf-8")
            imported = re.findall(r"^\s*(?:from|import) ([\w.]+)", text, re.MULTILINE)
            assert set(imported) <= {"fim_dynsys.registry"}, path


def test_pins_agree():
    """What a plugin needs beyond the package is pinned once, and no pin is against another."""
    package, plugins = _pins(ROOT / "constraints.txt"), _pins(FOLDER / "constraints.txt")
    assert not set(package) & set(plugins)
    pins = package | plugins
    for folder, project in PROJECTS.items():
        for requirement in _requirements(project):
            name = canonicalize_name(requirement.name)
            if not name.startswith("fim-dynsys"):
                assert requirement.specifier.contains(pins[name]), f"{folder}: {requirement}"


def test_the_package_does_not_name_their_modules():
    modules = {path.name for folder in PROJECTS for path in (FOLDER / folder / "src").iterdir()}
    for path in (ROOT / "fim_dynsys").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not [module for module in modules if re.search(rf"\b{module}\b", text)], path
