"""A first line of numbers: names of columns, or a sample."""

import numpy as np
import pandas as pd
import pytest

from fim_dynsys import Trajectories
from fim_dynsys.errors import ReadingWarning

T = np.linspace(0, 12, 121)
X = np.stack([np.cos(T), -np.sin(T)], axis=1)


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize(("start", "size"), [(0, 1), (1, 1), (0, 300), (0, 0.01)])
def test_numbers_that_pandas_writes_above_columns_are_no_sample(start, size, index, tmp_path):
    pd.DataFrame(np.c_[T + start, size * X]).to_csv(tmp_path / "a.csv", index=index)
    with pytest.warns(ReadingWarning, match="a line that numbers the columns"):
        data = Trajectories.from_file(tmp_path / "a.csv")
    np.testing.assert_allclose(data.arrays()[0][0], T + start)
    np.testing.assert_allclose(data.arrays()[0][1], size * X)


def test_numbers_above_states_alone_are_skipped_beside_row_numbers_and_refused_without(tmp_path):
    pd.DataFrame(X).to_csv(tmp_path / "a.csv")
    with pytest.warns(ReadingWarning):
        assert len(Trajectories.from_file(tmp_path / "a.csv").arrays()[0][0]) == 121
    pd.DataFrame(X).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(ValueError, match="which may number the columns; delete that row if it does"):
        Trajectories.from_file(tmp_path / "b.csv")
    with pytest.warns(ReadingWarning):
        data = Trajectories.from_file(tmp_path / "b.csv", names=["x", "v"])
    assert data.arrays()[0][1][0].tolist() == [0, 1] and len(data.arrays()[0][0]) == 122


@pytest.mark.parametrize("times", [T, T**2])
def test_a_first_sample_that_reads_as_numbers_of_columns_is_kept(times, tmp_path):
    rows = np.c_[times, 1 + np.sin(T), 1 + np.cos(T)]
    (tmp_path / "a.csv").write_text("".join(f"{a:.12g},{b:.12g},{c:.12g}\n" for a, b, c in rows))
    assert (tmp_path / "a.csv").read_text().startswith("0,1,2\n")
    if times is T:
        data = Trajectories.from_file(tmp_path / "a.csv")
        np.testing.assert_allclose(data.arrays()[0][1], rows[:, 1:], rtol=1e-9)
    else:
        with pytest.raises(ValueError, match="'column 1' grows unevenly"):
            Trajectories.from_file(tmp_path / "a.csv")
    np.savetxt(tmp_path / "b.csv", np.c_[np.sin(T), np.cos(T)], delimiter=",")
    with pytest.warns(ReadingWarning, match="row numbers"):
        assert len(Trajectories.from_file(tmp_path / "b.csv").arrays()[0][0]) == 121


def test_a_number_above_a_single_column_is_refused_where_it_is_no_sample(tmp_path):
    pd.Series(X[:, 0]).to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match="which may number the columns"):
        Trajectories.from_file(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("".join(f"{x:.5g}\n" for x in np.sin(T)))
    with pytest.warns(ReadingWarning):
        assert len(Trajectories.from_file(tmp_path / "b.csv").arrays()[0][0]) == 121


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize(
    ("header", "unit"),
    [
        ("id,0,15,30,60,120", ""),
        ("subject,t0,t15,t30,t60,t120", ""),
        ("Patient No,0 min,15 min,30 min,60 min,120 min", "min"),
        ("gene,day 0,day 15,day 30,day 60,day 120", "day"),
    ],
)
def test_rows_of_numbered_subjects_below_times_are_turned(header, unit, tmp_path):
    values = np.round(1 + np.outer(np.arange(1, 8), [0.3, 0.5, 0.1, 0.2, 0.4]), 3)
    rows = [f"{101 + 2 * k}," + ",".join(map(str, row)) + "\n" for k, row in enumerate(values)]
    (tmp_path / "a.csv").write_text(header + "\n" + "".join(rows))
    data = Trajectories.from_file(tmp_path / "a.csv")
    assert data.state_names[-1] in (f"{header.split(',')[0]} 113", "value")  # the latter of one each
    np.testing.assert_array_equal(data.t[0], [0, 15, 30, 60, 120])
    np.testing.assert_allclose(np.concatenate(data.x, axis=1), values.T)
    assert data.units.get("t", "") == unit


def test_labels_of_several_columns_stand_beside_years(tmp_path):
    header = "gene,description," + ",".join(map(str, range(2000, 2010)))
    (tmp_path / "a.csv").write_text(f"{header}\np,first,{'1,2,' * 4}5,6\nq,second,{'3,2,' * 4}5,4\n")
    with pytest.warns(ReadingWarning, match="turned"):
        data = Trajectories.from_file(tmp_path / "a.csv")
    assert data.state_names == ("p", "q") and data.t[0][0] == 2000


@pytest.mark.filterwarnings("ignore::fim_dynsys.errors.ReadingWarning")
@pytest.mark.parametrize(
    "header",
    [
        *("id,0,1,2,3,4", "id,400,410,420,430,440", "id,T1,T2,T3,T4,T5", "id,10,20,30,40,50"),
        *("run,d10,d25,d50,d75,d90", "run,h2,h10,h20,h50,h80", "plant,w0,w25,w50,w75,w100"),
        *("trial,5,10,20,40,80", "run,t0,t5,t10,t15,t20", "run,0,1,2,4,8", "id,d0,d7,d14,d21,d28"),
    ],
)
@pytest.mark.parametrize("n", [8, 30])
def test_numbers_of_columns_and_wavelengths_beside_row_numbers_are_no_times(header, n, tmp_path):
    rows = [f"{k}," + ",".join(f"{np.cos(k + c):.4f}" for c in range(5)) + "\n" for k in range(n)]
    (tmp_path / "a.csv").write_text(header + "\n" + "".join(rows))
    assert Trajectories.from_file(tmp_path / "a.csv").n_obs.tolist() == [n]
