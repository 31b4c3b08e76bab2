"""`clustersim validate`: grades, their conventions, and the reasons of cases without a grade."""

import json
from concurrent.futures import ProcessPoolExecutor

import pytest

from clustersim.answers import to_json
from clustersim.cli.verbs.validate import validate as command
from clustersim.errors import ScenarioError
from clustersim.scenario.entries import entry
from clustersim.simulation.step.simulate import simulate
from clustersim.validation.answer import validation_of
from clustersim.validation.case_runs import run_cases, select_groups
from clustersim.validation.cases.case import case_of as normalised
from clustersim.validation.cases.machines import (
    default_framework,
    framework_of,
    frameworks,
    machine_of,
    machine_table,
)
from clustersim.validation.cases.rows import parse_entries, read_entries
from clustersim.validation.cases.scenario import scenario_of
from clustersim.validation.cases.settings import case_settings
from clustersim.validation.cases.texts import MODEL
from clustersim.validation.grading import (
    Measure,
    flops_convention,
    grade,
    layer_times,
    measured_memory,
)
from measured_runs import SMALL, row_of, shipped_cases
from wrong_values import wrong_values

A100 = 312e12


@pytest.fixture(scope="module")
def whole():
    """Return the answer for the small file as plain values."""
    return answer_for(read_entries(SMALL))


@pytest.fixture(scope="module")
def small(whole):
    """Return the outcomes of the small file by id."""
    return {case["id"]: case for case in whole["cases"]}


def answer_for(entries, groups=(), executor=None):
    """Return the answer for some entries as plain values."""
    return to_json(validation_of(run_cases(select_groups(entries, groups), executor)))


def case_of(**fields):
    """Return a row with the given fields in plain values."""
    return normalised(row_of(**fields))


def good():
    """Return the one row of the small file that states everything."""
    return next(entry.row for entry in read_entries(SMALL) if entry.id == "good")


def good_with(**fields):
    """Return that row as plain values, with other fields."""
    return {**good().model_dump(by_alias=True), **fields}


def scenario_like(row):
    """Return the scenario of a row."""
    return scenario_of(normalised(row))


# --- reading --------------------------------------------------------------------------------------


def test_a_setting_is_stated_else_assumed_else_ours():
    """What a case states wins over what it assumes; a setting with neither has a default."""
    row = row_of(
        system={"accelerator": "A100-80GB-SXM"},
        parallel={"tp": 2, "pp": 4},
        batch={"global": 32, "grad_accum": 4},
        model={"seq": 1024},
        recompute="full",
        assumed={
            "tp": 8,
            "gpus": "16 (two nodes)",
            "seq": "from the script",
            "zero_stage": "1 (so)",
        },
    )
    settings = case_settings(row)

    assert (settings.tensor, settings.devices, settings.data, settings.micro) == (2, 16, 2, 4)
    assert (settings.zero, settings.schedule, settings.chunks) == (1, "1f1b", 1)
    assert sorted(settings.assumed) == ["devices", "schedule", "vocab", "zero"]
    assert not settings.complete


def test_without_a_pipeline_there_is_no_schedule_to_state():
    """One stage is 1F1B with one chunk, whatever the case calls it, and nothing is assumed."""
    settings = case_settings(
        row_of(system={"gpus": 8}, parallel={"tp": 8, "pp": 1, "schedule": "none"})
    )

    assert (settings.schedule, settings.chunks, settings.data) == ("1f1b", 1, 1)
    assert "schedule" not in settings.assumed


def test_a_remark_is_no_value():
    """A text that only begins like a value does not give it: what is not stated has our default."""
    assumed = {"recompute": "none or selective; not stated", "micro": "4*2", "interleave": "likely"}
    settings = case_settings(row_of(parallel={"pp": 2}, assumed=assumed))

    assert (settings.recompute, settings.micro, settings.chunks) == ("cheapest", 1, 1)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "is not valid YAML"),
        ("a: 1", "is not a list of measured cases"),
        ("", "is not a list of measured cases"),
    ],
)
def test_a_file_that_is_no_list_is_refused_in_one_line(tmp_path, text, problem):
    """A file of another kind is the user's error, not a case's."""
    file = tmp_path / "cases.yaml"
    file.write_text(text)

    with pytest.raises(ScenarioError, match=problem) as caught:
        read_entries(file)
    assert "\n" not in str(caught.value)


