"""Anchor: factors that explain a log, kept in a file, and applied to other scenarios of the job."""

import json
from functools import cache

import pytest

import clustersim
from clustersim.evidence import Reach
from clustersim.metrics.anchoring import (
    NARROWED,
    SPREAD,
    Observation,
    difference,
    narrowed,
    shifts_of,
)
from clustersim.scenario.load import from_mapping, load
from clustersim.simulation.step.simulate import simulate
from commands import output, printed, rejected

GPT = {
    "title": "GPT 22B on one node of A100",
    "cluster": {"name": "selene", "nodes": 1},
    "model": "gpt-22b",
    "plan": {"tensor": 8, "data": 1, "sequence_parallel": True},
    "batch": {"global": 32, "micro": 1, "sequence": 2048},
    "precision": "bf16",
    "recompute": "selective",
    "framework": "megatron-core",
}
LARGE = GPT | {
    "title": "GPT 22B on 64 nodes of A100",
    "cluster": {"name": "selene", "nodes": 64},
    "plan": {"tensor": 8, "data": 64, "sequence_parallel": True},
    "batch": {"global": 8192, "micro": 1, "sequence": 2048},
}
RATE = "cluster.node.accelerator.gemm.sustained"
SERVICE = "llama3-70b-h100-serving load.concurrency=8 load.requests=16"


@cache
def step_time(nodes, *settings):
    return simulate(from_mapping("a", GPT if nodes == 1 else LARGE, settings)).step_time


