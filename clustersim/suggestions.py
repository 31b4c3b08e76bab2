"""What a message suggests for a name that is unknown: the most similar one that is known."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    name: keys
    for keys, names in {
        ("tensor", "tp"): "tp tensor_parallel tensor_parallel_size tensor_model_parallel_size",
        (
            "pipeline",
            "pp",
        ): "pp pipeline_parallel pipeline_parallel_size pipeline_model_parallel_size",
        ("data", "dp"): "dp data_parallel data_parallel_size replicas",
        ("context", "cp"): "cp context_parallel context_parallel_size",
        ("expert", "ep"): "ep expert_parallel expert_parallel_size expert_model_parallel_size",
        ("expert_tensor",): "etp expert_tensor_parallel expert_tensor_parallel_size",
        ("sequence_parallel",): "sp",
        ("chunks", "interleave"): "vp vpp virtual virtual_pipeline virtual_stages interleave",
        ("zero", "zero_stage"): "zero_stage fsdp sharding",
        ("global",): "gbs global_batch_size batch_size",
        ("micro",): "mbs micro_batch_size microbatch",
        ("sequence", "seq"): "seq seq_len seq_length sequence_length",
        ("kv_heads",): "num_key_value_heads num_query_groups",
        ("precision",): "dtype",
        ("concurrency",): "users clients max_concurrency",
        ("rate",): "qps rps request_rate",
        ("clusters",): "machines machine systems computers",
        ("accelerators",): "gpus gpu devices chips",
    }.items()
    for name in names.split()
}
"""Names that launchers give to keys: a message suggests the first key that a table has."""


def other_names(word: str) -> tuple[str, ...]:
    """Return the keys that launchers give a name to."""
    return OTHER_NAMES.get(str(word).lower().replace("-", "_"), ())


def nearest(word: str, known: Iterable[str], least: float = 0.5) -> str:
    """Return ``" (did you mean 'x'?)"`` for the most similar known word, or an empty text.

    A word with which known ones begin is completed, to the shortest of these: `h200` to `h200-nvl`,
    not changed to `h20`.
    `least` is the similarity of others at least, of 1 for the same word.
    """
    words = [str(k) for k in known]
    for name in other_names(word):
        if name in words:
            return f" (did you mean '{name}'?)"
    begun = [name for name in words if word and name.startswith(f"{word}-")]
    close = sorted(begun, key=lambda name: (len(name), name))[:2] or difflib.get_close_matches(
        str(word), words, n=1, cutoff=least
    )
    return f" (did you mean {' or '.join(map(repr, close))}?)" if close else ""
