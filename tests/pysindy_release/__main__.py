"""pysindy's own tests with our models in place of its class: python -m tests.pysindy_release [MODEL ...].

For an environment of their own (`make pysindy-tests`). The tests come from the release's source archive,
which pip downloads; nothing of it is kept in this repository.
"""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pysindy

FOLDER = Path(".pysindy-release")
ROOT = Path(__file__).parents[2]
TESTS = ("test_pysindy.py", "test_sindyc.py")


def main(models: list[str]) -> int:
    """Exit status: 0 where everything passes but what `exceptions.toml` names."""
    release = f"pysindy-{pysindy.__version__}"
    if not (FOLDER / release / "test").is_dir():
        wanted = ["--no-deps", "--no-binary", "pysindy", release.replace("-", "==")]
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "-d", FOLDER, *wanted], check=True)
        with tarfile.open(FOLDER / f"{release}.tar.gz") as archive:
            inside = [m for m in archive.getmembers() if m.name.startswith(f"{release}/test/")]
            archive.extractall(FOLDER, inside, filter="data")
    failed = False
    for model in models or ["sindy"]:
        print(f"{release}, its tests with load({model!r}) in place of SINDy()", flush=True)
        options = [
            "-q",
            "-p",
            "tests.pysindy_release.in_place",
            "-p",
            "no:cacheprovider",
            "-W",
            "ignore",
            "-rx",
        ]
        environment = os.environ | {"FIM_DYNSYS_MODEL": model, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "pytest", *options, *(f"test/{name}" for name in TESTS)]
        failed |= subprocess.run(command, cwd=FOLDER / release, env=environment).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