def write_log(path, seconds, deviation=0.0, steps=20):
    """Write steps around a median, which every other one has."""
    signs = [0, 1, 0, -1] * (steps // 4)
    times = [seconds * (1 + deviation * sign) for sign in signs]
    lines = [f"completed step: {n}, seconds: {s!r}" for n, s in enumerate([3 * seconds, *times], 1)]
    path.write_text("\n".join(lines))
    return path


def anchored(tmp_path, seconds, scenario=GPT, settings=(), file="train.log", **noise):
    log = write_log(tmp_path / file, seconds, **noise)
    return clustersim.check(log, scenario=scenario, settings=settings, anchor=True, jobs=1).anchor


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    """The anchor of a log 6 % slower than its scenario."""
    return anchored(tmp_path_factory.mktemp("usual"), 1.06 * step_time(1))


def factors(anchor):
    return {factor.name: factor.value for factor in anchor.factors}


def saved(tmp_path, anchor):
    """Return the setting that applies an anchor."""
    (tmp_path / "my.anchor.yaml").write_text(anchor.file)
    return f"anchor={tmp_path / 'my.anchor.yaml'}"


# --- laws -----------------------------------------------------------------------------------------


def test_a_log_equal_to_the_prediction_changes_nothing(tmp_path):
    """All factors are 1, and less uncertain where the log depends on them."""
    anchor = anchored(tmp_path, step_time(1))

    assert set(factors(anchor).values()) == {1.0}
    assert anchor.predicted_s == pytest.approx(step_time(1))
    assert all(factor.spread <= SPREAD for factor in anchor.factors)
    assert next(f.spread for f in anchor.factors if f.name == "products") < 0.8 * SPREAD


@pytest.mark.large
def test_a_noisier_log_shifts_less(tmp_path):
    """A median that is not known has little weight."""
    calm, noisy = (
        anchored(tmp_path, 1.05 * step_time(1), deviation=noise) for noise in (0.0, 0.15)
    )

    assert factors(calm)["products"] < factors(noisy)["products"] < 1


def test_more_logs_of_the_same_error_shift_further():
    """Two logs weigh more than one, and a factor without effect is not shifted."""
    log = Observation(0.05, 0.0, {"products": -0.8, "network": 0.0})
    one, two = (shifts_of(["products", "network"], [log] * count) for count in (1, 2))

    assert two["products"].mean < one["products"].mean < 0
    assert two["products"].spread < one["products"].spread < two["network"].spread == SPREAD


@pytest.mark.parametrize("planted", [0.9, 1.05])
def test_a_rate_planted_on_one_node_is_recovered_on_64(tmp_path, planted):
    """At least half of the error of the large run is removed, and none is added."""
    change = f"{RATE}=x{planted}"
    anchor = anchored(tmp_path, step_time(1, change))
    before = step_time(64) / step_time(64, change) - 1
    after = step_time(64, saved(tmp_path, anchor)) / step_time(64, change) - 1

    assert abs(after) < 0.5 * abs(before)
    assert after * before > 0, "a factor is shrunk, never overshot"


@pytest.mark.large
def test_the_same_log_counts_once(tmp_path):
    """Anchored on an anchored scenario it has the same factors, and is one log."""
    first = anchored(tmp_path, 1.06 * step_time(1))
    again = anchored(tmp_path, 1.06 * step_time(1), settings=[saved(tmp_path, first)])

    assert again.logs == 1
    assert factors(again) == pytest.approx(factors(first), abs=2e-3)


@pytest.mark.large
def test_logs_of_two_scenarios_are_combined(tmp_path, usual):
    """The second anchor has the logs of both, and factors of the network, which one node lacks."""
    setting = saved(tmp_path, usual)
    both = anchored(tmp_path, 1.06 * step_time(64), LARGE, [setting], file="large.log")

    assert "network" not in factors(usual)
    assert "network" in factors(both)
    assert both.logs == 2


def test_a_share_never_exceeds_one(tmp_path):
    """A log much faster than possible has factors that the catalogue allows."""
    anchor = anchored(tmp_path, 0.5 * step_time(1))

    assert simulate(from_mapping("a", GPT, [saved(tmp_path, anchor)])).step_time < step_time(1)


# --- the file -------------------------------------------------------------------------------------


def test_the_predicted_time_of_the_answer_is_that_of_a_scenario_with_the_file(tmp_path, usual):
    """What check states is what run computes."""
    assert step_time(1, saved(tmp_path, usual)) == pytest.approx(usual.predicted_s, rel=1e-9)
    assert step_time(1) < usual.predicted_s < 1.06 * step_time(1)


def test_a_scenario_names_its_anchor_in_its_own_folder(tmp_path, monkeypatch, usual):
    """The key has the effect of the change; null switches it off, and values are set after it."""
    saved(tmp_path, usual)
    (tmp_path / "a.yaml").write_text(json.dumps(GPT | {"anchor": "my.anchor.yaml"}))
    monkeypatch.chdir("/")
    loaded = load(tmp_path / "a.yaml")
    rate = loaded.scenario.cluster.node.accelerator.gemm.sustained

    assert simulate(loaded).step_time > step_time(1)
    assert simulate(loaded.changed(["anchor=null"])).step_time == step_time(1)
    doubled = loaded.changed([f"{RATE}=/2"]).scenario.cluster.node.accelerator.gemm.sustained
    assert doubled == pytest.approx(rate / 2)


def test_the_interval_of_a_like_job_is_narrower(tmp_path):
    """More replicas of the same layout; not another layout, and not by a slow log."""
    setting = saved(tmp_path, anchored(tmp_path, 1.03 * step_time(1)))
    large, other = (
        simulate(from_mapping("a", LARGE, [setting, *more])).interval
        for more in ([], ["recompute=full"])
    )
    slow = saved(tmp_path, anchored(tmp_path, 2 * step_time(1)))

    assert "narrowed to 50 % by the anchor" in large.why
    assert "train.log has recompute selective, not full" in other.why
    assert large.high_s / large.low_s < (other.high_s / other.low_s) ** 0.6
    assert "train.log is not normal" in simulate(from_mapping("a", GPT, [slow])).interval.why


def test_the_width_of_an_interval_is_multiplied_on_a_logarithmic_scale():
    """Without evidence there is still none."""
    reach = Reach(1.21, 1.44, 30, "30 measured runs")
    near = narrowed(reach, None)

    assert (near.below, near.above) == pytest.approx((1.21**NARROWED, 1.44**NARROWED))
    assert narrowed(reach, "other").above == reach.above
    assert narrowed(Reach(None, None, 0, "none"), None).why == "none"
    assert difference({"matmul": 1.0}, {"matmul": 1.0}) == 0


# --- the command ----------------------------------------------------------------------------------


def command(tmp_path, scenario=GPT, *more):
    (tmp_path / "a.yaml").write_text(json.dumps(scenario))
    file, store = tmp_path / "a.anchor.yaml", tmp_path / "s"
    return (
        "check", tmp_path / "train.log", "--scenario", tmp_path / "a.yaml", "--anchor", file,
        "--store", store, "--jobs", 1, "--out", tmp_path / "out", *more,
    )  # fmt: skip


def test_the_command_writes_the_file_and_replaces_it_only_with_force(tmp_path, capsys):
    """Factors in words; the line that uses them; the file of before stays."""
    write_log(tmp_path / "train.log", 1.06 * step_time(1))
    shown = output(capsys, *command(tmp_path))

    assert "rate of matrix products" in shown
    assert "(in a scenario of the job: 'anchor: a.anchor.yaml')" in shown
    assert (tmp_path / "out" / "factors.csv").exists()
    problem = rejected(capsys, *command(tmp_path))
    assert "a.anchor.yaml: already exists (use --force to replace it)" in problem
    answer = printed(capsys, *command(tmp_path, GPT, "--force"))
    assert answer["anchor"]["logs"] == 1


def test_a_log_without_steps_and_a_service_have_no_anchor(tmp_path, capsys):
    """One clear line, and no file."""
    (tmp_path / "train.log").write_text("epoch 1: loss 3.2\n")
    assert "no steps found" in rejected(capsys, *command(tmp_path))
    result = {"mean_ttft_ms": 200.0, "mean_tpot_ms": 25.0, "output_throughput": 300.0}
    (tmp_path / "train.log").write_text(json.dumps(result))
    problem = rejected(
        capsys, "check", tmp_path / "train.log", "--scenario", SERVICE,
        "--anchor", tmp_path / "a.anchor.yaml", "--store", tmp_path / "s",
    )  # fmt: skip

    assert "a service has no anchor (leave out --anchor)" in problem
    assert not (tmp_path / "a.anchor.yaml").exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (["model=gpt-175b"], "is of the model 'gpt-22b', and the scenario has 'gpt-175b'"),
        (["framework=torchtitan"], "is of the framework 'megatron-core', and the scenario has"),
        (["cluster=eos"], "is of the accelerator 'a100-80gb', and the scenario has 'h100-sxm'"),
        (["anchor=none.yaml"], "--set anchor=none.yaml: anchor: none.yaml: no such file"),
        (["anchor=3"], "needs the name of a file, written by check --anchor"),
    ],
)
def test_an_anchor_of_another_job_is_one_clear_line(change, problem, tmp_path, capsys, usual):
    """Its factors are of one model, framework and accelerator."""
    saved(tmp_path, usual)
    (tmp_path / "a.yaml").write_text(json.dumps(GPT | {"anchor": "my.anchor.yaml"}))

    assert problem in rejected(capsys, "run", tmp_path / "a.yaml", "--set", *change, "--json")


def test_a_service_has_no_key_anchor(capsys):
    """The key is of training."""
    problem = rejected(capsys, "run", SERVICE.split()[0], "--set", "anchor=a.yaml", "--json")

    assert "anchor: unknown key" in problem


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("value: 0.9", "value: -0.9", "factors[0].value: must be"),
        ("kind: anchor", "kind: cluster", "kind: must be 'anchor'"),
        ("gemm.sustained", "gemm.sustain", "gemm.sustain: no value here to scale"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(old, new, problem, tmp_path, capsys, usual):
    """Before the run."""
    setting = saved(tmp_path, usual)
    file = tmp_path / "my.anchor.yaml"
    file.write_text(file.read_text().replace(old, new, 1))
    (tmp_path / "a.yaml").write_text(json.dumps(GPT))

    assert problem in rejected(capsys, "run", tmp_path / "a.yaml", "--set", setting, "--json")
