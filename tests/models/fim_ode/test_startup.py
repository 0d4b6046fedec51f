"""What a process loads and says before its first fit is there."""

import json
import subprocess
import sys
from pathlib import Path

FIT = """
import json, sys
import numpy as np
import fim_dynsys

t = np.linspace(0.0, 4.0, 40)
noise = 0.05 * np.random.default_rng(0).standard_normal((40, 1))  # clean samples ask scipy for weights
model = fim_dynsys.load("fim-ode").fit(2.0 * np.exp(-0.5 * t)[:, None] + noise, t)
field = model.field_.draws(2, seed=0)
print(json.dumps(sorted(sys.modules)))
"""


def test_a_fit_needs_no_torch() -> None:
    """Torch takes longer to import than all the rest together; scikit-learn and scipy.stats come next."""
    run = subprocess.run(
        [sys.executable, "-c", FIT], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    modules = set(json.loads(run.stdout.splitlines()[-1]))
    loaded = {name.partition(".")[0] for name in modules}
    assert loaded & {"torch", "sklearn", "sympy", "pysindy", "matplotlib", "joblib"} == set()
    assert modules & {f"scipy.{part}" for part in ("integrate", "interpolate", "optimize", "stats")} == set()
    assert {"numba", "xarray"} <= loaded
