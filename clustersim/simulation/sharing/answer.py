"""The answer of a shared machine: each job alone and together, and what each costs the others."""

from clustersim.answers import Presentable, record


@record
class NeighbourCost:
    """What another job costs a job at links that both use.

    Attributes
    ----------
    job : the other job
    link : the link that both need at the same time; one of several that are alike; null where
        they share none, and the cost comes by a third job
    links : number of such links
    seconds : of each step [s]
    """

    job: str
    link: str | None
    links: int
    seconds: float


@record
class JobAnswer:
    """A job on a shared machine.

    Attributes
    ----------
    name : of the job
    kind : `training step` or `traffic`
    nodes : its nodes, as numbers and ranges
    devices : its devices
    alone_s : time of a step with the machine to itself [s]
    shared_s : mean time of a step next to the others [s]
    least_s, most_s : shortest and longest of these steps [s]
    slowdown : shared over alone
    steps : steps that the mean is of
    memory : the verdict of its memory in words; null of plain traffic
    tokens_per_s : training throughput next to the others; null of plain traffic
    blame : what each other job costs it, the most first, which add up to `shared_s - alone_s`;
        null where there are too many jobs to replay all of their subsets
    """

    name: str
    kind: str
    nodes: str
    devices: int
    alone_s: float
    shared_s: float
    least_s: float
    most_s: float
    slowdown: float
    steps: int
    memory: str | None
    tokens_per_s: float | None
    blame: tuple[NeighbourCost, ...] | None


@record
class SharedLink:
    """A link that two jobs or more use.

    Attributes
    ----------
    link : its name, of one of several that are alike
    links : number of such links
    capacity : payload in a second [B/s]
    load : share of its capacity in use by each job, over the time of all
    contended : whether traffic ever waited for it
    """

    link: str
    links: int
    capacity: float
    load: dict[str, float]
    contended: bool


@record
class ShareAnswer(Presentable):
    """Several jobs on one machine; `share --json` prints its keys.

    Attributes
    ----------
    name : of the scenario
    title : its title
    cluster : name of the machine
    nodes : nodes of the machine
    jobs : each job
    links : links that two jobs or more use, the fullest first
    fairness : Jain's index of the jobs' speeds, each as a share of that alone: 1 where all are
        slowed alike
    settled : whether the mean times of the first and second half of the counted steps of each job
        agree to one percent
    """

    name: str
    title: str
    cluster: str
    nodes: int
    jobs: tuple[JobAnswer, ...]
    links: tuple[SharedLink, ...]
    fairness: float
    settled: bool
