"""Tensors of an eager layer of Hugging Face's Llama, one after the other, in an allocator's blocks.

    forward      each module allocates its result; what no backward needs is freed at once
    backward     of a layer: what it computes again and saves, and gradients of activations

Hugging Face transformers, ``models/llama/modeling_llama.py``, commit 0022728; adapters as in PEFT's
``tuners/lora``, and with a norm as in AnswerDotAI/fsdp_qlora, ``scripts/dora.py``.
"""

from clustersim.memory.allocator import SMALL, Block, Blocks
from clustersim.records import dataclass
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

    def allocate(self, **sizes: float) -> None:
        """Allocate tensors of some sizes [B], in order; one of a name in use replaces the old."""
        for name, nbytes in sizes.items():
            block = self._blocks.allocate(nbytes) if nbytes > SMALL else None
            if name in self._named:
                self.release(name)
            self._named[name] = block

    def release(self, *names: str, saved: bool = False) -> None:
        """Forget some tensors, which are freed unless a backward needs them."""
        for name in names:
            block = self._named.pop(name)
            if block is not None and saved and self._saving:
                self._saved.append(block)
            elif block is not None:
                self._blocks.free(block)

    def clear(self) -> None:
        """Free all that is left."""
        self.release(*self._named)
        while self._saved:
            self._blocks.free(self._saved.pop())


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


def forward_layer(tensors: Tensors, shape: Shape) -> None:
    """Run the forward of a layer; its result is the tensor ``layer``."""
    model = shape.model
    *qkv, output = linears(model)[:4]
    norm(tensors, shape, "normed")
    for linear, name in zip(qkv, ("queries", "keys", "values"), strict=True):
        _linear(tensors, shape, linear, name)
    tensors.release("normed", saved=shape.reads(*qkv))
    _attention(tensors, shape)
    _linear(tensors, shape, output, "projected")
    tensors.release("attended", saved=shape.reads(output))
    tensors.allocate(residual=shape.rows(model.hidden))
    tensors.release("projected")
    _mlp(tensors, shape)
    tensors.allocate(layer=shape.rows(model.hidden))
    tensors.release("down", "residual")


def norm(tensors: Tensors, shape: Shape, name: str) -> None:
    """``LlamaRMSNorm``: in 32 bits, back to 16, times its weight."""
    h = shape.model.hidden
    tensors.allocate(wide=shape.rows(h, WIDE), squares=shape.rows(h, WIDE))
    tensors.release("squares")
    tensors.allocate(scaled=shape.rows(h, WIDE))
    tensors.release("wide", saved=True)
    tensors.allocate(narrow=shape.rows(h))
    tensors.allocate(**{name: shape.rows(h)})
    tensors.release("scaled")
    tensors.release("narrow", saved=shape.finetune is None)


def _linear(tensors: Tensors, shape: Shape, linear: Linear, name: str) -> None:
    """Run a linear layer: dequantised before its product, with an adapter in parallel."""
    tuned, weight = shape.finetune, shape.width * linear.inputs * linear.outputs
    if tuned is not None and tuned.quantised:
        _dequantise(tensors, tuned, weight)
        tensors.allocate(**{name: shape.rows(linear.outputs)})
        tensors.release("weight")
    else:
        tensors.allocate(**{name: shape.rows(linear.outputs)})
    if tuned is None or not shape.has_adapter(linear):
        return
    if tuned.quantised:  # result.clone()
        tensors.allocate(**{name: shape.rows(linear.outputs)})
    if drops(tuned):
        tensors.allocate(dropped=shape.rows(linear.inputs), dropout=shape.rows(linear.inputs, 1))
    tensors.allocate(low=shape.rows(tuned.rank))
    if drops(tuned):
        tensors.release("dropped", "dropout", saved=True)
    tensors.allocate(up=shape.rows(linear.outputs))
    tensors.release("low", saved=True)
    if tuned.method == "dora":
        _dequantise(tensors, tuned, weight)
        tensors.allocate(product=weight, sum=weight)  # the norm of their sum, detached
        tensors.release("weight", "product", "sum", "up")
        tensors.allocate(unit=shape.rows(linear.outputs))
        tensors.allocate(**{name: shape.rows(linear.outputs)})
        tensors.release("unit", saved=True)
    else:
        tensors.allocate(scaled=shape.rows(linear.outputs))
        tensors.release("up", "scaled")


def _dequantise(tensors: Tensors, tuned: Finetune, nbytes: float) -> None:
    """Widen a weight: in one kernel, or in three by ``Quantizer.dequantize`` of HQQ."""
    if tuned.quantiser == "hqq":
        tensors.allocate(unpacked=nbytes, shifted=nbytes, weight=nbytes)
        tensors.release("unpacked", "shifted")
    else:
        tensors.allocate(weight=nbytes)


