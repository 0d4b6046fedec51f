"""Forms in which people and instruments write one damped oscillator, and what each is to be read as.

121 samples of x and v at a tenth of a second, with five decimals.
"""

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest
import scipy.io

T = np.round(np.linspace(0, 12, 121), 10)
X = np.stack([np.cos(T), -np.sin(T)], axis=1) * np.exp(-0.05 * T)[:, None]
X = np.round(X + 0.01 * np.random.default_rng(3).standard_normal(X.shape), 5)
CELLS = [[f"{a:.5f}", f"{b:.5f}", f"{c:.5f}"] for a, (b, c) in zip(T, X, strict=True)]
START = datetime(2024, 5, 1, 12)


@dataclass(frozen=True)
class Form:
    """A file, and what it is to be read as.

    Attributes
    ----------
    content : bytes
        Of the file.
    name : str
        Of the file.
    states : tuple of str
        Names; X has a column for each in this order.
    x : list of ndarray
        Values of each trajectory.
    t : list of ndarray
        Times of each trajectory.
    units : dict
        Units that the file states.
    options : dict
        Arguments of the reader.
    refused : str
        What the error names, where the form is to be refused without arguments.
    says : str
        What the account has to hold.
    """

    content: bytes
    name: str = "a.csv"
    states: tuple[str, ...] = ("x", "v")
    x: list[np.ndarray] = field(default_factory=lambda: [X])
    t: list[np.ndarray] = field(default_factory=lambda: [T])
    units: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    refused: str = ""
    says: str = ""
    coords: dict[str, list] = field(default_factory=dict)


FORMS: dict[str, Callable[[], Form]] = {}


def form(make: Callable[[], Form]) -> Callable[[], Form]:
    FORMS[make.__name__] = make
    return make


def rows(separator: str = ",", cells=CELLS, end: str = "\n") -> str:
    return "".join(separator.join(row) + end for row in cells)


def commas(cells=CELLS) -> list[list[str]]:
    return [[cell.replace(".", ",") for cell in row] for row in cells]


def written(folder, header: str, *columns, name: str = "a.csv"):
    """A file of columns of numbers or text below a header."""
    path = folder / name
    cells = [[c if isinstance(c, str) else f"{c:.6g}" for c in column] for column in columns]
    path.write_text(header + "\n" + "".join(",".join(row) + "\n" for row in zip(*cells, strict=True)))
    return path


def text(content: str, encoding: str = "utf-8", **about: Any) -> Form:
    return Form(content.encode(encoding), **about)


def stamps(
    write: Callable[[datetime], str], separator: str = ",", header: str = "timestamp,x,v", **about: Any
) -> Form:
    times = [write(START + timedelta(seconds=float(t))) for t in T]
    cells = [[time, *row[1:]] for time, row in zip(times, CELLS, strict=True)]
    return text(header + "\n" + rows(separator, cells), **{"units": {"t": "s"}, **about})


# ---------------------------------------------------------------------- separators and numbers


@form
def plain():
    return text("t,x,v\n" + rows())


@form
def spaces_after_commas():
    return text(" t , x,  v\n" + rows(",  "))


@form
def semicolons_and_decimal_commas():
    return text("t;x;v\n" + rows(";", commas()), says="decimal comma")


@form
def tabs():
    return text("t\tx\tv\n" + rows("\t"), name="a.tsv")


@form
def tabs_and_decimal_commas():
    return text("Zeit\tx\tv\n" + rows("\t", commas()), name="a.txt")


@form
def blanks():
    return text("t x v\n" + rows(" "), name="a.dat")


@form
def aligned_columns():
    lines = "".join("".join(f"{cell:>14s}" for cell in row) + "\n" for row in CELLS)
    return text("".join(f"{name:>14s}" for name in "txv") + "\n" + lines, name="a.txt")


@form
def aligned_with_units_in_names():
    lines = "".join("".join(f"{cell:>16s}" for cell in row) + "\n" for row in CELLS)
    head = f"{'Time (s)':>16s}{'x (m)':>16s}{'v (m/s)':>16s}\n"
    return text(head + lines, name="a.txt", units={"t": "s", "x": "m", "v": "m/s"})


