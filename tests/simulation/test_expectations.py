"""Expectations: an answer of any kind holds or misses them, and `--strict` ends by them."""

import json
import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

import clustersim
from clustersim.scenario.load import load, load_any
from clustersim.simulation.expectations import compare_with, read_expectations
from clustersim.simulation.limits import kinds_of
from clustersim.simulation.measures import measures_of
from commands import ending, output, rejected
from small import SCENARIO, small

SERVICE = """\
title: Llama 3 8B on one H100
cluster: {name: dgx-h100, nodes: 1}
model: llama3-8b
plan: {tensor: 1}
precision: bf16
engine: vllm
load: {rate: 2, input: 256, output: 32}
"""

RUN = (
    SCENARIO
    + """\
training: {tokens: 1e9, failures: none}
"""
)

SIGNS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def written(folder, text, **expected):
    """Return the file of a scenario with expectations."""
    file = folder / "mine.yaml"
    file.write_text(f"{text}expect: {json.dumps(expected)}\n", encoding="utf-8")
    return file


def by_measure(answer):
    """Return the expectations of an answer by name."""
    return {each.measure: each for each in answer.expectations}


@pytest.fixture(scope="module")
def small_answer(tmp_path_factory):
    """The answer of a small scenario."""
    return clustersim.simulate(small(tmp_path_factory.mktemp("small"))).answer


@given(sign=st.sampled_from(sorted(SIGNS)), factor=st.sampled_from([0.5, 1.0, 2.0]), data=st.data())
def test_an_expectation_is_held_where_its_inequality_holds(small_answer, sign, factor, data):
    """Any measure of a step can be expected; held is the inequality of its value and the limit."""
    numbers = small_answer.measures()
    name = data.draw(st.sampled_from(sorted(numbers)))
    limit = factor * numbers[name]
    unit = {"bytes": " B", "seconds": " s", "watts": " W"}.get(
        measures_of(["step"])[name].dimension, ""
    )
    loaded = load("frontier-22b", {f"expect.{name}": f"{sign} {limit!r}{unit}"})

    (verdict,) = compare_with(read_expectations(loaded), small_answer)

    assert verdict.limit == pytest.approx(limit)
    assert verdict.held == SIGNS[sign](numbers[name], verdict.limit)


def test_step_run_and_service_list_their_expectations(tmp_path):
    """One section holds limits of a step, of a whole run with its step, and of a service."""
    step = clustersim.simulate(
        written(tmp_path, SCENARIO, step_time_s="< 1000 s", mfu=">= 99 %", **{"memory.fits": True})
    ).answer
    assert [each.held for each in step.expectations] == [True, False, True]
    assert by_measure(step)["mfu"].why.endswith("times the limit), expected >= 99 %")

    run = clustersim.train(written(tmp_path, RUN, days="< 100 days", step_time_s=0.001))
    assert {name: each.held for name, each in by_measure(run).items()} == {
        "days": True,
        "step_time_s": False,
    }

    service = clustersim.serve(written(tmp_path, SERVICE, ttft_p99="< 2 s", tpot="1 us")).answer
    assert [each.held for each in service.expectations] == [True, False]


def test_a_bare_value_is_the_worst_that_is_allowed(tmp_path):
    """Without a sign a time is at most the value, a rate at least."""
    answer = clustersim.simulate(written(tmp_path, SCENARIO, step_time_s=1000, mfu="1 %")).answer

    assert [(each.sign, each.held) for each in answer.expectations] == [("<=", True), (">=", True)]


def test_a_table_in_a_table_is_a_name_with_a_dot(tmp_path):
    """`memory: {fits: true}` and ``--set expect.memory.fits=true`` are `memory.fits`."""
    nested = load(written(tmp_path, SCENARIO, memory={"fits": True}))
    dotted = load(small(tmp_path), ["expect.memory.fits=true"])

    assert [line.name for line in read_expectations(nested)] == ["memory.fits"]
    assert [line.name for line in read_expectations(dotted)] == ["memory.fits"]


def test_a_job_that_does_not_fit_holds_nothing_but_its_memory(tmp_path):
    """Its step time is hypothetical: no limit of it is held, however large."""
    file = written(
        tmp_path, SCENARIO, step_time_s="< 1e9", devices="<= 8", **{"memory.fits": False}
    )
    answer = clustersim.simulate(file, {"batch.micro": 16, "batch.sequence": 16384}).answer

    assert not answer.memory.fits
    assert {name: each.held for name, each in by_measure(answer).items()} == {
        "step_time_s": False,
        "devices": True,
        "memory.fits": True,
    }
    assert answer.memory.verdict in by_measure(answer)["step_time_s"].why


def test_a_service_whose_queue_grows_holds_nothing_but_its_queue(tmp_path):
    """No limit of a time or a rate is held, one of the queue or of memory may be."""
    expected = {"tpot": "< 1 h", "requests_per_s": "> 0", "sustainable_rate": "> 1"}
    file = written(tmp_path, SERVICE, **expected, queue_growth="> 0", **{"memory.fits": True})
    answer = clustersim.serve(file, {"load.rate": 10000}).answer

    assert [each.held for each in answer.expectations] == [False, False, True, True, True]
    assert "unstable: the queue grows by" in by_measure(answer)["tpot"].why


