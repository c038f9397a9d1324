"""Valid policies, the options of a policy document, and its JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator

from shoal.columns.base import Technique
from shoal.columns.baskets import ItemOptions
from shoal.columns.sampling import Sampling
from shoal.core.documents import Parameters, load_with_lines, read_text
from shoal.core.errors import UsageError
from shoal.core.registry import discover
from shoal.core.results import ATTACK_FINDINGS, UNLINKED, Finding
from shoal.methods.base import Method
from shoal.models.base import PrivacyModel
from shoal.sources.base import SourceOptions
from shoal.taxonomies.builders import TaxonomyBuilder

Role = Literal["identifier", "quasi", "sensitive", "insensitive"]
WrittenRole = Literal["identifier", "quasi", "sensitive", "insensitive", "weight", "drop"]  # in a policy document
FINDINGS = (  # ids that a policy can accept
    *("above-threshold", *ATTACK_FINDINGS.values(), "below-shuffled", "constant-parts", "determined-quasi"),
    *("empty-promise", "isolating-columns", "lone-records", "method-reveals", "near-one-value-classes", "no-promise"),
    *("one-value-classes", "repeated-people", "singled-out", "spelling-variants", UNLINKED, "unprotected-sensitive"),
)


@dataclass(frozen=True, slots=True)
class AttributePolicy:
    """An attribute's role and options; without a taxonomy it gets the default of its type.

    A column with ``items`` holds sets and is replaced by other attributes. A ``technique`` changes the values before
    any other step. The ledger finds the attribute under ``same_as`` in earlier releases.
    """

    role: Role
    taxonomy: TaxonomyBuilder | None = None
    weight: float = 1.0
    description: str | None = None
    items: ItemOptions | None = None
    technique: Technique | None = None
    same_as: str | None = None
    value_weights: Mapping[str, float] | None = None

    def sensitive_names(self, name: str) -> tuple[str, ...]:
        """Return the names of the sensitive attributes that come from the column."""
        if self.items is not None:
            return self.items.sensitive_names(name)
        return (name,) if self.role == "sensitive" else ()


@dataclass(frozen=True, slots=True)
class Policy:
    """A valid policy.

    >>> policy = Policy.load({
    ...     "attributes": {"age": {"role": "quasi"}, "disease": {"role": "sensitive"}},
    ...     "privacy": [{"k-anonymity": {"k": 5}}],
    ... })
    >>> policy.names("quasi"), policy.method.name
    (('age',), 'mondrian')
    """

    attributes: Mapping[str, AttributePolicy]
    privacy: tuple[PrivacyModel, ...]
    method: Method
    missing: Literal["category", "drop"]
    max_withheld: float
    source: SourceOptions
    document: Mapping[str, Any]  # as it was written
    folder: Path  # to which relative paths refer
    unit: str | None = None  # the identifier of people; None: every record is a person
    household: str | None = None
    survey_weight: str | None = None  # the attribute with the number of people that a record represents
    sample: Sampling | None = None  # None: all records
    accept: tuple[Acceptance, ...] = ()
    max_generalized: Mapping[str, float] = field(default_factory=dict)  # shares by sensitive attribute
    release: ReleaseOptions = field(default_factory=lambda: ReleaseOptions())
    true_values: Mapping[str, str] = field(default_factory=dict)  # columns with true values, with the changed columns
    dropped: tuple[str, ...] = ()  # columns of role drop, which are not read

    @property
    def units(self) -> dict[str, str]:
        """The columns that identify people, by the policy's key: ``unit``, ``household``."""
        named = {"unit": self.unit, "household": self.household}
        return {key: column for key, column in named.items() if column is not None}

    @property
    def counted_units(self) -> dict[str, str]:
        """The same without the unit of which the sample takes one record each: there a record is a person."""
        alone = None if self.sample is None else self.sample.one_per
        return {key: column for key, column in self.units.items() if key != alone}

    @property
    def techniques(self) -> dict[str, Technique]:
        """The techniques by attribute."""
        return {name: one.technique for name, one in self.attributes.items() if one.technique is not None}

    def names(self, role: Role) -> tuple[str, ...]:
        """Return the attributes of one role in the order of the policy, the most important first."""
        return tuple(name for name, attribute in self.attributes.items() if attribute.role == role)

    @classmethod
    def load(cls, policy: str | Path | Mapping[str, Any] | Policy, folder: Path | None = None) -> Policy:
        """Read a policy from a YAML or JSON file or a mapping; one error lists all mistakes.

        Relative paths refer to the file's folder or, for a mapping, to *folder*.
        """
        if isinstance(policy, Policy):
            return policy
        from shoal.policy.reading import PolicyReader  # imports this module

        if isinstance(policy, Mapping):
            return PolicyReader("policy", {}, folder or Path()).policy(policy)
        try:
            path = Path(policy)
        except TypeError:
            draft = "; review the draft's text, or give draft.policy" if hasattr(policy, "text") else ""
            given = type(policy).__name__
            raise UsageError(f"a policy is a file or a mapping, and this is of type {given}{draft}") from None
        document, lines = load_with_lines(read_text(path), path.name)
        return PolicyReader(path.name, lines, path.parent).policy(document)


