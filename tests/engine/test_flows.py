"""`clustersim flows`: explicit cases against SimGrid, and the errors of a broken file."""

import copy
import json
from pathlib import Path

import pytest

from clustersim.cli.verbs.flows import flows
from clustersim.engine.network.flows import FinishTimes, FlowCase, finish_times, read_flow_cases
from clustersim.errors import ScenarioError
from wrong_values import wrong_values

EXAMPLES = Path(__file__).parents[1] / "data" / "maxmin_examples.json"

GOOD = {
    "cases": [
        {
            "id": "two",
            "links": [{"id": "a>b", "bandwidth": 10.0, "latency": 1.0}],
            "flows": [
                {"id": "f0", "route": ["a>b"], "start": 0, "bytes": 20},
                {"id": "f1", "route": ["a>b"], "start": 0, "bytes": 20},
            ],
        }
    ]
}


@pytest.mark.parametrize(
    ("case", "expected"),
    [*zip(read_flow_cases(EXAMPLES), json.loads(EXAMPLES.read_text())["cases"], strict=True)],
    ids=lambda case: case.id if isinstance(case, FlowCase) else "",
)
def test_finish_times_agree_with_simgrid(case, expected):
    """Each flow finishes at the instant that SimGrid 3.32 computes, to 1e-6 of it."""
    answer = finish_times(case)

    assert answer.finish == {
        f["id"]: pytest.approx(f["finish"], rel=1e-6) for f in expected["flows"]
    }
    assert answer.makespan == pytest.approx(expected["makespan"], rel=1e-6)


def test_crossing_a_link_twice_takes_it_twice():
    """A route that comes back over its link moves at half of it and waits its latency twice."""
    flow = {"id": "f", "route": ["a>b", "a>b"], "start": 0, "bytes": 20}
    case = FlowCase.model_validate({**GOOD["cases"][0], "flows": [flow]})

    assert finish_times(case).makespan == 2 + 20 / 5


def test_no_flows_take_no_time():
    """A case without flows has a makespan of 0."""
    assert finish_times(FlowCase(id="x", links=[], flows=[])) == FinishTimes({}, 0.0)


@pytest.fixture
def file(tmp_path):
    """A file of the good cases."""
    path = tmp_path / "cases.json"
    path.write_text(json.dumps(GOOD))
    return path


def changed(path, value):
    """Return the good file with one value replaced, or removed where it is Ellipsis."""
    content = copy.deepcopy(GOOD)
    *way, last = path
    place = content
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return content


CASE, LINK, FLOW = ("cases", 0), ("cases", 0, "links", 0), ("cases", 0, "flows", 0)


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        *wrong_values("flows"),
        ("cases 0 flows 0 bytes", f"1{'0' * 400}", "flow 'f0'.bytes: 1000000000000000000000000000"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(file, path, value, problem):
    """The error is one line: file, case, key, value, what is allowed."""
    way = [int(word) if word.isdecimal() else word for word in path.split()]
    given = ... if value == "(none)" else json.loads(value)
    file.write_text(json.dumps(changed(way, given)))

    with pytest.raises(ScenarioError) as caught:
        read_flow_cases(file)
    message = str(caught.value)
    assert message.startswith(f"{file}: ")
    assert problem in message
    assert "\n" not in message


def test_a_case_id_given_twice_is_named(file):
    """Two cases of one id would hide one answer behind the other."""
    file.write_text(json.dumps({"cases": GOOD["cases"] * 2}))

    with pytest.raises(ScenarioError, match=r"cases\[1\]\.id: 'two' appears twice"):
        read_flow_cases(file)


def test_all_problems_of_a_file_are_printed_together(file):
    """Two wrong values make two lines, each with the file."""
    content = changed((*FLOW, "bytes"), -1)
    content["cases"][0]["links"][0]["bandwidth"] = 0
    file.write_text(json.dumps(content))

    with pytest.raises(ScenarioError) as caught:
        read_flow_cases(file)
    lines = str(caught.value).splitlines()
    assert len(lines) == 2
    assert all(line.startswith(f"{file}: case 'two': ") for line in lines)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", ":1: is not JSON .Expecting property name"),
        ("[]", "has no list 'cases'"),
        ('{"cases": {}}', "has no list 'cases'"),
    ],
)
def test_a_file_of_another_kind_is_rejected(file, text, problem):
    """Not JSON, or not a file of cases: one line."""
    file.write_text(text)

    with pytest.raises(ScenarioError, match=problem) as caught:
        read_flow_cases(file)
    assert "\n" not in str(caught.value)


def test_json_is_one_object_by_case(file, capsys):
    """`--json` prints finish and makespan of every case, and nothing else."""
    flows(file, json_output=True)

    answer = {"two": {"finish": {"f0": 5.0, "f1": 5.0}, "makespan": 5.0}}
    assert json.loads(capsys.readouterr().out) == answer


def test_the_table_shows_each_flow(file, capsys):
    """Without `--json` each case is a table with its makespan below."""
    flows(file, json_output=False)

    shown = capsys.readouterr().out
    assert all(word in shown for word in ("two", "f0", "f1", "a>b", "finish [s]", "makespan 5 s"))


def test_a_negative_zero_is_zero(tmp_path, capsys):
    """A table had -0 bytes."""
    case = copy.deepcopy(GOOD)
    case["cases"][0]["flows"][0]["bytes"] = -0.0
    path = tmp_path / "flows.json"
    path.write_text(json.dumps(case))
    flows(path, json_output=False)

    assert "-0" not in capsys.readouterr().out