# --- not gradable, because ------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "why"), wrong_values("measured cases"))
def test_a_case_that_cannot_be_graded_says_why(small, name, why):
    """The reason names what is missing, what is wrong or what the model does not have."""
    assert small[name]["why"] == why
    assert small[name]["gradable"] is False
    assert small[name]["predicted"] is None


def test_all_that_stands_against_a_case_is_told_together(small):
    """Each thing that the model cannot express is named, in the case's own numbers."""
    assert small["unheard-of"]["why"].split("; ") == [
        "unknown model family 'rwkv'",
        "unsupported attention 'linear'",
        "unsupported recomputation 'per-op'",
        "unsupported offload 'nvme'",
        "unsupported finetuning 'ia3'",
        "unsupported precision 'int8'",
        "unsupported schedule 'zb-w' with 2 stages",
        "not stated: experts of a token",
    ]


def test_an_empty_row_is_a_case_that_tells_nothing(small):
    """A row without keys is named after its place."""
    assert small["row 8"]["why"].startswith("no measured time or throughput; not stated: acc")
    assert small["row 8"]["group"] == "(no group)"


@pytest.mark.parametrize(
    "row",
    [
        None,
        3.5,
        [],
        {"id": None, "group": ["x"]},
        {"id": "a", "system": "frontier"},
        {"id": "a", "measured": [1]},
        {"id": "a", "measured": {"step_time_s": float("nan")}},
        {"id": "a", "model": {"layers": 10**40, "heads": True}},
        {"id": "a", "assumed": {"gpus": {"x": 1}, "recompute": 7, "seq": [1]}},
        {"id": "a", "finetune": "lora", "offload": False, "source": None, "batch": None},
    ],
)
def test_no_row_ends_the_run(row):
    """Whatever a row is, it becomes an outcome with a reason, and valid JSON."""
    answer = answer_for(parse_entries([row]))

    assert answer["all"]["count"] == 1
    assert answer["cases"][0]["why"]
    json.dumps(answer, allow_nan=False)


def test_an_absurd_layout_is_refused_before_it_costs_anything():
    """A degree that no machine has does not reach the search for its divisors."""
    (outcome,) = run_cases(parse_entries([good_with(parallel={"tp": 10**9, "pp": 1, "dp": 1})]))

    assert outcome.reasons[0].kind == "invalid layout"
    assert "1000000000" in outcome.reasons[0].detail


# --- grading --------------------------------------------------------------------------------------


def test_the_json_of_a_case_has_its_stable_keys(small):
    """Scripts rely on these names."""
    first = "id group gradable why reasons metric convention measured predicted error"
    others = {"memory_measured", "memory_predicted", "fits", "confidence", "gates"}
    assert list(small["good"])[:10] == first.split()
    assert others <= set(small["good"])
    assert all(list(case) == list(small["good"]) for case in small.values())


def test_a_step_time_is_graded_before_a_rate(small):
    """The time of a step is more informative than TFLOP/s in any convention."""
    case = small["good"]

    assert (case["metric"], case["measured"], case["why"]) == ("step_time_s", 0.1, None)
    assert case["error"] == pytest.approx(case["predicted"] / 0.1 - 1)
    assert case["memory_measured"] == 4 * 2**30
    assert case["fits"] is True


def test_tflops_with_recomputation_are_those_of_equation_three():
    """96 B s l h^2 (1 + s/6h + V/16lh) with recomputation, 72 and 12 without."""
    case = normalised(good())
    result = simulate(scenario_of(case))
    B, s, layers, h, V = 8, 1024, 4, 1024, 51200
    work = B * s * layers * h**2 / result.step_time / 4 / 1e12
    ours = 96 * work * (1 + s / (6 * h) + V / (16 * layers * h))
    hardware = grade(Measure("tflops_per_gpu", 2 * ours, "hardware"), result, case)
    model = grade(Measure("tflops_per_gpu", 2 * ours, MODEL), result, case)

    assert hardware.predicted == pytest.approx(ours)
    assert (hardware.error, hardware.time_error) == (pytest.approx(-0.5), pytest.approx(1.0))
    assert model.predicted == pytest.approx(72 * work * (1 + s / (6 * h) + V / (12 * layers * h)))


