"""The verb `train`: its lines, its JSON, its files."""

import json

import numpy as np
import pytest

from clustersim.render.page.page import render
from clustersim.reports.training_run.charts import charts_of
from clustersim.reports.training_run.files import page
from clustersim.reports.training_run.text import rows
from clustersim.simulation.training_run.train import train
from commands import output

KEYS = (
    "days", "goodput", "interruptions", "accounting", "checkpoint", "energy_kwh", "power_w", "cost",
    "co2e_kg", "replications", "wall_s",
)  # fmt: skip


FAST = ["train", "megatron-1t-84-days", "--set", "training.replications=50"]


def test_json_has_its_documented_keys(capsys):
    """One object with the keys that scripts read; parts of the time add up."""
    answer = json.loads(output(capsys, *FAST, "--json"))

    assert answer.keys() >= {*KEYS}
    assert [*answer["accounting"]] == [
        "useful", "lost", "saving", "restarting", "waiting", "planned",
    ]  # fmt: skip
    assert sum(answer["accounting"].values()) == pytest.approx(86_400 * answer["days"])
    assert {"bytes", "block_s", "durable_s", "every_s"} <= answer["checkpoint"].keys()
    for key in ("energy_kwh", "power_w", "cost", "co2e_kg"):
        assert answer[key] is not None or answer["unavailable"][key]


def test_the_folder_has_a_page_and_the_data_of_its_charts(capsys, tmp_path):
    """The page is written with each chart's table; figures only on request."""
    text = output(capsys, *FAST, "--out", tmp_path / "out", "--figures", "svg")
    names = {file.name for file in (tmp_path / "out").iterdir()}

    assert {"report.html", "summary.json", "intervals.csv", "calendar.csv", "sizes.svg"} <= names
    assert "interval" in text
    assert "within 0.1 point" in text
    assert len(text.splitlines()) <= 17


SITE = {"training.replications": 50, "costs.site": "jean-zay", "costs.price": "purchase"}


@pytest.fixture(scope="module")
def at_a_site():
    """A run with devices of its own at a site whose electricity has a price."""
    return train("megatron-1t-84-days", SITE)


def test_energy_and_price_are_what_they_are_made_of(at_a_site):
    """Parts of the time add up to the energy, rate and electricity to the price."""
    bill = at_a_site.bill
    devices = bill.device_hours * bill.usd_per_device_hour
    share = 1e12 / at_a_site.tokens

    assert sum(bill.by_account.values()) == pytest.approx(at_a_site.energy_kwh)
    assert at_a_site.energy_kwh == pytest.approx(1.2 * bill.machine_kwh)
    assert devices + bill.electricity_usd == pytest.approx(at_a_site.cost)
    assert bill.electricity_usd == pytest.approx(0.08 * at_a_site.energy_kwh)
    assert at_a_site.co2e_kg == pytest.approx(0.057 * at_a_site.energy_kwh)
    assert bill.device_hours == pytest.approx(24 * 3072 * at_a_site.days)
    assert bill.per_trillion_tokens["cost"] == pytest.approx(share * at_a_site.cost)


def _rows(answer):
    return {row.label: row.text for row in rows(answer)}


def test_the_price_of_a_run_has_the_rate_that_it_is_from(at_a_site):
    """The line has the rate with its quotes, and the electricity of a purchase."""
    price, bill = _rows(at_a_site)["price"], at_a_site.bill

    assert f"USD, {bill.usd_per_device_hour:.3g} USD per device and hour, purchase" in price
    assert bill.quote in price
    assert price.endswith(f"; {bill.electricity_usd:,.0f} USD of electricity at jean-zay")


def test_the_days_of_a_run_that_does_not_fit_are_hypothetical():
    """The duration is marked where no device has room for the job, and only there."""
    unfit = {"training.tokens": 1e9, "recompute": "none", "batch.micro": 8, "batch.global": 64}
    marked = _rows(train("frontier-22b", unfit))
    fits = _rows(train("frontier-22b", {"training.tokens": 1e9}))

    assert marked["memory"].startswith("does not fit")
    assert marked["duration"].endswith("(hypothetical: the job does not fit in memory)")
    assert "hypothetical" not in fits["duration"]


