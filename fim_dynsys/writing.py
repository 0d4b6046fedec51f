"""Files that are written whole or not at all."""

import contextlib
import glob
import os
import secrets
import stat
import sys
from pathlib import Path
from typing import BinaryIO


def replace_file(path: str | os.PathLike, content: bytes | str) -> Path:
    """Write a file such that its name always stands for all of the old content or all of the new.

    The content goes to a hidden file beside it, ``.<name>.<random>.part``, is forced to the disk and renamed.
    What a killed run left beside the file is removed by the next one.

    Parameters
    ----------
    path : path
        The file. Where there is one, it keeps its permissions; a link is followed.
    content : bytes or str
        All of it; text is written as UTF-8.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    OSError
        Where the disk is full, the folder is missing or may not be written to, the file is protected. The
        old file is then whole, and nothing is left beside it.
    """
    path = Path(path)
    target = Path(os.path.realpath(path))
    try:
        if target.exists():
            os.close(os.open(target, os.O_WRONLY))  # a protected file is not replaced
        _remove_leftovers(target)
        _write(target, content.encode("utf-8") if isinstance(content, str) else content)
        _settle(target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    return path


def _write(target: Path, content: bytes) -> None:
    stream = _opened_beside(target)
    part = Path(stream.name)
    try:
        with stream:
            if target.exists():
                os.chmod(part, stat.S_IMODE(target.stat().st_mode))
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
            if sys.platform != "win32":
                os.replace(part, target)
        if sys.platform == "win32":  # which does not rename what is open
            os.replace(part, target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _opened_beside(target: Path) -> BinaryIO:
    """A new file in the folder of the target, locked while it is open."""
    while True:
        stream = open(f"{_prefix(target)}{secrets.token_hex(4)}.part", "xb")  # noqa: SIM115
        if sys.platform == "win32":
            return stream
        import fcntl

        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(stream, fcntl.LOCK_EX)
        if os.fstat(stream.fileno()).st_nlink:
            return stream
        stream.close()  # taken for a leftover before it was locked


def _remove_leftovers(target: Path) -> None:
    """Remove the hidden files of writers that are no more."""
    for part in glob.glob(f"{glob.escape(_prefix(target))}*.part"):
        with contextlib.suppress(OSError):  # locked, or on Windows open: its writer lives
            if sys.platform == "win32":
                os.unlink(part)
                continue
            import fcntl

            with open(part, "rb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(part)


def _prefix(target: Path) -> str:
    return os.path.join(target.parent, f".{target.name[:50]}.")  # of 255 bytes that a name may have


def _settle(folder: Path) -> None:
    """Force a folder's names to the disk, so that files renamed one after the other appear in this order."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
