"""Files are whole, whatever happens while they are written."""

import os
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from fim_dynsys.writing import replace_file


def test_content_and_permissions(tmp_path):
    path = tmp_path / "a.txt"
    assert replace_file(str(path), "häufig\n") == path
    assert path.read_bytes() == "häufig\n".encode()
    plain = tmp_path / "plain"
    plain.touch()
    assert path.stat().st_mode == plain.stat().st_mode
    path.chmod(0o640)
    replace_file(path, b"\x00")
    assert path.read_bytes() == b"\x00" and path.stat().st_mode & 0o777 == 0o640
    (tmp_path / "link").symlink_to("a.txt")
    replace_file(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and path.read_bytes() == b"new"
    long = tmp_path / ("n" * 251 + ".csv")
    assert replace_file(long, b"1").read_bytes() == b"1"


@pytest.mark.parametrize("name", ["none/a.txt", "folder"])
def test_errors_name_the_file(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError) as caught:
        replace_file(tmp_path / name, b"1")
    assert caught.value.filename == str(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder"]


def test_leftovers_of_killed_writers_are_removed_and_those_of_living_ones_not(tmp_path):
    path = tmp_path / "a[1].txt"
    (tmp_path / ".a[1].txt.0123abcd.part").touch()
    (tmp_path / ".b.txt.0123abcd.part").touch()
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            replace_file(path, b"other")

    other = threading.Thread(target=write)
    other.start()
    for _ in range(50):
        replace_file(path, b"mine")
    stop.set()
    other.join()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".b.txt.0123abcd.part", "a[1].txt"]


WRITER = """
import sys
from fim_dynsys.writing import replace_file
old, new = (letter * 3_000_000 for letter in (b"o", b"n"))
replace_file(sys.argv[1], old)
print("ready", flush=True)
while True:
    replace_file(sys.argv[1], new)
    replace_file(sys.argv[1], old)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
def test_a_killed_writer_leaves_a_whole_file(tmp_path):
    path = tmp_path / "a.bin"
    for seed in range(5):
        with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as child:
            assert child.stdout.readline() == b"ready\n"
            time.sleep(random.Random(seed).uniform(0.0, 0.05))
            os.kill(child.pid, signal.SIGKILL)
        assert path.read_bytes() in (b"o" * 3_000_000, b"n" * 3_000_000)
        assert len(list(tmp_path.glob(".*"))) <= 1


FULL = """
import resource, sys
from fim_dynsys.writing import replace_file
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    replace_file(sys.argv[1], b"n" * 20_000)
except OSError as error:
    print(error.filename)
"""


def test_a_full_disk_is_an_error_and_the_old_file_stays(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    run = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True)
    assert (run.returncode, run.stdout.strip(), run.stderr) == (0, str(path), "")
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"] and path.read_bytes() == b"old"
