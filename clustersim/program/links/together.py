"""Loads by bundles of links, where all links of a bundle carry the same."""

import numpy as np

from clustersim.topology.cluster import Cluster
from clustersim.traffic import LinkRows


class UnevenLinksError(Exception):
    """Links of a bundle carry different loads, so that they are not one."""


def together(rows: LinkRows, cluster: Cluster) -> LinkRows:
    """Return a load on links by the numbers that a machine loads: its links or their bundles.

    Raises
    ------
    UnevenLinksError
        where links of a bundle carry different loads.
    """
    bundles = cluster.bundles
    if bundles is None:
        return rows
    if bundles.links.in_order_of_use:
        raise UnevenLinksError
    key = rows.row * len(bundles) + bundles.numbers(rows.links)
    order = np.argsort(key, kind="stable")
    key, values = key[order], rows.values[order]
    first = np.flatnonzero(np.diff(key, prepend=-1))
    row, numbers = np.divmod(key[first], len(bundles))
    counts = np.diff(first, append=len(key))
    equal = np.array_equal(values, np.repeat(values[first], counts))
    if not equal or not np.array_equal(counts, bundles.sizes(numbers)):
        raise UnevenLinksError
    starts = np.searchsorted(row, np.arange(len(rows) + 1))
    return LinkRows(starts, numbers.astype(np.int32), values[first])
