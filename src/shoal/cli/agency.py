"""``shoal agency``: planning classes for several data owners, and publishing by such a plan."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from shoal.cli import publishing
from shoal.cli.console import JsonOption, Reply, add_command, bars, plain, reporting, say
from shoal.core.errors import UsageError
from shoal.core.wording import count_noun, parameters_text

if TYPE_CHECKING:
    from shoal.agency.planning import Plan
    from shoal.release.forms.agreed import Promise
    from shoal.release.release import Release


Name = TypeVar("Name", bound=str)
MOST_DIGITS = 100  # before or after the decimal point

app = typer.Typer(
    help="Coordinate releases of several data owners. Plan classes, publish by a plan, run or use an agency's service.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@add_command(app, "plan")
def plan(
    sensitive: Annotated[str, typer.Option(help="The sensitive column.")],
    delta: Annotated[str, typer.Option(help="Probability with which a release may break the promise.")],
    output: Annotated[Path, typer.Option("--out", "-o", help="New file for the plan.")],
    counts: Annotated[
        Path | None,
        typer.Option(help="Quasi columns, the sensitive column, and `count` or `probability`: CSV or Parquet."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Past records instead, counted on this machine; --attributes names the columns.")
    ] = None,
    promise: Annotated[
        str, typer.Option(help="Per class: l-diversity (l values), k-anonymity (k records) or entropy (of ln l).")
    ] = "l-diversity",
    l: Annotated[
        float | None, typer.Option("--l", help="Sensitive values per class (at least); for entropy, effectively.")
    ] = None,
    k: Annotated[int | None, typer.Option("--k", help="Records per class (at least).")] = None,
    p: Annotated[
        str | None,
        typer.Option("--p", help="Least probability of every class or, for l-diversity, of each of its l values."),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Choose p for this many records; by default, for as many as were counted."),
    ] = None,
    eta: Annotated[str, typer.Option(help="Error of the distribution, in total variation.")] = "0",
    order: Annotated[str, typer.Option(help="Order: lexicographic, hilbert or taxonomy.")] = "lexicographic",
    attributes: Annotated[
        str | None, typer.Option(help="Quasi columns by importance, separated by commas; by default, in file order.")
    ] = None,
    taxonomy: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=FILE: taxonomy whose leaves give a column's order; may be repeated."),
    ] = None,
    arrangement: Annotated[
        str, typer.Option(help="Classes: contiguous, gathered (more classes, but no ranges) or independent.")
    ] = "contiguous",
    records: Annotated[
        str, typer.Option(help="Records of each owner: paper, tight (exact) or linked (for k that survives linkage).")
    ] = "paper",
    failure_at: Annotated[
        list[int] | None,
        typer.Option(help="Also state how likely a release of this many records breaks the promise; may be repeated."),
    ] = None,
) -> Reply:
    """Plan classes and the number of records. Releases by the plan keep a promise, except with probability delta."""
    from shoal.agency.distribution import ORDERS, count_records, read_distribution
    from shoal.agency.planning import ARRANGEMENTS, RECORDS, make_plan, write_plan
    from shoal.taxonomies.builders.listed import read_taxonomy

    columns = None if attributes is None else [name.strip() for name in attributes.split(",")]
    if (counts is None) == (data is None):
        raise UsageError("give either --counts, or --data with past records")
    if output.exists():
        raise UsageError(f"{output} exists already; choose another file or remove it first")
    if data is not None and columns is None:
        raise UsageError("--data needs --attributes: the quasi columns, separated by commas")
    chosen_order = _one_of("order", order, ORDERS)
    chance, least, error = _number("delta", delta), None if p is None else _number("p", p), _number("eta", eta)
    trees = {name: read_taxonomy(Path(path)) for name, path in _pairs("taxonomy", "FILE", taxonomy).items()}
    known = counts if data is None else count_records(data, columns or [], sensitive)
    made = make_plan(
        read_distribution(known, sensitive, order=chosen_order, attributes=columns, taxonomies=trees),
        promise=_read_promise(promise, l, k),
        delta=chance,
        p=least,
        samples=samples,
        eta=error,
        arrangement=_one_of("arrangement", arrangement, tuple(ARRANGEMENTS)),
        records=_one_of("records", records, RECORDS),
    )
    failures = {number: made.failure(number) for number in failure_at or []}
    document = write_plan(made, output)
    numbers = ("delta", "eta", "records", "n", "n_tight", "m", "p", "classes", "digest")
    kept = {"promise": made.promise.model, made.promise.parameter: made.promise.least}
    figures = {name: document[name] for name in numbers} | ({"failure": failures} if failures else {})
    lines = [*_explain(made, failures), f"The plan is {plain(output)}."]
    return {"plan": str(output), **kept, **figures}, *lines


def _explain(plan: Plan, failures: dict[int, float]) -> list[str]:
    """Describe the plan: its classes, the records it needs, and the guarantee."""
    from shoal.release.forms.agreed import ENTROPY, K_ANONYMITY, L_DIVERSITY

    least, sensitive = plan.promise.least, plain(plan.distribution.sensitive)
    classes = count_noun(plan.classes.n_classes, "class", "classes")
    points = f"{plan.distribution.n_points:,} combinations of quasi values"
    shows = {
        L_DIVERSITY: f"shows the {least} values of {sensitive} that the plan names for it",
        K_ANONYMITY: f"has at least {least} records",
        ENTROPY: f"has values of {sensitive} at least as diverse as {least:g} equally frequent ones",
    }[plan.promise.model]
    lines = [
        f"[bold]{classes}[/] of {points}; p = {float(plan.p):.6g}.",
        f"Each owner must have [bold]{plan.records:,} records[/].",
        f"Every class then {shows}, except with probability {float(plan.delta):g}.",
    ]
    if plan.promise.model == L_DIVERSITY:
        lines[0] += f" No arrangement gives more than m = {float(plan.m):,.6g}."
        lines[1] += f" The paper's number is {plan.n:,}; {plan.n_tight:,} are enough for these particular classes."
        lines[2] += f"\nAny number of such releases together leave at least {least} values for each person."
    else:
        lines[2] += "\n" + (
            f"Linked releases leave {least} records in every class, except with that probability for each of them."
            if plan.linked
            else "The plan promises nothing about several releases together; shoal link measures what they leave."
        )
    exact = "taken as exact" + ("." if plan.promise.model == ENTROPY else ": give --eta if it is an estimate.")
    known = f"known up to {float(plan.eta):g}." if plan.eta else exact
    lines.append(f"This holds for independent records from the distribution in the counts, {known}")
    for number, chance in failures.items():
        lines.append(f"With {number:,} records, a release breaks the promise with probability {chance:.3g} at most.")
    return lines


def _read_promise(name: str, l: float | None, k: int | None) -> Promise:
    """Return the promise that the options name; l and k exclude each other."""
    from shoal.release.forms.agreed import ENTROPY, K_ANONYMITY, L_DIVERSITY, Promise

    models = {"l-diversity": L_DIVERSITY, "k-anonymity": K_ANONYMITY, "entropy": ENTROPY}
    model = models[_one_of("promise", name, tuple(models))]
    given, other, needs, excludes = (k, l, "--k", "--l") if model == K_ANONYMITY else (l, k, "--l", "--k")
    if given is None or other is not None:
        raise UsageError(
            f"--promise {name} needs {needs}" + (f", and takes no {excludes}" if other is not None else "")
        )
    return Promise(model, int(given) if float(given).is_integer() else given)


def _one_of(option: str, given: str, known: tuple[Name, ...]) -> Name:
    found = next((name for name in known if name == given), None)
    if found is None:
        raise UsageError(f"--{option} must be one of {', '.join(known)}, got {given!r}")
    return found


def _number(name: str, text: str) -> Fraction:
    """Read a decimal number exactly."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        number = Decimal("nan")
    if "_" in text or not number.is_finite() or abs(number.adjusted()) > MOST_DIGITS:
        raise UsageError(f"--{name} must be a number such as 0.01, got {text!r}")
    return Fraction(number)


