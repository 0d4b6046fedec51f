"""The pretrained operator with its search, and what is asked beside it."""

import numpy as np
import pytest
import torch

from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.networks import build_network, save_weights
from fim_dynsys.models.fim_ode.own import FIMODE
from fim_dynsys.models.fim_ode.weights import MANY, read_config, read_weights, shipped
from fim_dynsys.models.symbolic import SymbolicModel
from fim_dynsys.search.knowledge import Knowledge
from fim_dynsys.trajectories.container import Trajectories
from training.many import put_beside


def test_alternatives_know_what_the_model_is_told():
    told = Knowledge(nonnegative=["x0"])
    operator, functions = FIMODE(knowledge=told).alternatives()
    assert not operator.refine and operator.knowledge is told
    assert isinstance(functions, SymbolicModel) and functions.knowledge is told
    assert FIMODE(refine=False).alternatives()[0].refine


@pytest.mark.parametrize("up_to", [None, 4])
def test_a_second_network_is_asked_about_more_states(tmp_path, up_to):
    many = tmp_path / "many.safetensors"
    header, arrays = read_weights(shipped("fim-ode"))
    changed = {name: 1.1 * array.astype(np.float32) for name, array in arrays.items()}
    config = read_config("test", shipped("fim-ode"), header, AmortisedConfig)
    network = AmortisedNetwork(config)
    parameters = {name: torch.from_numpy(changed[name]) for name in network.state_dict()}
    network.load_state_dict(parameters)
    save_weights(many, network, "amortised", config, header["max_dim"])
    both = put_beside(shipped("fim-ode"), many, tmp_path / "both.safetensors", up_to)
    models = [FIMODE(weights, refine=False) for weights in (None, both, many)]
    rng, t = np.random.default_rng(0), np.linspace(0.0, 4.0, 80)
    for dim, same in ((3, 0), (4, 2 if up_to is None else 0), (5, 2)):
        rates = rng.normal(size=dim) * 1j + rng.normal(size=dim) * 0.1
        x = np.exp(t[:, None] * rates).real + 0.01 * rng.normal(size=(len(t), dim))
        answers = [model.infer(Trajectories.from_arrays([x], [t])).coefficients for model in models]
        np.testing.assert_array_equal(answers[1], answers[same])
        assert not np.array_equal(answers[1], answers[2 - same])
    assert [model.max_dim for model in models] == [6, 6, 6]
    built, _ = build_network(both, MANY)
    for name, tensor in built.state_dict().items():
        np.testing.assert_allclose(tensor, parameters[name], rtol=2e-3, atol=1e-6)  # float16
    for name, tensor in build_network(both)[0].state_dict().items():
        np.testing.assert_array_equal(tensor, arrays[name].astype(np.float32))


def test_a_second_network_has_the_sizes_of_the_first(tmp_path):
    config = AmortisedConfig(widths=(1.0, 2.0, 3.0, 4.0))
    other = save_weights(tmp_path / "other.safetensors", AmortisedNetwork(config), "amortised", config, 3)
    with pytest.raises(ValueError, match=r"put_beside: expected a network of the sizes .* got "):
        put_beside(shipped("fim-ode"), other, tmp_path / "both.safetensors")
