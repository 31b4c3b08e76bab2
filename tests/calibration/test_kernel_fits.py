"""Surfaces fitted to tables: terms come back from times that were made with them."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from clustersim.answers import from_json
from clustersim.calibration.kernels.accelerators import measured_groups
from clustersim.calibration.kernels.fits import (
    KernelFits,
    KernelGrades,
    fit_kernels,
    grade_kernels,
    kernel_files,
)
from clustersim.calibration.kernels.tables import read_tables
from clustersim.catalog.checking import checked, shipped_record
from clustersim.catalog.finding import entry_names, find
from clustersim.catalog.records.accelerators import AcceleratorRecord, find_kernel_fits
from clustersim.catalog.tree import Tree
from clustersim.cost.kernels.price_list import KernelPrices
from clustersim.cost.kernels.products import product_shapes
from clustersim.cost.surfaces.kernel_kinds import SURFACES
from clustersim.cost.surfaces.products import PRODUCTS as PRODUCT_SURFACE
from clustersim.cost.surfaces.surface import predict
from clustersim.runs.workers import InProcess
from clustersim.simulation.step.simulate import simulate
from clustersim.topology.accelerator import build_accelerator
from commands import ending, rejected
from wrong_values import wrong_values

SIZES = (1, 16, 128, 1024, 8192)

PRODUCTS = [*itertools.product(SIZES, (512, 5120, 28672), (256, 4096, 16384))]

ATTENTION = "dtype,kv_dtype,batch,heads,kv_heads,head_dim,seq_q,seq_kv"

TABLES = {
    ("gemm", "bf16"): (
        "dtype,m,n,k",
        [f"gemm,bf16,{m},{n},{k}" for m, n, k in PRODUCTS],
        {"launch": 4e-6, "best": 0.7, "memory": 0.72, "depth": 3e-6},
    ),
    ("gemm", "fp8"): (
        "dtype,m,n,k",
        [f"gemm,fp8,{m},{n},{k}" for m, n, k in PRODUCTS],
        {"launch": 1.2e-5, "best": 0.65, "memory": 0.75, "conversion": 9.0},
    ),
    ("attention-prefill", "bf16/bf16"): (
        ATTENTION,
        [
            f"attn_prefill,bfloat16,bfloat16,{b},{h},8,{d},{s},{s}"
            for b, h, d, s in itertools.product((1, 32), (8, 32), (64, 128), (16, 1024, 16384))
        ],
        {"launch": 8e-6, "best": 0.6, "tile": 4e-6},
    ),
    ("attention-decode", "bf16/bf16"): (
        ATTENTION,
        [
            f"attn_decode,bfloat16,bfloat16,{b},{h},{v},128,1,{s}"
            for b, (h, v), s in itertools.product(
                (1, 32, 512), ((8, 8), (32, 8), (64, 1)), (16, 1024, 16384)
            )
        ],
        {"launch": 6e-6, "memory": 0.8, "tile": 2e-6},
    ),
    ("experts", "bf16"): (
        "dtype,distribution,tokens,hidden,inter,topk,experts,moe_tp,moe_ep",
        [
            f"moe_grouped_gemm,bfloat16,{d},{t},4096,{i},8,128,1,{e}"
            for d, t, i, e in itertools.product(
                ("balanced", "power_law_1.2"), (1, 64, 1024, 16384), (768, 3072), (1, 16)
            )
        ],
        {"launch": 4e-5, "best": 0.5, "memory": 0.65, "moved": 40.0},
    ),
    ("all-reduce", "nccl"): (
        "impl,dtype,gpus,bytes",
        [
            f"all_reduce,NCCL,half,{g},{2**p}"
            for g, p in itertools.product((2, 4, 8), range(8, 31, 3))
        ],
        {"base": 1.2e-5, "hop": 1.5e-6, "rate": 6e11},
    ),
    ("dispatch", "deepep-normal"): (
        "nodes,hidden,tokens,topk,experts,sms",
        [
            f"deepep_normal_dispatch,{n},7168,{t},8,256,{u}"
            for n, t, u in itertools.product((1, 4), (1, 64, 1024, 16384, 131072), (8, 24))
        ],
        {"base": 4e-5, "rate": 3e11, "network_rate": 5e10},
    ),
}
"""By kind and variant: columns, rows without times, and the terms that made their times."""


def written(folder, key, *, scale=lambda row: 1.0):
    """Write a table whose times a surface made."""
    columns, lines, truth = TABLES[key]
    file = folder / f"{key[0]}.csv"
    head = f"accelerator,kernel,{columns},seconds,source"
    text = [f"NVIDIA B200 SXM,{line},1,maker@1:times.csv" for line in lines]
    file.write_text("\n".join([head, *text]) + "\n")
    (group,) = measured_groups(read_tables([file])).groups
    seconds = np.exp(group.rows.ratios(truth))
    made = [
        line.replace(",1,maker", f",{taken * scale(row):.8g},maker")
        for row, (line, taken) in enumerate(zip(text, seconds, strict=True))
    ]
    file.write_text("\n".join([head, *made]) + "\n")
    return file


def fitted(file):
    """Return the only fit of a table."""
    (one,) = fit_kernels([file], InProcess()).fits
    return one


def by_name(one):
    return {term.name: term for term in one.terms}


SLOW = {
    ("experts", "bf16"),
    ("gemm", "fp8"),
    ("attention-decode", "bf16/bf16"),
    ("dispatch", "deepep-normal"),
}
"""Many rows of many terms, and kernels like others of this test."""


@pytest.mark.parametrize(
    "key",
    [pytest.param(key, marks=[pytest.mark.large] * (key in SLOW)) for key in TABLES],
    ids="-".join,
)
def test_terms_come_back_from_times_that_they_made(key, tmp_path):
    """Exact times give back each term that was changed, and rows left out are predicted."""
    one = fitted(written(tmp_path, key))

    for name, value in TABLES[key][2].items():
        term = by_name(one)[name]
        assert term.fitted, name
        assert term.value == pytest.approx(value, rel=0.05), name
    assert one.after.median < 0.01
    assert one.held_out.median < 0.03


@pytest.mark.large
def test_slow_outliers_hardly_move_a_fit(tmp_path):
    """A tenth of rows at three times their time moves a share of peak by at most 3 %."""
    key = "gemm", "bf16"
    clean = by_name(fitted(written(tmp_path, key)))["best"].value
    file = written(tmp_path, key, scale=lambda row: 3.0 if row % 10 == 0 else 1.0)

    assert by_name(fitted(file))["best"].value == pytest.approx(clean, rel=0.03)


def test_a_term_without_data_keeps_its_prior(tmp_path):
    """Products of one row are limited by memory: their share of peak is not determined."""
    file = written(tmp_path, ("gemm", "bf16"))
    lines = file.read_text().splitlines()
    single = [line for line in lines if "gemm,bf16,1," in line]
    file.write_text("\n".join([lines[0], *single]) + "\n")
    heat = by_name(fitted(file))["heat"]

    assert not heat.fitted
    assert heat.value == heat.prior


@pytest.mark.large
def test_rows_with_one_shape_are_in_one_fold(tmp_path):
    """A shape that is measured twice is held out in both rows."""
    file = written(tmp_path, ("all-reduce", "nccl"))
    twice = file.read_text() + "\n".join(file.read_text().splitlines()[1:]) + "\n"
    once = fitted(file).held_out
    file.write_text(twice)

    assert fitted(file).held_out.median == pytest.approx(once.median, abs=0.01)


def test_a_fit_is_in_the_file_and_its_rows_are_not(here):
    """A grade with the terms of the file has the errors of the fit."""
    file = written(here, ("gemm", "bf16"), scale=lambda row: math.exp(0.05 * math.sin(row)))
    answer = fit_kernels([file], InProcess())
    ((path, text),) = kernel_files(answer, here).items()
    path.write_text(text)
    entry = find_kernel_fits("b200", here).kernels["gemm"]["bf16"]
    (graded,) = grade_kernels([file]).groups

    assert path == here / "b200.yaml"
    assert (entry.rows, entry.measured) == (45, "maker@1:times.csv")
    assert "28672" not in text
    assert graded.fitted
    assert graded.errors.median == pytest.approx(answer.fits[0].after.median, abs=0.002)


@pytest.mark.large
def test_fits_in_the_folder_of_a_scenario_are_those_of_its_runs(here, capsys):
    """Products measured at a lower rate make the step of a scenario next to them longer."""
    Path("mine.yaml").write_text(
        "title: products of my own\ncluster: {name: dgx-b200, nodes: 1}\nmodel: gpt-22b\n"
        "plan: {tensor: 8}\nbatch: {global: 8, micro: 4, sequence: 2048}\nprecision: bf16\n"
        "framework: megatron-core\n"
    )
    before = simulate("mine.yaml").step_time
    file = written(here, ("gemm", "bf16"), scale=lambda row: 2.0)
    file.write_text(file.read_text().replace("gemm,bf16", "matmul,bf16"))  # those of training

    code, *_ = ending(capsys, "calibrate", "--from", file, "--out", ".", "--jobs", "1")

    assert code == 0
    assert simulate("mine.yaml").step_time > 1.1 * before


@pytest.mark.large
def test_other_fits_of_a_file_stay(here):
    """A table of collectives leaves the fits of attention as they are."""
    attention, collectives = (
        written(here, key) for key in (("attention-prefill", "bf16/bf16"), ("all-reduce", "nccl"))
    )
    for file in (attention, collectives):
        ((path, text),) = kernel_files(fit_kernels([file], InProcess()), here).items()
        path.write_text(text)
    kernels = find_kernel_fits("b200", here).kernels

    assert kernels["attention-prefill"]["bf16/bf16"].measured == "maker@1:times.csv"
    assert kernels["all-reduce"]["nccl"].measured == "maker@1:times.csv"


def test_an_accelerator_of_the_same_folder_is_no_file_of_fits(tmp_path):
    """A file of the same name with another kind leaves the shipped fits, or none."""
    (tmp_path / "mine.yaml").write_text("kind: accelerator\nname: mine\n")

    assert find_kernel_fits("mine", tmp_path) is None


@pytest.mark.parametrize("name", entry_names("kernels"))
def test_shipped_fits_have_terms_of_their_surfaces(name):
    """A file is of an accelerator of the catalogue, its values between the bounds of a fit."""
    assert name in entry_names("accelerator")
    record = find_kernel_fits(name)
    for kind, variants in record.kernels.items():
        for variant, fit in variants.items():
            bounds = {term.name: term for term in SURFACES[kind].terms(variant)}
            for term, found in fit.found.items():
                low, high = bounds[term].low, bounds[term].high
                assert low * 0.999 <= found.value <= high * 1.001, (kind, variant, term)


@pytest.mark.parametrize("name", entry_names("accelerator"))
def test_a_similar_accelerator_has_fits(name):
    """What an accelerator is like was measured."""
    record = checked(AcceleratorRecord, Tree.of(find("accelerator", name)))

    if record.kernels_like is not None:
        assert record.kernels_like in entry_names("kernels")


def test_kernels_without_a_fit_are_predicted_by_a_similar_accelerator(tmp_path):
    """An A100 of 40 GB has the fits of one of 80 GB, and the grade reports it."""
    file = tmp_path / "t.csv"
    head = "accelerator,kernel,dtype,m,n,k,seconds"
    file.write_text(f"{head}\na100-40gb,gemm,bf16,4096,4096,4096,0.00055\n")
    (graded,) = grade_kernels([file]).groups

    assert (graded.accelerator, graded.fitted, graded.like) == ("a100-40gb", True, "a100-80gb")
    assert graded.errors.median < 0.2


# --- the command line -------------------------------------------------------------------------


def test_grades_are_without_a_fit(tmp_path, capsys):
    """A table is graded as it is: at twice the time that the terms give, predictions are fast."""
    file = written(tmp_path, ("gemm", "bf16"), scale=lambda row: 2.0)
    code, out, _ = ending(capsys, "calibrate", "--grade", file, "--json")
    answer = from_json(KernelGrades, json.loads(out))

    assert not code
    (one,) = answer.groups
    assert (one.kind, one.variant, one.accelerator, one.rows) == ("gemm", "bf16", "b200", 45)
    assert one.errors.bias < 0
    (table,) = answer.tables
    assert (table.file, table.kernel, table.dtype) == (str(file), "gemm", "bf16")
    assert (table.count, table.bias) == (one.rows, one.errors.bias)
    assert grade_kernels([file]) == answer


def test_several_tables_follow_one_option(tmp_path, capsys):
    """A pattern of the shell gives all its files to `--grade`."""
    files = [written(tmp_path, key) for key in (("gemm", "bf16"), ("all-reduce", "nccl"))]
    code, out, _ = ending(capsys, "calibrate", "--grade", *files)

    assert not code
    assert "gemm" in out
    assert "all-reduce" in out


@pytest.mark.large
def test_fits_are_written_to_a_folder(here, capsys):
    """`--out` is the folder of the files of accelerators, which it makes."""
    file = written(here, ("all-reduce", "nccl"))
    code, out, _ = ending(
        capsys, "calibrate", "--from", file, "--out", "new", "--jobs", "2", "--json"
    )
    answer = from_json(KernelFits, json.loads(out))

    assert not code
    assert answer.files == ("new/b200.yaml",)
    assert Path("new/b200.yaml").is_file()
    again, _, error = ending(capsys, "calibrate", "--from", file, "--out", "new", "--jobs", "1")
    assert again == 2
    assert error.startswith("new/b200.yaml: already exists")


def test_rows_without_an_accelerator_are_counted(tmp_path, capsys):
    """Rows of an unknown chip are left out with their number."""
    file = written(tmp_path, ("gemm", "bf16"))
    file.write_text(file.read_text() + "Chip 9,gemm,bf16,1,1,1,1e-6,\n")
    _, out, _ = ending(capsys, "calibrate", "--grade", file)

    assert "no accelerator is measured as 'Chip 9'" in out


def test_a_table_without_gradable_rows_leaves_the_other_tables_graded(tmp_path, capsys):
    """Mixed batches have no surface: alone or next to another table, each row has its reason."""
    file = written(tmp_path, ("gemm", "bf16"))
    mixed = tmp_path / "mixed.csv"
    mixed.write_text("accelerator,kernel,seconds\nNVIDIA B200 SXM,attn_mixed_batch,1e-6\n")
    reason = "attn_mixed_batch: a batch of prefill and decode is not one kernel"
    code, out, _ = ending(capsys, "calibrate", "--grade", mixed, file, "--json")
    alone, text, _ = ending(capsys, "calibrate", "--grade", mixed)
    answer = from_json(KernelGrades, json.loads(out))

    assert (code, alone) == (0, 0)
    assert [Path(one.file).name for one in answer.tables] == [file.name]
    assert dict(answer.left_out) == {reason: 1}
    assert text.splitlines() == [
        "No row of the tables can be graded.",
        f"left out       1  {reason}",
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"), wrong_values("wrong calls of calibrate for tables")
)
def test_a_wrong_call_is_one_line(here, capsys, arguments, complaint):
    """Invalid options and tables are reported in a line, with exit code 2."""
    head = "accelerator,kernel,dtype,m,n,k,seconds\n"
    Path("x.csv").write_text(f"{head}NVIDIA B200 SXM,gemm,bf16,1,1,1,1e-6\n")
    Path("other.csv").write_text(f"{head}Chip 9,gemm,bf16,1,1,1,1e-6\n")
    Path("own.csv").write_text("kind,shape,precision,seconds\n")

    assert rejected(capsys, "calibrate", *arguments.split()).startswith(complaint)


def test_kernels_of_an_engine_have_fits_of_their_own(tmp_path):
    """The source of a row names its engine, whose fit wins over that of the accelerator."""
    file = tmp_path / "engines.csv"
    head = "accelerator,kernel,dtype,m,n,k,seconds,source"
    row = "NVIDIA H200 SXM,gemm,fp8,64,4096,4096,2e-5,maker@1:data/gemm/{}/0.24.0/gemm.parquet"
    file.write_text("\n".join([head, row.format("vllm"), row.format("trtllm")]) + "\n")

    usual, engine = measured_groups(read_tables([file])).groups

    assert (usual.engine, engine.engine, engine.releases) == ("", "vllm", "0.24.0")
    assert engine.fit[0] == usual.fit[0] == "h200-sxm"
    assert "vllm" in engine.fit[1].measured
    assert engine.terms != usual.terms


@pytest.mark.parametrize("accelerator", ["h200-sxm", "b300"])
def test_an_engine_has_the_prices_of_its_own_kernels(accelerator):
    """An engine has its own fits, or those of a similar accelerator, and others the usual ones."""
    device = build_accelerator(shipped_record(AcceleratorRecord, "accelerator", accelerator))
    rows = np.array([16.0])

    usual, own, other = (
        KernelPrices(device, engine=engine).products("fp8", rows, 4096, 4096)[0][0]
        for engine in (None, "vllm", "deepseek")
    )

    assert own != usual == other


def test_products_issued_by_the_host_take_its_time():
    """In a benchmark without graphs a short product takes the time of the host, not its own."""
    device = build_accelerator(shipped_record(AcceleratorRecord, "accelerator", "h200-sxm"))
    sizes = [np.array([size]) for size in (1.0, 16.0, 1024.0, 1024.0)]
    shapes = product_shapes(*sizes)
    issued = {**shapes, "issued": np.ones(1)}

    alone, called = (
        predict(PRODUCT_SURFACE, device, each, "fp8-block", {"host": 57e-6})[0]
        for each in (shapes, issued)
    )

    assert alone < 20e-6
    assert called == pytest.approx(57e-6, rel=0.01)