def _attention(tensors: Tensors, shape: Shape) -> None:
    """Rotate queries and keys, repeat shared keys, and attend; the result is ``attended``."""
    model = shape.model
    wide = shape.rows(model.heads * model.head_size)
    narrow = shape.rows(model.kv_heads * model.head_size)
    for name, nbytes in (("queries", wide), ("keys", narrow)):
        tensors.allocate(cosines=nbytes, half=nbytes / 2, turned=nbytes)
        tensors.release("half")
        tensors.allocate(sines=nbytes)
        tensors.release("turned")
        tensors.allocate(**{name: nbytes})
        tensors.release("cosines", "sines")
    if model.kv_heads < model.heads:
        tensors.allocate(keys=wide, values=wide)
    if shape.mask:  # contiguous() for the kernel that takes a mask
        tensors.allocate(queries=wide, keys=wide, values=wide, visible=shape.mask)
    tensors.allocate(result=wide)
    tensors.release("queries", "keys", "values", *(("visible",) if shape.mask else ()), saved=True)
    tensors.allocate(attended=wide)
    tensors.release("result", saved=True)


def _mlp(tensors: Tensors, shape: Shape) -> None:
    """``down(act(gate(x)) * up(x))``, or ``down(act(up(x)))``; the result is ``down``."""
    *first, last = linears(shape.model)[4:]
    inside = shape.rows(shape.model.ffn)
    norm(tensors, shape, "normed")
    _linear(tensors, shape, first[0], "opened")
    tensors.allocate(active=inside)
    tensors.release("opened", saved=True)
    if shape.model.gated:
        _linear(tensors, shape, first[1], "factor")
        tensors.allocate(gated=inside)
        tensors.release("active", "factor", saved=True)
    else:
        tensors.allocate(gated=inside)
        tensors.release("active")
    tensors.release("normed", saved=shape.reads(*first))
    _linear(tensors, shape, last, "down")
    tensors.release("gated", saved=shape.reads(last))


def forward_loss(tensors: Tensors, shape: Shape) -> None:
    """Logits to 32 bits, a copy without the last token, and its log-softmax.

    The output of the model keeps the logits in 32 bits until the step ends.
    """
    vocab = shape.model.vocab
    norm(tensors, shape, "normed")
    tensors.allocate(narrow=shape.rows(vocab), logits=shape.rows(vocab, WIDE))
    tensors.release("narrow")
    tensors.allocate(shifted=shape.rows(vocab, WIDE), softmax=shape.rows(vocab, WIDE))
    tensors.release("shifted")


# --- backward -------------------------------------------------------------------------------------


def backward_loss(tensors: Tensors, shape: Shape) -> None:
    """Back through loss, log-softmax, shift and width; the gradient is ``gradient``."""
    vocab = shape.model.vocab
    tensors.allocate(picked=shape.rows(vocab, WIDE), ahead=shape.rows(vocab, WIDE))
    tensors.release("picked", "softmax")
    tensors.allocate(whole=shape.rows(vocab, WIDE))
    tensors.release("ahead")
    tensors.allocate(narrow=shape.rows(vocab))
    tensors.release("whole")
    tensors.allocate(gradient=shape.rows(shape.model.hidden))
    tensors.release("narrow")


def backward_layer(tensors: Tensors, shape: Shape) -> None:
    """Gradients of the activations of a layer, whose saved tensors are still held."""
    model, tuned = shape.model, shape.finetune
    h, inside = shape.rows(model.hidden), shape.rows(model.ffn)
    weight = shape.width * model.hidden * model.ffn if tuned and tuned.quantised else 0.0
    tensors.allocate(weight=weight, gated=inside)
    tensors.release("weight")
    tensors.allocate(active=inside, factor=inside)
    tensors.release("gated")
    tensors.allocate(opened=inside)
    tensors.release("active")
    tensors.allocate(normed=h)
    tensors.release("factor")
    tensors.allocate(other=h)
    tensors.release("opened")
    _backward_norm(tensors, shape)
    tensors.allocate(result=h, queries=h, keys=h, values=h)
    tensors.release("result")
    tensors.allocate(normed=h, other=h)
    tensors.release("queries", "keys", "values")
    _backward_norm(tensors, shape)


def _backward_norm(tensors: Tensors, shape: Shape) -> None:
    h = shape.model.hidden
    tensors.allocate(wide=shape.rows(h, WIDE), scaled=shape.rows(h, WIDE))
    tensors.release("normed", "other")
    tensors.allocate(gradient=shape.rows(h))
    tensors.release("wide", "scaled")
