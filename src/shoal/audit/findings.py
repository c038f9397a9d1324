"""Findings about a table that no guarantee covers: the checks, and the data that they use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

import numpy as np
import pyarrow as pa

from shoal.audit.counting import Count, KeyCounts, RowCounts, hash_column
from shoal.audit.evidence import measure_risks
from shoal.core.dictionaries import fold_texts
from shoal.core.results import ATTACK_FINDINGS, UNLINKED, Finding, Severity
from shoal.core.wording import count_noun, join_words, parameters_text, percent, write_kept
from shoal.models.base import PopulationModel, PrivacyModel, ValueModel, Whole
from shoal.policy.policy import Acceptance, Policy, ReleaseOptions
from shoal.release.forms.base import Form
from shoal.release.publication import Publication
from shoal.release.sliced.table import BUCKET
from shoal.sources.base import Source, layers
from shoal.sources.columns import is_flat
from shoal.utility.marginals import Marginals

UNUSED = "unused-acceptance"
SHARE = 0.01  # records that are unique by their class and other columns are a finding above this share
MOST_RECORDS = 50  # per value on average; more frequent values identify places rather than people
_FIX_ISOLATING = (
    "Round or code the values (a technique), give the column the role quasi, or leave it out (role identifier); accept "
    "the finding if outsiders cannot know these values."
)
_FEWER = "fewer of them may suffice"


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTable:
    """A published table as checks see it."""

    form: Form
    rows: RowCounts  # counts over the published rows
    models: tuple[PrivacyModel, ...]  # its guarantees
    publication: Publication | None = None  # with its policy and source; None: outside of a run
    marginals: tuple[Marginals, ...] = ()  # by sizes of sets of columns; empty if they were not compared
    given: tuple[Policy, Source] | None = None  # of the table, outside of a run; None: not known

    @property
    def origin(self) -> tuple[Policy, Source] | None:
        made = self.publication
        return self.given if made is None else (made.policy, made.source)

    def names(self, role: str) -> tuple[str, ...]:
        return tuple(self.form.manifest.names(role))

    @property
    def most(self) -> Fraction:
        """The number of records above which a finding about them is high."""
        stated = ReleaseOptions() if self.origin is None else self.origin[0].release
        return Fraction(str(stated.high_above)) * self.rows.n_rows

    def grade(self, id: str, n: int, about: tuple[str, ...], text: str, fix: str) -> Finding:  # noqa: A002
        """Return a finding about *n* records, whose share determines its severity."""
        severity: Severity = "high" if n > self.most else "medium"
        return Finding(id, severity, about, text, fix, share=min(n / max(self.rows.n_rows, 1), 1.0))


def find_all(table: PublishedTable, accepted: Sequence[Acceptance] = ()) -> tuple[Finding, ...]:
    """Run every check. Accepted findings have the reason; open ones come first, and the worst of them before others."""
    found = [finding for check in CHECKS.values() for finding in check(table)]
    reasons = [next((one.reason for one in accepted if one.covers(finding)), None) for finding in found]
    every = [replace(finding, accepted=reason) for finding, reason in zip(found, reasons, strict=True)]
    later = (UNLINKED, *ATTACK_FINDINGS.values())  # only the ledger and attacks make these
    unused = [one for one in accepted if one.finding not in later and not any(map(one.covers, found))]
    every += [_report_unused(one) for one in unused]
    return tuple(sorted(every, key=lambda one: one.rank))


def _report_unused(acceptance: Acceptance) -> Finding:
    columns = f" about {', '.join(acceptance.about)}" if acceptance.about else ""
    text = f"The policy accepts {acceptance.finding}{columns}, but there is no such finding."
    fix = "Remove it from accept, or correct its columns: about must name every column that the finding is about."
    return Finding(UNUSED, "info", acceptance.about, text, fix, share=0.0)


_GUESSED = 0.001  # share of people about whom a reader may learn too much without a finding


def find_above_threshold(table: PublishedTable) -> Iterator[Finding]:
    """Find classes so small that the risk of a known person exceeds the policy's threshold."""
    made = table.publication
    threshold = None if made is None else made.policy.release.threshold
    if made is None or threshold is None:
        return
    smallest, most = measure_risks(made.hiding()).get("smallest_class"), Fraction(str(threshold))
    if smallest is not None and Fraction(1, smallest) > most:
        text = (
            f"The smallest class has {count_noun(smallest, 'member')}: finding one who is known to be in the table "
            f"succeeds with a chance of {percent(1 / smallest)}, and the policy's threshold is {percent(threshold)}."
        )
        fix = f"Ask for k-anonymity with k = {ceil(1 / most)}, or correct release: threshold."
        yield Finding("above-threshold", "high", (), text, fix)


