"""A release of any kind, and people, as an adversary has them: the values that remain for known quasi values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from shoal.attacks import kernels
from shoal.attacks.base import People
from shoal.attacks.parts import (
    Labels,
    Secret,
    ViewPart,
    read_agreed_boxes,
    read_parts,
    rows_of,
    scales_of,
)
from shoal.attacks.treatments import Treatments
from shoal.core.arrays import BoolArray, CodeArray, FloatArray, IntArray
from shoal.core.dictionaries import split_values
from shoal.core.errors import InputError, UsageError
from shoal.core.kernels import gather_entries, group_items
from shoal.linking.space import Space
from shoal.manifest import Manifest
from shoal.plan.reader import find_specific
from shoal.policy.policy import Policy
from shoal.release.covers import read_numbers
from shoal.release.forms.base import Form
from shoal.release.published import PublishedRelease, encode_column
from shoal.release.release import Release
from shoal.release.sliced.table import SlicedTable, number_rows

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_AT_ONCE = 512  # queries
_CELLS = 2**22  # of queries and buckets
_NEAREST = 2_000  # boxes that are searched for the nearest
_REACH = 2.0  # times the scale of noise: the largest distance of a number in a bucket from a person's own
UNKNOWN = -1  # code of an attribute that an adversary does not know of a person


class Covering(NamedTuple):
    """The classes that cover each query."""

    start: IntArray  # (n_queries + 1,)
    boxes: IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Remainder:
    """The sensitive values that a release leaves for each of n people; none if no box covers the person."""

    weights: FloatArray  # (n, n_values) in proportion to the adversary's belief in each value
    entries: IntArray  # (n,) published entries that may be the person's
    far: FloatArray  # (n,) 0 if boxes cover the person; otherwise the distance of the nearest, or infinity


@dataclass(frozen=True, slots=True, eq=False)
class ReleaseView:
    """The published rows and their manifest, in codes that the attacks share.

    A release has parts, and each row of a part lies in a *box* over the quasi attributes: the values that its labels
    cover. A generalized release, and one with unchanged values, has one part and one bucket.
    """

    release: PublishedRelease
    rows: pa.Table
    contents: Sequence[tuple[pa.Table, CodeArray]]  # the distinct rows of each part, and which of them each row has
    space: Space
    parts: tuple[ViewPart, ...]
    labels: tuple[Labels, ...]  # of each known attribute
    bucket: CodeArray  # (n_rows,)
    sizes: FloatArray  # (n_buckets,)
    secrets: Mapping[str, Secret]
    scales: FloatArray  # (n_known,) the range of each number
    sliced: SlicedTable | None
    policy: Policy | None
    treatments: Treatments

    @classmethod
    def read(
        cls, release: Release | str | Path, policy: Policy | None = None, like: ReleaseView | None = None
    ) -> ReleaseView:
        """Read a release, or the folder of one; see ``of``."""
        return cls.of(PublishedRelease.open(release), policy, like)

    @classmethod
    def of(
        cls, release: PublishedRelease, policy: Policy | None = None, like: ReleaseView | None = None
    ) -> ReleaseView:
        """View a published release as an adversary does.

        A policy adds taxonomies that the manifest does not contain. Sensitive numbers are put into the ranges of the
        view *like*.
        """
        treatments = Treatments.of(release.manifest)
        attributes = treatments.attributes
        if not any(attribute.role == "quasi" for attribute in attributes.values()):
            why = "all quasi attributes are tokens" if treatments.tokens else "no attribute is quasi-identifying"
            raise UsageError(f"{why}, so people cannot be looked up in the release")
        table, form = release.read_texts(), release.form
        sliced = None if form.whole_records else SlicedTable.of(table, release.manifest.parts)
        bucket = np.zeros(table.num_rows, dtype=np.int32) if sliced is None else sliced.bucket
        n_buckets = 1 if sliced is None else sliced.n_buckets
        contents = (
            [(table, np.arange(table.num_rows, dtype=np.int32))]
            if sliced is None
            else [(part.distinct, part.codes) for part in sliced.parts]
        )
        agreed = read_agreed_boxes(release, table) if form.by_plan else None
        reach = {
            name: _REACH * treatments.trace(name).blur
            for name, one in attributes.items()
            if sliced is not None and one.role == "quasi" and treatments.trace(name).blur and not one.boxed
        }
        space, parts, labels = read_parts(contents, attributes, bucket, n_buckets, agreed, reach)
        moved = np.array([treatments.trace(name).moved > 0 for name in space.attributes])
        if moved.any():
            parts = tuple(replace(part, places=np.where(moved, 0, part.places).astype(np.int32)) for part in parts)
        secrets = {}
        for name, attribute in attributes.items():
            if attribute.role == "sensitive":
                own = next(place for place, (own, _) in enumerate(contents) if name in own.column_names)
                model = None if like is None else like.secrets.get(name)
                column, place = contents[own][0].column(name), contents[own][1]
                secrets[name] = Secret.of(own, parts[own].pairs, column, place, attribute, treatments, model)
        sizes = np.bincount(bucket, minlength=n_buckets).astype(np.float64)
        scales = scales_of(parts)
        return cls(
            release, table, contents, space, parts, labels, bucket, sizes, secrets, scales, sliced, policy, treatments
        )

    @property
    def known(self) -> tuple[str, ...]:
        """The quasi attributes, which an adversary can know of a person."""
        return self.space.attributes

    @property
    def manifest(self) -> Manifest:
        return self.release.manifest

    @property
    def form(self) -> Form:
        return self.release.form

    @property
    def generalized(self) -> bool:
        """Whether some quasi attribute is published in labels."""
        return any(self.manifest.attributes[name].boxed for name in self.known)

    @property
    def n_rows(self) -> int:
        return len(self.bucket)

    @property
    def widths(self) -> CodeArray:
        """(n_known,) number of codes of each attribute."""
        return np.array([cover.width for cover in self.space.covers], dtype=np.int32)

    @property
    def as_they_are(self) -> bool:
        """Whether rows show values rather than labels: if values were changed, no row may cover the person."""
        return self.sliced is None and not self.generalized

    @property
    def may_miss(self) -> bool:
        """Whether a member of the data may not be covered because quasi values were changed, or may have been."""
        return self.as_they_are or any(self.treatments.by_chance(name) for name in self.known)

    @property
    def together(self) -> BoolArray:
        """(n_known,) whether the values of each attribute are in the rows of their own people."""
        return np.array([not self.treatments.is_unlinked(name) for name in self.known])

    def people(self, table: pa.Table, stated: str, *, partly: bool = False, person: CodeArray | None = None) -> People:
        """Return people in the codes of this release; *stated* names their table in messages.

        *person* has the person of each row, with a person's rows adjacent; by default each row is a different person. A
        quasi attribute that the table does not have is refused or, if people are known *partly*, unknown. If a
        technique changes a value in a way that the adversary can repeat, the codes belong to the changed value.
        """
        if not table.num_rows:
            raise InputError(f"{stated} is empty")
        codes = np.empty((table.num_rows, len(self.known)), dtype=np.int32)
        numbers = np.full(codes.shape, np.nan)
        for place, name in enumerate(self.known):
            if name not in table.column_names:
                if partly or name in self.treatments.named:
                    codes[:, place] = UNKNOWN
                    continue
                raise InputError(f"{stated} has no column {name!r}, a quasi-identifier of the release")
            index, known = split_values(table.column(name))
            cover, published = self.space.covers[place], self.labels[place].spans[:, 0]
            ends = None  # the smallest and the greatest number, if values are published
            if not self.manifest.attributes[name].boxed and np.isfinite(published).any():
                ends = float(np.nanmin(published)), float(np.nanmax(published))
            values = self.treatments.apply(name, known, ends)
            codes[:, place] = np.append(self.space.codes(place, values), np.int32(cover.missing))[index]
            if cover.kind in ("number", "date"):
                read = read_numbers(values, cover.kind, cover.format)
                numbers[:, place] = np.append(read, np.nan)[index]
        secrets = {
            name: secret.codes(table.column(name))
            for name, secret in self.secrets.items()
            if name in table.column_names
        }
        own = np.arange(table.num_rows, dtype=np.int32) if person is None else person
        return People(codes, numbers, secrets, table, own)

    def hulls(self, codes: CodeArray) -> CodeArray:
        """Return (n, 2 n_known) the ranges of people with these codes: from and below, attribute by attribute.

        Attributes whose values are not in their people's rows count as unknown.
        """
        unknown = (codes == UNKNOWN) | ~self.together
        ends = [np.where(unknown, 0, codes), np.where(unknown, self.widths, codes + 1)]
        return np.stack(ends, axis=2).reshape(len(codes), -1).astype(np.int32)

    def _queries(self, codes: CodeArray, numbers: FloatArray) -> tuple[CodeArray, FloatArray, CodeArray]:
        """Return the distinct combinations of known values: hulls, numbers, and (n,) the combination of each person.

        For people with few known values most records match, so equal queries are made only once.
        """
        unknown = (codes == UNKNOWN) | ~self.together
        stated = np.where(unknown, UNKNOWN, codes)
        read = np.where(unknown, np.nan, numbers)
        columns = [*(stated.T + 1), *(np.unique(own, return_inverse=True)[1].reshape(-1) for own in read.T)]
        person, first = number_rows(columns, len(codes))
        return self.hulls(stated[first]), read[first], person

    def find_left(self, secret: Secret, people: People) -> Remainder:
        """Return the values that remain for people whose quasi values are all known.

        Each sensitive value has the records of the most specific boxes that cover the person or, in a sliced release,
        p(t,.) of Li, Li, Zhang and Molloy: the sum over buckets of the matching degree times the value's share of the
        matching entries. If no box covers a person, and the release has one part, the nearest boxes count.
        """
        hulls, numbers, person = self._queries(people.codes, people.numbers)
        n, n_values, of_pair = len(hulls), len(secret.values), secret.entries
        weights, entries, far = np.zeros((n, n_values)), np.zeros(n, dtype=np.int64), np.zeros(n)
        part = self.parts[secret.part]

        def block(rows: slice) -> None:
            own = hulls[rows], numbers[rows]
            covering, far[rows] = self.cover_closely(part, *own, near=self.sliced is None)
            if self.sliced is None:
                row, pair = gather_entries(part.pairs.start, covering.boxes)
                query, factor = rows_of(covering.start)[row], np.ones(len(row))
            else:
                factors = self.factors(*own, without=secret.part)
                entry, pair = self.match_pairs(part, covering, factors)
                query, factor = rows_of(factors.indptr)[entry], factors.data[entry]
            entries[rows] = np.bincount(query, part.pairs.records[pair], len(own[0]))
            spread, value = gather_entries(of_pair.start, pair)
            key = query[spread] * n_values + of_pair.value[value]
            total = np.bincount(key, factor[spread] * of_pair.weight[value], len(own[0]) * n_values)
            weights[rows] = total.reshape(-1, n_values)

        self.in_blocks(n, block)
        return Remainder(weights[person], entries[person], far[person])

    def believe(self, secret: Secret, people: People) -> FloatArray:
        """Return (n, n_values) weights in proportion to the belief in each value, given how often values were moved.

        If a share of the values was moved within groups, this share of the belief goes to the values of the person's
        group.
        """
        weights = self.find_left(secret, people).weights
        if secret.moved == 0:
            return weights
        known = np.isin(self.known, secret.within)
        group = replace(people, codes=np.where(known, people.codes, UNKNOWN).astype(np.int32))
        own, usual = (
            each / np.maximum(each.sum(axis=1, keepdims=True), 1e-300)
            for each in (weights, self.find_left(secret, group).weights)
        )
        return np.asarray((1 - secret.moved) * own + secret.moved * usual)

    def copies(self, codes: CodeArray, numbers: FloatArray, *, near: bool = True) -> tuple[FloatArray, FloatArray]:
        """Return (n,) how many published records may be each person's, and the distance of the nearest if none may.

        For a sliced release the number is the expectation over all ways to link the parts, and near records do not
        count.
        """
        hulls, numbers, person = self._queries(codes, numbers)
        found, far = np.zeros(len(hulls)), np.zeros(len(hulls))

        def block(rows: slice) -> None:
            own = hulls[rows], numbers[rows]
            if self.sliced is None:
                part = self.parts[0]
                covering, far[rows] = self.cover_closely(part, *own, near=near)
                records = np.bincount(rows_of(covering.start), part.records[covering.boxes], len(own[0]))
                found[rows] = np.where(far[rows] > 0, 0, records)
                return
            found[rows] = self.factors(*own, without=None) @ self.sizes**2

        self.in_blocks(len(hulls), block)
        return found[person], far[person]

    def read_records(self, rows: IntArray | None = None) -> list[CodeArray]:
        """Return for each part (n, n_known) the labels of all rows or some, -1 for attributes of other parts."""
        found = []
        for part, (_, place) in enumerate(self.contents):
            chosen = place if rows is None else place[rows]
            labels = [
                self.read_labels(part, a)[chosen] if own else np.full(len(chosen), -1, dtype=np.int32)
                for a, own in enumerate(self.parts[part].known)
            ]
            found.append(np.stack(labels, axis=1))
        return found

    def read_labels(self, part: int, attribute: int) -> CodeArray:
        """Return (n_distinct,) the label of an attribute in each distinct row of a part."""
        codes, texts = encode_column(self.contents[part][0].column(self.known[attribute]))
        number = self.labels[attribute].number
        return np.array([number[text] for text in texts], dtype=np.int32)[codes]

    def widen(self, tables: Sequence[pa.Table]) -> ReleaseView:
        """Return the view of an adversary who also has the insensitive columns that all *tables* about people have.

        The classes of an agreed plan do not depend on these columns, so such a view stays the same.
        """
        more = {
            name: "quasi"
            for name, attribute in self.treatments.attributes.items()
            if attribute.role == "insensitive"
            and name in self.treatments.shown
            and all(name in table.column_names for table in tables)
        }
        return self if not more or self.form.by_plan else self.change_roles(more)

    def change_roles(self, roles: Mapping[str, str]) -> ReleaseView:
        manifest = self.manifest.change_roles(roles)
        return ReleaseView.of(replace(self.release, manifest=manifest, data=self.rows, folder=None), self.policy)

    def recode(self, people: People) -> People:
        return self.people(people.table, "the people attacked", partly=True, person=people.person)

    def factors(self, hulls: CodeArray, numbers: FloatArray, without: int | None) -> csr_array:
        """Return (n_queries, n_buckets) the product of the shares that match, divided by the bucket's size.

        One part may be left out; parts without a known attribute match everywhere.
        """
        from scipy.sparse import csr_array, diags_array

        known, n_buckets = hulls[:, 1::2] - hulls[:, ::2] < self.widths, len(self.sizes)
        begun, found = np.zeros(len(hulls), dtype=np.bool_), csr_array((len(hulls), n_buckets))
        for place, part in enumerate(self.parts):
            stated = known[:, part.known].any(axis=1)
            if place == without or not stated.any():
                continue
            covering, _ = self.cover(part, hulls[stated], numbers[stated], near=False)
            of, covers = part.pairs, np.zeros(len(hulls), dtype=np.int64)
            covers[stated] = np.diff(covering.start)
            start, ones = np.append(0, np.cumsum(covers)), np.ones(len(covering.boxes))
            covered = csr_array((ones, covering.boxes, start), shape=(len(hulls), len(part.records)))
            share = of.records / self.sizes[of.second]
            shares = covered @ csr_array((share, of.second, of.start), shape=(len(part.records), n_buckets))
            if begun.any():
                known_before, new, others = (
                    diags_array(rows.astype(float)) for rows in (stated & begun, stated & ~begun, ~stated)
                )
                shares = known_before @ found.multiply(shares) + new @ shares + others @ found
            found, begun = shares, begun | stated
        if not begun.all():  # people without known values match all buckets
            found = found + csr_array(np.broadcast_to(~begun[:, np.newaxis], found.shape).astype(float))
        found.data /= self.sizes[found.indices]
        return found

    def match_pairs(self, part: ViewPart, covering: Covering, factors: csr_array) -> tuple[IntArray, IntArray]:
        """Return the pairs of a covering class and a matching bucket, each with the place of its factor."""
        start, by_bucket = group_items(part.pairs.second, len(self.sizes))
        entry, place = gather_entries(start, factors.indices)
        pair = by_bucket[place]
        class_of = rows_of(part.pairs.start)
        asked = rows_of(factors.indptr)[entry] * len(part.records) + class_of[pair]
        kept = np.isin(asked, rows_of(covering.start) * len(part.records) + covering.boxes)
        return entry[kept], pair[kept]

    def cover(
        self, part: ViewPart, hulls: CodeArray, numbers: FloatArray, *, near: bool
    ) -> tuple[Covering, FloatArray]:
        """Return the classes that may be each person's, and their distance; see the kernel.

        If values were not changed by chance, a person whom no box covers is not in the data, and two thousand boxes are
        enough to guess from the nearest: boxes are in the order of the rows, which were shuffled.
        """
        changed = any(self.treatments.by_chance(name) for name in self.known)
        step = 0 if not near else 1 if changed else max(1, len(part.boxes.hulls) // _NEAREST)
        gower = kernels.Gower(part.spans, part.places, self.scales, self.widths)
        asked = np.ascontiguousarray(hulls), np.ascontiguousarray(numbers)
        start, boxes, far = kernels.find_covering(*asked, part.boxes, part.index, gower, step)
        if part.owner is None:
            return Covering(start, boxes), far
        query = rows_of(start)
        once = np.unique(query * len(part.records) + part.owner[boxes])  # a class counts once, whatever its boxes
        query, classes = np.divmod(once, len(part.records))
        return Covering(np.searchsorted(query, np.arange(len(hulls) + 1)), classes), far

    def cover_closely(
        self, part: ViewPart, hulls: CodeArray, numbers: FloatArray, *, near: bool
    ) -> tuple[Covering, FloatArray]:
        """Return the most specific of the classes that cover each query; see ``cover``.

        The method puts people into the most specific class unless it moves their records. This is wrong for buckets,
        the classes of a plan, and values that were changed or are unknown: all classes count then.
        """
        covering, far = self.cover(part, hulls, numbers, near=near)
        changed = any(self.treatments.by_chance(name) for name in self.known)
        several = np.diff(covering.start) > 1
        if self.sliced is not None or part.owner is not None or changed or not several.any():
            return covering, far
        known = (far == 0) & (hulls[:, 1::2] - hulls[:, ::2] == 1).all(axis=1)
        query, kept = rows_of(covering.start), np.ones(len(covering.boxes), dtype=np.bool_)
        own = np.flatnonzero(known[query])
        start = np.searchsorted(query[own], np.arange(len(hulls) + 1))
        kept[own] = find_specific(start, np.arange(len(own)), part.measure_widths(covering.boxes[own]))
        return Covering(np.searchsorted(query[kept], np.arange(len(hulls) + 1)), covering.boxes[kept]), far

    def find_classes(self, part: ViewPart, people: People) -> CodeArray:
        """Return (n,) the most specific class of a part that covers each person, -1 if there is none or several."""
        (start, classes), _ = self.cover_closely(part, self.hulls(people.codes), people.numbers, near=False)
        found = np.full(len(people), -1, dtype=np.int32)
        one = np.diff(start) == 1
        found[one] = classes[start[:-1][one]]
        return found

    def in_blocks(self, n: int, block: Callable[[slice], None]) -> None:
        """Run *block* on ranges of n people, in threads."""
        size = max(1, min(_AT_ONCE, _CELLS // len(self.sizes)))
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            for _ in threads.map(block, [slice(begin, begin + size) for begin in range(0, n, size)]):
                pass
