"""Logs: each program's lines are read in their exact form, with their warts."""

import json

import pytest

from clustersim.errors import CatalogError
from clustersim.importers.logs.formats import LOGS, QUANTITIES
from clustersim.importers.logs.services import BENCHMARKS, benchmark_of
from clustersim.importers.logs.steps import read_log, steps_of
from clustersim.importers.source import MOST_LINES, Source
from clustersim.simulation.measures import measures_of
from clustersim.units import GIB
from logged_lines import LINES, MAXTEXT, MEGATRON, MEMORY, RESULTS, SGLANG, TITAN


def log(*lines):
    """Return the log of some lines."""
    return steps_of(Source("train.log", "\n".join(lines)))


def times(read):
    """Return number, attempt and time of each step of a log."""
    return [(step.number, step.attempt, step.values["step_time_s"]) for step in read.steps]


def iterations(*pairs):
    """Return lines of Megatron-LM."""
    return [MEGATRON.format(n=n, ms=ms) for n, ms in pairs]


@pytest.mark.parametrize("case", LINES)
def test_each_program_states_its_steps_in_its_own_form(case):
    """Number and values of the last step, in SI units; the format is found by content."""
    form, text, (number, values) = LINES[case]
    read = log("some line before", text, "some line after")

    assert read.format == form
    assert read.steps[-1].number == number
    assert read.steps[-1].values == pytest.approx(values)


def test_every_format_has_a_line_and_states_known_quantities():
    """No format without a test; no value that the study does not know."""
    assert {form for form, _, _ in LINES.values()} == set(LOGS)
    assert {field.name for form in LOGS.values() for field in form.fields} == set(QUANTITIES)


def test_interleaved_ranks_are_one_step():
    """The median of the ranks, the largest memory, also where one rank is a line behind."""
    titan = [TITAN.replace("step: 10", f"step: {n}") for n in (10, 10, 11, 10, 11, 11)]
    titan[3] = titan[3].replace("43.55", "50.00").replace("5,432", "5,400")
    read = log(*titan)

    assert [step.number for step in read.steps] == [10, 11]
    assert read.steps[0].values["memory_peak_bytes"] == 50 * GIB
    assert read.steps[0].values["tokens_per_s_per_device"] == 5432


def test_a_number_that_goes_back_is_a_restart():
    """The steps after it are of another attempt."""
    read = log(*iterations(*[(n, 1000) for n in range(90, 108)], (100, 4000), (101, 1000)))

    assert times(read)[-2:] == [(100, 1, 4.0), (101, 1, 1.0)]
    assert read.restarts == 1


def test_cut_and_missing_lines_are_no_steps():
    """A line that ends before its time has no record, and numbers may be missing."""
    whole = iterations((1, 1000), (2, 1000), (9, 1000))
    read = log(whole[0], whole[1][:60], whole[2], whole[2][:110])

    assert times(read) == [(1, 0, 1.0), (9, 0, 1.0)]


@pytest.mark.parametrize(
    "line",
    [
        "saving checkpoint at iteration      12 to /checkpoints in torch_dist format",
        "  successfully saved checkpoint from iteration      12 to /checkpoints",
        " validation loss at iteration 12 | lm loss value: 6.9E+00 | lm loss PPL: 9.9E+02 |",
        "[titan] Saving the checkpoint (or staging if async is enabled).",
        "{'eval_loss': 0.59, 'eval_runtime': 5.187, 'epoch': 3.0}",
        "[titan] validate step: 12  loss: 8.0  memory: 40.0GiB(42%)  tps: 12,000",
        "[Rank 0] [Torch] Checkpoint global_step10 is about to be saved!",
    ],
)
def test_steps_next_to_a_checkpoint_or_an_evaluation_are_marked(line):
    """The step before and the step after it."""
    first, last = iterations((11, 1000), (12, 1000)), iterations((13, 3000), (14, 1000))

    assert [step.interrupted for step in log(*first, line, *last).steps] == [
        False,
        True,
        True,
        False,
    ]


def test_memory_of_any_rank_belongs_to_the_step_before_it():
    """Megatron prints it once for each rank, after the first step."""
    lines = [MEMORY.format(n=1, mb=mb) for mb in (100.0, 300.0, 200.0)]

    assert log(*iterations((1, 1000)), *lines).steps[0].values["memory_peak_bytes"] == 300 * 2**20


def test_a_text_without_lines_of_a_known_program_is_no_log():
    """Nothing is guessed."""
    assert log("epoch 1: loss 3.2, 1.4 s") is None


def test_a_known_program_without_a_complete_step_is_an_error():
    """With the name of its format."""
    with pytest.raises(CatalogError, match=r"^train.log: has lines of megatron and no complete"):
        log("elapsed time per iteration (ms):")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0", "is binary, not text"),
        (b"", "is empty"),
        (b"\n" * (MOST_LINES + 1), f"has more than {MOST_LINES:,} lines"),
        (b"x" * 16_000_001, r"is larger than 16 MB \(give a part of it: tail -n"),
    ],
)
def test_a_file_that_is_no_log_is_one_clear_line(content, problem, tmp_path):
    """Binary, empty, a million lines, too large."""
    (tmp_path / "a.log").write_bytes(content)

    with pytest.raises(CatalogError, match=problem) as error:
        read_log(tmp_path / "a.log")
    assert "\n" not in str(error.value)


def test_a_letter_that_is_cut_does_not_end_the_reading(tmp_path):
    """`tail -c` cuts the bar of a progress bar in the middle of its letters."""
    (tmp_path / "a.log").write_bytes("█".encode()[1:] + b"\n" + MAXTEXT.encode())

    assert steps_of(read_log(tmp_path / "a.log")).format == "maxtext"


# --- results of serving benchmarks ----------------------------------------------------------------


@pytest.mark.parametrize(("program", "result", "measures"), RESULTS)
def test_the_result_of_a_serving_benchmark_is_measures_of_a_service(program, result, measures):
    """By the keys of its program, in seconds."""
    read = benchmark_of(Source("result.json", json.dumps(result)))

    assert read.format == program
    assert {name: read.measures[name] for name in measures} == pytest.approx(measures)


def test_of_json_lines_the_last_result_is_read():
    """SGLang appends a line for each run."""
    text = "\n".join(json.dumps(SGLANG | {"mean_ttft_ms": ms}) for ms in (100.0, 300.0))

    assert benchmark_of(Source("a.jsonl", text)).measures["ttft"] == pytest.approx(0.3)


def test_all_keys_of_benchmarks_are_measures_of_a_service():
    """No name that a service does not have."""
    names = {measure for keys in BENCHMARKS.values() for measure, _ in keys.values()}

    assert names <= set(measures_of(["service"]))


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "{" * 100_000, MAXTEXT])
def test_other_texts_are_no_result(text):
    """Truncated, of another kind, nested without end, a log."""
    assert benchmark_of(Source("a.json", text)) is None
