"""Scenarios: values that ``--set`` changes, and messages about invalid input."""

import io
import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from clustersim.catalog import finding
from clustersim.catalog.changes import setting_text
from clustersim.catalog.facts import sourced
from clustersim.catalog.reading import parse_yaml
from clustersim.errors import ClustersimError, PlanError, ScenarioError
from clustersim.scenario.load import from_mapping, load
from clustersim.scenario.schema import json_schema
from clustersim.simulation.step.build import build_job
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.sweep import sweep
from commands import rejected
from small import SCENARIO as SMALL
from wrong_values import wrong_values

SCENARIO = (finding.shipped("scenario") / "frontier-22b.yaml").read_text(encoding="utf-8")
LINES = {line.partition(":")[0]: n for n, line in enumerate(SCENARIO.splitlines(), 1)}


@pytest.fixture
def case(here):
    """A function that loads the scenario with one text of it changed."""

    def changed(old="", new="", *given_):
        assert old in SCENARIO
        Path("case.yaml").write_text(SCENARIO.replace(old, new, 1), encoding="utf-8")
        return load("case.yaml", given_)

    return changed


def set_(*given_):
    """Return the shipped scenario with settings."""
    return load("frontier-22b", given_).scenario


# --- settings -------------------------------------------------------------------------------------


def test_a_plain_value_is_set():
    """`key=value` puts a number, a word or a truth in place."""
    scenario = set_("plan.pipeline=16", "recompute=none", "fold=false")

    assert (scenario.plan.pipeline, scenario.recompute, scenario.fold) == (16, "none", False)


def test_values_in_python_are_the_settings_of_the_command_line():
    """A mapping by dotted key and texts give the same scenario and the same places."""
    values = {
        "plan.zero": 1,
        "cluster.nic.bandwidth": "x2",
        "model": "gpt3-1.3b",
        "plan.layers": [3],
    }
    texts = ["plan.zero=1", "cluster.nic.bandwidth=x2", "model=gpt3-1.3b", "plan.layers=[3]"]

    by_value, by_text = load("frontier-22b", values), load("frontier-22b", texts)

    assert by_value.scenario == by_text.scenario
    assert by_value.tree == by_text.tree


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"plan.zero": 1}, {"plan.zero": 0, "batch.global": "x2"}),
        ({"cluster.nic.bandwidth": "x2"}, {"cluster.nic.bandwidth": "/2"}),
        ({"cluster.nic.bandwidth": "x2"}, {"cluster": "jean-zay"}),
        ({"model": "gpt3-1.3b"}, {"model.layers": 48, "published": []}),
    ],
)
def test_a_changed_scenario_is_the_one_loaded_with_all_changes(first, then):
    """Changes go on top of each other; the scenario that they start from stays as it is."""
    before = load("frontier-22b", first)
    after = before.changed(then)

    whole = load("frontier-22b", [change.text for change in after.changes])
    assert after.scenario == whole.scenario
    assert after.tree == whole.tree
    assert before.tree == load("frontier-22b", first).tree


def test_a_number_is_scaled_in_place():
    """`=x2` and `=/2` scale what stands there, and whole numbers stay whole."""
    assert set_("batch.global=x2").batch.global_ == 1280
    assert set_("batch.global=/2").batch.global_ == 320
    assert set_("published[0].value=x0.5").published[0].value == 36.75


def test_a_fact_of_the_catalogue_is_scaled_with_its_unit():
    """`cluster.nic.bandwidth=x2` is 50 GB/s, with the setting instead of its source."""
    before, after = (
        sourced(scenario.cluster.nic, "bandwidth")
        for scenario in (set_(), set_("cluster.nic.bandwidth=x2"))
    )

    assert (before.value, after.value) == (25e9, 50e9)
    assert before.source == "olcf"
    assert after.source is None
    assert after.assumed == "--set cluster.nic.bandwidth=x2"
    assert set_("cluster.nic.bandwidth=/2").cluster.nic.bandwidth == 12.5e9
    for value in ("200 Gb/s", "200Gbps"):  # with and without a blank before the unit
        setting = f"cluster.nic.bandwidth={value}"
        assert set_(setting).cluster.nic.bandwidth == 25e9
        assert set_(setting, "cluster.nic.bandwidth=x2").cluster.nic.bandwidth == 50e9


