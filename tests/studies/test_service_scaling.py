"""Scaling of services: more replicas for a larger load, more devices for the same one."""

import pytest

import clustersim
from clustersim.cli import main

NAME = "llama3-70b-h100-serving"
SMALL = ["load.concurrency=8", "load.requests=32"]


def test_replicas_with_their_own_users_keep_the_rate_of_a_device():
    """Twice the devices with twice the users have nearly the same tokens/s per device."""
    (curve,) = clustersim.scale_service(NAME, weak=[8, 16], settings=SMALL, jobs=1).curves
    first, second = curve.points

    assert (curve.axis, curve.against, first.efficiency) == ("replicas", 8, 1.0)
    assert (second.load, second.set["plan.replicas"]) == (16.0, 2)
    assert second.efficiency == pytest.approx(1, rel=0.05)


def test_more_devices_for_the_same_load_are_faster_and_less_efficient():
    """A larger tensor degree shortens a token, by less than the devices grow."""
    found = clustersim.scale_service(NAME, strong="2,4,8,24", settings=SMALL, jobs=1)
    two, four, eight, wrong = found.curves[0].points

    assert two.measures["tpot"] > four.measures["tpot"] > eight.measures["tpot"]
    assert 1 == two.efficiency > four.efficiency > eight.efficiency
    assert "24 does not divide" in wrong.why


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--axis", "data"], "--axis data: unknown axis (allowed: replicas, tensor, pipeline)"),
        (["--weak", "12"], "replicas: 1 x 12 / 8 devices is not a whole number"),
        (["--strong", "8", "--against", "4"], "--against 4: is not on the curve"),
        (["frontier-22b"], "frontier-22b: a service is scaled alone"),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, monkeypatch, words, complaint):
    """The line names the option and what is allowed; the exit code is 2."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["scale", NAME, *words, "--set", "load.concurrency=2", "--set", "load.requests=4"])
    err = capsys.readouterr().err

    assert end.value.code == 2
    assert complaint in err
    assert err.count("\n") == 1
