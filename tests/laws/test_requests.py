"""Laws of requests in time: queues against theory, and what no engine may create or lose."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clustersim.engine.requests import batcher
from clustersim.engine.requests import steps as steps_module
from clustersim.engine.requests.front_end import NO_INTAKE, Intake
from clustersim.engine.requests.handover import KvLinks, Passage
from clustersim.engine.requests.replay import (
    Deployment,
    ReplayedRequests,
    RequestLoad,
    replay_requests,
)
from clustersim.engine.requests.scheduling import ReplicaModel, Scheduling
from clustersim.engine.requests.steps import StepRecord, Steps
from clustersim.inference.batch import Batch, Prompt, Stretch, end_of, stretches_of
from clustersim.traffic import Traffic


def seconds(batch: Batch) -> float:
    """Return the time of a step that is linear in what it processes [s]."""
    prompts = sum(prompt.tokens for prompt in batch.prompts)
    return 0.01 + 1e-5 * batch.sequences + 1e-8 * batch.context + 2e-5 * prompts


def linear(start: float, batch: Batch, context: float, steps: int) -> list[Stretch]:
    """Return steps of a token each, in two stretches, as `seconds` has them."""
    first, count = seconds(batch._replace(context=context)), batch.sequences
    growth, half = 0.5e-8 * count, max(1, steps // 2)
    stretches = [(start, first, growth, half)]
    if steps > half:
        later = seconds(batch._replace(context=context + half * count))
        stretches.append((end_of(stretches[0]), later, growth, steps - half))
    return stretches


def model(rules=None, *, cost=seconds, blocks=1_000_000, stages=1, gain=1.0, alike=None):
    """Return a replica with linear costs; its stages are equal."""
    slowest = lambda batch: cost(batch) / stages  # noqa: E731
    return ReplicaModel(cost, slowest, blocks, 16, stages, rules or Scheduling(), gain, alike)


def poisson(rate: float, inputs, outputs, seed: int = 1) -> RequestLoad:
    """Return requests that arrive at a rate [1/s]."""
    gaps = np.random.default_rng(seed).exponential(1 / rate, len(inputs))
    return RequestLoad(np.array(inputs), np.array(outputs), np.cumsum(gaps))


def users(count: int, requests: int, prompt: int, output: int) -> RequestLoad:
    """Return the load of some users, with a warm-up of two requests each."""
    size = requests + 3 * count
    inputs, outputs = np.full(size, prompt), np.full(size, output)
    return RequestLoad(inputs, outputs, None, count, 2 * count, requests + 2 * count)


def batches(steps: Steps) -> list[Batch]:
    """Return what each step processes."""
    runs = enumerate(steps.count.tolist())
    return [steps.batch(run, step) for run, count in runs for step in range(count)]


def time_per_token(replayed: ReplayedRequests) -> float:
    """Return the mean time per token after the first [s]."""
    requests = replayed.measured
    return float(np.mean((requests.finish - requests.first) / (requests.output - 1)))


# --- queues against theory ------------------------------------------------------------------------


def test_users_of_a_continuous_batch_follow_the_closed_queue():
    """With c users: time per token = decode step of c + c prompts / output length."""
    count, prompt, output = 32, 512, 256

    replayed = replay_requests(users(count, 640, prompt, output), Deployment(model(_CHUNKED)))

    decode = seconds(Batch(count, count * (prompt + output // 2)))
    prompts = count * (seconds(Batch(0, 0, _prompt(prompt))) - 0.01)
    expected = decode + prompts / output
    assert time_per_token(replayed) == pytest.approx(expected, rel=0.02)
    rate = replayed.emitted / (replayed.end - replayed.begin)
    first = np.mean(replayed.measured.first - replayed.measured.arrival)
    assert rate == pytest.approx(
        count * output / (first + (output - 1) * time_per_token(replayed)), rel=0.02
    )


# --- what is conserved ----------------------------------------------------------------------------

RULES = st.builds(
    Scheduling,
    continuous=st.booleans(),
    mixed=st.booleans(),
    chunked=st.booleans(),
    budget=st.sampled_from([7, 64, 300, 4096]),
    sequences=st.sampled_from([4, 32, 1000]),
    reserve=st.booleans(),
    preemption=st.sampled_from(["recompute", "swap"]),
    swap=st.sampled_from([0.0, 1e-6]),
    ahead=st.booleans(),
)


@settings(max_examples=8, deadline=None)
@given(
    rules=RULES,
    blocks=st.integers(min_value=40, max_value=400),
    stages=st.sampled_from([1, 3]),
    gain=st.sampled_from([1.0, 1.7]),
    seed=st.integers(min_value=0, max_value=99),
)
def test_tokens_and_blocks_are_conserved(rules, blocks, stages, gain, seed):
    """Whatever the rules: all tokens come out, all blocks return, no pool exceeds its size."""
    draw = np.random.default_rng(seed)
    inputs, outputs = draw.integers(1, 300, 60), draw.integers(1, 200, 60)
    load = poisson(20.0, inputs, outputs, seed)
    service = Deployment(
        model(rules, blocks=blocks, stages=stages, gain=gain), replicas=2, routing="least-loaded"
    )

    replayed = replay_requests(load, service)

    assert sorted(request.number for request in replayed.requests) == [*range(60)]
    assert replayed.emitted == pytest.approx(outputs.sum())
    assert max(replayed.peak_blocks) <= blocks
    for request in replayed.requests:
        assert request.arrival <= request.admitted < request.first <= request.finish
    tables = [steps.table() for steps in replayed.steps]
    for table in tables:
        if stages == 1:
            assert (table.start[1:] >= table.end[:-1] - 1e-9).all()
    if not replayed.requests.preemptions.any():
        assert sum(table.prompt_tokens.sum() for table in tables) == inputs.sum()


@settings(max_examples=8)
@given(
    rules=RULES,
    blocks=st.integers(min_value=40, max_value=400),
    gain=st.sampled_from([1.0, 1.75]),
    rate=st.sampled_from([0.0, 2.0, 20.0]),
    intake=st.sampled_from([NO_INTAKE, Intake(0.003), Intake(0.001, 1e-4)]),
    seed=st.integers(min_value=0, max_value=99),
)
def test_a_run_of_steps_is_its_steps_one_by_one(rules, blocks, gain, rate, intake, seed):
    """Steps that decode or have chunks alone, computed together and cut by arrivals: the same.

    Requests arrive at a rate, or are those of some users where it is 0, of one replica: steps of
    two would begin at the same instants, but for their rounding.
    """
    draw = np.random.default_rng(seed)
    load = poisson(rate or 1.0, draw.integers(1, 300, 60), draw.integers(1, 200, 60), seed)
    load = replace(load, intake=intake)
    if not rate:
        load = replace(load, arrivals=None, users=7, complete=60)
    alike = linear if gain == 1.0 else None
    engine = model(rules, blocks=blocks, gain=gain, alike=alike)
    service = Deployment(engine, replicas=2 if rate else 1)

    together = replay_requests(load, service)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batcher, "MOST_FOLLOWING", 0)
        singly = replay_requests(load, service)

    for fast, slow in zip(together.requests, singly.requests, strict=True):
        assert fast.number == slow.number
        assert fast.preemptions == slow.preemptions
        assert (fast.admitted, fast.first, fast.finish) == pytest.approx(
            (slow.admitted, slow.first, slow.finish), rel=1e-12
        )
    for fast, slow in zip(together.steps, singly.steps, strict=True):
        assert len(fast.count) <= len(slow.count) == len(slow)
        assert batches(fast) == batches(slow)
        for column, singles in zip(fast.table(), slow.table(), strict=True):
            assert column == pytest.approx(singles, rel=1e-12)
        assert fast.sums == pytest.approx(slow.sums, rel=1e-12)


@settings(max_examples=8, deadline=None)
@given(
    rules=RULES,
    blocks=st.integers(min_value=40, max_value=120),
    bandwidth=st.sampled_from([1e4, 1e5, 1e6]),
    recomputed=st.booleans(),
    seed=st.integers(min_value=0, max_value=99),
)
def test_a_request_whose_cache_was_in_transfer_was_preempted(
    rules, blocks, bandwidth, recomputed, seed
):
    """Also between pools all tokens come out, and no pool exceeds its size, however full it is."""
    draw = np.random.default_rng(seed)
    inputs, outputs = draw.integers(1, 300, 60), draw.integers(1, 200, 60)
    links = KvLinks(
        [bandwidth], lambda _a, _b, tokens: Traffic("kv", (0,), (1.0,), 1e3 * tokens, 0.0)
    )
    engine, passage = model(rules, blocks=blocks), Passage(0.01, recomputed)
    pools = Deployment(engine, 1, "round-robin", engine, 1, links, passage)

    replayed = replay_requests(poisson(20.0, inputs, outputs, seed), pools)

    assert sorted(request.number for request in replayed.requests) == [*range(60)]
    assert replayed.emitted == pytest.approx(outputs.sum())
    assert max(replayed.peak_blocks) <= blocks


def test_a_full_pool_preempts_the_last_request_and_recomputes_it():
    """Two sequences that outgrow the pool: the second one is processed twice, both complete."""
    load = RequestLoad(np.array([64, 64]), np.array([100, 100]), np.array([0.0, 0.0]))

    replayed = replay_requests(load, Deployment(model(blocks=14)))

    first, second = replayed.requests.ordered
    assert (first.preemptions, second.preemptions) == (0, 1)
    assert first.finish < second.finish
    assert sum(steps.prompt_tokens.sum() for steps in replayed.steps) > 128


def test_reserved_blocks_preempt_nothing():
    """Where a request gets the blocks of its whole output, the second one waits for the first."""
    load = RequestLoad(np.array([64, 64]), np.array([100, 100]), np.array([0.0, 0.0]))

    replayed = replay_requests(load, Deployment(model(Scheduling(reserve=True), blocks=14)))

    first, second = replayed.requests
    assert first.preemptions == second.preemptions == 0
    assert second.admitted >= first.finish


def test_the_same_load_gives_the_same_times():
    """Nothing but the load decides: two replays are equal to the last bit."""
    load = poisson(30.0, np.full(200, 100), np.arange(1, 201))
    rules = Scheduling(budget=256)
    service = Deployment(model(rules, blocks=200), replicas=3, routing="least-loaded")

    times = [replay_requests(load, service).requests.finish for _ in range(2)]

    assert (times[0] == times[1]).all()


# --- before the first token -----------------------------------------------------------------------


def test_a_front_end_takes_requests_one_by_one():
    """Of requests that come together, the n-th reaches a replica after n times of the front end."""
    load = RequestLoad(np.full(4, 100), np.full(4, 2), np.zeros(4), intake=Intake(0.1, 0.001))

    replayed = replay_requests(load, Deployment(model()))

    reached = sorted(request.reached for request in replayed.requests)
    assert reached == pytest.approx([0.2, 0.4, 0.6, 0.8])


@given(st.integers(1, 6), st.integers(1, 60), st.floats(0.0, 0.5))
def test_the_time_after_the_engine_delays_first_tokens_alone(users, output, after):
    """Users return with their last token, which is no sooner than the first: no step waits."""
    lengths = np.full(9 * users, 64), np.full(9 * users, output)
    usual, late = (
        replay_requests(
            RequestLoad(*lengths, users=users, complete=8 * users, after=each), Deployment(model())
        ).requests
        for each in (0.0, after)
    )

    assert late.first - late.arrival == pytest.approx(usual.first - usual.arrival + after)
    assert (late.finish >= late.first).all()
    if after < (usual.finish - usual.first).min():
        assert late.finish == pytest.approx(usual.finish)


@given(st.integers(2, 40), st.integers(1, 200))
def test_a_request_joins_the_step_after_the_one_that_is_scheduled(count, output):
    """Where a step is scheduled ahead, a request that comes during a step waits for one more."""
    load = RequestLoad(
        np.full(2, 64), np.array([output + count + 2, 2]), np.array([0.0, 0.0115 + 0.01 * count])
    )

    ahead, usual = (
        replay_requests(load, Deployment(model(Scheduling(ahead=value)))) for value in (True, False)
    )

    waits = [
        next(r.admitted - r.reached for r in replayed.requests if r.number)
        for replayed in (ahead, usual)
    ]
    assert waits[0] == pytest.approx(waits[1] + seconds(Batch(1, 64 + count)), rel=1e-2)


def test_prompts_wait_for_others_while_sequences_decode():
    """A prompt waits for the steps that the rules name, or until there are enough tokens."""
    inputs, outputs = np.full(3, 64), np.array([200, 2, 2])
    rules = Scheduling(budget=128, wait_steps=20, wait_share=0.9, chunked=False)
    alone = RequestLoad(inputs[:2], outputs[:2], np.array([0.0, 0.5]))
    paired = RequestLoad(inputs, outputs, np.array([0.0, 0.5, 0.5]))

    waited, joined = (
        next(r for r in replay_requests(load, Deployment(model(rules))).requests if r.number == 1)
        for load in (alone, paired)
    )

    assert waited.admitted - 0.5 == pytest.approx(20.5 * seconds(Batch(1, 120)), rel=0.05)
    assert joined.admitted - 0.5 < 1.01 * seconds(Batch(1, 120))


# --- replicas, pipelines and separate pools -------------------------------------------------------


def test_replicas_with_equal_loads_behave_as_one():
    """Round robin of 4 x 8 equal users is four times one replica with 8 users."""
    one = replay_requests(users(8, 160, 256, 64), Deployment(model(_CHUNKED)))
    four = replay_requests(users(32, 640, 256, 64), Deployment(model(_CHUNKED), replicas=4))

    assert time_per_token(four) == pytest.approx(time_per_token(one), rel=0.02)
    rates = [r.emitted / (r.end - r.begin) for r in (one, four)]
    assert rates[1] == pytest.approx(4 * rates[0], rel=0.02)


def test_a_pipeline_leaves_the_time_of_a_token_and_raises_throughput():
    """One user sees the sum of all stages; four batches in flight give four times the tokens."""
    cost = lambda _: 0.02  # noqa: E731
    alone = replay_requests(users(1, 20, 64, 32), Deployment(model(cost=cost, stages=4)))
    full = replay_requests(users(4, 80, 64, 32), Deployment(model(cost=cost, stages=4)))

    assert time_per_token(alone) == pytest.approx(0.02)
    assert time_per_token(full) == pytest.approx(0.02)
    rates = [r.emitted / (r.end - r.begin) for r in (alone, full)]
    assert rates[1] == pytest.approx(4 * rates[0], rel=0.02)


def test_separate_pools_move_the_cache_before_the_first_token():
    """Alone, a request's first token is its prompt and the transfer of its KV cache."""
    links = KvLinks([1e6], lambda _a, _b, tokens: Traffic("kv", (0,), (1.0,), 1e3 * tokens, 1e-3))
    load = RequestLoad(np.array([100]), np.array([11]), np.array([0.0]))
    prefill = model(Scheduling(budget=64))

    replayed = replay_requests(load, Deployment(model(), 1, "round-robin", prefill, 1, links))

    (request,) = replayed.requests
    chunks = seconds(Batch(0, 0, _prompt(64))) + seconds(Batch(0, 0, _prompt(36)))
    assert request.first == pytest.approx(chunks + 1e-3 + 0.1)
    assert len(replayed.steps[0]) == 10
    assert replayed.steps[0].prompt_tokens.sum() == 0


