"""The same findings in the order of three texts that boards ask for."""

from __future__ import annotations

from shoal.core.registry import discover
from shoal.core.wording import attack_text, listed, parameters_text
from shoal.reports.frame import Section
from shoal.reports.html import number, paragraph, percent, table
from shoal.reports.internal.given import Given

_DOES_NOT = {
    "singling out": "Nothing is promised against singling out.",
    "linkability": (
        "Nothing is promised against linking this release with another one about the same people; shoal link and the "
        "ledger measure it."
    ),
    "inference": "Nothing is promised against inference.",
}
_OPINION = (
    "Opinion 05/2014 of the Article 29 Working Party on anonymisation techniques asks three questions of a release. It "
    "wants them answered for all means that are reasonably likely to be used; a promise answers for the adversary that "
    "it is about, an attack for the one that was tried."
)
_HIPAA = (
    "45 CFR 164.514(b)(1) lets an expert determine that the risk is very small that an anticipated recipient could "
    "identify a person, alone or with other information that is reasonably available. The expert documents methods and "
    "results. No program is that expert; these are the facts that it can contribute."
)
_NIST = (
    "NIST SP 800-188 describes how agencies govern and carry out de-identification. What this report contributes, "
    "under its topics:"
)


def opinion(given: Given) -> Section:
    """Return what the release promises and what was measured for each of the three questions."""
    rows = [
        (
            "Singling out: can a person's record be isolated?",
            _promised(given, "singling out"),
            _found(given, "singling out"),
        ),
        (
            "Linkability: can records about one person be linked?",
            _promised(given, "linkability"),
            _found(given, "linkability"),
        ),
        ("Inference: can a value be concluded?", _promised(given, "inference"), _found(given, "inference")),
    ]
    return Section.of(
        "article-29",
        "Three questions of the Article 29 opinion",
        paragraph(_OPINION),
        table("The three questions", ("question", "promised", "measured"), rows),
    )


def hipaa(given: Given) -> Section:
    """Return what an expert determination needs, and what the expert must still add."""
    rows = [
        ("Principles and methods", _method(given)),
        ("Data", _survey(given)),
        ("Results", _results(given)),
        ("Re-identification tried", _tried(given)),
        ("Anticipated recipient", "To be added: who receives the data, and what they can reasonably have besides."),
        ("Threshold", "To be added: which risk counts as very small here, and why."),
        ("Expert", "To be added: name, knowledge and experience, date, and for how long the determination holds."),
    ]
    return Section.of(
        "hipaa",
        "Expert determination under HIPAA",
        paragraph(_HIPAA),
        table("Facts for the expert, and what the expert adds", ("topic", "what is known"), rows),
    )


def nist(given: Given) -> Section:
    """Return the topics of the publication with what is known here."""
    rows = [
        ("Goals and intended uses", "To be added by the agency. Utility says what the data can still be used for."),
        ("Risks of release", _results(given)),
        (
            "Harm, and what to do about it",
            "To be added by the agency: what could happen to people, and what is done then.",
        ),
        ("Data-sharing model", "Files to be handed out. Whether to all or under an agreement is to be added."),
        ("Disclosure Review Board", "This page and its sign-off are made for it."),
        ("Standard with measurable levels", _standard(given)),
        ("Survey of the data", _survey(given)),
        ("Technique", _method(given)),
        ("Validation of the result", "The written files were verified by code that is independent of the methods."),
        ("Re-identification study", _tried(given)),
        (
            "Software",
            f"shoal {given.evidence['shoal_version']}; the policy says what it was asked for.",
        ),
    ]
    return Section.of("nist", "Topics of NIST SP 800-188", paragraph(_NIST), table("Topics", ("topic", "here"), rows))


def _promised(given: Given, question: str) -> str:
    if given.manifest.get("claims"):
        return "Claimed by differential privacy: whether a record is in the table changes little of what is published."
    names = [str(promise["model"]) for promise in given.manifest["guarantees"]]
    sizes = [name for name in names if given.form.models[name].sees != "values"]
    values = [name for name in names if name not in sizes]
    if question == "singling out" and given.form.whole_records and (sizes or values):
        return f"{listed(sizes or values)}: every record is in a {given.group} with others."
    if question == "inference" and values:
        return f"{listed(values)}: what can be concluded from a {given.group} is bounded."
    if question == "linkability" and given.form.linkability:
        return given.form.linkability
    return _DOES_NOT[question]


def _found(given: Given, question: str) -> str:
    if given.attacks is None:
        return "Not measured: no attacks were recorded."
    from shoal.attacks.base import Attack  # only where attacks were recorded

    wanted = {name for name, kind in discover("shoal.attacks", Attack).items() if kind.question == question}
    told = [
        f"{attack_text(one)} {percent(max(one['risk']['value'], 0.0))} "
        f"({percent(max(one['risk']['low'], 0.0))} to {percent(max(one['risk']['high'], 0.0))})"
        for one in given.attacks["attacks"]
        if one["name"] in wanted
    ]
    return f"Risks found by attacks: {'; '.join(told)}." if told else "No attack of this kind has a meaning here."


def _method(given: Given) -> str:
    promised = [str(one["model"]) for one in (*given.manifest["guarantees"], *given.manifest.get("claims", ()))]
    models = f"; promised: {listed(promised)}" if promised else "; nothing is promised"
    return f"Method {given.manifest['method']}{models}. The policy is part of this report."


def _standard(given: Given) -> str:
    promised = [*given.manifest["guarantees"], *given.manifest.get("claims", ())]
    levels = [f"{one['model']} ({parameters_text(one['parameters'])})" for one in promised]
    return f"{listed(levels)}. Whether these levels are enough is for the board." if levels else "Nothing was promised."


def _results(given: Given) -> str:
    after = given.evidence["risk_after"]
    if not given.form.of_people:
        return "No class of rows hides a person; the claim bounds what one record changes."
    if not given.form.whole_records:
        return f"The smallest bucket has {number(after['smallest_bucket'])} records."
    before = given.evidence["risk_before"]
    return (
        f"Highest chance of picking out a known participant: {percent(before['prosecutor_highest'])} before, "
        f"{percent(after['prosecutor_highest'])} after; expected share of records found: "
        f"{percent(before['marketer'])} before, {percent(after['marketer'])} after."
    )


def _tried(given: Given) -> str:
    if given.attacks is None:
        return "Not yet: shoal attack with --record adds it to this report."
    tried = given.attacks["attacks"]
    found = sum(one["risk"]["low"] > 0 for one in tried)
    return f"{len(tried)} attacks were tried; {found or 'none'} found more than chance explains. See Attacks."


def _survey(given: Given) -> str:
    """Say which columns were taken for what."""
    by_role: dict[str, list[str]] = {"quasi": [], "sensitive": [], "insensitive": []}
    for name, entry in given.manifest["attributes"].items():
        by_role[entry["role"]].append(name)
    declared = given.evidence["policy"].get("attributes", {})
    named = [name for name, one in declared.items() if isinstance(one, dict) and one.get("role") == "identifier"]
    told = {
        "Taken as known to others": by_role["quasi"],
        "what they want to learn": by_role["sensitive"],
        "neither": by_role["insensitive"],
        "identifiers, removed or replaced by tokens": named,
    }
    return "; ".join(f"{what}: {listed(names) if names else 'none'}" for what, names in told.items()) + "."
