"""Unseen rows: each has a grade or reasons against it, and its machine is found by its words.

Values are odd but plausible, as people type tables of runs.
"""

import copy
import json
from concurrent.futures import BrokenExecutor, Executor, Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.answers import to_json
from clustersim.catalog.finding import entry_names
from clustersim.cli.validate import validate as command
from clustersim.scenario.load import load_cluster
from clustersim.validation.case_runs import run_case, run_cases
from clustersim.validation.cases.machines import machine_of, machine_table, plain_name
from clustersim.validation.cases.nodes import node_shape, with_ports
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.cases.rows import parse_entries
from clustersim.validation.cases.settings import case_settings
from clustersim.validation.cases.texts import Ports, ports_of

PLAIN = {
    "id": "row",
    "group": "unseen",
    "source": {"title": "A page", "confidence": "high"},
    "system": {
        "name": "cluster",
        "accelerator": "A100-80GB-SXM",
        "gpus": 8,
        "gpus_per_node": 8,
        "interconnect": "8 x 200 Gb/s per node",
    },
    "model": {
        "family": "gpt",
        "layers": 4,
        "hidden": 1024,
        "heads": 16,
        "kv_heads": 16,
        "ffn": 4096,
        "vocab": 51200,
        "seq": 1024,
        "gated_mlp": False,
    },
    "parallel": {"tp": 2, "pp": 2, "dp": 2, "interleave": 1, "schedule": "1f1b", "zero_stage": 0},
    "batch": {"global": 16, "micro": 2},
    "recompute": "full",
    "precision": "fp16",
    "measured": {"step_time_s": 0.1},
}

ODD = {
    "group": ["torchtitan-h100", "megatron21-zero3", "fugaku-z", "", None, 7, "nemo-x"],
    "source.title": ["torchtitan on H100", "NeMo 25", "Something", None, 3],
    "source.confidence": ["low", "HIGH (printed)", None],
    "system.accelerator": [
        *("H100", "NVIDIA H100 80GB HBM3", "TPU-v9", "Gaudi2", "Tesla V100", "MI300X-192GB"),
        *("MI250 (2 GCDs, 128 GB)", "L40S-48GB", "RTX4090-24GB", "GH200", "GB200-192GB", "A100"),
        *("TPU-v4", "A64FX-48c-32GB-HBM2", "MI300A", "Ascend 910B", None, "", 910),
    ],
    "system.gpus": ["8", "8 (one node)", 8.0, 1, 2, 12, 0, -1, None, "eight", [8], 10**7],
    "system.gpus_per_node": [1, 2, 4, 16, 72, None, "8 per node", 0, 6],
    "system.interconnect": [
        *("4 x HDR", "NDR", "100 Gb/s Ethernet", None, "???", "0 x 0 Gb/s", "1 x 25 Gb/s", 42),
        *("999999999999 Gb/s per node", "16 x 100 Gb/s per node", "no NVLink; PCIe 4.0 x16"),
        ["8x"],
    ],
    "system.clock_ghz": [2.2, "2.0", None, "fast"],
    "model.family": ["llama", "moe", "bert", "mamba", None, "GPT", "encoder-decoder"],
    "model.layers": ["4", 6, 1, 5, None, "24 + 24"],
    "model.hidden": [1000, 1024.0, None, 1],
    "model.kv_heads": [1, 4, 5, None, 32],
    "model.vocab": [None, 50257, "128256 (padded)", 1, "gpt2"],
    "model.seq": [2048, 131072, None, "2k", 1, 1000],
    "model.experts": [8, 1, 0, None, 7],
    "model.topk": [2, None, 9],
    "model.attention": ["mla", "sliding window 4096", "linear", None, 3],
    "parallel.tp": [1, 4, 8, 16, None, "2 (node)", 3, 0],
    "parallel.pp": [1, 4, None, "4", 3],
    "parallel.dp": [1, 4, None, "auto", 1024],
    "parallel.ep": [2, None, 3, "8"],
    "parallel.cp": [2, None, 16],
    "parallel.interleave": [2, None, 3, "2 (tunable)"],
    "parallel.schedule": [
        *("zb-v", "dualpipe", "interleaved-1f1b (tunable)", "interleaved", "GPipe", "ZB-H1"),
        *("Interleaved1F1B", "none", None, "chimera", True, "custom: see text"),
    ],
    "parallel.zero_stage": [1, 2, 3, None, "3 (FSDP)", 4, "zero-1"],
    "parallel.sequence_parallel": [True, None, "true", "maybe"],
    "parallel.fsdp": [True, None, "FSDP2"],
    "parallel.sharding": ["FULL_SHARD", "HYBRID_SHARD", "SHARD_GRAD_OP", None, "hsdp"],
    "batch.global": ["16", 1, 3, None, "2M tokens", 0],
    "batch.micro": [1, None, 3, 64],
    "recompute": ["none", "selective (core)", "per-op", None, True, "uniform 1"],
    "precision": ["bf16 (mixed)", "fp8", "nvfp4", "amp_bf16", None, 16],
    "offload": ["cpu", "cpu-params", "nvme", None, {"device": "cpu"}, True],
    "finetune": [
        "lora",
        {"method": "qlora", "bits": 4, "rank": 64},
        {"method": "lora", "rank": 0},
        None,
    ],
    "measured": [
        *({"mfu_pct": 40}, {"hfu_pct": "55 %"}, {"tflops_per_gpu": 150}, {"step_time_s": "0.1"}),
        *({"run_time_s": 100, "run_samples": 64}, {"memory_gb_per_gpu": 10}, {}, None),
        *({"step_time_s": 0}, {"layer_total_ms": 3}, {"loss": 2.1}, {"step_time_s": [1, 2]}),
    ],
    "flops_convention": ["hardware FLOPs", "PaLM", None, 6],
    "scope": ["single-layer", "forward only", None],
    "assumed": [{"gpus": "8 nodes x 8"}, {"zero_stage": "3 (FSDP column = 8)"}, None, "nothing"],
}

