"""What a manifest claims: its entries have the written format, and fit together and to the method's form of release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from shoal.manifest import Attribute, DataFile, ManifestError, StrictEntry, read_entry
from shoal.manifest import Manifest as Written
from shoal.verify.promises import Promise, read_promise
from shoal.verify.result import Claim

if TYPE_CHECKING:
    from shoal.verify.techniques.base import Declared

CLASSES, SLICES, AVERAGES, PLAIN, AGREED = "classes", "slices", "averages", "plain", "agreed"
PRIVATE = ("synthetic", "safepub")
FORMS = (CLASSES, SLICES, AVERAGES, PLAIN, AGREED, *PRIVATE)
GROUP = "shoal.verified-forms"  # of entry points: each is a ``FormCheck`` for another form


class Averaging(StrictEntry):
    """How the centres of groups were written, among the other parameters of the method."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="ignore")
    numbers: Literal["mean", "median"]
    decimals: Annotated[int, Field(ge=0, le=9)]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A well-formed manifest, whose claims are still to be checked."""

    written: Written
    attributes: tuple[Attribute, ...]  # in the order of the columns
    promises: tuple[Promise, ...]
    rows: int
    withheld: int
    missing_policy: str
    missing_tokens: tuple[str, ...]
    dropped: int
    data: DataFile | None
    parts: tuple[tuple[str, ...], ...]  # attributes that stay together in a row
    buckets: int  # of a sliced release
    tables: Mapping[str, DataFile]  # the two files of a bucketized release
    techniques: Mapping[str, Declared]  # of changed columns
    sample: float | None  # the share of the source's rows that were drawn
    one_per: str | None  # if one row of each person, or household, was drawn
    people: Mapping[str, str]  # unit, household -> the source's column that names them
    averaging: Averaging | None  # if quasi attributes are published as centres of groups
    claims: tuple[Claim, ...]

    @property
    def sliced(self) -> bool:
        """Whether only values of one part of a row belong together."""
        return len(self.parts) > 1

    @property
    def numbered(self) -> str:
        """The kind of number that the witness has for every source row: class or bucket."""
        return "bucket" if self.sliced else "class"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the file; one by a plan begins with the class, a sliced one with the bucket.

        A sliced one may repeat attributes.
        """
        if not self.sliced:
            leading = () if self.written.agreed is None else ("class",)
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

    def is_averaged(self, attribute: Attribute) -> bool:
        """Whether the attribute is published as centres of groups of rows."""
        return self.averaging is not None and attribute.role == "quasi"

    def is_traced(self, attribute: Attribute) -> bool:
        """Whether a row's published value follows from its source row, so rows can be matched by it."""
        declared = self.techniques.get(attribute.name)
        return not self.is_averaged(attribute) and (declared is None or declared.determined)

    @property
    def labelled(self) -> tuple[Attribute, ...]:
        """The attributes that are published as labels, in the order of the columns."""
        return tuple(attribute for attribute in self.attributes if attribute.boxed)

    @property
    def complete(self) -> tuple[str, ...]:
        """Attributes whose missing values drop a row, without attributes whose values changed rows."""
        moved = {name for name, declared in self.techniques.items() if declared.moved}
        return tuple(a.name for a in self.attributes if a.role != "insensitive" and a.name not in moved)

    @property
    def moved_complete(self) -> tuple[str, ...]:
        """Attributes whose missing values drop a row, and whose values, missing ones too, changed rows."""
        settled = self.complete
        return tuple(a.name for a in self.attributes if a.role != "insensitive" and a.name not in settled)

    def of_role(self, role: str) -> tuple[Attribute, ...]:
        """Return the attributes of one role, in the order of the columns."""
        return tuple(attribute for attribute in self.attributes if attribute.role == role)


