// The explorer: read the controls, compute, show. All numbers of what is shown are in `state`.
const names = ["gamma", "lam", "alpha", "beta"];
const state = { rules: {} };
const loci = new Map();
window.explorer = { state, system, eigenvalues, iterate, update, generator, held };

function value(name) {
  const x = Number(byId(name).value);
  return name === "alpha" || name === "beta" ? Number((10 ** x).toPrecision(3)) : x;
}

function title(rule, lam) {
  return rule.traced ? `${rule.title}(${short(lam, 3)})` : `${rule.title}(0)`;
}

// Only rules for the values that the problem's features describe.
function listRules() {
  const values = held.problems[byId("problem").value].values;
  const fitting = Object.values(held.rules).filter((rule) => rule.values === values);
  for (const [k, name] of ["one", "two"].entries()) {
    const list = byId(name),
      before = list.value;
    list.replaceChildren(
      ...fitting.map((rule) => {
        const option = document.createElement("option");
        option.value = rule.name;
        option.textContent = `${rule.title}(${rule.traced ? "λ" : "0"})`;
        return option;
      }),
    );
    list.value = fitting.some((rule) => rule.name === before) ? before : fitting[k].name;
  }
  byId("problem-words").textContent = held.problems[byId("problem").value].words;
}

// Where the eigenvalues of A are for every γ.
function locus(name, rule, lam) {
  const key = `${name} ${rule.name} ${lam}`;
  if (!loci.has(key)) {
    if (loci.size > 40) loci.clear();
    const count = held.problems[name].phi[0].length > 8 ? 24 : 60;
    loci.set(
      key,
      range(count + 1).flatMap((k) => {
        const gamma = (0.999 * k) / count;
        return eigenvalues(system(held.problems[name], rule, gamma, lam).A).map(([re, im]) => ({
          gamma,
          re,
          im,
        }));
      }),
    );
  }
  return loci.get(key);
}

function compute() {
  const [gamma, lam, alpha, beta] = names.map(value),
    name = byId("problem").value;
  const problem = held.problems[name],
    steps = Number(byId("steps").value);
  Object.assign(state, { problem: name, gamma, lam, alpha, beta, steps });
  for (const place of ["one", "two"]) {
    const rule = held.rules[byId(place).value],
      found = system(problem, rule, gamma, lam);
    const A = eigenvalues(found.A),
      p = found.b.length;
    const star = solve(
      found.A,
      found.b.map((x) => [-x]),
    ).map((row) => row[0]);
    const options = { alpha, beta, steps, theta0: problem.theta0, inverse: problem.inverse };
    state.rules[place] = {
      rule: rule.name,
      name: title(rule, lam),
      system: found,
      spectrum: A,
      star,
      offline: Math.max(0, Math.min(...A.map(([x, y]) => (-2 * x) / (x * x + y * y)))),
      ...update(generator(found, rule.form), p, alpha, beta),
      iterates: iterate(found, rule.form, options),
      locus: locus(name, rule, lam),
      form: rule.form,
    };
  }
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
      ? `Rightmost eigenvalue of A: ${short(lead)}. Off-line updates${would} converge for α < ${short(offline)}.`
      : `Rightmost eigenvalue of A: +${short(lead)}. Off-line updates${would} diverge for every α${mended}.`;
  const end = iterates[iterates.length - 1],
    how = form.dual ? `at this β/α for α < ${short(limit)}` : `for α < ${short(limit)}`;
  byId(`step-${place}`).textContent =
    `An error is multiplied by ${short(radius, 5)} a step in the end; ` +
    `${limit > 0 ? `it converges ${how}` : "no α helps"}. ` +
    `MSPBE after ${end.step.toLocaleString("en")} steps: ${short(end.mspbe, 3)}.`;
}

// Weights as the problem has them, from those on the span of its features.
function weights(problem, theta) {
  return problem.basis.map(
    (row, i) => problem.outside[i] + row.reduce((sum, x, j) => sum + x * theta[j], 0),
  );
}

async function showCharts() {
  const both = Object.entries(state.rules);
  const points = (field) =>
    both.flatMap(([rule, each]) =>
      each[field].map(([re, im]) => ({ re, im, rule, name: each.name })),
    );
  const far = both.flatMap(([rule, each]) => each.locus.map((point) => ({ ...point, rule })));
  const xs = far.map((point) => point.re),
    low = Math.min(-0.05, ...xs),
    high = Math.max(0.05, ...xs);
  const reach = 1.15 * Math.max(0.25 * (high - low), ...far.map((point) => Math.abs(point.im)));
  const margin = 0.08 * (high - low);
  views.spectrum
    .signal("left", low - margin)
    .signal("right", high + 3 * margin)
    .signal("reach", reach);
  views.spectrum.data("locus", far).data("eigenvalues", points("spectrum"));
  views.map.data("eigenvalues", points("map"));
  const wide = views.map.width() / views.map.height();
  const gone = points("map").filter(
    ({ re, im }) =>
      Math.abs(re) > 1.3 * Math.max(1, wide) || Math.abs(im) > 1.3 * Math.max(1, 1 / wide),
  ).length;
  byId("outside").textContent = gone ? `Beyond the picture: ${gone}.` : "";
  showIterates(both);
  await Promise.all(Object.values(views).map((view) => view.runAsync()));
}

