"""From the bytes of a file to UTF-8: compression and encoding."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import zlib

from .errors import CommandError

_COMPRESSED = (
    (b"\x1f\x8b", 0, gzip.decompress),
    (b"1AY&SY", 4, bz2.decompress),
    (b"\xfd7zXZ\x00", 0, lzma.decompress),
)
"""Signatures of compressed files, where they are, and what reads the files."""
_OTHERS = {
    b"PAR1": "a parquet file: name it .parquet",
    b"PK\x03\x04": "a zip archive or an Excel workbook: save the table as CSV",
    b"\xd0\xcf\x11\xe0": "an Excel workbook: save the table as CSV",
    b"%PDF": "a PDF: save the table as CSV",
}
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; that of UTF-32 begins like that of UTF-16."""
WESTERN = "cp1252"
"""Windows-1252, of which the printable characters of Latin-1 are a part."""
_PART = 2**24
"""Bytes that are decoded at once, to bound the memory."""


def decode(data: bytes, encoding: str | None, path: object) -> tuple[bytes, str, str]:
    """Return the text of a file that may be compressed, in UTF-8 without a byte order mark, its
    encoding (UTF-8 also where all characters are ASCII), and a word whose characters depend on
    that. An ``encoding`` of None is what the byte order mark says, else UTF-8 or UTF-16 if the
    bytes are, else Windows-1252. Raises a CommandError if the file is damaged, is not text, or is
    not in the encoding."""
    data = _decompressed(data, path)
    for signature, kind in _OTHERS.items():
        if data.startswith(signature):
            raise CommandError(f"{path} is {kind}.")
    found = encoding or _encoding_of(data, path)
    text, example = _recoded(data, found, path, said=encoding is not None)
    text = text.removeprefix(codecs.BOM_UTF8).rstrip(b"\x1a")
    if b"\0" in text:
        line = text.count(b"\n", 0, text.index(b"\0")) + 1
        raise CommandError(
            f"{path} is damaged or not text: there is a NUL character in line {line}. Repair the "
            "file, or pass --encoding."
        )
    return text, found, example


def _decompressed(data: bytes, path: object) -> bytes:
    for signature, at, read in _COMPRESSED:
        if data.startswith(signature, at):
            try:
                return read(data)
            except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
                raise CommandError(f"{path} is damaged compressed data: {error}.") from error
    return data


def _encoding_of(data: bytes, path: object) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return encoding
    start = data[:4096]
    if start.count(0) > len(start) / 5:
        return "utf-16-le" if start[1::2].count(0) > start[::2].count(0) else "utf-16-be"
    if data.isascii() or _is_utf8(data):
        return "utf-8"
    _refuse_damaged_utf8(data, path)
    return WESTERN


def _is_utf8(data: bytes) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), _PART):
            decoder.decode(memoryview(data)[at : at + _PART], at + _PART >= len(data))
    except UnicodeDecodeError:
        return False
    return True


def _refuse_damaged_utf8(data: bytes, path: object) -> None:
    """Refuse a file in which most characters beyond ASCII are UTF-8: as Windows-1252 it would
    have two wrong ones in place of each."""
    text = data.decode("utf-8", "surrogateescape")
    damaged = re.findall("[\udc80-\udcff]", text)
    if len(re.findall("[^\x00-\x7f\udc80-\udcff]", text)) < len(damaged):
        return
    at = re.search("[\udc80-\udcff]", text)
    assert at is not None
    line = text.count("\n", 0, at.start()) + 1
    raise CommandError(
        f"{path} is UTF-8, but for {len(damaged)} bytes, the first in line {line}. Repair it, or "
        "pass --encoding."
    )


def _recoded(data: bytes, encoding: str, path: object, said: bool) -> tuple[bytes, str]:
    """Return the text in UTF-8, and an example of what the encoding decided."""
    if encoding == "utf-8" and not said:
        return data, ""
    try:
        decoded = data.decode(encoding)
        recoded = decoded.encode()
    except (LookupError, TypeError) as error:
        raise CommandError(
            f"--encoding {encoding!r} is not an encoding of text that Python knows. Pass one such "
            "as utf-8, latin-1 or utf-16."
        ) from error
    except (UnicodeError, ValueError) as error:
        raise CommandError(
            f"{path} is not text in {encoding}: {error}. Pass its encoding, such as --encoding "
            "cp1250, or repair the file."
        ) from error
    found = re.search(r"[^\W\d_]*[^\x00-\x7f\ufeff][^\W\d_]*", decoded)
    return recoded, found[0][:30] if found else ""
