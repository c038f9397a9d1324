"""The decision record: guarantees, risks, attacks, findings, utility and a verdict, the same on every page.

Definitions are in docs/adr/0020-decision-record.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from shoal.columns.base import read_traces
from shoal.core.results import ATTACK_FINDINGS, CLEAR, LITTLE, SEVERE, Figures, Finding, Severity
from shoal.core.wording import attack_text, count_noun, join_words, parameters_text, percent
from shoal.manifest import Manifest, read_manifest
from shoal.policy.policy import Acceptance

Kind = Literal["identity", "attribute", "membership"]
KINDS: tuple[Kind, ...] = ("identity", "attribute", "membership")
READY, NOT_READY = "ready to decide", "not ready"
_ISOLATING = ("isolating-columns", "singled-out", "determined-quasi", "lone-records")
_CERTAIN = ("one-value-classes", "near-one-value-classes")
_TITLES = {
    "identity": "picking out a person who is known to be in the table",
    "attribute": "learning a sensitive value, beyond guessing the most frequent one",
    "membership": "learning who is in the table, beyond guessing",
}
_FIXES = {
    "identity": "Publish fewer or coarser unchanged columns, ask for a larger k, or accept this with a reason.",
    "attribute": "Ask for a stricter model of values, make fewer columns quasi, or accept this with a reason.",
    "membership": "Publish a sample, use the method synthetic or safepub, or accept this with a reason.",
}
_UNMEASURED = "An attack with a control group measures it (shoal attack --control --record)."
Document = Mapping[str, Any]  # a manifest, its evidence, or the results of attacks


@dataclass(frozen=True, slots=True)
class Measure(Figures):
    """A measure of a risk: its value, and a clause with the people it counts and the knowledge it assumes."""

    value: float
    source: str  # "classes", "claim", the id of a finding, or the name of an attack
    text: str


@dataclass(frozen=True, slots=True)
class Risk(Figures):
    """The largest measure of one risk; None without a measure."""

    kind: Kind
    value: float | None
    average: float | None
    measures: tuple[Measure, ...]  # largest first
    sentence: str

    @classmethod
    def of(cls, kind: Kind, measures: Sequence[Measure], attack: Document | None, average: float | None = None) -> Risk:
        """Choose the largest measure, and list all of them in one sentence.

        *attack* is the worst result of the attacks on this risk.

        >>> measures = [Measure(0.2, "classes", "20% by class"), Measure(0.9, "x", "90% by x")]
        >>> Risk.of("identity", measures, None).sentence
        '90% by x. 20% by class. The largest figure decides.'
        """
        found, unsettled = [*measures], ""
        if attack is not None:
            low, high = attack["worst"]["low"], attack["worst"]["high"]
            text = _describe_attack(attack)
            if low > 0 or high <= LITTLE:
                found.append(Measure(max(attack["worst"]["value"], 0.0) if low > 0 else 0.0, attack["name"], text))
            else:
                unsettled = f" The attack {attack_text(attack)} is inconclusive: at most {percent(high)}."
        ordered = tuple(sorted(found, key=lambda one: -one.value))
        if not ordered:
            return cls(kind, None, None, (), unsettled.strip() or _UNMEASURED)
        texts = ". ".join(one.text for one in ordered)
        several = " The largest figure decides." if len(ordered) > 1 else ""
        return cls(kind, ordered[0].value, average, ordered, f"{texts}.{unsettled}{several}")

    @property
    def title(self) -> str:
        return _TITLES[self.kind]

    @property
    def figure(self) -> str:
        """The number as pages show it."""
        if self.value is None:
            return "not measured" if self.sentence == _UNMEASURED else "inconclusive"
        average = "" if self.average is None else f" (average {percent(self.average)})"
        return f"{percent(self.value)}{average}"

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON, with the question and the figure as pages show them."""
        return {"title": self.title, "figure": self.figure, **Figures.as_dict(self)}


