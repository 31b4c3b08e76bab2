"""Values and prose of measured runs as people type them, each read by one small function.

"51200: GPT-2 vocabulary padded"        --whole_number--> 51200
"none (nanotron default)"               --word---------> "none"
"8 x 200 Gb/s per node"                --ports_of------> Ports(8, 25e9)
"alternating full / sliding window 128" --attention_of--> {"window": {...}}
"model FLOP/s, 989 peak for MFU"       --convention_of-> "model"
{"method": "qlora", "rank": 64}        --finetune_of---> {"method": "qlora", "bits": 4, ...}

A reader of a value returns None for None and raises ValueError with the value in its message, so
that it reads both fields of a row and assumptions written as text.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BeforeValidator

from clustersim.catalog.problems import as_stated
from clustersim.records import dataclass

MOST: Final = 10**9
"""No count of devices, layers, tokens or sequences is larger."""

_WHOLE: Final = re.compile(r"\s*(\d+)(?=$|[\s,;:(])")
_WORD: Final = re.compile(r"\s*([A-Za-z0-9][\w.+-]*)(?=\s*(?:$|[,;:(]))")


def whole_number(value: object) -> int | None:
    """Return a whole number, also from a text that begins with one.

    >>> [whole_number(value) for value in ("51200: GPT-2 vocabulary padded", "1 (so)", 8.0, None)]
    [51200, 1, 8, None]
    >>> whole_number("4*hidden")
    Traceback (most recent call last):
    ValueError: '4*hidden' is not a whole number
    """
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and (match := _WHOLE.match(value)):
        value = int(match[1]) if len(match[1]) < 20 else MOST + 1
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{as_stated(value)} is not a whole number")
    if not 0 <= value <= MOST:
        raise ValueError(f"{as_stated(value)} is not from 0 to {MOST:,}")
    return value


def count(value: object) -> int | None:
    """Return a count of at least one; texts as in `whole_number`."""
    number_read = whole_number(value)
    if number_read == 0:
        raise ValueError("0 is not a count of at least 1")
    return number_read


def measured_number(value: object) -> float | None:
    """Return a measured number above 0, also from a text."""
    if value is None:
        return None
    try:
        number_read = float(value) if isinstance(value, str | int | float) else 0.0
    except (ValueError, OverflowError):
        number_read = 0.0
    if isinstance(value, bool) or not 1e-12 <= number_read <= 1e15:
        raise ValueError(f"{as_stated(value)} is not a number from 1e-12 to 1e15")
    return number_read


def flag(value: object) -> bool | None:
    """Return yes or no, also from a text such as ``"true when tp > 1"``."""
    if value is None or isinstance(value, bool):
        return value
    first = value.strip().lower() if isinstance(value, str) else ""
    if not first.startswith(("true", "false")):
        raise ValueError(f"{as_stated(value)} is neither true nor false")
    return first.startswith("true")


def text(value: object) -> str | None:
    """Return a text, also from a number."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        raise ValueError(f"{as_stated(value)} is not a text")
    return str(value)


def word(value: object) -> str | None:
    """Return the first word of a text if an explanation or nothing follows it, in lower case.

    >>> word("none (nanotron default)"), word("full: the scripts set it"), word("Selective")
    ('none', 'full', 'selective')

    Any other text is kept whole.

    >>> word("none or selective; not stated")
    'none or selective; not stated'
    """
    words = text(value)
    if words is None:
        return None
    match = _WORD.match(words)
    return (match[1] if match else words).strip().lower()


def names(value: object) -> list[str] | None:
    """Return a list of words, also from one word or from a text with commas between them.

    >>> names(["core_attn", "mlp"]), names("core_attn, mlp")
    (['core_attn', 'mlp'], ['core_attn', 'mlp'])
    """
    if isinstance(value, str):
        value = value.split(",")
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [each.strip().lower() for each in value if each.strip()]
    if value is None:
        return None
    raise ValueError(f"{as_stated(value)} is not a list of words")


def word_among(*allowed: str) -> Callable[[object], str | None]:
    """Return a reader of one of the words `allowed`; any other text is an error."""

    def read(value: object) -> str | None:
        read_word = word(value)
        if read_word is not None and read_word not in allowed:
            raise ValueError(f"{as_stated(value)} is none of {', '.join(allowed)}")
        return read_word

    return read


