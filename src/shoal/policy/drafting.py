"""Drafting a policy from a table: a role and a taxonomy for every column, and questions as comments in YAML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from shoal.core.dependence import SCREENED, determines
from shoal.core.dictionaries import encode_columns
from shoal.core.documents import comment, flow, questions
from shoal.core.errors import InputError, did_you_mean
from shoal.core.progress import Progress, Silent
from shoal.core.results import Figures
from shoal.core.wording import count_noun
from shoal.policy import guessing
from shoal.policy.column_types import CODES, MOST_CATEGORIES, ColumnType, guess_type, type_of_names
from shoal.policy.identifying import Look, look_at
from shoal.policy.policy import Role, WrittenRole
from shoal.policy.profiling import MOST_DISTINCT, ColumnProfile, profile_source, read_vocabulary
from shoal.sources.base import Source, SourceOptions

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
    "does {} identify households? Every guarantee counts them, because finding one member reveals the others. Delete "
    "the line household below if it does not, or if members may be counted separately."
)
_PUBLISHED: tuple[Role, Role] = ("quasi", "insensitive")


@dataclass(frozen=True, slots=True)
class DraftColumn(Figures):
    """A column of the draft: its role and taxonomy, and the reason for them."""

    name: str
    type: ColumnType
    role: WrittenRole
    reason: str
    taxonomy: guessing.Options | None
    questions: tuple[str, ...]
    description: str | None = None
    look: Look | None = None  # if the values look like identifiers

    @property
    def entry(self) -> dict[str, object]:
        """The column's entry in the policy."""
        parts = {"role": self.role, "taxonomy": self.taxonomy, "description": self.description}
        return {key: value for key, value in parts.items() if value is not None}

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "type": self.type,
            **self.entry,
            "reason": self.reason,
            "evidence": None if self.look is None else self.look.as_dict(),
            "questions": list(self.questions),
        }


@dataclass(frozen=True, slots=True)
class Draft(Figures):
    """A first version of a policy: ``text`` is YAML with comments, ``policy`` the same as a mapping.

    If a quasi-identifier was found, the policy is valid and can be used for the table.

    Attributes
    ----------
    source, rows
        Name and number of records of the table.
    columns
        The proposed role of each column, with the reason and open questions.
    questions
        Questions about the table as a whole.
    """

    source: str
    rows: int
    columns: tuple[DraftColumn, ...]
    questions: tuple[str, ...]
    policy: dict[str, object]
    text: str

    def names(self, role: WrittenRole) -> tuple[str, ...]:
        """Return the names of the columns with this role."""
        return tuple(column.name for column in self.columns if column.role == role)

    @property
    def n_questions(self) -> int:
        """The number of open questions about columns and the table."""
        return len(self.questions) + sum(len(column.questions) for column in self.columns)


def draft_policy(
    data: object,
    *,
    options: SourceOptions | None = None,
    types: Mapping[str, ColumnType] | None = None,
    group_rare: int | None = None,
    progress: Progress | None = None,
) -> Draft:
    """Read a table and draft a policy for it.

    The draft has no values of the table except for markers of missing values, steps of usual scales, and the groups of
    *group_rare*.

    Parameters
    ----------
    data
        A file, a table of a database, or a table in memory.
    options
        How the table is read; properties that they leave open are found.
    types
        Types of columns whose names and values are not sufficient for guessing them.
    group_rare
        Put quasi-identifying categories of fewer records than this into one group per column.
    progress
        A display of the progress.

    Returns
    -------
    Draft
        The policy, with the reason for each role and open questions.

    Examples
    --------

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
    types: Mapping[str, ColumnType] | None = None,
    group_rare: int | None = None,
) -> Draft:
    """Draft a policy for a table that was profiled already; *name* is the table's name in the draft."""
    columns = _draft_columns(source, profiles, types or {}, group_rare)
    pairs = list(zip(profiles, columns, strict=True))
    people, homes = _find_units(pairs)
    units = {key: found[0] for key, found in (("unit", people), ("household", homes)) if found}
    columns = _ask_about_weights_and_households(pairs, homes)
    secret = [profile for profile, column in pairs if column.role == "sensitive"]
    n_people = min((one.n_distinct for one in units.values()), default=profiles[0].n_rows)
    diverse, one_each = guessing.choose_diversity(source, [one.name for one in units.values()], secret)
    models = [guessing.ask_k_anonymity(n_people), *diverse]
    policy: dict[str, object] = {
        "attributes": {column.name: column.entry for column in columns},
        "privacy": [dict(model.choice) for model in models if model.choice is not None],
        "method": {"auto": {}},
        "missing": "category",
        "max_withheld": 0,
        **{key: profile.name for key, profile in units.items()},
    }
    if one_each:
        policy["sample"] = {"one_per": [*units][-1]}  # one record per household is also one per person
    if reading := chosen.model_dump(exclude_defaults=True):
        policy["source"] = reading
    asked = _table_questions(columns, profiles, chosen, people)
    text = _text(name, profiles, columns, models, policy, asked)
    every = (*asked, *(question for model in models for question in model.questions))
    return Draft(name, profiles[0].n_rows, columns, every, policy, text)


