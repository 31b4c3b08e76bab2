"""A replayed trace as text: the finding, where the time goes, communication, what is missing."""

from collections.abc import Iterator

from clustersim.render.tables import Row, percent
from clustersim.simulation.trace.answer import NotPlacedAnswer, TraceAnswer, TracedCommunication
from clustersim.units import counted, format_bandwidth, format_bytes, format_seconds

MOST_ROWS = 8
"""Communications that the text has."""


def finding(answer: TraceAnswer) -> str:
    """Return the finding in a sentence."""
    return (
        f"{counted(len(answer.ranks), 'rank')} on {answer.cluster}: a step of"
        f" {format_seconds(answer.step_time_s)},"
        f" {percent(_share(answer, answer.exposed_s))} of it exposed communication"
    )


def rows(answer: TraceAnswer) -> Iterator[Row]:
    """Return the lines of an answer."""
    yield Row("machine", f"{counted(answer.nodes, 'node')} of {answer.cluster}")
    yield Row("trace", f"{counted(answer.operations, 'operation')} ({answer.format})")
    yield Row("step", format_seconds(answer.step_time_s))
    for label, seconds, means in (
        ("compute", answer.compute_s, "mean over the ranks"),
        ("exposed", answer.exposed_s, "communication while a rank does not compute"),
        ("waiting", answer.waiting_s, "for other ranks, or for the host"),
    ):
        yield Row(label, f"{format_seconds(seconds)} ({percent(_share(answer, seconds))}): {means}")
    yield Row("slowest", ", ".join(_slow_rank(answer, rank) for rank in answer.slowest))
    for number, each in enumerate(answer.communications[:MOST_ROWS]):
        yield Row("" if number else "communication", described(each))
    if len(answer.communications) > MOST_ROWS:
        yield Row("", f"and {len(answer.communications) - MOST_ROWS} more kinds")
    for number, missing in enumerate(answer.not_placed):
        yield Row("" if number else "not placed", not_placed_text(missing))
    assumed = (f"assumed: {each}" for each in answer.assumed.values())
    for number, line in enumerate((*answer.notes, *assumed)):
        yield Row("" if number else "notes", line)


def described(each: TracedCommunication) -> str:
    """Return communications of a kind in a line."""
    what = "messages" if each.operation == "send" else f"{each.operation} of {each.ranks} ranks"
    rate = "" if each.bus_bandwidth is None else f", {format_bandwidth(each.bus_bandwidth, 4)}"
    return (
        f"{what}: {counted(each.calls, 'call')}, {format_bytes(each.nbytes)},"
        f" {format_seconds(each.seconds)}{rate}"
    )


def not_placed_text(missing: NotPlacedAnswer) -> str:
    """Return operations without a time in a line."""
    return f"{missing.count:,} of type {missing.type}: {missing.reason}"


def _slow_rank(answer: TraceAnswer, rank: int) -> str:
    return f"rank {rank} computes {format_seconds(answer.ranks[rank].compute_s)}"


def _share(answer: TraceAnswer, seconds: float) -> float:
    return seconds / answer.step_time_s if answer.step_time_s else 0.0
