"""Parameter counts, and their distribution over ranks.

    layer        attention or Mamba-2, MLP or experts, norms
    ends         embedding and positions before the first layer, norm and logits after the last

Letters: h hidden, a heads, k key and value heads, d head size, f ffn, V vocabulary.
"""

from typing import NamedTuple

from clustersim.workload.model import Layer, Transformer


class Parameters(NamedTuple):
    """Parameters by how tensor and expert parallelism distribute them.

    Attributes
    ----------
    split : each tensor rank holds an equal part
    whole : each tensor rank holds all of them
    experts : each expert rank holds some of the experts, split over its tensor ranks
    """

    split: float = 0.0
    whole: float = 0.0
    experts: float = 0.0

    @property
    def all(self) -> float:
        """The sum of all parameters."""
        return self.split + self.whole + self.experts

    def plus(self, other: "Parameters") -> "Parameters":
        """Return the sum of both."""
        return Parameters(
            self.split + other.split, self.whole + other.whole, self.experts + other.experts
        )

    def scaled(self, factor: float) -> "Parameters":
        """Return each kind of parameters times a factor, such as their number or width [B]."""
        return Parameters(factor * self.split, factor * self.whole, factor * self.experts)

    def dense(self, tensor: int) -> float:
        """Return the parameters of one tensor rank outside the experts."""
        return self.split / tensor + self.whole

    def of_experts(self, expert: int, expert_tensor: int) -> float:
        """Return the expert parameters of one rank."""
        return self.experts / (expert * expert_tensor)


def layer_parameters(model: Transformer, layer: Layer) -> Parameters:
    r"""Return the parameters of one layer.

    .. math:: h d (a + 2 k) + a d h + (2 | 3) h f

    and norms and biases. For the GPT of Narayanan et al. 2021, eq. 2, arXiv:2104.04473, with
    f = 4 h, this is 12 h^2 + 13 h.
    """
    total = Parameters()
    for part in parameters_by_part(model, layer).values():
        total = total.plus(part)
    return total


def parameters_by_part(model: Transformer, layer: Layer) -> dict[str, Parameters]:
    """Return the parameters of one layer by part: its mixer, an MLP or experts, and norms."""
    parts = _mixer(model, layer) | _after_mixer(model, layer)
    norms = 1 if model.parallel_block == "one-norm" else layer.halves
    norms += layer.halves if model.output_norms else 0
    return parts | {"norms": Parameters(whole=norms * _norm(model, model.hidden))}


def _mixer(model: Transformer, layer: Layer) -> dict[str, Parameters]:
    if layer.mixer is None:
        return {}
    return {"Mamba": _mamba(model)} if layer.mixer == "mamba" else {"attention": _attention(model)}


def _after_mixer(model: Transformer, layer: Layer) -> dict[str, Parameters]:
    if not layer.mlp:
        return {}
    return _experts(model) if layer.experts else {"MLP": _mlp(model, model.ffn)}


def embedding_parameters(model: Transformer) -> Parameters:
    """Return the parameters before the first layer: tokens V h, positions s h, and a norm."""
    whole = model.sequence * model.hidden if model.positions == "learned" else 0
    whole += _norm(model, model.hidden) if model.embedding_norm else 0
    return Parameters(split=model.vocab * model.hidden, whole=whole)


def head_parameters(model: Transformer, *, alone: bool) -> Parameters:
    """Return the parameters after the last layer: the norm, and separate logits V h.

    Parameters
    ----------
    alone : whether the embedding is on another stage, so that tied weights are replicated
    """
    split = model.vocab * model.hidden if alone or not model.tied else 0
    return Parameters(split=split, whole=_norm(model, model.hidden))


def model_parameters(model: Transformer) -> float:
    """Return all parameters, with a tied embedding counted once."""
    layers = sum(layer_parameters(model, layer).all for layer in model.stack)
    return layers + embedding_parameters(model).all + head_parameters(model, alone=False).all


def model_parts(model: Transformer) -> dict[str, float]:
    """Return all parameters by part: those of the layers, embedding and logits.

    Logits are omitted if they share the weights of the embedding.
    """
    counts: dict[str, float] = {}
    for layer in model.stack:
        for name, part in parameters_by_part(model, layer).items():
            counts[name] = counts.get(name, 0.0) + part.all
    head = head_parameters(model, alone=False)
    counts["norms"] += head.whole
    counts["embedding"] = embedding_parameters(model).all
    if head.split:
        counts["logits"] = head.split
    return counts