def test_settings_apply_in_their_order():
    """The later of two settings acts on what the earlier one left."""
    assert set_("batch.global=100", "batch.global=x3").batch.global_ == 300
    assert set_("batch.global=x3", "batch.global=100").batch.global_ == 100


def test_an_entry_of_a_list_is_set_by_its_number():
    """`published[0].value` and deep lists of the catalogue are reached."""
    sizes = "cluster.node.accelerator.flash_attention.head_sizes.value"
    scenario = set_("published[0].value=80", f"{sizes}[0]=16")

    assert scenario.published[0].value == 80
    assert scenario.cluster.node.accelerator.flash_attention.head_sizes[0] == 16


def test_a_name_of_the_catalogue_is_replaced():
    """`cluster.node=NAME`, `model=NAME`, `cluster=NAME` and `framework=NAME` bring other files."""
    assert set_("cluster.node=dgx-a100").cluster.node.accelerator.name == "a100-80gb"
    assert set_("model=gpt-175b").model.layers == 96
    assert set_("cluster=selene").cluster.name == "selene"
    assert set_("cluster=selene").cluster.nodes == 2
    assert set_("framework=megatron-lm").framework.name == "megatron-lm"


def test_what_a_scenario_says_of_a_framework_wins_over_its_file():
    """The 22B scenario takes flash attention, with the place where it was set."""
    attention = sourced(set_().framework.kernels, "attention")

    assert attention.value == "flash"
    assert attention.source is None
    assert re.match(rf"set in .*frontier-22b\.yaml:{LINES['framework']}$", attention.assumed)


def test_a_setting_is_the_place_of_its_value():
    """A complaint about a value that was set names the setting, not the line it replaced."""
    loaded = load("frontier-22b", ["batch.global=33"])

    assert loaded.where("batch", "global") == "--set batch.global=33: batch.global"


@pytest.mark.parametrize(
    "setting",
    [
        "cluster.node.name=dgx-a100",
        "cluster.node.accelerator=a100-80gb",
        "cluster.node.library=nccl-ampere",
        "model.name=gpt-175b",
        "cluster={name: selene, nodes: 2}",
    ],
)
def test_every_name_that_leads_to_a_file_can_be_set(setting):
    """Names inside named things, and mappings with a name, are looked up like any other."""
    assert set_(setting)


def test_a_part_of_a_key_that_the_file_leaves_out_can_be_set():
    """`--set` reaches all of a scenario, also what has its default."""
    assert set_("scaling.weak.devices=[16]").scaling.weak.devices == [16]


def test_an_entry_with_a_value_is_replaced_as_a_whole():
    """A published number is no fact of the catalogue: setting it replaces all of it."""
    published = set_("published[0]={metric: mfu, value: 0.3, source: a test}").published[0]

    assert (published.metric, published.value) == ("mfu", 0.3)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "problem"), wrong_values("values of a scenario"))
def test_a_wrong_value_of_a_scenario_is_named(case, old, new, problem):
    """File, line, key, value and what is allowed stand on one line."""
    line = SCENARIO[: SCENARIO.index(old)].count("\n") + 1
    with pytest.raises(ScenarioError) as caught:
        case(old, new)

    assert str(caught.value) == f"case.yaml:{line}: {problem}"


@pytest.mark.parametrize("text", ["", "# nothing\n", "- 1\n", "7\n", "text\n"])
def test_a_scenario_that_is_no_mapping_is_refused(here, text):
    """A file without keys is rejected with the form that it needs."""
    Path("case.yaml").write_text(text)

    with pytest.raises(ScenarioError) as caught:
        load("case.yaml")
    assert str(caught.value) == "case.yaml: holds no keys (expected 'key: value' lines)"


