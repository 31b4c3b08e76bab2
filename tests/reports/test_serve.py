"""`clustersim serve`: what it prints, its keys, its files, and how fast it answers."""

import json
import re

import pytest

from clustersim.reports.service.text import _with_interval, rows
from clustersim.simulation.service.answer import Statistics
from clustersim.simulation.service.serve import serve
from commands import output

NAME = "llama3-70b-h100-serving"
SMALL = ["--set", "load.concurrency=4", "--set", "load.requests=8"]


pytestmark = pytest.mark.usefixtures("here")


def command(capsys, *words):
    """Return what `serve` of the scenario prints."""
    return output(capsys, "serve", NAME, *words)


def test_labels_ran_into_their_texts(capsys):
    """Two spaces are between a label and its text, and the parts of a time follow it."""
    printed = command(capsys).split("\n\n")[0].splitlines()[1:]
    labels = [re.match(r"(.*?)  +", line)[1] for line in printed]

    assert all(re.match(r".{12}  \S", line) for line in printed)
    assert labels[labels.index("first token") + 1] == labels[labels.index("each token") + 1] == ""
    assert [line for line in printed if "of which" in line] == [
        line for line in printed if line.startswith(" " * 14)
    ]


def test_the_keys_of_serve_json(capsys):
    """`--json` prints one object with the documented keys and writes no files."""
    found = json.loads(command(capsys, *SMALL, "--json"))

    for key in ("ttft_s", "tpot_s", "latency_s"):
        assert {*found[key]} == {"mean", "p50", "p90", "p95", "p99", "percentiles", "intervals"}
    keys = "output_tokens_per_s", "total_tokens_per_s", "output_tokens_per_s_per_device"
    assert all(found[key] > 0 for key in keys)
    assert {"goodput", "kv", "memory", "attribution", "wall_s", "queue"} <= {*found}
    assert found["output_tokens_per_s_per_device"] == found["output_tokens_per_s"] / 8


def test_a_service_prints_its_rates_and_causes(capsys, here):
    """The lines name machine, load, times, throughput, memory; the folder has page and tables."""
    text = command(capsys, *SMALL, "--figures", "png")
    place = here / "runs" / NAME

    for label in ("machine", "load", "first token", "each token", "throughput", "KV cache"):
        assert f"\n{label}" in text
    assert "over users:" in text
    names = {path.name for path in place.iterdir()}
    assert {"report.html", "summary.json", "requests.csv", "load.csv", "load.png"} <= names
    summary = json.loads((place / "summary.json").read_text(encoding="utf-8"))
    assert [point["load"] for point in summary["curve"]] == [1, 2, 4]


def test_requests_beyond_the_sequences_of_a_model_have_a_warning(capsys):
    """A prompt of a million tokens to a model of 8,192 was answered like any other."""
    context, output = 8192, 100
    lengths = [f"load.output={output}", "load.requests=4", "load.concurrency=1"]
    settings = [word for setting in lengths for word in ("--set", setting)]

    within = command(capsys, *settings, "--set", f"load.input={context - output}")
    beyond = command(capsys, *settings, "--set", f"load.input={context - output + 1}")

    assert "\ncontext" not in within
    assert "\ncontext       the longest request has 8,193 tokens, sequences of llama3-70b" in beyond


def test_a_service_that_does_not_fit_has_a_page(capsys, here):
    """The verdict is the first line; there are no times."""
    text = command(capsys, "--set", "plan.tensor=1", "--set", "precision=bf16")
    lines = text.splitlines()

    assert lines[1].startswith("memory        does not fit")
    assert not any(line.startswith("throughput") for line in lines)
    assert (here / "runs" / NAME / "report.html").exists()


@pytest.mark.large
def test_ten_thousand_requests_are_a_hundred_thousand_steps():
    """All requests of an open load get their tokens, 8 devices together."""
    lengths = {"input": {"uniform": [100, 900]}, "output": {"uniform": [50, 250]}}
    found = serve(NAME, {"load": {"rate": 9, "requests": 10_000, **lengths}})

    assert found.answer.counts.steps > 90_000
    assert len(found.requests) == 10_000


