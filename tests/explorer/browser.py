"""A page in headless Chromium: it is opened, a script acts in it, and what that returns comes back."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
REASON = "no Chromium is installed (Debian: apt-get install chromium; or name one in CHROMIUM)"
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--window-size=1400,1000",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
    "--dump-dom",
)


class Seen(NamedTuple):
    """What came of it: the value of the script, messages on the console."""

    value: Any
    console: list[str]


def act(page: Path, script: str) -> Seen:
    """Run statements in a page; they ``return`` what JSON holds."""
    acting = page.with_name(f"{page.stem}-acting.html")
    write = (
        "const made = document.createElement('pre'); made.id = 'acted'; "
        f"made.textContent = JSON.stringify((() => {{ {script} }})()); document.body.append(made);"
    )
    text = page.read_text(encoding="utf-8")
    acting.write_text(text.replace("</body>", f"<script>{write}</script></body>"), encoding="utf-8")
    home = page.with_name("profile")
    run = subprocess.run(
        [str(CHROMIUM), *_OPTIONS, f"--user-data-dir={home}", acting.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="acted">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found, f"the script did not end: {run.stderr[-2000:]}"
    return Seen(json.loads(unescape(found.group(1))), re.findall(r"CONSOLE.*", run.stderr))
