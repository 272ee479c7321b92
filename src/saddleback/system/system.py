"""The linear system behind a rule, and everything that follows from it.

    A = E[e_t (γ'b_t − φ_t)ᵀ]    b = E[R e_t]    M = E[φ_t φ_tᵀ]    C = E[γ'x_t e_tᵀ]

in the long run under μ. With W the diagonal of trace weights these are, exactly,

    A = ΦᵀΞW(I − γP_κ)⁻¹(γP_b − I)Φ        b = ΦᵀΞW(I − γP_κ)⁻¹ r        M = ΦᵀΞΦ.

Where the weights do not disturb M (no emphasis), C = Aᵀ + M: saddle and correction forms of one
trace solve the same system.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from saddleback import _validate
from saddleback._typing import ArrayLike, ComplexArray, FloatArray
from saddleback.errors import Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule, Terms, terms
from saddleback.system import spectra
from saddleback.system.resolvent import average, backward, resolvent


@dataclass(frozen=True, eq=False, repr=False)
class System:
    """A, b and M of a rule, and what they imply.

    Attributes
    ----------
    A, b, M, C
        The matrices above: [p, p], [p], [p, p], [p, p].
    rule
        The rule they belong to.
    Phi, weights, truth
        Rows of features, their distribution and the exact values, for `mse`.
    note
        Empty, or what is peculiar about the distribution behind the expectations.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> system = System.exact(problems.two_state(gamma=0.99), GES(0.5))
    >>> system.A.round(6)
    array([[ 0.220297,  0.      ],
           [ 1.099047, -1.25    ]])
    >>> system.stable, system.outcome
    (False, 'ok')
    """

    A: FloatArray
    b: FloatArray
    M: FloatArray
    C: FloatArray
    rule: Rule
    Phi: FloatArray
    weights: FloatArray
    truth: FloatArray
    note: str = ""

    @classmethod
    def exact(cls, problem: Problem, rule: Rule) -> Self:
        """Take the long-run expectation of the rule's per-step numbers on a finite problem."""
        t = terms(rule, problem)
        r = problem.mdp.R.reshape(-1, 1)
        expected_b = backward(problem, average(problem.behaviour, t.bootstrap))
        expected_x = backward(problem, average(problem.behaviour, t.correction))
        y = np.hstack([expected_b - t.phi, r, expected_x])
        z = resolvent(problem, t.kappa, y)
        left = t.phi.T * (problem.pair_visits.ravel() * expected_weight(problem, t))
        p = problem.p
        products = left @ z
        return cls(
            A=products[:, :p],
            b=products[:, p],
            M=(problem.Phi.T * problem.weights) @ problem.Phi,
            C=products[:, p + 1 :].T,
            rule=rule,
            Phi=problem.Phi,
            weights=problem.weights,
            truth=problem.truth,
            note=problem.note,
        )

    # What the system says about its solution.

    @property
    def p(self) -> int:
        """Number of features."""
        return len(self.b)

    @cached_property
    def rank(self) -> int:
        """Rank of A."""
        return spectra.range_basis(self.A).shape[1]

    @property
    def deficient(self) -> bool:
        """Whether A is singular, so that the fixed point is not unique or does not exist."""
        return self.rank < self.p

    @cached_property
    def fixed_point(self) -> FloatArray:
        """θ* = −A⁺b: the solution of Aθ + b = 0 of least norm.

        Where b is outside the range of A there is no fixed point (`outcome` says so), and this is
        the least-squares solution.
        """
        return -np.linalg.pinv(self.A, rtol=spectra.RTOL) @ self.b

    @cached_property
    def outcome(self) -> str:
        """``"ok"``, or in a sentence what stands in the way of a unique fixed point."""
        reasons = [self.note] if self.note else []
        if self.deficient:
            if not spectra.in_range(spectra.range_basis(self.A), self.b):
                what = "b is outside its range, so there is no fixed point (least squares given)"
            elif self.rank == spectra.range_basis(self.M).shape[1]:
                what = "θ* is not unique (least norm given), its predictions are"
            else:
                what = "neither θ* nor its predictions are unique (least norm given)"
            reasons.append(f"singular A: rank {self.rank} of {self.p}; {what}.")
        return " ".join(reasons) or "ok"

    @cached_property
    def spectrum(self) -> ComplexArray:
        """Eigenvalues of A, largest real part first."""
        return spectra.eigenvalues(self.A)

    @cached_property
    def stability(self) -> spectra.Stability:
        """Verdict on the expected off-line update θ ← θ + α(Aθ + b), with its reason."""
        return spectra.stability(self.A, self.b)

    @property
    def stable(self) -> bool:
        """Whether θ ← θ + α(Aθ + b) converges for some α; on the range of A if it is singular."""
        return self.stability.stable

    @property
    def max_step_size(self) -> float:
        """Least α > 0 for which θ ← θ + α(Aθ + b) no longer converges; 0 if none does."""
        return self.stability.max_step_size

    # Objectives. θ may carry leading axes: one value for each.

    @cached_property
    def M_inverse(self) -> FloatArray:
        """M⁺, the inverse of M on its range."""
        return np.asarray(np.linalg.pinv(self.M, rtol=spectra.RTOL, hermitian=True), np.float64)

    def residual(self, theta: ArrayLike) -> FloatArray:
        """Aθ + b, the expected update at θ [..., p]."""
        return self._theta(theta) @ self.A.T + self.b

    def mspbe(self, theta: ArrayLike) -> FloatArray:
        """½ (Aθ+b)ᵀ M⁺ (Aθ+b) = ½ ‖Φθ − ΠB_κΦθ‖²_Ξ, for θ [..., p].

        Examples
        --------
        >>> from saddleback import GES, problems
        >>> system = System.exact(problems.two_state(), GES(0.0))
        >>> system.mspbe([[0.0, 0.0], [1.0, 1.0]]).round(6)
        array([0.      , 0.125113])
        """
        g = self.residual(theta)
        return np.asarray(0.5 * np.einsum("...i,ij,...j->...", g, self.M_inverse, g))

    def mse_absolute(self, theta: ArrayLike) -> FloatArray:
        """‖Φθ − q^π‖²_Ξ, the weighted square error of the values, for θ [..., p]."""
        error = self._theta(theta) @ self.Phi.T - self.truth
        return np.asarray((error**2) @ self.weights)

    def mse(self, theta: ArrayLike) -> FloatArray:
        """‖Φθ − q^π‖²_Ξ / ‖q^π‖²_Ξ, as in the paper; refused where q^π is zero."""
        scale = float(self.truth**2 @ self.weights)
        if scale == 0.0:
            raise Undefined(
                "mse is relative to ‖q^π‖², which is 0 on this problem (all rewards that matter "
                "are 0). Use mse_absolute, or give the problem rewards."
            )
        return self.mse_absolute(theta) / scale

    @property
    def objectives(self) -> dict[str, Callable[[ArrayLike], FloatArray]]:
        """What a run records unless told otherwise: `mspbe` and `mse_absolute`, by name."""
        return {"mspbe": self.mspbe, "mse_absolute": self.mse_absolute}

    def saddle(self, theta: ArrayLike, omega: ArrayLike) -> FloatArray:
        """Ψ(θ, ω) = (Aθ+b)ᵀω − ½ ωᵀMω; its maximum over ω is the MSPBE of θ."""
        w = self._theta(omega)
        linear = (self.residual(theta) * w).sum(axis=-1)
        return np.asarray(linear - 0.5 * np.einsum("...i,ij,...j->...", w, self.M, w))

    def best_dual(self, theta: ArrayLike) -> FloatArray:
        """ω(θ) = M⁺(Aθ+b), where Ψ(θ, ·) is greatest."""
        return self.residual(theta) @ self.M_inverse

    def _theta(self, theta: ArrayLike) -> FloatArray:
        array = np.asarray(theta, dtype=np.float64)
        _validate.shape("theta", array, (*array.shape[:-1], self.p))
        return array

    def __repr__(self) -> str:
        verdict = "stable" if self.stable else "unstable"
        return f"System({self.rule}, p={self.p}, rank={self.rank}, {verdict})"


def expected_weight(problem: Problem, t: Terms) -> FloatArray:
    """Long-run mean of the trace weight w_t given the pair, [S·A].

    With an emphasis of share c: w̄ = w (1 − c + c f(s)/d(s)), f = d + Γ_πᵀ f.
    """
    if t.emphasis == 0.0:
        return t.weight
    mdp, d = problem.mdp, problem.visits
    Gamma_pi = np.einsum("sa,sat->st", problem.target, mdp.discounted)
    f = np.linalg.solve(np.eye(mdp.n_states) - Gamma_pi.T, d)
    m = 1.0 - t.emphasis + t.emphasis * np.divide(f, d, out=np.zeros_like(f), where=d > 0)
    return t.weight * np.repeat(m, mdp.n_actions)
