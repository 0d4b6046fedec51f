"""Draw docs/picture.png: run the first lines of README.md on docs/examples/van_der_pol.csv."""

import argparse
import contextlib
import re
import tempfile
from pathlib import Path

import matplotlib
from PIL import Image

DOCS = Path(__file__).resolve().parent
_COLORS = 64  # of the palette that the picture is stored with

matplotlib.use("Agg")


def first_lines() -> str:
    """The first block of Python in README.md."""
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0]


def main() -> None:
    """Run the lines in a folder of their own, and keep the picture that they save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DOCS / "picture.png")
    out = parser.parse_args().out.resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("van_der_pol.csv").write_bytes((DOCS / "examples" / "van_der_pol.csv").read_bytes())
        exec(compile(first_lines(), "README.md", "exec"), {})
        image = Image.open("portrait.png").convert("RGB").quantize(_COLORS)
    image.save(out, optimize=True)


if __name__ == "__main__":
    main()
