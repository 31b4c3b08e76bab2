r"""A log next to the prediction of its scenario: normal, slow or fast, and what may explain it.

    log --steps--> median      scenario --run--> step time, interval
                        `--verdict--'
    scenario x causes --run--> step times --likelihood of the median--> causes

The interval of a predicted step time is that of measured runs; on a logarithmic scale its half
:math:`h` becomes :math:`\sqrt{h^2 + (z e)^2}` with the standard error e of the median and z = 1.645
for the level of 90 %.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import exp, hypot, log
from pathlib import Path
from typing import Any, Final, Literal, Unpack

from clustersim.answers import Presentable, record
from clustersim.catalog.changes import Settings
from clustersim.catalog.tree import bare
from clustersim.errors import ScenarioError
from clustersim.importers.logs.formats import LOGS
from clustersim.importers.logs.services import Benchmark, benchmark_of
from clustersim.importers.logs.steps import Log, read_log, steps_of
from clustersim.metrics.prediction_interval import Interval, shipped_errors
from clustersim.runs.arguments import check as check_loaded
from clustersim.runs.arguments import settings_of, study_of, variant_of
from clustersim.runs.execution import Execution, run_study
from clustersim.runs.table import Numbers
from clustersim.runs.variants import Variant
from clustersim.scenario.load import Loaded, LoadedJob, LoadedService, one_job
from clustersim.scenario.schema import Scenario
from clustersim.scenario.traits import step_traits
from clustersim.simulation.service.answer import ServeAnswer
from clustersim.simulation.step.answer import RunAnswer
from clustersim.studies.check.anchor import AnchorAnswer, Question, answer_of
from clustersim.studies.check.causes import (
    Base,
    Cause,
    candidates_of,
    exceeds,
    ranked,
)
from clustersim.studies.check.conventions import SPARSE, Convention, conventions_of
from clustersim.studies.check.measured import LogSummary, Work, measure
from clustersim.studies.compare import required

Verdict = Literal["normal", "slow", "fast", "unknown"]

CENTRAL: Final = 0.75
"""Share of measured runs that bounds their central half, in which no cause is sought."""


@record
class CheckAnswer(Presentable):
    """A log next to the prediction of its scenario.

    Attributes
    ----------
    verdict : `normal`, `slow` or `fast` by the interval; `unknown` where there is none
    name : of the scenario
    title : of the scenario
    file : the log, or the result of a benchmark
    measured : what it states, by measure, in SI units: the median of the steady steps
    predicted : the same measures of the scenario
    slower_than : share of the measured runs of the interval that were not as slow, each over its
        prediction; null where an anchor narrows the interval, and without one
    interval : step times that are normal: of measured runs, widened by the standard error of the
        log; null of a service
    conventions : how the log counts FLOPs and the peak of its MFU
    causes : what may explain a longer time, the most likely first; none where it `agrees`
    log : what the log is made of; null of a service
    anchor : factors on the catalogue's values that explain the log, where they are requested
    """

    verdict: Verdict
    name: str
    title: str
    file: str
    measured: Numbers
    predicted: Numbers
    interval: Interval | None
    conventions: tuple[Convention, ...] = ()
    causes: tuple[Cause, ...] = ()
    log: LogSummary | None = None
    anchor: AnchorAnswer | None = None
    slower_than: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether it is normal, and in the central half of these runs."""
        return agrees(self.verdict, self.slower_than)


