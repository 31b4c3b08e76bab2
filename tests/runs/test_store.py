"""The study store keeps what came of runs, shares out the work, and refuses what is no store."""

import os
import sqlite3
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import ScenarioError
from clustersim.runs.lease import LEASE, Owner, abandoned, owner_of, this_process
from clustersim.runs.store import Store, Study
from clustersim.runs.store_file import FORM, check_store
from clustersim.runs.variants import RAN, REFUSED, WEIGHED, Run, Variant

MEMORY = {"peak_bytes": 2.0, "capacity_bytes": 4.0, "fits": True}
FITS = {"memory": MEMORY, "counts": {"devices": 8}}
TOO_MUCH = {"memory": {**MEMORY, "peak_bytes": 8.0, "fits": False}, "counts": {"devices": 8}}


def database(path, statement):
    """Write a database that is not ours."""
    base = sqlite3.connect(path)
    base.executescript(statement)
    base.close()


# --- the file -------------------------------------------------------------------------------------


def text(path):
    path.write_text("a: 1\n" * 100)


def other_database(path):
    database(path, "CREATE TABLE runs (key TEXT); INSERT INTO runs VALUES ('theirs');")


def newer_store(path):
    Store(path).__exit__(None, None, None)
    database(path, f"PRAGMA user_version = {FORM + 1}")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (text, "is not a study store; choose another --store"),
        (other_database, "is not a study store; choose another --store"),
        (
            newer_store,
            "is a study store of another version of clustersim"
            f" (form {FORM + 1}, not {FORM}); choose another --store",
        ),
    ],
)
def test_a_file_that_is_no_store_is_refused_and_untouched(tmp_path, make, complaint):
    """One line says what it is, and not a byte of it changes."""
    path = tmp_path / "studies.db"
    make(path)
    before = path.read_bytes()

    with pytest.raises(ScenarioError) as refused:
        Store(path)
    assert str(refused.value) == f"{path}: {complaint}"
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["studies.db"]


def test_a_folder_is_refused(tmp_path):
    """A folder is no store."""
    with pytest.raises(ScenarioError, match="is a folder, not a study store"):
        Store(tmp_path)


def test_a_store_that_must_be_there_is_not_made(tmp_path):
    """Looking at a store that is not there makes none."""
    path = tmp_path / "none.db"

    with pytest.raises(ScenarioError, match=r"none\.db: no such file"):
        check_store(path, there=True)
    assert not path.exists()


