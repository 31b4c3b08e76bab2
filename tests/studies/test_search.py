"""`clustersim search`: bounds hold, the answer is that of all replays, counts are exact."""

import json
import math
import random
import time
from concurrent.futures import wait
from dataclasses import replace
from itertools import product, takewhile
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.search import DEVICES, SCENARIO, SETTINGS, samples, step_times
from clustersim import search
from clustersim.answers import from_json, to_json
from clustersim.catalog.prices import find_site
from clustersim.cost.prices import build_site
from clustersim.errors import ScenarioError
from clustersim.exporters.arguments import launch_of, layout_arguments
from clustersim.memory.peak import estimate_memory
from clustersim.program.schedules import SCHEDULES
from clustersim.runs.executors import _Pool
from clustersim.scenario.load import load
from clustersim.simulation.limits import read_limits
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.result import Result
from clustersim.simulation.step.simulate import simulate, simulate_if_it_fits
from clustersim.studies.search import SearchAnswer
from clustersim.studies.search.files import page
from clustersim.studies.search.service import candidates
from clustersim.studies.search.step import candidates as step_candidates
from clustersim.studies.search.step.arguments import allows, split_limits
from clustersim.studies.search.step.lower_bound.layout_values import (
    Cell,
    Column,
    Layout,
    Mesh,
    Shape,
    Sharding,
)
from clustersim.studies.search.step.lower_bound.memory_bound import first_forwards
from clustersim.studies.search.step.lower_bound.step_bound import StepBounds
from clustersim.studies.search.step.own_layout import own_layout
from clustersim.studies.search.step.space import FREE, Choices, Space
from clustersim.studies.search.text import distinct, rows
from clustersim.timeline import FORWARD
from clustersim.workload.ops import Recompute
from commands import output, printed
from small import small
from tests.random_steps import random_cases

LARGE = pytest.mark.large

JOBS = {
    "dense on one framework": ("frontier-22b", ["batch.global=16"]),
    "with experts": ("mixtral-ep-imbalance", ["cluster.nodes=1", "batch.global=16"]),
    "sharded weights": (
        "llama3-405b-16k",
        ["cluster.nodes=1", "batch.global=16", "model=llama3-8b", "framework=torchtitan"],
    ),
    "concurrent steps": ("deepseek-v3-h800", ["cluster.nodes=4", "batch.global=32"]),
    "blocking sends": ("megatron21-t1-1.7b", ["cluster.nodes=2", "batch.global=32"]),
    "offload": (
        "qlora-70b-2x3090",
        ["batch.global=8"],
    ),
    "optimiser on the host": (
        "megatron21-t1-1.7b",
        [
            *("cluster.nodes=2", "batch.global=32", "framework=megatron-core", "precision=bf16"),
            "offload.optimiser=true",
        ],
    ),
    "weights on the host": (
        "megatron21-t1-1.7b",
        [
            *("cluster.nodes=2", "batch.global=32", "framework=deepspeed"),
            *("offload.parameters=true", "offload.activations=true"),
        ],
    ),
}


