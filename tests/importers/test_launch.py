"""Launch files: options become keys of a scenario, the others are listed, and no file is run.

The files in `tests/data/launch` are written from the options that the frameworks document.
"""

import re
import time
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from clustersim.catalog.changes import changes_of
from clustersim.catalog.reading import parse_yaml
from clustersim.errors import CatalogError, ClustersimError, ScenarioError
from clustersim.exporters.arguments import launch_of, layout_arguments
from clustersim.importers.draft import Choices
from clustersim.importers.launch.formats import LAUNCHES, launch_format
from clustersim.importers.launch.serving import catalogue_model
from clustersim.importers.launch.syntax.shell import MOST_LINES, read_commands
from clustersim.importers.reasons import reason_of
from clustersim.importers.registry import import_file, import_source
from clustersim.importers.source import Source, as_source
from clustersim.scenario.load import LoadedService, from_mapping, load, load_any, load_service
from clustersim.scenario.origins import kind_of, origin_of
from clustersim.simulation.service.serve import serve
from clustersim.simulation.step.simulate import simulate
from commands import ending, rejected

FILES = Path(__file__).parents[1] / "data" / "launch"
OPTIONS = FILES / "options"
ON_H100 = {"cluster.name": "dgx-h100", "cluster.nodes": 8}
CASES = {
    "megatron-llama3-8b.sh": ("megatron", {"cluster.name": "dgx-h100"}),
    "megatron-mixtral-functional.yaml": ("megatron", ON_H100),
    "vllm-llama3.1-70b.sh": ("vllm", {"cluster.name": "dgx-h100"}),
    "sglang-deepseek-v3.sh": ("sglang", {"cluster.name": "dgx-h200"}),
    "trtllm-mixtral.sh": ("trtllm", {"cluster.name": "dgx-h100"}),
    "torchtitan-llama3-70b.toml": ("torchtitan", ON_H100),
    "torchtitan-llama3-8b.py": ("torchtitan", ON_H100),
    "torchtitan-llama3-70b.sh": ("torchtitan", {"cluster.name": "dgx-h100"}),
    "bridge-qwen3-8b-dump.yaml": ("nemo", ON_H100),
    "bridge-llama3-70b.py": ("nemo", ON_H100),
    "bridge-mixtral-8x7b.py": ("nemo", ON_H100),
    "nemo2-llama3-8b.py": ("nemo", {"cluster.name": "dgx-h100"}),
    "nemo2-gpt3-175b.py": ("nemo", {"cluster.name": "dgx-h100"}),
    "nemo1-gpt3-5b.yaml": ("nemo", {"cluster.name": "dgx-h100"}),
    "primus-mixtral-8x7b.yaml": ("primus", {"cluster.name": "mi300x-roce", "cluster.nodes": 2}),
    "primus-llama3-70b-fp8.yaml": ("primus", {"cluster.name": "mi300x-roce", "cluster.nodes": 4}),
    "accelerate-fsdp.yaml": ("accelerate", {"cluster.name": "dgx-h100", "model": "llama3-8b"}),
    "llm-foundry-mpt-7b.yaml": ("llm-foundry", ON_H100),
    "llm-foundry-llama3-8b-sft.yaml": ("llm-foundry", ON_H100),
    "axolotl-qlora-70b.yaml": ("axolotl", ON_H100),
    "axolotl-full-8b.yaml": ("axolotl", ON_H100),
    "axolotl-zero3-8b.yaml": ("axolotl", ON_H100),
    "torchtune-lora-8b.yaml": ("torchtune", ON_H100),
    "torchtune-full-70b.yaml": ("torchtune", ON_H100),
    "litgpt-pretrain-1b.yaml": ("litgpt", {"cluster.name": "dgx-h100"}),
    "litgpt-lora.yaml": ("litgpt", {"cluster.name": "perlmutter"}),
    "litgpt-lora.sh": ("litgpt", {"cluster.name": "dgx-h100"}),
    "deepspeed-zero3-offload.json": ("deepspeed", {**ON_H100, "model": "llama3-8b"}),
    "deepspeed-zero1.json": (
        "deepspeed",
        {"cluster.name": "dgx-h100", "cluster.nodes": 4, "model": "llama3-8b"},
    ),
    "deepspeed-trainer.sh": ("deepspeed", {"cluster.name": "dgx-h100"}),
    "maxtext-llama3-70b.yml": ("maxtext", {"cluster.name": "tpu-v5p-pod", "cluster.nodes": 256}),
    "maxtext-gpu.sh": ("maxtext", {"cluster.name": "dgx-h100"}),
}
"""Each file with its format, and what it does not state."""

SLOW = "nemo2-gpt3-175b.py"
"""The file of the largest job."""


def drafted(text, name="train.sh", **choices):
    """Return the import of a text."""
    choices = {"cluster": "dgx-h100", "nodes": 8, **choices}
    return import_source(Source(name, text), Choices(**choices)).draft


def megatron(*more, **choices):
    """Return the plain scenario of a script of Megatron-LM with more options."""
    words = "--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048"
    text = f"torchrun pretrain_gpt.py {words} --micro-batch-size 1 --bf16 {' '.join(more)}"
    return drafted(text, **choices)


def listed(name):
    """Return the documented options of a framework, without comments."""
    lines = (OPTIONS / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.large] * (name == SLOW)) for name in CASES],
)
def test_a_launch_file_is_found_by_its_content_and_runs(name):
    """Each file is recognised, imported and simulated with what the user names."""
    form, settings = CASES[name]
    text = (FILES / name).read_text(encoding="utf-8")

    assert launch_format(text) == form
    loaded = load_any(FILES / name, settings)
    result = serve(loaded) if isinstance(loaded, LoadedService) else simulate(loaded)
    assert result.scenario.title.endswith(f"imported from {name}")


@pytest.mark.parametrize("name", sorted(path.stem for path in OPTIONS.glob("*.txt")))
def test_every_documented_option_is_read_or_ignored_with_a_reason(name):
    """Of the framework's own list no option is unknown, and none is both read and ignored."""
    launch, _ = LAUNCHES[name]
    ignored = launch.ignored()
    unknown = [
        option
        for option in listed(name)
        if option not in launch.reads
        and not any(fnmatchcase(option, pattern) for pattern in ignored)
    ]

    assert unknown == []
    assert not {*launch.reads} & {*ignored}
    assert all(reason for reason in ignored.values())


def test_the_name_of_an_option_counts_before_patterns_and_longer_ones_before_shorter_ones():
    """The order of the lists has no effect."""
    table = {"save*": "a", "save-retain-*": "b", "save": "c"}

    assert [reason_of(name, table) for name in ("save", "save-interval", "load")] == [
        "c",
        "a",
        None,
    ]
    assert reason_of("save-retain-interval", table) == "b"


@pytest.mark.parametrize("name", CASES)
def test_no_option_is_skipped_in_silence(name):
    """Every option of a file is listed as read, ignored or unknown, once."""
    form, settings = CASES[name]
    choices = Choices(
        cluster=settings["cluster.name"],
        nodes=settings.get("cluster.nodes"),
        model=settings.get("model"),
    )
    source = as_source(str(FILES / name), (FILES / name).read_bytes())
    options = LAUNCHES[form][0].options(source)
    draft = import_source(source, choices).draft
    shown = [*draft.read, *(option for option, _ in draft.ignored), *draft.unknown]

    assert len(shown) == len({option.name for option in options})


def test_a_script_of_megatron_is_the_scenario_that_it_launches():
    """Literal variables, arrays and sums are expanded; nodes are those of the Slurm file."""
    imported = import_file(FILES / "megatron-llama3-8b.sh", Choices(cluster="dgx-h100"))
    data = imported.draft.data

    assert data["cluster"] == {"name": "dgx-h100", "nodes": 2}
    assert data["plan"] == {
        "tensor": 2, "pipeline": 1, "data": 8, "sequence_parallel": True, "zero": 1
    }  # fmt: skip
    assert data["batch"] == {"global": 64, "micro": 1, "sequence": 8192}
    assert data["precision"] == "bf16"
    assert data["framework"]["gradients"] == {
        "overlap": "always", "gather_overlap": True, "bytes_each": 4
    }  # fmt: skip
    assert data["model"]["parameters"]["value"] == 8_030_261_248
    assert imported.draft.unknown == ()
    assert "--save $(date +%F)" in [option for option, _ in imported.draft.ignored]


