"""First imports leave the garbage collector as they found it."""

import gc
import sys

import pytest

from fim_dynsys.importing import imported


@pytest.fixture(autouse=True)
def thawed():
    """Nothing is frozen, as where a user begins: the suite freezes what its collection made."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()
    yield
    if frozen:
        gc.freeze()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module that says by `at_work` whether the collector was at work at its import."""
    (tmp_path / "imported_once.py").write_text("import gc\n\nat_work = gc.isenabled()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "imported_once", raising=False)
    yield "imported_once"
    sys.modules.pop("imported_once", None)


def test_rests_during_an_import_and_works_after_it(module):
    assert not imported(module).at_work
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_works_after_an_import_that_fails():
    with pytest.raises(ModuleNotFoundError):
        imported("no_module_of_this_name")
    assert gc.isenabled() and gc.get_freeze_count() == 0


def test_stays_off_where_the_caller_switched_it_off(module):
    gc.disable()
    try:
        imported(module)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_keeps_what_the_caller_froze(module):
    gc.freeze()
    try:
        assert imported(module).at_work
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