@pytest.mark.large
def test_more_users_wait_longer_and_get_more_together():
    """Over a curve of 8 loads, from 1 to 128 users."""
    found = serve(NAME, loads=[1, 2, 4, 8, 16, 32, 64, 128])
    latencies = [point.latency_s for point in found.curve]
    rates = [point.output_tokens_per_s for point in found.curve]

    assert len(found.curve) == 8
    assert latencies == sorted(latencies)
    assert rates == sorted(rates)


@pytest.mark.parametrize(
    ("load", "whole"),
    [
        ({"offline": 16, "input": 64, "output": 8}, True),
        ({"batch": 4, "input": 64, "output": 8}, True),
        ({"concurrency": 4, "requests": 8, "input": 64, "output": 8}, False),
        ({"rate": 1.0, "input": 64, "output": 8}, False),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_offline_service_did_not_state_that_its_rates_have_ramp_and_drain(load, whole):
    """A line and a key state that they are of all requests over the whole time."""
    result = serve(NAME, [f"load={json.dumps(load)}"])
    lines = {row.label: row.text for row in rows(result)}

    assert result.answer.whole_time is whole
    assert (lines.get("measured", "").startswith("all requests over")) is whole


def test_a_time_near_saturation_had_an_interval_of_14741_percent():
    """Half the width over the time, up to the time itself; beyond it the time is uncertain."""
    times = Statistics(*[2.0] * 5, intervals={"mean": (1.6, 2.5), "p50": (0.001, 4000.0)})

    assert _with_interval(times, "mean", 2.0) == "2 s +/- 25 %"
    assert _with_interval(times, "p50", 2.0) == "2 s (uncertain)"
    assert _with_interval(times, "p99", 2.0) == "2 s"


H200 = "llama3-8b-h100-formats"
LENGTHS = {"input": 512, "output": 128}
OPEN = LENGTHS | {"rate": 10.0}


def of_machine(name, load=OPEN):
    """Return a small service on a machine, and its line of cost."""
    found = serve(H200, {"cluster": {"name": name, "nodes": 1}, "load": load})
    return found, next(row.text for row in rows(found) if row.label == "energy, cost")


def test_the_cost_of_a_service_had_neither_its_quotes_nor_why_it_is_missing():
    """One quote of H200 is three times those of H100; none of B200 left the cost out silently."""
    quoted, text = of_machine("dgx-h200")
    missing, reason = of_machine("dgx-b200")

    assert text.endswith(f" USD per device and hour: {quoted.cost.quote}")
    assert "a single quote of " in text
    assert reason.endswith(f"; cost not known: {missing.answer.unavailable['cost']}")


def test_the_throughput_of_a_sustained_rate_had_an_interval():
    """It is the rate times the tokens of a request; with users it is a prediction."""
    sustained, _ = of_machine("dgx-h100")
    users, _ = of_machine("dgx-h100", LENGTHS | {"concurrency": 8, "requests": 16})

    assert sustained.rates["output_tokens_per_s"] == pytest.approx(1280)
    assert {*users.intervals} - {*sustained.intervals} == {"output_tokens_per_s"}


@pytest.mark.parametrize(
    ("model", "text"),
    [
        ("gpt-oss-20b", "; 43.8 % of the longest request is kept behind windows"),
        ("llama4-scout", ""),
        ("llama3-8b", ""),
    ],
)
def test_the_cache_behind_windows_was_kept_without_a_word(model, text):
    """Half of the layers of gpt-oss see 128 of 1,024 tokens; chunks and whole layers keep all."""
    changes = [f"model={model}", "load={concurrency: 1, input: 1000, output: 24}"]
    found = serve(NAME, changes)
    cache = next(row.text for row in rows(found) if row.label == "KV cache")

    assert cache.endswith(f"decode together{text}")


def test_the_room_of_decode_was_that_of_prefill():
    """A line had the cache of the replicas for decode, and room for the sequences of the others."""
    pools = {"prefill": {"tensor": 2}, "decode": {"tensor": 4}}
    load = {"concurrency": 2, "input": 240, "output": 16, "requests": 4}
    found = serve(NAME, {"plan": pools, "load": load})

    assert found.memory.largest_batch == found.answer.kv.capacity_tokens // 256
