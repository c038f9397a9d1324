"""Phrases that several pages and commands share, and Markdown in which names and values can only be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Write parameters as people do; those without a value are left out.

    >>> parameters_text({"l": 4.0, "attribute": None, "harmless": [], "distance": "equal"})
    'l = 4, distance = equal'
    """
    return ", ".join(f"{name} = {_value(value)}" for name, value in parameters.items() if value not in (None, [], ()))


def model_text(guarantee: Mapping[str, Any]) -> str:
    """Write the model of a guarantee, and whom it counts if that is not records.

    >>> model_text({"model": "k-anonymity", "counts": "unit"})
    'k-anonymity (people, by unit)'
    """
    counted = f" (people, by {guarantee['counts']})" if guarantee.get("counts") else ""
    return f"{guarantee['model']}{counted}"


def count_noun(count: int, one: str, several: str = "") -> str:
    """Write a number of things.

    >>> count_noun(1, "record"), count_noun(2000, "record"), count_noun(2, "class", "classes")
    ('1 record', '2,000 records', '2 classes')
    """
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"


def size_text(n_bytes: int) -> str:
    """Write a number of bytes.

    >>> size_text(2 << 30), size_text(314572800)
    ('2 GiB', '300 MiB')
    """
    return f"{n_bytes / (1 << 30):.3g} GiB" if n_bytes >= 1 << 30 else f"{n_bytes / (1 << 20):.0f} MiB"


def range_text(low: int, high: int) -> str:
    """Write a range of whole numbers.

    >>> range_text(5, 5), range_text(1000, 1999)
    ('5', '1,000 to 1,999')
    """
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def percent(share: float) -> str:
    """Return a share as people read it; only 0 is 0%, and only 1 is 100%.

    >>> percent(0.0), percent(0.07005), percent(0.00012), percent(0.99995), percent(1.0), percent(-0.25)
    ('0%', '7.0%', '0.012%', '>99.9%', '100%', '-25%')
    """
    hundred = round(100 * share, 9)
    if hundred == round(hundred):
        return f"{hundred + 0.0:.0f}%"
    if abs(hundred) < 1:
        return f"{hundred:.2g}%"
    return ">99.9%" if 99.95 <= hundred < 100 else f"{hundred:.1f}%"


def write_kept(score: float) -> str:
    """Write a score, of 1000, as the share that is kept: everywhere that people read, 100% is as it was.

    >>> write_kept(729.44), write_kept(1000.0)
    ('72.9%', '100%')
    """
    return percent(round(score / 1000, 3) if score < 999.5 else score / 1000)


def join_words(names: Sequence[str]) -> str:
    """Write names as people do.

    >>> join_words(["a", "b", "c"]), join_words(["a"]), join_words([])
    ('a, b and c', 'a', '')
    """
    *first, last = names or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def attack_text(entry: Mapping[str, Any]) -> str:
    """Return how an attack, as ``Trials`` or ``Refusal`` writes it, is called: with the column that it finds out.

    >>> attack_text({"name": "inference", "about": "income"}), attack_text({"name": "membership"})
    ('inference: income', 'membership')
    """
    return str(entry["name"]) if entry.get("about") is None else f"{entry['name']}: {entry['about']}"


_ACTIVE = re.compile(r"[\\`*\[\]|]")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_TICKS = re.compile("`+")


def promise_line(model: str, parameters: Mapping[str, Any], meaning: str, counts: str | None = None) -> str:
    """Return one promise of a manifest as an item of a list; *counts* names the people that it is about."""
    counted = "" if counts is None else f", counting people (by {counts}) and not records"
    counted += ", harmless values aside" if parameters.get("harmless") else ""
    return f"- **{model}** ({words(parameters_text(parameters))}): {meaning}{counted}."


def words(text: str) -> str:
    """Return a name or a value as Markdown that shows it as it is: no HTML, no link, no picture.

    >>> words("<img src=x> [a](b)"), words("age_group")
    ('&lt;img src=x> \\\\[a\\\\](b)', 'age_group')
    """
    escaped = _ACTIVE.sub(r"\\\g<0>", _ENTITY.sub("&amp;", text))
    return " ".join(escaped.replace("<", "&lt;").splitlines())


def code(text: str) -> str:
    """Return a name or a value as code; whatever it has of backticks, it ends where it ends.

    >>> code("[20, 30)"), code("a`b")
    ('`[20, 30)`', '`` a`b ``')
    """
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence, blank = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{blank}{' '.join(text.splitlines())}{blank}{fence}"


def code_cell(text: str) -> str:
    """Return a name or a value as code that cannot leave its cell of a table.

    >>> code_cell("a|b")
    '`a\\\\|b`'
    """
    return code(text).replace("|", "\\|")


def unmark(text: str) -> str:
    """Return what a piece of Markdown that :func:`words` made shows.

    >>> unmark(words("<b> & [a|b] &lt; c*"))
    '<b> & [a|b] &lt; c*'
    """
    return re.sub(r"\\([\\`*\[\]|])", r"\1", text.replace("&lt;", "<").replace("&amp;", "&"))
