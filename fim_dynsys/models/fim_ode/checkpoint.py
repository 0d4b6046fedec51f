"""The published network from a file: the authors' checkpoints, or our own format."""

import dataclasses
import json
import os
import re
from pathlib import Path
from typing import NamedTuple

from torch import Tensor

from fim_dynsys.errors import WeightsWarning, warn
from fim_dynsys.models.fim_ode.networks import build_network, built, read_tensors
from fim_dynsys.models.fim_ode.published import PublishedConfig, PublishedNetwork
from fim_dynsys.models.fim_ode.weights import read_header

FILES = ("config.json", "model.safetensors")
_CALLER = "fim-ode-published"

# How the authors' tensor names translate into those of PublishedNetwork, applied in this order.
_NAMES = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"^trajectory_encoder\.x_proj\.", "embedding.x."),
        (r"^trajectory_encoder\.delta_x_proj\.", "embedding.dx."),
        (r"^trajectory_encoder\.delta_x_squared_proj\.", "embedding.dx2."),
        (r"^trajectory_encoder\.delta_t_proj\.", "embedding.dt."),
        (r"^trajectory_encoder\.context_encoder\.layers\.(\d+)\.self_attn\.", r"encoder.\1."),
        (r"^location_proj\.", "query_embedding."),
        (r"^functional_decoder\.res_layers\.", "decoder."),
        (r"^functional_decoder\.projection\.layers\.", "field_head."),
        (r"^u_model\.functional_encoder\.res_layers\.", "uncertainty."),
        (r"^u_model\.functional_encoder\.projection\.layers\.", "uncertainty_head."),
        (r"head\.linear_0\.", "head.0."),
        (r"head\.linear_1\.", "head.3."),
        (r"head\.output\.", "head.6."),
        (r"\.attn\.linear_Q\.", ".attention.query."),
        (r"\.attn\.linear_K\.", ".attention.key."),
        (r"\.attn\.linear_V\.", ".attention.value."),
        (r"\.attn\.out_proj\.", ".attention.out."),
        (r"\.linear1\.", ".expand."),
        (r"\.linear2\.", ".contract."),
    )
)

# Sizes in PublishedConfig, and the authors' names for them in model_config.
_SIZES = {
    "width": "dim_embed",
    "heads": "num_heads",
    "feedforward": "dim_feedforward",
    "encoder_layers": "num_context_encoder_layers",
    "decoder_layers": "num_res_layers_functional_decoder",
    "uncertainty_layers": "num_res_layer_u_model",
    "max_dim": "dim_max_trajectory",
    "dropout": "dropout",
}


class Checkpoint(NamedTuple):
    """Where a published network lies and how it is to be read; nothing but headers has been read so far.

    Attributes
    ----------
    tensors : Path
        The safetensors file.
    attention : str
        The attention map to read it with.
    settings : dict or None
        The authors' ``model_config``, empty where there is none; None for a file in our format.
    """

    tensors: Path
    attention: str
    settings: dict | None


def find_checkpoint(path: str | os.PathLike | None, attention: str | None = None) -> Checkpoint:
    """Find the files of a published network and settle its attention map.

    Parameters
    ----------
    path : path-like or None
        A folder with ``config.json`` and ``model.safetensors`` as the authors publish it, their safetensors
        file alone (a ``config.json`` beside it is read), or a file in our format.
    attention : {"softmax-gnot", "softmax"}, optional
        Overrides the map that the configuration names; needed where there is none, because the tensors do
        not tell the two maps apart.

    Returns
    -------
    Checkpoint

    Warns
    -----
    WeightsWarning
        Where the authors' configuration says ``softmax`` and `attention` is not given. The published file
        says so, while the authors' training configuration names ``softmax-gnot``.

    Raises
    ------
    FileNotFoundError
        Naming the files expected.
    ValueError
        If the map stays open, or the files are not what they should be.
    """
    config_path, tensor_path = locate(path)
    header = read_header(tensor_path)
    if header is not None:
        _check_published(tensor_path, header)
        config = header["config"] if isinstance(header["config"], dict) else {}
        default = config.get("attention", PublishedConfig.attention)
        return Checkpoint(tensor_path, attention or str(default), None)
    settings = {} if config_path is None else _read_settings(config_path)
    named = settings.get("attention_map")
    if attention is None and named is None:
        raise ValueError(
            f"{_CALLER}: expected a config.json that names the attention map of {str(tensor_path)!r}, got "
            "none, and the tensors do not tell; give attention='softmax-gnot' (the authors' training map) "
            "or attention='softmax' (the legacy map)."
        )
    if attention is None and named == "softmax":
        warn(
            f"{str(config_path)!r} names the attention map 'softmax', so the legacy map is loaded (keys take "
            "their softmax over the sequence). That is ambiguous: the authors' training configuration names "
            "'softmax-gnot', and tensors have the same shapes for both. To choose, give attention=.",
            WeightsWarning,
        )
    return Checkpoint(tensor_path, str(attention or named), settings)


