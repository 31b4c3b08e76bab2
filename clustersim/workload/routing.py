"""Expert routing: the distribution of tokens over experts, and the load of the busiest rank.

    balanced     every expert receives the same number of tokens
    zipf         the i-th expert in popularity receives 1 / i^s of the tokens of the first
    histogram    measured counts
    task-gate    a whole sequence goes to the expert of its task

Ranks hold experts in the order of their numbers; with a Zipf law, experts are distributed round
robin by popularity.  All ranks of an expert group wait for the busiest one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from clustersim.catalog.records.models import ExpertShape


class Routing(NamedTuple):
    """The load of ranks in a layer with experts.

    Attributes
    ----------
    kept : share of the tokens within the capacity of the experts
    skew : tokens of the busiest rank over the mean
    sent : copies of a token that are sent; None for one per expert
    """

    kept: float = 1.0
    skew: float = 1.0
    sent: float | None = None


BALANCED = Routing()


def route(
    shares: Sequence[float], ranks: int, capacity: float | None = None, sent: float | None = None
) -> Routing:
    r"""Return the load of ranks for given shares of the experts.

    .. math:: \text{skew} = E \max_r \sum_{i \in r} x_i / \sum_i x_i,\quad
              x_i = \min(p_i, c / n)

    with shares p of n experts, E ranks and the capacity factor c. Lepikhin et al. 2020, GShard,
    arXiv:2006.16668, section 2.2.

    Parameters
    ----------
    shares : tokens of each expert, in any unit
    ranks : number of ranks with experts, a divisor of the number of experts
    capacity : limit of tokens per expert, relative to the mean; None without a limit

    >>> route([3, 1, 1, 1], ranks=2)
    Routing(kept=1.0, skew=1.3333333333333333, sent=None)
    """
    count, total = len(shares), math.fsum(shares)
    limit = math.inf if capacity is None else capacity / count
    taken = [min(share / total, limit) for share in shares]
    kept, each = min(1.0, math.fsum(taken)), count // ranks
    busiest = max(math.fsum(taken[r * each : (r + 1) * each]) for r in range(ranks))
    return Routing(kept, ranks * busiest / kept, sent)


def zipf_shares(count: int, exponent: float, ranks: int) -> list[float]:
    """Return the shares of experts under Zipf's law, distributed to the ranks round robin.

    >>> zipf_shares(4, 1.0, ranks=2)
    [1.0, 0.3333333333333333, 0.5, 0.25]
    """
    popular = [1 / rank**exponent for rank in range(1, count + 1)]
    holding = min(ranks, count)  # others have none
    return [share for rank in range(holding) for share in popular[rank::ranks]]


def task_shares(tasks: Sequence[float], count: int, sequences: int) -> list[float]:
    """Return the sequences of each expert if task i goes to expert i.

    Whole sequences are apportioned by largest remainder.

    >>> task_shares([2, 1, 1], 4, sequences=2)
    [1.0, 1.0, 0.0, 0.0]
    """
    total = math.fsum(tasks)
    exact = [sequences * share / total for share in tasks]
    whole = [math.floor(each) for each in exact]
    order = sorted(range(len(tasks)), key=lambda task: whole[task] - exact[task])
    for task in order[: sequences - sum(whole)]:
        whole[task] += 1
    return [*map(float, whole), *[0.0] * (count - len(tasks))]


def nodes_of_token(shape: ExpertShape, nodes: int) -> float:
    r"""Return the mean number of nodes with experts of a token, for uniform routing.

    .. math:: N \Bigl(1 - \sum_j P(j) \binom{(L - j) e}{k} / \binom{L e}{k}\Bigr)

    with L groups of e experts, of which a token chooses k experts, and P(j) the probability that j
    of the groups of a node are eligible. DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2.

    >>> round(nodes_of_token(ExpertShape(count=8, top_k=2, ffn=1), nodes=4), 3)
    1.857
    """
    limited = shape.groups
    if limited is None and shape.count % nodes:
        return min(nodes, shape.top_k)
    groups, chosen = (nodes, nodes) if limited is None else (limited.count, limited.limit)
    each, here = shape.count // groups, max(1, groups // nodes)
    missed = sum(
        math.comb(here, j)
        * math.comb(groups - here, chosen - j)
        / math.comb(groups, chosen)
        * math.comb((chosen - j) * each, shape.top_k)
        / math.comb(chosen * each, shape.top_k)
        for j in range(min(here, chosen) + 1)
    )
    return nodes * (1 - missed)