def check(
    log_file: str | Path,
    *,
    scenario: str | Path | Mapping[str, Any],
    settings: Settings = (),
    anchor: bool = False,
    **execution: Unpack[Execution],
) -> CheckAnswer:
    """Compare a log of training, or the result of a serving benchmark, with the prediction.

    Parameters
    ----------
    log_file : log or result; its format is found by its content
    scenario : file or name of a shipped scenario, or a launch file; ``"A plan.zero=1"`` is A with a
        change; or its keys and values as a dict
    settings : changes of the scenario, ``["plan.zero=1"]`` or ``{"plan.zero": 1}``
    anchor : whether factors on the catalogue's values are fitted to the log, for other scenarios of
        the job
    store : run cache (SQLite); in memory if None
    jobs : number of processes; one per core if None
    executor : address of a Dask cluster to run on instead: ``dask://HOST:PORT``, ``dask:FILE.yaml``
    on_progress : called with the number of runs that are done, and of all

    Raises
    ------
    ScenarioError, CatalogError
        when the log or the scenario is invalid, or one is of training and the other of a service.
    SimulationError
        when the run of the scenario failed.
    """
    variant = variant_of(scenario, settings_of(settings))
    loaded = one_job(variant.load_any())
    read = _read(Path(log_file))
    if isinstance(loaded, LoadedService):
        if isinstance(read, Log):
            raise _other_kind(read, "a log of training", loaded, "a serving scenario")
        if anchor:
            raise ScenarioError(f"{loaded.name}: a service has no anchor (leave out --anchor)")
        return _service(read, variant, loaded, execution)
    if isinstance(read, Benchmark):
        raise _other_kind(read, "the result of a serving benchmark", loaded, "of training")
    checked = _step(read, variant, loaded, execution)
    return _anchored(checked, variant, loaded, execution) if anchor else checked


def _read(path: Path) -> Log | Benchmark:
    """Return the steps of a log, or the result of a benchmark."""
    source = read_log(path)
    read = steps_of(source) or benchmark_of(source)
    if read is None:
        raise ScenarioError(
            f"{source.file}: no steps found (known are the logs of {', '.join(LOGS)}, and the JSON"
            " of serving benchmarks)"
        )
    return read


def _other_kind(read: Log | Benchmark, what: str, loaded: LoadedJob, kind: str) -> ScenarioError:
    return ScenarioError(
        f"{read.file}: is {what} ({read.format}), and {loaded.name} is {kind} (--scenario: name the"
        " scenario that the log is of)"
    )


def _run(variant: Variant, loaded: LoadedJob, execution: Execution) -> Any:
    """Return the answer of the scenario itself."""
    check_loaded(loaded)
    study = study_of("check", loaded.name, loaded.scenario.title, [variant])
    return required(loaded.name, run_study(study, [variant], **execution)[0])


def _service(
    read: Benchmark, variant: Variant, loaded: LoadedService, execution: Execution
) -> CheckAnswer:
    answer: ServeAnswer = _run(variant, loaded, execution)
    numbers = answer.measures()
    return CheckAnswer(
        verdict="unknown",
        name=answer.name,
        title=answer.title,
        file=read.file,
        measured=read.measures,
        predicted={name: numbers[name] for name in read.measures if name in numbers},
        interval=None,
    )


def _step(read: Log, variant: Variant, loaded: Loaded, execution: Execution) -> CheckAnswer:
    batch = loaded.scenario.batch
    work = Work(batch.tokens, batch.global_, loaded.scenario.devices)
    summary, measured = measure(read, work)
    stated = measured.pop("batch", batch.global_)
    if stated != batch.global_:
        raise ScenarioError(
            f"{read.file}: its global batch is {stated:g}, and {loaded.name} has {batch.global_}"
            f" (--set batch.global={stated:g})"
        )
    answer: RunAnswer = _run(variant, loaded, execution)
    interval = widened(answer.interval, answer.step_time_s, summary.error or 0.0)
    conventions = conventions_of(measured, answer)
    seconds = measured["step_time_s"]
    causes: tuple[Cause, ...] = tuple(_peaks(conventions))
    verdict = verdict_of(seconds, interval)
    share = _slower_than(seconds / answer.step_time_s, loaded.scenario)
    if exceeds(seconds, answer.step_time_s, summary.error) and not agrees(verdict, share):
        base = Base(answer, bare(loaded.tree.data.get("disturbances", [])))
        candidates = candidates_of(base)
        sizes = [size.settings for candidate in candidates for size in candidate.sizes]
        times = _times(variant, loaded, sizes, execution)
        causes = (*causes, *ranked(seconds, summary.error, base, candidates, times))
    numbers = answer.measures()
    alike = {each.quantity: each.predicted for each in conventions if each.predicted is not None}
    return CheckAnswer(
        verdict=verdict,
        name=answer.name,
        title=answer.title,
        file=read.file,
        measured=measured,
        predicted={name: numbers[name] for name in measured if name in numbers} | alike,
        interval=interval,
        conventions=conventions,
        causes=causes,
        log=summary,
        slower_than=share,
    )


