"""Random jobs of a program: any that its profiles run, and those that it can state as a whole."""

from functools import cache

from clustersim.catalog import finding
from clustersim.errors import CatalogError, PlanError, ScenarioError
from clustersim.scenario.entries import entry
from clustersim.scenario.load import from_mapping, service_from_mapping
from clustersim.simulation.service.serve import serve
from clustersim.simulation.step.simulate import simulate
from random_steps import devices_of_node, divisors, models, random_step, record

SERVERS = ("vllm", "sglang", "trtllm")
"""Programs that serve."""


@cache
def profiles(program):
    """Return the frameworks or engines that are launched as a program."""
    kind = "engine" if program in SERVERS else "framework"
    launches = {name: entry(kind, name).record.launch or {} for name in finding.entry_names(kind)}
    return [name for name, launch in launches.items() if launch.get(program)]


def any_step(rng, program):
    """Return a scenario of a framework of a program, with whatever the framework can run."""
    step = random_step(rng, 2, profiles(program))
    return step | {"framework": {"name": step["framework"]["name"]}}


def plain_step(rng, program):
    """Return a scenario that a program can state as a whole, in most cases."""
    step = any_step(rng, program)
    name = step["framework"]["name"]
    launch = entry("framework", name).record.launch[program]
    texts = launch.arguments
    plan = step["plan"]
    for key in ("offload", "finetune"):
        step.pop(key, None)
    for key in ("layers", "placement", "reshard", "schedule", "chunks"):
        plan.pop(key, None)
    for axis in ("tensor", "pipeline"):
        if f"plan.{axis}" not in texts:
            plan["data"] *= plan.pop(axis)
    offered = record("framework", name)["zero"]["value"]
    stages = [int(zero) for zero in offered if _is_stated(texts["plan.zero"], zero)]
    plan["zero"] = rng.choice(stages) if plan["data"] > 1 else 0
    step["framework"] = {"name": name}
    if program == "accelerate":
        step["framework"]["sharding"] = {"reduce": 2}
    step["precision"] = "bf16" if "bf16" in texts["precision"] else "fp16"
    step["recompute"] = rng.choice(["none", "full"])
    step["model"] = rng.choice(_models(launch, program))
    if plan.get("tensor", 1) == 1 or program == "torchtitan":
        plan["sequence_parallel"] = plan.get("tensor", 1) > 1
    if name.startswith(("megatron-lm", "megatron-deepspeed")):
        plan["sequence_parallel"] = False
        step["precision"] = "fp16"  # bf16 reduces gradients in 32 bits, which its profile does not
        step["model"] = {"name": step["model"], "vocab": 50_257}
    return step


def _is_stated(text, value):
    return not isinstance(text, dict) or str(value) in text


def _models(launch, program):
    """Return the models that a program can state."""
    named = launch.job.get("model.name")
    if isinstance(named, dict):
        return [*named]
    names = (
        {"gpt3-1.3b"}
        if "model.layers" in launch.job and "model.norm" not in launch.job
        else {"gpt3-1.3b", "llama3-8b", "mistral-7b", "qwen3-8b", "qwen2-72b"}
    )
    return sorted(names)


def random_steps_of(program, make):
    """Return a function from a generator to a legal scenario of a program and its result."""

    def legal(rng):
        while True:
            loaded = None
            try:
                loaded = from_mapping("job", make(rng, program))
                return loaded, simulate(loaded)
            except (PlanError, ScenarioError, CatalogError):
                continue

    return legal


def random_service(rng, program):
    """Return a serving scenario of an engine of a program; most are legal."""
    cluster = rng.choice(["dgx-h100", "dgx-a100"])
    model = rng.choice(models(experts=rng.random() < 0.5))
    devices = devices_of_node(cluster)
    plan = {"tensor": rng.choice(divisors(devices))}
    rest = devices // plan["tensor"]
    if rng.random() < 0.3 and rest > 1:
        plan["pipeline"] = 2
        rest //= 2
    if "experts" in record("model", model) and rng.random() < 0.7:
        plan["attention_data"] = rng.choice(divisors(rest))
        plan["expert"] = plan["attention_data"] * plan["tensor"]
    elif rng.random() < 0.5:
        plan["replicas"] = rng.choice(divisors(rest))
    if rng.random() < 0.1:
        plan["routing"] = "least-loaded"
    precision = rng.choice(["bf16", "fp16", "fp8", "int4", {"weights": "fp8", "kv": "fp8"}])
    engine = {"name": rng.choice(profiles(program))}
    if rng.random() < 0.4:
        engine["scheduler"] = {"sequences": rng.choice([16, 64]), "tokens": rng.choice([512, 4096])}
    if rng.random() < 0.2:
        engine["graphs"] = None
    return {
        "title": "random",
        "cluster": {"name": cluster, "nodes": 1},
        "model": model,
        "plan": plan,
        "precision": precision,
        "engine": engine,
        "load": {"concurrency": 4, "requests": 8, "input": 128, "output": 16},
    }


def random_services_of(program):
    """Return a function from a generator to a legal service of a program and its result."""

    def legal(rng):
        while True:
            try:
                loaded = service_from_mapping("job", random_service(rng, program))
                return loaded, serve(loaded)
            except (PlanError, ScenarioError, CatalogError):
                continue

    return legal