def refusal(name, *given_):
    """Return the lines with which a layout is rejected."""
    with pytest.raises(PlanError) as caught:
        build_job(load(name, given_))
    return str(caught.value).splitlines()


def test_all_problems_of_a_layout_are_reported_together():
    """One line each: of machine, schedule, framework, model and batch, and what has no effect."""
    changes = {
        "cluster.nodes": 9409,
        "plan.schedule": "zb-h1",
        "plan.tensor": 7,
        "plan.zero": 3,
        "batch.global": 33,
        "plan.context_method": "ring",
        "recompute": {"stages": [9]},
    }
    lines = refusal("frontier-22b", *(setting_text(key, value) for key, value in changes.items()))

    assert [re.search(r": ([a-z_.]+): ", line)[1] for line in lines] == [
        "cluster.nodes", "plan.schedule", "plan.zero", "plan.tensor", "plan",
        "batch.global", "plan.context_method", "recompute.stages"
    ]  # fmt: skip


def test_an_operation_that_no_layer_has_is_named_with_its_neighbour():
    """Operations to be recomputed are those of the layers."""
    (line,) = refusal("frontier-22b", "recompute={ops: [upp]}")

    assert "recompute.ops: no operation 'upp' (did you mean 'up'?) (operations of a layer: " in line


def test_a_module_that_no_layer_has_is_rejected():
    """Modules to be recomputed are those of Megatron-Core that some layer has."""
    (line,) = refusal("frontier-22b", "recompute={modules: [mlp, moe]}")

    assert line.endswith("recompute.modules: no layer has the module 'moe'")
    with pytest.raises(ScenarioError, match=r"recompute.modules\[0\]: must be 'core_attn',"):
        load("frontier-22b", ["recompute={modules: [mlps]}"])


def test_modules_are_the_operations_that_they_consist_of():
    """A step with recomputed modules is that with their operations."""
    modules, operations = (
        simulate("frontier-22b", [f"recompute={{{listed}}}"])
        for listed in ("modules: [mlp, core_attn]", "ops: [up, activation, down, attention]")
    )
    attention, selective = (
        simulate("frontier-22b", [f"recompute={value}"])
        for value in ("{modules: [core_attn]}", "selective")
    )

    assert modules.step_time == operations.step_time
    assert modules.memory.stages == operations.memory.stages
    assert attention.step_time == selective.step_time
    assert attention.memory.stages == selective.memory.stages


@pytest.mark.parametrize(
    "setting",
    [
        "framework.state={}",
        "cluster.fabric.switches_per_group=2",
        "cluster.node.nics.devices=[]",
        "cluster.node.interconnect.kinds.xgmi.between=[[0, 1]]",
        "cluster.node.accelerator.gemm.tiles=[]",
    ],
)
def test_a_machine_that_cannot_be_is_refused(setting):
    """No recipe for the precision, fewer switches than NICs, no NIC, no way, no tile: one line."""
    with pytest.raises(ClustersimError, match=r"^."):
        simulate("frontier-22b", ["batch.global=16", setting])


def test_more_nodes_than_the_groups_of_a_dragonfly_hold_are_refused():
    """Four groups of 128 nodes had a fifth one, with links of its own, for 640 nodes."""
    nodes = ["plan.data=640", "batch.global=1280", "cluster.nodes=640"]
    with pytest.raises(ClustersimError, match="the 4 groups of the fabric hold 512, 128 each"):
        simulate("frontier-22b", [*nodes, "cluster.fabric.groups=4"])


def test_a_dragonfly_with_too_few_groups_is_not_shown(capsys, tmp_path):
    """Its bisection was that of twice as many groups as the file states."""
    text = Path(finding.find("cluster", "frontier").file).read_text(encoding="utf-8")
    file = tmp_path / "mine.yaml"
    file.write_text(text.replace("groups: {value: 74", "groups: {value: 37"), encoding="utf-8")

    assert "the 37 groups of the fabric hold 4,736, 128 each" in rejected(capsys, "show", file)


# --- anything at all ------------------------------------------------------------------------------

