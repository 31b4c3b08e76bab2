"""Spare nodes and copies in the memory of peers: how many are needed, and what they survive."""

from math import comb
from typing import Final

CONFIDENCE: Final = 0.99
"""Probability with which the spares of a job suffice [unitless]."""


def spares_needed(nodes: int, probability: float, confidence: float = CONFIDENCE) -> int:
    r"""Return the fewest spares that suffice with some confidence [count].

    .. math:: \min \{k : P(\mathrm{Binomial}(n, p) \le k) \ge c\}

    with n = `nodes`, p = `probability` that a node is being replaced, c = `confidence`.
    Wan et al. 2025 (ByteRobust), section 5.2, arXiv:2509.16293.

    >>> [spares_needed(nodes, 0.0012) for nodes in (128, 256, 512, 1024)]
    [2, 2, 3, 4]
    """
    term = (1 - probability) ** nodes
    cumulative, spares = term, 0
    while cumulative < confidence and spares < nodes:
        term *= (nodes - spares) / (spares + 1) * probability / (1 - probability)
        spares += 1
        cumulative += term
    return spares


def survival_in_groups(nodes: int, copies: int, lost: int) -> float:
    r"""Return the probability that no group of nodes loses all its copies [unitless].

    Nodes form groups of `copies`, each of which holds the state of all its members, and `lost`
    nodes fail at once, any of them equally likely.  By inclusion and exclusion over the
    g = n / k groups,

    .. math:: \sum_{j=0}^{\lfloor m / k \rfloor} (-1)^j \binom{g}{j}
              \binom{n - j k}{m - j k} / \binom{n}{m}

    with n = `nodes`, k = `copies`, m = `lost`.  Any k - 1 losses are survived. Wang et al. 2023
    (GEMINI), section 4, doi:10.1145/3600006.3613145.

    >>> survival_in_groups(16, copies=2, lost=1), round(survival_in_groups(16, 2, 2), 4)
    (1.0, 0.9333)
    """
    if nodes % copies:
        raise ValueError(f"{nodes} nodes do not form groups of {copies}")
    ways: int = sum(
        (-1) ** j * comb(nodes // copies, j) * comb(nodes - j * copies, lost - j * copies)
        for j in range(lost // copies + 1)
    )
    return ways / comb(nodes, lost)
