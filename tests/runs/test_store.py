"""The run cache keeps runs, shares the work between processes, and checks its file."""

import os
import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from answers import answer
from clustersim.errors import ScenarioError
from clustersim.runs.runs_in_memory import RunsInMemory
from clustersim.runs.store import (
    LEASE,
    Owner,
    Store,
    StoredStudy,
    Study,
    is_abandoned,
    owner_of,
    this_process,
)
from clustersim.runs.store_file import VERSION
from clustersim.runs.variants import INVALID, MEMORY_ONLY, RAN, MemoryEstimate, Run, Variant

FITS, TOO_MUCH = answer({"matmul": 1.0}), answer({"matmul": 1.0}, fits=False)
ESTIMATE = Run("a", MEMORY_ONLY, "too much", estimate=MemoryEstimate(TOO_MUCH.memory, 8))


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


def another_store(path):
    Store(path).__exit__(None, None, None)
    database(path, f"PRAGMA user_version = {VERSION + 1}")


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (text, "is not a run cache of clustersim; choose another --store"),
        (other_database, "is not a run cache of clustersim; choose another --store"),
        (
            another_store,
            f"is a run cache of another version of clustersim (format {VERSION + 1}, this version"
            f" reads {VERSION}); choose another --store",
        ),
    ],
)
def test_a_file_that_is_not_a_run_cache_is_rejected_and_unchanged(tmp_path, make, complaint):
    """The error is one line, and no byte of the file changes."""
    path = tmp_path / "studies.db"
    make(path)
    before = path.read_bytes()

    with pytest.raises(ScenarioError) as error:
        Store(path)
    assert str(error.value) == f"{path}: {complaint}"
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["studies.db"]


def test_a_damaged_store_is_one_line(tmp_path):
    """Errors of SQLite name the file."""
    path = tmp_path / "studies.db"
    with Store(path) as store:
        store.put(Run("a", RAN, answer=FITS))
    content = bytearray(path.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    path.write_bytes(content)

    with pytest.raises(ScenarioError, match="cannot be used as a run cache") as error:
        Store(path).get("a")
    assert "\n" not in str(error.value)


# --- runs -----------------------------------------------------------------------------------------


runs = st.builds(
    Run,
    st.sampled_from("abc"),
    st.sampled_from([RAN, INVALID]),
    st.none() | st.text(max_size=5),
    st.none() | st.builds(answer, st.fixed_dictionaries({"matmul": st.floats(1e-3, 1e9)})),
)


@contextmanager
def caches():
    """Yield a run cache of each kind."""
    with TemporaryDirectory() as folder, Store(Path(folder) / "studies.db") as store:
        yield [store, RunsInMemory()]


@pytest.mark.large
@given(st.lists(runs, max_size=8))
@settings(max_examples=20, deadline=None)
def test_a_stored_run_never_changes(given):
    """The first run of a key is returned exactly, whatever is stored later."""
    first = {run.key: run for run in reversed(given)}
    with caches() as both:
        for store, run in product(both, given):
            store.put(run)

        assert all(store.get(key) == first[key] for store in both for key in first)


def test_a_replay_replaces_an_estimate_of_memory():
    """An estimate of memory alone is returned where it is accepted, until the replay is stored."""
    replayed = Run("a", RAN, answer=TOO_MUCH)
    with caches() as both:
        for store in both:
            store.put(ESTIMATE)
            before = store.get("a", memory_only=True), store.get("a")
            claims = store.claim("a", memory_only=True), store.claim("a")
            store.put(replayed)
            after = store.get("a", memory_only=True)
            store.put(ESTIMATE)

            assert before == (ESTIMATE, None)
            assert claims == (False, True)
            assert after == store.get("a") == replayed
            assert not store.claim("a")


def test_other_processes_read_a_run_immediately(tmp_path):
    """A stored run is in the file at once."""
    with Store(tmp_path / "deep" / "studies.db") as store, Store(store.path) as other:
        store.put(Run("a", RAN, answer=FITS))

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
    ("owner", "age", "gone"),
    [
        (ME, 1e9, False),
        (ME._replace(started=ME.started - 60), 0.0, True),
        (ME._replace(process=2**22 + 1), 0.0, True),
        (Owner("elsewhere", 1, 0.0), 0.0, False),
        (Owner("elsewhere", 1, 0.0), 2 * LEASE, True),
    ],
    ids=["alive", "number reused", "dead", "elsewhere", "elsewhere, long ago"],
)
def test_a_claim_ends_with_its_process(owner, age, gone):
    """A claim is abandoned when its process has ended, and not before."""
    assert is_abandoned(owner, time.time() - age) is gone


