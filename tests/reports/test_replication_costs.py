"""The lines, the section and the chart of a run with disturbances."""

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from clustersim.cli import app
from clustersim.cli.verbs.run import MAX_REPLICATIONS
from clustersim.reports.step.page import page
from clustersim.reports.step.sections import costs_chart
from clustersim.reports.step.text import rows
from clustersim.scenario.load import load
from clustersim.simulation.step.replications import replicate
from clustersim.simulation.step.simulate import simulate
from tests.commands import rejected

SETTINGS = {
    "batch.global": 32,
    "disturbances": [
        {"type": "slow-device", "name": "hot device", "devices": [3], "factor": 1.3},
        {"type": "jitter", "deviation": 0.05},
        {"type": "slow-link", "link": "n0.dev0>n0.dev1", "bandwidth": 0.1},
    ],
}


@pytest.fixture(scope="module")
def loaded():
    return load("frontier-22b", SETTINGS)


@pytest.fixture(scope="module")
def result(loaded):
    return replace(simulate(loaded), replications=replicate(loaded, 3))


def test_an_answer_names_its_disturbances(result):
    """Each has its name, its type and the number of devices that it concerns."""
    assert [(each.name, each.type, each.devices) for each in result.answer.disturbances] == [
        ("hot device", "slow-device", 1),
        ("jitter", "jitter", 16),
        ("slow-link", "slow-link", None),
    ]


def test_the_lines_of_a_run_state_what_each_disturbance_costs(result):
    """The names, the step time over the replications, and the time recovered without each."""
    lines = {row.label: row.text for row in rows(result)}

    assert lines["disturbances"] == "hot device (1 device), jitter (16 devices), slow-link"
    assert lines["replications"].startswith("3 steps: mean ")
    assert lines["cost"].startswith("hot device ")
    assert "waiting for the slowest" in lines["time"]


def test_a_step_of_random_times_is_stated_to_be_one_draw(loaded, result):
    """The first line had one step of 829.8 ms, where ten took 762.2 ms in the mean."""
    note = "one draw of random times: --replications 10 has mean, spread and costs"
    fixed = {"type": "slow-device", "devices": [3], "factor": 1.3}
    texts = [row.text for row in rows(simulate(loaded))]

    assert note in texts
    assert note not in [row.text for row in rows(result)]
    plain = load("frontier-22b", {"batch.global": 32, "disturbances": [fixed]})
    assert note not in [row.text for row in rows(simulate(plain))]


def test_a_run_without_disturbances_has_no_lines_and_no_section_on_them():
    """An undisturbed run is printed as before."""
    plain = load("frontier-22b", {"batch.global": 32})
    result = simulate(plain)

    assert not {"disturbances", "replications", "cost"} & {row.label for row in rows(result)}
    assert "disturbances" not in [section.id for section in page(result).sections]


def test_the_page_has_a_section_with_the_chart(loaded, result):
    """The section stands after the components of the step, with a chart and a table."""
    sections = page(result).sections
    [section] = [each for each in sections if each.id == "disturbances"]

    assert [each.id for each in sections].index("disturbances") == 2
    assert len(section.blocks) == 2
    assert [line[0] for line in section.blocks[1].rows] == ["hot device", "jitter", "slow-link"]


def test_the_chart_leads_from_the_mean_to_the_undisturbed_step(result):
    """The costs of all disturbances and their interaction are the time recovered without all."""
    chart = costs_chart(result)
    found = result.replications
    total = sum(step.change for step in chart.steps)

    assert total / chart.start == pytest.approx(-found.recovered_s / found.mean_s)


def test_replications_of_the_command_line_are_limited(capsys):
    """An impossible number of replications is rejected at once; a possible one is in the answer."""
    many = ["run", "frontier-22b", "--replications", str(MAX_REPLICATIONS + 1)]
    disturbances = json.dumps(SETTINGS["disturbances"])
    once = [
        "run", "frontier-22b", "--json", "--set", "batch.global=32", "--replications", "1",
        "--set", f"disturbances={disturbances}",
    ]  # fmt: skip

    assert rejected(capsys, *many) == "--replications 10001: must be at most 10000\n"
    printed = CliRunner().invoke(app, once, catch_exceptions=False).stdout
    assert json.loads(printed)["replications"]["count"] == 1
