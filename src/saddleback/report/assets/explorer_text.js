// Sentences, tables and Python code of the explorer.
function ruleTitle(rule, lam) {
  return rule.traced ? `${rule.title}(${formatNumber(lam, 3)})` : `${rule.title}(0)`;
}

function showCard(place) {
  const { name, radius } = state.rules[place],
    converges = radius < 1;
  byId(`name-${place}`).textContent = name;
  byId(`card-${place}`).className = `card ${converges ? "good" : "bad"}`;
  byId(`outcome-${place}`).textContent = converges ? "✓ converges in expectation" : "✕ diverges";
  byId(`offline-${place}`).textContent = offlineText(state.rules[place]);
  byId(`rate-${place}`).textContent = rateText(state.rules[place]);
  byId(`sampled-${place}`).textContent = sampledText(state.rules[place]);
  byId(`sampled-${place}`).hidden = !state.sampled;
}

// The rightmost eigenvalue of A, its meaning without ω, and the effect of ω.
function offlineText({ spectrum, offline, radius, limit, form }) {
  const lead = spectrum[0][0],
    sign = lead < 0 ? "" : "+",
    first = `Rightmost eigenvalue of A: ${sign}${formatNumber(lead)}.`;
  const subject = form.dual ? "Without ω, updates would" : "Updates";
  if (lead < 0)
    return `${first} ${subject} converge for α < ${formatNumber(offline)}.`;
  const without = `${first} ${subject} diverge for every α`;
  if (!form.dual) return `${without}.`;
  if (radius < 1) return `${without}; the auxiliary weights ω stabilise them.`;
  return limit > 0
    ? `${without}; the auxiliary weights ω stabilise them only for smaller steps.`
    : `${without}; at this β/α the auxiliary weights ω do not stabilise them.`;
}

function rateText({ radius, limit, form, iterates }) {
  const ratio = form.dual ? " at this β/α" : "",
    verb = radius < 1 ? "shrink" : "grow",
    stable = limit > 0 ? `stable${ratio} for α < ${formatNumber(limit)}` : `no α is stable${ratio}`,
    end = iterates.at(-1);
  return (
    `Errors ${verb} by a factor ${factor(radius)} per step; ${stable}. ` +
    `MSPBE after ${end.step.toLocaleString("en")} steps: ${formatNumber(end.mspbe, 3)}.` +
    (radius >= 1 && end.mspbe < iterates[0].mspbe
      ? " So far the growing component is small."
      : "")
  );
}

function sampledText({ sampled, radius }) {
  if (!sampled) return "";
  const end = sampled.at(-1),
    stopped = end.step < state.steps ? " (stopped: it diverged)" : "",
    grew = radius < 1 && !(end.mspbe < sampled[0].mspbe);
  return (
    `One sampled run (seed ${state.seed}): MSPBE ${formatNumber(end.mspbe, 3)} after ` +
    `${end.step.toLocaleString("en")} steps${stopped}.` +
    (grew ? " A single run can diverge although its mean converges." : "")
  );
}

// A number close to 1 as its distance from 1.
function factor(x) {
  const distance = x - 1;
  if (distance === 0 || Math.abs(distance) >= 1e-3) return formatNumber(x, 5);
  return `1 ${distance < 0 ? "−" : "+"} ${formatNumber(Math.abs(distance), 3)}`;
}

function rowsByRule(rows) {
  return Object.values(state.rules).flatMap((result) =>
    rows(result).map((row) => ({ rule: result.name, ...row })),
  );
}

function complexColumns([re, im]) {
  return { "real part": re, "imaginary part": im, modulus: Math.hypot(re, im) };
}

function runRows(points, weightsOf) {
  return points.map(({ step, mspbe, theta }) => {
    const weights = weightsOf(theta).map((x, k) => [`θ_${k + 1}`, x]);
    return { step, mspbe, ...Object.fromEntries(weights) };
  });
}

