"""The public pages: the README and the report for users of the data, both made from the manifest alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shoal.columns.base import Technique
from shoal.core.registry import discover, find
from shoal.core.wording import code, count_noun, join_words
from shoal.manifest import Attribute, Sample
from shoal.release.forms.base import Form, read_form
from shoal.reports.plots import plot_style
from shoal.reports.templates import mark, render

_MOST_NAMED = 20  # values under one label
_STATED = {"owner": "Responsible for the data", "purpose": "Permitted use"}
_KINDS = {"category": "category", "number": "number", "date": "date", "prefix": "masked text"}


def public_readme(manifest: Mapping[str, Any]) -> str:
    """Return the README of a release; it has only facts from the manifest."""
    return str(render("README.md", **_content(manifest)))


def public_report(manifest: Mapping[str, Any]) -> str:
    """Return the page for users of the data; it has only facts from the manifest."""
    content = _content(manifest)
    return str(
        render(
            "public.html",
            **content,
            marked_changes=[(name, mark(change)) for name, change in content["changes"]],
            dictionary=_dictionary(content["form"]),
            plot_style=plot_style(),
        )
    )


def _content(document: Mapping[str, Any]) -> dict[str, Any]:
    form = read_form(document)
    manifest = form.manifest
    withheld = f"Not published: {count_noun(manifest.withheld, 'withheld record')}." if manifest.withheld else ""
    origin = (form.headline(), describe_sample(manifest.sample), form.describe_rows(), withheld)
    techniques: dict[str, dict[str, Any]] = {}  # by name: the entries of columns
    for name, entry in manifest.techniques.items():
        techniques.setdefault(entry["technique"], {})[name] = entry
    known = discover("shoal.columns", Technique) if techniques else {}
    about = {key: " ".join(text.split()) for key, text in manifest.about if text is not None}
    names = [code(name) for name in manifest.techniques if name in manifest.names("quasi", "sensitive")]
    changed_promises = []
    if names and manifest.guarantees:
        changed_promises = [
            "",
            f"The promises are about published values; the values of {join_words(names)} were changed.",
        ]
    return {
        "manifest": manifest,
        "title": about.get("title") or "About these data",
        "stated": [(says, about[key]) for key, says in _STATED.items() if about.get(key)],
        "form": form,
        "origin": " ".join(filter(None, origin)),
        "own": form.own_section(),
        "number_parts": number_parts,
        "changes": [(name, explain_change(entry)) for name, entry in manifest.techniques.items()],
        "promises": [*form.promises(), *changed_promises],
        "advice": [*form.advice(), *(line for name, used in techniques.items() for line in known[name].advise(used))],
        "kind_of": _kind_of,
        "explain_labels": _explain_labels,
    }


def explain_change(entry: Mapping[str, Any]) -> str:
    """Describe in Markdown the change of a column by a technique, given its entry in the manifest.

    >>> explain_change({"technique": "rounding", "base": 5, "random": False})
    'numbers were rounded to the nearest multiple of 5, halves up.'
    """
    return find("shoal.columns", Technique, entry["technique"], what="technique").explain(entry)


def describe_sample(sample: Sample | None) -> str:
    """Describe how records were sampled; an empty text if all were used.

    >>> describe_sample(Sample(share=0.1))
    'They are a random sample: each record was drawn independently with a probability of 10%.'
    """
    if sample is None:
        return ""
    if sample.share is None:
        return f"They are a random sample: one record of each {'person' if sample.one_per == 'unit' else 'household'}."
    share = f"{100 * sample.share:.6g}%"
    return f"They are a random sample: each record was drawn independently with a probability of {share}."


def _dictionary(form: Form) -> list[tuple[str, str, str, str]]:
    rows = [(own.name, own.role, own.kind, own.meaning.replace("`", "")) for own in form.own_columns()]
    for name, one in form.manifest.attributes.items():
        description = "" if one.description is None else f"{one.description}; "
        rows.append((name, one.role, _kind_of(one), f"{description}{form.describe_values(name)}"))
    return rows


def _kind_of(attribute: Attribute) -> str:
    if attribute.boxed or attribute.kind not in ("prefix", "category"):
        return _KINDS[attribute.kind]
    return "text" if attribute.kind == "prefix" else "category" if attribute.role == "quasi" else "as written"


def _explain_labels(labels: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the labels that cover more than the value that they name, with their covers in words."""
    explained = [(label, cover_text(cover)) for label, cover in labels.items()]
    return [(label, text) for label, text in explained if text != label]


def number_parts(parts: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    return [(str(place), ", ".join(names)) for place, names in enumerate(parts, start=1)]


def cover_text(cover: Mapping[str, Any]) -> str:
    """Describe the values that a label covers.

    >>> cover_text({"from": 20, "below": 30}), cover_text({"values": ["flu"], "missing": True})
    ('from 20, below 30', 'flu or missing')
    """
    parts = []
    if cover.get("any"):
        parts.append("any value")
    if "values" in cover:
        named = [str(value) for value in cover["values"][:_MOST_NAMED]]
        more = len(cover["values"]) - len(named)
        parts.append(", ".join(named) + (f" and {more:,} more, listed in manifest.json" if more else ""))
    if "prefixes" in cover:
        parts.append("beginning with " + ", ".join(cover["prefixes"]))
    if "from" in cover:
        end, joint, whole = ("through", " ", "any text") if "through" in cover else ("below", ", ", "any number")
        ends = [f"{word} {cover[word]}" for word in ("from", end) if cover[word] is not None]
        parts.append(joint.join(ends) or whole)
    if cover.get("missing"):
        parts.append("missing")
    return " or ".join(parts)
