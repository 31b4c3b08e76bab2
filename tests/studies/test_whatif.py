"""What if: changes of a scenario alone and together, ranked by what they save."""

import csv
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from answers import answer, run_of
from clustersim.answers import from_json, to_json
from clustersim.cli import main
from clustersim.errors import PlanError, ScenarioError, SimulationError
from clustersim.render.tables import columned
from clustersim.runs.variants import FAILED, INVALID, RAN, Run, Variant
from clustersim.simulation.step.simulate import simulate
from clustersim.studies.whatif import WhatIfAnswer
from clustersim.studies.whatif import page as whatif_pages
from clustersim.studies.whatif import text as report
from clustersim.studies.whatif.answer import rank_changes
from clustersim.studies.whatif.arguments import change_groups, variants_of
from clustersim.studies.whatif.charts import change_label, savings_chart

SMALL = Variant("frontier-22b", ("batch.global=16",))
LAW = settings(max_examples=20, deadline=None)

N, P = r"[\d.,]+", r"[\d.]+ %"  # a number, a share

TEXT = rf"""
recompute=none saves most, {N} s of {N} s \({P}\)

 +saved +step  change +main part +bottleneck +memory
 *{N} s +{P} +{N} s  recompute=none +[a-z ]+  n0.* fits
 *-{N} s +-{P} +{N} s  cluster.nic.bandwidth=/64  [a-z ]+  n0.* fits
together      the 2 valid changes cost {N} s \({P}\), a step of {N} s; separately they cost {N} s
invalid       plan.data=4: .*: plan: tensor 1 x pipeline 8 x data 4 = 32 ranks, .*
files         runs/frontier-22b-whatif/: report.html and more
"""


