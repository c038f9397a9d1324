"""Reading a manifest as a stranger would: nothing in it is believed before it has the right shape."""

from __future__ import annotations

import gc
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.verify.promises import Promise, read_promise

ROLES = ("quasi", "sensitive", "insensitive")
KINDS = ("category", "number", "date", "prefix")
_REQUIRED = (
    "format",
    "shoal_version",
    "method",
    "method_parameters",
    "guarantees",
    "parts",
    "rows",
    "withheld",
    "missing",
    "attributes",
)
_OPTIONAL = ("data", "utility", "populations", "levels", "readme")
_ATTRIBUTE_KEYS = ("role", "kind", "labels", "order", "taxonomy", "length", "format", "description")
_FILE_NAME = re.compile(r"data\.(csv|parquet)")
_MAX_DEPTH = 100
_SHARES = ("um", "ncp", "loss")  # measures that are shares


class ManifestError(Exception):
    """The manifest cannot be understood; the message says what and where, in one sentence."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """One published column as the manifest declares it."""

    name: str
    role: str
    kind: str
    labels: Mapping[str, Mapping[str, Any]] | None
    order: tuple[str, ...] | None = None
    taxonomy: Mapping[str, Any] | None = None
    length: int | None = None  # prefixes: integer source values are filled up with zeros to this length
    format: str | None = None  # dates: how source texts write them, if not as ISO dates

    @property
    def boxed(self) -> bool:
        """Whether what is published is a label that covers source values."""
        return self.labels is not None

    @property
    def may_keep_missing(self) -> bool:
        """Whether rows without a label are legal: a missing sensitive value that is kept has none."""
        return self.boxed and self.role == "sensitive"


@dataclass(frozen=True, slots=True)
class DataFile:
    """Where the rows are and how they are written."""

    name: str
    format: str
    sha256: str
    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A well-formed manifest."""

    attributes: tuple[Attribute, ...]  # in the order of the columns
    promises: tuple[Promise, ...]
    rows: int
    withheld: int
    missing_policy: str
    missing_tokens: tuple[str, ...]
    dropped: int
    data: DataFile | None
    populations: Mapping[str, str]  # name in the parameters -> sha256
    readme: str | None = None  # sha256 of README.md
    levels: Mapping[str, int] = field(default_factory=dict)  # of a full-domain release

    def of_role(self, role: str) -> tuple[Attribute, ...]:
        """Return the attributes of one role, in the order of the columns."""
        return tuple(attribute for attribute in self.attributes if attribute.role == role)


def parse_json(text: str) -> object:
    """Return the value, refusing what JSON readers disagree on: repeated keys, NaN and infinities."""
    collecting = gc.isenabled()
    gc.disable()  # a large manifest makes many objects and no garbage
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_constant)
    except RecursionError:
        raise ManifestError("it is nested too deeply") from None
    except ValueError:
        raise ManifestError("it is not valid JSON") from None
    finally:
        if collecting:
            gc.enable()


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ManifestError("an object in it has the same key twice")
    return found


def _no_constant(name: str) -> object:
    raise ManifestError(f"it holds {name}, which is not JSON")


