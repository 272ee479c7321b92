// One sampled run: experience of μ drawn with a seed, and the on-line update of a rule on it.

// Uniform numbers in [0, 1) from a seed: xorshift with 128 bits of state (Marsaglia, 2003).
function uniformGenerator(seed) {
  let [x, y, z, w] = [seed >>> 0, 0x9e3779b9, 0x243f6a88, 0xb7e15162];
  const next = () => {
    const t = x ^ (x << 11);
    [x, y, z] = [y, z, w];
    w = (w ^ (w >>> 19) ^ t ^ (t >>> 8)) >>> 0;
    return w;
  };
  for (let k = 0; k < 40; k++) next();
  return () => ((next() >>> 5) * 2 ** 26 + (next() >>> 6)) / 2 ** 53;
}

// The index of a draw from a distribution.
function drawIndex(distribution, u) {
  let rest = u;
  for (const [k, probability] of distribution.entries()) {
    rest -= probability;
    if (rest < 0) return k;
  }
  return distribution.findLastIndex((probability) => probability > 0);
}

// Steps (S, A, R, S', A') with the discount of each, as the library's Experience.
function sampleExperience(problem, gamma, steps, seed) {
  const { actions, mu, P, ends, rewards, start } = problem,
    uniform = uniformGenerator(seed),
    act = (s) => drawIndex(mu.slice(s * actions, (s + 1) * actions), uniform()),
    experience = [];
  let s = drawIndex(start, uniform()),
    a = act(s),
    first = true;
  for (let t = 0; t < steps; t++) {
    const i = s * actions + a,
      next = drawIndex(P[i], uniform()),
      over = uniform() < ends[i][next],
      nextAction = over ? 0 : act(next);
    experience.push({
      state: s,
      action: a,
      reward: rewards[i][next],
      nextState: next,
      nextAction,
      discount: over ? 0 : gamma,
      start: first,
    });
    first = over;
    s = over ? drawIndex(start, uniform()) : next;
    a = over ? act(s) : nextAction;
  }
  return experience;
}

// θ ← θ + α(td·δe + saddle·(φ − γ'b)u − correction·γ'x u), ω ← ω + β(dual·δe − gram·(φᵀω)φ − shrink·ω)
// with e ← γκe + wφ, δ = R + γ'θᵀb − θᵀφ and u = eᵀω, from the old θ and ω.
function learnFrom(experience, problem, rule, lam, linear, { alpha, beta }) {
  const { actions, phi, basis, inverse } = problem,
    { kappa, rho, b, x, weight, emphasis } = terms(problem, rule, lam),
    { form } = rule,
    p = phi[0].length,
    steps = experience.length,
    isRecorded = recorder(steps),
    toSpan = transpose(basis),
    recorded = [];
  const dot = (one, two) => {
    let sum = 0;
    for (let j = 0; j < p; j++) sum += one[j] * two[j];
    return sum;
  };
  const theta = [...problem.fullTheta0],
    omega = new Array(p).fill(0),
    e = new Array(p).fill(0);
  let discount = 0,
    ratio = 0,
    follow = 0;
  for (let t = 0; t <= steps; t++) {
    if (isRecorded(t))
      recorded.push({
        step: t,
        mspbe: mspbe(linear, inverse, times(toSpan, theta)),
        theta: [...theta],
      });
    if (t === steps || theta.some((value) => !(Math.abs(value) < BOUND))) break;
    const step = experience[t],
      i = step.state * actions + step.action,
      next = step.nextState * actions + step.nextAction,
      f = phi[i],
      boot = b[next],
      corr = x[step.nextState];
    if (step.start) discount = 0;
    follow = discount * ratio * follow + 1;
    const c = discount * kappa[i],
      w = weight[i] * (1 - emphasis + emphasis * follow);
    for (let j = 0; j < p; j++) e[j] = c * e[j] + w * f[j];
    const delta = step.reward + step.discount * dot(theta, boot) - dot(theta, f),
      u = dot(e, omega),
      fOmega = dot(f, omega);
    for (let j = 0; j < p; j++) {
      theta[j] +=
        alpha *
        (form.td * delta * e[j] +
          form.saddle * (f[j] - step.discount * boot[j]) * u -
          form.correction * step.discount * corr[j] * u);
      omega[j] +=
        beta * (form.dual * delta * e[j] - form.gram * fOmega * f[j] - form.shrink * omega[j]);
    }
    discount = step.discount;
    ratio = rho[i];
  }
  return recorded;
}