def _draft_columns(
    source: Source,
    profiles: Sequence[ColumnProfile],
    types: Mapping[str, ColumnType],
    group_rare: int | None,
) -> tuple[DraftColumn, ...]:
    looks = [None if profile.name in types else look_at(profile) for profile in profiles]
    kinds = [
        types.get(profile.name) or (look.type if look else guess_type(profile))
        for profile, look in zip(profiles, looks, strict=True)
    ]
    guesses = _hide_determined(source, profiles, kinds, _choose_roles(profiles, kinds, looks))
    return tuple(
        replace(_column(profile, kind, guess, source.meaning(profile.name), group_rare), look=look)
        for profile, kind, guess, look in zip(profiles, kinds, guesses, looks, strict=True)
    )


def _ask_about_weights_and_households(
    pairs: Sequence[tuple[ColumnProfile, DraftColumn]], homes: Sequence[ColumnProfile]
) -> tuple[DraftColumn, ...]:
    """Give the first complete column of weights the role weight, and ask about the key of households."""
    weights = [profile for profile, column in pairs if column.type == "weight" and not profile.n_missing]
    weight = next((profile.name for profile in weights if profile.lowest >= 0 < profile.highest), None)
    found = {column.name: column for _, column in pairs}
    if weight is not None:
        question = f"{guessing.WEIGHTS} To publish them, write publish: as-is."
        found[weight] = replace(found[weight], role="weight", questions=(question,))
    if homes:
        home = homes[0].name
        found[home] = replace(found[home], questions=(HOUSEHOLDS.format(flow(home)),))
    return tuple(found.values())


def _find_units(
    pairs: Sequence[tuple[ColumnProfile, DraftColumn]],
) -> tuple[list[ColumnProfile], list[ColumnProfile]]:
    """Return the keys of people with several records and of households with a few records, by falling number of values.

    If no column is a key of people, the keys of companies take its place.
    """
    keys = [(profile, column.look) for profile, column in pairs if column.role == "identifier"]
    people = [profile for profile, look in keys if guessing.names_people(profile, look)]
    if not people and not any(read_vocabulary().find_unit(profile.name) == "person" for profile, _ in keys):
        people = [profile for profile, _ in keys if guessing.names_people(profile, unit="firm")]
    homes = [profile for profile, _ in keys if guessing.names_people(profile, unit="household")]
    homes = [profile for profile in homes if profile.n_rows <= guessing.FEW_RECORDS * profile.n_distinct]
    return sorted(people, key=lambda one: -one.n_distinct), sorted(homes, key=lambda one: -one.n_distinct)


def _choose_roles(
    profiles: Sequence[ColumnProfile], kinds: Sequence[ColumnType], looks: Sequence[Look | None]
) -> list[guessing.Guess[Role]]:
    """Guess all roles; from too many quasi columns keep the best known and most informative ones."""
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
    return guessing.Guess("identifier", f"{reason}; {LEFT_OUT}", (NEEDED.format(flow(name)),))