KEYS = [
    "title", "cluster", "name", "nodes", "node", "nic", "fabric", "model", "plan", "tensor",
    "pipeline", "batch", "global", "micro", "sequence", "precision", "framework", "published",
    "metric", "value", "source", "assumed", "kind", "scaling", "weak", "devices", "fold", "x", "",
    "accelerator", "library", "kernels", "attention"
]  # fmt: skip
WORDS = [*KEYS, "frontier", "gpt-22b", "megatron-lm", "fp16", "25 GB/s", "1f1b", "x2", "../x", "\0"]

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.floats()
    | st.sampled_from(WORDS)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=12,
)
SYMBOLS = st.sampled_from(list("{}[],:-&*!|>%@`'\"#?\n\t .~<=0123e\u2028\x07ü") + KEYS + WORDS)


def loads_or_complains(text):
    with TemporaryDirectory() as folder:
        path = Path(folder) / "case.yaml"
        path.write_text(text, encoding="utf-8", errors="replace")
        with suppress(ClustersimError):
            load(path)


@settings(max_examples=60, deadline=None)
@given(st.lists(SYMBOLS, max_size=12).map("".join) | st.text(max_size=20))
def test_any_text_is_loaded_or_refused(text):
    """No text of a file makes `load` raise anything but an error of ours."""
    loads_or_complains(text)


@settings(max_examples=60, deadline=None)
@given(values)
def test_any_values_are_loaded_or_refused(value):
    """No mapping of a file makes `load` raise anything but an error of ours."""
    loads_or_complains(json.dumps(value, default=str))


GOOD = {
    "title": "a test",
    "cluster": {"name": "frontier", "nodes": 2},
    "model": "gpt-22b",
    "plan": {"tensor": 1, "pipeline": 8, "data": 2},
    "batch": {"global": 640, "micro": 1, "sequence": 2048},
    "precision": "fp16",
    "framework": {"name": "megatron-deepspeed", "kernels": {"attention": "flash"}},
    "published": [{"metric": "mfu", "value": 0.3, "source": "a test"}],
}


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([*GOOD, "scaling", "assumed", "fold"]), values, max_size=3))
def test_a_good_scenario_with_anything_in_it_is_loaded_or_refused(changes):
    """Values of the wrong kind under right keys are rejected in a message."""
    loads_or_complains(json.dumps({**GOOD, **changes}))


PATHS = [
    "plan.tensor", "plan", "cluster", "cluster.node", "cluster.nic.bandwidth", "model",
    "published[0].value", "published[9]", "batch.global", "framework.kernels.attention.value",
    "cluster.node.accelerator.peak.fp16", "title", "", ".", "a[", "[0]", "plan..tensor"
]  # fmt: skip
TEXTS = [
    "x2", "/3", "x", "/", "x0", "x1e400", "3", "[", "{}", "null", "25 GB/s", "&a [*a]", "!!x y"
]  # fmt: skip
assignments = st.builds(
    "{}={}".format, st.sampled_from(PATHS), st.sampled_from(TEXTS) | st.text(max_size=5)
)
words = st.text(st.characters(categories=["L", "P", "S", "Z", "C"]), max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.lists(assignments | words, min_size=1, max_size=2))
@example(["published[²].value=3"])
def test_any_setting_is_carried_out_or_refused(given_):
    """No setting makes `from_mapping` raise anything but an error of ours."""
    with suppress(ClustersimError):
        from_mapping("case", json.loads(json.dumps(GOOD)), given_)


# --- the schema -----------------------------------------------------------------------------------


