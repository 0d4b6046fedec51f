"""More forms: exports of loggers, spreadsheets, simulators and array files that a new user tried."""

import io
from datetime import datetime, timedelta

import forms
import h5py
import numpy as np
import pandas as pd
import pytest
from forms import CELLS, HALF, START, TWO, Form, T, X, commas, form, rows, text
from instruments import BOTH, COUNTED, SIDE_BY_SIDE

SWITCH = [[*row, "ON" if k % 20 < 10 else "OFF"] for k, row in enumerate(CELLS)]
ONE = {"states": ("x",), "x": [X[:, :1]]}
TRIALS = {"states": ("value",), "x": [X[:, :1], X[:, 1:]], "t": [T, T]}


def _timed(write, header: str, step: timedelta, start: datetime = START) -> str:
    """Rows whose first cells are written from a date."""
    stamps = [write(start + k * step) for k in range(121)]
    return header + "\n" + "".join(f"{s},{b},{c}\n" for s, (_, b, c) in zip(stamps, CELLS, strict=True))


# ---------------------------------------------------------------------- instruments and loggers


@form
def rigol():
    top = "X,CH1,CH2,Start,Increment,\nSequence,Volt,Volt,-6.000000e+00,1.000000e-01\n"
    cells = [[str(k), *row[1:]] for k, row in enumerate(CELLS)]
    return text(top + rows(end=",\n", cells=cells), states=("CH1", "CH2"), t=[T - 6], units={"CH1": "Volt"})


@form
def names_of_more_columns_than_cells():
    return text("t,x,v,lid,fan,lamp,2\n" + rows(), refused="3 names above rows")


@form
def tektronix_with_text_beside_the_rows():
    facts = ["Record Length,121", "Sample Interval,0.1", "Trigger Point,60", "Source,CH1", "Probe,10"]
    beside = [*facts, *[","] * 116]
    lines = "".join(f"{fact},,{a},{b}\n" for fact, (a, b, _) in zip(beside, CELLS, strict=True))
    return text(lines, states=("x0",), x=[X[:, :1]])


@form
def tektronix_with_facts_beside_a_quarter_of_the_rows():
    facts = [f"Record Length,{k}" if k % 3 else f"Source {k},CH{k}" for k in range(18)]
    lines = zip([*facts, *[","] * 42], CELLS[:60], strict=True)
    top = "".join(f"{fact},,{a},{b},\n" for fact, (a, b, _) in lines)
    return text(top, states=("x0",), x=[X[:60, :1]], t=[T[:60]])


@form
def logger_of_campbell():
    top = '"TOA5","CR1000","1234"\n"TIMESTAMP","RECORD","Wind_Avg","Temp_Avg"\n"TS","RN","m/s","Deg C"\n'
    stamps = [[f'"{START + timedelta(minutes=k)}"', str(k), *row[1:]] for k, row in enumerate(CELLS)]
    return text(top + '"","","Avg","Avg"\n' + rows(cells=stamps), name="a.dat", t=[60 * COUNTED[0]],
                states=("Wind_Avg", "Temp_Avg"), units={"Wind_Avg": "m/s"}, says="Campbell")  # fmt: skip


@form
def logger_of_hobo():
    top = '"Plot Title: 12345"\n"#","Date Time, GMT+02:00","Temp, °C","Coupler Attached","End Of File"\n'
    lines = "".join(f"{k + 1},{START + timedelta(minutes=k):%m/%d/%y %I:%M:%S %p},{row[1]},"
                    f"{'Logged' if k == 0 else ''},{'Logged' if k == 120 else ''}\n"
                    for k, row in enumerate(CELLS))  # fmt: skip
    return text(top + lines, states=("Temp",), x=[X[:, :1]], t=[60 * COUNTED[0]], units={"Temp": "°C"})


@form
def meter_with_fractions_of_seconds():
    lines = "".join(f"{b},Volt DC,05/01/2024,12:00:{k // 10:02d},{k % 10 / 10}\n"
                    for k, (_, b, _) in enumerate(CELLS))  # fmt: skip
    return text("x,Unit,Date,Time,Fractional Seconds\n" + lines, units={"t": "s"}, says="fractions of",
                coords={"Unit": ["Volt DC"]}, **ONE)  # fmt: skip


