"""From a file to equations, forecasts and pages, by the commands that a shell runs."""

import io
import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest

import fim_dynsys
from fim_dynsys import Trajectories
from fim_dynsys import __main__ as cli
from fim_dynsys.commands.reading import in_options
from fim_dynsys.errors import ReadingWarning

T = np.linspace(0.0, 12.0, 241)
X = np.exp(-0.1 * T)[:, None] * np.stack([np.cos(T), -np.sin(T)], axis=1)  # x' = -.1 x + v, v' = -x - .1 v


def table(separator=";", decimal=",") -> str:
    lines = ["Zeit (s);x (m);v (m/s)"] + [
        ";".join(f"{cell:.7f}" for cell in row) for row in np.column_stack([T, X])
    ]
    return "\n".join(lines).replace(".", decimal).replace(";", separator) + "\n"


@pytest.fixture
def pendulum(tmp_path):
    path = tmp_path / "pendulum.csv"
    path.write_text(table(), encoding="utf-8")
    return path


def run(*words) -> int:
    return cli.main([str(word) for word in words])


def test_version(capsys):
    with pytest.raises(SystemExit) as stopped:
        run("--version")
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"fim-dynsys {fim_dynsys.__version__}\n"


@pytest.mark.parametrize("command", ["look", "fit", "analyze", "explore", "info", "available", "doctor"])
def test_every_help_has_an_example(command, capsys):
    with pytest.raises(SystemExit):
        run(command, "--help")
    assert f": fim-dynsys {command}" in capsys.readouterr().out


def test_fit_says_what_was_read_and_found(pendulum, tmp_path, capsys):
    out = tmp_path / "fitted"
    assert run("fit", pendulum, "--model", "sindy-strong", "--out", out, "--forecast", 3, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["read"][0] == "pendulum.csv: read 241 samples of x, v"
    assert "decimal comma" in facts["read"]
    fitted = fim_dynsys.load_fitted(out)
    np.testing.assert_allclose(fitted.predict(np.eye(2)), [[-0.1, -1], [1, -0.1]], atol=1e-3)
    assert facts["equations"][0] == f"x' = {fitted.equations()[0]}"
    assert facts["held out"]["share"] == 0.2 and facts["held out"]["error"] < 0.01
    last = facts["forecast"][-1]
    assert last["t"] == pytest.approx(15.0)
    exact = np.exp(-1.5) * np.array([np.cos(15.0), -np.sin(15.0)])
    np.testing.assert_allclose([last["x"], last["v"]], exact, atol=1e-3)
    written = pd.read_csv(out / "forecast.csv")
    np.testing.assert_allclose(written[["x", "v"]].iloc[-1], exact, atol=1e-3)
    record = json.loads((out / "fit.json").read_text(encoding="utf-8"))
    assert "decimal comma" in record["how it was read"]


def test_fit_prints_equations_quality_and_a_held_out_score(pendulum, capsys):
    assert run("fit", pendulum, "--model", "sindy-strong") == 0
    said = capsys.readouterr()
    assert said.out.startswith("x' = ") and "path R2 1" in said.out
    assert "(last 20 % held out: forecast error" in said.out
    assert said.err.startswith("pendulum.csv: read 241 samples of x, v\n")
    assert run("fit", pendulum, "--model", "sindy-strong", "-q", "--held-out", 0, "--forecast", 3) == 0
    said = capsys.readouterr()
    assert said.err == "" and "(no part was held out)" in said.out
    assert "forecast, with 90 % bands" in said.out


def test_standard_input(pendulum, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pendulum.read_bytes())))
    assert run("look", "-", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["states"] == ["x", "v"] and facts["units"] == {"x": "m", "v": "m/s", "t": "s"}
    assert facts["command"] == "fim-dynsys fit - --out fitted"


def test_columns_and_units_by_options(pendulum, capsys):
    assert run("look", pendulum, "--states", "x (m)", "--units", "x=cm", "--every", 2, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["states"], facts["samples"]) == (["x"], [121])
    assert facts["units"] == {"x": "cm", "t": "s"}


@pytest.mark.parametrize(
    ("suffix", "unit", "last", "said"),
    [
        (".csv", "h", 2.0, "converted from s to h"),
        (".csv", "min", 120.0, "converted from s to min"),
        (".nc", "h", 120.0, "times in min called h, and not converted"),
    ],
)
def test_a_given_unit_of_time_converts_dates_and_renames_others_aloud(
    suffix, unit, last, said, tmp_path, capsys
):
    path = tmp_path / f"a{suffix}"
    if suffix == ".csv":
        stamps = pd.date_range("2024-05-01", periods=121, freq="min").strftime("%Y-%m-%d %H:%M")
        pd.DataFrame({"date": stamps, "x (m)": np.cos(np.arange(121) / 9)}).to_csv(path, index=False)
    else:
        data = Trajectories.from_arrays(np.cos(np.arange(121) / 9), 1.0, ["x"], units={"x": "m", "t": "min"})
        data.to_file(path)
    assert run("look", path, "--units", f"t={unit}") == 0
    shown = capsys.readouterr()
    assert said in shown.err and f"0 to {last:g} {unit}" in shown.out
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingWarning)
        data = Trajectories.from_file(path, units={"t": unit})
    assert data.t[0][-1] == last and data.units == {"x": "m", "t": unit}