def sampled(space, count, seed):
    """Return random layouts of a space, each number of stages as often as another."""
    rng, found = random.Random(seed), []
    for layouts in space.layouts:
        rows, columns = layouts.allowed.nonzero()
        for at in rng.sample(range(len(rows)), min(len(rows), count // len(space.layouts) + 1)):
            found.append(layouts.layout(int(rows[at]), int(columns[at])))
    return found[:count]


def least_memory(bounds, layout):
    """Return the bounds of the memory of one layout, of a device and of a host [B]."""
    column = Column(layout.cell, layout.sharding)
    held = bounds.memory([layout.shape], [column], layout.cell.mesh.pipeline)
    return held.device[0, 0], held.host[0, 0]


def ratios(scenario, settings, count, seed=0):
    """Return bound over replay of step time, of memory and of energy, of random layouts."""
    loaded = load(scenario, settings)
    bounds = StepBounds(loaded)
    space = Space(bounds.jobs, Choices(loaded))
    layouts = sampled(space, count, seed)
    times, memories, energies = [], [], []
    for layout, least in zip(layouts, bounds.of(layouts), strict=True):
        result = simulate(loaded.changed(layout.settings))
        columns = bounds.tables.columns(
            [Column(layout.cell, layout.sharding)], layout.cell[0].pipeline
        )
        times.append(least / result.step_time)
        memories.append(least_memory(bounds, layout)[0] / result.memory.fullest.peak)
        joules = bounds.joules(layout.shape, columns, np.array([least]))[0]
        energies.append(joules / result.energy.joules)
    return times, memories, energies


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The search of all layouts of the small scenario."""
    return search(small(tmp_path_factory.mktemp("found")), jobs=1)


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("job", JOBS)
def test_no_replay_is_faster_than_its_bound_nor_smaller(job):
    """The bound of each random layout is at most its replay, in time, memory and energy."""
    count = 5
    times, memories, energies = ratios(*JOBS[job], count=count)

    assert len(times) > 4
    assert max(times) <= 1
    assert max(memories) <= 1
    assert max(energies) <= 1


@LARGE
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("seed", random_cases(1, 12))
def test_no_replay_of_thousands_is_faster_than_its_bound(job, seed):
    """The same of thousands of random layouts."""
    times, memories, energies = ratios(*JOBS[job], count=20, seed=seed)

    assert max(times) <= 1
    assert max(memories) <= 1
    assert max(energies) <= 1


@pytest.mark.parametrize("shape", [Shape("1f1b"), Shape("interleaved-1f1b", 12)])
def test_a_pipeline_through_one_card_for_eight_devices_is_bounded_by_its_bytes(shape):
    """The bound has the time of the card: a search replayed each layout of many chunks."""
    machine = ["cluster={name: server-8xl40s, nodes: 2}", "plan={tensor: 1, data: 16}"]
    loaded = load("megatron21-t1-1.7b", [*machine, "batch.global=32"])
    layout = Layout(Cell(Mesh(1, 1, 8, 2), 2), shape)
    (least,) = StepBounds(loaded).of([layout])
    step = simulate(loaded.changed(layout.settings)).step_time

    assert least <= step
    assert shape.chunks == 1 or least > 0.6 * step


def test_a_step_with_states_on_the_host_is_bounded_by_its_copies():
    """Each microbatch copies its gradients: `size` replayed 196 layouts of a model too large."""
    times, _, _ = ratios(*JOBS["optimiser on the host"], count=20)

    assert median(times) > 0.9


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_step_with_sharded_weights_is_bounded_by_their_gathers(recompute):
    """Each microbatch gathers them over PCIe: `size` replayed layouts of 20 times the best step."""
    machine = ["cluster={name: server-8xl40s, nodes: 4}", "framework=pytorch-fsdp"]
    settings = [*machine, "precision=bf16", "plan={data: 32}", "batch.global=256"]
    loaded = load("megatron21-t1-1.7b", settings)
    shape = Shape("1f1b", recompute=Recompute(recompute))
    layout = Layout(Cell(Mesh(1, 1, 32, 1), 1), shape, Sharding(3))
    (least,) = StepBounds(loaded).of([layout])
    step = simulate(loaded.changed(layout.settings)).step_time

    assert 0.8 * step < least <= step


def test_a_block_with_sharded_weights_is_bounded_by_its_first_gather():
    """With a layer for each chunk nothing hides it: `size` replayed 43 layouts of FSDP."""
    settings = ["cluster={name: dgx-h100, nodes: 4}", "framework=torchtitan", "precision=bf16"]
    loaded = load("megatron21-t1-1.7b", [*settings, "plan={data: 32}", "batch.global=64"])
    shape = Shape("interleaved-1f1b", chunks=12)
    layout = Layout(Cell(Mesh(1, 1, 16, 2), 1), shape, Sharding(3))
    (least,) = StepBounds(loaded).of([layout])
    step = simulate(loaded.changed(layout.settings)).step_time

    assert 0.75 * step < least <= step


def test_a_mirrored_pipeline_had_the_moves_of_one_whose_chunks_are_in_a_row():
    """Both have the same layers by different chunk, of which others hold the ends."""
    settings = ["cluster={name: dgx-h100, nodes: 4}", "framework=torchtitan", "precision=bf16"]
    loaded = load("megatron21-t1-1.7b", [*settings, "plan={data: 32}", "batch.global=64"])
    layouts = [
        Layout(Cell(Mesh(1, 1, 16, 2), 1), Shape(schedule, chunks=2), Sharding(3))
        for schedule in ("interleaved-1f1b", "zb-v")
    ]
    alone = [StepBounds(loaded).of([layout])[0] for layout in layouts]

    assert StepBounds(loaded).of(layouts) == alone
    assert StepBounds(loaded).of(layouts[::-1]) == alone[::-1]


@pytest.mark.parametrize("job", ["with experts", "sharded weights", "offload"])
def test_the_bound_of_a_layout_is_the_same_next_to_others(job):
    """Kernels and tails are computed once for all cells that share them, to the last digit."""
    loaded = load(*JOBS[job])
    bounds = StepBounds(loaded)
    layouts = sampled(Space(bounds.jobs, Choices(loaded)), 40, seed=3)

    alone = [StepBounds(loaded).of([layout]) for layout in layouts[:6]]

    assert [[each] for each in bounds.of(layouts)[:6]] == alone


def test_bounds_are_close_to_the_replay():
    """The median bound is at least 85 % of the replay, which is what makes the search short."""
    times, _, energies = ratios(*JOBS["blocking sends"], count=20)

    assert median(times) > 0.95
    assert median(energies) > 0.9


# --- the space ------------------------------------------------------------------------------------


def layouts_of(space):
    """Return all layouts of a space."""
    return [
        layouts.layout(int(row), int(column))
        for layouts in space.layouts
        for row, column in zip(*layouts.allowed.nonzero(), strict=True)
    ]


def test_every_layout_of_a_space_is_valid(tmp_path):
    """Each layout that the rules leave can be built, and no two are equal."""
    loaded = load(small(tmp_path), ["batch.global=8"])
    space = Space(StepBounds(loaded).jobs, Choices(loaded))
    layouts = layouts_of(space)

    assert len({*layouts}) == len(layouts) == space.valid
    for layout in random.Random(0).sample(layouts, 150):
        build_job(loaded.changed(layout.settings))


def test_rules_exclude_what_cannot_be_built(tmp_path):
    """All combinations of some keys that a rule excludes are invalid."""
    fixed = [key for key in FREE if key not in KEYS]
    loaded = load(small(tmp_path), ["batch.global=8"])
    choices = Choices(loaded, fixed)
    space = Space(StepBounds(loaded).jobs, choices)
    kept = {json.dumps(layout.settings) for layout in layouts_of(space)}
    valid = 0
    for degrees, (micro, shared), shape in product(
        choices.degrees, choices.microbatches(1), choices.shapes
    ):
        layout = Layout(Cell(Mesh(*degrees), micro, shared), shape)
        try:
            build_job(loaded.changed(layout.settings))
        except ScenarioError:
            assert json.dumps(layout.settings) not in kept
        else:
            valid += 1

    assert space.possible == space.valid + space.excluded.total()
    assert space.valid == valid


KEYS = ("plan.tensor", "plan.data", "plan.pipeline", "batch.micro", "plan.sequence_parallel")


def test_counts_add_up(found):
    """Each possible layout is excluded, bounded, too large, replayed or open."""
    counts = found.layouts

    assert counts.possible == (
        counts.excluded + counts.bounded + counts.memory + counts.replayed + counts.open
    )
    assert sum(rule.count for rule in found.rules) == counts.excluded


# --- the best -------------------------------------------------------------------------------------


def replays(loaded):
    """Return the replays of all layouts of a scenario that fit, and the number of valid ones."""
    space = Space(StepBounds(loaded).jobs, Choices(loaded, ["recompute", "plan.layers"]))
    results = (simulate_if_it_fits(loaded.changed(one.settings)) for one in layouts_of(space))
    return [one for one in results if isinstance(one, Result)], space.valid


FIXED = ["recompute=none", "plan.layers=even"]
CAPPED = ["batch.global=2", *FIXED, "cluster.node.accelerator.power_cap=250 W"]


@pytest.fixture(scope="module")
def all_replays(tmp_path_factory):
    """Replays of all layouts of a small job under a power cap, and the number of valid ones."""
    return replays(load(small(tmp_path_factory.mktemp("capped")), CAPPED))


def test_the_answer_is_that_of_an_exhaustive_search(all_replays, tmp_path):
    """The best layouts are those of replaying every layout."""
    found, valid = all_replays
    times = sorted(result.step_time for result in found)
    answer = search(small(tmp_path), settings=CAPPED, jobs=1)

    assert valid > 80
    assert answer.layouts.possible - answer.layouts.excluded == valid
    assert answer.gap == 0
    proven = [one.measures["step_time_s"] for one in answer.ranked[: answer.proven]]
    assert proven == pytest.approx(times[: answer.proven], rel=1e-12)


def test_the_layouts_of_least_energy_are_those_of_an_exhaustive_search(all_replays, tmp_path):
    """Most tokens for a joule are proven as those of replaying every layout."""
    found, valid = all_replays
    energies = sorted(result.energy.joules for result in found)
    answer = search(small(tmp_path), settings=CAPPED, objective="tokens_per_joule", jobs=1)
    first = found[0].scenario.batch
    tokens = first.global_ * first.sequence
    proven = [tokens / one.value for one in answer.ranked[: answer.proven]]

    assert answer.gap == 0
    assert answer.layouts.replayed < valid / 2
    assert proven == pytest.approx(energies[: answer.proven], rel=1e-12)
    assert answer.ranked[0].value == pytest.approx(tokens / energies[0])
    assert all(one.bound >= one.value for one in answer.ranked)


@pytest.mark.parametrize("limited", ["tokens_per_joule", "tokens_per_s", "step_time_s"])
def test_limits_of_objectives_hold(all_replays, tmp_path, limited):
    """The best of the layouts within a limit is that of replaying every layout."""
    found, _ = all_replays
    batch = found[0].scenario.batch
    tokens = batch.global_ * batch.sequence
    measure = {
        "tokens_per_joule": lambda one: tokens / one.energy.joules,
        "tokens_per_s": lambda one: one.tokens_per_s,
        "step_time_s": lambda one: -one.step_time,
    }[limited]
    worst = sorted(map(measure, found))[len(found) // 2]
    within = [one for one in found if measure(one) >= worst]
    least = min(one.memory.fullest.peak for one in within)
    sign = "<=" if limited == "step_time_s" else ">="
    limits = [f"{limited}{sign}{abs(worst)!r}", f"memory<={least * 1.001} B"]
    few = [one for one in within if one.memory.fullest.peak <= least * 1.001]
    answer = search(small(tmp_path), settings=CAPPED, limits=limits, jobs=1)

    assert answer.best.step_time_s == pytest.approx(min(one.step_time for one in few))
    assert answer.layouts.limited > 0
    assert sum(vars(answer.layouts).values()) == 2 * answer.layouts.possible


def test_a_lower_cap_takes_less_energy_and_more_time(tmp_path):
    """Of two caps the lower one has the most tokens for a joule, the higher one per second."""
    free = ["cluster.node.accelerator.power_cap=250 W,400 W"]
    fixed = [*FIXED, "plan.tensor=1", "plan.pipeline=1"]
    best = {
        by: search(small(tmp_path), free=free, objective=by, settings=fixed, jobs=1)
        for by in ("tokens_per_joule", "tokens_per_s")
    }
    caps = [answer.best.set_["cluster.node.accelerator.power_cap"] for answer in best.values()]

    assert caps == ["250 W", "400 W"]
    assert best["tokens_per_joule"].best.step_time_s > best["tokens_per_s"].best.step_time_s
    lines = {line.label: line.text for line in rows(best["tokens_per_joule"])}
    assert "tokens/J" in "".join(line.text for line in rows(best["tokens_per_joule"]))
    assert "of the replays" in lines["proof"]
    assert lines["vs second"].startswith("tokens per joule ")


def test_limits_that_no_layout_meets_are_stated(tmp_path):
    """No layout is left, and the line states that it is the limits as well."""
    answer = search(small(tmp_path), settings=CAPPED, limits=["tokens_per_joule>=1e6"], jobs=1)

    assert answer.best is None
    assert answer.layouts.replayed == 0
    assert rows(answer)[0].text == "no layout fits in memory and meets the limits"
    cards = page(answer).sections[0].blocks[0].cards  # the page began with "layouts replayed 0"
    assert cards[0].warning
    assert cards[0][:3] == ("best layout", "none", rows(answer)[0].text)


@LARGE
@pytest.mark.exhaustive
def test_the_answer_is_that_of_an_exhaustive_search_of_thousands(tmp_path):
    """The same of thousands of layouts."""
    settings = ["batch.global=128", *FIXED]
    found, valid = replays(load(small(tmp_path), settings))
    times = sorted(result.step_time for result in found)
    answer = search(small(tmp_path), settings=settings, jobs=1)

    assert valid > 1000
    assert answer.best.step_time_s == pytest.approx(times[0], rel=1e-12)


@LARGE
def test_no_sampled_layout_of_millions_is_better():
    """Of 7.3 million layouts of 175B on 1,024 devices, no random one beats the best that is found.

    Half of the sample is of the 20 with the least bounds, half of 200.
    """
    best = search(SCENARIO, devices=DEVICES, settings=SETTINGS).best.step_time_s
    sampled = [variant for drawn in samples(2).values() for variant in drawn]
    times = step_times(sampled)

    assert len(times) >= 2
    assert min(times) >= best


@pytest.mark.large
def test_each_objective_has_the_same_best_for_one_batch(tmp_path):
    """With one batch and one machine all objectives agree."""
    bests = {
        objective: search(small(tmp_path), objective=objective, settings=FIXED, jobs=1)
        for objective in ("tokens_per_s", "mfu", "step_time_s")
    }

    assert len({answer.best.step_time_s for answer in bests.values()}) == 1
    mfu = bests["mfu"]
    assert mfu.ranked[0].value == mfu.best.mfu
    assert mfu.ranked[0].value >= mfu.ranked[-1].value


def stopped_search(monkeypatch, *arguments, **options):
    """Return a search whose time is over when it has its first layout."""
    clock = SimpleNamespace(perf_counter=lambda: clock.now, now=time.perf_counter())
    monkeypatch.setattr("clustersim.studies.search.loop.time", clock)

    def stop(progress):
        clock.now += 2e3 if progress.best else 0.0

    answer = search(*arguments, seconds=1e3, jobs=1, on_progress=stop, **options)
    monkeypatch.undo()
    return answer


@pytest.mark.large
def test_a_gap_and_a_time_end_a_search_early(found, tmp_path, monkeypatch):
    """With a gap fewer layouts are replayed, and the stated gap bounds the best one."""
    file = small(tmp_path)
    coarse = search(file, gap=0.2, jobs=1)
    short = stopped_search(monkeypatch, file)

    assert coarse.layouts.replayed < found.layouts.replayed
    for answer in (coarse, short):
        least = answer.best.step_time_s * (1 - answer.gap)
        assert least <= found.best.step_time_s <= answer.best.step_time_s
    assert coarse.gap <= 0.2
    assert short.layouts.open > 0
    assert short.proven == 0


def test_values_of_the_recomputation_are_searched(tmp_path):
    """``--free recompute=none,full`` ended in an internal error, and a table of it as well."""
    free = ["recompute=none,{mode: full, every: 2}"]
    answer = search(small(tmp_path), free=free, settings=["plan.tensor=8"], jobs=1)

    modes = {str(one.set_.get("recompute")) for one in answer.ranked}
    assert len(modes) == 2


@pytest.mark.large
def test_limits_and_values_restrict_the_space(found, tmp_path):
    """A limit of memory or of a degree, the values of a key, and a key that is set all hold."""
    file = small(tmp_path)
    limited = search(file, limits=["plan.tensor>=4", "memory<=20GiB"], jobs=1)
    listed = search(file, free=["plan.pipeline=2,4"], settings=["recompute=full"], jobs=1)

    assert limited.best.memory.peak_bytes <= 20 * 2**30 < found.best.memory.peak_bytes
    assert all(one.set_["plan.tensor"] >= 4 for one in limited.ranked)
    assert {one.set_["plan.pipeline"] for one in listed.ranked} <= {2, 4}
    assert all("recompute" not in one.set_ for one in listed.ranked)


@pytest.mark.large
def test_other_keys_can_be_free(tmp_path):
    """A free precision and a free number of nodes are searched together with the layout."""
    answer = search(
        small(tmp_path),
        free=["cluster.nodes=1,2", "plan.tensor=1,2"],
        objective="tokens_per_s_per_device",
        settings=FIXED,
        jobs=1,
    )

    assert answer.devices == (8, 16)
    assert answer.best.set_["cluster.nodes"] in (1, 2)
    assert {front.against for front in answer.pareto} >= {"memory_peak_bytes"}


def test_the_best_for_the_money_is_that_of_all_machines(tmp_path):
    """Of two machines the one with more tokens for its price is found, with a front over price."""
    file, by = small(tmp_path), "tokens_per_dollar"
    fixed = [*FIXED, "plan.tensor=1", "plan.pipeline=1", "plan.zero=0"]
    machines = ["superpod-a100", "dgx-h100"]
    free = [f"cluster.name={','.join(machines)}"]
    both = search(file, free=free, objective=by, settings=fixed, top=100, jobs=1)
    bests = [
        search(file, objective=by, settings=[*fixed, f"cluster.name={name}"], jobs=1).ranked[0]
        for name in machines
    ]
    best = both.ranked[0]

    assert best.value == max(one.value for one in bests)
    rate, price = best.measures["tokens_per_s"], best.measures["usd_per_hour"]
    assert best.value == pytest.approx(rate * 3600 / price)
    assert "usd_per_hour" in {front.against for front in both.pareto}


def test_the_stated_kind_of_price_is_that_of_the_objective(tmp_path):
    """Tokens per dollar of a purchase need no rental."""
    fixed = [*FIXED, "plan.tensor=1", "plan.pipeline=1", "plan.zero=0"]
    fixed += ["cluster.name=dgx-b200", "costs.price=purchase", "costs.site=industry-mean"]
    best = search(small(tmp_path), objective="tokens_per_dollar", settings=fixed, jobs=1).ranked[0]
    site, numbers = build_site(find_site("industry-mean")), best.measures
    hourly = 47_409 / 4 / 8766 * 8 + numbers["power_w"] / 1e3 * site.pue * site.electricity

    assert numbers["usd_per_hour"] == pytest.approx(hourly)


@pytest.mark.parametrize(
    ("base", "fixed"),
    [("small", [*FIXED, "plan.tensor=1", "plan.pipeline=1"]),
     ("llama3-70b-h100-serving", ["load.concurrency=8", "load.requests=16", "plan.tensor=8"])],
)  # fmt: skip
def test_a_limit_of_power_states_of_what_it_is(base, fixed, tmp_path):
    """That of the machine is kept where the same number with the PUE of the site is missed."""
    file, site = small(tmp_path) if base == "small" else base, "costs.site=industry-mean"
    found = search(file, settings=[*fixed, site], jobs=1).ranked[0].measures
    limit, kept = 1.1 * found["power_w"], search(file, settings=fixed, jobs=1)

    assert found["site_power_w"] == pytest.approx(1.57 * found["power_w"])
    assert "site_power_w" not in kept.ranked[0].measures
    for name, fits, words in (("power_w", True, "without"), ("site_power_w", False, "with")):
        options = {"settings": [*fixed, site], "limits": [f"{name}={limit} W"], "jobs": 1}
        limited = search(file, **options)
        lines = {line.label: line.text for line in rows(limited)}
        assert (limited.best is not None) == fits
        assert f"{words} PUE" in lines["limits"]


def test_the_best_layout_runs_as_it_is_reported(found, tmp_path):
    """A run with the values of `set` has the step time of the answer."""
    assert simulate(small(tmp_path), found.best.set_).step_time == found.best.step_time_s


def test_a_search_that_ends_before_all_bounds_has_the_best_so_far(tmp_path, monkeypatch):
    """Half of the time is left to replays; without a bound of each layout there is no gap."""
    module = "clustersim.studies.search.step.candidates"
    monkeypatch.setattr(f"{module}.SHARE_OF_BOUNDS", 0.0)
    monkeypatch.setattr(f"{module}.COLUMNS", 8)
    answer = search(small(tmp_path), settings=FIXED, seconds=1e3, jobs=1)
    counts, lines = answer.layouts, {row.label: row.text for row in rows(answer)}

    assert answer.best is not None
    assert (answer.gap, answer.proven) == (None, 0)
    assert 0 < counts.unbounded <= counts.open
    assert lines["proof"].startswith(f"none: the time was over before {counts.unbounded:,} layouts")


ALONE = ("plan.tensor=1", "plan.pipeline=1", "plan.data=8", "plan.zero=0", "plan.schedule=1f1b")
"""Keys of replicas that have all states of the model."""


def test_a_model_whose_states_fit_on_the_host_was_too_large(tmp_path):
    """Where no layout fits on the devices, the least that the hosts can hold is searched."""
    capacity = "cluster.node.accelerator.memory.capacity.value"
    answers = [
        search(small(tmp_path), settings=[*ALONE, f"{capacity}={size} GB"], jobs=1)
        for size in (70, 20, 1)
    ]
    lines = {row.label: row.text for row in rows(answers[1])}

    assert [answer.offload for answer in answers] == [(), ("optimiser",), ()]
    assert answers[1].best.set_["offload.optimiser"] is True
    assert answers[1].scenario["offload"] == {"optimiser": True}
    assert "(--set offload.optimiser=true)" in lines["offload"]
    assert "offload optimiser true" in lines["best"]
    assert answers[2].best is None


def test_an_offload_that_is_stated_is_not_searched(tmp_path):
    """Arguments and scenario decide what hosts hold."""
    capacity = "cluster.node.accelerator.memory.capacity.value=20 GB"
    for stated in ("offload.optimiser=false", "offload.activations=true"):
        settings = [*ALONE, "recompute=full", capacity, stated]
        assert search(small(tmp_path), settings=settings, jobs=1).offload == ()


OWN = ("plan.tensor=8", "plan.pipeline=1", "plan.data=1")
"""A layout four times as slow as the best one."""


def test_a_best_so_far_was_worse_than_the_scenarios_own_layout(tmp_path, monkeypatch):
    """The own layout is bounded and replayed before all others, whatever its bound."""
    file = small(tmp_path)
    answer = stopped_search(monkeypatch, file, settings=OWN,
                            free=["plan.tensor", "plan.pipeline", "plan.data"])  # fmt: skip
    own = load(file, OWN)

    assert answer.layouts.replayed == 1
    assert answer.best.step_time_s == simulate(own).step_time
    assert answer.differences[-1].gain == 1.0


@pytest.mark.parametrize(
    "settings",
    [(), ("plan.layers=[12, 12]",), ("recompute={mode: full, every: 12}",), ("plan.data=1",
     "plan.context=2", "plan.context_method=all-gather", "framework=megatron-core")],
    ids=("usual", "as another rule", "as a smaller interval", "context"),
)  # fmt: skip
def test_the_own_layout_is_in_the_space_or_one_that_runs_alike(tmp_path, settings):
    """Its replay takes the time of the scenario, to the last digit."""
    loaded = load(small(tmp_path), settings)
    bounds = StepBounds(loaded)
    space = Space(bounds.jobs, Choices(loaded))
    [at] = [
        layouts.layout(*own)
        for layouts in space.layouts
        if (own := own_layout(loaded, layouts, space.rules))
    ]

    assert simulate(loaded.changed(at.settings)).step_time == simulate(loaded).step_time


def test_parts_with_an_end_of_the_model_alone_were_excluded():
    """Llama 3 405B has 126 layers in 128 parts: its own layout was no layout of the search."""
    fixed = ["plan.tensor", "plan.pipeline", "plan.data", "plan.zero", "batch.micro", "recompute"]
    loaded = load("llama3-405b-16k")
    bounds = StepBounds(loaded)
    space = Space(bounds.jobs, Choices(loaded, fixed))
    [layouts] = space.layouts
    own = layouts.layout(*own_layout(loaded, layouts, space.rules))

    assert (own.shape.chunks, own.shape.layers) == (8, "with-ends")


# --- the run cache --------------------------------------------------------------------------------


def test_a_repeated_search_is_answered_from_the_run_cache(tmp_path):
    """The same search computes nothing, until its scenario or an argument changes."""
    file, store = small(tmp_path), tmp_path / "studies.db"
    first = search(file, settings=FIXED, store=store, jobs=1)
    again = search(file, settings=FIXED, store=store, jobs=1)
    wider = search(file, settings=FIXED, store=store, gap=0.01, jobs=1)
    file.write_text(file.read_text().replace("micro: 1", "micro: 2"))
    edited = search(file, settings=["batch.global=16", *FIXED], store=store, jobs=1)

    assert first.fresh >= first.layouts.replayed > 0
    assert replace(again, fresh=first.fresh, wall_s=first.wall_s) == first
    assert wider.fresh == 0
    assert edited.fresh > 0


def test_an_interrupted_search_resumes(tmp_path):
    """Replays that were completed before the interrupt are not computed again."""
    file, store = small(tmp_path), tmp_path / "studies.db"
    whole = search(file, settings=FIXED, jobs=1)

    def interrupt(progress):
        if progress.computed == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(file, settings=FIXED, store=store, jobs=1, on_progress=interrupt)
    resumed = search(file, settings=FIXED, store=store, jobs=1)

    assert resumed.fresh == whole.fresh - 3
    assert (resumed.ranked, resumed.layouts) == (whole.ranked, whole.layouts)


def test_a_search_that_is_stopped_is_no_answer_to_a_whole_one(tmp_path, monkeypatch):
    """After `seconds` the best so far is returned, and is not kept as the answer."""
    file, store = small(tmp_path), tmp_path / "studies.db"
    short = stopped_search(monkeypatch, file, settings=FIXED, store=store)
    whole = search(file, settings=FIXED, store=store, jobs=1)

    assert short.layouts.open > 0
    assert whole.layouts.open == 0


def own_layout_in_time(monkeypatch, place, patched, *arguments, **options):
    """Return a search whose time is over in a method, when its own layout has been replayed."""
    clock = SimpleNamespace(perf_counter=lambda: clock.now, now=time.perf_counter())
    monkeypatch.setattr("clustersim.studies.search.loop.time", clock)
    plain, submit, running = getattr(place, patched), _Pool.submit, []

    def late(*given, **more):
        wait(running)
        clock.now += 2e3
        return plain(*given, **more)

    def submitted(pool, *task):
        running.append(submit(pool, *task))
        return running[-1]

    monkeypatch.setattr(place, patched, late)
    monkeypatch.setattr(_Pool, "submit", submitted)
    answer = search(*arguments, seconds=1e3, jobs=1, **options)
    monkeypatch.undo()
    return answer


def test_a_search_whose_time_ended_before_its_layouts_were_generated_had_no_answer(
    tmp_path, monkeypatch
):
    """On 16,384 devices 20 s ended in an error: the scenario's own layout is the best so far."""
    file = small(tmp_path)
    answer = own_layout_in_time(monkeypatch, Space, "_by_stages", file)
    whole = Space(StepBounds(load(file)).jobs, Choices(load(file))).possible
    lines = {row.label: row.text for row in rows(answer)}

    assert answer.best.step_time_s == simulate(file).step_time
    assert (answer.layouts.replayed, answer.layouts.possible) == (1, whole)
    assert answer.layouts.open == answer.layouts.unbounded == whole - 1
    assert answer.gap is None
    assert "before" in lines["proof"]
    assert "not replayed" not in lines["vs scenario"]


def test_an_own_layout_without_a_bound_in_time_was_not_replayed(tmp_path, monkeypatch):
    """405B on 256 GB200 with 20 s had no best so far: other layouts were bounded before its own."""
    plain, sizes = step_candidates._known_in_time, []

    def without_own(parts, pieces, *rest):
        sizes.append(pieces[0].size)
        known = plain(parts, pieces, *rest)
        return {at: bounds for at, bounds in known.items() if at}

    monkeypatch.setattr(step_candidates, "_known_in_time", without_own)
    free = ["plan.tensor", "plan.pipeline", "plan.data"]
    answer = search(small(tmp_path), settings=OWN, free=free, seconds=1e3, jobs=1)

    assert answer.layouts.unbounded == sizes[0] - 1
    assert [each.why for each in answer.differences if each.against == "scenario"] == [None]
    assert answer.gap is None


def test_the_own_layout_of_a_service_was_not_replayed_before_the_time_was_over(monkeypatch):
    """Its bound is the first of all, and its replay began before."""
    service = "llama3-70b-h100-serving"
    settings = {"load.requests": 16, "load.output": 4}
    answer = own_layout_in_time(
        monkeypatch, candidates._Replicas, "bounds", service, settings=settings
    )

    assert (answer.layouts.replayed, answer.best.set_["plan.tensor"]) == (1, 8)
    assert answer.layouts.unbounded == answer.layouts.open > 0
    assert [each.why for each in answer.differences if each.against == "scenario"] == [None]


def test_a_search_for_an_infinite_time_ended_in_an_overflow(tmp_path):
    """It has all the time that it needs."""
    assert search(small(tmp_path), settings=FIXED, seconds=math.inf, jobs=1).layouts.open == 0


def test_an_unreachable_scheduler_leaves_no_store(tmp_path, monkeypatch):
    """One line, and no file is written."""
    monkeypatch.setattr("clustersim.runs.dask_cluster.PATIENCE", 0.5)
    store = tmp_path / "studies.db"
    with pytest.raises(ScenarioError, match=r"executor: dask://127.0.0.1:9: no scheduler answers"):
        search(small(tmp_path), settings=FIXED, store=store, executor="dask://127.0.0.1:9")

    assert not store.exists()


# --- the answer -----------------------------------------------------------------------------------


def test_the_answer_has_its_documented_keys(found):
    """`best` is a run with its `set`, and the answer survives JSON."""
    data = json.loads(json.dumps(to_json(found)))

    assert {"best", "ranked", "layouts", "gap", "wall_s"} <= data.keys()
    assert data["best"]["set"]["plan.data"] * data["best"]["set"]["plan.pipeline"] <= 8
    assert data["best"]["memory"]["fits"]
    assert {*data["layouts"]} == {
        *("possible", "excluded", "bounded", "memory", "replayed", "open", "limited"),
            "unbounded",
    }  # fmt: skip
    assert from_json(SearchAnswer, data) == found


def test_differences_add_up(found):
    """The parts of a difference add up to what the best layout saves."""
    assert [one.against for one in found.differences] == ["second", "scenario"]
    for one in found.differences:
        (total,) = (a.total for a in found.best.accounts() if a.name == one.account)
        assert sum(one.parts.values()) == pytest.approx(total - one.before, rel=1e-9)


def test_search_prints_its_finding_first(capsys, tmp_path):
    """The command prints the best layout, the proof and the counts, and writes its files."""
    out, settings = tmp_path / "out", [f"--set={setting}" for setting in FIXED]
    places = f"--out={out}", f"--store={tmp_path / 'studies.db'}"
    text = output(capsys, "search", small(tmp_path), "--jobs=1", *settings, *places)
    lines = text.splitlines()

    assert lines[1].startswith("best          tensor ")
    assert lines[0] == "Best layout of gpt3-1.3b on 8 devices of selene"
    assert "no other layout is better" in text
    assert {"report.html", "summary.json", "search.csv"} <= {path.name for path in out.iterdir()}


def test_a_best_layout_without_room_for_errors_of_predictions_is_marked(found):
    """A layout at the edge of the memory was reported like one with room to spare."""
    memory = found.best.memory

    def margins(tight: bool) -> list[str]:
        best = replace(found.best, memory=replace(memory, tight=tight))
        return [line.text for line in rows(replace(found, best=best)) if line.label == "margin"]

    assert margins(tight=False) == []
    (edge,) = margins(tight=True)
    assert edge.startswith("the best has less room than predictions of memory can be off (")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["batch.global=3", "plan.data=2"], "no layout is possible on 8 devices"),
        (["plan={tensor: 8}", "batch.micro=1", "recompute=none"], "no key is free"),
        (["plan.tensor=3"], "with plan.tensor=3, whose product with the other degrees is not 8"),
    ],
)
def test_a_search_without_a_choice_is_rejected(tmp_path, settings, message):
    """The rules or the settings leave no layout, or one."""
    with pytest.raises(ScenarioError, match=message):
        search(small(tmp_path), settings=settings, jobs=1)


