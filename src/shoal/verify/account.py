"""The account of a differentially private table: every use of the budget is there, and they add up.

Two tables are neighbours if one has a record more: it changes one count of a table of counts by 1. Discrete Laplace
noise of scale b then loses 1/b; the noisy maximum of scores that each change by at most 1 loses 2/b. In
zero-concentrated privacy discrete Gaussian noise of scale s loses 1/(2 s^2), and so does the noisy maximum: an eighth
of the square of its epsilon of 2/s (Cesar and Rogers 2021). No file shows that the noise was drawn.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.manifest import Account, DrawnRecords, ManifestError, Privacy, read_entry
from shoal.manifest import Claim as WrittenClaim
from shoal.verify.result import Check, Claim

if TYPE_CHECKING:
    from shoal.verify.rows import Release

MODEL = "differential-privacy"
_LAST_DIGITS = 1e-9  # relative: two ways to compute a bound differ by rounding
_MOST_ALIKE = 1_000_000  # records for which a probability is computed


def check_asked(account: Account, columns: Sequence[str], parameters: Mapping[str, Any]) -> None:
    """Raise a ManifestError if the account has other columns, or contradicts the *parameters*."""
    if (parameters.get("epsilon"), parameters.get("delta")) != (account.epsilon, account.delta):
        raise ManifestError("synthetic has another epsilon or delta than method_parameters")
    if not all(set(one) <= set(columns) for one in account.marginals):
        raise ManifestError("an entry of synthetic.marginals names a column that is not an attribute of the release")
    if "tree" not in parameters:
        return
    try:
        asked = [frozenset(map(str, pair)) for pair in parameters["tree"]]
    except TypeError:
        raise ManifestError("method_parameters.tree is not a list of pairs") from None
    if len(asked) != len(account.marginals) or {frozenset(one) for one in account.marginals} != set(asked):
        raise ManifestError("synthetic.marginals are not the pairs of method_parameters.tree")


def read_claims(claims: Sequence[WrittenClaim], account: Account | None) -> tuple[Claim, ...]:
    """Return the claims, or raise a ManifestError if the account does not support them."""
    for place, claim in enumerate(claims):
        where = f"claims[{place}]"
        if claim.model != MODEL:
            raise ManifestError(f"{where}.model is not a claim of this verifier")
        privacy = read_entry(Privacy, claim.parameters, f"{where}.parameters")
        if account is None or (privacy.epsilon, privacy.delta) != (account.epsilon, account.delta):
            raise ManifestError(f"{where} contradicts the account of the synthetic table")
    if len(claims) != (account is not None):
        raise ManifestError("claims must have exactly the claim of the method")
    if account is None:
        return ()
    drawn = "the noise was drawn as the account says"
    if account.sampled is not None:
        drawn = "records were drawn at random, and levels chosen without looking at them"
    detail = f"cannot be checked: files do not show that {drawn}"
    return (Claim(MODEL, {"epsilon": account.epsilon, "delta": account.delta}, detail),)


def check_account(account: Account, columns: Sequence[str], *, tree_given: bool) -> Check:
    """Check that the ledger has every table of counts and every choice, each with a loss that covers its noise.

    *tree_given*: whether no choice was made. Otherwise every column was counted once before the first choice, and each
    choice led to one table of counts, of a column or of a marginal, which may have been counted before.
    """
    alone = Counter(f"counts of {name}" for name in columns)
    together = Counter(f"counts of {' and '.join(one)}" for one in account.marginals)
    purposes = Counter(use.purpose for use in account.ledger)
    counts = Counter({purpose: times for purpose, times in purposes.items() if purpose in alone | together})
    n_choices = 0 if tree_given else counts.total() - len(columns)
    choices = Counter(f"choice {number + 1}" for number in range(n_choices))
    whole = counts == alone + together if tree_given else counts >= alone + together
    if not whole or purposes != counts + choices:
        return Check("account", False, "the ledger does not name each table of counts and each choice once")
    cheap = 0
    for use in account.ledger:
        scale = Fraction(use.scale)
        least = 1 / (2 * scale * scale) if account.delta else (2 if use.purpose in choices else 1) / scale
        cheap += Fraction(use.loss) < least
    total, spent = sum((Fraction(use.loss) for use in account.ledger), Fraction(0)), account.spent
    fault, sums = None, "add up to at most epsilon, exactly"
    if cheap:
        fault = f"{cheap} uses of the budget cost more than the ledger says"
    elif account.delta:
        sums = "add up, as zero-concentrated losses, to epsilon at this delta"
        if Fraction(spent.rho or 0.0) < total or spent.delta > account.delta or spent.epsilon > account.epsilon:
            fault = "the ledger adds up to more than is stated as spent, or that to more than epsilon"
        elif epsilon_bound(float(total), account.delta) > account.epsilon * (1 + _LAST_DIGITS):
            fault = "the zero-concentrated losses add up to more than epsilon and delta allow"
    elif spent.delta != 0 or Fraction(spent.epsilon) < total:
        fault = "the ledger adds up to more than is stated as spent"
    elif total > Fraction(account.epsilon):
        fault = "the ledger adds up to more than epsilon"
    return Check.of("account", fault, f"{len(account.ledger)} uses of the budget {sums}")


def epsilon_bound(rho: float, delta: float) -> float:
    """Return an epsilon that rho-zero-concentrated privacy has at delta.

    Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020, Proposition 12: it is
    so for every order a > 1. The function searches for the smallest bound.

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