Count = Annotated[int | None, BeforeValidator(count)]
Amount = Annotated[int | None, BeforeValidator(whole_number)]
Number = Annotated[float | None, BeforeValidator(measured_number)]
Flag = Annotated[bool | None, BeforeValidator(flag)]
Text = Annotated[str | None, BeforeValidator(text)]
Word = Annotated[str | None, BeforeValidator(word)]
Names = Annotated[list[str] | None, BeforeValidator(names)]


# --- conventions ----------------------------------------------------------------------------------

MODEL, HARDWARE = "model", "hardware"
"""Conventions of FLOPs: without and with recomputation."""

# --- ports of a node ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ports:
    """The ports of a node: their number, None if not stated, and the rate of one or of all [B/s].

    `each` is None where only the sum is stated, `total` where only the rate of one port is.
    """

    count: int | None
    each: float | None
    total: float | None = None


RATES: Final = {
    "xdr": 100e9, "ndr200": 25e9, "ndr": 50e9, "hdr100": 12.5e9, "hdr": 25e9, "edr": 12.5e9,
    "fdr": 7e9, "slingshot-11": 25e9, "slingshot-10": 12.5e9, "slingshot": 25e9,
    "omni-path": 12.5e9, "opa": 12.5e9, "connectx-8": 100e9, "connectx-7": 50e9,
    "connectx-6": 25e9,
}  # fmt: skip
"""Rates by the name of a link, of a port in one direction [B/s], the longer names first."""

_INSIDE: Final = re.compile(
    r"nvlink|nvswitch|pci|xgmi|infinity fabric|pair|peer|host ram|upi|sli\b"
)
"""Links that stay inside a node: a phrase with one of these is left out."""
_PHRASE: Final = re.compile(r"[;,()+]|\band\b|\bbetween nodes:")
_SPEED: Final = re.compile(
    r"(?:(\d+)\s*[x*\u00d7]\s*)?(?:[a-z][\w/ -]{0,30}?\s)??(\d+(?:\.\d+)?)\s*"
    r"(t|g|m)(?:igabit|(b)(?:it)?(?:/s|ps|e)?)?(?!\w)",
    re.IGNORECASE,
)
_COUNTED: Final = re.compile(rf"(\d+)\s+(?={'|'.join(RATES)}|infiniband|roce)", re.IGNORECASE)
"""A number of ports without a multiplication sign behind it."""
_NAMED: Final = re.compile(
    rf"(?:(\d+)\s*[x*\u00d7]\s*)?(?:[a-z]+\s){{0,2}}?({'|'.join(RATES)})(?![\w-])", re.IGNORECASE
)
_OF_EACH: Final = re.compile(
    r"(?:per|a|each|/)\s*(?:gpu|gcd|device|card|port|nic|accelerator)", re.I
)
_OF_NODE: Final = re.compile(
    r"(?:per|a|each|/)\s*(?:node|host|server|box)|node to node|between nodes|ethernet|gbe\b|efa\b",
    re.I,
)
_SCALE: Final = {"t": 1e12, "g": 1e9, "m": 1e6}


def ports_of(text: str | None) -> Ports | None:
    """Return the ports of a node by the words of its interconnect; None where it has none.

    >>> ports_of("NVLink3/NVSwitch in node; 8x HDR InfiniBand 200 Gb/s per node")
    Ports(count=8, each=25000000000.0, total=None)
    >>> ports_of("RoCE, 1600 Gb/s node to node")
    Ports(count=None, each=None, total=200000000000.0)
    >>> ports_of("400 Gb/s RDMA per GPU").each, ports_of("NVLink 900 GB/s")
    (50000000000.0, None)
    """
    phrases = [p for p in _PHRASE.split(text or "") if p and not _INSIDE.search(p.lower())]
    stated = [ports for phrase in phrases if (ports := _ports_in(phrase)) is not None]
    counted = [ports for ports in stated if ports.count is not None]
    return next(iter(counted or stated), None)


def _ports_in(phrase: str) -> Ports | None:
    """Return the ports in one phrase, by a rate in figures, else by the name of a link."""
    phrase = _COUNTED.sub(r"\1 x ", phrase)
    if match := _SPEED.search(phrase):
        rate = float(match[2]) * _SCALE[match[3].lower()]
        rate /= 1 if match[4] == "B" else 8
        if match[1] is not None:
            return _plausible(Ports(int(match[1]), rate))
        if _OF_NODE.search(phrase) and not _OF_EACH.search(phrase):
            return _plausible(Ports(None, None, rate))
        return _plausible(Ports(None, rate))
    if match := _NAMED.search(phrase):
        ports = None if match[1] is None else int(match[1])
        return _plausible(Ports(ports, RATES[match[2].lower()]))
    return None