@dataclass(frozen=True, slots=True)
class Decision(Figures):
    """All facts that matter for sharing a release."""

    verdict: str
    reasons: tuple[str, ...]  # why it is not ready
    headline: str
    promises: tuple[Document, ...]  # model, parameters, achieved, holds
    threshold: float | None
    risk: tuple[Risk, ...]  # identity, attribute, membership
    attacks: Mapping[Kind, Document | None] | None  # the worst result for each risk; None: no recorded attacks
    findings: tuple[Finding, ...]  # open before accepted, worst first
    utility: Document

    @property
    def ready(self) -> bool:
        return self.verdict == READY

    @property
    def n_open_high(self) -> int:
        return sum(one.open and one.severity == "high" for one in self.findings)


def decide(
    manifest: Manifest | Document,
    evidence: Document,
    attacks: Document | None = None,
    accept: Sequence[Acceptance] | None = None,
) -> Decision:
    """Build the decision record of a release.

    Parameters
    ----------
    manifest, evidence
        The public description of the release and the internal figures of its run.
    attacks
        The recorded results of attacks, if there are any.
    accept
        The findings that the data holder accepts; by default, the ones that the evidence's policy accepts.
    """
    manifest = read_manifest(manifest)
    if accept is None:
        accept = tuple(Acceptance(**one) for one in evidence["policy"].get("accept") or ())
    worst = {kind: _find_worst([] if attacks is None else attacks["attacks"], kind) for kind in KINDS}
    findings = [*map(Finding.from_dict, evidence["findings"]), *_find_attacks(worst, accept)]
    findings.sort(key=lambda one: one.rank)
    identity, average = _measure_identity(manifest, evidence, findings)
    risks = (
        Risk.of("identity", identity, worst["identity"], average),
        Risk.of("attribute", [*_measure_attribute(evidence, findings)], worst["attribute"]),
        Risk.of("membership", [*_measure_membership(manifest)], worst["membership"]),
    )
    threshold = (evidence["policy"].get("release") or {}).get("threshold")
    verification = evidence["verification"]
    promises = tuple(
        {key: one[key] for key in ("model", "parameters", "counts", "achieved") if key in one} | {"holds": one["ok"]}
        for one in verification["guarantees"]
    )
    reasons = tuple(_list_reasons(verification, findings, risks[0].value, threshold))
    return Decision(
        verdict=NOT_READY if reasons else READY,
        reasons=reasons,
        headline=_write_headline(findings, risks),
        promises=promises,
        threshold=threshold,
        risk=risks,
        attacks=None if attacks is None else worst,
        findings=tuple(findings),
        utility={key: evidence[key] for key in ("columns", "rows_suppressed", "marginals") if key in evidence},
    )


def _list_reasons(
    verification: Document, findings: Sequence[Finding], identity: float | None, threshold: float | None
) -> Iterator[str]:
    """Yield the reasons why the release is not ready."""
    failed = [one["name"] for one in verification["checks"] if not one["ok"]]
    failed += [one["model"] for one in verification["guarantees"] if not one["ok"]]
    if failed:
        yield f"The verifier rejects the release: {join_words(failed)} failed."
    if threshold is not None and identity is not None and identity > threshold:
        yield f"The identity risk is {percent(identity)}, and the policy's threshold is {percent(threshold)}."
    for one in findings:
        if one.open and one.severity == "high":
            about = f" ({join_words(one.about)})" if one.about else ""
            yield f"The high finding {one.id}{about} is open."


def _write_headline(findings: Sequence[Finding], risks: Sequence[Risk]) -> str:
    """Return the worst open finding with its figure or, without one, the risks."""
    if findings and findings[0].open and findings[0].severity == "high":
        more = sum(one.open and one.severity == "high" for one in findings) - 1
        others = f" {count_noun(more, 'more high finding is', 'more high findings are')} open." if more else ""
        return re.split(r"[:.] ", findings[0].text)[0].rstrip(".") + "." + others
    return f"No high finding is open. {', '.join(f'{one.kind} risk: {one.figure}' for one in risks).capitalize()}."