@form
def meter_with_a_duration_beside_its_dates():
    lines = "".join(
        f"{b},5/1/2024 12:{k // 60:02d}:{k % 60:02d} PM,0:01\n" for k, (_, b, _) in enumerate(CELLS)
    )
    return text("x,Start Time,Duration\n" + lines, t=COUNTED, says="Duration (text)", **ONE)


@form
def plate_reader_with_cycles_above_times():
    series = {"Cycle Nr.": range(1, 122), "Time [s]": range(0, 7260, 60), "A1": X[:, 0], "A2": X[:, 1]}
    lines = "".join(f"{name}," + ",".join(str(v) for v in values) + "\n" for name, values in series.items())
    return text(lines, states=("A1", "A2"), t=[60 * COUNTED[0]], units={"t": "s"})


@form
def motion_capture():
    top = "Trajectories\n10\n,,S:M1,,S:M2,\nFrame,Sub Frame,X,Y,X,Y\n,,mm,mm,mm,mm\n"
    cells = [[str(k), "0", *row[1:]] for k, row in enumerate(SIDE_BY_SIDE)]
    names = ("S:M1_X", "S:M1_Y", "S:M2_X", "S:M2_Y")
    return text(top + rows(cells=cells), states=names, t=COUNTED, units={"S:M2_Y": "mm"}, **BOTH,
                coords={"Sub Frame": [0]})  # fmt: skip


@form
def steps_of_a_circuit_simulator():
    top = "time\tx\tv\n"
    runs = [
        f"Step Information: R={k}K  (Run: {k}/2)\n" + rows("\t", cells)
        for k, cells in ((1, CELLS), (2, HALF))
    ]
    return text(top + "".join(runs), name="a.txt", options={"bad_rows": "drop"}, **TWO)


@form
def values_of_a_sample_below_each_other():
    lines = "".join(f"{k}\t{a}\n\t{b}\n\t{c}\n" for k, (a, b, c) in enumerate(CELLS))
    return text("Values:\n" + lines, name="a.txt", refused="side by side")


@form
def parameters_above_the_rows():
    return text("10.0 28.0 2.667\n" + rows(" "), name="a.dat", refused="first row")


# ---------------------------------------------------------------------- calendars and clocks


@form
def half_days_with_points():
    def write(when: datetime) -> str:
        return f"{when:%I:%M:%S} {'a.m.' if when.hour < 12 else 'p.m.'}"

    return text(_timed(write, "Time,x,v", timedelta(seconds=1)), t=[43_200 + COUNTED[0]], units={"t": "s"})


@form
def half_days_past_noon_beside_dates():
    content = _timed(
        lambda d: f"{d:%m/%d/%Y,%I:%M:%S %p}", "Date,Time,x,v", timedelta(hours=1), datetime(2024, 5, 13, 11)
    )
    return text(content, t=[3600 * COUNTED[0]], units={"t": "s"})


@form
def months_in_german():
    months = ("Januar", "Februar", "März", "April", "Mai")
    content = _timed(lambda d: f"{d.day}. {months[d.month - 1]} {d.year}", "Datum,x,v", timedelta(days=1),
                     datetime(2024, 1, 1))  # fmt: skip
    return text(content, t=[86_400 * COUNTED[0]], units={"t": "s"})


