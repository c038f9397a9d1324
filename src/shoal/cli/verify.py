"""``shoal verify``: check written files; the exit code is the verdict."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import console
from shoal.core.errors import InputError, UsageError
from shoal.core.wording import parameters_text

if TYPE_CHECKING:
    from shoal.manifest import Manifest
    from shoal.sources.base import Source
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
        str | None, typer.Option(help="Memory limit, such as 2GiB; counts that need more go to temporary files.")
    ] = None,
    public_key: Annotated[
        Path | None, typer.Option(help="Public key of the data holder: also check the signed statements.")
    ] = None,
    json_output: console.JsonOption = False,
) -> None:
    """Recompute every guarantee from the written files, independently. Exit code 4: not verified, or incomplete."""
    with console.reporting(json_output):
        from shoal.reports.verifying import verify

        try:
            key = None if public_key is None else public_key.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read {public_key}: {error.strerror or 'input or output error'}") from None
        limit = None
        if memory is not None:
            from shoal.engines.regions.budget import parse_memory

            limit = parse_memory(memory)
        original, populations = None, None
        if (source, population, policy) != (None, None, None):
            original, populations = _open_tables(folder, source, population, policy)
        with console.bars() as progress:
            verification = verify(
                folder,
                source=original,
                populations=populations,
                progress=progress,
                memory=limit,
                public_key=key,
            )
        if json_output:
            console.answer(verification.as_dict())
        else:
            show(verification, with_source=source is not None)
    if not verification.verified:
        raise typer.Exit(REJECTED)


def _open_tables(
    folder: Path, source: str | None, population: str | None, policy: Path | None
) -> tuple[Source | None, dict[str, Source]]:
    """Open the source and the population tables with the options of the policy or, without one, of the manifest."""
    from shoal.policy.policy import Policy
    from shoal.release.published import read_options
    from shoal.sources.base import SourceOptions
    from shoal.sources.opening import open_source

    manifest, asked = _read_manifest(folder), None if policy is None else Policy.load(policy)
    stated = SourceOptions() if manifest is None else read_options(manifest)
    options = stated if asked is None else asked.source
    guarantees = () if manifest is None else manifest.guarantees
    promised = [str(one.parameters["population"]) for one in guarantees if "population" in one.parameters]
    tables: dict[str, str | Path] = {}
    if population is not None:
        tables = dict.fromkeys(promised, population)
    elif policy is not None and asked is not None:
        known = {getattr(model, "population", None) for model in asked.privacy}
        tables = {name: policy.parent / name for name in promised if name in known}
    original = None if source is None else open_source(source, options)
    return original, {name: open_source(path, options) for name, path in tables.items()}


def _read_manifest(folder: Path) -> Manifest | None:
    """Return the manifest if it can be read; otherwise the verifier will report the error."""
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
        scope += ", except for the claims"
    elif not verification.guarantees:
        scope += "; it promises nothing about people"
    console.out().print(f"[bold green]Verified[/]{scope}.")


def _mark(ok: bool) -> str:
    return "[green]yes[/]" if ok else "[red]no[/]"