def test_a_misspelt_option_is_listed_with_the_one_that_it_resembles(here):
    """It is not read as that one, since a program would not do so."""
    text = (FILES / "megatron-llama3-8b.sh").read_text(encoding="utf-8")
    misspelt = text.replace("--tensor-model-parallel-size", "--tensor-model-paralel-size")
    Path("train.sh").write_text(misspelt, encoding="utf-8")
    imported = import_file(Path("train.sh"), Choices(cluster="dgx-h100"))

    assert imported.draft.unknown == (
        "--tensor-model-paralel-size 2 (did you mean 'tensor-model-parallel-size'?)",
    )


@pytest.mark.parametrize("bits", ["8", "4"])
def test_a_recipe_without_its_format_is_listed_as_ignored(bits):
    """Megatron-Core multiplies in fewer bits with a format alone."""
    recipe = "mxfp8" if bits == "8" else "nvfp4"
    draft = megatron(f"--fp{bits}-recipe {recipe}")

    assert draft.data["precision"] == "bf16"
    assert (f"--fp{bits}-recipe {recipe}", f"no effect without --fp{bits}-format") in draft.ignored


def test_an_unknown_option_is_listed():
    """An option in no table is neither an error nor lost."""
    name = "megatron-mixtral-functional.yaml"
    imported = import_file(FILES / name, Choices(cluster="dgx-h100", nodes=8))

    assert imported.draft.unknown == ("--a-new-option 3",)
    assert "# unknown: --a-new-option 3" in imported.text
    assert imported.draft.data["plan"]["chunks"] == 8
    assert imported.draft.data["model"]["experts"] == {"count": 8, "top_k": 2, "ffn": 14336}


@pytest.mark.parametrize(
    "name", ["mixtral-ep-imbalance", "llama3-405b-16k", "korthikanti-22b-seqsel"]
)
def test_arguments_that_search_prints_are_read_back(name):
    """`search --as megatron` writes a layout, which the import reads as the same one."""
    loaded = load(name, ["framework.name=megatron-core", "recompute=full"])
    given = loaded.scenario
    written = " ".join(layout_arguments(loaded, launch_of(loaded, "megatron")).words)
    choices = {"cluster": given.cluster.name, "nodes": given.cluster.nodes, "model": "gpt-22b"}
    experts = f"--num-experts {given.model.experts.count}" if given.model.experts else ""
    text = (
        f"pretrain_gpt.py {written} --num-layers {given.model.layers} --hidden-size 1024"
        f" --num-attention-heads 16 --seq-length {given.batch.sequence} {experts}"
    )
    read = drafted(text, **choices).data
    expected = given.plan.model_dump()

    assert "--use-tp-pp-dp-mapping" not in written
    assert read["plan"] == {key: expected[key] for key in read["plan"]}
    assert read["batch"]["global"] == given.batch.global_
    assert read["precision"] == given.precision
    assert read.get("recompute", "none") == given.recompute
    facts = read["framework"]["gradients"]
    assert facts["overlap"] == given.framework.gradients.overlap


@pytest.mark.parametrize(
    ("options", "key", "value"),
    [
        (["--fp8-format hybrid --fp8-recipe mxfp8"], "precision", "mxfp8"),
        (["--fp4-format e2m1 --fp4-recipe nvfp4"], "precision", "nvfp4"),
        (["--fp4-format e2m1 --fp4-param-gather"], "framework.state.nvfp4.weights", 1.125),
        (["--fp8-format hybrid --fp8-recipe tensorwise"], "framework.kernels.cast_searched.value",
         True),
        (["--recompute-activations"], "recompute", "selective"),
        (
            ["--recompute-granularity full --recompute-method block --recompute-num-layers 4"],
            "recompute",
            {"mode": "full", "every": 2},
        ),
        (["--optimizer-cpu-offload"], "offload", {"optimiser": True}),
        (["--optimizer dist_muon"], "optimiser", "muon"),
        (["--optimizer sgd"], "optimiser", "sgd"),
        (["--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16"], "framework.state.bf16.optimiser", 4),
        (["--main-grads-dtype=bf16"], "framework.state.bf16.gradients", 2),
        (["--attention-backend unfused"], "framework.kernels.attention", "unfused"),
        (["--cuda-graph-impl local"], "framework.name", "megatron-core-graphs"),
        (["--window-size 127,0 --window-attn-skip-freq 2"], "model.window",
         {"tokens": 128, "full_every": 2}),
        (["--swiglu"], "model.ffn", 2688),
        (["--pipeline-model-parallel-size 2 --defer-embedding-wgrad-compute"
          " --wgrad-deferral-limit 3"], "framework.pipeline.head_deferred.value", 3),
        (["--num-experts 16 --moe-layer-freq '([0]*3+[1]*5)'"], "model.experts.first_dense", 3),
        (["--multi-latent-attention --kv-lora-rank 512"], "model.latent.keys_values", 512),
        (["--pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2"],
         "plan.schedule", "interleaved-1f1b"),
        (["--pipeline-model-parallel-size 4 --decoder-first-pipeline-num-layers 1"
          " --decoder-last-pipeline-num-layers 3"], "plan.layers", [1, 2, 2, 3]),
    ],
)  # fmt: skip
def test_options_change_the_keys_that_they_mean(options, key, value):
    """An option reaches its key, which differs or is missing without it."""
    found, before = megatron(*options).data, megatron().data
    for part in key.split("."):
        found, before = found[part], (before or {}).get(part)

    assert found == value
    assert before != value


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("A=1\nrun --x $A", ["run", "--x", "1"]),
        ('A="--x 1"\nB="$A --y 2"\nrun $B', ["run", "--x", "1", "--y", "2"]),
        ("A=(--x 'a b'\n # note\n --y)\nA+=(--z)\nrun \"${A[@]}\"",
         ["run", "--x", "a b", "--y", "--z"]),
        ("N=${N:-4}; run --x $((N * 8 / 2))", ["run", "--x", "16"]),
        ("A=2 run --x \\\n  ${A} | tee log", ["run", "--x", "2"]),
        ("export A=3\nbash -c \"run --x $A\"", ["run", "--x", "3"]),
        ("C='run --x 5'\neval $C", ["run", "--x", "5"]),
        ("cat <<EOF > f\nrun --y 1\nEOF\nrun --x 1 > log 2>&1", ["run", "--x", "1"]),
        ("if [ -z $A ]; then B=1; fi\nrun --x ${B}", ["run", "--x", "1"]),
    ],
)  # fmt: skip
def test_a_script_is_expanded_as_a_shell_does(script, words):
    """Quotes, continued lines, arrays, defaults, sums and scripts in words."""
    commands = read_commands(Source("a.sh", script))

    assert [word.text for word in commands[0]] == words
    assert not any(word.unknown for word in commands[0])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("--tensor-model-parallel-size $TP", r":1: .*\$TP is not set in the file"),
        ("--global-batch-size $(nproc)", r":1: .*\$\(nproc\) would have to be run"),
        ("--global-batch-size `nproc`", ":1: .*`nproc` would have to be run"),
        ("--lr 1 $(cat arguments)", r":1: \$\(cat arguments\) would have to be run"),
        ("--global-batch-size $1", r"\$1 is an argument of the script"),
        ("--global-batch-size many", "must be a whole number"),
        ("--global-batch-size 8and", "must be a whole number"),
        ("--moe-layer-freq '[8and]'", "must be a number, or a list such as"),
        ("--lr 1 --save a>b $((1x))", r"\$\(\(1x\)\) would have to be run"),
        ("--tensor-model-parallel-size 0", "must be at least 1"),
        ("--tensor-model-parallel-size 3", "3 devices of a replica do not divide 64"),
        ("--save 'a", "' is not closed: the file is truncated"),
        ("--cp-comm-type a2a+p2p", "is not modelled .modelled: p2p"),
        ("--fp16", "contradicts --bf16"),
    ],
)
def test_a_wrong_launch_file_is_one_line(text, problem):
    """What is missing, contradictory or would have to be run is an error with its line."""
    with pytest.raises(ClustersimError) as raised:
        megatron(text)

    assert re.search(problem, str(raised.value)), raised.value
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("train.sh")


def test_a_value_under_a_condition_is_an_error_where_it_counts():
    """Of two branches neither is taken; an option without meaning may have any value."""
    both = "if [ $A ]; then B=1; else B=2; fi\npretrain_gpt.py --num-layers 8 --"

    with pytest.raises(ScenarioError, match="B depends on a condition"):
        drafted(f"{both}micro-batch-size $B --hidden-size 64")
    with pytest.raises(ScenarioError, match="--hidden-size: missing"):
        drafted(f"{both}lr $B --num-attention-heads 4")