def test_a_run_is_claimed_by_one(tmp_path):
    """A run that another process has claimed or completed cannot be claimed."""
    with Store(tmp_path / "studies.db") as store:
        claimed_by(store.path, owner_of(os.getppid()), NOW)
        taken = store.claim("a")
        claimed_by(store.path, ("", 0, 0.0), 0.0)
        free = store.claim("a")
        store.put(Run("a", RAN, answer=FITS))

        assert (taken, free, store.claim("a")) == (False, True, False)


def test_claims_are_released_together(tmp_path):
    """After a study no claim of its process remains."""
    with Store(tmp_path / "studies.db") as store:
        store.claim("a")
        store.claim("b")
        store.release()
    with closing(sqlite3.connect(tmp_path / "studies.db")) as base:
        assert base.execute("SELECT count(*) FROM claims").fetchone() == (0,)


# --- studies --------------------------------------------------------------------------------------


def test_a_study_has_the_number_of_runs_with_each_verdict(tmp_path):
    """Every run is counted once: by its verdict, or as remaining."""
    study = Study("sweep-a", "sweep", "a title")
    points = [
        (Variant("a.yaml", (), {"x": 1}), "a", None),
        (Variant("a.yaml", ("x=2",), {"x": 2}), "b", None),
        (Variant("a.yaml", ("x=3",), {"x": 3}), None, "invalid"),
        (Variant("a.yaml", ("x=4",), {"x": 4}), "c", None),
    ]
    with Store(tmp_path / "studies.db") as store:
        store.begin(study, points)
        store.put(Run("a", RAN, answer=FITS))
        store.put(replace(ESTIMATE, key="b"))
        (found,) = store.studies()

        assert found == StoredStudy(
            position=1,
            name="sweep-a",
            verb="sweep",
            title="a title",
            begun=found.begun,
            runs=4,
            fits=1,
            does_not_fit=1,
            invalid=1,
            failed=0,
            remaining=1,
        )
        assert store.points("sweep-a") == [
            (points[0][0], Run("a", RAN, answer=FITS)),
            (points[1][0], replace(ESTIMATE, key="b")),
            (points[2][0], Run(None, INVALID, "invalid")),
            (points[3][0], None),
        ]


def test_a_repeated_study_is_one_study(tmp_path):
    """A study that is started again has the runs of the last start."""
    study = Study("sweep-a", "sweep", "a title")
    with Store(tmp_path / "studies.db") as store:
        store.begin(study, [(Variant("a.yaml"), "a", None), (Variant("b.yaml"), "b", None)])
        store.begin(study, [(Variant("a.yaml"), "a", None)])

        assert [(one.name, one.runs) for one in store.studies()] == [("sweep-a", 1)]


# --- answers, and runs of other versions ----------------------------------------------------------


def test_a_stored_answer_is_returned_by_its_key(tmp_path):
    """An answer is kept as plain values, and a later one of the same key replaces it."""
    path = tmp_path / "studies.db"
    with Store(path) as store:
        store.put_answer("a", "search", {"gap": 0.1})
        store.put_answer("a", "search", {"gap": 0.0})
    with Store(path) as store:
        assert store.answer("a") == {"gap": 0.0}
        assert store.answer("b") is None


def test_a_run_with_other_keys_counts_as_remaining(tmp_path):
    """A run that another version wrote is not an error; its study has it to run."""
    path = tmp_path / "studies.db"
    with Store(path) as store:
        store.begin(Study("sweep-a", "sweep", "a title"), [(Variant("a.yaml"), "a", None)])
        store.put(Run("a", RAN, answer=FITS))
        database(path, "UPDATE runs SET answer = '{\"step_time_s\": 1.0}'")

        assert store.points("sweep-a") == [(Variant("a.yaml"), None)]
        assert store.studies()[0].remaining == 1
