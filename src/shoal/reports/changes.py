"""What was done to values before anything else, column by column, in plain sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shoal.core.wording import code, counted_text, listed


def changes(manifest: Mapping[str, Any]) -> list[str]:
    """Return the section on techniques and on the sample; nothing where nothing was changed."""
    lines = [f"- {code(name)}: {change_told(entry)}" for name, entry in manifest.get("techniques", {}).items()]
    if not lines:
        return []
    return [
        "## What was changed",
        "",
        "These columns do not hold the values of the original table:",
        "",
        *lines,
        "",
    ]


def sample_told(manifest: Mapping[str, Any]) -> str:
    """Say how records were drawn; nothing if all were taken.

    >>> sample_told({"sample": {"share": 0.1}})
    'They are a random sample: each record had a chance of 10% to be drawn, whatever became of the others.'
    """
    if "sample" not in manifest:
        return ""
    if "one_per" in manifest["sample"]:
        whom = "person" if manifest["sample"]["one_per"] == "unit" else "household"
        return f"They are a random sample: one record of each {whom}."
    chance = _percent(manifest["sample"]["share"])
    return f"They are a random sample: each record had a chance of {chance} to be drawn, whatever became of the others."


def change_told(entry: Mapping[str, Any]) -> str:
    """Say in plain words what a technique did to a column, by its entry of the manifest.

    >>> change_told({"technique": "rounding", "base": 5, "random": False})
    'numbers were rounded to the nearest multiple of 5, halves up.'
    """
    return _TOLD[entry["technique"]](entry)


def _noise(entry: Mapping[str, Any]) -> str:
    if "laplace" in entry:
        what = f"Laplace noise of scale {_number(entry['laplace']['scale'])}"
    else:
        what = f"normal noise of standard deviation {_number(entry['gaussian']['sd'])}"
    return (
        f"numbers were moved by {what}, each record's on its own, and published {_decimals(entry)}. They are not the "
        f"original ones.{_domain(entry)} This is no differential privacy."
    )


def _domain(entry: Mapping[str, Any]) -> str:
    ends = [f"{word} {_number(entry[end])}" for end, word in (("min", "at least"), ("max", "at most")) if end in entry]
    if not ends:
        return ""
    at_the_edge = {
        "clamp": "what noise led beyond stands at the edge",
        "reflect": "noise that led beyond was turned back",
        "redraw": "noise that led beyond was drawn anew",
    }[entry["edges"]]
    return f" All are {' and '.join(ends)}: {at_the_edge}."


def _rounding(entry: Mapping[str, Any]) -> str:
    base = _number(entry["base"])
    if entry["random"]:
        return f"numbers were rounded up or down to a multiple of {base} at random, so that the mean is right."
    return f"numbers were rounded to the nearest multiple of {base}, halves up."


def _coding(entry: Mapping[str, Any]) -> str:
    ends = [(word, _number(entry[end])) for end, word in (("bottom", "below"), ("top", "above")) if end in entry]
    edges = " and ".join(f"numbers {word} {edge} were set to {edge}" for word, edge in ends)
    origin = " The edges were looked up in the data." if entry["edges_from_data"] else ""
    return f"{edges}, and all are published {_decimals(entry)}.{origin}"


def _swapping(entry: Mapping[str, Any]) -> str:
    return (
        f"about {_percent(entry['share'])} of the records exchanged their values in pairs{_within(entry)}. No value "
        "was made up, but in a row it may be another person's."
    )


def _permutation(entry: Mapping[str, Any]) -> str:
    return (
        f"values were dealt out anew{_within(entry)}. No value was made up, but in a row it is as good as always "
        "another person's."
    )


def _within(entry: Mapping[str, Any]) -> str:
    if not entry["within"]:
        return " among all records"
    return f" among records that agree in {listed([code(name) for name in entry['within']])}"


def _pseudonym(entry: Mapping[str, Any]) -> str:
    key = "take them back to the values" if entry["reversible"] else "find out whose they are"
    return (
        f"tokens {_stand(entry)}, the same in all tables of the same key and the domain `{entry['domain']}`: these can "
        f"be linked by them. {_same(entry, 'token')} Whoever has the key can {key}."
    )


def _token(entry: Mapping[str, Any]) -> str:
    return f"tokens {_stand(entry)}. {_same(entry, 'token')} They are new, and nothing was kept to undo them."


def _hash(entry: Mapping[str, Any]) -> str:
    if entry["salt"] == "random":
        return f"hashes (SHA-256 with a forgotten salt) {_stand(entry)}. {_same(entry, 'hash')}"
    return (
        f"bare hashes (SHA-256) {_stand(entry)}. **Whoever tries values out finds which they are**, and all tables "
        "with such hashes can be linked by them."
    )


def _stand(entry: Mapping[str, Any]) -> str:
    return "stand in place of an identifier" if entry.get("of") == "identifier" else "stand in place of the values"


def _same(entry: Mapping[str, Any], what: str) -> str:
    if entry.get("of") == "identifier":
        return f"Rows with the same {what} have the same identifier."
    return f"The same value has the same {what}, so it may be guessed by how often it occurs."


def _decimals(entry: Mapping[str, Any]) -> str:
    return f"with {counted_text(entry['decimals'], 'decimal')}" if entry["decimals"] else "as whole numbers"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def _percent(share: float) -> str:
    return f"{100 * share:.6g}%"


_TOLD: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "noise": _noise,
    "rounding": _rounding,
    "coding": _coding,
    "swapping": _swapping,
    "permutation": _permutation,
    "pseudonym": _pseudonym,
    "token": _token,
    "hash": _hash,
}