def _pairs(option: str, what: str, texts: list[str] | None) -> dict[str, str]:
    """Read the values of a repeated option COLUMN=..."""
    pairs = {}
    for text in texts or []:
        name, _, pairs[name] = text.partition("=")
        if not (name and pairs[name]):
            raise UsageError(f"--{option} must be COLUMN={what}, got {text!r}")
    return pairs


@app.command("apply")
def apply(
    plan: Annotated[Path, typer.Argument(help="The agency's plan, unchanged.")],
    data: publishing.DataArgument,
    folder: publishing.FolderOption,
    format_: publishing.FormatOption = None,
    seed: publishing.SeedOption = None,
    ledger: publishing.LedgerOption = None,
    population: publishing.PopulationOption = None,
    recipient: publishing.RecipientOption = None,
    floor: publishing.FloorOption = None,
    warn: publishing.WarnOption = False,
    unit: Annotated[
        str | None, typer.Option("--unit", help="Column that identifies people; the plan's number then counts people.")
    ] = None,
    same_as: Annotated[
        list[str] | None,
        typer.Option(help="With --ledger: COLUMN=NAME, a column's name in earlier releases; may be repeated."),
    ] = None,
    strict: publishing.StrictOption = False,
    json_output: JsonOption = False,
) -> None:
    """Publish a table by a plan. Exit code 3: too few records, or a class breaks the plan's promise."""
    with reporting(json_output, folder):
        from shoal.agency.apply import apply_plan

        entering = publishing.read_ledger_options(ledger, population, recipient, floor, warn)
        if entering is not None:
            entering = replace(entering, same_as=_pairs("same-as", "NAME", same_as))
        elif same_as:
            raise UsageError("--same-as needs a ledger; name it with --ledger")
        with bars() as progress:
            release = apply_plan(
                plan,
                data,
                folder,
                format=format_,
                seed=seed,
                progress=progress,
                ledger=entering,
                unit=unit,
                strict=strict,
            )
        if json_output:
            more = {name: release.evidence[name] for name in ("records_needed", "people", "left_out")}
            publishing.answer_release(release, more)
        else:
            _show_release(release)


def _show_release(release: Release) -> None:
    manifest, evidence = release.manifest, release.evidence
    (promise,) = manifest["guarantees"]
    say(
        f"[bold]Verified and published[/]: {count_noun(manifest['rows'], 'row')} in the plan's "
        f"{count_noun(manifest['agreed']['classes'], 'class', 'classes')}  ->  {plain(release.data_file)}",
        f"{promise['model']} ({parameters_text(promise['parameters'])}) holds: the weakest class reaches "
        f"{promise['achieved']:.6g}. The plan requires {evidence['records_needed']:,} records.",
    )
    unknown = "Whether each record is a different person was not checked; name the column of people with --unit."
    say(
        unknown
        if evidence["people"] is None
        else f"They are about {count_noun(evidence['people'], 'person', 'people')}."
    )
    if evidence["left_out"]:
        say(f"Left out, because they are not in the plan: {plain(', '.join(evidence['left_out']))}.")
    say(f"The plan is published with the data: public/{manifest['agreed']['file']}.")
    publishing.show_end(release)
