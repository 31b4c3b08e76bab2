"""Unseen rows: each has a grade or reasons against it, and its machine is found by its words.

Values are odd but plausible, as people type tables of runs.
"""

import copy
import json
from concurrent.futures import BrokenExecutor, Executor, Future
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.answers import to_json
from clustersim.catalog.finding import entry_names
from clustersim.cli.verbs.validate import validate as command
from clustersim.scenario.machine import load_cluster
from clustersim.validation.case_runs import run_case, run_cases
from clustersim.validation.cases.machines import machine_of, machine_table, plain_name
from clustersim.validation.cases.nodes import node_shape, with_ports
from clustersim.validation.cases.reasons import Ungradable
from clustersim.validation.cases.rows import parse_entries
from clustersim.validation.cases.settings import case_settings
from clustersim.validation.cases.texts import Ports, ports_of

ROWS = json.loads((Path(__file__).parents[1] / "data" / "odd_rows.json").read_text("utf-8"))
PLAIN, ODD = ROWS["plain"], ROWS["odd"]
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
