"""A box that names an unknown state is an error in every public function that takes a box."""

import inspect

import numpy as np
import pytest

import fim_dynsys
from fim_dynsys import (
    AffineField,
    CallableField,
    EnsembleField,
    FieldFamily,
    FieldPlane,
    Region,
    Trajectories,
    VectorField,
    analyze,
    plot,
)
from fim_dynsys.explorer.page import write_explorer
from fim_dynsys.report import write_report

BOX = {"low": [-2.0, -2.0], "high": [2.0, 2.0]}


def rates(x):
    return np.stack([x[:, 1], -x[:, 0] + (1 - x[:, 0] ** 2) * x[:, 1]], axis=1)


@pytest.fixture(scope="module", params=[None, ("prey", "predator")], ids=["x0, x1", "names"])
def given(request):
    """A field, family, plane, records and a fitted model with default names or with others."""
    names = request.param
    t = np.linspace(0.0, 6.0, 60)
    x = np.stack([np.cos(t), -np.sin(t)], axis=1)
    field = CallableField(rates, 2, state_names=names, region=Region(**BOX))
    records = Trajectories.from_arrays(
        [x] * 6,
        [t] * 6,
        state_names=names,
        coords={"mu": np.arange(6.0), "nu": np.tile([0.0, 1.0], 3)},
    )
    return {
        "names": names,
        "three": (*(names or ("x0", "x1")), "x2"),
        "field": field,
        "family": FieldFamily.from_callable(lambda x, p: rates(x) + p, 2, "p", state_names=names),
        "plane": FieldPlane.from_callable(lambda x, p, q: rates(x) + p + q, 2, ("p", "q"), state_names=names),
        "records": records,
        "model": fim_dynsys.load("sindy").fit(records),
    }


CALLS = {
    analyze.basin_probabilities: lambda g, box: analyze.basin_probabilities(g["field"], box),
    analyze.basins: lambda g, box: analyze.basins(g["field"], box),
    analyze.bifurcation_curves: lambda g, box: analyze.bifurcation_curves(
        g["plane"], [0.0, 0.0], (-1, 1), (-1, 1), box
    ),
    analyze.bifurcations_from_data: lambda g, box: analyze.bifurcations_from_data(
        fim_dynsys.load("sindy"), g["records"], region=box
    ),
    analyze.continuation: lambda g, box: analyze.continuation(g["family"], [0.0, 0.0], (-1, 1), box),
    analyze.curves_from_data: lambda g, box: analyze.curves_from_data(
        fim_dynsys.load("sindy"), g["records"], ("mu", "nu"), box
    ),
    analyze.cycle_bands: lambda g, box: analyze.cycle_bands(g["model"], box),
    analyze.ensemble: lambda g, box: analyze.ensemble(analyze.fixed_points, [g["field"]] * 2, box),
    analyze.fixed_points: lambda g, box: analyze.fixed_points(g["model"], box),
    analyze.isochrons: lambda g, box: analyze.isochrons(g["field"], box),
    analyze.limit_cycles: lambda g, box: analyze.limit_cycles(g["field"], box),
    analyze.manifold_bands: lambda g, box: analyze.manifold_bands(g["model"], box),
    analyze.manifolds: lambda g, box: analyze.manifolds(g["field"], box),
    analyze.nullclines: lambda g, box: analyze.nullclines(g["field"], box),
    analyze.phase_response: lambda g, box: analyze.phase_response(g["field"], box),
    analyze.resilience: lambda g, box: analyze.resilience(g["family"], [0.0, 1.0], box),
    analyze.tipping: lambda g, box: analyze.tipping(g["field"], [0.1, 0.0], 5.0, region=box),
    plot.compare_fields: lambda g, box: plot.compare_fields(g["field"], g["field"], region=box),
    plot.phase_portrait: lambda g, box: plot.phase_portrait(g["field"], region=box),
    plot.portrait_3d: lambda g, box: plot.portrait_3d(
        CallableField(lambda x: -x, 3, state_names=g["three"]),
        region={**Region(box).pairs, g["three"][2]: (0.0, 1.0)},
    ),
    plot.support_map: lambda g, box: plot.support_map(g["model"], region=box),
    plot.uncertainty_map: lambda g, box: plot.uncertainty_map(g["model"], region=box),
    AffineField: lambda g, box: AffineField(
        CallableField(rates, 2), [1.0, 1.0], state_names=g["names"], region=Region(box)
    ),
    FieldFamily: lambda g, box: FieldFamily.from_callable(
        lambda x, p: rates(x) + p, 2, "p", state_names=g["names"], region=Region(box)
    ),
    VectorField: lambda g, box: CallableField(rates, 2, state_names=g["names"], region=Region(box)),
    fim_dynsys.distill: lambda g, box: fim_dynsys.distill(g["field"], Region(box)),
    write_explorer: lambda g, box: write_explorer(g["field"], "never.html", region=box),
    write_report: lambda g, box: write_report(g["model"], "never.html", region=box),
    fim_dynsys.VectorFieldModel.explore: lambda g, box: g["model"].explore(
        "never.html", n_draws=0, region=box
    ),
}
# The same functions, where they take something else in place of a field.
OTHERS = {
    "ensemble of fields": lambda g, box: analyze.ensemble(
        analyze.fixed_points, EnsembleField([g["field"]] * 2), box
    ),
    "tipping of a family": lambda g, box: analyze.tipping(
        g["family"], [0.1, 0.0], 5.0, ramp=(0.0, 1.0), region=box
    ),
    "continuation on a level": lambda g, box: analyze.continuation(
        FieldFamily.from_callable(
            lambda x, p: np.stack([-p * x[:, 0], p * x[:, 0]], axis=1), 2, "p", state_names=g["names"]
        ),
        [0.5, 0.5],
        (1.0, 2.0),
        box,
    ),
    "map of an ensemble": lambda g, box: plot.uncertainty_map(EnsembleField([g["field"]] * 2), region=box),
}


def takes_a_region():
    """All public functions and classes with an argument for a box, but those of results."""
    for module in (analyze, plot, fim_dynsys):
        for name in module.__all__:
            thing = getattr(module, name)
            is_result = inspect.isclass(thing) and name in (*analyze.__all__, "Distillation")
            if callable(thing) and not is_result:
                try:
                    arguments = inspect.signature(thing).parameters
                except ValueError:
                    continue
                if {"region", "box"} & set(arguments):
                    yield thing


def test_no_public_function_is_left_out():
    assert {thing.__qualname__ for thing in takes_a_region()} <= {thing.__qualname__ for thing in CALLS}


@pytest.mark.parametrize(
    "call", [*CALLS.values(), *OTHERS.values()], ids=[*(f.__name__ for f in CALLS), *OTHERS]
)
@pytest.mark.parametrize("as_box", [dict, Region], ids=["dict", "Region"])
def test_a_region_of_an_unknown_state_is_an_error(given, call, as_box):
    known = given["names"] or ("x0", "x1")
    with pytest.raises(ValueError, match=rf"expected a region of the states .*{known[0]}.*, got one of zz"):
        call(given, as_box({known[1]: (-1.0, 2.0), "zz": (-5.0, 6.0)}))


def test_default_names_in_a_dict_are_names_too():
    field = CallableField(rates, 2, state_names=["prey", "predator"])
    with pytest.raises(ValueError, match="expected a region of the states prey, predator, got one of x0, x1"):
        analyze.fixed_points(field, {"x0": (-1.0, 1.0), "x1": (-1.0, 1.0)})
    assert len(analyze.fixed_points(field, [(-1.0, 1.0)] * 2).x) == 1  # pairs go by position
