"""Where candidates come from: facts that code reads, and their text."""

from fim_dynsys.search.origins import Origin, Stage, named


def test_a_candidate_knows_the_stages_that_it_went_through():
    first = Origin(Stage.SOLVE, number=11)
    last = first.then(Stage.PRUNING).then(Stage.RESELECTION)
    assert last.source is Stage.SOLVE and last.passed(Stage.RESELECTION)
    assert not first.passed(Stage.RESELECTION)
    assert first.text() == "operator, solve 11"
    assert last.text() == "operator, solve 11, reselected"


def test_pruning_and_a_repeated_stage_are_said_once():
    start = Origin(Stage.REGRESSION, "degree 2, STLSQ 0.1")
    once = start.then(Stage.RESELECTION).then(Stage.PRUNING)
    assert once.text() == "degree 2, STLSQ 0.1, reselected, pruned"
    assert once.then(Stage.PRUNING) == once
    assert once.then(Stage.RESELECTION) == start.then(Stage.RESELECTION)


def test_states_in_a_setting_are_written_with_their_given_numbers():
    origin = Origin(Stage.IMPLICIT_REGRESSION, f"hill {named(0)}, sin {named(2)}")
    assert origin.text() == "implicit regression: hill x0, sin x2"
    assert origin.text((2, 0, 1)) == "implicit regression: hill x2, sin x1"


def test_what_a_plugin_proposed_carries_the_proposer_s_name():
    origin = Origin(Stage.PROPOSED, f"guesses: hill {named(0)}").then(Stage.PRUNING)
    assert origin.text((1, 0)) == "guesses: hill x1, pruned"
