"""``shoal agency serve``, ``migrate`` and ``token``: the central agency as a service."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.console import JsonOption, answer, out, reporting

Database = Annotated[
    str | None,
    typer.Option(help="sqlite:///FILE or postgresql://...; else SHOAL_AGENCY_DATABASE, else sqlite:///agency.db."),
]


def serve(
    database: Database = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on; else 127.0.0.1.")] = None,
    port: Annotated[int | None, typer.Option(help="Port, 0 for any free one; else 8321.")] = None,
    port_file: Annotated[Path | None, typer.Option(help="Write the port to this file when ready.")] = None,
    migrate: Annotated[bool, typer.Option("--migrate", help="Bring the database to the newest version first.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Say where it serves as one JSON object.")] = False,
) -> None:
    """Serve an agency over HTTP. Campaigns, plans and registered releases, until interrupted."""
    with reporting(json_output):
        _installed()
        from shoal.agency.service.migrating import ready_database
        from shoal.agency.service.running import serve as run
        from shoal.agency.service.running import write_port
        from shoal.agency.service.settings import settings

        chosen = settings(database=database, host=host, port=port)

        def announce(name: str, number: int) -> None:
            address = f"http://{name}:{number}"
            if json_output:
                answer({"url": address, "port": number})
                sys.stdout.flush()
            else:
                out().print(f"The agency serves on {address}", soft_wrap=True)
            if port_file is not None:
                write_port(port_file, number)

        run(chosen, ready_database(chosen.database, migrating=migrate), announce)


def migrate(
    database: Database = None,
    json_output: JsonOption = False,
) -> None:
    """Bring a database up to date. It is made if it is not there."""
    with reporting(json_output):
        _installed()
        from shoal.agency.service.migrating import ready_database
        from shoal.agency.service.settings import settings

        ready_database(settings(database=database).database, migrating=True)
        if json_output:
            answer({"migrated": True})
        else:
            out().print("The database is of the newest version.")


def token(
    role: Annotated[str, typer.Option(help="agency, owner or client.")],
    name: Annotated[str, typer.Option(help="Whom it is for; owners are told apart by it.")],
    database: Database = None,
    json_output: JsonOption = False,
) -> None:
    """Make a token and print it. It is shown this once; the first of an agency is made so."""
    with reporting(json_output):
        _installed()
        from shoal.agency.service.first_token import new_token
        from shoal.agency.service.settings import settings

        made = new_token(settings(database=database), name, role)
        if json_output:
            answer(made)
        else:
            out().print(made["token"], soft_wrap=True, markup=False)


def _installed() -> None:
    """Raise unless the packages of the service are there."""
    from importlib.util import find_spec

    from shoal.core.errors import UsageError

    absent = [
        name for name in ("alembic", "fastapi", "prometheus_client", "sqlalchemy", "uvicorn") if find_spec(name) is None
    ]
    if absent:
        raise UsageError(f"the agency's service needs {', '.join(absent)}; install shoal[agency]")