@pytest.mark.parametrize("recomputed", [False, True])
def test_a_request_passes_two_engines_with_separate_pools(recomputed):
    """It leaves one engine and enters another, which makes the first token if that is recomputed.

    Alone: the prompt, 0.05 s between the pools, the transfer, and a step for each token after it.
    """
    links = KvLinks([1e6], lambda _a, _b, tokens: Traffic("kv", (0,), (1.0,), 1e3 * tokens, 0.0))
    load = RequestLoad(np.array([100]), np.array([3]), np.array([0.0]))
    passage = Passage(0.05, recomputed)

    pools = Deployment(model(), 1, "round-robin", model(), 1, links, passage)
    replayed = replay_requests(load, pools)

    (request,) = replayed.requests
    handed = seconds(Batch(0, 0, _prompt(100))) + 0.05 + 0.1
    steps = [seconds(Batch(1, 99 + number)) for number in range(3)]
    assert request.first == pytest.approx(handed + recomputed * steps[0])
    assert request.finish == pytest.approx(handed + sum(steps if recomputed else steps[1:]))


def test_transfers_of_the_cache_share_a_link():
    """Two KV caches at once over one link arrive at half the rate."""
    links = KvLinks([1e6], lambda _a, _b, tokens: Traffic("kv", (0,), (1.0,), 1e3 * tokens, 0.0))
    load = RequestLoad(np.array([100, 100]), np.array([2, 2]), np.array([0.0, 0.0]))

    pools = Deployment(model(), 1, "round-robin", model(), 2, links)
    replayed = replay_requests(load, pools)

    prompt = seconds(Batch(0, 0, _prompt(100)))
    assert replayed.requests.first == pytest.approx([prompt + 0.2] * 2)


