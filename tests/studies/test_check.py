"""Check: logs made from predicted steps, with noise and one planted fault, are told apart."""

import json
import random
from functools import cache
from math import exp, log

import pytest

import clustersim
from clustersim.errors import CatalogError
from clustersim.metrics.prediction_interval import ErrorsByNearness, Interval, shipped_errors
from clustersim.scenario.load import from_mapping
from clustersim.scenario.traits import step_traits
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.check.answer import CheckAnswer, verdict_of, widened
from clustersim.studies.check.causes import DELAYS, OPTIONS, SHARES, Cause
from clustersim.studies.check.text import finding, rows
from commands import output, printed, rejected

LLAMA = {
    "title": "Llama 3 8B on 16 H100",
    "cluster": {"name": "dgx-h100", "nodes": 2},
    "model": "llama3-8b",
    "plan": {"tensor": 2, "pipeline": 1, "data": 8, "sequence_parallel": True, "zero": 1},
    "batch": {"global": 32, "micro": 1, "sequence": 4096},
    "precision": "bf16",
    "framework": "megatron-core",
}
GPT = {
    "title": "GPT 22B on 32 A100",
    "cluster": {"name": "selene", "nodes": 4},
    "model": "gpt-22b",
    "plan": {"tensor": 8, "pipeline": 1, "data": 4, "sequence_parallel": True, "zero": 1},
    "batch": {"global": 16, "micro": 1, "sequence": 2048},
    "precision": "bf16",
    "recompute": "selective",
    "framework": "megatron-core",
}
SCENARIOS = {"llama": LLAMA, "gpt": GPT}
FAULTS = ("link", "device", "host", "overlap", "sparse")
VISIBLE = 0.07
"""Share of the step that a planted fault costs at least: with less it agrees with predictions."""

WORDS = {
    "link": "link ",
    "device": "a slow device",
    "host": "a late host",
    "overlap": "no overlap of gradients",
    "sparse": "no loss: the logged MFU",
    "none": "none of these",
}


@cache
def base(name):
    """Return the answer of a scenario without a fault."""
    return simulate(from_mapping(name, SCENARIOS[name], ())).answer


@cache
def step_time(name, fault):
    """Return the step time of a scenario with the settings of a fault."""
    return simulate(from_mapping(name, SCENARIOS[name], [fault])).answer.step_time_s


def disturbed(**values):
    return f"disturbances={json.dumps([values])}"


def planted(name, fault, rng):
    """Return the step time of a scenario with a fault of random size, and its MFU's peak."""
    links = sorted({limit.link for limit in base(name).limits.values()})
    draw = {
        "link": lambda: disturbed(
            type="slow-link", link=rng.choice(links), bandwidth=rng.choice(SHARES)
        ),
        "device": lambda: disturbed(
            type="slow-device", devices=[0], clock=round(rng.uniform(0.5, 0.95), 3)
        ),
        "host": lambda: disturbed(
            type="late-host",
            delay=f"{exp(rng.uniform(log(DELAYS[0]), log(DELAYS[-1]))):.1f} us",
        ),
        "overlap": lambda: OPTIONS[0][2][0],
    }
    if fault not in draw:
        return base(name).step_time_s
    for _ in range(50):
        seconds = step_time(name, draw[fault]())
        if seconds > (1 + VISIBLE) * base(name).step_time_s:
            return seconds
    raise AssertionError(f"{fault} costs nothing in {name}")


TITAN = (
    "[rank0]: - INFO - \x1b[31mstep: {n}  \x1b[32mloss:  8.2  memory: 40.00GiB(50%)"
    "  tps: {tokens:,.1f}  tflops: {tflops:.2f}  mfu: {mfu:.2f}%\x1b[39m"
)
MEGATRON = (
    " iteration {n:8d}/     500 | elapsed time per iteration (ms): {ms:.1f} | throughput per GPU"
    " (TFLOP/s/GPU): {tflops:.1f} | global batch size: {batch:5d} | lm loss: 8.2 |"
)
SLOW = {1: 6.0, 2: 1.5, 51: 3.0}
"""Steps that take longer: the first ones, and one next to a checkpoint."""


