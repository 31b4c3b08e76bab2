"""What is trained: a stack of transformer blocks with an embedding below and logits above."""

from dataclasses import dataclass

from clustersim.catalog.records import ModelRecord


@dataclass(frozen=True)
class Transformer:
    """The shape of a decoder-only transformer.

    Attributes
    ----------
    hidden : width of the residual stream
    ffn : width inside the MLP
    vocab : rows of the embedding as it is held, padded to what the layout needs
    sequence : tokens of one sequence
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    sequence: int

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden // self.heads

    @property
    def layer_parameters(self) -> int:
        """Weights and biases of one block: attention, MLP and two norms.

        .. math:: 4 h^2 + 4 h + 2 h f + f + h + 4 h

        For f = 4 h this is 12 h^2 + 13 h, Narayanan et al. 2021, eq. 2, arXiv:2104.04473.
        """
        h, f = self.hidden, self.ffn
        attention = 4 * h * h + 4 * h
        mlp = 2 * h * f + f + h
        norms = 4 * h
        return attention + mlp + norms

    @property
    def embedding_parameters(self) -> int:
        """Rows of the token embedding, which the logits share."""
        return self.vocab * self.hidden

    @property
    def position_parameters(self) -> int:
        """Rows of the learned position embedding."""
        return self.sequence * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters, the tied embedding once; the final norm has 2 h."""
        blocks = self.layers * self.layer_parameters
        return blocks + self.embedding_parameters + self.position_parameters + 2 * self.hidden


def padded_vocab(vocab: int, multiple: int, tensor: int) -> int:
    """Return the vocabulary rounded up to a multiple of `multiple` times the tensor degree.

    Megatron-LM, ``megatron/tokenizer/tokenizer.py``, ``_vocab_size_with_padding``.

    >>> padded_vocab(50257, 128, 8)
    51200
    """
    step = multiple * tensor
    return -(-vocab // step) * step


def build_model(record: ModelRecord, sequence: int, multiple: int, tensor: int) -> Transformer:
    """Return the model of a catalogue file, trained on sequences of `sequence` tokens."""
    return Transformer(
        name=record.name,
        layers=record.layers,
        hidden=record.hidden,
        heads=record.heads,
        ffn=record.ffn,
        vocab=padded_vocab(record.vocab, multiple, tensor),
        sequence=sequence,
    )
