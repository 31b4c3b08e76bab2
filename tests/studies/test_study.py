"""`clustersim study`: the runs of a run cache as tables and files."""

import json

import pandas as pd
import pytest

from clustersim.cli import main
from commands import ending, output
from small import small


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Return a store with two sweeps in it."""
    folder = tmp_path_factory.mktemp("store")
    for axis in ("batch.micro=1,2,3", "plan.tensor=2,16"):
        with pytest.raises(SystemExit):
            main(
                ["sweep", str(small(folder)), f"--over={axis}", "--json", "--jobs=1",
                 f"--store={folder / 'mine.db'}"]
            )  # fmt: skip
    return folder / "mine.db"


def test_a_store_lists_its_studies(store, capsys):
    """A line for each study with its counts, and the same as JSON."""
    out = output(capsys, "study", str(store))
    listed = json.loads(ending(capsys, "study", str(store), "--json")[1])

    assert len(out.splitlines()) == 3
    assert [(s["runs"], s["fits"], s["refused"], s["left"]) for s in listed["studies"]] == [
        (3, 2, 1, 0), (2, 1, 1, 0),
    ]  # fmt: skip
    assert all(s["name"].startswith("sweep-small-") for s in listed["studies"])


def test_a_study_is_shown_by_number_or_name(store, capsys):
    """Both pick the same study; its points have what the sweep had."""
    name = json.loads(ending(capsys, "study", str(store), "--json")[1])["studies"][1]["name"]
    by_number = json.loads(ending(capsys, "study", str(store), "--name=2", "--json")[1])
    by_name = json.loads(ending(capsys, "study", str(store), f"--name={name}", "--json")[1])
    _, out, _ = ending(capsys, "study", str(store), "--name=2")

    assert by_number == by_name
    assert [(p["plan.tensor"], p["verdict"]) for p in by_name["points"]] == [
        (2, "fits"), (16, "invalid"),
    ]  # fmt: skip
    assert out.splitlines()[1].split() == [
        "tensor",
        "verdict",
        "step",
        "tokens/s",
        "MFU",
        "peak",
        "memory",
    ]


def test_exports_hold_every_run(store, capsys, tmp_path):
    """CSV and Parquet have the same rows, and an existing file is kept without --force."""
    csv, parquet = tmp_path / "a.csv", tmp_path / "a.parquet"
    files = (f"--csv={csv}", f"--parquet={parquet}")
    code, _, _ = ending(capsys, "study", str(store), "--name=1", *files)
    both = pd.read_csv(csv), pd.read_parquet(parquet)
    rejected = ending(capsys, "study", str(store), "--name=2", f"--csv={csv}")
    kept = pd.read_csv(csv)
    forced, _, _ = ending(capsys, "study", str(store), "--name=2", f"--csv={csv}", "--force")

    assert (code, forced) == (0, 0)
    assert [list(table["verdict"]) for table in both] == [["fits", "fits", "invalid"]] * 2
    assert list(both[0]["step_time_s"][:2]) == list(both[1]["step_time_s"][:2])
    assert rejected == (2, "", f"{csv}: already exists (use --force)\n")
    assert len(kept) == 3
    assert len(pd.read_csv(csv)) == 2
