"""Two examples of each verb, with which its help ends."""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, str]]] = {
    "new": (
        "clustersim new --model llama3-8b --cluster dgx-h100 --nodes 1 -o mine.yaml",
        "clustersim new --serve --model llama3-8b --cluster dgx-h100 --rate 10",
    ),
    "run": (
        "clustersim run frontier-22b --set batch.global=32",
        "clustersim run train.sh --cluster dgx-h100 --nodes 8",
    ),
    "serve": (
        "clustersim serve llama3-70b-h100-serving --set load.concurrency=16",
        "clustersim serve llama3-70b-h100-serving --loads 1:16",
    ),
    "scale": (
        "clustersim scale frontier-22b --strong 16,32 --set batch.global=64",
        "clustersim scale llama3-70b-h100-serving --weak 8,16",
    ),
    "check": (
        'clustersim check train.log --scenario "frontier-22b batch.global=16"',
        "clustersim check train.log --scenario train.sh --cluster dgx-h100",
    ),
    "compare": (
        'clustersim compare frontier-22b "frontier-22b plan.zero=0"',
        "clustersim compare megatron21-t1-1.7b megatron21-t1-3.6b --by mfu",
    ),
    "whatif": (
        "clustersim whatif frontier-22b --set recompute=none --set batch.micro=1",
        "clustersim whatif llama3-70b-h100-serving --set precision.kv=fp8 --by tpot",
    ),
    "sweep": (
        "clustersim sweep frontier-22b --over plan.zero=0,1 --over batch.micro=1:4",
        "clustersim sweep megatron21-t1-1.7b --over plan.data=fill --limit mfu=30%",
    ),
    "search": (
        "clustersim search frontier-22b --set batch.global=16 -o best.yaml",
        "clustersim search llama3-70b-h100-serving --limit tpot=20ms --limit ttft=2s",
    ),
    "size": (
        "clustersim size --cluster dgx-h100 --nodes 64 --days 30",
        "clustersim size --cluster dgx-a100 --nodes 8 --model llama2-7b --tokens 1e11",
    ),
    "train": (
        "clustersim train megatron-1t-84-days",
        "clustersim train megatron-1t-84-days --set training.checkpoint.every=2h",
    ),
    "share": (
        "clustersim share superpod-hashed-neighbours",
        "clustersim share superpod-hashed-neighbours --set steps=20 --figures svg",
    ),
    "study": (
        "clustersim study",
        "clustersim study runs/studies.db --name 1 --csv runs.csv",
    ),
    "validate": (
        "clustersim validate --group 'megatron21*'",
        "clustersim validate --cases mine.yaml --out runs/mine",
    ),
    "calibrate": (
        "clustersim calibrate --measure",
        "clustersim calibrate --accelerator h100-sxm --from kernels.csv -o fits",
    ),
    "collective": (
        "clustersim collective --cluster dgx-h100 --op all-reduce --devices 8",
        "clustersim collective --cluster frontier --op all-to-all --devices 64",
    ),
    "flows": (
        "clustersim flows cases.json",
        "clustersim flows cases.json --json",
    ),
    "show": (
        "clustersim show dgx-h100 --figures svg",
        "clustersim show zb-h1 --stages 4 --microbatches 8",
    ),
    "schema": (
        "clustersim schema scenario > scenario.schema.json",
        "clustersim schema run",
    ),
    "list": (
        "clustersim list clusters",
        "clustersim list models llama",
    ),
    "explore": (
        "clustersim explore",
        "clustersim explore frontier-22b --set batch.global=32 --port 8051",
    ),
    "import": (
        "clustersim import train.sh --cluster dgx-h100 --nodes 8 -o mine.yaml",
        "clustersim import config.json -o my-model.yaml",
    ),
    "export": (
        "clustersim export megatron21-t1-1.7b --as megatron",
        "clustersim export llama3-70b-h100-serving --as vllm -o serve.sh",
    ),
    "doctor": (
        "clustersim doctor",
        "clustersim doctor --json",
    ),
    "completion": (
        "source <(clustersim completion bash)",
        "clustersim completion fish > ~/.config/fish/completions/clustersim.fish",
    ),
}
"""Command lines of at most 78 characters, by verb."""
