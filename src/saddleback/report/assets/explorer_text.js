// What the explorer says of its numbers, and how they are taken away.
function title(rule, lam) {
  return rule.traced ? `${rule.title}(${formatNumber(lam, 3)})` : `${rule.title}(0)`;
}

function say(place) {
  const { name, spectrum, offline, radius, limit, form, iterates } = state.rules[place];
  const lead = spectrum[0][0],
    works = radius < 1;
  byId(`name-${place}`).textContent = name;
  byId(`card-${place}`).className = `card ${works ? "good" : "bad"}`;
  byId(`word-${place}`).textContent = works
    ? "✓ converges with these steps"
    : "✕ diverges with these steps";
  const would = form.dual ? " along A alone would" : "",
    mended = form.dual && lead >= 0 ? "; ω, the second weights, mends that" : "";
  byId(`a-${place}`).textContent =
    lead < 0
      ? `Rightmost eigenvalue of A: ${formatNumber(lead)}. Off-line updates${would} converge for α < ${formatNumber(offline)}.`
      : `Rightmost eigenvalue of A: +${formatNumber(lead)}. Off-line updates${would} diverge for every α${mended}.`;
  const end = iterates[iterates.length - 1],
    ratio = form.dual ? " at this β/α" : "";
  byId(`step-${place}`).textContent =
    `An error is multiplied by ${factor(radius)} a step in the end; ` +
    `${limit > 0 ? `it converges${ratio} for α < ${formatNumber(limit)}` : `no α helps${ratio}`}. ` +
    `MSPBE after ${end.step.toLocaleString("en")} steps: ${formatNumber(end.mspbe, 3)}.` +
    (!works && end.mspbe < iterates[0].mspbe ? " So far it is ω that leaves." : "");
}

// A number close to 1 by how far it is from it.
function factor(x) {
  const off = x - 1;
  if (off === 0 || Math.abs(off) >= 1e-3) return formatNumber(x, 5);
  return `1 ${off < 0 ? "−" : "+"} ${formatNumber(Math.abs(off), 3)}`;
}

function eachRule(rows) {
  return Object.values(state.rules).flatMap((each) =>
    rows(each).map((row) => ({ rule: each.name, ...row })),
  );
}

function complex([re, im]) {
  return { "real part": re, "imaginary part": im, modulus: Math.hypot(re, im) };
}

// What the charts show, as rows, by the name of a file.
const tables = {
  eigenvalues: () =>
    eachRule((each) => [
      ...each.spectrum.map((z) => ({ of: "A", ...complex(z) })),
      ...each.map.map((z) => ({ of: "update", ...complex(z) })),
    ]),
  "for-every-γ": () =>
    eachRule((each) => each.locus.map(({ gamma, re, im }) => ({ γ: gamma, ...complex([re, im]) }))),
  iterates: () =>
    eachRule((each) =>
      each.iterates.map(({ step, mspbe, theta }) => {
        const all = weights(pageData.problems[state.problem], theta);
        return { step, mspbe, ...Object.fromEntries(all.map((x, k) => [`θ_${k + 1}`, x])) };
      }),
    ),
};

function showNumbers() {
  const { gamma, lam, alpha, beta } = state;
  byId("shown-words").textContent =
    `Shown: ${byId("problem").selectedOptions[0].textContent}, γ = ${gamma}, λ = ${lam}, ` +
    `α = ${alpha}, β = ${beta}.`;
  fillTable(byId("numbers"), tables.eigenvalues());
  byId("python").textContent = python();
}

function python() {
  const { one, two } = state.rules,
    name = state.problem;
  const made = {
    two_state: "two_state(γ, rewards=[[1, -1], [0.5, 2]])",
    baird: 'baird(γ, features="classic")',
    baird_paper: "baird(γ)",
    random_walk: 'random_walk(γ, features="dependent", target_right=0.9)',
    random_mdp: "random_mdp(γ, rng=1)",
  }[name].replace("γ", String(state.gamma));
  const rule = (each) =>
    pageData.rules[each.rule].traced ? `sb.${each.rule}(${state.lam})` : `sb.${each.rule}()`;
  return [
    "import saddleback as sb",
    "",
    `problem = sb.problems.${made}`,
    ...[one, two].flatMap((each) => {
      const steps = `alpha=${state.alpha}${each.form.dual ? `, beta=${state.beta}` : ""}`;
      return [
        "",
        `system = sb.System.exact(problem, ${rule(each)})`,
        `run = sb.iterate(system, ${steps}, steps=${each.iterates.at(-1).step}, theta0=1.0${each.radius < 1 ? "" : ", bound=1e290"})`,
        "print(system.spectrum)",
        `print(sb.MeanStability(system).radius(${steps}))`,
        'print(run.curves["mspbe"][-1])',
      ];
    }),
  ].join("\n");
}
