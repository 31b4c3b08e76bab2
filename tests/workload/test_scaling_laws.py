"""Laws of optimal training: the numbers of their papers, and least loss for the budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.workload.scaling_laws import LAWS

BUDGETS = st.floats(1e17, 1e27)


@pytest.mark.parametrize(
    ("law", "flops", "parameters", "tokens", "loss"),
    [
        ("replication", 5.76e23, 72.25e9, 1.329e12, 1.9744),
        ("chinchilla-3-unrounded", 5.76e23, 40.31e9, 2.382e12, 1.915),
        ("chinchilla-3", 5.76e23, 32.19e9, 2.982e12, 1.9307),
        ("replication", 3.8e25, 618.7e9, 10.24e12, None),
        ("llama3", 3.8e25, 402e9, 16.55e12, None),
        ("chinchilla-1", 1e21, 2.86e9, None, None),
        ("kaplan", 1e21, 4.68e9, None, None),
    ],
)
def test_a_law_gives_the_numbers_of_its_paper(law, flops, parameters, tokens, loss):
    """Parameters, tokens and loss agree to the printed digits."""
    found = LAWS[law].optimum(flops)

    assert found.parameters == pytest.approx(parameters, rel=1e-3)
    assert tokens is None or found.tokens == pytest.approx(tokens, rel=1e-3)
    if loss is not None:
        assert round(LAWS[law].loss.at(found.parameters, found.tokens), 4) == loss


@pytest.mark.parametrize(
    ("law", "ratio"), [("chinchilla-3", 93), ("chinchilla-3-unrounded", 59), ("replication", 18)]
)
def test_tokens_for_each_parameter_at_the_budget_of_gopher(law, ratio):
    """5.76e23 FLOPs are worth 93, 59 or 18 tokens for each parameter, by the law."""
    assert round(LAWS[law].optimum(5.76e23).tokens_per_parameter) == ratio


@pytest.mark.parametrize(
    ("law", "row"),
    [
        ("chinchilla-1", (0.4e9, 1.92e19, 8.0e9)),
        ("chinchilla-1", (1e9, 1.21e20, 20.2e9)),
        ("chinchilla-20", (1e9, 1.2e20, 20e9)),
        ("chinchilla-1", (10e9, 1.23e22, 205.1e9)),
        ("chinchilla-1", (280e9, 9.9e24, 5.9e12)),
        ("chinchilla-1", (10e12, 1.3e28, 216.2e12)),
        ("chinchilla-2", (0.4e9, 1.84e19, 7.7e9)),
        ("chinchilla-2", (175e9, 4.54e24, 4.3e12)),
        ("chinchilla-2", (10e12, 1.75e28, 292e12)),
    ],
)
def test_power_laws_meet_the_rows_of_their_tables(law, row):
    """Tables 3 and A3 of Hoffmann et al. are met to 1.5 %, which is their rounding."""
    parameters, flops, tokens = row
    found = LAWS[law].optimum(flops)

    assert found.parameters == pytest.approx(parameters, rel=0.015)
    assert found.tokens == pytest.approx(tokens, rel=0.015)


@pytest.mark.parametrize("name", [name for name, law in LAWS.items() if law.loss])
@given(flops=BUDGETS, factor=st.floats(0.2, 5.0))
def test_no_other_size_has_a_lower_loss(name, flops, factor):
    """The optimum spends the whole budget, and any other size of it loses."""
    law = LAWS[name]
    best = law.optimum(flops)
    other = law.loss.at(best.parameters * factor, best.tokens / factor)

    assert 6 * best.parameters * best.tokens == pytest.approx(flops)
    assert law.loss.at(best.parameters, best.tokens) <= other * (1 + 1e-12)


@pytest.mark.parametrize("name", LAWS)
@given(flops=BUDGETS, more=st.floats(1.0, 1e3))
def test_a_larger_budget_is_worth_a_larger_model_and_more_tokens(name, flops, more):
    """Parameters and tokens grow with the budget, and the loss falls."""
    law = LAWS[name]
    small, large = law.optimum(flops), law.optimum(flops * more)

    assert large.parameters >= small.parameters * (1 - 1e-9)
    assert large.tokens >= small.tokens * (1 - 1e-9)
    if law.loss is not None:
        assert law.loss.at(*large[1:]) <= law.loss.at(*small[1:])


def test_a_budget_outside_of_the_experiments_is_an_extrapolation():
    """The factor is 1 inside, and how far outside on both sides."""
    law = LAWS["replication"]

    assert law.extrapolated(1e21) == 1
    assert law.extrapolated(3e22) == pytest.approx(10)
    assert law.extrapolated(6e17) == pytest.approx(10)
