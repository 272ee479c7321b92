"""The slow oracle: plain NumPy, one learner, one step at a time, written as the papers write it.

Nothing here comes from the package. A problem is φ (indexed [s, a] or [s]), π[s, a], μ[s, a];
experience is a list of (s, a, r, s', a', γ', start). Every compiled path is compared with this.
"""

import numpy as np

# algorithm: (trace, update, bootstrap)
ALGORITHMS = {
    "GES": ("importance", "saddle", "expected"),
    "GQ": ("importance", "correction", "expected"),
    "ABQ": ("action-dependent", "correction", "expected"),
    "GTB": ("tree-backup", "saddle", "expected"),
    "GRetrace": ("retrace", "saddle", "expected"),
    "ExpectedSarsa": ("importance", "semi-gradient", "expected"),
    "capped importance": ("capped", "saddle", "expected"),
    "QSigma": ("sigma", "semi-gradient", "expected"),
    "Sarsa": ("constant", "semi-gradient", "sampled"),
    "TD": ("importance", "semi-gradient", "state"),
    "VTrace": ("truncated", "semi-gradient", "state"),
    "GTD": ("none", "gtd", "state"),
    "GTD2": ("importance", "saddle", "state"),
    "GTD2Split": ("importance", "split", "state"),
    "HTD": ("importance", "hybrid", "state"),
    "TDC": ("importance", "correction", "state"),
    "TDRC": ("importance", "tdrc", "state"),
    "ETD": ("importance", "semi-gradient", "state"),
    "TrueOnlineTD": ("importance", "true on-line", "state"),
    "TrueOnlineGTD": ("importance", "true on-line gtd", "state"),
    "TrueOnlineETD": ("importance", "true on-line", "state"),
    "ETD, own beta": ("importance", "semi-gradient", "state"),
}

SIGMA = 0.3
"""σ of Q(σ, λ)."""

RHO_BAR, C_BAR = 1.3, 0.8
"""Truncation of the TD error and of the trace, in V-trace (Espeholt et al. 2018)."""

CAP = 2.5
"""The largest product of ratios of the capped trace."""

FOLLOW_BETA = 0.5
"""β of ETD(λ, β) (Hallak et al. 2016), the variant "own beta"."""


def trace_coefficient(trace, parameter, pi, mu, s, a):
    """κ(s, a); ``parameter`` is λ, or ζ for the action-dependent trace."""
    rho = pi[s, a] / mu[s, a]
    if trace == "importance":
        return parameter * rho
    if trace == "constant":
        return parameter
    if trace == "tree-backup":
        return parameter * pi[s, a]
    if trace == "retrace":
        return parameter * min(1.0, rho)
    if trace == "sigma":
        return parameter * (SIGMA * rho + (1 - SIGMA) * pi[s, a])
    if trace == "capped":
        return parameter * min(CAP, rho)
    if trace == "truncated":
        return parameter * min(C_BAR, rho)
    if trace == "none":
        return 0.0
    assert trace == "action-dependent"
    zeta = parameter
    larger = np.maximum(mu, pi)
    psi_0, psi_max = 1 / larger.max(), 1 / larger.min()
    psi = 2 * zeta * psi_0 + max(0.0, 2 * zeta - 1) * (psi_max - 2 * psi_0)
    return min(psi, 1 / larger[s, a]) * pi[s, a]


def bootstrap_features(bootstrap, phi, pi, s1, a1):
    """b_t: the features that stand for the value of the next state."""
    if bootstrap == "expected":
        return sum(pi[s1, a] * phi[s1, a] for a in range(pi.shape[1]))
    return phi[s1, a1] if bootstrap == "sampled" else phi[s1]


def correction_features(trace, parameter, bootstrap, phi, pi, mu, s1):
    """x_t = Σ_a [π(a|S') − μ(a|S') κ(S',a)] φ(S',a)."""
    x = 0.0
    for a in range(pi.shape[1]):
        kappa = trace_coefficient(trace, parameter, pi, mu, s1, a)
        features = phi[s1] if bootstrap == "state" else phi[s1, a]
        x = x + (pi[s1, a] - mu[s1, a] * kappa) * features
    return x