def read_manifest(raw: object, *, with_file: bool) -> Manifest:
    """Return the manifest, or raise a ManifestError that names the fault."""
    written = read_entry(Written, raw, "the manifest")
    demand(not with_file or written.data is not None, "the manifest lacks data")
    columns = dict.fromkeys(name for part in written.parts for name in part)
    attributes, account = tuple(written.attributes[name] for name in columns), written.synthetic
    for check in (_check_form, _check_sliced, _check_synthetic, _check_labels, _check_promises):
        check(written)
    _check_agreed(written, with_file=with_file)
    techniques: Mapping[str, Declared] = {}
    claims: tuple[Claim, ...] = ()
    averaging: Averaging | None = None
    if written.techniques:
        from shoal.verify.techniques.declared import read_techniques  # what few releases need is loaded for these only

        techniques = read_techniques(written.techniques, attributes)
    if written.claims or account is not None:
        from shoal.verify.account import check_asked, read_claims

        if account is not None:
            check_asked(account, tuple(columns), written.method_parameters)
        claims = read_claims(written.claims, account)
    if written.form == AVERAGES:
        averaging = read_entry(Averaging, written.method_parameters, "method_parameters")
    people, sample = written.people.model_dump(exclude_none=True), written.sample
    manifest = Manifest(
        written=written,
        attributes=attributes,
        promises=_read_promises(written, [one.name for one in attributes if one.role == "sensitive"], people),
        rows=written.rows,
        withheld=written.withheld,
        missing_policy=written.missing.policy,
        missing_tokens=written.missing.tokens,
        dropped=written.missing.dropped,
        data=written.data if with_file else None,
        parts=written.parts,
        buckets=written.buckets or 0,
        tables=_read_tables(written) if with_file else {},
        techniques=techniques,
        sample=None if sample is None else sample.share,
        one_per=None if sample is None else sample.one_per,
        people=people,
        averaging=averaging,
        claims=claims,
    )
    repeated = manifest.sliced and len(set(manifest.columns)) < len(manifest.columns)
    demand(not repeated, "two columns of its parts, or one and the bucket's, have the same name")
    if any(promise.counts is not None for promise in manifest.promises):
        _check_followed(manifest)
    unnamed = manifest.one_per is not None and manifest.one_per not in people
    demand(not unnamed, "sample takes one row of each of whom 'people' does not name the column")
    return manifest


def demand(holds: bool, otherwise: str) -> None:
    """Raise a ManifestError with this sentence unless something holds."""
    if not holds:
        raise ManifestError(otherwise)


def may_promise_nothing(form: str) -> bool:
    """Whether a release may have no guarantees: its values are original values, or no person's."""
    return form in (PLAIN, *PRIVATE)


def _check_form(written: Written) -> None:
    """The form is known, and levels name the quasi-identifiers of classes."""
    demand(written.form in FORMS or bool(entry_points(group=GROUP, name=written.form)), "its form is unknown")
    if written.levels is None:
        return
    demand(written.form == CLASSES, "it has levels, which only classes have")
    quasi = {attribute.name for attribute in written.attributes.values() if attribute.role == "quasi"}
    demand(set(written.levels) == quasi, "levels does not name just the quasi attributes")


def _check_sliced(written: Written) -> None:
    """Only releases in several parts have buckets, and all of them; parts overlap only where that is declared."""
    sliced, own = len(written.parts) > 1, {"buckets", "tables"} & written.model_fields_set
    demand(sliced or not own, "it has buckets or tables, and yet all attributes are in one part")
    demand(not sliced or "buckets" in own, "it has several parts and does not say how many buckets")
    demand(sliced == (written.form == SLICES) or written.form not in FORMS, "its form has another number of parts")
    if not sliced:
        return
    by_name = written.attributes
    named = [name for part in written.parts for name in part]
    repeated = sorted({name for name in named if named.count(name) > 1})
    demand(
        not repeated or written.method_parameters.get("overlapping") is True,
        "its parts overlap, and method_parameters does not say 'overlapping'",
    )
    sensitive = [attribute for attribute in written.attributes.values() if attribute.role == "sensitive"]
    for name in repeated:
        one = by_name[name]
        plain = one.role != "insensitive" and not one.boxed
        demand(plain, f"several parts have {name!r}, which is insensitive or published as labels")
        alone = one not in sensitive or len(sensitive) == 1
        demand(alone, f"several parts have {name!r}, which is not the only sensitive attribute")
    for place, part in enumerate(written.parts):
        kinds = {by_name[name].boxed for name in part if by_name[name].role == "quasi"}
        demand(len(kinds) < 2, f"parts[{place}] has quasi attributes with labels and others without")
    for one in sensitive:
        demand(not one.boxed, f"attributes.{one.name} is sensitive and has labels in a sliced release")