def test_the_schema_names_what_a_scenario_may_say():
    """The schema has every key of a scenario and which ones must be given."""
    schema = json_schema()

    assert set(schema["required"]) == {
        "title", "batch", "precision", "cluster", "model", "framework"
    }  # fmt: skip
    assert set(schema["required"]) < set(schema["properties"])
    assert "global" in schema["$defs"]["BatchFile"]["properties"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize("cluster", ["frontier", "{name: frontier}"])
def test_a_cluster_without_a_number_of_nodes_is_the_scenarios_fault(case, cluster):
    """A missing value is reported in the scenario, not in the machine's own file."""
    with pytest.raises(ScenarioError, match=r"case\.yaml:2: cluster\.nodes: missing"):
        case("{name: frontier, nodes: 2}", cluster)
    assert load("case.yaml", ["cluster.nodes=2"]).scenario.devices == 16


def test_a_schedule_may_be_cut_short():
    """`interleaved` is the interleaved 1F1B schedule."""
    settings = ["plan.schedule=interleaved", "plan.chunks=2"]

    assert load("frontier-175b", settings).scenario.plan.schedule == "interleaved-1f1b"


def test_a_schedule_takes_the_fewest_chunks_that_it_can():
    """`plan.schedule=interleaved` alone is 2 chunks a stage, as 1f1b alone is one."""
    settings = ["framework=megatron-lm", "plan.zero=0"]
    chunks = [
        build_job(load("frontier-22b", [*settings, f"plan.schedule={name}"])).plan.chunks
        for name in ("interleaved", "1f1b")
    ]

    assert chunks == [2, 1]


# --- spellings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "short"),
    [("bfloat16", "bf16"), ("float16", "fp16"), ("float32", "fp32"), ("torch.bfloat16", "bf16")],
)
def test_bfloat16_is_a_precision(name, short):
    """Names of PyTorch and of configurations are accepted for precisions."""
    assert load("frontier-22b", [f"precision={name}"]).scenario.precision == short


CONFIGURATION = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "tie_word_embeddings": False
}  # fmt: skip


def test_a_model_may_be_a_config_json(here):
    """A Hugging Face configuration is imported on the fly, with the name of its folder."""
    (here / "tiny").mkdir()
    (here / "tiny" / "config.json").write_text(json.dumps(CONFIGURATION), encoding="utf-8")
    model = load("frontier-22b", ["model=tiny/config.json", "model.sequence=2048"]).scenario.model

    assert (model.name, model.layers, model.sequence) == ("tiny", 16, 2048)
    with pytest.raises(ClustersimError) as caught:
        load("frontier-22b", ["model=big/config.json"])
    assert str(caught.value) == (
        "--set model=big/config.json: model: big/config.json: no such file"
    )


def test_run_dash_reads_standard_input(monkeypatch):
    """A scenario may come from a pipe; its errors name the line."""
    text = SCENARIO.encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    loaded = load("-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"title: 3\nzzz: 1\n")))
    with pytest.raises(ScenarioError) as caught:
        load("-")

    assert (loaded.name, loaded.scenario.plan) == ("stdin", load("frontier-22b").scenario.plan)
    assert "(standard input):2: zzz: unknown key" in str(caught.value)


def test_a_reason_belongs_to_a_key_of_the_scenario():
    """It is kept by the dotted key."""
    assert "batch.micro" in set_("assumed={batch.micro: a guess}").assumed


def test_an_unknown_framework_does_not_hide_a_misspelt_key(tmp_path):
    """Both are reported at once, each with its line and the nearest name."""
    text = SMALL.replace("precision:", "precison:").replace("megatron-lm-2022", "megatron")
    (tmp_path / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ClustersimError) as error:
        load(tmp_path / "mine.yaml")
    framework, key = str(error.value).splitlines()

    assert framework.endswith(
        "no framework named 'megatron' (did you mean 'megatron-lm' or 'megatron-core'?)"
    )
    assert key.endswith("mine.yaml:6: precison: unknown key (did you mean 'precision'?)")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("plan.interleave=2", "plan.interleave: unknown key (did you mean 'chunks'?)"),
        ("plan.virtual=2", "plan.virtual: unknown key (did you mean 'chunks'?)"),
        ("batch.sequence=8k", "must be a whole number, not '8k' (write 8000 or 8192)"),
        ("batch.global=1M", "must be a whole number, not '1M' (write 1000000)"),
        ("training.tokens=1e24", "training.tokens: must be at most 1e+18, not 1e+24"),
        ("__dict__={a", "--set: parts of a key begin with a letter, not with '_' (plan.tensor)"),
    ],
)
def test_a_setting_of_other_programs_names_what_to_write(setting, message):
    """Other names of keys, suffixes of whole numbers, amounts without bound, names of Python."""
    with pytest.raises(ScenarioError) as error:
        load("frontier-22b", [setting])

    assert str(error.value).splitlines()[0].endswith(message)


