"""The workers of a Dask cluster, behind the interface of local processes.

    dask://HOST:PORT    a scheduler that runs
    dask:FILE.json      the same, by the file that it writes
    dask:FILE.yaml      workers that run as jobs of a batch system, which dask-jobqueue submits

Workers need the same version of clustersim and of its catalogue, at any path.  Files of a user
travel with the tasks.  A task that is lost with its worker is run again by another one.
"""

import hashlib
import logging
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field

from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Count, Strict
from clustersim.catalog.files import CarriedFiles, carried
from clustersim.catalog.finding import FOLDERS, shipped
from clustersim.catalog.reading import read_yaml
from clustersim.catalog.tree import Tree
from clustersim.errors import ExecutorError, ScenarioError
from clustersim.runs.cache_key import code
from clustersim.runs.workers import Workers

Client = Any
"""A `distributed.Client`, which has no types."""

PATIENCE: Final = 10.0
"""Time to wait for the answer of a scheduler [s]."""

REFRESH: Final = 5.0
"""Time between two counts of the workers [s]."""

FORMS: Final = "dask://HOST:PORT, dask:FILE.json of a scheduler or dask:FILE.yaml for dask-jobqueue"

CLASSES: Final = {
    "slurm": "SLURMCluster",
    "pbs": "PBSCluster",
    "lsf": "LSFCluster",
    "sge": "SGECluster",
    "oar": "OARCluster",
    "moab": "MoabCluster",
    "htcondor": "HTCondorCluster",
}
"""Classes of dask-jobqueue by batch system."""

_ONE_AT_A_TIME: Final = Lock()  # a run uses a whole process; a worker may have several threads


class BatchJobs(Strict):
    """Workers as jobs of a batch system."""

    system: Literal["slurm", "pbs", "lsf", "sge", "oar", "moab", "htcondor"] = Field(
        description="batch system"
    )
    jobs: Count = Field(description="jobs to submit")
    options: dict[str, Any] = Field(
        {}, description="arguments of the class of dask-jobqueue: queue, cores, memory, walltime"
    )


class _Terms(NamedTuple):
    """What a task needs of its worker."""

    installation: str
    files: CarriedFiles | None


class DaskWorkers(Workers):
    """Runs tasks on the workers of a scheduler.

    Parameters
    ----------
    client : is connected to the scheduler
    address : as the user gave it, for messages
    """

    elsewhere = True
    task_seconds = 0.25  # a task costs 6 ms of client, scheduler and worker

    def __init__(self, client: Client, address: str) -> None:
        self._client, self._address = client, address
        self._executor = client.get_executor(pure=False)
        self._terms = _Terms(installation(), None)
        self._threads, self._counted = 0, -REFRESH

    @property
    def capacity(self) -> int:
        """Two tasks for each thread, so that none waits for the network, and one more."""
        if (now := time.monotonic()) - self._counted >= REFRESH:
            self._counted = now
            if self._client.status == "running":
                self._threads = sum(self._client.nthreads().values())
        return 2 * self._threads + 1

    def carry(self, files: CarriedFiles) -> None:
        """Use these files in all tasks."""
        self._terms = self._terms._replace(files=files)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Submit a task to the scheduler."""
        future: Future[Any] = Future()
        task = self._executor.submit(_on_worker, self._terms, fn, args, kwargs)
        task.add_done_callback(lambda done: self._pass_on(done, future))
        return future

    def _pass_on(self, done: Future[Any], future: Future[Any]) -> None:
        """Give the outcome of a task to its future, faults of the cluster as our errors."""
        from distributed.scheduler import KilledWorker

        if done.cancelled():
            future.set_exception(ExecutorError(self._lost()))
            return
        problem = done.exception()
        if isinstance(problem, KilledWorker):
            future.set_exception(BrokenExecutor(f"lost with {problem.last_worker}"))
        elif isinstance(problem, ModuleNotFoundError) and problem.name == "clustersim":
            future.set_exception(ScenarioError(f"executor: {self._address}: {_MISSING}"))
        elif problem is not None:
            future.set_exception(problem)
        else:
            future.set_result(done.result())

    def _lost(self) -> str:
        return (
            f"executor: {self._address}: the scheduler no longer answers; completed runs are in"
            " the run cache (run the same command again to resume)"
        )

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Cancel all remaining tasks."""
        self._executor.shutdown(wait=wait and not cancel_futures)


_MISSING: Final = "a worker has no clustersim (install the same version there)"


@contextmanager
def dask_workers(address: str) -> Iterator[DaskWorkers]:
    """Return the workers of a cluster; when the context ends, all of its tasks are cancelled.

    Raises
    ------
    ScenarioError
        when the address is invalid, nothing answers there, or a worker has another version.
    """
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise ScenarioError(
            f"executor: {address}: needs Dask (pip install 'clustersim[dask]')"
        ) from None
    with _silent(), _batch_jobs(address) as target:
        try:
            client = distributed.Client(timeout=PATIENCE, set_as_default=False, **target)
        except (OSError, TimeoutError, ValueError) as problem:
            raise ScenarioError(
                f"executor: {address}: no scheduler answers within {PATIENCE:g} s"
                f" ({_first_line(problem)}; is `dask scheduler` running there?)"
            ) from None
        try:
            _check_workers(client, address)
            workers = DaskWorkers(client, address)
            try:
                yield workers
            finally:
                workers.shutdown(wait=False)
        finally:
            client.close(timeout=PATIENCE)


