"""The interface of forms of release, and how a written release finds its form."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from shoal.core.errors import InputError, PolicyError
from shoal.core.registry import find
from shoal.core.wording import code, count_noun, promise_line
from shoal.manifest import Attribute, Manifest, read_manifest
from shoal.methods.base import AnyPlan
from shoal.models.base import PrivacyModel

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from shoal.plan.counted import CountedCells
    from shoal.policy.encoding import Encoding
    from shoal.policy.policy import Policy
    from shoal.release.publication import Publication
    from shoal.sources.base import Source

RECORDS = "Each row is one record of the original table"
EXACT = "- Columns with original values can be counted directly; they include only published records."
LABELS = (
    "- A label is a range or a set of values. Count records by label, or bound a count: the lower bound counts the "
    "labels entirely inside your range, the upper bound all labels that overlap with it. For one estimate in between, "
    "spread the records of a label evenly over it."
)
IMPORTS = "import pandas as pd\n\n"
_ORDER = "Rows are in random order."
_WITHHELD = "- Some records were left out, and not at random: they were unlike the others."
_NOTHING = (
    "**This release promises nothing about people.** A reader who has some values of a person may find the "
    "person's row and read the other values there. Treat it as personal data."
)
_NOTHING_VERIFIED = (
    "`shoal verify` can check the form of the files and, with the original table, that values are unchanged or were "
    "changed as described above."
)
_QUASI = (
    "Promises assume an adversary who has the values of the attributes that the policy calls quasi. If others can look "
    "up a sensitive or insensitive attribute, it should have been declared as quasi; shoal cannot check that."
)
_RECORDS = "Promises are about records. A person with several records is in several classes, which can be compared."
SEVERAL = (
    "Promises are about this release alone. Together with another release about the same people it can reveal more "
    "than each by itself: shoal link and the ledger measure that for the releases that they are given."
)
_BACKGROUND = (
    "An adversary with more knowledge than quasi values, such as the order of rows in another file or the decisions of "
    "the method, may conclude more. The attacks cover only some of these cases."
)
_MEASURED = "Risks and attacks are measured on these data and for these adversaries. They do not bound other risks."
TRUE_OF_MOST = (
    "A relation that holds for most people in a class can be applied to other people too: that is the purpose of data."
)


class Section(NamedTuple):
    """A section for one form only, in lines of Markdown, with the columns of each part if there are several."""

    id: str
    title: str
    lines: list[str]
    parts: list[list[str]] = []  # noqa: RUF012  never changed


class OwnColumn(NamedTuple):
    """A column that the form itself adds; its meaning is in Markdown."""

    name: str
    role: str
    kind: str
    meaning: str


class Claim(NamedTuple):
    """A claim that no file can prove."""

    model: str
    parameters: Mapping[str, Any]
    meaning: str
    weaknesses: str


class Cost(NamedTuple):
    """The privacy budget that a release uses."""

    epsilon: float
    delta: float


class Form(ABC):
    """The kind of rows in a release, and everything that depends on it; a new form is one file with a subclass.

    An instance describes one release, by its manifest. Sentences for pages are in Markdown.
    """

    name: ClassVar[str]
    group: ClassVar[str] = "class"  # the word for a set of records that hide each other
    plural: ClassVar[str] = "classes"  # the plural of that word
    groups: ClassVar[str | None] = "classes"  # the key of their number in the evidence, if it has one
    of_people: ClassVar[bool] = True  # whether rows are about people
    whole_records: ClassVar[bool] = True  # whether all values of a row belong to one record
    generalizes: ClassVar[bool] = False  # whether classes publish labels of leaf ranges
    as_they_are: ClassVar[bool] = False  # whether quasi values are published unchanged, or as techniques changed them
    by_plan: ClassVar[bool] = False  # whether an agency's plan defines and numbers the classes
    unlinkable: ClassVar[str | None] = None  # why such a release cannot be linked with others
    linkability: ClassVar[str | None] = None  # the promise against linking several such releases
    where_dropped: ClassVar[str] = "quasi"  # columns besides sensitive ones whose missing values drop a record
    where_missing: ClassVar[str] = "quasi"  # columns with a label for missing values

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    @classmethod
    @abstractmethod
    def prepare(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
    ) -> Publication:
        """Return the publication of a plan."""

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns whose values together identify the class of a row; empty if rows have no class."""
        return tuple(self.manifest.names("quasi"))

    def complete_rows(self, rows: pa.Table, rng: np.random.Generator) -> pa.Table:  # noqa: ARG002
        """Return rows as whole records; parts of records are linked at random."""
        return rows

    def find_model(self, name: str) -> type[PrivacyModel]:
        return find("shoal.models", PrivacyModel, name, what="model")

    def list_models(self) -> tuple[PrivacyModel, ...]:
        return tuple(self.find_model(one.model).model_validate(one.parameters) for one in self.manifest.guarantees)

    @property
    def cost(self) -> Cost | None:
        """The privacy budget used by a differentially private release; None for others."""
        return None

    def claims(self) -> list[Claim]:
        return []

    def promises(self) -> list[str]:
        """Return the promises in lines of Markdown, or a statement that there are none."""
        if not self.manifest.guarantees:
            return [_NOTHING, "", _NOTHING_VERIFIED]
        labelled = all(self.manifest.attributes[name].boxed for name in self.manifest.names("quasi"))
        explained = [] if labelled else ["", "A class is all rows that are equal in every quasi column."]
        return [*self.promise_lines(), *explained]

    def promise_lines(self) -> list[str]:
        return [
            promise_line(one.model, one.parameters, self.find_model(one.model).title, one.counts)
            for one in self.manifest.guarantees
        ]

    def weaknesses(self) -> list[tuple[str, str]]:
        """Return each promised or claimed model with the attacks that it does not prevent."""
        promised = dict.fromkeys(one.model for one in self.manifest.guarantees)
        return [
            *((name, self.find_model(name).weaknesses) for name in promised),
            *((claim.model, claim.weaknesses) for claim in self.claims()),
        ]

    def general_limits(self) -> list[str]:
        """Return the limits that all promises of this form share."""
        if not self.manifest.guarantees:
            return ["This release promises nothing about people: the figures below are only measured.", _MEASURED]
        return [_QUASI, _RECORDS, self._among_releases, _BACKGROUND, TRUE_OF_MOST, _MEASURED]

    @property
    def _among_releases(self) -> str:
        return SEVERAL

    def headline(self) -> str:
        """State the number of rows and the method."""
        manifest = self.manifest
        made = f"published with shoal {manifest.shoal_version} (method `{manifest.method}`)"
        return f"{count_noun(manifest.rows, 'record')}, {made}."

    def describe_rows(self) -> str:
        """Explain what a row is, and how its values relate to a record."""
        return f"{self._describe_row()} {_ORDER}"

    def _describe_row(self) -> str:
        return f"{RECORDS}."

    def own_section(self) -> Section | None:
        """Return an explanation that readers need before they count anything; None if rows need none."""
        return None

    def own_columns(self) -> list[OwnColumn]:
        """Return the columns that are not attributes; they come first."""
        return []

    def describe_values(self, name: str) -> str:
        """Describe the values of an attribute."""
        attribute, changed = self.manifest.attributes[name], name in self.manifest.techniques
        own = "changed: see above" if changed else "as in the original table"
        levels = self.manifest.levels or self.manifest.method_parameters.get("levels") or {}
        labels = {} if levels.get(name) else attribute.covers
        single = (one.get("values") == [label] or one == {"missing": True} for label, one in labels.items())
        if labels and all(single):
            return own
        if attribute.role == "quasi" and (made := self._quasi_made(attribute)) is not None:
            return f"{own}; then {made}" if changed else made
        if not attribute.boxed:
            return own
        made = f"{'' if changed else f'some {own}, '}some generalized; see below"
        return f"{own}; then {made}" if changed else made

    def _quasi_made(self, attribute: Attribute) -> str | None:
        return "generalized; see below" if attribute.boxed else None

    def describe_markers(self) -> str:
        """Name the values of the original table that mean missing and are published unchanged."""
        own = {} if self.manifest.reading is None else self.manifest.reading.missing_in
        said = [code(text) for text in self.manifest.missing.tokens if text.strip()]
        said += [f"{code(text)} in {code(name)}" for name, texts in own.items() for text in texts]
        return f" These values of the original table mean missing: {', '.join(said)}." if said else ""

    def describe_missing(self) -> str:
        if self.manifest.missing.policy == "drop":
            return f"Records with a missing value in a {self.where_dropped} or sensitive column were left out."
        if not any(self.manifest.attributes[name].boxed for name in self.manifest.names("quasi")):
            return "A missing value is published as empty."
        return f"A missing value is published as `missing` in {self.where_missing} columns and as empty elsewhere."

    @abstractmethod
    def advice(self) -> list[str]:
        """Return advice on the analysis of such rows, as items of a list."""

    def advise_on_withheld(self) -> list[str]:
        """Return the consequences of left out records for an analysis."""
        return [_WITHHELD] if self.manifest.withheld else []

    def examples(self) -> list[tuple[str, str]]:
        """Return (language, lines) of examples that run in the folder of the data."""
        return [("Python", IMPORTS + self.read_example() + self._count_example())]

    def _count_example(self) -> str:
        by_role = self.names_by_role()
        shown = [name for role in ("quasi", "sensitive", "insensitive") for name in by_role[role]]
        return f"print(data[{quote(shown[0])}].value_counts())\n"

    def names_by_role(self) -> dict[str, list[str]]:
        return {role: self.manifest.names(role) for role in ("quasi", "sensitive", "insensitive")}

    def read_example(self, *, texts: bool = False) -> str:
        file = self.manifest.file
        if file.endswith(".parquet"):
            return f'data = pd.read_parquet("{file}")\n'
        options = ", dtype=str, keep_default_na=False" if texts else ""
        return f'data = pd.read_csv("{file}"{options})\n'

    def summary(self, evidence: Mapping[str, Any]) -> list[str]:
        """Describe to the data holder how well records hide, in sentences without Markdown."""
        before, after = evidence["risk_before"]["unique_records"], evidence["risk_after"]["unique_records"]
        whom = "People" if "counts" in evidence["risk_before"] else "Records"
        return [f"{whom} unique by their quasi-identifiers: {before:,} before, {after:,} after."]


def quote(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def find_form(name: str) -> type[Form]:
    return find("shoal.release.forms", Form, name, what="form of release")


def read_form(manifest: Manifest | Mapping[str, Any]) -> Form:
    """Return the form of a release, as named in its manifest."""
    manifest = read_manifest(manifest)
    try:
        return find_form(manifest.form)(manifest)
    except PolicyError:
        raise InputError("this version of shoal lacks the form of the release; run `shoal verify` on it") from None


def publish_plan(
    policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
) -> Publication:
    return find_form(policy.method.form).prepare(policy, source, counted, encoding, plan)
