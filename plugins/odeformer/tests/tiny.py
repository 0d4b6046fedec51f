"""A network of odeformer 0.1.7 that fits on a thumb: random, or knowing one system by heart."""

import argparse
from types import SimpleNamespace

import torch
from odeformer.envs import build_env
from odeformer.envs.environment import FunctionEnvironment
from odeformer.model import ModelWrapper, build_modules, check_model_params

OSCILLATOR = "mul,0.6666,x_1,|,mul,-0.6666,x_0"  # of frequency 1 where six units of time are read


def tiny_network(largest=40, knows=None, seed=0):
    """A ModelWrapper of dimension 32; with `knows`, its decoder writes this prefix whatever it is shown."""
    parser = argparse.ArgumentParser()
    FunctionEnvironment.register_args(parser)
    size = {"emb_emb_dim": 16, "enc_emb_dim": 32, "dec_emb_dim": 32}
    size |= {"emb_expansion_factor": 1, "n_emb_layers": 1}
    size |= {f"n_{part}_{what}": 1 for part in ("enc", "dec") for what in ("layers", "hidden_layers")}
    size |= {"n_enc_heads": 2, "n_dec_heads": 2, "share_inout_emb": True}
    size |= {"dropout": 0.0, "attention_dropout": 0.0}
    size |= {"norm_attention": False, "use_cross_attention": True, "activation": "relu", "masked_input": 0}
    size |= {
        "enc_positional_embeddings": None,
        "dec_positional_embeddings": "learnable",
        "float_precision": 3,
    }
    run = {"env_name": "functions", "tasks": "functions", "debug": False, "cpu": True, "fp16": False}
    run |= {"nvidia_apex": False, "reload_model": "", "max_exponent_prefactor": 1}
    params = SimpleNamespace(**vars(parser.parse_args([])) | size | run)
    check_model_params(params)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        env = build_env(params)
        network = ModelWrapper(env=env, **build_modules(env, params), max_generated_output_len=largest)
        if knows is not None:
            _teach(network, knows)
    return network.eval()


def _teach(network, prefix):
    env, decoder = network.env, network.decoder
    words = env.equation_encoder.encode(env.word_to_infix(prefix.split(","), is_float=False, str_array=False))
    equations, lengths = env.batch_equations(env.word_to_idx([words], float_input=False))
    seen = torch.randn(1, 5, 32)
    taught = {"causal": True, "src_enc": seen, "src_len": torch.tensor([5])}
    optimizer = torch.optim.Adam(decoder.parameters(), lr=3e-3)
    mask = torch.ones(int(lengths[0]) - 1, 1, dtype=torch.bool)
    for _ in range(150):
        out = decoder("fwd", x=equations[:-1], lengths=lengths - 1, **taught)
        _, loss = decoder.predict(tensor=out, pred_mask=mask, y=equations[1:, 0], get_scores=False)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
