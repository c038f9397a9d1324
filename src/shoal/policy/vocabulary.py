"""Words that tell what a column is and what a value means, in several languages; ``vocabulary.yaml`` lists them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the words of a column's name say, and texts that are no ordinary values."""

    columns: dict[str, re.Pattern[str]]  # by what such columns are about
    texts: dict[str, frozenset[str]]  # that mean missing, yes or no, months, weekdays
    scales: tuple[tuple[str, ...], ...]

    def find_topics(self, name: str) -> frozenset[str]:
        """Return what a column is about, by its name.

        >>> sorted(read_vocabulary().find_topics("birthYear"))
        ['birth', 'date', 'year']
        """
        found = words(name)
        return frozenset(topic for topic, known in self.columns.items() if any(map(known.fullmatch, found)))


@cache
def read_vocabulary() -> Vocabulary:
    """Read the words, once."""
    listed = yaml.safe_load(resources.files("shoal.policy").joinpath("vocabulary.yaml").read_text("utf-8"))
    return Vocabulary(
        {topic: _compile(known) for topic, known in listed["columns"].items()},
        {kind: frozenset(map(fold, known)) for kind, known in listed["texts"].items()},
        tuple(tuple(map(fold, scale)) for scale in listed["scales"]),
    )


def _compile(known: str) -> re.Pattern[str]:
    plain = known.replace("_", "").replace("-", "").split()
    return re.compile("|".join(re.escape(word).replace(r"\*", ".*") for word in plain))


def fold(text: str) -> str:
    """Return a text without case, accents and blanks around it.

    >>> fold(" Größe "), fold("Sí")
    ('grosse', 'si')
    """
    apart = unicodedata.normalize("NFKD", text.strip().casefold())
    return "".join(character for character in apart if not unicodedata.combining(character)).replace("ł", "l")


def words(name: str) -> frozenset[str]:
    """Return the words of a column's name, and the name as one word.

    >>> sorted(words("Date_of-birthDay")), sorted(words("diag_1"))
    (['birth', 'birthday', 'date', 'dateofbirthday', 'day', 'of'], ['1', 'diag', 'diag1'])
    """
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+", name)
    pieces = [piece for piece in re.split(r"[\W_]+", name) if piece]
    return frozenset(fold(word) for word in [*parts, *pieces, "".join(pieces)])
