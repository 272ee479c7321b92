// The linear system of a rule on a small problem, and its mean iteration; as the library's
// System.exact and iterate. Pairs (s, a) are numbered s·actions + a.
const TRACES = {
  Importance: (lam, pi, mu) => (mu > 0 ? (lam * pi) / mu : 0),
  TreeBackup: (lam, pi) => lam * pi,
  Retrace: (lam, pi, mu) => (mu > 0 ? lam * Math.min(1, pi / mu) : 0),
  NoTrace: () => 0,
};

// κ of an action-dependent trace needs the extremes of max(μ, π) over all pairs.
function actionDependent(zeta, pi, mu) {
  const larger = pi.map((p, i) => Math.max(p, mu[i])),
    taken = larger.filter((x) => x > 0);
  const [psi0, most] = [1 / Math.max(...taken), 1 / Math.min(...taken)];
  const psi = 2 * zeta * psi0 + Math.max(0, 2 * zeta - 1) * (most - 2 * psi0);
  return pi.map((p, i) => (larger[i] > 0 ? Math.min(psi, 1 / larger[i]) * p : 0));
}

// Σ_a w(s,a) x(s,a): from pairs to states.
function overActions(weights, pairs, actions) {
  return range(weights.length / actions).map((s) => {
    const sum = new Array(pairs[0].length).fill(0);
    for (let a = 0; a < actions; a++) {
      const i = s * actions + a;
      for (let j = 0; j < sum.length; j++) sum[j] += weights[i] * pairs[i][j];
    }
    return sum;
  });
}

// A, b, M and C of a rule: ΦᵀΞW (I − γP_κ)⁻¹ applied to [γP_b Φ − Φ, r, γP_x Φ].
function system(problem, rule, gamma, lam) {
  const { pi, mu, phi, visits, actions } = problem,
    p = phi[0].length,
    n = pi.length;
  const flow = problem.staying.map((row) => row.map((x) => gamma * x));
  const kappa =
    rule.trace === "ActionDependent"
      ? actionDependent(lam, pi, mu)
      : pi.map((each, i) => TRACES[rule.trace](lam, each, mu[i]));
  const mean = overActions(pi, phi, actions);
  const b = phi.map((row, i) => (rule.values === "state" ? row : mean[Math.floor(i / actions)]));
  const left = b.map((row, i) => row.map((x, j) => x - kappa[i] * phi[i][j]));
  const ahead = product(flow, overActions(mu, b, actions));
  const corrected = product(flow, overActions(mu, left, actions));
  const y = ahead.map((row, i) => [
    ...row.map((x, j) => x - phi[i][j]),
    problem.r[i],
    ...corrected[i],
  ]);
  const carried = mu.map((x, i) => x * kappa[i]);
  const K = overActions(carried, flow, actions),
    states = K.length;
  const back = solve(
    matrix(states, states, (i, j) => (i === j) - K[i][j]),
    overActions(carried, y, actions),
  );
  const more = product(flow, back),
    z = y.map((row, i) => row.map((x, j) => x + more[i][j]));
  const weights = weightOf(problem, rule, flow, lam);
  const scaled = matrix(p, n, (j, i) => phi[i][j] * visits[i] * weights[i]);
  const products = product(scaled, z);
  return {
    A: products.map((row) => row.slice(0, p)),
    b: products.map((row) => row[p]),
    C: transpose(products.map((row) => row.slice(p + 1))),
    M: problem.M,
  };
}

// w of a step: 1 for action values, ρ for state values, times the mean emphasis if there is one.
function weightOf(problem, rule, flow, lam) {
  const { pi, mu, visits, actions } = problem;
  if (rule.values === "action") return pi.map(() => 1);
  const rho = pi.map((x, i) => (mu[i] > 0 ? x / mu[i] : 0));
  if (!rule.emphatic) return rho;
  const d = range(pi.length / actions).map((s) =>
    range(actions).reduce((sum, a) => sum + visits[s * actions + a], 0),
  );
  const G = overActions(pi, flow, actions),
    states = d.length;
  const f = solve(
    matrix(states, states, (i, j) => (i === j) - G[j][i]),
    d.map((x) => [x]),
  );
  return rho.map((x, i) => {
    const s = Math.floor(i / actions);
    return x * (lam + ((1 - lam) * f[s][0]) / d[s]);
  });
}

// G of the mean update (θ − θ*, ω) += diag(α, β) G (θ − θ*, ω); θ alone without a dual variable.
function generator({ A, M, C }, form) {
  const p = A.length;
  if (!form.dual) return A.map((row) => row.map((x) => form.td * x));
  return matrix(2 * p, 2 * p, (i, j) => {
    const [k, l] = [i % p, j % p];
    if (j < p) return (i < p ? form.td : form.dual) * A[k][l];
    if (i < p) return -(form.saddle * A[l][k] + form.correction * C[k][l]);
    return -(form.gram * M[k][l] + (k === l ? form.shrink : 0));
  });
}

// Eigenvalues of the mean update itself, and the least α at this β/α with which it fails.
function update(G, p, alpha, beta) {
  const scaled = G.map((row, i) => row.map((x) => (i < p ? 1 : beta / alpha) * x));
  const g = eigenvalues(scaled);
  const limit = Math.min(...g.map(([x, y]) => (-2 * x) / (x * x + y * y)));
  const map = g.map(([x, y]) => [1 + alpha * x, alpha * y]);
  return {
    map,
    radius: Math.max(...map.map(([x, y]) => Math.hypot(x, y))),
    limit: Math.max(0, limit),
  };
}

// The iterates themselves, the first hundred and some of the others; they stop when they leave all bounds.
function iterate({ A, b, M, C }, form, { alpha, beta, steps, theta0, inverse }, points = 200) {
  const p = b.length,
    T = matrix(p, p, (i, j) => form.saddle * A[j][i] + form.correction * C[i][j]);
  const W = matrix(p, p, (i, j) => form.gram * M[i][j] + (i === j ? form.shrink : 0));
  let theta = [...theta0],
    omega = new Array(p).fill(0);
  const every = Math.max(1, Math.round(steps / points)),
    kept = [];
  for (let t = 0; t <= steps; t++) {
    const residual = times(A, theta).map((x, i) => x + b[i]);
    if (t < 100 || t % every === 0 || t === steps) {
      const error = 0.5 * times(inverse, residual).reduce((sum, x, i) => sum + x * residual[i], 0);
      kept.push({ step: t, mspbe: error, theta });
    }
    if (t === steps || theta.some((x) => !(Math.abs(x) < 1e60))) break;
    const pull = times(T, omega),
      drag = times(W, omega);
    theta = theta.map((x, i) => x + alpha * (form.td * residual[i] - pull[i]));
    omega = omega.map((x, i) => x + beta * (form.dual * residual[i] - drag[i]));
  }
  return kept;
}
