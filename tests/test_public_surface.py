"""Every public name of a model, of a field and of trajectories has a reason to be one."""

import inspect

import numpy as np
import pytest

import fim_dynsys

# Each group says why its names are public. A name that is none of these belongs behind an underscore.
MODEL = {
    "to learn and to keep": "fit infer infer_many finetune save restore ensemble",
    "answers": (
        "field_ context_ equations print explore forecast simulate predict score coefficients complexity"
    ),
    "how far an answer may be relied on": "trust_along",
    "pysindy's and scikit-learn's names": (
        "differentiate get_feature_names feature_names feature_names_ n_features_in_ get_params set_params"
    ),
    "what those declare who write a model": (
        "name version kind field_classes min_observations max_dim check_context takes scale_equivariance"
    ),
}
FIELD = {
    "the function and its derivatives": "jacobian directional ivp stack scale support draws",
    "what surrounds it": "dim state_names region scales context frame fit_info",
    "the same with other notes": "with_fit_info",
    "as equations": (
        "equations latex sympy terms get_feature_names dictionary coefficients complexity to_dataframe"
    ),
    "its errors": "standard_errors",
    "on disk": "to_arrays from_arrays of",
}
TRAJECTORIES = {
    "made": "from_arrays from_dataframe from_dataset from_file",
    "written": "to_dataframe to_file dataset",
    "values": "t x u n_obs dim arrays input_arrays padded box equals",
    "names": "state_names input_names units coords hold status t_stop",
    "the same with other parts": (
        "with_x with_coords with_units with_hold without_inputs drop_incomplete select_samples select_states"
    ),
}


@pytest.fixture(scope="module")
def fitted():
    t = np.linspace(0.0, 10.0, 100)
    return fim_dynsys.load("sindy-strong").fit(np.stack([np.cos(t), -np.sin(t)], axis=1), t)


def is_earlier(owner, name):
    """Whether a name is an earlier one of another, which goes in the next version but one."""
    doc = inspect.getdoc(getattr(owner, name, None))
    return isinstance(getattr(owner, name, None), property) and str(doc).startswith("Earlier name of")


@pytest.mark.parametrize(
    ("part", "reasons", "most"),
    [("model", MODEL, 35), ("field_", FIELD, 28), ("context_", TRAJECTORIES, 32)],
)
def test_each_public_name_has_a_reason(fitted, part, reasons, most):
    thing = fitted if part == "model" else getattr(fitted, part)
    known = [name for names in reasons.values() for name in names.split()]
    parameters = set(inspect.signature(type(thing)).parameters) if part == "model" else set()
    public = {name for name in dir(thing) if not name.startswith("_") and not is_earlier(type(thing), name)}
    assert len(known) == len(set(known)) <= most
    assert public - parameters == set(known) - parameters