def read_checkpoint(checkpoint: Checkpoint) -> PublishedNetwork:
    """The network, in evaluation mode and float32 on the CPU.

    Raises
    ------
    ValueError
        If names and shapes of the tensors are not exactly those of the architecture, or the file is corrupt.
    """
    if checkpoint.settings is None:
        network, _ = build_network(checkpoint.tensors)
        assert isinstance(network, PublishedNetwork)
        return with_attention(network, checkpoint.attention)
    sizes = {ours: checkpoint.settings[name] for ours, name in _SIZES.items() if name in checkpoint.settings}
    try:
        config = PublishedConfig(attention=checkpoint.attention, **sizes)
    except ValueError as error:
        raise ValueError(f"{_CALLER}: expected other numbers for the sizes in {FILES[0]}: {error}") from error
    tensors = translated(read_tensors(checkpoint.tensors))
    network = built(_CALLER, checkpoint.tensors, lambda: PublishedNetwork(config), tensors)
    return network.eval()


def translated(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The authors' tensors under our names; one leading ``model.`` is removed where all names carry it."""
    if all(name.startswith("model.") for name in tensors):
        tensors = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    return {_our_name(name): tensor for name, tensor in tensors.items()}


def with_attention(network: PublishedNetwork, attention: str) -> PublishedNetwork:
    """The same weights under an attention map; the network itself where it has that map already."""
    if attention == network.config.attention:
        return network
    other = PublishedNetwork(dataclasses.replace(network.config, attention=attention))
    other.load_state_dict(network.state_dict())
    return other.eval()


def _our_name(name: str) -> str:
    for pattern, replacement in _NAMES:
        name = pattern.sub(replacement, name)
    return name


def locate(path: str | os.PathLike | None) -> tuple[Path | None, Path]:
    """The configuration (None where there is none) and the tensors that `path` stands for.

    Raises
    ------
    FileNotFoundError
        Naming the files expected.
    """
    config, tensors = FILES
    expected = (
        f"{_CALLER}: expected weights= to be a folder with {config!r} and {tensors!r}, as FIM4Science "
        "publishes FIM-ODE, or one safetensors file"
    )
    if path is None:
        raise FileNotFoundError(f"{expected}, got None; the authors' weights are not part of this package.")
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{expected}, got nothing at {str(path)!r}.")
    if path.is_dir():
        missing = [name for name in FILES if not (path / name).is_file()]
        if missing:
            raise FileNotFoundError(
                f"{expected}, got the folder {str(path)!r} without {' and '.join(missing)}."
            )
        return path / config, path / tensors
    beside = path.with_name(config)
    return (beside if path.name == tensors and beside.is_file() else None), path


def _read_settings(path: Path) -> dict:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))["model_config"]
        encoder = settings.get("encoder_type", "standard")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{_CALLER}: expected {str(path)!r} to be JSON with an object 'model_config', got something else "
            f"({type(error).__name__}: {error})."
        ) from error
    if encoder != "standard":
        raise ValueError(f"{_CALLER}: expected the standard encoder in {str(path)!r}, got {encoder!r}.")
    return settings


def _check_published(path: Path, header: dict) -> None:
    if header["architecture"] != "published":
        raise ValueError(
            f"{_CALLER}: expected the published network, got {str(path)!r}, whose architecture is "
            f'{header["architecture"]!r}; load("fim-ode", weights=...) takes it.'
        )