def walk(algorithm, parameter, phi, pi, mu, experience):
    """Yield e_t, φ_t, b_t, x_t, R, γ' of each step."""
    trace, _, bootstrap = ALGORITHMS[algorithm]
    p = phi.shape[-1]
    e, gamma, rho_before, follow = np.zeros(p), 0.0, 0.0, 0.0
    E, c_before = np.zeros(p), 0.0
    credits = []  # the product of ratios, as capped, from each step of the episode to this one
    for s, a, reward, s1, a1, gamma1, start in experience:
        if start:
            e, gamma = np.zeros(p), 0.0
        rho = pi[s, a] / mu[s, a]
        features = phi[s] if bootstrap == "state" else phi[s, a]
        w = rho if bootstrap == "state" else 1.0
        passed = gamma
        if algorithm == "ETD, own beta" and gamma > 0:
            passed = FOLLOW_BETA
        follow = passed * rho_before * follow + 1.0
        if "ETD" in algorithm:
            w = rho * (parameter + (1 - parameter) * follow)
        kappa = trace_coefficient(trace, parameter, pi, mu, s, a)
        if trace == "capped":
            credits = credits if gamma > 0 else []
            factor = min(rho, CAP / max(credits, default=1.0))
            credits = [credit * factor for credit in credits] + [1.0]
            kappa = parameter * factor
        e = gamma * kappa * e + w * features
        if algorithm == "VTrace":  # the trace of Π c_i φ, and ρ_t in front of δ_t
            E = gamma * c_before * E + features
            e, c_before = min(RHO_BAR, rho) * E, kappa
        b = bootstrap_features(bootstrap, phi, pi, s1, a1)
        x = correction_features(trace, parameter, bootstrap, phi, pi, mu, s1)
        yield e, features, b, x, reward, gamma1
        gamma, rho_before = gamma1, rho


def learn_htd(lam, phi, pi, mu, experience, alpha, beta, theta, omega):
    """HTD(λ) as in Sutton & Barto, section 12.11: z of π and z^b of the behaviour."""
    z, z_b, gamma = np.zeros(len(theta)), np.zeros(len(theta)), 0.0
    for t, (s, a, reward, s1, _, gamma1, start) in enumerate(experience, start=1):
        rho, gamma = pi[s, a] / mu[s, a], 0.0 if start else gamma
        z = rho * (gamma * lam * z + phi[s])
        z_b = gamma * lam * z_b + phi[s]
        delta = reward + gamma1 * theta @ phi[s1] - theta @ phi[s]
        change = phi[s] - gamma1 * phi[s1]
        new_theta = theta + alpha(t) * (delta * z + ((z - z_b) @ omega) * change)
        omega = omega + beta(t) * (delta * z - (z_b @ omega) * change)
        theta, gamma = new_theta, gamma1
    return theta, omega


def learn_true_online(algorithm, lam, phi, pi, mu, experience, alpha, beta, theta, omega):
    """The true on-line rules of van Hasselt et al. 2014 and Sutton et al. 2016, as printed."""
    p = len(theta)
    e, e_h, e_grad = np.zeros(p), np.zeros(p), np.zeros(p)
    gamma, rho_before, follow, theta_before = 0.0, 0.0, 0.0, theta
    for t, (s, a, reward, s1, _, gamma1, start) in enumerate(experience, start=1):
        rho, gamma, x = pi[s, a] / mu[s, a], 0.0 if start else gamma, phi[s]
        follow = gamma * rho_before * follow + 1.0
        m = lam + (1 - lam) * follow if algorithm == "TrueOnlineETD" else 1.0
        e = rho * gamma * lam * e + rho * alpha(t) * m * (1 - rho * gamma * lam * x @ e) * x
        e_h_decay = rho_before * gamma * lam
        e_h = e_h_decay * e_h + beta(t) * (1 - e_h_decay * x @ e_h) * x
        e_grad = rho * (gamma * lam * e_grad + x)
        delta = reward + gamma1 * theta @ phi[s1] - theta @ x
        new = theta + delta * e
        if gamma > 0:
            new = new + (e - alpha(t) * m * rho * x) * ((theta - theta_before) @ x)
        if algorithm == "TrueOnlineGTD":
            new = new - alpha(t) * gamma1 * (1 - lam) * (e_grad @ omega) * phi[s1]
            omega = omega + rho * delta * e_h - beta(t) * (x @ omega) * x
        theta_before, theta, gamma, rho_before = theta, new, gamma1, rho
    return theta, omega


