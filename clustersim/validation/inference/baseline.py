r"""A one-line roofline with a closed queue: the baseline of dense models.

    p = 2 N i / P e_c,   t = L t_0 + max(2 N c / P e_c, (w N + k c l) / B e_m)

    fixed users     time per token  t + (c / o) p
    static batch    first token  L t_0 + c p,   latency  L t_0 + c p + (o - 1) t

with N parameters in L layers, c users, i input and o output tokens, l = i + o/2, k the bytes of a
cached token, P and B the peak and the memory bandwidth of all devices.  Nothing is fitted to
measured runs: t_0 is the shortest time of the kernels of a layer, four products, attention and two
all-reduces, and e_c and e_m are the shares that large products reach; the host is free, and so is
what precedes the first token of users, which it does not predict.
"""

from typing import Final

from clustersim.cost.surfaces.formats import FORMATS
from clustersim.inference.formats import WEIGHTS
from clustersim.validation.inference.cases import STATIC, USERS, InferenceCase
from clustersim.workload.parameters import model_parameters

COMPUTE: Final = 0.78
"""Share of peak of large products, between 0.57 and 0.84 on six accelerators."""

MEMORY: Final = 0.82
"""Share of bandwidth at which products of up to 16 tokens read their weights, 0.75 to 0.83."""


PRODUCT: Final = 4e-6
ATTENTION: Final = 9e-6
REDUCE: Final = 5e-6
"""Shortest times of these kernels on accelerators from A100 to B200 [s]."""


def baseline_predictions(case: InferenceCase) -> dict[str, float]:
    """Return the baseline of each metric that it predicts, in its unit; none with experts.

    Nothing is predicted for loads of several pools, and for those without a number of users.
    """
    replica, users = case.costs.replica, case.users
    mode = case.row.serving.mode
    if replica.model.experts is not None or users is None or mode not in (USERS, STATIC):
        return {}
    device, formats = replica.kernels.device, replica.formats
    devices = replica.layout.tensor * replica.layout.attention_data
    peak = device.peak_rate(FORMATS[formats.kernel("mlp", device)].peak) * devices * COMPUTE
    bandwidth = device.memory_bandwidth * devices * MEMORY
    count = model_parameters(replica.model)
    cached = case.costs.memory.token * users * (case.prompt + case.output / 2)
    moved = (WEIGHTS[formats.weights] * count + cached) / bandwidth
    decoding = max(2 * count * users / peak, moved)
    reduces = 2 * REDUCE if replica.layout.tensor > 1 else 0.0
    shortest = replica.model.layers * (4 * PRODUCT + ATTENTION + reduces)
    prompts = users * 2 * count * case.prompt / peak
    if mode == USERS:
        return {"tpot_ms": 1e3 * (shortest + decoding + prompts / case.output)}
    first = shortest + prompts
    latency = first + (case.output - 1) * (shortest + decoding)
    produced = users * case.output / latency
    return {
        "latency_s": latency,
        "ttft_ms": 1e3 * first,
        "output_tok_s": produced,
        "output_tok_s_per_gpu": produced / replica.layout.devices,
    }