ABSENT = object()
changes = st.lists(st.sampled_from(sorted(ODD)), min_size=1, max_size=3, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: st.sampled_from([*ODD[key], ABSENT]) for key in keys})
)


def row(changed):
    """Return the plain row with values changed, by dotted keys."""
    given = copy.deepcopy(PLAIN)
    for path, value in changed.items():
        *above, last = path.split(".")
        place = given
        for key in above:
            place = place.setdefault(key, {})
        place[last] = value
        if value is ABSENT:
            del place[last]
    return given


def row_of(**changed):
    """Return the plain row, parsed, with values changed."""
    (entry,) = parse_entries(
        [row({key.replace("__", "."): value for key, value in changed.items()})]
    )
    assert entry.row is not None, entry.problem
    return entry.row


# --- no crash -------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(changes)
def test_an_odd_row_is_graded_or_says_why_not(changed):
    """Never a crash: a number to compare, or a reason that is about the row."""
    (entry,) = parse_entries([row(changed)])
    answer = json.loads(json.dumps(to_json(run_case(entry).answer), allow_nan=False))

    assert answer["gradable"] == (answer["why"] is None)
    assert "clustersim failed" not in answer["reasons"]


def test_the_plain_row_is_graded_and_not_scored():
    """All is stated but for the software, which is assumed, so that no tolerance is held to it."""
    outcome = run_case(parse_entries([PLAIN])[0])

    assert outcome.gradable
    assert outcome.framework_assumed == "no profile of the case's own software yet"
    assert not outcome.scored


def test_ids_that_repeat_cost_only_the_rows_that_repeat_them():
    """The first row of an id is graded; others are named by their place."""
    outcomes = run_cases(parse_entries([PLAIN, PLAIN, {**PLAIN, "id": "other"}]))

    assert [outcome.gradable for outcome in outcomes] == [True, False, True]
    assert outcomes[1].answer.why == "row 2 has the id of row 1"