def online_lambda_return(lam, phi, episode, alpha, theta):
    """θ after each step of one on-policy episode, by redoing all updates (Sutton & Barto 12.3)."""
    history = [theta]
    for h in range(1, len(episode) + 1):
        redone = theta
        for k in range(h):
            target, weight, discount, rewards = 0.0, 1.0, 1.0, 0.0
            for n in range(k, h):
                _, _, reward, s1, _, gamma1, _ = episode[n]
                rewards += discount * reward
                discount *= gamma1
                last = 1.0 if n == h - 1 else 1 - lam
                target += weight * last * (rewards + discount * history[n] @ phi[s1])
                weight *= lam
            x = phi[episode[k][0]]
            redone = redone + alpha * (target - redone @ x) * x
        history.append(redone)
    return history


def learn(algorithm, parameter, phi, pi, mu, experience, alpha, beta, theta, omega, eta=1.0):
    """Run an algorithm; ``alpha(t)`` and ``beta(t)`` give the step sizes of the t-th update."""
    update = ALGORITHMS[algorithm][1]
    if update == "hybrid":
        return learn_htd(parameter, phi, pi, mu, experience, alpha, beta, theta, omega)
    if update.startswith("true on-line"):
        return learn_true_online(
            algorithm, parameter, phi, pi, mu, experience, alpha, beta, theta, omega
        )
    theta, omega = theta.copy(), omega.copy()
    steps = walk(algorithm, parameter, phi, pi, mu, experience)
    for t, (e, features, b, x, reward, gamma1) in enumerate(steps, start=1):
        delta = reward + gamma1 * theta @ b - theta @ features
        u = e @ omega
        if update == "semi-gradient":
            d_theta, d_omega = delta * e, 0.0
        elif update == "saddle":
            d_theta = (features - gamma1 * b) * u
            d_omega = delta * e - (features @ omega) * features
        elif update == "split":
            d_theta = features * (features @ omega) - gamma1 * x * u
            d_omega = delta * e - (features @ omega) * features
        elif update == "correction":
            d_theta = delta * e - gamma1 * x * u
            d_omega = delta * e - (features @ omega) * features
        elif update == "gtd":
            d_theta = (features - gamma1 * b) * u
            d_omega = delta * e - omega
        else:
            assert update == "tdrc"
            d_theta = delta * e - gamma1 * x * u
            d_omega = delta * e - (features @ omega) * features - eta * omega
        theta, omega = theta + alpha(t) * d_theta, omega + beta(t) * d_omega
    return theta, omega


def iterate(algorithm, A, b, M, alpha, beta, steps, theta, omega, eta=1.0, A_mu=None):
    """Run the expected iteration: the update of ``learn`` with A, b, M in place of samples."""
    A_mu = A if A_mu is None else A_mu
    update = ALGORITHMS[algorithm][1]
    theta, omega = theta.copy(), omega.copy()
    for t in range(1, steps + 1):
        g = A @ theta + b
        d_theta = {
            "semi-gradient": g,
            "true on-line": g,
            "true on-line gtd": g - (A.T + M) @ omega,
            "hybrid": g + (A_mu.T - A.T) @ omega,
            "saddle": -A.T @ omega,
            "split": M @ omega - (A.T + M) @ omega,
            "gtd": -A.T @ omega,
            "correction": g - (A.T + M) @ omega,
            "tdrc": g - (A.T + M) @ omega,
        }[update]
        d_omega = {
            "semi-gradient": 0.0,
            "true on-line": 0.0,
            "true on-line gtd": g - M @ omega,
            "hybrid": g + A_mu.T @ omega,
            "saddle": g - M @ omega,
            "split": g - M @ omega,
            "gtd": g - omega,
            "correction": g - M @ omega,
            "tdrc": g - M @ omega - eta * omega,
        }[update]
        theta, omega = theta + alpha(t) * d_theta, omega + beta(t) * d_omega
    return theta, omega


