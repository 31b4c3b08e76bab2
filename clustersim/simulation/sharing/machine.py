"""A shared machine: its jobs before and after they have nodes.

jobs of the file --copies, rules of places--> nodes of each --> jobs on their nodes
"""

import random
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from clustersim.records import dataclass
from clustersim.scenario.load import LoadedSharing
from clustersim.simulation.sharing.candidates import Chooser
from clustersim.simulation.sharing.job import SharedJob
from clustersim.simulation.sharing.jobs import drafts_of
from clustersim.simulation.sharing.nodes import Need, assign_nodes
from clustersim.simulation.sharing.storage import SharedStorage
from clustersim.simulation.step.disturbed import faults_of, shared_causes
from clustersim.topology.cluster import Cluster, build_cluster

Nodes = tuple[int, ...]


@dataclass(frozen=True)
class PlacedJobs:
    """Jobs on a machine, each on nodes of its own.

    Attributes
    ----------
    seed : of what is drawn
    assumed : keys that are assumed, with the reason: of the storage, where a job uses it
    """

    cluster: Cluster
    jobs: Sequence[SharedJob]
    seed: int
    assumed: Mapping[str, str]


class SharedMachine:
    """A machine and its jobs, before they have nodes.

    Parameters
    ----------
    draw : number that is added to the seed of nodes and phases

    Attributes
    ----------
    names : of the jobs, those of copies with numbers
    needs : nodes of each job, and the rule by which it has them

    Raises
    ------
    ScenarioError, CatalogError, PlanError
        one line for each problem, which begins with the job.
    """

    def __init__(self, loaded: LoadedSharing, draw: int = 0) -> None:
        sharing = loaded.scenario
        self.seed = sharing.seed + draw
        self.total = sharing.cluster.nodes
        shared_causes(loaded, frozenset())  # checked, also where all jobs are traffic
        self.cluster = build_cluster(
            sharing.cluster, self.total, faults=faults_of(loaded), issuer="training"
        )
        self.storage = SharedStorage(self.cluster, sharing.cluster)
        self._drafts = [draft for draft in drafts_of(loaded) for _ in range(draft.file.copies)]
        self.needs = [
            Need(draft.count, draft.file.nodes, draft.where("nodes")) for draft in self._drafts
        ]
        self.names = _different([draft.name for draft in self._drafts])
        phases = random.Random(f"phase {self.seed}")
        self._phases = [
            phases.random() if draft.file.phase == "random" else 0.0 for draft in self._drafts
        ]
        self._jobs: dict[tuple[int, Nodes], SharedJob] = {}

    @property
    def choosers(self) -> list[int]:
        """Jobs whose nodes are to be the best."""
        return [number for number, need in enumerate(self.needs) if need.rule == "best"]

    def chooser(self, number: int) -> Chooser:
        """Return a job whose nodes are to be the best."""
        return Chooser(self.names[number], self._drafts[number].number, self.needs[number])

    @cached_property
    def assigned(self) -> list[Nodes]:
        """The nodes of each job by its rule; none of jobs whose nodes are to be the best."""
        return self.assign({})

    def assign(self, rules: Mapping[int, str]) -> list[Nodes]:
        """Return the nodes of each job, by other rules of some jobs of the file."""
        needs = [
            need._replace(rule=rules.get(draft.number, need.rule))
            for need, draft in zip(self.needs, self._drafts, strict=True)
        ]
        return assign_nodes(needs, self.total, self.seed, self.cluster.fabric)

    def placed(self, chosen: Mapping[int, Nodes] | None = None) -> PlacedJobs:
        """Return the jobs on their nodes; `chosen` are those that are to be the best."""
        nodes = dict(enumerate(self.assigned)) | dict(chosen or {})
        jobs = [self.job(number, nodes[number]) for number in range(len(self.needs))]
        assumed = self.storage.assumed if self.storage.used else {}
        return PlacedJobs(self.cluster, _meeting(jobs, self.cluster), self.seed, assumed)

    def check(self) -> None:
        """Place all jobs: those that are to have the best nodes on the next free ones."""
        taken = {node for nodes in self.assigned for node in nodes}
        free = [node for node in range(self.total) if node not in taken]
        chosen: dict[int, Nodes] = {}
        for number in self.choosers:
            count = self.needs[number].nodes
            chosen[number], free = tuple(free[:count]), free[count:]
        self.placed(chosen)

    def job(self, number: int, nodes: Nodes) -> SharedJob:
        """Return a job on its nodes, which is kept."""
        key = number, nodes
        if key not in self._jobs:
            draft = self._drafts[number]
            job = draft.job(self.names[number], nodes, self.cluster, self.storage)
            job.phase = self._phases[number]
            self._jobs[key] = job
        return self._jobs[key]


def _meeting(jobs: Sequence[SharedJob], cluster: Cluster) -> list[SharedJob]:
    """Return the jobs, each with the links that others use as well."""
    used = [job.carried[0] for job in jobs]  # which may number further links
    users = np.zeros(len(cluster.links), dtype=np.int64)
    for links in used:
        users[links] += 1
    met = []
    for job, links in zip(jobs, used, strict=True):
        of_others = np.zeros(len(users), dtype=np.bool_)
        of_others[links] = users[links] > 1
        met.append(job.meeting(of_others) if of_others.any() else job)
    return met


def _different(names: list[str]) -> list[str]:
    """Return names with numbers where several are equal.

    >>> _different(["a", "b", "a"])
    ['a-1', 'b', 'a-2']
    """
    counts: dict[str, int] = {}
    numbered = []
    for name in names:
        counts[name] = counts.get(name, 0) + 1
        numbered.append(f"{name}-{counts[name]}" if names.count(name) > 1 else name)
    return numbered
