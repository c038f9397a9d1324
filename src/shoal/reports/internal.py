"""The report for a review board, ``templates/internal.html``, and the recording of attack results next to it."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from markupsafe import Markup

from shoal.audit.decision import Decision, decide
from shoal.audit.numbers import describe_linkage
from shoal.core.errors import InputError, UsageError
from shoal.core.progress import register
from shoal.core.registry import discover
from shoal.core.results import Finding
from shoal.core.statements import ATTACKED, RECORD, state_attacked
from shoal.core.wording import (
    attack_text,
    code,
    count_noun,
    join_words,
    model_text,
    parameters_text,
    percent,
    write_kept,
)
from shoal.manifest import Claim, Guarantee, Manifest
from shoal.release.forms.base import Form, read_form
from shoal.release.release import INTERNAL, PUBLIC, Release, find_release, read_internal
from shoal.release.signing import SigningKey, read_signing_key
from shoal.reports import plots
from shoal.reports.pages import explain_change, number_parts, public_report
from shoal.reports.templates import mark, number, render
from shoal.utility.base import list_figures
from shoal.utility.marginals import describe_marginals

if TYPE_CHECKING:
    from shoal.attacks.base import Attack
    from shoal.policy.policy import Acceptance

ATTACKS, DECISION = RECORD, "decision.json"
_DOES_NOT = {
    "singling out": "The release has no promise against singling out.",
    "linkability": (
        "The release has no promise against linking it with another release about the same people; shoal link and the "
        "ledger measure that risk."
    ),
    "inference": "The release has no promise against inference.",
}
_FOUND = {
    "groups": "groups of records that exchange values",
    "rows_alone_in_group": "records alone in their group",
    "rows_with_their_own_value": "records that have their own value",
}
_QUESTIONS = {
    "singling out": "Singling out: can a person's record be isolated?",
    "linkability": "Linkability: can records about one person be linked?",
    "inference": "Inference: can a value be concluded?",
}
_VERDICTS = {True: Markup('<span class="good">holds</span>'), False: Markup('<span class="bad">fails</span>')}

Content = dict[str, object]  # figures, sentences, and rows of tables
Document = Mapping[str, Any]  # a manifest, its evidence, or the results of attacks


def internal_report(
    document: Manifest | Document,
    evidence: Document,
    attacks: Document | None = None,
    decision: Decision | None = None,
) -> str:
    """Return the page for a review board as self-contained HTML."""
    form = read_form(document)
    manifest = form.manifest
    decision = decide(manifest, evidence, attacks) if decision is None else decision
    content = {
        **_describe_release(evidence),
        **_summarize(form, evidence, decision),
        **_list_promises(form, evidence),
        **_list_risks(form, evidence),
        **_list_attacks(form, attacks),
        **_describe_publication(form, evidence),
        **_describe_origin(manifest, evidence),
    }
    return str(
        render(
            "internal.html",
            form=form,
            manifest=manifest,
            evidence=evidence,
            decision=decision,
            attacks=attacks,
            source=evidence["source"],
            before=evidence["risk_before"],
            after=evidence["risk_after"],
            nbsp=Markup("&nbsp;"),
            plots=plots,
            plot_style=plots.plot_style(),
            **content,
        )
    )


def _describe_release(evidence: Document) -> Content:
    given = evidence["policy"].get("release") or {}
    about = {key: given.get(key) for key in ("title", "owner", "recipient", "purpose")}
    stated = [
        (key, str(about[key] or f"not stated (release: {key} in the policy)"))
        for key in ("owner", "recipient", "purpose")
    ]
    return {"about": about, "stated": [*stated, ("date", evidence.get("date", "–"))]}


def _summarize(form: Form, evidence: Document, decision: Decision) -> Content:
    checks = evidence["verification"]["checks"]
    changes = []
    for name, entry in form.manifest.techniques.items():
        counts = evidence["techniques"][name]
        found = "; ".join(f"{_FOUND.get(key, key.replace('_', ' '))}: {count:,}" for key, count in counts.items())
        changes.append((name, mark(explain_change(entry)), found))
    return {
        "n_failed_checks": sum(not check["ok"] for check in checks),
        "n_done": sum(check.get("done", True) for check in checks),
        "risks": [(f"{one.kind}: {one.title}", one.figure, one.sentence) for one in decision.risk],
        "open_findings": [(*_finding(one), one.text, one.fix) for one in decision.findings if one.open],
        "accepted_findings": [(*_finding(one), one.text, one.accepted) for one in decision.findings if not one.open],
        "brief_findings": [
            (*_finding(one), percent(one.share), "open" if one.open else "accepted") for one in decision.findings
        ],
        "changes": changes,
    }


def _finding(one: Finding) -> tuple[str, str, str]:
    return one.severity, one.id, join_words(one.about) if one.about else "the table"


def _list_promises(form: Form, evidence: Document) -> Content:
    named: list[Guarantee | Claim] = [*form.manifest.guarantees, *form.manifest.claims]
    return {
        "claims": [(one.model, parameters_text(one.parameters), one.meaning) for one in form.claims()],
        "guarantees": [
            (
                model_text(one),
                parameters_text(one["parameters"]),
                form.find_model(one["model"]).title.replace("`", ""),
                number(one["achieved"]),
                _VERDICTS[one["ok"]],
            )
            for one in evidence["verification"]["guarantees"]
        ],
        "promised": [one.model for one in named],
        "levels_promised": [f"{one.model} ({parameters_text(one.parameters)})" for one in named],
        "checks": [
            (check["name"], _VERDICTS[check["ok"]] if check.get("done", True) else "not done", check["detail"])
            for check in evidence["verification"]["checks"]
        ],
        "search": [(name.replace("_", " "), json.dumps(value)) for name, value in evidence["search"].items()],
    }


def _list_risks(form: Form, evidence: Document) -> Content:
    section, synthetic = form.own_section(), evidence.get("synthetic", {"attributes": {}, "pairs": []})
    numbers = evidence.get("number_risk", {})
    carriers = []
    for when, which in (("before", "original"), ("after", "released")):
        found = evidence.get("risk_carriers", {}).get(when)
        if found and found["sets"]:
            shares = [(name, percent(share)) for name, share in found["contributions"].items()]
            combinations = [
                (", ".join(one["attributes"]), number(one["records"]), percent(one["score_share"]))
                for one in found["sets"]
            ]
            carriers.append((which, {**found, "shares": shares, "combinations": combinations}))
    return {
        "parts": [] if section is None else number_parts(section.parts),
        "carriers": carriers,
        "linkage": describe_linkage(numbers["linkage"]) if numbers else "",
        "intervals": [
            (name, f"{width}%", *map(percent, shares))
            for name, several in numbers.get("intervals", {}).items()
            for width, *shares in (one.values() for one in several)
        ],
        "distances": [(name, number(distance)) for name, distance in synthetic["attributes"].items()],
        "pair_distances": [
            (", ".join(one["pair"]), "yes" if one["kept"] else "no", number(one["distance"]))
            for one in synthetic["pairs"]
        ],
    }


def _list_attacks(form: Form, attacks: Document | None) -> Content:
    """Return the results of attacks, the largest risk first, and the answers to the Article 29 opinion."""
    found = [] if attacks is None else attacks["attacks"]
    tried = sorted(found, key=lambda one: -one["risk"]["value"])
    said: dict[str, list[str]] = {}
    asked = _read_attacks() if found else {}
    for one in found:
        for note in one.get("notes", ()):
            said.setdefault(note, []).append(attack_text(one))
    return {
        "tried": tried,
        "n_sure_attacks": sum(one.get("worst", one["risk"])["low"] > 0 for one in tried),
        "rates": [
            (
                attack_text(one),
                asked[one["name"]].title if one["name"] in asked else "–",
                *(_rate(one[key]) for key in ("attack", "baseline", "control")),
                one.get("verdict", "–"),
            )
            for one in tried
        ],
        "notes": [
            f"{'all' if len(names) == len(found) else ', '.join(names)}: {note}." for note, names in said.items()
        ],
        "questions": [
            (title, _describe_promise(form, question), _describe_attacks(attacks, question))
            for question, title in _QUESTIONS.items()
        ],
    }


def _rate(tally: Mapping[str, int] | None) -> str:
    if tally is None:
        return "–"
    return f"{percent(tally['success'] / tally['trials'])} ({tally['success']:,} of {tally['trials']:,})"


def _describe_promise(form: Form, question: str) -> str:
    """Return the promise that answers a question of the Article 29 opinion."""
    if form.claims():
        return "Claimed by differential privacy: a single record has little influence on the published rows."
    names = [promise.model for promise in form.manifest.guarantees]
    sizes = [name for name in names if form.find_model(name).sees != "values"]
    values = [name for name in names if name not in sizes]
    if question == "singling out" and form.whole_records and names:
        return f"{join_words(sizes or values)}: every record is in a {form.group} with others."
    if question == "inference" and values:
        return f"{join_words(values)}: what can be concluded from a {form.group} is bounded."
    if question == "linkability" and form.linkability is not None:
        return form.linkability
    return _DOES_NOT[question]


def _read_attacks() -> Mapping[str, type[Attack]]:
    from shoal.attacks.base import Attack  # slow to load, and needed only if attacks were recorded

    return discover("shoal.attacks", Attack)


def _describe_attacks(attacks: Document | None, question: str) -> str:
    """Return the results of attacks that answer a question of the Article 29 opinion."""
    if attacks is None:
        return "Not measured: no attacks were recorded."
    asking = {name for name, attack in _read_attacks().items() if attack.question == question}
    found = []
    for one in attacks["attacks"]:
        if one["name"] in asking:
            value, low, high = (percent(max(one["risk"][end], 0.0)) for end in ("value", "low", "high"))
            found.append(f"{attack_text(one)} {value} ({low} to {high})")
    return f"Risks found by attacks: {'; '.join(found)}." if found else "No attack of this kind applies here."


def list_losses(form: Form, evidence: Document) -> Mapping[str, float]:
    """Return the share of the domain that the labels of each column cover on average; empty for averages."""
    losses: Mapping[str, float] = evidence["utility"].get("attribute-loss", {})
    return {} if form.manifest.method == "microaggregation" else losses


def _describe_publication(form: Form, evidence: Document) -> Content:
    losses, markers = list_losses(form, evidence), evidence.get("missing_markers", {})
    single = {name: value for name, value in evidence["utility"].items() if not isinstance(value, dict)}
    return {
        "columns": [
            (
                name,
                attribute.role,
                mark(
                    form.describe_values(name)
                    + (
                        f", but {count_noun(markers[name], 'value')} that mean missing became empty"
                        if markers.get(name)
                        else ""
                    )
                ),
                percent(1 - losses[name]) if name in losses else "–",
            )
            for name, attribute in form.manifest.attributes.items()
        ],
        "marginal_sentences": describe_marginals(evidence["marginals"]),
        "marginals": [
            (
                str(one["size"]),
                *(write_kept(one.get(name, one["release"])) for name in ("release", "known", "shuffled", "fresh")),
                f"{one['n_sets']:,} of {one['n_all']:,}",
            )
            for one in evidence["marginals"]
        ],
        "measures": [(name, title, number(value)) for name, title, value in list_figures(single)],
    }


def _describe_origin(manifest: Manifest, evidence: Document) -> Content:
    source, policy = evidence["source"], evidence["policy"]
    tables = {f"source: {source['name']}": source["sha256"]}
    tables |= {f"population: {name}": one.sha256 for name, one in manifest.populations.items()}
    if manifest.data is not None:
        tables[f"published: {manifest.data.file}"] = manifest.data.sha256
    declared = policy.get("attributes", {})
    return {
        "policy": str(yaml.safe_dump(policy, sort_keys=False, allow_unicode=True, width=100)),
        "identifiers": [
            name for name, one in declared.items() if isinstance(one, dict) and one.get("role") == "identifier"
        ],
        "digests": [(name, mark(code(digest))) for name, digest in tables.items()],
        "origin": [
            ("records of the source", number(source["rows"])),
            ("method", manifest.method),
            ("randomness", evidence["randomness"]),
            ("shoal", evidence["shoal_version"]),
            ("Python", evidence["python"]),
            *((f"seconds: {step}", number(value)) for step, value in evidence["seconds"].items()),
        ],
    }


@dataclass(frozen=True, slots=True)
class Recorder:
    """The internal folder of a release, ready to record the results of attacks, and the key that signs them."""

    folder: Path
    manifest: Manifest
    evidence: Document
    signing: SigningKey | None = None

    @classmethod
    def of(cls, folder: Path, sign: Path | None = None) -> Recorder:
        """Open the internal folder next to a public one; refuse other folders."""
        found = find_release(folder)
        if found is None:
            raise InputError(f"{folder} is not a release: it has no manifest.json")
        public, manifest = found
        internal = public.parent / INTERNAL
        if public.name != PUBLIC or not (internal / "evidence.json").is_file():
            raise UsageError(
                f"{folder} has no folder {INTERNAL} next to public, in which results are recorded; record them where "
                "the release was made"
            )
        key = None if sign is None else read_signing_key(sign)
        return cls(internal, manifest, read_internal(internal / "evidence.json"), key)

    def write(self, found: Document, source: Mapping[str, str], accept: Sequence[Acceptance] | None) -> Decision:
        """Write the results, the decision record and the report; an interrupted write leaves each file either old or
        new.

        *source* has the name and the SHA-256 of the table that answers were compared with; *accept* replaces the
        findings that the policy of the run accepts.
        """
        record = {"release": self.manifest.sha256, "source": dict(source), **found}
        decision = decide(self.manifest, self.evidence, record, accept)
        texts = {
            ATTACKS: _as_text(record),
            DECISION: _as_text(decision.as_dict()),
            "report.html": internal_report(self.manifest, self.evidence, record, decision),
        }
        if self.signing is not None:
            known = [name for name, one in self.manifest.attributes.items() if one.role == "quasi"]
            statement = state_attacked(self.folder.with_name(PUBLIC), known, texts[ATTACKS].encode())
            texts[ATTACKED] = self.signing.sign(statement)
        suffix, written = secrets.token_hex(8), "no file was"
        try:
            for name, text in texts.items():
                _write(self.folder / f".{name}.{suffix}", text)
            (self.folder / ATTACKED).unlink(missing_ok=True)  # it signs the earlier results
            for name in texts:
                (self.folder / f".{name}.{suffix}").replace(self.folder / name)
                written = f"only the files up to {name} were"
        except OSError as error:
            raise UsageError(f"cannot write to {self.folder}: {error.strerror}; {written} recorded") from None
        finally:
            for name in texts:
                (self.folder / f".{name}.{suffix}").unlink(missing_ok=True)
        return decision


def _as_text(document: Document) -> str:
    return json.dumps(document, ensure_ascii=False, allow_nan=False, indent=1) + "\n"


def _write(path: Path, text: str) -> None:
    with path.open("xb") as file:
        file.write(text.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def read_attacks(folder: Path, manifest: Manifest) -> Document | None:
    """Return the recorded results of attacks on a release, given its folder; None if no results are recorded."""
    path = folder / INTERNAL / ATTACKS
    if not path.is_file():
        return None
    found = read_internal(path)
    if found.get("release") != manifest.sha256:
        raise InputError(f"{path} has the results of attacks on another release; run `shoal attack --record` again")
    return found


@register("report")
def report(release: Release, audience: str) -> str:
    """Return the page of a release for an audience; the internal page includes recorded attacks."""
    if audience == "public":
        return public_report(release.manifest)
    if audience != "internal":
        raise UsageError(f"a report is for the audience 'internal' or 'public', not {audience!r}")
    attacks = None if release.folder is None else read_attacks(release.folder, release.form.manifest)
    return internal_report(release.manifest, release.evidence, attacks)
