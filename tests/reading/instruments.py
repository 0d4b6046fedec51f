"""More forms: what instruments, loggers and simulators export, and what people make of it."""

import io
from datetime import datetime, timedelta

import forms
import numpy as np
import pandas as pd
import pytest
from forms import CELLS, HALF, START, TWO, Form, T, X, commas, form, rows, stamps, text

COUNTED = [np.arange(121.0)]
BOTH = {"x": [np.column_stack([X, 0.5 * X])]}
SIDE_BY_SIDE = [[*a, *b[1:]] for a, b in zip(CELLS, HALF, strict=True)]


def _first(write) -> list[list[str]]:
    """Rows whose first cell is written from their number."""
    return [[write(k), *row[1:]] for k, row in enumerate(CELLS)]


# ---------------------------------------------------------------------- exports of instruments

_LVM = (
    "LabVIEW Measurement\t\nSeparator\tTab\nMulti_Headings\tYes\n***End_of_Header***\t\n\t\n"
    "Channels\t2\t\t\nSamples\t121\t121\t\nX0\t0.0\t0.0\t\nDelta_X\t0.1\t0.1\t\n***End_of_Header***\t\t\t\n"
)


@form
def labview_without_times():
    cells = _first(lambda k: "")
    return text(_LVM + "X_Value\tx\tv\tComment\n" + rows("\t", cells), name="a.lvm", says="0.1 apart")


@form
def labview_with_a_clock_for_each_channel():
    cells = [[a, b, a, c] for a, b, c in CELLS]
    return text(
        _LVM + "X_Value\tx\tX_Value\tv\tComment\n" + rows("\t", cells), name="a.lvm", says="second clock"
    )


@form
def labview_in_segments():
    top = "X_Value\tx\tv\tComment\n"
    return text(_LVM + top + rows("\t") + "\t\t\t\n" + _LVM[78:] + top + rows("\t", HALF), name="a.lvm",
                refused="bad_rows=")  # fmt: skip


@form
def tracker_of_two_masses():
    cells = [[*a, *b] for a, b in zip(CELLS, HALF, strict=True)]
    names = ("mass_A_x", "mass_A_y", "mass_B_x", "mass_B_y")
    return text("mass_A\t\t\tmass_B\t\t\nt\tx\ty\tt\tx\ty\n" + rows("\t", cells), name="a.txt", states=names,
                says="the same as mass_A_t", **BOTH)  # fmt: skip


@form
def oscilloscope_with_its_step_in_the_header():
    return text("CH1,CH2,t0 =0.0, tInc = 0.1,\n" + "".join(f"{b},{c},,\n" for _, b, c in CELLS),
                states=("CH1", "CH2"), says="by a line above")  # fmt: skip


@form
def step_in_milliseconds_above_the_table():
    cells = [row[1:] for row in CELLS]
    return text("Sample Interval: 100 ms\nx,v\n" + rows(",", cells), says="0.1 apart")


@form
def picoscope():
    top = "Time,Channel A,Channel B\n(ms),(V),(mV)\n\n"
    return text(top + rows(), states=("Channel A", "Channel B"), units={"t": "ms", "Channel B": "mV"})


@form
def counts_below_the_names():
    top = "run4.acq\n2 channels\nsec,CH1,CH2,\n,121,121,\n"
    return text(top + rows(end=",\n"), refused="names=")


@form
def circuit_simulator():
    return text("time\tV(n001)\tI(L1)\n" + rows("\t"), name="a.txt", states=("V(n001)", "I(L1)"))


@form
def circuit_simulator_with_an_index():
    lines = "".join(f"{k}\t{a}\t{b}\t{c}\t\n" for k, (a, b, c) in enumerate(CELLS))
    return text("Index   time            v(out)          i(l1)\n" + "-" * 60 + "\n" + lines, name="a.txt",
                states=("v(out)", "i(l1)"))  # fmt: skip


@form
def runs_side_by_side():
    cells = [[*a, *b] for a, b in zip(CELLS, HALF, strict=True)]
    names = [f"Run {k}: {n}" for k in (1, 2) for n in ("Time (s)", "x (m)", "v (m/s)")]
    return text(",".join(names) + "\n" + rows(",", cells), units={"t": "s", "x": "m"}, says="2 trials",
                coords={"trial": ["1", "2"]}, **TWO)  # fmt: skip


