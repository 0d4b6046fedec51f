"""Weights files: what is written comes back, checkpoints are read strictly, the rest is refused."""

import hashlib
import json
import pickle
import struct
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
import torch
from published_networks import authors_folder, authors_names, random_network, saved
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import load_file, save_file

import fim_dynsys
from fim_dynsys.errors import WeightsWarning
from fim_dynsys.models.fim_ode import networks, weights
from fim_dynsys.models.fim_ode.checkpoint import find_checkpoint, read_checkpoint, translated
from fim_dynsys.models.fim_ode.published import PublishedConfig, PublishedNetwork


@pytest.fixture(scope="module")
def network():
    return random_network()


@pytest.fixture
def file(network, tmp_path):
    return saved(network, tmp_path)


def read(path, attention=None):
    return read_checkpoint(find_checkpoint(path, attention))


def same_weights(a, b):
    b = b.state_dict()
    return all(torch.equal(tensor, b[name]) for name, tensor in a.state_dict().items())


def rewritten(file, **changes):
    """The file with entries of its header replaced."""
    header, tensors = weights.read_weights(file)
    save_arrays(tensors, file, metadata={weights.HEADER_KEY: json.dumps(header | changes)})
    return file


# --- our format --------------------------------------------------------------------------------------------


def test_float32_comes_back_exactly(network, file):
    header, tensors = weights.read_weights(file)
    assert header["architecture"] == "published"
    assert header["config"] == asdict(network.config)
    assert header["max_dim"] == 3
    assert header["format_version"] == weights.FORMAT_VERSION
    rebuilt, again = networks.build_network(file)
    assert again == header
    assert rebuilt.config == network.config
    assert not rebuilt.training
    assert same_weights(network, rebuilt)
    assert tensors.keys() == network.state_dict().keys()


def test_float16_rounds_each_weight_to_eleven_bits(network, tmp_path):
    path = networks.save_weights(
        tmp_path / "half.safetensors", network, "published", network.config, 3, {"steps": 7}
    )
    header, tensors = weights.read_weights(path)
    assert header["extra"] == {"steps": 7}
    assert {tensor.dtype for tensor in tensors.values()} == {np.dtype(np.float16)}
    rebuilt, _ = networks.build_network(path)
    for name, tensor in network.state_dict().items():
        got = rebuilt.state_dict()[name]
        assert got.dtype == torch.float32
        torch.testing.assert_close(got, tensor, rtol=2.0**-11, atol=2.0**-25)


def test_same_network_same_bytes_same_version(network, file, tmp_path):
    folder = tmp_path / "again"
    folder.mkdir()
    again = saved(network, folder)
    assert again.read_bytes() == file.read_bytes()
    assert weights.weights_version(file) == hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    assert [path.name for path in folder.iterdir()] == [file.name]  # no temporary file stays behind


def test_weights_that_float16_cannot_hold(network, tmp_path):
    large = PublishedNetwork(network.config)
    with torch.no_grad():
        large.decoder[0].norm1.weight[0] = 1e6
    with pytest.raises(
        ValueError, match=r"finite weights in torch.float16, got 'decoder.0.norm1.weight' .* 1e\+06"
    ):
        networks.save_weights(tmp_path / "x.safetensors", large, "published", large.config, 3)
    assert not list(tmp_path.iterdir())


def test_shipped_names_what_is_there():
    with pytest.raises(
        FileNotFoundError, match=r"shipped: expected .*no-such-model\.safetensors.* shipped are \["
    ):
        weights.shipped("no-such-model")


# --- what is refused ---------------------------------------------------------------------------------------


