"""Phrases that several pages and commands share, and Markdown that escapes names and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Write the parameters that have a value.

    >>> parameters_text({"l": 4.0, "attribute": None, "harmless": [], "distance": "equal"})
    'l = 4, distance = equal'
    """
    return ", ".join(f"{name} = {_value(value)}" for name, value in parameters.items() if value not in (None, [], ()))


def model_text(guarantee: Mapping[str, Any]) -> str:
    """Write the model of a guarantee and, unless it counts records, the people it counts.

    >>> model_text({"model": "k-anonymity", "counts": "unit"})
    'k-anonymity (people, by unit)'
    """
    counted = f" (people, by {guarantee['counts']})" if guarantee.get("counts") else ""
    return f"{guarantee['model']}{counted}"


def count_noun(count: int, one: str, several: str = "") -> str:
    """Write a number and a noun in the right form.

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
    """Write a share as a percentage; only 0 is 0%, and only 1 is 100%.

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
    """Write a score from 0 to 1000 as a percentage of the original utility.

    >>> write_kept(729.44), write_kept(1000.0)
    ('72.9%', '100%')
    """
    return percent(round(score / 1000, 3) if score < 999.5 else score / 1000)


def join_words(names: Sequence[str]) -> str:
    """Join names with commas and "and".

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
    """Return the name of an attack in the JSON of ``Trials`` or ``Refusal``, with the column that it infers.

    >>> attack_text({"name": "inference", "about": "income"}), attack_text({"name": "membership"})
    ('inference: income', 'membership')
    """
    return str(entry["name"]) if entry.get("about") is None else f"{entry['name']}: {entry['about']}"


_ACTIVE = re.compile(r"[\\`*\[\]|]")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_TICKS = re.compile("`+")


def promise_line(model: str, parameters: Mapping[str, Any], meaning: str, counts: str | None = None) -> str:
    """Return a guarantee of a manifest as a Markdown list item; *counts* names the column of the people it counts."""
    counted = "" if counts is None else f", counting people (by {counts}) and not records"
    counted += ", harmless values aside" if parameters.get("harmless") else ""
    return f"- **{model}** ({words(parameters_text(parameters))}): {meaning}{counted}."


def words(text: str) -> str:
    """Escape a text for Markdown: no HTML, no link, no picture.

    >>> words("<img src=x> [a](b)"), words("age_group")
    ('&lt;img src=x> \\\\[a\\\\](b)', 'age_group')
    """
    escaped = _ACTIVE.sub(r"\\\g<0>", _ENTITY.sub("&amp;", text))
    return " ".join(escaped.replace("<", "&lt;").splitlines())


def code(text: str) -> str:
    """Return a text as Markdown code, which backticks in the text do not end.

    >>> code("[20, 30)"), code("a`b")
    ('`[20, 30)`', '`` a`b ``')
    """
    longest = max(map(len, _TICKS.findall(text)), default=0)
    fence, blank = "`" * (longest + 1), " " if longest else ""
    return f"{fence}{blank}{' '.join(text.splitlines())}{blank}{fence}"


def code_cell(text: str) -> str:
    """Return a text as Markdown code in a table cell.

    >>> code_cell("a|b")
    '`a\\\\|b`'
    """
    return code(text).replace("|", "\\|")


def unmark(text: str) -> str:
    """Undo :func:`words`.

    >>> unmark(words("<b> & [a|b] &lt; c*"))
    '<b> & [a|b] &lt; c*'
    """
    return re.sub(r"\\([\\`*\[\]|])", r"\1", text.replace("&lt;", "<").replace("&amp;", "&"))