// Rows of the charts, by the name of a CSV file.
const tables = {
  eigenvalues: () =>
    rowsByRule((result) => [
      ...result.spectrum.map((z) => ({ of: "A", ...complexColumns(z) })),
      ...result.map.map((z) => ({ of: "update", ...complexColumns(z) })),
    ]),
  "for-every-γ": () =>
    rowsByRule((result) =>
      result.locus.map(({ gamma, re, im }) => ({ γ: gamma, ...complexColumns([re, im]) })),
    ),
  iterates: () =>
    rowsByRule(({ iterates }) => runRows(iterates, (theta) => fullWeights(state.problem, theta))),
  "sampled-run": () =>
    rowsByRule(({ sampled }) =>
      runRows(sampled ?? [], (theta) => theta).map((row) => ({ seed: state.seed, ...row })),
    ),
};

function showNumbers() {
  const { gamma, x, y, lam, alpha, beta } = state;
  byId("print-text").textContent =
    `Shown: ${byId("problem").selectedOptions[0].textContent}, γ = ${gamma}, x = ${x}, ` +
    `y = ${y}, λ = ${lam}, α = ${alpha}, β = ${beta}.`;
  fillTable(byId("numbers"), tables.eigenvalues());
  byId("python").textContent = pythonCode();
  for (const note of document.querySelectorAll(".sampled-note"))
    note.textContent = state.sampled ? `Thin lines: one sampled run, seed ${state.seed}.` : "";
}

const CONSTRUCTORS = {
  two_state: "two_state(γ, rewards=[[1, -1], [0.5, 2]])",
  baird: 'baird(γ, features="classic")',
  baird_paper: "baird(γ)",
  random_walk: 'random_walk(γ, features="dependent", target_right=0.9)',
  random_mdp: "random_mdp(γ, rng=1)",
};

// Lines that interpolate the problem, as far as x and y are below 1.
function interpolationCode() {
  const { x, y } = state;
  if (x === 1 && y === 1) return [];
  const lines = [`x, y = ${x}, ${y}`, "behaviour = (1 - x) * problem.target + x * problem.behaviour"];
  if (y === 1)
    return [
      ...lines,
      "problem = sb.Problem(problem.mdp, problem.features, problem.target, behaviour)",
    ];
  const acting =
    state.problem.values === "action"
      ? "np.repeat(problem.mdp.acting, problem.mdp.n_actions)"
      : "problem.mdp.acting";
  return [
    ...lines,
    `table = np.eye(len(problem.Phi))[:, ${acting}]`,
    "columns = max(table.shape[1], problem.p)",
    "features = np.zeros((len(problem.Phi), columns))",
    "features[:, :table.shape[1]] += (1 - y) * table",
    "features[:, :problem.p] += y * problem.Phi",
    "features = features.reshape(*problem.features.shape[:-1], columns)",
    "problem = sb.Problem(problem.mdp, features, problem.target, behaviour)",
  ];
}

function pythonCode() {
  const { one, two } = state.rules;
  const rule = (result) =>
    pageData.rules[result.rule].traced
      ? `sb.${result.rule}(${state.lam})`
      : `sb.${result.rule}()`;
  return [
    ...(state.y < 1 ? ["import numpy as np"] : []),
    "import saddleback as sb",
    "",
    `problem = sb.problems.${CONSTRUCTORS[state.problemName].replace("γ", String(state.gamma))}`,
    ...interpolationCode(),
    ...[one, two].flatMap((result) => {
      const steps = `alpha=${state.alpha}${result.form.dual ? `, beta=${state.beta}` : ""}`;
      return [
        "",
        `system = sb.System.exact(problem, ${rule(result)})`,
        `run = sb.iterate(system, ${steps}, steps=${result.iterates.at(-1).step}, theta0=1.0${result.radius < 1 ? "" : ", bound=1e290"})`,
        "print(system.spectrum)",
        `print(sb.MeanStability(system).radius(${steps}))`,
        'print(run.curves["mspbe"][-1])',
      ];
    }),
  ].join("\n");
}
