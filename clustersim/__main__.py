"""`python -m clustersim`, the same as the command `clustersim`."""

import gc
import os
import sys
from typing import Final

GARBAGE_THRESHOLD: Final = 1_000_000
"""New objects before the garbage collector runs [count].

Commands build much and drop little: a run took a tenth longer with Python's own 700, half of it
while modules were imported.
"""

COMPLETE: Final = "__complete"
"""The first word of what a shell runs at a TAB, which is answered before any verb is imported."""


def main() -> None:
    """Run the command line; an interrupt ends it without a traceback, even while it is imported."""
    if sys.argv[1:2] == [COMPLETE]:
        from clustersim.completion.shells import main as complete

        complete(sys.argv[2:])
        return
    gc.set_threshold(GARBAGE_THRESHOLD)
    # pydantic searches all installed packages for plugins, of which commands need none: 20 ms
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # numpy starts a thread for each core, which the small matrices of commands leave idle: 50 ms
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from clustersim.cli import main

        main()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