def read_manifest(raw: object, *, with_file: bool) -> Manifest:
    """Return the manifest, or raise a ManifestError that says what is wrong with it."""
    top = _mapping(raw, "the manifest")
    _keys(top, "the manifest", _REQUIRED, _OPTIONAL)
    if _whole(top["format"], "format") != 1:
        raise ManifestError("its format is not 1, the only one this verifier knows")
    for key in ("shoal_version", "method"):
        _text(top[key], key)
    _mapping(top["method_parameters"], "method_parameters")
    declared = _mapping(top["attributes"], "attributes")
    columns = _columns(top["parts"], declared)
    attributes = tuple(_attribute(name, declared[name]) for name in columns)
    if not any(attribute.role == "quasi" for attribute in attributes):
        raise ManifestError("it declares no quasi attribute, so there are no classes to check")
    missing = _mapping(top["missing"], "missing")
    _keys(missing, "missing", ("policy", "tokens", "dropped"), ())
    if missing["policy"] not in ("category", "drop"):
        raise ManifestError("missing.policy is neither 'category' nor 'drop'")
    dropped = _whole(missing["dropped"], "missing.dropped")
    if dropped and missing["policy"] != "drop":
        raise ManifestError("missing.dropped is not 0 although the policy is not 'drop'")
    _check_complete(attributes, missing["policy"])
    _utility(top.get("utility", {}))
    levels = _levels(top["levels"], attributes) if "levels" in top else {}
    guarantees = _sequence(top["guarantees"], "guarantees")
    if not guarantees:
        raise ManifestError("guarantees is empty: it promises nothing")
    sensitive = tuple(attribute.name for attribute in attributes if attribute.role == "sensitive")
    promises = []
    for place, item in enumerate(guarantees):
        entry = _mapping(item, f"guarantees[{place}]")
        _keys(entry, f"guarantees[{place}]", ("model", "parameters", "achieved"), ())
        model = _text(entry["model"], f"guarantees[{place}].model")
        parameters = _mapping(entry["parameters"], f"guarantees[{place}].parameters")
        claimed = entry["achieved"]
        if claimed is not None and (isinstance(claimed, bool) or not isinstance(claimed, int | float)):
            raise ManifestError(f"guarantees[{place}].achieved is not a number")
        promises.append(read_promise(model, parameters, claimed, sensitive))
    return Manifest(
        attributes=attributes,
        promises=tuple(promises),
        rows=_whole(top["rows"], "rows"),
        withheld=_whole(top["withheld"], "withheld"),
        missing_policy=str(missing["policy"]),
        missing_tokens=_texts(missing["tokens"], "missing.tokens"),
        dropped=dropped,
        data=_data(top.get("data")) if with_file else None,
        populations=_populations(top.get("populations")),
        readme=_sha256(top["readme"], "readme") if "readme" in top else None,
        levels=levels,
    )


def _columns(parts: object, declared: Mapping[str, Any]) -> tuple[str, ...]:
    groups = _sequence(parts, "parts")
    if len(groups) != 1:
        raise ManifestError("its parts are not one group of columns; only such releases can be checked")
    columns = _texts(groups[0], "parts[0]")
    if len(set(columns)) != len(columns) or set(columns) != set(declared):
        raise ManifestError("parts and attributes do not name the same columns, each once")
    return columns


def _attribute(name: str, raw: object) -> Attribute:
    where = f"attributes.{name}"
    entry = _mapping(raw, where)
    _keys(entry, where, ("role", "kind"), _ATTRIBUTE_KEYS)
    role, kind = entry["role"], entry["kind"]
    if role not in ROLES:
        raise ManifestError(f"{where}.role is none of {', '.join(ROLES)}")
    if kind not in KINDS:
        raise ManifestError(f"{where}.kind is none of {', '.join(KINDS)}")
    labels = None
    if "labels" in entry:
        if role == "insensitive":
            raise ManifestError(f"{where} is insensitive and yet has labels")
        covers = _mapping(entry["labels"], f"{where}.labels")
        labels = _covers(covers, f"a cover in {where}.labels")
        if role == "sensitive" and kind != "category":
            raise ManifestError(f"{where} is sensitive and has labels, and yet its kind is not 'category'")
    elif role == "quasi":
        raise ManifestError(f"{where} is quasi and has no labels")
    taxonomy = None
    if "taxonomy" in entry:
        taxonomy = _mapping(entry["taxonomy"], f"{where}.taxonomy")
        _tree(taxonomy, where)
    if "description" in entry:
        _text(entry["description"], f"{where}.description")
    length = _whole(entry["length"], f"{where}.length") if "length" in entry else None
    return Attribute(
        name=name,
        role=role,
        kind=kind,
        labels=labels,
        order=_texts(entry["order"], f"{where}.order") if "order" in entry else None,
        taxonomy=taxonomy,
        length=length,
        format=_text(entry["format"], f"{where}.format") if "format" in entry else None,
    )


def _check_complete(attributes: Sequence[Attribute], policy: str) -> None:
    """Where rows with missing values are dropped, no sensitive label may count them among the values it covers."""
    for attribute in attributes:
        flagged = any("missing" in cover for cover in (attribute.labels or {}).values())
        if policy == "drop" and attribute.role == "sensitive" and flagged:
            raise ManifestError(f"attributes.{attribute.name}.labels cover missing values, which were dropped")


def _utility(raw: object) -> None:
    for name, figure in _mapping(raw, "utility").items():
        where = f"utility.{name}"
        if name in _SHARES and not (isinstance(figure, int | float) and -1e-9 <= figure <= 1 + 1e-9):
            raise ManifestError(f"{where} is not between 0 and 1")
        for number in _mapping(figure, where).values() if isinstance(figure, Mapping) else (figure,):
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise ManifestError(f"{where} is neither a finite number nor an object of such numbers")


