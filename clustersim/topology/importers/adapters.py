"""Kinds of network adapters, by their names in files and by the nodes of the catalogue.

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

NODES: Final[dict[str, str]] = {
    "aurora": SLINGSHOT,
    "aws-p5": EFA,
    "dgx-1v": INFINIBAND,
    "dgx-2": INFINIBAND,
    "dgx-a100": INFINIBAND,
    "dgx-a100-40gb": INFINIBAND,
    "dgx-b200": INFINIBAND,
    "dgx-b300": INFINIBAND,
    "dgx-h100": INFINIBAND,
    "dgx-h200": INFINIBAND,
    "el-capitan": SLINGSHOT,
    "frontier-ex235a": SLINGSHOT,
    "fugaku": TORUS,
    "gb200-nvl72": INFINIBAND,
    "gb300-nvl72": INFINIBAND,
    "hgx-h100-roce": ROCE,
    "hgx-h800": INFINIBAND,
    "jean-zay-a100": OMNI_PATH,
    "jean-zay-v100": OMNI_PATH,
    "lumi-g": SLINGSHOT,
    "mi300x-oam8": ROCE,
    "perlmutter-gpu": SLINGSHOT,
    "polaris": SLINGSHOT,
    "tpu-v4-chip": TORUS,
    "tpu-v5e-chip": TORUS,
    "tpu-v5p-chip": TORUS,
}
"""The kind of each node that has another one than Ethernet."""

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

    >>> kinds_of(["eth0", "mlx5_0", "mlx5_1"])
    ('infiniband', 'roce')
    >>> kinds_of(["rdmap79s0"])
    ('efa',)
    """
    given = [name.lower() for name in names]
    for pattern, kinds in _NAMES:
        if any(pattern.match(name) for name in given):
            return kinds
    return NEUTRAL


def adapter_distance(node: str, kinds: Collection[str]) -> int:
    """Return how far the adapters of a catalogue node are from some kinds.

    Returns 0 for one of these kinds, 1 for another one that many machines have, 2 otherwise.
    """
    kind = NODES.get(node, ETHERNET)
    return 0 if kind in kinds else 1 if kind in NEUTRAL else 2
