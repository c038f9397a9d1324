"""``shoal audit``: the risk of publishing a table as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.console import JsonOption, answer, bars, out, plain, print_table, reporting, say
from shoal.cli.publishing import DataArgument, show_findings
from shoal.core.wording import count_noun, parameters_text, percent, range_text

if TYPE_CHECKING:
    from shoal.audit.result import Audit, SearchRisk, SpecialRisk
    from shoal.audit.survey import IndividualRisk, LogLinearRisk
    from shoal.audit.uniqueness import SetRisk
    from shoal.models.population import PopulationUniqueness

NAMES = {"zayatz": "Zayatz", "pitman": "Pitman", "snb": "slide negative binomial"}
MOST_SETS = 10  # of each kind in the terminal; --json has all
APART = 2  # ratio of the largest estimate to the smallest above which the models disagree


def audit(
    data: DataArgument,
    policy: Annotated[Path, typer.Option("--policy", "-p", help="Roles of the columns and what to protect.")],
    population: Annotated[
        str | None, typer.Option(help="A table of the population an attacker may search, with the quasi columns.")
    ] = None,
    largest_set: Annotated[
        int, typer.Option("--sets", help="Examine all sets of up to this many attributes.", min=1)
    ] = 3,
    threshold: Annotated[
        float, typer.Option(help="List the smallest sets that make more than this share of records unique.")
    ] = 0.05,
    sample_fraction: Annotated[
        float | None,
        typer.Option(help="The table is a random sample, this share of its population: estimate uniqueness there."),
    ] = None,
    json_output: JsonOption = False,
) -> None:
    """Show how easily people could be re-identified if the table were published unchanged."""
    with reporting(json_output):
        from shoal.audit.audit import audit as run

        with bars() as progress:
            found = run(
                data,
                policy,
                population=population,
                largest_set=largest_set,
                threshold=threshold,
                sample_fraction=sample_fraction,
                progress=progress,
            )
        if json_output:
            answer(found.as_dict())
        else:
            show(found)


def show(found: Audit) -> None:
    """Print the audit for a data holder, with the headline first and again at the end."""
    whom = "records" if found.persons is None else "people"
    say(f"[bold]{plain(found.headline)}[/]")
    say(
        f"An attacker who knows these values of a person in the table finds the right record with a probability of "
        f"{percent(found.prosecutor.mean)} on average and {percent(found.prosecutor.highest)} at worst."
    )
    say(*(f"[yellow]Warning:[/] {plain(warning)}." for warning in found.warnings))
    _show_persons(found)
    _show_searchers(found, whom)
    if found.individual is not None:
        _show_individual(found.individual)
    _show_classes(found)
    _show_sensitive(found)
    _show_sets(found)
    _show_special(found.special)
    if found.uniqueness is not None:
        _show_uniqueness(found.uniqueness)
        _show_loglinear(found.loglinear, found.uniqueness.sample_uniques)
    _show_columns(found)
    show_findings(found.findings, ", if the table were published unchanged")
    say(f"\n[bold]In short:[/] {plain(found.headline)}")


def _show_persons(found: Audit) -> None:
    """Show the figures counted in people, and the risk that any member of a household is found."""
    if (risk := found.persons) is not None:
        rows = {
            "people": f"{risk.persons:,}",
            "records per person, mean": f"{risk.mean_records:.2f}",
            "records per person, largest": f"{risk.most_records:,}",
            "k counted in people": f"{risk.smallest_class:,}",
            "k counted in records": f"{found.smallest_class:,}",
            "people alone in a class": f"{risk.lone_persons:,} ({percent(risk.lone_persons / risk.persons)})",
            "classes of several records, all from one person": f"{risk.unseen_classes:,}",
            "people with records in several classes": f"{risk.persons_in_several_classes:,}",
        }
        if risk.records_without_person:
            rows["records without a person (one person per class)"] = f"{risk.records_without_person:,}"
        print_table(f"People (by {risk.unit}) and records", ("", ""), rows.items())
    if (homes := found.households) is not None:
        rows = {
            "households": f"{homes.households:,}",
            "members per household, largest": f"{homes.largest:,}",
            "households per class, smallest": f"{homes.households_of_a_class:,}",
            "chance that any member is found, highest": percent(homes.highest),
            "chance that any member is found, mean": percent(homes.mean),
            "chance for a single member, mean": percent(homes.mean_of_members),
            "households with a member alone in a class": f"{homes.with_lone_member:,}",
        }
        if homes.records_without_household:
            rows["records without a household"] = f"{homes.records_without_household:,}"
        print_table(f"Households (by {homes.column})", ("", ""), rows.items())


def _show_individual(risk: IndividualRisk) -> None:
    rows = {
        "people in the population (sum of the weights)": f"{risk.population:,.0f}",
        "risk of a record, highest": percent(risk.highest),
        "risk of a record, mean": percent(risk.mean),
        "expected re-identifications": f"{risk.expected:,.2f}",
        "records expected to be unique in the population": f"{risk.population_uniques:,.2f}",
        **{f"records with a risk above {percent(limit)}": f"{records:,}" for limit, records in risk.records_above},
    }
    print_table(f"Individual risk, estimated from the survey weights in {risk.weight}", ("", ""), rows.items())


def _show_searchers(found: Audit, whom: str) -> None:
    def row(who: str, risk: SearchRisk) -> tuple[str, ...]:
        return (who, percent(risk.highest), percent(risk.mean), *(percent(share) for _, share in risk.share_above))

    rows = [row("prosecutor (knows that the person is in the table)", found.prosecutor)]
    for risk in found.populations:
        rows.append(row(f"journalist (searches {risk.people:,} people in {risk.population})", risk.journalist))
        rows.append((f"marketer (expects to match, against {risk.population})", "", percent(risk.marketer)))
    if not found.populations:
        rows.append(row("journalist (no population given: at most the prosecutor's risk)", found.prosecutor))
    rows.append(("marketer (expects to match, of all records)", "", percent(found.marketer)))
    above = (f"{whom} above {percent(threshold)}" for threshold, _ in found.prosecutor.share_above)
    print_table("Risk of re-identification", ("attacker", "highest", "mean", *above), rows)
    for risk in found.populations:
        if risk.records_not_covered:
            out().print(
                f"{count_noun(risk.records_not_covered, 'record is', 'records are')} not covered by "
                f"{risk.population}: people in the table are missing from it."
            )


def _show_classes(found: Audit) -> None:
    rows = [
        (range_text(entry["from"], entry["to"]), f"{entry['classes']:,}", f"{entry['records']:,}")
        for entry in found.class_sizes
        if entry["classes"]
    ]
    k = f"{found.k}" if found.persons is None else f"{found.k} (people)"
    title = f"{count_noun(found.classes, 'class', 'classes')} of records with the same quasi values; k = {k}"
    print_table(title, ("records per class", "classes", "records"), rows)


def _show_sensitive(found: Audit) -> None:
    rows = [
        (
            verdict.model.name,
            parameters_text(verdict.model.model_dump(mode="json", exclude_none=True)),
            "yes" if verdict.holds else "no",
            f"{verdict.achieved:.4g}",
            f"{verdict.records_missed:,}",
        )
        for verdict in found.models
    ]
    heads: tuple[str, ...] = ("model", "required", "holds", "achieved", "records in violating classes")
    print_table("The policy's requirements, before any protection", heads, rows)
    attributes = [
        (
            risk.attribute,
            f"{risk.certain_records:,} ({percent(risk.certain_records / found.records)})",
            str(risk.distinct_l),
            f"{risk.simple_l:.3g}",
            f"{risk.entropy_l:.3g}",
            f"{risk.recursive_c_l2:.3g} / {risk.recursive_c_l3:.3g}",
            f"{risk.t_equal:.3g}" + ("" if risk.t_ordered is None else f" / {risk.t_ordered:.3g}"),
        )
        for risk in found.sensitive
    ]
    heads = ("attribute", "records whose class reveals it", "distinct l", "simple l", "entropy l")
    heads += ("recursive c (l = 2 / 3)", "t (equal / ordered)")
    print_table("What classes reveal about sensitive attributes", heads, attributes)


def _show_sets(found: Audit) -> None:
    heads = ("attributes", "unique records", "share", "combinations", "records per combination")
    largest = max(len(risk.attributes) for risk in found.sets)
    print_table("Each attribute alone", heads, [_set_row(risk) for risk in found.sets if len(risk.attributes) == 1])
    worst = [_set_row(risk) for risk in found.sets if len(risk.attributes) > 1][:MOST_SETS]
    title = f"Sets of up to {largest} attributes that single out most records, of {len(found.sets):,} sets"
    print_table(title, heads, worst)
    title = f"Smallest sets that make more than {percent(found.threshold)} of the records unique"
    print_table(title, heads, map(_set_row, found.minimal_sets[:MOST_SETS]))
    _say_more(found.minimal_sets)
    if not found.minimal_sets:
        out().print(f"\n{title}: none with up to {largest} attributes.")
    steps = [(f"+ {risk.attributes[-1]}", *_set_row(risk)[1:]) for risk in found.fastest_order]
    print_table("The fastest way to single people out", heads, steps)


def _set_row(risk: SetRisk) -> tuple[str, ...]:
    return (
        ", ".join(risk.attributes),
        f"{risk.unique_records:,}",
        percent(risk.unique_share),
        f"{risk.combinations:,}",
        f"{risk.mean_class:,.1f}",
    )


def _say_more(sets: Sequence[object]) -> None:
    if len(sets) > MOST_SETS:
        out().print(f"and {len(sets) - MOST_SETS:,} more (--json lists all)")


def _show_columns(found: Audit) -> None:
    rows = [
        (
            column.column,
            column.role,
            f"{column.values:,}",
            f"{column.unique_records:,} ({percent(column.unique_share)})",
            f"{column.unique_with_quasi:,}",
        )
        for column in found.columns
    ]
    heads = ("column", "role", "values", "unique alone", "unique with the quasi attributes")
    print_table("Columns that are not quasi attributes", heads, rows)
    gaps = [(gap.column, f"{gap.records:,}", percent(gap.share)) for gap in found.missing_values]
    means = "a category of their own" if found.missing == "category" else "dropped if quasi or sensitive"
    print_table(f"Missing values ({means})", ("column", "records", "share"), gaps)
    if found.records < found.rows:
        out().print(f"{found.rows - found.records:,} of {found.rows:,} records are left out because of missing values.")


def _show_special(risk: SpecialRisk) -> None:
    if not risk.unique_records:
        return
    sizes = [f"{size}" for size in range(1, len(risk.by_size))] + [f"more than {risk.largest}"]
    rows = [
        (size, f"{count:,}", percent(count / risk.unique_records))
        for size, count in zip(sizes, risk.by_size, strict=True)
    ]
    title = f"How many attributes single out each of {count_noun(risk.unique_records, 'unique record')}"
    print_table(title, ("attributes", "records", "share of unique records"), rows)
    sets = [
        (", ".join(one.attributes), f"{one.records:,}", percent(one.score / risk.score))
        for one in risk.sets[:MOST_SETS]
    ]
    title = "Riskiest combinations: these attributes together single records out, fewer of them do not"
    print_table(title, ("attributes", "records", "share of the score"), sets)
    _say_more(risk.sets)
    shares = [(name, percent(share)) for name, share in risk.contributions]
    title = "Contribution of each attribute (shares overlap: a combination counts for each of its attributes)"
    print_table(title, ("attribute", "share of the score"), shares)
    if risk.disclosure is not None:
        worst = risk.disclosure.highest
        say(
            f"\nA person in the population who matches a unique record is the person it describes with probability "
            f"{percent(risk.disclosure.chance)}"
            + ("." if worst is None else f"; {percent(worst)} for the highest score (DIS-SUDA).")
        )


def _show_uniqueness(found: PopulationUniqueness) -> None:
    rows = []
    for one in found.estimates:
        name = NAMES[one.model] + (" (chosen)" if one.model == found.chosen else "")
        uniques = one.population_uniques
        figures = ("none", "") if uniques is None else (f"{uniques:,.0f}", percent(uniques / found.population))
        rows.append((name, *figures))
    title = (
        f"Unique in the population of {found.population:,}, of whom {100 * found.sample_fraction:.3g}% are in the table"
    )
    print_table(title, ("model", "unique people", "share of the population"), rows)
    say(*(f"No estimate: {one.refusal}." for one in found.estimates if one.refusal is not None))
    say(
        f"{NAMES[found.chosen]} is chosen: {found.reason}. About {found.expected_in_sample:,.0f} of "
        f"{count_noun(found.sample_uniques, 'record')} unique in the table would be unique in the population, too."
    )
    if found.spread is not None and found.spread > APART:
        say(f"The models disagree: the largest estimate is {found.spread:.1f} times the smallest. Do not rely on one.")


def _show_loglinear(found: Sequence[LogLinearRisk], n_unique: int) -> None:
    rows = [
        (
            ("independence" if not one.interactions else f"pairs of attributes: {one.interactions}")
            + (" (chosen)" if one.chosen else ""),
            f"{one.population_uniques:,.0f}",
            f"{one.correct_matches:,.0f}",
            "" if one.misfit is None else f"{one.misfit:+.1f}",
        )
        for one in found
        if one.population_uniques is not None
    ]
    title = f"Log-linear models: of {count_noun(n_unique, 'record')} unique in the table"
    print_table(title, ("model", "unique in the population", "expected correct matches", "misfit"), rows)
    say(*(f"Not fitted (pairs: {one.interactions}): {one.refusal}." for one in found if one.refusal is not None))
    chosen = next((one for one in found if one.chosen), None)
    if chosen is None:
        say("Independence usually overstates the risk; declare fewer quasi attributes to fit pairs.")
    elif chosen.misfit is not None and abs(chosen.misfit) > 1.96:
        say(f"The chosen model fits badly: the risk is {'over' if chosen.misfit > 0 else 'under'}stated.")
