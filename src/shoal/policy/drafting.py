"""Drafting a policy from a table: roles by evidence, taxonomies by kind, open questions as comments in YAML."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from shoal.core.arrays import IntArray
from shoal.core.dependence import SCREENED, determines
from shoal.core.dictionaries import encode_columns
from shoal.core.errors import InputError, did_you_mean
from shoal.core.progress import Progress, Silent
from shoal.core.wording import count_noun
from shoal.models.base import Whole
from shoal.models.distinct_l_diversity import DistinctLDiversity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.plan.problem import most_concentrated
from shoal.policy import guessing
from shoal.policy.identifying import Look, look_at
from shoal.policy.policy import Role, WrittenRole
from shoal.policy.profiling import MOST_DISTINCT, ColumnProfile, profile_source, read_vocabulary
from shoal.sources.base import Source, SourceOptions

LARGE_TABLE = 10_000
SHALL_DIFFER = "the values within a class must differ; the table as a whole has a diversity of"
LINKING = (
    "must records be linkable with your other tables? If so, add technique: {pseudonym: {key: linking.key}} to "
    "this column (shoal key new linking.key makes the key); otherwise the column is left out."
)
DETERMINES = (
    "it determines {}, or follows from it: published unchanged, it would undo the generalization of that column"
)
LEFT_OUT = f"left out, because {guessing.MOST_QUASI} quasi columns are better known or more informative"
NEEDED = "do users need {}? Others could know it, so it is left out now; if they do, make it quasi in place of another."
HOUSEHOLDS = (
    "does {} identify households? Every promise counts them, because finding one member reveals the others. Delete the "
    "line household below if it does not, or if members may be counted one by one."
)
ROOM = 1.5  # a requirement near what the whole table reaches leaves a method nothing to publish
WIDTH = 110
_PUBLISHED: tuple[Role, Role] = ("quasi", "insensitive")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./%-]*")
_MEANS_SOMETHING = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))


@dataclass(frozen=True, slots=True)
class DraftColumn:
    """What the draft says of one column, and why."""

    name: str
    type: guessing.ColumnType
    role: WrittenRole
    reason: str
    taxonomy: guessing.Options | None
    questions: tuple[str, ...]
    description: str | None = None
    look: Look | None = None  # what its values look like, if that names people

    @property
    def entry(self) -> dict[str, object]:
        """The policy's entry."""
        parts = {"role": self.role, "taxonomy": self.taxonomy, "description": self.description}
        return {key: value for key, value in parts.items() if value is not None}

    def as_dict(self) -> dict[str, object]:
        """Return it as JSON can hold it."""
        return {
            "name": self.name,
            "type": self.type,
            **self.entry,
            "reason": self.reason,
            "evidence": None if self.look is None else self.look.as_dict(),
            "questions": list(self.questions),
        }


@dataclass(frozen=True, slots=True)
class Draft:
    """A policy to begin with: ``text`` is YAML with comments, ``policy`` the same as a mapping.

    It loads, and runs on the table it was drafted from, whenever a quasi attribute was found.
    """

    source: str
    rows: int
    columns: tuple[DraftColumn, ...]
    questions: tuple[str, ...]  # about the table as a whole
    policy: dict[str, object]
    text: str

    def names(self, role: WrittenRole) -> tuple[str, ...]:
        """Return the columns of one role."""
        return tuple(column.name for column in self.columns if column.role == role)

    @property
    def n_questions(self) -> int:
        """Questions left open, about columns and the table."""
        return len(self.questions) + sum(len(column.questions) for column in self.columns)

    def as_dict(self) -> dict[str, object]:
        """Return everything as JSON can hold it."""
        return {
            "source": self.source,
            "rows": self.rows,
            "policy": self.policy,
            "columns": [column.as_dict() for column in self.columns],
            "questions": list(self.questions),
            "text": self.text,
        }


def draft_policy(
    data: object,
    *,
    options: SourceOptions | None = None,
    types: Mapping[str, guessing.ColumnType] | None = None,
    group_rare: int | None = None,
    progress: Progress | None = None,
) -> Draft:
    """Read a table and draft a policy for it; of its values only those appear that mean missing or are usual scales.

    *types* says what columns are of which their names and values tell too little. With *group_rare*, quasi-identifying
    categories of fewer records than that are one group of their column, which lists its values.

    >>> import pyarrow as pa
    >>> people = pa.table({"sex": ["F", "M"] * 10, "age": list(range(30, 50)), "illness": ["flu", "gout"] * 10})
    >>> draft = draft_policy(people)
    >>> draft.names("quasi"), draft.names("sensitive")
    (('sex', 'age'), ('illness',))
    """
    source, chosen, profiles = profile_source(data, options or SourceOptions(), progress or Silent())
    for name in types or ():
        if name not in source.schema.names:
            raise InputError(f"column {name!r} is not in {source.name}{did_you_mean(name, source.schema.names)}")
    return draft_from_profiles(source.name, source, chosen, profiles, types or {}, group_rare)


