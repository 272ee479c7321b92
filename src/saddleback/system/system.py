"""The linear system of a rule: fixed point, stability and objectives.

    A = E[e_t (γ'b_t − φ_t)ᵀ]    b = E[R e_t]    M = E[φ_t φ_tᵀ]    C = E[γ'x_t e_tᵀ]

in the long run under μ. With W the diagonal of trace weights, exactly,

    A = ΦᵀΞW(I − γP_κ)⁻¹(γP_b − I)Φ        b = ΦᵀΞW(I − γP_κ)⁻¹ r        M = ΦᵀΞΦ.

Unless an emphasis or a truncation changes the mean weight, C = Aᵀ + M: the saddle and correction
forms of a trace solve the same system.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, overload

import numpy as np

from saddleback import _validate
from saddleback._display import Tabular, card_html
from saddleback._typing import RNG, ArrayLike, ComplexArray, FloatArray
from saddleback.engine import CHUNK, BatchMoments, Moments, Quadratic, Source, as_source
from saddleback.errors import InvalidParameter, Undefined
from saddleback.problem import Problem
from saddleback.rules import Rule, Terms, as_rule, as_rules
from saddleback.system import linear_stability
from saddleback.system.operators import expected_products
from saddleback.system.trace_history import unroll

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LARGEST = 10_000
"""Largest number of features for dense matrices; at this size an estimate needs 7 GB."""

SHOWN = 300
"""Largest number of features for which ``repr`` computes the stability, which is slow."""


@dataclass(frozen=True, eq=False, repr=False)
class System(Tabular):
    """The linear system of a rule, with its fixed point, stability and objectives.

        A = E[e_t (γ'b_t − φ_t)ᵀ]    b = E[R e_t]    M = E[φ_t φ_tᵀ]    C = E[γ'x_t e_tᵀ]

    `to_pandas` and `to_polars` return one row per feature, with the columns ``feature``,
    ``fixed_point`` (θ*), ``b``, and for an estimate ``b_error``.

    Attributes
    ----------
    A, b, M, C
        The expectations above, in the long run under μ: [p, p], [p], [p, p], [p, p].
    rule
        The rule they belong to.
    problem
        The problem they were computed from; needed for `mse`.
    errors
        Standard errors of A, b and M, if they were estimated; if a trace with a memory needed a
        grid (`CappedImportance`), the change from a grid of half as many levels.
    A_mu
        E[e'(γ'b − φ)ᵀ] of the trace e' that the rule would have if π were μ, for hybrid rules.
    batches, batch_steps
        Batch means of an estimate that kept them, for `resample`, and the steps per batch.

    Examples
    --------
    >>> from saddleback import GES, problems
    >>> system = System.exact(problems.two_state(gamma=0.99), GES(0.5))
    >>> system
    System(GES(0.5), p=2, rank=2)
      the semi-gradient update θ + α(Aθ + b) diverges for every α: A has an eigenvalue with real
      part 0.220297.
    >>> system.A.round(6)
    array([[ 0.220297,  0.      ],
           [ 1.099047, -1.25    ]])
    >>> print(system.stability.reason)
    the semi-gradient update θ + α(Aθ + b) diverges for every α: A has an eigenvalue with real part
    0.220297.
    """

    A: FloatArray
    b: FloatArray
    M: FloatArray
    C: FloatArray
    rule: Rule
    problem: Problem | None = None
    errors: Moments | None = None
    batches: Sequence[Moments] | None = None
    batch_steps: int | None = None
    A_mu: FloatArray | None = None

    def __post_init__(self) -> None:
        p = len(self.b) if np.ndim(self.b) == 1 else "p"
        for name in ("A", "M", "C", "b", *(["A_mu"] if self.A_mu is not None else [])):
            array = _validate.floats(name, getattr(self, name))
            _validate.shape(name, array, (p,) if name == "b" else (p, p))
            _validate.finite(name, array)
            object.__setattr__(self, name, array)
        object.__setattr__(self, "rule", as_rule(self.rule))

    @classmethod
    def exact(cls, problem: Problem, rule: Rule | str, terms: Terms | None = None) -> Self:
        """Compute the system of a rule on a finite problem, from long-run expectations.

        For a trace with a memory, `CappedImportance`, on a chain of states and histories: exact if
        these are few, otherwise on a grid, and then with `errors`.

        Parameters
        ----------
        problem
            Dynamics, features, π and μ.
        rule
            A rule for the values that the features describe.
        terms
            Terms of the rule on the problem, if they are known.
        """
        rule = as_rule(rule)
        chain = unroll(problem, rule, terms)
        A, b, C = expected_products(chain.problem, chain.terms)
        M = (problem.Phi.T * problem.weights) @ problem.Phi
        errors = None
        if chain.levels is not None:
            half = unroll(problem, rule, terms, chain.levels // 2)
            coarse = expected_products(half.problem, half.terms)
            errors = Moments(np.abs(A - coarse[0]), np.abs(b - coarse[1]), np.zeros_like(M))
        A_mu = None
        if len(chain.terms.kappa_mu):
            ones = np.ones_like(chain.terms.kappa)
            on_policy = chain.terms._replace(kappa=chain.terms.kappa_mu, weight=ones, lead=ones)
            A_mu = expected_products(chain.problem, on_policy)[0]
        return cls(A, b, M, C, rule, problem, errors, A_mu=A_mu)

    @overload
    @classmethod
    def estimate(
        cls,
        source: Problem | Source,
        rules: Rule | str,
        *,
        steps: int | None = ...,
        rng: RNG = ...,
        batches: int = ...,
        keep_batches: bool = ...,
    ) -> Self: ...

    @overload
    @classmethod
    def estimate(
        cls,
        source: Problem | Source,
        rules: Sequence[Rule],
        *,
        steps: int | None = ...,
        rng: RNG = ...,
        batches: int = ...,
        keep_batches: bool = ...,
    ) -> list[Self]: ...

    @classmethod
    def estimate(
        cls,
        source: Problem | Source,
        rules: Rule | str | Sequence[Rule],
        *,
        steps: int | None = None,
        rng: RNG = None,
        batches: int = 20,
        keep_batches: bool = False,
    ) -> Self | list[Self]:
        """Estimate A, b and M of one or several rules from one stream of experience.

        Parameters
        ----------
        source
            A finite problem or a simulation to sample from, or a `Stream`.
        rules
            A rule, or several that are estimated from the same steps.
        steps, rng
            Number of steps to sample (rounded down to equal batches), and the seed. The default
            for a `Stream` is all its steps.
        batches
            Number of batches of consecutive steps, whose means give the standard errors.
        keep_batches
            Whether to keep the batch means, for `resample`; they take memory.

        Returns
        -------
        System, or a list of them
            One per rule, with C = Aᵀ + M.

        Examples
        --------
        >>> from saddleback import GES, problems
        >>> car = problems.mountain_car()
        >>> plain, traced = System.estimate(car, [GES(0.0), GES(0.5)], steps=20_000, rng=0)
        >>> traced.A.shape, traced.errors.A.shape
        ((972, 972), (972, 972))
        """
        chosen = as_rules(rules)
        data = as_source("System.estimate", source)
        if data.p > LARGEST:
            raise InvalidParameter(
                f"System.estimate: {data.p} features need matrices of {data.p}² entries; the limit "
                f"is {LARGEST} features. Use fewer features."
            )
        if _validate.count("System.estimate", "batches", batches) < 2:
            raise InvalidParameter("System.estimate: batches must be at least 2, got 1.")
        total = data.steps if steps is None else _validate.count("System.estimate", "steps", steps)
        if total is None or total > (data.steps or total):
            raise InvalidParameter(
                f"System.estimate: steps must be a number up to {data.steps or 'any'}, got {steps}."
            )
        size = total // batches
        _validate.count("System.estimate", "steps in a batch", size)
        sampler = data.sampler(_validate.generator(rng)[0])
        streamer = data.streamer(chosen)
        moments = [BatchMoments(data.p, size, keep_batches) for _ in chosen]
        second = [
            BatchMoments(data.p, size) if rule.form.coefficients.hybrid else None for rule in chosen
        ]
        for begin in range(0, size * batches, CHUNK):
            chunk = sampler.take(min(CHUNK, size * batches - begin))
            for moment, other, stream in zip(moments, second, streamer(chunk), strict=True):
                moment.add(stream)
                if other is not None:
                    own = stream._replace(decay=stream.second_decay, weight=stream.second_weight)
                    other.add(own)
        problem = source if isinstance(source, Problem) else None
        systems = []
        for rule, moment, other in zip(chosen, moments, second, strict=True):
            A, b, M = moment.moments()
            errors, means = moment.errors(), moment.batch_means
            A_mu = None if other is None else other.moments().A
            systems.append(cls(A, b, M, A.T + M, rule, problem, errors, means, size, A_mu))
        return systems[0] if isinstance(rules, (Rule, str)) else systems

    def resample(self, draws: int, rng: RNG = None) -> Iterator[Self]:
        """Yield systems of batches drawn with replacement: a bootstrap of the estimate.

        Batches much longer than the mixing time of the chain are nearly independent.
        """
        if self.batches is None:
            raise Undefined(
                "there are no batches to resample; use System.estimate(…, keep_batches=True)."
            )
        generator = _validate.generator(rng)[0]
        for _ in range(draws):
            chosen = generator.integers(len(self.batches), size=len(self.batches))
            A, b, M = (
                np.mean([self.batches[k][part] for k in chosen], axis=0) for part in range(3)
            )
            yield replace(self, A=A, b=b, M=M, C=A.T + M, errors=None, batches=None, A_mu=None)

    def coupling(self) -> tuple[FloatArray, FloatArray]:
        """T and W of the expected update −αTω of θ and −βWω of ω, by the form's `Coefficients`.

        T = saddle·Aᵀ + correction·C − gram_theta·M − hybrid·A_μᵀ
        W = gram·M + shrink·I − hybrid·A_μᵀ
        """
        c = self.rule.form.coefficients
        T = c.saddle * self.A.T + c.correction * self.C - c.gram_theta * self.M
        W = c.gram * self.M + c.shrink * np.eye(self.p)
        if c.hybrid and self.A_mu is None:
            raise Undefined(f"the update of {self.rule} needs A_mu, and this system has none.")
        if c.hybrid and self.A_mu is not None:
            T, W = T - c.hybrid * self.A_mu.T, W - c.hybrid * self.A_mu.T
        return T, W

    # Solution and stability.

    @property
    def p(self) -> int:
        """Number of features."""
        return len(self.b)

    @cached_property
    def _parts(self) -> linear_stability.Decomposition:
        return linear_stability.Decomposition(self.A, linear_stability.sizes(self.M))

    @property
    def rank(self) -> int:
        """Rank of A."""
        return self._parts.rank

    @property
    def deficient(self) -> bool:
        """Whether A is singular: the fixed point is not unique or does not exist."""
        return self._parts.deficient

    @cached_property
    def fixed_point(self) -> FloatArray:
        """θ*, the minimum-norm solution of Aθ + b = 0.

        If b is outside the range of A there is no fixed point (see `outcome`), and this is a
        least-squares solution.
        """
        return self._parts.solve(-self.b)

    @cached_property
    def outcome(self) -> str:
        """``"ok"``, or the reason why there is no unique fixed point."""
        reasons = []
        if self.problem is not None and self.problem.note:
            reasons.append(self.problem.note)
        if self.deficient:
            idle = int((np.diag(self.M) == 0).sum())
            never = f" ({idle} features are never active)" if idle else ""
            if not self._parts.reaches(self.b):
                detail = "b is outside its range, so there is no fixed point (least squares used)"
            elif self._parts.same_null(self.M):
                detail = "θ* is not unique (minimum norm used), but its predictions under μ are"
            else:
                detail = "neither θ* nor its predictions are unique (minimum norm used)"
            reasons.append(f"singular A: rank {self.rank} of {self.p}{never}; {detail}.")
        return " ".join(reasons) or "ok"

    @cached_property
    def spectrum(self) -> ComplexArray:
        """Eigenvalues of A, largest real part first."""
        return linear_stability.eigenvalues(self.A)

    @cached_property
    def stability(self) -> linear_stability.Stability:
        """Verdict on the expected off-line update θ ← θ + α(Aθ + b), with its reason.

        This is the semi-gradient update with the trace and bootstrap of the rule, for any form of
        the rule: if it is unstable, use a gradient form such as that of `GES`.
        """
        return linear_stability.stability(self.A, self.b, linear_stability.sizes(self.M))

    @property
    def stable(self) -> bool:
        """Whether θ ← θ + α(Aθ + b) converges for some α; on the range of A if it is singular."""
        return self.stability.stable

    @property
    def max_step_size(self) -> float:
        """Smallest α > 0 for which θ ← θ + α(Aθ + b) diverges; 0 if it does for every α."""
        return self.stability.max_step_size

    # Objectives. θ may have leading axes; results have one value for each.

    @cached_property
    def M_inverse(self) -> FloatArray:
        """The inverse of M, or a generalised inverse if M is singular."""
        return linear_stability.pseudo_inverse(self.M)

    def residual(self, theta: ArrayLike) -> FloatArray:
        """Aθ + b, the expected update at θ [..., p]."""
        return self._weights("theta", theta) @ self.A.T + self.b

    def mspbe(self, theta: ArrayLike) -> FloatArray:
        """½ (Aθ+b)ᵀ M⁻¹ (Aθ+b) = ½ ‖Φθ − ΠB_κΦθ‖²_Ξ, for θ [..., p].

        Examples
        --------
        >>> from saddleback import GES, problems
        >>> system = System.exact(problems.two_state(), GES(0.0))
        >>> system.mspbe([[0.0, 0.0], [1.0, 1.0]]).round(6)
        array([0.      , 0.125113])
        """
        g = self.residual(theta)
        return np.asarray(0.5 * ((g @ self.M_inverse) * g).sum(axis=-1))

    def mse_absolute(self, theta: ArrayLike) -> FloatArray:
        """‖Φθ − q^π‖²_Ξ, the weighted square error of the values, for θ [..., p]."""
        Phi, weights, truth = self._reference
        error = self._weights("theta", theta) @ Phi.T - truth
        return np.asarray((error**2) @ weights)

    def mse(self, theta: ArrayLike) -> FloatArray:
        """‖Φθ − q^π‖²_Ξ / ‖q^π‖²_Ξ, as in the paper; refused where q^π is zero."""
        _, weights, truth = self._reference
        scale = float(truth**2 @ weights)
        if scale == 0.0:
            raise Undefined(
                "mse is relative to ‖q^π‖², which is 0 on this problem (all reachable rewards "
                "are 0). Use mse_absolute, or give the problem rewards."
            )
        return self.mse_absolute(theta) / scale

    @cached_property
    def _reference(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Φ, weights and true values of the rows that μ visits."""
        if self.problem is None:
            raise Undefined("the true values are unknown: this system has no problem.")
        rows = self.problem.weights > 0
        return self.problem.Phi[rows], self.problem.weights[rows], self.problem.truth[rows]

    @property
    def objectives(self) -> Mapping[str, Callable[[ArrayLike], FloatArray]]:
        """The default metrics of a run: `mspbe` and, if true values exist, `mse_absolute`."""
        try:
            has_truth = self._reference is not None
        except Undefined:
            has_truth = False
        metrics: dict[str, Callable[[ArrayLike], FloatArray]] = {"mspbe": self.mspbe}
        return metrics | {"mse_absolute": self.mse_absolute} if has_truth else metrics

    def quadratic_form(self, objective: str) -> Quadratic | None:
        """Return `mspbe`, `mse_absolute` or `mse` as a quadratic form, by name; None for others.

        Examples
        --------
        >>> from saddleback import GES, problems
        >>> System.exact(problems.two_state(), GES(0.0)).quadratic_form("mspbe").factor
        0.5
        """
        if objective == "mspbe":
            return Quadratic(self.A, self.b, self.M_inverse, 0.5)
        if objective not in ("mse_absolute", "mse"):
            return None
        Phi, weights, truth = self._reference
        scale = float(truth**2 @ weights) if objective == "mse" else 1.0
        return Quadratic(Phi, -truth, weights, 1.0 / scale)

    def saddle(self, theta: ArrayLike, omega: ArrayLike) -> FloatArray:
        """Ψ(θ, ω) = (Aθ+b)ᵀω − ½ ωᵀMω; its maximum over ω is the MSPBE of θ."""
        g, w = self.residual(theta), self._weights("omega", omega)
        _validate.broadcast(theta=g, omega=w)
        return np.asarray((g * w).sum(axis=-1) - 0.5 * ((w @ self.M) * w).sum(axis=-1))

    def best_dual(self, theta: ArrayLike) -> FloatArray:
        """ω(θ) = M⁻¹(Aθ+b), the maximiser of Ψ(θ, ·)."""
        return self.residual(theta) @ self.M_inverse

    def _weights(self, name: str, weights: ArrayLike) -> FloatArray:
        array = _validate.floats(name, weights)
        _validate.shape(name, array, (*array.shape[:-1], self.p))
        return array

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the eigenvalues of A, with the verdict on the expected off-line update.

        Parameters
        ----------
        ax
            Axes to draw on; a new figure if not given.

        Examples
        --------
        >>> from saddleback import GES, problems
        >>> print(System.exact(problems.two_state(gamma=0.99), GES(0.5)).plot().get_title())
        GES(0.5)
        Eigenvalues of A:
        update without ω diverges for every α
        """
        from saddleback.plots.result_plots import eigenvalues  # matplotlib is loaded to draw

        return eigenvalues(self, ax)

    def _columns(self) -> dict[str, Any]:
        table = {"feature": np.arange(self.p), "fixed_point": self.fixed_point, "b": self.b}
        return table if self.errors is None else table | {"b_error": self.errors.b}

    def _findings(self) -> dict[str, str]:
        """Findings about the solution and the stability, by subject."""
        findings = {} if self.outcome == "ok" else {"fixed point": self.outcome}
        return findings | ({"stability": self.stability.reason} if self.p <= SHOWN else {})

    def __repr__(self) -> str:
        head = f"System({self.rule.display_name}, p={self.p}, rank={self.rank})"
        return "\n  ".join([head, *self._findings().values()])

    def _repr_html_(self) -> str:
        how = "exact" if self.errors is None else "estimated" if self.batch_steps else "on a grid"
        facts = {"features": self.p, "rank": self.rank, "matrices": how} | self._findings()
        return card_html(f"System of {self.rule.display_name}", facts)


def as_system(owner: str, source: Problem | System, rule: Rule | str | None) -> System:
    """Return a system as it is, or the exact system of a problem and a rule.

    A rule that is missing, or that differs from the rule of the system, is an error of ``owner``.
    """
    if isinstance(source, System):
        if rule is not None and as_rule(rule) != source.rule:
            raise InvalidParameter(f"{owner}: the system is that of {source.rule}, not of {rule}.")
        return source
    _validate.instance(owner, "problem", source, Problem)
    return System.exact(source, as_rule(rule))
