"""Public names with their types; written by `python -m tests.stubs`."""

from fim_dynsys.testing.fields import check_field as check_field
from fim_dynsys.testing.inputs import check_scaling as check_scaling
from fim_dynsys.testing.models import check_model as check_model
from fim_dynsys.testing.requirements import example_data as example_data
from fim_dynsys.testing.trajectories import check_trajectory_model as check_trajectory_model

__all__ = [
    "check_field",
    "check_model",
    "check_scaling",
    "check_trajectory_model",
    "example_data",
]