class Trap:
    """Unpickling it leaves a file behind."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("writer", ["pickle", "torch.save"])
def test_pickled_files_are_never_opened(writer, tmp_path):
    path, sprung = tmp_path / "model.pt", tmp_path / "sprung"
    if writer == "pickle":
        path.write_bytes(pickle.dumps(Trap(sprung)))
    else:
        torch.save(Trap(sprung), path)
    for call in (weights.read_weights, networks.build_network, read):
        with pytest.raises(ValueError, match=r"expected a safetensors file, got .*model\.pt.* pickled"):
            call(path)
    assert not sprung.exists()


def test_header_lengths_that_look_like_a_pickle_or_a_zip(tmp_path):
    """The first bytes of a safetensors file are a length: 0x80 and 0x50 0x4b are lengths too."""
    for length in (0x0280, 0x4B50):
        empty = json.dumps({"__metadata__": {"note": ""}})
        text = json.dumps({"__metadata__": {"note": "n" * (length - len(empty))}})
        path = tmp_path / f"{length}.safetensors"
        path.write_bytes(struct.pack("<Q", length) + text.encode())
        assert path.read_bytes()[:2] in (b"\x80\x02", b"PK")
        assert weights.read_safetensors(path)[0]["note"].startswith("nnn")


@pytest.mark.parametrize("keep", [0, 3, 9, 500, -1])
def test_truncated(file, keep):
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"expected a whole safetensors file, got .*truncated"):
        networks.build_network(file)


def test_corrupt(file):
    content = bytearray(file.read_bytes())
    content[20:60] = b"\xff" * 40
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"expected a whole safetensors file, got .*corrupt"):
        networks.build_network(file)
    file.write_text("not weights at all")
    with pytest.raises(ValueError, match=r"expected a whole safetensors file, got .*another kind"):
        weights.read_weights(file)


def test_not_a_number_among_the_weights(network, file):
    header, tensors = weights.read_weights(file)
    tensors["field_head.0.bias"][3] = float("nan")
    save_arrays(tensors, file, metadata={weights.HEADER_KEY: json.dumps(header)})
    with pytest.raises(
        ValueError, match=r"expected finite weights in .* got NaN or infinity in .*field_head\.0\.bias"
    ):
        networks.build_network(file)


def test_foreign_newer_and_unfitting_files(network, file, tmp_path):
    foreign = tmp_path / "foreign.safetensors"
    save_file({"layer.weight": torch.zeros(2)}, foreign)
    with pytest.raises(
        ValueError, match=r"expected a file written by save_weights, got .*foreign.*'fim_dynsys'"
    ):
        weights.read_weights(foreign)
    with pytest.raises(FileNotFoundError, match=r"expected a safetensors file at .*absent"):
        weights.read_weights(tmp_path / "absent.safetensors")
    with pytest.raises(ValueError, match="got the folder"):
        weights.read_weights(tmp_path)
    cases = (
        ({"format_version": 99}, r"expected format version 1 in .* got 99; upgrade"),
        ({"architecture": "perceptron"}, r"expected an architecture among .*'published'.* got 'perceptron'"),
        ({"config": {"depth": 3}}, r"configuration in .* does not fit .* unexpected keyword .*depth"),
        ({"config": asdict(network.config) | {"decoder_layers": 4}}, r"expected the \d+ tensors .* missing"),
        ({"config": asdict(network.config) | {"decoder_layers": 2}}, r"expected the \d+ tensors .* unknown"),
        (
            {"config": asdict(network.config) | {"feedforward": 65}},
            r"expected the \d+ tensors .* another shape",
        ),
    )
    original = file.read_bytes()
    for change, message in cases:
        file.write_bytes(original)
        with pytest.raises(ValueError, match=message):
            networks.build_network(rewritten(file, **change))
    save_file({"a": torch.zeros(1)}, file, metadata={weights.HEADER_KEY: "{"})
    with pytest.raises(ValueError, match="is not JSON"):
        weights.read_header(file)
    save_file({"a": torch.zeros(1)}, file, metadata={weights.HEADER_KEY: "[]"})
    with pytest.raises(ValueError, match=r"expected the header of .* to hold"):
        weights.read_header(file)


def test_a_training_checkpoint_is_named_as_such(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    arrays = {f"{part}.layer": np.zeros(2, np.float32) for part in ("network", "average", "optimiser.step")}
    save_arrays(arrays, path, {"step": "7", "total": "9", "restart": "0", "seconds": "1.0"})
    expected = r"got '.*checkpoint\.safetensors', a training checkpoint; take '.*weights\.safetensors'"
    with pytest.raises(ValueError, match=expected):
        weights.read_weights(path)
    with pytest.raises(ValueError, match=expected):
        fim_dynsys.load("fim-ode", weights=path)


def test_unknown_architecture_is_not_written(network, tmp_path):
    with pytest.raises(ValueError, match=r"save_weights: expected an architecture among .* got 'x'"):
        networks.save_weights(tmp_path / "x", network, "x", network.config, 3)


# --- the authors' checkpoints ------------------------------------------------------------------------------

# sha256 of the authors' 280 names and shapes, sorted, one "name (rows, columns)" a line.
AUTHORS_HASH = "f5d6671b46587eb39080b5a2cee5a95553ed409c71fa09bf69ba84f1d632be45"


def test_names_and_shapes_are_the_authors():
    state = PublishedNetwork().state_dict()
    names = authors_names(PublishedConfig())
    assert len(names) == 280
    lines = [f"{theirs} {tuple(state[ours].shape)}" for theirs, ours in sorted(names.items())]
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest() == AUTHORS_HASH
    assert translated({theirs: None for theirs in names}).keys() == state.keys()
    assert all(list(translated({theirs: None})) == [ours] for theirs, ours in names.items())


def test_authors_folder_is_read_exactly(network, tmp_path):
    checkpoint = authors_folder(network, tmp_path / "checkpoint")
    rebuilt = read(checkpoint)
    assert rebuilt.config == network.config
    assert same_weights(network, rebuilt)
    assert same_weights(network, read(checkpoint / "model.safetensors"))  # config.json lies beside it


def test_softmax_in_the_configuration_is_ambiguous(network, tmp_path):
    checkpoint = authors_folder(network, tmp_path / "checkpoint", attention_map="softmax")
    with pytest.warns(WeightsWarning, match=r"'softmax'.*legacy.*ambiguous.*'softmax-gnot'"):
        assert read(checkpoint).config.attention == "softmax"


@pytest.mark.parametrize("named", ["softmax", "softmax-gnot"])
@pytest.mark.parametrize("attention", ["softmax", "softmax-gnot"])
@pytest.mark.filterwarnings("error")
def test_attention_overrides_the_configuration(network, tmp_path, named, attention):
    checkpoint = authors_folder(network, tmp_path / "checkpoint", attention_map=named)
    assert read(checkpoint, attention).config.attention == attention


@pytest.mark.filterwarnings("error")
def test_a_file_alone_needs_the_attention_map(network, tmp_path):
    alone = tmp_path / "weights.safetensors"
    save_file(load_file(authors_folder(network, tmp_path / "c") / "model.safetensors"), alone)
    with pytest.raises(
        ValueError, match=r"got none, and the tensors do not tell; give attention='softmax-gnot'"
    ):
        read(alone)
    # without a configuration the sizes are the published ones, which the small network has not
    with pytest.raises(ValueError, match=r"expected the 280 tensors .* another shape"):
        read(alone, "softmax-gnot")


def test_published_sizes_from_a_file_alone(tmp_path):
    network = PublishedNetwork()
    theirs = {name: network.state_dict()[ours] for name, ours in authors_names(network.config).items()}
    alone = tmp_path / "stripped.safetensors"
    save_file({name: tensor.half() for name, tensor in theirs.items()}, alone)  # no leading "model."
    rebuilt = read(alone, "softmax")
    assert rebuilt.config == PublishedConfig(attention="softmax")
    assert rebuilt.field_head[0].weight.dtype == torch.float32
    np.testing.assert_allclose(
        rebuilt.field_head[0].weight.detach(), network.field_head[0].weight.detach(), atol=2e-4
    )


def test_authors_tensors_are_taken_strictly(network, tmp_path):
    name = "functional_decoder.res_layers.0.attn.linear_Q.weight"
    for change, problem in (
        ({name: None}, r"1 missing \(decoder\.0\.attention\.query\.weight\)"),
        ({"u_model.extra": torch.zeros(1)}, r"1 unknown \(u_model\.extra\)"),
        (
            {name: torch.zeros(3, 3)},
            r"1 of another shape \(decoder\.0\.attention\.query\.weight \(3, 3\) for",
        ),
    ):
        with pytest.raises(ValueError, match=r"fim-ode-published: expected the 136 tensors .*" + problem):
            read(authors_folder(network, tmp_path / "checkpoint", **change))


def test_missing_files_are_named(network, tmp_path):
    both = r"folder with 'config\.json' and 'model\.safetensors'"
    with pytest.raises(FileNotFoundError, match=both + ".*got None"):
        find_checkpoint(None)
    with pytest.raises(FileNotFoundError, match=both + ".*got nothing at .*absent"):
        find_checkpoint(tmp_path / "absent")
    with pytest.raises(FileNotFoundError, match=both + r".*without config\.json and model\.safetensors"):
        find_checkpoint(tmp_path)
    folder = authors_folder(network, tmp_path / "checkpoint")
    (folder / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match=both + r".*without config\.json"):
        find_checkpoint(folder)


def test_bad_configurations(network, tmp_path):
    folder = authors_folder(network, tmp_path / "checkpoint")
    for text, message in (
        ("{", "expected .*config.json.* to be JSON"),
        ("[1]", "an object 'model_config', got something else"),
        ('{"model_config": 3}', "an object 'model_config', got something else"),
        ('{"model_config": {"attention_map": "elu"}}', "expected attention to be one of .* got 'elu'"),
        ('{"model_config": {"encoder_type": "axial"}}', "expected the standard encoder .* got 'axial'"),
        ('{"model_config": {"attention_map": "softmax-gnot", "dim_embed": "x"}}', "numbers for the sizes"),
    ):
        (folder / "config.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            read(folder)


def test_our_format_serves_for_the_published_network_too(network, file):
    assert same_weights(network, read(file))
    assert read(file).config.attention == "softmax-gnot"
    assert read(file, "softmax").config.attention == "softmax"
    with pytest.raises(
        ValueError, match=r"expected the published network, got .* architecture is 'amortised'"
    ):
        find_checkpoint(rewritten(file, architecture="amortised"))


# --- edited files ------------------------------------------------------------------------------------------

EDITED = """
import json, sys
import numpy as np
from safetensors.numpy import save_file
import fim_dynsys
from fim_dynsys.models.fim_ode import weights