def _measure_identity(
    manifest: Manifest, evidence: Document, findings: Sequence[Finding]
) -> tuple[list[Measure], float | None]:
    """Return the measures of identity risk that need no attack, and the average risk.

    Class sizes do not count if noise or another random technique changed quasi-identifiers.
    """
    after, average = evidence["risk_after"], None
    found: list[Measure] = []
    quasi = manifest.names("quasi")
    if any(trace.replay is None for name, trace in read_traces(manifest.techniques).items() if name in quasi):
        after = {}
    if "smallest_class" in after:
        average, highest = after["marketer"], after["prosecutor_highest"]
        size = count_noun(after["smallest_class"], *(("person", "people") if "counts" in after else ("record",)))
        text = f"{percent(highest)} is the highest chance for a known person by the quasi-identifiers alone"
        found.append(Measure(highest, "classes", f"{text} (the smallest class has {size})"))
    isolating = max((one for one in findings if one.id in _ISOLATING), key=lambda one: one.share, default=None)
    if isolating is not None:
        share, knows = isolating.share, f" if {join_words(isolating.about)} is known too" if isolating.about else ""
        what = "are unique or shared by two" if "share it with one other" in isolating.text else "can be isolated"
        found.append(Measure(share, isolating.id, f"{percent(share)} of the records {what}{knows}"))
        average = max(share, average or 0.0)
    return found, average


def _measure_attribute(evidence: Document, findings: Sequence[Finding]) -> Iterator[Measure]:
    """Yield the measures of attribute risk that need no attack, for the worst column."""
    worst: Measure | None = None
    for name, entry in evidence.get("sensitive", {}).items():
        if "likeliest" not in entry or not entry["values"]:
            continue
        right, base = entry["likeliest"], entry["most_frequent"]
        value = (right - base) / (1 - base) if base < 1 else 0.0
        if worst is None or value > worst.value:
            text = (
                f"{percent(value)} is the advantage of guessing {name} by class: right for {percent(right)} of the "
                f"records, against {percent(base)} for the most frequent value of the table"
            )
            worst = Measure(value, "classes", text)
    if worst is not None:
        yield worst
    certain = max((one for one in findings if one.id in _CERTAIN), key=lambda one: one.share, default=None)
    if certain is not None:
        sure = "certain" if certain.id == "one-value-classes" else "nearly certain"
        text = f"{percent(certain.share)} of the records are in classes in which {certain.about[0]} is {sure}"
        yield Measure(certain.share, certain.id, text)


def _measure_membership(manifest: Manifest) -> Iterator[Measure]:
    """Yield the bound that differential privacy guarantees."""
    for one in manifest.claims:
        if (epsilon := one.parameters.get("epsilon")) is not None:
            bound = math.tanh(epsilon / 2)
            parameters = parameters_text(one.parameters)
            yield Measure(bound, "claim", f"{percent(bound)} is the bound that {one.model} ({parameters}) claims")


def _find_worst(found: Sequence[Document], kind: Kind) -> Document | None:
    """Return the attack on one risk with the largest result; None if there is none."""
    # a result about at most 1% of the people does not represent the release; its average does
    own = [
        {**one, "worst": one["risk"]} if one["worst"].get("rare") else one
        for one in found
        if one.get("bears_on") == kind
    ]
    worst = max(own, key=lambda one: (one["worst"]["low"] > 0, one["worst"]["value"]), default=None)
    if worst is None:
        return None
    wanted = ("name", "title", "about", "attack", "baseline", "control", "worst", "verdict", "notes")
    return {key: worst.get(key) for key in wanted}


def _describe_attack(one: Document) -> str:
    """Return the result of an attack as a clause."""
    verdict, on = str(one["verdict"]), "" if one["about"] is None else f" on {one['about']}"
    text = verdict.partition(": ")[2] or verdict
    asks = f" ({one['title']})" if one.get("title") else ""
    return f"{text[:1].upper()}{text[1:]} in the attack {one['name']}{on}{asks}"


def _find_attacks(worst: Mapping[Kind, Document | None], accept: Sequence[Acceptance]) -> Iterator[Finding]:
    """Yield a finding for the worst successful attack on each risk."""
    for kind, one in worst.items():
        if one is None or one["worst"]["low"] <= 0 or one["worst"]["value"] < CLEAR:
            continue
        value = one["worst"]["value"]
        severity: Severity = "high" if value >= SEVERE else "medium"
        about = () if one["about"] is None else (one["about"],)
        text = f"{_describe_attack(one)}."
        finding = Finding(ATTACK_FINDINGS[kind], severity, about, text, _FIXES[kind], share=value)
        reason = next((one.reason for one in accept if one.covers(finding)), None)
        yield replace(finding, accepted=reason)
