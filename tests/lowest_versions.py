"""Print the lowest version of each dependency that pyproject.toml allows, as constraints for pip."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lowest() -> list[str]:
    """``name==version`` of each dependency."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["torch"]
    return [re.sub(r">=([\w.]+).*", r"==\1", line) for line in asked]


if __name__ == "__main__":
    print("\n".join(lowest()))