path = sys.argv[1]
header, tensors = weights.read_weights(weights.shipped("fim-ode"))
config = header["config"]
deep = []
for _ in range(300):
    deep = [deep]
edits = {f"config {key}={value!r}"[:60]: ({"config": config | {key: value}}, {}) for key, values in {
    "n_segments": (0, -1, 10**6, 2.5, "5", None, True, [5], float("nan")),
    "degree": (0, -3, 6, 10**6, 3.0, "3", None, {"a": 1}),
    "n_updates": (-1, 3, 5, 10**7, 1.5, None, "4"),
    "context_width": (0, -96, 95, 10**9, 96.0, [96]),
    "token_width": (0, -64, 65, 10**12, "64", False),
    "max_dim": (0, -1, 10**5, 2.5, None),
    "widths": ([], [0.8], [float("nan")] * 6, [-1.0] * 6, [1e300] * 6, ["a"] * 6, 3, None, "abcdef",
               [1.0] * 10**4, [True] * 6, deep),
}.items() for value in values}
edits |= {
    "config list": ({"config": [1]}, {}),
    "config none": ({"config": None}, {}),
    "no config": ({"config": {"widths": None}}, {}),
    "unknown key": ({"config": config | {"depth": 3}}, {}),
    "retired": ({"config": config | {"functions": ["sin"]}}, {}),
    "architecture": ({"architecture": ["amortised"]}, {}),
    "other architecture": ({"architecture": "published"}, {}),
    "extra version": ({"format_version": "1"}, {}),
    "no calibration layer": ({}, {"calibration.factor": None}),
    "short calibration": ({}, {"calibration.context_centre": np.zeros(2)}),
    "empty factor": ({}, {"calibration.factor": np.zeros(0)}),
    "transposed": ({}, {"start.weight": np.ascontiguousarray(tensors["start.weight"].T)}),
    "whole numbers": ({}, {"start.weight": tensors["start.weight"].astype(int)}),
}
refused, others = 0, {}
t = np.linspace(0.0, 4.0, 30)
for name, (changes, given) in edits.items():
    new = {key: value for key, value in (tensors | given).items() if value is not None}
    save_file(new, path, metadata={weights.HEADER_KEY: json.dumps(header | changes)})
    try:
        fim_dynsys.load("fim-ode", weights=path, refine=False).fit(np.exp(-t)[:, None], t)
    except ValueError as error:
        refused += 1
    except BaseException as error:
        others[name] = repr(error)
    else:
        others[name] = "accepted"
