"""Targeted record swapping: households at risk exchange areas with similar households elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from shoal.columns.base import SUBSTITUTION, NumberDomain, Technique, Trace, Treatment
from shoal.columns.permutation import MovedTreatment
from shoal.columns.sampling import refuse_nobody
from shoal.core.arrays import AnyIntArray, BoolArray, CodeArray, IntArray, KeyArray
from shoal.core.dictionaries import MISSING_CODE, encode_columns
from shoal.core.errors import InputError
from shoal.core.kernels import group_items, kernel, number_keys, pack
from shoal.core.randomness import Chance
from shoal.core.wording import code, count_noun, join_words
from shoal.sources.base import Source


class RecordSwapping(Technique):
    """Households with members that are rare in their area exchange all geographic codes with similar households.

    A household is at risk at a level of the hierarchy if one of its records shares its *risk* values with fewer than k
    records of its area. It is swapped with a household of the same size and the same *similar* values in another area
    of the coarsest level at which it is at risk, within the same area of the level above. Counts of areas by the
    similar columns are preserved at all levels, and no other column changes. Eurostat recommends the method in
    "Guidelines for statistical disclosure control methods applied on geo-referenced data and census"; sdcMicro has it
    as ``recordSwap``.

    >>> RecordSwapping(hierarchy=("region", "town"), risk=("age",), household="hid").carried
    ('region',)
    """

    name = "record-swapping"
    title = "areas exchanged between similar households, those at risk and some others"
    roles = ("quasi", "sensitive", "insensitive")
    verdict = SUBSTITUTION

    hierarchy: tuple[str, ...] = Field(
        min_length=1, description="the geographic columns from the coarsest to the finest, this one"
    )
    risk: tuple[str, ...] = Field(
        default=(),
        description="columns by which people can be recognized; records that agree with few in their area are at risk",
    )
    k: int = Field(
        default=3,
        ge=2,
        description="records of an area that agree in the risk columns are at risk if there are fewer than this",
    )
    similar: tuple[str, ...] = Field(
        default=(), description="columns in which the members of two households must agree to exchange their areas"
    )
    household: str | None = Field(
        default=None, description="the column that identifies households; by default each record is one"
    )
    share: float = Field(
        default=0.05, ge=0, lt=1, description="smallest share of households that are swapped, if enough are alike"
    )

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for what in ("hierarchy", "risk", "similar"):
            names = getattr(self, what)
            if len(set(names)) != len(names):
                raise ValueError(f"{what} names a column twice")
        moved = {*self.risk, *self.similar, self.household} & set(self.hierarchy)
        if moved:
            raise ValueError(
                f"{min(filter(None, moved))!r} is in the hierarchy, which is exchanged; name other columns"
            )
        if not self.risk and not self.share:
            raise ValueError("no household would be swapped; name risk columns, or a share above 0")
        return self

    @classmethod
    def explain(cls, entry: Mapping[str, Any]) -> str:
        who = "households" if entry["household"] else "records"
        alike = f" that agree in {join_words([code(name) for name in entry['within']])}" if entry["within"] else ""
        size = " of the same size" if entry["household"] else ""
        areas = join_words([code(name) for name in entry["hierarchy"]])
        return (
            f"areas ({areas}) were exchanged, all levels together, between {who}{size}{alike}. About "
            f"{entry['swapped']:.0%} of the records have another area than their own; counts of areas are unchanged."
        )

    @classmethod
    def advise(cls, entries: Mapping[str, Mapping[str, Any]]) -> list[str]:
        names = join_words([code(name) for name in entries])
        advice = (
            f"- Areas ({names}) were exchanged between records. This distorts tables of areas by columns in which the "
            "records did not have to agree, especially for small areas."
        )
        return [advice]

    @classmethod
    def trace(cls, entry: Mapping[str, Any]) -> Trace:
        return Trace(moved=float(entry["swapped"]), within=tuple(entry["within"]))

    @property
    def carried(self) -> tuple[str, ...]:
        return self.hierarchy[:-1]

    @property
    def needs(self) -> tuple[str, ...]:
        own = (*self.carried, *self.risk, *self.similar, *([self.household] if self.household else []))
        return tuple(dict.fromkeys(own))

    def refuse(self, column: str) -> str | None:
        return None if self.hierarchy[-1] == column else "the hierarchy must end with this column, the finest areas"

    def prepare(self, column: str, source: Source, chance: Chance, domain: NumberDomain) -> Treatment:  # noqa: ARG002
        names = [column, *self.needs]
        dictionaries, read = encode_columns(source.batches(names, dictionary=names))
        codes = dict(zip(names, read, strict=True))
        areas = self._number_areas(codes)
        homes = self._find_households(codes, areas, chance)
        level = self._find_risk(codes, areas, homes)  # (n_households,)
        partner = np.arange(len(homes.first))
        for depth in range(len(areas)):
            _swap(homes, areas, depth, level == depth, partner, chance)
        at_risk = level < len(areas)
        left = int((at_risk & (partner == np.arange(len(partner)))).sum())
        self._fill_share(homes, areas, partner, chance)
        origin = homes.first[partner[homes.household]]  # (n_rows,) a record of the household whose areas each row gets
        found = {
            "households": len(partner),
            "households_at_risk": int(at_risk.sum()),
            "households_at_risk_left_in_place": left,
            "households_swapped": int((partner != np.arange(len(partner))).sum()),
        }
        levels: dict[str, Treatment] = {}
        for name, dictionary in zip(names[: len(areas)], dictionaries, strict=False):  # the finest is the first
            kind, moved = source.schema.field(name).type, codes[name][origin]
            changed = math.ceil(100 * float((moved != codes[name]).sum()) / max(len(moved), 1)) / 100
            said = self.public(household=self.household is not None, within=list(self.similar), swapped=changed)
            del said["similar"]
            levels[name] = SwappedTreatment(name, kind, said, dictionary.values, moved, found if name == column else {})
        own = levels.pop(column)
        return replace(own, carried=levels)

    def _number_areas(self, codes: Mapping[str, CodeArray]) -> list[CodeArray]:
        """Return (n_rows,) areas for each level; refuse areas that lie in several coarser ones."""
        areas = [_number([codes[self.hierarchy[0]]])]
        for above, name in zip(self.hierarchy, self.hierarchy[1:], strict=False):
            areas.append(_number([areas[-1], codes[name]]))
            first, _ = number_keys(areas[-1].astype(np.uint64))
            times = np.bincount(codes[name][first], minlength=1)
            times[MISSING_CODE] = 0
            if several := int((times > 1).sum()):
                raise InputError(
                    f"column {name!r}: {count_noun(several, 'area lies', 'areas lie')} in several areas of {above!r}, "
                    "so these columns do not form a hierarchy; correct them, or give different areas different codes"
                )
        return areas

    def _find_households(
        self, codes: Mapping[str, CodeArray], areas: Sequence[CodeArray], chance: Chance
    ) -> Households:
        """Number the households and their profiles, which are equal for equal sizes and multisets of similar values."""
        n = len(areas[-1])
        alike = _number([codes[name] for name in self.similar]) if self.similar else np.zeros(n, dtype=np.int32)
        if self.household is None:
            rows = np.arange(n)
            return Households(rows.astype(np.int32), rows, rows, rows, alike)
        refuse_nobody(self.household, int((codes[self.household] == MISSING_CODE).sum()))
        household = _number([codes[self.household]])
        n_households = int(household.max(initial=-1)) + 1
        start, order = group_items(household, n_households)
        first = order[start[:-1]]
        if apart := len(np.unique(household[areas[-1] != areas[-1][first][household]])):
            raise InputError(
                f"column {self.household!r}: {count_noun(apart, 'household has', 'households have')} records in "
                f"several areas of {self.hierarchy[-1]!r}; correct them, or name another column for households"
            )
        # Sums of random words are equal for equal multisets; others collide with probability 2**-64.
        words = chance.keys(int(alike.max(initial=0)) + 1)[alike][order]
        sums = np.add.reduceat(words, start[:-1]) if n else words
        _, profile = number_keys(sums)
        return Households(household, first, order, start[:-1], _number([np.diff(start), profile]))

    def _find_risk(self, codes: Mapping[str, CodeArray], areas: Sequence[CodeArray], homes: Households) -> IntArray:
        """Return (n_households,) the coarsest level at which each is at risk, or the number of levels if at none."""
        if not self.risk:
            return np.full(len(homes.first), len(areas))
        key = _number([codes[name] for name in self.risk])
        level = np.zeros(len(key), dtype=np.int64)
        for area in areas:  # records that are rare in an area are rare in all areas within it
            cell = _number([area, key])
            level += np.bincount(cell)[cell] >= self.k
        return np.minimum.reduceat(level[homes.order], homes.start) if len(level) else level

    def _fill_share(self, homes: Households, areas: Sequence[CodeArray], partner: IntArray, chance: Chance) -> None:
        """Swap random households across the finest level until the share is reached or none is left."""
        own, tried = np.arange(len(partner)), np.zeros(len(partner), dtype=np.bool_)
        while (wanted := math.ceil(self.share * len(partner)) - int((partner != own).sum())) > 0:
            free = np.flatnonzero((partner == own) & ~tried)
            if not len(free):
                return
            chosen = np.zeros(len(partner), dtype=np.bool_)
            chosen[free[chance.order(len(free))[: -(-wanted // 2)]]] = True
            tried |= chosen
            _swap(homes, areas, len(areas) - 1, chosen, partner, chance)


class Households(NamedTuple):
    """The records of each household, and which households are alike."""

    household: CodeArray  # (n_rows,)
    first: IntArray  # (n_households,) a record of each
    order: IntArray  # (n_rows,) the records by household
    start: IntArray  # (n_households,) where the records of each begin in that order
    profile: CodeArray  # (n_households,) equal for similar households


def _number(columns: Sequence[AnyIntArray]) -> CodeArray:
    """Return (n_rows,) numbers from 0 on, equal for rows that agree in all columns of codes."""
    key = pack(columns, [int(column.max(initial=0)) + 1 for column in columns])
    return number_keys(key.astype(np.uint64))[1]


def _swap(
    homes: Households, areas: Sequence[CodeArray], depth: int, needs: BoolArray, partner: IntArray, chance: Chance
) -> None:
    """Pair households in need with similar ones in another area of this level but the same area of the level above."""
    needs = needs & (partner == np.arange(len(partner)))
    if not needs.any():
        return
    above = [areas[depth - 1][homes.first]] if depth else []
    group = _number([*above, homes.profile])
    concerned = np.zeros(int(group.max()) + 1, dtype=np.bool_)
    concerned[group[needs]] = True
    group = np.where(concerned[group] & (partner == np.arange(len(partner))), group, -1).astype(np.int32)
    start, _ = group_items(group, len(concerned))
    order = chance.order_within(group, len(concerned))
    _pair(start, order, areas[depth][homes.first], needs, chance.keys(len(partner)), partner)


@kernel
def _pair(
    start: IntArray, order: IntArray, area: CodeArray, needs: BoolArray, words: KeyArray, partner: IntArray
) -> None:
    """Pair each household in need with a random one of its group, ``order[start[g]:start[g + 1]]``, in another area.

    The first household of another area after a random place is the partner. Because the group is in random order, all
    are equally likely, and all searches of a group of n take O(n log n) steps. Once a search fails, all remaining
    households are in one area, where no partners exist.
    """
    half, low_bits = np.uint64(32), np.uint64(0xFFFFFFFF)
    place = np.empty(len(area), dtype=np.int64)
    for group in range(len(start) - 1):
        begin, end = start[group], start[group + 1]
        in_need = np.empty(end - begin, dtype=np.int64)
        n_needs = 0
        for at in range(begin, end):
            place[order[at]] = at
            if needs[order[at]]:
                in_need[n_needs] = order[at]
                n_needs += 1
        for number in range(n_needs):
            own = in_need[number]
            if partner[own] != own:
                continue
            n_free = np.uint64(end - begin)
            high, low = words[own] >> half, words[own] & low_bits
            skip = np.int64((high * n_free + (low * n_free >> half)) >> half)
            found = -1
            for step in range(end - begin):
                at = begin + skip + step
                other = order[at if at < end else at - (end - begin)]
                if area[other] != area[own]:
                    found = other
                    break
            if found < 0:
                break
            partner[own], partner[found] = found, own
            for gone in (own, found):  # replace it by the last one
                end -= 1
                order[place[gone]] = order[end]
                place[order[end]] = place[gone]


@dataclass(frozen=True, slots=True, eq=False)
class SwappedTreatment(MovedTreatment):
    """One level of the hierarchy after the swap; the finest level carries the others."""

    def warnings(self) -> tuple[str, ...]:
        left, at_risk = (self.found.get(f"households_at_risk{what}", 0) for what in ("_left_in_place", ""))
        if not left:
            return ()
        warning = (
            f"column {self.column!r}: {left:,} of {at_risk:,} households at risk have no similar one in another area "
            "and were not moved; let households agree in fewer columns, or use fewer levels"
        )
        return (warning,)
