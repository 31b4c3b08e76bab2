"""Many runs survive a kill, an interrupt, a dead worker and a second process."""

import os
import signal
from concurrent.futures import BrokenExecutor
from dataclasses import replace

import pytest

from clustersim.runs.execution import run_all
from clustersim.runs.executors import workers
from clustersim.runs.runs_in_memory import RunsInMemory
from clustersim.runs.store import Study
from clustersim.runs.variants import FAILED, INVALID, MEMORY_ONLY, RAN, MemoryEstimate, Variant
from small import LONG, alive, children_of, finished, rows_in, small, sweeping, table_of, wait_until

STUDY = Study("a study", "sweep", "a title")


def workers_of(process, runs, store):
    """Return the workers of a sweep as soon as the cache has some runs."""
    wait_until(lambda: len(children_of(process.pid)) >= 2, "two workers have started")
    workers = children_of(process.pid)
    wait_until(lambda: len(rows_in(store)) >= runs, f"{runs} runs are in the cache")
    return workers


@pytest.mark.large
def test_a_killed_sweep_resumes(tmp_path, undisturbed):
    """After SIGKILL no run is lost or repeated, no worker is left, and the table is the same."""
    store = tmp_path / "runs" / "studies.db"
    process = sweeping(tmp_path, axes=LONG)
    workers = workers_of(process, 4, store)
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(alive, workers)), "the workers have ended", 10)
    kept = rows_in(store)
    resumed = finished(sweeping(tmp_path, axes=LONG))
    after = rows_in(store)

    assert workers
    assert 4 <= len(kept) < len(after) == undisturbed["fresh"]
    assert {key: after[key] for key in kept} == kept
    assert resumed["fresh"] == len(after) - len(kept)
    assert table_of(resumed) == table_of(undisturbed)


@pytest.mark.large
def test_an_interrupted_sweep_leaves_a_usable_store(tmp_path, undisturbed):
    """Ctrl-C ends with one line and exit code 130, leaves no process, and all runs in the store."""
    store = tmp_path / "runs" / "studies.db"
    process = sweeping(tmp_path, axes=LONG)
    workers = workers_of(process, 2, store)
    os.killpg(process.pid, signal.SIGINT)
    out, complaint = process.communicate(timeout=30)
    kept = rows_in(store)
    resumed = finished(sweeping(tmp_path, axes=LONG))

    assert (process.returncode, out) == (130, "")
    assert complaint.startswith("interrupted: ")
    assert complaint.count("\n") == 1
    assert not any(map(alive, workers))
    assert resumed["fresh"] == undisturbed["fresh"] - len(kept)
    assert table_of(resumed) == table_of(undisturbed)


@pytest.mark.large
def test_two_processes_share_a_store(tmp_path, undisturbed):
    """Of two that sweep the same at once, each run is done by one, and both end with the table."""
    first, second = sweeping(tmp_path, axes=LONG), sweeping(tmp_path, axes=LONG)
    answers = finished(first), finished(second)

    assert sum(answer["fresh"] for answer in answers) == undisturbed["fresh"]
    assert [table_of(answer) for answer in answers] == [table_of(undisturbed)] * 2


@pytest.mark.large
def test_a_killed_worker_does_not_end_the_sweep(tmp_path, undisturbed):
    """The runs of a dead worker are repeated, and the table is complete."""
    store = tmp_path / "runs" / "studies.db"
    process = sweeping(tmp_path, axes=LONG)
    workers = workers_of(process, 2, store)
    os.kill(workers[0], signal.SIGKILL)

    assert table_of(finished(process)) == table_of(undisturbed)


