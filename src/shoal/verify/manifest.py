"""Reading a manifest as a stranger would: nothing in it is believed before it has the right shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import pyarrow as pa

from shoal.verify.account import Account, read_account, read_claims
from shoal.verify.attributes import Attribute, read_attribute
from shoal.verify.contents import TEXT, common_type
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
from shoal.verify.kinds import (
    SLICED_KEYS,
    Averaging,
    check_agreed,
    check_method,
    check_parts,
    check_sliced_keys,
    check_synthetic,
    labels_of,
    may_promise_nothing,
    read_averaging,
    read_sample,
)
from shoal.verify.promises import Promise, read_promise
from shoal.verify.result import Claim
from shoal.verify.techniques.base import Declared
from shoal.verify.techniques.declaring import read_techniques

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
_OPTIONAL = (
    "data",
    "utility",
    "populations",
    "levels",
    "readme",
    "report",
    "items",
    "agreed",
    "techniques",
    "sample",
    "people",
    "claims",
    "synthetic",
)
_PAGES = {"readme": "README.md", "report": "report.html"}  # key -> name of the file
_FIGURES = ("um", "ncp", "loss")  # of utility
_LOSSES = "attribute-loss"  # another, by attributes


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
    pages: Mapping[str, str] = field(default_factory=dict)  # name -> sha256 of what people read
    levels: Mapping[str, int] = field(default_factory=dict)  # of a full-domain release
    items: Mapping[str, Any] = field(default_factory=dict)  # how columns of baskets were unfolded; see items.py
    parts: tuple[tuple[str, ...], ...] = ()  # attributes that stay together in a row
    buckets: int = 0  # of a sliced release
    tables: Mapping[str, DataFile] = field(default_factory=dict)  # the two files of a bucketized release
    agreed: AgreedFile | None = None  # the plan of a release by an agency's plan
    method: str = ""
    techniques: Mapping[str, Declared] = field(default_factory=dict)  # of changed columns
    sample: float | None = None  # the share of the source's rows that were drawn
    one_per: str | None = None  # if one row of each person, or household, was drawn
    people: Mapping[str, str] = field(default_factory=dict)  # unit, household -> the source's column that names them
    averaging: Averaging | None = None  # if quasi attributes are published as centres of groups
    account: Account | None = None  # of a synthetic table
    claims: tuple[Claim, ...] = ()
    utility: Mapping[str, float] = field(default_factory=dict)  # figures for the whole table
    losses: Mapping[str, float] = field(default_factory=dict)  # the figure that is told by attributes

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

    def averaged(self, attribute: Attribute) -> bool:
        """Whether what is published of an attribute is the centre of a group of rows."""
        return self.averaging is not None and attribute.role == "quasi"

    def traced(self, attribute: Attribute) -> bool:
        """Whether what a row publishes of an attribute follows from its source row, so that rows are matched by it."""
        declared = self.techniques.get(attribute.name)
        return not self.averaged(attribute) and (declared is None or declared.determined)

    def kind_of(self, name: str, *types: pa.DataType) -> pa.DataType:
        """Return the type in which columns of an attribute are compared; numbers of techniques always as numbers."""
        kind = reduce(common_type, types, types[0])
        declared = self.techniques.get(name)
        return pa.float64() if kind == TEXT and declared is not None and declared.numeric else kind

    @property
    def complete(self) -> tuple[str, ...]:
        """The attributes that a row must have a value of, where others are dropped; none whose values changed rows."""
        moved = {name for name, declared in self.techniques.items() if declared.moved}
        return tuple(a.name for a in self.attributes if a.role != "insensitive" and a.name not in moved)

    @property
    def moved_complete(self) -> tuple[str, ...]:
        """The attributes that a row must have a value of, and whose values changed rows, missing ones too."""
        settled = self.complete
        return tuple(a.name for a in self.attributes if a.role != "insensitive" and a.name not in settled)

    def of_role(self, role: str) -> tuple[Attribute, ...]:
        """Return the attributes of one role, in the order of the columns."""
        return tuple(attribute for attribute in self.attributes if attribute.role == role)


def read_manifest(raw: object, *, with_file: bool) -> Manifest:
    """Return the manifest, or raise a ManifestError that says what is wrong with it."""
    top = mapping(raw, "the manifest")
    check_keys(top, "the manifest", _REQUIRED, (*_OPTIONAL, *SLICED_KEYS))
    if whole(top["format"], "format") != 1:
        raise ManifestError("its format is not 1, the only one this verifier knows")
    text_of(top["shoal_version"], "shoal_version")
    method = text_of(top["method"], "method")
    parameters = mapping(top["method_parameters"], "method_parameters")
    declared = mapping(top["attributes"], "attributes")
    parts = _parts(top["parts"], declared)
    sliced = len(parts) > 1
    check_sliced_keys(top, sliced=sliced)
    check_synthetic(top)
    columns = dict.fromkeys(name for part in parts for name in part)
    labels = labels_of(method, sliced=sliced)
    attributes = tuple(read_attribute(name, declared[name], labels=labels) for name in columns)
    check_method(method, top, attributes)
    promised = bool(sequence(top["guarantees"], "guarantees"))
    if not promised and not may_promise_nothing(method):
        raise ManifestError("guarantees is empty: it promises nothing")
    if not any(attribute.role == "quasi" for attribute in attributes) and (promised or not may_promise_nothing(method)):
        raise ManifestError("it declares no quasi attribute, so there are no classes to check")
    agreed = read_agreed(top["agreed"]) if "agreed" in top else None
    check_agreed(top, with_file=with_file)
    if sliced:
        check_parts(parts, attributes, overlapping=parameters.get("overlapping") is True)
    missing = mapping(top["missing"], "missing")
    check_keys(missing, "missing", ("policy", "tokens", "dropped"), ())
    if missing["policy"] not in ("category", "drop"):
        raise ManifestError("missing.policy is neither 'category' nor 'drop'")
    dropped = whole(missing["dropped"], "missing.dropped")
    if dropped and missing["policy"] != "drop":
        raise ManifestError("missing.dropped is not 0 although the policy is not 'drop'")
    _check_complete(attributes, missing["policy"])
    utility = mapping(top.get("utility", {}), "utility")
    check_keys(utility, "utility", (*_FIGURES, _LOSSES) if utility else (), ())
    sensitive = tuple(attribute.name for attribute in attributes if attribute.role == "sensitive")
    data = read_data(top.get("data")) if with_file else None
    account = read_account(top["synthetic"], tuple(columns), parameters) if "synthetic" in top else None
    people = _people(top.get("people", {}))
    share, one_per = read_sample(top["sample"]) if "sample" in top else (None, None)
    manifest = Manifest(
        attributes=attributes,
        promises=_promises(top["guarantees"], sensitive, people, agreed=agreed is not None),
        rows=whole(top["rows"], "rows"),
        withheld=whole(top["withheld"], "withheld"),
        missing_policy=str(missing["policy"]),
        missing_tokens=texts_of(missing["tokens"], "missing.tokens"),
        dropped=dropped,
        data=data,
        populations=_populations(top.get("populations")),
        pages={name: read_digest(top[key], key) for key, name in _PAGES.items() if key in top},
        items=mapping(top.get("items", {}), "items"),
        levels=_levels(top["levels"], attributes) if "levels" in top else {},
        parts=parts,
        buckets=whole(top["buckets"], "buckets") if sliced else 0,
        tables=read_tables(top["tables"], data) if data is not None and "tables" in top else {},
        agreed=agreed,
        method=method,
        techniques=read_techniques(top.get("techniques", {}), attributes),
        sample=share,
        one_per=one_per,
        people=people,
        averaging=read_averaging(method, parameters),
        account=account,
        claims=read_claims(top.get("claims", []), account),
        utility=_shares({name: figure for name, figure in utility.items() if name != _LOSSES}, "utility"),
        losses=_shares(utility.get(_LOSSES, {}), f"utility.{_LOSSES}"),
    )
    if sliced and len(set(manifest.columns)) != len(manifest.columns):
        raise ManifestError("two columns of its parts, or one and the bucket's, have the same name")
    if any(promise.counts is not None for promise in manifest.promises):
        _check_followed(manifest)
    if one_per is not None and one_per not in people:
        raise ManifestError("sample takes one row of each of whom 'people' does not name the column")
    return manifest


def _people(raw: object) -> dict[str, str]:
    """Return the source's columns that name people."""
    entries = mapping(raw, "people")
    check_keys(entries, "people", (), ("unit", "household"))
    return {key: text_of(entry, f"people.{key}") for key, entry in entries.items()}


