"""The step of a job: compiled to a program and replayed, with as few rank classes as is exact.

1. Replicas are folded as if no link were ever overloaded, and the step is replayed.
2. If a link was overloaded, they are folded by the links that they share as well.

Most steps end with the first: of 2,048 replicas on a fat tree, 514 share links in different ways.
"""

from clustersim.engine.replay import Replayed, replay, replay_uncontended
from clustersim.program.compile import Compilation
from clustersim.program.fold import ALIKE, LIKE_TIMES, NONE
from clustersim.program.job import Job
from clustersim.program.program import Program
from clustersim.program.schedule_check import check_program


def replay_step(
    job: Job, *, fold_replicas: bool, fusion_bound: float, exact: bool = False
) -> tuple[Program, Replayed]:
    """Return the program of a job, and the record of its replay.

    Parameters
    ----------
    fold_replicas, fusion_bound : as in `compile_program`
    exact : as in `replay`

    Raises
    ------
    ProgramError, SimulationError
        as `replay` does.
    """
    compilation = Compilation(job, fusion_bound=fusion_bound)
    if fold_replicas and compilation.fused.whole:
        program = compilation.program(LIKE_TIMES)
        check_program(program)
        replayed = replay_uncontended(program, exact=exact)
        if replayed is not None:
            return program, replayed
    program = compilation.program(ALIKE if fold_replicas else NONE)
    check_program(program)
    return program, replay(program, exact=exact)
