"""The account of a differentially private table: every use of the budget, what it must cost, and whether it adds up.

Two tables are neighbours if one has a record more: it changes one count of a table of counts by 1. Discrete Laplace
noise of scale b then loses 1/b; the noisy maximum of scores that each change by at most 1 loses 2/b. In
zero-concentrated privacy discrete Gaussian noise of scale s loses 1/(2 s^2), and so does the noisy maximum: an
eighth of the square of its epsilon of 2/s (Cesar and Rogers 2021). That the noise was drawn, no file shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from shoal.verify.fields import ManifestError, check_keys, mapping, number, sequence, text_of, texts_of
from shoal.verify.result import Check, Claim

MODEL = "differential-privacy"
_NEIGHBOURS = "tables that differ by one record, added or removed"
_LAST_DIGITS = 1e-9  # relative: two ways to compute a bound differ by rounding


@dataclass(frozen=True, slots=True)
class Use:
    """One use of the budget."""

    purpose: str
    scale: float
    loss: float


@dataclass(frozen=True, slots=True)
class Account:
    """What a synthetic table says of its cost."""

    epsilon: float
    delta: float
    spent: Mapping[str, float]
    tree: tuple[tuple[str, str], ...]
    ledger: tuple[Use, ...]
    by_hand: bool = False  # whether the tree was given, so that no choice was made

    @property
    def claim(self) -> Claim:
        """The promise that rests on the account."""
        detail = "cannot be checked by anybody from files: that the noise was drawn as the account says, nothing shows"
        return Claim(MODEL, {"epsilon": self.epsilon, "delta": self.delta}, detail)


def read_account(raw: object, columns: Sequence[str], parameters: Mapping[str, Any]) -> Account:
    """Return the account, which must be the one that the *parameters* of the method asked for, or raise."""
    entry = mapping(raw, "synthetic")
    check_keys(entry, "synthetic", ("epsilon", "delta", "neighbours", "spent", "tree", "ledger"), ())
    if entry["neighbours"] != _NEIGHBOURS:
        raise ManifestError("synthetic.neighbours are not those that this verifier knows")
    epsilon, delta = _privacy(entry, "synthetic")
    if (parameters.get("epsilon"), parameters.get("delta")) != (epsilon, delta):
        raise ManifestError("synthetic has another epsilon or delta than method_parameters")
    spent = mapping(entry["spent"], "synthetic.spent")
    check_keys(spent, "synthetic.spent", ("epsilon", "delta", *(("rho",) if delta else ())), ())
    tree = tuple(_pair(item, columns) for item in sequence(entry["tree"], "synthetic.tree"))
    _check_tree(tree)
    ledger = []
    for place, item in enumerate(sequence(entry["ledger"], "synthetic.ledger")):
        where = f"synthetic.ledger[{place}]"
        use = mapping(item, where)
        check_keys(use, where, ("purpose", "scale", "loss"), ())
        scale, loss = (_positive(use[key], f"{where}.{key}") for key in ("scale", "loss"))
        ledger.append(Use(text_of(use["purpose"], f"{where}.purpose"), scale, loss))
    stated = {key: _not_negative(value, f"synthetic.spent.{key}") for key, value in spent.items()}
    by_hand = "tree" in parameters
    if by_hand:
        asked = [set(_pair(item, columns)) for item in sequence(parameters["tree"], "method_parameters.tree")]
        if len(asked) != len(tree) or any(set(pair) not in asked for pair in tree):
            raise ManifestError("synthetic.tree is not the one of method_parameters")
    return Account(epsilon, delta, stated, tree, tuple(ledger), by_hand)


def read_claims(raw: object, account: Account | None) -> tuple[Claim, ...]:
    """Return the claims, which are just those of the account, or raise a ManifestError."""
    claims = sequence(raw, "claims")
    for place, item in enumerate(claims):
        where = f"claims[{place}]"
        entry = mapping(item, where)
        check_keys(entry, where, ("model", "parameters"), ())
        if entry["model"] != MODEL:
            raise ManifestError(f"{where}.model is none that this verifier knows as a claim")
        parameters = mapping(entry["parameters"], f"{where}.parameters")
        check_keys(parameters, f"{where}.parameters", ("epsilon", "delta"), ())
        claimed = _privacy(parameters, f"{where}.parameters")
        if account is None or claimed != (account.epsilon, account.delta):
            raise ManifestError(f"{where} is not what the account of a synthetic table was kept for")
    if len(claims) != (account is not None):
        raise ManifestError("claims do not hold just the one that the method makes")
    return () if account is None else (account.claim,)


def _privacy(entry: Mapping[str, Any], where: str) -> tuple[float, float]:
    epsilon = _positive(entry["epsilon"], f"{where}.epsilon")
    delta = _not_negative(entry["delta"], f"{where}.delta")
    if delta >= 1:
        raise ManifestError(f"{where}.delta is not below 1")
    return epsilon, delta


def _positive(raw: object, where: str) -> float:
    found = _not_negative(raw, where)
    if found == 0:
        raise ManifestError(f"{where} is not above 0")
    return found


def _not_negative(raw: object, where: str) -> float:
    found = number(raw, where)
    if not 0 <= found < math.inf:
        raise ManifestError(f"{where} is below 0 or not finite")
    return found


def _pair(raw: object, columns: Sequence[str]) -> tuple[str, str]:
    names = texts_of(raw, "an entry of synthetic.tree")
    if len(names) != 2 or names[0] == names[1] or not set(names) <= set(columns):
        raise ManifestError("an entry of synthetic.tree is not two attributes of the release")
    return names[0], names[1]


def _check_tree(tree: Sequence[tuple[str, str]]) -> None:
    """Pairs close no circle, so no two of them are the same."""
    tree_of: dict[str, str] = {}
    for first, second in tree:
        one, other = tree_of.get(first, first), tree_of.get(second, second)
        if one == other:
            raise ManifestError("synthetic.tree has a circle")
        members = {first, second, *(name for name, root in tree_of.items() if root in (one, other))}
        tree_of |= dict.fromkeys(members, one)


def check_account(account: Account, columns: Sequence[str]) -> Check:
    """Every table of counts and every choice is in the ledger, with a loss that covers its noise, and all add up."""
    counts = {f"counts of {name}" for name in columns}
    counts |= {f"counts of {first} and {second}" for first, second in account.tree}
    purposes = [use.purpose for use in account.ledger]
    # Each pair was chosen and, unless that was all there can be, so was that there are no more.
    choices = 0 if account.by_hand else min(len(account.tree) + 1, len(columns) - 1)
    turns = {f"pair {turn + 1} of the tree" for turn in range(choices)}
    if len(purposes) != len(set(purposes)) or set(purposes) != counts | turns:
        return Check("account", False, "the ledger does not name each table of counts and each choice once")
    cheap = sum(Fraction(use.loss) < _least(use, account.delta, choice=use.purpose in turns) for use in account.ledger)
    if cheap:
        return Check("account", False, f"{cheap} uses of the budget cost more than the ledger says")
    total = sum((Fraction(use.loss) for use in account.ledger), Fraction(0))
    if account.delta:
        return _concentrated(account, total)
    if account.spent["delta"] != 0 or Fraction(account.spent["epsilon"]) < total:
        return Check("account", False, "the ledger adds up to more than is stated as spent")
    if total > Fraction(account.epsilon):
        return Check("account", False, "the ledger adds up to more than epsilon")
    return Check("account", True, f"{len(purposes)} uses of the budget add up to at most epsilon, exactly")


def _least(use: Use, delta: float, *, choice: bool) -> Fraction:
    """Return what noise of this scale loses at least."""
    scale = Fraction(use.scale)
    if delta:
        return 1 / (2 * scale * scale)
    return (2 if choice else 1) / scale


def _concentrated(account: Account, total: Fraction) -> Check:
    spent = account.spent
    if Fraction(spent["rho"]) < total or spent["delta"] > account.delta or spent["epsilon"] > account.epsilon:
        return Check(
            "account", False, "the ledger adds up to more than is stated as spent, or that to more than epsilon"
        )
    bound = epsilon_bound(float(total), account.delta)
    if bound > account.epsilon * (1 + _LAST_DIGITS):
        return Check("account", False, "the zero-concentrated losses add up to more than epsilon and delta allow")
    detail = f"{len(account.ledger)} uses of the budget add up, as zero-concentrated losses, to epsilon at this delta"
    return Check("account", True, detail)


def epsilon_bound(rho: float, delta: float) -> float:
    """Return an epsilon that rho-zero-concentrated privacy has at delta.

    Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition 12: it is
    so for every order a > 1; the least is searched for.

    >>> round(epsilon_bound(0.5, 1e-6), 3) < 0.5 + 2 * math.sqrt(0.5 * math.log(1e6))
    True
    """

    def bound(order: float) -> float:
        a = 1 + math.exp(order)
        return a * rho + (math.log(1 / delta) - math.log(a)) / (a - 1) + math.log1p(-1 / a)

    low, high = -20.0, 60.0
    for _ in range(200):  # it falls, and then rises
        first, second = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, second) if bound(first) < bound(second) else (first, high)
    return max(0.0, bound((low + high) / 2))
