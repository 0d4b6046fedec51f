"""Fit PEtab problems by pyPESTO with AMICI, which compiles each model in C++, in an environment of their own.

python3 -m venv .venv-pypesto
.venv-pypesto/bin/pip install pypesto amici petab fides swig
export PATH=$PWD/.venv-pypesto/bin:$PATH
python benchmarks/estimation/pypesto_amici.py DIR --out DIR/pypesto.csv

DIR has a folder for each problem, such as ``python -m benchmarks.estimation --write-petab DIR`` makes;
``python -m benchmarks.estimation --data DIR`` fits them with our model.
"""

import argparse
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import petab.v1 as petab
import pypesto.optimize
import yaml
from pypesto.petab import PetabImporter

_EQUAL = 0.1  # log-likelihood units: an equal optimum, as in benchmarks.estimation


def read(path: Path) -> petab.Problem:
    """Read a problem without its visualization tables, which collections leave out."""
    tables = yaml.safe_load(path.read_text(encoding="utf-8"))
    first = tables["problems"][0]
    return petab.Problem.from_files(
        sbml_file=path.parent / first["sbml_files"][0],
        condition_file=path.parent / first["condition_files"][0],
        measurement_file=path.parent / first["measurement_files"][0],
        observable_files=path.parent / first["observable_files"][0],
        parameter_file=path.parent / tables["parameter_file"],
    )


def row(path: Path, n_starts: int) -> dict:
    """Best objective of all searches, the share that reaches it, and CPU seconds without compilation."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        name = "model_" + "".join(c if c.isalnum() else "_" for c in path.parent.name)
        importer = PetabImporter(read(path), output_folder=folder, model_name=name)
        problem = importer.create_problem(importer.create_objective_creator().create_objective())
        compiled = time.perf_counter() - began
        logging.disable(logging.CRITICAL)
        np.random.seed(0)  # noqa: NPY002 - pyPESTO draws starts from the global generator
        began = time.process_time()
        optimizer = pypesto.optimize.FidesOptimizer(verbose=logging.ERROR)
        found = pypesto.optimize.minimize(problem, optimizer, n_starts=n_starts, progress_bar=False)
        seconds = time.process_time() - began
    values = np.array([np.inf if v is None else v for v in found.optimize_result.fval], dtype=float)
    return {
        "problem": path.parent.name,
        "objective": values.min(),
        "searches": len(values),
        "share": np.mean(values <= values.min() + _EQUAL),
        "cpu_s": seconds,
        "compile_s": compiled,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("data", type=Path, metavar="DIR")
    parser.add_argument("--starts", type=int, default=50, help="searches of each problem; default: 50")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args()
    rows = []
    for path in sorted(options.data.glob("*/*.yaml")):
        rows.append(row(path, options.starts))
        pd.DataFrame(rows).to_csv(options.out, index=False, float_format="%.6g")
        print(pd.DataFrame(rows[-1:]).to_string(index=False, header=len(rows) == 1), flush=True)


if __name__ == "__main__":
    main()
