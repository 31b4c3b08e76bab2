"""`clustersim new`: the written file runs, has the best layout that fits, and explains it."""

import json
import os
import pty
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import clustersim
from clustersim.catalog.finding import entry_names, shipped
from clustersim.errors import PlanError, ScenarioError
from clustersim.plan.checks import divisors
from clustersim.scenario.load import load_any
from clustersim.scenario.machine import load_cluster
from clustersim.studies.new import (
    Machine,
    new_scenario,
    service_draft,
    step_draft,
    with_settings,
)
from clustersim.studies.new import answer as new_answer
from clustersim.studies.new.draft import STEP_TOKENS, usual_batch
from clustersim.studies.new.text import file_text, remarks, rows
from clustersim.studies.search import Deadline
from commands import output, rejected

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "new-scenario.yaml"

SMALL = Machine("gpt3-1.3b", "dgx-a100", 1)
"""A model and a machine whose search takes a second."""


@pytest.fixture(scope="module")
def small_step():
    """The new scenario of a small model, from a draft with few layouts."""
    return new_scenario(step_draft(SMALL, sequence=2048, batch=64))


def test_the_written_file_is_the_best_of_its_search(small_step, tmp_path):
    """The file loads, and its answer equals that of the search to the last digit."""
    file = tmp_path / "mine.yaml"
    file.write_text(file_text(small_step, "clustersim new"), encoding="utf-8")
    found, answer = small_step.search, clustersim.simulate(file).answer

    assert answer.step_time_s == found.best.step_time_s == found.ranked[0].measures["step_time_s"]
    assert answer.memory.fits
    assert not answer.memory.tight
    assert answer.assumed.keys() >= {"framework", "precision"}
    assert found.gap == 0
    assert len(found.ranked) >= found.proven == 2


def test_alternatives_are_what_their_changes_give(small_step):
    """Each neighbour is replayed with its changes; none that fits with the same room is faster."""
    best = small_step.search.best
    data = {**small_step.scenario, "assumed": {}}
    replayed = [each for each in small_step.alternatives if each.step_time_s is not None]

    assert {each.key for each in small_step.alternatives} >= {"plan.tensor", "recompute"}
    for each in replayed:
        again = clustersim.simulate(data, dict(each.set_)).answer
        assert again.step_time_s == each.step_time_s
        assert again.memory.peak_bytes == each.memory_peak_bytes
    assert all(each.step_time_s >= best.step_time_s for each in replayed)


def test_the_file_reads_as_it_did(small_step):
    """Values with what they are and cost, below the prediction; numbers of comments may differ."""
    text = file_text(small_step, "clustersim new --model gpt3-1.3b --cluster dgx-a100")

    assert masked(text) == masked(GOLDEN.read_text(encoding="utf-8"))


def masked(text):
    """Return a file with N for the decimal numbers of its comments."""
    lines = [line.partition("#") for line in text.splitlines()]
    return [(value, re.sub(r"[+-]?\d[\d,]*\.?\d*", "N", comment)) for value, _, comment in lines]


@pytest.mark.large
def test_a_layout_has_room_for_the_errors_of_memory():
    """A faster layout whose memory is tight is named, and not chosen."""
    new = new_scenario(step_draft(Machine("llama3-8b", "dgx-h100", 1), sequence=4096, batch=128))

    assert new.faster is not None
    assert new.faster.tight
    assert new.faster.value > new.search.ranked[0].value
    assert not new.search.best.memory.tight
    assert "less room: " in file_text(new, "clustersim new")


def test_what_follows_a_search_ends_with_its_time(monkeypatch):
    """A second search and neighbours took half of the time and more after it was over."""
    searched = new_answer._searched

    def _searched(draft, deadline, limits=()):
        answer = searched(draft, deadline, limits)
        monkeypatch.setattr(Deadline, "remaining", 0.0)
        return answer

    monkeypatch.setattr(new_answer, "_searched", _searched)
    draft = step_draft(Machine("llama3-8b", "dgx-h100", 1), sequence=4096, batch=16)
    new = new_scenario(draft)
    text = {row.label: row.text for row in rows(new)}

    assert new.search.best.memory.tight
    assert (new.faster, new.alternatives) == (None, ())
    assert text["more room"].endswith("less, with more room than such errors")


def test_a_search_that_ends_before_a_layout_fits_states_that():
    """It stated that no layout fits, of which most had not been examined."""
    draft = step_draft(Machine("llama3-405b", "dgx-h100", 2048))

    with pytest.raises(ScenarioError, match=r"^--seconds: .* \(allow more time, or fix keys"):
        new_scenario(draft, 0.5)