def ending(capsys, *arguments):
    """Return exit code, standard output and standard error of a command."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code or 0, *capsys.readouterr()


def found(base, *runs, changes=None, together=None):
    """Return the answer of runs with these parts; a run may be given as its verdict."""
    question = variants_of(
        SMALL, changes or [(f"batch.global={16 * i}",) for i in range(1, len(runs) + 1)]
    )
    result = [_run(base), *map(_run, runs), *([] if together is None else [_run(together)])]
    return rank_changes(question, result)


def _run(given):
    if isinstance(given, str):
        return Run(None, given, "a reason")
    return run_of(answer(given) if isinstance(given, dict) else given)


# --- what is run ----------------------------------------------------------------------------------


def test_each_change_is_run_alone_and_all_together():
    """After the base, in the order in which they are given."""
    question = variants_of(SMALL, [("plan.zero=0",), ("batch.micro=2", "recompute=none")])

    assert [variant.settings[1:] for variant in question.all] == [
        (),
        ("plan.zero=0",),
        ("batch.micro=2", "recompute=none"),
        ("plan.zero=0", "batch.micro=2", "recompute=none"),
    ]
    assert question.joined == (0, 1)


def test_one_change_is_together_with_nothing():
    """There is nothing to combine."""
    question = variants_of(SMALL, [("plan.zero=0",)])

    assert (len(question.all), question.together, question.apart) == (2, None, None)


def test_an_invalid_layout_is_not_combined():
    """It is named with its reason; the others are joined without it."""
    changes = [("plan.data=4",), ("plan.zero=0",), ("batch.micro=2",)]
    question = variants_of(SMALL, changes)

    assert "32 ranks, but the job has 16 devices" in question.variants[0].problem
    assert question.together.settings[1:] == ("plan.zero=0", "batch.micro=2")
    assert question.joined == (1, 2)


def test_changes_that_can_only_be_together_are():
    """Half the stages alone are too few ranks, twice the replicas too many; both at once fit."""
    question = variants_of(SMALL, [("plan.pipeline=4",), ("plan.data=4",)])

    assert all(variant.problem for variant in question.variants)
    assert question.together.settings[1:] == ("plan.pipeline=4", "plan.data=4")


def test_two_values_for_one_key_are_never_together():
    """They are alternatives, and the reason names the key."""
    question = variants_of(SMALL, [("batch.micro=2",), ("batch.micro=4",)])

    assert question.together is None
    assert question.apart == "batch.micro is changed twice"


def test_an_invalid_setting_is_rejected_before_any_run():
    """An unknown key is an error, not an invalid layout."""
    with pytest.raises(ScenarioError, match=r"plan.tensr: unknown key \(did you mean 'tensor'\?\)"):
        variants_of(SMALL, [("plan.tensr=2",)])
    with pytest.raises(PlanError, match="32 ranks, but the job has 16 devices"):
        variants_of(Variant("frontier-22b", ("plan.data=4",)), [("plan.zero=0",)])


def test_a_setting_is_a_change_and_so_are_several_in_one_text():
    """`--set` changes one value, `--change` several that belong together."""
    assert change_groups("a", ["x=1"], ["y=2 z=3"]) == [("x=1",), ("y=2", "z=3")]


# --- the answer ---------------------------------------------------------------------------------

steps = st.lists(st.floats(1, 100), min_size=1, max_size=5)


@LAW
@given(st.floats(1, 100), steps)
def test_changes_are_ranked_by_what_they_save(base, times):
    """What saves most stands first; a change that costs time saves less than nothing."""
    changes = [(f"batch.micro={i + 1}", f"batch.global={16 * (i + 1)}") for i in range(len(times))]
    result = found({"matmul": base}, *({"matmul": each} for each in times), changes=changes)
    saved = [each.saved_s for each in result.changes]

    assert saved == sorted(saved, reverse=True)
    assert sorted(saved) == pytest.approx(sorted(base - each for each in times))


def test_changes_without_a_result_come_last():
    """After all that ran, with its reason."""
    result = found({"matmul": 4.0}, INVALID, {"matmul": 5.0}, FAILED, {"matmul": 3.0})

    assert [each.verdict for each in result.changes] == [RAN, RAN, INVALID, FAILED]
    assert to_json(result)["changes"][2] == {
        "settings": ["batch.global=16"],
        "verdict": INVALID,
        "why": "a reason",
        **dict.fromkeys(
            ("step_time_s", "same_tokens", "saved_s", "saved_fraction", "saved_days",
                 "saved_run", "run_parts", "part",
             "parts", "bottleneck", "fits", "memory")
        ),
    }  # fmt: skip


def test_the_answer_is_read_back_from_json():
    """Changes with and without a result, and the combination, keep their types."""
    result = found(
        {"matmul": 4.0}, INVALID, {"matmul": 3.0}, changes=PAIR, together={"matmul": 3.0}
    )

    assert from_json(WhatIfAnswer, to_json(result)) == result


def test_savings_of_other_batches_are_those_of_as_many_tokens():
    """Twice the batch in 1.5 times the time saves a quarter."""
    result = found({"matmul": 4.0}, answer({"matmul": 6.0}, tokens=2**21))

    assert result.changes[0].saved_s == 1.0


PAIR = [("plan.zero=0",), ("batch.micro=2",)]


@pytest.mark.parametrize(
    ("alone", "together", "of_sum"),
    [((9.0, 8.0), 7.0, 1.0), ((9.0, 8.0), 8.5, 0.5), ((9.0, 9.0), 6.0, 2.0)],
    ids=["independent", "in each other's way", "for each other"],
)
def test_the_interaction_of_changes_is_reported(alone, together, of_sum):
    """What they save together over what they save one by one, and the picture adds up to it."""
    result = found(
        {"matmul": 10.0}, *({"matmul": each} for each in alone),
        changes=PAIR, together={"matmul": together},
    )  # fmt: skip
    picture = savings_chart(result)

    assert result.together.of_sum == pytest.approx(of_sum)
    assert (picture.start, picture.end) == (10.0, pytest.approx(together))
    assert f"{100 * of_sum:.1f} % of the" in report.rows(result)[0].text


def test_a_sum_that_saves_nothing_has_no_share():
    """Nothing is divided by what two changes do not save."""
    result = found(
        {"matmul": 10.0}, {"matmul": 10.0}, {"matmul": 10.0},
        changes=PAIR, together={"matmul": 9.0},
    )  # fmt: skip

    assert (result.together.sum_s, result.together.of_sum) == (0.0, None)
    assert savings_chart(result).end == pytest.approx(9.0)


def test_a_base_that_fails_is_an_error():
    """Without it there is nothing to compare with."""
    with pytest.raises(SimulationError, match="frontier-22b: a reason"):
        found(FAILED, {"matmul": 1.0})


FINDINGS = [
    ([9.0, 8.0], "batch.micro=2 saves most, 2 s of 10 s (20.0 %)"),
    ([9.0, answer({"matmul": 8.0}, fits=False)],
     "plan.zero=0 saves most, 1 s of 10 s (10.0 %); batch.micro=2 would save more, but does not"
     " fit"),
    ([11.0, answer({"matmul": 8.0}, fits=False)],
     "batch.micro=2 saves most, 2 s of 10 s (20.0 %), but does not fit"),
    ([11.0, INVALID], "none of the changes saves time"),
    ([INVALID, INVALID], "no change is valid"),
]  # fmt: skip


@pytest.mark.parametrize(("runs", "finding"), FINDINGS, ids=[each[1][:30] for each in FINDINGS])
def test_the_finding_is_what_saves_most_and_fits(runs, finding):
    """A change that does not fit is marked, and so is that no change saves time or is valid."""
    result = [{"matmul": run} if isinstance(run, float) else run for run in runs]
    error = found({"matmul": 10.0}, *result, changes=PAIR, together=INVALID)

    assert report.finding(error) == finding


def test_a_terminal_gets_the_same_table():
    """Broken where it is narrow, and too much memory catches the eye."""
    heavy = answer({"matmul": 9.0}, fits=False)
    result = found({"matmul": 10.0}, heavy, {"matmul": 8.0}, changes=PAIR, together=INVALID)
    console = Console(width=60, force_terminal=True, color_system="standard")
    with console.capture() as shown:
        console.print(columned(report.table(result), report.WORDS, report.UNFIT))
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown.get()).splitlines()

    assert max(map(len, lines)) <= 60
    assert [line.split()[0] for line in lines if re.match(r" *\d", line)] == ["2.00", "1.00"]
    assert "\x1b[1;31mdoes" in shown.get()


def test_the_label_of_a_bar_keeps_the_end_of_the_path():
    """A long path is cut from the left, and further settings are counted."""
    single = ["cluster.node.accelerator.memory.bandwidth=x2"]
    several = ["plan.pipeline=32", "plan.data=12", "plan.zero=0"]

    assert change_label(single) == "...memory.bandwidth=x2"
    assert change_label(several) == "plan.pipeline=32 and 2 more"


def test_the_page_has_the_ranking_and_its_picture():
    """The changes in the order of the text, and the bars that lead from the base to all of them."""
    result = found(
        {"matmul": 10.0}, {"matmul": 9.0}, {"matmul": 8.0},
        changes=PAIR, together={"matmul": 7.5},
    )  # fmt: skip
    answer_, saved = whatif_pages.page(result).sections

    assert [row[0] for row in answer_.blocks[1].rows] == ["batch.micro=2", "plan.zero=0"]
    assert saved.blocks[0].figure["data"][0]["x"] == [10.0, 2.0, 1.0, 0.5, 7.5]
    assert len(whatif_pages.page(found({"matmul": 1.0}, INVALID)).sections) == 1


# --- known answers --------------------------------------------------------------------------------


ONE_NODE = ("plan.data=8", "cluster.nodes=1", "batch.global=128")


def test_twice_the_peak_saves_up_to_half_of_the_products():
    """More than a quarter of their time, as tiles are loaded as before, and no more than half."""
    base = Variant(
        "megatron21-t1-1.7b", (*ONE_NODE, "cluster.node.accelerator.launch_overhead=0 s")
    )
    question = variants_of(base, [("cluster.node.accelerator.peak.fp16=x2",)])
    runs = [Run("key", RAN, answer=simulate(each.load()).answer) for each in question.all]
    (change,) = rank_changes(question, runs).changes
    products, parts = runs[0].answer.attribution["matmul"], change.parts

    assert -products / 2 < parts["matmul"] < -products / 4
    assert change.saved_s == pytest.approx(-parts["matmul"] - parts["attention"], rel=1e-9)
    assert change.part == "matmul"


def test_an_idle_link_saves_no_time():
    """A wider network does not help a job on one node."""
    base = Variant("megatron21-t1-1.7b", ONE_NODE)
    question = variants_of(base, [("cluster.fabric.link.bandwidth=x2",)])
    runs = [Run("key", RAN, answer=simulate(each.load()).answer) for each in question.all]

    assert rank_changes(question, runs).changes[0].saved_s == pytest.approx(0.0, abs=1e-9)


# --- the verb -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder to work in, with its store."""
    return tmp_path_factory.mktemp("whatif")


