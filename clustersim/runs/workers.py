"""What runs the tasks of a study: an executor that states how many tasks it can take."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

from clustersim.catalog.files import CarriedFiles


class Workers(Executor):
    """An executor of runs.

    Attributes
    ----------
    elsewhere : whether it runs tasks on other computers, which may not have the files of a user
    task_seconds : about the time of a task, which several short runs make together [s]
    """

    elsewhere = False
    task_seconds = 0.0

    @property
    def capacity(self) -> int:
        """Tasks to have in flight, so that no worker is idle."""
        return 1

    def carry(self, files: CarriedFiles) -> None:
        """Use these files in all tasks."""

    def abandon(self) -> None:
        """End the tasks that are running, whose futures have no result."""


class InProcess(Workers):
    """Runs each task immediately, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run the task and return a future that is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future