def test_a_file_of_two_jobs_is_an_error():
    """Two commands with other options are not merged."""
    with pytest.raises(ScenarioError, match=r"launches the program 2 times \(lines 1, 2\)"):
        drafted("pretrain_gpt.py --num-layers 8\npretrain_gpt.py --num-layers 9")


def test_no_part_of_a_script_is_run(tmp_path, capsys):
    """A command in a script leaves no trace."""
    script, trace = tmp_path / "train.sh", tmp_path / "trace"
    script.write_text(
        f"touch {trace}\nX=$(touch {trace})\npretrain_gpt.py --num-layers `touch {trace}`\n",
        encoding="utf-8",
    )

    assert "would have to be run" in rejected(capsys, "run", script, "--cluster", "dgx-h100")
    assert not trace.exists()


def test_a_long_or_binary_launch_file_is_one_line():
    """A million lines and a null character are errors at once."""
    line = "pretrain_gpt.py --num-layers 8\n"

    with pytest.raises(CatalogError, match="has more than 20,000 lines"):
        drafted(line + "true\n" * MOST_LINES)
    with pytest.raises(CatalogError, match="expands to more than"):
        drafted("X=--lr\n" + 'X="$X$X"\n' * 60 + line)
    with pytest.raises(CatalogError, match="expands to more than"):
        drafted("X=(a)\n" + 'X+=("${X[@]}")\n' * 60 + line)
    with pytest.raises(CatalogError, match=":2: is binary"):
        as_source("train.sh", line.encode() + b"\0")


def test_what_a_launch_file_does_not_state_is_requested(capsys):
    """The machine, its nodes and the model are named by options, each missing one in one line."""
    name = FILES / "megatron-mixtral-functional.yaml"

    assert "states no machine" in rejected(capsys, "run", name)
    assert "states no number of nodes" in rejected(capsys, "run", name, "--cluster", "dgx-h100")
    assert "a node of 'perlmutter' has 4 devices" in rejected(
        capsys, "import", FILES / "megatron-llama3-8b.sh", "--cluster", "perlmutter"
    )


@pytest.mark.parametrize(
    ("cluster", "nodes", "each", "stated", "used", "racks"),
    [
        ("dgx-h100", 2, 4, None, 4, 2),
        ("gb200-nvl72", 64, 4, None, 64, 4),
        ("gb200-nvl72", 64, 4, 8, 32, 8),
        ("gb300-nvl72", 36, 4, None, None, 2),
        ("gb300-nvl72", 2, 72, None, None, 2),
        ("gb200-nvl72", 4, 2, None, 8, 1),
    ],
)
def test_nodes_of_launchers_may_be_a_part_of_those_of_a_machine(
    cluster, nodes, each, stated, used, racks
):
    """64 trays of 4 devices were an error on racks of 72, and 4 devices of 8 one on a DGX."""
    text = (
        f"torchrun --nnodes {nodes} --nproc-per-node {each} pretrain_gpt.py --num-layers 8"
        " --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 --micro-batch-size 1"
    )
    draft = drafted(text, cluster=cluster, nodes=stated)

    assert draft.data["cluster"].get("node") == (used and {"devices": used})
    assert draft.data["cluster"]["nodes"] == racks
    assert draft.data["plan"]["data"] == nodes * each


def test_more_devices_than_a_host_has_are_an_error():
    """A rack of trays of 4 has no host of 8."""
    text = "torchrun --nnodes 2 --nproc-per-node 8 pretrain_gpt.py --num-layers 8"

    with pytest.raises(ScenarioError, match="a host of 'gb200-nvl72' has 4 devices"):
        drafted(text, cluster="gb200-nvl72", nodes=None)


def test_embedding_and_logits_count_in_the_layers_of_chunks():
    """Llama 3.1 405B with 4 layers a chunk on 8 stages was an error: 126 and both ends are 128."""
    ends = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
    chunks = "--pipeline-model-parallel-size 8 --num-layers-per-virtual-pipeline-stage 4"
    plan = megatron(f"--num-layers 126 {ends} {chunks}").data["plan"]

    assert (plan["chunks"], plan["layers"]) == (4, "with-ends")
    with pytest.raises(ScenarioError, match="126 layers are no whole number of chunks on 8"):
        megatron(f"--num-layers 126 {chunks}")


def test_one_command_imports_and_runs(tmp_path, capsys):
    """`run train.sh` gives the answer of the scenario that `import` writes."""
    script, mine = FILES / "megatron-llama3-8b.sh", tmp_path / "mine.yaml"
    machine = ["--cluster", "dgx-h100", "--nodes", "4"]
    code, out, error = ending(capsys, "import", script, *machine, "-o", mine)
    one = ending(capsys, "run", script, *machine, "--json")
    two = ending(capsys, "run", mine, "--json")

    assert (code, error) == (0, "")
    assert "note      4 nodes instead of 2 in the file" in out
    assert '"step_time_s"' in one[1]
    assert (
        one[1].split('"tokens_per_s"')[1].split(",")[0]
        == (two[1].split('"tokens_per_s"')[1].split(",")[0])
    )
    assert "cluster.nodes: named by the user" not in one[2]
    document = parse_yaml(mine.read_text(encoding="utf-8"), "mine.yaml")
    assert document.data["assumed"]["cluster.nodes"] == "named by the user"
    with pytest.raises(ScenarioError, match=r"megatron-llama3-8b.sh:43: plan: tensor 2"):
        simulate(load(script, {"cluster.name": "dgx-h100", "plan.data": 4}))


# --- services -------------------------------------------------------------------------------------


def test_a_command_of_vllm_is_the_service_that_it_starts():
    """Degrees, formats and limits of the scheduler are read; the load of requests is assumed."""
    imported = import_file(FILES / "vllm-llama3.1-70b.sh", Choices(cluster="dgx-h100"))
    data = imported.draft.data

    assert data["model"] == "llama3.1-70b"
    assert data["plan"] == {"tensor": 4, "replicas": 2}
    assert data["precision"] == {"weights": "fp8", "kv": "fp8", "wide": "bf16"}
    assert data["engine"]["scheduler"] == {"sequences": 256, "tokens": 8192}
    assert data["cluster"] == {"name": "dgx-h100", "nodes": 1}
    assert {"load.concurrency", "cluster.nodes", "model"} <= data["assumed"].keys()
    assert imported.draft.unknown == ()


def test_attention_data_divides_the_tensor_ranks_of_sglang():
    """With --enable-dp-attention the ranks of a node are data ranks of attention."""
    imported = import_file(FILES / "sglang-deepseek-v3.sh", Choices(cluster="dgx-h200"))

    assert imported.draft.data["plan"] == {"tensor": 2, "attention_data": 8}
    assert imported.draft.data["cluster"]["nodes"] == 2
    with pytest.raises(ScenarioError, match="--dp-size 3: does not divide the 4 tensor ranks"):
        drafted(
            "python -m sglang.launch_server --model Qwen/Qwen3-8B --tp 4 --dp-size 3"
            " --enable-dp-attention"
        )


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        ("load={rate: 30, input: 1500, output: 400}", set()),
        ("load.rate=30", {"load.input", "load.output"}),
        ("load.output=9", {"load.concurrency", "load.input"}),
    ],
)
def test_what_a_change_states_of_a_launch_file_was_assumed(here, setting, left):
    """A change states its key, those below it, and those that make way for it."""
    (here / "serve.sh").write_text("vllm serve Qwen/Qwen3-32B --tensor-parallel-size 4")
    origin = origin_of("serve.sh", changes_of(["cluster.name=dgx-h100", setting]))
    assumed = origin.document.data["assumed"]
    assert {key for key in assumed if key.startswith("load")} == left


