"""What every form of release is, and how a written release is read back to its form."""

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
EXACT = "- Columns that hold original values can be counted as they stand, for the records that were published."
LABELS = (
    "- A label stands for a range or a set of values. Count records by label, or bound a count: at least those whose "
    "label lies wholly within what you ask for, at most those whose label overlaps with it. For one figure in between, "
    "spread the records of a label evenly over it."
)
IMPORTS = "import pandas as pd\n\n"
_ORDER = "Rows are in random order."
_WITHHELD = "- Some records were left out, and not at random: they were those unlike others."
_NOTHING = (
    "**This release promises nothing about people.** Whoever knows some values of a person may find the person's row, "
    "and read there what they did not know. Treat it as personal data."
)
_NOTHING_VERIFIED = (
    "What can be verified is the form of the files and, with the original table, that values are the original ones or "
    "were changed as described above."
)
_QUASI = (
    "Promises are about somebody who knows the attributes that the policy calls quasi. A sensitive or insensitive "
    "attribute that others can look up is as good as a quasi one, and nothing here knows that."
)
_RECORDS = "Promises are about records. A person with several of them is in several classes, which can be compared."
SEVERAL = (
    "Promises are about this release alone. Another one about the same people can leave less together than each by "
    "itself: shoal link and the ledger measure that, if they know of it."
)
_BACKGROUND = (
    "Who knows more than quasi values, such as the order of rows in another file or how the method decides, may "
    "conclude more. The attacks try some of that, not all."
)
_MEASURED = "Figures of risk and attacks are measured on these data and these adversaries. They bound no other ones."
TRUE_OF_MOST = (
    "What is true of most people in a class is learned about all of them, in it or not: that is what data are for."
)


class Section(NamedTuple):
    """What only one form has to explain, in lines of Markdown, and the columns of each part if there are several."""

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
    """What is claimed and no file can show."""

    model: str
    parameters: Mapping[str, Any]
    meaning: str
    weaknesses: str


class Cost(NamedTuple):
    """What a release costs of a budget of differential privacy."""

    epsilon: float
    delta: float


