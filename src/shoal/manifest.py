"""The written format of a release's manifest: strict models for its writer and for the verifier.

Unknown keys, nulls and values of another type are errors, so nothing can hide in a manifest. Only the shape of
each entry is declared here. The verifier checks whether entries fit together, and whether their claims are true. Models
and techniques declare their parameters beside their formulas and checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AllowInfNan,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    TypeAdapter,
    ValidationError,
    field_validator,
    model_validator,
)

from shoal.core.documents import AmbiguousJsonError, read_json
from shoal.core.wording import count_noun

FORMAT = 1
PAGES = {"readme": "README.md", "report": "report.html"}  # key -> the file whose digest is stated
_MAX_DEPTH = 100  # of a taxonomy
_MOST_LISTED = 1 << 24  # values that the spans of all labels of a column have
_PRIVATE = ("labels", "values", "ledger")  # below these keys no path is quoted

T = TypeVar("T")
Entry = TypeVar("Entry", bound="StrictEntry")
Listed = Annotated[tuple[T, ...], Strict(False)]  # a list of JSON, or a tuple of a manifest in memory
Count = Annotated[int, Field(ge=0, lt=2**53)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]


class ManifestError(Exception):
    """The manifest cannot be understood; the message says what and where, in one sentence, and quotes no value."""


class StrictEntry(BaseModel):
    """An object of JSON with just the declared keys, none of which is null unless it may be."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False, defer_build=True)
    may_be_null: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _refuse_nulls(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping):
            raise ValueError("is not an object")
        for key, value in raw.items():
            if value is None and key not in cls.may_be_null:
                raise ValueError("has a null instead of a value")
        return dict(raw)


class Guarantee(StrictEntry):
    """A promise, and the figure that the release claims to reach."""

    may_be_null: ClassVar[tuple[str, ...]] = ("achieved",)
    model: str
    parameters: dict[str, Any]
    achieved: Annotated[float, AllowInfNan(True)] | None
    counts: str | None = None  # the people that it is about: unit or household; None: records

    @field_validator("achieved")
    @classmethod
    def _refuse_nan(cls, achieved: float | None) -> float | None:
        if achieved is not None and math.isnan(achieved):
            raise ValueError("is not a number")
        return achieved


class Missing(StrictEntry):
    """The treatment of missing values."""

    policy: Literal["category", "drop"]
    tokens: Listed[str]
    dropped: Count

    @model_validator(mode="after")
    def _fits(self) -> Missing:
        if self.dropped and self.policy != "drop":
            raise ValueError("has dropped rows although the policy is not 'drop'")
        return self


class Reading(StrictEntry):
    """How values of the source were read, besides the texts that mean missing in every column."""

    missing_in: dict[str, Listed[str]] = {}
    decimal_comma: Listed[str] = ()
    trim: bool = False


class Attribute(StrictEntry):
    """One published column."""

    name: str  # its key in the manifest
    role: Literal["quasi", "sensitive", "insensitive"]
    kind: Literal["category", "number", "date", "prefix"]
    labels: dict[str, dict[str, Any]] | None = None  # label -> its cover
    order: Listed[str] | None = None
    taxonomy: dict[str, Any] | None = None
    length: Count | None = None  # prefixes: integer source values are filled up with zeros to this length
    format: str | None = None  # dates: how source texts write them, if not as ISO dates
    description: str | None = None
    defended: Literal[True] | None = None  # no value of a class exceeds tau and the base rate, hidden ones included

    @property
    def boxed(self) -> bool:
        """Whether labels that cover source values are published."""
        return self.labels is not None

    @property
    def covers(self) -> dict[str, dict[str, Any]]:
        """The cover of each label; empty for columns without labels."""
        return self.labels or {}

    @property
    def may_keep_missing(self) -> bool:
        """Whether rows may lack a label, because missing sensitive values are kept."""
        return self.boxed and self.role == "sensitive"

    @model_validator(mode="after")
    def _fits(self) -> Attribute:
        if self.boxed and self.role == "insensitive":
            raise ValueError("is insensitive and yet has labels")
        if self.defended and not (self.boxed and self.role == "sensitive"):
            raise ValueError("is defended, and yet has no labels of sensitive values")
        if self.taxonomy is not None:
            if len(self.taxonomy) != 1:
                raise ValueError("has a taxonomy without exactly one root")
            leaves = _list_leaves(self.taxonomy)
            if len(set(leaves)) != len(leaves):
                raise ValueError("has a taxonomy with the same leaf twice")
        return self