@form
def blanks_and_decimal_commas():
    return text("t x v\n" + rows(" ", commas()), name="a.txt")


@form
def bars():
    return text("t|x|v\n" + rows("|"))


@form
def quoted_cells():
    return text('"t","x","v"\n' + "".join(",".join(f'"{c}"' for c in row) + "\n" for row in CELLS))


@form
def quoted_decimal_commas():
    return text('"t","x","v"\n' + "".join(",".join(f'"{c}"' for c in row) + "\n" for row in commas()))


@form
def commas_for_both():
    return text("t,x,v\n" + rows(",", commas()), refused="separator=")


@form
def windows_line_ends():
    return text("t,x,v\r\n" + rows(end="\r\n"))


@form
def old_mac_line_ends():
    return text("t,x,v\r" + rows(end="\r"))


@form
def no_last_line_end():
    return text(("t,x,v\n" + rows()).rstrip("\n"))


@form
def blank_lines():
    return text("\nt,x,v\n\n" + rows(end="\n\n") + "\n\n")


@form
def trailing_separators():
    return text("t,x,v,\n" + rows(end=",\n"))


@form
def trailing_separators_below_the_names():
    return text("t,x,v\n" + rows(end=",\n"))


@form
def exponents():
    cells = [[f"{float(c):.9E}" for c in row] for row in CELLS]
    return text("t,x,v\n" + rows(",", cells))


@form
def fortran_exponents():
    cells = [[f"{float(c):.9E}".replace("E", "D") for c in row] for row in CELLS]
    return text("  t  x  v\n" + rows("   ", cells), name="a.out")


@form
def thousands():
    big = [
        [f"{10_000 + a:.1f}" for a in T],
        [f"{1e6 * b:,.1f}" for b in X[:, 0]],
        [f"{1e6 * c:,.1f}" for c in X[:, 1]],
    ]
    cells = [[a, f'"{b}"', f'"{c}"'] for a, b, c in zip(*big, strict=True)]
    return text("t,x,v\n" + rows(",", cells), x=[1e6 * X], t=[10_000 + T])


@form
def minus_signs_of_typesetters():
    return text("t,x,v\n" + rows().replace("-", "\u2212"))


@form
def units_in_the_cells():
    cells = [[f"{row[0]} s", f"{row[1]} m", f"{row[2]} m/s"] for row in CELLS]
    return text("t,x,v\n" + rows(",", cells), units={"t": "s", "x": "m", "v": "m/s"})


# ---------------------------------------------------------------------- what stands above the rows


@form
def comments():
    return text("# pendulum run 4\n# rate 10 Hz\nt,x,v\n" + rows())


@form
def comments_of_matlab():
    return text("% pendulum\n% t in s\n" + "t,x,v\n" + rows())


@form
def comments_of_c():
    return text("// pendulum, run 4\n// 10 Hz\nt,x,v\n" + rows())


@form
def comments_among_the_rows():
    lines = rows().splitlines(keepends=True)
    return text(
        "t,x,v\n" + "".join(lines[:50]) + "# knocked at the table\n" + "".join(lines[50:]),
        says="1 comment line",
    )


@form
def names_in_a_comment():
    """What `numpy.savetxt(..., header="t x v")` writes."""
    return text("# t x v\n" + rows(" "), name="a.txt", says="names from a comment")


@form
def names_in_a_comment_with_commas():
    return text("# pendulum\n# t,x,v\n" + rows())


@form
def no_header():
    return text(rows(), states=("x0", "x1"))


@form
def row_of_units():
    return text("t,x,v\ns,m,m/s\n" + rows(), units={"t": "s", "x": "m", "v": "m/s"})


@form
def row_of_units_in_brackets():
    return text("t,x,v\n(s),(m),(m/s)\n" + rows(), units={"t": "s", "x": "m", "v": "m/s"})


@form
def row_of_units_with_gaps():
    return text("t;x;v\ns;V;\n" + rows(";"), units={"t": "s", "x": "V"})


@form
def units_in_brackets():
    return text(
        "Time (s),Position (m),Velocity (m/s)\n" + rows(),
        states=("Position", "Velocity"),
        units={"t": "s", "Position": "m", "Velocity": "m/s"},
    )


