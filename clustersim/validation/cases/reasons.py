"""Why a case is not gradable: a reason, several as one text, and counts over many cases."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple, Self

from clustersim.answers import record


class Reason(NamedTuple):
    """Why a case is not gradable: a `kind` shared with other cases, and the detail of this one."""

    kind: str
    detail: str


@record
class ReasonCount:
    """How often a reason occurs.

    Attributes
    ----------
    reason : why cases are not gradable
    cases : cases with this reason
    alone : cases with no other reason
    """

    reason: str
    cases: int
    alone: int


NOT_STATED: Final = " not stated"
"""The end of each reason that names what a case leaves out."""


def not_stated(what: str) -> Reason:
    """Return the reason that a case leaves out a setting or a number."""
    return Reason(f"{what}{NOT_STATED}", f"{what}{NOT_STATED}")


class Ungradable(Exception):  # noqa: N818 - an answer about the case, not a failure
    """A case turned out not to be gradable."""

    def __init__(self, *reasons: Reason) -> None:
        super().__init__(join_reasons(reasons))
        self.reasons = reasons

    @classmethod
    def because(cls, kind: str, detail: str | None = None) -> Self:
        """Return the exception with one reason, whose detail is its kind unless it is given."""
        return cls(Reason(kind, detail or kind))


def join_reasons(reasons: Iterable[Reason]) -> str:
    """Return reasons as one text; what is not stated is listed at the end.

    >>> names = ["gated MLP", "layers not stated", "heads not stated"]
    >>> join_reasons(Reason(name, name) for name in names)
    'gated MLP; not stated: layers, heads'
    """
    details = [reason.detail for reason in reasons]
    texts = [detail for detail in details if not detail.endswith(NOT_STATED)]
    left_out = [d.removesuffix(NOT_STATED) for d in details if d.endswith(NOT_STATED)]
    if left_out:
        texts.append(f"not stated: {', '.join(left_out)}")
    return "; ".join(texts)


def count_reasons(reasons: Iterable[tuple[Reason, ...]]) -> tuple[ReasonCount, ...]:
    """Return the counts of each kind of reason, the most frequent first."""
    kinds = [{reason.kind for reason in of_case} for of_case in reasons]
    total = Counter(kind for of_case in kinds for kind in of_case)
    alone = Counter(kind for of_case in kinds if len(of_case) == 1 for kind in of_case)
    order = sorted(total, key=lambda kind: (-total[kind], kind))
    return tuple(ReasonCount(kind, total[kind], alone[kind]) for kind in order)
