"""What travels with the data: the README and the page for those who use them, made from the manifest alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from shoal.core.wording import code, listed
from shoal.release.forms.base import Form, read_form
from shoal.reports.changes import change_told, sample_told
from shoal.reports.internal import number_parts
from shoal.reports.plots import attribute_loss, plot_style
from shoal.reports.templates import mark, render

_KINDS = {"category": "category", "number": "number", "date": "date", "prefix": "masked text"}
_NOISE = (
    "- Noise leaves means right and makes variances too large: take off {variances}. It draws the slope of a "
    "regression on such a column towards 0."
)


def public_readme(manifest: Mapping[str, Any]) -> str:
    """Return the README of a release; it tells only what the manifest tells."""
    return str(render("README.md", **_content(manifest)))


def public_report(manifest: Mapping[str, Any]) -> str:
    """Return the page for users of the data; it tells only what the manifest tells, and not all of that."""
    content = _content(manifest)
    losses = manifest["utility"].get("attribute-loss")
    return str(
        render(
            "public.html",
            **content,
            marked_changes=[(name, mark(change)) for name, change in content["changes"]],
            dictionary=_dictionary(content["form"]),
            loss_plot=attribute_loss(losses) if losses else None,
            plot_style=plot_style(),
        )
    )


def _content(manifest: Mapping[str, Any]) -> dict[str, Any]:
    form = read_form(manifest)
    return {
        "manifest": manifest,
        "form": form,
        "origin": _describe_origin(form),
        "own": form.own_section(),
        "number_parts": number_parts,
        "changes": [(name, change_told(entry)) for name, entry in manifest.get("techniques", {}).items()],
        "promises": [*form.promises(), *_describe_changed_promises(manifest)],
        "advice": [*form.advice(), *_advise_on_noise(manifest)],
        "kind_of": _kind_of,
        "explain_labels": _explain_labels,
    }


def _describe_origin(form: Form) -> str:
    """Say what the rows are, and how they were made."""
    n_withheld = form.manifest["withheld"]
    withheld = f"{n_withheld:,} more records were withheld." if n_withheld else ""
    parts = (form.headline(), sample_told(form.manifest), form.describe_rows(), withheld)
    return " ".join(part for part in parts if part)


def _describe_changed_promises(manifest: Mapping[str, Any]) -> list[str]:
    """Say what the promises are about if columns were changed; nothing if none of these is quasi or sensitive."""
    roles = {name: manifest["attributes"][name]["role"] for name in manifest.get("techniques", {})}
    names = [code(name) for name, role in roles.items() if role in ("quasi", "sensitive")]
    if not names or not manifest["guarantees"]:
        return []
    return ["", f"The promises are about values as published. Those of {listed(names)} are not the original ones."]


def _advise_on_noise(manifest: Mapping[str, Any]) -> list[str]:
    """Say by how much noise makes variances too large, where no edge turned it back."""
    variances = []
    for name, entry in manifest.get("techniques", {}).items():
        if entry["technique"] != "noise" or "min" in entry or "max" in entry:
            continue
        square = 2 * entry["laplace"]["scale"] ** 2 if "laplace" in entry else entry["gaussian"]["sd"] ** 2
        variances.append(f"{square:,.6g} for {json.dumps(name, ensure_ascii=False)}")
    return [_NOISE.format(variances=", ".join(variances))] if variances else []


def _dictionary(form: Form) -> list[tuple[str, ...]]:
    """Return a row for each column: its role, its kind, and what its values are."""
    rows = [(own.name, own.role, own.kind, own.meaning.replace("`", "")) for own in form.own_columns()]
    for name, entry in form.manifest["attributes"].items():
        description = f"{entry['description']}; " if "description" in entry else ""
        rows.append((name, entry["role"], _kind_of(entry), f"{description}{form.published_as(name)}"))
    return rows


def _kind_of(entry: Mapping[str, Any]) -> str:
    """Return what kind of values a column has."""
    return "text" if entry["kind"] == "prefix" and "labels" not in entry else _KINDS[entry["kind"]]


def _explain_labels(labels: Mapping[str, Mapping[str, Any]], most: int) -> list[tuple[str, str]]:
    """Return the first labels with what they stand for."""
    return [(label, cover_text(cover)) for label, cover in list(labels.items())[:most]]


def cover_text(cover: Mapping[str, Any]) -> str:
    """Say what a label covers.

    >>> cover_text({"from": 20, "below": 30}), cover_text({"values": ["flu"], "missing": True})
    ('from 20, below 30', 'flu or missing')
    """
    parts = []
    if cover.get("any"):
        parts.append("any value")
    if "values" in cover:
        parts.append(", ".join(str(value) for value in cover["values"]))
    if "prefixes" in cover:
        parts.append("beginning with " + ", ".join(cover["prefixes"]))
    if "from" in cover:
        end, joint, whole = ("through", " ", "any text") if "through" in cover else ("below", ", ", "any number")
        ends = [f"{word} {cover[word]}" for word in ("from", end) if cover[word] is not None]
        parts.append(joint.join(ends) or whole)
    if cover.get("missing"):
        parts.append("missing")
    return " or ".join(parts)
