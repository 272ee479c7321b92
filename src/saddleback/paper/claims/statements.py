"""Claims beside the theorems: facts, lemmas, remarks, the corollary, and related work."""

from __future__ import annotations

import math

import numpy as np

from saddleback.learning import iterate
from saddleback.paper import Options, return_estimators, table1
from saddleback.paper.claims import Claim, number, rounding, verdict
from saddleback.paper.claims.rates import REWARDS, row_slopes
from saddleback.paper.comparison import stored
from saddleback.paper.table1 import printed_holds, table_rows
from saddleback.policies import ratio
from saddleback.problems import baird, mountain_car, random_mdp, two_state
from saddleback.rules import GES
from saddleback.system import System
from saddleback.theory import mean_square, step_sizes, theorem2


def statement_claims(options: Options) -> list[Claim]:
    """Return the claims that are neither a theorem nor an experiment."""
    return [
        _fact_1(),
        _unique_fixed_point(),
        _importance_sampling(),
        _lemma_a1(),
        _bounded_trace(),
        _gupta(),
        _corollary(),
        _estimated_constants(),
        _remark_of_theorem_3(),
        _fixed_points_of_table_1(options),
        *_related_work(options),
    ]


def _fact_1(count: int = 100) -> Claim:
    """Compare the conjugates of quadratics with what the fact says; f = ½xᵀHx."""
    rng, error, steepest = np.random.default_rng(0), 0.0, 0.0
    for _ in range(count):
        half = rng.normal(size=(3, 3))
        H = half @ half.T + 0.2 * np.eye(3)
        alpha, *_, beta = np.linalg.eigvalsh(H)
        low, *_, high = np.linalg.eigvalsh(np.linalg.inv(H))
        x = rng.normal(size=3)
        back = np.linalg.inv(H) @ (H @ x)
        error = max(error, abs(high * alpha - 1), abs(low * beta - 1), np.abs(back - x).max())
        u = 100 * x
        steepest = max(steepest, abs(0.5 * u @ H @ u) / np.linalg.norm(u) / beta)
    return Claim(
        "Fact 1: the conjugate is 1/α-smooth and 1/β-strongly convex, ∇f* inverts ∇f",
        f"True of {count} random quadratics (error {rounding(float(error))}) with ‖∇f(u)−∇f(v)‖ ≤ "
        f"β‖u−v‖. As printed, for f itself, no strongly convex f satisfies it: here f(u) − f(0) "
        f"reaches {number(steepest)}·β‖u‖",
        verdict(bool(error < 1e-9), bool(steepest <= 1)),
    )


def _unique_fixed_point() -> Claim:
    system = System.exact(two_state(5 / 6), GES(0.0))
    moved = 100.0 * np.linalg.svd(system.A)[2][-1]
    residual = float(np.abs(system.residual(moved)).max())
    return Claim(
        "If the projected Bellman operator has a fixed point, it is unique",
        f"Two-state, γ = 5/6, λ = 0, rank(Φ) = 2: A has rank {system.rank}, and with no reward "
        f"θ = ({moved[0]:.0f}, {moved[1]:.0f}) is a fixed point as well as 0 (residual "
        f"{rounding(residual)}). True if A is nonsingular, the paper's Assumption 3",
        verdict(True, system.rank == system.p),
    )


def _importance_sampling(horizon: int = 8) -> Claim:
    problem = two_state(0.9, REWARDS)
    truth = return_estimators.values(problem, horizon)
    errors, spread = {}, {}
    for first in (True, False):
        for per_decision in (False, True):
            moments = return_estimators.estimator_moments(
                problem, horizon, per_decision=per_decision, first_ratio=first
            )
            errors[first, per_decision] = float(np.abs(moments.mean - truth).max())
            spread[first, per_decision] = float(moments.variance.max())
    return Claim(
        "Appendix A: ordinary and per-decision importance sampling are unbiased for q^π(s, a)",
        f"Two-state, {horizon} steps, all trajectories from each pair: off by up to "
        f"{number(errors[True, False])} and {number(errors[True, True])} as printed, with the "
        "ratio of the first action, which is given: the means are ρ(s, a) q^π(s, a). Without it "
        f"the error is {rounding(max(errors[False, False], errors[False, True]))}",
        verdict(
            max(errors[False, False], errors[False, True]) < 1e-9,
            max(errors[True, False], errors[True, True]) < 1e-9,
        ),
    )


