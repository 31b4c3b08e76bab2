"""What is wrong with a serving scenario: a line with file, key, value, and what is allowed."""

import pytest

from clustersim.errors import ScenarioError
from clustersim.scenario.load import load, load_service
from clustersim.simulation.service.serve import serve
from commands import output
from wrong_values import wrong_values

NAME = "llama3-70b-h100-serving"


def test_a_part_of_a_precision_that_is_a_word_can_be_changed():
    """The word is that of the weights, and the other parts are added to it."""
    changed = load_service("llama3-70b-h100-serving", ["precision.kv=fp8"]).scenario.precision

    assert (changed.weights, changed.kv) == ("fp8", "fp8")


def test_a_verb_names_the_other_one():
    """A serving scenario is no training step, and the other way round."""
    with pytest.raises(ScenarioError, match=r"a serving scenario .*clustersim serve"):
        load(NAME)
    with pytest.raises(ScenarioError, match=r"load: missing .*clustersim run"):
        load_service("frontier-22b")


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (["plan.tensor=1", "precision=bf16"], "does not fit: a device needs"),
        (["plan.tensor=1", "precision=int4", "load.input=200000"], "no KV room for one request"),
    ],
)
def test_too_much_memory_is_a_verdict(settings, why):
    """Weights, or one request, that do not fit: a verdict by how much, without times."""
    found = serve(NAME, settings)

    assert not found.memory.fits
    assert why in found.memory.verdict
    assert found.answer.ttft_s is None
    assert found.answer.output_tokens_per_s is None


def test_a_service_that_needs_a_larger_share_of_its_devices_names_it():
    """70B in 4 bits on two cards of 24 GB had a verdict without a remedy."""
    given = {"cluster": {"name": "desktop-2x3090", "nodes": 1}, "precision": "int4"}
    given |= {"load": {"concurrency": 1, "input": 1024, "output": 256}, "plan.tensor": 2}
    verdict = serve(NAME, given).memory.verdict
    remedy = verdict.partition("; fits with --set ")[2]

    assert remedy.startswith("engine.memory.share=0.9")
    key, _, share = remedy.partition("=")
    assert serve(NAME, given | {key: float(share)}).memory.fits
    assert "fits with" not in serve(NAME, given | {"plan.tensor": 1}).memory.verdict
    assert serve(NAME).answer.memory.fits


def test_a_service_on_some_devices_of_its_nodes_states_how_many(capsys):
    """Of 32 devices the layout took 8, and "4 nodes, 8 devices" was all that was printed."""
    text = output(capsys, "serve", NAME, "--set", "plan.tensor=2", "--set", "cluster.nodes=2")

    assert "2 nodes of dgx-h100, 2 of 16 x h100-sxm" in text


def test_limits_that_no_request_meets_are_a_verdict():
    """Goodput is 0, with the shortest time of any request."""
    found = serve(NAME, ["limits.tpot=1 ms"]).goodput

    assert found.share == found.requests_per_s == 0
    assert found.tpot_share == 0
    assert found.tpot_least_s > 0.001


@pytest.mark.parametrize(("name", "text", "complaint"), wrong_values("traces that are none"))
def test_a_wrong_trace_is_one_line(here, name, text, complaint):
    """The line names the file, its line, the field and its value."""
    (here / name).write_text(f"{text}\n", encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        serve(NAME, [f"load={{trace: {name}}}"])

    assert complaint in str(caught.value)


def test_a_trace_gives_arrivals_and_lengths(here):
    """Requests come in the order of their arrivals, the first one at 0."""
    text = "arrival,input,output\n12.5,100,4\n10,50,2\n"
    (here / "t.csv").write_text(text, encoding="utf-8")
    frame = serve(NAME, ["load={trace: t.csv}"]).frame

    assert frame["arrival"].tolist() == [0.0, 2.5]
    assert frame["input"].tolist() == [50, 100]
    assert frame["output"].tolist() == [2, 4]


def test_the_same_seed_gives_the_same_requests():
    """The seed decides lengths and arrivals; another rate keeps the lengths."""
    settings = ["load={rate: 2, input: {uniform: [10, 99]}, output: 8, requests: 50}"]
    one, two = (serve(NAME, settings) for _ in range(2))
    other = serve(NAME, [*settings, "load.rate=4"])

    assert one.frame.equals(two.frame)
    assert one.frame["input"].tolist() == other.frame["input"].tolist()
    assert one.frame["arrival"].iloc[-1] == pytest.approx(2 * other.frame["arrival"].iloc[-1])


def test_a_second_kind_of_load_names_the_setting_that_removes_the_first():
    """A rate next to the concurrency of the file is one line with a remedy that works."""
    with pytest.raises(ScenarioError) as error:
        load_service(NAME, ["load.rate=10"])
    remedy = "load.concurrency=null"

    assert f"or rate with --set {remedy})" in str(error.value)
    assert load_service(NAME, ["load.rate=10", remedy]).scenario.load.kind == "rate"


@pytest.mark.parametrize(("stated", "rate"), [("10/s", 10.0), ("600/min", 10.0), (10, 10.0)])
def test_a_rate_may_have_its_unit(stated, rate):
    """Requests in a second, or in a minute; another unit is no rate."""
    load = {"rate": stated, "input": 1024, "output": 256}

    assert load_service(NAME, {"load": load}).scenario.load.rate == rate
    with pytest.raises(ScenarioError, match=r"load.rate: must be a number, not '10/GB'"):
        load_service(NAME, {"load": load | {"rate": "10/GB"}})
