"""When Python looks for garbage: not while a step is simulated and its result is read.

Reference counts free nearly all of a result; the collector would walk all of it as long as it is
alive, which takes a tenth of the time of a short run.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_off() -> Iterator[None]:
    """Collect no garbage in a block or a decorated function, if it was collected before."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
