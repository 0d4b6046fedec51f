"""The model card: its figures are those of the data it is made of, and it describes the shipped weights."""

import hashlib

import numpy as np
import pandas as pd
import pytest
import torch

import fim_dynsys
from benchmarks.harness.run import TRIAL_COLUMNS
from benchmarks.harness.trials import SETTINGS, TASKS
from fim_dynsys.models.fim_ode.amortised import AmortisedNetwork
from fim_dynsys.models.fim_ode.card import read_card, title
from fim_dynsys.models.fim_ode.configuration import AmortisedConfig
from fim_dynsys.models.fim_ode.networks import save_weights
from fim_dynsys.models.fim_ode.weights import CALIBRATION, SHIPPED, shipped, write_part
from training.card import BENCHMARKS, DOCS, LOG, OtherWeights, card

LOG_TEXT = """# Training log

## 2026-01-03 `chosen`: again. **Shipped** (fim-ode {version})

`python -m training.many --run chosen` with the operator of `longer`, 5 minutes:

| source | figures |
|---|---|
| held out | 12 |

What failed.

## 2026-01-02 `other`: negative

Never shipped.

## 2026-01-02 `longer`: more steps

`python -m training.pretrain ci --set 'initial="runs/base/weights.safetensors"'`, 7 minutes.

## 2026-01-01 `base`: from nothing

`python -m training.pretrain ci`, 9 minutes.
"""
SYSTEMS = {"1": (1, "ID"), "7": (1, "OOD"), "27": (2, "ID"), "56": (3, "ID")}


@pytest.fixture
def weights(tmp_path):
    torch.manual_seed(0)
    extra = {"steps": 17, "pools": [["paper", 1, 64]]}
    network = AmortisedNetwork(AmortisedConfig())
    return save_weights(tmp_path / "own.safetensors", network, "amortised", network.config, 3, extra)


def version(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:8]


@pytest.fixture
def log(weights, tmp_path):
    path = tmp_path / "log" / "2026-01.md"
    path.parent.mkdir()
    path.write_text(LOG_TEXT.format(version=version(weights)), encoding="utf-8")
    return path


def trials(own_version):
    """Trials of two models with random scores, some of them failures, in the benchmark's columns."""
    rng = np.random.default_rng(0)
    records = [
        {
            **dict.fromkeys(TRIAL_COLUMNS, 0),
            **{"system": system, "ic": ic, "dim": dim, "split_paper": split, "split_strict": split},
            **{"sigma": sigma, "rho": rho, "seed": seed, "protocol": protocol, "model": model},
            **{"version": own_version if model == "fim-ode" else "3", "infer_seconds": 0.01 * dim},
            **{f"r2_{task}": rng.choice([0.99, 0.89, np.nan]) for task in TASKS},
            **{f"status_{task}": rng.choice(["SUCCESS", "LEFT_BOUNDS"]) for task in TASKS},
        }
        for protocol in ("paper", "full")
        for sigma, rho in SETTINGS
        for seed in (range(3) if sigma or rho else range(1))
        for system, (dim, split) in SYSTEMS.items()
        for ic in (1, 2)
        for model in ("fim-ode", "truth-fit")
    ]
    return pd.DataFrame(records)


def write_csv(table, folder, name, file):
    path = folder / name / "results" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, index=False)


@pytest.fixture
def benchmarks(weights, tmp_path):
    """A folder of results with ODEBench alone."""
    write_csv(trials(version(weights)), tmp_path / "benchmarks", "odebench", "trials.csv")
    return tmp_path / "benchmarks"


