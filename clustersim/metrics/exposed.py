"""Communication that nothing hides: how long, of which kind, and over which link."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from clustersim.program.program import Limit

_GROUPS: Final = {
    "tensor_communication": "tensor",
    "context_communication": "context",
    "expert_communication": "expert",
    "sharding_communication": "data",
    "pipeline_communication": "pipeline",
    "data_communication": "data",
    "embedding_communication": "embedding",
}
"""The kind of group whose links set the pace of a part."""


class Exposed(NamedTuple):
    """A part of the step time that is communication.

    Attributes
    ----------
    seconds : of the mean rank [s]
    limit : the link that sets its pace while it is alone, where it crosses any
    """

    part: str
    seconds: float
    limit: Limit | None


def exposed(attribution: Mapping[str, float], limits: Mapping[str, Limit]) -> list[Exposed]:
    """Return the communication that nothing hides, the longest first.

    Parameters
    ----------
    limits : for each kind of group, the link that sets its pace
    """
    found = [
        Exposed(part, attribution[part], limits.get(group))
        for part, group in _GROUPS.items()
        if attribution[part] > 0
    ]
    return sorted(found, key=lambda each: (-each.seconds, each.part))