@form
def units_in_square_brackets():
    return text("t [s],x [m],v [m/s]\n" + rows(), units={"t": "s", "x": "m", "v": "m/s"})


@form
def units_behind_slashes():
    return text(
        "t / s;x / m;v / m/s\n" + rows(";"), states=("x", "v"), units={"t": "s", "x": "m", "v": "m/s"}
    )


@form
def units_of_greek_letters():
    return text("Zeit [ms];Länge [µm];v [µm/ms]\n" + rows(";"), encoding="latin-1", states=("Länge", "v"),
                units={"t": "ms", "Länge": "µm", "v": "µm/ms"}, says="Latin-1")  # fmt: skip


@form
def brackets_that_are_no_units():
    return text("t,x (left),x (right)\n" + rows(), states=("x (left)", "x (right)"))


@form
def functions_of_time():
    return text("t,x(t),v(t)\n" + rows())


@form
def oscilloscope():
    top = "Model,DSO-X 2004A\nSerial,MY5440\nSample Interval,0.1\nRecord Length,121\n\n"
    return text(
        top + "x-axis,1,2\nsecond,Volt,Volt\n" + rows(), states=("1", "2"), says="units from the line"
    )


@form
def oscilloscope_with_its_clock_in_the_header():
    cells = [[str(k), *row[1:], "", ""] for k, row in enumerate(CELLS)]
    top = "X,CH1,CH2,Start,Increment,\nSequence,VOLT,VOLT,0.000000e+00,1.000000e-01\n"
    return text(top + rows(",", cells), states=("CH1", "CH2"), says="in steps of 0.1")


@form
def oscilloscope_with_facts_beside_the_rows():
    facts = [["Record Length", "121"], ["Sample Interval", "0.1"], ["Trigger Point", "60"]]
    cells = [[*(facts[k] if k < 3 else ["", ""]), "", *row] for k, row in enumerate(CELLS)]
    return text(rows(",", cells), states=("x0", "x1"))


@form
def labview():
    top = (
        "LabVIEW Measurement\t\nWriter_Version\t2\nReader_Version\t2\nSeparator\tTab\nDecimal_Separator\t.\n"
        "Multi_Headings\tNo\nX_Columns\tOne\nTime_Pref\tRelative\nOperator\tlab\nDate\t2024/05/01\n"
        "Time\t12:00:00.5\n***End_of_Header***\t\n\t\nChannels\t2\t\t\nSamples\t121\t121\t\n"
        "Date\t2024/05/01\t2024/05/01\t\nTime\t12:00:00\t12:00:00\t\nY_Unit_Label\tVolts\tVolts\t\n"
        "X_Dimension\tTime\tTime\t\nX0\t0.0\t0.0\t\nDelta_X\t0.1\t0.1\t\n***End_of_Header***\t\t\t\n"
        "X_Value\tx\tv\tComment\n"
    )
    return text(top + rows("\t"), name="a.lvm", says="before the table")


@form
def tracker():
    return text("mass_A\t\t\nt\tx\tv\n" + rows("\t"), name="a.txt")


@form
def tracker_with_commas():
    return text("mass_A,,\nt,x,v\n" + rows())


@form
def gromacs():
    top = (
        '# created by gmx energy\n@ title "Energies"\n@ xaxis label "Time (ps)"\n@TYPE xy\n@ s0 legend "x"\n'
    )
    return text(top + rows("  "), name="a.xvg", states=("x0", "x1"))


@form
def preamble_of_sentences():
    return text("Pendulum, second floor, run 4\nMeasured by us on a rainy day.\n\nt,x,v\n" + rows())


@form
def names_from_two_lines():
    top = "scorer,net,net\nbodyparts,nose,tail\ncoords,x,x\n"
    cells = [[str(k), *row[1:]] for k, row in enumerate(CELLS)]
    return text(
        top + rows(",", cells), states=("nose_x", "tail_x"), t=[np.arange(121.0)], says="names joined"
    )


@form
def a_line_under_the_names():
    return text("t        x        v\n-------- -------- --------\n" + rows(" "), name="a.txt")


