"""Layers of every family: their kernels and what they keep, against formulas and by hand."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.catalog.records.models import IndexerShape, LatentShape
from clustersim.scenario.load import load
from clustersim.simulation.step.simulate import simulate
from clustersim.workload.flops import layer_forward_flops, logits_forward_flops
from clustersim.workload.kernels import Gemm, Overlapped, Stream, flat
from clustersim.workload.layers import layer_ops
from clustersim.workload.layers.ends import boundary_gather, embedding_ops, head_ops
from clustersim.workload.model import Layer, Transformer
from clustersim.workload.ops import MODULES, Recompute, backward, forward, kept, op_names
from clustersim.workload.slice import PRECISIONS
from slices import PLAIN, block, collectives, flops, moved, slice_of

MODEST = settings(max_examples=20, deadline=None)

GPT = Transformer("gpt", 4, 1024, 16, 4096, 51200, 512)
LLAMA = Transformer(
    "llama", 4, 1024, 16, 3072, 32000, 512, kv_heads=4, norm="rms", mlp="gated",
    positions="rotary", tied=False, biases=frozenset(), dropout=False
)  # fmt: skip
LATENT = replace(
    LLAMA, name="latent", kv_heads=16, head_size=96,
    latent=LatentShape(query=384, keys_values=128, nope=64, rope=32, value=64)
)  # fmt: skip


def named(ops, name):
    return next(op for op in ops if op.name == name)


@st.composite
def families(draw):
    """Small models of every family, whose dimensions a tensor degree of 4 divides."""
    kv_heads, groups = 4 * draw(st.integers(1, 3)), draw(st.integers(1, 4))
    model = draw(st.sampled_from([GPT, LLAMA]))
    return replace(
        model,
        hidden=64 * draw(st.integers(1, 16)),
        heads=kv_heads * groups,
        kv_heads=kv_heads,
        head_size=8 * draw(st.integers(1, 16)),
        ffn=64 * draw(st.integers(1, 32)),
        sequence=64 * draw(st.integers(1, 16)),
    )


# --- families -------------------------------------------------------------------------------------


@MODEST
@given(
    families(), st.sampled_from([1, 2, 4]), st.integers(1, 4),
    st.sampled_from(["unfused", "math", "fused-softmax", "flash"])
)  # fmt: skip
def test_products_of_every_family_do_the_flops_of_its_formula(model, tensor, micro, attention):
    """Grouped heads, gates and heads of any width: forward once, backward twice, over t ranks.

    Flash attention skips half of the square, and does two and a half times as much backward.
    """
    part, share = slice_of(model, tensor, micro, attention), micro / tensor
    formula = {name: share * done for name, done in layer_forward_flops(model, PLAIN).items()}
    core, logits = formula.pop("attention"), logits_forward_flops(model) * share
    ahead, back = (core / 2, 2.5 * core / 2) if attention == "flash" else (core, 2 * core)
    rest = sum(formula.values())

    assert flops(forward(block(part))) == pytest.approx(rest + ahead, rel=1e-12)
    assert flops(backward(block(part))) == pytest.approx(2 * rest + back, rel=1e-12)
    assert flops(forward(head_ops(part))) == pytest.approx(logits, rel=1e-12)
    assert flops(backward(head_ops(part))) == pytest.approx(2 * logits, rel=1e-12)
    assert flops(forward(embedding_ops(part))) == flops(backward(embedding_ops(part))) == 0


def test_ranks_beyond_the_key_heads_hold_copies_of_them():
    """4 key heads on 8 ranks: each computes 2 of 16 queries, a key and a value: 4 x 64 columns."""
    made = {
        tensor: named(block(slice_of(LLAMA, tensor)), "qkv").forward[0].n for tensor in (1, 4, 8)
    }

    assert made == {1: (16 + 4 + 4) * 64, 4: (4 + 1 + 1) * 64, 8: (2 + 1 + 1) * 64}


def test_grouped_heads_keep_fewer_keys_and_values():
    """16 queries and 4 + 4 keys and values of 64 numbers of 2 bytes a token; 4 bytes a row."""
    core = named(block(slice_of(LLAMA)), "attention")

    assert core.inputs == 2 * 512 * (16 + 4 + 4) * 64
    assert core.inside == 4 * 512 * 16


@pytest.mark.parametrize(
    ("window", "pairs"), [(None, 512 * 512 / 2), (128, 128 * 512 - 128**2 / 2)]
)
def test_a_window_skips_what_lies_behind_it(window, pairs):
    """A query of 512 sees w tokens but for the first w: w s - w^2 / 2 pairs of 4 x 64 FLOP."""
    part = slice_of(LLAMA)
    (ahead,) = named(block(part, Layer(False, window)), "attention").forward
    (back,) = named(block(part, Layer(False, window)), "attention").backward

    assert ahead.flops == 16 * pairs * 4 * 64
    assert back.flops == 2.5 * ahead.flops


def test_a_gate_by_hand():
    """1 x 512 x 3,072 numbers: 3 moved forward and 5 backward in one kernel, else 5 and 9.

    Gradients of both halves of one product are joined then, 4 more. Kept are both inputs, pass by
    pass the result of SiLU as well.
    """
    fused, joined = (slice_of(LLAMA, gated_fused=fused) for fused in (True, False))
    apart = slice_of(LLAMA, gated_fused=False, gate_merged=False)
    inner = 2 * 512 * 3072

    assert moved(forward(block(fused)), "gate") == 3 * inner
    assert moved(backward(block(fused)), "gate backward") == 5 * inner
    assert moved(forward(block(apart)), "gate") == 5 * inner
    assert moved(backward(block(apart)), "gate backward") == 9 * inner
    assert moved(backward(block(joined)), "gate backward") == (9 + 4) * inner
    assert [kept([named(block(p), "activation")]) for p in (fused, joined)] == [
        2 * inner,
        3 * inner,
    ]


def test_norms_by_hand():
    """Two norms of 512 x 1,024 numbers: 4 B forward, 16 backward; RMSNorm by operations 36 and 78.

    A persistent kernel finds the gradients of the weights on its way and moves 12 backward.
    """
    kinds = {
        "fused": slice_of(LLAMA),
        "apart": slice_of(LLAMA, norm_fused=False),
        "persistent": slice_of(GPT, norm_persistent=True),
    }
    numbers = 2 * 512 * 1024
    ahead = {k: moved(forward(block(p)), "norm") / numbers for k, p in kinds.items()}
    back = {k: moved(backward(block(p)), "norm backward") / numbers for k, p in kinds.items()}

    assert ahead == {"fused": 4, "apart": 36, "persistent": 4}
    assert back == {"fused": 16, "apart": 78, "persistent": 12}


def test_what_a_family_lacks_costs_nothing():
    """No bias is summed over tokens, no mask of a dropout is kept, no position is added."""
    llama, gpt = (layer_ops(slice_of(model, 1, 1, "unfused"), PLAIN) for model in (LLAMA, GPT))
    streams = {k.name for k in flat([*forward(llama), *backward(llama)]) if isinstance(k, Stream)}

    assert not streams & {"qkv bias gradient", "attention dropout", "bias dropout add backward"}
    assert named(llama, "attention residual").inside == 0
    assert named(gpt, "attention residual").inside == 512 * 1024
    assert "positions" not in op_names(embedding_ops(slice_of(LLAMA)))
    assert "embedding norm" in op_names(embedding_ops(slice_of(replace(GPT, embedding_norm=True))))


def test_positions_turn_queries_and_keys():
    """16 + 4 heads of 64 are read and written, ten numbers for each where pass by pass."""
    numbers = 2 * 512 * 20 * 64

    assert moved(forward(block(slice_of(LLAMA))), "rotary") == 2 * numbers
    assert moved(forward(block(slice_of(LLAMA, rotary_fused=False))), "rotary") == 10 * numbers
    assert "qk norm" in op_names(block(slice_of(replace(LLAMA, qk_norm=True))))
    alibi = block(slice_of(replace(GPT, positions="alibi"), attention="unfused"))
    assert moved(forward(alibi), "alibi") == 2 * 2 * 16 * 512**2


def test_latent_attention_does_the_flops_of_its_formula():
    """One rank does all; of four, each does the products down and a quarter of the rest."""
    formula = layer_forward_flops(LATENT, PLAIN)
    whole = sum(formula.values())
    down = 2 * 512 * 1024 * (384 + 128 + 32)
    one, four = (flops(forward(block(slice_of(LATENT, t, 1, "unfused")))) for t in (1, 4))

    assert one == pytest.approx(whole, rel=1e-12)
    assert four == pytest.approx(down + (whole - down) / 4, rel=1e-12)


def test_an_indexer_scores_all_tokens_and_attention_those_it_chooses():
    """Every tensor rank makes the whole choice of 64 of 512 tokens; the core costs that of 64."""
    shape = LATENT.latent.model_copy(
        update={"indexer": IndexerShape(heads=4, head_size=32, tokens=64)}
    )
    sparse = replace(LATENT, latent=shape)
    layer = sparse.layer(0)
    formula = layer_forward_flops(sparse, layer)
    chosen = formula["indexer"]

    for tensor in (1, 4):
        made = named(block(slice_of(sparse, tensor, 1, "unfused"), layer), "indexer")
        assert flops(made.forward) == pytest.approx(chosen, rel=1e-12)
        assert flops(made.backward) == pytest.approx(2 * chosen, rel=1e-12)
    products = 384 * 4 * 32 + 1024 * (32 + 4)
    assert chosen == 2 * 512 * (products + 4 * 32 * 512)
    assert formula["attention"] == layer_forward_flops(LATENT, PLAIN)["attention"] * 64 / 512
    assert sparse.layer(0).window == 64
    assert replace(sparse, sequence=64).layer(0).window is None


def test_an_indexer_keeps_its_own_queries_keys_and_choice_alone():
    """4 heads and a key of 32, and 64 numbers of tokens; it reads what other operations keep."""
    indexer = IndexerShape(heads=4, head_size=32, tokens=64)
    sparse = replace(LATENT, latent=LATENT.latent.model_copy(update={"indexer": indexer}))
    with_it, without = block(slice_of(sparse)), block(slice_of(LATENT))
    own = LATENT.sequence * (2 * (4 + 1) * 32 + 4 * 64)

    assert kept(with_it) == kept(without) + own
    assert kept(with_it, {"indexer"}) == kept(without)
    fewer = [kept(ops, MODULES["mla_up_proj"], outputs=False) for ops in (with_it, without)]
    assert fewer[0] == fewer[1] + own


def test_latent_attention_keeps_its_narrow_vectors():
    """A token keeps 384 + 128 + 32 numbers less than the keys and values they become would be."""
    ops = block(slice_of(LATENT))

    assert named(ops, "qkv down").inputs == 2 * 512 * 1024
    assert named(ops, "latent norm").inputs == 2 * 512 * (384 + 128)
    assert (named(ops, "query up").inputs, named(ops, "qkv").inputs) == (
        2 * 512 * 384,
        2 * 512 * 128,
    )
    assert named(ops, "attention").inputs == 2 * 512 * 16 * (96 + 96 + 64)


# --- tensor groups --------------------------------------------------------------------------------


@MODEST
@given(st.sampled_from([2, 4, 8]), st.integers(1, 4), st.sampled_from(["unfused", "flash"]))
def test_sequence_parallelism_shares_all_activations(tensor, micro, attention):
    """A rank keeps s b h (34 / t + 5 a s / h t), 34 / t with the core run again, 2 / t in full."""
    part = slice_of(GPT, tensor, micro, attention, sequence_parallel=True)
    s, b, h, a, t = GPT.sequence, micro, GPT.hidden, GPT.heads, tensor
    rest, core = 34 * s * b * h / t, 5 * a * s * s * b / t
    ops = block(part)

    if attention == "unfused":
        assert kept(ops) == pytest.approx(rest + core, rel=1e-12)
    assert kept(ops, {"attention"}) == pytest.approx(rest, rel=1e-12)
    assert kept(ops, op_names(ops)) == pytest.approx(2 * s * b * h / t, rel=1e-12)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("norms", "gathers"), [("one-norm", 1), ("own-norms", 2)])
def test_a_parallel_block_reduces_both_outputs_at_once(norms, gathers, shared):
    """One reduction of the outputs forward, and one of the input gradients for each norm."""
    plain = block(slice_of(GPT, 4, sequence_parallel=shared))
    parallel = block(slice_of(replace(GPT, parallel_block=norms), 4, sequence_parallel=shared))

    def counts(kernels):
        return Counter(one.operation for one in collectives(kernels))

    outputs, gradients = counts(forward(parallel)), counts(backward(parallel))
    reduction = "reduce-scatter" if shared else "all-reduce"
    assert counts(forward(plain))[reduction] == counts(backward(plain))[reduction] == 2
    assert (outputs[reduction], gradients[reduction]) == (1, gathers)
    if shared:  # of inputs again for weight gradients, and of the gradient of the sum
        assert (outputs["all-gather"], gradients["all-gather"]) == (gathers, gathers + 1)
    assert flops(forward(parallel)) == flops(forward(plain))
    assert flops(backward(parallel)) == flops(backward(plain))


def test_sequence_parallelism_gathers_before_columns_and_scatters_behind_rows():
    """Forward two of each; backward two of each mirrored, and two repeated gathers of inputs."""
    part = slice_of(GPT, 4, 1, sequence_parallel=True)
    ahead = Counter(c.operation for c in collectives(forward(block(part))))
    back = Counter(c.operation for c in collectives(backward(block(part))))

    assert ahead == {"all-gather": 2, "reduce-scatter": 2}
    assert back == {"all-gather": 4, "reduce-scatter": 2}
    assert {c.nbytes for c in collectives(forward(block(part)))} == {2.0 * 512 * 1024}
    assert boundary_gather(part, 2) == []
    assert [c.operation for c in collectives(head_ops(part)[2].forward)] == ["all-gather"]


@MODEST
@given(families(), st.sampled_from([2, 4]), st.booleans())
def test_overlap_hides_collectives_and_changes_no_kernel(model, tensor, shared):
    """Side by side or one after another, the same kernels run, and forward nothing overlaps."""
    parts = [
        slice_of(model, tensor, tensor_overlap=overlap, sequence_parallel=shared)
        for overlap in (False, True)
    ]
    plain, hidden = (backward(block(part)) for part in parts)
    neighbours = [kernel for kernel in hidden if isinstance(kernel, Overlapped)]

    assert Counter(flat(plain)) == Counter(flat(hidden))
    assert forward(block(parts[0])) == forward(block(parts[1]))
    assert len(neighbours) == (4 if shared else 2)
    assert not any(isinstance(kernel, Overlapped) for kernel in plain)


@pytest.mark.parametrize("shared", ["false", "true"])
def test_blocks_cut_at_their_collectives_take_what_they_take_whole(shared):
    """Without other traffic, kernels concurrent with a collective run in its time in both."""
    layout = ("tensor=16", "pipeline=2", "schedule=1f1b", "chunks=1", f"sequence_parallel={shared}")
    settings = ["cluster.nodes=4", "batch.global=4", *(f"plan.{each}" for each in layout)]
    whole, cut = (
        simulate(load("korthikanti-175b-full", [*settings, f"fusion_bound={bound}"]))
        for bound in (0.5, 1e-9)
    )

    assert (whole.program.fused.whole, cut.program.fused.whole) == (True, False)
    assert cut.step_time == pytest.approx(whole.step_time, rel=1e-9)


# --- precision ------------------------------------------------------------------------------------


def test_eight_bits_are_for_the_products_of_linear_layers():
    """Their inputs are cast and kept in one byte; core, logits and all else stay in two."""
    part = slice_of(GPT, 2, attention="unfused", precision=PRECISIONS["fp8"])
    wide = slice_of(GPT, 2, attention="unfused", precision=PRECISIONS["bf16"])
    products = [k for k in flat(forward(block(part))) if isinstance(k, Gemm)]
    casts = [k for k in flat(forward(block(part))) if isinstance(k, Stream) and "cast" in k.name]
    linear = ("qkv", "projection", "up", "down")
    saved = sum(named(block(wide), op).inputs / 2 for op in linear)

    assert {(k.peak, k.width) for k in products if k.attention} == {("bf16", 2)}
    assert {(k.peak, k.width) for k in products if not k.attention} == {("fp8", 1)}
    assert len(casts) == 4
    assert sum(k.nbytes for k in casts) == 4 * sum(
        named(block(wide), op).inputs / 2 for op in linear
    )
    assert kept(block(wide)) - kept(block(part)) == saved
    assert {k.peak for k in flat(forward(head_ops(part))) if isinstance(k, Gemm)} == {"bf16"}


@pytest.mark.parametrize("tensor", [2, 4])
def test_shares_of_tokens_are_cast_before_they_are_gathered(tensor):
    """Each rank casts its own share, and turns what it gathered round for the weight's gradient.

    Without shares a number of an input or a gradient moves 4 B in one pass. With them an input of
    split columns moves 3 / t B, then 2 B in the backward; one of split rows 3 and 2. A gradient of
    split rows moves 3 / t and 2; one of split columns, which is not gathered, 4 in one pass.
    """
    recipe = PRECISIONS["fp8"]
    whole = block(slice_of(GPT, tensor, precision=recipe))
    shares = block(slice_of(GPT, tensor, precision=recipe, sequence_parallel=True))
    tokens, wide = GPT.sequence, GPT.hidden

    thin = GPT.ffn / tensor
    for name, inputs, outputs in (("up", wide, thin), ("down", thin, wide)):
        read, given = tokens * inputs, tokens * outputs
        first, late = (3 / tensor if name == part else 3 for part in ("up", "down"))
        one, other = named(whole, name), named(shares, name)

        assert moved(one.forward, f"mlp {name} cast") == 4 * read
        assert moved(one.backward, f"mlp {name} gradient cast") == 4 * given
        assert moved(other.forward, f"mlp {name} cast") == first * read
        assert moved(other.backward, f"mlp {name} transpose") == 2 * read
        casts = moved(other.backward, f"mlp {name} gradient cast")
        turned = moved(other.backward, f"mlp {name} gradient transpose")
        assert (casts, turned) == ((4 * given, 0) if name == "up" else (late * given, 2 * given))


@pytest.mark.parametrize(("name", "each"), [("mxfp8", 2 + 2 * 1), ("nvfp4", 2 + 2 + 2 * 9 / 16)])
def test_scales_of_blocks_cannot_be_turned_round(name, each):
    """Rows and columns are cast before a gather, each of its own tokens; nothing is transposed.

    In nvfp4 numbers are read a second time, for the scale of all of them, in a kernel of its own.
    """
    recipe, tensor = PRECISIONS[name], 4
    shares = block(slice_of(GPT, tensor, precision=recipe, sequence_parallel=True))
    tokens, wide, thin = GPT.sequence, GPT.hidden, GPT.ffn / tensor
    up, down = (named(shares, part) for part in ("up", "down"))
    kernels = [*flat(up.forward), *flat(up.backward), *flat(down.forward), *flat(down.backward)]

    assert moved(up.forward, "mlp up cast") == each * tokens * wide / tensor
    assert moved(up.backward, "mlp up gradient cast") == each * tokens * thin
    assert moved(down.backward, "mlp down gradient cast") == each * tokens * wide / tensor
    assert not [kernel for kernel in kernels if "transpose" in kernel.name]
    assert {k.launches for k in kernels if k.name.endswith(" cast")} == {1 + (name == "nvfp4")}


def test_four_bits_are_kept_with_their_scales():
    """An input of a product takes 4 bits, and 8 for each 16 numbers; products have that peak."""
    part, wide = (slice_of(GPT, 2, precision=PRECISIONS[name]) for name in ("nvfp4", "bf16"))
    products = [k for k in flat(forward(block(part))) if isinstance(k, Gemm) and not k.attention]

    assert {(k.peak, k.width) for k in products} == {("fp4", (4 + 8 / 16) / 8)}
    for name in ("qkv", "projection", "up", "down"):
        assert named(block(part), name).inputs == named(block(wide), name).inputs * 9 / 32


def test_thirty_two_bits_are_twice_as_wide_and_need_no_cast():
    """Products and passes move twice the bytes; the softmax of 32-bit numbers casts nothing."""
    half = slice_of(GPT, attention="unfused", precision=PRECISIONS["bf16"])
    full = slice_of(GPT, attention="unfused", precision=PRECISIONS["fp32"])
    scores = 16 * 512**2

    assert {k.width for k in flat(forward(block(full))) if isinstance(k, Gemm)} == {4}
    assert moved(forward(block(full)), "norm") == 2 * moved(forward(block(half)), "norm")
    assert moved(forward(block(half)), "softmax") == 36 * scores
    assert moved(forward(block(full)), "softmax") == 24 * scores
    assert named(block(full), "qkv").inputs == 2 * named(block(half), "qkv").inputs


# --- recomputation --------------------------------------------------------------------------------


@MODEST
@given(families(), st.data())
def test_running_more_again_never_keeps_more(model, data):
    """Whatever is run again already, one operation more leaves at most as much alive."""
    ops = block(slice_of(model))
    some = data.draw(st.frozensets(st.sampled_from(sorted(op_names(ops)))))
    more = some | data.draw(st.frozensets(st.sampled_from(sorted(op_names(ops)))))

    assert kept(ops, more) <= kept(ops, some)


SECOND = {"rotary", "projection", "attention norm", "attention residual", "mlp norm", "up"}
"""What torchtitan recomputes with the activation: every second product, and what is cheap."""


def test_a_gate_of_two_products_is_as_much_work_as_one_of_both():
    """Apart or as one, they compute the same and keep their one input once."""
    merged, apart = (block(slice_of(LLAMA, gate_merged=merged)) for merged in (True, False))

    assert op_names(apart) - op_names(merged) == {"gate"}
    assert flops(forward(apart)) == flops(forward(merged))
    assert flops(backward(apart)) == flops(backward(merged))
    assert kept(apart) == kept(merged)


def test_of_the_two_products_of_a_gate_only_the_one_run_again_is_given_up():
    """The activation needs both: f numbers a token stay, those of the one that is not made again.

    Apart from that stay the layer's input, queries, keys and values, and the result of attention
    with its 32-bit number a row: b s = 512, h = 1,024, f = 3,072, 4 of 16 heads are of keys.
    """
    ops = block(slice_of(LLAMA, gate_merged=False))
    numbers = 1024 + 1024 + 2 * 256 + 1024

    found = kept(ops, SECOND | {"activation"}, outputs=False)
    assert found == 512 * (2 * (numbers + 3072) + 4 * 16)
    more = kept(ops, SECOND | {"activation", "gate"}, outputs=False)
    assert found - more == 512 * 2 * 3072


def test_modes_are_sets_of_operations():
    """None, the attention core, the named ones, or all; of every second layer, on some stages."""
    ops = block(slice_of(GPT))

    assert Recompute("none").of(ops) == frozenset()
    assert Recompute("selective").of(ops) == {"attention"}
    assert Recompute("ops", frozenset({"activation"})).of(ops) == {"activation"}
    assert forward(op for op in ops if op.name in Recompute("full").of(ops)) == forward(ops)
    second = Recompute("full", every=2, stages=frozenset({1}))
    assert [second.applies(1, place) for place in range(4)] == [True, False, True, False]
    assert not second.applies(0, 0)