@pytest.mark.large
def test_progress_is_shown_on_terminals_only(tmp_path):
    """A sweep that is piped prints its answer and not a byte on standard error."""
    answer = finished(sweeping(tmp_path, axes=["batch.micro=1,2"]))

    assert answer["counts"]["fits"] == 2


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_pool_is_replaced_after_a_process_has_died():
    """A task that kills its process raises BrokenExecutor, and the next task runs."""
    with workers(2) as executor:
        broken = executor.submit(die, None)
        with pytest.raises(BrokenExecutor):
            broken.result(timeout=30)

        assert executor.submit(abs, -1).result(timeout=30) == 1


# --- in this process ------------------------------------------------------------------------------


def micros(folder, *values):
    """Return variants with some sequences in a microbatch."""
    file = str(small(folder))
    return [Variant(file, (f"batch.micro={value}",), memory_first=True) for value in values]


def test_the_executor_does_not_matter(tmp_path):
    """Runs here and runs in an executor are the same, in the order of the variants."""
    variants = micros(tmp_path, "2", "3", "1")
    with RunsInMemory() as store, RunsInMemory() as other, workers(2) as executor:
        here = run_all(STUDY, variants, store)
        remote = run_all(STUDY, variants, other, executor)

    assert [run.verdict for run in here] == [RAN, INVALID, RAN]
    assert [timeless(run) for run in here] == [timeless(run) for run in remote]


def timeless(run):
    """Return a run without the time that it took to be simulated."""
    return replace(run, answer=None if run.answer is None else replace(run.answer, wall_s=0.0))


def test_equal_variants_are_run_once(tmp_path):
    """Two spellings of a scenario are one run, and a second study finds it in the cache."""
    file = str(small(tmp_path))
    twice = [Variant(file), Variant(file, ("plan.tensor=2",))]
    with RunsInMemory() as store:
        first = run_all(STUDY, twice, store)
        second = run_all(STUDY, twice, store)

    assert first[0] is first[1]
    assert [run.fresh for run in first + second] == [True, True, False, False]
    assert second == first


def test_progress_counts_to_the_end(tmp_path):
    """Progress is reported for each run, never decreases, and ends with all runs."""
    calls = []
    with RunsInMemory() as store:
        run_all(
            STUDY,
            micros(tmp_path, "1", "2", "4"),
            store,
            on_progress=lambda completed, total: calls.append((completed, total)),
        )

    assert calls == sorted(calls)
    assert calls[-1] == (3, 3)


def test_what_does_not_fit_is_replayed_on_request(tmp_path):
    """A sweep does not replay what does not fit; another study may, and the replay is cached."""
    file, settings = str(small(tmp_path)), ("model=gpt3-13b", "plan.pipeline=1", "plan.data=4")
    estimated, replayed = Variant(file, settings, memory_first=True), Variant(file, settings)
    with RunsInMemory() as store:
        (first,) = run_all(STUDY, [estimated], store)
        (second,) = run_all(STUDY, [replayed], store)
        (third,) = run_all(STUDY, [estimated], store)
    with RunsInMemory() as store:
        both = run_all(STUDY, [estimated, replayed], store)

    assert (first.verdict, second.verdict) == (MEMORY_ONLY, RAN)
    assert not first.fits
    assert first.answer is None
    assert first.estimate == MemoryEstimate(second.answer.memory, 8)
    assert second.fresh
    assert (third, third.fresh) == (second, False)
    assert [run.verdict for run in both] == [RAN, RAN]


def test_a_fault_is_a_verdict_and_is_repeated(tmp_path, monkeypatch):
    """A run that fails has its error as reason, and is repeated next time."""

    def broken(loaded):
        raise ArithmeticError("out of numbers")

    variants = micros(tmp_path, "1")
    with RunsInMemory() as store:
        with monkeypatch.context() as patched:
            patched.setattr("clustersim.runs.variants.simulate_if_it_fits", broken)
            (first,) = run_all(STUDY, variants, store)
        (second,) = run_all(STUDY, variants, store)

    assert (first.verdict, first.why) == (FAILED, "ArithmeticError: out of numbers")
    assert (second.verdict, second.fresh) == (RAN, True)