def test_speculation_shortens_the_time_of_a_token():
    """With 2 tokens a step a request takes half the steps."""
    load = RequestLoad(np.array([16]), np.array([41]), np.array([0.0]))
    cost = lambda _: 0.01  # noqa: E731

    replayed = replay_requests(load, Deployment(model(cost=cost, gain=2.0)))

    assert time_per_token(replayed) == pytest.approx(0.005)
    assert replayed.emitted == pytest.approx(41)


def test_a_static_batch_returns_as_a_whole():
    """Without continuous batching, a second batch starts when the first is complete."""
    load = RequestLoad(np.full(4, 16), np.array([4, 8, 4, 8]), np.zeros(4))
    rules = Scheduling(continuous=False, sequences=2)

    replayed = replay_requests(load, Deployment(model(rules)))

    ends = replayed.requests.ordered.finish
    assert ends[0] == ends[1] < ends[2] == ends[3]


def test_a_prompt_beyond_the_budget_has_steps_of_its_own():
    """Chunks share steps with decoding; whole prompts of an engine without chunks do not."""
    load = RequestLoad(np.array([16, 1000]), np.array([100, 2]), np.array([0.0, 0.05]))

    chunked = replay_requests(load, Deployment(model(_CHUNKED)))
    whole = replay_requests(load, Deployment(model(Scheduling(mixed=False, chunked=False))))

    assert max(chunked.steps[0].prompt_tokens) <= 256
    assert max(whole.steps[0].prompt_tokens) == 1000
    assert not (whole.steps[0].sequences[whole.steps[0].prompt_tokens > 0]).any()


