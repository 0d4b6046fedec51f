"""Weights files: our own format, the authors' checkpoints, and the files shipped with the package."""

import dataclasses
import hashlib
import importlib
import json
import os
import re
import tempfile
import warnings
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from fim_dynsys.errors import WeightsWarning

FORMAT_VERSION = 1
HEADER_KEY = "fim_dynsys"
SHIPPED = Path(__file__).parent / "weights"

# Architecture name -> module, configuration class, network class; imported when a file asks for it.
ARCHITECTURES = {
    "published": ("fim_dynsys.models.fim_ode.published", "PublishedConfig", "PublishedNetwork"),
    "amortised": ("fim_dynsys.models.fim_ode.amortised", "AmortisedConfig", "AmortisedNetwork"),
}

AUTHORS_FILES = ("config.json", "model.safetensors")

# How the authors' tensor names translate into those of PublishedNetwork, applied in this order.
_AUTHORS_NAMES = tuple(
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


def save_weights(
    path,
    network: nn.Module,
    architecture: str,
    config,
    max_dim: int,
    extra_metadata=None,
    dtype=torch.float16,
) -> Path:
    """Write a network to a safetensors file whose header says what it is.

    Parameters
    ----------
    path : path-like
        Replaced in one step; a reader never sees half a file.
    network : nn.Module
        Its state dict is stored; floating-point tensors as `dtype`, all others unchanged.
    architecture : str
        A name in ``ARCHITECTURES``.
    config : dataclass
        What the network was built from; plain numbers, strings and tuples.
    max_dim : int
        Largest dimension of the states the network takes.
    extra_metadata : dict, optional
        Anything JSON can hold: how and on what the network was trained.
    dtype : torch.dtype

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If the architecture is unknown or a weight is not finite in `dtype`.
    """
    _check_architecture("save_weights", architecture)
    header = {
        "format_version": FORMAT_VERSION,
        "architecture": architecture,
        "config": dataclasses.asdict(config),
        "max_dim": int(max_dim),
        "extra": dict(extra_metadata or {}),
    }
    tensors = {name: _stored(name, tensor, dtype) for name, tensor in network.state_dict().items()}
    path = Path(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    os.close(handle)
    try:
        save_file(tensors, temporary, metadata={HEADER_KEY: json.dumps(header, sort_keys=True)})
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return path


def read_weights(path) -> tuple[dict, dict[str, Tensor]]:
    """Header and tensors of a weights file in our format, as stored.

    Returns
    -------
    header : dict
        ``format_version``, ``architecture``, ``config``, ``max_dim``, ``extra``.
    tensors : dict of str to Tensor

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the file is corrupt, truncated, pickled, of another origin or of a newer format.
    """
    metadata, tensors = _read_safetensors(path)
    if HEADER_KEY not in metadata:
        raise ValueError(
            f"read_weights: expected a weights file written by fim_dynsys, got {str(path)!r}, a safetensors file "
            f"without the {HEADER_KEY!r} header; files of other projects are read only as published FIM-ODE "
            'checkpoints, by load("fim-ode-published", weights=...).'
        )
    return _header(path, metadata[HEADER_KEY]), tensors


def build_network(path) -> tuple[nn.Module, dict]:
    """Network of a weights file in our format, in evaluation mode and float32 on the CPU, and its header.

    Raises
    ------
    FileNotFoundError, ValueError
        As `read_weights`; also ValueError when tensors and configuration do not fit each other.
    """
    header, tensors = read_weights(path)
    config_class, network_class = _classes(header["architecture"])
    try:
        network = network_class(config_class(**_tuples(header["config"])))
    except TypeError as error:
        raise ValueError(
            f"build_network: the configuration in {str(path)!r} does not fit the architecture "
            f"{header['architecture']!r} of this version ({error}); upgrade fim-dynsys or use its own weights."
        ) from error
    _load_strictly("build_network", path, network, tensors)
    return network.eval(), header


def read_published(path, attention: str | None = None) -> tuple[nn.Module, dict]:
    """Read the published network from the authors' checkpoint or from a file in our format.

    Parameters
    ----------
    path : path-like
        A folder with ``config.json`` and ``model.safetensors`` as the authors publish it, their safetensors
        file alone (its folder's ``config.json`` is read where there is one), or a file in our format.
    attention : {"softmax-gnot", "softmax"}, optional
        Overrides the attention map that the configuration names; needed when there is no configuration,
        because tensors do not tell the two maps apart.

    Returns
    -------
    network : PublishedNetwork
        In evaluation mode, float32.
    header : dict
        As that of `read_weights`.

    Warns
    -----
    WeightsWarning
        When the authors' configuration says ``softmax`` and `attention` is not given: the published file
        says so, while the authors' training configuration and later commits name ``softmax-gnot``.

    Raises
    ------
    FileNotFoundError
        Naming the files expected.
    ValueError
        If the attention map stays open, or names and shapes of tensors are not those of the architecture.
    """
    config_path, tensor_path = _locate_published(path)
    metadata, tensors = _read_safetensors(tensor_path)
    if HEADER_KEY in metadata:
        return _rebuilt_published(tensor_path, attention)
    settings = _authors_settings(config_path)
    named = settings.get("attention_map")
    if attention is None and named is None:
        raise ValueError(
            f"fim-ode-published: expected a config.json that names the attention map of {str(tensor_path)!r}, got "
            'none, and the tensors do not tell; give attention="softmax-gnot" (the authors\' training '
            'configuration) or attention="softmax" (the legacy map).'
        )
    if attention is None and named == "softmax":
        warnings.warn(
            f"{str(config_path)!r} names the attention map 'softmax', which loads the legacy map (keys softmaxed over "
            "the sequence). The authors' training configuration names 'softmax-gnot' for the same tensor shapes; "
            'if results look wrong, give attention="softmax-gnot".',
            WeightsWarning,
            stacklevel=2,
        )
    return _from_authors(tensor_path, tensors, settings, named if attention is None else attention)


def describes_published(path) -> bool:
    """Whether `path` holds the published network: anything but a file in our format that says otherwise."""
    path = Path(path)
    if path.is_dir():
        return True
    metadata, _ = _read_safetensors(path, tensors=False)
    return HEADER_KEY not in metadata or _header(path, metadata[HEADER_KEY])["architecture"] == "published"


def weights_version(path) -> str:
    """First 8 hexadecimal digits of the file's sha256 (of ``model.safetensors`` for a folder)."""
    return file_digest(path)[:8]


def file_digest(path) -> str:
    """The sha256 of a weights file, or of the ``model.safetensors`` of a folder, in hexadecimal."""
    path = Path(path)
    path = path / AUTHORS_FILES[1] if path.is_dir() else path
    with _opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shipped(name: str) -> Path:
    """Path of a weights file inside the package, by its name without the suffix.

    Raises
    ------
    FileNotFoundError
        Naming the file expected and those that are there.
    """
    path = SHIPPED / f"{name}.safetensors"
    if not path.is_file():
        there = sorted(p.stem for p in SHIPPED.glob("*.safetensors"))
        raise FileNotFoundError(
            f"shipped: expected {str(path)!r} in the package, got none; shipped are {there}."
        )
    return path


# --- reading ---------------------------------------------------------------------------------------------


def _opened(path):
    try:
        return open(path, "rb")
    except IsADirectoryError as error:
        raise ValueError(f"Weights: expected a safetensors file, got the folder {str(path)!r}.") from error
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Weights: expected a safetensors file at {str(path)!r}, got nothing."
        ) from error


def _read_safetensors(path, tensors: bool = True) -> tuple[dict, dict[str, Tensor]]:
    """Metadata and tensors of a safetensors file; anything else is refused unopened."""
    with _opened(path) as file:
        start = file.read(8)
    if start[:2] == b"PK" or start[:1] == b"\x80":
        raise ValueError(
            f"Weights: expected a safetensors file, got {str(path)!r}, which looks pickled (torch.save); it is never "
            "opened, because that could run any code. Convert it with safetensors where you trust it."
        )
    try:
        with safe_open(path, framework="pt") as file:
            loaded = {name: file.get_tensor(name) for name in file.keys()} if tensors else {}  # noqa: SIM118
            return file.metadata() or {}, loaded
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"Weights: expected a whole safetensors file, got {str(path)!r}, which is corrupt, truncated or of "
            f"another kind ({error}); fetch it again."
        ) from error


