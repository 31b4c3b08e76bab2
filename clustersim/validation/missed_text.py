"""What a validation promised and did not reach, as a table: errors, likely cause, what decides."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from clustersim.render.tables import counted, percent

UNREACHED_TITLE: Final = "What could not be reached, the likely cause, and what would decide it"
UNREACHED_HEADINGS: Final = (
    "runs", ">graded", ">mean", "worst", "promised and found", "likely cause",
    "what would decide it",
)  # fmt: skip

REACHED: Final = "reached now: this entry is no longer true"
UNEXPLAINED: Final = "not known"
"""What stands where an entry is out of date, or is missing; a test keeps both off the page."""

SHARES: Final = ("mean", "median", "p90", "regret")
"""Figures that are shown in percent."""


def unreached_rows(answer: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each thing that is told of the runs of ``clustersim validate --json``."""
    for finding in answer["unreached"]:
        mean, worst = finding["mean_abs_error"], finding["worst"]
        yield (
            _runs(finding),
            str(finding["count"]),
            "" if mean is None else percent(mean),
            "" if worst is None else f"{percent(worst)} {finding['worst_id']}",
            REACHED if finding["reached"] else "; ".join(_missed(finding)),
            finding["cause"] or UNEXPLAINED,
            finding["decided_by"] or UNEXPLAINED,
        )


def _runs(finding: Mapping[str, Any]) -> str:
    cases = ", ".join(finding["cases"])
    return f"{finding['group']}: {cases}" if cases else str(finding["group"])


def _missed(finding: Mapping[str, Any]) -> Iterator[str]:
    """Yield each promise that is missed with what was found, and how many runs are far off."""
    whose = len({missed["group"] for missed in finding["missed"]}) > 1
    for missed in finding["missed"]:
        group = f" of {missed['group']}" if whose else ""
        sure = f" of {missed['confidence']} confidence" if missed["confidence"] else ""
        yield f"{missed['figure']}{group}{sure} {_bound(missed)}, is {_figure(missed, 'found')}"
    if finding["far"]:
        far = counted(len(finding["far"]), "run")
        yield f"{far} more than {100 * finding['far_beyond']:g} % off"


def _bound(missed: Mapping[str, Any]) -> str:
    key = "at_least" if missed["at_most"] is None else "at_most"
    return f"{key.replace('_', ' ')} {_figure(missed, key)}"


def _figure(missed: Mapping[str, Any], key: str) -> str:
    return percent(missed[key]) if missed["figure"] in SHARES else f"{missed[key]:.2f}"