def test_a_run_takes_the_time_of_its_samples():
    """1,024 samples at 8 a step are 128 steps."""
    measured = {"run_time_s": 60.0, "run_samples": 1024.0}
    case = case_of(**good_with(measured=measured))
    result = simulate(scenario_of(case))
    graded = grade(Measure("run_time_s", 60.0), result, case)

    assert graded.predicted == pytest.approx(128 * result.step_time)
    assert graded.error == graded.time_error


@pytest.mark.parametrize(
    ("text", "measured", "convention"),
    [
        ("GEMM FLOPs, forward + backward + one recomputed forward (eq. 3)", {}, "hardware"),
        ("hardware FLOPs with full recompute: 96*B*s*L*h^2", {}, "hardware"),
        ("Megatron eq. 3 per node: factor 96 with checkpointing, 72 without", {}, "hardware"),
        ("model TFLOP/s (no recompute)", {}, "model"),
        ("model FLOPs; MFU against 989", {}, "model"),
        ("MFU against 312", {}, "model"),
        ("MFU = 3*(2*N*s) ...; HFU = 4/3 MFU; tflops_per_gpu = model FLOPs", {}, "model"),
        ("model FLOPs in the words of the text", {"hfu_pct": 50.0}, "hardware"),
        ("hardware FLOPs in the words of the text", {"hfu_pct": 66.0, "mfu_pct": 50.0}, "model"),
        (None, {"hfu_pct": 50.2}, "hardware"),
    ],
)
def test_the_convention_is_told_by_the_utilisation_then_by_the_text(text, measured, convention):
    """156 TFLOP/s are 50 % of an A100: an equal utilisation decides the convention."""
    case = case_of(measured={"tflops_per_gpu": 156, **measured}, flops_convention=text)

    assert flops_convention(case, "full", A100) == convention


def test_an_untold_convention_is_a_reason_only_where_it_matters():
    """Without recomputation both conventions count the same."""
    case = case_of(measured={"tflops_per_gpu": 156}, flops_convention="none reported")

    assert flops_convention(case, "none", A100) == MODEL
    with pytest.raises(Exception, match="not stated which FLOPs"):
        flops_convention(case, "full", A100)


@pytest.mark.parametrize(
    ("unit", "nbytes"),
    [
        ("GiB, peak reserved", 2**31),
        ("GB as nvidia-smi", 2**31),
        (None, 2**31),
        ("GB of the host", 2e9),
    ],
)
def test_memory_is_read_in_the_unit_of_its_tool(unit, nbytes):
    """PyTorch and nvidia-smi count in powers of two."""
    case = case_of(measured={"memory_gb_per_gpu": 2, "memory_unit": unit})

    assert measured_memory(case) == nbytes


def test_assumed_settings_are_run_but_do_not_gate(small):
    """A case whose layout is assumed is graded, with the list of assumptions."""
    case = small["assumed-in-words"]

    assert (case["gradable"], case["gates"]) == (True, False)
    assert (case["metric"], case["convention"]) == ("tflops_per_gpu", "hardware")
    assert {"devices", "micro", "recompute", "sequence", "zero"} <= set(case["assumed"])


def test_assumed_flash_attention_is_the_only_kernel_a_case_may_ask_for():
    """`assumed.attention: flash v1` sets the framework's attention, and nothing else does."""
    row = row_of(**good_with(assumed={"attention": "flash v1"}))
    flash, plain = scenario_like(row).scenario, scenario_like(good()).scenario

    assert flash.framework.kernels.attention == "flash"
    assert plain.framework.kernels.attention == "fused-softmax"


def test_a_job_smaller_than_a_node_is_a_smaller_node():
    """4 of 8 devices are one node of 4, with the NICs that hang on them."""
    cluster = scenario_like(good()).scenario.cluster

    assert (cluster.nodes, cluster.node.devices) == (1, 4)
    assert cluster.node.nics.devices == [0, 2]


