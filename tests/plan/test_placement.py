"""Where ranks run: every placement is a permutation, and makes the requested ranks neighbours."""

from dataclasses import replace
from itertools import pairwise, permutations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.answers import to_json
from clustersim.metrics.communication import GroupLinks, NodeSpan, links_of_groups
from clustersim.plan.parallelism import AXES, Plan
from clustersim.plan.placement import Placement, snake
from clustersim.scenario.load import load
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate

ALONE = (
    "cluster=dgx-a100", "cluster.nodes=8", "cluster.node.devices=1",
    "cluster.node.interconnect={type: none}", "cluster.node.nics.devices=[0]",
    "plan.tensor=2", "plan.pipeline=2", "plan.data=2", "batch.global=16", "batch.micro=1"
)  # fmt: skip
"""Eight nodes of one device on an ideal switch."""


def torus(*lengths):
    """Return the settings of as many nodes as a torus of these lengths has, one rank each."""
    fact = "{{value: {}, assumed: for this test}}".format
    fabric = (
        f"{{type: torus, shape: {fact(list(lengths))}, axes: {list('XYZW'[: len(lengths)])},"
        f" ring: {fact(list(lengths))},"
        f" link: {{bandwidth: {fact('5 GB/s')}, latency: {fact('1 us')}}}}}"
    )
    ranks = ("plan.tensor=1", "plan.pipeline=1", f"plan.data={prod(lengths)}")
    nodes = (f"cluster.nodes={prod(lengths)}", f"batch.global={prod(lengths)}", "cluster.size=999")
    return (*ALONE, *ranks, *nodes, f"cluster.fabric={fabric}")


def plan_of(tensor, data, pipeline):
    return Plan(tensor, data, pipeline, 1, "1f1b", 0, 1, 8, (1,) * pipeline)


def job_of(name="frontier-22b", **wish):
    """Return the job of a scenario with placement keys."""
    return build_job(load(name, [f"plan.placement.{key}={value}" for key, value in wish.items()]))


def placed(tensor, data, pipeline, **wish):
    """Return the placement of a small plan on two nodes of eight devices, with placement keys."""
    nodes = -(-tensor * data * pipeline // 8)
    degrees = (f"plan.tensor={tensor}", f"plan.data={data}", f"plan.pipeline={pipeline}")
    lists = [f"plan.placement.{key}={value}" for key, value in wish.items()]
    sizes = (f"cluster.nodes={nodes}", "batch.global=48")
    return build_job(load("frontier-22b", [*degrees, *sizes, *lists])).placement


SHAPES = [(8, 2, 2), (2, 2, 4), (4, 6, 2), (1, 2, 8), (2, 8, 1), (16, 1, 1)]


# --- orders ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_without_a_wish_rank_r_runs_on_device_r(shape):
    """The default is what it has always been, also when it is spelt out, whole or in part."""
    default = placed(*shape)
    spelt = placed(*shape, order=list(AXES))
    short = placed(*shape, order="[tensor, data, pipeline]")

    assert default.devices.tolist() == [*range(prod(shape))]
    for other in (spelt, short):
        assert other.plan == default.plan
        assert other.devices.tolist() == default.devices.tolist()
    for stage in range(shape[2]):
        assert default.cells[stage, 0].tolist() == [
            default.plan.rank(stage, 0, part) for part in range(default.plan.cell)
        ]


@pytest.mark.parametrize("order", [*permutations(("tensor", "data", "pipeline"))])
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_devices_are_taken_in_the_order_of_the_axes(shape, order):
    """Along an axis, devices are as far apart as the product of the degrees before it."""
    placement = placed(*shape, order=list(order))
    degrees = placement.plan.degrees

    assert sorted(placement.devices) == list(range(prod(shape)))
    for number, axis in enumerate(order):
        apart = prod(degrees[before] for before in order[:number])
        for group in placement.groups(axis).tolist():
            assert {b - a for a, b in pairwise(group)} <= {apart}


def test_a_placement_tells_the_same_rank_by_rank_and_group_by_group():
    """Four ways of naming the devices agree."""
    placement = placed(2, 2, 4, order="[data, pipeline, tensor]")
    plan = placement.plan

    def device(stage, replica, part):
        return placement.devices[plan.rank(stage, replica, part)]

    tensor = [
        [device(s, r, i) for i in range(plan.tensor)]
        for s in range(plan.pipeline)
        for r in range(plan.data)
    ]
    assert placement.groups("tensor").tolist() == tensor
    assert placement.tensor_groups()[:, 0].tolist() == tensor
    assert placement.model_group(1).tolist() == [d for group in tensor[1::2] for d in group]
    assert placement.data_groups().tolist() == [
        [[device(s, r, i) for r in range(plan.data)] for i in range(plan.tensor)]
        for s in range(plan.pipeline)
    ]


# --- lists ----------------------------------------------------------------------------------------


def test_a_list_says_the_device_of_each_rank():
    """Rank r runs on the r-th of the devices that are listed."""
    devices = [15, 0, 7, 8, 3, 12, 1, 14, 2, 13, 4, 11, 5, 10, 6, 9]
    placement = placed(2, 4, 2, devices=devices)

    assert placement.tensor_groups()[1].tolist() == [[7, 8]]
    assert placement.cells[1, 3, 1] == 9


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(8)))
@pytest.mark.large
def test_on_an_ideal_switch_all_placements_are_equally_fast(devices):
    """Renaming devices changes nothing where each has a node, and the switch, to itself."""
    renamed = simulate("megatron21-t1-1.7b", [*ALONE, f"plan.placement.devices={devices}"])
    plain = simulate("megatron21-t1-1.7b", ALONE)

    assert plain.attribution["tensor_communication"] > 0 < plain.attribution["data_communication"]
    assert renamed.step_time == pytest.approx(plain.step_time, rel=1e-12)
    assert renamed.attribution == pytest.approx(plain.attribution, rel=1e-9, abs=1e-12)
    assert renamed.groups == plain.groups