def test_the_usual_framework_of_a_machine_is_named():
    """Two machines whose usual frameworks differ were compared without a word of it."""
    texts = [
        step_draft(Machine("llama3-8b", name, 1)).assumed["framework"]
        for name in ("dgx-h100", "mi300x-roce")
    ]

    assert texts[0].startswith("megatron-core, the usual one")
    assert texts[1].startswith("torchtitan-rocm6, the usual one")
    assert all("compared with one --framework" in text for text in texts)


@pytest.mark.large
def test_the_written_service_runs(capsys, here):
    """`--serve` writes a service whose answer is that of its search."""
    words = ("--model", "llama3-8b", "--cluster", "dgx-h100", "--serve", "--concurrency", "4")
    out = output(
        capsys, "new", *words, "--input", "128", "--output", "16", "-o", "mine.yaml", "--json"
    )
    new, answer = json.loads(out), clustersim.serve("mine.yaml").answer

    assert answer.output_tokens_per_s == new["search"]["best"]["output_tokens_per_s"]
    assert {"engine", "precision"} <= new["scenario"]["assumed"].keys()
    assert "load.input" not in new["scenario"]["assumed"]


TWO = Machine("llama3.1-8b", "desktop-2x3090", precision="int4")


@pytest.mark.parametrize(("rate", "by"), [(None, "tokens_per_s"), (2.0, "latency")])
def test_a_service_of_a_named_machine_left_one_of_its_two_cards_idle(rate, by):
    """What serves most, or the stated rate soonest, on the whole machine is chosen and said."""
    new = new_scenario(service_draft(TWO, rate))
    text, plan = file_text(new, "clustersim new"), new.search.best.counts

    assert new.search.by == by
    assert plan.devices == 2
    assert "(2 of 2 devices)" in text
    assert f"the best by {new.search.measure.label} on up to 2 devices, of" in text
    others = [
        clustersim.serve({**new.scenario, "plan": other}).answer.measures()
        for other in ({}, {"replicas": 2}, {"tensor": 2})
    ]
    best = new.search.ranked[0].measures[by]
    assert best == (min if rate else max)(other[by] for other in others)


def test_the_command_writes_a_file_that_runs_and_replaces_none(capsys, here):
    """The printed command runs; a second one leaves the file as it is without `--force`."""
    words = ("new", "--model", "gpt3-1.3b", "--cluster", "dgx-a100", "--batch", "64")
    out = output(capsys, *words, "--sequence", "2048")
    file = here / "gpt3-1.3b-dgx-a100.yaml"

    assert f"written       {file.name} (clustersim run {file.name})" in out
    assert "second best   " in out
    assert json.loads(output(capsys, "run", file.name, "--json"))["memory"]["fits"]
    before = file.read_text(encoding="utf-8")
    assert "already exists (use --force to replace it)" in rejected(capsys, *words)
    assert file.read_text(encoding="utf-8") == before
    assert "written" in output(capsys, *words, "--sequence", "1024", "--force")
    assert "sequence: 1024" in file.read_text(encoding="utf-8")


def test_values_that_are_stated_are_neither_searched_nor_assumed():
    """`new` had no ``--set``: adapters needed a file of one's own."""
    draft = step_draft(Machine("llama3.1-8b", "desktop-2x4090"), 2048, None, "fsdp-qlora")
    stated = ["finetune.method=qlora", "batch.global=16", "recompute=full"]
    found = new_scenario(with_settings(draft, stated))

    assert found.scenario["finetune"]["method"] == "qlora"
    assert found.scenario["batch"]["global"] == 16
    assert found.scenario["recompute"] == "full"
    assert "batch.global" not in found.scenario["assumed"]