def agrees(verdict: Verdict, share: float | None) -> bool:
    """Return whether a normal step is slower than neither few nor most of the measured runs."""
    return verdict == "normal" and share is not None and 1 - CENTRAL <= share <= CENTRAL


def _slower_than(ratio: float, scenario: Scenario) -> float | None:
    """Return the share of measured runs whose step took less, relative to its prediction."""
    if scenario.anchor is not None:
        return None
    return shipped_errors().share_faster(step_traits(scenario), ratio)


def _peaks(conventions: Sequence[Convention]) -> list[Cause]:
    """Return the cause of an MFU that looks low and is not."""
    return [
        Cause(
            "no loss: the logged MFU is over the sparse peak",
            0.0,
            "the peak in the program (hardware FLOPs of the device): the dense one is half of it",
            None,
            (),
        )
        for convention in conventions
        if convention.name == SPARSE
    ]


def _times(
    variant: Variant,
    loaded: Loaded,
    changes: Sequence[tuple[str, ...]],
    execution: Execution,
) -> dict[tuple[str, ...], float]:
    """Return the step time with each of some changes with which the scenario can be run."""
    every = [
        replace(
            variant, settings=(*variant.settings, *settings), point={"change": " ".join(settings)}
        )
        for settings in changes
    ]
    study = study_of("check", loaded.name, loaded.scenario.title, every)
    runs = run_study(study, every, **execution)
    return {
        settings: run.step.step_time_s
        for settings, run in zip(changes, runs, strict=True)
        if run.step is not None
    }


def _anchored(
    checked: CheckAnswer, variant: Variant, loaded: Loaded, execution: Execution
) -> CheckAnswer:
    """Return a check with the anchor of its log."""
    assert checked.log is not None, "only logs of training are anchored"
    question = Question(loaded.scenario, _run(variant, loaded, execution))
    slopes = question.slopes(_times(variant, loaded, [*question.settings.values()], execution))
    normal = checked.verdict in ("normal", "unknown")
    seconds = checked.measured["step_time_s"]
    anchor = question.anchor(question.logged(checked.log, seconds, slopes, normal=normal))
    changes = question.changes(anchor)
    predicted = question.answer.step_time_s
    if changes:
        predicted = _times(variant, loaded, [changes], execution)[changes]
    return replace(checked, anchor=answer_of(anchor, predicted))


def widened(interval: Interval, predicted: float, error: float) -> Interval:
    """Return the interval of a median with a relative standard error.

    >>> interval = Interval(8.0, 12.5, 0.9, 12, "12 measured runs")
    >>> widened(interval, 10.0, 0.0), widened(interval, 10.0, 0.2).high_s
    (Interval(low_s=8, high_s=12.5, level=0.9, rows=12, why='12 measured runs'), 14.88...)
    """
    if interval.low_s is None or interval.high_s is None:
        return interval
    below, above = (
        hypot(log(limit / predicted), interval.quantile * error)
        for limit in (interval.low_s, interval.high_s)
    )
    return replace(interval, low_s=predicted * exp(-below), high_s=predicted * exp(above))


def verdict_of(seconds: float, interval: Interval) -> Verdict:
    """Return whether a step time is normal; unknown where nothing was measured."""
    if interval.low_s is None or interval.high_s is None:
        return "unknown"
    if seconds > interval.high_s:
        return "slow"
    return "fast" if seconds < interval.low_s else "normal"
