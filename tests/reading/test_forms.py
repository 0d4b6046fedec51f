"""Files as instruments and people write them: read rightly, or refused with the argument to give."""

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

sys.path.insert(0, str(Path(__file__).parent))
import exports  # registers its forms, as the next does
import instruments
from forms import FORMS, Form

assert instruments.Form is exports.Form is Form


def read(form: Form, folder: Path) -> Trajectories:
    path = folder / form.name
    path.write_bytes(form.content)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReadingWarning)
        return Trajectories.from_file(path, **form.options)


@pytest.mark.parametrize("name", FORMS)
def test_form(name, tmp_path):
    form = FORMS[name]()
    if form.refused:
        with pytest.raises(ValueError, match=r"^Trajectories\.from_file: expected ") as refused:
            read(form, tmp_path)
        assert form.refused in str(refused.value)
        return
    data = read(form, tmp_path)
    assert data.state_names == form.states
    assert len(data) == len(form.x)
    for (t, x), right_t, right_x in zip(data.arrays(), form.t, form.x, strict=True):
        np.testing.assert_allclose(t, right_t, rtol=1e-9, atol=2e-6)
        np.testing.assert_allclose(x, right_x, rtol=1e-9, atol=2e-6)
    assert form.says in data.dataset.attrs["read"] and data.dataset.attrs["read"] in repr(data)
    for key, unit in form.units.items():
        assert data.units[key] == unit
    assert {key: values.tolist() for key, values in data.coords.items()} == form.coords
