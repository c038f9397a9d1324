"""Which attributes are kept together: a tree, chosen by noisy comparisons or by hand."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np

from shoal.arrays import FloatArray
from shoal.errors import PolicyError, did_you_mean
from shoal.synthetic.domains import Domain
from shoal.synthetic.mechanisms import Mechanisms, discounted
from shoal.synthetic.records import MOST_CELLS, Pair, Records


def given_tree(names: Sequence[tuple[str, str]], domains: Sequence[Domain]) -> list[Pair]:
    """Look up the pairs that the policy names."""
    places = {domain.name: place for place, domain in enumerate(domains)}
    pairs = []
    for both in names:
        for name in both:
            if name not in places:
                raise PolicyError(f"tree: {name!r} is not an attribute of the table{did_you_mean(name, places)}")
        first, second = sorted(places[name] for name in both)
        if not _fits(domains, (first, second)):
            cells = domains[first].size * domains[second].size
            raise PolicyError(
                f"tree: {both[0]!r} and {both[1]!r} have {cells:,} joint values, at most {MOST_CELLS:,} are possible; "
                "declare coarser values"
            )
        pairs.append((first, second))
    return pairs


def chosen_tree(
    records: Records,
    alone: Sequence[FloatArray],
    mechanisms: Mechanisms,
    share: Fraction,
    edge_share: Fraction,
) -> list[Pair]:
    """Choose pairs one by one, each time probably the one that independence describes worst, none closing a circle.

    The score of a pair is how far its counts are, in sum, from those that the noisy counts *alone* make one expect
    (McKenna, Miklau and Sheldon, "Winning the NIST contest", JPC 11(3), 2021): one record changes it by 1. Taken off is
    what noise will add to the pair's counts, which no record changes. A pair that gains nothing has a score below 0;
    "no more pairs" stands for choice with a score of 0.
    """
    domains = records.domains
    noise = mechanisms.mean_noise(edge_share)
    scores = {
        (first, second): discounted(records.of_pair((first, second)), _expected(alone[first], alone[second]))
        - round(noise * domains[first].size * domains[second].size)
        for first, second in combinations(range(len(domains)), 2)
        if _fits(domains, (first, second))
    }
    component = list(range(len(domains)))
    pairs: list[Pair] = []
    turns = len(domains) - 1
    for turn in range(turns):
        # Even if there are none, that there are no more is chosen: how often is then told by the tree alone.
        open_pairs = [pair for pair in scores if component[pair[0]] != component[pair[1]]]
        choice = mechanisms.largest(
            [*(scores[pair] for pair in open_pairs), 0], share / turns, f"pair {turn + 1} of the tree"
        )
        if choice == len(open_pairs):
            break
        pairs.append(open_pairs[choice])
        kept, gone = (component[place] for place in open_pairs[choice])
        component = [kept if number == gone else number for number in component]
    return pairs


def _fits(domains: Sequence[Domain], pair: Pair) -> bool:
    return domains[pair[0]].size * domains[pair[1]].size <= MOST_CELLS


def _expected(first: FloatArray, second: FloatArray) -> FloatArray:
    total = float(first.sum() + second.sum()) / 2
    joint: FloatArray = np.outer(first / max(float(first.sum()), 1.0), second / max(float(second.sum()), 1.0)) * total
    return joint