def test_limits_are_read():
    """The narrowest of several limits of a key holds."""
    texts = ["plan.tensor<=8", "plan.tensor >= 2", "plan.tensor<=4", "memory<=1GB", "memory<=2GB"]
    ranges, others = split_limits(texts)

    assert read_limits(others, ["step"], "a") == {"memory_peak_bytes": 1e9}
    assert [n for n in (1, 2, 4, 8) if allows(ranges, "plan.tensor", n)] == [2, 4]


@pytest.mark.large
@pytest.mark.parametrize(
    ("scenario", "settings"),
    [
        ("megatron21-t2-175b", ["cluster.nodes=4", "batch.global=64"]),
        *(
            (
                "frontier-22b",
                [
                    "cluster.nodes=2",
                    "batch.global=32",
                    "precision=bf16",
                    *offload,
                    f"framework={name}",
                ],
            )
            for name in ("deepspeed", "megatron-deepspeed", "torchtitan")
            for offload in (
                ["offload.optimiser=true"],
                ["offload.parameters=true"],
                ["offload.parameters=true", "offload.activations=true"],
            )
        ),
    ],
)
def test_memory_alone_is_estimated_above_its_bound(scenario, settings):
    """Memory of layouts that do not fit is bounded as well, without a replay, and that of hosts."""
    loaded = load(scenario, settings)
    bounds = StepBounds(loaded)
    for layout in sampled(Space(bounds.jobs, Choices(loaded)), 60, seed=1):
        estimate = estimate_memory(build_job(loaded.changed(layout.settings)))
        device, host = least_memory(bounds, layout)

        assert device <= estimate.fullest.need
        assert host <= sum(estimate.host.values())
        assert host > 0 or not loaded.scenario.offload.optimiser


