"""Metered power and energy: what is graded, by which power, and what is not."""

import pytest

from clustersim.validation.answer import validation_of
from clustersim.validation.case_runs import run_cases
from clustersim.validation.cases.rows import parse_entries

DC, AC = {"power_side": "DC"}, {"power_side": "AC"}
H100 = {"accelerator": "H100-SXM5-80GB", "cooling": "immersion"}


def row(name, kind="metered", system=None, **given):
    """Return a row of the family of energies."""
    return {
        "id": name,
        "group": "g",
        "family": "energy",
        "energy_kind": kind,
        "system": {**H100, **(system or {})},
        "devices": 8,
        "nodes": 1,
        **given,
    }


def outcomes(*rows):
    """Return the outcome of each row."""
    return run_cases(parse_entries([*rows]))


def test_metered_energies_are_met_to_ten_percent():
    """Adapters on one node, a network that is not replayed, and HPL of two machines."""
    lora, mi250x = {"name": "llama2_70b_lora"}, {"name": "frontier", "accelerator": "MI250X"}
    fugaku = {"name": "fugaku", "accelerator": "A64FX"}
    direct, mains = {"energy_kj": 11769.96}, {"energy_kj": 12127.9}
    resnet = {"energy_kj": 5671.89, "minutes": 13.425}
    hpl = {"power_mw": 21.1, "hpl_pflops": 1102}
    node = {"max_w": 8480, "llama2_13b_median_w": 7920}
    found = outcomes(
        row("dc", system=DC, model=lora, measured={**direct, "minutes": 29.101}),
        row("ac", system=AC, model=lora, measured={**mains, "minutes": 29.101}),
        row("resnet", system=AC, model={"name": "resnet"}, measured=resnet),
        row("frontier", system=mi250x, nodes=9408, measured=hpl),
        row("fugaku", system=fugaku, nodes=158976, measured={"power_mw": 29.9}),
        row("node", system={"cooling": None}, measured=node),
    )
    errors = {each.id: each.grade.error for each in found}

    assert all(abs(error) < 0.1 for error in errors.values()), errors
    assert validation_of(found).all.mean_abs_error < 0.05


def test_the_meter_decides_what_is_counted():
    """Direct current excludes losses of supplies, and liquids have no fans."""
    run = {"model": {"name": "x"}, "measured": {"energy_kj": 100.0, "minutes": 1.0}}
    dc, ac, air = (
        each.grade.predicted
        for each in outcomes(
            row("dc", system=DC, **run),
            row("ac", system=AC, **run),
            row("air", system={**AC, "cooling": None}, **run),
        )
    )

    assert dc == pytest.approx(0.977 * ac)
    assert air - ac == pytest.approx(670 * 60 / 1e3)


def test_energy_is_mean_power_over_the_measured_time():
    """A run of twice the time has twice the energy, with the reason among the assumptions."""
    short, long = outcomes(
        *(
            row(f"{minutes}", model={"name": "x"}, measured={"energy_kj": 1.0, "minutes": minutes})
            for minutes in (5.0, 10.0)
        )
    )

    assert long.grade.predicted == pytest.approx(2 * short.grade.predicted)
    assert long.others[0].metric == "power_w"
    assert "minutes" in long.assumed
    assert "not replayed" in long.assumed["workload"]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("tdp-times-hours", "hours times the limit of the board"),
        ("assumed-average", "hours times an assumed power"),
        ("measured-average-power", "hours times a mean power"),
        ("reported", "a window of time"),
        ("sampled-gpu-power", "layout is not stated"),
        ("guessed", "energy_kind 'guessed' is not known"),
        (None, "not stated: energy_kind"),
    ],
)
def test_energies_that_are_no_measurement_are_not_graded(kind, why):
    """Each kind has its reason."""
    [found] = outcomes(row("a", kind=kind, measured={"energy_kj": 1.0, "minutes": 1.0}))

    assert found.grade is None
    assert why in found.answer.why


def test_rows_without_a_number_or_a_machine_are_listed():
    """An unknown accelerator, and a row without power or energy, have their reasons."""
    unknown, empty, unpowered = outcomes(
        row("a", system={"accelerator": "TPUv3"}, measured={"energy_kj": 1.0, "minutes": 1.0}),
        row("b", measured={}),
        row("c", system={"name": "aurora"}, measured={"energy_kj": 1.0, "minutes": 1.0}),
    )

    assert "no machine file for 'TPUv3'" in unknown.answer.why
    assert "no measured power or energy" in empty.answer.why
    assert "has no power" in unpowered.answer.why
