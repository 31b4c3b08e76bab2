r"""Grades of measured inference cases, metric by metric, and those of a one-line baseline.

    static            a batch from its prompts to its last token, in closed form
    agg, disagg       a replay of a fixed number of users, each waiting for its last request
    trace             a replay of random arrivals at the rate of the trace
    offline           a replay of requests that are all there at the start
    one pool alone    its steps, in closed form

Time per token is (latency - first) / (output - 1), without the first token.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import ceil
from typing import Any, Final, NamedTuple

from clustersim.cost.surfaces.formats import FORMATS
from clustersim.errors import CatalogError, ScenarioError
from clustersim.evidence import Traits
from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.formats import WEIGHTS
from clustersim.inference.step_costs import StaticTimes, StepCosts, prompt_seconds, static_times
from clustersim.memory.room import FITS
from clustersim.scenario.traits import service_task, traits_of, weight_bits
from clustersim.simulation.service.serve import serve
from clustersim.validation.cases.reasons import Reason, Ungradable
from clustersim.validation.cases.rows import Row
from clustersim.validation.grading import Grade, graded
from clustersim.validation.inference.cases import (
    STATIC,
    TRACE,
    USERS,
    InferenceCase,
    inference_case,
)
from clustersim.validation.outcome import Outcome, TokenTime
from clustersim.workload.parameters import model_parameters

TIMES: Final = frozenset({"latency_s", "ttft_ms", "tpot_ms"})
"""Metrics of which more is slower."""


class Predicted(NamedTuple):
    """Predictions of a case by metric, in its unit, and where the time of a token goes."""

    metrics: dict[str, float]
    token: TokenTime


def grade_inference_case(case: InferenceCase) -> tuple[list[Grade], TokenTime]:
    """Return the grade of each metric that was measured and is predicted, and the time of a token.

    Raises
    ------
    Ungradable
        when the load cannot be expressed, the weights do not fit, or no metric is predicted.
    """
    mode = case.row.serving.mode or ""
    if mode not in MODES:
        raise Ungradable.because("its load needs a replay of requests", f"load '{mode}'")
    memory = case.costs.memory
    if not memory.fits:
        detail = f"exceeds the memory of a device by {memory.missing / 1e9:.1f} GB"
        raise Ungradable.because("predicted not to fit", detail)
    predicted, measured = MODES[mode](case), case.row.measured
    grades = [
        graded(metric, float(value), predicted.metrics[metric], is_time=metric in TIMES)
        for metric in predicted.metrics
        if (value := getattr(measured, metric)) is not None
    ]
    if not grades:
        raise Ungradable.because("no measured time or throughput", "no metric is predicted")
    return grades, predicted.token


def inference_outcome(row: Row) -> Outcome:
    """Return the outcome of a row: scored unless its source is of low confidence."""
    outcome = Outcome(row.id, row.group, confidence=row.source.confidence, is_inference=True)
    try:
        case = inference_case(row)
        [graded, *others], token = grade_inference_case(case)
    except Ungradable as problem:
        return replace(outcome, reasons=problem.reasons)
    except (ScenarioError, CatalogError) as problem:
        text = "; ".join(str(problem).splitlines())
        return replace(outcome, reasons=(Reason("invalid layout", text),))
    return replace(
        outcome,
        grade=graded,
        others=tuple(others),
        scored=row.source.confidence in ("high", "medium"),
        accelerator=case.costs.replica.kernels.device.name,
        cluster=case.cluster,
        layout={"engine": case.engine, **case.scenario["plan"]},
        assumed=case.assumed,
        devices=case.costs.replica.layout.devices,
        memory_verdict=FITS,  # else it is not gradable
        baselines=_baselines(case),
        token=token,
        model=case.row.model or "",
        traits=_traits(case),
    )


def _traits(case: InferenceCase) -> Traits:
    """Return what makes a case like other services."""
    replica, load = case.costs.replica, case.row.serving
    devices = replica.layout.devices * case.replicas
    return traits_of(
        replica.kernels.device,
        replica.model,
        machine=case.cluster,
        software=case.engine,
        task=service_task(LOADS.get(load.mode or "", "batch"), pools=load.prefill is not None),
        bits=weight_bits(replica.formats.weights),
        devices=devices,
        nodes=-(-devices // replica.links.cluster.node.devices),
    )


def _baselines(case: InferenceCase) -> dict[str, float]:
    """Return the errors of the one-line roofline, by metric."""
    return {
        metric: predicted / value - 1
        for metric, predicted in baseline_predictions(case).items()
        if (value := getattr(case.row.measured, metric)) is not None
    }


# --- loads ----------------------------------------------------------------------------------------


def _static(case: InferenceCase) -> Predicted:
    users, devices = case.users or 1, case.costs.replica.layout.devices
    times = static_times(case.costs, users, case.prompt, case.output)
    produced = users * case.output / times.latency
    metrics = {
        "latency_s": times.latency,
        "ttft_ms": 1e3 * times.first,
        "output_tok_s_per_gpu": produced / devices,
        "output_tok_s": produced,
    }
    return Predicted(metrics, static_token(case.costs, users, case.prompt, case.output, times))


def _steady(case: InferenceCase) -> Predicted:
    """Replay users from the moment when all of them begin."""
    users = case.users or 1
    load = {
        "concurrency": users,
        "input": case.prompt,
        "output": case.output,
        "lengths": case.lengths,
        "requests": min(OF_A_USER * users, MOST_REQUESTS),
        "warm_up": 0,
    }
    return _replayed(case, load)


def _arriving(case: InferenceCase) -> Predicted:
    """Replay requests that arrive at random."""
    arrivals = case.arrivals
    assert arrivals is not None, "a trace has arrivals"
    load = {
        "rate": arrivals.rate,
        "requests": arrivals.requests,
        "input": case.prompt,
        "output": case.output,
        "lengths": case.lengths,
        "warm_up": 0,
    }
    return _replayed(case, load)


def _offline(case: InferenceCase) -> Predicted:
    """Replay requests that are all there at the start, whole rounds of those that fit at once.

    All have the same lengths: a round that is filled in part would take as long as a whole one.
    """
    memory = case.costs.memory
    room = memory.tokens // (case.prompt + case.output + memory.state)
    most = case.costs.replica.layout.pipeline * case.costs.replica.engine.scheduler.sequences
    together = max(1, min(room, most))
    rounds = min(max(ROUNDS, ceil(LEAST_REQUESTS / together)), MOST_OFFLINE // together)
    count = max(1, rounds) * together
    return _replayed(case, {"offline": count, "input": case.prompt, "output": case.output})


def _replayed(case: InferenceCase, load: Mapping[str, Any]) -> Predicted:
    answer = serve({**case.scenario, "load": load}).answer
    if answer.tpot_s is None or answer.ttft_s is None or answer.output_tokens_per_s is None:
        raise Ungradable.because("predicted not to fit", "no KV cache for its requests")
    metrics = {
        "tpot_ms": 1e3 * answer.tpot_s.mean,
        "ttft_ms": 1e3 * answer.ttft_s.mean,
        "output_tok_s": answer.output_tokens_per_s,
    }
    token = _of(case.costs, answer.attribution, answer.counts.mean_batch)
    return Predicted(metrics, token)


OF_A_USER: Final = 10
"""Requests of each user in the benchmark of InferenceX."""

MOST_REQUESTS: Final = 1_500
"""Most replayed requests of users."""

LEAST_REQUESTS: Final = 200
MOST_OFFLINE: Final = 30_000
ROUNDS: Final = 2
"""Bounds of replayed requests of an offline load, and how often they fill the cache at least; the
median error of 25 measured runs is 6 % with 2 rounds and with 8."""


def _decoding(case: InferenceCase) -> Predicted:
    """Return the throughput of a device whose users all have `prompt` cached tokens."""
    layout, users = case.costs.replica.layout, case.users or 1
    whole = users * layout.attention_data
    batch = Batch(whole, whole * case.prompt)
    rate = whole / layout.devices / case.costs.seconds(batch)
    return Predicted({"output_tok_s_per_gpu": rate}, step_time(case.costs, batch))


def _prefilling(case: InferenceCase) -> Predicted:
    """Return the throughput of a device with as many prompts as a step takes."""
    layout = case.costs.replica.layout
    each = max(1, PROMPT_TOKENS // case.prompt)
    count = each * layout.attention_data
    batch = Batch(0, 0, (Prompt(case.prompt),) * count)
    rate = count * case.prompt / layout.devices / case.costs.seconds(batch)
    return Predicted({"input_tok_s_per_gpu": rate}, step_time(case.costs, batch))


PROMPT_TOKENS: Final = 16_384
"""Prompt tokens of a device in a step of a pool of its own: deepseek-ai/profile-data, README."""

MODES: Final[Mapping[str, Callable[[InferenceCase], Predicted]]] = {
    STATIC: _static,
    USERS: _steady,
    TRACE: _arriving,
    "offline_max_load": _offline,
    "disagg": _steady,
    "disagg_decode": _decoding,
    "disagg_prefill": _prefilling,
}
"""Predictions by the word that a case has for its load."""

LOADS: Final[Mapping[str, str]] = {
    STATIC: "batch",
    USERS: "concurrency",
    TRACE: "trace",
    "offline_max_load": "offline",
    "disagg": "concurrency",
}
"""Kinds of loads of these words; of one pool alone, a batch."""


# --- where the time of a token goes, by cause ----------------------------------------------------


def step_time(costs: StepCosts, batch: Batch) -> TokenTime:
    """Return the time of a step."""
    return _of(costs, costs.step(batch).parts, batch.sequences)


def static_token(
    costs: StepCosts, users: int, prompt: int, output: int, times: StaticTimes
) -> TokenTime:
    """Return the latency of a static batch over its output tokens, or its only token.

    Steps that decode have the parts of those of mean length, scaled to their mean time.
    """
    before = {"frontend": costs.replica.engine.first}
    if output == 1:
        prompts = costs.step(Batch(0, 0, (Prompt(prompt),) * users)).parts
        rest = times.latency - costs.replica.engine.first
        return _of(costs, before | _scaled(prompts, rest), users)
    decoding = costs.step(Batch(users, round(users * (prompt + output / 2)))).parts
    before["prompts"] = prompt_seconds(costs, users, prompt)
    parts = _scaled(decoding, (output - 1) * times.token)
    whole = {name: seconds / output for name, seconds in (parts | before).items()}
    return _of(costs, whole, users)


def _of(costs: StepCosts, parts: Mapping[str, float], sequences: float) -> TokenTime:
    model, layout = costs.replica.model, costs.replica.layout
    each = 1 if model.parallel_block else 2
    reduces = each * model.layers if layout.tensor > 1 else 0
    shown = {name: seconds for name, seconds in parts.items() if seconds}
    return TokenTime(shown, sequences, model.layers, reduces)


def _scaled(parts: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Return parts that add up to a time [s]."""
    total = sum(parts.values())
    return {name: seconds * part / total for name, part in parts.items()}


