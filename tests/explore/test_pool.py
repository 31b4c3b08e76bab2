"""Answers are computed by a few processes, with progress, an end to each, and a limited queue."""

import os
import time

import pytest

from clustersim.errors import ScenarioError
from clustersim.explore import pool as pools
from clustersim.explore.pool import BUSY, Message, Pool


def doubled(report, stopped):
    """Report, then answer."""
    report("half")
    return 42


def rejected(report, stopped):
    """Reject the question."""
    raise ScenarioError("plan.tensor: 7 does not divide")


def faulty(report, stopped):
    """Fail as no answer should."""
    raise KeyError("x")


def dying(report, stopped):
    """End the process."""
    os._exit(3)


def endless(report, stopped):
    """Answer when stopped."""
    while not stopped():
        time.sleep(0.01)
    return "best so far"


@pytest.fixture(scope="module")
def pool():
    """One worker."""
    made = Pool(1, longest=30, waiting=1)
    yield made
    made.close()


def answers(pool, task, name=""):
    """Return the messages of a task, those without words left out."""
    return [message for message in pool.messages(task, name) if message.value != ""]


def test_a_task_reports_and_answers(pool):
    """Progress comes before the answer, which ends the messages."""
    assert answers(pool, doubled) == [Message("progress", "half"), Message("answer", 42)]


@pytest.mark.parametrize(
    ("task", "kind", "text"),
    [
        (rejected, "problem", "plan.tensor: 7 does not divide"),
        (faulty, "fault", "KeyError: 'x'"),
        (dying, "fault", "the process that computed the answer died"),
    ],
)
def test_a_task_that_fails_ends_in_a_sentence_and_the_next_is_answered(pool, task, kind, text):
    """Invalid input, a fault, or the death of the process hold up nobody else."""
    assert answers(pool, task) == [Message(kind, text)]
    assert answers(pool, doubled)[-1] == Message("answer", 42)


def test_a_task_is_stopped_by_its_name(pool):
    """It ends with what it has so far; a name that is not running is none."""
    messages = pool.messages(endless, "mine")
    assert next(messages) == Message("progress", "")
    assert pool.stop("mine")

    assert [m for m in messages if m.value != ""] == [Message("answer", "best so far")]
    assert not pool.stop("mine")


def test_a_reader_that_has_gone_frees_its_worker(pool):
    """The process of an abandoned task is ended, and another one answers the next."""
    messages = pool.messages(endless)
    next(messages)
    messages.close()

    assert answers(pool, doubled)[-1] == Message("answer", 42)


def test_a_task_that_takes_too_long_is_ended():
    """Its worker is replaced."""
    pool = Pool(1, longest=0.6)
    try:
        assert answers(pool, endless) == [
            Message("problem", "this took longer than 0.6 s and was ended")
        ]
    finally:
        pool.close()


def test_more_requests_than_may_wait_are_declined(pool, monkeypatch):
    """One is computed and one waits; the third is declined at once, and so is one in vain."""
    monkeypatch.setattr(pools, "PATIENCE", 0.2)
    first = pool.messages(endless, "first")
    next(first)

    second = pool.messages(doubled)
    assert [*second] == [BUSY]
    waiting = pool._places.acquire(blocking=False)
    assert [*pool.messages(doubled)] == [BUSY]
    assert waiting
    pool._places.release()
    pool.stop("first")
    assert [*first][-1] == Message("answer", "best so far")
