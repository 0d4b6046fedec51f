"""Put a network for more states beside an operator: python -m training.many --run NAME [--up-to D].

Weights of our operator may hold a second network of the same sizes, which is asked about contexts of more
states than the first was trained on (`fim_dynsys.models.fim_ode.operators.ByDimension`). Answers about fewer
states stay as they are, bit for bit.
"""

import argparse
from pathlib import Path

import numpy as np

from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.own import DEFAULT_WEIGHTS
from fim_dynsys.models.fim_ode.weights import (
    MANY,
    header_of_ours,
    read_config,
    read_parameters,
    shipped,
    write_part,
)


def put_beside(weights: Path, many: Path, out: Path, up_to: int | None = None) -> Path:
    """Write a copy of an operator's weights with another network beside its own.

    Parameters
    ----------
    weights, many : Path
        Weights files of two operators of the same sizes.
    out : Path
        Written in one step; may be `weights`.
    up_to : int, optional
        States up to which the operator itself answers; default: as many as it was trained on.

    Returns
    -------
    Path

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_parameters`; ValueError also where the sizes differ.
    """
    headers = {path: header_of_ours(path) for path in (weights, many)}
    own, other = (read_config("put_beside", *item, AmortisedConfig) for item in headers.items())
    if own != other:
        raise ValueError(f"put_beside: expected a network of the sizes {own} in {str(many)!r}, got {other}.")
    parameters = read_parameters("put_beside", many)
    about = headers[many]["extra"] | {"up to": own.max_dim if up_to is None else up_to}
    return write_part(weights, out, MANY, parameters, {"many": about}, np.float16)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m training.many", description=__doc__)
    parser.add_argument("--run", required=True, help="folder in runs/ of the network for more states")
    parser.add_argument("--weights", type=Path, help="the operator's weights file (default: shipped)")
    parser.add_argument("--up-to", type=int, help="states up to which the operator itself answers")
    parser.add_argument("--out", type=Path, help="default: runs/RUN/beside.safetensors")
    arguments = parser.parse_args()
    folder = Path("runs") / arguments.run
    weights = arguments.weights or shipped(DEFAULT_WEIGHTS)
    out = arguments.out or folder / "beside.safetensors"
    print(put_beside(weights, folder / "weights.safetensors", out, arguments.up_to))


if __name__ == "__main__":
    main()
