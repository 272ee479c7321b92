"""A file with a trace, a form and rules of a user."""

USER_MODULE = """
from dataclasses import dataclass
import numpy as np
import saddleback as sb

@dataclass(frozen=True)
class Capped(sb.Trace):
    lam: float
    cap: float = 2.0

    def kappa(self, pi, mu):
        return self.lam * np.minimum(self.cap, sb.policies.ratio(pi, mu))

@dataclass(frozen=True)
class Half(sb.Form):
    @property
    def coefficients(self):
        return sb.rules.Coefficients(td=1.0, correction=0.5, dual=1.0, gram=1.0)

def composed(lam):
    return sb.Rule(Capped(lam), Half(), sb.Expected())

fixed = composed(0.25)
number = 3

def broken(lam):
    return 1 / 0
"""