def _check_followed(manifest: Manifest) -> None:
    """People can be counted where the rows of a person are followed into classes, whose values are the source's."""
    told = [attribute for attribute in manifest.attributes if attribute.role != "insensitive"]
    changed = any(not manifest.traced(one) or (one.role == "sensitive" and one.boxed) for one in told)
    if changed or manifest.sliced or manifest.agreed is not None:
        raise ManifestError("it counts people, and their rows cannot be followed into its classes")


def _promises(raw: object, sensitive: Sequence[str], people: Mapping[str, str], *, agreed: bool) -> tuple[Promise, ...]:
    promises = []
    for place, item in enumerate(sequence(raw, "guarantees")):
        entry = mapping(item, f"guarantees[{place}]")
        check_keys(entry, f"guarantees[{place}]", ("model", "parameters", "achieved"), ("counts",))
        model = text_of(entry["model"], f"guarantees[{place}].model")
        parameters = mapping(entry["parameters"], f"guarantees[{place}].parameters")
        achieved = entry["achieved"]
        claimed = None if achieved is None else number(achieved, f"guarantees[{place}].achieved")
        promise = read_promise(model, parameters, claimed, sensitive, agreed=agreed)
        if "counts" in entry:
            counts = text_of(entry["counts"], f"guarantees[{place}].counts")
            if counts not in people:
                raise ManifestError(f"guarantees[{place}] counts people of whom 'people' does not name the column")
            promise = replace(promise, counts=counts)
        promises.append(promise)
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


def _check_complete(attributes: Sequence[Attribute], policy: str) -> None:
    """Where rows with missing values are dropped, no sensitive label may count them among the values it covers."""
    for attribute in attributes:
        flagged = any("missing" in cover for cover in (attribute.labels or {}).values())
        if policy == "drop" and attribute.role == "sensitive" and flagged:
            raise ManifestError(f"attributes.{attribute.name}.labels cover missing values, which were dropped")


def _shares(raw: object, where: str) -> dict[str, float]:
    figures = {name: number(figure, f"{where}.{name}") for name, figure in mapping(raw, where).items()}
    if not all(-1e-9 <= figure <= 1 + 1e-9 for figure in figures.values()):
        raise ManifestError(f"{where} has a figure that is not between 0 and 1")
    return figures


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