def _check_labels(written: Written) -> None:
    """All attributes of synthetic tables have labels, and quasi attributes of classes; averages and plain values none.

    Where rows with missing values are dropped, no sensitive label may count them among the values it covers.
    """
    form = written.form
    for one in written.attributes.values() if form in FORMS else ():
        where = f"attributes.{one.name}"
        if one.boxed:
            demand(form not in (PLAIN, AVERAGES), f"{where} has labels, which its form does not have")
            category = one.role != "sensitive" or one.kind == "category" or form in PRIVATE
            demand(category, f"{where} is sensitive and has labels, and yet its kind is not 'category'")
        else:
            classes = one.role == "quasi" and form not in (PLAIN, AVERAGES, SLICES)
            demand(not classes and form not in PRIVATE, f"{where} is {one.role} and has no labels")
        flagged = one.role == "sensitive" and any("missing" in cover for cover in (one.labels or {}).values())
        dropped = flagged and written.missing.policy == "drop"
        demand(not dropped, f"attributes.{one.name}.labels cover missing values, which were dropped")


def _check_promises(written: Written) -> None:
    """Something is promised, of classes that there are, unless the method needs no promise."""
    promised, free = bool(written.guarantees), may_promise_nothing(written.form)
    demand(promised or free, "guarantees is empty: it promises nothing")
    some = any(attribute.role == "quasi" for attribute in written.attributes.values())
    demand(some or (free and not promised), "it declares no quasi attribute, so it has no classes")


def _check_synthetic(written: Written) -> None:
    """A synthetic table states nothing that was counted without noise; other releases have no account."""
    account = written.synthetic
    own = None if account is None else PRIVATE[account.sampled is not None]
    demand(own == (written.form if written.form in PRIVATE else None), "its account is not one of its form")
    if account is None:
        return
    of_people = {"techniques", "sample", "items", "populations"} & written.model_fields_set
    demand(not of_people, "it is synthetic and yet has keys of tables of people")
    near = bool(written.guarantees)
    demand(not near, "it is synthetic and promises properties of classes")
    left_out = written.withheld or written.missing.dropped
    demand(not left_out, "it is synthetic and yet states how many records were left out")


def _check_agreed(written: Written, *, with_file: bool) -> None:
    """A release by a plan has all records of its source, whole, and one promise: the plan's."""
    agreed = written.agreed is not None
    demand(agreed == (written.form == AGREED), "its form is 'agreed' and it names no plan, or the other way round")
    if not agreed:
        return
    demand(with_file, "it names a plan, which is checked in the folder of the release only")
    others = {"buckets", "tables", "levels", "items", "populations", "techniques", "sample"} & written.model_fields_set
    demand(not others, "it names a plan and yet has keys of other forms")
    missing = written.missing.policy, written.missing.tokens, written.reading
    whole = (written.withheld, *missing) == (0, "category", ("",), None)
    demand(whole, "it names a plan and yet left records out, or reads values as missing")
    demand(len(written.guarantees) == 1, "it names a plan and does not have exactly its promise")


def _check_followed(manifest: Manifest) -> None:
    """People can be counted where the rows of a person are followed into classes, whose values are the source's."""
    stated = [attribute for attribute in manifest.attributes if attribute.role != "insensitive"]
    changed = any(not manifest.is_traced(one) or one.may_keep_missing for one in stated)
    followed = not changed and not manifest.sliced and manifest.written.agreed is None
    demand(followed, "it counts people, and their rows cannot be followed into its classes")


def _read_promises(written: Written, sensitive: Sequence[str], people: Mapping[str, str]) -> tuple[Promise, ...]:
    promises = []
    for place, one in enumerate(written.guarantees):
        agreed = written.agreed is not None
        promise = read_promise(one.model, one.parameters, one.achieved, sensitive, agreed=agreed)
        known = one.counts is None or one.counts in people
        demand(known, f"guarantees[{place}] counts people of whom 'people' does not name the column")
        promises.append(replace(promise, counts=one.counts))
    return tuple(promises)


def _read_tables(written: Written) -> dict[str, DataFile]:
    """Return the two files of a bucketized release, which are written as the data file is."""
    found: dict[str, DataFile] = {}
    if written.tables is None or written.data is None:
        return found
    for name, entry in (("quasi", written.tables.quasi), ("sensitive", written.tables.sensitive)):
        expected = f"{name}.{written.data.format}"
        demand(entry.file == expected, f"tables.{name}.file is not {expected}")
        found[name] = written.data.model_copy(update={"file": entry.file, "sha256": entry.sha256})
    return found