@pytest.fixture(autouse=True)
def _in_the_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture(scope="module")
def scenario(folder):
    """A small scenario of one's own."""
    text = Path(Variant("frontier-22b").load().place("title").file).read_text()
    path = folder / "frontier-22b.yaml"
    path.write_text(re.sub(r"global: \d+", "global: 16", text))
    return path.name


CHANGES = (
    "--set", "cluster.nic.bandwidth=/64", "--set", "plan.data=4", "--change", "recompute=none",
)  # fmt: skip


def test_the_text_ranks_the_changes(capsys, scenario):
    """The finding, a line for each change, all changes together, invalid ones, the files."""
    code, text, _ = ending(capsys, "whatif", scenario, *CHANGES, "--jobs", "1")

    assert code == 0
    assert re.fullmatch(TEXT.strip(), text.strip()), text


def test_the_files_hold_what_is_shown(capsys, scenario):
    """The summary lists them; the table has a row for each change and for all together."""
    assert ending(capsys, "whatif", scenario, *CHANGES, "--jobs", "1")[0] == 0
    place = Path("runs/frontier-22b-whatif")
    summary = json.loads((place / "summary.json").read_text())
    rows = [*csv.DictReader((place / "whatif.csv").read_text().splitlines())]

    assert sorted(summary["files"]) == sorted(path.name for path in place.iterdir())
    assert [row["verdict"] for row in rows] == ["ran", "ran", "invalid", "ran"]
    assert rows[0]["change"] == "recompute=none"
    assert float(rows[3]["step_time_s"]) == summary["together"]["step_time_s"]


