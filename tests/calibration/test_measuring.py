"""The script that measures a device writes the table that `calibrate --from` reads.

PyTorch is no dependency of ours: a stand-in of a few functions runs the script everywhere, and the
real one where it is installed.
"""

import ast
import importlib.util
import os
import subprocess
import sys

import pytest

from clustersim.calibration.runs.files import measuring_script
from clustersim.calibration.runs.kernels import read_kernels
from commands import output, rejected

STAND_IN = '''
"""The part of PyTorch that the script uses on a processor; shapes are kept, numbers are not."""
import contextlib, sys, time, types

__version__ = "0 (stand-in)"
bfloat16 = float16 = float32 = int8 = object()

class Tensor:
    def __init__(self, *shape, grad=False):
        self.shape, self.requires_grad, self.grad = shape, grad, None
    def to(self, dtype):
        return self
    def requires_grad_(self, grad):
        self.requires_grad = grad
        return self
    def detach(self):
        return Tensor(*self.shape)
    def zero_(self):
        return self
    def add_(self, number):
        return self
    def sum(self):
        return Tensor()

def _made(*shape, **_):
    return Tensor(*shape)

def _alike(tensor):
    return Tensor(*tensor.shape)

randn = empty = _made
empty_like = zeros_like = ones_like = _alike

def matmul(a, b, out):
    assert a.shape[-1] == b.shape[-2], "inner dimensions"
    assert out.shape == (*a.shape[:-1], b.shape[-1]), "rows and columns"
    time.sleep(1e-5)

def add(a, b, out):
    time.sleep(1e-5)

def attended(q, k, v, is_causal):
    assert q.shape == k.shape == v.shape
    time.sleep(1e-5)
    return Tensor(*q.shape, grad=q.requires_grad)

def gradients(made, inputs, given, retain_graph):
    assert made.requires_grad and retain_graph
    time.sleep(2e-5)

class AdamW:
    def __init__(self, weights, fused=False, foreach=False):
        assert all(weight.grad is not None for weight in weights)
        if fused:
            raise RuntimeError("no fused kernel in a stand-in")
    def step(self):
        time.sleep(1e-5)

no_grad = contextlib.nullcontext
device = lambda name: types.SimpleNamespace(type=name)
cuda = types.SimpleNamespace(is_available=lambda: False)
nn = types.SimpleNamespace(
    functional=types.SimpleNamespace(scaled_dot_product_attention=attended)
)
autograd = types.SimpleNamespace(grad=gradients)
optim = types.SimpleNamespace(AdamW=AdamW)
distributed = types.ModuleType("torch.distributed")
sys.modules["torch.distributed"] = distributed
'''


def measured(folder, path=""):
    """Run the script quickly on a processor, and return its table and what it left out."""
    script, out = folder / "measure.py", folder / "measured.csv"
    script.write_text(measuring_script())
    done = subprocess.run(
        [sys.executable, str(script), "--quick", "--device", "cpu", "--out", str(out)],
        env={**os.environ, "PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return read_kernels(out), done.stderr


@pytest.fixture
def stand_in(tmp_path):
    """Lay a stand-in of PyTorch into a folder of its own."""
    folder = tmp_path / "stand-in" / "torch"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(STAND_IN)
    return folder.parent


def test_the_script_writes_the_table_that_is_read(stand_in, tmp_path):
    """Every kind of kernel of one device is in it, with shapes and times that `--from` takes."""
    table, left_out = measured(tmp_path, stand_in)

    kinds = {row.kind for row in table.rows}
    assert {"gemm", "attention-forward", "attention-backward", "elementwise", "reduction"} <= kinds
    assert {"optimiser-foreach", "dispatch"} <= kinds
    assert {row.precision for row in table.rows if row.kind == "gemm"} == {"bf16", "fp16"}
    assert all(row.seconds > 0 for row in table.rows)
    assert table.remark.startswith("device: ")
    assert "torch 0 (stand-in)" in table.remark
    assert left_out.startswith("skipped: optimiser bytes=")
    assert "no fused kernel in a stand-in" in left_out


def test_a_fit_takes_what_the_script_wrote(stand_in, here, capsys):
    """The table of the script leads to a file of the accelerator without a word in between."""
    measured(here, stand_in)

    options = ("--accelerator", "a100-80gb", "--from", "measured.csv", "-o", "me.yaml")
    out = output(capsys, "calibrate", *options)

    assert "written   me.yaml" in out
    assert (here / "me.yaml").read_text().startswith("# Fitted by clustersim calibrate to ")


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="PyTorch is not installed (pip install torch)"
)
def test_the_script_runs_on_the_real_pytorch(tmp_path):
    """What the stand-in lets by, a PyTorch without a GPU does as well."""
    table, _ = measured(tmp_path)

    kinds = {row.kind for row in table.rows}
    assert {"gemm", "attention-forward", "attention-backward", "elementwise", "reduction"} <= kinds


def test_measure_writes_the_script_once(here, capsys):
    """`--measure` leaves a script that needs PyTorch alone, and keeps one that is there."""
    out = output(capsys, "calibrate", "--measure")
    error = rejected(capsys, "calibrate", "--measure")

    assert out.startswith("written   measure.py\n")
    assert error.startswith("measure.py: already exists")
    tree = ast.parse((here / "measure.py").read_text())
    names = {
        alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert names - sys.stdlib_module_names == {"torch"}
