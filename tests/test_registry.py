"""Models by name, with plugins that work, break, clash and are too new."""

import sys

import pytest

import fim_dynsys
from fim_dynsys import entry_points, registry
from fim_dynsys.errors import FimDynsysWarning, PluginError
from fim_dynsys.models.base import VectorFieldModel
from tests.toys import distribution, module

SPEC = "from fim_dynsys.registry import ModelSpec\nSPEC = ModelSpec({})\n"


BUILT_IN = [
    "fim-ode",
    "fim-ode-published",
    "fim-ode-neural",
    "sindy",
    "sindy-strong",
    "equations",
    "symbolic",
    "auto",
]


def test_built_in_models_are_listed_first():
    assert registry.available().names[: len(BUILT_IN)] == BUILT_IN


@pytest.mark.parametrize(
    "name", ["fim-ode", "fim-ode-neural", "sindy", "sindy-strong", "equations", "symbolic", "auto"]
)
def test_built_in_models_load(name):
    model = fim_dynsys.load(name)
    assert isinstance(model, VectorFieldModel)
    assert model.name == name
    assert model.max_dim == registry.find(name).max_dim


def test_published_network_without_weights_names_the_files():
    with pytest.raises(FileNotFoundError, match="safetensors"):
        fim_dynsys.load("fim-ode-published")


@pytest.mark.parametrize(
    ("typo", "meant"),
    [("simdy", "sindy"), ("fim_ode", "fim-ode"), ("sindystrong", "sindy-strong"), ("ODE", "fim-ode")],
)
def test_typos_are_answered_with_the_nearest_names(typo, meant):
    with pytest.raises(ValueError, match=f"got '{typo}'; nearest: .*{meant}"):
        fim_dynsys.load(typo)


def test_what_is_no_name_is_refused():
    with pytest.raises(ValueError, match="got 3; nearest"):
        fim_dynsys.load(3)


def test_a_plugin_is_loaded_by_name(site):
    distribution(site, "toy-good", {"toy": "toy_good:SPEC"})
    module(site, "toy_good", SPEC.format("'toy', 'a dictionary', 'toy_good_model:make', max_dim=2"))
    module(site, "toy_good_model", "def make(**params):\n    return params\n")
    assert fim_dynsys.load("toy", a=1) == {"a": 1}
    (entry,) = [entry for entry in registry.available() if entry.name == "toy"]
    assert (entry.distribution, entry.spec.max_dim) == ("toy-good", 2)


def test_specs_are_read_one_at_a_time(site):
    distribution(site, "toy-good", {"toy": "toy_good:SPEC"})
    module(site, "toy_good", SPEC.format("'toy', 'a dictionary', 'toy_good_model:make'"))
    module(site, "toy_good_model", "def make():\n    return 0\n")
    distribution(site, "toy-other", {"other": "toy_other:SPEC"})
    module(site, "toy_other", SPEC.format("'other', 'unused', 'toy_none:make'"))
    fim_dynsys.load("sindy")
    assert not {"toy_good", "toy_other"} & set(sys.modules)
    fim_dynsys.load("toy")
    assert "toy_good" in sys.modules
    assert "toy_other" not in sys.modules
    assert "other" in registry.available().names
    assert "toy_none" not in sys.modules


