"""The file in which an agency's staff writes down what a campaign is about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from shoal.core.errors import PolicyError, did_you_mean
from shoal.core.yaml_lines import load_with_lines, read_text

REQUIRED = ("name", "quasi", "sensitive", "l", "delta")
OPTIONAL = ("eta", "order", "arrangement", "records")
MOST_NUMBERS = 100_000
_WHOLE = re.compile("-?[0-9]{1,9}")


def read_campaign(path: Path) -> dict[str, Any]:
    """Return the body that opens the campaign of a YAML file; only what must be known here is checked here.

    ``quasi`` maps every quasi column to its values, in the order of importance: a list, or ``{from: 0, through: 105}``
    for whole numbers. ``sensitive`` maps the one sensitive column to its values.
    """
    text = read_text(path)
    document, _ = load_with_lines(text, path.name)
    if not isinstance(document, dict):
        raise PolicyError(f"{path.name} is no campaign: it must have the keys {', '.join(REQUIRED)}")
    if absent := [key for key in REQUIRED if key not in document]:
        raise PolicyError(f"{path.name} lacks {', '.join(map(repr, absent))}, which every campaign has")
    for key in document:
        if key not in (*REQUIRED, *OPTIONAL):
            hint = did_you_mean(key, (*REQUIRED, *OPTIONAL))
            raise PolicyError(f"{path.name} has the key {key!r}, which campaigns have not{hint}")
    # Values are texts as they stand there: 010 is no 8, and yes no truth.
    written = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - it knows nothing but texts, lists and mappings
    quasi, sensitive = (_columns(written[key], key, path.name) for key in ("quasi", "sensitive"))
    if len(sensitive) != 1:
        raise PolicyError(f"{path.name}: 'sensitive' must have one column, got {len(sensitive)}")
    rest = {key: value for key, value in document.items() if key not in ("quasi", "sensitive")}
    return {**rest, "domain": {"quasi": quasi, "sensitive": sensitive[0]}}


def _columns(entries: Any, key: str, where: str) -> list[dict[str, Any]]:
    if not isinstance(entries, dict) or not entries:
        raise PolicyError(f"{where}: {key!r} must map columns to their values")
    return [{"name": name, "values": _values(given, f"{where}: {key}.{name}")} for name, given in entries.items()]


def _values(given: Any, where: str) -> list[str]:
    if isinstance(given, dict) and set(given) == {"from", "through"}:
        ends = [given["from"], given["through"]]
        if all(isinstance(end, str) and _WHOLE.fullmatch(end) for end in ends):
            first, last = map(int, ends)
            if first <= last < first + MOST_NUMBERS:
                return [str(number) for number in range(first, last + 1)]
        raise PolicyError(f"{where} must go from a whole number through a larger one, {MOST_NUMBERS:,} of them at most")
    if isinstance(given, list) and given and all(isinstance(value, str) for value in given):
        return given
    raise PolicyError(f"{where} must be a list of values, or {{from: 0, through: 105}} for whole numbers")
