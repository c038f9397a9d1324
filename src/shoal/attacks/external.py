"""external: linkage with a register of named people, whose sensitive values their records in the release give away."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from shoal.attacks.answers import NO_ANSWER, Answers, SecretAttack, likeliest, mode
from shoal.attacks.base import People, Trials
from shoal.attacks.parts import Secret
from shoal.attacks.view import UNKNOWN, ReleaseView, match_texts
from shoal.core.errors import UsageError


class ExternalAttack(SecretAttack):
    """Names the sensitive value of a person of a register if just one published entry can be the person's.

    Sweeney's voter list. A *register* has names and quasi attributes; columns that it shares with the source and that
    are not published tell who is who there. Without a register, everybody of the source is in one that has all
    quasi attributes. Without the release, the most frequent value is said of the same people.
    """

    name = "external"
    title = "whose record can be found with a register of names"
    question = "singling out"
    of_records = of_values = True

    def run(self, view: ReleaseView, targets: People, control: People | None, rng: np.random.Generator) -> Trials:
        """Look up the people of the register who are in the source."""
        if self.register is None:
            return super().run(view, targets, control, rng)
        people = find_registered(view, targets, self.register)
        if control is not None:  # only the attributes of the register are known of its people, too
            known = np.isin(view.known, self.register.column_names)
            control = replace(control, codes=np.where(known, control.codes, UNKNOWN).astype(np.int32))
        return super().run(view, people, control, rng)

    def answers(self, view: ReleaseView, secret: Secret, people: People, rng: np.random.Generator) -> Answers:
        """Answer where one entry is left."""
        left = view.find_left(secret, people)
        found = (left.entries == 1) & ((left.far == 0) | view.may_miss)
        return Answers(
            people,
            np.where(found, likeliest(left.weights, rng), NO_ANSWER),
            np.where(found, mode(secret), NO_ANSWER),
            people.secrets[secret.name],
            found.astype(np.float64),
        )

    def note(self, view: ReleaseView, secret: Secret, targets: People) -> str | None:
        """Say who the register is."""
        if self.register is None:
            return "no register was given: everybody in the source is assumed to be in one with all quasi attributes"
        ranges = super().note(view, secret, targets)
        found = f"{len(targets):,} people of the source are in the register"
        return found if ranges is None else f"{found}; {ranges}"


def find_registered(view: ReleaseView, targets: People, register: pa.Table) -> People:
    """Return the people of the source who are in the register, with what the register knows of them.

    A quasi attribute that the register does not have stays unknown; names that several people share tell nobody.
    """
    published = view.treatments.shown
    names = [name for name in register.column_names if name in targets.table.column_names and name not in published]
    if not names:
        raise UsageError("the register shares no name with the source: give one with a column of identifiers")
    if not any(name in register.column_names for name in view.known):
        raise UsageError("the register has none of the release's quasi attributes")
    ours, theirs = ([table.column(name) for name in names] for table in (targets.table, register))
    rows, places = match_texts(ours, theirs, alone=True)
    found, stated = targets[rows], view.people(register, "the register", partly=True)[places]
    return replace(stated, secrets=found.secrets, table=found.table)
