"""The answer of `clustersim validate` as tables: a title, headings and the rows of each."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final

from clustersim.memory.room import FITTING
from clustersim.render.tables import ResultTable, Rows, percent
from clustersim.units import GIB, counted, format_binary, format_number
from clustersim.validation.answer import Coverage, Validation
from clustersim.validation.outcome import CaseAnswer
from clustersim.validation.summary import ErrorSummary

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
    "throughput_ratio": "x the throughput",
    "expected_max_sigma": "standard deviations",
    "expected_max_over_mean": "mean delays",
    "energy_kj": "kJ a run",
    "power_w": "W",
    "power_mw": "MW",
    "max_w": "W at most",
    "median_w": "W, median",
    "share_of_rated": "of rated power",
    "ettr_formula": "of the time, by formula",
    "ettr_published": "of the time",
    "ettr_min": "of the time, at least",
    "effective_training_time_min": "of the time, at least",
    "interruptions": "interruptions",
    "mttf_h": "h between failures",
    "size_tb": "TB",
    "save_s": "s a save",
    "spares_p99": "nodes",
    "device_hours": "device-hours",
    "period_s_in_phase": "s a step, in phase",
    "period_s_interleaved": "s a step, interleaved",
    "period_s_lower_bound": "s a step, at least",
    "link_load": "of the link",
    "slowdown_lower_bound": "times as long, at least",
    "slowdown_upper_bound": "times as long, at most",
    "expected_busiest_flows": "flows on the busiest cable",
    "expected_busiest_over_mean": "of the mean cable",
    "probability_no_collision": "without collisions",
    "throughput_share": "of the throughput alone",
    "busbw_gbps_before": "Gb/s, before",
    "busbw_gbps_before_max": "Gb/s at most, before",
    "busbw_gbps_after": "Gb/s, after",
    "latency_s": "s a request",
    "ttft_ms": "ms to the first token",
    "tpot_ms": "ms a token",
    "output_tok_s": "output tokens/s",
    "output_tok_s_per_gpu": "output tokens/s/device",
    "input_tok_s_per_gpu": "input tokens/s/device",
}
"""Units of the metrics."""


# --- inference ----------------------------------------------------------------------------------


def metric_rows(answer: Validation) -> Rows:
    """Yield the errors of each metric of inference, and those of its baseline."""
    for errors in answer.metrics:
        other, own = errors.roofline_median_abs_error, errors.same_median_abs_error
        yield (
            UNITS[errors.metric],
            str(errors.count),
            percent(errors.median_abs_error),
            percent(errors.mean_abs_error),
            percent(errors.p90_abs_error),
            percent(errors.bias, "+"),
            "" if other is None or own is None else f"{percent(own)} ({percent(other)})",
        )


METRICS: Final = ResultTable(
    "Inference by metric",
    (
        "metric", ">cases", ">median error", ">mean error", ">90th percentile", ">bias",
        ">dense models (one-line roofline)",
    ),
    metric_rows,
)  # fmt: skip


# --- cases and groups -----------------------------------------------------------------------------


def case_rows(answer: Validation) -> Rows:
    """Yield a row for each gradable case."""
    for case in answer.cases:
        if case.measured is not None and case.predicted is not None and case.error is not None:
            yield (
                case.id,
                format_number(case.measured),
                format_number(case.predicted),
                _unit(case),
                percent(case.error, "+"),
                _memory(case),
                "" if case.gates else "not scored",
            )


def _unit(case: CaseAnswer) -> str:
    unit = UNITS[case.metric or ""]
    both = case.metric == "tflops_per_gpu" and case.convention
    return f"{case.convention} {unit}" if both else unit


def _memory(case: CaseAnswer) -> str:
    if case.memory_predicted is None:
        return ""
    verdict = "" if case.memory_verdict in (None, *FITTING) else case.memory_verdict
    if case.memory_measured is None:
        return verdict
    both = f"{case.memory_measured / GIB:.1f} {case.memory_predicted / GIB:.1f} GiB"
    return ", ".join(filter(None, (both, verdict)))


def group_rows(answer: Validation) -> Rows:
    """Yield a row for each group with a gradable case, and one for all cases."""
    for name, errors in answer.sums:
        if errors.gradable:
            yield (
                name,
                f"{errors.gradable} of {errors.count}",
                str(errors.gating),
                *(_with_baseline(errors, figure) for figure in FIGURES),
                format_share(errors.bias, "+"),
                format_share(errors.mode, "+"),
                named_share(errors.worst, errors.worst_id),
            )


FIGURES: Final = ("mean_abs_error", "median_abs_error", "p90_abs_error")
"""Figures that both the errors of a group and its baseline have."""


def _with_baseline(errors: ErrorSummary, figure: str) -> str:
    """Return a figure of a group, and in brackets that of the best-constant baseline."""
    value = getattr(errors, figure)
    if value is None or errors.constant is None:
        return format_share(value)
    return f"{percent(value)} ({percent(getattr(errors.constant, figure))})"


def layout_rows(answer: Validation) -> Rows:
    """Yield a row for each group with a job that was measured in several layouts."""
    for name, errors in answer.sums:
        ranking = errors.layouts
        if ranking is not None:
            yield (
                name,
                f"{ranking.runs} of {ranking.sets}",
                _correlation(ranking.kendall_tau),
                _correlation(ranking.kendall_tau_group),
                f"{percent(ranking.regret)} ({percent(ranking.blind_regret)})",
                named_share(ranking.worst_regret, ranking.worst_id),
            )


def memory_rows(answer: Validation) -> Rows:
    """Yield a row for each group with measured memory, or a run that is predicted not to fit."""
    for name, errors in answer.sums:
        if errors.memory_count or errors.called_out_of_memory:
            yield (
                name,
                str(errors.memory_count),
                format_share(errors.memory_mean_abs_error),
                format_share(errors.memory_bias, "+"),
                named_share(errors.memory_worst, errors.memory_worst_id),
                str(errors.called_out_of_memory),
            )


def _correlation(tau: float | None) -> str:
    return "" if tau is None else f"{tau:.2f}"


def named_share(share: float | None, name: str | None) -> str:
    """Return a largest error with its case."""
    if share is None:
        return ""
    return f"{percent(share)} {name}" if share else percent(share)


def format_share(share: float | None, sign: str = "") -> str:
    """Return a share in percent; nothing without one."""
    return "" if share is None else percent(share, sign)


def curve_rows(answer: Validation) -> Rows:
    """Yield a row for each measured curve of a collective."""
    for curve in answer.curves:
        worst = curve.worst
        where = f"{format_binary(worst.bytes)} on {worst.devices:,} devices"
        target = "" if curve.bar is None else f"at most {percent(curve.bar)}"
        yield (
            curve.id,
            curve.title,
            str(len(curve.points)),
            percent(curve.mean_abs_error),
            target + (", missed" if curve.holds is False else ""),
            f"{percent(worst.error, '+')} at {where}",
            curve.source,
        )


# --- cases without a grade, and intervals ---------------------------------------------------------


def reason_rows(answer: Validation) -> Rows:
    """Yield a row for each reason, with the cases that have it, and those that have no other."""
    for reason in answer.reasons:
        yield reason.reason, str(reason.cases), str(reason.alone)


def ungradable_rows(answer: Validation) -> Rows:
    """Yield a row for each case that is not gradable, with all reasons."""
    for case in answer.cases:
        if not case.gradable:
            yield case.id, case.why or ""


def coverage_line(coverage: Coverage) -> str:
    """Return the coverage of all cases in a line.

    >>> from clustersim.validation.answer import GroupCoverage
    >>> print(coverage_line(Coverage(0.9, GroupCoverage(40, 37, 0.925, 2, 1.4), {}, {})))
    90 % prediction intervals contain 37 of 40 measured runs (92.5 %); 2 runs have no interval; \
