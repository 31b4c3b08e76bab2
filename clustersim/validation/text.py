"""Measured cases beside their predictions, as tables: by case, by group, and what is left out.

The tables are made from the plain values of `clustersim validate --json`, so whatever has those can
draw them: a terminal, a page, the documentation.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from clustersim.render.tables import number, percent
from clustersim.units import GIB, format_binary
from clustersim.validation.coverage_text import (
    COVERAGE_HEADINGS,
    COVERAGE_TITLE,
    coverage_line,
    coverage_rows,
)
from clustersim.validation.missed_text import UNREACHED_HEADINGS, UNREACHED_TITLE, unreached_rows

Values = Mapping[str, Any]

UNITS: Final = {
    "step_time_s": "s a step",
    "tokens_per_s_per_gpu": "tokens/s/device",
    "tflops_per_gpu": "TFLOP/s/device",
    "mfu_pct": "% MFU",
    "hfu_pct": "% HFU",
    "samples_per_s": "sequences/s",
    "run_time_s": "s a run",
    "layer_total_ms": "ms a layer",
    "layer_forward_ms": "ms a layer, forward",
    "layer_backward_ms": "ms a layer, backward",
    "memory_gb_per_gpu": "GB, memory only",
}
"""What the numbers of a metric are in."""


class Table(NamedTuple):
    """A table: its title, its headings (``>`` before those of numbers) and its rows."""

    title: str
    headings: tuple[str, ...]
    rows: Callable[[Values], Iterator[tuple[str, ...]]]


def case_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each gradable case."""
    for case in answer["cases"]:
        if case["gradable"]:
            yield (
                case["id"],
                number(case["measured"]),
                number(case["predicted"]),
                _metric(case),
                percent(case["error"], "+"),
                _memory(case),
                "" if case["gates"] else "informs only",
            )


def group_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each group with a gradable case, and one for all cases."""
    for name, sums in [*answer["groups"].items(), ("all", answer["all"])]:
        if sums["gradable"]:
            yield (
                name,
                f"{sums['gradable']} of {sums['count']}",
                str(sums["gating"]),
                *(_beside_constant(sums, figure) for figure in FIGURES),
                _share(sums["bias"], "+"),
                _named(sums["worst"], sums["worst_id"]),
            )


FIGURES: Final = ("mean_abs_error", "median_abs_error", "p90_abs_error")
"""Figures of a group that the best constant has as well."""


def _beside_constant(sums: Values, figure: str) -> str:
    """Return a figure of a group, and in brackets what the best constant scores."""
    if sums[figure] is None or sums["constant"] is None:
        return _share(sums[figure])
    return f"{percent(sums[figure])} ({percent(sums['constant'][figure])})"


def layout_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each group with a job that was measured in several layouts."""
    for name, sums in [*answer["groups"].items(), ("all", answer["all"])]:
        found = sums["layouts"]
        if found is not None:
            yield (
                name,
                f"{found['runs']} of {found['sets']}",
                _correlation(found["kendall_tau"]),
                _correlation(found["kendall_tau_group"]),
                f"{percent(found['regret'])} ({percent(found['blind_regret'])})",
                _named(found["worst_regret"], found["worst_id"]),
            )


def _correlation(tau: float | None) -> str:
    return "" if tau is None else f"{tau:.2f}"


def _named(share: float | None, name: str | None) -> str:
    """Return a largest error and the case that it is of."""
    if share is None:
        return ""
    return f"{percent(share)} {name}" if share else percent(share)


def memory_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each group with measured memory, or a run that is said not to fit."""
    for name, sums in [*answer["groups"].items(), ("all", answer["all"])]:
        if sums["memory_count"] or sums["called_out_of_memory"]:
            yield (
                name,
                str(sums["memory_count"]),
                _share(sums["memory_mean_abs_error"]),
                _share(sums["memory_bias"], "+"),
                _named(sums["memory_worst"], sums["memory_worst_id"]),
                str(sums["called_out_of_memory"]),
            )


def claim_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each number of each claim; what it says and its source in its first."""
    for claim in answer["claims"]:
        said = str(claim["number"]), claim["claim"], claim["source"]
        why = claim["why"]
        for each in claim["numbers"]:
            found = each["predicted"]
            yield (
                *said[:2],
                each["name"],
                _expected(each),
                "" if found is None else f"{number(found)} {each['unit']}".rstrip(),
                VERDICTS[each["holds"]] if claim["why"] is None else why,
                said[2],
            )
            said, why = ("", "", ""), ""


VERDICTS: Final = {True: "holds", False: "missed"}
"""Whether a number of a claim is what it expects, in words."""


def _expected(claimed: Values) -> str:
    """Return what a claim expects: a number with its tolerance, or a bound."""
    unit = f" {claimed['unit']}".rstrip()
    if claimed["at_least"] is not None:
        return f"at least {number(claimed['at_least'])}{unit}"
    if claimed["at_most"] is not None:
        return f"at most {number(claimed['at_most'])}{unit}"
    if claimed["relative"] is not None:
        return f"{number(claimed['value'])}{unit} ± {percent(claimed['relative'])}"
    return f"{number(claimed['value'])} ± {claimed['within']:.3g}{unit}"


