"""Many runs survive what ends them: a kill, an interrupt, a dead worker, a second process."""

import json
import os
import signal
import sys
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor

import pytest

from clustersim.runs.execution import run_all
from clustersim.runs.executors import workers
from clustersim.runs.store import Store, Study
from clustersim.runs.variants import FAILED, RAN, REFUSED, WEIGHED, Variant
from clustersim.studies.sweep.axes import axis_of
from clustersim.studies.sweep.grid import grid
from small import alive, children_of, rows_in, small, sweeping, wait_until

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

STUDY = Study("a study", "sweep", "a title")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return what the sweep prints when nothing happens to it."""
    return finished(sweeping(tmp_path_factory.mktemp("undisturbed")))


def finished(process):
    """Return what a sweep prints, once it has ended well."""
    out, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    return json.loads(out)


def table_of(answer):
    """Return an answer without what tells who computed it."""
    return {key: value for key, value in answer.items() if key != "fresh"}


@needs_proc
def test_a_killed_sweep_goes_on_where_it_was(tmp_path, undisturbed):
    """After SIGKILL no run is lost or repeated, no worker is left, and the table is the same."""
    store = tmp_path / "runs" / "studies.db"
    process = sweeping(tmp_path)
    wait_until(lambda: len(rows_in(store)) >= 4, "four runs are in the store")
    workers = children_of(process.pid)
    process.kill()
    process.communicate()
    wait_until(lambda: not any(map(alive, workers)), "the workers have ended", 10)
    kept = rows_in(store)
    resumed = finished(sweeping(tmp_path))
    after = rows_in(store)

    assert workers
    assert 4 <= len(kept) < len(after) == undisturbed["fresh"]
    assert {key: after[key] for key in kept} == kept
    assert resumed["fresh"] == len(after) - len(kept)
    assert table_of(resumed) == table_of(undisturbed)


@needs_proc
def test_an_interrupted_sweep_leaves_a_usable_store(tmp_path, undisturbed):
    """Ctrl-C ends with one line and exit code 130, leaves no process, and all runs in the store."""
    store = tmp_path / "runs" / "studies.db"
    process = sweeping(tmp_path)
    wait_until(lambda: len(rows_in(store)) >= 2, "two runs are in the store")
    workers = children_of(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    out, complaint = process.communicate(timeout=30)
    kept = rows_in(store)
    resumed = finished(sweeping(tmp_path))

    assert (process.returncode, out) == (130, "")
    assert complaint.startswith("interrupted: ")
    assert complaint.count("\n") == 1
    assert not any(map(alive, workers))
    assert resumed["fresh"] == undisturbed["fresh"] - len(kept)
    assert table_of(resumed) == table_of(undisturbed)


def test_two_processes_share_a_store(tmp_path, undisturbed):
    """Of two that sweep the same at once, each run is done by one, and both end with the table."""
    first, second = sweeping(tmp_path), sweeping(tmp_path)
    answers = finished(first), finished(second)

    assert sum(answer["fresh"] for answer in answers) == undisturbed["fresh"]
    assert [table_of(answer) for answer in answers] == [table_of(undisturbed)] * 2


@needs_proc
def test_a_killed_worker_does_not_end_the_sweep(tmp_path, undisturbed):
    """What a dying worker was at is done again, and the table is whole."""
    store = tmp_path / "runs" / "studies.db"
    process = sweeping(tmp_path)
    wait_until(lambda: len(rows_in(store)) >= 2, "two runs are in the store")
    os.kill(children_of(process.pid)[0], signal.SIGKILL)

    assert table_of(finished(process)) == table_of(undisturbed)


def test_nothing_is_told_where_there_is_no_terminal(tmp_path):
    """A sweep that is piped prints its answer and not a byte on standard error."""
    answer = finished(sweeping(tmp_path, axes=["batch.micro=1,2"]))

    assert answer["counts"]["fits"] == 2


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_go_on_after_one_has_died():
    """A task that kills its process is told as such, and the next one finds a process again."""
    with workers(2) as executor:
        broken = executor.submit(die, None)
        with pytest.raises(BrokenExecutor):
            broken.result(timeout=30)

        assert executor.submit(abs, -1).result(timeout=30) == 1


# --- in this process ------------------------------------------------------------------------------


def micros(folder, *values):
    """Return variants with some sequences in a microbatch."""
    return grid(str(small(folder)), (), [axis_of(f"batch.micro={','.join(values)}")])


def test_the_executor_does_not_matter(tmp_path):
    """Runs here and runs in an executor are the same, in the order of the variants."""
    variants = micros(tmp_path, "2", "3", "1")
    with Store() as store, Store() as other, ThreadPoolExecutor(1) as executor:
        here = run_all(STUDY, variants, store)
        there = run_all(STUDY, variants, other, executor, at_once=1)

    assert [run.verdict for run in here] == [RAN, REFUSED, RAN]
    assert [timeless(run) for run in here] == [timeless(run) for run in there]


def timeless(run):
    """Return a run without the time that it took to be simulated."""
    answer = None if run.answer is None else {**run.answer, "wall_s": 0.0}
    return run.key, run.verdict, run.why, answer


def test_equal_variants_are_run_once(tmp_path):
    """Two ways to say a scenario are one run, and a second study finds it in the store."""
    file = str(small(tmp_path))
    twice = [Variant(file), Variant(file, ("plan.tensor=2",))]
    with Store() as store:
        first = run_all(STUDY, twice, store)
        again = run_all(STUDY, twice, store)

    assert first[0] is first[1]
    assert [run.fresh for run in first + again] == [True, True, False, False]
    assert again == first


def test_progress_counts_to_the_end(tmp_path):
    """Whoever looks on is told of each run, never backwards, and in the end of all."""
    told = []
    with Store() as store:
        run_all(
            STUDY,
            micros(tmp_path, "1", "2", "4"),
            store,
            on_progress=lambda done, of: told.append((done, of)),
        )

    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert told[-1] == (3, 3)


def test_what_does_not_fit_is_weighed_or_replayed_as_asked(tmp_path):
    """A sweep only weighs what does not fit; who asks for the replay gets it, and it is kept."""
    file, settings = str(small(tmp_path)), ("model=gpt3-13b", "plan.pipeline=1", "plan.data=4")
    weighed, replayed = Variant(file, settings, weigh_first=True), Variant(file, settings)
    with Store() as store:
        (first,) = run_all(STUDY, [weighed], store)
        (second,) = run_all(STUDY, [replayed], store)
        (third,) = run_all(STUDY, [weighed], store)
    with Store() as store:
        both = run_all(STUDY, [weighed, replayed], store)

    assert (first.verdict, second.verdict) == (WEIGHED, RAN)
    assert not first.fits
    assert "step_time_s" not in first.answer
    assert first.answer["memory"] == second.answer["memory"]
    assert second.fresh
    assert (third, third.fresh) == (second, False)
    assert [run.verdict for run in both] == [RAN, RAN]


def test_a_fault_is_a_verdict_and_is_tried_again(tmp_path, monkeypatch):
    """One run that fails is told with its error, leaves the others be, and is not kept."""

    def broken(loaded):
        raise ArithmeticError("out of numbers")

    variants = micros(tmp_path, "1")
    with Store() as store:
        with monkeypatch.context() as patched:
            patched.setattr("clustersim.runs.variants.simulate_if_it_fits", broken)
            (first,) = run_all(STUDY, variants, store)
        (second,) = run_all(STUDY, variants, store)

    assert (first.verdict, first.why) == (FAILED, "ArithmeticError: out of numbers")
    assert (second.verdict, second.fresh) == (RAN, True)
