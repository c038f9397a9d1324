"""Reading a manifest as a stranger would: nothing in it is believed before it has the right shape."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.verify.attributes import Attribute, read_attribute
from shoal.verify.fields import (
    ManifestError,
    check_keys,
    digest_of,
    mapping,
    number,
    sequence,
    text_of,
    texts_of,
    whole,
)
from shoal.verify.files import AgreedFile, DataFile, read_agreed, read_data, read_digest, read_tables
from shoal.verify.promises import Promise, read_promise

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
_OPTIONAL = ("data", "utility", "populations", "levels", "readme", "items", "agreed")
_SLICED = ("buckets", "tables")  # of sliced releases only
_SHARES = ("um", "ncp", "loss")  # measures that are shares


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
    items: Mapping[str, Any] = field(default_factory=dict)  # how columns of baskets were unfolded; see items.py
    parts: tuple[tuple[str, ...], ...] = ()  # attributes that stay together in a row
    buckets: int = 0  # of a sliced release
    tables: Mapping[str, DataFile] = field(default_factory=dict)  # the two files of a bucketized release
    agreed: AgreedFile | None = None  # the plan of a release by an agency's plan

    @property
    def sliced(self) -> bool:
        """Whether only values of one part of a row belong together."""
        return len(self.parts) > 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the file; one by a plan begins with the class, a sliced one with the bucket.

        A sliced one may repeat attributes.
        """
        if not self.sliced:
            leading = () if self.agreed is None else ("class",)
            return (*leading, *(attribute.name for attribute in self.attributes))
        return ("bucket", *(column for part in self.part_columns for column in part))

    @property
    def part_columns(self) -> tuple[tuple[str, ...], ...]:
        """The columns of every part: the n-th repetition of an attribute is ``name (n)``."""
        met: dict[str, int] = {}
        found = []
        for part in self.parts:
            for name in part:
                met[name] = met.get(name, 0) + 1
            found.append(tuple(name if met[name] == 1 else f"{name} ({met[name]})" for name in part))
        return tuple(found)

    def of_role(self, role: str) -> tuple[Attribute, ...]:
        """Return the attributes of one role, in the order of the columns."""
        return tuple(attribute for attribute in self.attributes if attribute.role == role)


def read_manifest(raw: object, *, with_file: bool) -> Manifest:
    """Return the manifest, or raise a ManifestError that says what is wrong with it."""
    top = mapping(raw, "the manifest")
    check_keys(top, "the manifest", _REQUIRED, (*_OPTIONAL, *_SLICED))
    if whole(top["format"], "format") != 1:
        raise ManifestError("its format is not 1, the only one this verifier knows")
    for key in ("shoal_version", "method"):
        text_of(top[key], key)
    method = mapping(top["method_parameters"], "method_parameters")
    declared = mapping(top["attributes"], "attributes")
    parts = _parts(top["parts"], declared)
    sliced = len(parts) > 1
    _check_sliced_keys(top, sliced)
    columns = dict.fromkeys(name for part in parts for name in part)
    attributes = tuple(read_attribute(name, declared[name], sliced=sliced) for name in columns)
    if not any(attribute.role == "quasi" for attribute in attributes):
        raise ManifestError("it declares no quasi attribute, so there are no classes to check")
    agreed = read_agreed(top["agreed"]) if "agreed" in top else None
    _check_agreed(top, with_file=with_file)
    if sliced:
        _check_parts(parts, attributes, overlapping=method.get("overlapping") is True)
    missing = mapping(top["missing"], "missing")
    check_keys(missing, "missing", ("policy", "tokens", "dropped"), ())
    if missing["policy"] not in ("category", "drop"):
        raise ManifestError("missing.policy is neither 'category' nor 'drop'")
    dropped = whole(missing["dropped"], "missing.dropped")
    if dropped and missing["policy"] != "drop":
        raise ManifestError("missing.dropped is not 0 although the policy is not 'drop'")
    _check_complete(attributes, missing["policy"])
    _utility(top.get("utility", {}))
    sensitive = tuple(attribute.name for attribute in attributes if attribute.role == "sensitive")
    data = read_data(top.get("data")) if with_file else None
    manifest = Manifest(
        attributes=attributes,
        promises=_promises(top["guarantees"], sensitive, agreed=agreed is not None),
        rows=whole(top["rows"], "rows"),
        withheld=whole(top["withheld"], "withheld"),
        missing_policy=str(missing["policy"]),
        missing_tokens=texts_of(missing["tokens"], "missing.tokens"),
        dropped=dropped,
        data=data,
        populations=_populations(top.get("populations")),
        readme=read_digest(top["readme"], "readme") if "readme" in top else None,
        items=mapping(top.get("items", {}), "items"),
        levels=_levels(top["levels"], attributes) if "levels" in top else {},
        parts=parts,
        buckets=whole(top["buckets"], "buckets") if sliced else 0,
        tables=read_tables(top["tables"], data) if data is not None and "tables" in top else {},
        agreed=agreed,
    )
    if sliced and len(set(manifest.columns)) != len(manifest.columns):
        raise ManifestError("two columns of its parts, or one and the bucket's, have the same name")
    return manifest