def test_a_damaged_store_is_one_line(tmp_path):
    """What SQLite finds wrong with a file is told with the file's name."""
    path = tmp_path / "studies.db"
    with Store(path) as store:
        store.keep(Run("a", RAN, answer=FITS))
    content = bytearray(path.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    path.write_bytes(content)

    with pytest.raises(ScenarioError, match="cannot be used as a study store") as refused:
        Store(path).get("a")
    assert "\n" not in str(refused.value)


# --- runs -----------------------------------------------------------------------------------------


runs = st.builds(
    Run,
    st.sampled_from("abc"),
    st.sampled_from([RAN, REFUSED]),
    st.none() | st.text(max_size=5),
    st.none() | st.fixed_dictionaries({"step_time_s": st.floats(0, 1e9)}),
)


@given(st.lists(runs, max_size=8))
@settings(max_examples=20, deadline=None)
def test_a_run_that_is_there_is_never_changed(given):
    """Whatever is kept later under its key, the first run of a key is what is found, exactly."""
    first = {}
    with Store() as store:
        for run in given:
            store.keep(run)
            first.setdefault(run.key, run)

        assert {key: store.get(key) for key in first} == first


def test_a_replay_completes_what_was_weighed():
    """A run that was only weighed serves who asks for no more, until its replay is kept."""
    weighed, replayed = Run("a", WEIGHED, "too much", TOO_MUCH), Run("a", RAN, answer=TOO_MUCH)
    with Store() as store:
        store.keep(weighed)
        before = store.get("a", weighed=True), store.get("a")
        store.keep(replayed)
        after = store.get("a", weighed=True)
        store.keep(weighed)

        assert before == (weighed, None)
        assert after == store.get("a") == replayed


def test_runs_are_there_for_the_next_process(tmp_path):
    """What is kept is in the file at once."""
    with Store(tmp_path / "deep" / "studies.db") as store, Store(store.path) as other:
        store.keep(Run("a", RAN, answer=FITS))

        assert other.get("a") == Run("a", RAN, answer=FITS)


# --- claims ---------------------------------------------------------------------------------------


def claimed_by(path, owner, since):
    """Write a claim of another process on run a."""
    base = sqlite3.connect(path)
    with base:
        base.execute("INSERT OR REPLACE INTO claims VALUES ('a', ?, ?, ?, ?)", (*owner, since))
    base.close()


ME = this_process()
NOW = time.time()


@pytest.mark.parametrize(
    ("owner", "since", "gone"),
    [
        (ME, 0.0, False),
        (ME._replace(born="long ago"), NOW, True),
        (ME._replace(process=2**22 + 1), NOW, True),
        (Owner("elsewhere", 1, ""), NOW, False),
        (Owner("elsewhere", 1, ""), NOW - 2 * LEASE, True),
    ],
    ids=["alive", "number given anew", "dead", "elsewhere", "elsewhere, long ago"],
)
def test_a_claim_ends_with_its_process(tmp_path, owner, since, gone):
    """A run is free again when the one who was at it has gone, and not before."""
    assert abandoned(owner, since) is gone


def test_a_run_is_claimed_by_one(tmp_path):
    """What another process is at is left alone; what is done needs no one."""
    with Store(tmp_path / "studies.db") as store:
        claimed_by(store.path, owner_of(os.getppid()), NOW)
        taken = store.claim("a")
        claimed_by(store.path, ("", 0, ""), 0.0)
        free = store.claim("a")
        store.keep(Run("a", RAN, answer=FITS))

        assert (taken, free, store.claim("a")) == (False, True, False)


def test_claims_are_given_up_together():
    """After a study another process may take on what it left."""
    with Store() as store:
        store.claim("a")
        store.release()
        left = store._base.execute("SELECT count(*) FROM claims").fetchone()

        assert left == (0,)


# --- studies --------------------------------------------------------------------------------------


def test_a_store_tells_how_far_its_studies_are():
    """Every point is counted once: by its verdict, or as left."""
    study = Study("sweep-a", "sweep", "a title")
    points = [
        (Variant("a.yaml", (), {"x": 1}), "a", None),
        (Variant("a.yaml", ("x=2",), {"x": 2}), "b", None),
        (Variant("a.yaml", ("x=3",), {"x": 3}), None, "cannot be"),
        (Variant("a.yaml", ("x=4",), {"x": 4}), "c", None),
    ]
    with Store() as store:
        store.begin(study, points)
        store.keep(Run("a", RAN, answer=FITS))
        store.keep(Run("b", WEIGHED, "too much", TOO_MUCH))
        (found,) = store.studies()

        assert found.study == study
        assert (found.points, found.left) == (4, 1)
        assert found.verdicts == {"fits": 1, "does not fit": 1, "refused": 1}
        assert store.points("sweep-a") == [
            (points[0][0], Run("a", RAN, answer=FITS)),
            (points[1][0], Run("b", WEIGHED, "too much", TOO_MUCH)),
            (points[2][0], Run(None, REFUSED, "cannot be")),
            (points[3][0], None),
        ]


def test_the_same_study_again_is_one_study():
    """Who asks twice is listed once, with the points of today."""
    study = Study("sweep-a", "sweep", "a title")
    with Store() as store:
        store.begin(study, [(Variant("a.yaml"), "a", None), (Variant("b.yaml"), "b", None)])
        store.begin(study, [(Variant("a.yaml"), "a", None)])

        assert [(each.study, each.points) for each in store.studies()] == [(study, 1)]