def test_a_scenario_of_keys_and_values_needs_no_title(tmp_path):
    """Of a dict it is optional, of a file it is required."""
    data = {key: value for key, value in parse_yaml(SMALL, "x").data.items() if key != "title"}
    (tmp_path / "mine.yaml").write_text(SMALL.partition("\n")[2], encoding="utf-8")

    assert from_mapping("scenario", data).scenario.title == "A scenario without a title"
    with pytest.raises(ScenarioError, match=r"title: missing"):
        load(tmp_path / "mine.yaml")


def test_a_dict_did_not_find_files_of_the_working_folder(here):
    """A name in a scenario of keys and values is looked up where that of a file is."""
    model = (finding.shipped("model") / "gpt-22b.yaml").read_text()
    (here / "mine.yaml").write_text(model.replace("name: gpt-22b", "name: mine"))
    values = {
        "cluster": {"name": "frontier", "nodes": 2},
        "model": "mine",
        "framework": "megatron-deepspeed",
        "precision": "fp16",
        "recompute": "full",
        "plan": {"pipeline": 8, "data": 2, "zero": 1},
        "batch": {"global": 16, "micro": 1, "sequence": 2048},
    }
    shipped = simulate({**values, "model": "gpt-22b"}).step_time

    assert simulate(values).step_time == shipped
    (row,) = sweep(values, over={"plan.zero": [1]}, jobs=1).points
    assert row["step_time_s"] == shipped


# --- a part of each node --------------------------------------------------------------------------


def on_h100(**node):
    """Return the cluster of a job on two DGX H100 with other values of a node."""
    devices = node.get("devices", 8)
    data = {
        "title": "A",
        "cluster": {"name": "dgx-h100", "nodes": 2, "node": node},
        "model": "gpt-6.7b",
        "plan": {"tensor": 2, "data": devices, "zero": 1},
        "batch": {"global": 4 * devices, "micro": 1, "sequence": 2048},
        "precision": "bf16",
        "framework": "megatron-core",
    }
    return from_mapping("part", data)


def test_nics_of_devices_that_a_job_does_not_use_are_left_out():
    """`cluster.node.devices: 4` of 8 was an error at the NICs of the file of the node."""
    loaded = on_h100(devices=4)
    again = on_h100().changed(["cluster.node.devices=4", "plan.data=4", "batch.global=16"])

    for each in (loaded, again):
        node = each.scenario.cluster.node
        assert (node.devices, node.nics.devices) == (4, [0, 1, 2, 3])
    assert simulate(loaded).step_time == simulate(again).step_time
    whole = again.changed(["cluster.node.devices=8", "plan.data=8", "batch.global=32"])
    assert whole.scenario.cluster.node.nics.devices == [*range(8)]


def test_nics_that_are_stated_stay_as_they_are():
    """A NIC of a device that the node does not have is an error where a scenario states it."""
    with pytest.raises(ClustersimError, match="names device 4, but the node has devices 0 to 3"):
        on_h100(devices=4, nics={"devices": [0, 4]})
    assert on_h100(devices=4, nics={"devices": [0]}).scenario.cluster.node.nics.devices == [0]


def test_stages_that_no_number_of_layers_fits_name_none():
    """61 layers in two chunks a stage are "allowed: ;" for no number of stages."""
    changes = ["model.layers=61", "plan.pipeline=4", "plan.data=2", "batch.global=64"]
    loaded = on_h100().changed([*changes, "plan.chunks=2", "plan.schedule=interleaved-1f1b"])

    with pytest.raises(PlanError, match=r"equally \(allowed: none; or plan.layers: with-ends, or"):
        simulate(loaded)