def _lemma_a1(horizon: int = 8) -> Claim:
    problems = {
        "two-state": two_state(0.9, REWARDS),
        "random": random_mdp(0.9, rng=0, states=2, actions=2),
    }
    errors = {
        name: return_estimators.lemma_error(problem, 6 if name == "random" else horizon)
        for name, problem in problems.items()
    }
    problem = problems["two-state"]
    variances = [
        float(
            return_estimators.estimator_moments(
                problem, horizon, per_decision=per_decision, first_ratio=False
            ).variance.max()
        )
        for per_decision in (False, True)
    ]
    return Claim(
        "Lemma A.1: later ratios do not change the mean, E[ρ_{t:h−1}R_{t+k}] = E[ρ_{t:t+k−1}"
        "R_{t+k}]; per-decision importance sampling reduces the variance",
        f"Largest difference over all pairs and times {rounding(max(errors.values()))}. Largest "
        f"variance after {horizon} steps: {number(variances[0])} ordinary, {number(variances[1])} "
        "per-decision",
        verdict(max(errors.values()) < 1e-9, variances[1] < variances[0]),
    )


def _bounded_trace() -> Claim:
    car = mountain_car(0.99)
    policies = {
        "two-state": (two_state().target, two_state().behaviour),
        "Baird": (baird().target, baird().behaviour),
        "MountainCar": (car.target, car.behaviour),
    }
    factors = {name: 0.99**2 * float(ratio(pi, mu).max()) for name, (pi, mu) in policies.items()}
    return Claim(
        "Assumption 2 bounds the trace: ‖e_t‖ ≤ φ_max/(1 − γλρ_max)",
        "Only if γλρ_max < 1. In the experiments it is "
        + ", ".join(f"{value:.2f} ({name})" for name, value in factors.items()),
        verdict(*(value < 1 for value in factors.values())),
    )


def _gupta() -> Claim:
    """Smallest κ₂ for which the lemma holds on (0, 1], over parameters."""
    rng, worst = np.random.default_rng(0), 0.0
    for a1, a2, y in rng.uniform(0.1, 3.0, size=(200, 3)):
        x = np.geomspace(1e-6, 1.0, 60)
        off, last = -a1 * a2 / (a1 + a2), (a1 / x - x * y * a1) / (a1 + a2)
        first = a2 / (a1 + a2)
        low = (first + last) / 2 - np.hypot((first - last) / 2, off)
        worst = max(worst, float(np.max((first - low) / x)))
    return Claim(
        "Appendix D, the lemma of Gupta et al.: λ_min(A(x)) ≥ κ₁ − κ₂x",
        f"On 0 < x ≤ 1, for 200 random parameters up to 3, κ₂ = {number(worst)} suffices; near 0 "
        "the loss is a₁a₂²x/(a₁+a₂). Without a bound on x, κ₂ depends on x, as printed",
        verdict(math.isfinite(worst)),
    )


def _corollary(delta: float = 1e-4) -> Claim:
    system = System.exact(two_state(0.5, REWARDS), GES(0.4))
    constants = theorem2(system)
    error = {"error": lambda theta: np.linalg.norm(theta - system.fixed_point, axis=-1)}
    curve = iterate(
        system, alpha=constants.alpha, beta=constants.beta, steps=4000, record=1, metrics=error
    ).curves["error"]
    counted, printed = int((curve > delta).sum()), constants.contraction * math.log(1 / delta)
    return Claim(
        "Corollary C.3 and its remark: (1 − 1/(12κ³κ⁴)) log 1/δ steps suffice, up to a constant",
        f"For δ = {number(delta, 1)}: {printed:.0f} as printed, {counted} counted; κ(M)³κ(A)⁴ "
        f"log 1/δ, with its constants, gives {constants.iterations(delta)}. The printed factor is "
        "always below 1, so no constant can be right for all problems",
        verdict(counted <= 2 * printed, counted <= constants.iterations(delta)),
    )