def written(name, seconds, rng, line=TITAN, peak=1, steps=100):
    """Return a log with noise, a slow start and a checkpoint; `peak` is over the dense one."""
    answer, batch = base(name), SCENARIOS[name]["batch"]
    noise, lines = rng.uniform(0.005, 0.03), []
    for n in range(1, steps + 1):
        time = seconds * exp(rng.gauss(0, noise)) * SLOW.get(n, 1)
        scale = answer.step_time_s / time
        rates = {
            "tokens": batch["global"] * batch["sequence"] / answer.counts.devices / time,
            "tflops": answer.tflops_per_device.model * scale,
            "mfu": 100 * answer.mfu * scale / peak,
        }
        lines += ["saving checkpoint at iteration 50 to /checkpoints"] * (n == 51)
        lines.append(line.format(n=n, ms=1e3 * time, batch=batch["global"], **rates))
    return "\n".join(lines)


def checked(tmp_path, name, text, store=None):
    """Return the check of a log."""
    (tmp_path / "train.log").write_text(text, encoding="utf-8")
    log = tmp_path / "train.log"
    return clustersim.check(log, scenario=SCENARIOS[name], jobs=1, store=store)


def case(tmp_path, seed, fault, *, exact=False):
    """Return the check of a random case with a fault, or none, and an error of the prediction."""
    rng = random.Random(f"{seed} {fault}")
    name = rng.choice(sorted(SCENARIOS))
    error = 0.0 if exact else rng.gauss(0, base(name).interval.deviation)
    seconds = planted(name, fault, rng) * exp(error)
    line = TITAN if fault == "sparse" else rng.choice([TITAN, MEGATRON])
    text = written(name, seconds, rng, line, 2 if fault == "sparse" else 1)
    return checked(tmp_path, name, text, tmp_path / "store.db")


def found(tmp_path, seed, fault, **exact):
    """Return the causes of a case, each with whether it is the planted fault."""
    causes = case(tmp_path, seed, fault, **exact).causes
    return [(cause, cause.cause.startswith(WORDS[fault])) for cause in causes]


# --- planted faults -------------------------------------------------------------------------------


def test_a_run_whose_tenth_steps_take_twice_as_long_was_normal_without_a_word(
    tmp_path, monkeypatch
):
    """It loses a tenth of its time, which the median does not show."""
    name = next(iter(SCENARIOS))
    monkeypatch.setattr(f"{__name__}.SLOW", dict.fromkeys(range(10, 101, 10), 2.0))
    answer = checked(tmp_path, name, written(name, base(name).step_time_s, random.Random(3)))
    longer = answer.log.mean_s / answer.measured["step_time_s"] - 1

    assert longer == pytest.approx(0.1, abs=0.02)
    assert f"{100 * longer:.1f} % longer: {answer.log.slow} of" in finding(answer)


def test_a_log_without_a_fault_is_normal(tmp_path):
    """Within the interval, and nothing is blamed."""
    answers = [
        checked(tmp_path, name, written(name, base(name).step_time_s, random.Random(0)))
        for name in SCENARIOS
    ]

    assert [(each.verdict, each.causes) for each in answers] == [("normal", ())] * 2


@pytest.mark.large
@pytest.mark.parametrize("count", [8, pytest.param(40, marks=pytest.mark.exhaustive)])
def test_a_percent_of_the_step_was_one_cause_or_another_with_certainty(tmp_path, count):
    """With the error of predictions, a likelihood is how often a cause is true."""
    named = [
        (cause.likelihood, is_true)
        for fault in (*FAULTS, "none")
        for seed in range(count)
        for cause, is_true in found(tmp_path, seed, fault)
        if cause.likelihood is not None
    ]
    for low, high in ((0.0, 0.2), (0.2, 0.4), (0.4, 1.1)):
        likely, true = zip(*(each for each in named if low <= each[0] < high), strict=True)
        assert 0.4 < sum(true) / sum(likely) < 2.2, (low, len(true), sum(true), sum(likely))


@pytest.mark.large
@pytest.mark.parametrize("count", [5, pytest.param(40, marks=pytest.mark.exhaustive)])
def test_a_planted_fault_is_among_the_first_three(tmp_path, count):
    """Where the prediction is exact; a late host is the one that is often behind others."""
    hits = {
        fault: sum(
            any(is_true for _, is_true in found(tmp_path, seed, fault, exact=True)[:3])
            for seed in range(count)
        )
        for fault in FAULTS
    }

    assert min(hits[fault] for fault in FAULTS if fault != "host") >= 0.8 * count, hits
    assert hits["host"] >= 0.5 * count, hits


def test_a_cause_that_adds_little_of_the_excess_is_not_named(tmp_path):
    """A log half as long again has no cause that costs a tenth of it, and none is the rest."""
    text = written("gpt", 1.5 * base("gpt").step_time_s, random.Random(4))
    causes = checked(tmp_path, "gpt", text).causes
    excess = 0.5 * base("gpt").step_time_s

    assert all(cause.seconds > 0.4 * excess for cause in causes)
    assert sum(cause.likelihood for cause in causes) == pytest.approx(1.0, abs=5e-3)


