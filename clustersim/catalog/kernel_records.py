"""Fits of measured kernels as their files state them, apart from the accelerators themselves.

topologies/accelerators/<name>.yaml   what a run reads
topologies/kernels/<name>.yaml        fits of kernels of that accelerator, many times as long
"""

from pathlib import Path
from typing import Literal

from clustersim.catalog import finding
from clustersim.catalog.checking import checked
from clustersim.catalog.facts import (
    Bandwidth,
    Count,
    Fact,
    Fitted,
    Line,
    NotNegative,
    Record,
    Strict,
)
from clustersim.catalog.reading import read_yaml
from clustersim.catalog.text_files import is_file
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


Kernels = dict[str, dict[str, KernelFit]]
"""Fits by kind of kernel, and then by number format or library."""


class KernelsRecord(Record):
    """``topologies/kernels/*.yaml``: fits of measured kernels of the accelerator of that name.

    `kernels` are by kind of kernel, and then by number format or library.  `links` and `network`
    are the payload bandwidth of a device to others of its node, and of its NIC, in the machine on
    which collectives were measured: on other links they take other times.
    """

    kind: Literal["kernels"]
    links: Fact[Bandwidth] | None = None
    network: Fact[Bandwidth] | None = None
    kernels: Kernels


def find_kernel_fits(accelerator: str, folder: Path | None = None) -> KernelsRecord | None:
    """Return the fits of an accelerator, from `folder` or the shipped ones; None without any.

    Raises
    ------
    CatalogError
        when the file is not valid.
    """
    own = None if folder is None else kernel_fits_in(folder, accelerator)
    if own is not None or accelerator not in finding.entry_names("kernels"):
        return own
    return checked(KernelsRecord, Tree.of(finding.find("kernels", accelerator)), CatalogError)


def kernel_fits_in(folder: Path, accelerator: str) -> KernelsRecord | None:
    """Return the fits of an accelerator from a folder; None if it has no such file of this kind."""
    path = folder / f"{accelerator}.yaml"
    if not is_file(path):
        return None
    document = read_yaml(path, CatalogError)
    if not isinstance(document.data, dict) or document.data.get("kind") != "kernels":
        return None
    return checked(KernelsRecord, Tree.of(document), CatalogError)