function showIterates(both) {
  const rows = both.flatMap(([rule, each]) =>
    each.iterates.map(({ step, mspbe }) => ({
      step,
      mspbe: Math.max(mspbe, 1e-18),
      rule,
      name: each.name,
    })),
  );
  const first = rows[0].mspbe,
    seen = rows.map((row) => row.mspbe);
  views.errors
    .signal("low", Math.max(1e-16 * first, Math.min(first, ...seen) / 2))
    .signal("high", 2 * Math.min(1e6 * first, Math.max(...seen)));
  views.errors.data("iterates", rows);
  const problem = held.problems[state.problem],
    [i, j] = problem.shown;
  const at = (theta) => {
    const w = weights(problem, theta);
    return { x: w[i], y: w[j] };
  };
  const marks = [
    { what: "start", ...at(problem.theta0) },
    { what: "fixed point", ...at(state.rules.two.star) },
  ];
  const near = ({ x, y }) => Math.abs(x) + Math.abs(y) < 1e6;
  const path = both.flatMap(([rule, each]) =>
    each.iterates
      .map(({ step, theta }) => ({ step, rule, name: each.name, ...at(theta) }))
      .filter(near),
  );
  for (const axis of ["x", "y"]) {
    const [low, high] = [
      Math.min(...marks.map((m) => m[axis])),
      Math.max(...marks.map((m) => m[axis])),
    ];
    const pad = Math.max(0.5, high - low);
    views.path.signal(`${axis}0`, low - pad).signal(`${axis}1`, high + pad);
  }
  views.path.data("path", path).data("marks", marks);
  byId("path-words").textContent =
    `Weights ${i + 1} (across) and ${j + 1} (up) of ${problem.basis.length}, from the circle; + is the fixed point of ${state.rules.two.name}.`;
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
        const all = weights(held.problems[state.problem], theta);
        return { step, mspbe, ...Object.fromEntries(all.map((x, k) => [`θ_${k + 1}`, x])) };
      }),
    ),
};

function showNumbers() {
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
    held.rules[each.rule].traced ? `sb.${each.rule}(${state.lam})` : `sb.${each.rule}()`;
  return [
    "import saddleback as sb",
    "",
    `problem = sb.problems.${made}`,
    ...[one, two].flatMap((each) => [
      `system = sb.System.exact(problem, ${rule(each)})`,
      "print(system.spectrum)",
      `sb.iterate(system, alpha=${state.alpha}, ${each.form.dual ? `beta=${state.beta}, ` : ""}steps=${state.steps}, theta0=1.0)`,
    ]),
  ].join("\n");
}

let drawing = null,
  again = false;

async function refresh() {
  for (const name of names) {
    byId(`${name}-said`).textContent = short(value(name), 3);
    byId(name).setAttribute("aria-valuetext", short(value(name), 3));
  }
  if (drawing) {
    again = true;
    return drawing;
  }
  drawing = (async () => {
    do {
      again = false;
      compute();
      say("one");
      say("two");
      showNumbers();
      await showCharts();
    } while (again);
    drawing = null;
  })();
  return drawing;
}

function follow(step) {
  const set = held.tour[step].set;
  byId("problem").value = set.problem;
  listRules();
  for (const name of ["one", "two", "gamma", "lam", "steps"]) byId(name).value = set[name];
  for (const name of ["alpha", "beta"]) byId(name).value = Math.log10(set[name]);
  byId("tour-words").textContent = held.tour[step].words;
  for (const [k, button] of document.querySelectorAll(".step").entries())
    button.setAttribute("aria-pressed", String(k === step));
  return refresh();
}

async function begin() {
  for (const name of Object.keys(held.charts)) await draw(name, held.charts[name]);
  for (const [k, button] of document.querySelectorAll(".step").entries())
    button.addEventListener("click", () => follow(k));
  byId("problem").addEventListener("input", listRules);
  for (const name of ["problem", "one", "two", "steps", ...names]) {
    byId(name).addEventListener("input", () => {
      for (const button of document.querySelectorAll(".step"))
        button.setAttribute("aria-pressed", "false");
      refresh();
    });
  }
  for (const button of document.querySelectorAll("[data-csv]")) {
    const name = button.dataset.csv;
    button.addEventListener("click", () => download(`${name}.csv`, asCsv(tables[name]())));
  }
  await follow(1);
  document.body.dataset.ready = "yes";
}

begin();