def test_tensor_groups_across_nodes_are_slower():
    """The result of a simulation depends on where ranks run."""
    name, *sizes = "megatron21-t1-39b", "cluster.nodes=4", "plan.data=2", "batch.global=32"
    inside = simulate(name, sizes)
    across = simulate(name, [*sizes, "plan.placement.order=[data, pipeline, tensor]"])

    assert across.attribution["tensor_communication"] > (
        2 * inside.attribution["tensor_communication"]
    )
    assert across.attribution["matmul"] == inside.attribution["matmul"]


# --- boxes ----------------------------------------------------------------------------------------


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_walk_through_a_box_goes_from_neighbour_to_neighbour(lengths):
    """Every cell is entered once, by one step along one axis."""
    cells = list(snake(lengths))

    assert sorted(cells) == sorted(set(cells))
    assert len(cells) == prod(lengths)
    for a, b in pairwise(cells):
        assert sum(abs(x - y) for x, y in zip(a, b, strict=True)) == 1


@st.composite
def tori(draw):
    """Lengths of boxes, and of a torus that they fill: up to 64 nodes."""
    axes = draw(st.integers(1, 3))
    boxes = draw(st.lists(st.integers(1, 4 if axes < 3 else 2), min_size=axes, max_size=axes))
    many = draw(st.lists(st.integers(1, 2), min_size=axes, max_size=axes))
    return boxes, [box * number for box, number in zip(boxes, many, strict=True)]


@settings(max_examples=20, deadline=None)
@given(tori())
def test_boxes_are_filled_one_after_another(boxes_and_torus):
    """As many ranks as a box has nodes have a box to themselves, each next to the one before."""
    boxes, lengths = boxes_and_torus
    job = build_job(load("megatron21-t1-1.7b", [*torus(*lengths), f"plan.placement.boxes={boxes}"]))
    places = [job.cluster.fabric.coordinates(node) for node in job.placement.devices]

    assert sorted(places) == list(product(*map(range, lengths)))
    corners = []
    for first in range(0, len(places), prod(boxes)):
        box = places[first : first + prod(boxes)]
        corners.append(tuple(map(min, zip(*box, strict=True))))
        assert [max(axis) - min(axis) + 1 for axis in zip(*box, strict=True)] == boxes
        for a, b in pairwise(box):
            assert sum(abs(x - y) for x, y in zip(a, b, strict=True)) == 1
    assert corners == sorted(corners)


def test_boxes_go_with_any_order_and_keep_nodes_together():
    """Four nodes of eight in two columns: their devices by node, the stages side by side.

    Nodes 0 and 1 are a row. Boxes of 2 x 1 are columns, so the walk is node 0, 2, 1, 3.
    """
    whole = [each for each in torus(2, 2) if not each.startswith("cluster.node.")]
    wishes = ("plan.placement.order=[pipeline, data]", "plan.placement.boxes=[2, 1]")
    placement = build_job(
        load("megatron21-t1-1.7b", [*whole, "plan.pipeline=8", *wishes])
    ).placement

    assert placement.cells[:, 0, 0].tolist() == list(range(8))
    assert placement.cells[0, :, 0].tolist() == [0, 16, 8, 24]


def test_boxes_beat_rows_on_fugaku():
    """Tensor groups of eight are faster as cubes than in the order of the nodes.

    Nodes are numbered 3 x 2 at a time; eight in a row share links with the groups next to them.
    """
    block = ("cluster=fugaku", "cluster.nodes=384", "cluster.fabric.job=[4, 2, 8, 1, 3, 2]")
    layout = ("plan.tensor=8", "plan.data=48", "batch.global=192", "batch.micro=4")
    given_ = [*block, *layout]
    rows = simulate("megatron21-t1-1.7b", given_)
    boxes = simulate("megatron21-t1-1.7b", [*given_, "plan.placement.boxes=[2, 2, 1, 1, 1, 2]"])

    assert boxes.attribution["tensor_communication"] < (
        0.5 * rows.attribution["tensor_communication"]
    )
    assert boxes.step_time < rows.step_time