# --- many cases -----------------------------------------------------------------------------------


def test_groups_are_summed_up(whole):
    """Counts and errors of a group are those of its cases; one without any has no error."""
    answer = whole
    group = [c for c in answer["cases"] if c["group"] == "small" and c["gradable"]]
    errors = sorted(abs(case["error"]) for case in group)
    sums = answer["groups"]["small"]

    assert (sums["count"], sums["gradable"], sums["gating"]) == (5, 3, 0)
    assert sums["mean_abs_error"] == pytest.approx(sum(errors) / 3)
    assert sums["median_abs_error"] == errors[1]
    assert sums["worst"] == errors[-1]
    assert sums["bias"] == pytest.approx(sum(case["time_error"] for case in group) / 3)
    assert answer["groups"]["(no group)"]["mean_abs_error"] is None
    assert answer["all"]["count"] == len(answer["cases"]) == 17


def test_memory_is_summed_up_apart():
    """A case of memory alone has an error of memory and none of time, and counts no time."""
    answer = answer_for(read_entries(SMALL), ["widths"])
    uneven, memory = answer["cases"]
    sums = answer["groups"]["widths"]

    assert memory["gradable"]
    assert (memory["metric"], memory["measured"]) == ("memory_gb_per_gpu", 4)
    assert memory["error"] == pytest.approx(memory["memory_error"])
    assert (memory["time_error"], memory["slower"]) == (None, None)
    assert (sums["gradable"], sums["memory_count"]) == (2, 1)
    assert sums["mean_abs_error"] == abs(uneven["error"])
    assert sums["memory_mean_abs_error"] == abs(sums["memory_bias"]) == abs(memory["memory_error"])


def test_a_run_that_took_place_and_is_said_not_to_fit_is_counted():
    """A hundred times the microbatch does not fit, and that is a wrong verdict on a run."""
    large = good_with(batch={"global": 800, "micro": 800}, recompute="none")
    sums = answer_for(parse_entries([large]))["all"]

    assert (sums["gradable"], sums["called_out_of_memory"]) == (1, 1)


def test_one_layer_is_graded_by_its_whole_time(small):
    """Forward, backward and what is run again, of the first layer and for one microbatch."""
    loaded = scenario_like(good())
    case = small["one-layer"]

    assert (case["metric"], case["measured"]) == ("layer_total_ms", 19.6)
    assert case["memory_predicted"] is None
    assert case["predicted"] == pytest.approx(1e3 * sum(layer_times(loaded)))


def test_the_least_recomputation_that_fits_is_taken_where_none_is_told(small):
    """Where nothing has to be run again nothing is; a microbatch that is too large needs more."""
    silent = good_with(recompute=None, measured={"step_time_s": 1})
    tight = {**silent, "id": "tight", "batch": {"global": 288, "micro": 288}}
    stated = [{**tight, "id": mode, "recompute": mode} for mode in ("none", "selective", "full")]
    roomy, chosen, none, selective, full = run_cases(parse_entries([silent, tight, *stated]))
    fitting = next(run for run in (none, selective, full) if run.fits)

    assert roomy.fits
    assert none.fits is False
    assert chosen.grade == fitting.grade
    assert "recompute" in chosen.assumed
    assert not chosen.scored


def test_reasons_are_counted_by_kind(whole):
    """How many cases have a reason, and for how many it is the only one."""
    reasons = whole["reasons"]
    counts = {reason["reason"]: (reason["cases"], reason["alone"]) for reason in reasons}

    assert counts["malformed"] == (2, 2)
    assert counts["invalid layout"] == (1, 1)
    assert counts["unsupported precision"] == (1, 0)


def test_only_the_groups_asked_for_are_run():
    """A group may be named or given as a pattern."""
    cases = read_entries(SMALL)

    assert {entry.group for entry in select_groups(cases, ["sma*"])} == {"small"}
    assert len(select_groups(cases, ["small", "(no group)"])) == 7


def test_an_unknown_group_is_one_line_with_the_nearest():
    """A typing error names what was meant."""
    with pytest.raises(ScenarioError) as caught:
        select_groups(read_entries(SMALL), ["smal"])
    assert str(caught.value) == "--group: no case is of group 'smal' (did you mean 'small'?)"


