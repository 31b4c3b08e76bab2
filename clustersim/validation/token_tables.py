"""Where the predicted time of a token goes, as a table of groups of measured inference."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from clustersim.render.tables import percent
from clustersim.validation.answer import Validation
from clustersim.validation.outcome import CaseAnswer
from clustersim.validation.result_tables import Rows, Table

KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "products": ("weights", "compute", "draft"),
    "experts": ("experts",),
    "KV cache": ("kv",),
    "prompts": ("prompts", "prefill"),
    "passes, sampling": ("elementwise", "sampling"),
    "communication": ("tensor", "expert", "context", "pipeline", "transfer"),
    "host": ("host", "frontend"),
    "waiting": ("waiting", "queue"),
}
"""Causes of the time of a token, by column."""


def token_rows(answer: Validation) -> Rows:
    """Yield the mean shares of each group, over its graded cases."""
    found: defaultdict[str, list[CaseAnswer]] = defaultdict(list)
    for case in answer.cases:
        if case.parts:
            found[case.group].append(case)
    for group, cases in sorted(found.items()):
        shares = (percent(share) for share in _shares(cases).values())
        yield group, str(len(cases)), *shares


def _shares(cases: Sequence[CaseAnswer]) -> dict[str, float]:
    return {
        kind: fmean(
            sum(case.parts.get(name, 0.0) for name in names) / sum(case.parts.values())
            for case in cases
        )
        for kind, names in KINDS.items()
    }


TOKENS: Final = Table(
    "Where the predicted time of a token goes, mean share of the cases of a group",
    ("group", ">cases", *(f">{kind}" for kind in KINDS)),
    token_rows,
)
