"""What no promise covers: the checks that look for findings, and what they see of a published table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from typing import Any

from shoal.audit.counting import Count, KeyCounts, RowCounts, hash_column
from shoal.audit.evidence import measure_risks
from shoal.core.results import SEVERITIES, UNLINKED, Finding
from shoal.core.wording import join_words, parameters_text, write_kept
from shoal.models.base import PopulationModel, PrivacyModel, ValueModel, Whole
from shoal.policy.policy import Acceptance, Policy
from shoal.release.forms.base import Form, read_form
from shoal.release.publication import Publication
from shoal.sources.base import Source, layers
from shoal.sources.columns import is_flat
from shoal.utility.marginals import Marginals

UNUSED = "unused-acceptance"
SHARE = 0.01  # of the records: where more of them are unique by columns, these are isolating
MOST_RECORDS = 50  # of a value on average; one that is more frequent names a place rather than a person
_FIX_ISOLATING = (
    "Round or code the values (a technique), give the column the role quasi, or leave it out (role identifier); accept "
    "the finding if nobody outside can know these values."
)


@dataclass(frozen=True, slots=True, eq=False)
class PublishedTable:
    """What checks see of a published table."""

    form: Form
    roles: Mapping[str, str]  # of the published columns, in their order
    models: tuple[PrivacyModel, ...]  # that are promised
    rows: RowCounts  # what was counted over the published rows
    publication: Publication | None = None  # with its policy and source; None: no run is under way
    marginals: tuple[Marginals, ...] = ()  # by sizes of sets of columns; none: they were not compared
    given: tuple[Policy, Source] | None = None  # whose table it is of; None: not known

    @classmethod
    def of(
        cls,
        manifest: Mapping[str, Any],
        rows: RowCounts,
        models: tuple[PrivacyModel, ...],
        publication: Publication | None = None,
        marginals: tuple[Marginals, ...] = (),
        *,
        given: tuple[Policy, Source] | None = None,
    ) -> PublishedTable:
        """Put together what is known of a release, or of a table that has a manifest's entries on its columns."""
        roles = {name: str(entry["role"]) for name, entry in manifest["attributes"].items()}
        if publication is not None:
            given = publication.policy, publication.source
        return cls(read_form(manifest), roles, models, rows, publication, marginals, given)

    def names(self, role: str) -> tuple[str, ...]:
        """Return the published columns of one role."""
        return tuple(name for name, own in self.roles.items() if own == role)


def find_all(table: PublishedTable, accepted: Sequence[Acceptance] = ()) -> tuple[Finding, ...]:
    """Run every check; those that are accepted carry the reason. High findings come first, open before accepted."""
    found = [finding for check in CHECKS.values() for finding in check(table)]
    reasons = [next((one.reason for one in accepted if one.covers(finding)), None) for finding in found]
    every = [replace(finding, accepted=reason) for finding, reason in zip(found, reasons, strict=True)]
    unused = [one for one in accepted if one.finding != UNLINKED and not any(map(one.covers, found))]
    every += [_report_unused(one) for one in unused]
    return tuple(sorted(every, key=lambda one: (not one.open, SEVERITIES.index(one.severity), one.id, one.about)))


def _report_unused(acceptance: Acceptance) -> Finding:
    columns = f" about {', '.join(acceptance.about)}" if acceptance.about else ""
    return Finding(
        UNUSED,
        "info",
        acceptance.about,
        f"The policy accepts {acceptance.finding}{columns}, but there is no such finding.",
        "Remove it from accept, or correct its columns: about must name every column that the finding is about.",
    )


def find_above_threshold(table: PublishedTable) -> Iterator[Finding]:
    """Classes so small that finding a known person's record is likelier than the policy's threshold permits."""
    made = table.publication
    threshold = None if made is None else made.policy.release.threshold
    if made is None or threshold is None:
        return
    smallest, most = measure_risks(made.hiding()).get("smallest_class"), Fraction(str(threshold))
    if smallest is not None and Fraction(1, smallest) > most:
        yield Finding(
            "above-threshold",
            "high",
            (),
            f"The smallest class has {smallest:,} members: finding one who is known to be in the table succeeds with "
            f"a chance of {1 / smallest:.1%}, and the policy's threshold is {threshold:.1%}.",
            f"Ask for k-anonymity with k = {ceil(1 / most)}, or correct release: threshold.",
        )


def find_below_shuffled(table: PublishedTable) -> Iterator[Finding]:
    """A release whose tables of several columns are farther from the source than those of shuffled columns."""
    found = table.marginals[-1] if table.marginals else None
    if found is not None and found.below_shuffled:
        yield Finding(
            "below-shuffled",
            "medium",
            (),
            f"Of tables of {found.size} columns {write_kept(found.release)} is kept, and {write_kept(found.shuffled)} "
            f"would be if every column were shuffled independently: relations between columns "
            "are further from the truth than if there were none.",
            "Compare methods with shoal compare; make fewer columns quasi, or ask the privacy models for less.",
        )


