"""What a file holds by its first bytes, for errors that say so."""

_BEGINNINGS = (  # of files, what they are, and the kind that reads them or what to do instead
    (b"\x89PNG", "a PNG picture", ""),
    (b"\xff\xd8\xff", "a JPEG picture", ""),
    (b"GIF8", "a GIF picture", ""),
    (b"%PDF", "a PDF document", "copy its table into a text file"),
    (b"\xd0\xcf\x11\xe0", "an Excel 97 or other old Office file", "save it as .xlsx or .csv"),
    (b"\x89HDF", "an HDF5 file", "hdf5"),
    (b"MATLAB 5.0", "a MATLAB file", "matlab"),
    (b"\x93NUMPY", "a numpy array", "numpy"),
    (b"PAR1", "a Parquet file", "parquet"),
    (b"ARROW1", "a Feather file", "feather"),
    (b"CDF\x01", "a netCDF 3 file", "save it as netCDF 4 or .csv"),
    (b"CDF\x02", "a netCDF 3 file", "save it as netCDF 4 or .csv"),
    (b"TDSm", "a TDMS file of LabVIEW", "export it as .csv or .lvm"),
    (b"SQLite", "an SQLite database", "export the table as .csv"),
    (b"RDX", "an R workspace", "write the table as .csv"),
    (b"\x80\x04", "a Python pickle, which could run any code", "save its arrays as .npz"),
    (b"\x80\x05", "a Python pickle, which could run any code", "save its arrays as .npz"),
    (b"\x1f\x8b", "a gzip archive", "end its name in .gz behind that of its kind, as .csv.gz"),
    (b"RIFF", "a sound or video file", ""),
    (b"\x7fELF", "a program", ""),
)
_KINDS = ("hdf5", "matlab", "numpy", "parquet", "feather")
_MARKUP = ((b"<", "HTML or XML"), (b"{", "JSON"), (b"[{", "JSON"), (b"[[", "JSON or printed arrays"))
_SHOWN = 512  # bytes that are looked at


def looks_like(content: bytes) -> tuple[str, str]:
    """What a file seems to be, and what to do with it; both empty where its bytes do not say it.

    >>> looks_like(b"%PDF-1.7")
    ('a PDF document', 'copy its table into a text file')
    """
    for start, what, remedy in _BEGINNINGS:
        if content.startswith(start):
            return what, f'give format="{remedy}"' if remedy in _KINDS else remedy
    if content.startswith(b"PK\x03\x04"):
        head = content[:4096]
        if b"xl/" in head or b"xl/" in content[-4096:]:
            return "an Excel file", 'give format="excel"'
        if b"word/" in content[-4096:] or b"word/" in head:
            return "a Word document", "copy its table into a text file"
        return "a zip archive", "unpack it, or end its name in .zip behind that of its kind, as .csv.zip"
    head = content[:_SHOWN].lstrip(b"\xef\xbb\xbf \t\r\n")
    for start, what in _MARKUP:
        if head.startswith(start):
            return what, "write its table as .csv"
    if is_text(content):
        return "text", 'give format="text" if it is a table'
    return ("bytes that are no text", "name its kind by format=") if content else ("nothing", "")


def is_text(content: bytes) -> bool:
    """Whether the first bytes are characters; those of UTF-16 hold zeros, and a mark before them."""
    head = content[:_SHOWN]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    controls = sum(byte < 9 or 13 < byte < 32 for byte in head)
    return bool(head) and controls <= 0.02 * len(head)