class Dying(Executor):
    """Loses its worker at the first task, and all others with it."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        future.set_exception(BrokenExecutor("a child process terminated abruptly"))
        return future


def test_a_worker_that_dies_costs_no_other_case():
    """What it took along is run again, each row in a process of its own."""
    outcomes = run_cases(parse_entries([PLAIN, {**PLAIN, "id": "other"}]), executor=Dying())

    assert [outcome.reasons for outcome in outcomes] == [(), ()]


def test_a_file_without_rows_says_so(tmp_path, capsys):
    """An empty list is an answer of its own, not silence."""
    (tmp_path / "none.yaml").write_text("[]")
    command(cases=tmp_path / "none.yaml")

    assert capsys.readouterr().out == "no cases\n"


@pytest.mark.parametrize(
    ("stated", "named", "chunks"),
    [
        ("interleaved-1f1b (tunable)", "interleaved-1f1b", 2),
        ("Interleaved1F1B", "interleaved-1f1b", 2),
        ("Interleaved 1F1B", "interleaved-1f1b", 2),
        ("GPipe", "gpipe", 1),
        ("afab", "gpipe", 1),
        ("ZBVZeroBubble", "zb-v", 2),
        ("DualPipe", "dualpipe", 2),
    ],
)
def test_a_schedule_goes_by_its_name_in_other_software(stated, named, chunks):
    """Words of torchtitan, nanotron and others for the schedules that there are."""
    found = case_settings(row_of(parallel__schedule=stated, parallel__interleave=chunks))

    assert found.schedule == named


# --- machines -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("accelerator", "cluster"),
    [
        ("H100", "dgx-h100"),
        ("NVIDIA H100 80GB HBM3", "dgx-h100"),
        ("a100-sxm4-80gb", "dgx-a100"),
        ("NVIDIA A100 40GB", "dgx-a100-40gb"),
        ("H200 SXM", "dgx-h200"),
        ("Tesla V100-SXM2-32GB", "dgx-1v"),
        ("AMD Instinct MI300X", "mi300x-roce"),
        ("AMD Instinct MI250 (1 GCD)", "frontier"),
        ("H800-80GB-SXM", "deepseek-h800"),
        ("NVIDIA GeForce RTX 4090", "desktop-2x4090"),
        ("TPU v5p", "tpu-v5p-pod"),
    ],
)
def test_a_machine_is_found_by_other_words_for_its_accelerator(accelerator, cluster):
    """The assumption is part of the answer."""
    found = machine_of(row_of(system__accelerator=accelerator, system__interconnect=None))

    assert found.cluster == cluster
    assert found.assumed


@pytest.mark.parametrize("accelerator", ["A100 PCIe 80GB", "H100-PCIe", "TPU-v9", "GH200"])
def test_a_part_that_is_another_one_is_not_taken_for_it(accelerator):
    """A card is not the part for boards, whatever their common name."""
    with pytest.raises(Ungradable, match=f"no machine file for '{accelerator}', 8 a node"):
        machine_of(row_of(system__accelerator=accelerator))


def test_every_machine_of_the_table_can_be_built():
    """Each entry names a cluster of the catalogue, and its settings are keys of it."""
    for choice in machine_table().machines:
        laid = [f"{key}={json.dumps(value)}" for key, value in choice.settings.items()]
        assert load_cluster(choice.cluster, None, laid).node.devices >= 1
    assert {choice.cluster for choice in machine_table().machines} <= set(entry_names("cluster"))


def test_other_names_are_plain_and_lead_to_a_machine():
    """A pattern with a capital or a maker's name in it would never match."""
    for name in machine_table().names:
        assert all(
            plain_name(word.replace("*", "")) == word.replace("*", "").strip()
            for word in name.words
        )
        assert machine_of(row_of(system__accelerator=name.means))


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("8 x 200 Gb/s per node", Ports(8, 25e9)),
        ("800 Gb/s InfiniBand per node (4 x HDR)", Ports(4, 25e9)),
        ("4x Slingshot-11 25 GB/s NIC per node", Ports(4, 25e9)),
        ("8 ConnectX-7 400 Gb/s NICs", Ports(8, 50e9)),
        ("AWS p5 nodes: NVLink 4, EFA 3200 Gb/s per node", Ports(None, None, 400e9)),
        ("3.2 Tbps EFA", Ports(None, None, 400e9)),
        ("25 GbE", Ports(None, None, 3.125e9)),
        ("NVLink in the host; 400 Gb/s RDMA per GPU", Ports(None, 50e9)),
        ("NVLink domain of 72 GPUs (NVL72)", None),
        ("NVSwitch 900 GB/s", None),
        ("999999999999 Gb/s per node", None),
        ("", None),
        (None, None),
    ],
)
def test_the_ports_of_a_node_are_read_from_words(text, ports):
    """Bits and bytes apart, one or all of them, and nothing that stays inside a node."""
    assert ports_of(text) == ports