def check_drawn(account: Account, drawn: DrawnRecords, release: Release) -> Check:
    """Check that k rows share each combination of published values, and that share and k are enough."""
    sizes = f"SELECT count(*) AS n FROM release GROUP BY {', '.join(release.names.values())}"
    few = release.engine.value(f"SELECT count(*) FROM ({sizes}) WHERE n < {drawn.k}")
    fault = few and f"{few} combinations of published values have fewer than k = {drawn.k} rows"
    least = min(account.epsilon, account.spent.epsilon), min(account.delta, account.spent.delta)
    if not fault and not is_enough(*least, drawn.share, drawn.k):
        fault = "its share and k are not enough for epsilon and delta"
    detail = f"at least k = {drawn.k} rows share each combination of values, which is enough for epsilon and delta"
    return Check.of("account", fault, detail)


def is_enough(epsilon: float, delta: float, share: float, k: int) -> bool:
    """Whether records drawn with probability *share*, at least *k* alike, are (epsilon, delta)-differentially private.

    With one of n like records more, j drawn ones are n (1 - share) / (n - j) times as likely, and at least 1 - share
    times. The first is above e**epsilon where j > gamma n, gamma = 1 - (1 - share) / e**epsilon; that must have at
    most the probability delta for all n >= k / gamma - 1 (Li, Qardaji and Su 2012). By Chernoff's bound it has from
    ln(1 / delta) / KL(gamma, share) on. In doubt it is not enough.

    >>> is_enough(1, 1e-6, 0.632, 74), is_enough(1, 1e-6, 0.632, 60), is_enough(1, 1e-6, 0.633, 1000)
    (True, False, False)
    """
    if delta <= 0 or -math.log1p(-share) > epsilon:
        return False
    gamma = 1 - (1 - share) * math.exp(-epsilon)
    divergence = gamma * math.log(gamma / share) - (1 - gamma) * epsilon
    first, last = math.ceil(k / gamma * (1 - 1e-12) - 1), -math.log(delta) / max(divergence, 1e-300)
    if last > _MOST_ALIKE:
        return False
    sizes = range(max(first, 1), math.ceil(last) + 1)
    return all(_tail(n, math.floor(gamma * n * (1 - 1e-12)) + 1, share) * (1 + 1e-7) <= delta for n in sizes)


def _tail(n: int, j: int, share: float) -> float:
    """Return the probability that at least j of n records are drawn, by its terms, which fall."""
    log = math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1)
    total = term = math.exp(log + j * math.log(share) + (n - j) * math.log1p(-share))
    while j < n and term > total * 1e-18:
        term *= (n - j) / (j + 1) * share / (1 - share)
        total, j = total + term, j + 1
    return total
