"""``shoal agency``: what several data owners agree upon before they publish."""

from __future__ import annotations

import typer

from shoal.cli import agency_apply, agency_client, agency_plan, agency_serve, agency_staff

app = typer.Typer(
    help="Plan releases of several data owners about the same people.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def _group() -> None:
    """Plan releases of several data owners about the same people."""


app.command("plan")(agency_plan.plan)
app.command("apply")(agency_apply.apply)
app.command("serve")(agency_serve.serve)
app.command("migrate")(agency_serve.migrate)
app.command("token")(agency_serve.token)
app.command("open")(agency_staff.open_campaign)
app.command("status")(agency_staff.status)
app.command("settle")(agency_staff.settle)
app.command("close")(agency_staff.close)
app.command("campaigns")(agency_client.campaigns)
app.command("contribute")(agency_client.contribute)
app.command("fetch")(agency_client.fetch)
app.command("report")(agency_client.report)
app.command("register")(agency_client.register)
app.command("releases")(agency_client.releases)
