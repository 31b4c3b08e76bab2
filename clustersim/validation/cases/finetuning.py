"""What a measured case says of fine-tuning and offload, in the words of a scenario."""

from collections.abc import Mapping
from typing import Any, Final

from clustersim.validation.cases.values import count

METHODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "lora": {"method": "lora"},
    "dora": {"method": "dora"},
    "qlora": {"method": "qlora", "bits": 4},
    "qdora": {"method": "dora", "bits": 4},
    "hqq-lora": {"method": "qlora", "bits": 4, "quantiser": "hqq"},
    "hqq-dora": {"method": "dora", "bits": 4, "quantiser": "hqq"},
}
"""Methods of fine-tuning that train adapters beside frozen weights."""

COUNTS: Final = ("rank", "bits")
"""Numbers that a fine-tuning may tell."""

ALL_WEIGHTS: Final = ("sft", "full")
"""Methods that train all weights, as pre-training does."""

OFFLOADS: Final[Mapping[str, Mapping[str, bool]]] = {
    "cpu-params": {"parameters": True, "optimiser": True},
    "cpu-optimizer": {"optimiser": True},
    "cpu-activations": {"activations": True},
}
"""What is kept on the host.  PyTorch's ``CPUOffload(offload_params=True)`` takes the gradients
along, so that the optimiser runs there as well."""


def told(value: object) -> bool:
    """Whether a field says something else than no."""
    return value not in (None, False, "", {}, []) and str(value).strip().lower() != "none"


def method_of(finetune: object) -> str:
    """Return the method that a case names."""
    return str(finetune.get("method") if isinstance(finetune, Mapping) else finetune).lower()


def odd_count(finetune: object) -> str | None:
    """Return what is wrong with the counts of a fine-tuning; None where nothing is.

    >>> odd_count({"method": "lora", "rank": 0}), odd_count({"method": "lora", "rank": "16"})
    ('rank: 0 is not a count of at least 1', None)
    """
    given = finetune if isinstance(finetune, Mapping) else {}
    for key in COUNTS:
        try:
            count(given.get(key))
        except ValueError as problem:
            return f"{key}: {problem}"
    return None


def finetune_of(finetune: object) -> dict[str, Any] | None:
    """Return the key `finetune` of a scenario; None where all weights are trained."""
    if not told(finetune) or method_of(finetune) in ALL_WEIGHTS:
        return None
    found = dict(METHODS[method_of(finetune)])
    if isinstance(finetune, Mapping):
        given = {key: finetune.get(key) for key in COUNTS}
        found |= {key: count(value) for key, value in given.items() if value is not None}
    return found


def offload_of(offload: object) -> dict[str, bool]:
    """Return the key `offload` of a scenario."""
    return dict(OFFLOADS[str(offload).lower()]) if told(offload) else {}
