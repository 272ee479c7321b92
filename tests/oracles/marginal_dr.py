"""Marginal doubly robust estimates written out: one row at a time, one solve for each fold."""

import numpy as np


def features(sample, target, encode, gamma):
    """Return φ of the rows, γE_π φ after them, and E_π φ at the starts."""
    K, E, n = sample.n_actions, len(sample.starts), len(sample.rewards)
    psi, after, first = encode(sample.states), encode(sample.next_states), encode(sample.starts)

    def phi(features, weights):
        return np.concatenate([weight * features for weight in weights])

    phi_row = np.array([phi(psi[t], np.eye(K)[sample.actions[t]]) for t in range(n)])
    next_row = np.array(
        [gamma * sample.continues[t] * phi(after[t], sample.next_pi[target][t]) for t in range(n)]
    )
    begin = np.array([phi(first[e], sample.start_pi[target][e]) for e in range(E)])
    return phi_row, next_row, begin


def regularised(M, K, ridge, pooling):
    """Return M_λ: the penalty is larger on differences between actions; their constant has none."""
    m = len(M) // K
    scale = np.diag(M).reshape(K, m).sum(axis=0) / K
    jitter = 1e-9 * np.trace(M) / (K * m)
    free = scale * (np.arange(m) > 0)  # the shared constant is not penalised
    apart = np.kron(np.eye(K) - np.ones((K, K)) / K, np.diag(scale))
    alike = np.kron(np.ones((K, K)) / K, np.diag(free))
    return M + ridge * (pooling * apart + alike) + jitter * np.eye(K * m)


def fit(sample, target, encode, gamma, ridge, pooling, horizon=None, folds=5, to_all=False):
    """Return q(s_0) [E], δ and w of each row [n, H] of one candidate, each fold by the others.

    Or each ``to_all`` folds.
    """
    K, E, n = sample.n_actions, len(sample.starts), len(sample.rewards)
    phi_row, next_row, begin = features(sample, target, encode, gamma)
    H = horizon or 1
    start, delta, ratio = np.zeros(E), np.zeros((n, H)), np.zeros((n, H))
    for fold in range(folds):
        validation, own = sample.folds[sample.episode] == fold, sample.folds == fold
        train = ~validation | to_all
        C = phi_row[train].T @ next_row[train]
        b = phi_row[train].T @ sample.rewards[train]
        x = begin[~own | to_all].sum(axis=0)
        M = regularised(phi_row[train].T @ phi_row[train], K, ridge, pooling)
        if horizon is None:
            theta, u = np.linalg.solve(M - C, b), np.linalg.solve((M - C).T, x)
            start[own] = begin[own] @ theta
            delta[validation, 0] = (
                sample.rewards[validation]
                + next_row[validation] @ theta
                - phi_row[validation] @ theta
            )
            ratio[validation, 0] = phi_row[validation] @ u
            continue
        thetas = [np.zeros(len(b))]
        for _ in range(H):
            thetas.append(np.linalg.solve(M, b + C @ thetas[-1]))
        start[own], nu = begin[own] @ thetas[H], x
        for t in range(H):
            u = np.linalg.solve(M, nu)
            later, now = thetas[H - t - 1], thetas[H - t]
            delta[validation, t] = (
                sample.rewards[validation]
                + next_row[validation] @ later
                - phi_row[validation] @ now
            )
            ratio[validation, t] = phi_row[validation] @ u
            nu = C.T @ u
    return start, delta, ratio


def state_ratios(sample, target, encode, gamma, ridge, horizon=None, folds=5):
    """Return w = ρ(a|s) ψ(s)ᵀu of each row [n, H], each fold by the others."""
    psi, after, first = encode(sample.states), encode(sample.next_states), encode(sample.starts)
    n, ratio = len(sample.rewards), np.zeros((len(sample.rewards), horizon or 1))
    rho = np.zeros(n)
    for t in range(n):
        starts = sample.step[t] == 0
        pi = sample.start_pi[target][sample.episode[t]] if starts else sample.next_pi[target][t - 1]
        rho[t] = pi[sample.actions[t]] / sample.propensities[t]
    for fold in range(folds):
        train = [t for t in range(n) if sample.folds[sample.episode[t]] != fold]
        M = regularised(sum(rho[t] * np.outer(psi[t], psi[t]) for t in train), 1, ridge, 1.0)
        C = sum(rho[t] * gamma * sample.continues[t] * np.outer(psi[t], after[t]) for t in train)
        nu = sum(first[e] for e in range(len(first)) if sample.folds[e] != fold)
        validation = sorted({*range(n)} - {*train})
        if horizon is None:
            u = np.linalg.solve((M - C).T, nu)
            ratio[validation, 0] = [rho[t] * psi[t] @ u for t in validation]
        for h in range(horizon or 0):
            u = np.linalg.solve(M, nu)
            ratio[validation, h] = [rho[t] * psi[t] @ u for t in validation]
            nu = C.T @ u
    return ratio


def predictions(sample, target, encode, gamma, ridge, pooling, horizon, goals, steps, folds=5):
    """Return θ [folds, p], the mean squared errors of goals, and γ times next values at steps."""
    phi_row, next_row, _ = features(sample, target, encode, gamma)
    thetas, loss = [], np.zeros(goals.shape[1])
    following = np.zeros((len(phi_row), len(steps)))
    for fold in range(folds):
        train = sample.folds[sample.episode] != fold
        some = phi_row[train]
        M = regularised(some.T @ some, sample.n_actions, ridge, pooling)
        C, b = some.T @ next_row[train], some.T @ sample.rewards[train]
        theta = [np.zeros(len(b))]
        for _ in range(horizon or 0):
            theta.append(np.linalg.solve(M, b + C @ theta[-1]))
        if horizon is None:
            theta = [np.linalg.solve(M - C, b)] * (max(steps) + 2)
        thetas.append(theta[-1])
        for k, step in enumerate(steps):
            following[~train, k] = next_row[~train] @ theta[len(theta) - step - 2]
        weights = np.linalg.solve(M, some.T @ goals[train])
        loss += ((goals - phi_row @ weights)[~train] ** 2).sum(axis=0)
    return np.array(thetas), loss / len(phi_row), following


