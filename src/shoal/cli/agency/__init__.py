"""``shoal agency``: what several data owners agree upon before they publish."""

from __future__ import annotations

import typer

from shoal.cli.agency import planning, service

app = typer.Typer(
    help="Releases of several data owners. Plan classes, publish by them, run an agency's service or ask one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Plan releases of several data owners about the same people, make them, and run or ask an agency's service."""


app.command("plan")(planning.plan)
app.command("apply")(planning.apply)
app.command("serve")(service.serve)
app.command("migrate")(service.migrate)
app.command("token")(service.token)
app.command("open")(service.open_campaign)
app.command("status")(service.status)
app.command("settle")(service.settle)
app.command("close")(service.close)
app.command("campaigns")(service.campaigns)
app.command("contribute")(service.contribute)
app.command("fetch")(service.fetch)
app.command("report")(service.report)
app.command("register")(service.register)
app.command("releases")(service.releases)