def draft_from_profiles(
    name: str,
    source: Source,
    chosen: SourceOptions,
    profiles: tuple[ColumnProfile, ...],
    types: Mapping[str, guessing.ColumnType] | None = None,
    group_rare: int | None = None,
) -> Draft:
    """Draft a policy for a table that was profiled already; *name* is what the draft calls it."""
    said = types or {}
    looks = [None if profile.name in said else look_at(profile) for profile in profiles]
    kinds = [
        said.get(profile.name) or (look.type if look else guessing.guess_type(profile))
        for profile, look in zip(profiles, looks, strict=True)
    ]
    guesses = _hide_determined(source, profiles, kinds, _choose_roles(profiles, kinds, looks))
    columns = tuple(
        replace(_column(profile, kind, guess, source.meaning(profile.name), group_rare), look=look)
        for profile, kind, guess, look in zip(profiles, kinds, guesses, looks, strict=True)
    )
    pairs = list(zip(profiles, columns, strict=True))
    secret = [profile for profile, column in pairs if column.role == "sensitive"]
    weights = [profile for profile, column in pairs if column.type == "weight" and not profile.n_missing]
    weight = next((profile.name for profile in weights if profile.lowest >= 0 < profile.highest), None)
    question = (f"{guessing.WEIGHTS} To publish them, write publish: as-is.",)
    columns = tuple(replace(one, role="weight", questions=question) if one.name == weight else one for one in columns)
    people, homes = _find_people(pairs), _find_households(pairs)
    units = {key: found[0] for key, found in (("unit", people), ("household", homes)) if found}
    if homes:
        asked_home = (HOUSEHOLDS.format(scalar(homes[0].name)),)
        columns = tuple(replace(one, questions=asked_home) if one.name == homes[0].name else one for one in columns)
    diverse = [ask_diversity(profile.name, count_records(profile)) for profile in secret]
    by_people = _ask_by_people(source, [one.name for one in units.values()], secret) if units and secret else diverse
    one_each = any(mine.choice is None is not all_.choice for mine, all_ in zip(by_people, diverse, strict=True))
    diverse = diverse if one_each else by_people
    models = [ask_k_anonymity(min((one.n_distinct for one in units.values()), default=profiles[0].n_rows)), *diverse]
    reading = chosen.model_dump(exclude_defaults=True)
    policy: dict[str, object] = {
        "attributes": {column.name: column.entry for column in columns},
        "privacy": [dict(model.choice) for model in models if model.choice is not None],
        "method": {"auto": {}},
        "missing": "category",
        "max_withheld": 0,
    }
    policy |= {key: profile.name for key, profile in units.items()}
    if one_each:
        policy["sample"] = {"one_per": [*units][-1]}  # a household's record is also the only one of its person
    if reading:
        policy["source"] = reading
    asked = _table_questions(columns, profiles, chosen)
    if len(people) > 1:
        names = ", ".join(scalar(profile.name) for profile in people)
        asked = (*asked, f"which of these identifies people: {names}? unit is the one with the most values.")
    text = _text(name, profiles, columns, models, policy, asked)
    every = (*asked, *(question for model in models for question in model.questions))
    return Draft(name, profiles[0].n_rows, columns, every, policy, text)


def _find_people(pairs: Sequence[tuple[ColumnProfile, DraftColumn]]) -> list[ColumnProfile]:
    """Return the keys of people who have several records, or of companies if no key is one of people."""
    keys = [(profile, column.look) for profile, column in pairs if column.role == "identifier"]
    people = [profile for profile, look in keys if guessing.names_people(profile, look)]
    if not any(read_vocabulary().find_unit(profile.name) == "person" for profile, _ in keys):
        people = people or [profile for profile, _ in keys if guessing.names_people(profile, unit="firm")]
    return sorted(people, key=lambda profile: -profile.n_distinct)