def test_processes_give_the_same_answer(whole):
    """Where a case runs does not change what is predicted."""
    with ProcessPoolExecutor(2) as executor:
        parallel = answer_for(read_entries(SMALL), executor=executor)
    timeless = [
        answer | {"cases": [case | {"wall_s": None} for case in answer["cases"]]}
        for answer in (parallel, whole)
    ]

    assert timeless[0] == timeless[1]


def test_runs_that_state_no_compilation_are_eager():
    """torch.compile is off by default; the note of a run states it."""
    compiled = row_of(group="torchtitan-h100", note="torch.compile + float8")
    eager = row_of(group="torchtitan-h100", note="per-op selective activation checkpointing")

    assert [framework_of(row).framework for row in (compiled, eager)] == [
        "torchtitan",
        "torchtitan-eager",
    ]


def test_the_tables_of_machines_and_frameworks_are_whole():
    """Each entry has a source or an assumption, and matching goes by the words of a case."""
    named = [*machine_table().machines, *frameworks().frameworks, *frameworks().defaults]
    selene = row_of(system={"accelerator": "A100-80GB-SXM", "name": "selene"})
    other = row_of(system={"accelerator": "a100-80gb-sxm", "name": "elsewhere"})

    assert all((choice.source is None) != (choice.assumed is None) for choice in named)
    assert machine_of(selene).cluster == "selene"
    assert machine_of(other).cluster == "dgx-a100"
    titled = row_of(source={"title": "torchtitan on a new machine"})

    assert framework_of(row_of(group="frontier")).framework == "megatron-deepspeed-rocm5"
    assert framework_of(row_of(group="nobody")) is None
    assert framework_of(titled).framework == "torchtitan"
    assert [default_framework(zero, 1).framework for zero in (0, 1, 3)] == [
        "megatron-lm",
        "megatron-core",
        "torchtitan",
    ]
    assert default_framework(0, 4).framework == "megatron-core"


def test_runs_that_name_another_allocator_have_its_passes():
    """With tcmalloc passes are twice as fast and free blocks are joined; nothing else changes."""
    names = [
        framework_of(row_of(group="fugaku-small", id=f"fugaku-124m-{malloc}-dp2")).framework
        for malloc in ("stdmalloc", "tcmalloc")
    ]
    usual, other = (entry("framework", name).data for name in names)
    changed = {key for key in {*usual} | {*other} if usual.get(key) != other.get(key)}

    assert changed - {"extends"} == {"name", "title", "passes", "memory", "sources"}
    assert 1.8 < other["passes"]["value"] / usual["passes"]["value"] < 2.4


# --- the command ----------------------------------------------------------------------------------


def test_json_is_one_object(capsys):
    """`--json` prints cases, groups and all, and nothing else."""
    command(cases=SMALL, group=["small"], jobs=1, json_output=True)
    answer = json.loads(capsys.readouterr().out)

    assert [*answer][:3] == ["cases", "groups", "all"]
    assert [*answer["groups"]] == ["small"]


def test_the_tables_show_cases_groups_and_reasons(capsys):
    """Without `--json` there are tables, and few cases without a grade are listed one by one."""
    command(cases=SMALL, jobs=1)
    shown = capsys.readouterr().out

    assert all(word in shown for word in ("good", "hardware TFLOP/s/device", "3 of 5", "TPU-v9"))
    assert "Cases without a grade, by reason" in shown


# --- published cases ------------------------------------------------------------------------------


def test_every_shipped_case_can_be_read():
    """The shipped file has no malformed row and no id twice."""
    assert [entry.problem for entry in shipped_cases() if entry.problem] == []


def test_published_layers_are_met():
    """The mean error of single layers stays within 2 %; recalled numbers do not count."""
    cases = [e for e in shipped_cases() if e.row and e.row.source.confidence != "low"]
    sums = validation_of(run_cases(select_groups(cases, ["korthikanti22-layer"]))).all

    assert sums.gradable >= 3
    assert sums.mean_abs_error <= 0.02