def curve_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each measured curve of a collective."""
    for curve in answer["curves"]:
        worst = max(curve["points"], key=lambda point: abs(point["error"]))
        where = f"{format_binary(worst['bytes'])} on {worst['devices']:,} devices"
        promise = "" if curve["bar"] is None else f"at most {percent(curve['bar'])}"
        yield (
            curve["id"],
            curve["title"],
            str(len(curve["points"])),
            percent(curve["mean_abs_error"]),
            promise + ("" if curve["holds"] in (None, True) else ", missed"),
            f"{percent(worst['error'], '+')} at {where}",
            curve["source"],
        )


def ungradable_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each reason: how many cases have it, and how many of them no other."""
    for reason in answer["reasons"]:
        yield reason["reason"], str(reason["cases"]), str(reason["alone"])


def refused_rows(answer: Values) -> Iterator[tuple[str, ...]]:
    """Yield a row for each case that is not gradable, with all that stands against it."""
    for case in answer["cases"]:
        if not case["gradable"]:
            yield case["id"], case["why"]


CASES = Table(
    "Cases",
    ("case", ">measured", ">predicted", "in", ">error", ">memory, measured and predicted", ""),
    case_rows,
)
GROUPS = Table(
    "Groups: absolute errors, in brackets those of the best constant throughput; bias is that of"
    " the time, + where predictions are too slow",
    ("group", ">graded", ">gating", ">mean", ">median", ">9 of 10 within", ">bias", ">worst"),
    group_rows,
)
LAYOUTS = Table(
    "Layouts of one job: their ranks, and the throughput lost by taking the first of ours, in"
    " brackets by taking any",
    ("group", ">runs of jobs", ">tau", ">tau of group", ">lost", ">most lost, with"),
    layout_rows,
)
MEMORY = Table(
    "Memory of a device at its peak: absolute errors; runs that took place and are said not to fit",
    ("group", ">measured", ">mean", ">bias", ">worst", ">said not to fit"),
    memory_rows,
)
CLAIMS = Table(
    "Claims of papers and articles",
    ("", "claim", "number", "published", "predicted", "verdict", "source"),
    claim_rows,
)
CURVES = Table(
    "Collectives: errors of the time, over measured curves",
    ("curve", "what", ">points", ">mean", "promised", "worst", "measured in"),
    curve_rows,
)
UNGRADABLE = Table("Not gradable, because", ("reason", ">cases", ">only this"), ungradable_rows)
UNREACHED = Table(UNREACHED_TITLE, UNREACHED_HEADINGS, unreached_rows)
REFUSED = Table("Not gradable, case by case", ("case", "because"), refused_rows)

INTRODUCTION: Final = """# Validation

Measured training runs beside what clustersim predicts for them, printed by `clustersim validate`.
Errors are of the metric that the source prints.
A bias of +5 % means that predicted steps take 5 % longer.
In brackets stands a rival that knows nothing: one constant throughput of all devices of a group.
It is the best constant for these very runs; a group of one run has none.
Some jobs were measured in several layouts: tau of 1 means that all are put in their order.
What is lost there is throughput, by taking the layout that is predicted fastest.
Memory that was measured is compared apart, and whether a run that took place is said to fit.
What was promised and is not reached stands with its likely cause, and with what would decide it.
Claims hold where each of their numbers is within its tolerance.
The tables of collectives stand beside them: measured curves by size and by number of devices.
Cases that *inform only* are of low confidence, or lack settings that had to be assumed.
What a coefficient was fitted to stands beside it, in `topologies/` and `workloads/`.
"""
"""What stands above the tables; one sentence a line."""

FEW: Final = 30
"""As many refused cases are shown one by one on a terminal."""


def for_terminal(answer: Values) -> Iterator[tuple[Table, list[tuple[str, ...]]]]:
    """Yield the tables that have rows, the shortest answer last, where a terminal stops."""
    for table in (CASES, REFUSED, CURVES, CLAIMS, MEMORY, LAYOUTS, GROUPS, UNGRADABLE):
        rows = list(table.rows(answer))
        if rows and (table is not REFUSED or len(rows) <= FEW):
            yield table, rows


def to_markdown(answer: Values) -> str:
    """Return all tables as a page of Markdown, the shortest answer first."""
    parts = [INTRODUCTION]
    for table in (GROUPS, UNREACHED, LAYOUTS, MEMORY, CLAIMS, CURVES, UNGRADABLE, CASES, REFUSED):
        rows = list(table.rows(answer))
        if rows:
            parts.append(f"## {table.title}\n\n{_markdown(table.headings, rows)}")
    parts.append(_intervals(answer["coverage"]))
    return "\n".join(parts)


def _intervals(coverage: Values) -> str:
    """Return how often intervals hold, as a section of the page: in all, and by group."""
    table = _markdown(COVERAGE_HEADINGS, list(coverage_rows(coverage)))
    return f"## {COVERAGE_TITLE}\n\n{coverage_line(coverage)}\n\n{table}"


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---:" if heading.startswith(">") else "---" for heading in headings]
    lines = [[heading.lstrip(">") for heading in headings], rule]
    lines += [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _metric(case: Values) -> str:
    unit = UNITS[case["metric"]]
    told = case["metric"] == "tflops_per_gpu" and case["convention"]
    return f"{case['convention']} {unit}" if told else unit


def _memory(case: Values) -> str:
    if case["memory_predicted"] is None:
        return ""
    if case["memory_measured"] is None:
        return "" if case["fits"] else "predicted not to fit"
    both = (case["memory_measured"] / GIB, case["memory_predicted"] / GIB)
    return f"{both[0]:.1f} {both[1]:.1f} GiB" + ("" if case["fits"] else ", does not fit")


def _share(share: float | None, sign: str = "") -> str:
    return "" if share is None else percent(share, sign)
