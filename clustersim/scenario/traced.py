"""Scenarios of a trace: the execution trace of a job on a cluster.

A scenario with the key `trace` is one; `clustersim import` writes it.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clustersim.catalog.facts import AT_FIRST_USE, Line, Strict
from clustersim.catalog.libraries import Algorithm, Operation
from clustersim.scenario.schema import ClusterName, ClusterUse, Expecting


class TraceFile(Strict):
    """The trace of a job, and how its operations are timed."""

    files: Line = Field(
        description="folder of the trace, or the file of one of its ranks; next to the scenario"
    )
    format: Literal["chakra", "kineto"] | None = Field(
        None, description="format of the files; by their content if missing"
    )
    compute: Literal["recorded", "roofline"] = Field(
        "recorded",
        description="times of operations that compute: recorded ones, or by the accelerator's"
        " roofline where the trace states FLOPs and bytes",
    )

    def place(self, folder: Path | None) -> Path:
        """Return the path of the trace, from the folder of the scenario."""
        path = Path(self.files).expanduser()
        near = (Path() if folder is None else folder) / path
        return near if near.exists() else path


class TracedBase(Expecting):
    """The keys of the scenario of a trace that name no other file."""

    title: Line
    trace: TraceFile
    collectives: dict[Operation, Algorithm] = Field(
        {}, description="algorithms by operation, instead of the library's choice"
    )
    assumed: dict[str, str] = Field({}, description="keys without a source, with the reason")
    published: ClassVar[tuple[()]] = ()


class Traced(TracedBase):
    """The scenario of a trace whose cluster has been replaced by the catalogue's record."""

    cluster: Annotated[ClusterUse, AT_FIRST_USE]


class TracedFile(TracedBase):
    """The scenario of a trace as it is written: the schema for editors."""

    cluster: ClusterName
