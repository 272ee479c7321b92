"""The named algorithms, each a composition of a trace, a form and a bootstrap.

Common notation: φ_t the features of the current state or pair, ρ = π/μ, γ' the discount of the step
(0 when it ends the episode), δ = R + γ'θᵀb − θᵀφ, u = eᵀω. The exact A, b and M of each rule are
`saddleback.System.exact`; "fixed point" below is the solution of Aθ + b = 0.
"""

from __future__ import annotations

from saddleback.rules.bootstraps import Expected, Sampled, State, TruncatedState
from saddleback.rules.emphasis import FollowOn
from saddleback.rules.forms import (
    Correction,
    Hybrid,
    RegularisedCorrection,
    Saddle,
    SemiGradient,
    SplitSaddle,
    TrueOnline,
    TrueOnlineCorrection,
    UpdateNorm,
)
from saddleback.rules.registry import named_rule
from saddleback.rules.rule import Rule
from saddleback.rules.traces import (
    ActionDependent,
    Constant,
    Importance,
    NoTrace,
    Retrace,
    Sigma,
    TreeBackup,
    TruncatedImportance,
)


@named_rule(cite=["yang2021"])
def GES(lam: float) -> Rule:
    """Gradient Expected Sarsa(λ): importance trace, saddle form, expected bootstrap.

        e ← γλρ e + φ        δ = R + γ' θᵀ Σ_a π(a|S') φ(S',a) − θᵀφ
        ω ← ω + β(δe − (φᵀω)φ)        θ ← θ + α(φ − γ' Σ_a π(a|S') φ(S',a)) eᵀω

    Converges to the fixed point of A = ΦᵀΞ(I − γλP^π)⁻¹(γP^π − I)Φ, the minimum of the MSPBE, for
    decaying step sizes; with constant step sizes of fixed ratio and non-zero rewards, to a
    neighbourhood whose mean square size is ∝ α.

    The paper (Yang et al., AAAI 2021) sets e_{-1} = 0 in its Algorithm 1 and e_0 = 0 in its text;
    the former is correct. Also known as GTD2(λ) on state-action pairs.

    Examples
    --------
    >>> GES(0.9)
    Rule(trace=Importance(lam=0.9), form=Saddle(), bootstrap=Expected())
    """
    return Rule(Importance(lam), Saddle(), Expected())


@named_rule(cite=["maei2010"])
def GQ(lam: float) -> Rule:
    """GQ(λ), Maei & Sutton 2010: importance trace, correction form, expected bootstrap.

        e ← γλρ e + φ        ω ← ω + β(δe − (φᵀω)φ)
        θ ← θ + α(δe − γ'(1−λ)(Σ_a π(a|S') φ(S',a)) eᵀω)

    Same A, b, M and fixed point as `GES`; only the updates differ. Also known as TDC(λ) on
    state-action pairs. The published rule lets λ, γ and an interest depend on the state; here λ is
    a constant, γ' is 0 at an episode's end, and interest is 1.

    Examples
    --------
    >>> GQ(0.9)
    Rule(trace=Importance(lam=0.9), form=Correction(), bootstrap=Expected())
    """
    return Rule(Importance(lam), Correction(), Expected())


@named_rule(cite=["mahmood2017"])
def ABQ(zeta: float, extrema: tuple[float, float] | None = None) -> Rule:
    """ABQ(ζ), Mahmood, Yu & Sutton 2017: action-dependent trace, correction form.

        e ← γ ν_ζ(S,A) π(A|S) e + φ        ω ← ω + β(δe − (φᵀω)φ)
        θ ← θ + α(δe − γ' x eᵀω),    x = Σ_a [1 − μ(a|S') ν_ζ(S',a)] π(a|S') φ(S',a)

    Converges to the fixed point of P_κ = p(s'|s,a) μ(a'|s') ν_ζ(s',a') π(a'|s'). No ratio appears,
    so traces stay bounded. ζ = 1 need not be importance sampling with λ = 1: ν is at most 1/max.

    Examples
    --------
    >>> ABQ(0.5)
    Rule(trace=ActionDependent(zeta=0.5, extrema=None), form=Correction(), bootstrap=Expected())
    """
    return Rule(ActionDependent(zeta, extrema), Correction(), Expected())


