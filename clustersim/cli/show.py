"""`clustersim show NAME`: look at a schedule as letters."""

from typing import Annotated

import typer


def show(
    name: Annotated[str, typer.Argument(help="A schedule: gpipe, 1f1b, interleaved-1f1b.")],
    stages: Annotated[int, typer.Option(min=1, help="Stages of the pipeline.")] = 4,
    microbatches: Annotated[int, typer.Option(min=1, help="Microbatches of a step.")] = 8,
    chunks: Annotated[int, typer.Option(min=1, help="Model chunks of each stage.")] = 1,
) -> None:
    """Print a schedule: a line a stage, F forward, B backward."""
    from clustersim.catalog.tree import nearest
    from clustersim.errors import ScenarioError
    from clustersim.program.schedules import SCHEDULES, grid, text

    if name not in SCHEDULES:
        known = ", ".join(SCHEDULES)
        raise ScenarioError(
            f"{name}: no schedule of that name{nearest(name, SCHEDULES)} (known: {known})"
        )
    if problem := _misfit(name, stages, microbatches, chunks):
        raise ScenarioError(f"{name}: {problem}")
    print(text(grid(name, stages, microbatches, chunks)))


def _misfit(name: str, stages: int, microbatches: int, chunks: int) -> str | None:
    """Return why a schedule cannot have this shape, or None."""
    if name != "interleaved-1f1b":
        return None if chunks == 1 else "has one chunk a stage (interleaved-1f1b has several)"
    if stages == 1 or chunks == 1:
        return "needs --stages and --chunks of at least 2"
    if microbatches % stages:
        return f"needs --microbatches to be a multiple of --stages, and {microbatches} is none"
    return None
