"""What the requests of a load amount to at least and at most, in the time that is measured."""

from typing import NamedTuple

import numpy as np

from clustersim.engine.requests.replay import RequestLoad
from clustersim.records import dataclass


class Amount(NamedTuple):
    """Tokens that steps generate, those after prompts apart, and tokens of whole prompts."""

    decoded: float
    prompts: float


@dataclass(frozen=True)
class LoadAmounts:
    """Tokens of a load.

    Users wait for their requests, so that at either end of the measured time as many requests as
    there are users may be in part inside it.

    Attributes
    ----------
    users : requests that can be in the service at the same time [count]
    least, most : tokens that are processed at least and at most; each with the least prompts
    firsts : most tokens after prompts [count]
    completed : requests that are completed [count]
    straddled : tokens that steps may have begun to generate before [count]
    shortest, output : tokens of the shortest prompt, and of the shortest output
    largest : tokens of the longest prompt
    longest : tokens of the longest request
    begun : least time that is measured [s]
    prompt_share : most tokens of prompts for each completed request
    rate : at which requests arrive [1/s]; None without one, and where the highest one is searched
    steady : whether the steady state is measured, in which as many requests are completed as arrive
    """

    users: int
    least: Amount
    most: Amount
    firsts: float
    completed: float
    straddled: float
    shortest: int
    output: float
    largest: int
    longest: int
    begun: float
    prompt_share: float
    rate: float | None = None
    steady: bool = False


def amounts_of(load: RequestLoad, rate: float | None, *, steady: bool) -> LoadAmounts:
    """Return what the requests of a load amount to; `rate` and `steady` as of `LoadAmounts`."""
    inputs, outputs = np.sort(load.inputs), np.sort(load.outputs - 1)
    count, warm_up = len(inputs), load.warm_up
    begun = 0.0
    if load.closed:
        measured, users = load.complete - warm_up, load.users
        longest = int(outputs[-1])
        low = max(0.0, float(outputs[:measured].sum()) - min(users, measured) * longest)
        high = float(outputs[-min(count, measured + users) :].sum())
        whole = max(0, measured - users)
        least, most = whole, max(whole, int(high / max(1, longest)) - users)
        firsts = measured + users
    else:
        measured, users, firsts = count - warm_up, count, count
        low, high = float(load.outputs[warm_up:].sum()) - measured, float(outputs.sum())
        least, most = measured, measured
        assert load.arrivals is not None
        begun = float(load.arrivals[-1] - load.arrivals[warm_up])
    prompts = 0.0 if load.cached else 1.0
    return LoadAmounts(
        users=users,
        least=Amount(low, prompts * float(inputs[:least].sum())),
        most=Amount(high, prompts * float(inputs[:most].sum())),
        firsts=float(firsts),
        completed=float(measured),
        straddled=float(users) if load.closed or (warm_up and not steady) else 0.0,
        shortest=int(inputs[0]),
        output=float(outputs[0]) + 1,
        largest=int(inputs[-1]),
        longest=int((load.inputs + load.outputs).max()),
        begun=begun,
        prompt_share=prompts * float((load.inputs if steady else inputs[-measured:]).mean()),
        rate=rate,
        steady=steady,
    )
