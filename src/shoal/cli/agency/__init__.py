"""``shoal agency``: what several data owners agree upon before they publish."""

from __future__ import annotations

import typer

from shoal.cli.agency import apply, clients, owners, plan, serve, staff

app = typer.Typer(
    help="Releases of several data owners. Plan classes, publish by them, run an agency's service or ask one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def _group() -> None:
    """Plan releases of several data owners about the same people, make them, and run or ask an agency's service."""


app.command("plan")(plan.plan)
app.command("apply")(apply.apply)
app.command("serve")(serve.serve)
app.command("migrate")(serve.migrate)
app.command("token")(serve.token)
app.command("open")(staff.open_campaign)
app.command("status")(staff.status)
app.command("settle")(staff.settle)
app.command("close")(staff.close)
app.command("campaigns")(clients.campaigns)
app.command("contribute")(owners.contribute)
app.command("fetch")(owners.fetch)
app.command("report")(owners.report)
app.command("register")(owners.register)
app.command("releases")(clients.releases)