@form
def markdown():
    lines = "".join("| " + " | ".join(row) + " |\n" for row in CELLS)
    return text("| t | x | v |\n|---|---|---|\n" + lines, name="a.txt")


# ---------------------------------------------------------------------- columns beside the states


@form
def index_column():
    """What `DataFrame.to_csv()` writes."""
    return text(",t,x,v\n" + rows(",", [[str(k), *row] for k, row in enumerate(CELLS)]), says="row index")


@form
def row_names_of_r():
    """What `write.table` of R writes: one name less than cells."""
    cells = [[f'"{k + 1}"', *row] for k, row in enumerate(CELLS)]
    return text('"t" "x" "v"\n' + rows(" ", cells), name="a.txt", says="row index")


@form
def numbered_samples():
    cells = [[str(k + 1), *row] for k, row in enumerate(CELLS)]
    return text("Sample,Time (s),x,v\n" + rows(",", cells), units={"t": "s"},
                says="Sample (row numbers)")  # fmt: skip


@form
def time_last():
    return text("x,v,time\n" + rows(",", [[*row[1:], row[0]] for row in CELLS]))


@form
def time_by_another_name():
    return text("Zeit;Ort;Geschwindigkeit\n" + rows(";", commas()), states=("Ort", "Geschwindigkeit"))


@form
def time_by_its_unit():
    return text("seconds,x,v\n" + rows(), units={"t": "s"})


@form
def time_in_milliseconds():
    return text(
        "time_ms,x,v\n" + rows(",", [[str(100 * k), *row[1:]] for k, row in enumerate(CELLS)]),
        t=[1000 * T],
        units={"t": "ms"},
    )


@form
def time_by_its_shape():
    return text("a,x,v\n" + rows(), says="the only column that grows evenly")


@form
def two_clocks():
    cells = [[str(100 * k), *row] for k, row in enumerate(CELLS)]
    return text(
        "Time (ms),t,x,v\n" + rows(",", cells), t=[1000 * T], units={"t": "ms"}, says="t (a second clock)"
    )


@form
def years():
    cells = [[str(1800 + k), *row[1:]] for k, row in enumerate(CELLS)]
    return text("Year,x,v\n" + rows(",", cells), t=[1800 + np.arange(121.0)], units={"t": "year"})


@form
def frames():
    cells = [[str(k), *row[1:]] for k, row in enumerate(CELLS)]
    return text("frame,x,v\n" + rows(",", cells), t=[np.arange(121.0)], says="counts rows")


@form
def no_time():
    return text("x,v\n" + rows(",", [row[1:] for row in CELLS]), t=[np.arange(121.0)], says="row numbers")


@form
def no_time_but_a_step():
    return text("x,v\n" + rows(",", [row[1:] for row in CELLS]), options={"step": 0.1})


@form
def a_step_in_its_own_column():
    cells = [[*row[1:], "0.1" if k == 0 else "", ""] for k, row in enumerate(CELLS)]
    return text('"x","v","Ts",\n' + rows(",", cells), says="0.1 apart")


@form
def uneven_times_without_a_name():
    cells = [[f"{a * (1 + a):.5f}", *row[1:]] for a, row in zip(T, CELLS, strict=True)]
    return text("a,x,v\n" + rows(",", cells), refused='time="a"')


@form
def two_times():
    uneven = [f"{a + 0.3 * np.sin(a):.5f}" for a in T]
    return text(
        "time,elapsed,x,v\n"
        + rows(",", [[row[0], u, *row[1:]] for u, row in zip(uneven, CELLS, strict=True)]),
        refused="time=",
    )


@form
def constant_column():
    return text(
        "t,x,v,temperature\n" + rows(",", [[*row, "20.5"] for row in CELLS]),
        says="temperature",
        coords={"temperature": [20.5]},
    )


@form
def notes_beside_the_rows():
    cells = [[*row, "spike" if k == 40 else ""] for k, row in enumerate(CELLS)]
    return text("t,x,v,note\n" + rows(",", cells), says="note (text)")


# ---------------------------------------------------------------------- dates


@form
def iso_dates():
    return stamps(lambda d: d.isoformat(sep=" ", timespec="milliseconds"))


@form
def iso_dates_with_a_zone():
    return stamps(lambda d: d.isoformat(timespec="milliseconds") + "Z")