# --- the best layout elsewhere --------------------------------------------------------------------


def test_the_scenario_of_the_best_layout_runs_alike(capsys, tmp_path):
    """The file of `-o` has the best layout, and a run of it the same step time."""
    best = tmp_path / "best.yaml"
    settings = "cluster.nic.bandwidth=/2", "batch.micro=1", *FIXED
    options = "--devices", "16", "-o", best, *(f"--set={setting}" for setting in settings)
    data = printed(capsys, "search", small(tmp_path), *options)

    assert simulate(best).step_time == pytest.approx(data["best"]["step_time_s"], rel=1e-9)
    assert load(best).scenario.devices == 16


@pytest.mark.parametrize(
    ("program", "changes", "degrees"),
    [
        ("deepspeed", {"batch.global": 8}, {1}),
        (
            "torchtitan",
            {"batch.global": 8, "framework": "torchtitan", "precision": "bf16", "cluster": "selene",
             "cluster.nodes": 1, "model": "llama3-8b"},
            {1, 2},
        ),
    ],
)  # fmt: skip
def test_only_layouts_that_can_be_launched_are_searched(program, changes, degrees):
    """With a program, each layout that is replayed has an argument for each of its values.

    Ranks of tensor groups of torchtitan always share tokens, and single ones have none to share.
    """
    free = [f"plan.tensor={','.join(map(str, degrees))}"]
    fixed = {**changes, "batch.micro": 1, "plan.layers": "even"}
    answer = search("frontier-22b", program=program, settings=fixed, free=free, top=8, jobs=1)

    assert {one.set_["plan.tensor"] for one in answer.ranked} == degrees
    for one in answer.ranked:
        best = load("frontier-22b", {**fixed, **one.set_})
        assert layout_arguments(best, launch_of(best, program)).missing == {}