@named_rule(cite=["touati2018"])
def GTB(lam: float) -> Rule:
    """Gradient Tree Backup(λ), Touati et al. 2018: tree-backup trace, saddle form.

        e ← γλπ(A|S) e + φ        ω ← ω + β(δe − (φᵀω)φ)        θ ← θ + α(φ − γ'b) eᵀω

    Converges to the fixed point with kernel p(s'|s,a) μ(a'|s') π(a'|s') λ in the resolvent. (Table
    1 of the GES paper prints (I − γλP^μ)⁻¹ there, which is wrong.) The semi-gradient version is
    the tree-backup algorithm TB(λ) of Precup et al. 2000, which may diverge.

    Examples
    --------
    >>> GTB(0.9)
    Rule(trace=TreeBackup(lam=0.9), form=Saddle(), bootstrap=Expected())
    """
    return Rule(TreeBackup(lam), Saddle(), Expected())


@named_rule(cite=["touati2018", "munos2016"])
def GRetrace(lam: float) -> Rule:
    """Gradient Retrace(λ), Touati et al. 2018: Retrace, saddle form.

        e ← γλ min(1,ρ) e + φ        ω ← ω + β(δe − (φᵀω)φ)        θ ← θ + α(φ − γ'b) eᵀω

    Converges to the fixed point with kernel λ p(s'|s,a) min(μ, π)(a'|s') in the resolvent. The
    semi-gradient version is Retrace(λ) of Munos et al. 2016, a tabular method; with linear
    features it may diverge.

    Examples
    --------
    >>> GRetrace(0.9)
    Rule(trace=Retrace(lam=0.9), form=Saddle(), bootstrap=Expected())
    """
    return Rule(Retrace(lam), Saddle(), Expected())


@named_rule(cite=["vanseijen2009"])
def ExpectedSarsa(lam: float) -> Rule:
    """On-line Expected Sarsa(λ): importance trace, semi-gradient, expected bootstrap.

        e ← γλρ e + φ        θ ← θ + α δ e

    Expected update Aθ + b with the A of `GES`: it converges to that fixed point where every
    eigenvalue of A has negative real part (`System.stable`) and diverges where one is positive.
    Sutton & Barto §12.9 give it with this trace; without the factor ρ it is Q^π(λ), and with π
    greedy and traces cut at other actions Watkins's Q(λ). Its off-line form is `learn_offline`.

    Examples
    --------
    >>> ExpectedSarsa(0.9)
    Rule(trace=Importance(lam=0.9), form=SemiGradient(), bootstrap=Expected())
    """
    return Rule(Importance(lam), SemiGradient(), Expected())


@named_rule(cite=["deasis2018", "yang2018"])
def QSigma(lam: float, sigma: float = 0.5) -> Rule:
    """Q(σ, λ), De Asis et al. 2018 and Yang et al. 2018: `ExpectedSarsa` with the trace `Sigma`.

        e ← γλ(σρ + (1−σ)π(A|S)) e + φ        θ ← θ + α δ e

    Fixed point with kernel λ p(s'|s,a) (σ + (1−σ)μ(a'|s')) π(a'|s') in the resolvent: that of
    `ExpectedSarsa` for σ = 1, that of tree backup for σ = 0; like them it may diverge. δ always has
    the expectation under π, as in Sutton & Barto (7.17). The first papers put σφ(S',A') +
    (1−σ)Σ_a π(a|S')φ(S',a) there, which off-policy evaluates π only with a further ratio ρ(S',A').

    Examples
    --------
    >>> QSigma(0.9)
    Rule(trace=Sigma(lam=0.9, sigma=0.5), form=SemiGradient(), bootstrap=Expected())
    """
    return Rule(Sigma(lam, sigma), SemiGradient(), Expected())


