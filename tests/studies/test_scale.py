"""`clustersim scale`: points of curves, efficiency and losses, published points."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.image import imread
from typer.testing import CliRunner

import clustersim
from clustersim.answers import from_json, to_json
from clustersim.cli import app
from clustersim.cli.verbs.scale import print_curves
from clustersim.render.page.page import Chart, render
from clustersim.runs.variants import Variant
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.scale import charts
from clustersim.studies.scale.answer import ScalingAnswer, SkippedPoint
from clustersim.studies.scale.arguments import ScalingRequest, curves_of
from clustersim.studies.scale.files import files_of, page
from clustersim.studies.scale.points import REPLICATIONS, PlannedPoint
from clustersim.studies.scale.scaling_curves import RunPoint, efficiency, loss
from clustersim.studies.scale.text import format_published, format_skipped, notes, table
from commands import printed
from scalings import answer_of, made_up
from small import EIGHT
from wrong_values import wrong_values

GOLDEN = Path(__file__).parents[1] / "golden" / "scaling.txt"

SMALL = ("frontier-22b", "--set", "batch.global=32")
"""16 devices, two replicas of 8 stages."""

SERVICE = "llama3-70b-h100-serving"
FEW = ["load.concurrency=8", "load.requests=32"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A study store that tests of this file share."""
    return str(tmp_path_factory.mktemp("studies") / "studies.db")


# --- laws, on steps that are made up --------------------------------------------------------------


