"""Other simulators that the user has checked out, timed on the same work.

Each is started as its own documentation does, on files that it ships, and clustersim on a scenario
with the same model, devices and layout.  Only time and memory are compared here: what programs
predict is compared in docs/validation/.

    calculon    https://github.com/calculon-ai/calculon, README: LLM Example
    simumax     https://github.com/MooreThreads/SimuMax, examples/perf_llama3_8b_tp1_pp2.py
    astra-sim   https://github.com/astra-sim/astra-sim, examples/run_scripts/analytical
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.table import Table
from benchmarks.timing import CLUSTERSIM, CommandError, cost_of


class SameWork(NamedTuple):
    """A command of another program, and the arguments with which clustersim does the same."""

    title: str
    command: tuple[str, ...]
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = {}


def _calculon(root: Path) -> list[SameWork]:
    """Return the runs of Korthikanti et al. 2022, Table 5."""
    names = ("megatron-22B", "gpt3-175B", "turing-530B", "megatron-1T")
    return [
        SameWork(
            f"{model}, selective recomputation",
            (
                sys.executable, "./bin/", "llm", f"models/{model}.json",
                f"validation/seqsel/tab5/{model}_seqsel.json", "systems/a100_80g.json", "-",
            ),
            ("run", f"korthikanti-{model.rpartition('-')[2].lower()}-seqsel", "--json"),
            {"PYTHONPATH": str(root)},
        )
        for model in names
    ]  # fmt: skip


_SIMUMAX = """
from simumax.core.config import ModelConfig, StrategyConfig, SystemConfig
from simumax.core.perf_llm import PerfLLM
model = PerfLLM()
model.configure(
    strategy_config=StrategyConfig.init_from_config_file("configs/strategy/tp1_pp2_dp4_mbs1.json"),
    model_config=ModelConfig.init_from_config_file("configs/models/llama3-8b.json"),
    system_config=SystemConfig.init_from_config_file("configs/system/a100_pcie.json"),
)
model.run_estimate()
model.analysis_mem()
model.analysis_cost()
"""


def _simumax(root: Path) -> list[SameWork]:
    """Return Llama 3 8B on eight devices, in two stages."""
    settings = (
        "model=llama3-8b", "cluster=dgx-a100", "cluster.nodes=1", "plan.tensor=1",
        "plan.pipeline=2", "plan.data=4", "plan.schedule=1f1b", "plan.chunks=1",
        "plan.sequence_parallel=false", "batch.global=32", "batch.micro=1", "batch.sequence=4096",
        "precision=bf16", "recompute=none", "framework=megatron-core",
    )  # fmt: skip
    words = (word for setting in settings for word in ("--set", setting))
    return [
        SameWork(
            "llama3-8b on eight devices, two stages",
            (sys.executable, "-c", _SIMUMAX),
            ("run", "korthikanti-22b-seqsel", *words, "--json"),
            {"PYTHONPATH": str(root)},
        )
    ]


def _astra_sim(root: Path) -> list[SameWork]:
    """Return an all-reduce of 1 MB of 16 devices, congestion-aware."""
    examples = "examples"
    return [
        SameWork(
            "all-reduce of 1 MB by 16 devices",
            (
                str(root / "build/astra_analytical/build/bin/AstraSim_Analytical_Congestion_Aware"),
                f"--workload-configuration={examples}/workload/microbenchmarks/all_reduce/"
                "16npus_1MB/all_reduce",
                f"--system-configuration={examples}/system/native_collectives/Ring_4chunks.json",
                f"--remote-memory-configuration={examples}/remote_memory/analytical/"
                "no_memory_expansion.json",
                f"--network-configuration={examples}/network/analytical/Ring_16npus.yml",
            ),
            ("collective", "--cluster", "dgx-a100", "--op", "all-reduce", "--devices", "16",
             "--bytes", "1MB", "--algorithm", "ring", "--json"),
        )
    ]  # fmt: skip


SIMULATORS: dict[str, Callable[[Path], list[SameWork]]] = {
    "calculon": _calculon,
    "simumax": _simumax,
    "astra-sim": _astra_sim,
}


def against(name: str, root: Path, repeats: int) -> Table:
    """Return the cost of the same work in another simulator and in clustersim.

    Raises
    ------
    CommandError
        when the folder does not exist, or a command fails.
    """
    if not root.is_dir():
        raise CommandError(f"{root}: is not a folder (expected a checkout of {name})")
    rows = []
    for work in SIMULATORS[name](root.resolve()):
        other = cost_of(work.command, repeats, folder=root, environment=work.environment)
        own = cost_of([*CLUSTERSIM, *work.arguments], repeats)
        rows.append(
            (
                work.title, other.wall, own.wall, other.processor, own.processor,
                round(other.peak / 1e6), round(own.peak / 1e6),
            )
        )  # fmt: skip
    return Table(
        name,
        f"Against {name}",
        (
            "work",
            f"{name} [s]",
            "clustersim [s]",
            f"{name}, processor [s]",
            "clustersim, processor [s]",
            f"{name}, memory [MB]",
            "clustersim, memory [MB]",
        ),
        rows,
        "Whole processes, from start to end.",
    )