def test_json_is_one_object(capsys, scenario):
    """The same numbers, and no files but the store."""
    code, text, _ = ending(capsys, "whatif", scenario, *CHANGES, "--jobs", "1", "--json")
    result = json.loads(text)

    assert code == 0
    assert [each["settings"] for each in result["changes"]] == [
        ["recompute=none"],
        ["cluster.nic.bandwidth=/64"],
        ["plan.data=4"],
    ]
    for each in result["changes"][:2]:
        saved = result["base"]["step_time_s"] - each["step_time_s"]
        assert each["saved_s"] == pytest.approx(saved, abs=1e-9)
        assert sum(each["parts"].values()) == pytest.approx(-saved, abs=1e-9)


COMPLAINTS = [
    ([], "frontier-22b: no change is given (--set cluster.nic.bandwidth=x2; several values that"
     " belong together: --change 'plan.pipeline=4 plan.data=16')"),
    (["--set", "plan.tensor"], "--set plan.tensor: is not of the form key=value"),
    (["--change", "plan.tensor"], "--change 'plan.tensor': 'plan.tensor' is not of the form"
     " key=value"),
    (["--change", " "], "--change ' ': no setting of the form key=value"),
    (["--set", "plan.tensr=2"], "plan.tensr: unknown key (did you mean 'tensor'?)"),
    (["--set", "plan.zero=0", "--out", "."], ".: contains the working or the home folder"),
    (["--set", "plan.zero=0", "--store", "frontier-22b.yaml"], "frontier-22b.yaml: is not a run"
     " cache of clustersim; choose another --store"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "complaint"), COMPLAINTS)
def test_bad_input_is_one_line_and_exit_code_2(capsys, scenario, arguments, complaint):
    """The store is not even made, and a file that is none stays as it is."""
    before = Path(scenario).read_bytes()
    store = () if "--store" in arguments else ("--store", "none.db")
    code, out, error = ending(capsys, "whatif", "frontier-22b", *store, *arguments)

    assert (code, out) == (2, "")
    assert complaint in error
    assert error.count("\n") == 1
    assert not Path("none.db").exists()
    assert Path(scenario).read_bytes() == before


def test_the_base_may_have_changes_of_its_own(capsys):
    """Behind its name, as in a comparison."""
    arguments = ("frontier-22b batch.global=16", "--set", "batch.micro=2", "--json", "--jobs", "1")
    code, text, _ = ending(capsys, "whatif", *arguments)

    assert code == 0
    assert json.loads(text)["base"]["step_time_s"] == pytest.approx(
        simulate("frontier-22b", ["batch.global=16"]).step_time
    )


def test_an_unknown_scenario_is_one_line(capsys):
    """With the nearest name."""
    code, _, error = ending(capsys, "whatif", "frontier-22", "--set", "plan.zero=0")

    assert code == 2
    assert error.startswith("frontier-22: no such file, and no shipped scenario of that name")
