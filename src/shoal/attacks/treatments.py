"""What techniques did to the columns of a release, as somebody takes it who has read the manifest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.columns.base import Trace, read_traces
from shoal.manifest import Attribute, Manifest

MOSTLY = 0.5  # of the records, beyond which an exchanged value is no better than none


@dataclass(frozen=True, slots=True, eq=False)
class Treatments:
    """The manifest's techniques, and what they leave for an adversary to use.

    Tokens of a key or a salt that nobody has say nothing of a person; hashes without a salt say all, for whoever knows
    the value can hash it. Rounding to the nearest and coding are done to what is known of a person in the same way.
    """

    techniques: Mapping[str, Mapping[str, Any]]
    traces: Mapping[str, Trace]  # of the columns with techniques
    attributes: Mapping[str, Attribute]  # as the manifest has them, with roles as an adversary sees them
    tokens: tuple[str, ...]  # quasi attributes that nobody can look people up by
    named: tuple[str, ...]  # identifiers that everybody can
    centres: bool
    nobodys: bool

    @classmethod
    def of(cls, manifest: Manifest) -> Treatments:
        """Read a manifest; one without techniques has none."""
        techniques, quasi = manifest.techniques, manifest.names("quasi")
        traces = read_traces(techniques)
        tokens = tuple(name for name, trace in traces.items() if trace.hidden and name in quasi)
        named = tuple(
            name for name, trace in traces.items() if trace.replay and techniques[name].get("of") == "identifier"
        )
        seen = manifest.change_roles({**dict.fromkeys(tokens, "insensitive"), **dict.fromkeys(named, "quasi")})
        drawn = manifest.method in ("synthetic", "safepub")
        return cls(techniques, traces, seen.attributes, tokens, named, manifest.method == "microaggregation", drawn)

    def trace(self, name: str) -> Trace:
        """Return what was left in a column."""
        return self.traces.get(name, Trace())

    @property
    def shown(self) -> set[str]:
        """The published columns in which a value can be read by whoever knows it."""
        return {name for name in self.attributes if not self.trace(name).tokens}

    @property
    def of_quasi(self) -> bool:
        """Whether any quasi attribute is not as it was in the source."""
        quasi = [name for name, attribute in self.attributes.items() if attribute.role == "quasi"]
        return bool(self.tokens) or any(name in self.techniques for name in quasi)

    def notes(self, known: Sequence[str]) -> list[str]:
        """Return what to know of an attack on such columns, given the attributes that people are known by."""
        notes = [f"nobody is looked up by {name!r}: its tokens say nothing without their key" for name in self.tokens]
        notes += [f"{name!r} was hashed without a salt, so whoever knows a name has its hash" for name in self.named]
        for name in known:
            if self.is_unlinked(name):
                notes.append(f"nobody is looked up by {name!r}: its values stand in rows of other people")
            elif self.trace(name).moved or self.trace(name).blur:
                notes.append(f"{name!r} need not show people's own values: rows that are near count where none fits")
        if self.centres:
            notes.append("quasi values are those of groups: rows that are near count where none fits")
        if self.nobodys:
            notes.append("rows were drawn: what fits a person, or is nearest, need not be the person's own record")
        return notes

    def is_unlinked(self, name: str) -> bool:
        """Whether the values of a column mostly stand in other rows than their own."""
        return self.trace(name).moved > MOSTLY

    def by_chance(self, name: str) -> bool:
        """Whether a published value need not be what the person's own leads to."""
        return self.trace(name).moved > 0 or self.trace(name).blur > 0 or self.centres or self.nobodys

    def stay_near(self, name: str, far: float) -> float:
        """Return how likely a published number is at most *far* times the noise's scale from the true one."""
        entry = self.techniques.get(name, {})
        if "gaussian" in entry:
            return math.erf(far / math.sqrt(2))
        if "base" in entry:  # a number between two multiples goes to each by how near it is
            return 1 - max(0.0, 1 - far) ** 2
        if "window" in entry:  # ranks differ by up to twice as much as they usually do
            return min(1.0, far / 2)
        return 1 - math.exp(-far)

    def apply(self, name: str, values: pa.Array, published: tuple[float, float] | None) -> pa.Array:
        """Return what is published for people with these values, if that follows from the values; else the values.

        *published* are the least and greatest number of the column: a multiple that would lie next beyond is outside
        of a declared domain, where the last one inside is taken.
        """
        replay = self.trace(name).replay
        return values if replay is None else replay(values, published)
