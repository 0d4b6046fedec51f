"""BLAS has one thread during fits and analyses, and as many as before after them."""

import threading

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import analyze, threads
from fim_dynsys.fields.callable import CallableField
from fim_dynsys.threads import on_one_thread


def counts():
    return {library["num_threads"] for library in threads._libraries().info()}


@pytest.fixture(autouse=True)
def two_threads():
    """As on a machine of two cores, whatever the variables of this run say."""
    with threads._libraries().limit(limits=2):
        assert counts() == {2}
        yield
        assert counts() == {2}


def test_calls_within_calls_and_those_that_fail_give_the_threads_back():
    @on_one_thread
    def inner():
        assert counts() == {1}
        raise KeyError("as a search may")

    @on_one_thread
    def outer():
        with pytest.raises(KeyError):
            inner()
        return counts()

    assert outer() == {1} and counts() == {2}


def test_calls_of_two_threads_that_overlap_give_them_back():
    """The one that began first ends first."""
    begun, ended = threading.Event(), threading.Event()

    @on_one_thread
    def longer():
        begun.set()
        assert ended.wait(30.0)

    other = threading.Thread(target=longer)

    @on_one_thread
    def shorter():
        other.start()
        assert begun.wait(30.0)

    shorter()
    ended.set()
    other.join()
    assert counts() == {2}


@pytest.mark.parametrize("call", ["fit", "fixed_points", "simulate"])
def test_fields_are_fitted_and_studied_on_one_thread(call, monkeypatch):
    seen = []

    def rates(x):
        seen.append(counts())
        return -x

    field, t = CallableField(rates, 1), np.linspace(0.0, 2.0, 30)
    if call == "fixed_points":
        analyze.fixed_points(field, [(-1.0, 2.0)])
    elif call == "simulate":
        fim_dynsys.simulate(field, [1.0], t)
    else:
        model = fim_dynsys.load("sindy")
        monkeypatch.setattr(model, "_infer_to_keep", lambda *_, **__: (rates(0.0), field)[1])
        model.fit(np.exp(-t)[:, None], t)
    assert seen and all(found == {1} for found in seen)
