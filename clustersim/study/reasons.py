"""Why a case cannot be graded: what the reasons are made of, and how many of them read together."""

from collections.abc import Iterable
from typing import Final, NamedTuple


class Reason(NamedTuple):
    """Why a case cannot be graded: a `kind` that other cases share, and what is so in this one."""

    kind: str
    detail: str


NOT_STATED: Final = " not stated"
"""The end of each reason that names what a case leaves out."""


def joined(reasons: Iterable[Reason]) -> str:
    """Return reasons as one text; what is not stated is listed together, at the end.

    >>> names = ["gated MLP", "layers not stated", "heads not stated"]
    >>> joined(Reason(name, name) for name in names)
    'gated MLP; not stated: layers, heads'
    """
    details = [reason.detail for reason in reasons]
    told = [detail for detail in details if not detail.endswith(NOT_STATED)]
    left_out = [d.removesuffix(NOT_STATED) for d in details if d.endswith(NOT_STATED)]
    if left_out:
        told.append(f"not stated: {', '.join(left_out)}")
    return "; ".join(told)


class Ungradable(Exception):  # noqa: N818 - an answer about the case, not a failure
    """A case turned out not to be gradable."""

    def __init__(self, *reasons: Reason) -> None:
        super().__init__(joined(reasons))
        self.reasons = reasons
