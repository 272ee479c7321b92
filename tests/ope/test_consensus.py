"""The consensus of candidates: how they are weighed, and what their disagreement amounts to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import saddleback as sb
from helpers.decision_logs import target
from helpers.logs import columns
from oracles.marginal_dr import weigh_views
from saddleback.errors import InvalidParameter
from saddleback.features import Monomials, Scaling
from saddleback.log.target_policies import as_targets
from saddleback.ope import consensus as module
from saddleback.ope.backup_loss import value_range
from saddleback.ope.candidates import GIVEN, HISTORY, OBSERVATION, STEP, Basis, views
from saddleback.ope.consensus import CAUTION, Consensus, find_consensus
from saddleback.ope.episode_sample import sample_episodes
from saddleback.ope.marginal_dr import POOLING, RIDGES, Fits
from saddleback.ope.shared_candidates import shared_candidates
from saddleback.ope.state_candidates import StateBasis
from saddleback.ope.windowed_ratios import share_of_change


def sample_of(data, policy=target, **options):
    log = sb.Log(data, **options)
    return sample_episodes(log, as_targets({"new": policy}, log), 10_000)[0]


def estimate_of(**changes):
    """Return a consensus of no candidates."""
    scores = np.array([1.0, 2.0, 6.0])
    plain = Consensus(
        OBSERVATION, 3.0, 1.5, scores, scores, 0.5, 0.25, {}, {}, (), SimpleNamespace()
    )
    return replace(plain, **changes)


# The weights of candidates.


class Weighed:
    """Random candidates of bases with 2, 1 and 3 penalties, in episodes of 1 to 4 rows."""

    def __init__(self, own=2, is_exact=False, counts=((2, 1), (1, 1), (3, 2)), seed=0):
        rng = np.random.default_rng(seed)
        self.episode = np.repeat(np.arange(6), [1, 4, 2, 2, 3, 1])
        E, n, K = 6, len(self.episode), 2
        self.encoders = [lambda x: x, lambda x: x**2, lambda x: np.column_stack([x, x])]
        self.parts = []
        for k, (count, size) in enumerate(counts):
            view = SimpleNamespace(name=STEP if k >= 3 - own else OBSERVATION)
            basis = Basis(f"basis {k}", view, self.encoders[k], is_exact=is_exact and k == 1)
            fits = Fits(
                [(1.0 + k, 10.0**-r) for r in range(count)],
                rng.normal(1.0, 0.5, (count, E)), rng.normal(size=(count, n, 2)),
                rng.normal(0.3, 0.2, (count, n, 2)), rng.normal(size=(count, 5, K * size)),
                rng.uniform(1.0, 2.0, (count, 3)), np.zeros((count, n, 0)),
            )  # fmt: skip
            self.parts.append((basis, fits))
        self.own = own
        self.sample = SimpleNamespace(
            episode=self.episode, starts=np.zeros((E, 1)), n_actions=K,
            priorities=np.arange(E, dtype=np.uint64),
        )  # fmt: skip

    def flat(self):
        """Return q(s_0), δ and w of each candidate, its basis, and its losses."""
        triples, owners, losses = [], [], []
        for k, (_, fits) in enumerate(self.parts):
            triples += list(zip(fits.start, fits.delta, fits.ratio, strict=True))
            owners += [k] * len(fits.start)
            losses += list(fits.loss)
        return triples, owners, np.array(losses)

    def compare(self, noise, possible, owners=None, losses=None):
        """Assert that the package and the oracle agree; return both results."""
        triples, numbers, _ = self.flat()
        duals = self.parts[len(self.parts) - self.own :]
        actual, mean = module._weigh(self.parts, duals, self.sample, noise, possible)
        count = sum(len(fits.start) for _, fits in duals)
        final = [pair for _, fits in self.parts for pair in zip(*fits.final, strict=True)]
        only_duals = [i for i, k in enumerate(numbers) if self.parts[k][0].is_weighted]
        expected = weigh_views(
            triples, owners or numbers, count, self.episode, noise, possible, losses, final,
            only_duals,
        )  # fmt: skip
        for name in ("value", "error", "scores", "plug_in", "dispersion", "imbalance"):
            assert getattr(actual, name) == pytest.approx(expected[name], rel=1e-9), name
        rows = [
            (one.value, one.residual, one.imbalance, one.primal, one.dual)
            for one in actual.candidates
        ]
        np.testing.assert_allclose(rows, expected["candidates"], rtol=1e-9)
        for name in ("delta", "final_delta", "ratio"):
            np.testing.assert_allclose(getattr(mean, name), expected[name], rtol=1e-9)
        named = [(basis.name, *penalty) for basis, fits in duals for penalty in fits.penalties]
        assert [(one.basis, one.pooling, one.ridge) for one in actual.candidates] == named
        assert {one.view for one in actual.candidates} == {duals[0][0].view.name} == {actual.view}
        return actual, expected


@pytest.mark.parametrize("own", [2, 3])
@pytest.mark.parametrize("noise", [0.02, 0.5])
def test_candidates_are_weighed_as_by_the_oracle(own, noise):
    Weighed(own).compare(noise, (-9.0, 9.0))


def test_candidates_of_one_basis_are_compared_with_each_other():
    weighed = Weighed()
    weighed.parts, weighed.own = weighed.parts[2:], 1
    weighed.compare(0.1, (-9.0, 9.0), owners=[0, 1, 2])


def test_a_view_may_have_a_single_candidate():
    weighed = Weighed(1, counts=((2, 1), (3, 2), (1, 1)))
    weighed.compare(0.1, (-9.0, 9.0))
    weighed.parts = weighed.parts[1:]
    weighed.compare(0.1, (-9.0, 9.0), owners=[0, 0, 0, 1])


def test_primals_are_contradicted_by_impossible_values():
    """Those beyond noise do not take part in imbalances, unless only one basis is left."""
    weighed = Weighed(3)
    for k, shift in enumerate((2.0, 0.0, 0.0)):
        weighed.parts[k][1].start[:] += shift
    values = [float(one[0].mean()) for one in weighed.flat()[0]]
    inside = (min(values[2:]), max(values[2:]))
    _, few = weighed.compare(0.1, inside)
    _, every = weighed.compare(0.1, (-99.0, 99.0))
    assert few["imbalance"] != pytest.approx(every["imbalance"])
    only = (values[2] - 0.01, values[2] + 0.01)
    weighed.parts[2][1].start[:] += 3.0
    weighed.compare(0.1, only)
    at = (values[2], values[2] + 0.5)  # the first is 1 or more above, the last by three
    weighed.compare(max(values[:2]) - at[1], at)


@pytest.mark.parametrize("mass", [0.1, 2.0])
def test_losses_count_where_features_may_be_exact(mass):
    weighed = Weighed(3, is_exact=True)
    for _, fits in weighed.parts:
        fits.ratio[:] += mass
        fits.loss[:, 2] = np.inf
    losses = weighed.flat()[2]
    _, with_losses = weighed.compare(0.05, (-9.0, 9.0), losses=losses)
    plain = Weighed(3)
    for _, fits in plain.parts:
        fits.ratio[:] += mass
    _, without_losses = plain.compare(0.05, (-9.0, 9.0))
    assert with_losses["value"] != pytest.approx(without_losses["value"])


def test_fits_to_all_folds_move_the_estimate_alone():
    """Weights, errors and dispersion around the estimate are those of the cross-fits."""
    weighed = Weighed(3, is_exact=True)
    losses = weighed.flat()[2]
    plain, _ = weighed.compare(0.05, (-9.0, 9.0), losses=losses)
    rng = np.random.default_rng(1)
    basis, fits = weighed.parts[1]
    full = fits.start + 0.5, rng.normal(size=fits.delta.shape)
    weighed.parts[1] = basis, replace(fits, full=full)
    moved, _ = weighed.compare(0.05, (-9.0, 9.0), losses=losses)
    assert abs(moved.value - plain.value) > 0.01
    assert moved.candidates == plain.candidates
    assert moved.error == pytest.approx(plain.error, rel=1e-12)
    assert np.array_equal(moved.plug_in, plain.plug_in)


def test_bases_of_states_are_only_duals():
    weighed = Weighed(3, counts=((2, 1), (2, 2), (3, 2)))
    basis, fits = weighed.parts[1]
    weighed.parts[1] = StateBasis(basis.name, basis.view, basis.encode), fits
    states = weighed.compare(0.05, (-9.0, 9.0))[0].candidates[2:4]
    assert [(one.residual, one.primal) for one in states] == [(np.inf, 0.0)] * 2
    assert min(one.dual for one in states) > 0
    weighed.parts[2][1].start[:] += 20.0  # a single plausible basis is left
    weighed.compare(0.05, (-9.0, 9.0))


def test_views_of_duals_alone_give_no_estimate(monkeypatch):
    parts = Parts(monkeypatch)
    view = next(basis.view for basis in parts.bases if basis.view.name == STEP)
    weighted = StateBasis("weighted", view, lambda points: np.ones((len(points), 1)))
    parts.bases = [basis for basis in parts.bases if basis.view.name != STEP] + [weighted]
    assert set(parts.find().opinions) == {HISTORY}


def test_the_direct_model_leaves_out_bases_of_little_weight():
    """Of the weights 0.6, 0.005 and 0.395, the second is left out, and the others have sum 1."""
    weighed = Weighed(3)
    bases = [weighed.parts[k][0] for k in (0, 0, 1, 2)]
    thetas = [np.full((5, 2), 1.0), np.full((5, 2), 2.0), np.full((5, 2), 4.0), np.ones((5, 4))]

    def parts(*weights):
        sums = module._weighted_q(bases, np.array(weights), thetas, weighed.sample).parts
        return [
            (weighed.encoders.index(encode), theta.shape, theta[0, 0, 0]) for encode, theta in sums
        ]

    first, last = (0.4 + 2 * 0.2) / 0.995, 0.395 / 0.995
    assert parts(0.4, 0.2, 0.005, 0.395) == [
        (0, (5, 2, 1), pytest.approx(first)), (2, (5, 2, 2), pytest.approx(last)),
    ]  # fmt: skip
    assert [number for number, *_ in parts(0.4, 0.2, 0.01, 0.39)] == [0, 1, 2]
    tiny = [(number, value) for number, _, value in parts(1e-3, 0.0, 2e-3, 1e-3)]
    assert tiny == [(0, 0.25), (1, pytest.approx(2.0)), (2, 0.25)]


def test_weights_are_on_sizes_of_0_if_there_are_any():
    assert module._weights(np.array([0.0, 3.0, 0.0, 1.0]), 4.0).tolist() == [0.5, 0.0, 0.5, 0.0]
    expected = np.array([1 / 4**2, 1 / 1**2, 1 / 2**2]) / (1 / 16 + 1 + 1 / 4)
    assert module._weights(np.array([4.0, 1.0, 2.0]), 2.0) == pytest.approx(expected)


# What is fitted, and with what noise.


class Stop(Exception):
    """Raised where a test needs no more."""


def settings(monkeypatch, sample, gamma=0.9, horizon=None, bases=None):
    """Return noise and possible values of a consensus."""
    seen = {}

    def weigh(*_, noise, possible, **__):
        seen.update(noise=noise, possible=possible)
        raise Stop

    monkeypatch.setattr(module, "_weigh", weigh)
    with pytest.raises(Stop):
        find_consensus(sample, "new", gamma, horizon, bases=bases, thorough=False)
    return seen["noise"], seen["possible"]


def constant(sample, **options):
    (view, *_) = views(sample)
    return Basis("constant", view, lambda points: np.ones((len(points), 1)), **options)


def test_noise_is_a_share_of_the_deviation_of_returns(monkeypatch):
    data = columns([3, 5, 2, 4] * 4, "terminated")
    sample = sample_of(data)
    returns = np.array([
        sum(0.9**t * r for t, r in enumerate(sample.rewards[sample.episode == e]))
        for e in range(16)
    ])  # fmt: skip
    noise, possible = settings(monkeypatch, sample, bases=[constant(sample)])
    assert noise == pytest.approx(0.02 * returns.std())
    assert possible == value_range(sample, 0.9, None)
    exact = settings(monkeypatch, sample, bases=[constant(sample, is_exact=True)])[0]
    assert exact == pytest.approx(0.1 * 0.02 * returns.std())
    possible = settings(monkeypatch, sample, 1.0, 7, bases=[constant(sample)])[1]
    assert possible == value_range(sample, 1.0, 7)


def test_noise_of_equal_returns_is_a_share_of_their_size(monkeypatch):
    data = columns([1] * 20, "terminated")
    sample = sample_of(data | {"reward": np.full(20, -7.0)})
    noise, _ = settings(monkeypatch, sample, bases=[constant(sample)])
    assert noise == pytest.approx(0.02 * 0.01 * 7.0)


@cache
def equal_episodes(episodes, length):
    return sample_of(columns([length] * episodes, "terminated"))


@pytest.mark.parametrize("thorough", [True, False])
@pytest.mark.parametrize(("episodes", "length"), [(30, 7), (700, 3), (30, 1)])
@pytest.mark.parametrize("horizon", [None, 9])
def test_sizes_of_candidates_depend_on_the_rows(monkeypatch, thorough, episodes, length, horizon):
    """At most 600 features over all actions, a quarter of them for an opinion, or half the rows."""
    sample = equal_episodes(episodes, length)
    seen = []

    def own(*arguments):
        seen.append(arguments[1:])
        return []

    def shared(*arguments, lam):
        seen.append((*arguments[1:], lam))
        raise Stop

    monkeypatch.setattr(module, "candidates", own)
    monkeypatch.setattr(module, "shared_candidates", shared)
    with pytest.raises(Stop):
        find_consensus(sample, "new", 0.9, horizon, thorough=thorough)
    limit = min(600 if thorough else 150, episodes * length // 2)
    assert seen == [
        ((60, 200) if thorough else (60,), max(4, limit // 3)),
        ("new", limit, 300 if thorough else 100, 0.9 if length > 1 and not horizon else 0.0),
    ]


def test_one_action_shares_nothing(monkeypatch):
    """With few rows there are still at least 4 features."""
    few, sample = (
        sample_of(columns([1] * episodes, "terminated", actions=1), lambda x: np.ones((len(x), 1)))
        for episodes in (3, 10)
    )
    seen = []

    def own(*arguments):
        seen.append(arguments[1:])
        raise Stop

    monkeypatch.setattr(module, "candidates", own)
    with pytest.raises(Stop):
        find_consensus(few, "new", 0.9)
    assert seen == [((60, 200), 4)]
    monkeypatch.setattr(module, "candidates", lambda *_: [constant(sample)])
    monkeypatch.setattr(module, "shared_candidates", None)
    consensus = find_consensus(sample, "new", 0.9)
    assert [(one.pooling, one.ridge) for one in consensus.candidates] == [
        (POOLING[1], ridge) for ridge in RIDGES
    ]  # fmt: skip


def test_two_actions_share_features_and_differ_by_penalties(monkeypatch):
    data = columns([1] * 12, "terminated", actions=2)
    sample = sample_of(data, lambda x: np.tile([0.25, 0.75], (len(x), 1)))
    calls = []
    monkeypatch.setattr(module, "candidates", lambda *_: [constant(sample)])
    monkeypatch.setattr(
        module, "shared_candidates", lambda *arguments, **_: calls.append(arguments[1:]) or []
    )
    consensus = find_consensus(sample, "new", 0.9)
    assert calls == [("new", 6, 300)]
    every = [(pooling, ridge) for pooling in POOLING for ridge in RIDGES]
    assert [(one.pooling, one.ridge) for one in consensus.candidates] == every


@pytest.mark.parametrize("thorough", [True, False])
def test_an_estimate_has_more_penalties_than_an_opinion(thorough):
    sample = sample_of(columns([6] * 25, "terminated"))
    seen, clock, history = views(sample)
    bases = [
        Basis("linear", view, Monomials(Scaling.of(view.before), 1))
        for view in (replace(seen, name=GIVEN), seen, clock, history)
    ]
    bases += list(shared_candidates(sample, "new", limit=60, max_waves=8))
    consensus = find_consensus(sample, "new", 0.9, bases=bases, thorough=thorough)
    penalties = {}
    for one in consensus.candidates:
        penalties.setdefault((one.view, "shared" in one.basis), []).append((one.pooling, one.ridge))
    every = [(pooling, ridge) for pooling in POOLING for ridge in RIDGES]
    few = [(POOLING[1], ridge) for ridge in RIDGES[1:]]
    alike = [(POOLING[1], ridge) for ridge in RIDGES]
    expected = {(view, shared): few for view in (STEP, HISTORY) for shared in (False, True)}
    expected |= {(view, False): every if thorough else few for view in (GIVEN, OBSERVATION)}
    expected[OBSERVATION, True] = alike if thorough else few
    counts = {key: len(penalties[key]) // len(set(penalties[key])) for key in penalties}
    assert {key: penalties[key][: len(expected[key])] for key in penalties} == expected
    assert counts[OBSERVATION, False] == counts[HISTORY, False] == 1
    assert consensus.view == GIVEN


def test_every_row_of_the_sample_is_fitted_once(monkeypatch):
    """The progress after each basis is its share of all."""
    sample = sample_of(columns([2] * 12, "terminated"))
    shares = []
    find_consensus(
        sample, "new", 0.9, bases=[constant(sample)] * 4, thorough=False, progress=shares.append
    )
    assert shares == [0.25, 0.5, 0.75, 1.0]


# Which view the estimate is of, and what other views say.


class Parts:
    """Candidates of three views with known estimates, and what was asked about them."""

    def __init__(self, monkeypatch, share=0.0, windows=None):
        self.sample = sample_of(columns([3, 2] * 8, "terminated"))
        self.n, self.calls = len(self.sample.rewards), {}
        rng = np.random.default_rng(0)
        self.delta, self.ratio, self.final_delta = rng.normal(2.0, 1.0, size=(3, 6, self.n, 1))
        self.results = []

        def weigh(primals, duals, **_):
            """The value is that of the view, plus 10 if only its own primals take part."""
            seen, own = primals[0][0].view.name, duals[0][0].view.name
            k = len(self.results)
            value = {OBSERVATION: 1.0, STEP: 2.0, HISTORY: 3.0}[own] + 10 * (seen == own)
            scores = value + np.linspace(-1.0, 1.0, 16) * (k + 1)
            one = estimate_of(view=own, value=value, scores=scores, dispersion=0.25 + k)
            self.results.append((seen, own, one))
            return one, module.Means(self.delta[k], self.final_delta[k], self.ratio[k])

        def hidden(*arguments):
            self.calls["hidden"] = arguments
            return share

        def loss(*arguments):
            self.calls["loss"] = arguments
            return 0.875

        def weights(sample, name, gamma, ratio):
            self.calls.setdefault("ratios", []).append(ratio)
            return None if windows is None else windows + ratio

        for name, function in (
            ("_weigh", weigh), ("share_of_history", hidden), ("relative_loss", loss),
            ("windowed_weights", weights),
        ):  # fmt: skip
            monkeypatch.setattr(module, name, function)
        self.bases = [
            Basis(f"constant {k}", view, lambda points: np.ones((len(points), 1)))
            for view in views(self.sample)
            for k in range(2)
        ]

    def find(self, **options):
        arguments = {"bases": self.bases, "thorough": False} | options
        return find_consensus(self.sample, "new", 0.9, arguments.pop("horizon", None), **arguments)

    def by_episode(self, delta, weight):
        """Return Σ w δ of each episode."""
        sums = np.zeros(16)
        for row, episode in enumerate(self.sample.episode):
            sums[episode] += (weight[row] * delta[row]).sum()
        return sums

    def changes(self, k, weight):
        """Return Σ w δ of each episode around the mean of the final δ."""
        sums = self.by_episode(self.delta[k], weight)
        return sums - sums.mean() + self.by_episode(self.final_delta[k], weight).mean()


def test_every_view_is_heard_with_and_without_the_observation(monkeypatch):
    parts = Parts(monkeypatch, share=0.0)
    consensus = parts.find()
    calls = [(seen, own) for seen, own, _ in parts.results]
    assert calls == [
        (OBSERVATION, OBSERVATION), (STEP, STEP), (OBSERVATION, STEP), (HISTORY, HISTORY),
        (OBSERVATION, HISTORY),
    ]  # fmt: skip
    assert (consensus.view, consensus.value, consensus.windowed) == (OBSERVATION, 11.0, None)
    assert consensus.opinions == {STEP: 2.0, HISTORY: 3.0}
    assert consensus.separate == {STEP: 12.0, HISTORY: 13.0}


def test_the_history_is_asked_what_the_observation_hides(monkeypatch):
    parts = Parts(monkeypatch, share=1.0)
    consensus = parts.find()
    assert (consensus.view, consensus.value) == (HISTORY, 3.0)
    assert consensus.opinions == {OBSERVATION: 11.0, STEP: 2.0}
    residuals, observation, history, dispersion, relative = parts.calls["hidden"]
    expected = parts.by_episode(parts.delta[0], parts.ratio[4])
    assert residuals == pytest.approx(expected)
    assert np.array_equal(observation, parts.results[0][2].scores)
    assert np.array_equal(history, parts.results[4][2].scores)
    assert (dispersion, relative) == (4.25, 0.875)
    losses = [one.shape for one in parts.calls["loss"]]
    goals = losses[-1][1]  # three ridges of two bases in each view
    assert losses == [(6, goals), (6, goals), (parts.n, goals)]


def test_part_of_the_estimate_may_be_that_of_the_history(monkeypatch):
    parts = Parts(monkeypatch, share=0.25, windows=0.5)
    monkeypatch.setattr(
        module, "windowed_weights", lambda sample, name, gamma, ratio: 1.5 * ratio + 0.5
    )
    consensus = parts.find()
    (*_, observation), (*_, history) = parts.results[0], parts.results[4]
    assert (consensus.view, consensus.share) == (HISTORY, 0.25)
    assert consensus.opinions.keys() == {OBSERVATION, STEP}
    scores = 0.25 * history.scores + 0.75 * observation.scores
    by_history, by_observation = (parts.changes(k, 0.5 * parts.ratio[k] + 0.5) for k in (4, 0))
    changes = 0.25 * by_history + 0.75 * by_observation
    change = changes.mean()
    share = share_of_change(change, changes.std(ddof=1) / 4)
    assert consensus.value == pytest.approx(0.25 * 3.0 + 0.75 * 11.0 + share * change)
    assert consensus.scores == pytest.approx(scores + share * changes)
    assert consensus.plug_in == pytest.approx(0.25 * history.plug_in + 0.75 * observation.plug_in)
    assert consensus.dispersion == pytest.approx(np.hypot(4.25, 0.75 * (11.0 - 3.0)))


def test_a_mixture_is_judged_at_least_as_strictly_as_its_parts():
    """A share near 0 is judged as the observation, one near 1 as the history."""
    observation = estimate_of(
        view=OBSERVATION, value=0.0, scores=np.zeros(4), dispersion=0.4, imbalance=0.6,
        opinions={STEP: 0.3, HISTORY: 0.5}, separate={STEP: 0.2},
    )  # fmt: skip
    history = estimate_of(
        view=HISTORY, value=0.5, scores=np.full(4, 0.5), dispersion=0.05, imbalance=0.1,
        opinions={STEP: 0.3, OBSERVATION: 0.0}, separate={STEP: 0.2},
    )  # fmt: skip
    nothing = history.mixed(observation, 1e-9)
    assert nothing.value == pytest.approx(observation.value, abs=1e-8)
    assert nothing.imbalance == observation.imbalance
    assert nothing.contradiction(0.0) >= 0.99 * observation.contradiction(0.0)
    everything = history.mixed(observation, 1.0 - 1e-9)
    assert everything.value == pytest.approx(history.value)
    assert everything.contradiction(0.5) >= history.contradiction(0.5)
    for share in (1e-6, 0.25, 0.5, 1.0):
        assert history.mixed(observation, share).hidden == (HISTORY, pytest.approx(0.5, abs=1e-6))


def test_candidates_without_finite_estimates_are_an_error(monkeypatch):
    parts = Parts(monkeypatch)
    parts.sample = replace(parts.sample, rewards=np.full(parts.n, 1e300))
    with pytest.raises(InvalidParameter, match="rewards are too large"), np.errstate(all="ignore"):
        parts.find()


def test_features_by_hand_are_not_replaced_by_the_history(monkeypatch):
    parts = Parts(monkeypatch, share=1.0)
    given = [
        replace(basis, view=replace(basis.view, name=GIVEN))
        for basis in parts.bases
        if basis.view.name == OBSERVATION
    ]
    parts.bases = given + parts.bases
    weigh = module._weigh
    monkeypatch.setattr(
        module, "_weigh",
        lambda primals, duals, **options: (
            estimate_of(view=GIVEN), module.Means(parts.delta[5], parts.delta[5], parts.ratio[5])
        ) if duals[0][0].view.name == GIVEN else weigh(primals, duals, **options),
    )  # fmt: skip
    consensus = parts.find()
    assert consensus.view == GIVEN
    assert consensus.opinions == {OBSERVATION: 11.0, STEP: 2.0, HISTORY: 3.0}
    assert "hidden" not in parts.calls


def test_every_view_is_corrected_by_its_own_windowed_ratios(monkeypatch):
    windows = np.linspace(0.5, 2.0, 40)
    parts = Parts(monkeypatch, share=0.0, windows=windows)
    consensus = parts.find()
    steps = windows[:, None]
    changes = [parts.changes(k, steps) for k in range(5)]
    for k, ratio in enumerate(parts.calls["ratios"]):
        assert np.array_equal(ratio, parts.ratio[[0, 2, 4, 1, 3][k], :, 0])
    error = changes[0].std(ddof=1) / 4
    assert consensus.windowed == pytest.approx((changes[0].mean(), error))
    share = 1 - (2 * error / changes[0].mean()) ** 2
    assert consensus.is_windowed
    assert share > 0.1
    assert consensus.value == pytest.approx(11.0 + share * changes[0].mean())
    views_of = {STEP: (2.0, 2, 12.0, 1), HISTORY: (3.0, 4, 13.0, 3)}
    shares = set()
    for view, (opinion, one, separate, other) in views_of.items():
        for actual, value, k in (
            (consensus.opinions, opinion, one), (consensus.separate, separate, other),
        ):  # fmt: skip
            own = share_of_change(changes[k].mean(), changes[k].std(ddof=1) / 4)
            assert actual[view] == pytest.approx(value + own * changes[k].mean())
            shares.add(round(own, 6))
    assert len(shares) == 4
    assert min(shares) < share < max(shares)


def test_the_observation_is_corrected_as_far_as_the_history_that_leads(monkeypatch):
    windows = np.linspace(0.5, 2.0, 40)
    parts = Parts(monkeypatch, share=1.0, windows=windows)
    consensus = parts.find()
    assert consensus.view == HISTORY
    change, by_observation = (parts.changes(k, windows[:, None]).mean() for k in (4, 0))
    share = share_of_change(*consensus.windowed)
    assert consensus.windowed[0] == pytest.approx(change)
    assert 0.1 < share < 1.0
    assert consensus.opinions[OBSERVATION] == pytest.approx(11.0 + share * by_observation)


def test_the_observation_is_corrected_by_its_own_beside_features_by_hand(monkeypatch):
    windows = np.linspace(0.5, 2.0, 40)
    parts = Parts(monkeypatch, windows=windows)
    weigh = module._weigh

    def given_first(primals, duals, **options):
        if duals[0][0].view.name != GIVEN:
            return weigh(primals, duals, **options)
        return estimate_of(view=GIVEN), module.Means(*np.zeros((2, parts.n, 1)), parts.ratio[5])

    monkeypatch.setattr(module, "_weigh", given_first)
    given = [replace(one, view=replace(one.view, name=GIVEN)) for one in parts.bases[:2]]
    parts.bases = given + parts.bases
    consensus = parts.find()
    assert (consensus.view, consensus.windowed, consensus.is_windowed) == (GIVEN, (0.0, 0.0), False)
    own = parts.changes(0, windows[:, None])
    share = share_of_change(own.mean(), own.std(ddof=1) / 4)
    assert share > 0.1
    assert consensus.opinions[OBSERVATION] == pytest.approx(11.0 + share * own.mean())


def test_a_horizon_has_no_windowed_ratios(monkeypatch):
    parts = Parts(monkeypatch, share=0.0, windows=np.ones(40))
    consensus = parts.find(horizon=3)
    assert (consensus.windowed, consensus.is_windowed, consensus.horizon) == (None, False, 3)
    assert "ratios" not in parts.calls


def test_features_by_hand_come_first(monkeypatch):
    """The estimate is of the first view."""
    parts = Parts(monkeypatch, share=0.0)
    monkeypatch.setattr(module, "candidates", lambda *_: parts.bases[:2])
    monkeypatch.setattr(module, "shared_candidates", lambda *_, **__: [])
    seen = []
    monkeypatch.setattr(module, "_weigh", lambda primals, duals, **_: (
        seen.append(duals[0][0].view.name), (
            estimate_of(), module.Means(parts.delta[0], parts.delta[0], parts.ratio[0])
        ),
    )[1])  # fmt: skip
    parts.find(bases=None, given=Monomials(Scaling.of(parts.sample.states), 1))
    assert seen == [GIVEN, OBSERVATION]


# What follows from the estimates.


def test_a_contradiction_is_the_root_of_a_sum_of_squares():
    opinions, separate = {STEP: 7.0, HISTORY: 1.0}, {STEP: 13.0}
    one = estimate_of(opinions=opinions, separate=separate)
    squares = 0.5**2 + (3 - 1) ** 2 + 1.5**2 + (7 - 3) ** 2 + (1 - 3) ** 2 + 0.1 * (13 - 3) ** 2
    assert one.contradiction(1.0, 1.5) == pytest.approx(1.5 * np.sqrt(squares))
    assert one.contradiction(5.0, 1.5) == pytest.approx(1.5 * np.sqrt(squares))
    seen = replace(one, view=HISTORY)  # views that see less are no evidence
    assert seen.contradiction(1.0) == pytest.approx(1.5 * np.sqrt(0.5**2 + (3 - 1) ** 2))
    for windowed, difference in (((-4.0, 0.5), 3.5), ((4.0, 0.5), 3.5), ((4.0, 2.5), 2.0)):
        other = replace(seen, windowed=windowed)
        assert other.contradiction(1.0) == pytest.approx(1.5 * np.hypot(0.5, difference))


def test_a_change_by_windowed_ratios_moves_scores_by_its_share():
    noise = np.array([-1.0, 0.0, 1.0])  # its mean has the error 1/√3
    error = 1 / np.sqrt(3)
    same = estimate_of().changed(1.0 + noise)
    assert (same.value, same.error, same.is_windowed) == (3.0, 1.5, False)
    assert same.windowed == pytest.approx((1.0, error))
    other = estimate_of().changed(noise - 4.0)
    share = 1 - (2 * error / 4) ** 2
    scores = np.array([1.0, 2.0, 6.0]) + share * (noise - 4.0)
    assert other.scores == pytest.approx(scores)
    assert other.value == pytest.approx(3.0 - share * 4.0)
    assert other.error == pytest.approx(np.sqrt(((scores - scores.mean()) ** 2).sum() / 2 / 3))
    assert (other.windowed, other.is_windowed) == (pytest.approx((-4.0, error)), True)


def test_what_the_history_corrects_is_the_distance_of_the_observation():
    assert estimate_of().correction is None
    by_history = estimate_of(view=HISTORY, opinions={OBSERVATION: 7.0, STEP: 2.0})
    assert by_history.correction == CAUTION * 4.0
    assert by_history.hidden == (HISTORY, 4.0)


def test_the_view_that_changes_the_estimate_most_hides_something():
    assert estimate_of().hidden is None
    assert estimate_of(opinions={STEP: 4.0, HISTORY: 1.0}).hidden == (HISTORY, 2.0)
    assert estimate_of(opinions={STEP: 0.5, HISTORY: 4.0}).hidden == (STEP, 2.5)
    given = estimate_of(view=GIVEN, opinions={OBSERVATION: 9.0, STEP: 3.5})
    assert given.hidden == (STEP, 0.5)  # the observation hides nothing that features of it show
    assert estimate_of(view=GIVEN, opinions={OBSERVATION: 9.0}).hidden is None
    assert estimate_of(view=HISTORY, opinions={OBSERVATION: 3.5, STEP: -1.0}).hidden == (
        HISTORY,
        4.0,
    )


def test_a_consensus_without_windowed_ratios_says_so():
    plain = estimate_of(windowed=(1.0, 0.5)).as_dict()
    assert (plain["value"], plain["windowed"], plain["is_windowed"]) == (3.0, (1.0, 0.5), False)
    assert plain["candidates"] == []
