"""Fits of measured kernels as their files state them, apart from the accelerators themselves.

topologies/accelerators/<name>.yaml   what a run reads
topologies/kernels/<name>.yaml        fits of kernels of that accelerator, many times as long
"""

from pathlib import Path
from typing import Literal

from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import Count, Line, NotNegative, Record, Strict
from clustersim.catalog.records import Fitted
from clustersim.catalog.tree import Tree
from clustersim.errors import CatalogError


class KernelFit(Strict):
    """The fit of a surface to measured kernels of one kind, in one number format or library.

    `rows` is the number of them and `measured` their source.  `median` and `p90` are of the
    absolute errors of the time, each row by a fit without its shape.  `found` has the terms that
    the rows determined; the others have their priors.
    """

    rows: Count
    measured: Line
    median: NotNegative
    p90: NotNegative
    found: dict[str, Fitted]


class KernelsRecord(Record):
    """``topologies/kernels/*.yaml``: fits of measured kernels of the accelerator of that name.

    `kernels` are by kind of kernel, and then by number format or library.
    """

    kind: Literal["kernels"]
    kernels: dict[str, dict[str, KernelFit]]


def find_kernel_fits(accelerator: str, folder: Path | None = None) -> KernelsRecord | None:
    """Return the fits of an accelerator, from `folder` or the shipped ones; None without any.

    Raises
    ------
    CatalogError
        when the file is not valid.
    """
    path = None if folder is None else folder / f"{accelerator}.yaml"
    if accelerator not in finding.entry_names("kernels") and (path is None or not path.is_file()):
        return None
    try:
        document = finding.find("kernels", accelerator, folder)
    except CatalogError:
        if accelerator in finding.entry_names("kernels"):
            raise
        return None  # the file in the folder is of another kind
    return checked(KernelsRecord, Tree.of(document), CatalogError)