def find_constant_parts(table: PublishedTable) -> Iterator[Finding]:
    """Where only one part of a bucket has several quasi values, every combination that the bucket forms is a record.

    Buckets whose quasi values are all equal are classes in the usual sense, and no finding. Nor are tables of which one
    part has all quasi attributes, as anatomy makes them: those publish the combinations as they are, and say so.
    """
    hiding = None if table.publication is None else table.publication.hiding()
    if hiding is None or hiding.slices is None:
        return
    plan = hiding.slices
    linked, n_records = plan.count_linked(), int(plan.sizes.sum())
    if linked:
        yield Finding(
            "constant-parts",
            "high",
            (),
            f"{linked:,} of {n_records:,} records ({linked / n_records:.1%}) are in buckets in which only one part "
            "has several quasi values: there each combination of all quasi values is that of a person in the "
            "table, as if it had not been cut into parts.",
            "Use cut_by: part, a larger bucket_size, the grouping random or gathered, or other parts.",
        )


def find_decodable_labels(table: PublishedTable) -> Iterator[Finding]:
    """Where only records of frequent values are generalized, a label of a class often stands for one value alone."""
    made = table.publication
    if made is None or made.policy.method.defends_labels:
        return
    for name, records in made.count_generalized().items():
        yield Finding(
            "decodable-labels",
            "high",
            (name,),
            f"{records:,} of {made.n_rows:,} records ({records / made.n_rows:.1%}) publish a label instead of a "
            "value, and the labels are not defended: the method generalizes records of the most frequent values "
            "alone, so anybody who knows the method can infer most values behind a label.",
            "Remove defend: false from the method sweep.",
        )


def find_empty_promises(table: PublishedTable) -> Iterator[Finding]:
    """A requirement that the worst class meets: a single record, or for a model of values any single value."""
    for model in table.models:
        named = f"{model.name} ({parameters_text(model.model_dump(mode='json'))})"
        for about, worst in _find_empty(model, table):
            concerned = f" about {', '.join(about)}" if about else ""
            text = f"{named} promises nothing{concerned}: even {worst} meets it."
            yield Finding("empty-promise", "high", about, text, f"Ask {model.name} for more.")