def _of_months(write, header: str = "Month,x,v") -> Form:
    months = np.arange("1990-01", "2000-02", dtype="datetime64[M]")
    t = (months.astype("datetime64[D]") - np.datetime64("1990-01-01")) / np.timedelta64(1, "s")
    stamps = [write(datetime(1990 + k // 12, k % 12 + 1, 1)) for k in range(121)]
    lines = "".join(f"{s},{b},{c}\n" for s, (_, b, c) in zip(stamps, CELLS, strict=True))
    return text(header + "\n" + lines, t=[t], units={"t": "s"})


FORMS_OF_MONTHS = {
    "word_and_year": "{0:%b-%y}",
    "whole_word_and_year": "{0:%B %Y}",
    "number_and_year": "{0:%m/%Y}",
    "year_and_number": "{0:%Y}M{0:%m}",
}
for _name, _written in FORMS_OF_MONTHS.items():
    forms.FORMS[f"months_as_{_name}"] = lambda written=_written: _of_months(written.format)


@form
def months_in_words_beside_years():
    return _of_months(lambda d: f"{d.year},{d:%b}", "year,month,x,v")


@form
def quarters():
    starts = np.arange("1990-01", "2020-04", 3, dtype="datetime64[M]")
    t = (starts.astype("datetime64[D]") - np.datetime64("1990-01-01")) / np.timedelta64(1, "s")
    cells = [[f"{1990 + k // 4}-Q{k % 4 + 1}", *row[1:]] for k, row in enumerate(CELLS)]
    return text("Quarter,x,v\n" + rows(cells=cells), t=[t], units={"t": "s"})


@form
def weeks_beside_years():
    cells = [[str(2010 + k // 52), str(k % 52 + 1), *row[1:]] for k, row in enumerate(CELLS[:120])]
    return text("year,epiweek,x,v\n" + rows(cells=cells), x=[X[:120]], t=[604_800 * COUNTED[0][:120]],
                units={"t": "s"}, says="'year', 'epiweek' together")  # fmt: skip


@form
def nanoseconds_since_1970():
    cells = [[str(1_714_564_800_123_456_789 + k * 10**8), *row[1:]] for k, row in enumerate(CELLS)]
    return text("t_ns,x,v\n" + rows(cells=cells), units={"t": "s"}, says="since 1970")


@form
def years_by_months():
    values = X[:120, 0].reshape(10, 12)
    names = [f"{datetime(2000, k, 1):%b}" for k in range(1, 13)]
    lines = "".join(f"{1990 + k}," + ",".join(f"{v:.5f}" for v in row) + "\n" for k, row in enumerate(values))
    months = np.arange("1990-01", "2000-01", dtype="datetime64[M]").astype("datetime64[D]")
    return text("Year," + ",".join(names) + "\n" + lines, states=("value",), x=[X[:120, :1]],
                t=[(months - months[0]) / np.timedelta64(1, "s")], says="one series")  # fmt: skip


@form
def minutes_beyond_the_hour():
    cells = [[f"{k}:{7 * k % 60:02d}", *row[1:]] for k, row in enumerate(CELLS)]
    return text("Time,x,v\n" + rows(cells=cells), refused='time_format="%M:%S"')


@form
def minutes_beyond_the_hour_that_are_named():
    cells = [[f"{k}:{7 * k % 60:02d}", *row[1:]] for k, row in enumerate(CELLS)]
    seconds = np.array([60.0 * k + 7 * k % 60 for k in range(121)])
    return text("Time,x,v\n" + rows(cells=cells), options={"time_format": "%M:%S"}, t=[seconds])


@form
def a_format_of_dates_that_is_given():
    content = _timed(lambda d: f"{d:%Y|%j}", "day of it,x,v", timedelta(days=1))
    return text(content, options={"time_format": "%Y|%j"}, t=[86_400 * COUNTED[0]], units={"t": "s"})


@form
def numbers_of_months_beside_a_clock():
    cells = [[str(k % 12 + 1), f"{1990 + k / 12:.6f}", *row[1:]] for k, row in enumerate(CELLS)]
    return text(
        "m,decimal year,x,v\n" + rows(cells=cells), t=[1990 + COUNTED[0] / 12], says="numbers of months"
    )


@form
def a_counter_that_starts_again_every_third_row():
    cells = [[a, str(j), b] for a, b, _ in CELLS for j in range(3)]
    return text(rows(cells=cells), refused="trajectory=")


# ---------------------------------------------------------------------- cells


@form
def switch_in_words():
    return text("t,x,v,pump\n" + rows(cells=SWITCH), states=("x", "v", "pump"), says="ON and OFF as 1 and 0",
                x=[np.column_stack([X, np.arange(121) % 20 < 10])])  # fmt: skip


@form
def switch_in_words_as_an_input():
    return text("t,x,v,pump\n" + rows(cells=SWITCH), options={"inputs": ["pump"]}, says="inputs: pump")


@form
def switch_with_gaps():
    cells = [[*row, "" if k % 7 == 3 else str(k % 20 < 10)] for k, row in enumerate(CELLS)]
    on = np.where(np.arange(121) % 7 == 3, np.nan, np.arange(121) % 20 < 10)
    return text("t,x,v,on\n" + rows(cells=cells), states=("x", "v", "on"), x=[np.column_stack([X, on])],
                says="True and False")  # fmt: skip


DISGUISED = {
    "currency": lambda v: f"${v + 10:.2f}",
    "brackets_for_minus": lambda v: f"({-v:.1f})" if v < 0 else f"{v:.1f}",
    "limits_of_detection": lambda v: f"{v:.2f}" if v >= 0.1 else "<0.1",
    "uncertainties_in_the_cell": lambda v: f"{v:.2f}±0.01",
    "complex_numbers": lambda v: f"{v:.1f}+{abs(v):.1f}j",
}
for _name, _write in DISGUISED.items():
    forms.FORMS[f"numbers_disguised_by_{_name}"] = lambda write=_write: text(
        "t,x,v\n" + rows(cells=[[row[0], write(float(row[1])), row[2]] for row in CELLS]),
        refused="column 'x'",
    )


@form
def limit_of_detection_that_is_named():
    cells = [[row[0], row[1] if float(row[1]) >= 0.1 else "<0.1", row[2]] for row in CELLS]
    x = np.where((X >= 0.1) | [False, True], X, np.nan)
    return text("t,x,v\n" + rows(cells=cells), options={"missing": "<0.1"}, x=[x])


@form
def converter_at_its_limit():
    cells = [[row[0], "32767" if k in (5, 6) else row[1], row[2]] for k, row in enumerate(CELLS)]
    return text("t,x,v\n" + rows(cells=cells), refused="missing=32767")


@form
def lines_in_quotes():
    return text(
        '"t,x,v"\n' + "".join(f'"{",".join(row)}"\n' for row in CELLS), says="quotes round whole lines"
    )


@form
def cells_protected_for_spreadsheets():
    return text('="t",="x",="v"\n' + "".join(",".join(f'="{c}"' for c in row) + "\n" for row in CELLS))


@form
def cells_marked_as_text():
    return text("t,x,v\n" + "".join(",".join(f"'{c}" for c in row) + "\n" for row in CELLS))


@form
def blanks_of_no_width():
    return text("\u200bt,x\u200b,v\n" + rows())


@form
def short_dates_and_decimal_commas():
    cells = [[f"1.5.24 {9 + k // 60}:{k % 60:02d}", b] for k, (_, b, _) in enumerate(commas())]
    return text("Zeit;x\n" + rows(";", cells), t=[60 * COUNTED[0]], **ONE)


# ---------------------------------------------------------------------- columns


@form
def units_alone_above_the_rows():
    return text("(s),(m),(m/s)\n" + rows(), states=("x0", "x1"), units={"t": "s", "x0": "m", "x1": "m/s"})


@form
def uneven_times_by_their_unit():
    cells = [[f"{t**1.3:.6f}", *row[1:]] for t, row in zip(T, CELLS, strict=True)]
    return text("lag (min),x,v\n" + rows(cells=cells), t=[T**1.3], units={"t": "min"})


@form
def constant_column_with_a_gap():
    cells = [[*row, "" if k in (0, 60) else "9.81"] for k, row in enumerate(CELLS)]
    return text("t,x,v,g\n" + rows(cells=cells), says="constant", coords={"g": [9.81]})


@form
def short_states_that_count():
    return text("t,x,n\n0,1,5\n1,2,6\n2,3,7\n", states=("x", "n"), x=[np.array([[1, 5], [2, 6], [3, 7]])],
                t=[np.arange(3.0)])  # fmt: skip


@form
def means_and_deviations():
    cells = [[row[0], row[1], f"0.0{k % 5 + 1}"] for k, row in enumerate(CELLS)]
    return text("t,x_mean,x_sd\n" + rows(cells=cells), states=("x_mean",), x=[X[:, :1]],
                says="uncertainty of x_mean")  # fmt: skip


@form
def trials_as_columns():
    return text(
        "time,trial1,trial2\n" + rows(), says="2 trials of value", coords={"trial": ["1", "2"]}, **TRIALS
    )


@form
def animals_as_columns():
    return text("time;mouse A;mouse B\n" + rows(";"), coords={"trial": ["A", "B"]}, **TRIALS)


@form
def two_labels_that_tell_trajectories_apart():
    cells = [
        [n, k, *row] for n, k, part in (("a", "1", CELLS), ("a", "2", HALF), ("b", "1", HALF)) for row in part
    ]
    return text("community,replicate,t,x,v\n" + rows(cells=sorted(cells, key=lambda row: float(row[2]))),
                x=[X, 0.5 * X, 0.5 * X], t=[T] * 3, says="3 trajectories",
                coords={"replicate": [1, 2, 1], "community": ["a", "a", "b"]})  # fmt: skip


@form
def sets_of_samples_side_by_side():
    return text(
        "uEst,uVal,yEst,yVal\n" + rows(cells=[row[1:] for row in SIDE_BY_SIDE]), refused="states= and inputs="
    )


@form
def one_of_the_sets():
    cells = [row[1:] for row in SIDE_BY_SIDE]
    options = {"states": ["yEst"], "inputs": ["uEst"], "step": 0.1}
    return text("uEst,uVal,yEst,yVal\n" + rows(cells=cells), options=options, states=("yEst",),
                x=[0.5 * X[:, :1]], says="inputs: uEst")  # fmt: skip


@form
def wells_as_columns():
    cells = [[*row, row[1]] for row in CELLS]
    return text("Time,A1,A2,A3\n" + rows(cells=cells), states=("A1", "A2", "A3"), says='trials="suffix"',
                x=[np.column_stack([X, X[:, 0]])])  # fmt: skip


@form
def columns_of_two_levels_with_names():
    columns = pd.MultiIndex.from_product([["run1", "run2"], ["x", "v"]], names=["r", "s"])
    times = pd.Index(T**1.5 + T, name="t")
    frame = pd.DataFrame(np.column_stack([X, 0.5 * X]), index=times, columns=columns)
    return text(frame.to_csv(), coords={"trial": ["1", "2"]}, x=TWO["x"], t=[T**1.5 + T] * 2)


# ---------------------------------------------------------------------- arrays and sheets


def _npz(**arrays) -> Form:
    return Form(forms._saved(np.savez, **arrays), name="a.npz")


def _with(made: Form, **about) -> Form:
    return Form(**{**vars(made), **about})


SETS = {"t_train": T, "x_train": X, "t_test": T + 12, "x_test": 0.5 * X}
NAMED = {"states": ("x_train0", "x_train1")}


@form
def numpy_train_and_test():
    return _with(_npz(**SETS), refused="time=")


@form
def numpy_train_by_its_times():
    return _with(_npz(**SETS), options={"time": "t_train"}, **NAMED)


@form
def numpy_train_by_its_states():
    return _with(_npz(**SETS), options={"time": "t_train", "states": ["x_train"]}, **NAMED)


@form
def numpy_with_inputs():
    return _with(_npz(t=T, x=X, u=T), options={"inputs": ["u"]}, states=("x0", "x1"), says="inputs: u")


@form
def numpy_trajectories_with_inputs():
    made = _npz(t=T, x=np.stack([X, 0.5 * X]), u=np.stack([T, T]), mass=np.array([1.0, 2.0]))
    return _with(made, options={"inputs": ["u"], "coords": ["mass"]}, states=("x0", "x1"), says="inputs: u",
                 coords={"mass": [1.0, 2.0]}, **TWO)  # fmt: skip


@form
def numpy_samples_along_another_axis():
    return _with(_npz(t=T, x=np.stack([X, 0.5 * X], axis=2)), options={"step": 0.1}, refused="moveaxis")


@form
def numpy_names_of_columns():
    return _with(_npz(t=T, y=X, names=np.array(["x", "v"])), says="names from 'names'")


@form
def numpy_dates():
    when = np.datetime64("2024-05-01") + (1000 * T).astype("timedelta64[ms]")
    return Form(forms._npy(np.rec.fromarrays([when, X[:, 0]], names="when,x").view(np.ndarray)), name="a.npy",
                units={"t": "s"}, **ONE)  # fmt: skip


@form
def matlab_names_in_cells():
    names = np.array(["t", "x", "v"], dtype=object)
    return Form(forms._mat(data=np.column_stack([T, X]), names=names), name="a.mat", says="names from")


@form
def matlab_names_of_a_clock_beside_a_rate():
    names = np.array(["Time [s]", "x", "v"], dtype=object)
    return Form(
        forms._mat(data=np.column_stack([T, X]), names=names, fs=20.0), name="a.mat", units={"t": "s"}
    )


@form
def matlab_complex():
    return Form(forms._mat(t=T, z=X[:, 0] + 1j * X[:, 1], x=X), name="a.mat", refused="complex")


@form
def matlab_two_structures():
    runs = {f"run{k}": {"t": T, "y": f * X} for k, f in ((1, 1.0), (2, 0.5))}
    return Form(forms._mat(**runs), name="a.mat", states=("y0", "y1"), coords={"trial": [1, 2]}, **TWO)


def _groups(**parts: float) -> bytes:
    return forms._hdf5(**{f"{g}/{n}".replace("__", "/"): f * a for g, f in parts.items()
                          for n, a in (("t", T / f), ("x", X[:, :1]))})  # fmt: skip


@form
def hdf5_groups_in_the_order_of_their_numbers():
    return Form(_groups(run1=1.0, run10=0.1, run2=0.5), name="a.h5", states=("x",), t=[T] * 3,
                coords={"trial": [1, 2, 10]}, x=[f * X[:, :1] for f in (1.0, 0.5, 0.1)])  # fmt: skip


@form
def hdf5_groups_by_name():
    return Form(_groups(raw=1.0, filtered=0.5), name="a.h5", coords={"trial": ["filtered", "raw"]},
                says="groups", states=("x",), x=[0.5 * X[:, :1], X[:, :1]], t=[T] * 2)  # fmt: skip


@form
def hdf5_groups_in_a_group():
    return Form(_groups(trials__0=1.0, trials__1=0.5), name="a.h5", coords={"trial": [0, 1]}, states=("x",),
                x=[X[:, :1], 0.5 * X[:, :1]], t=[T] * 2)  # fmt: skip


@form
def hdf5_of_two_rates():
    return Form(forms._hdf5(**{"imu/t": T, "imu/a": X, "gps/t": T[::10], "gps/p": X[::10]}), name="a.h5",
                refused="time=")  # fmt: skip


@form
def hdf5_with_attributes():
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        made = file.create_dataset("data", data=X)
        made.attrs["sampling_rate"], made.attrs["columns"] = 10.0, ["x", "v"]
    return Form(buffer.getvalue(), name="a.h5", says="0.1 apart", units={"t": "s"})


def _workbook(fill) -> Form:
    openpyxl = pytest.importorskip("openpyxl", reason=".xlsx files need the optional package openpyxl")
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    fill(book.active)
    book.save(buffer)
    return Form(buffer.getvalue(), name="a.xlsx")


@form
def excel_below_a_merged_title():
    def fill(sheet) -> None:
        sheet["A1"] = "Pendulum, group 3"
        sheet.merge_cells("A1:C1")
        for row in [[], ["t (s)", "x (m)", "v"], *([float(c) for c in row] for row in CELLS)]:
            sheet.append(row)

    return _with(_workbook(fill), units={"t": "s", "x": "m"})


@form
def excel_with_a_mean_below():
    def fill(sheet) -> None:
        for row in [
            ["t", "x", "v"],
            *([float(c) for c in row] for row in CELLS),
            ["Mean", "=AVERAGE(B2:B122)"],
        ]:
            sheet.append(row)

    return _with(_workbook(fill), refused="bad_rows=")


@form
def excel_numbers_as_text():
    def fill(sheet) -> None:
        for row in [["t", "x", "v"], *CELLS]:
            sheet.append(row)

    return _workbook(fill)


@form
def excel_trials_under_merged_cells():
    def fill(sheet) -> None:
        for row in [[None, "Trial 1", None, "Trial 2"], ["t (s)", "x", "v", "x", "v"]]:
            sheet.append(row)
        sheet.merge_cells("B1:C1")
        sheet.merge_cells("D1:E1")
        for row in SIDE_BY_SIDE:
            sheet.append([float(c) for c in row])

    return _with(_workbook(fill), coords={"trial": ["1", "2"]}, units={"t": "s"}, **TWO)


@form
def excel_of_dates_beside_times_of_day():
    stamps = [START.replace(hour=0) + timedelta(days=3 * (k // 24), hours=k % 24) for k in range(121)]

    def fill(sheet) -> None:
        sheet.append(["Date", "Time", "x", "v"])
        for stamp, (_, x, v) in zip(stamps, CELLS, strict=True):
            sheet.append([stamp.replace(hour=0), stamp.time(), float(x), float(v)])

    hours = np.array([72.0 * (k // 24) + k % 24 for k in range(121)])
    return _with(_workbook(fill), t=[3600 * hours], units={"t": "s"})