def _header(path, text: str) -> dict:
    required = {"format_version", "architecture", "config", "max_dim", "extra"}
    try:
        header = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"Weights: the header of {str(path)!r} is not JSON ({error}); fetch it again."
        ) from error
    if not isinstance(header, dict) or not required <= header.keys():
        raise ValueError(
            f"Weights: expected the header of {str(path)!r} to hold {sorted(required)}, got {text!r}."
        )
    if header["format_version"] != FORMAT_VERSION:
        raise ValueError(
            f"Weights: expected format version {FORMAT_VERSION} in {str(path)!r}, got {header['format_version']!r}; "
            "upgrade fim-dynsys."
        )
    _check_architecture(f"Weights {str(path)!r}", header["architecture"])
    return header


def _check_architecture(who: str, name: str) -> None:
    if name not in ARCHITECTURES:
        raise ValueError(f"{who}: expected an architecture among {sorted(ARCHITECTURES)}, got {name!r}.")


def _classes(architecture: str) -> tuple[type, type]:
    module, config, network = ARCHITECTURES[architecture]
    loaded = importlib.import_module(module)
    return getattr(loaded, config), getattr(loaded, network)


def _tuples(value):
    """JSON's lists back to the tuples that frozen configurations hold."""
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def _stored(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        return tensor.contiguous().clone()
    stored = tensor.to(dtype, copy=True).contiguous()
    if not stored.isfinite().all():
        raise ValueError(
            f"save_weights: expected finite weights in {dtype}, got {name!r} with largest magnitude "
            f"{tensor.abs().max().item():.3g}; store as float32 or look at the training run."
        )
    return stored


def _load_strictly(who: str, path, network: nn.Module, tensors: dict[str, Tensor]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    got = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if expected == got:
        network.load_state_dict(tensors)
        return
    missing, extra = sorted(expected.keys() - got.keys()), sorted(got.keys() - expected.keys())
    differing = [
        f"{n} {got[n]} for {expected[n]}" for n in expected.keys() & got.keys() if expected[n] != got[n]
    ]
    problems = [
        f"{len(names)} {kind} ({', '.join(names[:3])}{', ...' if len(names) > 3 else ''})"
        for kind, names in (("missing", missing), ("unknown", extra), ("of another shape", sorted(differing)))
        if names
    ]
    raise ValueError(
        f"{who}: expected the {len(expected)} tensors of {type(network).__name__}, got {str(path)!r} with "
        f"{' and '.join(problems)}; these weights belong to another network."
    )


# --- the published network -------------------------------------------------------------------------------


def published_files_text() -> str:
    """What `weights=` of the published network expects, in words."""
    config, tensors = AUTHORS_FILES
    return (
        f"a folder with {config!r} and {tensors!r} (as FIM4Science publishes FIM-ODE) or one safetensors file"
    )


def _locate_published(path) -> tuple[Path | None, Path]:
    """The configuration (None where there is none) and the tensors that `path` stands for."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"fim-ode-published: expected weights= to be {published_files_text()}, got nothing at {str(path)!r}."
        )
    if path.is_dir():
        config, tensors = (path / name for name in AUTHORS_FILES)
        missing = [file.name for file in (config, tensors) if not file.is_file()]
        if missing:
            raise FileNotFoundError(
                f"fim-ode-published: expected {published_files_text()}, got the folder {str(path)!r} without "
                f"{' and '.join(missing)}."
            )
        return config, tensors
    beside = path.parent / AUTHORS_FILES[0]
    return (beside if path.name == AUTHORS_FILES[1] and beside.is_file() else None), path


def _rebuilt_published(path, attention: str | None) -> tuple[nn.Module, dict]:
    network, header = build_network(path)
    if header["architecture"] != "published":
        raise ValueError(
            f"fim-ode-published: expected the published network, got {str(path)!r}, whose architecture is "
            f'{header["architecture"]!r}; load it as "fim-ode".'
        )
    if attention in (None, network.config.attention):
        return network, header
    config = dataclasses.replace(network.config, attention=attention)
    other = type(network)(config)
    other.load_state_dict(network.state_dict())
    return other.eval(), header | {"config": dataclasses.asdict(config)}


def _authors_settings(path: Path | None) -> dict:
    if path is None:
        return {}
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))["model_config"]
        encoder = settings.get("encoder_type", "standard")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"fim-ode-published: expected {str(path)!r} to be JSON with a 'model_config' object, got something else "
            f"({error!r})."
        ) from error
    if encoder != "standard":
        raise ValueError(
            f"fim-ode-published: expected the standard encoder in {str(path)!r}, got {encoder!r}."
        )
    return settings


def _from_authors(path, tensors: dict[str, Tensor], settings: dict, attention: str) -> tuple[nn.Module, dict]:
    config_class, network_class = _classes("published")
    tensors = {_our_name(name): tensor.float() for name, tensor in _without_prefix(tensors).items()}
    sizes = {
        ours: settings[theirs]
        for ours, theirs in (
            ("width", "dim_embed"),
            ("heads", "num_heads"),
            ("feedforward", "dim_feedforward"),
            ("encoder_layers", "num_context_encoder_layers"),
            ("decoder_layers", "num_res_layers_functional_decoder"),
            ("uncertainty_layers", "num_res_layer_u_model"),
            ("max_dim", "dim_max_trajectory"),
            ("dropout", "dropout"),
        )
        if theirs in settings
    }
    config = config_class(attention=attention, **sizes)
    network = network_class(config)
    _load_strictly("fim-ode-published", path, network, tensors)
    header = {
        "format_version": FORMAT_VERSION,
        "architecture": "published",
        "config": dataclasses.asdict(config),
        "max_dim": config.max_dim,
        "extra": {"origin": "FIM4Science checkpoint"},
    }
    return network.eval(), header


def _without_prefix(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names without the one leading ``model.`` that the authors' file gives to all of them."""
    if all(name.startswith("model.") for name in tensors):
        return {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    return tensors


def _our_name(name: str) -> str:
    for pattern, replacement in _AUTHORS_NAMES:
        name = pattern.sub(replacement, name)
    return name