def _find_households(pairs: Sequence[tuple[ColumnProfile, DraftColumn]]) -> list[ColumnProfile]:
    """Return the keys of households that have a few records each, the one with the most values first."""
    keys = [profile for profile, column in pairs if column.role == "identifier"]
    homes = [profile for profile in keys if guessing.names_people(profile, unit="household")]
    few = [profile for profile in homes if profile.n_rows <= guessing.FEW_RECORDS * profile.n_distinct]
    return sorted(few, key=lambda profile: -profile.n_distinct)


def _choose_roles(
    profiles: Sequence[ColumnProfile], kinds: Sequence[guessing.ColumnType], looks: Sequence[Look | None]
) -> list[guessing.Guess[Role]]:
    """Guess all roles; of too many quasi columns those stay that outsiders know best and that are most informative."""
    known = [guessing.guess_role(*column) for column in zip(profiles, kinds, looks, strict=True)]
    careful = not any(guess is not None and guess.choice == "quasi" for guess in known)
    guesses = [
        guessing.guess_unknown_role(profile, kind, careful=careful)
        if guess is None or (careful and guess.choice == "insensitive")
        else guess
        for profile, kind, guess in zip(profiles, kinds, known, strict=True)
    ]

    def rank(place: int) -> tuple[int, float]:
        records = profiles[place].records
        shares = records / max(int(records.sum()), 1)
        return guessing.find_quasi_topic(profiles[place].name), float((shares * np.log(shares)).sum())

    quasi = sorted((place for place, guess in enumerate(guesses) if guess.choice == "quasi"), key=rank)
    for place in quasi[guessing.MOST_QUASI :]:
        guesses[place] = _leave_out(profiles[place].name, guesses[place].reason)
    return guesses


def _leave_out(name: str, reason: str) -> guessing.Guess[Role]:
    return guessing.Guess("identifier", f"{reason}; {LEFT_OUT}", (NEEDED.format(scalar(name)),))


def _hide_determined(
    source: Source,
    profiles: Sequence[ColumnProfile],
    kinds: Sequence[guessing.ColumnType],
    guesses: list[guessing.Guess[Role]],
) -> list[guessing.Guess[Role]]:
    """Make columns quasi that determine a quasi column or follow from one; beyond the limit they are left out.

    A column that determines quasi columns of several topics, such as sex and birth, is a key of people or other units.
    """
    places = {profile.name: place for place, profile in enumerate(profiles) if kinds[place] != "weight"}
    quasi, unchanged = ([name for name in places if guesses[places[name]].choice == role] for role in _PUBLISHED)
    if not quasi or not unchanged:
        return guesses
    names, rng, share = [*quasi, *unchanged], np.random.default_rng(0), SCREENED / profiles[0].n_rows
    batches = source.batches(names, dictionary=names)
    some = (batch.filter(pa.array(rng.random(batch.num_rows) < share)) for batch in batches)
    codes = dict(zip(names, encode_columns(some)[1], strict=True))
    found, n_quasi = list(guesses), len(quasi)
    for name in unchanged:
        determined = [one for one in quasi if determines(codes[name], codes[one])]
        related = determined or [one for one in quasi if determines(codes[one], codes[name])]
        guess, about = guesses[places[name]], {guessing.find_quasi_topic(one) for one in determined}
        if len(about) > 1 and guessing.UNKNOWN in guess.reason:
            reason = f"it determines {', '.join(map(scalar, determined))}, as a key does"
            found[places[name]] = guessing.Guess("identifier", reason, (guessing.REPEATS.format("unit"),))
        elif related:
            reason = f"{guess.reason}; {DETERMINES.format(scalar(related[0]))}"
            found[places[name]] = guessing.Guess("quasi", reason, guess.questions)
            if n_quasi >= guessing.MOST_QUASI:
                found[places[name]] = _leave_out(name, reason)
            n_quasi += 1
    return found