@form
def dates_of_germany():
    return stamps(lambda d: d.strftime("%d.%m.%Y %H:%M:%S.%f"), header="Datum,x,v")


@form
def dates_with_the_month_or_the_day_first_on_one_day():
    return stamps(lambda d: d.strftime("%d/%m/%Y %H:%M:%S.%f"))


def _days(write: str, count: int, **about: Any) -> Form:
    dates = [(datetime(2024, 1, 1) + timedelta(days=k)).strftime(write) for k in range(count)]
    cells = [[date, *row[1:]] for date, row in zip(dates, CELLS, strict=False)]
    t = 86400.0 * np.arange(count)
    return text("date,x,v\n" + rows(",", cells), x=[X[:count]], t=[t], units={"t": "s"}, **about)


@form
def days_of_iso():
    return _days("%Y-%m-%d", 121)


@form
def days_of_iso_with_slashes():
    return _days("%Y/%m/%d", 121)


@form
def months_of_years():
    months = [f"{1950 + k // 12}-{k % 12 + 1:02d}" for k in range(121)]
    cells = [[month, *row[1:]] for month, row in zip(months, CELLS, strict=True)]
    t = (np.array(months, dtype="datetime64[D]") - np.datetime64("1950-01-01")) / np.timedelta64(1, "s")
    return text("Month,x,v\n" + rows(",", cells), t=[t], units={"t": "s"})


@form
def days_before_1677():
    """Before the first date that nanoseconds reach."""
    days = [(datetime(1666, 6, 18) + timedelta(days=k)).strftime("%Y-%m-%d") for k in range(121)]
    cells = [[day, *row[1:]] for day, row in zip(days, CELLS, strict=True)]
    return text("date,x,v\n" + rows(",", cells), t=[86400.0 * np.arange(121)], units={"t": "s"})


@form
def days_of_england():
    return _days("%d/%m/%Y", 121, says="day first")


@form
def days_of_america():
    return _days("%m/%d/%y", 121, says="month first")


@form
def days_that_may_be_months():
    return _days("%d/%m/%Y", 11, refused="dayfirst=")


@form
def days_without_marks():
    return _days("%Y%m%d", 121)


@form
def months_in_words():
    return _days("%d-%b-%Y", 121)


@form
def date_and_time_in_two_columns():
    times = [START + timedelta(seconds=float(t)) for t in T]
    cells = [[f"{d:%d.%m.%Y}", f"{d:%H:%M:%S.%f}", *row[1:]] for d, row in zip(times, CELLS, strict=True)]
    return text("Date;Time;x;v\n" + rows(";", cells), units={"t": "s"}, says="together")


@form
def date_and_time_between_blanks():
    times = [START + timedelta(seconds=float(t)) for t in T]
    cells = [[f"{d:%Y-%m-%d}", f"{d:%H:%M:%S.%f}", *row[1:]] for d, row in zip(times, CELLS, strict=True)]
    return text("date time x v\n" + rows(" ", cells), name="a.txt", units={"t": "s"})


@form
def year_month_and_day():
    days = [datetime(2024, 1, 1) + timedelta(days=k) for k in range(121)]
    cells = [[str(d.year), str(d.month), str(d.day), *row[1:]] for d, row in zip(days, CELLS, strict=True)]
    return text("year,month,day,x,v\n" + rows(",", cells), t=[86400.0 * np.arange(121)], units={"t": "s"})


@form
def time_of_day_past_midnight():
    late = datetime(2024, 5, 1, 23, 59, 55)
    cells = [
        [(late + timedelta(seconds=float(t))).strftime("%H:%M:%S.%f"), *row[1:]]
        for t, row in zip(T, CELLS, strict=True)
    ]
    return text("Time,x,v\n" + rows(",", cells), t=[T + 86395.0], units={"t": "s"}, says="midnight")


@form
def hours_and_minutes_or_minutes_and_seconds():
    cells = [[f"{k // 60:02d}:{k % 60:02d}", *row[1:]] for k, row in enumerate(CELLS[:59])]
    return text("time,x,v\n" + rows(",", cells), refused="time_format=")