@named_rule(cite=["rummery1994"])
def Sarsa(lam: float) -> Rule:
    """Sarsa(λ) for evaluation: constant trace, semi-gradient, the next action as sampled.

        e ← γλ e + φ        θ ← θ + α (R + γ' θᵀφ(S',A') − θᵀφ) e

    It evaluates μ; a problem with π ≠ μ is refused. On-policy, hence convergent for full-rank
    features: TD(λ) on state-action pairs. Traces accumulate; replacing and dutch traces are
    different rules.

    Examples
    --------
    >>> Sarsa(0.9)
    Rule(trace=Constant(lam=0.9), form=SemiGradient(), bootstrap=Sampled())
    """
    return Rule(Constant(lam), SemiGradient(), Sampled())


@named_rule(cite=["sutton1988"])
def TD(lam: float) -> Rule:
    """Off-policy TD(λ) on state values: importance trace with w = ρ, semi-gradient.

        e ← γλρ e + ρφ        θ ← θ + α (R + γ' θᵀφ(S') − θᵀφ) e

    Fixed point of A = XᵀD(I − γλP_π)⁻¹(γP_π − I)X. Off-policy it may diverge: Baird's star. Some
    texts put ρ in front of δ and keep e ← γλρ_{t-1}e + φ: the same update. Also known as
    per-decision importance-sampled TD(λ) (Precup et al. 2001).

    Examples
    --------
    >>> TD(0.9)
    Rule(trace=Importance(lam=0.9), form=SemiGradient(), bootstrap=State())
    """
    return Rule(Importance(lam), SemiGradient(), State())


@named_rule(cite=["espeholt2018"])
def VTrace(lam: float, rho_bar: float = 1.0, c_bar: float = 1.0) -> Rule:
    """V-trace(λ), Espeholt et al. 2018: `TD` with truncated ratios in the TD error and the trace.

        E ← γ c_{t-1} E + φ    c = λ min(c̄, ρ)        θ ← θ + α min(ρ̄, ρ) (R + γ' θᵀφ(S') − θᵀφ) E

    In saddleback e = min(ρ̄, ρ)E. Tabular, it evaluates the policy π_ρ̄ ∝ min(ρ̄μ, π), not π unless
    ρ̄ ≥ ρ everywhere; c̄ and λ only change the speed, and with features the fixed point. Off-policy
    it may diverge like TD. The authors require c̄ ≤ ρ̄ and use 1 for both; here they are free.

    Examples
    --------
    >>> print(VTrace(0.9), VTrace(0.9, rho_bar=2.0))
    VTrace(0.9) VTrace(0.9, rho_bar=2)
    """
    return Rule(TruncatedImportance(lam, c_bar), SemiGradient(), TruncatedState(rho_bar))


@named_rule(cite=["sutton2008"])
def GTD() -> Rule:
    """GTD(0), Sutton, Szepesvári & Maei 2008: no trace, descends the norm of the expected update.

        ω ← ω + β(ρδφ − ω)        θ ← θ + α(φ − γ'φ(S')) ρφᵀω

    Fixed point of TD(0), reached by minimising ‖Aθ + b‖² (the NEU objective) instead of the MSPBE.
    Later papers use GTD for the entire family, or GTD(λ) for `TDC`.

    Examples
    --------
    >>> GTD()
    Rule(trace=NoTrace(), form=UpdateNorm(), bootstrap=State())
    """
    return Rule(NoTrace(), UpdateNorm(), State())