@pytest.mark.parametrize("framework", ["pytorch-fsdp", "fsdp-qlora", "llm-foundry", "deepspeed"])
def test_the_best_layout_had_a_pipeline_that_its_framework_does_not_have(framework):
    """FSDP has neither stages nor tensor groups: 8B on two cards was divided in two stages."""
    draft = step_draft(Machine("llama3-8b", "dgx-h100"), 2048, 64, framework)
    best = new_scenario(draft).search.ranked[0].set_

    assert (best["plan.tensor"], best["plan.pipeline"]) == (1, 1)
    with pytest.raises(PlanError, match=r"plan\.pipeline: 2 is not offered by .* over data \(take"):
        clustersim.simulate({**draft.data, "plan": {"pipeline": 2, "data": 4, "zero": 3}})


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "--model, --cluster: needed without a terminal (clustersim new --model llama3-70b"),
        ("--model llama3-8b", "--cluster: needed without a terminal"),
        ("--model lama3-8b --cluster dgx-h100", "--model: no model named 'lama3-8b' (did"),
        ("--model llama3-8b --cluster dgx-h10", "no cluster named 'dgx-h10' (did you mean"),
        ("--model llama3-8b --cluster dgx-h100 --nodes 0", "--nodes 0: must be greater than 0"),
        ("--model llama3-8b --cluster dgx-h100 --nodes 5000", "--nodes 5000: 'dgx-h100' has 4,096"),
        ("--model llama3-8b --cluster dgx-h100 --rate 2 --nodes 5000", "--nodes 5000: 'dgx-h100'"),
        (
            "--model llama3-8b --cluster dgx-h100 --framework x",
            "--framework: no framework named 'x'",
        ),
        (
            "--model llama3-8b --cluster dgx-h100 --rate 2 --engine x",
            "--engine: no engine named 'x'",
        ),
        ("--model llama3-8b --cluster dgx-h100 --rate 2 --precision fp4", "--precision: must be"),
        ("--model llama3-8b --cluster tpu-v4-pod", "--framework: needed for tpu-v4-pod"),
        ("--model llama3-405b --cluster dgx-h100", "no layout of llama3-405b fits on 8 devices"),
        ("--model llama3-405b --cluster dgx-h100", "sequences of less than 8,192 tokens"),
        (
            "--serve --model llama3.1-70b --cluster desktop-2x3090",
            "weights of fewer bits with --precision int4 or more of the memory with --set",
        ),
        (
            "--serve --model gpt-oss-120b --cluster desktop-2x3090",
            "shorter requests with --input and --output or more of the memory with --set",
        ),
        (
            "--model qwen3-32b --cluster desktop-2x3090 --sequence 64",
            "more memory (use more nodes, a smaller model or adapters with --set finetune.method=",
        ),
        (
            "--serve --rate 20 --model qwen3-32b --cluster dgx-h100 --input 2048 --output 512",
            "--rate 20: none of 15 layouts of qwen3-32b that may fit on 8 devices of dgx-h100"
            " sustains it (use more nodes, a lower rate,",
        ),
        ("--model llama3-8b --cluster dgx-h100 --rate 2 --batch 3", "--batch: has no effect on a"),
        ("--model llama3-8b --cluster dgx-h100 --rate 2 --concurrency 3", "has one load"),
        ("--model llama3-8b --cluster dgx-h100 --set cluster.nodes=2", "(use --nodes)"),
        ("--model llama3-8b --cluster dgx-h100 --set plan.tenso=2", "plan.tenso: unknown key"),
    ],
)
def test_wrong_options_are_one_line_and_write_nothing(capsys, here, words, message):
    """Exit code 2, no traceback, no file."""
    assert message in rejected(capsys, "new", *words.split())
    assert not [*here.iterdir()]


def test_a_model_file_of_the_working_folder_was_unknown(capsys, here):
    """docs/guides/my-own-model.md plans a service of an imported model."""
    text = (shipped("model") / "llama3.1-8b.yaml").read_text("utf-8")
    text = text.replace("name: llama3.1-8b", "name: mine").replace("layers: 32", "layers: 16")
    (here / "mine.yaml").write_text(text, encoding="utf-8")
    words = ["--serve", "--model", "mine", "--cluster", "dgx-h100", "--set", "plan.tensor=1"]

    assert "mine on 1 node of dgx-h100" in output(capsys, "new", *words, "-o", "service.yaml")
    assert load_any(here / "service.yaml").scenario.model.layers == 16


def test_limits_that_the_best_layout_misses_were_not_named():
    """A search for throughput with `limits` had no word on them."""
    draft = service_draft(Machine("llama3.1-8b", "dgx-h100"))
    lines = remarks(new_scenario(with_settings(draft, ["limits.tpot=5ms", "plan.tensor=1"])))
    found = next(line for line in lines if line.startswith("goodput: "))

    assert "% of the requests within the limits of the scenario" in found
    assert "clustersim search --limit tpot=0.005s finds the best that meets them" in found
    lines = remarks(new_scenario(with_settings(draft, ["limits.tpot=5s", "plan.tensor=1"])))
    assert not [line for line in lines if line.startswith("goodput: ")]


def test_sequences_are_not_the_longest_context_of_a_model():
    """Llama 3.1 takes 131,072 tokens, and was trained on sequences of 8,192."""
    machine = Machine("llama3.1-70b", "dgx-h100")
    drafted = step_draft(machine)

    assert drafted.data["batch"]["sequence"] == 8192
    assert "131,072" in drafted.assumed["batch.sequence"]
    assert step_draft(machine, sequence=131_072).data["batch"]["sequence"] == 131_072
    assert step_draft(Machine("gpt3-13b", "dgx-h100")).data["batch"]["sequence"] == 2048


