"""People and households of classes, counted by planner and verifier, against counting with sets."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from shoal import anonymize
from shoal.audit.audit import audit
from shoal.core.errors import UnreachableError
from shoal.models.alpha_k_anonymity import AlphaKAnonymity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.plan.problem import People, most_concentrated

NAMES = ("person", "home", "a", "b", "s")
row = st.tuples(
    st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6"]),
    st.sampled_from(["h1", "h2", "h3"]),
    st.sampled_from(["x", "y"]),
    st.sampled_from(["u", "v"]),
    st.sampled_from(["flu", "gout", "pox"]),
)


def policy(method: str, privacy: list, **more: object) -> dict:
    roles = {"person": "identifier", "home": "identifier", "a": "quasi", "b": "quasi", "s": "sensitive"}
    return {
        "attributes": {name: {"role": role} for name, role in roles.items()},
        "privacy": privacy,
        "method": method,
    } | more


def table(rows: list[tuple]) -> pa.Table:
    return pa.table({name: [one[i] for one in rows] for i, name in enumerate(NAMES)})


def reached(rows: list[tuple], class_of: list, who: int) -> dict[str, float]:
    """Return what the worst class reaches, by definition: people as sets, and a value once for a person and class."""
    classes = defaultdict(list)
    for one, place in zip(rows, class_of, strict=True):
        classes[place].append(one)
    worst = {"k": math.inf, "simple": math.inf, "entropy": math.inf, "beta": 0.0}
    everybody = {one[who] for one in rows}
    for members in classes.values():
        people = {one[who] for one in members}
        having = {value: {one[who] for one in members if one[4] == value} for value in {one[4] for one in members}}
        worst["k"] = min(worst["k"], len(people))
        worst["simple"] = min(worst["simple"], Fraction(len(people), max(map(len, having.values()))))
        left, entropy = len(people), 0.0
        for count in sorted(map(len, having.values()), reverse=True):
            share = min(count, left) / len(people)
            left -= min(count, left)
            entropy -= share * math.log(share) if share else 0.0
        worst["entropy"] = min(worst["entropy"], math.exp(entropy))
        for value, holders in having.items():
            base = Fraction(len({one[who] for one in rows if one[4] == value}), len(everybody))
            worst["beta"] = max(worst["beta"], Fraction(len(holders), len(people)) / base - 1)
    return {name: float(one) for name, one in worst.items()}


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(rows=st.lists(row, min_size=4, max_size=20), household=st.booleans())
def test_rows_as_they_are_count_people(rows, household):
    """Plain publishes the quasi values themselves, so that everybody knows the classes."""
    by_hand = reached(rows, [one[2:4] for one in rows], 0)
    privacy = [
        {"k-anonymity": {"k": int(by_hand["k"])}},
        {"simple-l-diversity": {"l": by_hand["simple"]}},
        {"entropy-l-diversity": {"l": 1}},
        {"beta-likeness": {"beta": 100}},
    ]
    assume(Fraction(str(by_hand["simple"])) <= by_hand["simple"] and float(by_hand["simple"]).is_integer())
    named = {"unit": "person"} | ({"household": "home"} if household else {})
    counted = [("unit", 0)] + ([("household", 1)] if household else [])
    if household:
        assume(reached(rows, [one[2:4] for one in rows], 1)["k"] >= by_hand["k"])
        assume(reached(rows, [one[2:4] for one in rows], 1)["simple"] >= by_hand["simple"])
    release = anonymize(table(rows), policy("plain", privacy, **named))
    claimed = {(g["model"], g["counts"]): g["achieved"] for g in release.manifest["guarantees"]}
    assert len(claimed) == len(privacy) * len(counted)
    for key, who in counted:
        wanted = reached(rows, [one[2:4] for one in rows], who)
        for model, name in zip(("k-anonymity", "simple-l-diversity", "entropy-l-diversity", "beta-likeness"),
                               ("k", "simple", "entropy", "beta"), strict=True):  # fmt: skip
            assert claimed[model, key] == pytest.approx(wanted[name], abs=1e-9)
    before = audit(
        table(rows), policy("plain", privacy, unit="person")
    ).models  # the table as it is has the same classes
    assert [one.achieved for one in before] == pytest.approx(
        [reached(rows, [one[2:4] for one in rows], 0)[name] for name in ("k", "simple", "entropy", "beta")], abs=1e-9
    )
    for checked in release.verification.guarantees:
        assert checked.ok
        assert checked.achieved == pytest.approx(claimed[checked.model, checked.counts], abs=1e-9)


@settings(max_examples=15)
@given(rows=st.lists(row, min_size=4, max_size=14), k=st.integers(2, 5), method=st.sampled_from(["plain", "incognito"]))
def test_no_class_of_too_few_people_is_published(rows, k, method):
    """Incognito finds a table whenever the whole table has k people, and plain refuses what is not there."""
    people = len({one[0] for one in rows})
    classes = reached(rows, [one[2:4] for one in rows], 0)["k"]
    possible = people >= k if method == "incognito" else classes >= k
    document = policy(method, [{"k-anonymity": {"k": k}}], unit="person")
    if not possible:
        with pytest.raises(UnreachableError):
            anonymize(table(rows), document)
        return
    release = anonymize(table(rows), document)
    if method == "incognito":
        levels = release.manifest["levels"]
        shown = [tuple("*" if levels[n] else one[i] for i, n in ((2, "a"), (3, "b"))) for one in rows]
        wanted = reached(rows, shown, 0)["k"]
        assert Counter(shown) == Counter(zip(*(release.data.column(n).to_pylist() for n in "ab"), strict=True))
    else:
        wanted = classes
    assert release.manifest["guarantees"][0]["achieved"] == wanted >= k


@given(having=st.lists(st.sets(st.integers(0, 3), min_size=1), min_size=1, max_size=6), picks=st.randoms())
def test_what_a_model_sees_is_no_better_than_any_choice_of_one_value_each(having, picks):
    counts = np.array([[sum(value in one for one in having) for value in range(4)]])
    sizes = np.array([len(having)])
    worst = np.sort(most_concentrated(counts, sizes)[0])[::-1]
    assert worst.sum() == len(having)
    chosen = Counter(picks.choice(sorted(one)) for one in having)
    some = np.sort([chosen[value] for value in range(4)])[::-1]
    assert (np.cumsum(worst) >= np.cumsum(some)).all()
    person = np.repeat(np.arange(len(having)), [len(one) for one in having])
    values = np.array([value for one in having for value in sorted(one)], dtype=np.int32)
    seen = People.of(person, values).histograms(
        EntropyLDiversity(l=1), np.zeros(len(person), int), np.arange(len(person)), 1, 4
    )
    assert np.array_equal(np.sort(seen.counts[0])[::-1], worst)
    assert AlphaKAnonymity(alpha=1, k=1).reach(seen, None)[0] == counts.max() / len(having)