def test_look_proposes_second_order_inputs_and_thinning(tmp_path, capsys):
    position = tmp_path / "position.csv"
    position.write_text("t,x\n" + "".join(f"{a},{b}\n" for a, b in zip(T, X[:, 0], strict=True)))
    assert run("look", position, "--plot", tmp_path / "p.png", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["command"] == f"fim-dynsys fit {position} --order 2 --out position-fitted"
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    tank = tmp_path / "tank.csv"
    valve = np.where(T % 4 < 2, 1.0, 3.0)
    tank.write_text(
        "t,valve,h\n" + "".join(f"{a},{u},{b}\n" for a, u, b in zip(T, valve, np.cos(3 * T), strict=True))
    )
    assert run("look", tank, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["command"] == f"fim-dynsys fit {tank} --inputs valve --out tank-fitted"
    dense = tmp_path / "dense.csv"
    times = np.linspace(0, 12, 20_001)
    wave = np.column_stack([times, np.cos(times), -np.sin(times)])
    np.savetxt(dense, wave, delimiter=",", header="t,x,v", comments="", fmt="%.8f")
    assert run("look", dense, "--json") == 0
    assert "--every" in json.loads(capsys.readouterr().out)["command"]


ROWS = [(0.0, 1.0, 5.0), (1.0, 2.5, 4.0), (2.0, 2.0, 3.5), (3.0, 1.5, 3.0)]
PLAIN = "t,x,v\n" + "".join(f"{a},{b},{c}\n" for a, b, c in ROWS)
TWICE = "t,x,v,run\n" + "".join(f"{a},{b},{c},{k}\n" for k in (7, 8) for a, b, c in ROWS)


@pytest.mark.parametrize(
    ("content", "words", "facts"),
    [
        (PLAIN + "end,,\n", ["--bad-rows", "drop"], {"samples": [4]}),
        ("* lab\n" + PLAIN, ["--comment", "*"], {"states": ["x", "v"]}),
        (TWICE, ["--trajectory", "run", "--coords", "run"], None),
        (TWICE, ["--trajectory", "run"], {"trajectories": 2}),
        (TWICE, ["--coords", "run"], {"trajectories": 2, "states": ["x", "v"]}),
        (PLAIN.replace(",", ";").replace(".", ","), ["--decimal", ","], {"states": ["x", "v"]}),
        ("t;x\n0;1.000\n1;1.500\n2;900\n", ["--decimal", ",", "--thousands", "."], {"samples": [3]}),
        (PLAIN.replace("x", "Höhe").encode("latin-1"), ["--encoding", "latin-1"], {"states": ["Höhe", "v"]}),
        (PLAIN, ["--format", "text"], {"samples": [4]}),
        (PLAIN, ["--format", "numpy"], None),
        (PLAIN.split("\n", 1)[1], ["--names", "t", "height", "speed"], {"states": ["height", "speed"]}),
        (PLAIN.replace(",", "~"), ["--separator", "~"], {"states": ["x", "v"]}),
        (PLAIN.replace("1.0,2.5", "0.0,2.5"), ["--repeated", "spread"], {"trajectories": 1}),
        (PLAIN.replace("1.0,2.5", "0.0,2.5"), [], None),
        (TWICE.replace(",run", ",mass"), ["--trials", "none"], None),
        ("t,x_1,x_2\n0,1,2\n1,2,4\n2,4,3\n", ["--trials", "suffix"], {"trajectories": 2, "states": ["x"]}),
        ("day,x\n1_2,1\n2_2,2\n3_2,4\n", ["--time-format", "%d_%m"], {"units": {"t": "s"}}),
        ("date,x\n1/2/24,1\n2/2/24,2\n", ["--dayfirst"], {"samples": [2]}),
        ("date,x\n1/2/24,1\n2/2/24,2\n", ["--no-dayfirst"], {"samples": [2]}),
        ("date,x\n1/2/24,1\n2/2/24,2\n", [], None),
    ],
)
def test_options_of_files(tmp_path, capsys, content, words, facts):
    """Each does what it says, or is refused in its own words; `fit` takes the same."""
    path = tmp_path / "a.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    code = run("look", path, "--json", *words)
    said = capsys.readouterr()
    if facts is None:
        assert code == 2 and said.err.startswith("fim-dynsys look: expected ")
    else:
        assert code == 0
        found = json.loads(said.out)
        assert {key: found[key] for key in facts} == facts


def test_a_sheet_is_chosen(tmp_path, capsys):
    pytest.importorskip("openpyxl", reason=".xlsx files need the optional package openpyxl")
    frame = pd.DataFrame(ROWS, columns=["t", "x", "v"])
    with pd.ExcelWriter(tmp_path / "a.xlsx") as book:
        frame.to_excel(book, sheet_name="first", index=False)
        frame[:3].to_excel(book, sheet_name="second", index=False)
    assert run("look", tmp_path / "a.xlsx", "--json", "--sheet", "second") == 0
    assert json.loads(capsys.readouterr().out)["samples"] == [3]
    assert run("look", tmp_path / "a.xlsx") == 2
    assert "choose one by --sheet" in capsys.readouterr().err


def test_look_lists_a_dozen_states(tmp_path, capsys):
    names = [f"s{k}" for k in range(30)]
    lines = "".join(f"{k}," + ",".join(f"{np.sin(k + j):.3f}" for j in range(30)) + "\n" for k in range(9))
    (tmp_path / "wide.csv").write_text("t," + ",".join(names) + "\n" + lines)
    assert run("look", tmp_path / "wide.csv") == 0
    shown = capsys.readouterr().out
    assert "... and 18 lines more" in shown and "s11:" in shown and "s12:" not in shown


EPIDEMIC = '[equations]\ns = "-b*s*i"\ni = "b*s*i - g*i"\n[initial]\ns = 0.99\n'


def test_equations_with_a_hidden_state_and_a_column_without_one(tmp_path, capsys):
    """The whole job: the hidden state is forecast from its fitted values, the held-out part is judged."""
    path, given = tmp_path / "cases.csv", tmp_path / "sir.toml"
    state, lines = np.array([0.99, 0.01]), []
    for k in range(1500):  # Euler's steps of a hundredth
        if k % 75 == 0:
            lines.append(f"{k / 100},{state[1]:.8f},{20 + k % 7}\n")
        rate = 0.9 * state[0] * state[1]
        state = state + 0.01 * np.array([-rate, rate - 0.3 * state[1]])
    path.write_text("t,i,temperature\n" + "".join(lines))
    given.write_text(EPIDEMIC)
    assert run("fit", path, "--equations", given, "--forecast", 6, "--json", "--out", tmp_path / "o") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["read"][-1] == "left out, without an equation: temperature"
    assert facts["held out"]["error"] < 0.05
    assert facts["forecast"][-1]["s"] == pytest.approx(0.08, abs=0.02) and len(facts["forecast"]) == 240
    for text, said in (
        (EPIDEMIC.replace("- g", "- temperature*g"), "give --inputs temperature if that drives"),
        ('[equations]\na = "-b*a"\n', "expected columns called as the states"),
    ):
        given.write_text(text)
        assert run("fit", path, "--equations", given) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--model", "auto"], ["--order", 2], ["--conserved", "x"], ["--nonnegative", "x"]]
)
def test_options_for_unknown_equations_are_refused_beside_given_ones(pendulum, tmp_path, capsys, words):
    (tmp_path / "e.toml").write_text('[equations]\nx = "v"\nv = "-b*x"\n')
    assert run("fit", pendulum, "--equations", tmp_path / "e.toml", *words) == 2
    assert f"expected --equations without {words[0]}" in capsys.readouterr().err


def test_a_quantity_that_drifts_contradicts_its_conservation(pendulum, tmp_path, capsys):
    words = ["fit", pendulum, "--model", "sindy-strong", "--held-out", 0]
    with pytest.warns(
        fim_dynsys.errors.DataWarning, match=r"x\^2 \+ v\^2 goes from 1 to 0\.09.* in trajectory 0"
    ):
        run(*words, "--conserved", "x^2 + v^2")
    path = tmp_path / "noisy.csv"
    noisy = np.column_stack([np.cos(T), -np.sin(T)]) + 0.05 * np.random.default_rng(0).standard_normal(
        X.shape
    )
    path.write_text("t,x,v\n" + "".join(f"{a},{b},{c}\n" for a, (b, c) in zip(T, noisy, strict=True)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", fim_dynsys.errors.DataWarning)
        assert run(*words[:1], path, *words[2:], "--conserved", "x^2 + v^2") == 0


@pytest.mark.parametrize(
    ("words", "came"),
    [
        (["--forecast", "0.1min"], 6.0),
        (["--forecast", "6"], 6.0),
        (["--forecast", "6s"], 6.0),
        (["--forecast", "6q"], "expected --forecast in a unit among ms, s, min, h, d, week, got q"),
        (["--forecast", "6s", "--units", "t=parsec"], "expected --forecast without a unit, got s"),
        (["--forecast", "-6"], "expected --forecast as a positive time"),
    ],
)
def test_lengths_of_a_forecast(pendulum, capsys, words, came):
    code = run("fit", pendulum, "--model", "sindy-strong", "--held-out", 0, "--json", *words)
    said = capsys.readouterr()
    if isinstance(came, str):
        assert code == 2 and came in said.err
    else:
        assert json.loads(said.out)["forecast"][-1]["t"] == pytest.approx(T[-1] + came)


def test_a_forecast_within_a_step_is_warned_of(pendulum, capsys):
    with pytest.warns(
        fim_dynsys.errors.DataWarning, match=r"ends within one step of the record: 0\.01 of 0\.05 s"
    ):
        run("fit", pendulum, "--model", "sindy-strong", "--held-out", 0, "-q", "--forecast", 0.01)
    assert "equations" not in capsys.readouterr().err


def test_given_equations(pendulum, tmp_path, capsys):
    given = tmp_path / "equations.toml"
    given.write_text('[equations]\nx = "v - a*x"\nv = "-b*x - a*v"\n[start]\na = 0.5\n')
    assert run("fit", pendulum, "--equations", given, "--out", tmp_path / "o", "--held-out", 0, "--json") == 0
    assert json.loads(capsys.readouterr().out)["model"].startswith(("symbolic", "equations"))
    parameters = fim_dynsys.load_fitted(tmp_path / "o").field_.parameters
    np.testing.assert_allclose([parameters["a"], parameters["b"]], [0.1, 1.0], atol=1e-4)
    given.write_text("[laws]\nx = 1\n")
    assert run("fit", pendulum, "--equations", given) == 2
    assert "a table [equations]" in capsys.readouterr().err


def test_knowledge(tmp_path, capsys):
    path = tmp_path / "decay.csv"
    path.write_text("t,s,p\n" + "".join(f"{a},{b},{1 - b}\n" for a, b in zip(T, np.exp(-T / 3), strict=True)))
    words = (
        "fit",
        path,
        "--model",
        "sindy-strong",
        "--conserved",
        "s + p",
        "--nonnegative",
        "s",
        "p",
        "--json",
    )
    assert run(*words, "--held-out", 0, "--out", tmp_path / "o") == 0
    rates = fim_dynsys.load_fitted(tmp_path / "o").predict(np.array([[0.4, 0.6], [0.9, 0.1]]))
    np.testing.assert_allclose(rates.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(rates[:, 0], [-0.4 / 3, -0.3], rtol=1e-3)


def test_logarithms(tmp_path, capsys):
    noise = np.random.default_rng(0).standard_normal(len(T))
    path = tmp_path / "decay.csv"
    values = np.exp(-T + 0.05 * noise)
    path.write_text("t,c\n" + "".join(f"{a},{b}\n" for a, b in zip(T, values, strict=True)))
    words = ("fit", path, "--model", "sindy-strong", "--json")
    assert run(*words, "--log", "c") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["equations"] == ["c' = -c"] and "failed" not in facts["held out"]
    assert run(*words, "--log", "q") == 2
    assert "expected --log as a list of different states among c, got q" in capsys.readouterr().err


def test_a_driven_record_gets_a_page(tmp_path, capsys):
    """h' = u - h / 2 under steps; portrait and fixed points are those under the mean input."""
    t = np.linspace(0.0, 20.0, 401)
    u = np.where(t % 8 < 4, 1.0, 0.2)
    h = np.zeros_like(t)
    for k in range(1, len(t)):
        level = 2 * u[k - 1]
        h[k] = level + (h[k - 1] - level) * np.exp(-(t[k] - t[k - 1]) / 2)
    path = tmp_path / "tank.csv"
    path.write_text("t,u,h\n" + "".join(f"{a:.4f},{b},{c:.8f}\n" for a, b, c in zip(t, u, h, strict=True)))
    words = ("fit", path, "--inputs", "u", "--model", "sindy-strong", "--report", tmp_path / "page.html")
    assert run(*words, "--held-out", 0.2) == 0
    assert "held out: path R2" in capsys.readouterr().out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"under constant inputs, the means u = {u.mean():.4g}" in page
    (point,) = [line for line in page.split("<tr>") if "stable node" in line]
    assert float(point.split("<td>")[1].split("</td>")[0]) == pytest.approx(2 * u.mean(), rel=0.05)


def test_a_driven_model_is_analysed_at_constant_inputs(tmp_path, capsys):
    """h' = u - h / 2 rests at 2 u."""
    t = np.linspace(0.0, 20.0, 101)
    u = 1.0 + np.sin(t)
    h = 2.0 - 0.8 * np.cos(t) + 0.4 * np.sin(t)
    model = fim_dynsys.load("sindy-strong").fit(h, t, feature_names=["h"], u=u)
    model.save(tmp_path / "tank")
    assert run("analyze", tmp_path / "tank") == 0
    assert f"Under constant inputs, the means u0 = {u.mean():.4g}" in capsys.readouterr().out
    assert run("analyze", tmp_path / "tank", "--json", "--input", "u0=0.7") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["inputs"] == {"u0": 0.7}
    assert facts["fixed points"][0]["h"] == pytest.approx(1.4, rel=1e-3)
    page = tmp_path / "page.html"
    assert run("explore", tmp_path / "tank", "--out", page, "--input", "u0=0.7", "--members", 2) == 0
    assert "u0 = 0.7" in page.read_text(encoding="utf-8")
    assert run("analyze", tmp_path / "tank", "--report", page, "--input", "u0=0.7") == 0
    assert "under constant inputs u0 = 0.7" in page.read_text(encoding="utf-8")
    capsys.readouterr()
    assert run("analyze", tmp_path / "tank", "--input", "v=1") == 2
    assert "analyze: expected --input with values of u0, got those of v" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"write_explorer: expected inputs with values of u0"):
        model.explore(page, inputs={"u0": 1.0, "v": 2.0})


def test_analyze_prints_tables(pendulum, tmp_path, capsys):
    assert (
        run("fit", pendulum, "--model", "sindy-strong", "--out", tmp_path / "o", "-q", "--held-out", 0) == 0
    )
    capsys.readouterr()
    assert run("analyze", tmp_path / "o", "--json", "--portrait", tmp_path / "p.svg") == 0
    facts = json.loads(capsys.readouterr().out)
    (point,) = facts["fixed points"]
    assert (point["x"], point["v"], point["kind"]) == (
        pytest.approx(0, abs=1e-3),
        pytest.approx(0, abs=1e-3),
        "stable focus",
    )
    assert facts["limit cycles"] == []
    assert (tmp_path / "p.svg").read_text(encoding="utf-8").startswith("<?xml")
    assert run("analyze", tmp_path / "o") == 0
    assert "stable focus" in capsys.readouterr().out


def test_members_give_standard_errors(pendulum, tmp_path, capsys):
    model = tmp_path / "o"
    assert run("fit", pendulum, "--model", "sindy-strong", "--out", model, "-q", "--held-out", 0) == 0
    capsys.readouterr()
    assert run("analyze", model) == 0
    assert "No standard errors" in (said := capsys.readouterr().out) and "--members 64" in said
    assert run("analyze", model, "--members", 4) == 0
    assert "±" in (said := capsys.readouterr().out) and "No standard errors" not in said
    assert run("analyze", model, "--members", 1) == 2
    assert "expected --members of 2 or more, got 1" in capsys.readouterr().err


def test_members_of_a_driven_model_are_under_its_constant_inputs(tmp_path, capsys):
    t = np.linspace(0.0, 20.0, 101)
    h = 2.0 - 0.8 * np.cos(t) + 0.4 * np.sin(t) + 0.01 * np.random.default_rng(0).normal(size=101)
    fim_dynsys.load("sindy-strong").fit(h, t, feature_names=["h"], u=1.0 + np.sin(t)).save(tmp_path / "tank")
    assert run("analyze", tmp_path / "tank", "--json", "--input", "u0=0.7", "--members", 4) == 0
    (point,) = json.loads(capsys.readouterr().out)["fixed points"]
    assert 0 < point["h error"] < 0.1 and point["h"] == pytest.approx(1.4, abs=0.05)


def test_fits_as_json_have_coefficients_with_errors(tmp_path, capsys):
    t = np.linspace(0.0, 4.0, 81)
    x = np.exp(-0.5 * t) + 0.01 * np.random.default_rng(0).normal(size=81)
    pd.DataFrame({"t": t, "x": x}).to_csv(tmp_path / "a.csv", index=False)
    assert run("fit", tmp_path / "a.csv", "--model", "sindy-strong", "--json", "--held-out", 0) == 0
    facts = json.loads(capsys.readouterr().out)
    (row,) = facts["coefficients"]
    assert (row["state"], row["term"]) == ("x", "x") and row["coefficient"] == pytest.approx(-0.5, abs=0.02)
    assert 0 < row["standard_error"] < 0.05
    assert facts["fit"]["follows"] == 1.0 and facts["fit"]["follows_for"] > 0


def test_an_option_that_took_the_file_is_named(pendulum, capsys):
    with pytest.raises(SystemExit):
        run("fit", "--states", "x", "v", pendulum)
    said = capsys.readouterr().err
    assert f"--states took {pendulum}; put the file first: fim-dynsys fit {pendulum} --states ..." in said
    with pytest.raises(SystemExit):
        run("fit", "--json")
    assert "the following arguments are required: data" in capsys.readouterr().err


def test_analyses_as_json_have_numbers_and_the_same_keys_for_all_models(tmp_path, capsys):
    t = np.linspace(0.0, 15.0, 150)
    oscillator = fim_dynsys.SymbolicField(["v", "(1 - x**2)*v - x"], state_names=["x", "v"])
    records = fim_dynsys.add_noise(fim_dynsys.simulate(oscillator, [[2.0, 0.0], [0.1, 0.0]], t), 0.02, rng=0)
    found = []
    for model in ("sindy-strong", "fim-ode"):
        fim_dynsys.load(model).fit(records).save(tmp_path / model)
        assert run("analyze", tmp_path / model, "--json") == 0
        found.append(json.loads(capsys.readouterr().out))
    points, cycles = zip(*((own["fixed points"][0], own["limit cycles"][0]) for own in found), strict=True)
    assert set(points[0]) == set(points[1]) and set(cycles[0]) == set(cycles[1])
    assert points[0]["x error"] is None and 0 < points[1]["x error"] < 1e-3
    for point, cycle in zip(points, cycles, strict=True):
        assert point["x"] == pytest.approx(0.0, abs=1e-3)
        values = [complex(value["real"], value["imag"]) for value in point["eigenvalues"]]
        np.testing.assert_allclose(values, [0.5 + 0.866j, 0.5 - 0.866j], atol=0.01)
        assert cycle["multipliers"][0]["real"] == pytest.approx(8.6e-4, rel=0.05)
        assert len(cycle["through"]) == 2 and abs(np.hypot(*cycle["through"])) > 1


def test_what_cannot_be_written_is_refused_before_the_work(pendulum, tmp_path, capsys, monkeypatch):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("", encoding="utf-8")

    def no_fit(*_, **__):
        raise AssertionError("the fit began")

    monkeypatch.setattr(fim_dynsys.registry.load("sindy").__class__, "fit", no_fit)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: (_ for _ in ()).throw(OSError(30, "Read-only")))
    for option, name, said in (
        ("--out", "new", "expected --out in a folder that can be written to"),
        ("--report", "page.html", "expected --report in a folder that can be written to"),
        ("--out", "file", "expected --out as a folder, got the file"),
        ("--report", "folder", "expected --report as a file, got the folder"),
    ):
        assert run("fit", pendulum, "--model", "sindy", option, tmp_path / name) == 2
        assert said in capsys.readouterr().err
    assert run("explore", tmp_path / "folder", "--out", tmp_path / "page.html") == 2
    assert "expected --out in a folder that can be written to" in capsys.readouterr().err


def test_a_dead_link_is_an_error(pendulum, tmp_path, capsys):
    assert run("fit", pendulum, "--model", "sindy", "--out", tmp_path / "o", "-q", "--held-out", 0) == 0
    page = tmp_path / "r.html"
    assert run("analyze", tmp_path / "o", "--report", page, "--explorer", tmp_path / "none.html") == 2
    assert "expected --explorer as a page" in capsys.readouterr().err
    with pytest.raises(FileNotFoundError, match=r"a page that model\.explore wrote"):
        fim_dynsys.report.write_report(fim_dynsys.load_fitted(tmp_path / "o"), page, explorer="none.html")


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('give time="Zeit" or step=', 'give --time "Zeit" or --step'),
        ("give missing=-999 if it is, missing=[] if not", "give --missing -999 if it is, --missing if not"),
        ('give bad_rows="drop"', 'give --bad-rows "drop"'),
        ("give dayfirst=True or dayfirst=False", "give --dayfirst or --no-dayfirst"),
        ('two trials (trials="none")', 'two trials (--trials "none")'),
        ("Knowledge.nonnegative: expected a state", "--nonnegative: expected a state"),
        ("x=1 stays", "x=1 stays"),
        (
            "Knowledge.conserved: expected an expression, got 'x +'",
            "--conserved: expected an expression, got 'x +'",
        ),
        (
            "Trajectories: expected units as text for names among ['x']",
            "expected --units with names among ['x']",
        ),
        (
            "expected every as a whole number of at least 1, got 0",
            "expected --every as a whole number of at least 1, got 0",
        ),
        ("fim-ode.explore: expected n_draws as a whole", "expected --members as a whole"),
        (
            "[Errno 2] No such file or directory: 'a.csv'",
            "expected a file, got 'a.csv' (No such file or directory)",
        ),
        ("(fim_dynsys.available() lists all)", "(`fim-dynsys available` lists all)"),
    ],
)
def test_errors_name_options(said, shown):
    assert in_options(said) == shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--units", "q=m"], "expected --units with names among ['t', 'x', 'v'], got 'q'"),
        (["--nonnegative", "q"], "--nonnegative: expected a state among"),
        (["--conserved", "q + x"], "--conserved: expected the states"),
        (
            ["--model", "sindy", "--nonnegative", "x"],
            "expected --model auto, fim-ode, sindy-strong or symbolic",
        ),
        (
            ["--model", "fim-od"],
            "expected --model as the name of a registered model, got 'fim-od'; nearest: fim-ode",
        ),
        (["--every", 0], "expected --every as a whole number"),
        (["--step", -1], "expected --step as a positive"),
        (["--order", 2, "--model", "sindy"], "expected --order 1; 'fim-ode'"),
    ],
)
def test_errors_of_a_fit_name_the_option(tmp_path, capsys, words, said):
    path = tmp_path / "a.csv"
    path.write_text("t,x,v\n" + "".join(f"{k},{k % 3},{k % 4}\n" for k in range(20)))
    assert run("fit", path, *words) == 2
    assert f"fim-dynsys fit: {said}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("box", "got"), [(["q=0:1"], "q"), (["x=0:1"], "x"), (["x=0:1", "v=0:1", "x=0:2"], "x, v, x")]
)
def test_a_region_names_each_state(pendulum, tmp_path, capsys, box, got):
    assert run("fit", pendulum, "--model", "sindy", "--out", tmp_path / "o", "-q", "--held-out", 0) == 0
    assert run("analyze", tmp_path / "o", "--region", *box) == 2
    said = "expected --region with one LOW:HIGH for each of the states x, v, got " + got
    assert said in capsys.readouterr().err
    assert run("analyze", tmp_path / "o", "--portrait", tmp_path / "a.xyz") == 2
    assert "expected --portrait as a file that ends in .png" in capsys.readouterr().err