def test_another_load_replaces_the_assumed_one():
    """A rate is set without leaving out the assumed users first."""
    settings = ["cluster.name=dgx-h100", "load.rate=2"]
    loaded = load_service(FILES / "trtllm-mixtral.sh", settings)

    assert kind_of(FILES / "trtllm-mixtral.sh") == "service"
    assert (loaded.scenario.load.kind, loaded.scenario.load.input) == ("rate", 1024)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "llama3.1-405b"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"),
        ("meta-llama/Meta-Llama-3-8B", "llama3-8b"),
        ("meta-llama/Llama-2-70b-hf", "llama2-70b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama4-scout"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama3.1-70b"),
        ("deepseek-ai/DeepSeek-V3.1", "deepseek-v3"),
        ("nvidia/DeepSeek-R1-FP4", "deepseek-v3"),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", None),
        ("mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b"),
        ("mistralai/Mistral-7B-Instruct-v0.2", None),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"),
        ("moonshotai/Kimi-K2-Thinking", "kimi-k2-thinking"),
        ("zai-org/GLM-5.9", None),
        ("laboratory/private-7b", None),
    ],
)
def test_a_name_on_hugging_face_is_a_model_of_the_catalogue(name, model):
    """The name of its weights counts, then the longest that fits; a further digit is another."""
    assert catalogue_model(name) == model


def test_a_model_in_no_file_is_requested():
    """An unknown model is one line, and --model names another one."""
    text = "vllm serve laboratory/private-7b -tp 2 --enforce-eager"

    with pytest.raises(ScenarioError, match="is in no file of the catalogue"):
        drafted(text)
    found = drafted(text, model="llama3-8b").data
    assert (found["model"], found["engine"]["graphs"]) == ("llama3-8b", None)


@pytest.mark.parametrize(
    ("options", "precision"),
    [
        ("", {"weights": "fp8-block", "wide": "bf16"}),
        ("--kv-cache-dtype fp8", {"weights": "fp8-block", "kv": "fp8", "wide": "bf16"}),
        ("--quantization awq", {"weights": "int4", "wide": "bf16"}),
    ],
)
def test_weights_that_were_released_in_8_bits_were_loaded_in_16(options, precision):
    """DeepSeek-V3 did not fit on 8 H200; the released formats hold if the command has none."""
    draft = drafted(f"vllm serve deepseek-ai/DeepSeek-V3 -tp 8 {options}")

    assert draft.data["precision"] == precision


@pytest.mark.parametrize(
    ("weights", "precision"),
    [
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w4a16", "int4"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", "int8"),
        ("unsloth/Meta-Llama-3.1-70B-bnb-4bit", "int4"),
        ("Qwen/Qwen2-72B-Instruct-GPTQ-Int8", "int8"),
        ("nvidia/Llama-3.1-405B-Instruct-FP4", "nvfp4"),
    ],
)
def test_weights_with_quantised_names_were_loaded_in_16_bits(weights, precision):
    """Words of compressed-tensors and of bits were none; GPTQ of 8 bits had 4."""
    draft = drafted(f"vllm serve {weights} -tp 8")

    assert draft.data["precision"]["weights"] == precision
    assert draft.data["assumed"]["precision"] == f"by the name {weights}"


def test_the_file_of_further_options_of_a_server_was_not_read(here):
    """Those of TensorRT-LLM win over the command, which wins over those of vLLM."""
    text = "enable_attention_dp: true\nmax_num_tokens: 16384\nkv_cache_config: {dtype: fp8}\n"
    (here / "extra.yaml").write_text(text, encoding="utf-8")
    words = "--tp_size 8 --max_num_tokens 512 --extra_llm_api_options extra.yaml"
    found = drafted(f"trtllm-serve deepseek-ai/DeepSeek-V3 {words}").data
    (here / "mine.yaml").write_text("tensor-parallel-size: 4\nmax-num-seqs: 32\n", "utf-8")
    other = drafted("vllm serve Qwen/Qwen3-8B -tp 2 --config mine.yaml").data
    missing = drafted("vllm serve Qwen/Qwen3-8B -tp 2 --config none.yaml")

    assert found["plan"] == {"tensor": 1, "attention_data": 8}
    assert found["engine"]["scheduler"]["tokens"] == 16384
    assert found["precision"]["kv"] == "fp8"
    assert (other["plan"]["tensor"], other["engine"]["scheduler"]["sequences"]) == (2, 32)
    assert "not next to the script" in str(missing.ignored)


def test_data_ranks_with_experts_were_replicas():
    """A DeepSeek-V3 with 8 data ranks did not fit on 8 H200, of which each held all experts."""
    mixed = drafted("vllm serve deepseek-ai/DeepSeek-V3 -tp 2 -dp 4")
    dense = drafted("vllm serve meta-llama/Llama-3.1-8B -tp 2 -dp 4")

    assert mixed.data["plan"] == {"tensor": 2, "attention_data": 4}
    assert dense.data["plan"] == {"tensor": 2, "replicas": 4}


def test_the_module_of_python_was_an_option_without_effect():
    """``-m`` was listed as one of the launcher, and the states of Mamba-2 as unknown."""
    sglang = drafted("python -m sglang.launch_server --model Qwen/Qwen3-8B --tp 2")
    states = drafted("vllm serve nvidia/Nemotron-H-8B-Base-8K --mamba_ssm_cache_dtype float32")

    assert not sglang.ignored
    assert not states.unknown


def test_quantised_weights_without_a_format_in_their_name_are_listed():
    """They were 16 bits without a word."""
    draft = drafted("vllm serve laboratory/Meta-Llama-3.1-70B-GGUF -tp 8")

    assert draft.data["assumed"]["precision"].startswith("not quantised: the name laboratory")


def test_weights_of_a_folder_have_the_formats_of_its_configuration(here):
    """Those of a model in no file of the catalogue are in its config.json."""
    folder = here / "mine"
    folder.mkdir()
    text = (FILES.parent / "import" / "deepseek-v3.json").read_text("utf-8")
    (folder / "config.json").write_text(text, encoding="utf-8")
    draft = drafted(f"vllm serve {folder} -tp 8")

    assert draft.data["precision"]["weights"] == "fp8-block"


def test_a_configuration_that_is_no_text_is_one_line(here):
    """It was read as UTF-8 without a check."""
    (here / "config.json").write_bytes(b"\xff\xfe{}")

    with pytest.raises(ScenarioError, match="is not UTF-8 text"):
        drafted(f"vllm serve {here} -tp 8")


# --- torchtitan -----------------------------------------------------------------------------------

JOB = """[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 2
[parallelism]
"""


def test_a_job_of_torchtitan_is_the_scenario_that_it_launches():
    """Shards are on half of the replicas; what is left of the devices is data parallel."""
    name = "torchtitan-llama3-70b.toml"
    imported = import_file(FILES / name, Choices(cluster="dgx-h100", nodes=8))
    data = imported.draft.data

    assert data["model"] == "llama3-70b"
    assert data["plan"] == {
        "tensor": 8, "data": 8, "zero": 3, "shard": 4, "sequence_parallel": True
    }  # fmt: skip
    assert data["batch"] == {"global": 32, "micro": 4, "sequence": 8192}
    assert (data["precision"], data["recompute"]) == ("fp8", "full")
    assert data["framework"]["name"] == "torchtitan"
    assert imported.draft.unknown == ("a_new_table.key 1",)


@pytest.mark.parametrize(
    ("more", "key", "value"),
    [
        ("data_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 64", "plan.zero", 0),
        ("fsdp_reshard_after_forward = 'never'", "plan.reshard", False),
        ("pipeline_parallel_degree = 4", "batch.micro", 1),
        ("[activation_checkpoint]\nmode = 'none'", "recompute", "none"),
        ("[compile]\nenable = true", "framework", "torchtitan"),
        ("context_parallel_degree = 2", "plan.context_method", "all-gather"),
    ],
)
def test_options_of_torchtitan_change_the_keys_that_they_mean(more, key, value):
    """An option reaches its key, which differs or is missing without it."""
    found, before = drafted(JOB + more, "job.toml").data, drafted(JOB, "job.toml").data
    for part in key.split("."):
        found, before = found[part], (before or {}).get(part)

    assert found == value
    assert before != value


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("data_parallel_shard_degree = 3", ":7: .* on 64 devices leaves data 64"),
        ("tensor_parallel_degree = 'x", ":7: is not TOML"),
        ("tensor_parallel_degree = 0", ":7: .*must be at least 1"),
        ("pipeline_parallel_schedule = 'ZBVZeroBubble'", ":7: .*is not modelled"),
        ("data_parallel_replicate_degree = 3", ":7: .*does not divide 64 ranks"),
    ],
)
def test_a_wrong_job_of_torchtitan_is_one_line(more, problem):
    """A truncated file, a wrong value and contradictory degrees have their line."""
    with pytest.raises(ClustersimError, match=f"job.toml{problem}") as raised:
        drafted(JOB + more, "job.toml")

    assert "\n" not in str(raised.value)