class Form(ABC):
    """What the rows of a release are, and everything that depends on it: a new form is one file with a subclass.

    An instance speaks of one release, by its manifest. Sentences for pages are in Markdown.
    """

    name: ClassVar[str]
    group: ClassVar[str] = "class"  # what a set of records that hide each other is called
    plural: ClassVar[str] = "classes"  # what several of them are called
    groups: ClassVar[str | None] = "classes"  # under which the evidence counts them; None: it does not
    of_people: ClassVar[bool] = True  # whether rows are about people; else they are nobody's
    whole_records: ClassVar[bool] = True  # whether all values of a row belong to one record
    generalizes: ClassVar[bool] = False  # whether classes publish labels of leaf ranges
    as_they_are: ClassVar[bool] = False  # whether quasi values are those of the source, or what techniques made of them
    by_plan: ClassVar[bool] = False  # whether classes are those of an agency's plan, and named by their numbers
    unlinkable: ClassVar[str | None] = None  # why such a release cannot be linked with others
    linkability: ClassVar[str | None] = None  # what is promised against linking several such releases
    where_dropped: ClassVar[str] = "quasi"  # columns besides sensitive ones whose missing values drop a record
    where_missing: ClassVar[str] = "quasi"  # columns whose labels say that a value is missing

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    # What is made.

    @classmethod
    @abstractmethod
    def prepare(
        cls, policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
    ) -> Publication:
        """Prepare what the plan publishes of the table."""

    # What is read.

    @property
    def class_columns(self) -> tuple[str, ...]:
        """The columns whose values together tell the class of a row; none where rows have no class."""
        return tuple(self.manifest.names("quasi"))

    def complete_rows(self, rows: pa.Table, rng: np.random.Generator) -> pa.Table:  # noqa: ARG002
        """Return rows as whole records; parts of records are linked at random."""
        return rows

    # What is promised.

    def find_model(self, name: str) -> type[PrivacyModel]:
        """Return the model of that name, which such a release may promise."""
        return find("shoal.models", PrivacyModel, name, what="model")

    def list_models(self) -> tuple[PrivacyModel, ...]:
        """Return the models that the release promises."""
        return tuple(self.find_model(one.model).model_validate(one.parameters) for one in self.manifest.guarantees)

    @property
    def cost(self) -> Cost | None:
        """What a differentially private release costs everybody; None for others."""
        return None

    def claims(self) -> list[Claim]:
        """Return what is claimed and no file can show."""
        return []

    def promises(self) -> list[str]:
        """Return what is promised, or that nothing is."""
        if not self.manifest.guarantees:
            return [_NOTHING, "", _NOTHING_VERIFIED]
        return [*self.promise_lines(), *self._explain_classes()]

    def promise_lines(self) -> list[str]:
        """Return each promise as an item of a list."""
        return [
            promise_line(one.model, one.parameters, self.find_model(one.model).title, one.counts)
            for one in self.manifest.guarantees
        ]

    def _explain_classes(self) -> list[str]:
        """Say what a class is where no labels show it."""
        if all(self.manifest.attributes[name].boxed for name in self.manifest.names("quasi")):
            return []
        return ["", "A class is all rows that are equal in every quasi column."]

    def weaknesses(self) -> list[tuple[str, str]]:
        """Return each promised or claimed model with what it does not protect against."""
        promised = dict.fromkeys(one.model for one in self.manifest.guarantees)
        return [
            *((name, self.find_model(name).weaknesses) for name in promised),
            *((claim.model, claim.weaknesses) for claim in self.claims()),
        ]

    def general_limits(self) -> list[str]:
        """Return what no promise of this form of release covers."""
        if not self.manifest.guarantees:
            return ["This release promises nothing about people: all that is below is what was measured.", _MEASURED]
        return [_QUASI, _RECORDS, self._among_releases, _BACKGROUND, TRUE_OF_MOST, _MEASURED]

    @property
    def _among_releases(self) -> str:
        return SEVERAL

    # What readers are given.

    def headline(self) -> str:
        """Say how many rows there are, and how they were made."""
        manifest = self.manifest
        made = f"published with shoal {manifest.shoal_version} (method `{manifest.method}`)"
        return f"{count_noun(manifest.rows, 'record')}, {made}."

    def describe_rows(self) -> str:
        """Say what a row is, and how far its values are those of a record."""
        return f"{self._describe_row()} {_ORDER}"

    def _describe_row(self) -> str:
        return f"{RECORDS}."

    def own_section(self) -> Section | None:
        """Return what has to be explained before anything is counted; None if rows speak for themselves."""
        return None

    def own_columns(self) -> list[OwnColumn]:
        """Return the columns that are no attributes; they come first."""
        return []

    def describe_values(self, name: str) -> str:
        """Say what an attribute's values are."""
        attribute, changed = self.manifest.attributes[name], name in self.manifest.techniques
        own = "changed: see above" if changed else "as in the original table"
        if self._keeps_values(name):
            return own
        if attribute.role == "quasi" and (made := self._quasi_made(attribute)) is not None:
            return f"{own}; then {made}" if changed else made
        if not attribute.boxed:
            return own
        made = f"{'' if changed else f'some {own}, '}some generalized; see below"
        return f"{own}; then {made}" if changed else made

    def _keeps_values(self, name: str) -> bool:
        """Whether every label of an attribute is one value."""
        levels = self.manifest.levels or self.manifest.method_parameters.get("levels") or {}
        labels = {} if levels.get(name) else self.manifest.attributes[name].covers
        single = (one.get("values") == [label] or one == {"missing": True} for label, one in labels.items())
        return bool(labels) and all(single)

    def _quasi_made(self, attribute: Attribute) -> str | None:
        """Say what was made of a quasi attribute; None if nothing was."""
        return "generalized; see below" if attribute.boxed else None

    def describe_markers(self) -> str:
        """Say which values of the original table mean missing, and are published as such; nothing if none do."""
        own = {} if self.manifest.reading is None else self.manifest.reading.missing_in
        said = [code(text) for text in self.manifest.missing.tokens if text.strip()]
        said += [f"{code(text)} in {code(name)}" for name, texts in own.items() for text in texts]
        return f" These values of the original table mean missing: {', '.join(said)}." if said else ""

    def describe_missing(self) -> str:
        """Say how a missing value is published."""
        if self.manifest.missing.policy == "drop":
            return f"Records with a missing value in a {self.where_dropped} or sensitive column were left out."
        if not any(self.manifest.attributes[name].boxed for name in self.manifest.names("quasi")):
            return "A missing value is published as empty."
        return f"A missing value is published as `missing` in {self.where_missing} columns and as empty elsewhere."

    @abstractmethod
    def advice(self) -> list[str]:
        """Return how to analyse such rows, as items of a list."""

    def advise_on_withheld(self) -> list[str]:
        """Return what records that were left out mean for an analysis."""
        return [_WITHHELD] if self.manifest.withheld else []

    def examples(self) -> list[tuple[str, str]]:
        """Return (language, lines) of examples that run in the folder of the data."""
        return [("Python", IMPORTS + self.read_example() + self._count_example())]

    def _count_example(self) -> str:
        by_role = self.names_by_role()
        shown = [name for role in ("quasi", "sensitive", "insensitive") for name in by_role[role]]
        return f"print(data[{quote(shown[0])}].value_counts())\n"

    def names_by_role(self) -> dict[str, list[str]]:
        """Return the attributes of each role."""
        return {role: self.manifest.names(role) for role in ("quasi", "sensitive", "insensitive")}

    def read_example(self, *, texts: bool = False) -> str:
        """Return the line that reads the file in Python."""
        file = self.manifest.file
        if file.endswith(".parquet"):
            return f'data = pd.read_parquet("{file}")\n'
        options = ", dtype=str, keep_default_na=False" if texts else ""
        return f'data = pd.read_csv("{file}"{options})\n'

    def summary(self, evidence: Mapping[str, Any]) -> list[str]:
        """Say to the data holder how well records hide, in sentences without Markdown."""
        before, after = evidence["risk_before"]["unique_records"], evidence["risk_after"]["unique_records"]
        whom = "People" if "counts" in evidence["risk_before"] else "Records"
        return [f"{whom} unique by their quasi-identifiers: {before:,} before, {after:,} after."]


def quote(value: object) -> str:
    """Return a number or a text as Python and R write it."""
    return json.dumps(value, ensure_ascii=False)


def find_form(name: str) -> type[Form]:
    """Return the form of that name: a method says which one its plans have."""
    return find("shoal.release.forms", Form, name, what="form of release")


def read_form(manifest: Manifest | Mapping[str, Any]) -> Form:
    """Return the form of a release, which its manifest names."""
    manifest = read_manifest(manifest)
    try:
        return find_form(manifest.form)(manifest)
    except PolicyError:
        raise InputError("this shoal does not have the form of the release; run `shoal verify` on it") from None


def publish_plan(
    policy: Policy, source: Source, counted: CountedCells, encoding: Encoding, plan: AnyPlan
) -> Publication:
    """Prepare what a plan of the policy's method publishes of the table."""
    return find_form(policy.method.form).prepare(policy, source, counted, encoding, plan)
