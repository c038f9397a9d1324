"""How tables are read and delimited text is written, declared as data."""

from __future__ import annotations

import codecs
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

_IN_NUMBERS_AND_DATES = frozenset("+-.: ")


def _check_character(name: str, character: str) -> str:
    if len(character) != 1 or not character.isascii() or character in "\r\n\0":
        raise ValueError(f"{name} must be one ASCII character that ends no line, got {character!r}")
    return character


class SourceOptions(BaseModel):
    """What cannot be seen from the data itself: the dialect of a text file, a sheet, and the texts that mean missing.

    >>> SourceOptions(delimiter=";", missing=["", "?"]).missing
    ['', '?']
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    delimiter: str | None = Field(
        default=None,
        description="character between fields; without it, found among comma, semicolon, tab and |",
    )
    quote: str = Field(default='"', description="character around quoted fields; empty: there is no quoting")
    encoding: str = Field(default="utf-8", description="character encoding; a UTF-8 byte order mark is dropped")
    header: bool = Field(default=True, description="whether the first record holds the column names")
    names: list[str] | None = Field(
        default=None,
        description="column names, in place of the header's or of c1, c2, ... if there is no header",
    )
    missing: list[str] = Field(
        default=[""], description="texts that mean missing, in every kind of source; blanks around them count"
    )

    sheet: str | None = Field(default=None, description="sheet of an Excel file that has several")
    labels: Literal["texts", "codes"] = Field(
        default="texts", description="whether labelled values of Stata and SPSS files are read as their labels"
    )

    @field_validator("delimiter")
    @classmethod
    def _one_delimiter(cls, delimiter: str | None) -> str | None:
        return None if delimiter is None else _check_character("delimiter", delimiter)

    @field_validator("quote")
    @classmethod
    def _one_quote(cls, quote: str) -> str:
        return quote and _check_character("quote", quote)

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str) -> str:
        try:
            "".encode(encoding)
        except LookupError:
            raise ValueError(f"unknown text encoding {encoding!r}") from None
        name = codecs.lookup(encoding).name
        return "utf-8" if name == "utf-8-sig" else name

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}")
        return self


class CsvStyle(BaseModel):
    """How a CSV file is written; always in UTF-8, with LF and a header.

    >>> CsvStyle(delimiter=";")
    CsvStyle(delimiter=';', quote='"')
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    delimiter: str = Field(default=",", description="character between fields")
    quote: str = Field(default='"', description="character around fields that need it")

    @field_validator("delimiter", "quote")
    @classmethod
    def _never_in_a_number(cls, character: str) -> str:
        _check_character("delimiter or quote", character)
        if character.isalnum() or character in _IN_NUMBERS_AND_DATES:
            raise ValueError(f"{character!r} occurs in numbers and dates, so it cannot separate or quote fields")
        return character

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if self.delimiter == self.quote:
            raise ValueError(f"delimiter and quote are both {self.quote!r}")
        return self
