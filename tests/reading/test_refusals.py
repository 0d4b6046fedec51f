"""Files that hold no table are refused by what they are."""

import pytest

from fim_dynsys import Trajectories
from fim_dynsys import __main__ as cli
from fim_dynsys.errors import ReadingWarning

HELD = {
    "header.csv": (
        b"t,x,v\n",
        "rows of numbers below the header, got 'header.csv' with none, and columns 't'",
    ),
    "empty.csv": (b"", "which is empty"),
    "empty.mat": (b"", "which is empty"),
    "blank.csv": (b"\n\n", "blank lines only"),
    "comments.csv": (b"# t,x\n# 1,2\n", "comments only"),
    "prose.txt": (b"Dear all,\nno numbers here\n", "which begins 'Dear all,'"),
    "picture.csv": (b"\x89PNG\r\n\x1a\n" + bytes(40), "a PNG picture"),
    "picture.png": (b"\x89PNG\r\n\x1a\n" + bytes(40), "a PNG picture"),
    "old.xls": (b"\xd0\xcf\x11\xe0" + bytes(40), "save it as .xlsx or .csv"),
    "text.xls": (b"t\tx\n0\t1\n1\t2\n", 'which holds text; give format="text"'),
    "records.json": (b'[{"t": 0, "x": 1}]', "which holds JSON"),
    "records.txt": (b'{"t": 0, "x": 1}\n{"t": 1, "x": 2}\n', "which holds JSON"),
    "page.txt": (b"<table><tr><td>1</td></tr></table>", "which holds HTML"),
    "array.dat": (b"\x93NUMPY\x01\x00" + bytes(100), 'give format="numpy"'),
    "model.pkl": (b"\x80\x04\x95" + bytes(40), "a Python pickle"),
    "noise.bin": (bytes(range(256)) * 4, "bytes that are no text"),
}


@pytest.mark.parametrize("name", HELD)
def test_what_a_file_holds_is_said(name, tmp_path):
    content, said = HELD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=r"^Trajectories\.from_file: expected ") as refused:
        Trajectories.from_file(tmp_path / name)
    assert said in str(refused.value)


def test_folders_and_missing_files(tmp_path):
    (tmp_path / "run.csv").write_text("t,x\n0,1\n1,2\n2,3\n")
    with pytest.raises(
        IsADirectoryError, match=r"a file, got the folder .* with 1 files, the first 'run.csv'"
    ):
        Trajectories.from_file(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"an existing file, .*; did you mean 'run.csv'\?"):
        Trajectories.from_file(tmp_path / "runs.csv")
    with pytest.raises(FileNotFoundError, match=r"got .*absent.xyz'$"):
        Trajectories.from_file(tmp_path / "absent.xyz")


def test_doses_between_samples_are_refused_until_states_are_named(tmp_path):
    rows = "".join(f"1,{t},.,{v},0\n" for t, v in ((0.5, 2.8), (1, 6.6), (2, 10.5), (4, 9.7), (8, 7.4)))
    (tmp_path / "pk.csv").write_text("ID,TIME,AMT,DV,EVID\n1,0,320,.,1\n" + rows)
    with pytest.raises(ValueError, match=r"got doses between them \('AMT' beside 'EVID'\); .*doses="):
        Trajectories.from_file(tmp_path / "pk.csv")
    data = Trajectories.from_file(tmp_path / "pk.csv", states=["DV"])
    assert data.state_names == ("DV",) and data.arrays()[0][1][1:].ravel().tolist() == [
        2.8,
        6.6,
        10.5,
        9.7,
        7.4,
    ]


def test_padding_at_the_end_is_left_out_and_said(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"t,x\n0,1\n1,2\n2,4\n" + bytes(64))
    with pytest.warns(UserWarning, match="64 bytes of padding"):
        data = Trajectories.from_file(tmp_path / "a.csv")
    assert data.arrays()[0][1].ravel().tolist() == [1, 2, 4]


def test_look_gives_its_account_once(tmp_path, capsys):
    (tmp_path / "run.csv").write_text("Zeit (s);x\n0,0;1\n0,5;2,5\n1,0;4\n")
    assert cli.main(["look", str(tmp_path / "run.csv")]) == 0
    said = capsys.readouterr()
    assert (said.out + said.err).count("decimal comma") == 1 and "decimal comma" in said.err


def rows(width: int, n: int, separator: str = ",") -> str:
    return "".join(separator.join(f"{k + 0.1 * c:g}" for c in range(width)) + "\n" for k in range(n))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("t,x,v\n" + rows(3, 80) + "\nt,A,B,C\n" + rows(4, 70), "rows of 3 numbers in lines 2 to 81"),
        ("Run 1\nt,x,v\n" + rows(3, 80) + "f,psd\n" + rows(2, 90), "rows of 3 numbers in lines 3 to 82"),
        (
            "# name: t\n" + rows(1, 60) + "\n\n# name: x\n" + rows(2, 60, " "),
            "rows of 1 number in lines 2 to 61",
        ),
    ],
)
def test_the_first_of_two_tables_is_not_dropped_in_silence(content, said, tmp_path):
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(ValueError, match=f"expected one table, got two in 'a.txt': {said}.*bad_rows="):
        Trajectories.from_file(tmp_path / "a.txt")
    with pytest.warns(ReadingWarning, match=f"left out .* {said}, above the table"):
        Trajectories.from_file(tmp_path / "a.txt", bad_rows="drop")


PAIRS = "".join(f"{k},{1.5 * k}\n" for k in range(45))


@pytest.mark.parametrize(
    "top", ["1.0\n0.5\n2\n10\n3\n", "calibration\n" + PAIRS, "wavelength,gain\n" + PAIRS + "\n", "0,0\n" * 45]
)
def test_few_rows_above_a_table_are_left_out(top, tmp_path):
    n = 500 if "1.5" in top else 40  # more than those that show the layout
    (tmp_path / "a.csv").write_text(top + "t,x,v\n" + rows(3, n))
    with pytest.warns(ReadingWarning, match="left out .* above the table"):
        assert Trajectories.from_file(tmp_path / "a.csv").n_obs.tolist() == [n]


@pytest.mark.parametrize("cells", [["<5", "<2", "<1"], [">5", ">4", ">3"], ["1.2*", "1.4*", "1.1 a"]])
@pytest.mark.parametrize("others", [4, 9])
def test_censored_values_in_the_first_rows_are_no_facts(cells, others, tmp_path):
    column = [*cells, *(f"0.{k}" for k in range(others)), *[""] * (42 - others)]
    lines = (f"{k},{k % 7}.5,{cell}\n" for k, cell in enumerate(column))
    (tmp_path / "a.csv").write_text("t,x,c\n" + "".join(lines))
    with pytest.raises(ValueError, match=r"expected .*numbers.* in column 'c'"):
        Trajectories.from_file(tmp_path / "a.csv")


def test_parameters_above_a_table_and_rows_of_another_one_below_are_said(tmp_path):
    (tmp_path / "a.txt").write_text("1.5\n" * 6 + "t,x,v\n" + rows(3, 300))
    with pytest.warns(ReadingWarning, match="left out 6 rows of 1 number in lines 1 to 6, above the table"):
        assert Trajectories.from_file(tmp_path / "a.txt").n_obs.tolist() == [300]
    (tmp_path / "b.txt").write_text("t,x,v\n" + rows(3, 300) + "t,A,B,C\n" + rows(4, 100))
    with pytest.warns(ReadingWarning, match="dropped 101 rows with more cells than the others"):
        assert Trajectories.from_file(tmp_path / "b.txt", bad_rows="drop").n_obs.tolist() == [300]