# --- what is stated -------------------------------------------------------------------------------


def test_warm_up_and_checkpoints_are_left_out_of_the_median(tmp_path):
    """The slow steps are no part of it, and the slowest steady steps have their lines."""
    seconds = base("gpt").step_time_s
    answer = checked(tmp_path, "gpt", written("gpt", seconds, random.Random(1), MEGATRON))

    assert answer.measured["step_time_s"] == pytest.approx(seconds, rel=0.01)
    assert answer.log.warm_up >= 2
    assert answer.log.interrupted == 2
    assert answer.log.slowest[0].seconds < 1.2 * seconds
    assert {step.number for step in answer.log.slowest}.isdisjoint({1, 2, 50, 51})


def test_a_rate_of_tokens_is_converted_with_the_devices_of_the_scenario(tmp_path):
    """Logs of both programs state the same step."""
    seconds = base("llama").step_time_s
    titan, megatron = (
        checked(tmp_path, "llama", written("llama", seconds, random.Random(2), line))
        for line in (TITAN, MEGATRON)
    )

    assert titan.measured["step_time_s"] == pytest.approx(
        megatron.measured["step_time_s"], rel=1e-3
    )


def test_an_mfu_over_the_sparse_peak_is_stated_in_words(tmp_path):
    """The classic trap: half of the true MFU, at a normal step time."""
    text = written("llama", base("llama").step_time_s, random.Random(3), TITAN, 2)
    answer = checked(tmp_path, "llama", text)

    assert [each.name for each in answer.conventions] == ["model FLOPs", "sparse peak"]
    assert "twice the dense one of 989.4" in answer.conventions[1].text
    assert [(each.seconds, each.likelihood) for each in answer.causes] == [(0.0, None)]


def test_a_rate_that_counts_recomputation_is_of_hardware_flops(tmp_path):
    """Programs with the formula of 2021 count the second forward."""
    answer = simulate(from_mapping("a", LLAMA, ["recompute=full"])).answer
    (tmp_path / "a.log").write_text(
        MEGATRON.format(
            n=1, ms=1e3 * answer.step_time_s, tflops=answer.tflops_per_device.hardware, batch=32
        )
    )
    checked = clustersim.check(
        tmp_path / "a.log", scenario=LLAMA, settings=["recompute=full"], jobs=1
    )

    assert checked.conventions[0].name == "hardware FLOPs"
    assert checked.predicted["tflops_per_device"] == pytest.approx(
        answer.tflops_per_device.hardware
    )


def test_the_verdict_is_by_the_interval_widened_by_the_error_of_the_log():
    """On a logarithmic scale, in quadrature; without an interval nothing is said."""
    interval = Interval(8.0, 12.5, 0.9, 12, "12 measured runs")

    assert [verdict_of(t, interval) for t in (7.9, 8.1, 12.4, 12.6)] == [
        "fast", "normal", "normal", "slow",
    ]  # fmt: skip
    assert verdict_of(12.6, widened(interval, 10.0, 0.05)) == "normal"
    assert verdict_of(12.6, Interval(None, None, 0.9, 0, "none")) == "unknown"


def test_a_step_twice_as_long_as_predicted_was_normal_without_a_word():
    """Where the interval is wide, the sentence states the place among measured runs."""
    wide = Interval(9.0, 29.0, 0.9, 80, "80 measured runs")
    texts = {}
    for share in (0.1, 0.5, 0.94, None):
        answer = CheckAnswer(
            verdict="normal", name="a", title="A", file="a.log", interval=wide, slower_than=share,
            measured={"step_time_s": 20.0}, predicted={"step_time_s": 10.0},
        )  # fmt: skip
        texts[share] = finding(answer)

    assert "but slower than 94.0 % of measured runs" in texts[0.94]
    assert "but faster than 90.0 % of measured runs" in texts[0.1]
    assert "is normal for this layout (" in texts[None]
    assert "is normal: it agrees with the predicted 10 s within 100.0 % (" in texts[0.5]


def test_a_difference_within_the_error_of_predictions_was_split_into_causes(tmp_path):
    """A step in the central half of measured runs agrees; outside of it causes are sought."""
    rng, seconds = random.Random(3), base("llama").step_time_s
    near, far = (
        checked(tmp_path, "llama", written("llama", ratio * seconds, rng)) for ratio in (1.04, 1.12)
    )

    assert [near.verdict, near.agrees, near.causes] == ["normal", True, ()]
    assert " is normal: it agrees with the predicted " in finding(near)
    assert [far.verdict, far.agrees] == ["normal", False]
    assert far.causes


