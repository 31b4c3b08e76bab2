"""The jobs of a shared machine: each as traffic on its links, and as a graph of operations.

scenario --its layout, on its nodes of the machine--> compilation --folded--> operations
service  --its mean step----------------------------------------------^
trace    --on its nodes---------------------------------------------^
traffic  --one collective or exchange after another-----------------^
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache, cached_property
from math import prod
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from clustersim.arrays import Booleans, Floats, Integers
from clustersim.catalog.changes import changes_of
from clustersim.catalog.reading import Document, plain_copy
from clustersim.catalog.tree import dotted
from clustersim.engine.program_operations import operations_of
from clustersim.errors import ClustersimError, ScenarioError
from clustersim.importers.traces.trace import Trace
from clustersim.memory.peak import estimate_memory
from clustersim.plan.placement import Placement, place
from clustersim.program.collectives.communicator import Communicator
from clustersim.program.compile import Compilation
from clustersim.program.fold import Folded, JobTraffic
from clustersim.program.job import Job
from clustersim.program.movement.transfers import message_rows
from clustersim.program.operations import Operations
from clustersim.program.traced import TracedProgram
from clustersim.records import dataclass
from clustersim.scenario.load import (
    Loaded,
    LoadedJob,
    LoadedService,
    LoadedSharing,
    LoadedTrace,
    from_origin,
)
from clustersim.scenario.origins import UNTITLED, Origin, origin_of
from clustersim.scenario.sharing import JobFile, TrafficFile
from clustersim.scenario.traced import TraceFile
from clustersim.scenario.training import CheckpointFile
from clustersim.simulation.sharing.halo import faces
from clustersim.simulation.sharing.job import SharedJob
from clustersim.simulation.sharing.services import SharedService
from clustersim.simulation.sharing.storage import SharedStorage
from clustersim.simulation.step.build import (
    assembled_job,
    cluster_of,
    layout_of,
    model_of,
    schedule_of,
)
from clustersim.simulation.step.check import check_layout
from clustersim.simulation.step.disturbed import causes_of, faults_of, shared_causes
from clustersim.simulation.step.simulate import replay_step
from clustersim.simulation.trace.replay import nodes_of, replayed, trace_of
from clustersim.simulation.training_run.checkpoint_flows import copy_seconds, rank_states
from clustersim.topology.accelerator import build_accelerator
from clustersim.topology.cluster import Cluster
from clustersim.traffic import Traffic, TrafficRows, bytes_by_link
from clustersim.units import counted

TRAFFIC: Final = ("traffic",)
"""Name of the traffic of a job that is plain traffic."""

SAVE: Final = ("save",)
"""Name of the traffic of a checkpoint."""


@dataclass(frozen=True)
class Saves:
    """The saves of a training job.

    Attributes
    ----------
    every : steps between two of them
    rows : what all nodes write
    copied : time of the copy to the hosts, which is written while steps run [s]; None where the
        work waits for the storage
    """

    every: int
    rows: TrafficRows
    copied: float | None

    def between(self, step: Operations, written: Traffic) -> Operations:
        """Return the steps from a save to the next one; a copy is written during these steps."""
        graph = Operations()
        last: list[int] = []
        if self.copied is not None:
            graph.add("save", traffic=written)
        for _ in range(self.every):
            last = [graph.append(step, last)]
        if self.copied is None:
            graph.add("save", last, traffic=written)
        else:
            graph.add("copy to the host", last, seconds=self.copied)
        return graph


class SharedStep(SharedJob):
    """A job that repeats a training step."""

    kind = "training step"

    def __init__(
        self,
        name: str,
        loaded: Loaded,
        job: Job,
        nodes: tuple[int, ...],
        start: float,
        saves: "Saves | None" = None,
    ) -> None:
        batch = loaded.scenario.batch
        memory = estimate_memory(job).answer
        super().__init__(name, nodes, start, batch.tokens, memory)
        self._saves = saves
        self.steps = 1 if saves is None else saves.every
        self._loaded, self._job = loaded, job
        self._bound = loaded.scenario.fusion_bound
        self._compilation = Compilation(job, fusion_bound=self._bound)
        self._alone = cache(self._replayed_alone)  # once for it and all that meet others

    @property
    def carried(self) -> tuple[Integers, Floats]:
        """Bytes of one step on each link that it uses, by number [B]."""
        carried = self._compilation.carried
        links, nbytes = carried.numbers, carried.nbytes
        if self._saves is None:
            return links, nbytes
        crossed, saved = self._saves.rows.carried
        return bytes_by_link([(links, nbytes), (crossed, saved / self.steps)])

    @property
    def traffic(self) -> JobTraffic:
        """Its traffic on the links of the machine."""
        traffic = self._compilation.traffic
        if self._saves is None:
            return traffic
        return traffic._replace(joint={**traffic.joint, SAVE: self._saves.rows})

    @property
    def alone(self) -> float | None:
        """Time of a step with the machine to itself [s]; None with saves."""
        return self._alone()

    def _replayed_alone(self) -> float | None:
        if self._saves is not None:
            return None
        scenario = self._loaded.scenario
        _, replayed = replay_step(
            self._job, fold_replicas=scenario.fold, fusion_bound=self._bound, exact=scenario.exact
        )
        return replayed.timeline.duration

    def meeting(self, links: Booleans) -> Self:
        """Return the job whose collectives inside blocks share links that others use as well.

        Two steps that run concurrently on a device keep the closed form of their collectives.
        """
        if any(code.paired for code in self._job.order.codes):
            return self
        other = copy(self)
        other._compilation = Compilation(self._job, fusion_bound=self._bound, met=links)
        return other

    def operations(self, folded: Folded) -> Operations:
        """Return the steps from a save to the next one as a graph of operations."""
        step = operations_of(self._compilation.program(folded))
        return step if self._saves is None else self._saves.between(step, folded.joint[SAVE])


class SharedTraffic(SharedJob):
    """A job that runs one collective, exchange, save or load after another."""

    kind = "traffic"

    def __init__(
        self, name: str, file: TrafficFile, rows: TrafficRows, cluster: Cluster,
        nodes: tuple[int, ...], start: float,
    ) -> None:  # fmt: skip
        super().__init__(name, nodes, start)
        self._pause, self._rows = file.pause, rows
        self._capacities = cluster.links.capacities.tolist()

    @property
    def carried(self) -> tuple[Integers, Floats]:
        """Bytes of one collective on each link that it uses, by number [B]."""
        return self._rows.carried

    @property
    def traffic(self) -> JobTraffic:
        """Its traffic on the links of the machine."""
        return JobTraffic({TRAFFIC: self._rows}, {}, np.zeros(1, dtype=np.int64))

    @cached_property
    def alone(self) -> float:
        """Time of a pause and a collective with the machine to itself [s]."""
        traffic = self._rows.of_row(0)
        seconds = traffic.nbytes / traffic.uncontended_rate(self._capacities)
        return self._pause + traffic.latency + seconds

    def operations(self, folded: Folded) -> Operations:
        """Return a pause and a collective as a graph of operations."""
        graph = Operations()
        pause = graph.add("pause", seconds=self._pause)
        graph.add(self.name, [pause], traffic=folded.traffic[0][TRAFFIC])
        return graph


class SharedTrace(SharedJob):
    """A job that repeats its execution trace."""

    kind = "trace"

    def __init__(
        self, name: str, trace: Trace, file: TraceFile, cluster: Cluster, nodes: tuple[int, ...],
        start: float,
    ) -> None:  # fmt: skip
        super().__init__(name, nodes, start)
        size = cluster.node.devices
        devices = [node * size + local for node in nodes for local in range(size)]
        self._program = TracedProgram(trace, cluster, devices, file.compute)

    @property
    def carried(self) -> tuple[Integers, Floats]:
        """Bytes of one pass on each link that it uses, by number [B]."""
        return self._program.carried

    @property
    def traffic(self) -> JobTraffic:
        """Its traffic on the links of the machine."""
        return self._program.traffic

    @cached_property
    def alone(self) -> float:
        """Time of a pass with the machine to itself [s]."""
        return float(replayed(self._program).end.max())

    def operations(self, folded: Folded) -> Operations:
        """Return one pass as a graph of operations."""
        return self._program.operations(folded)


def jobs_of(loaded: LoadedSharing) -> list[LoadedJob]:
    """Return the scenarios of the jobs of a shared machine; plain traffic has none."""
    return [draft.own for draft in drafts_of(loaded) if draft.own is not None]


def drafts_of(loaded: LoadedSharing) -> "list[Draft]":
    """Return the jobs of a file, those with copies once."""
    return [Draft(loaded, number, file) for number, file in enumerate(loaded.scenario.jobs)]


class Draft:
    """A job of the file before it has nodes."""

    def __init__(self, loaded: LoadedSharing, number: int, file: JobFile) -> None:
        self.file, self.number, self._sharing = file, number, loaded
        self.own = None if file.scenario is None else self._on_its_nodes()
        self.trace = None if file.trace is None else self._read_trace(file.trace)
        self.count, name = self._needs()
        self.name = file.name or name

    def where(self, *path: str) -> str:
        """Return the place of a key of this job, with which a message begins."""
        return self._sharing.where("jobs", self.number, *path)

    def job(
        self, name: str, nodes: tuple[int, ...], cluster: Cluster, storage: SharedStorage
    ) -> SharedJob:
        """Return the job on its nodes."""
        start, traffic, trace = self.file.start, self.file.traffic, self.file.trace
        if traffic is not None:
            rows = self._rows(name, traffic, nodes, cluster, storage)
            return SharedTraffic(name, traffic, rows, cluster, nodes, start)
        if self.trace is not None and trace is not None:
            return SharedTrace(name, self.trace, trace, cluster, nodes, start)
        if isinstance(self.own, LoadedService):
            with self._named():
                return SharedService(name, self.own, nodes, cluster, start)
        assert self.own is not None
        with self._named():
            job = self._placed(self.own, nodes, cluster)
        saves = self._saves(self.own, job, nodes, storage)
        return SharedStep(name, self.own, job, nodes, start, saves)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Set the place of the job before each line of an error of its scenario."""
        try:
            yield
        except ClustersimError as problem:
            lines = "\n".join(f"{self.where()}: {line}" for line in str(problem).splitlines())
            raise type(problem)(lines) from None

    def _needs(self) -> tuple[int, str]:
        """Return the nodes that it needs, and its name where the file states none."""
        if self.trace is not None:
            return nodes_of(self.trace, self._sharing.scenario.cluster.node.devices), "trace"
        if self.own is not None:
            return self.own.scenario.cluster.nodes, self.own.name
        assert self.file.traffic is not None
        return self.file.traffic.nodes, "traffic"

    def _read_trace(self, file: TraceFile) -> Trace:
        return trace_of(file, self._sharing.origin.folder, self.where("trace", "files"))

    def _saves(
        self, loaded: Loaded, job: Job, nodes: tuple[int, ...], storage: SharedStorage
    ) -> Saves | None:
        """Return the saves of a training job; None without any."""
        if self.file.save_every is None:
            return None
        training = loaded.scenario.training
        checkpoint = CheckpointFile() if training is None else training.checkpoint
        mode = checkpoint.mode
        if mode not in ("synchronous", "asynchronous"):
            raise ScenarioError(
                f"{self.where('save_every')}: mode '{mode}' does not write to the storage of the"
                " machine (synchronous or asynchronous)"
            )
        states = rank_states(job)
        nbytes = checkpoint.size or sum(state.ranks * state.saved for state in states)
        copied = copy_seconds(job, states) if mode == "asynchronous" else None
        return Saves(self.file.save_every, storage.moved("save", nodes, nbytes), copied)

    def _on_its_nodes(self) -> LoadedJob:
        """Return its scenario on as many nodes as its layout has devices."""
        cluster, own = self._sharing.scenario.cluster, self._own_scenario()
        if isinstance(own, LoadedService):
            if self.file.save_every is not None:
                raise ScenarioError(f"{self.where('save_every')}: a service has no checkpoint")
            use = cluster.model_copy(update={"nodes": -(-own.scenario.devices // self._size)})
            return replace(own, scenario=own.scenario.model_copy(update={"cluster": use}))
        if faults := faults_of(own):
            raise ScenarioError(
                f"{faults[0].where}: a fault of the network is one of the machine, not of a job"
                " (state it in the list 'disturbances' next to 'jobs')"
            )
        plan = own.scenario.plan
        ranks = plan.tensor * plan.pipeline * plan.data * plan.context
        use = cluster.model_copy(update={"nodes": -(-ranks // self._size)})
        return replace(own, scenario=own.scenario.model_copy(update={"cluster": use}))

    @property
    def _size(self) -> int:
        """Devices of a node."""
        return self._sharing.scenario.cluster.node.devices

    def _own_scenario(self) -> LoadedJob:
        source, changes = self.file.scenario, changes_of(self.file.set)
        machine = next((change for change in changes if change.path[0] == "cluster"), None)
        if machine is not None:
            raise ScenarioError(
                f"{self.where('set')}: {dotted(machine.path)}: the jobs have one machine (set"
                " it in the section cluster)"
            )
        with self._named():
            if isinstance(source, Mapping):
                loaded = from_origin(self._inline(source), changes)
            else:
                loaded = from_origin(origin_of(self._file(str(source)), changes), changes)
        if isinstance(loaded, LoadedSharing):
            raise ScenarioError(
                f"{self.where('scenario')}: a shared machine is no job of another one (training"
                " steps, services and traffic are)"
            )
        if isinstance(loaded, LoadedTrace):
            raise ScenarioError(
                f"{self.where('scenario')}: the scenario of a trace (trace: {{files: FOLDER}}"
                " instead)"
            )
        return replace(loaded, origin=replace(loaded.origin, name=self.file.name or loaded.name))

    def _inline(self, source: Mapping[str, Any]) -> Origin:
        """Return the keys and values of a scenario, on the shared machine if it names none."""
        path, shared = ("jobs", self.number, "scenario"), self._sharing.origin
        data = {**UNTITLED, "cluster": shared.document.mapping()["cluster"], **source}
        places = self._sharing.part(*path)
        document = Document(self._sharing.tree.place(path).file, plain_copy(data), places)
        return Origin(f"job {self.number}", document, shared.folder)

    def _file(self, name: str) -> str:
        """Return a file next to that of the shared machine, or a shipped name."""
        folder = self._sharing.origin.folder
        file = (Path() if folder is None else folder) / name
        return str(file) if file.is_file() else name

    def _placed(self, loaded: Loaded, nodes: tuple[int, ...], machine: Cluster) -> Job:
        """Return the job on its nodes, in the layout that it has on a machine of its own."""
        scenario, schedule = loaded.scenario, schedule_of(loaded)
        model = model_of(scenario)
        layout = layout_of(scenario, schedule, model)
        check_layout(loaded, schedule, layout, model)
        placing = scenario.plan.placement
        own = place(
            layout, cluster_of(loaded), placing.order, placing.boxes, placing.devices, loaded.where
        )
        size = machine.node.devices
        node, local = np.divmod(own.devices, size)
        devices = np.array(nodes)[node] * size + local
        accelerator = build_accelerator(
            scenario.cluster.node.accelerator, scenario.framework.passes
        )
        placement = Placement(layout, devices)
        job = assembled_job(
            loaded, placement, machine.with_accelerator(accelerator), model, schedule
        )
        numbers = placement.own.devices.tolist()
        of_job = dict(zip(own.devices.tolist(), numbers, strict=True))
        shared = dict(zip(devices.tolist(), numbers, strict=True))
        causes = [
            *(cause.on(of_job) for cause in causes_of(loaded, own)),
            *(cause.on(shared) for cause in shared_causes(self._sharing, frozenset(shared))),
        ]
        return replace(job, causes=tuple(causes))

    def _rows(
        self, name: str, file: TrafficFile, nodes: tuple[int, ...], cluster: Cluster,
        storage: SharedStorage,
    ) -> TrafficRows:  # fmt: skip
        """Return the traffic of a job that is plain traffic, in one row."""
        if file.storage is not None:
            return storage.moved(name, nodes, file.bytes, reads=file.storage == "read")
        size = cluster.node.devices
        devices = (np.array(nodes)[:, None] * size + np.arange(size)).ravel()
        if file.halo is not None:
            self._check_grid(file.halo, len(devices))
            sources, targets = faces(file.halo, periodic=file.periodic)
            return message_rows(
                cluster, name, file.bytes, devices[sources], devices[targets],
                algorithm=cluster.library.choices.get("send", ("send",))[0],
            )  # fmt: skip
        assert file.collective is not None
        communicator = Communicator(cluster, devices.reshape(1, -1))
        return communicator.traffic_rows(name, file.collective, file.bytes)

    def _check_grid(self, lengths: Sequence[int], devices: int) -> None:
        if prod(lengths) != devices:
            raise ScenarioError(
                f"{self.where('traffic', 'halo')}: {' x '.join(map(str, lengths))} is"
                f" {counted(prod(lengths), 'device')}, and"
                f" {counted(devices // self._size, 'node')} have {devices:,} (make them equal)"
            )
