"""The model: a stack of layers with an embedding below and logits above."""

from collections.abc import Mapping
from functools import cached_property
from typing import Final, Literal, NamedTuple

from clustersim.answers import built_from, record
from clustersim.catalog.records.models import (
    ExpertShape,
    LatentShape,
    MambaShape,
    ModelRecord,
    ParallelBlock,
    WindowShape,
)


class Layer(NamedTuple):
    """The properties in which layers of a model differ.

    Attributes
    ----------
    experts : whether it has a mixture of experts instead of an MLP
    window : tokens visible to a query; None for all previous ones
    chunked : whether they are those of its chunk of as many tokens
    mixer : ``attention`` or ``mamba``; None for a layer that mixes no tokens
    mlp : whether it has an MLP or experts
    """

    experts: bool = False
    window: int | None = None
    chunked: bool = False
    mixer: Literal["attention", "mamba"] | None = "attention"
    mlp: bool = True

    @property
    def halves(self) -> int:
        """Its mixer and its MLP, each with a norm and a residual sum."""
        return (self.mixer is not None) + self.mlp


KINDS: Final[Mapping[str, Layer]] = {
    "M": Layer(mixer="mamba", mlp=False),
    "*": Layer(mlp=False),
    "-": Layer(mixer=None),
    "E": Layer(experts=True, mixer=None),
}
"""Layers by their letter in a pattern."""


