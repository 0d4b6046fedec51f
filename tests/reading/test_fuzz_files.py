"""Files written from known numbers and mangled: read as written, or refused; never otherwise in silence."""

import io
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fim_dynsys import Trajectories
from fim_dynsys.errors import FimDynsysWarning

sys.path.insert(0, str(Path(__file__).parent))

SEPARATORS = (",", ";", "\t", "  ", " ; ", "|")
NAMES = (
    ("x", "v"),
    ("hare", "lynx", "fox"),
    ("Position (m)", "Speed (m/s)"),
    ("a b", "c d"),
    ("U1", "U2", "U3", "U4"),
    ("Temp [°C]",),
)


@dataclass
class Written:
    """A table as it was written, and which of its rows may be read otherwise."""

    lines: list[str]
    head: int
    t: np.ndarray
    x: np.ndarray
    separator: str
    free: set[int]
    """Rows of which one number may have been changed, which nobody could see."""
    gone: set[int]
    """Rows that are no longer there."""
    encoding: str = "utf-8"
    end: str = "\n"

    @property
    def content(self) -> bytes:
        return (self.end.join(self.lines) + self.end).encode(self.encoding)


def write(rng: np.random.Generator) -> Written:
    """A table of a few smooth states, written in one of many ways."""
    names = NAMES[rng.integers(len(NAMES))]
    n, d = int(rng.integers(12, 90)), len(names)
    step = float(rng.choice([0.01, 0.1, 0.5, 1.0, 2.0, 60.0]))
    t = np.round(step * np.arange(n) + float(rng.choice([0.0, 0.0, 1.0, 100.0])), 6)
    phase = rng.uniform(0, 6, d)
    digits = int(rng.integers(3, 7))
    x = np.round(
        rng.uniform(0.5, 20, d) * np.sin(0.21 * np.arange(n)[:, None] + phase) + rng.normal(size=d), digits
    )
    x += np.round(0.01 * rng.normal(size=x.shape), digits)
    separator = SEPARATORS[rng.integers(len(SEPARATORS))]
    comma = separator != "," and rng.random() < 0.4
    cells = [[f"{a:.6g}", *(f"{b:.{digits}f}" for b in row)] for a, row in zip(t, x, strict=True)]
    t = np.array([float(row[0]) for row in cells])
    x = np.array([[float(b) for b in row[1:]] for row in cells])
    if rng.random() < 0.25:
        k = rng.choice(np.arange(1, n - 1), size=2, replace=False)
        mark = str(rng.choice(["NaN", "n/a", "--", ""] if separator != "  " else ["NaN", "n/a", "--"]))
        for row in k:
            cells[row][1] = mark
            x[row, 0] = np.nan
    if comma:
        cells = [[cell.replace(".", ",") for cell in row] for row in cells]
    header = [str(rng.choice(["t", "time", "Time (s)", "Zeit"])), *names]
    if separator == "  ":
        header = [name.split(" ")[0] + str(k) for k, name in enumerate(header)]
        header[0] = "t"
    index = separator != "  " and rng.random() < 0.2
    if index:
        header = ["", *header]
        cells = [[str(k), *row] for k, row in enumerate(cells)]
    quote = '"' if rng.random() < 0.2 and separator != "  " else ""
    lines = [separator.join(f"{quote}{name}{quote}" for name in header)]
    above = (
        [f"# run {int(rng.integers(99))}" for _ in range(rng.integers(0, 4))] if rng.random() < 0.5 else []
    )
    tail = separator.strip() if separator in (",", ";") and rng.random() < 0.15 else ""
    lines = above + lines + [separator.join(row) + tail for row in cells]
    encoding = str(rng.choice(["utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    end = str(rng.choice(["\n", "\n", "\r\n"]))
    return Written(lines, len(above) + 1, t, x, separator, set(), set(), encoding, end)


# ---------------------------------------------------------------------- what happens to files


def nothing(rng, w):
    pass


def lose_a_row(rng, w):
    k = int(rng.integers(len(w.t)))
    del w.lines[w.head + k]
    w.gone.add(k)


def lose_many_rows(rng, w):
    for k in sorted(rng.choice(len(w.t), size=len(w.t) // 3, replace=False), reverse=True):
        del w.lines[w.head + k]
        w.gone.add(int(k))


def repeat_a_row(rng, w):
    k = int(rng.integers(len(w.t)))
    w.lines.insert(w.head + k, w.lines[w.head + k])


def swap_two_rows(rng, w):
    i, j = w.head + rng.choice(len(w.t), size=2, replace=False)
    w.lines[i], w.lines[j] = w.lines[j], w.lines[i]


def shuffle_rows(rng, w):
    rows = w.lines[w.head :]
    rng.shuffle(rows)
    w.lines[w.head :] = rows


def lose_a_cell(rng, w):
    k = w.head + int(rng.integers(len(w.t)))
    cells = w.lines[k].split(w.separator)
    del cells[rng.integers(len(cells))]
    w.lines[k] = w.separator.join(cells)


def add_a_cell(rng, w):
    k = w.head + int(rng.integers(len(w.t)))
    w.lines[k] += w.separator + "7.5"


def text_in_a_cell(rng, w):
    row = int(rng.integers(len(w.t)))
    cells = w.lines[w.head + row].split(w.separator)
    cells[rng.integers(len(cells))] = str(
        rng.choice(["error", "1.2.3", "OVER", "12:x", "O.5", "#", "l2", "1e", "0x1f", "<0.1"])
    )
    w.lines[w.head + row] = w.separator.join(cells)


def a_line_of_text(rng, w):
    w.lines.insert(
        int(rng.integers(w.head, len(w.lines) + 1)),
        str(rng.choice(["end of file", "---", "Average", "restart 2", "a,b;c"])),
    )


def a_comment(rng, w):
    w.lines.insert(int(rng.integers(w.head, len(w.lines) + 1)), "# something happened")


def a_preamble(rng, w):
    w.lines[0:0] = ["Instrument XY 7", "Operator: me", ""]
    w.head += 3


def no_header(rng, w):
    del w.lines[w.head - 1]
    w.head -= 1


def a_second_header(rng, w):
    k = int(rng.integers(w.head, len(w.lines)))
    w.lines.insert(k, w.lines[w.head - 1])


def blank_lines(rng, w):
    for _ in range(3):
        w.lines.insert(int(rng.integers(len(w.lines))), "")


def the_file_twice(rng, w):
    w.lines += w.lines[w.head :]


def cut_in_a_line(rng, w):
    k = int(rng.integers(w.head + 3, len(w.lines)))
    w.gone |= set(range(k - w.head + 1, len(w.t)))
    w.free.add(k - w.head)
    w.gone.add(k - w.head)
    w.lines[k:] = [w.lines[k][: int(rng.integers(len(w.lines[k]) + 1))]]


def one_character(rng, w):
    """A letter, a mark or a byte in one row is another: its numbers may be others, which nobody could see."""
    row = int(rng.integers(len(w.t)))
    line = w.lines[w.head + row]
    k = int(rng.integers(len(line)))
    w.lines[w.head + row] = line[:k] + str(rng.choice(list("0123456789.,;- eE\t#%\"'x"))) + line[k + 1 :]
    w.free.add(row)


def one_character_less(rng, w):
    row = int(rng.integers(len(w.t)))
    line = w.lines[w.head + row]
    k = int(rng.integers(len(line)))
    w.lines[w.head + row] = line[:k] + line[k + 1 :]
    w.free.add(row)


MANGLES = (
    *(
        nothing,
        nothing,
        lose_a_row,
        lose_many_rows,
        repeat_a_row,
        swap_two_rows,
        shuffle_rows,
        lose_a_cell,
        add_a_cell,
    ),
    *(
        text_in_a_cell,
        a_line_of_text,
        a_comment,
        a_preamble,
        no_header,
        a_second_header,
        blank_lines,
        the_file_twice,
    ),
    *(cut_in_a_line, one_character, one_character_less),
)
BYTES = 0.12  # share of files that are noise on top: only foreign errors are looked for


def check(seed: int, folder: Path) -> str:
    """What became of one mangled file; fails where that is a foreign error or a wrong reading in silence."""
    rng = np.random.default_rng([55, seed])
    w = write(rng)
    mangle = MANGLES[seed % len(MANGLES)]
    mangle(rng, w)
    content = w.content
    noisy = rng.random() < BYTES and mangle is not nothing
    if noisy:
        noise = bytearray(content)
        for _ in range(int(rng.integers(1, 40))):
            noise[rng.integers(len(noise))] = rng.integers(256)
        content = bytes(noise)
    path = folder / "a.csv"
    path.write_bytes(content)
    about = f"seed {seed}, {mangle.__name__}: {content[:300]!r}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            data = Trajectories.from_file(path)
        except ValueError as error:
            assert str(error).startswith("Trajectories"), f"{about}: {error!r}"
            assert "expected" in str(error), f"{about}: {error!r}"
            return "refused"
    assert all(issubclass(one.category, FimDynsysWarning) for one in caught), f"{about}: {caught[0].message}"
    if noisy:
        return "noise"
    said = data.dataset.attrs["read"]
    assert data.dim == w.x.shape[1] or "dropped" in said or "constant" in said or mangle is no_header, (
        f"{about}: {said}"
    )
    if mangle is no_header and "counts rows" in said:
        return "read"  # two columns count rows, of which either may be the time
    unmatched, read = 0, 0
    for t, x in data.arrays():
        for when, values in zip(t, x, strict=True):
            k = int(np.argmin(np.abs(w.t - when)))
            same = abs(w.t[k] - when) < 1e-6 * max(1.0, abs(when)) and x.shape[1] == w.x.shape[1]
            same = same and bool(np.array_equal(values, w.x[k], equal_nan=True))
            unmatched += not same
            read += 1
    lost = len(w.t) - len(w.gone) - read
    assert unmatched <= len(w.free), f"{about}: {unmatched} rows are others; {said}"
    assert lost <= 0 or any(word in said for word in ("dropped", "skipped")), (
        f"{about}: {lost} rows are lost; {said}"
    )
    return "read"


def survey(seeds: range, folder: Path) -> dict[str, int]:
    found = [check(seed, folder) for seed in seeds]
    return {outcome: found.count(outcome) for outcome in set(found)}


def test_mangled_files(tmp_path):
    counts = survey(range(160), tmp_path)
    assert counts["read"] > 60 and counts["refused"] > 30


@pytest.mark.slow
def test_two_thousand_mangled_files(tmp_path):
    counts = survey(range(160, 2160), tmp_path)
    assert counts["read"] > 800 and counts["refused"] > 400


@pytest.mark.parametrize("suffix", [".mat", ".npz", ".npy", ".h5", ".csv.gz", ".zip", ".xlsx"])
def test_damaged_binary_files_are_refused(suffix, tmp_path):
    from forms import FORMS

    by_suffix = {
        ".mat": "matlab",
        ".npz": "numpy_archive",
        ".npy": "numpy_table",
        ".h5": "hdf5",
        ".csv.gz": "gzipped",
        ".zip": "zipped",
    }
    whole = FORMS[by_suffix[suffix]]().content if suffix in by_suffix else b"PK\x03\x04 no spreadsheet"
    rng = np.random.default_rng(0)
    for k in range(12):
        damaged = bytearray(whole[: rng.integers(1, len(whole))] if k % 2 else whole)
        for _ in range(0 if k % 2 else 30):
            damaged[rng.integers(len(damaged))] = rng.integers(256)
        path = tmp_path / f"a{suffix}"
        path.write_bytes(bytes(damaged))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", FimDynsysWarning)
            try:
                Trajectories.from_file(path, **({"format": "text"} if suffix == ".zip" else {}))
            except (ValueError, ImportError) as error:
                assert str(error).startswith("Trajectories"), repr(error)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(io.BytesIO(np.random.default_rng(0).bytes(5000)).getvalue())
    with pytest.raises(ValueError, match=r"^Trajectories\.from_file: expected "):
        Trajectories.from_file(path)