def _column(
    profile: ColumnProfile,
    kind: guessing.ColumnType,
    role: guessing.Guess[Role],
    meaning: str | None,
    group_rare: int | None,
) -> DraftColumn:
    taxonomy: guessing.Guess[guessing.Options | None] | None = guessing.Guess(None)
    if role.choice == "quasi":
        taxonomy = guessing.guess_quasi_taxonomy(profile, kind, group_rare)
    elif role.choice == "sensitive" and not (profile.exact and profile.n_distinct <= guessing.MOST_CATEGORIES):
        taxonomy = None  # sensitive values are published as they are, and these are too many to compare
    elif role.choice == "sensitive" and kind in guessing.CODES and profile.kind == "whole":
        taxonomy = guessing.Guess({"flat": {}}, "codes, not quantities")
    elif role.choice == "sensitive" and kind == "ordered":
        taxonomy = guessing.guess_quasi_taxonomy(profile, kind)
    if taxonomy is None:
        question = (
            f"which taxonomy fits it? It looks {role.choice}, but none could be made for {guessing.how_many(profile)}; "
            "it is left out now."
        )
        return DraftColumn(profile.name, kind, "identifier", role.reason, None, (question,), meaning)
    if role.choice == "identifier" and LEFT_OUT not in role.reason and kind in ("category", "number", "prefix"):
        kind = guessing.type_of_names(profile)
    if role.choice == "identifier" and kind == "key" and profile.exact and profile.n_distinct == profile.n_rows:
        taxonomy = guessing.Guess(None, questions=(LINKING,))
    reason = f"{role.reason}; {taxonomy.reason}" if taxonomy.reason else role.reason
    questions = (*role.questions, *taxonomy.questions)
    return DraftColumn(profile.name, kind, role.choice, reason, taxonomy.choice, questions, meaning)


def _table_questions(
    columns: tuple[DraftColumn, ...], profiles: tuple[ColumnProfile, ...], chosen: SourceOptions
) -> tuple[str, ...]:
    roles = Counter(column.role for column in columns)
    asked = []
    if not roles["quasi"]:
        asked.append(
            "which columns could others know about a person? None was found, and a policy needs a quasi column."
        )
    if not roles["sensitive"]:
        asked.append(
            "which columns must stay secret? None was found; k-anonymity alone does not hide what a class shares."
        )
    unknown = [column.name for column in columns if column.role == "insensitive" and guessing.UNKNOWN in column.reason]
    if unknown:
        asked.append(
            f"could others know any of these about a person, even roughly: {', '.join(map(scalar, unknown))}? If so, "
            "make them quasi: their names say nothing, and they are published unchanged."
        )
    if roles["quasi"] > 1:
        asked.append(
            "which quasi attributes matter most to the users of the data? Put them first, or give them a weight."
        )
    if chosen.missing != [""] or chosen.missing_in:
        asked.append("do the entries missing and missing_in under source really mean that a value is missing?")
    if chosen.encoding in ("cp1252", "latin-1"):
        asked.append(f"are letters with accents right? The file does not declare its encoding; {chosen.encoding} fits.")
    if chosen.decimal_comma:
        asked.append("are the columns under decimal_comma really numbers with a decimal comma?")
    if any(profile.n_missing for profile in profiles):
        asked.append("may records with missing values be left out? If so, write missing: drop.")
    return tuple(asked)


def _text(
    source: str,
    profiles: tuple[ColumnProfile, ...],
    columns: tuple[DraftColumn, ...],
    models: Sequence[guessing.Guess[guessing.Options | None]],
    policy: dict[str, object],
    asked: tuple[str, ...],
) -> str:
    size = f"{count_noun(profiles[0].n_rows, 'record')}, {count_noun(len(columns), 'column')}"
    lines = [
        *comment(f"Draft policy for {scalar(source)}: {size}.", ""),
        *comment(
            "A guess from names and counts. Check every role, answer the questions, then run shoal audit and shoal "
            f"anonymize. Values were counted exactly up to {MOST_DISTINCT:,} per column.",
            "",
        ),
        *questions(asked, ""),
        "",
        "attributes:",
    ]
    for column, profile in zip(columns, profiles, strict=True):
        missing = f"; {profile.n_missing:,} missing" if profile.n_missing else ""
        lines += comment(f"{column.role}, {column.type}: {column.reason}{missing}", "  ")
        lines += questions(column.questions, "  ")
        lines.append(f"  {scalar(column.name)}: {flow(column.entry)}")
    lines += ["", "privacy:"]
    for model in models:
        lines += comment(model.reason, "  ")
        lines += questions(model.questions, "  ")
        lines += [f"  - {name}: {flow(parameters)}" for name, parameters in (model.choice or {}).items()]
    lines.append("")
    said = {profile.name: f"{profile.n_rows:,} records have {guessing.how_many(profile)}" for profile in profiles}
    why = {
        "unit": f"{said.get(str(policy.get('unit')))} of this column: it seems to identify "
        "people, some of whom have several records. With unit, every promise counts people; without it, a class of k "
        "records may be fewer than k people. Delete the line if every record is a different person.",
        "household": f"{said.get(str(policy.get('household')))} of this column: it seems to identify households. With "
        "household, every promise counts households: a class of k has members of at least k of them.",
        "sample": "One record per person or household is published: so many of them have several sensitive values "
        "that no class of all their records could be diverse. Without the sample, weaker models are necessary.",
    }
    for key, entry in policy.items():
        if key in why:
            lines += comment(why[key], "")
        if key not in ("attributes", "privacy"):
            lines.append(f"{key}: {flow(entry)}")
    return "\n".join(lines) + "\n"


