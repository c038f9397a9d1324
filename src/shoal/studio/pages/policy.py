"""The policy as YAML: read, edit, replace, or return to the draft."""

from __future__ import annotations

from starlette.responses import PlainTextResponse, Response

from shoal.core.errors import PolicyError
from shoal.studio.answers import Visit, page
from shoal.studio.pages.reading import read_as_policy_says
from shoal.studio.project import StaleError

_STALE = (
    "The policy was changed in another tab. Your text below was not saved; compare it with the policy there. If you "
    "save it now, it replaces that change."
)


def show(visit: Visit) -> Response:
    return visit.render("policy.html", text=visit.project.policy_text, wrong="", hide_policy=True)


def save(visit: Visit) -> Response:
    """Save the text as the policy; invalid YAML is shown again with its line."""
    text = visit.form.get("text").replace("\r\n", "\n")
    try:
        visit.project.change_text(visit.form.revision, text)
    except StaleError:
        return visit.render("policy.html", 409, text=text, wrong=_STALE, hide_policy=True)
    except PolicyError as error:
        return visit.render("policy.html", 422, text=text, wrong=f"{error}. Nothing was changed yet.", hide_policy=True)
    read_as_policy_says(visit)
    return visit.to(visit.at("/policy"))


def reset(visit: Visit) -> Response:
    """Return to the draft with its reasons and questions."""
    draft = visit.project.draft
    visit.project.change(visit.form.revision, draft.policy, draft.text)
    read_as_policy_says(visit)
    return visit.to(visit.at("/policy"))


def download(visit: Visit) -> Response:
    headers = {"content-disposition": 'attachment; filename="policy.yaml"'}
    visit.project.saved = visit.project.revision
    return PlainTextResponse(visit.project.policy_text, headers=headers, media_type="application/yaml")


def panel(visit: Visit) -> Response:
    return visit.render("policy_panel.html")


routes = [
    page("/projects/{project}/policy", show),
    page("/projects/{project}/policy", save, "POST"),
    page("/projects/{project}/policy/draft", reset, "POST"),
    page("/projects/{project}/policy/download", download),
    page("/projects/{project}/policy/panel", panel),
]
