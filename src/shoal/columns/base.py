"""What a technique is: a declared way to rewrite one column, row by row, whatever happens to the other columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import pyarrow as pa

from shoal.core.documents import Parameters
from shoal.core.errors import PolicyError, ShoalError, did_you_mean
from shoal.core.randomness import Chance
from shoal.core.registry import discover
from shoal.sources.base import DerivedSource, Source, layers
from shoal.sources.columns import UNCHANGED
from shoal.taxonomies.builders import TaxonomyBuilder
from shoal.taxonomies.builders.intervals import IntervalsTaxonomy

Number = int | float
Role = Literal["identifier", "quasi", "sensitive", "insensitive"]


@dataclass(frozen=True, slots=True, eq=False)
class Treatment(ABC):
    """One column's rewriting in one run.

    What a row becomes follows from the run's secret, the row's number and its value alone, so that a source can be
    read any number of times, in batches of any size, and always shows the same rows. Missing stays missing.
    """

    column: str
    kind: pa.DataType  # of the treated column
    said: Mapping[str, Any]  # the parameters, without keys, salts and paths
    carried: Mapping[str, Treatment] = field(default_factory=dict, kw_only=True)  # of columns that change with it

    @abstractmethod
    def apply(self, column: pa.Array, first_row: int) -> pa.Array:
        """Return the treated rows, given those from number *first_row* on, text dictionary-coded or not."""

    def describe(self) -> dict[str, object]:
        """Return what everybody may know of it."""
        return dict(self.said)

    def findings(self) -> dict[str, int]:
        """Return counts that only the data holder may know, for the evidence."""
        return {}

    def warnings(self) -> tuple[str, ...]:
        """Return what the data holder should know before publishing: where it did less than was asked for."""
        return ()


class Trace(NamedTuple):
    """What a technique leaves in a column for an adversary to use who has read the manifest."""

    tokens: bool = False  # whether texts that mean nothing took the place of values
    moved: float = 0.0  # share of the values that stand in other rows than their own
    blur: float = 0.0  # how far a published number usually is from the true one
    numbers: bool = False  # whether numbers were changed, so that equal ones need not be published as equal
    within: tuple[str, ...] = ()  # columns whose groups of records kept their values when these were moved
    # What is published for values, where that follows from them and the least and greatest published number.
    replay: Callable[[pa.Array, tuple[float, float] | None], pa.Array] | None = None

    @property
    def hidden(self) -> bool:
        """Whether nobody without a key, or a salt, can tell which value a token stands for."""
        return self.tokens and self.replay is None


class Technique(Parameters, ABC):
    """A way to treat a column. Fields are its parameters, declared once for messages, help and schema."""

    name: ClassVar[str]
    title: ClassVar[str]  # a plain sentence for people
    roles: ClassVar[tuple[Role, ...]]  # of attributes that it may treat
    verdict: ClassVar[Verdict | None] = None  # the opinion's, where it is one of its techniques
    makes_tokens: ClassVar[bool] = False  # whether texts that mean nothing take the place of values
    consistent: ClassVar[bool] = True  # of tokens: whether equal values get equal ones, so that they stand for persons
    keeps_owners: ClassVar[bool] = False  # whether the verifier can still tell whose a row is, so people can be counted

    @property
    def determined(self) -> bool:
        """Whether a published value follows from the true one alone: then diverse values were diverse before."""
        return False

    @property
    def needs(self) -> tuple[str, ...]:
        """Other columns that it looks at."""
        return ()

    @property
    def carried(self) -> tuple[str, ...]:
        """Other columns that it changes together with its own."""
        return ()

    def refuse(self, column: str) -> str | None:
        """Return why it cannot treat the column of this name, whatever the data are; None if it can."""
        return f"{self.name} within the column itself would change nothing" if column in self.needs else None

    def check_others(self, column: str, techniques: Mapping[str, Technique]) -> None:
        """Refuse a technique that does not go together with those of other columns."""

    def resolve(self, base: Path) -> Self:  # noqa: ARG002
        """Return the technique with its relative paths taken from the folder *base*."""
        return self

    @abstractmethod
    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:
        """Bind the technique to a column whose numbers the policy says lie in *domain*.

        What cannot be done is refused here or at the first batch that shows it, never worked around.
        """

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:  # noqa: ARG003
        """Say to readers of a release, in Markdown, what was done to a column, by its *entry* of the manifest."""
        return f"values were changed by the technique `{cls.name}`: {cls.title}."

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:  # noqa: ARG003
        """Return what an analysis must heed, as items of a list, given the *entries* of all columns treated by it."""
        return []

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:  # noqa: ARG003
        """Return what is left for an adversary in a column with this *entry* of the manifest."""
        return Trace(tokens=cls.makes_tokens)

    def public(self, **others: object) -> dict[str, object]:
        """Return the technique's name and parameters as they stand, without those that are not given."""
        given: Mapping[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return {"technique": self.name, **given, **others}


def list_changed(techniques: Mapping[str, Technique]) -> dict[str, Technique]:
    """Return the technique of every column that changes, given those of single attributes."""
    return {name: one for own, one in techniques.items() for name in (own, *one.carried)}


def read_traces(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Trace]:
    """Return what techniques left in the columns of a release, given the manifest's entries on changed columns."""
    known = discover("shoal.columns", Technique) if entries else {}
    return {
        name: known[entry["technique"]].trace(entry) if entry["technique"] in known else Trace()
        for name, entry in entries.items()
    }


@dataclass(frozen=True, slots=True)
class NumberDomain:
    """The smallest and the largest number of a column, None where there is no end.

    They are what the policy declares and never what the data show.
    """

    low: Number | None = None
    high: Number | None = None

    @property
    def ends(self) -> dict[str, Number]:
        """The ends by the names that policies and manifests give them, ``min`` and ``max``."""
        named = {"min": self.low, "max": self.high}
        return {end: number for end, number in named.items() if number is not None}


def find_domain(taxonomy: TaxonomyBuilder | None) -> NumberDomain:
    """Return the numbers that an attribute's taxonomy allows: intervals have ends where they are not open.

    >>> find_domain(IntervalsTaxonomy(min=0, max=120, open="high"))
    NumberDomain(low=0, high=None)
    """
    if not isinstance(taxonomy, IntervalsTaxonomy):
        return NumberDomain()
    low = None if taxonomy.open in ("low", "both") else taxonomy.min
    high = None if taxonomy.open in ("high", "both") else taxonomy.max
    return NumberDomain(low, high)


@dataclass(frozen=True, slots=True, eq=False)
class ChangedSource(DerivedSource):
    """A source that a sample or techniques changed, which the manifest tells under its ``entry``."""

    entry: ClassVar[str]

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return what everybody may know of the change."""

    @abstractmethod
    def concerns(self, columns: Collection[str]) -> bool:
        """Whether other records, or other values of these columns, are counted than those that were given."""


def describe_changes(source: Source) -> dict[str, dict[str, object]]:
    """Return the manifest's entries on the changes of a source; none if there are no changes."""
    return {layer.entry: layer.describe() for layer in layers(source) if isinstance(layer, ChangedSource)}


def changes_before(source: Source, columns: Collection[str]) -> bool:
    """Whether records were drawn or values of these columns changed before anything was counted."""
    return any(isinstance(layer, ChangedSource) and layer.concerns(columns) for layer in layers(source))


@dataclass(frozen=True, slots=True, eq=False)
class TreatedSource(ChangedSource):
    """The rows of another source with some columns treated; the others come as they are."""

    entry = "techniques"
    treatments: Mapping[str, Treatment]
    identifiers: frozenset[str] = frozenset()  # columns whose tokens stand for persons
    true: Mapping[str, str] = field(default_factory=dict)  # further columns: the true values of treated ones

    def describe(self) -> dict[str, object]:
        """Return what everybody may know of each column's treatment."""
        return {
            name: treatment.describe() | ({"of": "identifier"} if name in self.identifiers else {})
            for name, treatment in self.treatments.items()
        }

    def concerns(self, columns: Collection[str]) -> bool:
        """Whether one of these columns is treated."""
        return not self.treatments.keys().isdisjoint(columns)

    def findings(self) -> dict[str, dict[str, int]]:
        """Return each treatment's counts for the evidence, which some have none of."""
        return {name: treatment.findings() for name, treatment in self.treatments.items()}

    def _read(self, columns: list[str], coded: frozenset[str]) -> Iterator[pa.RecordBatch]:
        treated = [name for name in columns if name in self.treatments]
        given = {name: self.true.get(name, name) for name in columns}
        first_row = 0
        dictionary = [*treated, *(given[name] for name in coded)]
        for batch in self.given.batches([*dict.fromkeys(given.values())], dictionary=dictionary):
            arrays = {name: batch.column(own) for name, own in given.items()}
            for name in treated:
                arrays[name] = self.treatments[name].apply(arrays[name], first_row)
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=columns)
            first_row += batch.num_rows