def test_a_configuration_of_accelerate_shards_within_a_node():
    """Model and batch are not in the file: the model is named, the batch assumed."""
    name = FILES / "accelerate-fsdp.yaml"
    draft = import_file(name, Choices(cluster="dgx-h100", model="llama3-8b")).draft

    assert draft.data["plan"] == {"zero": 3, "shard": 8, "data": 16}
    assert draft.data["framework"]["sharding"] == {"prefetch": 1, "reduce": 2}
    assert {"batch.micro", "batch.sequence", "batch.global"} <= draft.data["assumed"].keys()
    with pytest.raises(ScenarioError, match="states no model"):
        import_file(name, Choices(cluster="dgx-h100"))
    with pytest.raises(ScenarioError, match=":19: num_processes 16: the machine has 32 devices"):
        import_file(name, Choices(cluster="dgx-h100", nodes=4, model="llama3-8b"))


# --- trainers on FSDP -----------------------------------------------------------------------------

FOUNDRY = """max_seq_len: ${variables.length}
variables: {length: 2048, name: meta-llama/Llama-2-7b-hf, twice: "${variables.length}"}
model: {name: hf_causal_lm, pretrained_model_name_or_path: "${variables.name}"}
global_train_batch_size: 64
device_train_microbatch_size: 1
"""

MPT = """max_seq_len: 2048
model: {name: mpt_causal_lm, d_model: 4096, n_heads: 32, n_layers: 32}
global_train_batch_size: 64
fsdp_config: {sharding_strategy: FULL_SHARD}
"""

AXOLOTL = """base_model: meta-llama/Llama-2-70b-hf
micro_batch_size: 1
gradient_accumulation_steps: 2
"""

TUNE = """model:
  _component_: torchtune.models.llama3.llama3_8b
batch_size: 2
"""

LITGPT = """model_name: meta-llama/Meta-Llama-3-8B
train:
  micro_batch_size: 2
"""


def changed(text, more, key):
    """Return a key of the scenario of a file with more options, and of the file without them."""
    found, before = drafted(text + more, "job.yaml").data, drafted(text, "job.yaml").data
    for part in key.split("."):
        found = found[part]
        before = before.get(part) if isinstance(before, dict) else None
    return found, before


def test_a_model_of_llm_foundry_has_the_shape_in_its_file():
    """MPT 7B by its configuration has as many parameters as llm-foundry counts."""
    model = drafted(MPT, "job.yaml").data["model"]

    assert model["parameters"]["value"] == 6_658_859_008


def test_a_run_of_llm_foundry_is_the_scenario_that_it_launches():
    """References are replaced; weights are sharded within copies; moments are those of Lion."""
    name = FILES / "llm-foundry-mpt-7b.yaml"
    data = import_file(name, Choices(cluster="dgx-h100", nodes=4)).draft.data

    assert data["batch"] == {"sequence": 2048, "global": 512, "micro": 4}
    assert data["plan"] == {"zero": 3, "data": 32, "shard": 16}
    assert (data["model"]["positions"], data["model"]["biases"]) == ("alibi", [])
    assert data["optimiser"] == "lion"


def test_adapters_of_axolotl_are_those_of_the_scenario():
    """QLoRA on FSDP has frozen weights of 4 bits, here on the host."""
    name = FILES / "axolotl-qlora-70b.yaml"
    draft = import_file(name, Choices(cluster="dgx-h100", nodes=1)).draft

    assert draft.data["finetune"] == {
        "method": "qlora", "rank": 16, "targets": ["qkv", "output", "mlp"], "bits": 4
    }  # fmt: skip
    assert draft.data["framework"] == "fsdp-qlora"
    assert draft.data["offload"] == {"parameters": True, "optimiser": True}
    assert draft.data["batch"] == {"sequence": 2048, "micro": 1, "global": 32}
    assert draft.unknown == ()


def test_axolotl_runs_on_deepspeed_by_its_configuration_or_by_the_name_of_it():
    """The file is next to the launch file; without it the names that Axolotl ships count."""
    name = FILES / "axolotl-zero3-8b.yaml"
    draft = import_file(name, Choices(cluster="dgx-h100", nodes=1)).draft
    shipped = drafted(f"{AXOLOTL}deepspeed: deepspeed_configs/zero2.json", "job.yaml").data

    assert (draft.data["framework"]["name"], draft.data["plan"]["zero"]) == ("deepspeed", 3)
    assert draft.data["offload"] == {"parameters": True, "optimiser": True}
    assert draft.data["batch"] == {"micro": 1, "sequence": 4096, "global": 16}
    assert draft.unknown == ("a_new_option 3",)
    assert (shipped["framework"], shipped["plan"]["zero"]) == ("deepspeed", 2)
    assert "plan.zero" in shipped["assumed"]


def test_a_recipe_of_torchtune_is_the_scenario_that_it_launches():
    """The name of the builder states model and adapters; of some modules all count."""
    name = FILES / "torchtune-lora-8b.yaml"
    draft = import_file(name, Choices(cluster="dgx-h100", nodes=1)).draft

    assert draft.data["model"] == "llama3.1-8b"
    assert draft.data["finetune"]["targets"] == ["qkv", "output", "mlp"]
    assert "adapters of q_proj, v_proj: modelled as all of qkv" in draft.notes
    assert draft.data["framework"]["state"]["bf16"]["weights"] == 2
    assert draft.data["batch"]["global"] == 2 * 8 * 8


def test_a_command_of_litgpt_wins_over_the_file_that_it_names():
    """The file is next to the script; an option of the command replaces that of the file."""
    name = FILES / "litgpt-lora.sh"
    draft = import_file(name, Choices(cluster="dgx-h100")).draft

    assert draft.data["batch"] == {"global": 32, "micro": 4, "sequence": 1024}
    assert draft.data["cluster"]["nodes"] == 1
    assert draft.data["finetune"] == {"method": "lora", "rank": 32, "targets": ["qkv"]}
    assert draft.data["recompute"] == "full"


@pytest.mark.parametrize(
    ("text", "more", "key", "value"),
    [
        (FOUNDRY, "precision: amp_fp8", "precision", "fp8"),
        (FOUNDRY, "fsdp_config: {mixed_precision: PURE}", "framework.sharding.reduce", 2),
        (FOUNDRY, "fsdp_config: {mixed_precision: FULL}", "framework.sharding.gather", 4),
        (FOUNDRY, "fsdp_config: {cpu_offload: true}", "offload.parameters", True),
        (FOUNDRY, "fsdp_config: {sharding_strategy: SHARD_GRAD_OP}", "plan.reshard", False),
        (FOUNDRY, "fsdp_config: {device_mesh: [4, 16]}", "plan.shard", 16),
        (FOUNDRY, "fsdp_config: {activation_cpu_offload: true}", "offload.activations", True),
        (FOUNDRY, "tp_config: {tensor_parallel_degree: 2}", "plan.tensor", 2),
        (MPT, "optimizer: {name: decoupled_lionw_8b}", "optimiser", "lion-8bit"),
        (AXOLOTL, "adapter: lora", "finetune.method", "lora"),
        (AXOLOTL, "adapter: lora\nload_in_8bit: true", "finetune.bits", 8),
        (AXOLOTL, "adapter: lora\npeft_use_dora: true", "finetune.method", "dora"),
        (AXOLOTL, "fsdp: [shard_grad_op, auto_wrap]", "plan.reshard", False),
        (AXOLOTL, "fsdp: full_shard auto_wrap offload", "offload.optimiser", True),
        (AXOLOTL, "fsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}", "plan.shard", 8),
        (AXOLOTL, "optimizer: paged_adamw_8bit", "optimiser", "paged-adamw-8bit"),
        (AXOLOTL, "optimizer: adamw_torch_4bit", "optimiser", "adamw-4bit"),
        (AXOLOTL, "optimizer: muon", "optimiser", "muon"),
        (AXOLOTL, "gradient_checkpointing: offload", "offload.activations", True),
        (AXOLOTL, "bf16: false\ntf32: true", "precision", "tf32"),
        (AXOLOTL, "deepspeed: zero3_bf16_cpuoffload_params.json", "offload", {"parameters": True}),
        (AXOLOTL, "deepspeed: {zero_optimization: {stage: 1}}", "plan.zero", 1),
        (AXOLOTL, "eager_attention: true", "framework.kernels.attention", "unfused"),
        (AXOLOTL, "tensor_parallel_size: 2", "plan.tensor", 2),
        (TUNE, "compile: {model: true, loss: false}", "framework.name", "torchtitan"),
        (TUNE, "enable_activation_checkpointing: true", "recompute", "full"),
        (TUNE, "ac_mode: selective\nac_option: 2", "recompute", {"mode": "full", "every": 2}),
        (TUNE, "fsdp_reshard_after_forward: false", "plan.reshard", False),
        (TUNE, "data_parallel_replicate_dim: 8", "plan.shard", 8),
        (TUNE, "context_parallel_dim: 2", "plan.context_method", "all-gather"),
        (TUNE, "enable_fp8_training: true", "precision", "fp8"),
        (TUNE, "dtype: fp32", "precision", "fp32"),
        (LITGPT, "precision: bf16-true", "framework.state.bf16.weights", 2),
        (LITGPT, "precision: 32-true", "precision", "fp32"),
        (LITGPT, "  max_seq_length: 512", "batch.sequence", 512),
        (LITGPT, "  global_batch_size: 1024", "batch.global", 1024),
    ],
)
def test_options_of_trainers_change_the_keys_that_they_mean(text, more, key, value):
    """An option reaches its key, which differs or is missing without it."""
    found, before = changed(text, more, key)

    assert found == value
    assert before != value