@named_rule(cite=["sutton2009"])
def GTD2(lam: float) -> Rule:
    """GTD2(λ) on state values (Sutton et al. 2009 for λ = 0): the saddle form of `TD`.

        e ← γλρ e + ρφ        ω ← ω + β(δe − (φᵀω)φ)        θ ← θ + α(φ − γ'φ(S')) eᵀω

    Fixed point of TD(λ). Published versions differ in the position of ρ, e.g. ρ(δ − φᵀω)φ for the
    auxiliary weights, and for λ > 0 in θ's step (`GTD2Split`): the same mean with different noise.

    Examples
    --------
    >>> GTD2(0.0)
    Rule(trace=Importance(lam=0.0), form=Saddle(), bootstrap=State())
    """
    return Rule(Importance(lam), Saddle(), State())


@named_rule(cite=["sutton2009", "geist2014"])
def GTD2Split(lam: float) -> Rule:
    """GTD2(λ) with the term φφᵀω, as in Geist & Scherrer 2014 (Sutton et al. 2009 for λ = 0).

        e ← γλρ e + ρφ        ω ← ω + β(δe − (φᵀω)φ)
        θ ← θ + α((φᵀω)φ − γ'(1−λ)φ(S') eᵀω)

    Fixed point of TD(λ). The mean update is that of `GTD2`; since φφᵀω has no trace and no ratio,
    the noise differs.

    Examples
    --------
    >>> GTD2Split(0.0)
    Rule(trace=Importance(lam=0.0), form=SplitSaddle(), bootstrap=State())
    """
    return Rule(Importance(lam), SplitSaddle(), State())


@named_rule(cite=["hackman2012", "white2016"])
def HTD(lam: float) -> Rule:
    """HTD(λ), Hackman 2012 and White & White 2016: a gradient method that is `TD` on-policy.

        e ← γλρ e + ρφ        e' ← γλ e' + φ        d = φ − γ'φ(S')
        θ ← θ + α(δe + d(e − e')ᵀω)        ω ← ω + β(δe − d e'ᵀω)

    Fixed point of TD(λ). The on-policy A_μ takes the place that M has in `TDC`; unlike there,
    convergence is not guaranteed off-policy, where `MeanStability` gives the verdict.

    Examples
    --------
    >>> HTD(0.5)
    Rule(trace=Importance(lam=0.5), form=Hybrid(), bootstrap=State())
    """
    return Rule(Importance(lam), Hybrid(), State())


@named_rule(cite=["sutton2009"])
def TDC(lam: float) -> Rule:
    """TDC(λ), Sutton et al. 2009 and Maei 2011: the correction form of `TD`; also called GTD(λ).

        e ← γλρ e + ρφ        ω ← ω + β(δe − (φᵀω)φ)
        θ ← θ + α(δe − γ'(1−λ)φ(S') eᵀω)

    Fixed point of TD(λ). Published versions differ in the auxiliary weights: (ρδ − φᵀω)φ, as here,
    or ρ(δ − φᵀω)φ, which has the same mean and different noise.

    Examples
    --------
    >>> TDC(0.0)
    Rule(trace=Importance(lam=0.0), form=Correction(), bootstrap=State())
    """
    return Rule(Importance(lam), Correction(), State())


@named_rule(cite=["ghiassian2020"])
def TDRC(lam: float, eta: float = 1.0) -> Rule:
    """TDRC(λ), Ghiassian et al. 2020: `TDC` with the auxiliary weights shrunk towards zero.

        ω ← ω + β(δe − (φᵀω)φ − ηω)        θ ← θ + α(δe − γ'(1−λ)φ(S') eᵀω)

    Fixed point of TD(λ), for any η ≥ 0. The authors recommend β = α and η = 1.

    Examples
    --------
    >>> TDRC(0.0)
    Rule(trace=Importance(lam=0.0), form=RegularisedCorrection(eta=1.0), bootstrap=State())
    """
    return Rule(Importance(lam), RegularisedCorrection(eta), State())