def test_stated_ports_replace_the_usual_ones():
    """Four ports of 100 Gb/s on eight devices are attached to every other one of them."""
    found = machine_of(row_of(system__interconnect="4 x 100 Gb/s per node"))
    usual = machine_of(row_of(system__interconnect="8 x 200 Gb/s per node"))

    assert found.settings["cluster.nic.bandwidth"] == "1.25e+10 B/s"
    assert found.settings["cluster.node.nics.devices"] == [0, 2, 4, 6]
    assert "stated by the case" in (found.assumed or "")
    assert usual.settings == {}


@given(st.integers(1, 16), st.sampled_from([1, 2, 4, 8]), st.floats(1e9, 1e11))
def test_a_node_has_the_bandwidth_that_is_told(count, devices, each):
    """However ports are spread, their sum is the stated one, and each is on a device."""
    shape = node_shape("dgx-a100")
    changes = with_ports(Ports(count, each), shape, devices)
    places = changes.get("cluster.node.nics.devices", [*range(devices)])
    rate = float(changes.get("cluster.nic.bandwidth", f"{shape.bandwidth} B/s").split()[0])

    assert rate * len(places) == pytest.approx(count * each, rel=1e-5)
    assert len(set(places)) == len(places)
    assert set(places) <= set(range(devices))


def test_a_slower_network_makes_the_prediction_slower():
    """The words of the interconnect reach the network."""
    wide = {"system.gpus": 16, "parallel.dp": 4, "parallel.tp": 1, "parallel.pp": 4}
    rows = [row({**wide, "id": "fast", "system.interconnect": "8 x 200 Gb/s per node"})]
    rows.append(row({**wide, "id": "slow", "system.interconnect": "1 x 25 Gb/s per node"}))
    fast, slow = run_cases(parse_entries(rows))

    assert fast.grade is not None
    assert slow.grade is not None
    assert slow.grade.predicted > 1.05 * fast.grade.predicted


def test_one_device_of_a_node_of_direct_links_runs_alone():
    """A single card needs no links to others."""
    alone = {"system.gpus": 1, "parallel.tp": 1, "parallel.pp": 1, "parallel.dp": 1}
    one = row({**alone, "system.accelerator": "RTX 4090", "system.gpus_per_node": 2})
    outcome = run_case(parse_entries([one])[0])

    assert outcome.reasons == ()
    assert outcome.cluster == "desktop-2x4090"


def test_sharding_that_was_run_was_offered():
    """A stated stage of ZeRO runs under software whose profile does not name it; an assumed not."""
    stated = row({"group": "nemo-x", "parallel.zero_stage": 3, "precision": "bf16"})
    silent = row({"group": "mosaicml-x", "parallel.zero_stage": None, "precision": "bf16"})
    ran, rejected = run_cases(parse_entries([stated, {**silent, "id": "silent"}]))

    assert ran.reasons == ()
    assert "plan.zero: 0 is not offered by the framework" in rejected.reasons[0].detail


@pytest.mark.parametrize("stages", [1, 2])
def test_unknown_software_shards_with_and_without_a_pipeline(stages):
    """ZeRO-2 and ZeRO-3 are run whatever the number of stages."""
    spread = {"parallel.pp": stages, "parallel.tp": 1, "parallel.dp": 8 // stages}
    rows = [
        row({**spread, "id": str(zero), "parallel.zero_stage": zero, "precision": "bf16"})
        for zero in (2, 3)
    ]

    assert [outcome.reasons for outcome in run_cases(parse_entries(rows))] == [(), ()]


@pytest.mark.parametrize(
    ("zero", "context", "framework"),
    [(0, 1, "megatron-lm"), (1, 1, "megatron-core"), (0, 2, "megatron-core"), (2, 1, "torchtitan")],
)
def test_unknown_software_is_one_that_can_run_the_layout(zero, context, framework):
    """A run that shards its states cannot have been of software without that."""
    spread = {"parallel.zero_stage": zero, "parallel.cp": context, "parallel.dp": 2 // context}
    outcome = run_case(parse_entries([row({**spread, "precision": "bf16"})])[0])

    assert outcome.reasons == ()
    assert outcome.framework == framework
