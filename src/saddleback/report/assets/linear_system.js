// The linear system of a rule on a small problem, and its expected iteration, as the library's
// System.exact and iterate compute them. Pairs (s, a) are numbered s·actions + a.

// κ of an action and λ (ζ for ABQ), from tables π and μ over the pairs of acting states.
const TRACES = {
  Importance: (lam, pi, mu) => pi.map((p, i) => (mu[i] > 0 ? (lam * p) / mu[i] : 0)),
  TreeBackup: (lam, pi) => pi.map((p) => lam * p),
  Retrace: (lam, pi, mu) => pi.map((p, i) => (mu[i] > 0 ? lam * Math.min(1, p / mu[i]) : 0)),
  ActionDependent: (zeta, pi, mu) => {
    const larger = pi.map((p, i) => Math.max(p, mu[i])),
      positive = larger.filter((x) => x > 0),
      [psi0, psiMax] = [1 / Math.max(...positive), 1 / Math.min(...positive)],
      psi = 2 * zeta * psi0 + Math.max(0, 2 * zeta - 1) * (psiMax - 2 * psi0);
    return pi.map((p, i) => (larger[i] > 0 ? Math.min(psi, 1 / larger[i]) * p : 0));
  },
  NoTrace: (lam, pi) => pi.map(() => 0),
};

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

// Long-run distribution of the state: visits per episode, or the stationary distribution, which is
// unique here. States that have no share in it, to rounding, get exactly 0.
function longRun(P, { start, episodic }) {
  const n = P.length,
    balance = matrix(n, n, (i, j) => (i === j) - P[j][i] + !episodic),
    given = start.map((probability) => [episodic ? probability : 1]),
    visits = solve(balance, given).map((row) => row[0]),
    total = visits.reduce((sum, x) => sum + x, 0);
  return visits.map((x) => (x > 1e-12 * total ? x / total : 0));
}

// Features (1 − y)·[I 0] + y·[Φ 0]: one-hot encoded rows, and the problem's own, padded with zeros.
function mixedFeatures({ features, acting, actions, values }, y) {
  if (y === 1) return features;
  const perState = values === "action" ? actions : 1,
    rows = range(features.length).filter((i) => acting[Math.floor(i / perState)]),
    p = features[0].length;
  return matrix(
    features.length,
    Math.max(rows.length, p),
    (i, j) => (1 - y) * (rows[j] === i) + y * (j < p ? features[i][j] : 0),
  );
}

// A problem with behaviour policy (1 − x)π + xμ and mixed features, in a basis of the features μ visits.
function interpolate(problem, x, y) {
  const { actions, pi, values } = problem,
    mu = problem.mu.map((m, i) => (1 - x) * pi[i] + x * m),
    rows = mixedFeatures(problem, y),
    phi = values === "action" ? rows : pi.map((_, i) => rows[Math.floor(i / actions)]),
    staying = problem.P.map((row, i) => row.map((prob, t) => prob * (1 - problem.ends[i][t]))),
    d = longRun(overActions(mu, staying, actions), problem),
    visits = mu.map((m, i) => d[Math.floor(i / actions)] * m),
    visited = range(pi.length).filter((i) => visits[i] > 0),
    basis = rowBasis(visited.map((i) => phi[i])),
    inside = range(d.length).filter((s) => d[s] > 0),
    pairs = range(pi.length).filter((i) => d[Math.floor(i / actions)] > 0),
    reduced = product(phi, basis);
  const M = product(
    transpose(visited.map((i) => reduced[i])),
    visited.map((i) => reduced[i].map((f) => f * visits[i])),
  );
  const theta0 = new Array(rows[0].length).fill(problem.theta0),
    reducedTheta0 = times(transpose(basis), theta0),
    inSpan = times(basis, reducedTheta0);
  return {
    ...problem,
    mu,
    phi,
    d,
    inside,
    pairs,
    visits,
    staying,
    basis,
    M,
    inverse: solve(M, identity(M.length)),
    theta0: reducedTheta0,
    outside: theta0.map((value, i) => value - inSpan[i]),
    fullTheta0: theta0,
  };
}

// Tables of a rule over all pairs: κ, ρ, the bootstrap b, the correction x and the weight w.
function terms(problem, rule, lam) {
  const { pi, mu, phi, actions, acting } = problem,
    isActing = pi.map((_, i) => acting[Math.floor(i / actions)]),
    onActing = (table) => table.filter((_, i) => isActing[i]),
    kappas = TRACES[rule.trace](lam, onActing(pi), onActing(mu));
  let k = 0;
  const kappa = isActing.map((yes) => (yes ? kappas[k++] : 0)),
    rho = pi.map((p, i) => (mu[i] > 0 ? p / mu[i] : 0)),
    mean = overActions(pi, phi, actions),
    b = rule.values === "state" ? phi : pi.map((_, i) => mean[Math.floor(i / actions)]);
  const left = b.map((row, i) => row.map((value, j) => value - kappa[i] * phi[i][j])),
    x = overActions(mu, left, actions);
  return {
    kappa,
    rho,
    b,
    x,
    weight: rule.values === "action" ? pi.map(() => 1) : rho,
    emphasis: rule.emphatic ? 1 - lam : 0,
  };
}

