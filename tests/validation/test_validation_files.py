"""The output of `clustersim validate --out`: tables with the answer, and figures of it."""

import csv
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from clustersim.answers import from_json
from clustersim.cli.verbs.validate import validate as command
from clustersim.errors import ScenarioError
from clustersim.validation.answer import Validation
from clustersim.validation.files import (
    CASES,
    FIGURES,
    FILES,
    GROUPS,
    LAYOUTS,
    OTHERS,
    errors_finding,
    group_names,
    groups_by_error,
    scatter_finding,
)
from measured_runs import SMALL

FORMATS = ("png", "svg", "pdf")
DRAWN = [f"{name}.{format}" for name in FIGURES for format in FORMATS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder that the small file leaves."""
    place = tmp_path_factory.mktemp("validation") / "small"
    command(
        cases=SMALL,
        group=["small", "widths", "(no group)"],
        jobs=1,
        out=place,
        figures=",".join(FORMATS),
    )
    return place


@pytest.fixture(scope="module")
def answer(folder):
    """Return the answer of that folder."""
    return json.loads((folder / "summary.json").read_text())


def typed(answer):
    """Return the answer that a summary holds."""
    return from_json(Validation, answer)


def rows(folder, name):
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_folder_holds_what_its_summary_lists(folder, answer):
    """A later validation may so replace it whole."""
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, *DRAWN])
    assert answer["files"] == [*FILES, *DRAWN]


@pytest.mark.parametrize(
    ("name", "columns"), [("cases", CASES), ("groups", GROUPS), ("layouts", LAYOUTS)]
)
def test_csv_and_parquet_hold_the_same_columns(folder, name, columns):
    """Both have every column, also those that are empty throughout, and as many rows."""
    from pyarrow import parquet

    table = parquet.read_table(folder / f"{name}.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}

    assert list(kinds) == list(columns)
    assert {n: k.replace("double", "float64") for n, k in kinds.items()} == dict(columns)
    assert len(rows(folder, name)) == table.num_rows


def test_the_tables_are_the_answer(folder, answer):
    """A row for each case and group with its numbers; a reason where there are none."""
    cases = {row["id"]: row for row in rows(folder, "cases")}
    expected = {case["id"]: case for case in answer["cases"]}

    assert cases.keys() == expected.keys()
    assert float(cases["good"]["error"]) == expected["good"]["error"]
    assert cases["good"]["layout.tensor"] == "2"
    assert cases["unknown-accelerator"]["why"] == expected["unknown-accelerator"]["why"]
    assert cases["unknown-accelerator"]["error"] == ""
    assert [row["group"] for row in rows(folder, "groups")] == [*answer["groups"], "all"]


def test_columns_are_keys_of_the_answer(answer):
    """A column without a key would always be empty."""
    case, sums = answer["cases"][0], answer["all"]

    assert {name.partition(".")[0] for name in CASES} <= case.keys()
    assert {name.partition(".")[0] for name in GROUPS} <= sums.keys() | {"group"}
    assert {name for name in CASES if name.startswith("layout.")} == {
        f"layout.{name}" for name in case["layout"]
    }


@pytest.mark.large
def test_the_same_answer_gives_the_same_figures(folder, answer, tmp_path):
    """No date, no chance: a change of the picture is a change of the answer."""
    typed(answer).save(tmp_path / "again", figures=FORMATS)

    for name in DRAWN:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_titles_say_what_is_found(folder, answer):
    """Each figure is headed by its finding, and the axes have units."""
    scatter, errors = ((folder / name).read_text() for name in ("predicted.svg", "errors.svg"))

    assert re.match(r"Step times of \d+ runs: median error .* %", scatter_finding(typed(answer)))
    assert scatter_finding(typed(answer)) in scatter
    assert "measured throughput of a device [TFLOP/s]" in scatter
    assert errors_finding(typed(answer)) in errors
    assert all(name in errors for name, _ in groups_by_error(typed(answer)))


def test_many_groups_share_a_colour_and_the_largest_do_not():
    """Ten looks at most: those of most runs have their own."""
    cases = [SimpleNamespace(group=f"g{n}") for n in range(12) for _ in range(12 - n)]
    names = group_names(cases)

    assert [names[f"g{n}"] == OTHERS for n in range(12)] == [False] * 9 + [True] * 3
    assert len(set(names.values())) == 10


def test_no_speed_graded_draws_nothing(tmp_path):
    """Where nothing ran there are tables, and no figure of nothing."""
    command(cases=SMALL, group=["(no group)"], jobs=1, out=tmp_path / "none")

    assert sorted(path.name for path in (tmp_path / "none").iterdir()) == sorted(FILES)


def test_a_folder_in_the_way_is_refused_before_anything_runs(tmp_path):
    """Other files are never replaced without --force."""
    (tmp_path / "mine.txt").write_text("mine")

    with pytest.raises(ScenarioError, match="already exists and has files that are not the output"):
        command(cases=Path("nowhere.yaml"), out=tmp_path)