def _plausible(ports: Ports) -> Ports | None:
    """Return ports within the range of real nodes; other figures describe something else."""
    rate = ports.each or ports.total or 0.0
    return ports if 1e7 <= rate <= 1e13 and 1 <= (ports.count or 1) <= 64 else None


# --- attention ------------------------------------------------------------------------------------

_LATENT: Final = re.compile(
    r"mla \((?:q_lora (?P<query>\d+), )?kv_lora (?P<keys_values>\d+), nope (?P<nope>\d+),"
    r" rope (?P<rope>\d+), v (?P<value>\d+)\)"
)
_WINDOW: Final = re.compile(r"(?P<alternating>alternating )?.*sliding window (?P<tokens>\d+)")


def attention_of(text: str | None) -> dict[str, Any] | None:
    """Return the keys of a model file for a description of its attention; None if unknown.

    >>> attention_of("mla (q_lora 1536, kv_lora 512, nope 128, rope 64, v 128)")
    {'latent': {'query': 1536, 'keys_values': 512, 'nope': 128, 'rope': 64, 'value': 128}}
    >>> attention_of("alternating full / sliding window 128")
    {'window': {'tokens': 128, 'every': 2}}
    """
    if text is None:
        return {}
    if match := _LATENT.search(text.lower()):
        widths = {name: int(width) for name, width in match.groupdict().items() if width}
        return {"latent": widths}
    if match := _WINDOW.search(text.lower()):
        every = 2 if match["alternating"] else 1
        return {"window": {"tokens": int(match["tokens"]), "every": every}}
    return None


# --- units and conventions ------------------------------------------------------------------------

_CONVENTIONS: Final = (
    (r"no recompute|without recompute|tflops_per_gpu = model", MODEL),
    (r"hardware|recomputed forward|counts? recompute|factor 96|\b96\b|eq\. 3|hfu-like", HARDWARE),
    (r"\bmodel\b|\bmfu\b", MODEL),
)
"""Patterns over the words of sources, tried in this order."""


def convention_of(text: str | None) -> str | None:
    """Return the convention of FLOPs that a text describes; None where it describes none."""
    words = (text or "").lower()
    matching = (name for pattern, name in _CONVENTIONS if re.search(pattern, words))
    return next(matching, None)


def memory_unit(text: str | None) -> float:
    """Return the unit of a measured memory [B].

    PyTorch and nvidia-smi count in powers of two whatever they print; GB is 10^9 B only where the
    text has GB and names neither.

    >>> memory_unit("GiB, peak reserved"), memory_unit("GB of the host")
    (1073741824.0, 1000000000.0)
    """
    unit = (text or "GiB").lower()
    return 2.0**30 if any(word in unit for word in ("gib", "torch", "nvidia-smi")) else 1e9


_COLUMN: Final = re.compile(r"FSDP column = (\d+)")


def sharding_ranks(value: object) -> int | None:
    """Return the ranks that share states, as in *FSDP2 over the FSDP column = 8*; else None."""
    match = _COLUMN.search(str(value or ""))
    return int(match[1]) if match else None


# --- measured memory ------------------------------------------------------------------------------


class MeasuredPeak(NamedTuple):
    """Which peak of memory a source measured.

    Attributes
    ----------
    stage : that of the first rank, of the last, or the fullest
    tensors : whether only live tensors count, without the runtime and unused blocks
    runtime : whether the runtime counts
    """

    stage: str = "fullest"
    tensors: bool = False
    runtime: bool = True


def measured_peak(text: str | None, usual: str) -> MeasuredPeak:
    """Return which peak a source measured, by the words of its unit, else the usual one.

    What PyTorch has allocated is live tensors alone: ``torch.cuda.max_memory_allocated``.

    Parameters
    ----------
    usual : of the source: the stage, or ``reserved`` for the fullest without the runtime

    >>> measured_peak("GiB, torch max allocated, last rank", "fullest")
    MeasuredPeak(stage='last', tensors=True, runtime=False)
    >>> measured_peak("GiB, peak reserved", "fullest")
    MeasuredPeak(stage='fullest', tensors=False, runtime=True)
    """
    words = (text or "").lower()
    stated = (end for end in ("first", "last") if f"{end} rank" in words)
    tensors = "allocated" in words
    stage = next(stated, "fullest" if usual == "reserved" else usual)
    return MeasuredPeak(stage, tensors, not tensors and usual != "reserved")