@named_rule(cite=["sutton2016", "hallak2016"])
def ETD(lam: float, beta: float | None = None) -> Rule:
    """Emphatic TD(λ), Sutton, Mahmood & White 2016: `TD` with w_t = ρ_t m_t.

        f ← γρ_{t-1} f + 1        m = λ + (1−λ)f        e ← γλρ e + ρ m φ        θ ← θ + α δ e

    Fixed point of A = Xᵀ diag(λd + (1−λ)f)(I − γλP_π)⁻¹(γP_π − I)X, f = (I − γP_πᵀ)⁻¹d: stable for
    full-rank features, with a different solution from TD's. The published rule has an interest for
    each state; here it is 1 everywhere. The literature writes F for f and M, the emphasis, for m.

    With ``beta`` it is ETD(λ, β) of Hallak, Tamar, Munos & Mannor 2016: f ← βρ_{t-1} f + 1. For
    small β the variance of f is finite, and the fixed point approaches that of `TD` (β = 0), but
    only β = γ guarantees stability.

    Examples
    --------
    >>> print(ETD(0.5), ETD(0.5, beta=0.8))
    ETD(0.5) ETD(0.5, beta=0.8)
    """
    return Rule(Importance(lam), SemiGradient(), State(), emphasis=FollowOn(lam, beta))


@named_rule(cite=["vanhasselt2014"])
def TrueOnlineTD(lam: float) -> Rule:
    """True on-line TD(λ), off-policy (van Hasselt, Mahmood & Sutton 2014): `TD` with a dutch trace.

        d ← γλρ d + αρ(1 − γλρ dᵀφ)φ        θ ← θ + δd + (d − αρφ)(θᵀφ − θ_{t-1}ᵀφ)

    Fixed point of TD(λ), to first order in α; with any α, θ equals that of the on-line λ-return
    after every step. Like TD it may diverge off-policy.

    Examples
    --------
    >>> TrueOnlineTD(0.5)
    Rule(trace=Importance(lam=0.5), form=TrueOnline(), bootstrap=State())
    """
    return Rule(Importance(lam), TrueOnline(), State())


@named_rule(cite=["vanhasselt2014"])
def TrueOnlineGTD(lam: float) -> Rule:
    """True on-line GTD(λ), van Hasselt, Mahmood & Sutton 2014: `TDC` with dutch traces.

        d ← γλρ d + αρ(1 − γλρ dᵀφ)φ        d' ← γλρ_{t-1} d' + β(1 − γλρ_{t-1} d'ᵀφ)φ
        θ ← θ + δd + (d − αρφ)(θᵀφ − θ_{t-1}ᵀφ) − αγ'(1−λ)φ(S') eᵀω        e ← γλρ e + ρφ
        ω ← ω + ρδd' − β(φᵀω)φ

    Fixed point of TD(λ), to first order in the step sizes. On-policy with ω = 0 and β = 0 it is
    `TrueOnlineTD`.

    Examples
    --------
    >>> TrueOnlineGTD(0.5)
    Rule(trace=Importance(lam=0.5), form=TrueOnlineCorrection(), bootstrap=State())
    """
    return Rule(Importance(lam), TrueOnlineCorrection(), State())


@named_rule(cite=["sutton2016", "hallak2016"])
def TrueOnlineETD(lam: float, beta: float | None = None) -> Rule:
    """True on-line ETD(λ), Sutton, Mahmood & White 2016: `ETD` with a dutch trace.

        f ← γρ_{t-1} f + 1        m = λ + (1−λ)f        d ← γλρ d + αρm(1 − γλρ dᵀφ)φ
        θ ← θ + δd + (d − αρmφ)(θᵀφ − θ_{t-1}ᵀφ)

    Fixed point of `ETD`, to first order in α.

    Examples
    --------
    >>> print(TrueOnlineETD(0.5))
    TrueOnlineETD(0.5)
    """
    return Rule(Importance(lam), TrueOnline(), State(), emphasis=FollowOn(lam, beta))