# --- a one-line baseline --------------------------------------------------------------------------

COMPUTE: Final = 0.78
"""Share of peak of large products, between 0.57 and 0.84 on six accelerators."""

MEMORY: Final = 0.82
"""Share of bandwidth at which products of up to 16 tokens read their weights, 0.75 to 0.83."""


PRODUCT: Final = 4e-6
ATTENTION: Final = 9e-6
REDUCE: Final = 5e-6
"""Shortest times of these kernels on accelerators from A100 to B200 [s]."""


def baseline_predictions(case: InferenceCase) -> dict[str, float]:
    """Return the baseline of each metric that it predicts, in its unit; none with experts.

    Nothing is predicted for loads of several pools, and for those without a number of users.
    """
    replica, users = case.costs.replica, case.users
    mode = case.row.serving.mode
    if replica.model.experts is not None or users is None or mode not in (USERS, STATIC):
        return {}
    device, formats = replica.kernels.device, replica.formats
    devices = replica.layout.tensor * replica.layout.attention_data
    peak = device.peak_rate(FORMATS[formats.kernel("mlp", device)].peak) * devices * COMPUTE
    bandwidth = device.memory_bandwidth * devices * MEMORY
    count = model_parameters(replica.model)
    cached = case.costs.memory.token * users * (case.prompt + case.output / 2)
    moved = (WEIGHTS[formats.weights] * count + cached) / bandwidth
    decoding = max(2 * count * users / peak, moved)
    reduces = 2 * REDUCE if replica.layout.tensor > 1 else 0.0
    shortest = replica.model.layers * (4 * PRODUCT + ATTENTION + reduces)
    prompts = users * 2 * count * case.prompt / peak
    if mode == USERS:
        return {"tpot_ms": 1e3 * (shortest + decoding + prompts / case.output)}
    first = shortest + prompts
    latency = first + (case.output - 1) * (shortest + decoding)
    produced = users * case.output / latency
    return {
        "latency_s": latency,
        "ttft_ms": 1e3 * first,
        "output_tok_s": produced,
        "output_tok_s_per_gpu": produced / replica.layout.devices,
    }
