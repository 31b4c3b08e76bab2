"""Kinds of network adapters by their names in files, as `nics.network` of nodes states them.

A collective library is tuned for its network: an H100 on Amazon's EFA takes other values than one
on InfiniBand.  The name of an adapter is that of its driver, and states the kind.
"""

import re
from collections.abc import Collection, Iterable
from typing import Final

INFINIBAND: Final = "infiniband"
ROCE: Final = "roce"
ETHERNET: Final = "ethernet"
OMNI_PATH: Final = "omni-path"
SLINGSHOT: Final = "slingshot"
EFA: Final = "efa"
TORUS: Final = "torus"

NEUTRAL: Final = (INFINIBAND, ROCE, ETHERNET, OMNI_PATH, SLINGSHOT)
"""Kinds that a file without names of adapters may have: no torus, and no network of one vendor's
cloud."""

_NAMES: Final = (
    (re.compile(r"efa|rdmap[0-9]"), (EFA,)),
    (re.compile(r"cxi|hsn|hsi"), (SLINGSHOT,)),
    (re.compile(r"hfi[0-9]"), (OMNI_PATH,)),
    (re.compile(r"mlx[0-9]"), (INFINIBAND, ROCE)),
    (re.compile(r"ib[a-z]*[0-9]"), (INFINIBAND,)),
    (re.compile(r"roce|bnxt|ionic|irdma|hns"), (ROCE,)),
)
"""Beginnings of the names of adapters in Linux, with the kinds that they may have."""


def adapter_kinds(names: Iterable[str]) -> tuple[str, ...]:
    """Return the kinds that adapters of some names may have.

    >>> adapter_kinds(["eth0", "mlx5_0", "mlx5_1"])
    ('infiniband', 'roce')
    >>> adapter_kinds(["rdmap79s0"])
    ('efa',)
    """
    given = [name.lower() for name in names]
    for pattern, kinds in _NAMES:
        if any(pattern.match(name) for name in given):
            return kinds
    return NEUTRAL


def adapter_distance(network: str, kinds: Collection[str]) -> int:
    """Return how far the network of a catalogue node is from the kinds of a file.

    Returns 0 for one of these kinds, 1 for another one that many machines have, 2 otherwise.
    """
    return 0 if network in kinds else 1 if network in NEUTRAL else 2
