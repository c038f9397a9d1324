"""The base classes of techniques: declared ways to rewrite a column row by row."""

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

    The result for a row depends only on the run's secret, the row's number and its value. A source can therefore be
    read repeatedly, in batches of any size, and always shows the same rows. Missing values stay missing.
    """

    column: str
    kind: pa.DataType  # of the treated column
    said: Mapping[str, Any]  # the parameters, without keys, salts and paths
    carried: Mapping[str, Treatment] = field(default_factory=dict, kw_only=True)  # of columns that change with it

    @abstractmethod
    def apply(self, column: pa.Array, first_row: int) -> pa.Array:
        """Return the treated rows, given those from number *first_row* on, text dictionary-coded or not."""

    def describe(self) -> dict[str, object]:
        """Return the public description for the manifest."""
        return dict(self.said)

    def findings(self) -> dict[str, int]:
        """Return counts for the evidence, which only the data holder sees."""
        return {}

    def warnings(self) -> tuple[str, ...]:
        """Return warnings to the data holder if the technique changed less than requested."""
        return ()


class Trace(NamedTuple):
    """The information that an adversary with the manifest can still use in a treated column."""

    tokens: bool = False  # whether meaningless texts replaced the values
    moved: float = 0.0  # share of the values that were moved to other rows
    blur: float = 0.0  # how far a published number usually is from the true one
    numbers: bool = False  # whether equal numbers may be published as different ones
    within: tuple[str, ...] = ()  # columns whose groups of records kept their values when these were moved
    # The published values as a function of the true ones and the smallest and largest published number, if known.
    replay: Callable[[pa.Array, tuple[float, float] | None], pa.Array] | None = None

    @property
    def hidden(self) -> bool:
        """Whether tokens cannot be assigned to values without the key or salt."""
        return self.tokens and self.replay is None


class Technique(Parameters, ABC):
    """A way to treat a column. Fields are its parameters, declared once for messages, help and schema."""

    name: ClassVar[str]
    title: ClassVar[str]  # a plain phrase for people
    roles: ClassVar[tuple[Role, ...]]  # of attributes that it may treat
    verdict: ClassVar[Verdict | None] = None  # of the Working Party's opinion, if it covers the technique
    makes_tokens: ClassVar[bool] = False  # whether meaningless texts replace the values
    consistent: ClassVar[bool] = True  # whether equal values get equal tokens, which then identify persons
    keeps_owners: ClassVar[bool] = False  # whether the verifier can still assign rows to persons and count these

    @property
    def determined(self) -> bool:
        """Whether the true value alone determines the published one: diverse published values had diverse true ones."""
        return False

    @property
    def needs(self) -> tuple[str, ...]:
        """Other columns that it reads."""
        return ()

    @property
    def carried(self) -> tuple[str, ...]:
        """Other columns that it changes together with its own."""
        return ()

    def refuse(self, column: str) -> str | None:
        """Return why it cannot treat a column of this name, regardless of the data; None if it can."""
        return f"{self.name} within the column itself would change nothing" if column in self.needs else None

    def check_others(self, column: str, techniques: Mapping[str, Technique]) -> None:
        """Refuse a technique that is incompatible with other columns' techniques."""

    def resolve(self, base: Path) -> Self:  # noqa: ARG002
        """Return the technique with relative paths resolved against the folder *base*."""
        return self

    @abstractmethod
    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:
        """Bind the technique to a column whose numbers lie in *domain* according to the policy.

        Data that the technique cannot treat are refused here, or at the first batch that contains them.
        """

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:  # noqa: ARG003
        """Describe the treatment of a column to readers, in Markdown, from its *entry* in the manifest."""
        return f"values were changed by the technique `{cls.name}`: {cls.title}."

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:  # noqa: ARG003
        """Return advice to analysts as Markdown list items, given the *entries* of all columns treated by it."""
        return []

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:  # noqa: ARG003
        """Return what an adversary can use in a column with this *entry* of the manifest."""
        return Trace(tokens=cls.makes_tokens)

    def public(self, **others: object) -> dict[str, object]:
        """Return the technique's name and its parameters that are not None."""
        given: Mapping[str, Any] = self.model_dump(mode="json", exclude_none=True)
        return {"technique": self.name, **given, **others}


def list_changed(techniques: Mapping[str, Technique]) -> dict[str, Technique]:
    """Return the technique of every changed column, including columns that others carry."""
    return {name: one for own, one in techniques.items() for name in (own, *one.carried)}


def read_traces(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Trace]:
    """Return the traces of techniques in the columns of a release, given the manifest's entries on changed columns."""
    known = discover("shoal.columns", Technique) if entries else {}
    return {
        name: known[entry["technique"]].trace(entry) if entry["technique"] in known else Trace()
        for name, entry in entries.items()
    }


@dataclass(frozen=True, slots=True)
class NumberDomain:
    """The declared smallest and largest number of a column, or None; never taken from the data."""

    low: Number | None = None
    high: Number | None = None

    @property
    def ends(self) -> dict[str, Number]:
        """The bounds by their names in policies and manifests, ``min`` and ``max``."""
        named = {"min": self.low, "max": self.high}
        return {end: number for end, number in named.items() if number is not None}


def find_domain(taxonomy: TaxonomyBuilder | None) -> NumberDomain:
    """Return the numbers that an attribute's taxonomy allows, which intervals bound unless they are open.

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
    """A source changed by sampling or techniques, which the manifest describes under the key ``entry``."""

    entry: ClassVar[str]

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return the public description of the change."""

    @abstractmethod
    def concerns(self, columns: Collection[str]) -> bool:
        """Whether the change affects which records, or which values of these columns, are counted."""


def describe_changes(source: Source) -> dict[str, dict[str, object]]:
    """Return the manifest's entries on the changes of a source."""
    return {layer.entry: layer.describe() for layer in layers(source) if isinstance(layer, ChangedSource)}


def changes_before(source: Source, columns: Collection[str]) -> bool:
    """Whether records were sampled or values of these columns changed before counting."""
    return any(isinstance(layer, ChangedSource) and layer.concerns(columns) for layer in layers(source))


@dataclass(frozen=True, slots=True, eq=False)
class TreatedSource(ChangedSource):
    """The rows of another source with some columns treated and the others unchanged."""

    entry = "techniques"
    treatments: Mapping[str, Treatment]
    identifiers: frozenset[str] = frozenset()  # columns whose tokens identify persons
    true: Mapping[str, str] = field(default_factory=dict)  # additional columns with the true values of treated ones

    def describe(self) -> dict[str, object]:
        return {
            name: treatment.describe() | ({"of": "identifier"} if name in self.identifiers else {})
            for name, treatment in self.treatments.items()
        }

    def concerns(self, columns: Collection[str]) -> bool:
        return not self.treatments.keys().isdisjoint(columns)

    def findings(self) -> dict[str, dict[str, int]]:
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
    """Return the warnings of a source's treatments."""
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
    """Return the source with each of these columns treated.

    *domains* are the numbers that the policy allows in columns; *identifiers* are columns whose tokens identify
    persons. Techniques read the untreated columns, so their order does not matter. *true* maps the names of additional
    columns to the columns whose untreated values they have.
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
    """Whether each of three risks remains, according to table 6 of the Article 29 Working Party's opinion 05/2014."""

    technique: str  # its name in the opinion
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