def _find_empty(model: PrivacyModel, table: PublishedTable) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the columns about which a model rules nothing out in this table, and the worst class that meets it."""
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
    """Values that no model looks at and that only one record has: whoever knows them finds the record.

    Insensitive columns are judged alone, together, and together with the classes; sensitive ones alone. Of columns
    that only isolate together, the smallest set that does is named. Columns by which more than 1% of the records are
    unique are a high finding, others a medium one.
    """
    rows = table.rows
    alone = {name: rows.unique((name,)) for name in (*rows.free, *rows.sensitive)}
    isolating = {name for name, count in alone.items() if count.n > SHARE * rows.n_rows}
    for name, count in alone.items():
        if name in isolating or (count.n and name in rows.free):
            kind = "sensitive value" if name in rows.sensitive else "value"
            yield Finding(
                "isolating-columns",
                "high" if name in isolating else "medium",
                (name,),
                f"{_unique(count, rows)} by their published {kind} of {name}: anybody who knows a person's "
                f"{kind} finds the record.",
                _FIX_ISOLATING,
            )
    for part in rows.joint:
        yield from _isolating_together(rows, part, isolating)
    if rows.free and not isolating & set(rows.free) and table.form.generalizes:
        yield from _isolating_in_classes(rows)


def _isolating_together(rows: RowCounts, part: tuple[str, ...], isolating: set[str]) -> Iterator[Finding]:
    """Find columns of which none isolates, but several do; sets with one that isolates say nothing new."""
    others, most = tuple(name for name in part if name not in isolating), SHARE * rows.n_rows
    if len(others) < 2 or rows.unique(part).n <= most or (others != part and not rows.searchable):
        return
    smallest, count, proven = rows.smallest_set(others, most)
    if count.n > most:
        known = f"no smaller set isolates more than {SHARE:.0%}" if proven else "fewer of them may suffice"
        text = f"{_unique(count, rows)} by their values of {join_words(smallest)} together; {known}."
        yield Finding("isolating-columns", "high", smallest, text, _FIX_ISOLATING)


def _isolating_in_classes(rows: RowCounts) -> Iterator[Finding]:
    """Find how many records are unique for somebody who knows the quasi-identifiers and the free columns."""
    count = rows.unique((*rows.classes, *rows.free))
    if count.n > SHARE * rows.n_rows:
        yield Finding(
            "isolating-columns",
            "medium",
            rows.free,
            f"{_unique(count, rows)} by their class together with {join_words(rows.free)}: the promises about "
            f"classes protect them only from people who do not know {join_words(rows.free)}.",
            _FIX_ISOLATING,
        )


def _unique(count: Count, rows: RowCounts) -> str:
    share = count.n / rows.n_rows
    return f"{count} of {rows.n_rows:,} records ({'less than 0.1%' if share < 0.001 else f'{share:.1%}'}) are unique"


def find_lone_records(table: PublishedTable) -> Iterator[Finding]:
    """A record that is alone in its class is found by its quasi-identifiers, even if its sensitive value is hidden.

    Models of induced frequencies permit it where the value is generalized far enough. Lone records that show their
    value are in classes with one value, which is another finding.
    """
    rows = table.rows
    for name in rows.sensitive:
        count = rows.alone_under_label(name)
        if count.n:
            yield Finding(
                "lone-records",
                "medium",
                (name,),
                f"{count} of {rows.n_rows:,} records ({count.n / rows.n_rows:.1%}) are alone in their class, with a "
                f"label instead of their value of {name}: anybody who knows a person's quasi-identifiers "
                "finds the record and everything else in it.",
                "Ask for k-anonymity beside the model of values, or remove defend: false from the method sweep.",
            )


def find_no_promise(table: PublishedTable) -> Iterator[Finding]:
    """No privacy model holds and no differential privacy is claimed, which synthetic rows have."""
    if not table.models and table.form.of_people:
        yield Finding(
            "no-promise",
            "high",
            (),
            "Nothing is promised: the policy has no privacy model, so nothing was planned or verified that keeps "
            "people from being found in this table.",
            "Add a model under privacy, such as k-anonymity, and a method that reaches it.",
        )


def find_one_value_classes(table: PublishedTable) -> Iterator[Finding]:
    """A class that publishes a single value of a sensitive column tells it of everybody who is known to be in it.

    Machanavajjhala and others call it the homogeneity attack. Labels that stand for several values are no value.
    """
    rows = table.rows
    for name in rows.sensitive:
        count = rows.one_value(name)
        if count.n:
            yield Finding(
                "one-value-classes",
                "high",
                (name,),
                f"{count} of {rows.n_rows:,} records ({count.n / rows.n_rows:.1%}) are in {table.form.plural} in which "
                f"all records have the same value of {name}: anybody who knows a person's quasi-identifiers learns it.",
                f"Anonymize with a model of values for {name}, such as distinct-l-diversity with l of at least 2.",
            )


def find_repeated_people(table: PublishedTable) -> Iterator[Finding]:
    """An identifier has the same value in several records, and the policy does not say that people are counted.

    It takes one pass over the source. An identifier whose values have more than 50 records each on average, as a
    hospital's name has, is only an information: it need not be about people.
    """
    if table.given is None or table.given[0].units or not (table.models or not table.form.of_people):
        return
    if table.publication is not None and (times := table.publication.multiplicity) > 1:
        yield Finding(
            "repeated-people",
            "high",
            (),
            f"Every combination of values that occurs has a multiple of {times} records, as in a table that was given "
            f"{times} times: the people would be {table.rows.n_rows // times:,} rather than {table.rows.n_rows:,}, and "
            "what is promised about records need not hold for them.",
            "Give every record once, and name the column that identifies people with --unit.",
        )
    policy, *_, given = table.given[0], *layers(table.given[1])
    left_out = set(policy.names("identifier")) - {policy.survey_weight}  # a weight that is not published names nobody
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
            yield Finding(
                "repeated-people",
                "high" if records[name] <= MOST_RECORDS * different.n else "info",
                (name,),
                f"Column {name!r}, an identifier, has {different} different values in {records[name]:,} records. "
                "If these identify people, some have several records, and what is promised about records need "
                "not hold for people: k records in a class may belong to fewer than k people.",
                f"Name {name!r} as unit (or household), so that people are counted; take one record per person by "
                "sample: {one_per: unit}; or accept this if the column does not identify people.",
            )


def find_unprotected_sensitive(table: PublishedTable) -> Iterator[Finding]:
    """A model of values holds for each sensitive column, or for the one it names; joint values are not each value.

    Synthetic rows are differentially private in all columns.
    """
    covering = [set(model.attributes) for model in table.models if isinstance(model, ValueModel)]
    for name in table.names("sensitive") if table.form.of_people else ():
        if not any(not named or named == {name} for named in covering):
            jointly = " by itself (a model covers it only together with others)" if any(covering) else ""
            yield Finding(
                "unprotected-sensitive",
                "high",
                (name,),
                f"{name} is sensitive, and no model of the policy covers it{jointly}: how evenly its values are "
                "spread within classes was neither planned nor checked.",
                f"Add a model of values for {name}, such as distinct-l-diversity or t-closeness.",
            )


CHECKS: dict[str, Callable[[PublishedTable], Iterable[Finding]]] = {
    "above-threshold": find_above_threshold,
    "below-shuffled": find_below_shuffled,
    "constant-parts": find_constant_parts,
    "decodable-labels": find_decodable_labels,
    "empty-promise": find_empty_promises,
    "isolating-columns": find_isolating_columns,
    "lone-records": find_lone_records,
    "no-promise": find_no_promise,
    "one-value-classes": find_one_value_classes,
    "repeated-people": find_repeated_people,
    "unprotected-sensitive": find_unprotected_sensitive,
}