def learn_offline(algorithm, lam, phi, pi, mu, experience, alpha, theta, updates, horizon):
    """θ_{t+1} = θ_t + α (Σ_k (γλ)^{k−t} ρ_{t+1:k} δ_k(θ_t)) φ_t, cut off at an episode's end."""
    trace, _, bootstrap = ALGORITHMS[algorithm]
    theta = theta.copy()
    for t in range(updates):
        total, c = 0.0, 1.0
        for k in range(t, min(t + horizon, len(experience))):
            s, a, reward, s1, a1, gamma1, start = experience[k]
            if k > t and start:
                break
            if k > t:
                passing = experience[k - 1][:2] if algorithm == "VTrace" else (s, a)
                c *= experience[k - 1][5] * trace_coefficient(trace, lam, pi, mu, *passing)
            rho = min(RHO_BAR, pi[s, a] / mu[s, a]) if algorithm == "VTrace" else 1.0
            features = phi[s] if bootstrap == "state" else phi[s, a]
            b = bootstrap_features(bootstrap, phi, pi, s1, a1)
            total += c * rho * (reward + gamma1 * theta @ b - theta @ features)
        s, a = experience[t][:2]
        w = pi[s, a] / mu[s, a] if bootstrap == "state" and algorithm != "VTrace" else 1.0
        features = phi[s] if bootstrap == "state" else phi[s, a]
        theta = theta + alpha(t + 1) * w * total * features
    return theta


def system(algorithm, parameter, phi, pi, mu, P, ends, R, gamma, visits):
    """A, b, M by dense matrices over all pairs (or states), as printed in the papers."""
    trace, _, bootstrap = ALGORITHMS[algorithm]
    states, actions = pi.shape
    pairs = [(s, a) for s in range(states) for a in range(actions)]
    stay = gamma * P * (1 - ends)
    if algorithm == "VTrace":  # v + (I − P_c)⁻¹ (r_ρ̄ + P_ρ̄ v − diag(Σ_a μρ̄) v)
        D, rho = np.diag(visits), pi / mu
        flow = mu * np.minimum(RHO_BAR, rho)
        P_c = np.einsum("sa,sat->st", mu * parameter * np.minimum(C_BAR, rho), stay)
        left = phi.T @ D @ np.linalg.inv(np.eye(states) - P_c)
        error = np.einsum("sa,sat->st", flow, stay) - np.diag(flow.sum(axis=1))
        return left @ error @ phi, left @ (flow * R).sum(axis=1), phi.T @ D @ phi
    if bootstrap == "state":
        D = np.diag(visits)
        P_pi = np.einsum("sa,sat->st", pi, stay)
        r_pi = (pi * R).sum(axis=1)
        lam = 0.0 if trace == "none" else parameter
        weight = D
        if "ETD" in algorithm:
            beta = FOLLOW_BETA if algorithm == "ETD, own beta" else gamma
            f = np.linalg.inv(np.eye(states) - beta / gamma * P_pi.T) @ visits
            weight = np.diag(lam * visits + (1 - lam) * f)
        left = phi.T @ weight @ np.linalg.inv(np.eye(states) - lam * P_pi)
        return left @ (P_pi - np.eye(states)) @ phi, left @ r_pi, phi.T @ D @ phi
    Phi = np.array([phi[s, a] for s, a in pairs])
    Xi = np.diag([visits[s] * mu[s, a] for s, a in pairs])
    r = np.array([R[s, a] for s, a in pairs])
    follow = mu if bootstrap == "sampled" else pi
    P_b, P_kappa = np.zeros((2, len(pairs), len(pairs)))
    for i, (s, a) in enumerate(pairs):
        for j, (s1, a1) in enumerate(pairs):
            P_b[i, j] = stay[s, a, s1] * follow[s1, a1]
            kappa = trace_coefficient(trace, parameter, pi, mu, s1, a1)
            P_kappa[i, j] = stay[s, a, s1] * mu[s1, a1] * kappa
    left = Phi.T @ Xi @ np.linalg.inv(np.eye(len(pairs)) - P_kappa)
    return left @ (P_b - np.eye(len(pairs))) @ Phi, left @ r, Phi.T @ Xi @ Phi


