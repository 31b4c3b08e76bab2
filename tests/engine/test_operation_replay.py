"""Graphs of operations: a pipeline written out takes the time of its program, links are shared."""

import random

import numpy as np
import pytest

from clustersim.engine.clock import CONTINUOUS, Clock
from clustersim.engine.network.network import Network
from clustersim.engine.operation_replay import OperationReplay, Repeated
from clustersim.engine.program_operations import operations_of
from clustersim.errors import ProgramError, SimulationError
from clustersim.program.operations import Operations
from clustersim.program.schedules import SCHEDULES
from clustersim.simulation.step.simulate import simulate
from clustersim.traffic import Traffic
from tests.random_steps import random_cases, random_steps

SMALL = ("frontier-22b", "batch.global=32", "recompute=none")
TENSOR = (
    "frontier-175b", "cluster.nodes=4", "plan.pipeline=4", "plan.data=2", "batch.global=16"
)  # fmt: skip
LINK = (0,)


def until(passes):
    """Return the condition of a job with a number of passes."""
    return lambda job: len(job.ends) < passes


def replayed(graph, capacities, passes=1):
    """Return a replay of a graph that has a machine to itself, after its last pass."""
    clock = Clock(CONTINUOUS)
    job = Repeated(graph, clock, Network(clock, capacities), 0.0, until(passes))
    clock.run_all()
    return job


def written_out(program, passes=1):
    """Return the times of a program that is written out, after its bytes are checked [s]."""
    clock = Clock(CONTINUOUS)
    network = Network(clock, program.capacities)
    graph = operations_of(program)
    graph.check()
    job = Repeated(graph, clock, network, 0.0, until(passes))
    clock.run_all()
    network.check()
    job.check()
    return job.times


def periodic(compute, nbytes, traffic="send"):
    """Return a job that computes, then sends on the only link."""
    graph = Operations()
    computed = graph.add("compute", seconds=compute)
    graph.add(traffic, [computed], traffic=Traffic(traffic, LINK, (1.0,), nbytes, 0.0))
    return graph


# --- a pipeline written out -----------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("bound", [pytest.param(0.5, marks=pytest.mark.large), 1e-9])
def test_a_pipeline_written_out_has_the_time_of_its_program(schedule, bound):
    """For every schedule, whether collectives of blocks are fused or not, and in each pass."""
    scenario, *settings = TENSOR
    chunks = SCHEDULES[schedule].chunks[0]
    several = [f"plan.chunks={chunks}"] if chunks > 1 else []
    offered = [f"framework.schedules=[{schedule}]", f"plan.schedule={schedule}"]
    changes = [*settings, *offered, *several, f"fusion_bound={bound}"]
    result = simulate(scenario, changes)

    assert written_out(result.program, passes=2) == pytest.approx(result.step_time, rel=1e-9)


def check_random_steps(seed, count, most_nodes):
    """Check the law on random steps, half of them with experts."""
    steps = random_steps(random.Random(seed), most_nodes)
    for _, (scenario, plain) in zip(range(count), steps, strict=False):
        times = written_out(plain.program)
        assert times == pytest.approx(plain.step_time, rel=1e-9), scenario


def test_random_steps_written_out_have_the_time_of_their_programs():
    """Of all machines, models, layouts and frameworks."""
    check_random_steps(5, 5, 2)


@pytest.mark.large
@pytest.mark.parametrize("seed", random_cases(1, 12))
def test_hundreds_of_random_steps_written_out_have_the_time_of_their_programs(seed):
    """The same of more, on up to eight nodes."""
    check_random_steps(100 + seed, 25, 8)


@pytest.mark.parametrize(
    "disturbance",
    [
        {"type": "jitter", "distribution": "normal", "deviation": 0.05},
        {"type": "slow-device", "devices": [3], "factor": 1.2},
        {"type": "late-host", "devices": [3], "delay": "20 us"},
    ],
)
def test_a_disturbed_step_written_out_has_the_time_of_its_program(disturbance):
    """Delays of steps and of kernels are those of the program."""
    result = simulate(SMALL[0], {"batch.global": 32, "disturbances": [disturbance]})

    assert written_out(result.program) == pytest.approx(result.step_time, rel=1e-9)


# --- jobs on one network --------------------------------------------------------------------------


def shared(graphs, starts, passes, capacity=1.0):
    """Return jobs that have shared a link."""
    clock = Clock(CONTINUOUS)
    network = Network(clock, [capacity])
    jobs = [
        Repeated(graph, clock, network, start, until(passes))
        for graph, start in zip(graphs, starts, strict=True)
    ]
    clock.run_all()
    network.check()
    return jobs


def test_two_equal_jobs_in_phase_stay_in_phase_and_interleaved_ones_do_not_meet():
    """1 s of computing and 1 B on a link of 1 B/s: periods of 3 s in phase, of 2 s interleaved."""
    graphs = [periodic(1.0, 1.0)] * 2
    in_phase, interleaved = (shared(graphs, [0.0, begin], 20) for begin in (0.0, 1.0))

    assert [job.times.tolist() for job in in_phase] == [[3.0] * 20] * 2
    assert [job.times.tolist() for job in interleaved] == [[2.0] * 20] * 2


def test_no_phase_of_three_jobs_that_each_need_a_third_is_worse_than_the_first():
    """2 s and 1 B: 5 s in phase, 3 s interleaved."""
    graphs = [periodic(2.0, 1.0)] * 3

    assert shared(graphs, [0.0] * 3, 5)[0].times == pytest.approx(5.0)
    assert shared(graphs, [0.0, 1.0, 2.0], 5)[0].times == pytest.approx(3.0)


def test_a_job_that_never_communicates_changes_nothing():
    """Its neighbour has the times that it has alone, to the last bit."""
    graph = periodic(0.3, 0.7)
    idle = Operations()
    idle.add("compute", seconds=0.11)
    together = shared([graph, idle], [0.0, 0.05], 30)[0]

    assert together.times.tolist() == replayed(graph, [1.0], 30).times.tolist()


def test_operations_without_time_join_others():
    """A graph of joins only ends at once; what follows two others begins after the later one."""
    graph = Operations()
    ends = [graph.add(name, seconds=seconds) for name, seconds in (("a", 1.0), ("b", 2.0))]
    last = graph.add("join", ends)
    job = OperationReplay(graph, clock := Clock(CONTINUOUS), Network(clock, [1.0]))
    job.start()
    clock.run_all()

    assert job.finished
    assert job.begin[last] == job.end[last] == 2.0
    assert np.nanmax(job.end) == clock.now


def test_operations_that_wait_for_each_other_are_named():
    """In the order of the cycle, before anything is replayed."""
    graph = Operations()
    first = graph.add("forward", seconds=1.0)
    second = graph.add("send", [first])
    graph.follow(first, second)

    with pytest.raises(ProgramError, match="operations wait for each other: forward <- send"):
        graph.check()
    with pytest.raises(SimulationError, match="operations did not finish: forward; send"):
        replayed(graph, [1.0]).check()
