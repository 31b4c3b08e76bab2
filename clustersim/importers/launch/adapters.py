"""Adapters of low rank, as the files of several trainers state them.

modules with adapters: q_proj, v_proj  -->  finetune.targets: [qkv]
bits of a frozen weight: 4             -->  finetune.method: qlora
"""

from collections.abc import Mapping, Sequence
from typing import Final

from clustersim.importers.launch.table import Given

_MODULES: Final[Mapping[str, Sequence[frozenset[str]]]] = {
    "qkv": (
        frozenset({"q_proj", "k_proj", "v_proj"}),
        frozenset({"qkv_proj"}),
        frozenset({"Wqkv"}),
        frozenset({"query_key_value"}),
    ),
    "output": (
        frozenset({"o_proj"}),
        frozenset({"output_proj"}),
        frozenset({"out_proj"}),
        frozenset({"dense"}),
    ),
    "mlp": (
        frozenset({"gate_proj", "up_proj", "down_proj"}),
        frozenset({"gate_up_proj", "down_proj"}),
        frozenset({"up_proj", "down_proj"}),
        frozenset({"w1", "w2", "w3"}),
        frozenset({"fc1", "fc2"}),
        frozenset({"dense_h_to_4h", "dense_4h_to_h"}),
        frozenset({"mlp"}),
    ),
}
"""Modules of each target, by the names in models of Hugging Face, torchtune and llm-foundry."""

_ENDS: Final = ("lm_head", "output", "embed_tokens", "tok_embeddings")
_ALL: Final = ("all-linear", "all")


USUAL: Final = ("q_proj", "v_proj")
"""Modules with adapters where a file names none: those of PEFT for Llama and its successors.

huggingface/peft, src/peft/utils/constants.py, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.
"""


def put_adapters(given: Given, bits: int = 16) -> None:
    """State adapters next to frozen weights of some bits.

    Their modules are the key `of.modules`; rank, dropout and whether a norm is trained are
    `of.rank`, `of.dropout` and `of.dora`.
    """
    modules = given.pop("modules", USUAL)
    dora = given.pop("dora")
    method = "dora" if dora else "qlora" if bits < 16 else "lora"
    given.put("finetune.method", method, "of.adapter")
    given.put("finetune.rank", given.pop("rank", 8), "of.rank")
    given.put("finetune.targets", _targets(given, modules), "of.modules")
    if not given.pop("dropout", 0.0):
        given.put("finetune.dropout", False, "of.dropout")
    if bits < 16:
        given.put("finetune.bits", bits, "of.bits")


def _targets(given: Given, modules: Sequence[str]) -> list[str]:
    """Return the targets of modules; a target of which some have adapters counts as a whole."""
    if any(name in _ALL for name in modules):
        return [*_MODULES]
    names = {name.rpartition(".")[2] for name in modules}
    inner = names.difference(_ENDS)
    known = frozenset[str]().union(*(group for groups in _MODULES.values() for group in groups))
    if not inner or inner - known:
        what = ", ".join(sorted(inner - known)) or "no layer"
        raise given.wrong(
            "of.modules",
            f"{what}: adapters are not modelled (modelled: {', '.join(sorted(known))})",
        )
    if names - inner:
        given.notes.append(f"adapters of {', '.join(sorted(names - inner))} are not modelled")
    targets = []
    for target, groups in _MODULES.items():
        having = inner & frozenset[str]().union(*groups)
        if having:
            targets.append(target)
        if having and having not in groups:
            given.notes.append(
                f"adapters of {', '.join(sorted(having))}: modelled as all of {target}"
            )
    return targets