@pytest.mark.parametrize(
    ("text", "more", "problem"),
    [
        (FOUNDRY, "precision: amp_bf17", ":6: precision amp_bf17: is not modelled"),
        (FOUNDRY, "tp_config: {tensor_parallel_degree: 5}", "do not divide 64"),
        (FOUNDRY, "fsdp_config: {device_mesh: [2, 3]}", ":6: .* on 64 devices leaves data 64"),
        (FOUNDRY, "fsdp_config: {device_mesh: wide}", "must be one or two whole numbers"),
        (FOUNDRY.replace(".length", ".missing", 1), "",
         r":1: .*\$\{variables.missing\} is not known from the file"),
        (FOUNDRY.replace("2048", '"${variables.twice}"'), "", "is not known from the file"),
        (MPT.replace("n_layers: 32", ""), "", "model.n_layers: missing"),
        (MPT, "callbacks: {", ":6: is not valid YAML"),
        (AXOLOTL, "rl: dpo", ":4: rl dpo: is not modelled"),
        (AXOLOTL, "fp16: true\nbf16: true", ":4: fp16 true: contradicts bf16"),
        (AXOLOTL, "adapter: qlora", ":4: adapter qlora: needs weights of 4 bits"),
        (AXOLOTL, "load_in_4bit: true", ":4: load_in_4bit true: needs an adapter"),
        (AXOLOTL, "batch_size: 8", ":4: .*contradicts gradient_accumulation_steps"),
        (AXOLOTL, "adapter: lora\nlora_target_modules: [conv]", ":5: .*conv: adapters are not"),
        (AXOLOTL, "fsdp: [full_shard, all]", ":4: .*all: is not modelled"),
        (AXOLOTL, "deepspeed: mine.json", ":4: .*its name states no stage"),
        (AXOLOTL, "deepspeed: zero3.json\nfsdp: [full_shard]", ":4: .*contradicts fsdp_config"),
        (AXOLOTL.replace("Llama-2-70b-hf", "another-70b"), "", ":1: .*in no file of the catalogue"),
        (AXOLOTL.replace("micro_batch_size: 1", ""), "", "micro_batch_size: missing"),
        (TUNE, "dtype: fp16", ":4: dtype fp16: is not modelled .modelled: bf16, fp32"),
        (TUNE, "tensor_parallel_dim: 0", ":4: .*must be at least 1"),
        (TUNE, "data_parallel_shard_dim: 3", ":4: .* on 64 devices leaves data 64"),
        (TUNE, "loss: {_component_: torchtune.rlhf.loss.DPOLoss}", ":4: .*is not modelled"),
        (TUNE.replace("batch_size: 2", ""), "", "batch_size: missing"),
        (LITGPT, "devices: 16", ":4: devices 16: a node of 'dgx-h100' has 8 devices"),
        (LITGPT, "quantize: bnb.nf4", ":4: .*needs one device"),
        (LITGPT, "precision: 64-true", ":4: .*is not modelled"),
    ],
)  # fmt: skip
def test_a_wrong_file_of_a_trainer_is_one_line(text, more, problem):
    """A wrong value, a missing one, contradictions and unknown references have their line."""
    with pytest.raises(ClustersimError, match=f"job.yaml.*{problem}") as raised:
        drafted(text + more, "job.yaml")

    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", [FOUNDRY, AXOLOTL, TUNE, LITGPT])
def test_an_option_of_a_trainer_that_is_not_known_is_listed(text):
    """An option in no table is neither an error nor lost."""
    assert drafted(f"{text}a_new_option: 3\n", "job.yaml").unknown == ("a_new_option 3",)


def test_a_command_of_litgpt_needs_its_file():
    """A configuration that is not next to the script is one line; none is fetched."""
    where = "https://example.org/lora.yaml"

    with pytest.raises(ScenarioError, match=r":1: --config .*nothing is fetched"):
        drafted(f"litgpt finetune meta-llama/Llama-2-7b-hf --config {where}")


def test_references_that_have_no_literal_stay():
    """References that double at each step, refer to themselves or to no value are left."""
    steps = "".join(
        f"  v{n}: ${{variables.v{n - 1}}}${{variables.v{n - 1}}}\n" for n in range(1, 60)
    )
    text = f"variables:\n  v0: aaaa\n{steps}  own: ${{variables.own}}\n  none:\n{MPT}run_name: "
    shown = [
        next(option for option, _ in draft.ignored if option.startswith("run_name"))
        for name in ("v3", "v59", "own", "none")
        if (draft := drafted(f"{text}a-${{variables.{name}}}", "job.yaml"))
    ]

    assert shown[0] == f"run_name a-{'aaaa' * 8}"
    assert shown[1:] == [f"run_name a-${{variables.{name}}}" for name in ("v59", "own", "none")]


# --- torchtitan in Python -------------------------------------------------------------------------

CONFIGURATION = """from torchtitan.models.llama3 import model_registry
from torchtitan.trainer import Trainer

def llama3_8b_mine():
    return Trainer.Config(
        model_spec=model_registry("8B"),
        {fields}
    )
"""


def configured(fields, more=""):
    """Return the plain scenario of a configuration of torchtitan in Python."""
    return drafted(CONFIGURATION.format(fields=fields) + more, "job.py").data