print(json.dumps([len(edits), refused, others]))
"""


def test_edited_headers_and_tensors_end_in_a_value_error(tmp_path):
    """In a process of its own, for they may end it: `n_segments: 0` once did."""
    run = subprocess.run(
        [sys.executable, "-c", EDITED, str(tmp_path / "edited.safetensors")],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
    )
    assert run.returncode == 0, run.stderr
    count, refused, others = json.loads(run.stdout.splitlines()[-1])
    # a number that fits the tensors all the same is no harm
    harmless = {"config n_segments=", "whole numbers"}
    assert {name for name in others if not name.startswith(tuple(harmless))} == set(), others
    assert count > 60 and refused >= count - len(others)


# --- imports -----------------------------------------------------------------------------------------------


def test_needs_torch_numpy_and_safetensors_only():
    """Training imports these files where nothing else is installed."""
    code = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"scipy", "xarray", "pandas", "sklearn", "pysindy", "matplotlib"}:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
from fim_dynsys.models.fim_ode import checkpoint, networks, normalisation, published, weights
"""
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_too_few_samples_for_a_search_are_said_in_the_report():
    t = np.linspace(0.0, 2.0, 5)
    x = np.exp(-t)[:, None]
    model = fim_dynsys.load("fim-ode")
    few = model.fit(x[:4], t[:4]).field_.fit_info.report
    assert few["chosen by"] == "operator alone"
    assert few["note"] == "operator alone: fewer than 5 samples"
    assert model.fit(x, t).field_.fit_info.report["chosen by"] == "fit to numerical precision"
    assert "chosen by" not in fim_dynsys.load("fim-ode", refine=False).fit(x, t).field_.fit_info.report