def step_of(devices, parts, tokens):
    point = PlannedPoint(Variant("made-up"), devices, devices // 8, tokens // 1000)
    return RunPoint(point, answer_of(devices, parts, tokens), "tokens")


times = st.fixed_dictionaries(
    {part: st.floats(0.001, 100.0) for part in ("matmul", "data_communication", "bubble_fill")}
)
steps = st.builds(step_of, st.integers(1, 10**5), times, st.integers(10**3, 10**9))


@given(steps, steps)
@settings(max_examples=50, deadline=None)
def test_the_loss_is_the_sum_of_its_parts(step, first):
    """1 - E is the sum of what parts take, to 1e-9 of the device-seconds that it is made of."""
    parts, whole = loss(step, first), 1 - efficiency(step, first)

    assert sum(parts.values()) == pytest.approx(whole, rel=1e-9, abs=1e-9)


@given(steps, steps, steps)
@settings(max_examples=50, deadline=None)
def test_against_another_point_efficiencies_keep_their_ratio(step, one, other):
    """E against one point over E against another is how these two stand to each other."""
    ratio = efficiency(step, one) / efficiency(step, other)

    assert ratio == pytest.approx(efficiency(other, one), rel=1e-12)


@given(st.integers(1, 1000), st.integers(1, 1000), times)
@settings(max_examples=50, deadline=None)
def test_a_step_as_long_on_more_devices_has_efficiency_one(devices, times_more, parts):
    """Where the batch grows with the devices and the step does not, nothing is lost to any part."""
    few = step_of(devices, parts, 1000 * devices)
    many = step_of(times_more * devices, parts, 1000 * times_more * devices)

    assert efficiency(many, few) == pytest.approx(1, rel=1e-12)
    assert all(abs(share) < 1e-12 for share in loss(many, few).values())


def test_what_a_part_loses_by_hand():
    """8 s of products, then 2 + 1 s of others on twice the devices: of 10 s lost are 1, 1 and 0.

    Device-seconds of a unit of work are 8 + 0 + 0 before, and 2 x (4 + 0.5 + 0.5) = 10 after.
    """
    before = step_of(1, {"matmul": 8.0, "data_communication": 0.0}, 1000)
    after = step_of(2, {"matmul": 4.0, "data_communication": 0.5, "bubble_fill": 0.5}, 1000)
    parts = loss(after, before)

    assert efficiency(after, before) == pytest.approx(0.8)
    assert parts["matmul"] == pytest.approx(0)
    assert parts["data_communication"] == parts["bubble_fill"] == pytest.approx(0.1)


# --- points ---------------------------------------------------------------------------------------


def points_of(*arguments, name="frontier-22b", **options):
    (curve,) = curves_of(
        [name], ScalingRequest(settings=("batch.global=32", *arguments), **options)
    )
    return {point.devices: point for point in curve.points}


@pytest.mark.parametrize(("kind", "batch"), [("weak", 64), ("strong", 32)])
def test_more_devices_are_more_replicas(kind, batch):
    """32 devices are 4 nodes and 4 replicas; the batch grows with them in weak scaling only."""
    point = points_of(**{kind: (32,)})[32]
    plan = point.variant.load_any().scenario.plan

    assert (point.nodes, plan.data, point.load) == (4, 4, batch)


def test_another_axis_takes_the_devices():
    """Twice the devices on the tensor axis are tensor 2; replicas stay two."""
    point = points_of(weak=(32,), axis="tensor")[32]
    plan = point.variant.load_any().scenario.plan

    assert (plan.tensor, plan.data, point.load) == (2, 2, 64)


@pytest.mark.parametrize(
    ("name", "axis", "devices", "reason"), wrong_values("points of a scaling curve")
)
def test_invalid_numbers_have_a_reason(name, axis, devices, reason):
    """What does not divide is named with the nearest numbers that do."""
    own = {"frontier-22b": 16, "frontier-175b": 128}[name]
    found = points_of("batch.global=2", name=name, weak=(own, int(devices)), axis=axis)
    problem = found[int(devices)].problem

    assert problem == reason


def test_the_nearest_numbers_of_devices_were_invalid_too():
    """A reason names numbers with whole nodes and degrees, on which the scenario runs."""
    found = points_of(name="frontier-175b", strong=(128, 132))

    assert found[132].problem == "a node has 8 devices (nearest: 128 or 192 devices)"


def test_a_layout_of_few_ranks_was_not_scaled_to_their_number():
    """The layout of the scenario grows, whatever the devices of its cluster."""
    found = points_of("plan.data=1", name="frontier-22b", strong=(8, 32))

    assert [found[n].problem for n in (8, 32)] == [None, None]


def test_an_invalid_layout_is_skipped_with_its_reason():
    """32 sequences cannot be shared by 48 replicas; the point has that reason, others run."""
    found = points_of(strong=(16, 384))

    assert found[16].problem is None
    assert "48" in found[384].problem


def test_without_a_curve_numbers_double():
    """A scenario without a curve is doubled from its own devices, and the answer states it."""
    weak, strong = curves_of(["frontier-22b"], ScalingRequest(settings=("batch.global=32",)))

    assert [point.devices for point in weak.points] == [16, 32, 64, 128]
    assert [point.devices for point in strong.points] == [16, 32, 64, 128]
    assert weak.guessed
    assert strong.guessed


def test_the_scenarios_own_point_is_its_run(capsys, store):
    """The point of 16 devices has the step time of ``clustersim run``, to the last digit."""
    (curve,) = printed(capsys, "scale", *SMALL, "--strong", "16,32", "--store", store)["curves"]
    alone = simulate(SMALL[0], [SMALL[2]])

    assert curve["points"][0]["measures"]["step_time_s"] == alone.step_time
    assert curve["points"][0]["efficiency"] == 1
    assert curve["points"][0]["attribution"] == alone.attribution


# --- curves of scenarios ------------------------------------------------------------------------


def written(folder, scaling, name="mine"):
    """Write a scenario with these curves and return its path."""
    path = folder / f"{name}.yaml"
    path.write_text(EIGHT + scaling, encoding="utf-8")
    return str(path)


def test_points_may_differ_in_more_than_the_axis(tmp_path):
    """A point takes its own changes last; those of the curve are under all of them."""
    text = """\
scaling:
  strong:
    set: {batch.global: 16}
    points:
      - {devices: 8}
      - {devices: 16, set: {batch.micro: 1}}
"""
    (curve,) = curves_of([written(tmp_path, text)], ScalingRequest())
    batches = [point.variant.load_any().scenario.batch for point in curve.points]

    assert [(batch.global_, batch.micro) for batch in batches] == [(16, 2), (16, 1)]
    assert curve.changed == ("batch.global=16",)


def test_a_point_may_be_a_neighbour(tmp_path):
    """A scenario is found next to the one that names it, and by its name among the shipped ones."""
    written(tmp_path, "", "twice")
    text = "scaling: {weak: {points: [{scenario: twice}, {scenario: korthikanti-175b-full}]}}\n"
    (curve,) = curves_of([written(tmp_path, text)], ScalingRequest())

    assert [point.devices for point in curve.points] == [8, 64]
    assert all(point.own for point in curve.points)


# --- the answer -----------------------------------------------------------------------------------


def text_of(answer, capsys):
    """Return what the verb prints of an answer."""
    print_curves(answer)
    return capsys.readouterr().out


def test_the_answer_as_text(capsys):
    """A table for each curve, then losses, published numbers and skipped points."""
    assert text_of(made_up(), capsys) == GOLDEN.read_text(encoding="utf-8")


def test_the_answer_is_read_back_from_json():
    """A script that reads `scale --json` gets the answer of the Python function."""
    assert from_json(ScalingAnswer, to_json(made_up())) == made_up()


def test_bars_lead_from_one_to_the_efficiency_of_the_last_point():
    """The bars of the figure add up to the loss, to what a bar can show."""
    for curve in made_up().curves:
        picture = charts.loss_chart(curve)
        efficiency = 100 * curve.points[-1].efficiency

        assert picture.end == pytest.approx(efficiency, abs=100 * charts.NEGLIGIBLE)


def test_titles_state_the_finding():
    """The title of a figure is its finding."""
    weak, strong = made_up().curves

    assert charts.curve_finding([strong]) == (
        "Strong scaling keeps 76.2 % at 16 devices; the loss is mostly bubble"
    )
    assert charts.loss_finding(strong) == "Bubble takes 14.3 of the 23.8 points lost"
    assert charts.curve_finding([weak]).startswith("Weak scaling keeps 86.5 % at 16 devices")


def test_published_efficiencies_are_compared_at_their_own_base_only(tmp_path):
    """An efficiency relative to 512 devices was compared with the first of --strong 3072,6144."""
    text = "{devices: 32, metric: efficiency, value: 0.9, source: a paper}"
    own = tmp_path / "own.yaml"
    shipped = Path(__file__).parents[2] / "scenarios" / "frontier-22b.yaml"
    written = shipped.read_text(encoding="utf-8")
    own.write_text(
        f"{written}scaling:\n  strong:\n    devices: [16, 32]\n    published: [{text}]\n"
    )

    def curve_over(*strong):
        changed = {"batch.global": 32}
        return clustersim.scale(str(own), strong=strong, settings=changed, jobs=1).curves[0]

    there, elsewhere = curve_over(16, 32), curve_over(32, 64)
    (compared,), (stated,) = there.published, elsewhere.published

    assert (compared.base, stated.base) == (16, 16)
    assert compared.predicted == pytest.approx(there.points[1].efficiency)
    assert stated.predicted is stated.error is stated.efficiency is None
    assert not any(one.hollow for one in charts.efficiency_chart([elsewhere]).series)
    assert "relative to 16 devices, not predicted here" in format_published(stated, elsewhere)


def test_each_point_has_the_interval_of_its_step_and_the_curve_has_cautions():
    """Weak scaling printed 99.6 % without an interval, jitter or a caution."""
    few = {"settings": {"batch.global": 32}, "jobs": 1}
    curve = clustersim.scale("frontier-22b", weak=[16, 32], **few).curves[0]
    heads = table(curve)[0]

    for point in curve.points:
        numbers = point.measures
        assert numbers["step_time_low_s"] < numbers["step_time_s"] < numbers["step_time_high_s"]
    assert [caution.split()[0] for caution in curve.cautions] == ["90", "random"]
    assert "model TFLOP/s" in heads  # of model FLOPs, next to which a hardware HFU would mislead
    assert ("MFU" in heads, "HFU" in heads) == (True, False)


@pytest.mark.large
def test_a_curve_with_jitter_had_one_step_for_each_point(tmp_path):
    """Each point has the spread over seeds of `run --replications`, and its efficiency as well."""
    jitter = {"type": "jitter", "deviation": 0.05, "each": "step"}
    stated = {"batch.global": 32, "disturbances": [jitter]}
    store = tmp_path / "studies.db"
    answers = [
        clustersim.scale("frontier-22b", strong=[16, 32], settings=stated, jobs=1, store=store)
        for _ in range(2)
    ]
    curve, _ = (answer.curves[0] for answer in answers)
    first, last = curve.points
    low, high = last.efficiency_spread
    lines = {row.label: row.text for row in notes(curve)}
    (band,) = charts.efficiency_chart([curve]).bands

    assert answers[0] == answers[1]
    assert last.replications == clustersim.replicate(
        "frontier-22b", REPLICATIONS, {**stated, "cluster.nodes": 4, "plan.data": 4}
    )
    assert first.efficiency_spread == pytest.approx((1, 1))
    assert 0 < low < high
    assert "32 devices" in lines["spread"]
    assert band.low == pytest.approx((100, 100 * low))
    assert band.high == pytest.approx((100, 100 * high))
    assert not any("random times" in caution for caution in curve.cautions)


def test_points_that_do_not_fit_are_reported(capsys):
    """They stay on the curve; a line lists the numbers of devices on which they do not fit."""
    curve = made_up().curves[0]
    first, last = curve.points
    unfit = replace(last, fits=False, memory="does not fit")
    answer = ScalingAnswer((replace(curve, points=(first, unfit)),))

    assert "memory        does not fit on 16 devices" in text_of(answer, capsys)


def test_a_page_shows_each_curve_and_keeps_text_as_text():
    """Charts of efficiency, throughput, idle shares and the loss for each kind; no markup."""
    hostile = "</script><script>alert(1)</script> <b>bold</b>"
    curves = (replace(curve, name=hostile, title=hostile) for curve in made_up().curves)
    shown = page(ScalingAnswer(tuple(curves)))
    shown_charts = [b for s in shown.sections for b in s.blocks if isinstance(b, Chart)]
    text = render(shown)

    assert [section.id for section in shown.sections] == ["answer", "weak", "strong", "lines"]
    assert len(shown_charts) == 8
    assert "alert(1)</script>" not in text
    assert "<b>bold" not in json.dumps([chart.figure for chart in shown_charts])


# --- runs and services ----------------------------------------------------------------------------


def test_replicas_with_their_own_users_keep_the_rate_of_a_device():
    """Twice the devices with twice the users have nearly the same tokens/s per device."""
    (curve,) = clustersim.scale(SERVICE, weak=[8, 16], settings=FEW, jobs=1).curves
    first, second = curve.points

    assert (curve.axis, curve.against, first.efficiency) == ("replicas", 8, 1.0)
    assert (second.load, "plan.replicas=2" in second.set) == (16, True)
    assert second.efficiency == pytest.approx(1, rel=0.05)
    render(page(ScalingAnswer((curve,))))


def test_more_devices_for_the_same_load_are_faster_and_less_efficient(capsys):
    """A larger tensor degree shortens a token, by less than the devices grow."""
    answer = clustersim.scale(SERVICE, strong="2,4,8,24", settings=FEW, jobs=1)
    (curve,) = answer.curves
    two, four, eight = curve.points

    assert two.measures["tpot"] > four.measures["tpot"] > eight.measures["tpot"]
    assert 1 == two.efficiency > four.efficiency > eight.efficiency
    assert sum(eight.loss.values()) == pytest.approx(1 - eight.efficiency)
    assert sum(eight.attribution.values()) == pytest.approx(eight.measures["tpot"])
    assert "24 does not divide" in curve.skipped[0].why
    assert "each token" in text_of(answer, capsys)
    assert from_json(ScalingAnswer, to_json(answer)) == answer


def test_a_service_that_does_not_fit_is_skipped_with_its_verdict(capsys):
    """A curve without a point has a line for each device count, and a page without charts."""
    answer = clustersim.scale(SERVICE, strong=[1, 8], settings=FEW, jobs=1)
    alone = clustersim.scale(SERVICE, strong=[1], settings=FEW, jobs=1)

    assert [point.devices for point in answer.curves[0].points] == [8]
    assert "does not fit" in answer.curves[0].skipped[0].why
    assert alone.curves[0].points == ()
    assert "does not fit" in text_of(alone, capsys)
    render(files_of(alone).page)


def test_runs_have_their_days_along_a_curve(capsys):
    """Points of a scenario with a section training have the measures of its run."""
    answer = clustersim.scale(
        "megatron-1t-84-days", strong=[3072], settings=["training.replications=100"], jobs=1
    )

    assert answer.curves[0].points[0].measures["days"] > 80
    assert " days " in text_of(answer, capsys)


@pytest.mark.large
def test_files_of_a_study(tmp_path, store):
    """All files that the summary lists are there; figures are not blank; tables have each point."""
    out = tmp_path / "study"
    arguments = ["scale", *SMALL, "--weak", "16,20,32", "--strong", "16,32"]
    arguments += ["--store", store, "--jobs", "1", "--out", str(out), "--figures", "png,svg"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    summary = json.loads((out / "summary.json").read_text())

    assert result.exit_code == 0
    assert sorted(summary["files"]) == sorted(path.name for path in out.iterdir())
    named = "report.html, weak.png, weak-loss.png, strong.png, strong-loss.png"
    assert f"files         {out}/: {named} and more\n" in result.output
    assert [s["devices"] for s in summary["curves"][0]["skipped"]] == [20]
    for name in ("weak", "weak-loss", "strong", "strong-loss"):
        assert imread(out / f"{name}.png")[..., :3].std() > 0.05
        assert "<svg" in (out / f"{name}.svg").read_text()
    with (out / "weak.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["devices"]) for row in rows] == [16, 32]
    with (out / "strong-loss.csv").open() as file:
        shares = [float(row["share"]) for row in csv.DictReader(file) if row["devices"] == "32"]
    point = summary["curves"][1]["points"][1]
    assert sum(shares) == pytest.approx(1 - point["efficiency"], rel=1e-9)


def test_hollow_was_explained_with_nothing_published():
    """Only a chart with hollow marks explains them."""
    (curve, *_) = made_up().curves
    without = replace(curve, published=())

    assert charts.efficiency_chart([curve]).note == "Thin line: ideal. Hollow: published."
    assert charts.throughput_chart([curve]).note == "Thin line: ideal."
    assert charts.efficiency_chart([without]).note == "Thin line: ideal."


def test_curves_had_file_names_instead_of_titles():
    """Legends, cards and captions have the title of the scenario; its name where two share it."""
    (curve, *_) = made_up().curves
    other = replace(curve, name="another")
    titled = charts.throughput_chart([curve])

    assert [series.name for series in titled.series if series.name] == ["Steps that were made up"]
    assert charts.efficiency_chart([curve]).caption == "Steps that were made up"
    assert charts.efficiency_chart([curve, other]).caption == (
        "Steps that were made up (made-up), Steps that were made up (another)"
    )


def test_one_range_made_80_lines_of_skipped_points():
    """Points that are skipped for one reason are one line, apart from the numbers in it."""
    skipped = [
        SkippedPoint(n, f"a node has 8 devices (nearest: {n // 8 * 8} devices)")
        for n in range(81, 88)
    ]
    lines = format_skipped([*skipped, SkippedPoint(96, "the batch of 7 cannot be shared")])

    assert lines == [
        "7 points from 81 to 87 devices: a node has 8 devices (nearest: 80 devices) (for 81)",
        "96 devices: the batch of 7 cannot be shared",
    ]


def test_titles_of_throughput_and_idle_time_were_labels():
    """Each states its finding: the rate that is reached, and the shares that are lost."""
    curves = made_up().curves[:1]

    assert charts.throughput_chart(curves).title == (
        "16 devices reach 216 tokens/s, 1.73 times those of 8"
    )
    assert charts.idle_chart(curves).title == (
        "Bubble 8.1 % and exposed communication 5.4 % of a step at 16 devices"
    )


def test_a_service_at_a_rate_does_not_lose_what_it_does_not_receive():
    """Four times the devices had an efficiency of 25 %, as 2 requests/s are 2 requests/s."""
    load = {"rate": 2, "input": 128, "output": 16}
    settings = {"load": load, "plan.tensor": 1, "cluster.nodes": 1}
    given = {"strong": [1, 2], "axis": "replicas", "settings": settings, "jobs": 1}
    [curve] = clustersim.scale("llama3-8b-h100-formats", **given).curves
    first, last = curve.points

    assert first.measures["tokens_per_s"] == pytest.approx(last.measures["tokens_per_s"], rel=0.1)
    assert last.efficiency == pytest.approx(1, abs=0.1)
    assert sum(last.loss.values()) == pytest.approx(1 - last.efficiency)
    assert curve.work == "sustainable tokens"
    assert "sustains" in table(curve)[0]
    assert any("at the load of each point" in row.text for row in notes(curve))
    assert charts.throughput(curve, last) > 1.8 * charts.throughput(curve, first)
