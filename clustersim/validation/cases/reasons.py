"""Why a case cannot be graded: a reason, several as one text, those of many cases counted."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, NamedTuple


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


def count_reasons(reasons: Iterable[tuple[Reason, ...]]) -> list[dict[str, Any]]:
    """Return for each kind of reason how many cases have it, and how many no other: most first."""
    kinds = [{reason.kind for reason in found} for found in reasons]
    total = Counter(kind for found in kinds for kind in found)
    alone = Counter(kind for found in kinds if len(found) == 1 for kind in found)
    order = sorted(total, key=lambda kind: (-total[kind], kind))
    return [{"reason": kind, "cases": total[kind], "alone": alone[kind]} for kind in order]