def _list_leaves(nodes: Mapping[str, Any], depth: int = 1) -> list[str]:
    """Return the leaves below some nodes of a taxonomy, each as often as it is there."""
    if depth > _MAX_DEPTH:
        raise ValueError("has a taxonomy that is nested too deeply")
    leaves: list[str] = []
    for label, children in nodes.items():
        if not isinstance(children, dict) or not all(isinstance(key, str) for key in children):
            raise ValueError("has a taxonomy with a node that is not an object")
        leaves += _list_leaves(children, depth + 1) if children else [label]
    return leaves


class DataFile(StrictEntry):
    """The file of the rows."""

    file: Literal["data.csv", "data.parquet"]
    format: Literal["csv", "parquet"]
    sha256: Digest

    @model_validator(mode="after")
    def _fits(self) -> DataFile:
        if self.file != f"data.{self.format}":
            raise ValueError("has a file and a format that do not fit")
        return self


class TableFile(StrictEntry):
    """One of the two tables of a bucketized release, written as the data file is."""

    file: str
    sha256: Digest


class Tables(StrictEntry):
    """The two tables of a bucketized release."""

    quasi: TableFile
    sensitive: TableFile


class AgreedFile(StrictEntry):
    """The plan of an agency by which the release was made."""

    file: Literal["plan.json"]
    sha256: Digest
    digest: Digest
    classes: Count


class FileDigest(StrictEntry):
    """The digest of a file that is given by nothing else."""

    sha256: Digest


class Sample(StrictEntry):
    """The share of the source's rows that were drawn, or of whom one row each was."""

    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    one_per: Literal["unit", "household"] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Sample:
        if (self.share is None) == (self.one_per is None):
            raise ValueError("has not one of share and one_per")
        return self


class About(StrictEntry):
    """Statements of the data holder about the release, for its recipients."""

    title: str | None = None
    owner: str | None = None
    purpose: str | None = None


class People(StrictEntry):
    """The source's columns that name people."""

    unit: str | None = None
    household: str | None = None


class Basket(StrictEntry):
    """How a column of baskets was unfolded."""

    separator: Annotated[str, Field(min_length=1)]
    groups: Annotated[Listed[Listed[str]], Field(min_length=1)]
    sensitive: Listed[str]


class Privacy(StrictEntry):
    """The parameters of differential privacy."""

    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)]


class Claim(StrictEntry):
    """A promise that no file can show to be kept."""

    model: str
    parameters: dict[str, Any]


class Spent(StrictEntry):
    """What a synthetic table is said to have cost."""

    epsilon: NotNegative
    delta: NotNegative
    rho: NotNegative | None = None


class Use(StrictEntry):
    """One use of the budget."""

    purpose: str
    scale: Positive
    loss: Positive


class DrawnRecords(StrictEntry):
    """How records were drawn: each with a probability, and kept if at least k drawn ones are alike."""

    share: Annotated[float, Field(gt=0, lt=1)]
    k: Annotated[int, Field(ge=1, lt=2**31)]


class Account(Privacy):
    """What a differentially private table says of its cost; one of drawn records has no ledger."""

    neighbours: Literal["tables that differ by one record, added or removed"]
    spent: Spent
    marginals: Listed[Annotated[tuple[str, ...], Strict(False)]]
    ledger: Listed[Use]
    sampled: DrawnRecords | None = None

    @model_validator(mode="after")
    def _fits(self) -> Account:
        if (self.spent.rho is None) != (self.delta == 0 or self.sampled is not None):
            raise ValueError("has a spent rho without a delta, or the other way round")
        if any(len(one) < 2 or len(set(one)) < len(one) for one in self.marginals):
            raise ValueError("has a marginal that is not of two or more different attributes")
        if len({frozenset(one) for one in self.marginals}) < len(self.marginals):
            raise ValueError("names a marginal twice")
        return self


