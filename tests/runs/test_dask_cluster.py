"""Studies on a Dask cluster of separate processes: nothing is lost with a worker, the scheduler
or the client, and users' files travel.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clustersim
from clustersim.errors import ScenarioError
from small import LONG, SCENARIO, alive, finished, rows_in, small, sweeping, table_of, wait_until
from wrong_values import wrong_values

PACKAGE = Path(__file__).resolve().parents[2]


def started(folder, *words, package=PACKAGE):
    """Start a part of Dask in a folder of its own, with some installation of clustersim."""
    folder.mkdir(parents=True)
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(package)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class Cluster:
    """A scheduler and its workers, in processes of their own."""

    def __init__(self, folder):
        self._folder, self._file = folder, folder / "scheduler.json"
        self.scheduler = started(
            folder / "scheduler", "distributed.cli.dask_scheduler", "--no-dashboard",
            "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(self._file)
        )  # fmt: skip
        wait_until(self._has_address, "the scheduler has written its file")
        self.workers = []

    def _has_address(self):
        """Return whether the scheduler has written all of its file."""
        return self._file.exists() and self._file.read_text().rstrip().endswith("}")

    @property
    def address(self):
        """Return the address of the scheduler as `--executor` takes it."""
        return "dask://" + json.loads(self._file.read_text())["address"].removeprefix("tcp://")

    def add_worker(self, package=PACKAGE):
        """Start a worker of one thread."""
        folder = self._folder / f"worker{len(self.workers)}"
        worker = started(
            folder, "distributed.cli.dask_worker", "--scheduler-file", str(self._file),
            "--nthreads", "1", "--no-nanny", "--no-dashboard", package=package
        )  # fmt: skip
        self.workers.append(worker)
        return worker

    def close(self):
        """End all processes."""
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    """A cluster of two workers."""
    made = Cluster(tmp_path / "cluster")
    try:
        made.add_worker()
        made.add_worker()
        yield made
    finally:
        made.close()


def on(cluster, folder):
    """Start the sweep on a cluster."""
    return sweeping(folder, axes=LONG, where=("--executor", cluster.address))


def begun(process, store, runs):
    """Wait until a sweep has completed some runs."""
    wait_until(
        lambda: len(rows_in(store)) >= runs or process.poll() is not None, f"{runs} runs are done"
    )
    assert process.poll() is None


@pytest.mark.large
def test_workers_of_a_cluster_answer_as_local_processes(tmp_path, cluster, undisturbed):
    """The whole table is the same, although no worker runs in the folder of the scenario."""
    assert finished(on(cluster, tmp_path)) == undisturbed


@pytest.mark.large
def test_the_runs_of_a_killed_worker_are_taken_up(tmp_path, cluster, undisturbed):
    """After SIGKILL the other worker completes the table, and each run is stored once."""
    store = tmp_path / "runs" / "studies.db"
    process = on(cluster, tmp_path)
    begun(process, store, 3)
    cluster.workers[0].kill()

    assert finished(process) == undisturbed
    assert len(rows_in(store)) == undisturbed["fresh"]


@pytest.mark.large
def test_a_study_outlives_its_scheduler(tmp_path, cluster, undisturbed):
    """One line and exit code 1; the store keeps all completed runs, and the study resumes."""
    store = tmp_path / "runs" / "studies.db"
    process = on(cluster, tmp_path)
    begun(process, store, 3)
    cluster.scheduler.kill()
    out, complaint = process.communicate(timeout=60)
    kept = rows_in(store)
    resumed = finished(sweeping(tmp_path, axes=LONG))

    assert (process.returncode, out) == (1, "")
    assert complaint == (
        f"executor: {cluster.address}: the scheduler no longer answers; completed runs are in the"
        " run cache (run the same command again to resume)\n"
    )
    assert resumed["fresh"] == undisturbed["fresh"] - len(kept)
    assert table_of(resumed) == table_of(undisturbed)


@pytest.mark.large
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.exhaustive)]
)
def test_a_study_outlives_its_client(tmp_path, cluster, undisturbed, number):
    """A client that is killed or interrupted leaves a store that resumes, and an idle cluster."""
    store = tmp_path / "runs" / "studies.db"
    process = on(cluster, tmp_path)
    begun(process, store, 3)
    os.killpg(process.pid, number)
    out, complaint = process.communicate(timeout=60)
    kept = rows_in(store)
    resumed = finished(on(cluster, tmp_path))

    assert out == ""
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert complaint.startswith("interrupted: ")
        assert complaint.count("\n") == 1
    assert 3 <= len(kept) < undisturbed["fresh"]
    assert resumed["fresh"] == undisturbed["fresh"] - len(kept)
    assert table_of(resumed) == table_of(undisturbed)


@pytest.mark.large
def test_files_of_a_user_travel_to_workers(tmp_path, cluster):
    """A model and a schedule that stand beside the scenario are used on other computers."""
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    model = (PACKAGE / "workloads" / "models" / "gpt3-1.3b.yaml").read_text(encoding="utf-8")
    own = model.replace("name: gpt3-1.3b", "name: mine").replace("layers: 24", "layers: 12")
    (here / "mine.yaml").write_text(own, encoding="utf-8")
    file = small(here)
    file.write_text(SCENARIO.replace("model: gpt3-1.3b", "model: mine"), encoding="utf-8")
    local = clustersim.sweep(file, over={"batch.micro": [1, 2]}, jobs=1)
    hidden = {}

    def hide(*_):
        if here.exists() and hidden:  # after the first call the client has read its files
            here.rename(elsewhere)
        hidden[True] = True

    remote = clustersim.sweep(
        file, over={"batch.micro": [1, 2]}, executor=cluster.address, on_progress=hide
    )

    assert own != model
    assert [row["step_time_s"] for row in remote.points] == [
        row["step_time_s"] for row in local.points
    ]
    assert elsewhere.exists()


@pytest.mark.large
def test_a_search_on_a_cluster_finds_what_local_processes_find(tmp_path, cluster):
    """Bounds and replays of workers give the same answer."""
    file, fixed = small(tmp_path), ["recompute=none", "plan.layers=even", "batch.global=16"]
    local = clustersim.search(file, settings=fixed, jobs=1)
    remote = clustersim.search(file, settings=fixed, executor=cluster.address)

    assert remote.ranked[: remote.proven] == local.ranked[: local.proven]
    assert (remote.gap, remote.scenario) == (local.gap, local.scenario)


@pytest.mark.large
def test_another_version_on_a_worker_is_refused(tmp_path, cluster):
    """One line with both versions, exit code 2, and no store is written."""
    other = tmp_path / "other"
    for name in ("clustersim", "topologies", "workloads", "scenarios", "validation"):
        shutil.copytree(PACKAGE / name, other / name, ignore=shutil.ignore_patterns("__pycache__"))
    units = other / "clustersim" / "units.py"
    units.write_text(units.read_text(encoding="utf-8") + "\n# another version\n", encoding="utf-8")
    for worker in cluster.workers:
        worker.kill()
    cluster.add_worker(other)

    message = refused(tmp_path, cluster.address, stored=True)
    assert message.endswith("(install the same version there)")
    assert message.count("\n") == 0
    assert not rows_in(tmp_path / "store.db")


SBATCH = """\
#!/bin/sh
cp "$1" {folder}/script.$$
sh {folder}/script.$$ > /dev/null 2>&1 &
echo $! >> {folder}/jobs
echo Submitted batch job $!
"""


@pytest.mark.large
def test_jobs_of_a_batch_system_are_workers_and_end_with_the_study(tmp_path, monkeypatch):
    """A file of jobs is submitted; when the study has ended, so have its jobs."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in (("sbatch", SBATCH), ("scancel", '#!/bin/sh\nkill "$1"\n')):
        (programs / name).write_text(text.format(folder=tmp_path), encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    jobs = tmp_path / "slurm.yaml"
    options = "{cores: 1, memory: 1GB, interface: lo, log_directory: %s}" % (tmp_path / "logs")
    jobs.write_text(f"system: slurm\njobs: 2\noptions: {options}\n", encoding="utf-8")
    answer = finished(
        sweeping(tmp_path, axes=["batch.micro=1,2"], where=("--executor", f"dask:{jobs}"))
    )
    numbers = [*map(int, (tmp_path / "jobs").read_text().split())]

    assert answer["counts"]["fits"] == 2
    assert numbers
    wait_until(lambda: not any(map(alive, numbers)), "the jobs have ended", 30)


def test_a_batch_system_that_starts_no_job_is_one_line(tmp_path, monkeypatch):
    """The reason of the batch system, where the sweep waited and ended in an AssertionError."""
    pytest.importorskip("dask_jobqueue")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "scancel"):
        text = f"#!/bin/sh\necho '{name}: error: invalid partition' >&2\nexit 1\n"
        (programs / name).write_text(text, encoding="utf-8")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    jobs = tmp_path / "slurm.yaml"
    jobs.write_text("system: slurm\njobs: 2\noptions: {cores: 1, memory: 1GB}\n", encoding="utf-8")

    assert refused(tmp_path, f"dask:{jobs}") == (
        f"{jobs}: system: slurm: 'sbatch' starts no job (sbatch: error: invalid partition)"
    )