def _prompt(tokens: int) -> tuple[Prompt, ...]:
    return (Prompt(tokens, 0),)


_CHUNKED = Scheduling(budget=256)


@given(st.integers(2, 12), st.integers(1, 5), st.integers(2, 60))
@settings(max_examples=25, deadline=None)
def test_prompts_that_are_cached_never_exceed_the_pool(requests, prompt_blocks, output):
    """Requests that are admitted together need a block each for their first tokens."""
    inputs, outputs = np.full(requests, 16 * prompt_blocks), np.full(requests, output)
    load = RequestLoad(inputs, outputs, np.zeros(requests), cached=True)
    blocks = 2 * prompt_blocks + 3 + output // 16

    replayed = replay_requests(load, Deployment(model(blocks=blocks)))

    assert len(replayed.requests) == requests
    assert max(replayed.peak_blocks) <= blocks


# --- records --------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 99),
    gain=st.sampled_from([1.0, 1.75]),
    window=st.tuples(st.floats(0, 8), st.floats(0, 8)).map(sorted),
)
def test_steps_within_a_time_are_those_of_the_table(seed, gain, window):
    """A window cuts runs of steps as it cuts single ones, with their contexts and blocks."""
    draw = np.random.default_rng(seed)
    load = poisson(6.0, draw.integers(1, 300, 40), draw.integers(1, 200, 40), seed)
    (steps,) = replay_requests(load, Deployment(model(gain=gain))).steps
    begin, end = window
    table = steps.table()
    inside = (table.end > begin) & (table.start < end)

    within = steps.within(begin, end)

    for column, singles in zip(within.table(), table, strict=True):
        assert (column == singles[inside]).all()
    assert within.sums.steps == len(within) == inside.sum()
    assert batches(within) == [b for b, known in zip(batches(steps), inside, strict=True) if known]