def test_a_forecast_ends_where_it_was_asked_to(pendulum, tmp_path, capsys):
    words = ["--model", "sindy-strong", "--held-out", 0, "--forecast", 5]
    assert run("fit", pendulum, *words) == 0
    shown = capsys.readouterr().out.strip().splitlines()
    assert float(shown[-1].split()[1]) == pytest.approx(T[-1] + 5)


def test_an_error_of_a_file_names_the_option(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("t,x\n0,1.5\n1,-999\n2,1.7\n3,1.6\n")
    assert run("fit", path) == 2
    assert "give --missing -999 if" in capsys.readouterr().err
    assert run("look", path, "--missing", -999) == 0
    assert "1 missing" in capsys.readouterr().err


def test_a_warning_names_the_command_and_nothing_of_python(tmp_path, capsys):
    path = tmp_path / "a.csv"
    t = np.arange(0.0, 8.0, 0.1)
    path.write_text("t,x\n" + "".join(f"{s:.1f},{np.cos(s):.6f}\n" for s in t))
    code = "import sys; from fim_dynsys.__main__ import main; sys.exit(main(sys.argv[1:]))"
    words = [sys.executable, "-c", code, "fit", str(path), "--model", "sindy-strong", "--held-out", "0"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    (line,) = [line for line in said.splitlines() if "Warning" in line]
    assert line.startswith("fim-dynsys fit: FitWarning: sindy-strong.fit: the field does not describe")
    assert "field_" not in said and "More or better samples" in said


def test_a_forecast_with_inputs_is_refused_before_the_fit(pendulum, tmp_path, capsys):
    assert run("fit", pendulum, "--inputs", "v", "--forecast", 5, "--out", tmp_path / "fitted") == 2
    said = capsys.readouterr()
    assert "without inputs for --forecast" in said.err and not said.out


@pytest.fixture
def driven_decay(tmp_path):
    """A table of c, with c' = -.5 c + .7 sin(1.3 t), and the file of its equations."""
    field = fim_dynsys.SymbolicField(["-0.5*c+0.7*sin(1.3*s)", "1"], state_names=["c", "s"])
    c = fim_dynsys.simulate(field, [1.0, 0.0], T).x[0, :, 0]
    pd.DataFrame({"t": T, "c": c}).to_csv(tmp_path / "c.csv", index=False)
    (tmp_path / "c.toml").write_text('[equations]\nc = "-k*c + a*sin(1.3*t)"\n', encoding="utf-8")
    return tmp_path / "c.csv", tmp_path / "c.toml"


def test_equations_in_the_time_are_saved_and_reported(driven_decay, tmp_path, capsys):
    data, equations = driven_decay
    out, page = tmp_path / "fitted", tmp_path / "page.html"
    words = ["fit", data, "--equations", equations, "--out", out, "--report", page, "--json"]
    assert run(*words) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["parameters"]["a"]["value"] == pytest.approx(0.7, rel=1e-5)
    assert facts["parameters"]["c(0)"]["standard_error"] < 1e-4
    assert facts["held out"]["r2"] > 0.999
    assert fim_dynsys.load_fitted(out).parameters_["k"] == pytest.approx(0.5, rel=1e-5)
    assert "with inputs, doses and events" in page.read_text(encoding="utf-8")


def test_what_is_kept_does_not_wait_for_what_may_fail(driven_decay, tmp_path, capsys):
    data, equations = driven_decay
    out = tmp_path / "fitted"
    assert (
        run("fit", data, "--equations", equations, "--out", out, "--forecast", 1) == 2
    )  # needs inputs later
    assert "forecast" in capsys.readouterr().err
    assert fim_dynsys.load_fitted(out).parameters_["k"] == pytest.approx(0.5, rel=1e-5)


def test_a_file_is_no_folder(pendulum, capsys):
    assert run("fit", pendulum, "--model", "sindy-strong", "--out", pendulum) == 2
    assert "expected --out as a folder, got the file" in capsys.readouterr().err


def test_a_reader_that_has_read_enough_is_no_error(tmp_path, monkeypatch):
    class Closed(io.TextIOWrapper):
        def write(self, text):
            raise BrokenPipeError

    with open(tmp_path / "out", "wb") as stream:
        monkeypatch.setattr(sys, "stdout", Closed(stream))
        assert cli.main(["info"]) == 141