the upper end is 1.40 times the lower one in the median.
    """
    whole = coverage.all
    if not whole.count + whole.without:
        return "No measured run that could have a prediction interval."
    if whole.share is None:
        return f"No prediction interval for {counted(whole.without, 'measured run')}."
    has = "has" if whole.without == 1 else "have"
    without = f"; {counted(whole.without, 'run')} {has} no interval" if whole.without else ""
    inside = f"{whole.inside:,} of {counted(whole.count, 'measured run')}"
    level = f"{100 * coverage.level:g} %"
    width = "" if whole.width is None else f"; {WIDTH.format(whole.width)}"
    share = percent(whole.share)
    return f"{level} prediction intervals contain {inside} ({share}){without}{width}."


def coverage_lines(answer: Validation) -> list[str]:
    """Return the coverage of step times in a line, and that of services in another."""
    services = answer.service_coverage
    of_services = [] if services is None else [f"Services: {coverage_line(services)}"]
    return [coverage_line(answer.coverage), *of_services]


WIDTH: Final = "the upper end is {:.2f} times the lower one in the median"
"""How wide intervals are."""


# --- where the time of a token goes ---------------------------------------------------------------

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
    cases_of: defaultdict[str, list[CaseAnswer]] = defaultdict(list)
    for case in answer.cases:
        if case.parts:
            cases_of[case.group].append(case)
    for group, cases in sorted(cases_of.items()):
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


TOKENS: Final = ResultTable(
    "Where the predicted time of a token goes, mean share of the cases of a group",
    ("group", ">cases", *(f">{kind}" for kind in KINDS)),
    token_rows,
)


# --- all tables ---------------------------------------------------------------------------------

CASES = ResultTable(
    "Cases",
    (
        "case",
        ">measured",
        ">predicted",
        "unit",
        ">error",
        ">memory, measured and predicted",
        "score",
    ),
    case_rows,
)
GROUPS = ResultTable(
    "Groups: absolute errors, in brackets those of the best-constant baseline; bias and mode of the"
    " time, + where predictions are too slow",
    (
        "group",
        ">graded",
        ">scored",
        ">mean",
        ">median",
        ">90th percentile",
        ">bias",
        ">mode",
        ">worst",
    ),
    group_rows,
)
LAYOUTS = ResultTable(
    "Layouts of one job: rank correlation, and the throughput lost by the layout that is predicted"
    " fastest, in brackets the mean loss over all layouts",
    ("group", ">runs of jobs", ">tau", ">tau of group", ">loss", ">largest loss"),
    layout_rows,
)
MEMORY = ResultTable(
    "Memory of a device at its peak: absolute errors; runs that took place and are predicted not to"
    " fit",
    ("group", ">measured", ">mean", ">bias", ">worst", ">predicted not to fit"),
    memory_rows,
)
CURVES = ResultTable(
    "Collectives: errors of the time, over measured curves",
    ("curve", "measured", ">points", ">mean", "target", "worst", "source"),
    curve_rows,
)
REASONS = ResultTable(
    "Cases without a grade, by reason", ("reason", ">cases", ">only reason"), reason_rows
)
UNGRADABLE = ResultTable("Cases without a grade", ("case", "reasons"), ungradable_rows)
_OF_THE_TERMINAL: Final = (
    CASES, UNGRADABLE, CURVES, MEMORY, LAYOUTS, TOKENS, METRICS, GROUPS, REASONS,
)  # fmt: skip

FEW: Final = 30
"""Most cases without a grade that are listed on a terminal."""


def validation_tables(answer: Validation) -> Iterator[tuple[ResultTable, list[tuple[str, ...]]]]:
    """Yield the tables that have rows, the shortest last."""
    for table in _OF_THE_TERMINAL:
        rows = list(table.rows(answer))
        if rows and (table is not UNGRADABLE or len(rows) <= FEW):
            yield table, rows
