"""Delimited text as UTF-8 bytes, whatever its packing and encoding, and a slow reading that finds faults."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.errors import InputError

_RAW_BLOCK = 1 << 16
_GZIP_MAGIC = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class Dialect:
    """How the bytes of one file turn into fields."""

    delimiter: str
    quote: str
    encoding: str

    def reader_arguments(self) -> dict[str, Any]:
        """Return what the standard library's reader must know."""
        if not self.quote:
            return {"delimiter": self.delimiter, "quoting": csv.QUOTE_NONE}
        return {"delimiter": self.delimiter, "quotechar": self.quote}


class TextStream(io.RawIOBase):
    """The text of a file in UTF-8 without byte order mark; raises where the bytes are no text.

    Checking here, ahead of the parser, finds faults in columns that nobody asked for as well, and says where.
    """

    def __init__(self, path: Path, encoding: str, quote: str = "") -> None:
        self._name = path.name
        self._encoding = encoding
        self._wide = encoding.startswith(("utf-16", "utf-32"))
        self._quote = quote.encode()
        self._file = _open_bytes(path)
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._offset = 0  # of the next byte to read from the unpacked file
        self._line = 1  # of the next byte to hand on
        self._left = b""
        self._ended = False
        self.n_quotes = 0

    def readable(self) -> bool:
        """Say yes."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return up to *size* bytes of text, nothing at its end."""
        if size < 0:
            return self.readall()
        while not self._left and not self._ended:
            self._left = self._checked(self._next(max(size, _RAW_BLOCK)))
        if len(self._left) <= size:
            taken, self._left = self._left, b""
        else:
            taken, self._left = self._left[:size], self._left[size:]
        return taken

    def readinto(self, buffer: Any) -> int:
        """Fill *buffer* as far as one reading goes."""
        taken = self.read(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        """Close the file as well."""
        self._file.close()
        io.RawIOBase.close(self)

    def _next(self, size: int) -> bytes:
        parts: list[bytes] = []
        left = size
        try:
            while left and (part := self._file.read1(left)):
                parts.append(part)
                left -= len(part)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise InputError(
                f"{self._name} is not a whole gzip file: it breaks off or is damaged after "
                f"{self._offset + size - left} unpacked bytes; fetch it again"
            ) from None
        raw = b"".join(parts)
        self._ended = not raw
        if self._offset == 0 and raw.startswith(codecs.BOM_UTF8) and not self._wide:
            self._offset = len(codecs.BOM_UTF8)
            raw = raw[self._offset :]
        return raw

    def _checked(self, raw: bytes) -> bytes:
        self._offset += len(raw)
        if self._encoding == "utf-8" and raw.isascii() and not self._decoder.getstate()[0]:
            text = raw
        else:
            text = self._decoded(raw)
        nul = text.find(b"\0")
        if nul >= 0:
            line = self._line + text.count(b"\n", 0, nul)
            raise InputError(
                f"{self._name} has a NUL byte in line {line}: it is no delimited text, or its encoding is "
                f"not {self._encoding}; set `encoding`"
            )
        self._line += text.count(b"\n")
        if self._quote:
            self.n_quotes += text.count(self._quote)
        return text

    def _decoded(self, raw: bytes) -> bytes:
        try:
            text = self._decoder.decode(raw, final=self._ended)
        except UnicodeDecodeError as error:
            seen, at = error.object, error.start
        except UnicodeError:  # UTF-16 or UTF-32 without its byte order mark
            seen, at = raw, 0
        else:
            return raw if self._encoding == "utf-8" else text.encode("utf-8")
        # Outside the handlers: the decoder's error carries the text itself.
        line = self._line + seen.count(b"\n", 0, at)
        offset = self._offset - len(seen) + at
        raise InputError(
            f"{self._name} is not {self._encoding}: byte {offset} (line {line}) does not fit; set `encoding`,"
            f" for example to {self._likelier(seen)}"
        )

    def _likelier(self, seen: bytes) -> str:
        if self._encoding != "utf-8":
            return "utf-8"
        wide = seen.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        return "utf-16" if wide else "cp1252 or latin-1"


def _open_bytes(path: Path) -> io.BufferedIOBase:
    file = path.open("rb")
    if path.suffix == ".gz" or file.peek(2)[:2] == _GZIP_MAGIC:
        file.close()
        return gzip.open(path, "rb")
    return file


def records(path: Path, dialect: Dialect, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Read slowly: yield the first line and the fields of each record, blank lines as records without fields.

    *strict* raises where quotes do not fit together as well as where they never close.
    """
    with TextStream(path, dialect.encoding) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream, _RAW_BLOCK), encoding="utf-8", newline="")
        reader = csv.reader(text, strict=strict, **dialect.reader_arguments())
        line = 1
        try:
            for fields in reader:
                yield line, fields
                line = reader.line_num + 1
        except csv.Error:
            raise InputError(
                f"{path.name}: the quotes of the record that starts in line {line} do not close, or a field "
                "of it is too long; mend that line, or set `quote`"
            ) from None
