"""What ``shoal audit`` prints of persons and households, special uniques, and the population."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.cli.tables import MOST_SETS, table

if TYPE_CHECKING:
    from rich.console import Console

    from shoal.auditing import SpecialRisk
    from shoal.risk import HouseholdRisk, PersonRisk, PopulationUniqueness

NAMES = {"zayatz": "Zayatz", "pitman": "Pitman", "snb": "slide negative binomial"}
APART = 2  # estimates of which the largest is more than so many times the smallest disagree


def show_persons(risk: PersonRisk, smallest_class: int, console: Console) -> None:
    """Tell how persons and records differ."""
    rows = [
        ("people", f"{risk.persons:,}"),
        ("records of one, on average", f"{risk.mean_records:.2f}"),
        ("records of one, at most", f"{risk.most_records:,}"),
        ("k counted in people", f"{risk.smallest_class:,}"),
        ("k counted in records", f"{smallest_class:,}"),
        ("people alone in a class", f"{risk.lone_persons:,} ({risk.lone_persons / risk.persons:.1%})"),
        ("classes of several records, all of one person", f"{risk.unseen_classes:,}"),
        ("people with records in several classes", f"{risk.persons_in_several_classes:,}"),
    ]
    if risk.records_without_person:
        rows.append(("records that name nobody (one person a class)", f"{risk.records_without_person:,}"))
    table(console, f"People (by {risk.unit}) and records", ("", ""), rows)


def show_households(risk: HouseholdRisk, console: Console) -> None:
    """Tell the risk that any member of a household is found."""
    rows = [
        ("households", f"{risk.households:,}"),
        ("members of one, at most", f"{risk.largest:,}"),
        ("households of a class, at least", f"{risk.smallest_class:,}"),
        ("chance that any member is found, highest", f"{risk.highest:.1%}"),
        ("chance that any member is found, mean", f"{risk.mean:.1%}"),
        ("chance of a member alone, mean", f"{risk.mean_of_members:.1%}"),
        ("households with a member alone in a class", f"{risk.with_lone_member:,}"),
    ]
    if risk.records_without_household:
        rows.append(("records that name no household", f"{risk.records_without_household:,}"))
    table(console, f"Households (by {risk.column})", ("", ""), rows)


def show_special(risk: SpecialRisk, whom: str, console: Console) -> None:
    """Tell which attributes carry the risk; *whom* are records or people."""
    if not risk.unique_records:
        return
    rows = [
        (f"{size}", f"{count:,}", f"{count / risk.unique_records:.1%}")
        for size, count in enumerate(risk.by_size, start=1)
    ]
    rows[-1] = (f"more than {risk.largest}", *rows[-1][1:])
    title = f"How many attributes single out each of the {risk.unique_records:,} unique {whom}, at least"
    table(console, title, ("attributes", whom, f"share of unique {whom}"), rows)
    sets = [
        (", ".join(one.attributes), f"{one.records:,}", f"{one.score / risk.score:.1%}")
        for one in risk.sets[:MOST_SETS]
    ]
    title = f"Riskiest combinations: all of these attributes single {whom} out, fewer of them do not"
    table(console, title, ("attributes", whom, "share of the score"), sets)
    if len(risk.sets) > MOST_SETS:
        console.print(f"and {len(risk.sets) - MOST_SETS:,} more (--json lists all)")
    shares = [(name, f"{share:.1%}") for name, share in risk.contributions]
    title = "Attributes by what they contribute (shares overlap: a combination counts for each of its attributes)"
    table(console, title, ("attribute", "share of the score"), shares)
    if risk.disclosure is not None:
        worst = risk.disclosure.highest
        console.print(
            f"\nSomebody of the population who matches one of the unique {whom} is that person with a chance of "
            f"{risk.disclosure.chance:.1%}"
            + ("." if worst is None else f"; {worst:.1%} for the highest score (DIS-SUDA)."),
            soft_wrap=True,
        )


def show_uniqueness(found: PopulationUniqueness, console: Console) -> None:
    """Tell who is unique in the population, and how far the models agree."""
    rows = []
    for one in found.estimates:
        name = NAMES[one.model] + (" (chosen)" if one.model == found.chosen else "")
        if one.uniques is None:
            rows.append((name, "none", ""))
        else:
            rows.append((name, f"{one.uniques:,.0f}", f"{one.uniques / found.population:.2%}"))
    title = f"Unique in the population of {found.population:,}, of whom {100 * found.fraction:.3g}% are in the table"
    table(console, title, ("model", "unique people", "share of the population"), rows)
    for one in found.estimates:
        if one.refusal is not None:
            console.print(f"No estimate: {one.refusal}.", soft_wrap=True)
    console.print(
        f"Chosen is {NAMES[found.chosen]}: {found.reason}. About {found.expected_in_sample:,.0f} of the "
        f"{found.sample_uniques:,} unique in the table are unique in the population: whoever matches them is right.",
        soft_wrap=True,
    )
    if found.spread is not None and found.spread > APART:
        console.print(
            f"The models disagree: the largest estimate is {found.spread:.1f} times the smallest. Do not rely on one.",
            soft_wrap=True,
        )
