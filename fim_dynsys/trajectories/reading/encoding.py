"""Bytes of a file as UTF-8: compression and encodings."""

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import Path

from fim_dynsys.trajectories.reading.contents import is_text, looks_like
from fim_dynsys.trajectories.reading.options import Notes, Options, quoted, refusal

_COMPRESSED = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
_MARKS = (  # byte order marks; those of UTF-32 begin like that of UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PADDING = b"\0\x1a"  # of loggers that reserve space, and the end mark of DOS
_HEAD = 4096  # bytes that are looked at to tell an encoding without a mark


def without_compression(name: str) -> str:
    """The name of a file without the suffix of its compression."""
    path = Path(name)
    return path.stem if path.suffix.lower() in {*_COMPRESSED, ".zip"} else name


def decompressed(name: str, content: bytes, notes: Notes) -> bytes:
    """What is in a compressed file; the content itself where it is none.

    Raises
    ------
    ValueError
        For a damaged file, or an archive of several.
    """
    suffix = Path(name).suffix.lower()
    try:
        if suffix in _COMPRESSED:
            return _COMPRESSED[suffix](content)
        if suffix == ".zip":
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                members = [item.filename for item in archive.infolist() if not item.is_dir()]
                if len(members) != 1:
                    raise refusal(
                        f"one file in {name!r}", f"{len(members)}: {quoted(members[:8])}", "unpack it"
                    )
                notes.say(f"unpacked {members[0]}")
                return archive.read(members[0])
    except (
        OSError,
        EOFError,
        zlib.error,
        lzma.LZMAError,
        zipfile.BadZipFile,
        RuntimeError,
        NotImplementedError,
    ) as error:
        raise refusal("a whole compressed file", f"{name!r}: {error}") from error
    return content


def as_utf8(name: str, content: bytes, options: Options, notes: Notes) -> bytes:
    """A text in UTF-8, with one kind of line ends.

    Raises
    ------
    ValueError
        If it is no text, or not in the encoding that is given.
    """
    what, remedy = looks_like(content)
    if options.encoding is None and not is_text(content.rstrip(_PADDING)) and not _halved(content):
        raise refusal("a text table", f"{name!r}, which holds {what}", remedy)
    if options.encoding is not None:
        text = _decoded(name, content, options.encoding)
        content = text.removeprefix("\ufeff").encode("utf-8", "surrogatepass")
    else:
        content = _declared(name, content, notes)
    padded = len(content) - len(content.rstrip(_PADDING))
    if padded:
        content = content[:-padded]
        notes.decide(f"left out {padded} bytes of padding at the end")
    if b"\0" in content:
        raise refusal(
            "a text table", f"{name!r}, which holds bytes that are no text", "name its kind by format="
        )
    if b"\r" in content:
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return content


def _declared(name: str, content: bytes, notes: Notes) -> bytes:
    for mark, encoding in _MARKS:
        if content.startswith(mark):
            body = content[len(mark) :]
            if encoding == "utf-8":
                _decoded(name, body, encoding)
                return body
            notes.say(f"text in {encoding[:6].upper()}")
            return _decoded(name, body, encoding).encode()
    halved = _halved(content)
    if halved:
        notes.say("text in UTF-16 without a byte order mark")
        return _decoded(name, content, halved).encode()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        # Every byte is a character of Latin-1; the two differ in letters, which numbers have none of.
        try:
            text = content.decode("cp1252")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        notes.decide("text is not UTF-8, read as Latin-1 (encoding=)")
        return text.encode()
    return content


def _halved(content: bytes) -> str:
    """UTF-16 without a mark, by the zeros in every second byte of what is mostly Latin; or empty."""
    head = content[:_HEAD]
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros = head[start::2].count(0)
        if len(head) >= 4 and zeros > 0.4 * len(head) / 2 and head[1 - start :: 2].count(0) == 0:
            return encoding
    return ""


def _decoded(name: str, content: bytes, encoding: str) -> str:
    try:
        return content.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise refusal(
            f"text in {encoding}", f"{name!r}: {error}", "name its encoding by encoding="
        ) from error
