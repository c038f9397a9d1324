"""The figures and sentences of the page for a review board; the page itself is ``templates/internal.html``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from markupsafe import Markup

from shoal.core.registry import discover
from shoal.core.wording import attack_text, code, counted_text, join_words, model_text, parameters_text, percent
from shoal.release.forms.base import Form, read_form
from shoal.reports import plots
from shoal.reports.pages import explain_change, number_parts
from shoal.reports.plots import Interval, Plot, class_sizes, intervals, risks
from shoal.reports.templates import mark, number, render
from shoal.utility.base import list_figures

_DOES_NOT = {
    "singling out": "Nothing is promised against singling out.",
    "linkability": (
        "Nothing is promised against linking this release with another one about the same people; shoal link and the "
        "ledger measure it."
    ),
    "inference": "Nothing is promised against inference.",
}
_FOUND = {
    "groups": "groups of records that exchange values",
    "rows_alone_in_group": "records alone in their group",
    "rows_with_their_own_value": "records that have their own value",
}
_MEMBERSHIP = {
    "original_records": "records of the table",
    "original_tuples": "different tuples of the table",
    "fake_tuples": "fake tuples",
}
_VERDICTS = {True: Markup('<span class="good">holds</span>'), False: Markup('<span class="bad">fails</span>')}

Row = Sequence[str]
Rows = Sequence[Row]


def internal_report(
    manifest: Mapping[str, Any], evidence: Mapping[str, Any], attacks: Mapping[str, Any] | None = None
) -> str:
    """Return the page for a review board; it needs nothing but itself."""
    report = Report(manifest, evidence, attacks, read_form(manifest))
    return str(
        render(
            "internal.html",
            report=report,
            form=report.form,
            manifest=manifest,
            evidence=evidence,
            attacks=attacks,
            source=evidence["source"],
            before=evidence["risk_before"],
            after=evidence["risk_after"],
            nbsp=Markup("&nbsp;"),
            plots=plots,
            plot_style=plots.plot_style(),
        )
    )


@dataclass(frozen=True, slots=True)
class Report:
    """What the page tells, section by section, from a manifest, its evidence and, once recorded, what attacks found."""

    manifest: Mapping[str, Any]
    evidence: Mapping[str, Any]
    attacks: Mapping[str, Any] | None
    form: Form

    # Summary and findings

    @property
    def passes(self) -> bool:
        """Whether everything held, something is promised or claimed, and no high finding is open."""
        promised = self.manifest["guarantees"] or self.form.claims()
        return not self._failed and bool(promised) and not self.n_high

    @property
    def verdict(self) -> str:
        """The answer of the verifier, and what it does not say."""
        if self._failed:
            return f"Do not release: {join_words(self._failed)} failed."
        n_done = sum(check.get("done", True) for check in self.evidence["verification"]["checks"])
        n_checks = counted_text(n_done, "check")
        if self.form.claims():
            answer = f"{n_checks} of the written files held. What is claimed about people, no file can show."
        elif not self.manifest["guarantees"]:
            answer = f"{n_checks} of the written files held, but this release promises nothing about people."
        else:
            promises = counted_text(len(self.manifest["guarantees"]), "promise")
            answer = (
                f"The verifier recomputed {promises} from the written files, and all hold; {n_checks} of the files "
                "passed."
            )
        if not self.n_high:
            return answer
        findings = counted_text(self.n_high, "high finding is", "high findings are")
        return f"{answer} {findings} open: see Findings before anything is shared."

    @property
    def _failed(self) -> list[str]:
        found = self.evidence["verification"]
        failed = [check["name"] for check in self.failed_checks]
        return failed + [one["model"] for one in found["guarantees"] if not one["ok"]]

    @property
    def sample(self) -> str:
        """How a sample was drawn."""
        sample = self.manifest["sample"]
        share = sample.get("share")
        return f"one of each {sample['one_per']}" if share is None else f"each with a chance of {100 * share:g}%"

    @property
    def changes(self) -> Rows:
        """Columns that techniques changed, with what was counted of it."""
        rows = []
        for name, entry in self.manifest["techniques"].items():
            counts = self.evidence["techniques"][name]
            found = "; ".join(f"{_FOUND.get(key, key.replace('_', ' '))}: {count:,}" for key, count in counts.items())
            rows.append((name, mark(explain_change(entry)), found))
        return rows

    @property
    def n_high(self) -> int:
        """How many high findings are open."""
        findings = self.evidence.get("findings", ())
        return sum(one["severity"] == "high" and one["accepted"] is None for one in findings)

    @property
    def open_findings(self) -> Rows:
        """Findings that nobody has accepted, with what to do."""
        return [_finding(one, "fix") for one in self.evidence["findings"] if one["accepted"] is None]

    @property
    def accepted_findings(self) -> Rows:
        """Findings that the policy accepts, with the reason."""
        return [_finding(one, "accepted") for one in self.evidence["findings"] if one["accepted"] is not None]

    # Guarantees

    @property
    def claims(self) -> Rows:
        """What is claimed and no file can show."""
        return [(one.model, parameters_text(one.parameters), one.meaning) for one in self.form.claims()]

    @property
    def guarantees(self) -> Rows:
        """What is promised, with what the verifier found."""
        return [
            (
                model_text(one),
                parameters_text(one["parameters"]),
                self.form.models[one["model"]].title.replace("`", ""),
                number(one["achieved"]),
                _VERDICTS[one["ok"]],
            )
            for one in self.evidence["verification"]["guarantees"]
        ]

    @property
    def failed_checks(self) -> list[Mapping[str, Any]]:
        """Checks that did not hold."""
        return [check for check in self.evidence["verification"]["checks"] if not check["ok"]]

    @property
    def checks(self) -> Rows:
        """Every check that the written files had to pass."""
        return [
            (check["name"], _VERDICTS[check["ok"]] if check.get("done", True) else "not done", check["detail"])
            for check in self.evidence["verification"]["checks"]
        ]

    @property
    def search(self) -> Rows:
        """What the method tells of its search."""
        return [(name.replace("_", " "), json.dumps(value)) for name, value in self.evidence["search"].items()]

    # Risk

    @property
    def risk_plots(self) -> list[Plot]:
        """Risks and class sizes before and after, where rows are whole records of people."""
        if not (self.form.of_people and self.form.whole_records):
            return []
        before, after = self.evidence["risk_before"], self.evidence["risk_after"]
        return [risks(before, after), class_sizes(before["class_sizes"], after["class_sizes"])]

    @property
    def parts(self) -> Rows:
        """Columns that stay together."""
        section = self.form.own_section()
        return [] if section is None else number_parts(section.parts)

    @property
    def membership(self) -> Rows:
        """Tuples by the number of buckets that match, heads first; nothing if they were not counted."""
        counted = self.evidence["risk_after"]["membership"]["matching_buckets"] or {}
        rows = [(title, counted[key]) for key, title in _MEMBERSHIP.items() if key in counted]
        if not rows:
            return []
        heads = tuple(rows[0][1])
        return [("tuples", *heads), *((title, *(number(found[head]) for head in heads)) for title, found in rows)]

    @property
    def carriers(self) -> list[tuple[str, dict[str, Any]]]:
        """Which attributes single records out, of the original table and of the released one."""
        rows = []
        for when, which in (("before", "original"), ("after", "released")):
            found = self.evidence["risk_carriers"].get(when)
            if found and found["sets"]:
                shares = [(name, percent(share)) for name, share in found["contributions"].items()]
                combinations = [
                    (", ".join(one["attributes"]), number(one["records"]), percent(one["score_share"]))
                    for one in found["sets"]
                ]
                rows.append((which, {**found, "shares": shares, "combinations": combinations}))
        return rows

    @property
    def distances(self) -> Rows:
        """How far shares of values among synthetic rows are from those among records."""
        return [(name, number(distance)) for name, distance in self.evidence["synthetic"]["attributes"].items()]

    @property
    def pair_distances(self) -> Rows:
        """The same of pairs of attributes."""
        return [
            (", ".join(one["pair"]), "yes" if one["kept"] else "no", number(one["distance"]))
            for one in self.evidence["synthetic"]["pairs"]
        ]

    # Attacks

    @property
    def tried(self) -> list[Mapping[str, Any]]:
        """The attacks that were tried, the largest risk first; none if nothing was recorded."""
        found = () if self.attacks is None else self.attacks["attacks"]
        return sorted(found, key=lambda one: -one["risk"]["value"])

    @property
    def n_sure_attacks(self) -> int:
        """How many attacks found more than chance explains."""
        return sum(one["risk"]["low"] > 0 for one in self.tried)

    @property
    def attack_plot(self) -> Plot:
        """Risks with their intervals."""
        return intervals(
            [Interval(attack_text(one), *(one["risk"][end] for end in ("value", "low", "high"))) for one in self.tried]
        )

    @property
    def rates(self) -> Rows:
        """How many answers of each attack were right."""
        return [
            (attack_text(one), *(_rate(one[key]) for key in ("attack", "baseline", "control"))) for one in self.tried
        ]

    @property
    def notes(self) -> list[str]:
        """What attacks noted, each note once."""
        said: dict[str, list[str]] = {}
        attacks = [] if self.attacks is None else self.attacks["attacks"]
        for one in attacks:
            for note in one.get("notes", ()):
                said.setdefault(note, []).append(attack_text(one))
        return [f"{'all' if len(names) == len(attacks) else ', '.join(names)}: {note}." for note, names in said.items()]

    # What was published, and what it is worth

    @property
    def columns(self) -> Rows:
        """What each attribute publishes, and the information that it loses."""
        losses = self.manifest["utility"].get("attribute-loss", {})
        return [
            (
                name,
                entry["role"],
                mark(self.form.describe_values(name)),
                percent(losses[name]) if name in losses else "–",
            )
            for name, entry in self.manifest["attributes"].items()
        ]

    @property
    def levels(self) -> Rows:
        """The share of records at each level of the hierarchies, heads first; nothing if levels were not counted."""
        found = self.evidence.get("levels")
        if not found:
            return []
        highest = max(2, *(len(entry["nodes"]) for entry in found.values()))
        heads = ("column", "original", *(f"{step} up" for step in range(1, highest - 1)), "top", "ranges between")
        return [heads, *((name, *_level_shares(entry, highest)) for name, entry in found.items())]

    @property
    def measures(self) -> Rows:
        """Measures of utility that are one number."""
        single = {name: value for name, value in self.evidence["utility"].items() if not isinstance(value, dict)}
        return [(name, title, number(value)) for name, title, value in list_figures(single)]

    # Texts that boards ask for

    def describe_promise(self, question: str) -> str:
        """Return what is promised for a question of the Article 29 opinion."""
        if self.form.claims():
            return (
                "Claimed by differential privacy: whether a record is in the table changes little of what is published."
            )
        names = [str(promise["model"]) for promise in self.manifest["guarantees"]]
        sizes = [name for name in names if self.form.models[name].sees != "values"]
        values = [name for name in names if name not in sizes]
        if question == "singling out" and self.form.whole_records and names:
            return f"{join_words(sizes or values)}: every record is in a {self.form.group} with others."
        if question == "inference" and values:
            return f"{join_words(values)}: what can be concluded from a {self.form.group} is bounded."
        if question == "linkability" and self.form.linkability is not None:
            return self.form.linkability
        return _DOES_NOT[question]

    def describe_attacks(self, question: str) -> str:
        """Return what attacks found for a question of the Article 29 opinion."""
        if self.attacks is None:
            return "Not measured: no attacks were recorded."
        from shoal.attacks.base import Attack  # takes a while to load, and a run that records no attacks needs none

        asking = {name for name, attack in discover("shoal.attacks", Attack).items() if attack.question == question}
        found = []
        for one in self.attacks["attacks"]:
            if one["name"] in asking:
                value, low, high = (percent(max(one["risk"][end], 0.0)) for end in ("value", "low", "high"))
                found.append(f"{attack_text(one)} {value} ({low} to {high})")
        return f"Risks found by attacks: {'; '.join(found)}." if found else "No attack of this kind has a meaning here."

    @property
    def method(self) -> str:
        """The method, and the models that it was to reach."""
        promised = [str(one["model"]) for one in self._promised_or_claimed]
        models = f"; promised: {join_words(promised)}" if promised else "; nothing is promised"
        return f"Method {self.manifest['method']}{models}. The policy is part of this report."

    @property
    def standard(self) -> str:
        """The levels that are promised."""
        levels = [f"{one['model']} ({parameters_text(one['parameters'])})" for one in self._promised_or_claimed]
        if not levels:
            return "Nothing was promised."
        return f"{join_words(levels)}. Whether these levels are enough is for the board."

    @property
    def _promised_or_claimed(self) -> list[Mapping[str, Any]]:
        return [*self.manifest["guarantees"], *self.manifest.get("claims", ())]

    @property
    def results(self) -> str:
        """How easily people are found, in one sentence."""
        before, after = self.evidence["risk_before"], self.evidence["risk_after"]
        if not self.form.of_people:
            return "No class of rows hides a person; the claim bounds what one record changes."
        if not self.form.whole_records:
            return f"The smallest bucket has {number(after['smallest_bucket'])} records."
        return (
            f"Highest chance of picking out a known participant: {percent(before['prosecutor_highest'])} before, "
            f"{percent(after['prosecutor_highest'])} after; expected share of records found: "
            f"{percent(before['marketer'])} before, {percent(after['marketer'])} after."
        )

    @property
    def tried_text(self) -> str:
        """Which attacks were tried, in one sentence."""
        if self.attacks is None:
            return "Not yet: shoal attack with --record adds it to this report."
        n_sure = self.n_sure_attacks or "none"
        return f"{len(self.tried)} attacks were tried; {n_sure} found more than chance explains. See Attacks."

    @property
    def survey(self) -> str:
        """Which columns were taken for what."""
        by_role = self.form.names_by_role()
        declared = self.evidence["policy"].get("attributes", {})
        named = [name for name, one in declared.items() if isinstance(one, dict) and one.get("role") == "identifier"]
        taken = {
            "Taken as known to others": by_role["quasi"],
            "what they want to learn": by_role["sensitive"],
            "neither": by_role["insensitive"],
            "identifiers, removed or replaced by tokens": named,
        }
        return "; ".join(f"{what}: {join_words(names) if names else 'none'}" for what, names in taken.items()) + "."

    # Origin

    @property
    def policy(self) -> str:
        """The policy as YAML."""
        return str(yaml.safe_dump(self.evidence["policy"], sort_keys=False, allow_unicode=True, width=100))

    @property
    def digests(self) -> Rows:
        """Which tables it was about, by their digests."""
        source, written = self.evidence["source"], self.manifest.get("data")
        tables = {f"source: {source['name']}": source["sha256"]}
        tables |= {f"population: {name}": one["sha256"] for name, one in self.manifest.get("populations", {}).items()}
        if written is not None:
            tables[f"published: {written['file']}"] = written["sha256"]
        return [(name, mark(code(digest))) for name, digest in tables.items()]

    @property
    def origin(self) -> Rows:
        """What made the release."""
        return [
            ("records of the source", number(self.evidence["source"]["rows"])),
            ("method", self.manifest["method"]),
            ("randomness", self.evidence["randomness"]),
            ("shoal", self.evidence["shoal_version"]),
            ("Python", self.evidence["python"]),
            *((f"seconds: {step}", number(value)) for step, value in self.evidence["seconds"].items()),
        ]


def _finding(one: Mapping[str, Any], last: str) -> Row:
    return one["severity"], one["id"], join_words(one["about"]) if one["about"] else "the table", one["text"], one[last]


def _level_shares(entry: Mapping[str, Any], highest: int) -> list[str]:
    """Return the share of records at each step, a dash where there is none, at the top, and that of ranges."""
    total = sum(entry["nodes"]) + entry["ranges"]
    shares = [percent(count / total) if count else "0" for count in (*entry["nodes"], entry["ranges"])]
    *nodes, top, between = shares if len(shares) > 2 else (shares[0], "–", shares[1])
    return [*nodes, *(["–"] * (highest - 1 - len(nodes))), top, between]


def _rate(tally: Mapping[str, int] | None) -> str:
    if tally is None:
        return "–"
    return f"{percent(tally['success'] / tally['trials'])} ({tally['success']:,} of {tally['trials']:,})"
