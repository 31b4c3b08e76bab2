"""Whole training runs: accounts, checkpoints as flows, failures, and reasons of bad input."""

from functools import cache
from math import exp

import pytest

from clustersim.errors import CatalogError, ScenarioError
from clustersim.failures.causes import best_interval, interval_goodput
from clustersim.simulation.training_run.checkpoint_flows import share_for_steps
from clustersim.simulation.training_run.train import train

BASE = "megatron-1t-84-days"
FAST = ["training.replications=50"]


@cache
def run(*settings):
    return train(BASE, [*FAST, *settings])


def test_the_parts_of_the_time_add_up():
    """The accounts of the mean run are its elapsed time."""
    answer = run()

    assert answer.accounting.elapsed == pytest.approx(answer.days * 86_400, rel=1e-9)
    assert answer.goodput == pytest.approx(answer.accounting.useful / answer.accounting.elapsed)
    assert answer.replications.error_days < 0.2


def test_replications_agree_with_the_closed_form():
    """Where the closed form is exact, the mean of the replications is within its error."""
    answer = train(BASE)

    assert answer.closed_form.exact
    assert abs(answer.days - answer.closed_form.days) < 4 * answer.replications.error_days


def test_the_checkpoint_of_a_trillion_parameters_has_its_published_size():
    """14 bytes of each parameter: 13.8 TB in units of 1,024 GB, within 2 %."""
    answer = run()

    assert answer.checkpoint.bytes / 1.024e12 == pytest.approx(13.8, rel=0.02)
    assert answer.checkpoint.bandwidth == pytest.approx(273e9, rel=0.01)
    assert answer.checkpoint.block_s == pytest.approx(50.5, rel=0.03)


def test_the_interval_is_the_best_one_in_whole_steps():
    """The automatic interval is the exact optimum, rounded to steps."""
    answer = run()
    saves, step = answer.checkpoint, answer.stages[0].step_time_s
    mean = answer.mean_time_between_failures_s
    goodput = interval_goodput(saves.every_s, saves.block_s, mean, answer.restart_s)

    assert saves.every_s == pytest.approx(saves.every_steps * step)
    assert abs(saves.every_s - saves.best_s) <= step / 2
    assert saves.flat_s[0] < saves.best_s < saves.flat_s[1]
    assert saves.best_s == pytest.approx(best_interval(saves.block_s, mean))
    assert answer.closed_form.goodput == pytest.approx(goodput)


def test_no_interval_of_a_sweep_is_better_than_auto():
    """Shorter and longer intervals have a lower expected goodput."""
    best = run().closed_form.goodput

    for every in ("10 min", "2 h", "5 steps"):
        assert run(f"training.checkpoint.every={every}").closed_form.goodput < best


def test_without_failures_saves_alone_take_time():
    """Without failures one replication has t / (t + C)."""
    answer = train("megatron21-t1-1t", ["training.tokens=1e12", "training.checkpoint.every=1 h"])
    given = answer.checkpoint

    assert answer.replications.count == 1
    assert answer.accounting.lost == answer.accounting.restarting == 0
    assert answer.goodput == pytest.approx(
        given.every_s / (given.every_s + given.block_s), rel=1e-3
    )
    assert answer.mean_time_between_failures_s is None


def test_an_asynchronous_save_blocks_for_the_copy_to_the_host():
    """It blocks less, is durable later, and steps and its writing share the NICs."""
    plain, later = run(), run("training.checkpoint.mode=asynchronous")

    assert later.checkpoint.block_s < plain.checkpoint.block_s / 10
    assert later.checkpoint.durable_s > plain.checkpoint.durable_s
    assert later.checkpoint.step_slowdown >= 1
    assert later.goodput > plain.goodput


def test_a_storage_as_fast_as_the_nics_slows_steps_and_its_own_writing():
    """With fast servers a drain takes up to half of the NICs of a node while steps use them."""
    servers = "cluster.storage.write.bandwidth=100 TB/s", "cluster.storage.write.efficiency=1"
    saves = run("training.checkpoint.mode=asynchronous", *servers).checkpoint

    assert min(saves.step_slowdown, saves.drain_slowdown) > 1
    assert share_for_steps(1e12, 1e11) == 0.5


def test_saves_elsewhere_leave_steps_alone():
    """A storage network of its own slows no step down; copies in memory need no storage at all."""
    separate = run("training.checkpoint.mode=asynchronous", "cluster.storage.network=separate")
    memory = run("training.checkpoint.mode=memory").checkpoint

    assert separate.checkpoint.step_slowdown == separate.checkpoint.drain_slowdown == 1
    assert memory.durable_s < 51
    assert memory.limit == "NICs of the nodes"


def test_each_part_of_the_batch_schedule_is_replayed():
    """A smaller batch first takes more steps; tokens add up."""
    schedule = [{"tokens": 50e9, "global": 768}, {"global": 3072}]
    answer = train(BASE, {"training.batch_schedule": schedule, "training.replications": 20})

    assert [stage.batch for stage in answer.stages] == [768, 3072]
    assert sum(stage.tokens for stage in answer.stages) == answer.tokens == 450e9
    assert answer.stages[0].tokens_per_s < answer.stages[1].tokens_per_s


def test_lengths_in_steps_samples_and_epochs_agree():
    """The same run as tokens, steps, samples and epochs."""
    keys = {"training.replications": 5}

    def days(**length):
        scenario = {"training.tokens": None, **{f"training.{k}": v for k, v in length.items()}}
        return train(BASE, {**keys, **scenario}).stages[0].steps

    assert days(steps=1_000) == 1_000
    assert days(samples=1_000 * 3_072) == 1_000
    assert days(epochs=2, dataset=500 * 3_072 * 2_048) == 1_000


def test_spares_replicas_hangs_and_stops_change_the_accounts():
    """Waiting, planned time and detection appear where they are requested."""
    waits = run("training.spares.hot=1", "training.spares.repair=2 d")
    stops = run("training.planned.every=1 d", "training.planned.length=1 h")
    hangs = run("training.hangs.share=0.5", "training.hangs.timeout=1 h")
    replica, plain = run("training.recovery=replica"), run()

    assert waits.accounting.waiting > 0
    assert stops.accounting.planned > 0
    assert stops.interruptions > stops.causes[0].count
    assert hangs.accounting.restarting > plain.accounting.restarting * 1.5
    assert replica.accounting.lost < plain.accounting.lost / 5


def test_restarts_longer_than_the_time_between_failures_are_answered():
    """The efficiency tends to zero, with the reason; millions of failures are not replicated."""
    slow, endless = (run(f"training.restart.scheduling={days} d") for days in (1, 10))

    assert slow.goodput < exp(-slow.restart_s / slow.mean_time_between_failures_s) * 1.1
    assert "tends to zero" in slow.warnings[0]
    assert endless.replications.count == 0
    assert endless.accounting.elapsed == pytest.approx(endless.days * 86_400)


def test_failures_of_no_nodes_are_rejected():
    """A rate over the time of no node is a problem of the file."""
    own = {"kind": "reliability", "name": "ours", "causes": {}}
    for over, reason in (("0 d", "greater than 0"), (None, "missing")):
        cause = {"per": "node", "events": 3} | ({"over": over} if over else {})
        failures = {**own, "causes": {"node": cause}}
        with pytest.raises((ScenarioError, CatalogError), match=reason):
            train(BASE, {"training.failures": failures})