def find_below_shuffled(table: PublishedTable) -> Iterator[Finding]:
    """Find a release whose tables of several columns differ more from the source than tables of shuffled columns."""
    found = table.marginals[-1] if table.marginals else None
    if found is not None and found.below_shuffled:
        text = (
            f"Of tables of {count_noun(found.size, 'column')}, {write_kept(found.known)} is kept among records with "
            f"values, and {write_kept(found.shuffled)} would be if every column were shuffled independently: relations "
            "between columns are further from the truth than if there were none."
        )
        fix = "Compare methods with shoal compare; make fewer columns quasi, or ask the privacy models for less."
        yield Finding("below-shuffled", "medium", (), text, fix)


def find_constant_parts(table: PublishedTable) -> Iterator[Finding]:
    """Find buckets in which only one part has several quasi values, so all of their combinations are records.

    Buckets with equal quasi values are ordinary classes, not a finding. Nor are tables with all quasi attributes in one
    part, as anatomy makes them: they publish the combinations and say so.
    """
    hiding = None if table.publication is None else table.publication.hiding()
    if hiding is None or hiding.slices is None:
        return
    plan = hiding.slices
    linked, n_records = plan.count_linked(), int(plan.sizes.sum())
    if linked:
        text = (
            f"{linked:,} of {n_records:,} records ({percent(linked / n_records)}) are in buckets in which only one "
            "part has several quasi values: there each combination of all quasi values is that of a person in the "
            "table, as if it had not been cut into parts."
        )
        fix = "Use a larger bucket_size or other parts."
        yield Finding("constant-parts", "high", (), text, fix, share=linked / n_records)


def find_revealing_method(table: PublishedTable) -> Iterator[Finding]:
    """Find values that a method reveals by the classes that it chooses (docs/adversaries.md)."""
    made = table.publication
    if made is None:
        return
    of = made.n_rows + made.n_withheld
    models = ", ".join(dict.fromkeys(model.name for model in table.models if isinstance(model, ValueModel)))
    moved, guessed = int(made.search.get("people_revealed", 0)), made.count_guessed()
    if moved:
        text = (
            f"{moved:,} of {count_noun(of, 'record')} ({percent(moved / of)}) share their most specific class with "
            f"records that were moved elsewhere because of their values. Counted together, they break {models}. Anyone "
            "who has the quasi values of all people can count them."
        )
        fix = "Remove defend: false from the method sweep."
        yield Finding("method-reveals", "high", table.names("sensitive"), text, fix, share=moved / of)
    elif guessed > _GUESSED * of:
        text = (
            f"About {guessed:,} of {count_noun(of, 'record')} ({percent(guessed / of)}) are in groups that the method "
            f"would have published as classes if they satisfied {models}. A reader who knows the method and everyone's "
            "quasi values concludes that they do not, and believes in one value more than the model allows."
        )
        fix = (
            "Ask for a stricter model than you need, make fewer columns quasi, or accept this with a reason: "
            "docs/adversaries.md compares the methods."
        )
        yield Finding("method-reveals", "high", table.names("sensitive"), text, fix, share=guessed / of)


def find_determined_quasi(table: PublishedTable) -> Iterator[Finding]:
    """Find published columns by which a reader can undo the generalization of a quasi column."""
    from shoal.audit.determined import split_classes  # only a run has the source rows that it needs

    return split_classes(table)


def find_empty_promises(table: PublishedTable) -> Iterator[Finding]:
    """Find requirements that the worst class satisfies: a single record, or for a model of values any single value."""
    for model in table.models:
        named = f"{model.name} ({parameters_text(model.model_dump(mode='json'))})"
        for about, worst in _find_empty(model, table):
            concerned = f" about {', '.join(about)}" if about else ""
            text = f"{named} promises nothing{concerned}: even {worst} meets it."
            yield Finding("empty-promise", "high", about, text, f"Ask {model.name} for more.")