@record
class Transformer:
    """The shape of a decoder-only transformer.

    Attributes
    ----------
    hidden : width of the residual stream
    kv_heads : heads of keys and values, each shared by `heads` / `kv_heads` queries
    head_size : width of a head
    ffn : width inside the MLP of a layer without experts
    vocab : rows of the embedding, padded for the layout
    sequence : tokens per sequence
    sample : mean tokens of the packed sample that a token is in; 0 for whole sequences
    longest : tokens that masks and tables of positions are for, at least `sequence`
    norm : ``layer`` or ``rms``
    mlp : ``gelu``, two matrices, or ``gated``, three
    positions : ``learned``, ``rotary``, ``alibi`` or ``none``
    tied : whether the logits share the embedding's weights
    biases : layers with biases, of ``qkv``, ``output``, ``mlp``, ``norm`` and ``router``
    dropout : whether attention, residuals and embedding have dropout
    qk_norm : whether queries and keys are normalised per head
    output_norms : whether a norm follows attention and MLP, before each residual sum
    attention_gate : whether a gate of each query head multiplies the result of attention
    sinks : whether the softmax of each head includes a learned logit
    embedding_norm : whether a norm follows the embedding
    parallel_block : norms of a block whose attention and MLP read the same input, or None
    latent : widths of multi-head latent attention, or None
    experts : the mixture of experts, or None
    window : sliding window or chunks, and their layers, or None
    mamba : the Mamba-2 mixer, or None
    pattern : the letter of each layer, or None where all have attention and an MLP
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    sequence: int
    kv_heads: int = 0
    head_size: int = 0
    norm: str = "layer"
    mlp: str = "gelu"
    positions: str = "learned"
    tied: bool = True
    biases: frozenset[str] = frozenset({"qkv", "output", "mlp", "norm"})
    dropout: bool = True
    qk_norm: bool = False
    output_norms: bool = False
    attention_gate: bool = False
    sinks: bool = False
    embedding_norm: bool = False
    parallel_block: ParallelBlock | None = None
    latent: LatentShape | None = None
    experts: ExpertShape | None = None
    window: WindowShape | None = None
    mamba: MambaShape | None = None
    pattern: str | None = None
    longest: int = 0
    sample: float = 0.0

    def __post_init__(self) -> None:
        """Fill in defaults: as many key heads as heads, whose sizes add up to the width."""
        object.__setattr__(self, "longest", max(self.longest, self.sequence))
        if not self.kv_heads:
            object.__setattr__(self, "kv_heads", self.heads)
        if not self.head_size:
            size = self.latent.nope + self.latent.rope if self.latent else self.hidden // self.heads
            object.__setattr__(self, "head_size", size)

    @property
    def query_heads(self) -> int:
        """Query heads with their gates, which have the same width."""
        return self.heads * (2 if self.attention_gate else 1)

    @property
    def value_size(self) -> int:
        """Width of a value head, which differs from that of a key in latent attention only."""
        return self.latent.value if self.latent else self.head_size

    @property
    def gated(self) -> bool:
        """Whether the MLP multiplies two products of its input."""
        return self.mlp == "gated"

    def layer(self, index: int) -> Layer:
        """Return the properties of layer `index`, counted from 0."""
        kind = self._kind(index)
        indexer = self.latent and self.latent.indexer
        if indexer and kind.mixer == "attention" and indexer.tokens < self.sequence:
            return kind._replace(window=indexer.tokens)
        window = self.window if kind.mixer == "attention" else None
        if window is None or not _in_window(window, index) or window.tokens >= self.sequence:
            return kind
        return kind._replace(window=window.tokens, chunked=window.chunked)

    def _kind(self, index: int) -> Layer:
        """Return a layer without its window."""
        if self.pattern is not None:
            return KINDS[self.pattern[index]]
        experts = self.experts
        routed = experts is not None and index >= experts.first_dense
        if experts is not None and routed:
            routed = (index - experts.first_dense + 1) % experts.every == 0
        return Layer(routed)

    @property
    def attended(self) -> float:
        """Mean tokens of the sample that a token is in: of a whole sequence, or of a packed one."""
        return self.sample or float(self.sequence)

    def length(self, layer: Layer) -> float:
        r"""Return the mean tokens of the sample that a token is in, or of the chunk of it.

        .. math:: \frac{q c^2 + r^2}{l}

        where q chunks of c tokens and one of r make a sample of l, as `attended_tokens`: attention
        in chunks is that of samples of their lengths.
        """
        if layer.window is None or not layer.chunked:
            return self.attended
        chunks, rest = divmod(self.attended, layer.window)
        return (chunks * layer.window**2 + rest**2) / self.attended

    def pairs(self, layer: Layer) -> float:
        r"""Return the pairs of tokens of a sequence that a query and a key of it are.

        .. math:: \frac{s}{l} \left( w l - \frac{w^2}{2} \right)

        for samples or chunks of l tokens and windows of w at most, s^2 / 2 for a sequence of one
        sample.
        """
        length, seen = self.length(layer), self.seen(layer)
        return self.sequence / length * (seen * length - seen**2 / 2)

    def seen(self, layer: Layer) -> float:
        """Return the most tokens that a query sees: of its sample or chunk, or of a window."""
        return min(self.length(layer), layer.window or self.attended)

    @cached_property
    def stack(self) -> tuple[Layer, ...]:
        """All layers, in order."""
        return tuple(self.layer(index) for index in range(self.layers))

    @cached_property
    def kinds(self) -> tuple[Layer, ...]:
        """The different layers, in the order of the first of each."""
        return tuple(dict.fromkeys(self.stack))


def _in_window(window: WindowShape, index: int) -> bool:
    """Whether layer `index` has the window."""
    full = window.full_every is not None and (index + 1) % window.full_every == 0
    return index % window.every == 0 and not full


def attended_tokens(mean: float, spread: float) -> float:
    r"""Return the mean length of the sample that a token is in [tokens].

    .. math:: \frac{E[l^2]}{E[l]} = \mu (1 + c^2)

    with the mean and the coefficient of variation of the lengths l: longer samples have more
    tokens. Attention over samples of many lengths has as many pairs as over ones of this length.

    >>> attended_tokens(200, 0), attended_tokens(200, 0.5)
    (200.0, 250.0)
    """
    return mean * (1.0 + spread**2)


def padded_vocab(vocab: int, multiple: int, tensor: int) -> int:
    """Return the vocabulary rounded up to a multiple of `multiple` times the tensor degree.

    Megatron-LM, ``megatron/tokenizer/tokenizer.py``, ``_vocab_size_with_padding``.

    >>> padded_vocab(50257, 128, 8)
    51200
    """
    step = multiple * tensor
    return -(-vocab // step) * step


def build_model(
    record: ModelRecord, sequence: int, multiple: int, tensor: int, sample: float = 0.0
) -> Transformer:
    """Return the model of a catalogue file, trained on sequences of `sequence` tokens.

    Parameters
    ----------
    sample : mean tokens of the packed sample that a token is in; 0 for whole sequences
    """
    return built_from(
        Transformer,
        record,
        vocab=padded_vocab(record.vocab, multiple, tensor),
        sequence=sequence,
        biases=frozenset(record.biases),
        longest=record.longest or record.sequence,
        sample=sample,
    )