@pytest.mark.parametrize(
    ("causes", "count"),
    [
        ((), 1),
        ((Cause("none", 1.0, "b", 1.0, ()),), 1),
        ((Cause("a", 1.0, "b", 0.5, ("c=1",)),), 0),
    ],
)
def test_a_slow_log_without_a_cause_was_left_without_a_word(causes, count):
    """A line states that nothing that was tried reaches the time."""
    answer = CheckAnswer(
        verdict="slow", name="a", title="A", file="a.log", interval=None, causes=causes,
        measured={"step_time_s": 90.0}, predicted={"step_time_s": 10.0},
    )  # fmt: skip

    assert sum("explains it" in row.text for row in rows(answer)) == count


def test_the_place_among_measured_runs_rises_with_the_step():
    """It is about that of the ends of the interval at these; without an interval there is none."""
    traits = step_traits(from_mapping("llama", LLAMA).scenario)
    errors = shipped_errors()
    reach = errors.reach(traits)
    shares = [
        errors.share_faster(traits, ratio)
        for ratio in (0.1, 1 / reach.below, 1.0, reach.above, 10.0)
    ]

    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, pytest.approx(1.0))
    assert shares[1] <= 0.1
    assert shares[3] >= 0.9
    assert ErrorsByNearness([]).share_faster(traits, 1.0) is None


# --- services -------------------------------------------------------------------------------------

SERVICE = "llama3-70b-h100-serving load.concurrency=8 load.requests=16"
RESULT = {"mean_ttft_ms": 200.0, "mean_tpot_ms": 25.0, "output_throughput": 300.0}


def test_a_serving_benchmark_is_compared_measure_by_measure(tmp_path, capsys):
    """In seconds and tokens; without an interval there is no verdict."""
    (tmp_path / "result.json").write_text(json.dumps(RESULT))
    answer = printed(
        capsys, "check", tmp_path / "result.json", "--scenario", SERVICE, "--store", tmp_path / "s"
    )

    assert answer["verdict"] == "unknown"
    assert answer["measured"] == {"ttft": 0.2, "tpot": 0.025, "tokens_per_s": 300.0}
    assert answer["predicted"].keys() == answer["measured"].keys()


# --- the command ----------------------------------------------------------------------------------


def test_the_command_prints_the_verdict_and_writes_its_files(tmp_path, capsys):
    """Verdict, measures, conventions, causes; the steps over the predicted band."""
    (tmp_path / "gpt.yaml").write_text(json.dumps(GPT))
    text = written("gpt", 1.5 * base("gpt").step_time_s, random.Random(4), MEGATRON)
    (tmp_path / "train.log").write_text(text)
    shown = output(
        capsys, "check", tmp_path / "train.log", "--scenario", tmp_path / "gpt.yaml",
        "--out", tmp_path / "out", "--store", tmp_path / "s", "--jobs", 1,
    )  # fmt: skip

    assert "s is slow for this layout (+5" in shown
    assert "likelihood" in shown
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "summary.json", "report.html", "measures.csv", "causes.csv", "steps.csv",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("content", "scenario", "problem"),
    [
        (b"epoch 1: loss 3.2\n", "frontier-22b", "no steps found (known are the logs of"),
        (b"\x7fELF\0\0", "frontier-22b", "is binary, not text"),
        (json.dumps(RESULT).encode(), "frontier-22b", "is the result of a serving benchmark"),
        (MEGATRON.format(n=1, ms=1, tflops=1, batch=1).encode(), SERVICE, "is a log of training"),
        (
            MEGATRON.format(n=1, ms=1, tflops=1, batch=77).encode(),
            "frontier-22b",
            "its global batch is 77, and frontier-22b has",
        ),
        (b"", "frontier-22b", "is empty"),
    ],
)
def test_a_log_that_does_not_fit_is_one_clear_line(content, scenario, problem, tmp_path, capsys):
    """Before anything is run."""
    (tmp_path / "a.log").write_bytes(content)

    assert problem in rejected(capsys, "check", tmp_path / "a.log", "--scenario", scenario)


def test_a_step_without_a_time_is_an_error(tmp_path):
    """A line of MaxText that is cut before its seconds, and states its rate of FLOPs alone."""
    (tmp_path / "a.log").write_text("completed step: 3, seconds: x, TFLOP/s/device: 210.3")

    with pytest.raises(CatalogError, match="none of which states its time or rate"):
        clustersim.check(tmp_path / "a.log", scenario="frontier-22b")
