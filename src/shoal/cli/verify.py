"""``shoal verify``: check written files; the exit code is the answer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import console
from shoal.core.errors import InputError, UsageError
from shoal.core.wording import parameters_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shoal.manifest import Manifest
    from shoal.sources.base import Source, SourceOptions
    from shoal.verify.result import Verification

REJECTED = 4


def verify(
    folder: Annotated[Path, typer.Argument(help="The release: its folder, or the public folder in it.")],
    source: Annotated[
        str | None, typer.Option(help="The original table: also check that the published rows are true.")
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="The population table for a promised k-map or delta-presence.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", "-p", help="Policy that states how to read the source and the population tables."),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="Memory limit, such as 2GiB; a release that needs more is checked in parts.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Public key of the data holder: also check the signed statements.")
    ] = None,
    engine: console.EngineOption = "local",
    master: console.MasterOption = None,
    json_output: console.JsonOption = False,
) -> None:
    """Recompute every guarantee from the written files, independently. Exit code 4: not verified, or incomplete."""
    with console.reporting(json_output):
        from shoal.engines.regions.budget import Budget
        from shoal.policy.policy import Policy
        from shoal.release.published import read_options
        from shoal.reports.verifying import verify
        from shoal.sources.base import SourceOptions
        from shoal.sources.opening import open_source

        try:
            key = None if public_key is None else public_key.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {public_key}: {error.strerror or 'input or output error'}") from None
        session = _start_session(engine, master)
        limit = Budget.of(memory).limit
        manifest, asked = _read_manifest(folder), None if policy is None else Policy.load(policy)
        promised = () if manifest is None else manifest.populations
        stated = SourceOptions() if manifest is None else read_options(manifest)
        options = stated if asked is None else asked.source
        original = None if source is None else _open_table(source, options, session)
        tables: dict[str, str | Path] = {}
        if population is not None:
            tables = dict.fromkeys(promised, population)
        elif policy is not None and asked is not None:
            known = {getattr(model, "population", None) for model in asked.privacy}
            tables = {name: policy.parent / name for name in promised if name in known}
        with console.bars() as progress:
            verification = verify(
                folder,
                source=original,
                populations={name: open_source(path, options) for name, path in tables.items()},
                progress=progress,
                memory=limit,
                spark=session,
                public_key=key,
            )
        if json_output:
            console.answer(verification.as_dict())
        else:
            show(verification, with_source=source is not None)
    if not verification.verified:
        raise typer.Exit(REJECTED)


def _start_session(engine: str, master: str | None) -> SparkSession | None:
    """Return the session whose workers are to check, if Spark is asked for."""
    if engine == "local":
        if master is not None:
            raise UsageError("--master is for the Spark engine only; add --engine spark, or omit --master")
        return None
    from shoal.engines.spark.engine import ready_session

    return ready_session(master)


def _open_table(source: str, options: SourceOptions, session: SparkSession | None) -> Source:
    """Open the original table, on Spark if it is to be compared there."""
    if session is None:
        from shoal.sources.opening import open_source

        return open_source(source, options)
    from shoal.sources.spark.source import open_spark_files

    return open_spark_files(Path(source), session, options)


def _read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest that will be verified, if it can be read; the verifier itself is the one to complain."""
    from shoal.release.release import find_release

    try:
        found = find_release(folder)
    except InputError:
        return None
    return None if found is None else found[1]


def show(verification: Verification, *, with_source: bool) -> None:
    """List every guarantee, claim and check with its verdict."""
    table = console.make_table("", "checked", "found")
    for promise in verification.guarantees:
        mark = "[yellow]partly[/]" if promise.partly and promise.ok else _mark(promise.ok)
        table.add_row(mark, promise.model, console.plain(promise.detail))
    for claim in verification.claims:
        said = f"{parameters_text(claim.parameters)}: {claim.detail}"
        table.add_row("[yellow]claim[/]", claim.model, console.plain(said))
    if not verification.guarantees and not verification.claims and verification.may_promise_nothing:
        table.add_row("[yellow]none[/]", "promises", "this release promises nothing about people")
    for check in verification.checks:
        table.add_row(_mark(check.ok) if check.done else "[yellow]not done[/]", check.name, console.plain(check.detail))
    console.out().print(table)
    if verification.verdict == "incomplete":
        console.out().print("[bold yellow]Incomplete[/]: nothing failed, but this was not checked:")
        for sentence in verification.unchecked:
            console.out().print(f"- {console.plain(sentence)}")
        return
    if not verification.verified:
        console.out().print("[bold red]Not verified[/]: do not publish.")
        return
    asked = with_source or any(check.name == "truth" for check in verification.checks)
    scope = " as far as public files show" if verification.unshown else ""
    scope += "" if asked else " (whether the rows are true was not checked; give --source)"
    if verification.claims:
        scope += ", except for what is only claimed"
    elif not verification.guarantees:
        scope += "; it promises nothing about people"
    console.out().print(f"[bold green]Verified[/]{scope}.")


def _mark(ok: bool) -> str:
    return "[green]yes[/]" if ok else "[red]no[/]"
