"""The effect of techniques on the columns of a release, for an adversary who has read the manifest."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from shoal.columns.base import Trace, read_traces
from shoal.manifest import Attribute, Manifest

MOSTLY = 0.5  # share of exchanged values beyond which a column is not used to find people


@dataclass(frozen=True, slots=True, eq=False)
class Treatments:
    """The manifest's techniques, and the information that they leave to an adversary.

    Tokens with a secret key or salt reveal nothing about a person; an unsalted hash identifies the value to anyone who
    can guess it. Rounding to the nearest multiple and coding are applied to the attacker's knowledge in the same way.
    """

    techniques: Mapping[str, Mapping[str, Any]]
    traces: Mapping[str, Trace]  # of the columns with techniques
    attributes: Mapping[str, Attribute]  # as the manifest has them, with roles as an adversary sees them
    tokens: tuple[str, ...]  # quasi attributes that cannot be used to look people up
    named: tuple[str, ...]  # identifiers that can
    centres: bool
    nobodys: bool

    @classmethod
    def of(cls, manifest: Manifest) -> Treatments:
        """Read the techniques of a manifest."""
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
        return self.traces.get(name, Trace())

    @property
    def shown(self) -> set[str]:
        """The published columns in which an attacker who has a value can recognize it."""
        return {name for name in self.attributes if not self.trace(name).tokens}

    @property
    def of_quasi(self) -> bool:
        """Whether any quasi attribute differs from the source."""
        quasi = [name for name, attribute in self.attributes.items() if attribute.role == "quasi"]
        return bool(self.tokens) or any(name in self.techniques for name in quasi)

    def notes(self, known: Sequence[str]) -> list[str]:
        """Return notes on an attack that uses the *known* columns."""
        notes = [f"the attack does not look people up by {name!r}: its tokens need the key" for name in self.tokens]
        notes += [f"{name!r} was hashed without a salt, so anyone can compute a name's hash" for name in self.named]
        for name in known:
            if self.is_unlinked(name):
                notes.append(f"the attack does not look people up by {name!r}: its values are in other people's rows")
            elif self.trace(name).moved or self.trace(name).blur:
                notes.append(f"{name!r} may not show a person's own value: if no row fits, the nearest rows count")
        if self.centres:
            notes.append("quasi values are averages of groups: if no row fits, the nearest rows count")
        if self.nobodys:
            notes.append("rows were drawn at random: the row that fits a person, or is nearest, need not be their own")
        return notes

    def is_unlinked(self, name: str) -> bool:
        """Whether most values of a column are in other people's rows."""
        return self.trace(name).moved > MOSTLY

    def by_chance(self, name: str) -> bool:
        """Whether a published value may differ at random from the value derived from the person's own."""
        return self.trace(name).moved > 0 or self.trace(name).blur > 0 or self.centres or self.nobodys

    def stay_near(self, name: str, far: float) -> float:
        """Return the probability that a published number is at most *far* times the noise's scale from the true one."""
        entry = self.techniques.get(name, {})
        if "gaussian" in entry:
            return math.erf(far / math.sqrt(2))
        if "base" in entry:  # rounding at random: the nearer multiple is more likely
            return 1 - max(0.0, 1 - far) ** 2
        if "window" in entry:  # the largest difference of ranks is twice the usual one
            return min(1.0, far / 2)
        return 1 - math.exp(-far)

    def apply(self, name: str, values: pa.Array, published: tuple[float, float] | None) -> pa.Array:
        """Return the published values of people with these values if they can be derived, or else the values.

        *published* are the smallest and the greatest number of the column: a multiple outside a declared domain is
        replaced by the last one inside.
        """
        replay = self.trace(name).replay
        return values if replay is None else replay(values, published)
