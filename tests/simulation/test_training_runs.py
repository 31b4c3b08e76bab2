"""Whole training runs: accounts, checkpoints as flows, failures, and reasons of bad input."""

from functools import cache
from math import exp

import pytest

from clustersim.errors import PlanError
from clustersim.failures.causes import best_interval, interval_goodput
from clustersim.reports.training_run.text import rows
from clustersim.scenario.load import load
from clustersim.simulation.training_run.checkpoint_flows import share_for_steps
from clustersim.simulation.training_run.train import train
from clustersim.simulation.training_run.whole_run import predict_run

BASE = "megatron-1t-84-days"
FAST = ["training.replications=50"]


@cache
def run(*settings):
    return train(BASE, [*FAST, *settings])


@cache
def run_of_the_step():
    """Return the step of the run."""
    return predict_run(load(BASE, FAST)).stages[-1].result


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


def test_the_days_left_out_the_largest_error_which_is_that_of_the_step():
    """Days are in proportion to the steps at the ends of their interval; replications are not."""
    answer, step = run(), run_of_the_step()
    low, high = answer.by_step.low_days, answer.by_step.high_days

    assert low / answer.days == pytest.approx(step.interval.low_s / step.step_time)
    assert high / answer.days == pytest.approx(step.interval.high_s / step.step_time)
    assert low < answer.replications.p10_days < answer.replications.p90_days < high
    assert any(row.label == "by the step" and step.interval.why in row.text for row in rows(answer))


def test_the_closed_form_of_two_saves_was_exact():
    """A short run has whole saves, of which the mean of a long one has fractions."""
    answer = run("training.tokens=2e9")

    assert answer.accounting.useful < 50 * answer.checkpoint.every_s
    assert "whole" in answer.closed_form.why


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
    """The efficiency tends to zero, with the reason."""
    slow = run("training.restart.scheduling=1 d")

    assert slow.goodput < exp(-slow.restart_s / slow.mean_time_between_failures_s) * 1.1
    assert "tends to zero" in slow.warnings[0]


def test_a_run_that_does_not_progress_is_an_error_at_once():
    """Before any replication: the time between failures, and what it needs between two of them."""
    spares = "training.spares={hot: 1, repair: 300 d}"
    for setting, need in (
        ("training.restart.scheduling=10 d", "10 d to restart"),
        (spares, "to wait for a node"),
        ("training.planned={every: 1 s, length: 30 d}", "a planned stop of 30 d every 1 s"),
    ):
        with pytest.raises(PlanError, match="does not progress") as error:
            run(setting)

        assert need in str(error.value)


@pytest.mark.parametrize(
    "setting",
    [
        "training.planned={every: 6 h, length: 8 h}",
        "training.spares={hot: 0, repair: 12 h}",
        "training.spares={hot: 2, repair: 30 h}",
    ],
)
def test_the_closed_form_of_stops_and_waits_is_near_the_replications(setting):
    """It is what runs of too many failures are answered by."""
    whole = predict_run(load(BASE, [*FAST, setting]))
    assert whole.replicated is not None

    assert whole.expectation.goodput == pytest.approx(whole.replicated.goodput.mean(), rel=0.2)


def test_planned_stops_of_millions_are_answered_by_the_closed_form():
    """Stops every ten seconds of a run of months are not replicated one by one."""
    answer = run("training.planned={every: 10 min, length: 1 s}", "training.checkpoint.block=0 s")

    assert answer.replications.count == 0
    assert answer.accounting.elapsed == pytest.approx(answer.days * 86_400)
    assert answer.interruptions > 10_000


def test_the_price_line_gives_the_reason_where_no_price_is_quoted():
    """A machine with a purchase price alone states so; energy and storage stay known."""
    answer = train("gpt3-300b-tokens", ["cluster.name=dgx-b200", "training.replications=2"])
    lines = {row.label: row.text for row in rows(answer)}

    assert (
        "no on-demand price of b200 is quoted (state costs.usd_per_device_hour, or costs.price"
        in lines["price"]
    )
    assert lines["machine"] == "128 nodes of dgx-b200, 1,024 b200"
    assert "cluster.storage" in lines["assumed"]


def test_a_run_needs_no_storage():
    """Without one in the file of the cluster a common one is assumed, by units of 32 nodes."""
    answer = train("frontier-22b", {"cluster.name": "dgx-h100", "training.tokens": 1e9})
    assert answer.checkpoint.storage == "assumed storage of a DGX SuperPOD"
    assert "reference architecture" in answer.assumed["cluster.storage"]
    assert answer.checkpoint.bandwidth <= 4e9 * answer.nodes


def test_a_run_of_a_hundredth_of_a_token_takes_a_step():
    """A part of a step that the run needs is a whole one, however small."""
    answer = run("training.tokens=0.01")

    assert [stage.steps for stage in answer.stages] == [1]
