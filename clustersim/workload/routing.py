"""Routing: how tokens spread over the experts of a layer, and what the fullest rank gets of them.

    balanced     every expert takes as many tokens
    zipf         the i-th expert in popularity takes 1 / i^s of what the first takes
    histogram    as somebody counted them
    task-gate    a whole sequence goes to the expert of its task

Ranks hold experts in the order of their numbers; the popular ones of a Zipf law are dealt out to
the ranks in turn.  All ranks of an expert group wait for the fullest.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from clustersim.catalog.models import ExpertShape


class Routing(NamedTuple):
    """What ranks get of the tokens of a layer with experts.

    Attributes
    ----------
    kept : share of the tokens that experts take; the rest is over their capacity
    skew : tokens of the fullest rank over those of the mean rank, max over mean
    sent : copies of a token that leave its rank; None for one to each of its experts
    """

    kept: float = 1.0
    skew: float = 1.0
    sent: float | None = None


BALANCED = Routing()


def route(
    shares: Sequence[float], ranks: int, capacity: float | None = None, sent: float | None = None
) -> Routing:
    r"""Return what ranks get of tokens that spread over experts in some shares.

    .. math:: \text{skew} = E \max_r \sum_{i \in r} x_i / \sum_i x_i,\quad
              x_i = \min(p_i, c / n)

    with shares p of n experts, E ranks and the capacity factor c. Lepikhin et al. 2020, GShard,
    arXiv:2006.16668, section 2.2.

    Parameters
    ----------
    shares : of each expert, in any unit
    ranks : that share the experts, a divisor of their number
    capacity : most tokens that an expert takes, over the mean; None without a limit

    >>> route([3, 1, 1, 1], ranks=2)
    Routing(kept=1.0, skew=1.3333333333333333, sent=None)
    """
    count, total = len(shares), math.fsum(shares)
    limit = math.inf if capacity is None else capacity / count
    taken = [min(share / total, limit) for share in shares]
    kept, each = math.fsum(taken), count // ranks
    fullest = max(math.fsum(taken[r * each : (r + 1) * each]) for r in range(ranks))
    return Routing(kept, ranks * fullest / kept, sent)


def zipf_shares(count: int, exponent: float, ranks: int) -> list[float]:
    """Return the shares of experts whose popularity follows Zipf's law, dealt out to the ranks.

    >>> zipf_shares(4, 1.0, ranks=2)
    [1.0, 0.3333333333333333, 0.5, 0.25]
    """
    popular = [1 / place**exponent for place in range(1, count + 1)]
    return [share for rank in range(ranks) for share in popular[rank::ranks]]


def task_shares(tasks: Sequence[float], count: int, sequences: int) -> list[float]:
    """Return the sequences of each expert when task i goes to expert i as a whole.

    Whole sequences are shared out by largest remainder.

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
    r"""Return on how many nodes a token's experts are, on average, when all are as likely.

    .. math:: N \Bigl(1 - \sum_j P(j) \binom{(L - j) e}{k} / \binom{L e}{k}\Bigr)

    with L groups of e experts that a token chooses its k from, and P(j) the chance that j of the
    groups of a node are among them. DeepSeek-AI 2024, arXiv:2412.19437, section 2.1.2.

    >>> round(nodes_of_token(ExpertShape(count=8, top_k=2, ffn=1), nodes=4), 3)
    1.857
    """
    given = shape.groups
    if given is None and shape.count % nodes:
        return min(nodes, shape.top_k)
    groups, chosen = (nodes, nodes) if given is None else (given.count, given.limit)
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