def _hide_determined(
    source: Source,
    profiles: Sequence[ColumnProfile],
    kinds: Sequence[ColumnType],
    guesses: list[guessing.Guess[Role]],
) -> list[guessing.Guess[Role]]:
    """Make columns quasi if they determine a quasi column or are determined by one; leave out those beyond the limit.

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
            reason = f"it determines {', '.join(map(flow, determined))}, as a key does"
            found[places[name]] = guessing.Guess("identifier", reason, (guessing.REPEATS.format("unit"),))
        elif related:
            reason = f"{guess.reason}; {DETERMINES.format(flow(related[0]))}"
            found[places[name]] = guessing.Guess("quasi", reason, guess.questions)
            if n_quasi >= guessing.MOST_QUASI:
                found[places[name]] = _leave_out(name, reason)
            n_quasi += 1
    return found


def _column(
    profile: ColumnProfile,
    kind: ColumnType,
    role: guessing.Guess[Role],
    meaning: str | None,
    group_rare: int | None,
) -> DraftColumn:
    taxonomy: guessing.Guess[guessing.Options | None] | None = guessing.Guess(None)
    if role.choice == "quasi":
        taxonomy = guessing.guess_quasi_taxonomy(profile, kind, group_rare)
    elif role.choice == "sensitive" and not (profile.exact and profile.n_distinct <= MOST_CATEGORIES):
        taxonomy = None  # sensitive values are published unchanged, and these are too many to compare
    elif role.choice == "sensitive" and kind in CODES and profile.kind == "whole":
        taxonomy = guessing.Guess({"flat": {}}, "codes, not quantities")
    elif role.choice == "sensitive" and kind == "ordered":
        taxonomy = guessing.guess_quasi_taxonomy(profile, kind)
    if taxonomy is None:
        question = (
            f"which taxonomy fits it? It seems to be {role.choice}, but none could be made for "
            f"{guessing.how_many(profile)}; it is left out now."
        )
        return DraftColumn(profile.name, kind, "identifier", role.reason, None, (question,), meaning)
    if role.choice == "identifier" and LEFT_OUT not in role.reason and kind in ("category", "number", "prefix"):
        kind = type_of_names(profile)
    if role.choice == "identifier" and kind == "key" and profile.exact and profile.n_distinct == profile.n_rows:
        taxonomy = guessing.Guess(None, questions=(LINKING,))
    reason = f"{role.reason}; {taxonomy.reason}" if taxonomy.reason else role.reason
    questions = (*role.questions, *taxonomy.questions)
    return DraftColumn(profile.name, kind, role.choice, reason, taxonomy.choice, questions, meaning)


def _table_questions(
    columns: Sequence[DraftColumn],
    profiles: Sequence[ColumnProfile],
    chosen: SourceOptions,
    people: Sequence[ColumnProfile],
) -> tuple[str, ...]:
    roles = Counter(column.role for column in columns)
    unknown = [column.name for column in columns if column.role == "insensitive" and guessing.UNKNOWN in column.reason]
    possible = {
        "which columns could others know about a person? None was found, and a policy needs a quasi column.": (
            not roles["quasi"]
        ),
        "which columns must stay secret? None was found; k-anonymity alone does not hide a value that a whole class "
        "shares.": not roles["sensitive"],
        f"could others know any of these about a person, even roughly: {', '.join(map(flow, unknown))}? If so, make "
        "them quasi: their names say nothing, and they are published unchanged.": unknown,
        "which quasi attributes matter most to the users of the data? Put them first, or give them a weight.": (
            roles["quasi"] > 1
        ),
        "do the entries missing and missing_in under source really mean that a value is missing?": (
            chosen.missing != [""] or chosen.missing_in
        ),
        f"are letters with accents right? The file does not declare its encoding; {chosen.encoding} fits.": (
            chosen.encoding in ("cp1252", "latin-1")
        ),
        "are the columns under decimal_comma really numbers with a decimal comma?": chosen.decimal_comma,
        "may records with missing values be left out? If so, write missing: drop.": (
            any(profile.n_missing for profile in profiles)
        ),
        f"which of these identifies people: {', '.join(flow(one.name) for one in people)}? unit is the one with the "
        "most values.": len(people) > 1,
    }
    return tuple(question for question, asked in possible.items() if asked)


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
        *comment(f"Draft policy for {flow(source)}: {size}.", ""),
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
        lines.append(f"  {flow(column.name)}: {flow(column.entry)}")
    lines += ["", "privacy:"]
    for model in models:
        lines += comment(model.reason, "  ")
        lines += questions(model.questions, "  ")
        lines += [f"  - {name}: {flow(parameters)}" for name, parameters in (model.choice or {}).items()]
    lines.append("")
    said = {profile.name: f"{profile.n_rows:,} records have {guessing.how_many(profile)}" for profile in profiles}
    why = {
        "unit": f"{said.get(str(policy.get('unit')))} of this column: it seems to identify "
        "people, some of whom have several records. With unit, every guarantee counts people; without it, a class of k "
        "records may be fewer than k people. Delete the line if every record is a different person.",
        "household": f"{said.get(str(policy.get('household')))} of this column: it seems to identify households. With "
        "household, every guarantee counts households: a class of k has members of at least k of them.",
        "sample": "One record per person or household is published, because many of them have several sensitive values "
        "and no class of all their records could be diverse. Without the sample, weaker models are necessary.",
    }
    for key, entry in policy.items():
        if key in why:
            lines += comment(why[key], "")
        if key not in ("attributes", "privacy"):
            lines.append(f"{key}: {flow(entry)}")
    return "\n".join(lines) + "\n"
