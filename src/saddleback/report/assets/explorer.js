// The explorer: read the controls, compute, show. All numbers of what is shown are in `state`.
const names = ["gamma", "lam", "alpha", "beta"];
const state = { rules: {} };
const loci = new Map();
window.explorer = { state, system, eigenvalues, iterate, update, generator, pageData };

function value(name) {
  const x = Number(byId(name).value);
  return name === "alpha" || name === "beta" ? Number((10 ** x).toPrecision(3)) : x;
}

// Only rules for the values that the problem's features describe.
function listRules() {
  const values = pageData.problems[byId("problem").value].values;
  const fitting = Object.values(pageData.rules).filter((rule) => rule.values === values);
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
  byId("problem-words").textContent = pageData.problems[byId("problem").value].words;
}

// Where the eigenvalues of A are for every γ.
function locus(name, rule, lam) {
  const key = `${name} ${rule.name} ${lam}`;
  if (!loci.has(key)) {
    if (loci.size > 40) loci.clear();
    const count = pageData.problems[name].phi[0].length > 8 ? 24 : 60;
    loci.set(
      key,
      range(count + 1).flatMap((k) => {
        const gamma = (0.999 * k) / count;
        return eigenvalues(system(pageData.problems[name], rule, gamma, lam).A).map(([re, im]) => ({
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
  const problem = pageData.problems[name],
    steps = Number(byId("steps").value);
  Object.assign(state, { problem: name, gamma, lam, alpha, beta, steps });
  for (const place of ["one", "two"]) {
    const rule = pageData.rules[byId(place).value],
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
  const problem = pageData.problems[state.problem],
    [i, j] = problem.shown;
  const at = (theta) => {
    const w = weights(problem, theta);
    return { x: w[i], y: w[j] };
  };
  const { one, two } = state.rules,
    marks = [
      { what: "start", ...at(problem.theta0) },
      { what: "fixed point", ...at(one.star) },
      { what: "fixed point", ...at(two.star) },
    ];
  const room = {};
  for (const axis of ["x", "y"]) {
    const ends = marks.map((mark) => mark[axis]),
      [low, high] = [Math.min(...ends), Math.max(...ends)],
      pad = Math.max(0.5, high - low);
    room[axis] = [low - pad, high + pad];
    views.path.signal(`${axis}0`, low - pad).signal(`${axis}1`, high + pad);
  }
  // A path ends where it has left the picture far behind: a line of a million pixels has no dashes.
  const far = (point) =>
    ["x", "y"].some((axis) => {
      const [low, high] = room[axis];
      return Math.abs(point[axis] - (low + high) / 2) > 20 * (high - low);
    });
  const path = both.flatMap(([rule, each]) => {
    const points = each.iterates.map(({ step, theta }) => ({
      step,
      rule,
      name: each.name,
      ...at(theta),
    }));
    const gone = points.findIndex(far);
    return gone < 0 ? points : points.slice(0, gone);
  });
  views.path.data("path", path).data("marks", marks);
  const same = Math.hypot(marks[1].x - marks[2].x, marks[1].y - marks[2].y) < 1e-6;
  byId("path-words").textContent =
    `Weights ${i + 1} (across) and ${j + 1} (up) of ${problem.basis.length}, from the circle; ` +
    (same ? "+ is the fixed point of both." : `each + is the fixed point of one of the two.`);
}

let drawing = null,
  stale = false;

async function refresh() {
  for (const name of names) {
    byId(`${name}-said`).textContent = formatNumber(value(name), 3);
    byId(name).setAttribute("aria-valuetext", formatNumber(value(name), 3));
  }
  if (drawing) {
    stale = true;
    return drawing;
  }
  drawing = (async () => {
    do {
      stale = false;
      compute();
      say("one");
      say("two");
      showNumbers();
      await showCharts();
    } while (stale);
    drawing = null;
  })();
  return drawing;
}

function showStep(step) {
  const set = pageData.tour[step].set;
  byId("problem").value = set.problem;
  listRules();
  for (const name of ["one", "two", "gamma", "lam", "steps"]) byId(name).value = set[name];
  for (const name of ["alpha", "beta"]) byId(name).value = Math.log10(set[name]);
  byId("tour-words").textContent = pageData.tour[step].words;
  for (const [k, button] of document.querySelectorAll(".step").entries())
    button.setAttribute("aria-pressed", String(k === step));
  return refresh();
}

async function start() {
  for (const name of Object.keys(pageData.charts)) await draw(name, pageData.charts[name]);
  for (const [k, button] of document.querySelectorAll(".step").entries())
    button.addEventListener("click", () => showStep(k));
  byId("problem").addEventListener("input", listRules);
  for (const name of ["problem", "one", "two", "steps", ...names]) {
    byId(name).addEventListener("input", () => {
      for (const button of document.querySelectorAll(".step"))
        button.setAttribute("aria-pressed", "false");
      byId("tour-words").textContent = "Moved by hand. A button goes back to its step.";
      refresh();
    });
  }
  for (const button of document.querySelectorAll("[data-csv]")) {
    const name = button.dataset.csv;
    button.addEventListener("click", () => download(`${name}.csv`, toCsv(tables[name]())));
  }
  await showStep(1);
  document.body.dataset.ready = "yes";
}

start();