@pytest.mark.parametrize(
    ("fields", "key", "value"),
    [
        ("activation_checkpoint=FullAC.Config()", "recompute", "full"),
        ("training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=4 * 4096,"
         " max_context_length=4096)", "batch.micro", 4),
        ("model_converters=ModelConvertersContainer.Config(converters=[MXLinearConverter.Config()])",
         "precision", "mxfp8"),
        ("model_converters=M.Config(converters=[NVFP4LinearConverter.Config()])",
         "precision", "nvfp4"),
        ("parallelism=ParallelismConfig(pipeline_parallel_degree=4)", "plan.layers", "with-ends"),
        ("parallelism=ParallelismConfig(data_parallel_shard_degree=8,"
         " data_parallel_replicate_degree=8)", "plan.shard", 8),
        ("compile=CompileConfig(enable=True)", "framework", "torchtitan"),
    ],
)  # fmt: skip
def test_fields_of_a_configuration_change_the_keys_that_they_mean(fields, key, value):
    """Data classes are read as the tables of the TOML files are."""
    found, before = configured(fields), configured("")
    for part in key.split("."):
        found, before = found[part], (before or {}).get(part)

    assert found == value
    assert before != value


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ("parallelism=ParallelismConfig(tensor_parallel_degree=3)", ":7: .* do not divide 64"),
        ("parallelism=ParallelismConfig(tensor_parallel_degree=ranks())",
         r":7: .*ranks\(\.\.\.\) would have to be run"),
        ("parallelism=ParallelismConfig(tensor_parallel_degree=RANKS)",
         ":7: .*RANKS is not set in the file"),
        ("activation_checkpoint=MemoryBudgetAC.Config()", ":7: .*is not modelled"),
        ("model_converters=M.Config(converters=[Int4LinearConverter.Config()])",
         ":7: .*is not modelled .modelled: Float8, MX and NVFP4"),
        ("training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=5000)",
         ":7: .*is no multiple of sequences of 2048 tokens"),
        ("training=TrainingConfig(", r":6: is not Python|: is not Python"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_of_torchtitan_is_one_line(fields, problem):
    """What would have to be run, is contradictory or is truncated has its line."""
    with pytest.raises(ClustersimError, match=f"job.py{problem}") as raised:
        configured(fields)

    assert "\n" not in str(raised.value)


def test_one_configuration_of_several_is_requested():
    """A file with two configurations is an error, unless one only changes the other."""
    other = "def other():\n    return Trainer.Config(model_spec=model_registry('70B'))\n"
    changed = "def mine():\n    c = llama3_8b_mine()\n    c.compile.enable = True\n    return c\n"

    with pytest.raises(ScenarioError, match=r"has 2 configurations: llama3_8b_mine \(line 5\)"):
        configured("", other)
    assert configured("", changed)["framework"] == "torchtitan"


def test_a_command_of_torchtitan_replaces_values_of_the_configuration(tmp_path):
    """The configuration is in a file next to the script, or in torchtitan's registry."""
    script = tmp_path / "train.sh"
    choices = Choices(cluster="dgx-h100", nodes=8)
    (tmp_path / "mine.py").write_text(
        CONFIGURATION.format(fields="training=TrainingConfig(local_batch_size=4, seq_len=4096)"),
        encoding="utf-8",
    )
    launch = "torchrun -m torchtitan.train --module mine --training.local_batch_size 2 --config"
    script.write_text(f"{launch} llama3_8b_mine\n", encoding="utf-8")
    found = import_file(script, choices).draft.data

    assert found["batch"] == {"global": 128, "micro": 2, "sequence": 4096}
    registered = drafted("MODULE=llama3 CONFIG=llama3_70b ./run_train.sh --compile.enable")
    assert registered.data["plan"]["tensor"] == 8
    assert registered.notes == ("llama3_70b: as in the registry of torchtitan in 2026",)
    with pytest.raises(ScenarioError, match=r"train.sh:1: --config x: no Python file .*llama3_8b"):
        drafted(f"{launch} x")


# --- DeepSpeed ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "torchrun -m torchtitan.train --job.config_file ./job.toml --training.local_batch_size 4",
        "CONFIG_FILE=./job.toml ./run_train.sh --training.local_batch_size 4",
        'CONFIG_FILE="./job.toml"\ntorchrun -m torchtitan.train --job.config_file ${CONFIG_FILE}'
        " --training.local_batch_size=4",
    ],
)
def test_a_command_of_torchtitan_lost_the_toml_file_that_it_names(here, command):
    """Options of the command replace those of the file; a missing file is named."""
    with pytest.raises(ScenarioError, match=r"\./job\.toml: no such file"):
        drafted(command, cluster="dgx-h100", nodes=4)
    text = JOB
    (here / "job.toml").write_text(text)
    of_file = drafted(text, "job.toml", cluster="dgx-h100", nodes=4).data
    draft = drafted(command, cluster="dgx-h100", nodes=4)
    assert draft.data["model"] == of_file["model"]
    assert draft.data["plan"] == of_file["plan"]
    assert (of_file["batch"]["micro"], draft.data["batch"]["micro"]) == (2, 4)
    assert "config_file" not in str(draft.ignored).lower()


def deepspeed(zero="", more="", **choices):
    """Return the plain scenario of a configuration of DeepSpeed."""
    text = (
        '{"zero_optimization": {"stage": 3' + zero + "},\n"
        ' "train_micro_batch_size_per_gpu": 1' + more + "}"
    )
    return drafted(text, "ds.json", **{"model": "llama3-8b", **choices}).data


def test_a_configuration_of_deepspeed_is_the_scenario_that_it_launches():
    """Offload, the buckets and the batch are read; the length of sequences is assumed."""
    name = FILES / "deepspeed-zero3-offload.json"
    draft = import_file(name, Choices(cluster="dgx-h100", nodes=2, model="llama3-8b")).draft

    assert draft.data["plan"] == {"zero": 3, "data": 16}
    assert draft.data["offload"] == {"optimiser": True, "parameters": True}
    assert draft.data["batch"] == {"global": 128, "micro": 2, "sequence": 2048}
    assert draft.data["framework"] == {"name": "deepspeed", "memory": {"bucket": "33.5544 MB"}}
    assert {"batch.sequence", "recompute", "model"} <= draft.data["assumed"].keys()
    assert draft.unknown == ("a_new_option 3",)


def test_a_script_of_the_trainer_fills_in_what_its_configuration_leaves_to_it():
    """`auto` has the value of the option of the script; the configuration is next to it."""
    draft = import_file(FILES / "deepspeed-trainer.sh", Choices(cluster="dgx-h100")).draft

    assert draft.data["batch"] == {"global": 256, "micro": 2, "sequence": 4096}
    assert (draft.data["precision"], draft.data["recompute"]) == ("bf16", "full")
    assert draft.data["plan"] == {"zero": 2, "data": 16}
    assert draft.unknown == ()


@pytest.mark.parametrize(
    ("zero", "more", "key", "value"),
    [
        ("", ', "fp16": {"enabled": true}', "precision", "fp16"),
        ("", ', "bf16": {"enabled": "auto"}', "precision", "bf16"),
        (', "overlap_comm": false', "", "framework.sharding.prefetch", 0),
        (', "mics_shard_size": 8', "", "plan.shard", 8),
        (', "offload_optimizer": {"device": "cpu"}', "", "offload.optimiser", True),
        ("", ', "activation_checkpointing": {"cpu_checkpointing": true}', "recompute", "full"),
        ("", ', "tensor_parallel": {"autotp_size": 4}', "plan.tensor", 4),
        ("", ', "gradient_accumulation_steps": 4', "batch.global", 256),
        ("", ', "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}',
         "framework.state.bf16.master", 2),
        (', "zero_quantized_weights": true', "", "framework.sharding.gather", 1),
    ],
)  # fmt: skip
def test_options_of_deepspeed_change_the_keys_that_they_mean(zero, more, key, value):
    """An option reaches its key, which differs or is missing without it."""
    found, before = deepspeed(zero, more), deepspeed()
    for part in key.split("."):
        before = before.get(part) if isinstance(before, dict) else None
        found = found[part]

    assert found == value
    assert before != value


def test_a_microbatch_follows_from_the_batch_of_all_devices():
    """Of the three numbers of a batch two state the third one."""
    text = '{"train_batch_size": 256, "gradient_accumulation_steps": 2}'

    assert drafted(text, "ds.json", model="llama3-8b").data["batch"]["micro"] == 2
    with pytest.raises(ScenarioError, match="train_batch_size 100: is not 64 replicas"):
        drafted(text.replace("256", "100"), "ds.json", model="llama3-8b")