def test_the_values_of_keys_that_are_searched_were_not_all_named(small_step):
    """``chunks=10`` or ``layers=by-work`` beat a best "with proof": the line has the others."""
    searched = dict(line.split(": ", 1) for line in remarks(small_step))["searched"]

    assert "1, 2 or 4 chunks, layers even or with-ends," in searched


def test_a_batch_divides_among_many_layouts():
    """It has about the usual tokens, and is a multiple of what the devices can share."""
    for devices in (1, 8, 48, 64, 384, 3072, 16_384):
        batch = usual_batch(4096, devices)
        shared = max(each for each in divisors(devices) if each <= STEP_TOKENS / 4096)

        assert batch % shared == 0
        assert 0.6 < batch * 4096 / STEP_TOKENS < 1.5


def test_every_library_of_a_shipped_machine_has_a_usual_framework():
    """All but those of TPUs, of whose software there is no profile."""
    libraries = [load_cluster(name, 1).node.library for name in entry_names("cluster")]

    assert {each.name for each in libraries if each.framework is None} == {"tpu-ici"}
    assert {each.framework for each in libraries} - {None} <= {*entry_names("framework")}


def test_a_device_without_bf16_gets_fp16():
    """V100 multiplies no bf16, so that a scenario for it has fp16."""
    assert step_draft(Machine("gpt3-1.3b", "dgx-1v", 1)).data["precision"] == "fp16"
    assert service_draft(Machine("gpt3-1.3b", "dgx-h100", 1)).data["precision"] == "bf16"


def test_a_machine_without_measured_runs_had_no_interval_and_no_word_on_it():
    """`run` states that there is no evidence, and so does the file of `new`."""
    new = new_scenario(step_draft(Machine("gpt3-125m", "mi300x-roce", 1), 512, 8))

    assert "; no evidence: no measured runs on mi300x" in file_text(new, "clustersim new")


@pytest.mark.parametrize("name", ["mine", "mine.yaml"])
def test_a_cluster_of_the_working_folder_was_unknown_after_its_search(here, name):
    """`new` and `size` take it by its name and by its file, as `run` does."""
    text = (shipped("cluster") / "desktop-2x4090.yaml").read_text("utf-8")
    Path("mine.yaml").write_text(text.replace("name: desktop-2x4090", "name: mine"), "utf-8")
    new = new_scenario(step_draft(Machine("gpt3-125m", name, 1), 512, 8))
    sized = clustersim.size(name, nodes=1, model="gpt3-125m", tokens=1e8)

    assert new.scenario["cluster"]["name"] == "mine"
    assert sized.layout.step_time_s > 0


def test_a_service_of_weights_of_4_bits_was_planned_for_16():
    """Without --precision weights are as they were released."""
    draft = service_draft(Machine("gpt-oss-120b", "dgx-h100", 1))
    stated = service_draft(Machine("gpt-oss-120b", "dgx-h100", 1, "bf16"))

    assert draft.data["precision"] == {"weights": "bf16", "experts": "mxfp4"}
    assert "as the weights of gpt-oss-120b were released" in draft.assumed["precision"]
    assert (stated.data["precision"], "precision" in stated.assumed) == ("bf16", False)


def answered(folder, *answers):
    """Return what `clustersim new` prints on a terminal whose user enters some lines."""
    package = Path(__file__).resolve().parents[2]
    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "clustersim", "new"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(package), "TERM": "dumb", "COLUMNS": "200"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    os.write(main, "".join(f"{answer}\n" for answer in answers).encode())
    printed, end = b"", time.monotonic() + 120
    try:
        while time.monotonic() < end and (more := os.read(main, 4096)):
            printed += more
    except OSError:
        pass  # the terminal of a process that has ended
    finally:
        os.close(main)
        code = process.wait(timeout=60)
    return code, printed.decode()


@pytest.mark.large
def test_five_questions_on_a_terminal_give_a_scenario(tmp_path):
    """A misspelt name is asked for again, with the nearest; the defaults are those of Enter."""
    code, printed = answered(tmp_path, "", "gpt3-1.3", "gpt3-1.3b", "dgx-a100", "1", "2048")

    assert code == 0, printed
    for question in ("Training or service", "Model", "Cluster", "Nodes", "Tokens of a sequence"):
        assert question in printed
    assert "'gpt3-1.3' is none of these names (did you mean 'gpt3-1.3b'" in printed
    loaded = load_any(tmp_path / "gpt3-1.3b-dgx-a100.yaml")
    assert loaded.scenario.batch.sequence == 2048