BROKEN = {
    "syntax": ("def", "SyntaxError"),
    "import": ("import not_installed_anywhere", "ModuleNotFoundError.*not_installed_anywhere"),
    "raises": ("raise RuntimeError('boom')", "RuntimeError: boom"),
    "leaves": ("raise SystemExit(3)", "SystemExit: 3"),
    "nothing": ("", "AttributeError"),
    "kind": ("SPEC = 3", "expected toy_broken:SPEC to be a ModelSpec, got int"),
    "name": (SPEC.format("'else', 's', 'm:f'"), "entry point's name, got 'else'"),
    "number": (SPEC.format("'toy', 's', 'm:f', api_version=2"), "API version 1, got 2"),
    "version": (SPEC.format("'toy', 's', 'm:f', api_version='2'"), "API version 1, got 2"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_plugin_breaks_alone(site, case):
    text, complaint = BROKEN[case]
    distribution(site, "toy-broken", {"toy": "toy_broken:SPEC"})
    module(site, "toy_broken", text)
    assert fim_dynsys.load("sindy").name == "sindy"
    table = registry.available()
    assert table.names[: len(BUILT_IN)] == BUILT_IN
    assert "toy" not in table.names
    assert "broken: plugin 'toy' of toy-broken" in repr(table)
    with pytest.raises(PluginError, match=complaint) as raised:
        fim_dynsys.load("toy")
    assert "toy-broken" in str(raised.value)


def test_a_factory_that_cannot_be_imported(site):
    distribution(site, "toy-broken", {"toy": "toy_broken:SPEC"})
    module(site, "toy_broken", SPEC.format("'toy', 's', 'toy_missing:make'"))
    assert "toy" in registry.available().names  # known only when it is asked for
    with pytest.raises(PluginError, match=r"toy_missing:make: ModuleNotFoundError"):
        fim_dynsys.load("toy")


def test_errors_of_the_model_itself_are_its_own(site):
    distribution(site, "toy-good", {"toy": "toy_good:SPEC"})
    module(site, "toy_good", SPEC.format("'toy', 's', 'toy_good_model:make'"))
    module(site, "toy_good_model", "def make(alpha):\n    raise ValueError('alpha must be positive')\n")
    with pytest.raises(ValueError, match="alpha must be positive"):
        fim_dynsys.load("toy", alpha=-1)


def test_built_in_wins_a_clash_and_both_are_named(site):
    distribution(site, "toy-thief", {"sindy": "toy_thief:SPEC"})
    module(site, "toy_thief", "raise RuntimeError('never imported')")
    with pytest.warns(FimDynsysWarning, match="'sindy' is offered by fim-dynsys and toy-thief"):
        model = fim_dynsys.load("sindy")
    assert type(model).__module__ == "fim_dynsys.models.sindy"
    with pytest.warns(FimDynsysWarning, match="toy-thief"):
        assert registry.available().names.count("sindy") == 1
    assert "toy_thief" not in sys.modules


def test_two_plugins_of_one_name(site):
    for owner in ("toy-b", "toy-a"):
        name = owner.replace("-", "_")
        distribution(site, owner, {"toy": f"{name}:SPEC"})
        module(site, name, SPEC.format(f"'toy', 's', '{name}:make'") + f"make = lambda: '{owner}'\n")
    with pytest.warns(FimDynsysWarning, match="toy-a and toy-b; the one of toy-a is used"):
        assert fim_dynsys.load("toy") == "toy-a"


def test_plugins_can_be_switched_off(site, monkeypatch):
    distribution(site, "toy-good", {"toy": "toy_good:SPEC"})
    module(site, "toy_good", SPEC.format("'toy', 's', 'toy_good:make'"))
    monkeypatch.setenv("FIM_DYNSYS_DISABLE_PLUGINS", "1")
    assert registry.available().names == BUILT_IN
    with pytest.raises(ValueError, match="got 'toy'"):
        fim_dynsys.load("toy")
    monkeypatch.setenv("FIM_DYNSYS_DISABLE_PLUGINS", "0")
    assert "toy" in registry.available().names


def test_table_prints_and_escapes(site):
    distribution(site, "toy-good", {"toy": "toy_good:SPEC"})
    module(site, "toy_good", SPEC.format("'toy', 'a < b', 'toy_good:make'"))
    table = registry.available()
    lines = repr(table).split("\n\n")[0].splitlines()
    assert len(lines) == len(table) + 1
    starts = {line.index(entry.distribution) for line, entry in zip(lines[1:], table, strict=True)}
    assert len(starts) == 1  # columns are aligned
    page = table._repr_html_().split("</table>")[0]
    assert page.count("<tr>") == len(table) + 1
    assert "a &lt; b" in page


def test_a_parameter_that_the_model_has_not_is_named():
    with pytest.raises(TypeError, match="'auto' among effort, seed, progress, knowledge, got efort"):
        fim_dynsys.load("auto", efort="fast")


def test_the_folder_of_a_fitted_model_leads_to_load_fitted(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(ValueError, match=r"the folder of a fitted one; fim_dynsys.load_fitted reads it"):
        fim_dynsys.load(str(tmp_path))


# ---------------------------------------------------------------------- plugins of the repository


def test_a_plugin_that_is_not_installed_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(registry, "listed", lambda *args: {})
    with pytest.raises(PluginError, match=r"got 'gpode', .*`make plugins PLUGINS=gpode` installs it"):
        fim_dynsys.load("gpode")
    table = registry.available()
    assert table.names == BUILT_IN
    (row,) = [plugin for plugin in table.not_installed if plugin.name == "gpode"]
    assert (row.distribution, row.install) == ("fim-dynsys-gpode", "make plugins PLUGINS=gpode")
    assert all(text in repr(table) for text in (row.name, row.install, row.summary))
    page = table._repr_html_()
    assert page.count("<table>") == 2
    assert f"<td>{row.install}</td>" in page


def test_an_installed_plugin_is_not_called_missing(site):
    distribution(site, "toy-gpode", {"gpode": "toy_gpode:SPEC"})
    module(site, "toy_gpode", SPEC.format("'gpode', 'another one', 'toy_gpode_model:make'"))
    table = registry.available()
    assert "gpode" in table.names
    assert "gpode" not in [plugin.name for plugin in table.not_installed]


def test_where_plugins_are_disabled_none_is_missing(monkeypatch):
    monkeypatch.setenv(entry_points.DISABLE_PLUGINS, "1")
    assert registry.available().not_installed == ()
    with pytest.raises(ValueError, match="got 'gpode'; nearest"):
        fim_dynsys.load("gpode")


class Still(VectorFieldModel):
    """dx/dt = 0, whatever the data.

    More is not to be said.
    """

    name = "still"

    def infer(self, trajectories):
        return fim_dynsys.SymbolicField(["0*x0"], context=trajectories)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})
    fim_dynsys.register("still", Still)


def test_a_registered_model_loads_lists_saves_and_restores(registered, tmp_path):
    model = fim_dynsys.load("still").fit([1.0, 1.0, 1.0, 1.0], 0.5)
    assert isinstance(model, Still)
    row = next(row for row in fim_dynsys.available() if row.name == "still")
    assert (row.distribution, row.spec.summary) == ("this process", "dx/dt = 0, whatever the data.")
    assert isinstance(fim_dynsys.load_fitted(model.save(tmp_path / "kept")), Still)
    with pytest.raises(ValueError, match="nearest: still"):
        fim_dynsys.load("stil")
    fim_dynsys.register("still", lambda: "another")  # as a cell that runs again
    assert fim_dynsys.load("still") == "another"


def test_names_that_are_taken_and_factories_that_are_none_are_refused(registered):
    with pytest.raises(ValueError, match="expected a name that is free, got 'auto'"):
        fim_dynsys.register("auto", Still)
    with pytest.raises(ValueError, match="register: expected a name, got ''"):
        fim_dynsys.register("", Still)
    with pytest.raises(TypeError, match="expected a callable that returns a model, got 3"):
        fim_dynsys.register("three", 3)


@pytest.mark.parametrize("name", ["fim-ode", "sindy", "sindy-strong", "symbolic", "auto"])
def test_errors_say_the_name_that_was_loaded(name):
    with pytest.raises(ValueError, match=rf"^{name}[.:]"):
        fim_dynsys.load(name).fit([[1.0, 2.0], [1.0, 2.0]], 0.1)
    with pytest.raises(ValueError, match=rf"^{name}: expected a fitted model"):
        fim_dynsys.load(name).predict([1.0])


def test_earlier_names_of_parameters_work_and_say_so():
    with pytest.warns(DeprecationWarning, match=r"load\('auto'\): budget is called effort since") as caught:
        model = fim_dynsys.load("auto", budget="fast")
    assert model.effort == "fast"
    assert caught[0].filename == __file__
    assert registry.in_present_names("auto", {"budget": "fast", "seed": 1}) == {"effort": "fast", "seed": 1}