@form
def physionet():
    """Quotes of one mark, a clock of minutes and seconds, a row of units."""
    lines = "".join(f"'0:{t:06.3f}',{row[1]},{row[2]}\n" for t, row in zip(T, CELLS, strict=True))
    top = "'Elapsed time','MLII','V1'\n'hh:mm:ss.mmm','mV','mV'\n"
    return text(
        top + lines, states=("MLII", "V1"), units={"t": "s", "MLII": "mV"}, says="minutes and seconds"
    )


@form
def durations_of_pandas():
    lines = "".join(f"0 days 00:00:{t:09.6f},{row[1]},{row[2]}\n" for t, row in zip(T, CELLS, strict=True))
    return text(",x,v\n" + lines, units={"t": "s"})


@form
def columns_that_are_not_split():
    lines = "".join(f"12:00:{t:06.3f} -> {row[1]},{row[2]}\n" for t, row in zip(T, CELLS, strict=True))
    return text(lines, name="a.txt", refused="separator=")


@form
def logger_pro():
    top = "Vernier Format 2\npendulum.cmbl 5/1/2024 12:00:00.\nRun 1\n"
    top += "Time\tPosition\tVelocity\nT\tx\tv\ns\tm\tm/s\n\n"
    return text(top + rows("\t"), name="a.txt", units={"t": "s", "x": "m", "v": "m/s"})


@form
def separator_named_for_excel():
    return text("sep=;\nt;x;v\n" + rows(";", commas()))


@form
def index_of_dates():
    """What `DataFrame.to_csv()` writes of a table with an index of dates."""
    return stamps(lambda d: d.isoformat(sep=" ", timespec="milliseconds"), header=",x,v")


@form
def index_with_gaps():
    kept = [k for k in range(121) if k % 5]
    cells = [[str(k), *CELLS[k]] for k in kept]
    return text(",t,x,v\n" + rows(",", cells), x=[X[kept]], t=[T[kept]], says="row index")


@form
def switch():
    cells = [[*row, str(k % 20 < 10)] for k, row in enumerate(CELLS)]
    return text("t,x,v,on\n" + rows(",", cells), states=("x", "v", "on"), says="True and False",
                x=[np.column_stack([X, np.arange(121) % 20 < 10])])  # fmt: skip


@form
def unix_milliseconds():
    cells = [[str(1_714_564_800_000 + 100 * k), *row[1:]] for k, row in enumerate(CELLS)]
    return text("timestamp,x,v\n" + rows(",", cells), units={"t": "s"}, says="since 1970")


@form
def rounded_clock():
    cells = [[str(int(t)), *row[1:]] for t, row in zip(T, CELLS, strict=True)]
    return text("time,x,v\n" + rows(",", cells), says="rounded clock")


# ---------------------------------------------------------------------- several trajectories


TWO = {"x": [X, 0.5 * X], "t": [T, T]}
HALF = [[row[0], *(f"{0.5 * float(c):.6f}" for c in row[1:])] for row in CELLS]


@form
def time_starts_again():
    return text("t,x,v\n" + rows() + rows(",", HALF), says="2 trajectories", **TWO)


@form
def numbered_trials():
    cells = [["1", *row] for row in CELLS] + [["2", *row] for row in HALF]
    return text("trial,t,x,v\n" + rows(",", cells), coords={"trial": [1, 2]}, **TWO)


@form
def named_trials():
    cells = [[*row, "left"] for row in CELLS] + [[*row, "right"] for row in HALF]
    return text("t,x,v,side\n" + rows(",", cells), coords={"side": ["left", "right"]}, **TWO)


@form
def trials_row_by_row():
    cells = [
        [*row, name] for pair in zip(CELLS, HALF, strict=True) for row, name in zip(pair, "ab", strict=True)
    ]
    return text("t,x,v,animal\n" + rows(",", cells), coords={"animal": ["a", "b"]}, **TWO)


@form
def a_parameter_of_each_trial():
    cells = [[*row, "0.1"] for row in CELLS] + [[*row, "0.2"] for row in HALF]
    return text("t,x,v,mu\n" + rows(",", cells), coords={"mu": [0.1, 0.2]}, **TWO)


