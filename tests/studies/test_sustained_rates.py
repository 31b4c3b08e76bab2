"""The best service for a rate sustains it in a replay of 20 times as many requests."""

import json
import random

import numpy as np
import pytest

import clustersim
from tests.random_steps import random_cases

EIGHTHS = 8
"""Instants at which requests in the service are counted."""


def random_service(seed):
    """Return a service of one device with random lengths and arrivals, and the random numbers."""
    draw = random.Random(seed)

    def lengths(tokens):
        spread = {"mean": tokens, "deviation": tokens / 2, "most": 4 * tokens}
        return draw.choice([tokens, {"uniform": [1, tokens]}, spread])

    return {
        "title": "A random service",
        "cluster": {"name": draw.choice(["dgx-h100", "dgx-a100", "dgx-h200"]), "nodes": 1},
        "model": draw.choice(["llama3-8b", "llama2-13b", "qwen3-32b"]),
        "engine": draw.choice(["vllm", "sglang", "tensorrt-llm", "fastertransformer"]),
        "precision": "fp16",
        "plan": {"tensor": 1},
        "load": {
            "rate": 1.0,
            "arrivals": draw.choice(["poisson", "bursty", "regular"]),
            "input": lengths(draw.choice([16, 128, 512, 1024])),
            "output": lengths(draw.choice([2, 8, 16, 32])),
            "seed": seed,
        },
    }, draw


def in_service(result):
    """Return how many requests are in a service at eighths of the time in which they arrive."""
    arrivals = np.sort(result.requests.arrival)
    ends = np.sort(result.requests.finish)
    times = arrivals[-1] * np.arange(1, EIGHTHS + 1) / EIGHTHS
    return np.searchsorted(arrivals, times) - np.searchsorted(ends, times)


def batch(result):
    """Return the requests of the largest static batches: they take long to grow to their size."""
    model = result.model
    if model.scheduling.continuous:
        return 0
    return (
        result.answer.counts.replicas * model.blocks * model.block_tokens / sum(result.mean_tokens)
    )


def check_best(seed, tmp_path, times=20):
    """Search the fewest devices for a rate near what some sustain, and replay the best longer."""
    service, draw = random_service(seed)
    most = clustersim.serve(service).steady.sustainable_requests_per_s
    service["load"]["rate"] = most * draw.choice([1, 2, 3]) * draw.uniform(0.85, 0.999)
    path = tmp_path / "service.json"
    path.write_text(json.dumps(service))

    best = clustersim.search(
        path, objective="devices", devices=4, settings={"pools": False}, top=1, jobs=1
    )
    assert best.best is not None, best.nearest
    requests = min(times * best.best.counts.requests, 200_000)
    longer = clustersim.serve({**best.scenario, "load": {**best.scenario["load"],
                                                         "requests": requests}})  # fmt: skip

    counts = in_service(longer)
    grown = counts[-EIGHTHS // 4 :].mean() - counts[: EIGHTHS // 4].mean()
    assert grown < max(0.01 * requests, batch(longer)), f"{counts} of {requests} at {service}"


@pytest.mark.large
def test_the_best_service_for_a_rate_sustains_it(tmp_path):
    """Of a replay of twice as many requests no more are in the service at its end."""
    check_best(1, tmp_path, times=2)


@pytest.mark.large
@pytest.mark.parametrize("seed", random_cases(0, 100))
def test_the_best_of_a_hundred_services_sustains_its_rate(seed, tmp_path):
    """A rate of 100/s passed limits that 29.4/s sustains."""
    check_best(seed, tmp_path)
