"""Several schedules on one time axis: equal work, their bubbles, one axis and one legend."""

import json
from pathlib import Path

import pytest

from clustersim.program.schedules import SCHEDULES
from clustersim.reports.show.schedules import answer_of, pictures, replay_schedules
from commands import ending, output, rejected

FOUR = ("1f1b", "interleaved-1f1b", "zb-h1", "dualpipe")

TEXT = """\
4 stages, 8 microbatches; a slot is the forward of a microbatch through a stage

schedule          chunks  slots  bubble  in flight  weights
1f1b                   1     33  27.3 %          4      1 x
interleaved-1f1b       2   28.5  15.8 %        5.5      1 x
zb-h1                  1     27  11.1 %          4      1 x
dualpipe               2     26   7.7 %          5      2 x

dualpipe has the smallest bubble, 7.7 %, and 1f1b the largest, 27.3 %.
"""


def replayed(*names, stages=4, microbatches=8, chunks=None):
    """Return schedules of one shape."""
    return replay_schedules([SCHEDULES[name] for name in names], stages, microbatches, chunks)


def test_four_schedules_are_a_table_and_a_figure(capsys, here):
    """The bubbles are those of the papers: (p - 1) / (v m + p - 1) of 1F1B, less of the others."""
    text = output(capsys, "show", *FOUR, "--figures", "svg")

    assert text == f"{TEXT}\nfiles in runs/show-schedules/: summary.json, schedules.svg\n"
    drawn = Path("runs/show-schedules/schedules.svg").read_text(encoding="utf-8")
    assert all(f"{name}: bubble " in drawn for name in FOUR)


def test_scripts_read_the_same(capsys):
    """`--json` has the shape and a record for each schedule, without files."""
    answer = json.loads(output(capsys, "show", *FOUR[:2], "--stages", "2", "--json"))

    assert (answer["stages"], answer["microbatches"]) == (2, 8)
    assert [each["name"] for each in answer["schedules"]] == [*FOUR[:2]]
    assert [each["bubble"] for each in answer["schedules"]] == pytest.approx([1 / 9, 1 / 17])


@pytest.mark.parametrize("chunks", [None, 4])
def test_each_stage_computes_as_long_under_every_schedule(chunks):
    """A forward and a backward of a microbatch take three slots, in however many chunks."""
    for each in replayed(*SCHEDULES, stages=4, microbatches=16, chunks=chunks):
        shown = each.shown
        assert [shown.duration - idle for idle in shown.idle] == pytest.approx([48.0] * 4)


def test_chunks_are_those_of_the_schedules_that_have_them():
    """Others keep the number that they need."""
    answer = answer_of(replayed(*FOUR, chunks=4))

    assert [each.chunks for each in answer.schedules] == [1, 4, 1, 2]
    assert answer.schedules[1].bubble == pytest.approx(3 / (4 * 8 + 3))


def test_the_pictures_share_axis_and_legend():
    """The axis is as long as the longest schedule, and each picture states where its own ends."""
    drawn = pictures(replayed(*FOUR))

    assert {each.limits for each in drawn} == {(0.0, 33.0)}
    assert [each.ends for each in drawn] == [33.0, 28.5, 27.0, 26.0]
    assert len({tuple(each.legend()) for each in drawn}) == 1
    shares = [float(str(line[-1]).split()[0]) for line in [*drawn[2].rows()][1:]]
    assert shares == pytest.approx([100 * 24 / 27] * 4, abs=0.1)  # of its own duration


def test_equal_bubbles_are_one_statement(capsys):
    """No schedule is called the best of equal ones."""
    text = output(capsys, "show", "gpipe", "1f1b")

    assert text.endswith("\nall have a bubble of 27.3 %.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["1f1b", "dgx-h100"],
            "dgx-h100: is a cluster, and only schedules are shown together"
            " (show the others one by one)\n",
        ),
        (
            ["1f1b", "zb-h1", "--chunks", "2"],
            "--chunks 2: no schedule has more than 1 chunk a stage\n",
        ),
        (
            ["1f1b", "zb-h1", "--nodes", "2"],
            "--nodes: does not apply to a schedule (1f1b, zb-h1)\n",
        ),
        (["1f1b"] * 13, "show: 13 schedules (at most 12 in a figure)\n"),
    ],
)
def test_what_is_not_compared_is_rejected(capsys, arguments, message):
    """In one line, before anything is replayed."""
    assert rejected(capsys, "show", *arguments) == message


def test_a_shape_that_a_schedule_does_not_have_is_named(capsys):
    """The message names the schedule."""
    code, _, error = ending(capsys, "show", "1f1b", "dualpipe", "--stages", "3")

    assert code == 2
    assert error.startswith("dualpipe: ")