def test_the_spread_of_the_days_has_its_unit(at_a_site):
    """Replications end between two numbers of days."""
    assert _rows(at_a_site)["duration"].endswith(" days")


def test_power_over_a_step_has_its_energy(at_a_site):
    """The mean of the levels is the power of a step, between those that are drawn."""
    levels = at_a_site.power_levels
    seconds = np.diff(levels.time_s)
    mean = (seconds * levels.watts).sum() / seconds.sum()
    useful = at_a_site.bill.by_account["useful"] / at_a_site.bill.pue * 3.6e6

    assert seconds.sum() == pytest.approx(at_a_site.stages[-1].step_time_s)
    assert mean == pytest.approx(useful / at_a_site.accounting.useful)
    assert len(levels.watts) <= 400


def test_the_power_of_each_day_is_that_of_its_hours(at_a_site):
    """A day draws between the power of waiting devices and that of a step, site included."""
    chart = charts_of(at_a_site)["power-run"]
    days = np.array(chart.series[0].y)
    seconds, kwh = vars(at_a_site.accounting), at_a_site.bill.by_account
    watts = [3.6 * kwh[name] / seconds[name] for name in ("useful", "restarting")]  # MW

    assert len(days) == len(at_a_site.calendar)
    assert watts[1] < days.min() <= days.max() <= watts[0] * (1 + 1e-12)


def test_the_page_has_power_and_a_table_of_costs(at_a_site):
    """Rate with its quotes, electricity, emissions, and the same for a trillion tokens."""
    text = render(page(at_a_site))

    assert "rate of a device" in text
    assert at_a_site.bill.quote in text
    assert "57 g CO2e/kWh of site jean-zay" in text
    assert "price per trillion tokens" in text
    assert "In a step the machine draws between" in text


def test_the_largest_loss_was_called_most_of_the_rest(at_a_site):
    """The title names the highest bar, whatever its share of the losses; power begins at 0."""
    charts = charts_of(at_a_site)
    bars = charts["accounting"].bars
    highest = max(bars, key=lambda bar: bar.value)

    assert charts["accounting"].title.endswith(f"the largest loss is {highest.name}")
    assert charts["power"].framed().y.limits[0] == charts["power"].x.limits[0] == 0.0


def test_the_page_of_a_run_without_prices_states_the_reason():
    """Fugaku's devices have no quotes, so that a sentence stands for the price."""
    text = render(page(train("fugaku-llm-run", {"training.replications": 2})))

    assert "Price: no on-demand price of a64fx is quoted" in text
    assert "rate of a device" not in text


def test_minutes_were_printed_as_shares_of_a_day():
    """A run of 300 M tokens takes 89 min, not 0.062 days, and its reasons have units as well."""
    short = train("megatron-1t-84-days", ["training.tokens=300M", "training.replications=1"])
    rare = train("megatron-1t-84-days", ["training.checkpoint.every=25 h"])

    assert next(iter(rows(short))).text.endswith(" min for 300 million tokens")
    assert rare.warnings[0].startswith("the interval of 25 h is longer than twice the mean time")


@pytest.mark.large
def test_low_goodput_has_its_reason(capsys, tmp_path):
    """Restarts longer than the time between failures are named as the reason."""
    scheduling = "--set", "training.restart.scheduling=1 d"

    assert "tends to zero" in output(capsys, *FAST, *scheduling, "--out", tmp_path / "out")


@pytest.mark.parametrize("scheduling", [None, "5 min"])
def test_restarts_that_take_no_time_were_not_among_what_is_assumed(scheduling):
    """Without `training.restart` nothing is detected, scheduled or initialised in any time."""
    restart = {} if scheduling is None else {"restart": {"scheduling": scheduling}}
    training = {"steps": 1000, "failures": "rsc-1", "replications": 2, **restart}
    found = train("frontier-22b", {"training": training})
    no_time = "restart assumed detection, scheduling and initialisation take no time"

    assert ("training.restart" in found.assumed) == (scheduling is None)
    assert (no_time in _rows(found)["failures"]) == (scheduling is None)
    assert "spares assumed without limit" in _rows(found)["failures"]