@form
def trials_side_by_side():
    cells = [[*row, *other[1:]] for row, other in zip(CELLS, HALF, strict=True)]
    return text(
        "t,x_1,v_1,x_2,v_2\n" + rows(",", cells),
        options={"trials": "suffix"},
        coords={"trial": ["1", "2"]},
        **TWO,
    )


@form
def a_row_for_each_value():
    cells = [[row[0], name, cell] for row in CELLS for name, cell in zip("xv", row[1:], strict=True)]
    return text(
        "time,variable,value\n" + rows(",", cells),
        states=("v", "x"),
        x=[X[:, ::-1]],
        says="spread over columns",
    )


@form
def variables_as_rows():
    columns = np.array(CELLS).T
    lines = "".join(
        ",".join([name, *cells]) + "\n" for name, cells in zip(("t", "x", "v"), columns, strict=True)
    )
    return text(lines, says="turned")


@form
def shuffled_rows():
    order = np.random.default_rng(0).permutation(121)
    return text("t,x,v\n" + rows(",", [CELLS[k] for k in order]), refused="trajectory=")


@form
def two_rows_swapped():
    cells = [*CELLS[:50], CELLS[51], CELLS[50], *CELLS[52:]]
    return text("t,x,v\n" + rows(",", cells), refused="trajectory=")


@form
def repeated_measurements():
    rng = np.random.default_rng(1)
    cells = [
        [row[0], *(f"{float(c) + rng.normal():.5f}" for c in row[1:])] for row in CELLS for _ in range(3)
    ]
    return text("t,x,v\n" + rows(",", cells), refused="repeated=")


# ---------------------------------------------------------------------- missing values and damage


def _missing(mark: str, **about: Any) -> Form:
    cells = [row[:] for row in CELLS]
    x = X.copy()
    for k in (3, 50, 120):
        cells[k][1] = mark
        x[k, 0] = np.nan
    return text("t,x,v\n" + rows(",", cells), **{"x": [x], "says": "3 missing", **about})


for _name, _mark in {
    "nothing": "",
    "dashes": "--",
    "nan": "NaN",
    "not_available": "n/a",
    "excel": "#DIV/0!",
    "question": "?",
}.items():
    FORMS[f"missing_as_{_name}"] = lambda mark=_mark: _missing(mark)


@form
def missing_as_a_number():
    return _missing("-999", refused="missing=-999")


@form
def missing_as_a_number_that_is_named():
    return _missing("-999", options={"missing": -999})


@form
def missing_as_a_text_of_its_own():
    return _missing("OVER", refused="missing=")


@form
def missing_as_a_text_that_is_named():
    return _missing("OVER", options={"missing": "OVER"})


@form
def repeated_rows():
    return text("t,x,v\n" + rows(",", [*CELLS[:50], CELLS[49], *CELLS[50:]]), says="repeat")


@form
def cut_off_in_a_row():
    return text(("t,x,v\n" + rows())[:-12], refused="cut off")


@form
def a_row_too_long():
    return text("t,x,v\n" + rows(",", [*CELLS[:50], [*CELLS[50], "1"], *CELLS[51:]]), refused="bad_rows=")


@form
def a_line_of_text_at_the_end():
    return text("t,x,v\n" + rows() + "end of record,,\n", refused="bad_rows=")


@form
def a_line_of_text_that_is_dropped():
    return text("t,x,v\n" + rows() + "end of record,,\n", options={"bad_rows": "drop"})


@form
def a_damaged_first_row():
    return text("t,x,v\n" + rows(",", [["0.0000O", *CELLS[0][1:]], *CELLS[1:]]), refused="line 2")


# ---------------------------------------------------------------------- encodings and compression


@form
def utf8_with_a_mark():
    return text("t,x,v\n" + rows(), encoding="utf-8-sig")


@form
def utf16():
    return text("t,x,v\n" + rows(), encoding="utf-16", says="UTF-16")


@form
def utf16_without_a_mark():
    return text("t,x,v\n" + rows(), encoding="utf-16-le")


@form
def gzipped():
    return Form(gzip.compress(("t,x,v\n" + rows()).encode()), name="a.csv.gz")


@form
def bzipped():
    return Form(bz2.compress(("t,x,v\n" + rows()).encode()), name="a.csv.bz2")