# --- fine-tuning and offload ----------------------------------------------------------------------

METHODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "lora": {"method": "lora"},
    "dora": {"method": "dora"},
    "qlora": {"method": "qlora", "bits": 4},
    "qdora": {"method": "dora", "bits": 4},
    "hqq-lora": {"method": "qlora", "bits": 4, "quantiser": "hqq"},
    "hqq-dora": {"method": "dora", "bits": 4, "quantiser": "hqq"},
}
"""Methods of fine-tuning that train adapters and freeze the weights."""

COUNTS: Final = ("rank", "bits")
"""Numbers of a fine-tuning."""

ALL_WEIGHTS: Final = ("sft", "full")
"""Methods that train all weights, as pre-training does, but for those they name as frozen."""

_FROZEN: Final = re.compile(r"([a-z ,/-]+?) (?:are |is |stay |kept )*frozen")
_PARTS: Final = (
    (r"embedding", "embedding"),
    (r"output head|lm head|head|logits|unembedding", "logits"),
    (r"vision \w+|image \w+|audio \w+|other \w+", None),
)
"""Parts of a model by their words; None for parts outside the language model."""

OFFLOADS: Final[Mapping[str, Mapping[str, bool]]] = {
    "cpu-params": {"parameters": True, "optimiser": True},
    "cpu-optimizer": {"optimiser": True},
    "cpu-activations": {"activations": True},
}
"""What is kept in host memory.  PyTorch's ``CPUOffload(offload_params=True)`` moves the gradients
as well, so that the optimiser runs on the host."""


def is_given(value: object) -> bool:
    """Whether a field has another value than an absent one or *none*."""
    return value not in (None, False, "", {}, []) and str(value).strip().lower() != "none"


def finetune_of(value: object) -> dict[str, Any] | None:
    """Return the key `finetune` of a scenario; None where all weights are trained.

    Raises
    ------
    ValueError
        when the method is unknown, or a count is not one.

    >>> finetune_of({"method": "qlora", "rank": "16"})
    {'method': 'qlora', 'bits': 4, 'rank': 16}
    >>> finetune_of("full decoder; embedding, output head and vision tower frozen")
    {'method': 'full', 'frozen': ['embedding', 'logits']}
    """
    fields = value if isinstance(value, Mapping) else {"method": value}
    method = str(fields.get("method")).lower()
    counts = {key: _count(key, fields.get(key)) for key in COUNTS}
    if not is_given(value):
        return None
    kind, *rest = re.split(r"\W+", method, maxsplit=1)
    if kind in ALL_WEIGHTS:
        frozen = _frozen_parts("".join(rest))
        return {"method": "full", "frozen": frozen} if frozen else None
    if method not in METHODS:
        raise ValueError(f"unsupported finetuning '{method}'")
    return {**METHODS[method], **{key: n for key, n in counts.items() if n is not None}}


def _frozen_parts(method: str) -> list[str]:
    """Return the ends of the model that a text names as frozen."""
    match = _FROZEN.search(method)
    if match is None:
        return []
    parts = []
    for words in re.split(r", | and |/", match[1].strip(" ,")):
        part = next((name for text, name in _PARTS if re.fullmatch(rf"{text}s?", words)), words)
        if part == words and part not in ("embedding", "logits"):
            raise ValueError(f"unsupported finetuning: frozen '{words}'")
        parts += [part] if part else []
    return sorted(set(parts))


def _count(key: str, value: object) -> int | None:
    try:
        return count(value)
    except ValueError as problem:
        raise ValueError(f"unsupported finetuning: {key}: {problem}") from None


def offload_of(value: object) -> dict[str, bool]:
    """Return the key `offload` of a scenario.

    Raises
    ------
    ValueError
        when the kind of offload is unknown.
    """
    if not is_given(value):
        return {}
    if str(value).lower() not in OFFLOADS:
        raise ValueError(f"unsupported offload '{value}'")
    return dict(OFFLOADS[str(value).lower()])
