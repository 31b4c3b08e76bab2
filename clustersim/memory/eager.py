"""Tensors of an eager layer of Hugging Face's Llama, one after the other, in an allocator's blocks.

    forward      each module allocates its result; what no backward needs is freed at once
    backward     of a layer: what it computes again and saves, and gradients of activations

Hugging Face transformers, ``models/llama/modeling_llama.py``, commit 0022728; adapters as in PEFT's
``tuners/lora``, and with a norm as in AnswerDotAI/fsdp_qlora, ``scripts/dora.py``.
"""

from dataclasses import dataclass

from clustersim.memory.allocator import SMALL, Block, Blocks
from clustersim.workload.finetune import Finetune, Linear, linears
from clustersim.workload.model import Transformer

WIDE = 4
"""Bytes of a number in 32 bits, of norms and of the loss [B]."""


class Tensors:
    """Tensors by name in the blocks of a device.

    Parameters
    ----------
    saving : whether tensors that a backward needs outlive their names
    """

    def __init__(self, blocks: Blocks, *, saving: bool = False) -> None:
        self._blocks, self._saving = blocks, saving
        self._named: dict[str, Block | None] = {}
        self._saved: list[Block] = []

    def make(self, **sizes: float) -> None:
        """Allocate tensors of some sizes [B], in order; one of a name in use replaces the old."""
        for name, nbytes in sizes.items():
            block = self._blocks.take(nbytes) if nbytes > SMALL else None
            if name in self._named:
                self.drop(name)
            self._named[name] = block

    def drop(self, *names: str, saved: bool = False) -> None:
        """Forget some tensors, which are freed unless a backward needs them."""
        for name in names:
            block = self._named.pop(name)
            if block is not None and saved and self._saving:
                self._saved.append(block)
            elif block is not None:
                self._blocks.give(block)

    def clear(self) -> None:
        """Free all that is left."""
        self.drop(*self._named)
        while self._saved:
            self._blocks.give(self._saved.pop())


@dataclass(frozen=True)
class Shape:
    """What sizes the tensors of a layer.

    Attributes
    ----------
    tokens : of a microbatch
    width : of a number of an activation [B]
    mask : the mask of a layer, in the same width; 0 where there is none [B]
    """

    model: Transformer
    finetune: Finetune | None
    tokens: int
    width: float
    mask: float

    def rows(self, columns: float, width: float | None = None) -> float:
        """Return a tensor with some columns for each token [B]."""
        return columns * self.tokens * (self.width if width is None else width)

    def has_adapter(self, linear: Linear) -> bool:
        """Whether a linear layer has an adapter."""
        return self.finetune is not None and linear.target in self.finetune.targets

    def reads(self, *layers: Linear) -> bool:
        """Whether a backward needs the input of linear layers: for weights, or for adapters.

        Dropout gives each adapter an input of its own.
        """
        tuned = self.finetune
        return tuned is None or (not drops(tuned) and any(map(self.has_adapter, layers)))


def drops(finetune: Finetune) -> bool:
    """Whether adapters have dropout; the module of ``scripts/dora.py`` ignores it."""
    return finetune.dropout and finetune.method != "dora"


# --- forward --------------------------------------------------------------------------------------


def forward_layer(held: Tensors, shape: Shape) -> None:
    """Run the forward of a layer; its result is the tensor ``layer``."""
    model = shape.model
    *qkv, output = linears(model)[:4]
    norm(held, shape, "normed")
    for linear, name in zip(qkv, ("queries", "keys", "values"), strict=True):
        _linear(held, shape, linear, name)
    held.drop("normed", saved=shape.reads(*qkv))
    _attention(held, shape)
    _linear(held, shape, output, "projected")
    held.drop("attended", saved=shape.reads(output))
    held.make(residual=shape.rows(model.hidden))
    held.drop("projected")
    _mlp(held, shape)
    held.make(layer=shape.rows(model.hidden))
    held.drop("down", "residual")


def norm(held: Tensors, shape: Shape, name: str) -> None:
    """``LlamaRMSNorm``: in 32 bits, back to 16, times its weight."""
    h = shape.model.hidden
    held.make(wide=shape.rows(h, WIDE), squares=shape.rows(h, WIDE))
    held.drop("squares")
    held.make(scaled=shape.rows(h, WIDE))
    held.drop("wide", saved=True)
    held.make(narrow=shape.rows(h))
    held.make(**{name: shape.rows(h)})
    held.drop("scaled")
    held.drop("narrow", saved=shape.finetune is None)


def _linear(held: Tensors, shape: Shape, linear: Linear, name: str) -> None:
    """Run a linear layer: dequantised before its product, with an adapter in parallel."""
    tuned, weight = shape.finetune, shape.width * linear.inputs * linear.outputs
    if tuned is not None and tuned.quantised:
        _dequantise(held, tuned, weight)
        held.make(**{name: shape.rows(linear.outputs)})
        held.drop("weight")
    else:
        held.make(**{name: shape.rows(linear.outputs)})
    if tuned is None or not shape.has_adapter(linear):
        return
    if tuned.quantised:  # result.clone()
        held.make(**{name: shape.rows(linear.outputs)})
    if drops(tuned):
        held.make(dropped=shape.rows(linear.inputs), dropout=shape.rows(linear.inputs, 1))
    held.make(low=shape.rows(tuned.rank))
    if drops(tuned):
        held.drop("dropped", "dropout", saved=True)
    held.make(up=shape.rows(linear.outputs))
    held.drop("low", saved=True)
    if tuned.method == "dora":
        _dequantise(held, tuned, weight)
        held.make(product=weight, sum=weight)  # the norm of their sum, detached
        held.drop("weight", "product", "sum", "up")
        held.make(unit=shape.rows(linear.outputs))
        held.make(**{name: shape.rows(linear.outputs)})
        held.drop("unit", saved=True)
    else:
        held.make(scaled=shape.rows(linear.outputs))
        held.drop("up", "scaled")