@contextmanager
def _silent() -> Iterator[None]:
    """Leave what Dask logs of lost connections out: an error states it in one line."""
    talking = ("distributed", "tornado", "asyncio")  # Dask gives each of its loggers a level
    names = [name for name in logging.root.manager.loggerDict if name.startswith(talking)]
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _batch_jobs(address: str) -> Iterator[dict[str, Any]]:
    """Return where a client finds its scheduler, which a file of batch jobs starts."""
    scheme, _, rest = address.partition(":")
    if scheme != "dask" or not rest.strip("/"):
        raise ScenarioError(f"executor: '{address}' is no address of a cluster (allowed: {FORMS})")
    if rest.startswith("//"):
        if not re.fullmatch(r"//[^/\s]+:\d+", rest):
            raise ScenarioError(f"executor: '{address}' has no host and port (dask://HOST:PORT)")
        yield {"address": f"tcp:{rest}"}
    elif rest.endswith(".json"):
        if not Path(rest).is_file():
            raise ScenarioError(f"executor: {rest}: no such file (a scheduler writes it)")
        yield {"scheduler_file": rest}
    else:
        with _submitted(Path(rest)) as cluster:
            yield {"address": cluster}


@contextmanager
def _submitted(path: Path) -> Iterator[Any]:
    """Submit the jobs of a file; they end with the context."""
    document = read_yaml(path)
    settings = checked(BatchJobs, Tree.of(document))
    try:
        classes = vars(import_module("dask_jobqueue"))
    except ModuleNotFoundError:
        raise ScenarioError(
            f"{path}: needs dask-jobqueue (pip install 'clustersim[dask]')"
        ) from None
    kind = classes[CLASSES[settings.system]]
    submit = kind.job_cls.submit_command
    if shutil.which(submit) is None:
        raise ScenarioError(
            f"{path}: system: {settings.system}: there is no '{submit}' on this computer (run the"
            " command where jobs are submitted)"
        )
    try:
        cluster = kind(
            **settings.options,
            scheduler_options={"dashboard": False, "dashboard_address": "localhost:0"},
        )
    except (TypeError, ValueError, OSError, RuntimeError) as problem:
        reason = _first_line(problem).partition(". ")[0]
        raise ScenarioError(f"{path}: options: {reason}") from None
    try:
        cluster.scale(jobs=settings.jobs)
        _check_submission(cluster, f"{path}: system: {settings.system}: '{submit}'")
        yield cluster
    finally:
        for job in cluster.workers.values():
            if job.status.name == "created":  # never started, so that Dask cannot close it
                job.status = type(job.status).failed
        with suppress(
            AssertionError, RuntimeError
        ):  # of jobs that ended before they were cancelled
            cluster.close(timeout=PATIENCE)


def _check_submission(cluster: Any, where: str) -> None:
    """Wait until the jobs are submitted; reject a batch system that does not start them.

    Dask drops such an error and waits for the workers without end, so a job that was not started
    is resubmitted.
    """
    try:
        cluster.sync(cluster._correct_state)
        for job in [*cluster.workers.values()]:
            if job.status.name == "created":
                cluster.sync(job.start)
    except (AssertionError, RuntimeError, OSError) as problem:
        reason = (str(problem).strip() or type(problem).__name__).splitlines()[-1]
        raise ScenarioError(f"{where} starts no job ({reason})") from None


def _check_workers(client: Client, address: str) -> None:
    """Check that the workers that are there have the version of this process."""
    here = installation()
    for worker, remote in client.run(installation, on_error="return").items():
        if isinstance(remote, ModuleNotFoundError):
            raise ScenarioError(f"executor: {address}: {worker}: {_MISSING}")
        if isinstance(remote, BaseException):
            raise ScenarioError(f"executor: {address}: {worker}: {_first_line(remote)}")
        if remote != here:
            raise ScenarioError(f"executor: {address}: {worker}: {_other(remote, here)}")


def _other(remote: str, here: str) -> str:
    return f"has clustersim {remote}, this computer {here} (install the same version there)"


def _on_worker(
    terms: _Terms, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a task on a worker."""
    if (local := installation()) != terms.installation:
        raise ScenarioError(f"executor: a worker {_other(local, terms.installation)}")
    with _ONE_AT_A_TIME, nullcontext() if terms.files is None else carried(terms.files):
        return fn(*args, **kwargs)


@lru_cache
def installation() -> str:
    """Return the version of clustersim with digests of its code and of its catalogue."""
    digest = hashlib.sha256()
    for kind in FOLDERS:
        for file in sorted(shipped(kind).glob("*.yaml")):
            digest.update(file.name.encode() + file.read_bytes())
    return f"{code()}.{digest.hexdigest()[:12]}"


def _first_line(problem: BaseException) -> str:
    return (str(problem) or type(problem).__name__).splitlines()[0]