class AttributeOptions(Parameters):
    """The options of an attribute without taxonomy, items and technique."""

    role: WrittenRole = Field(
        description="identifier: never published; quasi: known to others; sensitive: to be protected; "
        "insensitive: published unchanged; weight: how many people in the population a survey record represents; "
        "drop: left out of the release"
    )
    publish: Literal["none", "rounded", "as-is"] | None = Field(
        default=None, description="whether a survey weight is published: none is usual; rounded needs a technique"
    )
    weight: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="how much the detail of a quasi attribute matters; under sweep, also of a sensitive one",
    )
    value_weights: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] | None = Field(
        default=None,
        description="how much values and groups of a quasi attribute count in the order of sweep, by their labels",
    )
    description: str | None = Field(default=None, description="meaning of the column, shown in the data dictionary")
    same_as: str | None = Field(default=None, description="name of the column in earlier releases of the ledger")


class Acceptance(Parameters):
    """A finding that the data holder accepts, with the reason."""

    finding: str = Field(description="the finding's id, like isolating-columns")
    about: tuple[str, ...] = Field(default=(), description="the columns that it may be about")
    reason: str = Field(description="why it is accepted; the report for the review board shows it")

    @field_validator("reason")
    @classmethod
    def _check_reason(cls, reason: str) -> str:
        if not reason.strip():
            raise ValueError("must say why the finding is accepted")
        return reason.strip()

    def covers(self, finding: Finding) -> bool:
        """Whether the acceptance names the finding and all columns that the finding is about."""
        return finding.id == self.finding and set(finding.about) <= set(self.about)


class ReleaseOptions(Parameters):
    """Information about a release for a review board."""

    title: str | None = Field(default=None, description="the title of the published table")
    owner: str | None = Field(default=None, description="who is responsible for the data")
    recipient: str | None = Field(default=None, description="who receives them, and under which agreement")
    purpose: str | None = Field(default=None, description="the purpose for which they may be used")
    threshold: float | None = Field(
        default=None, gt=0, le=1, description="largest acceptable chance of finding a known person's record, like 0.09"
    )
    high_above: float = Field(
        default=0.01, ge=0, lt=1, description="share of the people above which a finding about them is high"
    )


class TableOptions(Parameters):
    """The options of the table as a whole."""

    missing: Literal["category", "drop"] = Field(
        default="category",
        description="category: missing is one of the values; drop: records with missing values are left out",
    )
    max_withheld: float = Field(
        default=0.0, ge=0, lt=1, description="largest share of records that may be withheld for a better table"
    )
    max_generalized: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(
        default={},
        description="largest share of the published records whose value of a sensitive attribute may be generalized, "
        "by attribute; unlimited by default. Only sweep generalizes them, for tau-l-diversity",
    )
    unit: str | None = Field(
        default=None, description="the identifier that names the person, if one person may have many records"
    )
    household: str | None = Field(default=None, description="the identifier that names the household")
    accept: tuple[Acceptance, ...] = Field(default=(), description="findings that the data holder accepts, and why")
    release: ReleaseOptions = Field(default=ReleaseOptions(), description="information about the release for reports")


def policy_schema() -> dict[str, Any]:
    """Return the JSON Schema of policies, composed of the schemas of models, methods, techniques and builders."""

    def one_of(package: str, base: type[Any]) -> dict[str, Any]:
        return {
            "oneOf": [
                {
                    "type": "object",
                    "description": getattr(kind, "title", (kind.__doc__ or "").strip().split("\n")[0]),
                    "properties": {name: _schema(kind)},
                    "required": [name],
                    "additionalProperties": False,
                }
                for name, kind in discover(package, base).items()
            ]
        }

    attribute = _schema(AttributeOptions)
    attribute["properties"]["taxonomy"] = one_of("shoal.taxonomies.builders", TaxonomyBuilder)
    attribute["properties"]["items"] = _schema(ItemOptions)
    attribute["properties"]["technique"] = one_of("shoal.columns", Technique)
    table = _schema(TableOptions)["properties"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "shoal policy",
        "type": "object",
        "additionalProperties": False,
        "required": ["attributes", "privacy"],
        "properties": {
            "attributes": {"type": "object", "minProperties": 1, "additionalProperties": attribute},
            "privacy": {"type": "array", "items": one_of("shoal.models", PrivacyModel)},
            "method": one_of("shoal.methods", Method),
            **table,
            "sample": _schema(Sampling),
            "source": _schema(SourceOptions),
        },
    }


def _schema(kind: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a pydantic model with its definitions inserted, because references would not resolve."""
    schema = kind.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolve(part: Any) -> Any:
        if isinstance(part, list):
            return [resolve(one) for one in part]
        if not isinstance(part, dict):
            return part
        own = {key: resolve(value) for key, value in part.items() if key != "$ref"}
        named = part.get("$ref")
        return own if named is None else resolve(definitions[named.removeprefix("#/$defs/")]) | own

    resolved: dict[str, Any] = resolve(schema)
    return resolved