def test_layouts_were_paragraphs_each_twice(found):
    """Layouts are lines of one table that sorts; what they have in common is a sentence."""
    best = found.ranked[:3]
    every = [replace(one, set_=dict(one.set_)) for one in best]
    [section] = [each for each in page(replace(found, ranked=(*every, *every), pareto=())).sections
                 if each.id == "layouts"]  # fmt: skip
    [table] = section.blocks
    names = [column.name for column in table.columns]
    keys = range(1, names.index("step"))

    assert table.sortable
    assert len(table.rows) == len(distinct(best))
    assert keys
    assert all(len({row[i] for row in table.rows}) > 1 for i in keys)
    assert section.prose[0].startswith("All of these layouts have ")
    assert "text" not in table.styles


@pytest.mark.parametrize("name", sorted(SCHEDULES))
@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
def test_first_forwards_of_a_long_batch_are_those_of_its_schedule(name, stages):
    """A batch of 10^9 tokens has 244,140 microbatches; its first forwards need no list of them."""
    schedule = SCHEDULES[name]
    least, most = schedule.chunks
    for chunks, microbatches in product(range(least, (most or 3) + 1), range(1, 12 * stages)):
        if schedule.obstacle and schedule.obstacle(stages, microbatches, chunks):
            continue
        steps = schedule.steps(0, stages, microbatches, chunks)
        first = [step.chunk for step in takewhile(lambda step: step.kind == FORWARD, steps)]
        forwards, _ = first_forwards(schedule, stages, microbatches, chunks)

        assert forwards == tuple(map(first.count, range(chunks))), (chunks, microbatches)
