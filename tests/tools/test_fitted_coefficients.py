"""Fitted coefficients: each with the data of its fit, once."""

from pathlib import Path

from clustersim.catalog.finding import shipped
from clustersim.validation.answer import validate
from tools.fitted_coefficients import fits_of, fitted_coefficient_rows


def test_a_release_has_its_own_fit_and_those_of_the_file_that_it_extends():
    """Measured values are no fits, and neither are values without a number."""
    parent = {each.key for each in fits_of("framework", "megatron-deepspeed")}
    release = {each.key for each in fits_of("framework", "megatron-deepspeed-rocm5")}

    assert release == parent | {"kernels.products_share"}
    assert "gemm.best" not in {each.key for each in fits_of("accelerator", "mi250x-gcd")}
    assert fits_of("accelerator", "a64fx")[0].value == 0.4255


def test_each_coefficient_of_graded_runs_stands_once():
    """With the number of runs that have it, and the runs that it was fitted to."""
    cases: Path = shipped("validation") / "cases.yaml"
    answer = validate(cases, groups=["lumi-megatron-ds", "frontier-torchtitan"], jobs=1)
    rows = {
        (name, key): (runs, data) for name, key, _, runs, data in fitted_coefficient_rows(answer)
    }

    assert len(rows) == len([*fitted_coefficient_rows(answer)])
    runs, data = rows["megatron-deepspeed-rocm5", "kernels.products_share"]
    assert runs == "4 runs"
    assert "four rates of LUMI" in data
    assert rows["mi250x-gcd", "flash_attention.backward"][0] == "9 runs"