def _levels(raw: object, attributes: Sequence[Attribute]) -> dict[str, int]:
    levels = _mapping(raw, "levels")
    if set(levels) != {attribute.name for attribute in attributes if attribute.role == "quasi"}:
        raise ManifestError("levels does not name just the quasi attributes")
    return {name: _whole(level, f"levels.{name}") for name, level in levels.items()}


def _covers(covers: Mapping[str, Any], what: str) -> dict[str, Mapping[str, Any]]:
    if not all(isinstance(cover, Mapping) for cover in covers.values()):
        raise ManifestError(f"{what} is not an object")
    # There are many covers of very few shapes.
    for keys in {tuple(cover) for cover in covers.values()}:
        _mapping(dict.fromkeys(keys), what)
    return dict(covers)


def _tree(taxonomy: Mapping[str, Any], where: str) -> None:
    if len(taxonomy) != 1:
        raise ManifestError(f"{where}.taxonomy has not exactly one root")
    level: list[Mapping[str, Any]] = [taxonomy]
    leaves: list[str] = []
    for _ in range(_MAX_DEPTH):
        following: list[Mapping[str, Any]] = []
        for node in level:
            for label, children in node.items():
                if _mapping(children, f"a node in {where}.taxonomy"):
                    following.append(children)
                else:
                    leaves.append(label)
        if not following:
            break
        level = following
    else:
        raise ManifestError(f"{where}.taxonomy is nested too deeply")
    if len(set(leaves)) != len(leaves):
        raise ManifestError(f"{where}.taxonomy has the same leaf twice")


def _data(raw: object) -> DataFile:
    entry = _mapping(raw, "data")
    _keys(entry, "data", ("file", "format", "sha256"), ("csv",))
    name = _text(entry["file"], "data.file")
    found = _FILE_NAME.fullmatch(name)
    if found is None or entry["format"] != found.group(1):
        raise ManifestError("data.file and data.format are neither data.csv and csv nor data.parquet and parquet")
    digest = _text(entry["sha256"], "data.sha256")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ManifestError("data.sha256 is not 64 hexadecimal digits")
    style = _mapping(entry.get("csv", {}), "data.csv")
    _keys(style, "data.csv", (), ("delimiter", "quote", "encoding"))
    texts = {key: _text(value, f"data.csv.{key}") for key, value in style.items()}
    if any(len(texts.get(key, ",")) != 1 for key in ("delimiter", "quote")):
        raise ManifestError("data.csv.delimiter and data.csv.quote must be one character each")
    return DataFile(name=name, format=found.group(1), sha256=digest, **texts)


def _sha256(raw: object, where: str) -> str:
    entry = _mapping(raw, where)
    _keys(entry, where, ("sha256",), ())
    return _text(entry["sha256"], f"{where}.sha256")


def _populations(raw: object) -> dict[str, str]:
    if raw is None:
        return {}
    found = {}
    for name, entry in _mapping(raw, "populations").items():
        digest = _mapping(entry, "an entry of populations").get("sha256")
        found[name] = _text(digest, "the sha256 of a population")
    return found


def _keys(entry: Mapping[str, Any], where: str, required: Sequence[str], optional: Sequence[str]) -> None:
    absent = [key for key in required if key not in entry]
    if absent:
        raise ManifestError(f"{where} lacks {', '.join(absent)}")
    unknown = len(set(entry) - set(required) - set(optional))
    if unknown:
        raise ManifestError(f"{where} has {unknown} keys that do not belong there")


def _mapping(raw: object, where: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping) or not all(isinstance(key, str) for key in raw):
        raise ManifestError(f"{where} is not an object")
    return raw


def _sequence(raw: object, where: str) -> Sequence[Any]:
    if not isinstance(raw, list | tuple):
        raise ManifestError(f"{where} is not a list")
    return raw


def _texts(raw: object, where: str) -> tuple[str, ...]:
    return tuple(_text(item, f"an entry of {where}") for item in _sequence(raw, where))


def _text(raw: object, where: str) -> str:
    if not isinstance(raw, str):
        raise ManifestError(f"{where} is not text")
    return raw


def _whole(raw: object, where: str) -> int:
    if isinstance(raw, bool) or not isinstance(raw, int) or raw < 0:
        raise ManifestError(f"{where} is not a whole number from 0 on")
    return raw
