"""Driven fields under constant inputs, which analyses need."""

from collections.abc import Mapping

import numpy as np

from fim_dynsys.analyze.results import FieldLike, unwrap
from fim_dynsys.fields.base import VectorField
from fim_dynsys.fields.driven import DrivenField


def inputs_as_text(inputs: Mapping[str, float]) -> str:
    """Values of inputs as text."""
    return ", ".join(f"{name} = {value:.4g}" for name, value in inputs.items())


def at_constant_inputs(
    field: FieldLike, caller: str, inputs: Mapping[str, float] | None = None
) -> tuple[VectorField, dict[str, float]]:
    """The field behind an argument, and the constant inputs under which it is without any of its own.

    Parameters
    ----------
    field : VectorField or fitted model
        What the user passed.
    caller : str
        Name of the function that was called, for errors.
    inputs : mapping, optional
        Values of all inputs by name; default their means over the data.

    Raises
    ------
    TypeError
        As `unwrap`.
    ValueError
        For inputs of a field that has none, missing ones or too many, or means of a field without data.
    """
    found = unwrap(field, caller)
    if not isinstance(found, DrivenField):
        if inputs:
            raise ValueError(f"{caller}: expected no inputs, which the field does not have, got {inputs}.")
        return found, {}
    names = found.input_names
    if inputs is None:
        data = getattr(field, "context_", None) if found.context is None else found.context
        if data is None:
            some = ", ".join(f'"{name}": 0.0' for name in names)
            raise ValueError(
                f"{caller}: expected values of the inputs {', '.join(names)} of a field without data, "
                f"got none; pass inputs={{{some}}}."
            )
        inputs = dict(zip(names, np.nanmean(np.concatenate(data.input_arrays()), axis=0), strict=True))
    if set(inputs) != set(names):
        raise ValueError(
            f"{caller}: expected inputs with values of {', '.join(names)}, got those of "
            f"{', '.join(map(str, inputs))}."
        )
    held = {name: float(inputs[name]) for name in names}
    return found.at_input(held), held