def ask_k_anonymity(n_rows: int) -> guessing.Guess[guessing.Options | None]:
    """Ask for k = 5, of large tables for k = 10, of tiny ones for what they have, and never for 1."""
    k = 10 if n_rows > LARGE_TABLE else max(2, min(5, n_rows))
    question = f"is a table of {count_noun(n_rows, 'record')} worth publishing? It cannot hide anybody among more."
    reason = f"every record shares its quasi values with {count_noun(k - 1, 'other')}"
    return guessing.Guess({"k-anonymity": {"k": k}}, reason, (question,) if k < 5 else ())


def count_records(column: ColumnProfile) -> IntArray:
    """Return the records of each value, missing among them."""
    return np.append(column.records, column.n_missing) if column.n_missing else column.records


def _ask_by_people(
    source: Source, units: list[str], secret: Sequence[ColumnProfile]
) -> list[guessing.Guess[guessing.Options | None]]:
    """Ask for diversity among people, and among households: what both reach if each counts once.

    Each counts with the value of theirs that makes the table least diverse.
    """
    names = [*units, *(profile.name for profile in secret)]
    _, columns = encode_columns(source.batches(names, dictionary=names))
    asked = []
    for profile, values in zip(secret, columns[len(units) :], strict=True):
        every = []
        for unit in columns[: len(units)]:
            pairs = np.unique(values.astype(np.int64) << 32 | unit) >> 32
            counts = most_concentrated(np.bincount(pairs)[np.newaxis], np.array([len(np.unique(unit))]))[0]
            every.append(counts[counts > 0])
        asked.append(ask_diversity(profile.name, min(every, key=_measure_diversity)))
    return asked


def _measure_diversity(counts: IntArray) -> float:
    whole = Whole(int(counts.sum()), counts)
    return EntropyLDiversity(l=1).worst(whole.as_class(), whole)


def ask_diversity(name: str, counts: IntArray) -> guessing.Guess[guessing.Options | None]:
    """Ask that the values of every class differ, as far as *counts*, those of the whole table, do."""
    reached = _measure_diversity(counts)
    for l in (3, 2):
        if reached >= ROOM * l:
            asked = {EntropyLDiversity.name: {"l": l, "attribute": name}}
            return guessing.Guess(asked, f"{SHALL_DIFFER} {reached:.2f} (exp of the entropy), the maximum")
    if len(counts) > 1:
        asked = {DistinctLDiversity.name: {"l": 2, "attribute": name}}
        return guessing.Guess(asked, f"{SHALL_DIFFER} only {reached:.2f}, so only two values are required")
    return guessing.Guess(
        None,
        "every record has the same value: nothing about it can be hidden",
        ("this sensitive column has only one value: everybody in the table has it. Should it be published?",),
    )


def comment(text: str, indent: str, first: str = "") -> list[str]:
    """Return a comment, as many lines as it needs."""
    return textwrap.wrap(
        f"{first}{text}",
        width=WIDTH,
        initial_indent=f"{indent}# ",
        subsequent_indent=f"{indent}#   ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def questions(asked: Iterable[str], indent: str) -> list[str]:
    """Return a comment for each question."""
    return [line for question in asked for line in comment(question, indent, first="QUESTION: ")]


def scalar(value: Any) -> str:
    """Write one value so that YAML reads back the same.

    >>> scalar("age"), scalar("no"), scalar("12"), scalar(0.00001), scalar("a: b")
    ('age', '"no"', '"12"', '0.00001', '"a: b"')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        plain = f"{Decimal(repr(value)):f}"
        return plain if "." in plain else f"{plain}.0"
    text = str(value)
    return text if _PLAIN.fullmatch(text) and text.lower() not in _MEANS_SOMETHING else quote(text)


def quote(text: str) -> str:
    """Write a text in double quotes, with everything escaped that does not print."""
    shown = (
        f"\\{character}" if character in '"\\' else character if character.isprintable() else f"\\U{ord(character):08x}"
        for character in text
    )
    return f'"{"".join(shown)}"'


def flow(value: Any) -> str:
    """Write a mapping, a list or a value on one line.

    >>> flow({"role": "quasi", "widths": [5, 10]})
    '{role: quasi, widths: [5, 10]}'
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)
