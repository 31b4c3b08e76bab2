"""How fast programs are compiled and replayed: blocks a second, and each road against the other.

python benchmarks/replay.py [scenario ...]
"""

import sys
import time
from collections.abc import Callable
from typing import TypeVar

from clustersim.building import build_job
from clustersim.engine.alone import AloneCrew
from clustersim.engine.replay import run
from clustersim.engine.stepping import SteppingCrew
from clustersim.program.compile import compile_program
from clustersim.scenario.load import load

Value = TypeVar("Value")


def timed(work: Callable[[], Value]) -> tuple[float, Value]:
    """Return the best of three times [s], and the last value."""
    best = float("inf")
    for _ in range(3):
        began = time.perf_counter()
        value = work()
        best = min(best, time.perf_counter() - began)
    return best, value


def main(names: list[str]) -> None:
    """Print a line for each scenario."""
    print(
        f"{'scenario':20} {'blocks':>8} {'compile':>9} {'alone':>13} {'stepping':>13} {'ratio':>6}"
    )
    for name in names:
        loaded = load(name)
        compiling, program = timed(
            lambda loaded=loaded: compile_program(  # type: ignore[misc]
                build_job(loaded), together=True, fusion_bound=loaded.scenario.fusion_bound
            )
        )
        blocks = sum(len(actor.steps) for actor in program.actors)
        alone, crew = timed(lambda program=program: run(AloneCrew(program)))  # type: ignore[misc]
        stepping, _ = timed(lambda program=program: run(SteppingCrew(program)))  # type: ignore[misc]
        note = "  (transfers meet: only the second counts)" if crew.met() else ""
        print(
            f"{name:20} {blocks:8,} {compiling:7.3f} s {blocks / alone:11,.0f}/s"
            f" {blocks / stepping:11,.0f}/s {stepping / alone:6.1f}{note}"
        )


if __name__ == "__main__":
    main(sys.argv[1:] or ["frontier-22b", "megatron21-t1-530b", "frontier-1t"])
