"""The verification of a sliced release: its form, the beliefs about every tuple, and whether buckets are true.

With the witness, the bucket of every source row, truth is settled bucket by bucket: every part has exactly the values
of the bucket's source rows. Without it, truth is not checked, and guarantees are judged for all tuples that the buckets
could form.

A permutation at random cannot be proved, but parts that were not permuted at all show. Two neighbouring parts are
*linked* in a bucket if the pairs in its rows are those of its source rows. The verifier turns the second part of every
bucket by a random number of places and compares again. If parts were permuted at random, the published and the turned
rows have the same distribution: of m buckets that are linked in one of them only, each is linked in the published rows
with a chance of 1/2, and by Hoeffding's inequality these are ahead by d or more with a chance of at most
exp(-d^2 / 2m). Buckets in which turning makes no difference do not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from shoal.verify.classes import check_labels
from shoal.verify.counting import ReleaseTables
from shoal.verify.covers import Covers
from shoal.verify.engine import Engine, name_columns
from shoal.verify.files import read_names
from shoal.verify.form import Answer, check_rows, check_source_counts
from shoal.verify.order import check_bucket_order
from shoal.verify.people import check_withheld
from shoal.verify.result import FALSE_ALARM, Check
from shoal.verify.rows import GUARD, Release, SourceRows, read_file, wrap
from shoal.verify.sliced.beliefs import Adversary, check_promises
from shoal.verify.sliced.reading import FormError, Layout, Slices
from shoal.verify.truth import check_spelling, find_type, leave_untrue, report_truth, write_print, write_word

_FEW = 256  # regions that are compared in pairs
_PAIRS = 1 << 22  # that are compared together


def verify_sliced(
    release: Release, tables: ReleaseTables, covers: Mapping[str, Covers], expected: SourceRows | None
) -> Answer:
    """Return checks and guarantees of a sliced release; no guarantees if its form does not let them be judged."""
    manifest, engine = release.manifest, release.engine
    try:
        layout = Layout.of(manifest)
        engine.run(*tables.labels.statements())
        slices = Slices(release, tables, layout, expected)
    except FormError as fault:
        name, detail = fault.args
        return Answer([Check(name, False, detail)])
    n_rows = int(engine.value("SELECT count(*) FROM slices"))
    checks = [check_rows(n_rows, manifest)]
    checks.append(Check("buckets", True, f"{manifest.buckets} buckets, numbered without gaps"))
    if covers:
        checks.append(check_labels(release, tables))
    if layout.separators:
        checks.append(_check_overlap(slices))
    if not all(check.ok for check in checks):
        return Answer(checks)
    if covers:
        checks.append(_check_regions(slices, covers))
    with_source = False
    if expected is not None:
        counts, misfit = slices.read_source(expected)
        # Chance decided blurred values, so tuples of the source are not the ones that an adversary sees.
        follows = not any(part.blurred for part in layout.parts)
        with_source = expected.witness is not None and misfit is None and follows
        if misfit is not None:
            checks.append(Check("witness", False, f"the file with each row's bucket cannot be used: {misfit}"))
        else:
            checks.append(check_source_counts(manifest, n_rows, counts))
            checks += check_spelling(release, slices.kinds)
            traced = any(map(manifest.is_traced, manifest.attributes))
            unknown = leave_untrue() if traced else report_truth(manifest)
            checks += _compare_source(slices) if expected.witness is not None else [unknown]
        if expected.witness is not None and all(check.ok for check in checks):
            checks += check_withheld(manifest, expected)
    guarantees, lost = check_promises(Adversary(slices), manifest.promises, with_source=with_source)
    if with_source:
        strangers = lost and f"{lost} source rows match no bucket"
        checks.append(Check.of("matching", strangers, "every published source row matches a bucket"))
    return Answer(checks, guarantees)


def _check_overlap(slices: Slices) -> Check:
    """Check that parts that overlap have the same shared values in every bucket."""
    differ = [f"sum(k{number}_0) <> sum(k{number}_1)" for number in range(len(slices.layout.separators))]
    buckets = f"SELECT bucket FROM slices GROUP BY bucket HAVING {wrap(differ, ' OR')}"
    found = slices.engine.value(f"SELECT count(*) FROM ({buckets})")
    fault = found and f"in {found} buckets parts that overlap have different shared values"
    return Check.of("overlap", fault, "parts that overlap have the same shared values in every bucket")


def _check_regions(slices: Slices, covers: Mapping[str, Covers]) -> Check:
    """Check that no two regions of a part cover the same values."""
    found = 0
    for place, part in enumerate(slices.layout.parts):
        if part.boxed:
            digits = [f"{digit} AS l{at}" for at, digit in enumerate(slices.list_digits(place))]
            slices.engine.make("regions", f"SELECT DISTINCT {wrap(digits)} FROM slices")
            found += count_overlapping(slices.engine, [covers[name] for name in part.quasi])
    fault = found and f"{found} regions of a part overlap others of it"
    return Check.of("regions", fault, "regions of a part do not overlap")


def count_overlapping(engine: Engine, covers: Sequence[Covers]) -> int:
    """Return how many ``regions``, which have labels l0, l1, ..., share values with another one.

    Regions whose ranges from the first to the last value overlap in every attribute are compared label by label.
    """
    ends, overlap, shared = [], [], ""
    for at, cover in enumerate(covers):
        engine.put("label_ranges", {"label": cover.owner, "low": cover.low, "high": cover.high})
        engine.make(f"ranges{at}", "FROM label_ranges")
        engine.make(
            f"hulls{at}", f"SELECT label, min(low) AS low{at}, max(high) AS high{at} FROM ranges{at} GROUP BY 1"
        )
        both = f"ranges{at} AS a JOIN ranges{at} AS b ON a.low < b.high AND b.low < a.high"
        engine.make(f"meeting{at}", f"SELECT DISTINCT a.label AS own{at}, b.label AS other{at} FROM {both}")
        ends.append(f"JOIN hulls{at} ON l{at} = hulls{at}.label")
        overlap.append(f"a.low{at} < b.high{at} AND b.low{at} < a.high{at}")
        shared += f" SEMI JOIN meeting{at} ON x{at} = own{at} AND y{at} = other{at}"
    engine.make("boxes", f"SELECT * EXCLUDE (label), row_number() OVER () AS box FROM regions {' '.join(ends)}")
    labels = [f"a.l{at} AS x{at}, b.l{at} AS y{at}" for at, _ in enumerate(covers)]
    pairs = f"SELECT a.box, {wrap(labels)} FROM boxes AS a JOIN boxes AS b ON {wrap(overlap, ' AND')}"
    return int(engine.value(f"SELECT count(DISTINCT box) FROM ({pairs} AND a.box <> b.box){shared}"))


def _compare_source(slices: Slices) -> Iterator[Check]:
    """Compare every bucket with the source rows that the witness puts there."""
    engine, parts = slices.engine, range(len(slices.layout.parts))
    located = [f"q{place} IS NULL" for place, part in enumerate(slices.layout.parts) if part.located]
    if located:
        homeless = engine.value(f"SELECT count(*) FROM true_slices WHERE {wrap(located, ' OR')}")
        fault = homeless and f"{homeless} source rows lie in no region of some part, or in several"
        yield Check.of("located", fault, "every published source row lies in one region of each part")
    sums = wrap(["count(*) AS n", *(f"sum(x{place}) AS y{place}" for place in parts)])
    for table in ("slices", "true_slices"):
        engine.make(f"{table}_sums", f"SELECT bucket, {sums} FROM {table} GROUP BY bucket")
    same = [f"sum(a.n) = sum(b.n) AND sum(a.y{place}) IS NOT DISTINCT FROM sum(b.y{place})" for place in parts]
    differ = " OR ".join(f"a.{one} IS DISTINCT FROM b.{one}" for one in ["n", *(f"y{place}" for place in parts)])
    wrong, *kept = engine.fetch_one(
        f"SELECT count(*) FILTER ({differ}), {wrap(same)}\n"
        "FROM slices_sums AS a FULL JOIN true_slices_sums AS b USING (bucket)"
    )
    changed = kept.count(False)
    fault = changed and f"{changed} of {len(kept)} parts do not have exactly the values of the source"
    yield Check.of("parts", fault, "every part has exactly its values")
    fault = wrong and f"{wrong} buckets have other values than their source rows, by the witness"
    yield Check.of("truth", fault, "every bucket has, part by part, the values of its source rows, by the witness")
    yield _check_permuted(slices)
    contents = wrap([f"x{place}" for place in parts])
    own, true = (engine.read(f"SELECT bucket, {contents} FROM {one} ORDER BY row") for one in ("slices", "true_slices"))
    published, source = (
        (table["bucket"].to_numpy(), [column.to_numpy() for column in table.columns[1:]]) for table in (own, true)
    )
    yield check_bucket_order(published, source)


def _check_permuted(slices: Slices) -> Check:
    """Check that no two neighbouring parts are linked in far more buckets than chance links."""
    engine, pairs = slices.engine, range(len(slices.layout.parts) - 1)
    own = wrap([f"sum(hash(a.x{at}, a.x{at + 1})) AS y{at}" for at in pairs])
    turned = wrap([f"sum(hash(a.x{at}, b.x{at + 1})) AS z{at}" for at in pairs])
    places = "1 + hash(bucket, getvariable('salt')) % greatest(count(*) - 1, 1) AS places"
    size = f"min(row) AS first, count(*) AS n, {places}"
    turn = "b.row = first + (a.row - first + places) % n"
    linked = [f"count(*) FILTER (s.y{at} = t.y{at})" for at in pairs]
    more = [f"count(*) FILTER (s.y{at} = t.y{at} AND z{at} <> t.y{at})" for at in pairs]
    fewer = [f"count(*) FILTER (s.y{at} <> t.y{at} AND z{at} = t.y{at})" for at in pairs]
    found = engine.fetch_one(
        f"SELECT {wrap([*linked, *more, *fewer])} FROM (SELECT a.bucket, {own}, {turned} FROM slices AS a\n"
        f"JOIN (SELECT bucket, {size} FROM slices GROUP BY bucket) AS g USING (bucket) JOIN slices AS b ON {turn}\n"
        f"GROUP BY a.bucket) AS s JOIN (SELECT bucket, {own} FROM true_slices AS a GROUP BY bucket) AS t USING (bucket)"
    )
    for link, ahead, behind in zip(*(found[len(pairs) * at : len(pairs) * (at + 1)] for at in range(3)), strict=True):
        if ahead > behind and (ahead - behind) ** 2 > -2 * math.log(FALSE_ALARM) * (ahead + behind):
            return Check("permuted", False, f"in {link} buckets rows still link the values of two parts")
    return Check("permuted", True, "no two parts are linked in more buckets than chance explains")


def check_tables(release: Release, files: Mapping[str, tuple[Path, str]]) -> Check:
    """Compare the table of quasi values and the table of sensitive values with the rows, bucket by bucket."""
    manifest, engine = release.manifest, release.engine
    sensitive_names = {attribute.name for attribute in manifest.of_role("sensitive")}
    holders = [place for place, part in enumerate(manifest.parts) if sensitive_names & set(part)]
    if len(holders) != 1:
        return Check("tables", False, "the sensitive attributes are in several parts, which two tables cannot show")
    theirs = manifest.part_columns[holders[0]]
    ours = [c for place, part in enumerate(manifest.part_columns) if place != holders[0] for c in part]
    if "count" in theirs:
        return Check("tables", False, "a sensitive column has the name of the counts")
    for what, own, counted in (("quasi", ours, []), ("sensitive", list(theirs), ["count"])):
        path, file_format = files[what]
        columns = ["bucket", *own, *counted]
        if read_names(path, file_format) != columns:
            return Check("tables", False, f"the table of {what} values does not have the columns of its parts")
        view, names = f"table_{what}", name_columns(columns)
        engine.run(read_file(str(path), file_format, columns, view).removeprefix(GUARD))
        types = [str(row[1]) for row in engine.fetch(f"DESCRIBE {view}")]
        kinds = {name: find_type(release.types[name], kind) for name, kind in zip(own, types[1:], strict=False)}
        sums = [_sum_buckets("release", release.names, kinds, []), _sum_buckets(view, names, kinds, counted)]
        differ = engine.value(
            f"SELECT count(*) FROM {sums[0]} AS a FULL JOIN {sums[1]} AS b USING (bucket)"
            " WHERE a.n IS DISTINCT FROM b.n OR a.h IS DISTINCT FROM b.h"
        )
        if differ:
            return Check("tables", False, f"{differ} buckets of the table of {what} values differ from the data")
    return Check("tables", True, "the tables of quasi and of sensitive values agree with the data")


def _sum_buckets(view: str, names: Mapping[str, str], kinds: Mapping[str, str], counted: Sequence[str]) -> str:
    """Return the query of sums over the rows of each bucket; a row with a count is as many rows."""
    words = [write_word(place, names[name], kind) for place, (name, kind) in enumerate(kinds.items())]
    times = "1"
    if counted:
        text = f"{names['count']}::VARCHAR"
        number = f"try_cast({text} AS BIGINT)"
        times = f"CASE WHEN {number} > 0 AND {number}::VARCHAR = {text} THEN {number} END"
    hashed = f"SELECT {names['bucket']}::VARCHAR AS bucket, {times} AS times, {write_print([], words)} AS h FROM {view}"
    sums = "CASE WHEN count(*) = count(times) THEN sum(times) END AS n, sum(h::HUGEINT * times) AS h"
    return f"(SELECT bucket, {sums} FROM ({hashed}) GROUP BY bucket)"