def _estimated_constants() -> Claim:
    problem, rule = two_state(0.5, REWARDS), GES(0.4)
    exact = theorem2(System.exact(problem, rule))
    estimate = theorem2(
        System.estimate(problem, rule, steps=200_000, rng=0, keep_batches=True),
        resamples=200,
        rng=0,
    )
    low, high = estimate.interval("alpha")
    return Claim(
        "Remark of Theorem 2: its constants can be estimated by Monte Carlo",
        f"Below the λ ceiling: α = {exact.alpha:.5f}, from 200,000 steps {estimate.alpha:.5f} (95% "
        f"interval {low:.5f} to {high:.5f}). At λ = 0.99 an Â of that size is mostly noise",
        verdict(low <= exact.alpha <= high, False),
    )


def _remark_of_theorem_3() -> Claim:
    problem, rule = two_state(0.5, REWARDS), GES(0.0)
    counts, errors = (1_000, 10_000, 100_000), []
    for steps in counts:
        advice = step_sizes(problem, rule, steps=steps)
        result = mean_square(problem, rule, alpha=advice.alpha, beta=advice.beta)
        errors.append(float(result.curve(steps)))
    slope = float(np.polyfit(np.log(counts), np.log(errors), 1)[0])
    return Claim(
        "Remark of Theorem 3: O(1/δ log 1/δ) steps for a mean square error of δ",
        "With the best constant steps the error is "
        + ", ".join(number(error) for error in errors)
        + f" after 10³, 10⁴ and 10⁵ steps (T^{slope:.2f}): as claimed, but the proof is invalid",
        verdict(-slope > 0.9, False),
    )


def _fixed_points_of_table_1(options: Options) -> Claim:
    config = table1.config_from(options)
    wrong = [row.name for row in table_rows() if not printed_holds(row, config)]
    return Claim(
        "Table 1: the fixed points of the algorithms",
        f"Right, except for {', '.join(wrong)}: see the matrices below",
        verdict(True, not wrong),
    )


def _related_work(options: Options) -> list[Claim]:
    slopes = row_slopes(options)
    dalal = [slopes["TD(0), Dalal"][1], slopes["GTD(0), Dalal"][1]]
    blocks = slopes["TDC, Xu"][0]
    averaged = next(row for row in table_rows() if row.averaged)
    chain = table1.slope_of(stored("table1", options).table(), averaged, "mean_chain")
    return [
        Claim(
            "TD(0) and GTD(0) with the steps of Dalal et al. never reach O(1/T)",
            f"With the best t₀: T^{dalal[0].slope:.2f} and T^{dalal[1].slope:.2f}",
            verdict(*(fit.slope > -1 for fit in dalal)),
        ),
        Claim(
            "Theorem 2 needs no projection, unlike the TDC of Xu et al.",
            "The expected iteration needs none, but Theorem 4 does. TDC with those steps ran here "
            f"without one, too: T^{blocks.slope:.2f}",
            verdict(True, False),
        ),
        Claim(
            "Theorem 2 needs no independent samples, unlike Dalal et al. and Lakshminarayanan and "
            "Szepesvári",
            "Its proof is of the expected iteration, which has no samples at all. Constant steps "
            "on samples do depend on it: the mean of the iterates of TD(0) falls like "
            f"T^{slopes[averaged.name][1].slope:.2f} with independent ones, and like "
            f"T^{chain.slope:.2f} in one chain",
            verdict(False),
        ),
    ]