// A, b, M and C of a rule: ΦᵀΞW (I − γP_κ)⁻¹ applied to [γP_b Φ − Φ, r, γP_x Φ].
function system(problem, rule, gamma, lam) {
  const { basis, inside, pairs, actions } = problem,
    table = terms(problem, rule, lam),
    pick = (values) => pairs.map((i) => values[i]);
  const phi = product(pick(problem.phi), basis),
    b = product(pick(table.b), basis),
    x = product(
      inside.map((s) => table.x[s]),
      basis,
    ),
    mu = pick(problem.mu),
    kappa = pick(table.kappa),
    r = pick(problem.r),
    p = phi[0].length,
    flow = pairs.map((i) => inside.map((t) => gamma * problem.staying[i][t]));
  const ahead = product(flow, overActions(mu, b, actions)),
    corrected = product(flow, x);
  const y = ahead.map((row, i) => [
    ...row.map((value, j) => value - phi[i][j]),
    r[i],
    ...corrected[i],
  ]);
  const carried = mu.map((m, i) => m * kappa[i]);
  const K = overActions(carried, flow, actions),
    back = solve(
      matrix(K.length, K.length, (i, j) => (i === j) - K[i][j]),
      overActions(carried, y, actions),
    );
  const more = product(flow, back),
    z = y.map((row, i) => row.map((value, j) => value + more[i][j]));
  const visits = pick(problem.visits),
    weight = pick(meanWeight(problem, table, flow)),
    scaled = matrix(p, pairs.length, (j, i) => phi[i][j] * visits[i] * weight[i]),
    products = product(scaled, z);
  return {
    A: products.map((row) => row.slice(0, p)),
    b: products.map((row) => row[p]),
    C: transpose(products.map((row) => row.slice(p + 1))),
    M: problem.M,
  };
}

// The weight w of a pair times its mean emphasis 1 − share + share·f(s)/d(s).
function meanWeight({ pi, d, inside, pairs, actions }, { weight, emphasis }, flow) {
  if (!emphasis) return weight;
  const G = overActions(
      pairs.map((i) => pi[i]),
      flow,
      actions,
    ),
    f = solve(
      matrix(inside.length, inside.length, (i, j) => (i === j) - G[j][i]),
      inside.map((s) => [d[s]]),
    ),
    mean = new Array(d.length).fill(0);
  for (const [k, s] of inside.entries()) mean[s] = 1 - emphasis + (emphasis * f[k][0]) / d[s];
  return weight.map((w, i) => w * mean[Math.floor(i / actions)]);
}

// G of the expected update (θ − θ*, ω) += diag(α, β) G (θ − θ*, ω); only θ without a dual variable.
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

// Eigenvalues of the expected update, and the smallest unstable α at this β/α. In null directions of
// the features only ω can move, and only by the shrinking of a regularised form.
function update({ basis }, linear, form, alpha, beta) {
  const p = linear.b.length,
    ratio = beta / alpha,
    G = generator(linear, form).map((row, i) => row.map((x) => (i < p ? 1 : ratio) * x)),
    idle = form.dual && form.shrink ? basis.length - p : 0;
  const g = [...eigenvalues(G), ...range(idle).map(() => [-ratio * form.shrink, 0])];
  const map = g.map(([x, y]) => [1 + alpha * x, alpha * y]);
  return {
    map,
    radius: Math.max(...map.map(([x, y]) => Math.hypot(x, y))),
    limit: Math.max(0, Math.min(...g.map(([x, y]) => (-2 * x) / (x * x + y * y)))),
  };
}

// Iterations that are recorded: the first hundred, then about two hundred.
function recorder(steps, points = 200) {
  const every = Math.max(1, Math.round(steps / points));
  return (t) => t < 100 || t % every === 0 || t === steps;
}

// ½(Aθ + b)ᵀM⁻¹(Aθ + b).
function mspbe({ A, b }, inverse, theta) {
  const residual = times(A, theta).map((x, i) => x + b[i]);
  return 0.5 * times(inverse, residual).reduce((sum, x, i) => sum + x * residual[i], 0);
}

const BOUND = 1e60;

// The expected iterates; they stop once θ leaves the bound.
function iterate(linear, form, { alpha, beta, steps, theta0, inverse }) {
  const G = generator(linear, form),
    p = theta0.length,
    constant = G.map((_, i) => (i < p ? form.td : form.dual) * linear.b[i % p]),
    isRecorded = recorder(steps),
    recorded = [];
  let both = [...theta0, ...new Array(G.length - p).fill(0)]; // θ and ω
  for (let t = 0; t <= steps; t++) {
    const theta = both.slice(0, p);
    if (isRecorded(t)) recorded.push({ step: t, mspbe: mspbe(linear, inverse, theta), theta });
    if (t === steps || theta.some((x) => !(Math.abs(x) < BOUND))) break;
    const change = times(G, both);
    both = both.map((x, i) => x + (i < p ? alpha : beta) * (change[i] + constant[i]));
  }
  return recorded;
}