def _check_lists(groups: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
    if not groups or not all(groups):
        raise ValueError("is empty, or one of its lists is")
    if any(len(set(group)) != len(group) for group in groups):
        raise ValueError("names an attribute twice in one list")
    return groups


def _check_named(techniques: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    if not all(isinstance(entry.get("technique"), str) for entry in techniques.values()):
        raise ValueError("does not name the technique of a column")
    return techniques


class Manifest(StrictEntry):
    """The description of a release for its recipients."""

    format: Literal[1]
    shoal_version: str
    method: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
    form: str = "classes"  # of the rows
    method_parameters: dict[str, Any]
    guarantees: Listed[Guarantee]
    parts: Annotated[Listed[Listed[str]], AfterValidator(_check_lists)]  # attributes that stay together in a row
    rows: Count
    withheld: Count
    missing: Missing
    attributes: dict[str, Attribute]
    data: DataFile | None = None
    populations: dict[str, FileDigest] = {}  # name in the parameters -> the table's digest
    levels: dict[str, Count] | None = None  # of a full-domain release
    readme: FileDigest | None = None
    report: FileDigest | None = None
    items: dict[str, Any] = {}  # column of baskets -> Basket
    agreed: AgreedFile | None = None
    techniques: Annotated[dict[str, dict[str, Any]], AfterValidator(_check_named)] = {}  # of changed columns
    sample: Sample | None = None
    about: About = About()
    reading: Reading | None = None  # of the source, if texts were cleaned
    people: People = People()
    claims: Listed[Claim] = ()
    synthetic: Account | None = None
    buckets: Count | None = None  # of a sliced release
    tables: Tables | None = None

    @field_validator("attributes", mode="before")
    @classmethod
    def _name_attributes(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping) or not all(isinstance(entry, Mapping) for entry in raw.values()):
            raise ValueError("is not an object of objects")
        if any("name" in entry for entry in raw.values()):
            raise ValueError("has 1 unexpected key")
        return {name: {**entry, "name": name} for name, entry in raw.items()}

    @model_validator(mode="after")
    def _fits(self) -> Manifest:
        if {name for part in self.parts for name in part} != set(self.attributes):
            raise ValueError("has parts and attributes that do not name the same columns")
        return self

    @property
    def file(self) -> str:
        return "data.csv" if self.data is None else self.data.file

    @property
    def sha256(self) -> str | None:
        return None if self.data is None else self.data.sha256

    @property
    def document(self) -> dict[str, Any]:
        """The manifest as a document of JSON, with the values of all labels listed."""
        found = self.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for attribute in found["attributes"].values():
            del attribute["name"]
        return found

    def names(self, *roles: str) -> list[str]:
        return [name for name, attribute in self.attributes.items() if not roles or attribute.role in roles]

    def change_roles(self, roles: Mapping[str, str]) -> Manifest:
        """Return the manifest with other roles of some attributes."""
        changed = {name: self.attributes[name].model_copy(update={"role": role}) for name, role in roles.items()}
        return self.model_copy(update={"attributes": {**self.attributes, **changed}})


def read_manifest(document: Manifest | Mapping[str, Any]) -> Manifest:
    """Return a manifest as it is written or held in memory, or raise a ManifestError that names the fault."""
    if isinstance(document, Manifest):
        return document
    return read_entry(Manifest, unpack_labels(document), "the manifest")


def describe_plain(attributes: Mapping[str, Mapping[str, Any]]) -> Manifest:
    """Return the manifest of a table with these attributes that is published as it is, and promises nothing."""
    nothing = {"shoal_version": "", "method_parameters": {}, "guarantees": [], "rows": 0, "withheld": 0}
    missing = {"policy": "category", "tokens": [""], "dropped": 0}
    plain = {**nothing, "format": FORMAT, "method": "plain", "form": "plain", "missing": missing}
    return read_manifest({**plain, "parts": [list(attributes)], "attributes": attributes})


def pack_labels(manifest: Mapping[str, Any]) -> dict[str, object]:
    """Return the manifest as it is written: values that many labels of a column list are listed once, in ``values``.

    A label then has the places there of its first value and of the one after its last, and so on for every run of
    values.

    >>> listed = {name: {"values": list(name)} for name in ("abcd", "bcd", "bc", "ab")}
    >>> packed = pack_labels({"attributes": {"town": {"labels": listed}}})
    >>> packed["attributes"]["town"]
    {'labels': {'abcd': [0, 4], 'bcd': [1, 4], 'bc': [1, 3], 'ab': [0, 2]}, 'values': ['a', 'b', 'c', 'd']}
    >>> unpack_labels(packed)["attributes"]["town"]["labels"] == listed
    True
    """
    return {**manifest, "attributes": {name: _pack(entry) for name, entry in manifest["attributes"].items()}}


def _pack(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    covers = entry.get("labels", {})
    lists = {label: cover["values"] for label, cover in covers.items() if cover.keys() == {"values"}}
    following = {one: other for listed in lists.values() for one, other in pairwise(listed)}
    known = dict.fromkeys(value for listed in lists.values() for value in listed)
    if sum(map(len, lists.values())) <= 2 * len(known):
        return entry
    values: dict[str, int] = {}  # value -> place, in an order in which lists are runs
    for value in (*(one for one in known if one not in following.values()), *known):
        while value is not None and value not in values:
            values[value] = len(values)
            value = following.get(value)
    packed = {label: _find_runs(listed, values) for label, listed in lists.items()}
    return {**entry, "labels": {**covers, **packed}, "values": list(values)}


def _find_runs(listed: Sequence[str], places: Mapping[str, int]) -> list[int]:
    """Return where each run of values begins and ends among all, one after another."""
    runs: list[int] = []
    for value in listed:
        if runs and runs[-1] == places[value]:
            runs[-1] += 1
        else:
            runs += [places[value], places[value] + 1]
    return runs


def unpack_labels(document: Any) -> Any:
    """Return a written manifest with the values of all labels listed; what cannot be understood is left as it is."""
    if not isinstance(document, dict) or not isinstance(document.get("attributes"), dict):
        return document
    return {**document, "attributes": {name: _unpack(entry) for name, entry in document["attributes"].items()}}


def _unpack(entry: Any) -> Any:
    if not isinstance(entry, dict) or not isinstance(entry.get("labels"), dict):
        return entry
    values, covers = entry.get("values"), entry["labels"]
    runs = {label: cover for label, cover in covers.items() if isinstance(cover, list)}
    if not isinstance(values, list) or not all(_are_runs(ends, len(values)) for ends in runs.values()):
        return entry
    if sum(sum(ends[1::2]) - sum(ends[::2]) for ends in runs.values()) > _MOST_LISTED:
        return entry
    rest = {key: value for key, value in entry.items() if key != "values"}
    rest["labels"] = covers | {
        label: {
            "values": [value for start, stop in zip(ends[::2], ends[1::2], strict=True) for value in values[start:stop]]
        }
        for label, ends in runs.items()
    }
    return rest


def _are_runs(ends: list[Any], n_values: int) -> bool:
    if len(ends) % 2 or not all(type(end) is int and 0 <= end <= n_values for end in ends):
        return False
    return all(start < stop for start, stop in zip(ends[::2], ends[1::2], strict=True))


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says, refusing what readers of it disagree on, or raise a ManifestError."""
    try:
        return read_json(text)
    except AmbiguousJsonError as fault:
        raise ManifestError(str(fault)) from None
    except ValueError:
        raise ManifestError("it is not valid JSON") from None


def read_entry(kind: type[Entry], raw: object, where: str) -> Entry:
    """Return an object of JSON as one of the models here, or raise a ManifestError that names the fault.

    >>> read_entry(Sample, {"share": 2}, "sample")
    Traceback (most recent call last):
    shoal.manifest.ManifestError: sample.share should be less than 1
    """
    try:
        entry: Entry = _adapter(kind).validate_python(raw)
    except ValidationError as error:
        raise ManifestError(_explain(error, where)) from None
    return entry


_adapter = cache(TypeAdapter)  # building one takes longer than reading a manifest


def _explain(error: ValidationError, where: str) -> str:
    """State the first fault in one sentence; unexpected keys are counted, never quoted."""
    faults = error.errors(include_url=False, include_input=False)
    first = faults[0]
    above = first["loc"][:-1]
    alike = [fault["loc"] for fault in faults if fault["type"] == first["type"] and fault["loc"][:-1] == above]
    if first["type"] == "missing":
        return f"{_path(where, above)} lacks {', '.join(str(place[-1]) for place in alike)}"
    if first["type"] == "extra_forbidden":
        return f"{_path(where, above)} has {count_noun(len(alike), 'unexpected key')}"
    path = _path(where, first["loc"])
    if first["type"] == "value_error":
        return f"{path} {first['msg'].removeprefix('Value error, ')}"
    return f"{path} {first['msg'].removeprefix('Input ')}"


def _path(where: str, places: Sequence[int | str]) -> str:
    """Write where something stands, as far as keys are names of the format or of columns."""
    path = "" if where == "the manifest" else where
    for place in places:
        if place in ("[key]", "int", "float"):  # what pydantic adds
            break
        path += f"[{place}]" if isinstance(place, int) else f".{place}" if path else str(place)
        if place in _PRIVATE:
            break
    return path or where