def list_warnings(source: Source) -> list[str]:
    """Return what the data holder should know of a source's treatments before they are published."""
    treated = (layer for layer in layers(source) if isinstance(layer, TreatedSource))
    return [warning for layer in treated for one in layer.treatments.values() for warning in one.warnings()]


def treat(
    techniques: Mapping[str, Technique],
    source: Source,
    chance: Chance,
    domains: Mapping[str, NumberDomain] | None = None,
    identifiers: Collection[str] = (),
    true: Mapping[str, str] | None = None,
) -> Source:
    """Return the source with each of these columns treated; without techniques, as it is.

    *domains* are numbers that columns may hold, by what the policy declares; *identifiers* are columns whose tokens
    stand for persons. Techniques look at the columns as they were given, so their order does not matter. *true* names
    further columns, which have the given values of others.
    """
    if not techniques:
        return source
    known = source.schema.names
    for name, technique in techniques.items():
        for other in (name, *technique.needs):
            if other not in known:
                raise PolicyError(f"column {other!r} is not in {source.name}{did_you_mean(other, known)}")
        if reason := technique.refuse(name):
            raise PolicyError(f"column {name!r}: {reason}")
        technique.check_others(name, techniques)
    treatments: dict[str, Treatment] = {}
    for name, technique in techniques.items():
        try:
            domain = (domains or {}).get(name, NumberDomain())
            treatment = technique.prepare(name, source, chance, domain)
            treatments |= {name: treatment, **treatment.carried}
        except ShoalError as error:
            if str(error).startswith("column "):
                raise
            raise type(error)(f"column {name!r}: {error}") from None
    fields = [
        pa.field(field.name, treatments[field.name].kind) if field.name in treatments else field
        for field in source.schema
    ]
    fields += [source.schema.field(own).with_name(name) for name, own in (true or {}).items()]
    return TreatedSource(
        source.name, pa.schema(fields), source.n_rows, UNCHANGED, source, treatments, frozenset(identifiers), true or {}
    )


Remains = Literal["yes", "may not", "no"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether each of three risks remains, in the words of the Article 29 Working Party's opinion 05/2014, table 6."""

    technique: str  # as the opinion calls it
    singling_out: Remains
    linkability: Remains
    inference: Remains


PSEUDONYMISATION = Verdict("pseudonymisation", "yes", "yes", "yes")
NOISE_ADDITION = Verdict("noise addition", "yes", "may not", "may not")
SUBSTITUTION = Verdict("substitution", "yes", "yes", "may not")
AGGREGATION = Verdict("aggregation or k-anonymity", "no", "yes", "yes")
L_DIVERSITY = Verdict("l-diversity", "no", "yes", "may not")
DIFFERENTIAL_PRIVACY = Verdict("differential privacy", "may not", "may not", "may not")
HASHING = Verdict("hashing or tokenization", "yes", "yes", "may not")
