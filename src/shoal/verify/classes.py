"""The verification of a release in one part: every row is a record, and rows with equal quasi values are a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from shoal.errors import InputError
from shoal.progress import Progress
from shoal.verify.boxes import BoxTree
from shoal.verify.counting import Counted, count_rows
from shoal.verify.covers import Covers, read_covers
from shoal.verify.form import check_dictionaries, check_labels, check_rows
from shoal.verify.guarantees import Covered, check_promise
from shoal.verify.manifest import Manifest
from shoal.verify.reading import FAULTS, PublishedRows, unreadable
from shoal.verify.result import Check, CheckedGuarantee
from shoal.verify.spans import Spans
from shoal.verify.truth import PointReader, check_truth, contents_for

if TYPE_CHECKING:
    from shoal.sources import Source

Populations = Mapping[str, "Source"]


def read_all_covers(manifest: Manifest) -> dict[str, Covers]:
    """Return what the labels of all attributes cover, or raise CoverError."""
    return {attribute.name: read_covers(attribute) for attribute in manifest.attributes if attribute.boxed}


def verify_classes(
    rows: PublishedRows,
    manifest: Manifest,
    reading: Future[dict[str, Covers]],
    source: Source | None,
    populations: Populations | None,
    progress: Progress,
) -> tuple[list[Check], list[CheckedGuarantee] | None]:
    """Return checks and promises of a release in one part; no promises if its rows cannot be read.

    Labels are being read meanwhile; CoverError is raised if one has no meaning.
    """
    contents = None if source is None else contents_for(manifest, rows.schema, source)
    subjects = {subject: None for promise in manifest.promises for subject in promise.subjects}
    try:
        schema = None if source is None else source.schema
        counted = count_rows(rows, manifest, list(subjects), contents, progress, schema)
    except FAULTS as fault:
        reading.result()
        return [unreadable(fault)], None
    covers = reading.result()
    checks = [check_rows(counted.rows, manifest), *check_dictionaries(rows)]
    if covers:
        checks.append(check_labels(counted.unknown, counted.idle))
    if manifest.levels:
        checks.append(_full_domain(manifest, covers))
    guarantees: list[CheckedGuarantee] = []
    known: dict[str, Covered] = {}
    for promise in manifest.promises:
        name = promise.parameters.get("population")
        covered = None
        if isinstance(name, str) and promise.obstacle is None and populations and name in populations and counted.rows:
            quasi = manifest.of_role("quasi")
            if any(not attribute.boxed or attribute.name in manifest.techniques for attribute in quasi):
                promise = replace(promise, obstacle="cannot check: a population has no values of changed attributes")
            elif name not in known:
                checks.append(_same_population(name, manifest, populations[name]))
                boxed = [covers[attribute.name] for attribute in quasi]
                known[name] = _covered(populations[name], boxed, manifest, counted, progress)
            covered = known.get(name)
        guarantees.append(check_promise(promise, manifest, counted, covered, with_source=source is not None))
    if manifest.account is not None:
        checks.append(Check("truth", True, "the rows are nobody's, so they are not compared with people"))
    elif source is not None and contents is not None:
        boxed = [covers[a.name] for a in manifest.attributes if a.boxed and manifest.traced(a)]
        checks += check_truth(manifest, counted, boxed, contents, source, progress)
    return checks, guarantees


def _full_domain(manifest: Manifest, covers: Mapping[str, Covers]) -> Check:
    """Check that labels of an attribute do not overlap, as is so at one level, and stand for one value at level 0."""
    for attribute in manifest.of_role("quasi"):
        cover = covers[attribute.name]
        order = np.argsort(cover.low, kind="stable")
        if (cover.low[order][1:] < cover.high[order][:-1]).any():
            return Check("levels", False, f"labels of {attribute.name} overlap, so they are not of one level")
        original = manifest.levels[attribute.name] == 0 and attribute.kind == "category"
        if original and any(len(entry.get("values", ())) > 1 or "any" in entry for entry in cover.declared()):
            return Check(
                "levels", False, f"{attribute.name} is at level 0, but a label of it stands for several values"
            )
    return Check("levels", True, "every quasi attribute bears labels of one level")


def _same_population(name: str, manifest: Manifest, population: Source) -> Check:
    declared = manifest.populations.get(name)
    if declared is None:
        return Check("population", True, "the manifest does not say which file the population was")
    same = population.digest() == declared
    detail = "the population is the declared one" if same else "the population differs from the declared one"
    return Check("population", same, detail)


def _covered(
    population: Source, covers: Sequence[Covers], manifest: Manifest, counted: Counted, progress: Progress
) -> Covered:
    names = [cover.attribute.name for cover in covers]
    absent = [name for name in names if name not in population.schema.names]
    if absent:
        raise InputError(f"{population.name} lacks columns of the release: {', '.join(absent)}")
    tree = BoxTree.of(covers, Spans.of(covers, counted.labels))
    reader = PointReader(covers, manifest.missing_tokens)
    totals = np.zeros(counted.sizes.shape[0], dtype=np.int64)
    uncovered = 0
    with progress.step("reading the population", population.n_rows) as step:
        for batch in population.batches(names, dictionary=names):
            uncovered += tree.count(reader.points(batch), totals)
            step.advance(batch.num_rows)
    return Covered(totals, uncovered)