def capped_system(lam, cap, phi, pi, mu, P, ends, R, gamma, start, steps=4000):
    """A, b of a capped trace: the means of γe and of 1 at each (s, H), followed step by step."""
    states, p = len(pi), phi.shape[-1]
    nodes = {(s, 0.0): (start[s], np.zeros(p)) for s in range(states) if start[s]}
    A, b, visits = np.zeros((p, p)), np.zeros(p), 0.0
    for t in range(steps):
        new = {}
        for (s, H), (mass, arriving) in nodes.items():
            for a in np.flatnonzero(mu[s]):
                rho, at = pi[s, a] / mu[s, a], mass * mu[s, a]
                kappa = lam * min(rho, cap / max(H, 1e-300))
                e = mu[s, a] * kappa * arriving + at * phi[s, a]
                after = max(1.0, min(rho * H, cap))
                if t >= steps // 2:
                    mean = sum(P[s, a, s1] * gamma * (1 - ends[s, a, s1]) * (pi[s1] @ phi[s1])
                               for s1 in range(states))  # fmt: skip
                    A += np.outer(e, mean - phi[s, a])
                    b += R[s, a] * e
                    visits += at
                for s1 in np.flatnonzero(P[s, a]):
                    going = P[s, a, s1] * (1 - ends[s, a, s1])
                    targets = [((s1, after), going, gamma)]
                    targets += [((s2, 0.0), P[s, a, s1] * ends[s, a, s1] * start[s2], 0.0)
                                for s2 in range(states)]  # fmt: skip
                    for node, share, discount in targets:
                        if share > 0:
                            before = new.get(node, (0.0, np.zeros(p)))
                            new[node] = before[0] + share * at, before[1] + share * discount * e
        nodes = new
    return A / visits, b / visits


def correction_matrix(algorithm, parameter, phi, pi, mu, P, ends, gamma, visits, weight=None):
    """E[γ'x eᵀ], by carrying E[e; pair] forward along the chain until it settles."""
    trace, _, bootstrap = ALGORITHMS[algorithm]
    states, actions = pi.shape
    stay = gamma * P * (1 - ends)
    state_values = bootstrap == "state"
    e = np.zeros((states, actions, phi.shape[-1]))
    for _ in range(3000):
        new = np.zeros_like(e)
        for s in range(states):
            for a in range(actions):
                features = phi[s] if state_values else phi[s, a]
                w = pi[s, a] / mu[s, a] if state_values else 1.0
                if weight is not None:
                    w = w * weight[s]
                kappa = trace_coefficient(trace, parameter, pi, mu, s, a)
                arriving = np.einsum("ijp,ij->p", e, stay[:, :, s]) * mu[s, a]
                new[s, a] = kappa * arriving + visits[s] * mu[s, a] * w * features
        if np.abs(new - e).max() < 1e-15:
            break
        e = new
    C = np.zeros((phi.shape[-1],) * 2)
    for s in range(states):
        for a in range(actions):
            for s1 in range(states):
                x = correction_features(trace, parameter, bootstrap, phi, pi, mu, s1)
                C += stay[s, a, s1] * np.outer(x, e[s, a])
    return C