def _promises(raw: object, sensitive: Sequence[str], *, agreed: bool) -> tuple[Promise, ...]:
    guarantees = sequence(raw, "guarantees")
    if not guarantees:
        raise ManifestError("guarantees is empty: it promises nothing")
    promises = []
    for place, item in enumerate(guarantees):
        entry = mapping(item, f"guarantees[{place}]")
        check_keys(entry, f"guarantees[{place}]", ("model", "parameters", "achieved"), ())
        model = text_of(entry["model"], f"guarantees[{place}].model")
        parameters = mapping(entry["parameters"], f"guarantees[{place}].parameters")
        achieved = entry["achieved"]
        claimed = None if achieved is None else number(achieved, f"guarantees[{place}].achieved")
        promises.append(read_promise(model, parameters, claimed, sensitive, agreed=agreed))
    return tuple(promises)


def _parts(raw: object, declared: Mapping[str, Any]) -> tuple[tuple[str, ...], ...]:
    groups = sequence(raw, "parts")
    parts = tuple(texts_of(group, f"parts[{place}]") for place, group in enumerate(groups))
    if not parts or not all(parts):
        raise ManifestError("parts, or one of them, is empty")
    if any(len(set(part)) != len(part) for part in parts):
        raise ManifestError("one of its parts names an attribute twice")
    if {name for part in parts for name in part} != set(declared):
        raise ManifestError("parts and attributes do not name the same columns")
    return parts


def _check_parts(parts: Sequence[Sequence[str]], attributes: Sequence[Attribute], *, overlapping: bool) -> None:
    """Parts overlap only where that is declared, in quasi attributes published as they are or the sensitive one."""
    by_name = {attribute.name: attribute for attribute in attributes}
    named = [name for part in parts for name in part]
    repeated = sorted({name for name in named if named.count(name) > 1})
    if repeated and not overlapping:
        raise ManifestError("its parts overlap, and method_parameters does not say 'overlapping'")
    sensitive = [attribute.name for attribute in attributes if attribute.role == "sensitive"]
    for name in repeated:
        if by_name[name].role == "insensitive" or by_name[name].boxed:
            raise ManifestError(f"several parts have {name!r}, which is insensitive or published as labels")
        if name in sensitive and len(sensitive) > 1:
            raise ManifestError(f"several parts have {name!r}, which is not the only sensitive attribute")
    for place, part in enumerate(parts):
        if len({by_name[name].boxed for name in part if by_name[name].role == "quasi"}) > 1:
            raise ManifestError(f"parts[{place}] has quasi attributes with labels and others without")
    for attribute in attributes:
        if attribute.role == "sensitive" and attribute.boxed:
            raise ManifestError(f"attributes.{attribute.name} is sensitive and has labels in a sliced release")


def _check_sliced_keys(top: Mapping[str, Any], sliced: bool) -> None:
    if not sliced and any(key in top for key in _SLICED):
        raise ManifestError("it has buckets or tables, and yet all attributes are in one part")
    if sliced and "buckets" not in top:
        raise ManifestError("it has several parts and does not say how many buckets")
    if sliced != (top["method"] in ("slicing", "anatomy")):
        raise ManifestError("its method does not make so many parts")
    if sliced and "levels" in top:
        raise ManifestError("it has several parts and yet levels, which only classes have")


def _check_agreed(top: Mapping[str, Any], *, with_file: bool) -> None:
    """A release by a plan has all records of its source, whole, and one promise: the plan's."""
    if ("agreed" in top) != (top["method"] == "agreed"):
        raise ManifestError("its method is 'agreed' and it names no plan, or the other way round")
    if "agreed" not in top:
        return
    if not with_file:
        raise ManifestError("it names a plan, which is checked in the folder of the release only")
    if any(key in top for key in (*_SLICED, "levels", "items", "populations")):
        raise ManifestError("it names a plan and yet has what only other releases have")
    if top["withheld"] != 0 or top["missing"] != {"policy": "category", "tokens": [""], "dropped": 0}:
        raise ManifestError("it names a plan and yet left records out, or reads values as missing")
    if len(sequence(top["guarantees"], "guarantees")) != 1:
        raise ManifestError("it names a plan and does not promise just what that does")


def _check_complete(attributes: Sequence[Attribute], policy: str) -> None:
    """Where rows with missing values are dropped, no sensitive label may count them among the values it covers."""
    for attribute in attributes:
        flagged = any("missing" in cover for cover in (attribute.labels or {}).values())
        if policy == "drop" and attribute.role == "sensitive" and flagged:
            raise ManifestError(f"attributes.{attribute.name}.labels cover missing values, which were dropped")


def _utility(raw: object) -> None:
    for name, figure in mapping(raw, "utility").items():
        where = f"utility.{name}"
        several = mapping(figure, where).values() if isinstance(figure, Mapping) else (figure,)
        if not all(math.isfinite(number(one, where)) for one in several):
            raise ManifestError(f"{where} is not finite")
        if name in _SHARES and (isinstance(figure, Mapping) or not -1e-9 <= figure <= 1 + 1e-9):
            raise ManifestError(f"{where} is not between 0 and 1")


def _levels(raw: object, attributes: Sequence[Attribute]) -> dict[str, int]:
    levels = mapping(raw, "levels")
    if set(levels) != {attribute.name for attribute in attributes if attribute.role == "quasi"}:
        raise ManifestError("levels does not name just the quasi attributes")
    return {name: whole(level, f"levels.{name}") for name, level in levels.items()}


def _populations(raw: object) -> dict[str, str]:
    if raw is None:
        return {}
    found = {}
    for name, entry in mapping(raw, "populations").items():
        digest = mapping(entry, "an entry of populations").get("sha256")
        found[name] = digest_of(digest, "the sha256 of a population")
    return found