def weigh(fits, owners, returns):
    """Return value, dispersion, and per candidate residual, imbalance, primal and dual weights.

    ``fits`` are q(s_0), δ and w of each candidate, and ``owners`` its basis.
    """
    N, E = len(fits), len(fits[0][0])
    corrections = [[(w * delta).sum() / E for _, _, w in fits] for _, delta, _ in fits]
    values = [[fits[i][0].mean() + corrections[i][j] for j in range(N)] for i in range(N)]
    imbalances = []
    for j in range(N):
        by_basis = [
            np.median([values[i][j] for i in range(N) if owners[i] == owner])
            for owner in sorted(set(owners))
        ]
        imbalances.append(np.quantile(np.abs(by_basis - np.median(by_basis)), 0.8))
    noise = 0.02 * returns.std()

    def weights(sizes, power):
        falling = [1.0 / (size + noise) ** power for size in sizes]
        return [one / sum(falling) for one in falling]

    balance = weights(imbalances, 2)
    residuals = [sum(abs(corrections[i][j]) * balance[j] for j in range(N)) for i in range(N)]
    p, d = weights(residuals, 4), weights(imbalances, 4)
    pairs = [(p[i] * d[j], values[i][j]) for i in range(N) for j in range(N)]
    value = sum(share * estimate for share, estimate in pairs)
    dispersion = np.sqrt(sum(share * (estimate - value) ** 2 for share, estimate in pairs))
    return value, dispersion, list(zip(residuals, imbalances, p, d, strict=True))


def weigh_views(
    fits, owners, own, episode, noise, possible, losses=None, final=None, only_duals=()
):
    """Return all that weighing the candidates of a view gives, one pair of candidates at a time.

    As `weigh`, but ``fits`` are all primals, of which the last ``own`` are the duals, too. Values
    outside what is ``possible`` count as contradicted; ``losses`` [N, P] are those of predicting
    backups, where some features are exact. ``episode`` is that of each row. ``final`` are q(s_0)
    and δ of fits to all folds, and ``only_duals`` are the numbers of those that are no primals.
    """
    N, E = len(fits), len(fits[0][0])
    duals = range(N - own, N)
    plug_in = [fits[i][0].mean() for i in range(N)]
    corrections = [[(fits[j][2] * fits[i][1]).sum() / E for j in duals] for i in range(N)]
    distances = [max(possible[0] - value, value - possible[1], 0.0) for value in plug_in]
    primals = [i for i in range(N) if i not in only_duals]
    plausible = [i for i in primals if distances[i] <= noise]
    if len({owners[i] for i in plausible}) < 2:
        plausible = primals
    imbalances = []
    for j in range(own):
        medians = [
            np.median([plug_in[i] + corrections[i][j] for i in plausible if owners[i] == owner])
            for owner in sorted({owners[i] for i in plausible})
        ]
        imbalances.append(np.quantile(np.abs(medians - np.median(medians)), 0.8))

    def weights(sizes, power):
        falling = [(size + noise) ** -power for size in sizes]
        return np.array([one / sum(falling) for one in falling])

    balance = weights(imbalances, 2)
    residuals = [sum(abs(corrections[i][j]) * balance[j] for j in range(own)) for i in range(N)]
    if losses is not None:
        mass = np.median([fits[j][2].sum() / E for j in duals])
        predicted = [g for g in range(losses.shape[1]) if np.isfinite(losses[:, g]).any()]
        for i in range(N):
            more = [losses[i, g] - np.nanmin(losses[:, g]) for g in predicted]
            residuals[i] += 0.15 * max(1.0, mass) * np.sqrt(sum(more) / len(more))
    residuals = [max(residuals[i], distances[i]) for i in range(N)]
    residuals = [residuals[i] if i in primals else np.inf for i in range(N)]
    p, d = weights(residuals, 4), weights(imbalances, 4)
    pairs = [(p[i] * d[j], plug_in[i] + corrections[i][j]) for i in range(N) for j in range(own)]
    value = sum(share * estimate for share, estimate in pairs)
    delta = sum(p[i] * fits[i][1] for i in range(N))
    ratio = sum(d[j] * fits[k][2] for j, k in enumerate(duals))
    starts = sum(p[i] * fits[i][0] for i in range(N))
    scores = np.array([starts[e] + (delta * ratio)[episode == e].sum() for e in range(E)])
    final_delta = delta
    if final is not None:
        final_delta = sum(p[i] * final[i][1] for i in range(N))
        moved = sum(p[i] * final[i][0].mean() for i in range(N)) + (final_delta * ratio).sum() / E
        scores, value = scores + (moved - value), moved
    return {
        "value": value,
        "error": np.sqrt(((scores - scores.mean()) ** 2).sum() / (E - 1) / E),
        "scores": scores,
        "plug_in": starts,
        "dispersion": np.sqrt(sum(share * (estimate - value) ** 2 for share, estimate in pairs)),
        "imbalance": sum(d * imbalances),
        "candidates": [
            (plug_in[k], residuals[k], imbalances[j], p[k], d[j]) for j, k in enumerate(duals)
        ],
        "primal": p,
        "delta": delta,
        "final_delta": final_delta,
        "ratio": ratio,
    }