# --- links ----------------------------------------------------------------------------------------


def bandwidths(group: GroupLinks) -> dict[str, float]:
    """Return the bandwidth of the narrowest link of each kind [B/s]."""
    return {link.kind: link.bandwidth for link in group.links}


def test_groups_have_the_links_between_their_neighbours():
    """On two nodes of Frontier, by hand.

    Replicas share a package, four xGMI links of 36 GB/s. Of the eight stages four are on each
    node; between packages lie one xGMI link at least, between nodes the NICs. The ends are on GCDs
    0 and 1 of the first node and 6 and 7 of the second, a NIC on 1 and 7.
    """
    job = job_of()
    data, stages, ends = links_of_groups(job.cluster, job.placement, embedding=True)

    assert (data.group, data.ranks, data.groups, data.nodes) == ("data", 2, 8, NodeSpan(1, 1))
    assert bandwidths(data) == {"xgmi": 4 * 37.5e9}
    assert (stages.group, stages.ranks, stages.groups, stages.nodes) == (
        "pipeline",
        8,
        2,
        NodeSpan(2, 2),
    )
    assert bandwidths(stages).items() >= {"xgmi": 37.5e9, "bus": 50e9}.items()
    assert min(link.bandwidth for link in stages.links) == stages.links[0].bandwidth == 23.75e9
    assert (ends.group, ends.ranks, ends.groups, ends.nodes) == ("embedding", 2, 2, NodeSpan(2, 2))


def test_an_axis_of_one_rank_has_no_group():
    """Data parallelism alone has one kind of group, and one device has none."""
    pure = placed(1, 16, 1)
    cluster = job_of().cluster

    assert [each.group for each in links_of_groups(cluster, pure, embedding=False)] == ["data"]
    assert (
        links_of_groups(cluster, Placement(plan_of(1, 1, 1), np.zeros(1, int)), embedding=False)
        == []
    )


def test_untied_models_have_no_embedding_group():
    """First and last stage exchange no gradient where logits have weights of their own."""
    job = job_of()
    untied = replace(job, model=replace(job.model, tied=False))
    listed = [
        [g.group for g in links_of_groups(j.cluster, j.placement, embedding=j.reduces_embedding)]
        for j in (job, untied)
    ]

    assert listed == [["data", "pipeline", "embedding"], ["data", "pipeline"]]


@settings(max_examples=20, deadline=None)
@given(st.permutations(range(16)))
def test_nodes_of_a_group_are_counted(devices):
    """Fewest and most are those of the groups, one by one."""
    job = job_of(devices=devices)
    for each in links_of_groups(job.cluster, job.placement, embedding=True)[:2]:
        spans = [len({d // 8 for d in g}) for g in job.placement.groups(each.group).tolist()]

        assert each.nodes == NodeSpan(min(spans), max(spans))
        assert each.groups == len(spans)


@pytest.mark.large
def test_of_many_groups_every_pattern_is_looked_at():
    """A sample of many data groups finds the same links as all of them."""
    job = build_job(load("frontier-175b", ["cluster.nodes=512", "plan.data=64"]))
    (data,) = [
        g for g in links_of_groups(job.cluster, job.placement, embedding=True) if g.group == "data"
    ]

    crossed = set()
    for group in job.placement.groups("data").tolist():
        for a, b in pairwise([*group, group[0]]):
            crossed.update(job.cluster.route(a, b).links)
    links = job.cluster.links
    assert data.ranks * data.groups == 4096
    assert bandwidths(data) == {
        kind: min(links.capacities[i] for i in crossed if links.kinds[i] == kind)
        for kind in {links.kinds[i] for i in crossed}
    }


def test_the_answer_and_the_json_tell_the_same_groups():
    """A line for each kind of group; the narrowest link comes first in both."""
    from clustersim.reports.step.text import answer

    result = simulate("frontier-22b", ["batch.global=32", "plan.placement.order=[pipeline, data]"])
    data, stages, _ = to_json(result.answer)["groups"]

    assert stages["nodes"] == {"fewest": 1, "most": 1}
    assert data["links"][0]["bandwidth"] == 23.75e9
    lines = answer(result)
    assert "placement     pipeline, data (innermost first)" in lines
    assert "pipeline      8 ranks on 1 node, over xgmi 37.5 GB/s" in lines
    assert [line for line in lines if line.startswith("data group    2 ranks on 2 nodes, over ")]
