r"""Laws of compute-optimal training: parameters and tokens for a budget of FLOPs.

    loss       L = E + A / N^alpha + B / D^beta      least loss where C = 6 N D
    powers     N = N_0 (C / C_0)^a,  D = D_0 (C / C_0)^b

N are parameters, D tokens, C FLOPs.  Laws disagree: at the budget of Gopher, 5.76e23 FLOPs, they
give 18 to 93 tokens for each parameter, so that no answer is given without the name of its law.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from clustersim.errors import ScenarioError
from clustersim.records import dataclass

FLOPS_PER_PARAMETER: Final = 6.0
"""FLOPs of a token for each parameter, forward and backward, without attention."""


class Optimum(NamedTuple):
    """Parameters and tokens for a budget of `flops` [FLOP]."""

    flops: float
    parameters: float
    tokens: float

    @property
    def tokens_per_parameter(self) -> float:
        """Tokens for each parameter."""
        return self.tokens / self.parameters


@dataclass(frozen=True)
class Loss:
    """A loss [nats per token] as a sum of what it cannot be below, and two powers.

    Attributes
    ----------
    floor : E, of infinite models and data
    a, alpha : of the term of parameters
    b, beta : of the term of tokens
    """

    floor: float
    a: float
    alpha: float
    b: float
    beta: float

    @property
    def text(self) -> str:
        """The law with its constants."""
        of_parameters, of_tokens = f"{self.a:g} N^-{self.alpha:g}", f"{self.b:g} D^-{self.beta:g}"
        return f"L = {self.floor:g} + {of_parameters} + {of_tokens} for N parameters and D tokens"

    def at(self, parameters: float, tokens: float) -> float:
        r"""Return the loss :math:`E + A N^{-\alpha} + B D^{-\beta}` [nats per token]."""
        of_parameters = self.a * math.exp(-self.alpha * math.log(parameters))
        return self.floor + of_parameters + self.b * math.exp(-self.beta * math.log(tokens))

    def optimum(self, flops: float) -> Optimum:
        r"""Return the parameters and tokens of least loss for a budget.

        .. math:: N = G (C / 6)^{\beta / (\alpha + \beta)}, \quad
                  G = (\alpha A / \beta B)^{1 / (\alpha + \beta)}, \quad D = (C / 6) / N

        Hoffmann et al. 2022, section 3.3, arXiv:2203.15556.
        """
        total = self.alpha + self.beta
        scale = (self.alpha * self.a / (self.beta * self.b)) ** (1 / total)
        cells = flops / FLOPS_PER_PARAMETER
        parameters = scale * cells ** (self.beta / total)
        return Optimum(flops, parameters, cells / parameters)


@dataclass(frozen=True)
class Powers:
    """Parameters and tokens as powers of the budget, through one optimum of the source.

    Attributes
    ----------
    through : an optimum that the source prints
    a, b : exponents of parameters and tokens
    """

    through: Optimum
    a: float
    b: float

    @property
    def text(self) -> str:
        """The law with its constants."""
        n, d = self.through.parameters, self.through.tokens
        powers = f"N = {n:.3g} c^{self.a:g} parameters and D = {d:.3g} c^{self.b:g} tokens"
        return f"{powers} for c times {self.through.flops:.3g} FLOP"

    def optimum(self, flops: float) -> Optimum:
        """Return the parameters and tokens for a budget."""
        share = flops / self.through.flops
        parameters, tokens = self.through.parameters, self.through.tokens
        return Optimum(flops, parameters * share**self.a, tokens * share**self.b)


@dataclass(frozen=True)
class Law:
    """A law of compute-optimal training.

    Attributes
    ----------
    form : what gives the optimum
    loss : the loss of any parameters and tokens; None where the source has none
    fitted : smallest and largest budget of its experiments [FLOP]
    source : paper, and where in it
    note : remarks on its numbers
    """

    name: str
    form: Loss | Powers
    loss: Loss | None
    fitted: tuple[float, float]
    source: str
    note: str = ""

    def optimum(self, flops: float) -> Optimum:
        """Return the parameters and tokens for a budget."""
        return self.form.optimum(flops)

    def extrapolated(self, flops: float) -> float:
        """Return how many times a budget is outside of the experiments; 1 if inside."""
        least, most = self.fitted
        return max(flops / most, least / flops, 1.0)


_CHINCHILLA: Final = (6e18, 3e21)
"""Budgets of the experiments of Hoffmann et al. 2022, whose data the replication fits as well."""

_ROUNDED: Final = Loss(1.69, 406.4, 0.34, 410.7, 0.28)
_UNROUNDED: Final = Loss(1.69, 406.4, 0.3392, 410.7, 0.2849)
_REPLICATION: Final = Loss(1.8172, 482.01, 0.3478, 2085.43, 0.3658)

LAWS: Final[Mapping[str, Law]] = MappingProxyType(
    {
        law.name: law
        for law in (
            Law(
                "chinchilla-1",
                Powers(Optimum(1e21, 2.86e9, 1e21 / 6 / 2.86e9), 0.498, 0.502),
                None,
                _CHINCHILLA,
                "Hoffmann et al. 2022, approach 1, arXiv:2203.15556, Tables 2 and 3",
                "exponents fitted to its Table 3, printed as 0.50",
            ),
            Law(
                "chinchilla-20",
                Powers(Optimum(120e18, 1e9, 20e9), 0.5, 0.5),
                None,
                _CHINCHILLA,
                "Hoffmann et al. 2022, arXiv:2203.15556, Table 3",
                "the rule of 20 tokens a parameter, about that of its approaches 1 and 2",
            ),
            Law(
                "chinchilla-2",
                Powers(Optimum(1.32e22, 10e9, 219.5e9), 0.49, 0.51),
                None,
                _CHINCHILLA,
                "Hoffmann et al. 2022, approach 2, arXiv:2203.15556, Tables 2 and A3",
                "through the row of 10 B of its Table A3",
            ),
            Law(
                "chinchilla-3",
                _ROUNDED,
                _ROUNDED,
                _CHINCHILLA,
                "Hoffmann et al. 2022, approach 3, arXiv:2203.15556, appendix D",
                "exponents as printed; the unrounded ones give a third fewer tokens",
            ),
            Law(
                "chinchilla-3-unrounded",
                _UNROUNDED,
                _UNROUNDED,
                _CHINCHILLA,
                "Hoffmann et al. 2022, TeX source, by Besiroglu et al. 2024, arXiv:2404.10102",
            ),
            Law(
                "replication",
                _REPLICATION,
                _REPLICATION,
                _CHINCHILLA,
                "Besiroglu et al. 2024, arXiv:2404.10102",
                "approach 3 fitted again to the data of Hoffmann et al. 2022",
            ),
            Law(
                "kaplan",
                Powers(Optimum(1e21, 4.68e9, 1e21 / 6 / 4.68e9), 0.73, 0.27),
                None,
                (1e17, 2e20),
                "Kaplan et al. 2020, arXiv:2001.08361, by arXiv:2203.15556, Table 2",
                "of models without embedding; later laws train smaller models on more tokens",
            ),
            Law(
                "llama3",
                Powers(Optimum(3.8e25, 402e9, 16.55e12), 0.47, 0.53),
                None,
                (6e18, 1e22),
                "Grattafiori et al. 2024, section 3.2.1, arXiv:2407.21783",
                "through its optimum at 3.8e25 FLOPs, which its rounded exponent misses by 58 %",
            ),
        )
    }
)
"""The laws by name."""


DEFAULT_LAW: Final = "chinchilla-3"


def find_law(name: str) -> Law:
    """Return a law by name.

    Raises
    ------
    ScenarioError
        when there is none of that name.
    """
    if name not in LAWS:
        raise ScenarioError(f"--law {name}: no such law (known: {', '.join(LAWS)})")
    return LAWS[name]
