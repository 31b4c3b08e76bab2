"""The step of a job: compiled to a program and replayed, with as few rank classes as is exact.

1. Replicas are folded as if no link were ever overloaded, and the step is replayed.
2. If links were overloaded, transfers share these links, replicas are folded by them as well, and
   the step is replayed again.

Most steps end with the first: of 2,048 replicas on a fat tree, 514 share links in different ways.
"""

import numpy as np

from clustersim.engine.replay import Replayed, replay, replay_sharing, result
from clustersim.program.compile import Compilation
from clustersim.program.job import Job
from clustersim.program.program import Program
from clustersim.program.schedules.check import check_program

ATTEMPTS = 8
"""Times that replicas are folded by overloaded links before they are by all links."""


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
        folded = _folded_by_overloaded_links(compilation, exact=exact)
        if folded is not None:
            return folded
    replicas = compilation.replicas
    program = compilation.program(replicas.folded() if fold_replicas else replicas.unfolded())
    check_program(program)
    return program, replay(program, exact=exact)


def _folded_by_overloaded_links(
    compilation: Compilation, *, exact: bool
) -> tuple[Program, Replayed] | None:
    """Return the program and its replay; None where further links are overloaded each time."""
    replicas, shared = compilation.replicas, np.zeros(0, dtype=np.int64)
    folded = replicas.folded(shared)
    for attempt_number in range(ATTEMPTS):
        program = compilation.program(folded)
        if not attempt_number:  # all have the same steps
            check_program(program)
        links = folded.links
        attempt = replay_sharing(program, links.colours_of(shared), exact=exact)
        contended = links.of_colours(attempt.contended)
        if not attempt.overloaded and not replicas.differ(folded, contended):
            return program, result(attempt.method)
        shared = np.union1d(shared, links.of_colours(attempt.overloaded | attempt.contended))
        folded = replicas.folded(shared)
    return None