def _find_empty(model: PrivacyModel, table: PublishedTable) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the columns about which a model excludes nothing in this table, and the worst class that satisfies it."""
    if not isinstance(model, ValueModel):
        if model.promises_nothing(Whole(table.rows.n_rows)):
            of_people = isinstance(model, PopulationModel)
            yield (), "a record whose label fits one person" if of_people else "a lone record"
        return
    names = model.attributes or table.rows.sensitive
    for about in [names] if len(model.attributes) > 1 else [(name,) for name in names]:
        if len(about) > 1 and model.relative_to_whole:
            continue  # joint values are not counted
        if model.promises_nothing(Whole.of(table.rows.value_counts(about[0]))):
            yield about, "a class in which all records have the same value"


def find_isolating_columns(table: PublishedTable) -> Iterator[Finding]:
    """Find values that no model covers and that one or two records have: knowing them identifies the record.

    Insensitive columns are judged alone, together, and together with the classes or buckets; sensitive ones alone. If
    columns isolate records only together, the finding lists the smallest such set. It is high for columns by which more
    than 1% of the records are unique, or the share that the policy states; otherwise medium.
    """
    rows, isolating = table.rows, set()
    for name in (*rows.free, *rows.sensitive):
        unique, pairs = rows.unique((name,)), rows.pairs(name)
        if unique.n + pairs.n > table.most:
            isolating.add(name)
        if name in isolating or (unique.n + pairs.n and name in rows.free):
            kind = "sensitive value" if name in rows.sensitive else "value"
            others = f", and {pairs} share it with one other record" if pairs.n else ""
            alone = f"{_unique(unique, rows)} by their published {kind} of {name}{others}"
            text = f"{alone}: anyone who knows a person's {kind} finds the record."
            yield table.grade("isolating-columns", unique.n + pairs.n, (name,), text, _FIX_ISOLATING)
    for part in rows.joint:
        yield from _isolating_together(table, part, isolating)
    if not isolating & set(rows.free):
        yield from _isolating_in_classes(table)


def _isolating_together(table: PublishedTable, part: tuple[str, ...], isolating: set[str]) -> Iterator[Finding]:
    """Find columns that isolate only together; sets with a column that isolates by itself add nothing."""
    rows, most = table.rows, float(table.most)
    others = tuple(name for name in part if name not in isolating)
    if len(others) < 2 or rows.unique(part).n <= most or (others != part and not rows.searchable):
        return
    smallest, count, proven = rows.smallest_set(others, most)
    if count.n > most:
        known = f"no smaller set isolates more than {percent(most / rows.n_rows)}" if proven else _FEWER
        text = f"{_unique(count, rows)} by their values of {join_words(smallest)} together; {known}."
        yield table.grade("isolating-columns", count.n, smallest, text, _FIX_ISOLATING)


def _isolating_in_classes(table: PublishedTable) -> Iterator[Finding]:
    """Find records that are unique by the quasi values and the free columns."""
    rows = table.rows
    for quasi, free in rows.known_together:
        count = rows.unique((*quasi, *free)) if free else Count(0)
        piece = tuple(name for name in quasi if name != BUCKET) if rows.pieces else ()
        shown = rows.unique(piece) if piece else Count(0)  # who is singled out anyway
        if count.n > shown.n and count.n > min(SHARE * rows.n_rows, float(table.most)):
            known = "quasi values" if rows.pieces else "class"
            text = (
                f"{_unique(count, rows)} by their {known} together with {join_words(free)}: the guarantees about "
                f"{table.form.plural} protect them only from people who do not know {join_words(free)}."
            )
            yield table.grade("isolating-columns", count.n, free, text, _FIX_ISOLATING)


def _unique(count: Count, rows: RowCounts) -> str:
    return f"{_share(count, rows)} unique"


def _share(count: Count, rows: RowCounts) -> str:
    share = "less than 0.1%" if count.n < rows.n_rows / 1000 else percent(count.n / rows.n_rows)
    return f"{count} of {rows.n_rows:,} records ({share}) {'is' if count.n == 1 else 'are'}"


def find_lone_records(table: PublishedTable) -> Iterator[Finding]:
    """Find records that are alone in their class, even if a label hides their sensitive value.

    Models of induced frequencies permit them if the value is generalized enough. Lone records that show their value are
    in classes with one value, which is another finding.
    """
    rows = table.rows
    for name in rows.sensitive:
        count = rows.alone_under_label(name)
        if count.n:
            text = (
                f"{_share(count, rows)} alone in their class, with a label instead of their value of {name}: anyone "
                "who knows a person's quasi-identifiers finds the record and everything else in it."
            )
            fix = "Add k-anonymity to the model of values, or remove defend: false from the method sweep."
            yield table.grade("lone-records", count.n, (name,), text, fix)


def find_near_one_value_classes(table: PublishedTable) -> Iterator[Finding]:
    """Find classes in which one value has at least 95% of the records, which reveals it for nearly all of them.

    Models that count values permit it: 149 records of one value and one of another are two distinct values.
    """
    rows = table.rows
    for name in rows.sensitive:
        count, largest = rows.nearly_one_value(name)
        if count.n:
            text = (
                f"{_share(count, rows)} in {table.form.plural} in which one value of {name} has at least 95% of "
                f"the records but not all; its largest share is {percent(round(largest, 4))}. A reader who guesses it "
                "is nearly always right."
            )
            fix = f"Bound the shares of {name}: entropy-l-diversity, recursive-cl-diversity or confidence-bounding."
            yield table.grade("near-one-value-classes", count.n, (name,), text, fix)


def find_no_promise(table: PublishedTable) -> Iterator[Finding]:
    """Find releases without a privacy model, except synthetic rows, which are differentially private."""
    if not table.models and table.form.of_people:
        text = (
            "There are no guarantees: the policy has no privacy model, so neither the method nor the verifier "
            "considered whether people can be found in this table."
        )
        fix = "Add a model under privacy, such as k-anonymity, and a method that reaches it."
        yield Finding("no-promise", "high", (), text, fix)


def find_one_value_classes(table: PublishedTable) -> Iterator[Finding]:
    """Find classes that publish a single value of a sensitive column, which reveals it for all their members.

    Machanavajjhala and others call it the homogeneity attack. Labels for several values do not count.
    """
    rows = table.rows
    for name in rows.sensitive:
        count = rows.one_value(name)
        if count.n:
            text = (
                f"{_share(count, rows)} in {table.form.plural} in which all records have the same value of {name}: "
                "anyone who knows a person's quasi-identifiers learns it."
            )
            fix = f"Anonymize with a model of values for {name}, such as distinct-l-diversity with l of at least 2."
            yield Finding("one-value-classes", "high", (name,), text, fix, share=min(count.n / rows.n_rows, 1.0))


def find_repeated_people(table: PublishedTable) -> Iterator[Finding]:
    """Find identifiers with the same value in several records if the policy does not count people.

    The check reads the source once. An identifier with more than 50 records per value on average, such as a hospital's
    name, is only reported as information, because it may not identify people.
    """
    if table.origin is None or table.origin[0].units or not (table.models or not table.form.of_people):
        return
    if table.publication is not None and (times := table.publication.multiplicity) > 1:
        text = (
            f"Every combination of values that occurs has a multiple of {times} records, as in a table that was given "
            f"{times} times: the people would be {table.rows.n_rows // times:,} rather than {table.rows.n_rows:,}, and "
            "guarantees about records may not hold for them."
        )
        fix = "Give every record once, and name the column that identifies people with --unit."
        yield Finding("repeated-people", "high", (), text, fix)
    policy, *_, given = table.origin[0], *layers(table.origin[1])
    left_out = set(policy.names("identifier")) - {policy.survey_weight}  # a weight does not identify people
    names = [name for name in given.schema.names if name in left_out]
    names = [name for name in names if is_flat(given.schema.field(name).type)]
    keys, records = {name: KeyCounts() for name in names}, dict.fromkeys(names, 0)
    for batch in given.batches(names) if names else ():
        for name, column in zip(names, batch.columns, strict=True):
            hashes = hash_column(column.drop_null())
            keys[name].add(hashes, hashes)
            records[name] += len(hashes)
    for name in names:
        different = keys[name].distinct()
        if keys[name].repeats:
            text = (
                f"Column {name!r}, an identifier, has {different} different values in {records[name]:,} records. "
                "If these identify people, some have several records, and guarantees about records may not hold for "
                "people: k records in a class may belong to fewer than k people."
            )
            fix = (
                f"Name {name!r} as unit (or household), so that people are counted; take one record per person by "
                "sample: {one_per: unit}; or accept this if the column does not identify people."
            )
            yield Finding(
                "repeated-people", "high" if records[name] <= MOST_RECORDS * different.n else "info", (name,), text, fix
            )


def find_singled_out(table: PublishedTable) -> Iterator[Finding]:
    """Find quasi values that a sliced release shows in one piece, and that only one record has.

    Slicing and anatomy hide which sensitive value belongs to a person, but not who is in the table.
    """
    rows = table.rows
    for piece in rows.pieces:
        count = rows.unique(tuple(piece)) if piece else Count(0)
        if count.n:
            names = tuple(piece.values())
            text = (
                f"{_unique(count, rows)} by their values of {join_words(names)}, which the release shows in one part: "
                "a reader who knows these values of a person sees that the person is in the table and in which bucket."
            )
            fix = (
                "Put fewer quasi columns into a part, ask slicing for column-frequency, which generalizes them, or use "
                "a method that makes classes."
            )
            yield table.grade("singled-out", count.n, names, text, fix)


def find_spelling_variants(table: PublishedTable) -> Iterator[Finding]:
    """Find sensitive texts that differ only in case, spaces or compatible characters, which readers consider equal."""
    made = table.publication
    if made is None or not table.form.of_people:
        return
    for attribute in made.sensitive:
        column = made.seen.columns.index(attribute.name)
        values, used = made.seen.in_use(column)
        if not pa.types.is_string(values.type):
            continue
        form = np.asarray(fold_texts(values).dictionary_encode().indices)
        shared, every = np.bincount(form)[form] > 1, made.seen.records(column)
        records, n_records = int(every[1:][used[1:]][shared].sum()), int(every.sum())
        if records:
            text = (
                f"{int(shared.sum()):,} values of {attribute.name} are {len(np.unique(form[shared])):,} in several "
                f"spellings, which differ in case, spaces or compatible characters; {records:,} of {n_records:,} "
                f"records ({percent(records / n_records)}) have one of them. Models count the spellings of a value as "
                "one."
            )
            fix = f"Clean the column {attribute.name} before publishing."
            yield table.grade("spelling-variants", records, (attribute.name,), text, fix)


def find_unprotected_sensitive(table: PublishedTable) -> Iterator[Finding]:
    """Find sensitive columns without a model of values; a model of joint values does not cover each value.

    Synthetic rows are differentially private in all columns.
    """
    covering = [set(model.attributes) for model in table.models if isinstance(model, ValueModel)]
    for name in table.names("sensitive") if table.form.of_people else ():
        if not any(not named or named == {name} for named in covering):
            joint = any(name in named for named in covering)
            jointly = " by itself (a model covers it only together with others)" if joint else ""
            text = (
                f"{name} is sensitive, and no model of the policy covers it{jointly}: how evenly its values are "
                "spread within classes was neither planned nor checked."
            )
            fix = f"Add a model of values for {name}, such as distinct-l-diversity or t-closeness."
            yield Finding("unprotected-sensitive", "high", (name,), text, fix)


CHECKS: dict[str, Callable[[PublishedTable], Iterable[Finding]]] = {
    "above-threshold": find_above_threshold,
    "below-shuffled": find_below_shuffled,
    "constant-parts": find_constant_parts,
    "determined-quasi": find_determined_quasi,
    "empty-promise": find_empty_promises,
    "isolating-columns": find_isolating_columns,
    "lone-records": find_lone_records,
    "method-reveals": find_revealing_method,
    "near-one-value-classes": find_near_one_value_classes,
    "no-promise": find_no_promise,
    "one-value-classes": find_one_value_classes,
    "repeated-people": find_repeated_people,
    "singled-out": find_singled_out,
    "spelling-variants": find_spelling_variants,
    "unprotected-sensitive": find_unprotected_sensitive,
}
