"""From the pools of a service to replicas on the clock: rules, KV blocks, links between pools."""

from dataclasses import replace
from functools import cache
from itertools import count
from math import ceil, inf

import numpy as np

from clustersim.arrays import Integers
from clustersim.catalog.records.engines import EngineRecord
from clustersim.cost import closed_form
from clustersim.engine.requests.handover import NO_PASSAGE, KvLinks, Passage
from clustersim.engine.requests.replay import Deployment
from clustersim.engine.requests.scheduling import ReplicaModel, Scheduling
from clustersim.inference.batch import Batch, Prompt
from clustersim.inference.step_costs import StepCosts
from clustersim.scenario.serving import ServingScenario
from clustersim.simulation.service.pools import Pool
from clustersim.topology.cluster import Cluster
from clustersim.traffic import Traffic


def build_deployment(pools: tuple[Pool, ...], scenario: ServingScenario) -> Deployment:
    """Return the replicas of a service as requests see them."""
    prefill, decode = pools[0], pools[-1]
    deployment = Deployment(replica_model(decode, scenario), decode.replicas, scenario.plan.routing)
    if len(pools) == 1:
        return deployment
    return replace(
        deployment,
        prefill=replica_model(prefill, scenario),
        prefill_replicas=prefill.replicas,
        links=_kv_links(prefill, decode, scenario),
        passage=passage_between(pools, scenario.engine),
    )


def replica_model(pool: Pool, scenario: ServingScenario) -> ReplicaModel:
    """Return a replica of a pool as requests see it."""
    costs, layout = pool.costs, pool.layout
    facts = costs.replica.engine.scheduler
    static = facts.batching == "static"
    batches = layout.pipeline if facts.each_batch else 1
    rules = Scheduling(
        continuous=not static,
        mixed=facts.mixed,
        chunked=facts.chunked,
        budget=inf if static else facts.tokens * layout.attention_data,
        sequences=facts.sequences * layout.attention_data * batches,
        reserve=facts.reserved,
        preemption=facts.preemption,
        swap=_swap(costs),
        ahead=facts.ahead,
        wait_steps=facts.wait_steps or 0,
        wait_share=facts.wait_share or 0.0,
    )
    block = facts.block
    return ReplicaModel(
        seconds=costs.seconds,
        slowest=costs.slowest,
        blocks=costs.memory.tokens // block,
        block_tokens=block,
        state_blocks=ceil(costs.memory.state / block),
        stages=layout.pipeline,
        scheduling=rules,
        gain=1.0 if scenario.speculation is None else scenario.speculation.gain,
        alike=costs.alike if costs.linear else None,
    )


def _swap(costs: StepCosts) -> float:
    """Return the time to copy a token of the KV cache of a replica to the host [s]."""
    cluster = costs.replica.links.cluster
    rate = cluster.rate(cluster.to_host(0))
    return costs.memory.token / (costs.replica.layout.devices * rate)


# --- from pool to pool ----------------------------------------------------------------------------


def passage_between(pools: tuple[Pool, ...], engine: EngineRecord) -> Passage:
    """Return what a request passes between pools: an engine returns it, another one takes it in."""
    if len(pools) == 1:
        return NO_PASSAGE
    request = 0.0 if engine.intake is None else engine.intake.request
    return Passage(engine.first + request, bool(engine.scheduler.recomputed))


def _kv_links(prefill: Pool, decode: Pool, scenario: ServingScenario) -> KvLinks:
    """Return the links over which KV caches move.

    Each device sends its share to its peer.  Layer by layer, all but the last layer move while the
    prompt is processed, as far as the links are fast enough.
    """
    cluster = prefill.costs.replica.links.cluster
    senders = [_holders(prefill, number) for number in range(prefill.replicas)]
    receivers = [_holders(decode, number) for number in range(decode.replicas)]
    turn = count()
    memory, layers = decode.costs.memory, decode.costs.replica.model.layers
    width, state = memory.token, memory.state
    ends = np.meshgrid(_devices(senders), _devices(receivers))
    cluster.routes(ends[0].ravel(), ends[1].ravel())  # numbers their links
    capacities = cluster.links.capacities.tolist()

    @cache
    def moved_between(source: int, sender: int, target: int, receiver: int, tokens: int) -> Traffic:
        """Return the traffic between two groups of attention, which many requests repeat."""
        holders, takers = senders[sender][source], receivers[receiver][target]
        flows = max(len(holders), len(takers))
        pairs = [(holders[i % len(holders)], takers[i % len(takers)]) for i in range(flows)]
        moved = _traffic(cluster, pairs, width * (tokens + state) / flows)
        if scenario.plan.transfer == "whole":
            return moved
        rate = moved.uncontended_rate(capacities)
        during = prefill.costs.seconds(Batch(0, 0, (Prompt(tokens, 0),)))
        hidden = min(moved.nbytes, rate * during) * (layers - 1) / layers
        return moved._replace(nbytes=moved.nbytes - hidden)

    def traffic(sender: int, receiver: int, tokens: int) -> Traffic:
        number = next(turn)
        source, target = number % len(senders[sender]), number % len(receivers[receiver])
        return moved_between(source, sender, target, receiver, tokens)

    return KvLinks(capacities, traffic)


def _devices(groups: list[list[list[int]]]) -> Integers:
    """Return the devices of all groups of all replicas."""
    devices = [device for replica in groups for group in replica for device in group]
    return np.array(devices, dtype=np.int64)


def _holders(pool: Pool, replica: int) -> list[list[int]]:
    """Return the devices that hold the KV cache of a request, for each group of attention."""
    mesh = pool.layout.mesh + pool.first + replica * pool.layout.devices
    groups = range(pool.layout.attention_data)
    return [mesh[:, group].ravel().tolist() for group in groups]


def _traffic(cluster: Cluster, pairs: list[tuple[int, int]], nbytes: float) -> Traffic:
    """Return equal flows between pairs of devices."""
    weights: dict[int, float] = {}
    latency, cap, wire = 0.0, inf, nbytes
    for pair in pairs:
        route = cluster.route(*pair)
        rate, library = cluster.rate(route), cluster.library
        cost = closed_form.message_cost(nbytes, route.network, rate, route.latency, library)
        latency, cap = max(latency, cost.latency), min(cap, cost.rate)
        wire = max(wire, cost.nbytes)
        for link, share in zip(route.links, route.shares, strict=True):
            weights[link] = weights.get(link, 0.0) + share
    links = tuple(sorted(weights))
    flows = tuple(weights[link] for link in links)
    return Traffic("KV cache", links, flows, wire, latency, cap)
