"""Collectives of one block share links: gathers, reductions, and what runs between the kernels."""

from functools import partial

import pytest

from boxes import training
from clustersim.program import compile as compiling
from clustersim.program.links.contention import Contention
from clustersim.simulation.step.simulate import simulate

loaded = partial(training, framework="nemo-automodel")

L40S = ("server-8xl40s", 2, "llama3-8b", {"data": 16, "zero": 3}, (32, 1, 8192))
SHARING = {
    "pairs of steps that a slow network cannot hide": loaded(
        "server-8xl40s",
        2,
        "mixtral-8x7b",
        {
            "tensor": 2,
            "pipeline": 4,
            "data": 1,
            "context": 2,
            "context_method": "ulysses",
            "sequence_parallel": True,
            "schedule": "dualpipe",
            "expert": 4,
            "placement": {"order": ["data", "pipeline", "tensor", "context"]},
        },
        (24, 2, 2048),
        framework={
            "name": "megatron-core",
            "schedules": {"value": ["dualpipe"], "assumed": "a test"},
        },
    ),
    "gathers beside reductions of gradients": loaded(*L40S),
    "context, experts and shards": loaded(
        "mi300x-roce",
        2,
        "gpt-oss-120b",
        {"data": 8, "context": 2, "expert": 2, "zero": 3},
        (16, 1, 8192),
    ),
    "tensor groups beside shards": loaded(
        "workstation-4x6000-ada",
        4,
        "llama2-13b",
        {"tensor": 4, "data": 4, "zero": 3},
        (32, 1, 2048),
    ),
    "tensor groups of two replicas, with offload": loaded(
        "workstation-2x6000-ada",
        4,
        "mixtral-8x7b",
        {
            "tensor": 4,
            "data": 2,
            "sequence_parallel": True,
            "placement": {"order": ["context", "data", "pipeline", "tensor"]},
        },
        (64, 4, 1000),
        offload={"optimiser": True},
    ),
}


@pytest.mark.parametrize("scenario", SHARING.values(), ids=SHARING.keys())
def test_no_link_carries_more_than_it_can_and_sharing_makes_a_step_longer(scenario, monkeypatch):
    """The busiest link is busy for no longer than the step, which links for each would shorten."""
    result = simulate(scenario)

    assert max(link.nbytes / link.capacity for link in result.program.carried) <= result.step_time
    assert sum(result.attribution.values()) == pytest.approx(result.step_time, rel=1e-9)
    closed_form(monkeypatch)
    assert simulate(scenario).step_time < result.step_time


def closed_form(monkeypatch):
    """Have blocks take what they take when no link is shared."""
    monkeypatch.setattr(
        compiling, "contention_of", lambda *_: Contention({}, {}, always=False, bound=0.0)
    )
    monkeypatch.setattr("clustersim.simulation.step.simulate.check_step", lambda *_: None)


@pytest.mark.parametrize(
    "scenario",
    [
        loaded("dgx-h100", 2, "llama3-8b", {"data": 16, "zero": 3}, (16, 1, 8192)),
        loaded("dgx-h100", 1, "llama3-8b", {"data": 8, "zero": 3}, (16, 1, 4096)),
        loaded("dgx-h100", 2, "llama3-8b", {"tensor": 8, "data": 2, "zero": 3}, (4, 2, 8192)),
        loaded(
            "dgx-h100",
            2,
            "llama3-8b",
            {"data": 16, "zero": 3},
            (16, 1, 8192),
            offload={"parameters": True},
        ),
    ],
    ids=["two nodes", "one node", "tensor groups", "offload"],
)
def test_units_with_links_to_themselves_take_their_closed_form(scenario, monkeypatch):
    """Replayed unit by unit in the network, a block takes what the recurrence gives, to 1e-9."""
    expected = simulate(scenario).step_time

    def all_of_them(blocks, *_):
        inner, moves, _ = (dict(enumerate(map(list, by))) for by in zip(*blocks.calls, strict=True))
        return Contention(inner, moves, always=True, bound=0.0)

    monkeypatch.setattr(compiling, "contention_of", all_of_them)
    result = simulate(scenario)

    assert result.activities > 90
    assert result.step_time == pytest.approx(expected, rel=1e-9)


def test_replicas_folded_or_not_share_links_alike():
    """Unfolded, the step takes the same time to 1e-9."""
    folded = simulate(SHARING["gathers beside reductions of gradients"])
    unfolded = simulate(loaded(*L40S, fold=False))

    assert unfolded.step_time == pytest.approx(folded.step_time, rel=1e-9)


def test_links_that_only_blocks_use_are_counted():
    """Their gathers cross links that no other transfer does; they were numbered too late."""
    plan, batch = {"data": 512, "zero": 3}, (1536, 3, 8192)
    result = simulate(
        loaded("frontier", 64, "llama3-8b", plan, batch, framework="pytorch-fsdp", recompute="full")
    )

    assert result.attribution["sharding_communication"] >= 0
    assert max(link.nbytes for link in result.links) > 0