@pytest.mark.parametrize(
    ("zero", "more", "problem"),
    [
        ("} // note\n, {", "", ":1: is not JSON .*comments are not part of JSON"),
        ('"', "", ":1: is not JSON"),
        (', "stage": 3', "", ":1: zero_optimization.stage: key given twice"),
        ("", ', "bf16": {"enabled": true}, "fp16": {"enabled": true}', ":2: .*contradicts bf16"),
        ("", ', "train_batch_size": 7, "gradient_accumulation_steps": 1',
         ":2: train_batch_size 7: is not 64 replicas x 1 microbatches of 1 = 64 sequences"),
        (', "offload_param": {"device": "nvme"}', "", ":1: .*is not modelled .modelled: cpu, none"),
        ("", ', "tensor_parallel": {"autotp_size": 3}', ":2: .*do not divide 64"),
        ("", ', "gradient_accumulation_steps": "many"', ":2: .*must be a whole number"),
        (', "offload_optimizer": {"device": "cpu", "ratio": 0.3}', "", ":1: .*ratio 0.3: is not"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_of_deepspeed_is_one_line(zero, more, problem):
    """Comments, truncated and repeated text, and contradictions have their line."""
    with pytest.raises(ClustersimError, match=f"ds.json{problem}") as raised:
        deepspeed(zero, more)

    assert "\n" not in str(raised.value)


def test_a_script_of_deepspeed_needs_its_configuration():
    """A configuration that is not next to the script, or contradicts it, is one line."""
    text = "deepspeed train.py --deepspeed {} --per_device_train_batch_size 3"
    stated = FILES / "deepspeed-zero1.json"

    with pytest.raises(ScenarioError, match=r"--deepspeed none\.json: no such file"):
        drafted(text.format("none.json"), model="llama3-8b")
    with pytest.raises(ScenarioError, match="contradicts train_micro_batch_size_per_gpu 1"):
        drafted(text.format(stated), model="llama3-8b")
    with pytest.raises(ScenarioError, match="needs stage 3 of ZeRO"):
        drafted(
            '{"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}',
            "ds.json",
            model="llama3-8b",
        )


# --- MaxText --------------------------------------------------------------------------------------


def maxtext(more="", **choices):
    """Return the plain scenario of a configuration of MaxText."""
    text = f"model_name: llama3-8b\nper_device_batch_size: 2\n{more}"
    return drafted(text, "mine.yml", **choices).data


def test_a_configuration_of_maxtext_is_the_scenario_that_it_launches():
    """Weights are sharded within a slice and copied between slices."""
    name = FILES / "maxtext-llama3-70b.yml"
    draft = import_file(name, Choices(cluster="tpu-v5p-pod", nodes=256)).draft

    assert draft.data["plan"] == {"zero": 3, "data": 256, "shard": 128}
    assert draft.data["batch"] == {"global": 512, "micro": 2, "sequence": 8192}
    assert draft.data["framework"] == "maxtext"
    assert not draft.notes
    assert draft.unknown == ("a_new_option 1",)


def test_a_command_of_maxtext_states_a_model_of_its_own():
    """The batch of a replica is that of its devices; the nodes are those of the Slurm file."""
    data = import_file(FILES / "maxtext-gpu.sh", Choices(cluster="dgx-h100")).draft.data

    assert data["model"]["parameters"]["value"] == 8_030_261_248
    assert data["plan"] == {
        "tensor": 2, "data": 32, "shard": 4, "sequence_parallel": True, "zero": 3
    }  # fmt: skip
    assert data["batch"] == {"global": 128, "micro": 2, "sequence": 4096}
    assert data["precision"] == "fp8"


def test_a_command_of_maxtext_replaces_values_of_its_file(tmp_path):
    """A configuration next to the script is read; a later value of a name counts."""
    script = tmp_path / "train.sh"
    text = "model_name: llama3-8b\nper_device_batch_size: 2\nremat_policy: minimal\n"
    (tmp_path / "mine.yml").write_text(text, encoding="utf-8")
    script.write_text(
        "python3 src/MaxText/train.py mine.yml per_device_batch_size=4\n", encoding="utf-8"
    )
    data = import_file(script, Choices(cluster="dgx-h100", nodes=8)).draft.data

    assert (data["batch"]["micro"], data["model"]) == (4, "llama3-8b")
    assert data["recompute"]["ops"] == ["attention norm", "mlp norm", "activation", "attention"]


@pytest.mark.parametrize(
    ("more", "key", "value"),
    [
        ("ici_fsdp_parallelism: 1\nici_data_parallelism: -1", "plan.zero", 0),
        ("ici_tensor_parallelism: 4", "batch.micro", 8),
        ("ici_context_parallelism: 2", "plan.context_method", "all-gather"),
        ("ici_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 8", "plan.schedule", "gpipe"),
        ("ici_pipeline_parallelism: 4", "plan.chunks", 8),
        ("num_slices: 4", "plan.shard", 16),
        ("remat_policy: save_qkv_proj", "recompute.ops", ["attention norm", "mlp norm",
         "activation", "attention", "projection", "up", "gate", "down"]),
        ("weight_dtype: bfloat16", "framework.state.bf16.optimiser", 4),
        ("remat_policy: custom\ndecoder_layer_input: offload", "offload", {"activations": True}),
        ("gradient_accumulation_steps: 4", "batch.global", 512),
    ],
)  # fmt: skip
def test_options_of_maxtext_change_the_keys_that_they_mean(more, key, value):
    """An option reaches its key, which differs or is missing without it."""
    found, before = maxtext(more), maxtext()
    for part in key.split("."):
        before = before.get(part) if isinstance(before, dict) else None
        found = found[part]

    assert found == value
    assert before != value


@pytest.mark.parametrize(
    ("stated", "name"),
    [
        ("qwen3-30b-a3b", "qwen3-30b-a3b"),
        ("deepseek3.2-671b", "deepseek-v3.2"),
        ("llama4-17b-128e", "llama4-maverick"),
    ],
)
def test_a_configuration_of_maxtext_with_experts_runs(stated, name):
    """One with experts was an error at the file of the framework; names differ from others'."""
    text = f"model_name: {stated}\nper_device_batch_size: 1\nici_expert_parallelism: 8\n"
    draft = drafted(text, "mine.yml", nodes=32)

    assert draft.data["model"] == name
    assert simulate(from_mapping("mine", draft.data)).step_time > 0


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("ici_tensor_parallelism: 3", ":3: .* do not divide 64"),
        ("ici_fsdp_parallelism: 8\ndcn_data_parallelism: 4", ":3: .*on 64 devices leaves data 64"),
        ("ici_tensor_parallelism: -1", ":3: .*must be stated .only data and fsdp"),
        ("ici_fsdp_parallelism: 0", ":3: .*must be at least 1, or -1"),
        ("quantization: int8", ":3: .*is not modelled"),
        ("remat_policy: custom\nmlpwo: device", ":4: .*is not modelled in a custom policy"),
        ("max_target_length: ${LENGTH}", r":3: .*\$\{LENGTH\} is not known from the file"),
        ("gradient_accumulation_steps: [1", ":4: is not valid YAML"),
        ("ici_pipeline_parallelism: 4\nnum_layers_per_pipeline_stage: 3",
         ":4: .*32 layers are no whole number of rounds"),
        ("ici_pipeline_parallelism: 2\nnum_pipeline_microbatches: 3",
         ":2: .*no whole number for 3 microbatches"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_of_maxtext_is_one_line(more, problem):
    """A truncated file, a wrong value and contradictory degrees have their line."""
    with pytest.raises(ClustersimError, match=f"mine.yml{problem}") as raised:
        maxtext(more)

    assert "\n" not in str(raised.value)


def test_patterns_of_formats_exclude_each_other():
    """Each file of the tests has one format; scripts of Megatron with DeepSpeed are Megatron's."""
    texts = [(FILES / name).read_text(encoding="utf-8") for name in CASES]
    megatron_deepspeed = "deepspeed pretrain_gpt.py --num-layers 2 --deepspeed --zero-stage=1"

    for text in [*texts, megatron_deepspeed]:
        assert len([name for name, (_, sign) in LAUNCHES.items() if sign.search(text)]) == 1
    assert launch_format(megatron_deepspeed) == "megatron"


def test_an_assumed_vocabulary_has_a_reason_without_a_double_negative():
    """Without a tokenizer, the file states no vocabulary."""
    lines = megatron("--tensor-model-parallel-size 2").summary

    assert [line for line in lines if "model.vocab" in line] == [
        "assumed   model.vocab: the file does not state it: set model.vocab"
    ]


@pytest.mark.parametrize(
    "word", ["maxtext/", "--deepspeed ", "pretrain_gpt", "from ", "\n", '"train_batch_size', "-m\n"]
)
def test_a_format_is_looked_for_in_one_pass(word):
    """The start of a sign that is repeated 40,000 times takes no time."""
    begin = time.perf_counter()

    assert launch_format(word * 40_000) in (None, "deepspeed")
    assert time.perf_counter() - begin < 5


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
        ("deepseek_v3-671B", "deepseek-v3"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama4-scout"),
        ("moonshotai/Kimi-K2-Instruct-0905", "kimi-k2"),
        ("deepseek_v3-16B", None),
        ("deepseek-ai/DeepSeek-V2.5", None),
        ("MiniMaxAI/MiniMax-M2", None),
    ],
)
def test_a_number_after_the_name_of_a_model_is_its_size_or_a_date(name, model):
    """DeepSeek-V3-0324 of vLLM and `deepseek_v3`, flavor 671B, of torchtitan were in no file."""
    assert catalogue_model(name) == model


@pytest.mark.parametrize("name", ["train.sh", "job.sbatch", "job.py", "job.toml"])
def test_a_script_of_no_known_format_names_those_that_are_read(tmp_path, name):
    """`run train.sh` was "holds no keys (expected 'key: value' lines)", or not valid YAML."""
    file = tmp_path / name
    file.write_text("x = 1\n", encoding="utf-8")

    with pytest.raises(ScenarioError, match=r"in no format .* that is read \(vllm, .*megatron"):
        load_any(file)
