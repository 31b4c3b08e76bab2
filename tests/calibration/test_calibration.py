"""Calibration: coefficients come back from data that were made with them, and no others move."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.calibration.fitting import fit
from clustersim.calibration.linear import Prior
from clustersim.calibration.runs.answer import fit_accelerator
from clustersim.calibration.runs.coefficients import fact_at, with_products, with_values
from clustersim.calibration.runs.files import catalogue_files
from clustersim.calibration.runs.kernels import kernel_seconds, read_kernels
from clustersim.calibration.runs.replays import read_runs, run_seconds
from clustersim.calibration.runs.request import calibrate, read_request
from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import sourced
from clustersim.catalog.records.accelerators import AcceleratorRecord
from clustersim.catalog.records.frameworks import FrameworkRecord
from clustersim.catalog.tree import Tree
from clustersim.runs.executors import workers
from clustersim.runs.workers import InProcess
from clustersim.scenario.load import load
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.accelerator import build_accelerator
from commands import ending, output, rejected
from measured_runs import shipped_cases
from wrong_values import wrong_values

CHIP = "a100-80gb"

SHAPES = [
    *(
        ("gemm", f"m={m} n={n} k={k} batch=1")
        for m in (512, 2048, 8192)
        for n in (1024, 6144)
        for k in (64, 256, 1024, 8192)
    ),
    *(
        (kind, f"batch=4 heads=16 sequence={s} head_size=128 causal=1")
        for kind in ("attention-forward", "attention-backward")
        for s in (512, 1024, 2048, 8192)
    ),
    *(("elementwise", f"bytes={2**power}") for power in range(20, 31, 2)),
    *(("reduction", f"bytes={2**power}") for power in range(21, 31, 2)),
    ("launch", "kernels=1000"),
    ("dispatch", "kernels=1000"),
    ("host-to-device", "bytes=67108864"),
]
"""A small table of kernels."""


def shipped_chip():
    return with_products(checked(AcceleratorRecord, Tree.of(finding.find("accelerator", CHIP))))


@pytest.fixture(scope="module")
def chip():
    return shipped_chip()


def table(folder, shapes=SHAPES, seconds=lambda row: 1e-4):
    """Return rows of a table with times given by a function of a row."""
    file = folder / "kernels.csv"
    lines = [f"{kind},{shape},bf16,1e-4" for kind, shape in shapes]
    file.write_text("# a device\nkind,shape,precision,seconds\n" + "\n".join(lines) + "\n")
    return [replace(row, seconds=seconds(row)) for row in read_kernels(file).rows if row.kernel]


def made_with(chip, values, noise=0.0, seed=0):
    """Return the time of a row on a chip with some coefficients."""
    device = build_accelerator(with_values(chip, values))
    random = np.random.default_rng(seed)
    return lambda row: kernel_seconds(row.kernel, device) * math.exp(noise * random.normal())


def fit_of(chip, rows=(), runs=()):
    """Return the fit of a chip to rows of kernels and to runs."""
    return fit_accelerator(chip, [*rows], [*runs], InProcess())


def read_group(group, every=1):
    """Return the shipped cases of a group, or some of them."""
    return [entry for entry in shipped_cases() if entry.group == group][::every]


def by_path(answer):
    return {coefficient.path: coefficient for coefficient in answer.coefficients}


# --- the fit ----------------------------------------------------------------------------------


@pytest.mark.large
@settings(max_examples=6, deadline=None)
@given(
    best=st.floats(0.6, 0.95),
    half=st.floats(80, 400),
    achieved=st.floats(0.6, 0.95),
    launch=st.floats(1e-6, 6e-6),
    forward=st.floats(0.4, 0.8),
)
def test_data_made_from_known_coefficients_are_recovered(
    best, half, achieved, launch, forward, chip, tmp_path_factory
):
    """Times that the model itself made give back what they were made with, within 2 %."""
    truth = {
        "gemm.best": best,
        "gemm.inner_half": half,
        "memory.achieved": achieved,
        "launch_overhead": launch,
        "flash_attention.forward": forward,
    }
    rows = table(tmp_path_factory.mktemp("t"), seconds=made_with(chip, truth))

    found = fit_of(chip, rows)

    fitted = by_path(found)
    for path, value in truth.items():
        assert fitted[path].fitted, path
        assert fitted[path].value == pytest.approx(value, rel=0.02), path
    assert found.all.after.mean_abs < 0.005
    assert found.all.after.mean_abs <= found.all.before.mean_abs + 1e-9


def test_a_coefficient_without_data_stays_at_its_prior(chip, tmp_path):
    """Streams do not determine products or attention, whose coefficients stay, with the reason."""
    shapes = [row for row in SHAPES if row[0] in ("elementwise", "reduction", "launch")]
    rows = table(tmp_path, shapes, made_with(chip, {"memory.achieved": 0.7}))

    fitted = by_path(fit_of(chip, rows))

    assert fitted["memory.achieved"].value == pytest.approx(0.7, rel=0.01)
    for path in ("gemm.best", "gemm.inner_half", "gemm.ragged", "flash_attention.forward"):
        assert fitted[path].value == fitted[path].prior == fact_at(chip, path).value
        assert fitted[path].why == "no row depends on it"


def test_two_coefficients_that_do_the_same_are_not_both_moved(chip, tmp_path):
    """Products of one depth give the rate at that depth, and not what it is made of."""
    shapes = [("gemm", f"m={m} n=8192 k=1024 batch=1") for m in (4096, 8192, 16384)]
    rows = table(tmp_path, shapes * 4, made_with(chip, {"gemm.best": 0.7}))

    fitted = by_path(fit_of(chip, rows))

    moved = [path for path in ("gemm.best", "gemm.inner_half") if fitted[path].fitted]
    assert len(moved) == 1
    left = ({"gemm.best", "gemm.inner_half"} - set(moved)).pop()
    assert fitted[left].value == fitted[left].prior
    assert fitted[left].why == f"its effect is that of {moved[0]} of {CHIP}"


@pytest.mark.large
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_noise_moves_a_coefficient_within_its_stated_error(seed, chip, tmp_path_factory):
    """With 5 % of noise the truth lies within four standard errors, which are not vast."""
    truth = {"gemm.best": 0.7, "memory.achieved": 0.9}
    seconds = made_with(chip, truth, noise=0.05, seed=seed)
    rows = table(tmp_path_factory.mktemp("t"), seconds=seconds)

    fitted = by_path(fit_of(chip, rows))

    for path, value in truth.items():
        assert abs(math.log(fitted[path].value / value)) < 4 * fitted[path].error
        assert fitted[path].error < 0.08


def test_a_row_far_off_hardly_pulls(chip, tmp_path):
    """One product that took twenty times as long moves the rate of products by less than 1 %."""
    seconds = made_with(chip, {"gemm.best": 0.7})
    rows = table(tmp_path, seconds=seconds)
    rows[0] = replace(rows[0], seconds=20 * rows[0].seconds)

    fitted = by_path(fit_of(chip, rows))

    assert fitted["gemm.best"].value == pytest.approx(0.7, rel=0.01)


def test_rows_that_are_held_out_are_not_what_they_are_graded_by(chip, tmp_path):
    """The error on rows that a fit did not see is no smaller than on those that it saw."""
    seconds = made_with(chip, {"gemm.best": 0.7}, noise=0.1)
    found = fit_of(chip, table(tmp_path, seconds=seconds))

    assert found.all.held_out is not None
    assert found.all.held_out.mean_abs > 0.98 * found.all.after.mean_abs
    best = by_path(found)["gemm.best"]
    assert best.low < best.high


def test_bounds_hold():
    """Rows beyond the bounds leave a coefficient at its bound."""
    prior = Prior(np.array([0.7]), np.array([-0.2]), np.array([0.2]))
    rows = np.zeros(20, dtype=bool)

    def predict(tasks):
        return [np.full(len(which), -1.0) + x[0] for x, which in tasks]

    found = fit(predict, prior, rows)

    assert found.x[0] == pytest.approx(0.2, abs=1e-6)


# --- runs -------------------------------------------------------------------------------------


@pytest.mark.large
def test_dispatch_comes_back_from_runs_that_were_made_with_it(chip):
    """Small models that a slower host ran give back the time of its host for each kernel."""
    runs, left = read_runs(read_group("vtrain-single", every=36), CHIP, InProcess())
    truth = {"gemm.sustained": 0.7}
    made = [replace(run, measured=run_seconds(run.row, truth, {"dispatch": 9e-5})) for run in runs]

    found = fit_of(chip, runs=made)

    fitted = by_path(found)
    assert not left
    assert fitted["dispatch"].value == pytest.approx(9e-5, rel=0.01)
    assert fitted["gemm.sustained"].value == pytest.approx(0.7, rel=0.03)
    assert found.all.after.mean_abs < 0.01


@pytest.mark.large
def test_runs_in_two_processes_are_those_in_one(chip):
    """Where runs are replayed does not change the fit."""
    small = read_group("vtrain-single", every=48)
    results = []
    for jobs in (1, 2):
        with workers(jobs) as executor:
            runs, _ = read_runs(small, CHIP, executor)
            results.append(fit_accelerator(chip, [], runs, executor))

    assert results[0] == results[1]


def test_runs_of_other_chips_are_no_rows():
    """A case of an H100 is no row of an A100."""
    assert read_runs(read_group("torchtitan-h100"), CHIP, InProcess()) == ([], {})


# --- files ------------------------------------------------------------------------------------


@pytest.fixture
def measured(chip, here):
    """Write a table of kernels that a slower chip made, and a scenario, in the working folder."""
    shipped = finding.shipped("scenario") / "megatron21-t1-1.7b.yaml"
    Path("mine.yaml").write_text(shipped.read_text())
    seconds = made_with(chip, {"gemm.best": 0.7, "launch_overhead": 4e-6})
    lines = ["# device: a slow one; torch 2.9", "kind,shape,precision,seconds"]
    for row in table(here):
        shape = " ".join(f"{key}={value:g}" for key, value in row.shape.items())
        lines.append(f"{row.kind},{shape},bf16,{seconds(row)!r}")
    lines += ["attention-forward-cudnn,batch=1 heads=1 sequence=64 head_size=64 causal=1,bf16,1"]
    lines += ["dispatch,kernels=1000,bf16,0.006", "host-to-device,bytes=2e9,bf16,0.1"]
    Path("slow.csv").write_text("\n".join(lines) + "\n")
    return here


ASKED = ("calibrate", "--accelerator", CHIP, "--from", "slow.csv")


def test_a_run_takes_the_file_that_calibrate_writes(measured, capsys):
    """In the folder of a scenario the new file overrides the shipped one; its step is longer."""
    before = simulate("mine.yaml").step_time

    out = output(capsys, *ASKED, "--out", f"{CHIP}.yaml")

    assert f"written   {CHIP}.yaml" in out
    record = load("mine.yaml").scenario.cluster.node.accelerator
    assert record.gemm.best == pytest.approx(0.7, rel=0.01)
    assert sourced(record.gemm, "best").source == "calibration"
    fitted = record.sources["calibration"].where or ""
    assert "slow.csv" in fitted
    assert "a slow one" in fitted
    assert record.gemm.ragged == shipped_chip().gemm.ragged
    assert simulate("mine.yaml").step_time > 1.03 * before


def test_a_second_fit_to_the_same_rows_changes_nothing(measured, capsys):
    """What was fitted is no evidence of its own: values and errors stay as they are."""
    fitted = []
    for _ in range(2):
        _, out, _ = ending(capsys, *ASKED, "--json", "--force", "--out", f"{CHIP}.yaml")
        fitted.append({each["path"]: each for each in json.loads(out)["coefficients"]})

    first, second = (each["gemm.best"] for each in fitted)
    assert second["prior"] == pytest.approx(first["value"], rel=1e-3)
    assert second["value"] == pytest.approx(first["value"], rel=2e-3)
    assert second["error"] >= 0.9 * first["error"]


def test_the_file_says_what_was_left_and_why(measured, capsys):
    """Above the file stand the errors of the fit and each coefficient that no row determines."""
    ending(capsys, *ASKED, "--out", "my-a100.yaml")
    text = Path("my-a100.yaml").read_text()

    assert text.startswith("# Fitted by clustersim calibrate to 44 rows.\n")
    assert "# gemm.ragged is not fitted: no row depends on it.\n" in text
    assert "\nname: my-a100\n" in text
    changed = simulate("mine.yaml", ["cluster.node.accelerator=my-a100"])
    assert changed.step_time > 1.03 * simulate("mine.yaml").step_time


def test_the_object_has_each_coefficient_and_group(measured, capsys):
    """`--json` prints one object, and rows of the host are reported in it, not fitted."""
    _, out, _ = ending(capsys, *ASKED, "--json")
    answer = json.loads(out)

    fitted = {each["path"]: each for each in answer["coefficients"]}
    assert fitted["gemm.best"]["fitted"]
    assert fitted["gemm.ragged"]["why"] == "no row depends on it"
    assert answer["all"]["rows"] == sum(group["rows"] for group in answer["groups"].values()) == 44
    rates = {each["kind"]: each for each in answer["not_fitted"]}
    assert rates["host-to-device"]["bytes_per_s"] == pytest.approx(2e10)
    assert rates["dispatch"]["seconds_each"] == pytest.approx(6e-6)
    assert answer["left_out"] == {
        "attention-forward-cudnn bf16": f"'{CHIP}' has no facts of cuDNN's attention"
    }
    assert answer["files"] == []


@pytest.mark.large
def test_what_runs_tell_of_a_framework_becomes_a_file_of_its_own(chip, here):
    """A fitted dispatch is written next to the accelerator, as an extension of the framework."""
    request = read_request(CHIP, [], ["vtrain-single"])
    request = replace(request, entries=request.entries[::18])
    found = calibrate(request, InProcess())
    files = catalogue_files(found, request.document, here / f"{CHIP}.yaml")
    for path, text in files.items():
        path.write_text(text)

    record = checked(
        FrameworkRecord, Tree.of(finding.find("framework", "megatron-deepspeed", here))
    )
    answer = by_path(found)["dispatch"]
    assert record.dispatch == pytest.approx(answer.value, rel=1e-3)
    assert sourced(record, "dispatch").source == "calibration"
    assert "vtrain-single 8" in (record.sources["calibration"].where or "")


# --- what is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "complaint"), wrong_values("tables of a device"))
def test_a_wrong_table_is_one_line(measured, capsys, text, complaint):
    """Each mistake of a table is reported with its line and the remedy; nothing is written."""
    Path("slow.csv").write_text(text)

    assert rejected(capsys, *ASKED, "--out", "new.yaml").startswith(complaint)
    assert not Path("new.yaml").exists()


@pytest.mark.parametrize(("arguments", "complaint"), wrong_values("wrong options of calibrate"))
def test_a_wrong_option_is_one_line(here, capsys, arguments, complaint):
    """Invalid options are reported in a line, with exit code 2."""
    assert rejected(capsys, "calibrate", *arguments.split()).startswith(complaint)


def test_a_file_that_is_there_is_kept(measured, capsys):
    """Without --force nothing is replaced, and the fit is not even made."""
    Path("old.yaml").write_text("mine")

    error = rejected(capsys, *ASKED, "--out", "old.yaml")

    assert error.startswith("old.yaml: already exists (use --force")
    assert Path("old.yaml").read_text() == "mine"
    assert ending(capsys, *ASKED, "--out", "old.yaml", "--force")[0] == 0
    assert Path("old.yaml").read_text() != "mine"