def _dequantise(held: Tensors, tuned: Finetune, nbytes: float) -> None:
    """Widen a weight: in one kernel, or in three by ``Quantizer.dequantize`` of HQQ."""
    if tuned.quantiser == "hqq":
        held.make(unpacked=nbytes, shifted=nbytes, weight=nbytes)
        held.drop("unpacked", "shifted")
    else:
        held.make(weight=nbytes)


def _attention(held: Tensors, shape: Shape) -> None:
    """Rotate queries and keys, repeat shared keys, and attend; the result is ``attended``."""
    model = shape.model
    wide = shape.rows(model.heads * model.head_size)
    narrow = shape.rows(model.kv_heads * model.head_size)
    for name, nbytes in (("queries", wide), ("keys", narrow)):
        held.make(cosines=nbytes, half=nbytes / 2, turned=nbytes)
        held.drop("half")
        held.make(sines=nbytes)
        held.drop("turned")
        held.make(**{name: nbytes})
        held.drop("cosines", "sines")
    if model.kv_heads < model.heads:
        held.make(keys=wide, values=wide)
    if shape.mask:  # contiguous() for the kernel that takes a mask
        held.make(queries=wide, keys=wide, values=wide, visible=shape.mask)
    held.make(result=wide)
    held.drop("queries", "keys", "values", *(("visible",) if shape.mask else ()), saved=True)
    held.make(attended=wide)
    held.drop("result", saved=True)


def _mlp(held: Tensors, shape: Shape) -> None:
    """``down(act(gate(x)) * up(x))``, or ``down(act(up(x)))``; the result is ``down``."""
    *first, last = linears(shape.model)[4:]
    inside = shape.rows(shape.model.ffn)
    norm(held, shape, "normed")
    _linear(held, shape, first[0], "opened")
    held.make(active=inside)
    held.drop("opened", saved=True)
    if shape.model.gated:
        _linear(held, shape, first[1], "factor")
        held.make(gated=inside)
        held.drop("active", "factor", saved=True)
    else:
        held.make(gated=inside)
        held.drop("active")
    held.drop("normed", saved=shape.reads(*first))
    _linear(held, shape, last, "down")
    held.drop("gated", saved=shape.reads(last))


def forward_loss(held: Tensors, shape: Shape) -> None:
    """Logits to 32 bits, a copy without the last token, and its log-softmax.

    The output of the model keeps the logits in 32 bits until the step ends.
    """
    vocab = shape.model.vocab
    norm(held, shape, "normed")
    held.make(narrow=shape.rows(vocab), logits=shape.rows(vocab, WIDE))
    held.drop("narrow")
    held.make(shifted=shape.rows(vocab, WIDE), softmax=shape.rows(vocab, WIDE))
    held.drop("shifted")


# --- backward -------------------------------------------------------------------------------------


def backward_loss(held: Tensors, shape: Shape) -> None:
    """Back through loss, log-softmax, shift and width; the gradient is ``gradient``."""
    vocab = shape.model.vocab
    held.make(picked=shape.rows(vocab, WIDE), ahead=shape.rows(vocab, WIDE))
    held.drop("picked", "softmax")
    held.make(whole=shape.rows(vocab, WIDE))
    held.drop("ahead")
    held.make(narrow=shape.rows(vocab))
    held.drop("whole")
    held.make(gradient=shape.rows(shape.model.hidden))
    held.drop("narrow")


def backward_layer(held: Tensors, shape: Shape) -> None:
    """Gradients of the activations of a layer, whose saved tensors are still held."""
    model, tuned = shape.model, shape.finetune
    h, inside = shape.rows(model.hidden), shape.rows(model.ffn)
    weight = shape.width * model.hidden * model.ffn if tuned and tuned.quantised else 0.0
    held.make(weight=weight, gated=inside)
    held.drop("weight")
    held.make(active=inside, factor=inside)
    held.drop("gated")
    held.make(opened=inside)
    held.drop("active")
    held.make(normed=h)
    held.drop("factor")
    held.make(other=h)
    held.drop("opened")
    _backward_norm(held, shape)
    held.make(result=h, queries=h, keys=h, values=h)
    held.drop("result")
    held.make(normed=h, other=h)
    held.drop("queries", "keys", "values")
    _backward_norm(held, shape)


def _backward_norm(held: Tensors, shape: Shape) -> None:
    h = shape.model.hidden
    held.make(wide=shape.rows(h, WIDE), scaled=shape.rows(h, WIDE))
    held.drop("normed", "other")
    held.make(gradient=shape.rows(h))
    held.drop("wide", "scaled")
