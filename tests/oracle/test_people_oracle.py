"""People and households of classes, counted by planner and verifier, against counting with sets."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from shoal import anonymize
from shoal.audit.audit import audit
from shoal.core.errors import UnreachableError
from shoal.models.alpha_k_anonymity import AlphaKAnonymity
from shoal.models.entropy_l_diversity import EntropyLDiversity
from shoal.models.simple_l_diversity import SimpleLDiversity
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


@pytest.mark.parametrize("method", ["mondrian", {"mondrian": {"labels": "ranges"}}, "incognito"])
def test_hospital_encounters_have_ten_patients_in_every_class(tmp_path, method):
    """Row 5: patients come again and again, and a class of ten stays may be of three of them."""
    rng = np.random.default_rng(5)
    patient = rng.zipf(1.7, 1500) % 400
    source = pa.table(
        {
            "patient": [f"p{one}" for one in patient],
            "age": 20 + patient % 60,
            "ward": [f"w{one}" for one in patient % 7],
            "month": rng.integers(1, 13, 1500),
            "diagnosis": [f"d{one}" for one in rng.integers(0, 9, 1500)],
        }
    )
    attributes = {name: {"role": "quasi"} for name in ("age", "ward", "month")}
    attributes["age"]["taxonomy"] = {"intervals": {"min": 0, "max": 80, "widths": [5, 10, 20, 40]}}
    document = {
        "attributes": {"patient": {"role": "identifier"}, **attributes, "diagnosis": {"role": "sensitive"}},
        "privacy": [{"k-anonymity": {"k": 10}}, {"alpha-k-anonymity": {"alpha": 0.8, "k": 2}}],
        "method": method,
        "unit": "patient",
        "max_withheld": 0.01,
    }
    release = anonymize(source, document, out=tmp_path / "out")
    place = np.asarray(pq.read_table(tmp_path / "out" / "internal" / "witness.parquet").column("class"))
    published = pq.read_table(tmp_path / "out" / "public" / "data.parquet").to_pandas()
    sizes = published.groupby(["age", "ward", "month"]).size()
    assert sorted(np.unique(place[place > 0], return_counts=True)[1]) == sorted(sizes)
    stays = source.to_pandas().assign(place=place).query("place > 0")
    people = stays.groupby("place")["patient"].nunique()
    ill = stays.groupby(["place", "diagnosis"])["patient"].nunique().groupby("place").max()
    assert len(people) > 3
    assert people.min() >= 10
    assert (ill / people).max() <= 0.8
    assert [one["achieved"] for one in release.manifest["guarantees"]] == [people.min(), (ill / people).max()]
    assert len(stays) >= 0.99 * 1500


def test_a_union_of_classes_that_hold_may_not_hold():
    """Everybody is in both classes, and has the value in one of them: so models of values are not monotone."""
    person, values = np.array([1, 2, 3, 4, 1, 2, 3, 4]), np.array([0, 0, 1, 1, 1, 1, 0, 0], dtype=np.int32)
    people, model = People.of(person, values), SimpleLDiversity(l=2)
    two = people.histograms(model, np.repeat([0, 1], 4), np.arange(8), 2, 2)
    one = people.histograms(model, np.zeros(8, dtype=int), np.arange(8), 1, 2)
    assert (two.counts / two.sizes[:, None]).max() == 0.5
    assert one.sizes.tolist() == [4]
    assert one.counts.max() == 4


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
