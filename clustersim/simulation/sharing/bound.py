r"""The least slowdown of jobs with which no link carries more than its capacity.

With a_i the shortest time of a step of job i alone, T_i that next to the others, and b_{il} its
bytes of a step on link l of capacity C_l, speeds x_i = a_i / T_i keep

    \sum_i u_{il} x_i \le 1,   u_{il} = b_{il} / (a_i C_l)        x_i \le c_i = a_i / T_i alone

Each link alone bounds the slowdown 1 / x_i; the largest bound of all links is returned.
"""

from math import inf

import numpy as np

from clustersim.arrays import Floats

STEPS = 60
"""Halvings of the price of a link."""


def least_slowdown(demand: Floats, alone: Floats, objective: str) -> float:
    """Return a bound of the mean or the largest slowdown of jobs.

    Parameters
    ----------
    demand : by job and link, the share u of the capacity at the shortest time alone
    alone : slowdown of each job with the machine to itself, 1 or more

    >>> demand = np.array([[1.0], [1.0]])  # two jobs that need all of a link
    >>> float(round(least_slowdown(demand, np.ones(2), "mean"), 6))
    2.0
    """
    if objective == "largest":
        return float(max(alone.max(), demand.sum(axis=0).max(initial=0.0)))
    full = demand[:, (demand / alone[:, None]).sum(axis=0) > 1]
    prices = _dual(np.unique(full, axis=1), alone)
    return float(max(alone.mean(), prices.max(initial=0.0)))


def most_work(demand: Floats, alone: Floats, weights: Floats) -> float:
    r"""Return a bound of the sum of the speeds of jobs, each with a weight.

    .. math:: \max \sum_i w_i x_i \le \min_p \sum_i \max(0, w_i - p u_i) c_i + p

    for each link, where prices p = w_i / u_i and 0 are enough (Dantzig 1957, the fractional
    knapsack).

    >>> demand = np.array([[1.0], [1.0]])  # two jobs that need all of a link
    >>> most_work(demand, np.ones(2), np.array([3.0, 1.0]))
    3.0
    """
    most = 1 / alone[:, None]
    full = np.unique(demand[:, (demand * most).sum(axis=0) > 1], axis=1)
    sums = [(weights / alone).sum()]
    for number, weight in enumerate(weights):
        with np.errstate(divide="ignore"):
            prices = weight / full[number]
        known = np.isfinite(prices)
        rest = np.maximum(0, weights[:, None] - prices[known] * full[:, known]) * most
        sums += (rest.sum(axis=0) + prices[known]).tolist()
    return float(min(sums))


def _dual(demand: Floats, alone: Floats) -> Floats:
    r"""Return for each link the largest value of the dual of its bound.

    .. math:: g(p) = \sum_i \left( \frac{1}{n x_i} + p u_i x_i \right) - p, \quad
        x_i = \min\left(c_i, \frac{1}{\sqrt{n p u_i}}\right)

    which no mean slowdown is below, whatever the price p of the link.  Boyd and Vandenberghe,
    Convex Optimization, 2004, section 5.2.
    """
    count, most = len(alone), 1 / alone[:, None]

    def speeds(price: Floats) -> Floats:
        return np.minimum(most, 1 / np.sqrt(np.maximum(count * price * demand, 1e-300)))

    low, high = np.zeros(demand.shape[1]), np.sqrt(demand / count).sum(axis=0) ** 2
    for _ in range(STEPS):
        price = (low + high) / 2
        over = (demand * speeds(price)).sum(axis=0) > 1
        low, high = np.where(over, price, low), np.where(over, high, price)
    chosen = speeds(high)
    bound = (1 / (count * chosen) + high * demand * chosen).sum(axis=0) - high
    return np.where(np.isfinite(bound), bound, -inf)
