"""Services at a rate: queues against theory, what is unstable, and what rates and times are of."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest

import clustersim
from clustersim.cli import main
from clustersim.engine.requests.replay import Deployment, RequestLoad, replay_requests
from clustersim.engine.requests.scheduling import ReplicaModel, Scheduling
from clustersim.errors import ScenarioError
from clustersim.metrics.stationary import half_width, interval, wait_spread, warm_up
from clustersim.reports.service.files import kv_chart
from clustersim.simulation.limits import excess_of, missed_limits
from clustersim.simulation.measures import measures_of
from clustersim.simulation.service.answer import SteadyState
from clustersim.simulation.service.request_statistics import least_half_width, waits
from clustersim.simulation.service.steady_state import saturated, steady_replay
from wrong_values import wrong_values

SERVICE = measures_of(["service"])
UNIT = 1_000
"""Tokens of a prompt that takes one second."""

SMALL = {
    "title": "Llama 8B on two H100",
    "cluster": {"name": "dgx-h100", "nodes": 1},
    "model": "llama3-8b",
    "precision": "fp8",
    "engine": "vllm",
    "plan": {"tensor": 1, "replicas": 2},
    "load": {"rate": 20, "input": 512, "output": 32},
}


def one_server() -> Deployment:
    """Return a server of one request after another, whose service takes as long as its prompt."""
    seconds = lambda batch: sum(prompt.tokens for prompt in batch.prompts) / UNIT  # noqa: E731
    rules = Scheduling(sequences=1)
    return Deployment(ReplicaModel(seconds, seconds, 1_000_000, 16, 1, rules, 1.0))


def arriving(rate: float, kind: str, seed: int, count: int = 45_000) -> RequestLoad:
    """Return requests whose services take a second, always or in the mean."""
    arrivals, prompts = (np.random.default_rng([seed, cause]) for cause in (0, 1))
    inputs = np.full(count, UNIT)
    if kind == "exponential":
        inputs = np.maximum(1, prompts.exponential(UNIT, count).round()).astype(np.int64)
    gaps = arrivals.exponential(1 / rate, count)
    return RequestLoad(inputs, np.ones(count, np.int64), np.cumsum(gaps))


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_service_sustained_more_than_its_front_ends_take(replicas):
    """1,259/s of 16 tokens and 8, of which a front end took 500: the queue grew for ever."""
    load = {"rate": 300 * replicas, "arrivals": "regular", "input": 16, "output": 8}
    plan = {"tensor": 1, "replicas": replicas}
    service = {**SMALL, "engine": "tensorrt-llm", "plan": plan, "load": load}
    served = clustersim.serve(service)
    steady, intake = served.steady, served.loaded.scenario.engine.intake
    taken = replicas / (intake.request + 16 * intake.token)

    assert steady.stable
    assert steady.sustainable_requests_per_s == pytest.approx(taken, rel=0.02)
    faster = clustersim.serve({**service, "load": {**load, "rate": 600 * replicas}})
    assert not faster.steady.stable
    assert faster.rates["output_tokens_per_s"] == pytest.approx(8 * taken, rel=0.02)


@pytest.mark.parametrize("kind", ["constant", "exponential"])
@pytest.mark.parametrize(
    "load", [0.8, *(pytest.param(load, marks=pytest.mark.large) for load in (0.5, 0.95))]
)
def test_the_mean_wait_is_that_of_queueing_theory_within_its_interval(kind, load):
    """Pollaczek and Khinchine: rho s / (1 - rho) of M/M/1, half of it of M/D/1."""
    theory = load / (1 - load) * (0.5 if kind == "constant" else 1.0)

    requests = arriving(load, kind, seed=3)
    spread = saturated(requests, one_server(), (load,)).spread(requests.arrivals)
    replayed, _ = steady_replay(requests, one_server(), spread)
    waited = waits(replayed.measured)

    known = interval(waited, np.mean, least_half_width(np.mean, waited, spread))
    assert known.low <= theory <= known.high
    assert known.share < (0.2 if load < 0.9 else 0.8)


@pytest.mark.parametrize(
    ("kind", "load", "least"),
    [("exponential", 0.8, 90), ("exponential", 0.95, 93), ("constant", 0.95, 93)],
)
def test_intervals_near_saturation_have_the_true_mean_wait(kind, load, least):
    """Of 100 queues at 95 % load batches alone have it in 81 %: they share long excursions."""
    theory = load / (1 - load) * (0.5 if kind == "constant" else 1.0)
    spread = wait_spread(load, 1.0, 0.0 if kind == "constant" else 1.0)
    covered = 0
    for seed in range(100):
        draw = np.random.default_rng([seed, 9])
        services = np.ones(32_000) if kind == "constant" else draw.exponential(1, 32_000)
        drift = np.concatenate([[0], np.cumsum(services[:-1] - draw.exponential(1 / load, 31_999))])
        waited = drift - np.minimum.accumulate(drift)  # Lindley's recursion
        waited = waited[warm_up(waited) :]
        known = interval(waited, np.mean, least_half_width(np.mean, waited, spread))
        covered += known.low <= theory <= known.high

    assert covered >= least


@pytest.mark.parametrize("kind", ["constant", "exponential"])
def test_the_spread_of_waits_is_that_of_arrivals_and_services(kind):
    """The backlog states how services vary, by few batches, and the arrivals how gaps do."""
    requests = arriving(0.8, kind, seed=1)
    backlog = saturated(requests, one_server(), (0.8,))
    load = 0.8 / backlog.rate

    services = (backlog.spread(requests.arrivals) * (1 - load)) ** 2 / 2 - 1
    assert abs(services) < 0.1 if kind == "constant" else 0.4 < services < 2.5


@pytest.mark.large
@pytest.mark.parametrize("load", [1.05, 0.9])
@pytest.mark.parametrize("seeds", [20, pytest.param(100, marks=pytest.mark.exhaustive)])
def test_of_a_hundred_seeds_one_at_most_misjudges_whether_the_queue_grows(load, seeds):
    """At 105 % of what exponential services sustain all but one are unstable, at 90 % only one."""
    judged = [
        saturated(arriving(load, "exponential", seed), one_server(), (load,)).rate < load
        for seed in range(seeds)
    ]

    assert judged.count(load < 1) <= 1


@pytest.mark.parametrize("kind", ["constant", "exponential"])
def test_a_backlog_completes_what_the_server_can(kind):
    """The sustainable rate is one over the mean service, within its interval."""
    backlog = saturated(arriving(1.0, kind, seed=1), one_server(), (0.5,))

    assert abs(backlog.rate - 1) <= 1.2 * backlog.half + 1e-9


def test_services_that_take_one_time_had_an_interval_of_rounding_errors():
    """They sustained 66.4 requests/s (+/- 8.8e-13)."""
    instants = np.cumsum(np.full(200, 0.1)) + 1e3

    assert half_width(np.diff(instants)) == 0.0
    assert half_width(np.array([0.1, 0.1, 0.1, 0.1 + 1e-6])) > 0.0
    equal = SteadyState(True, 1.0, 66.4, 0.0, 0.0, "steady state", True)
    assert equal.verdict == "stable: it sustains 66.4 requests/s, of which 1.5 % arrive"


@pytest.mark.large
def test_replicas_that_are_alike_sustain_as_many_times_what_one_does():
    """One replica is replayed for all of them: the rate is as with all of them in a replay."""
    rates = [
        clustersim.serve(SMALL, {"plan.replicas": count}).steady.sustainable_requests_per_s
        for count in (1, 2)
    ]

    assert rates[1] == pytest.approx(2 * rates[0])


def test_the_warm_up_of_a_ramp_is_the_ramp():
    ramp = np.concatenate([np.linspace(0, 1, 200), np.ones(800)])
    noise = np.random.default_rng(1).normal(0, 0.01, 1_000)

    assert 150 <= warm_up(ramp + noise) <= 220
    assert warm_up(1 + noise) <= 100
    assert warm_up(np.array([1.0])) == 0


def test_a_rate_that_is_not_sustained_is_unstable_and_misses_every_limit(capsys):
    """The first line says by how much the queue grows; no time to the first token is printed."""
    settings = {"load.rate": 1_000}

    result = clustersim.serve(SMALL, settings)
    answer = result.answer
    numbers = answer.measures()

    assert not answer.steady.stable
    sustained = answer.steady.sustainable_requests_per_s
    assert answer.steady.queue_growth_per_s == pytest.approx(1_000 - sustained)
    assert answer.requests_per_s == pytest.approx(sustained)
    assert answer.ttft_s is answer.latency_s is None
    assert {"ttft", "latency", "goodput"}.isdisjoint(numbers)
    assert "unstable" in answer.why_missing("ttft")
    assert "unstable" in missed_limits(numbers, {"devices": 10.0}, SERVICE)
    assert excess_of(numbers, {}, SERVICE) == pytest.approx(1_000 / sustained)
    assert "unstable" in repr(result)


def test_rates_of_a_steady_state_are_those_of_its_arrivals():
    """Tokens in a second are the rate times the tokens of a request, without ramp and drain."""
    answer = clustersim.serve(SMALL).answer

    assert answer.steady.stable
    assert answer.steady.measured == "steady state"
    assert answer.requests_per_s == 20
    assert answer.output_tokens_per_s == pytest.approx(20 * 32)
    assert answer.total_tokens_per_s == pytest.approx(20 * (512 + 32))


def test_tokens_of_the_measured_time_are_those_of_the_rate():
    """What steps generate between the first and the last measured arrival agrees within 3 %."""
    result = clustersim.serve(SMALL, {"load.rate": 60})
    steps = result.replayed.steps
    tokens = sum(each.sums.sequences for each in steps) + len(result.requests)

    assert tokens / result.replayed.seconds == pytest.approx(60 * 32, rel=0.03)


def test_a_stated_number_of_requests_is_measured_whole():
    """As a benchmark does: the time from the first arrival to the last token counts."""
    answer = clustersim.serve(SMALL, {"load.requests": 50}).answer

    assert answer.steady.measured == "all requests"
    assert answer.counts.requests == 50
    assert answer.requests_per_s != 20
    assert not answer.ttft_s.intervals


def test_times_of_a_steady_state_have_intervals_around_them():
    times = clustersim.serve(SMALL).answer.ttft_s

    assert {*times.intervals} == {"mean", "p50", "p90", "p95", "p99"}
    for name, (low, high) in times.intervals.items():
        assert low <= getattr(times, name) <= high


def test_percentiles_of_times_are_measures():
    """`--limit ttft_p99=2s`: each percentile of each time is a measure."""
    answer = clustersim.serve(SMALL).answer
    numbers = answer.measures()

    assert numbers["ttft_p99"] == answer.ttft_s.p99 >= numbers["ttft_p50"]
    assert {f"{time}_p95" for time in ("ttft", "tpot", "latency")} <= {*numbers}


def test_a_curve_shows_where_the_queue_grows():
    """One backlog serves all its loads; beyond the sustainable rate it has no time to a token."""
    curve = clustersim.serve(SMALL, loads=[10, 20, 1_000]).curve

    assert [point.stable for point in curve] == [True, True, False]
    assert [point.ttft_s is None for point in curve] == [False, False, True]
    assert curve[0].times["ttft"].p99 <= curve[1].times["ttft"].intervals["p99"][1]


def test_a_growing_queue_in_json_is_valid_and_complete(capsys, tmp_path):
    path = tmp_path / "service.json"
    path.write_text(json.dumps(SMALL))

    with pytest.raises(SystemExit, match="0"):
        main(["serve", str(path), "--set", "load.rate=1e6", "--json"])

    printed = json.loads(capsys.readouterr().out)
    assert printed["steady"]["stable"] is False
    assert printed["ttft_s"] is None


def test_a_stable_replay_ends_before_all_its_requests():
    """The replay is reviewed, and ends with requests in flight."""
    load = arriving(0.3, "constant", seed=0)

    assert len(steady_replay(load, one_server())[0].requests) < len(load.inputs)
    assert len(replay_requests(arriving(0.3, "constant", 0, 300), one_server()).requests) == 300


@pytest.mark.parametrize("engine", ["tensorrt-llm", "fastertransformer"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_pools_whose_requests_have_one_token_have_an_answer(engine, replicas):
    """The pool for decode makes no step: its kernels, its chart and its batches are missing."""
    pool = {"tensor": 1, "replicas": replicas}
    plan = {"prefill": pool, "decode": pool}
    load = {"rate": 5, "input": 512, "output": 1, "requests": 20}

    changes = {"plan": plan, "load": load, "engine": engine, "precision": "fp16"}
    result = clustersim.serve(SMALL | changes)

    assert result.tpot is None
    assert result.limiting_kernel is not None
    assert kv_chart(result) == []


def test_the_link_of_a_first_token_was_looked_for_in_the_pool_for_decode():
    """Its replicas have a device each, so that no link joins their tensor group."""
    plan = {"prefill": {"tensor": 2}, "decode": {"tensor": 1}}
    load = {"rate": 5, "input": 512, "output": 1, "requests": 20}

    result = clustersim.serve(SMALL | {"plan": plan, "load": load})

    assert result.limiting_link is not None
    assert result.limiting_link.part in {"tensor", "transfer"}


@pytest.mark.parametrize("cluster", ["frontier", "lumi-g"])
@pytest.mark.parametrize(
    "plan",
    [
        {"prefill": {"tensor": 4, "replicas": 3}, "decode": {"tensor": 4, "attention_data": 2}},
        {"tensor": 2, "attention_data": 8},
    ],
)
def test_a_service_over_nodes_of_a_dragonfly_has_an_answer(cluster, plan):
    """Links are numbered when a route first crosses them, and their capacities read after it."""
    machine = {"name": cluster, "nodes": 4}
    load = {"rate": 2, "input": 512, "output": 64, "requests": 8}

    changes = {"cluster": machine, "plan": plan, "precision": "bf16", "load": load}

    assert clustersim.serve(SMALL | changes).ttft.mean > 0


def test_a_first_request_longer_than_all_others_is_waited_for():
    """No request is measured before the first is complete, so the replay goes on."""
    rules = Scheduling(sequences=2)
    model = ReplicaModel(lambda _: 1.0, lambda _: 1.0, 1_000_000, 16, 1, rules, 1.0)
    outputs = np.ones(6_000, np.int64)
    outputs[0] = 20_000
    load = RequestLoad(np.full(6_000, 8), outputs, 2.0 * np.arange(6_000))

    replayed, _ = steady_replay(load, Deployment(model))

    assert len(replayed.measured) >= 500


def test_a_rate_of_a_static_batch_has_an_answer():
    """All requests of a batch end at once, so that a review may see no time between them."""
    changes = {"engine": "fastertransformer", "precision": "fp16", "load.rate": 2_000}

    steady = clustersim.serve(SMALL, changes).answer.steady

    assert not steady.stable
    assert 0 < steady.sustainable_requests_per_s < 2_000


@pytest.mark.parametrize(("load", "complaint"), wrong_values("loads that cannot be replayed"))
def test_requests_that_take_no_time_or_are_too_many_are_one_line(load, complaint):
    """They ended in a ZeroDivisionError, a RuntimeError of the clock, or not at all."""
    together = {"engine.intake.request": "0 us", "engine.intake.token": "0 us"}
    with pytest.raises(ScenarioError, match=complaint) as error:
        clustersim.serve(SMALL, {"load": json.loads(load), "plan.replicas": 1, **together})

    assert "\n" not in str(error.value)


def test_a_warm_up_longer_than_a_trace_is_one_line(tmp_path):
    """A search of it ended in an IndexError."""
    (tmp_path / "t.csv").write_text("arrival,input,output\n0,8,2\n1,8,2\n")
    load = {"trace": str(tmp_path / "t.csv"), "warm_up": 2}

    with pytest.raises(ScenarioError, match=r"load.warm_up: must be less than the 2 requests of"):
        clustersim.serve(SMALL, {"load": load})


def test_cached_prompts_of_one_token_do_not_stop_the_requests_behind_them():
    """With more of them than sequences no step was made, and the replay ended in a RuntimeError."""
    load = {"offline": 40, "input": 16, "output": {"histogram": {1: 3, 2: 1}}, "cached": True}
    plan = {"tensor": 1}

    result = clustersim.serve(SMALL, {"load": load, "plan": plan, "engine.scheduler.sequences": 2})

    assert len(result.requests) == 40
    users = {"concurrency": 1, "input": 2, "output": {"uniform": [1, 10]}, "cached": True}
    changes = {"engine": "fastertransformer", "precision": "fp16", "load": users}
    assert clustersim.serve(SMALL, changes).tpot is not None


def test_tokens_that_all_come_with_the_first_have_no_time_for_each():
    """A slow front end sends the first token with all others: the rate of a user was 1 / 0."""
    load = {"concurrency": 1, "input": 8, "output": 3, "requests": 4}

    result = clustersim.serve(SMALL, {"load": load, "engine.first": "1 s"})

    assert result.tpot is None
    assert "tokens_per_s_per_user" not in result.rates
    assert sum(result.attribution.values()) == pytest.approx(result.ttft.mean)


def test_one_request_of_a_rate_and_any_line_ends_of_a_trace_have_an_answer(tmp_path):
    """One gap or none has no variation, and carriage returns ended in an error of the reader."""
    (tmp_path / "t.csv").write_text("arrival,input,output\r0,8,2\r1,8,2\r", newline="")

    for load in (
        {"rate": 5, "input": 8, "output": 2, "requests": 1},
        {"trace": str(tmp_path / "t.csv")},
    ):
        assert clustersim.serve(SMALL, {"load": load}).ttft.mean > 0


RISING = {
    "short": {"input": 256, "output": {"uniform": [1, 16]}},
    "bursty": {"input": {"uniform": [16, 512]}, "output": 8, "arrivals": "bursty"},
}


@pytest.mark.large
@pytest.mark.parametrize(
    ("engine", "load"),
    [("vllm", "short"), pytest.param("sglang", "bursty", marks=pytest.mark.exhaustive)],
)
def test_times_do_not_fall_as_the_rate_rises_but_within_their_intervals(load, engine):
    """Means and 99th percentiles fell by up to 67 % in some steps of a curve: ramp and luck."""
    scenario = SMALL | {
        "engine": engine,
        "plan": {"tensor": 1},
        "load": RISING[load] | {"rate": 20},
    }
    most = clustersim.serve(scenario).steady.sustainable_requests_per_s

    curve = clustersim.serve(scenario, loads=[most * part for part in (0.2, 0.5, 0.8)]).curve

    assert all(point.stable for point in curve)
    for before, after in pairwise(curve):
        for name in ("ttft", "latency"):
            for statistic in ("mean", "p99"):
                low, _ = before.times[name].intervals[statistic]
                _, high = after.times[name].intervals[statistic]
                assert high >= low, f"{name} {statistic} from {before.load} to {after.load}"


def test_a_curve_prints_each_percentile_with_its_interval_and_the_growth_of_a_queue(
    capsys, tmp_path
):
    """Rates that are not sustained have a mark with the growth instead of a missing number."""
    path = tmp_path / "service.json"
    path.write_text(json.dumps(SMALL | {"plan": {"tensor": 1}}))
    with pytest.raises(SystemExit, match="0"):
        main(["serve", str(path), "--loads", "10,1000", "--out", str(tmp_path / "out")])

    lines = capsys.readouterr().out.splitlines()
    (first,) = (line for line in lines if line.split()[:3] == ["10", "first", "token"])
    (last,) = (line for line in lines if line.split()[:1] == ["1,000"] and "unstable" in line)
    assert first.count("+/-") == 4
    assert re.search(r"unstable, \+\d+/s", last)
    head = (tmp_path / "out" / "load.csv").read_text().partition("\n")[0].split(",")
    assert {"queue_growth_per_s", "ttft_mean_low", "latency_p99_high"} <= {*head}


@pytest.mark.large
def test_studies_mark_the_points_whose_queue_grows(capsys, tmp_path, monkeypatch):
    """`scale` had a missing column, `whatif` ended where the scenario itself is unstable."""
    monkeypatch.chdir(tmp_path)
    load = {"rate": 400, "input": 256, "output": 8}
    path = tmp_path / "service.json"
    path.write_text(json.dumps(SMALL | {"plan": {"tensor": 1}, "load": load}))
    for words in (
        ["scale", str(path), "--strong", "1,4", "--axis", "replicas"],
        ["whatif", str(path), "--set", "plan.replicas=4"],
    ):
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--jobs", "1", "--store", "s.db"])

    out = capsys.readouterr().out
    assert len(re.findall(r"unstable, \+\d+/s", out)) == 2
    assert len(re.findall(r" stable ", out)) == 2
    assert re.search(r"unstable, it grows on 1 devices by \d+ requests a second", out)
    assert "plan.replicas=4 helps: sustainable rate" in out


@pytest.mark.parametrize("users", [1, 4])
@pytest.mark.parametrize("steps", [0, 5])
def test_users_who_came_back_when_an_engine_that_schedules_ahead_was_empty_waited_for_ever(
    users, steps
):
    """All end together and send their next requests in that instant, which nothing else follows."""
    rules = Scheduling(ahead=True, wait_steps=steps, wait_share=0.5)
    model = ReplicaModel(lambda _: 0.01, lambda _: 0.01, blocks=1_000, scheduling=rules)
    lengths = np.full(12 + users, 16)
    load = RequestLoad(lengths, lengths, users=users, complete=12)
    replayed = replay_requests(load, Deployment(model, 1))

    assert len(replayed.requests) == 12
    assert replayed.end == pytest.approx(12 / users * 16 * 0.01)
