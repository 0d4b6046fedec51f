"""Random networks of the published architecture, and checkpoints in its authors' layout, for tests."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from fim_dynsys.models.fim_ode.networks import save_weights
from fim_dynsys.models.fim_ode.published import PublishedConfig, PublishedNetwork

SMALL = {
    "width": 32,
    "heads": 4,
    "feedforward": 64,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "uncertainty_layers": 2,
}
OURS = {"clock": "speed", "steps": "rates", "far": "growing"}
DATA = Path(__file__).parents[2] / "data"


def random_network(attention: str = "softmax-gnot", seed: int = 0, **sizes) -> PublishedNetwork:
    """A network with random weights, by default a small one, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = PublishedNetwork(PublishedConfig(attention=attention, **(sizes or SMALL)))
        with torch.no_grad():  # norms start at 1 and 0, and head biases at 0: make every tensor count
            for parameter in network.parameters():
                if parameter.ndim == 1:
                    parameter.add_(0.1 * torch.randn_like(parameter))
    return network.eval()


def without_kinks(network: PublishedNetwork) -> PublishedNetwork:
    """The network with the kinks of its query embedding (ReLU) moved out of reach of the data."""
    with torch.no_grad():
        bias = network.query_embedding[0].bias
        bias.copy_(20 * bias.sign())
    return network


def saved(network: PublishedNetwork, folder: Path) -> Path:
    """The network in a weights file of our format, exactly."""
    config = network.config
    return save_weights(
        folder / "published.safetensors", network, "published", config, config.max_dim, dtype=torch.float32
    )


def authors_names(config: PublishedConfig) -> dict[str, str]:
    """The authors' tensor names, written out from the structure of the network, and ours for each."""
    names = {}

    def linear(theirs, ours):
        for kind in ("weight", "bias"):
            names[f"{theirs}.{kind}"] = f"{ours}.{kind}"

    def blocks(theirs, ours, count, suffix=""):
        for i in range(count):
            for letter, word in (("Q", "query"), ("K", "key"), ("V", "value")):
                linear(f"{theirs}.{i}{suffix}.attn.linear_{letter}", f"{ours}.{i}.attention.{word}")
            linear(f"{theirs}.{i}{suffix}.attn.out_proj", f"{ours}.{i}.attention.out")
            for their_part, part in (("linear1", "expand"), ("linear2", "contract")):
                linear(f"{theirs}.{i}{suffix}.{their_part}", f"{ours}.{i}.{part}")
            for norm in ("norm1", "norm2"):
                linear(f"{theirs}.{i}{suffix}.{norm}", f"{ours}.{i}.{norm}")

    def head(theirs, ours):
        for part, index in (("linear_0", 0), ("linear_1", 3), ("output", 6)):
            linear(f"{theirs}.projection.layers.{part}", f"{ours}.{index}")

    for part, ours in (("x", "x"), ("delta_x", "dx"), ("delta_x_squared", "dx2"), ("delta_t", "dt")):
        linear(f"trajectory_encoder.{part}_proj", f"embedding.{ours}")
    blocks("trajectory_encoder.context_encoder.layers", "encoder", config.encoder_layers, ".self_attn")
    for index in (0, 2):
        linear(f"location_proj.{index}", f"query_embedding.{index}")
    blocks("functional_decoder.res_layers", "decoder", config.decoder_layers)
    head("functional_decoder", "field_head")
    blocks("u_model.functional_encoder.res_layers", "uncertainty", config.uncertainty_layers)
    head("u_model.functional_encoder", "uncertainty_head")
    return names


def authors_folder(
    network: PublishedNetwork, folder: Path, attention_map: str | None = None, **changes
) -> Path:
    """Write the network as its authors would; `changes` replace tensors by name, None leaves one out."""
    folder.mkdir(exist_ok=True)
    config, state = network.config, network.state_dict()
    tensors = {theirs: state[ours].clone() for theirs, ours in authors_names(config).items()} | changes
    tensors = {f"model.{name}": tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    settings = {
        "attention_method": "linear",
        "attention_map": attention_map or config.attention,
        "dim_embed": config.width,
        "num_heads": config.heads,
        "dim_feedforward": config.feedforward,
        "num_context_encoder_layers": config.encoder_layers,
        "num_res_layers_functional_decoder": config.decoder_layers,
        "num_res_layer_u_model": config.uncertainty_layers,
        "dim_max_trajectory": config.max_dim,
        "dropout": config.dropout,
    }
    (folder / "config.json").write_text(json.dumps({"model_config": settings, "train_config": {}}))
    return folder