def rows_of(text, heading):
    """Cells of the table below a heading or sentence, by their first one."""
    lines = text.split(heading, 1)[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    rows = {}
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        name, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[name] = cells
    return rows


# --- made of the data ---


def percents(table):
    """Reconstruction / generalisation in each setting, averaged over a seed's trials, then over seeds."""
    texts = []
    for sigma, rho in SETTINGS:
        cell = table[(table["sigma"] == sigma) & (table["rho"] == rho)]
        seeds = [cell[cell["seed"] == seed] for seed in cell["seed"].unique()]
        shares = [[100 * np.mean(part[f"r2_{task}"] > 0.9) for task in TASKS] for part in seeds]
        texts.append("{:.1f} / {:.1f}".format(*np.mean(shares, axis=0)))
    return texts


@pytest.mark.parametrize("protocol", ["paper", "full"])
def test_percentages_by_cell_and_group(weights, log, benchmarks, protocol):
    rows = trials(version(weights))
    rows = rows[rows["protocol"] == protocol]
    own = rows[rows["model"] == "fim-ode"]
    table = rows_of(card("fim-ode", weights, log.parent, benchmarks), f"Protocol `{protocol}`")
    assert table["systems"] == ["n", *(f"({sigma:g}, {rho:g})" for sigma, rho in SETTINGS)]
    assert table["all"] == ["4", *percents(own)]
    if protocol == "paper":
        for dim, name in enumerate(("1 state", "2 states", "3 states"), 1):
            assert table[name][1:] == percents(own[own["dim"] == dim])
        assert table["polynomials of degree <= 3"][1:] == percents(own[own["split_strict"] == "ID"])
        assert table["all others"][1:] == percents(own[own["split_strict"] == "OOD"])
    assert table["*equations known, constants fitted*"][1:] == percents(rows[rows["model"] == "truth-fit"])
    assert ("*FIM-ODE (paper)*" in table) == (protocol == "paper")


def test_published_row_and_times(weights, log, benchmarks):
    text = card("fim-ode", weights, log.parent, benchmarks)
    assert rows_of(text, "Protocol `paper`")["*FIM-ODE (paper)*"][1] == "84.4 / 29.5"
    assert "median by number of states: 10 ms, 20 ms, 30 ms" in text
    assert "Mean of 3 noise seeds" in text


def test_missed_systems_and_failures(weights, log, benchmarks):
    table = trials(version(weights))
    own = table[(table["system"] == "56") & (table["model"] == "fim-ode")].index
    table.loc[own, "r2_reconstruction"] = 0.9  # not above the threshold
    table.loc[table["system"] == "27", [f"r2_{task}" for task in TASKS]] = 0.95
    table["status_reconstruction"] = table["status_generalisation"] = "SUCCESS"
    table.loc[own, "status_generalisation"] = "MAX_STEPS"
    write_csv(table, benchmarks, "odebench", "trials.csv")
    text = card("fim-ode", weights, log.parent, benchmarks)
    missed = rows_of(text, "### What it misses")
    assert missed["56, Lorenz, classic chaotic parameters"][:2] == ["3", "yes"]
    assert not any(name.startswith("27,") for name in missed)
    assert {cell.split(" / ")[0] for cell in missed["56, Lorenz, classic chaotic parameters"][2:]} == {"0.0"}
    assert (
        "Predictions that broke off, of 256: 32 MAX_STEPS." in text
    )  # 4 systems, 2 starts, 2 tasks, 16 draws


def test_the_weights_file_s_own_figures(weights, log, benchmarks):
    text = card("fim-ode", weights, log.parent, benchmarks)
    digest = hashlib.sha256(weights.read_bytes()).hexdigest()
    assert text.startswith(title("fim-ode", digest[:8]) + "\n")
    table = rows_of(text, "## The weights")
    numbers = sum(p.numel() for p in AmortisedNetwork(AmortisedConfig()).state_dict().values())
    assert table["sha256"] == [f"`{digest}`"]
    assert table["operator"] == [f"{numbers:,} numbers, float16"]
    assert table["calibration"] == ["none"]
    assert f"{weights.stat().st_size:,} bytes" in table["file"][0]
    assert rows_of(text, "its last run")["steps"] == ["`17`"]


def test_runs_are_followed_to_the_first(weights, log, benchmarks):
    text = card("fim-ode", weights, log.parent, benchmarks)
    assert [*rows_of(text, "The runs behind it")] == ["date", "---", "2026-01-03", "2026-01-02", "2026-01-01"]
    assert [name for name, *_ in rows_of(text, "The runs behind it").values()][2:] == [
        "`chosen`",
        "`longer`",
        "`base`",
    ]


def test_oscillators_and_bands(weights, log, benchmarks):
    calibrated = {"3-D": {"cover 50": 51.0, "cover 90": 90.9, "score 90": 1.5, "constant 90": 2.5}}
    extra = {"calibration": {"contexts": 4321, "held out": calibrated}}
    write_part(weights, weights, CALIBRATION, {"factor": np.ones(3)}, extra)
    own = version(weights)
    log.write_text(LOG_TEXT.format(version=own), encoding="utf-8")
    write_csv(trials(own), benchmarks, "odebench", "trials.csv")
    line = {"task": "FHN", "model": "fim-ode", "version": own, "targets": "noisy", "fixed": 0.1254}
    line |= {"lower_quartile": 0.01, "median": 0.0233, "upper_quartile": 0.5, "draws": 20, "failures": 1}
    write_csv(pd.DataFrame([line, line | {"targets": "clean"}]), benchmarks, "oscillators", "summary.csv")
    line = {"source": "odebench", "sigma": 0.03, "model": "fim-ode", "version": own, "quantity": "field, own"}
    line |= {"group": "all", "score90_raw": 2.345}
    line |= {f"cover{p}_{kind}": p / 101 for p in (50, 90) for kind in ("raw", "recalibrated")}
    write_csv(pd.DataFrame([line, line | {"group": "dim=1"}]), benchmarks, "calibration", "summary.csv")
    text = card("fim-ode", weights, log.parent, benchmarks)
    assert "| FHN | noisy | 0.125 | 0.0233 | 0.01 to 0.5 | 1 | 0.4 |" in text
    assert "| FHN | noise-free | 0.125 | 0.0233 | 0.01 to 0.5 | 1 |  |" in text
    assert rows_of(text, "4,321 fits")["3-D"] == ["51.0", "90.9", "1.5", "2.5"]
    assert text.count("| systems | band of | noise 0.03 |") == 1
    assert text.count("| odebench | field, own | 49.5 / 89.1 |") == 1
    assert rows_of(text, "## The weights")["calibration"] == ["3 numbers, float32"]


# --- refusals ---


def test_results_of_other_weights_are_refused(weights, log, benchmarks):
    write_csv(trials("0123abcd"), benchmarks, "odebench", "trials.csv")
    command = "first run python -m benchmarks.results --only odebench"
    with pytest.raises(OtherWeights, match=rf"fim-ode {version(weights)} in .*got 0123abcd; {command}"):
        card("fim-ode", weights, log.parent, benchmarks)


def test_mixed_results_are_refused(weights, log, benchmarks):
    both = pd.concat([trials("0123abcd"), trials(version(weights))])
    write_csv(both, benchmarks, "odebench", "trials.csv")
    with pytest.raises(OtherWeights, match=r"0123abcd and|and 0123abcd"):
        card("fim-ode", weights, log.parent, benchmarks)


@pytest.mark.parametrize("name", ["oscillators", "calibration"])
def test_other_benchmarks_are_refused_alike(weights, log, benchmarks, name):
    stale = pd.DataFrame([{"model": "fim-ode", "version": "0123abcd"}])
    write_csv(stale, benchmarks, name, "summary.csv")
    with pytest.raises(OtherWeights, match=rf"python -m benchmarks\.results --only {name}"):
        card("fim-ode", weights, log.parent, benchmarks)


def test_results_of_the_network_are_told_where_there_are_any(log, benchmarks):
    path = shipped("fim-ode-neural")
    own, text = version(path), log.read_text(encoding="utf-8")
    log.write_text(text + f"\n## 2026-01-04 `n`: a network (fim-ode-neural {own})\n\n9 hours.\n")
    assert "has not been run for these weights" in card("fim-ode-neural", path, log.parent, benchmarks)
    rows = pd.read_csv(
        benchmarks / "odebench" / "results" / "trials.csv", dtype={"version": str, "system": str}
    )
    of = rows[(rows["model"] == "fim-ode") & (rows["protocol"] == "paper")]
    of = of[(of["sigma"] == 0) & (of["rho"] == 0)].assign(model="fim-ode-neural", version=own)
    write_csv(of, benchmarks, "odebench", "neural/trials.csv")
    text = card("fim-ode-neural", path, log.parent, benchmarks)
    assert rows_of(text, "Protocol `paper`")["systems"] == ["n", "(0, 0)"]
    assert "Protocol `full`" not in text
    write_csv(pd.concat([of, of.assign(version="0123abcd")]), benchmarks, "odebench", "neural/trials.csv")
    with pytest.raises(OtherWeights, match=r"--only odebench/neural"):
        card("fim-ode-neural", path, log.parent, benchmarks)


def test_odebench_is_needed(weights, log, tmp_path):
    with pytest.raises(OtherWeights, match=r"first run python -m benchmarks\.results --only odebench"):
        card("fim-ode", weights, log.parent, tmp_path / "nothing")


def test_a_log_without_these_weights_is_refused(weights, log, benchmarks):
    log.write_text(LOG_TEXT.format(version="0123abcd"), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"heading with \(fim-ode {version(weights)}\)"):
        card("fim-ode", weights, log.parent, benchmarks)


# --- as shipped ---


def test_a_model_with_other_weights_has_no_card(weights):
    model = fim_dynsys.load("fim-ode", weights=weights)
    with pytest.raises(ValueError, match=rf"got weights {version(weights)}"):
        model.card()


def test_a_card_is_read_back(tmp_path):
    path = tmp_path / "fim-ode.md"
    path.write_text(f"{title('fim-ode', '0123abcd')}\n\ntext\n", encoding="utf-8")
    assert read_card("fim-ode", "0123abcd", tmp_path).endswith("text\n")
    with pytest.raises(ValueError, match=r"describes, fim-ode 0123abcd, got weights 9999abcd"):
        read_card("fim-ode", "9999abcd", tmp_path)


@pytest.mark.parametrize("name", list(DOCS))
def test_the_shipped_cards_describe_the_shipped_weights(name):
    """Fails after new weights until `python -m training.card` has written their card."""
    digest = hashlib.sha256(shipped(name).read_bytes()).hexdigest()
    text = fim_dynsys.load(name).card()
    assert rows_of(text, "## The weights")["sha256"] == [f"`{digest}`"]
    assert text == (SHIPPED / f"{name}.md").read_text(encoding="utf-8")
    assert text == DOCS[name].read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(DOCS))
def test_the_shipped_cards_are_what_the_data_give(name):
    """Where this fails, rerun the benchmarks of new weights, then `python -m training.card`."""
    generated = card(name, shipped(name), LOG, BENCHMARKS)
    assert generated == (SHIPPED / f"{name}.md").read_text(encoding="utf-8")