@form
def runs_side_by_side_named_last():
    cells = [[*a, *b] for a, b in zip(CELLS, HALF, strict=True)]
    names = [f"{n} Run #{k}" for k in (1, 2) for n in ("Time (s)", "x (m)", "v (m/s)")]
    return text(",".join(names) + "\n" + rows(",", cells), units={"t": "s", "v": "m/s"}, says="2 trials",
                coords={"trial": ["1", "2"]}, **TWO)  # fmt: skip


@form
def robot_messages():
    nano = 1_714_564_800_000_000_000
    cells = [[str(nano + k * 10**8), str(k + 17), str(nano + k * 10**8 + 300), *row[1:]]
             for k, row in enumerate(CELLS)]  # fmt: skip
    return text("%time,field.header.seq,field.header.stamp,field.x,field.v\n" + rows(",", cells),
                states=("field.x", "field.v"), says="field.header.seq (row numbers)")  # fmt: skip


@form
def seconds_and_nanoseconds():
    cells = [[str(17_000 + k // 10), str(k % 10 * 10**8), *row[1:]] for k, row in enumerate(CELLS)]
    return text("secs,nsecs,x,v\n" + rows(",", cells), units={"t": "s"}, says="together")


@form
def buoy():
    top = "#YY  MM DD hh mm  x     v\n#yr  mo dy hr mn  m    m/s\n"
    lines = "".join(f"2024 05 01 {k // 60:02d} {k % 60:02d} {r[1]} {r[2]}\n" for k, r in enumerate(CELLS))
    return text(top + lines, name="a.txt", t=[60 * COUNTED[0]], units={"t": "s", "x": "m", "v": "m/s"})


@form
def year_and_day_of_year():
    cells = [["2024", str(300 + k // 24), str(k % 24), *r[1:]] for k, r in enumerate(CELLS)]
    return text("year,doy,hour,x,v\n" + rows(",", cells), t=[3600 * COUNTED[0]], units={"t": "s"})


@form
def database_with_annotations():
    when = [(START + timedelta(seconds=float(t))).isoformat(timespec="milliseconds") for t in T]
    top = "#datatype,string,long,dateTime,double,string\n,result,table,_time,_value,_field\n"
    lines = "".join(f",,{i},{w}Z,{row[i + 1]},{n}\n" for i, n in enumerate("xv")
                    for w, row in zip(when, CELLS, strict=True))  # fmt: skip
    return text(top + lines, states=("v", "x"), x=[X[:, ::-1]], units={"t": "s"}, says="spread over columns")


@form
def series_as_rows_below_years():
    top = "Country,Code," + ",".join(str(1900 + k) for k in range(121)) + "\n"
    lines = "".join(
        f"{n},{n}{n}," + ",".join(row[i] for row in CELLS) + "\n" for i, n in ((1, "x"), (2, "v"))
    )
    return text(top + lines, t=[1900 + COUNTED[0]], says="rows are series")


@form
def series_as_rows_below_dates():
    days = [START + timedelta(days=k) for k in range(121)]
    top = "Province,Country,Lat," + ",".join(f"{d.month}/{d.day}/{d:%y}" for d in days) + "\n"
    lines = "".join(
        f",{n},{i}.5," + ",".join(row[i] for row in CELLS) + "\n" for i, n in ((1, "x"), (2, "v"))
    )
    return text(top + lines, t=[86_400 * COUNTED[0]], units={"t": "s"}, says="rows are series")


# ---------------------------------------------------------------------- numbers


def _euro(value: float) -> str:
    return f"{value:,.2f}".replace(",", "_").replace(".", ",").replace("_", ".")


@form
def decimal_commas_and_points_of_thousands():
    lines = "".join(f"{a};{_euro(1e4 * b)};{_euro(1e4 * c)}\n"
                    for (a, _, _), (b, c) in zip(commas(), X, strict=True))  # fmt: skip
    return text("Zeit;x;v\n" + lines, x=[1e4 * X])


@form
def points_of_thousands_that_may_be_decimal():
    lines = "".join(f"{k};{round(1e6 * b + 2e6) // 1000:,}\n".replace(",", ".")
                    for k, b in enumerate(np.linspace(-1.5, 2, 121)))  # fmt: skip
    return text("Zeit;x\n" + lines, refused='thousands="."')


@form
def thin_spaces_of_thousands():
    write = lambda value: f"{value:,.2f}".replace(",", "\u202f").replace(".", ",")  # noqa: E731
    lines = "".join(f"{write(a)};{write(1e4 * b)};{write(1e4 * c)}\n" for a, (b, c) in zip(T, X, strict=True))
    return text("temps;x;v\n" + lines, x=[1e4 * X])


@form
def one_column_of_decimal_commas():
    return text("".join(row[1] + "\n" for row in commas()), refused='decimal=","')


@form
def one_column_of_decimal_commas_that_are_named():
    return text("".join(row[1] + "\n" for row in commas()), options={"decimal": ",", "step": 0.1},
                states=("x0",), x=[X[:, :1]])  # fmt: skip


@form
def wavelengths_as_names():
    return text("time,600.5,700.5\n" + rows(), states=("600.5", "700.5"))


@form
def numbers_alone_as_names():
    return text("0,600,700\n" + rows(), refused="names=")


@form
def dropouts_as_zeros():
    cells = [[a, f"{float(b) + 50:.5f}", c] for a, b, c in CELLS]
    for k in (4, 9, 44):
        cells[k][1] = "0"
    return text("t,x,v\n" + rows(",", cells), refused="missing=0")


# ---------------------------------------------------------------------- headers and rows


@form
def names_over_lines_in_quotes():
    return text('"Time\n(s)","x\n(m)","v\n(m/s)"\n' + rows(), units={"t": "s", "x": "m", "v": "m/s"})


@form
def groups_over_merged_cells():
    names = ("Sensor A_x", "Sensor A_v", "Sensor B_x", "Sensor B_v")
    top = ",Sensor A,,Sensor B,\nTime,x,v,x,v\n"
    return text(top + rows(",", SIDE_BY_SIDE), states=names, says="names joined", **BOTH)


@form
def columns_of_two_levels():
    """What `DataFrame.to_csv()` writes of them."""
    top = ",a,a,b,b\n,x,v,x,v\nt,,,,\n"
    return text(top + rows(",", SIDE_BY_SIDE), states=("a_x", "a_v", "b_x", "b_v"), **BOTH)


@form
def units_above_the_names():
    return text("s,m,m/s\nt,x,v\n" + rows(), units={"t": "s", "x": "m", "v": "m/s"})


@form
def types_below_the_names():
    return text("t,x,v\nfloat,float64,double\n" + rows(), says="line of types")


@form
def header_repeated():
    return text(
        "t,x,v\n" + rows(",", CELLS[:60]) + "t,x,v\n" + rows(",", CELLS[60:]), says="repeat the header"
    )


@form
def header_repeated_for_each_trial():
    return text("t;x;v\n" + rows(";") + "\nt;x;v\n" + rows(";", HALF), says="2 trajectories", **TWO)


@form
def blocks_between_blank_lines():
    later = [[f"{float(a) + 20:.5f}", b, c] for a, b, c in HALF]
    return text("# t x v\n" + rows(" ") + "\n\n" + rows(" ", later), name="a.dat", says="2 blocks",
                x=[np.concatenate([X, 0.5 * X])], t=[np.concatenate([T, T + 20])])  # fmt: skip


@form
def summary_below_the_rows():
    return text("t,x,v\n" + rows() + "\nMean,0.1,0.2\n", refused="bad_rows=")


# ---------------------------------------------------------------------- times


@form
def times_backwards():
    return text(rows(",", CELLS[::-1]), refused="step=")


@form
def dates_backwards():
    cells = _first(lambda k: f"{START + timedelta(days=k):%Y-%m-%d}")[::-1]
    return text("Date,x,v\n" + rows(",", cells), refused="in the order of time")


@form
def counter_that_overflows():
    return text("ms,x,v\n" + rows(",", _first(lambda k: str((65_000 + 10 * k) % 65_536))), refused="step=")


@form
def offsets_from_utc_over_the_end_of_summer_time():
    def write(k: int) -> str:
        when = datetime(2024, 10, 27) + timedelta(minutes=k)
        hours = 2 if when < datetime(2024, 10, 27, 1) else 1
        return f"{when + timedelta(hours=hours):%Y-%m-%dT%H:%M:%S}+0{hours}:00"

    return text("timestamp,x,v\n" + rows(",", _first(write)), t=[60 * COUNTED[0]], units={"t": "s"})


@form
def local_times_over_the_end_of_summer_time():
    def write(k: int) -> str:
        when = datetime(2024, 10, 27, 2) + timedelta(minutes=k)
        return f"{when - timedelta(hours=k >= 60):%Y-%m-%d %H:%M:%S}"

    return text("timestamp,x,v\n" + rows(",", _first(write)), refused="offset from UTC")


@form
def name_of_the_zone():
    return stamps(lambda d: f"{d:%Y-%m-%d %H:%M:%S.%f} CEST")


@form
def milliseconds_behind_a_colon():
    return stamps(lambda d: f"{d:%Y-%m-%d %H:%M:%S:%f}"[:-3])


@form
def dates_of_mails():
    cells = _first(lambda k: f"{START + timedelta(minutes=k):%a, %d %b %Y %H:%M:%S} GMT")
    return text("timestamp;x;v\n" + rows(";", cells), t=[60 * COUNTED[0]], units={"t": "s"})


@form
def dates_spelled_in_one_number():
    cells = _first(lambda k: f"{START + timedelta(seconds=k):%Y%m%d%H%M%S}")
    return text("timestamp,x,v\n" + rows(",", cells), t=COUNTED, units={"t": "s"}, says="one number")


@form
def dates_of_iso_without_marks():
    cells = _first(lambda k: f"{START + timedelta(seconds=k):%Y%m%dT%H%M%S}")
    return text("timestamp,x,v\n" + rows(",", cells), t=COUNTED, units={"t": "s"})


@form
def day_numbers_of_excel():
    cells = _first(lambda k: f"{45413.5 + k / 32:.5f}")
    return text("Date,x,v\n" + rows(",", cells), t=[2700 * COUNTED[0]], units={"t": "s"}, says="Excel")


@form
def two_clocks_that_differ():
    cells = [[(START + timedelta(seconds=2 * float(row[0]))).isoformat(), *row] for row in CELLS]
    return text("Date,Time (s),x,v\n" + rows(",", cells), refused="time=")


@form
def depths_are_no_times():
    cells = _first(lambda k: f"{0.5 * k:.1f}")
    return text("depth (m),temperature,salinity\n" + rows(",", cells), refused='time="depth"')


# ---------------------------------------------------------------------- columns beside the states


@form
def uncertainties():
    cells = [[a, b, f"0.0{k % 3 + 1}", c, f"0.0{k % 2 + 1}"] for k, (a, b, c) in enumerate(CELLS)]
    return text("t,x,x_err,v,sd(v)\n" + rows(",", cells), says="uncertainty of v")


@form
def flags():
    cells = [[*row, str(int(k % 7 == 0))] for k, row in enumerate(CELLS)]
    return text("t,x,v,quality\n" + rows(",", cells), says="quality (a flag)")


@form
def units_in_a_column_of_a_long_table():
    lines = "".join(f"{a},x,m,{b}\n{a},v,m/s,{c}\n" for a, b, c in CELLS)
    return text("time,variable,unit,value\n" + lines, states=("v", "x"), x=[X[:, ::-1]],
                units={"x": "m", "v": "m/s"}, says="spread over columns")  # fmt: skip


@form
def long_table_of_sensors():
    lines = "".join(f"{a},x,{b}\n{a},v,{c}\n" for a, b, c in CELLS)
    return text(
        "time,sensor,reading\n" + lines, states=("v", "x"), x=[X[:, ::-1]], says="spread over columns"
    )


@form
def long_table_of_several_subjects():
    lines = "".join(f"{s},{a},{n},{z}\n" for s, cells in ((1, CELLS), (2, HALF)) for a, b, c in cells
                    for n, z in (("x", b), ("v", c)))  # fmt: skip
    return text("subject,time,variable,value\n" + lines, states=("v", "x"), coords={"subject": [1, 2]},
                x=[X[:, ::-1], 0.5 * X[:, ::-1]], t=[T, T])  # fmt: skip


# ---------------------------------------------------------------------- arrays and sheets


@form
def matlab_nested_structures():
    signals = {"time": T, "x": X[:, 0], "v": X[:, 1]}
    return Form(forms._mat(exp={"meta": {"rate": 10.0}, "signals": signals}), name="a.mat")


@form
def matlab_array_of_structures():
    trials = np.zeros(2, dtype=[("t", object), ("x", object)])
    trials[0], trials[1] = (T, X), (T, 0.5 * X)
    return Form(forms._mat(trial=trials), name="a.mat", states=("x0", "x1"), coords={"trial": [1, 2]}, **TWO)


@form
def matlab_cells():
    cells = np.empty(2, dtype=object)
    cells[0], cells[1] = np.column_stack([T, X]), np.column_stack([T, 0.5 * X])
    return Form(forms._mat(data=cells), name="a.mat", states=("x0", "x1"), coords={"trial": [1, 2]}, **TWO)


@form
def matlab_cells_of_other_contents():
    cells = np.empty(2, dtype=object)
    cells[0], cells[1] = np.column_stack([T, X]), "notes"
    return Form(forms._mat(data=cells), name="a.mat", refused="different names")


@form
def matlab_of_an_oscilloscope():
    return Form(forms._mat(A=X[:, :1], B=X[:, 1:], Tinterval=0.1, Tstart=0.0), name="a.mat",
                states=("A", "B"), says="0.1 apart")  # fmt: skip


@form
def matlab_day_numbers():
    return Form(forms._mat(t=739_373.5 + np.arange(121) / 64, X=X), name="a.mat", states=("X0", "X1"),
                t=[1350 * COUNTED[0]], says="MATLAB")  # fmt: skip


@form
def hdf5_groups():
    runs = {
        f"run{k}/{n}": f * a for k, f in ((1, 1.0), (2, 0.5)) for n, a in (("x", X[:, 0]), ("v", X[:, 1]))
    }
    runs |= {f"run{k}/t": T for k in (1, 2)}
    return Form(forms._hdf5(**runs), name="a.h5", states=("v", "x"), coords={"trial": [1, 2]},
                x=[X[:, ::-1], 0.5 * X[:, ::-1]], t=[T, T])  # fmt: skip


def _sheets(**tables: list) -> bytes:
    pytest.importorskip("openpyxl", reason=".xlsx files need the optional package openpyxl")
    buffer = io.BytesIO()
    with pd.ExcelWriter(buffer) as writer:
        for name, cells in tables.items():
            pd.DataFrame(cells).to_excel(writer, sheet_name=name, index=False, header=False)
    return buffer.getvalue()


NUMBERS = [[float(cell) for cell in row] for row in CELLS]


@form
def excel_with_units_and_notes():
    sheets = _sheets(data=[["t", "x", "v"], ["s", "m", "m/s"], *NUMBERS], notes=[["a", "rainy day"]])
    return Form(sheets, name="a.xlsx", units={"t": "s", "v": "m/s"}, says="only sheet with rows of numbers")


@form
def excel_of_two_tables():
    sheets = _sheets(first=[["t", "x", "v"], *NUMBERS], second=[["t", "x", "v"], *NUMBERS])
    return Form(sheets, name="a.xlsx", refused="sheet=")


@form
def excel_tables_side_by_side():
    half = [[float(cell) for cell in row] for row in HALF]
    cells = [[*a, None, *b] for a, b in zip(NUMBERS, half, strict=True)]
    top = [["run 1", None, None, None, "run 2", None, None], ["t", "x", "v", None, "t", "x", "v"]]
    return Form(_sheets(data=top + cells), name="a.xlsx", coords={"trial": ["1", "2"]}, **TWO)


@form
def excel_dates():
    cells = [[START + timedelta(hours=k), *row[1:]] for k, row in enumerate(NUMBERS)]
    return Form(_sheets(data=[["Date", "x", "v"], *cells]), name="a.xlsx", t=[3600 * COUNTED[0]])