def refused(tmp_path, executor, *, stored=False, **more):
    """Return the message with which a sweep on some cluster ends, without a store."""
    store = tmp_path / "store.db"
    with pytest.raises(ScenarioError) as error:
        clustersim.sweep(
            small(tmp_path), over={"batch.micro": [1]}, store=store, executor=executor, **more
        )
    assert stored or not store.exists()
    return str(error.value)


@pytest.mark.parametrize(
    ("address", "message"), wrong_values("addresses that are none of a cluster")
)
def test_an_address_that_is_none_is_refused(here, address, message):
    """One line names the file, its line and key, and what is allowed; no store is written."""
    for system, jobs in (("lfs", 2), ("few", 0), ("slurm", 1)):
        text = f"system: {system.replace('few', 'slurm')}\njobs: {jobs}\n"
        Path(f"{system}.yaml").write_text(text, encoding="utf-8")

    assert refused(here, address) == message


def test_a_scheduler_that_does_not_answer_is_refused(tmp_path, monkeypatch):
    """One line with the address and the time that it was given."""
    monkeypatch.setattr("clustersim.runs.dask_cluster.PATIENCE", 0.5)

    message = refused(tmp_path, "dask://127.0.0.1:9")
    assert message.startswith("executor: dask://127.0.0.1:9: no scheduler answers within 0.5 s (")
    assert message.count("\n") == 0


def test_a_number_of_processes_excludes_a_cluster(tmp_path):
    """A cluster has as many workers as it has."""
    assert refused(tmp_path, "dask://127.0.0.1:9", jobs=2) == (
        "executor: excludes a number of jobs (leave out one or the other)"
    )
