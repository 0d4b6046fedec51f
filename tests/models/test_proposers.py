"""Right-hand sides that plugins propose to a thorough search: a made-up plugin, found as any other."""

import sys
from dataclasses import replace

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import CallableField, Trajectories, simulate
from fim_dynsys.entry_points import DISABLE_PLUGINS
from fim_dynsys.errors import PluginError
from fim_dynsys.models import auto
from fim_dynsys.search import proposers
from tests.toys import distribution, module

# Proposes of each state the other one and the sine of about twice its own; counts its imports in a file.
GUESS = """
from pathlib import Path

from fim_dynsys.fields.functions import Kind
from fim_dynsys.search.candidates import judge
from fim_dynsys.search.functions.families import INNER
from fim_dynsys.search.origins import Stage
from fim_dynsys.search.proposers import Proposals
from fim_dynsys.search.pruning import refine
from fim_dynsys.search.state_equations import StateEquation, state_equations_of, together

with Path(__file__).with_suffix(".log").open("a") as log:
    log.write("imported ")

CALLS = []


class Guess:
    name, api_version, steps = "guesses", "1", 1

    def refusal(self, search):
        return "only without inputs" if search.observations.n_inputs else ""

    def propose(self, observations, noise_free, seed, done):
        CALLS.append((noise_free, seed))
        states, slopes = observations.splines[0]
        sides = []
        for k, scale in enumerate(observations.scale):
            other = [0, 0]
            other[1 - k] = 1
            rows = [((other, 0, 0, 1.0), ()), (([0, 0], Kind.SIN, k, 1.98 * scale), (INNER,))]
            sides.append([StateEquation.regressed(rows, states, slopes[:, k])])
            done()
        return Proposals(sides, "two guesses")

    def fitted(self, observations, proposals, best):
        known, fits = state_equations_of(best), []
        for k, (side,) in enumerate(proposals.sides):
            sides = [side if k == of else known[of] for of in range(len(known))]
            item = together(sides, observations.start, Stage.PROPOSED, self.name)
            fits.append(refine(observations, item, observations.path)[0])
        return judge(observations, fits)


guess = Guess()
"""
T = np.linspace(0.0, 15.0, 150)
FIELD = CallableField(
    lambda x: np.stack(
        [x[:, 1] - x[:, 0] * np.tanh(x[:, 0] + 2.0 * x[:, 1] + 0.5), 0.3 * np.sin(2.0 * x[:, 1]) - x[:, 0]], 1
    ),
    2,
)


@pytest.fixture
def little(monkeypatch):
    """A thorough search with the amounts of the fast one."""
    monkeypatch.setitem(auto.EFFORTS, "thorough", replace(auto.EFFORTS["fast"], ask_plugins=True))


@pytest.fixture
def guessing(site, little, monkeypatch):
    """The made-up plugin, the only one that proposes, installed; returns its folder."""
    installed = proposers.listed
    monkeypatch.setattr(
        proposers,
        "listed",
        lambda *args, **options: {
            name: found for name, found in installed(*args, **options).items() if name == "guess"
        },
    )
    distribution(site, "toy-guess", {"guess": "toy_guess:guess"}, proposers.GROUP)
    module(site, "toy_guess", GUESS)
    return site


def _record():
    return simulate(FIELD, [1.0, 0.2], T, rtol=1e-11, atol=1e-13).x[0]


def _growth():
    return (3.0 / (1.0 + 5.0 * np.exp(-0.9 * T)))[:, None]


def test_a_law_that_only_a_plugin_proposes_is_the_answer(guessing):
    x = _record()
    missed = fim_dynsys.load("auto", effort="fast").fit(x, T)
    assert np.abs(missed.predict(x) - FIELD(x)).max() > 0.01
    assert "toy_guess" not in sys.modules  # other efforts import no plugin
    for seed in (0, 3):
        model = fim_dynsys.load("auto", effort="thorough", seed=seed).fit(x, T)
    np.testing.assert_allclose(model.predict(x), FIELD(x), atol=1e-8)
    report = model.field_.fit_info.report
    assert report["guesses"] == "two guesses"
    assert report["chosen"].startswith("guesses: ") and "sin x1" in report["chosen"]
    assert sys.modules["toy_guess"].CALLS == [(True, 0), (True, 3)]
    assert (guessing / "toy_guess.log").read_text() == "imported "


def test_what_it_fits_to_noisy_samples_stands_beside_the_others(guessing):
    x = _record() + 0.03 * np.random.default_rng(0).standard_normal((len(T), 2))
    model = fim_dynsys.load("auto", effort="thorough")
    members = model.portfolio(Trajectories.from_arrays(x, T)).members
    assert any(member.origin.text().startswith("guesses: ") for member in members)
    assert [member.score for member in members] == sorted(member.score for member in members)


@pytest.mark.parametrize("reason", ["found", "inputs"])
def test_a_plugin_is_asked_only_where_it_may_help(guessing, reason):
    model = fim_dynsys.load("auto", effort="thorough")
    if reason == "found":
        model.fit(_growth(), T)
        expected = "not run: a short model fits the samples to numerical precision"
    else:
        model.fit((np.exp(-T) * (1.0 + T))[:, None], T, u=np.exp(-T)[:, None])
        expected = "not asked: only without inputs"
    assert model.field_.fit_info.report["guesses"] == expected
    assert sys.modules["toy_guess"].CALLS == []


@pytest.mark.parametrize("disabled", [False, True])
def test_without_a_plugin_the_report_says_how_to_install_one(request, monkeypatch, disabled):
    if disabled:
        request.getfixturevalue("guessing")
        monkeypatch.setenv(DISABLE_PLUGINS, "1")
    else:
        monkeypatch.setattr(proposers, "listed", lambda *args, **options: {})
    model = fim_dynsys.load("auto", effort="thorough").fit(_growth(), T)
    report = model.field_.fit_info.report
    assert (report["effort"], report["proposals"]) == ("thorough", proposers.NO_PLUGIN)
    assert "pip install ./plugins/operon" in proposers.NO_PLUGIN
    assert np.allclose(model.predict([[1.0], [4.0]]), [[0.6], [-1.2]], rtol=1e-6)


BROKEN = {
    "import": ("import not_installed_anywhere", "cannot import toy_guess:guess: ModuleNotFoundError"),
    "kind": ("guess = 3", "expected toy_guess:guess to be a Proposer, got int"),
    "version": (GUESS.replace('"1", 1', '"2", 1'), "expected a Proposer for API version 1, got 2"),
    "refusal": (GUESS.replace('return "only', '1 / 0; return "only'), "ZeroDivisionError: division by zero"),
    "propose": (GUESS.replace("CALLS.append(", "raise ValueError("), r"ValueError: \(True, 0\)"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_plugin_that_fails_is_named(guessing, case):
    text, complaint = BROKEN[case]
    module(guessing, "toy_guess", text)
    with pytest.raises(PluginError, match=f"plugin 'guess' of toy-guess: {complaint}"):
        fim_dynsys.load("auto", effort="thorough").fit(_record(), T)


def test_a_plugin_that_fails_to_fit_is_named(guessing):
    module(guessing, "toy_guess", GUESS.replace("known, fits = ", "known, fits = 1 / 0, "))
    x = _record() + 0.03 * np.random.default_rng(0).standard_normal((len(T), 2))
    with pytest.raises(PluginError, match="plugin 'guess' of toy-guess: ZeroDivisionError"):
        fim_dynsys.load("auto", effort="thorough").fit(x, T)