@form
def xz():
    return Form(lzma.compress(("t\tx\tv\n" + rows("\t")).encode()), name="a.tsv.xz")


@form
def zipped():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("run.csv", "t,x,v\n" + rows())
    return Form(buffer.getvalue(), name="a.zip", options={"format": "text"})


# ---------------------------------------------------------------------- arrays


def _saved(save: Callable, **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def _mat(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, arrays)
    return buffer.getvalue()


@form
def matlab():
    return Form(_mat(t=T, x=X[:, 0], v=X[:, 1]), name="a.mat")


@form
def matlab_matrix():
    return Form(_mat(time=T[:, None], X=X, fs=10.0), name="a.mat", states=("X0", "X1"), says="fs")


@form
def matlab_on_its_side():
    return Form(_mat(t=T[None], X=X.T), name="a.mat", states=("X0", "X1"))


@form
def matlab_structure():
    return Form(_mat(data={"t": T, "x": X[:, 0], "v": X[:, 1]}), name="a.mat")


@form
def matlab_with_a_rate():
    return Form(_mat(X=X, fs=10.0), name="a.mat", states=("X0", "X1"), says="0.1 apart", units={"t": "s"})


@form
def matlab_of_two_lengths():
    return Form(_mat(a=T, b=X[:60]), name="a.mat", refused="states=")


def _hdf5(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for name, values in arrays.items():
            file[name] = values
    return buffer.getvalue()


@form
def hdf5():
    return Form(
        _hdf5(**{"run/t": T, "run/x": X[:, 0], "run/v": X[:, 1]}),
        name="a.h5",
        states=("v", "x"),
        x=[X[:, ::-1]],
    )


@form
def matlab_73():
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", userblock_size=512) as file:
        for name, values in {"t": T[None], "X": X.T}.items():
            file[name] = values
            file[name].attrs["MATLAB_class"] = np.bytes_("double")
    return Form(buffer.getvalue(), name="a.mat", states=("X0", "X1"))


def _typed(write: str, suffix: str, package: str, **options: Any) -> Form:
    """A table that an optional package writes."""
    pytest.importorskip(package, reason=f"{suffix} files need the optional package {package}")
    buffer = io.BytesIO()
    getattr(pd.DataFrame({"Time (s)": T, "x": X[:, 0], "v": X[:, 1]}), write)(buffer, **options)
    return Form(buffer.getvalue(), name=f"a{suffix}", units={"t": "s"})


@form
def excel():
    return _typed("to_excel", ".xlsx", "openpyxl", index=False)


@form
def excel_below_other_rows():
    return _typed("to_excel", ".xlsx", "openpyxl", index=False, startrow=3)


@form
def parquet():
    return _typed("to_parquet", ".parquet", "pyarrow")


@form
def feather():
    return _typed("to_feather", ".feather", "pyarrow")


@form
def numpy_archive():
    return Form(_saved(np.savez, t=T, x=X), name="a.npz", states=("x0", "x1"))


@form
def numpy_trajectories():
    several = np.stack([X, 0.5 * X, 2 * X])
    return Form(_saved(np.savez_compressed, t=T, x=several), name="a.npz", states=("x0", "x1"),
                x=[X, 0.5 * X, 2 * X], t=[T, T, T])  # fmt: skip


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@form
def numpy_table():
    return Form(_npy(np.column_stack([T, X])), name="a.npy", states=("x0", "x1"))


@form
def numpy_records():
    records = np.rec.fromarrays([T, X[:, 0], X[:, 1]], names="t,x,v")
    return Form(_npy(np.asarray(records)), name="a.npy")


@form
def numpy_pickles():
    return Form(_npy(np.array([{"t": 0}], dtype=object)), name="a.npy", refused="pickle")


@form
def numpy_states_without_time():
    return Form(_npy(X), name="a.npy", states=("x0", "x1"), options={"step": 0.1})


@form
def unknown_suffix():
    return text("t,x,v\n" + rows(), name="a.foo", refused="format=")


@form
def unknown_suffix_that_is_named():
    return text("t,x,v\n" + rows(), name="a.foo", options={"format": "text"})
