"""Schedules in text files, in the notation in which schedules are printed.

    # title, on the first line
    wiring: v                       loop if it is left out
    stage 0   F0 F1 I0 W0 F2&B1.1
    stage 1   ...

Letters, microbatches and chunks are those of `Step`; ``&`` joins two steps that run
concurrently.  A file is for one number of stages and microbatches.
"""

import re
from pathlib import Path
from typing import Final, cast

from clustersim.catalog.files import read_text
from clustersim.errors import ProgramError, ScenarioError
from clustersim.plan.parallelism import WIRINGS, Wiring, WiringName
from clustersim.program.schedules.check import check_steps
from clustersim.program.schedules.steps import Row, Schedule, Step
from clustersim.timeline import INPUT, KINDS

_STEP: Final = re.compile(rf"([{''.join(KINDS)}])(\d{{1,7}})(?:\.(\d{{1,3}}))?")
_STAGE: Final = re.compile(r"stage\s+(\d+)\s*:?(?:\s+(.*))?")


def read_schedule(path: Path, where: str = "") -> Schedule:
    """Return the schedule that a text file holds.

    Parameters
    ----------
    where : location of the path, with which the message of a missing file begins

    Raises
    ------
    ScenarioError
        when the file does not exist, when a line is no stage (with its number), or when its steps
        are no schedule (drawn, with the first wrong step marked).
    """
    lines = read_text(path, where=f"{where}: " if where else "").splitlines()
    title, wiring, rows = _parsed(lines, path)
    chunks = 1 + max(step.chunk for row in rows for step in row)
    microbatches = 1 + max(step.microbatch for row in rows for step in row)
    wired = Wiring(wiring, len(rows), chunks)
    try:
        check_steps(rows, microbatches, wired)
    except ProgramError as error:
        raise ScenarioError(f"{path}: {error}") from None
    return Schedule(
        name=path.name,
        title=title or path.stem,
        steps=lambda stage, *_: iter(rows[stage]),
        wiring=wiring,
        chunks=(chunks, chunks),
        split=any(step.kind == INPUT for row in rows for step in row),
        paired=any(step.joined for row in rows for step in row),
        obstacle=lambda *shape: _obstacle(shape, (len(rows), microbatches, chunks)),
        shape=(len(rows), microbatches, chunks),
    )


def _obstacle(shape: tuple[int, int, int], written: tuple[int, int, int]) -> str | None:
    """Return why a file cannot be used for a shape, or None."""
    if shape == written:
        return None
    of_file, of_job = (f"{s} stages and {m} microbatches" for s, m, _ in (written, shape))
    return f"is written for {of_file}, and the job has {of_job}"


def _parsed(lines: list[str], path: Path) -> tuple[str, WiringName, list[Row]]:
    """Return title, wiring and steps of a file."""
    title, wiring, rows = "", "loop", list[Row]()
    for number, line in enumerate(lines, 1):
        here, text = f"{path}:{number}", line.partition("#")[0].strip()
        if not text:
            title = title or line.lstrip("# ").strip()
        elif text.startswith("wiring:"):
            wiring = text.removeprefix("wiring:").strip()
            if wiring not in WIRINGS:
                raise ScenarioError(
                    f"{here}: wiring: unknown wiring '{wiring}' (allowed: {', '.join(WIRINGS)})"
                )
        elif (match := _STAGE.fullmatch(text)) and int(match[1]) == len(rows):
            rows.append(_steps(match[2] or "", here))
        else:
            raise ScenarioError(
                f"{here}: '{text[:40]}' is not the line of stage {len(rows)}"
                f" (write: stage {len(rows)}   F0 F1 B0 B1)"
            )
    if not any(rows):
        raise ScenarioError(f"{path}: has no steps (write: stage 0   F0 F1 B0 B1)")
    return title, cast("WiringName", wiring), rows


def _steps(text: str, here: str) -> Row:
    """Return the steps of a line."""
    steps = []
    for word in text.replace("&", "& ").split():
        match = _STEP.fullmatch(word.removesuffix("&"))
        if match is None:
            raise ScenarioError(
                f"{here}: '{word}' is not a step (F forward, B backward, I of the inputs, W of the"
                " weights, then a microbatch, and a chunk after a dot: F0, B12.1)"
            )
        kind, microbatch, chunk = match.groups()
        steps.append(Step(kind, int(microbatch), int(chunk or 0), word.endswith("&")))
    return tuple(steps)