@settings(max_examples=10, deadline=None)
@example(seed=82, most=1573)
@given(seed=st.integers(0, 99), most=st.integers(1500, 4000))
def test_a_record_that_drops_steps_has_the_sums_of_all(seed, most):
    """Sums are exact, and the steps that remain are some of all, from the first to the last."""
    draw = np.random.default_rng(seed)
    load = poisson(6.0, draw.integers(1, 300, 300), draw.integers(1, 200, 300), seed)
    (whole,) = replay_requests(load, Deployment(model())).steps
    record = StepRecord(1.0, most)
    first = np.cumsum(whole.count) - whole.count
    with patch.object(steps_module, "BLOCK", 8):  # a block is a small part of what is recorded
        for run, (at, count) in enumerate(zip(first, whole.count, strict=True)):
            ends, blocks = (each[at : at + count].tolist() for each in (whole.ends, whole.blocks))
            batch = whole.batch(run)
            used, growth = blocks[0], np.diff(blocks).tolist()
            waiting, start = int(whole.waiting[run]), float(whole.start[run])
            record.add(start, stretches_of(ends), used, growth, waiting, *batch)

    part = record.steps()

    assert part.sums == pytest.approx(whole.sums, rel=1e-12)
    assert len(part) == len(whole) > most >= len(part.ends)
    assert len(part.ends) > most / 8
    assert set(part.ends.tolist()) <= set(whole.ends.tolist())
    assert part.number[0] == 0
    assert part.number[-1] > len(whole.count) - 256
    assert part.seconds_within(0.0, 1e9) == pytest.approx(whole.sums.seconds)
    assert all(part.batch(run) == whole.batch(number) for run, number in enumerate(part.number))


def test_completed_requests_are_columns_and_rows():
    """Each row has the values of the columns, whichever requests are chosen and in which order."""
    load = poisson(30.0, np.full(50, 100), np.arange(1, 51))

    requests = replay_requests(load, Deployment(model(_CHUNKED))).requests

    rows = [*requests.ordered]
    assert [row.number for row in rows] == [*range(50)]
    assert [row.output for row in rows] == [*range(1, 51)]
    assert [row.finish for row in requests[requests.output > 30]] == sorted(
        row.finish for row in rows if row.output > 30
    )