def test_a_measure_without_a_value_is_missed_with_the_reason(tmp_path):
    """A price that is not quoted holds no limit; one that is, is that of studies."""
    prices = {"usd_per_hour": "< 1e9 USD/h", "tokens_per_dollar": "> 0"}
    known = clustersim.simulate(
        written(tmp_path, SCENARIO + "costs: {usd_per_device_hour: 2}\n", **prices)
    ).answer
    assert [each.held for each in known.expectations] == [True, True]
    assert by_measure(known)["usd_per_hour"].value == 16

    unknown = clustersim.simulate("frontier-22b", {"batch.global": 32, "expect": prices}).answer
    assert [(each.held, each.value) for each in unknown.expectations] == [(False, None)] * 2
    assert "price of mi250x-gcd is quoted" in unknown.expectations[0].why


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("stp_time_s", "< 12", "unknown measure (did you mean 'step_time_s'"),
        ("fits", True, "unknown measure (did you mean 'memory.fits'?"),
        ("memory.fits", "yes", "must be true or false, not 'yes'"),
        ("mfu", True, "True is no limit (a sign and a number: '>= 40.0 %')"),
        ("mfu", ">=", "'>=' is no limit"),
        ("mfu", "> 40 GB", "must be a number, not '40 GB'"),
        ("step_time_s", "< 12 GB", "'12 GB' is not in a unit of seconds"),
        ("step_time_s", "< -1", "must not be negative"),
        ("memory_capacity_bytes", "80 GB", "'80 GB' is no limit (a sign and a number:"),
        ("days", "< 3", "mine has no section training, whose run it is of"),
        ("tpot", "< 3 ms", "unknown measure (such as"),
        ("mfu", [1, 2], "must be true or false or"),
    ],
)
def test_a_wrong_expectation_is_one_line_before_anything_is_simulated(
    capsys, monkeypatch, tmp_path, name, value, message
):
    """The line has file, line and key; no folder is written."""
    monkeypatch.chdir(tmp_path)
    error = rejected(capsys, "run", written(tmp_path, SCENARIO, **{name: value}))

    assert error.startswith(f"mine.yaml:9: expect.{name}: ")
    assert message in error
    assert not (tmp_path / "runs").exists()


def test_a_limit_without_quotes_names_the_remedy(capsys, tmp_path):
    """`mfu: >= 0.4` begins a text of several lines in YAML, which is an error."""
    file = tmp_path / "mine.yaml"
    file.write_text(f"{SCENARIO}expect:\n  mfu: >= 0.4\n", encoding="utf-8")

    assert "mine.yaml:10: is not valid YAML" in (error := rejected(capsys, "run", file))
    assert "write it in quotes: '>= 0.4')" in error


@pytest.mark.parametrize(
    ("verb", "text"),
    [("run", SCENARIO), ("train", RUN), pytest.param("serve", SERVICE, marks=pytest.mark.large)],
)
def test_strict_ends_with_code_3_and_a_line_for_each_that_is_missed(capsys, tmp_path, verb, text):
    """The answer is printed all the same; without `--strict` the code is 0."""
    name = "days" if verb == "train" else "devices"
    file = written(tmp_path, text, **{"memory.fits": True, name: 0})

    code, out, error = ending(capsys, verb, file, "--json", "--strict")
    assert code == 3
    assert [each["held"] for each in json.loads(out)["expectations"]] == [True, False]
    assert error.startswith(f"{file}:{text.count(chr(10)) + 1}: expect.{name}: missed: ")
    assert error.count("\n") == 1
    assert json.loads(output(capsys, verb, file, "--json"))["expectations"]

    change = ("--set", f"expect.{name}=< 1e9")
    assert json.loads(output(capsys, verb, file, "--json", "--strict", *change))


@pytest.mark.large
def test_text_and_page_list_expectations(capsys, tmp_path):
    """A line for each in the text, and a card with the number that is missed on the page."""
    for verb, text, name in (
        ("run", SCENARIO, "devices"),
        ("train", RUN, "days"),
        ("serve", SERVICE, "devices"),
    ):
        file = written(tmp_path, text, **{name: 0, "memory.fits": True})
        out = output(capsys, verb, file, "--out", tmp_path / verb)

        assert f"expected      {name} missed: " in out
        assert "expected      memory.fits held: " in out
        page = (tmp_path / verb / "report.html").read_text(encoding="utf-8")
        assert "1 of 2 missed" in page


def test_expectations_are_no_other_run(tmp_path):
    """An expectation that is set leaves the published numbers those of this run."""
    loaded = load_any("frontier-22b", {"expect.mfu": ">= 0.4"})

    assert loaded.departures == ()
    assert kinds_of(loaded) == ("step",)