def multiplied(model: Transformer, layer: Layer) -> float:
    """Return the weights of a layer that one token multiplies: of experts, only `top_k`."""
    parameters = layer_parameters(model, layer)
    shape = model.experts
    return parameters.split + (parameters.experts * shape.top_k / shape.count if shape else 0.0)


def active_parameters(model: Transformer) -> float:
    """Return the active parameters of one token: of the experts only `top_k`.

    The whole embedding is included, as in the source of Mixtral; the sources of gpt-oss and
    DeepSeek-V3 exclude it, because a token reads one row of it.
    """
    shape = model.experts
    if shape is None:
        return model_parameters(model)
    idle = sum(
        layer_parameters(model, layer).experts * (1 - shape.top_k / shape.count)
        for layer in model.stack
    )
    return model_parameters(model) - idle


# --- the pieces of a layer ------------------------------------------------------------------------


def _norm(model: Transformer, width: int) -> int:
    """Weights of a norm, and its biases if any."""
    return width * (2 if model.norm == "layer" and "norm" in model.biases else 1)


def _attention(model: Transformer) -> Parameters:
    if model.latent is not None:
        return _latent_attention(model)
    h, d = model.hidden, model.head_size
    columns = d * (model.query_heads + 2 * model.kv_heads)
    split = h * columns + model.heads * d * h
    split += columns if "qkv" in model.biases else 0
    split += model.heads if model.sinks else 0
    whole = h if "output" in model.biases else 0
    whole += 2 * d if model.qk_norm else 0
    return Parameters(split=split, whole=whole)


def _latent_attention(model: Transformer) -> Parameters:
    """Down-projections and their norms are replicated on tensor ranks; the heads are split.

    DeepSeek-V3, arXiv:2412.19437, section 2.1.1; Megatron-LM holds ``linear_q_down_proj`` and
    ``linear_kv_down_proj`` whole, ``megatron/core/transformer/multi_latent_attention.py``.
    """
    assert model.latent is not None
    shape, h, a = model.latent, model.hidden, model.heads
    whole = h * (shape.keys_values + shape.rope) + shape.keys_values
    split = a * shape.keys_values * (shape.nope + shape.value) + a * shape.value * h
    if shape.indexer is not None:
        heads, width = shape.indexer.heads, shape.indexer.head_size
        whole += (shape.query or h) * heads * width + h * (width + heads) + 2 * width
    if shape.query is None:
        split += h * a * model.head_size
    else:
        whole += h * shape.query + shape.query
        split += shape.query * a * model.head_size
    return Parameters(split=split, whole=whole)


def _mamba(model: Transformer) -> Parameters:
    r"""Two projections, a convolution with biases, a norm, and three numbers a head.

    .. math:: h (2 i + 2 g n + a) + (k + 1) (i + 2 g n) + i + 3 a + i h

    with the width i of a heads, g groups of n numbers and k taps. Megatron-Core,
    ``ssm/mamba_mixer.py``; Hugging Face, ``NemotronHMamba2Mixer``.  A Gated DeltaNet has another
    number a head for each token, no biases, a norm of one head that all share, and two numbers a
    head: ``Qwen3NextGatedDeltaNet``.
    """
    shape = model.mamba
    assert shape is not None
    around = model.hidden * (shape.columns + shape.inner)
    if shape.delta:
        taps = shape.convolution * shape.convolved
        return Parameters(split=around + taps + 2 * shape.heads, whole=shape.head_size)
    taps = (shape.convolution + 1) * shape.convolved
    return Parameters(split=around + taps + shape.inner + 3 * shape.heads)


def _mlp(model: Transformer, width: int) -> Parameters:
    """An MLP of some inner width; the bias after its reduction is replicated."""
    inner = 2 if model.gated else 1
    split = (inner + 1) * model.hidden * width
    if "mlp" not in model.biases:
        return Parameters(split=split)
    return Parameters(split=split + inner * width, whole=model.hidden)


def _experts(model: Transformer) -> dict[str, Parameters]:
    """The experts, the shared experts, and the router."""
    assert model.experts is not None
    shape = model.experts
    router = model.hidden * shape.count + (shape.count if {"mlp", "router"} & model.biases else 0)
    parts = {
        "experts": Parameters(experts=shape.count * _mlp(model, shape.ffn).all),
        "router": Parameters(whole=router),
    }
    if shape.shared:
        parts["shared experts"] = _mlp(model, shape.shared * shape.ffn)
    return parts
