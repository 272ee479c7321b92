// The explorer: read the controls, compute, show. `state` holds the numbers that are shown.
const SLIDER_NAMES = ["gamma", "x", "y", "lam", "alpha", "beta"];
const LIST_NAMES = ["problem", "one", "two", "steps"];
const LOGARITHMIC = ["alpha", "beta"];
const state = { rules: {} };
const loci = new Map();
window.explorer = {
  state,
  pageData,
  interpolate,
  system,
  eigenvalues,
  iterate,
  update,
  sampleExperience,
  learnFrom,
};

function sliderValue(name) {
  const value = Number(byId(name).value);
  return LOGARITHMIC.includes(name) ? Number((10 ** value).toPrecision(3)) : value;
}

function seedValue() {
  const seed = Math.trunc(Number(byId("seed").value));
  return Number.isFinite(seed) ? Math.min(Math.max(seed, 0), 2 ** 32 - 1) : 0;
}

// List the rules for the kind of values that the problem's features describe.
function listRules() {
  const problem = pageData.problems[byId("problem").value];
  const fitting = Object.values(pageData.rules).filter((rule) => rule.values === problem.values);
  for (const [k, place] of ["one", "two"].entries()) {
    const list = byId(place),
      before = list.value;
    list.replaceChildren(
      ...fitting.map((rule) => new Option(`${rule.title}(${rule.traced ? "λ" : "0"})`, rule.name)),
    );
    list.value = fitting.some((rule) => rule.name === before) ? before : fitting[k].name;
  }
  byId("problem-text").textContent = `${problem.title}. ${problem.text}`;
}

// Eigenvalues of A for a range of γ.
function locus(key, problem, rule, lam) {
  const fullKey = `${key} ${rule.name} ${lam}`;
  if (!loci.has(fullKey)) {
    if (loci.size > 40) loci.clear();
    const size = problem.basis[0].length,
      count = size > 12 ? 16 : size > 8 ? 24 : 60;
    loci.set(
      fullKey,
      range(count + 1).flatMap((k) => {
        const gamma = (0.999 * k) / count;
        return eigenvalues(system(problem, rule, gamma, lam).A).map(([re, im]) => ({
          gamma,
          re,
          im,
        }));
      }),
    );
  }
  return loci.get(fullKey);
}

function compute() {
  for (const name of SLIDER_NAMES) state[name] = sliderValue(name);
  const { gamma, lam, x, y, alpha, beta } = state,
    problemName = byId("problem").value,
    problem = interpolate(pageData.problems[problemName], x, y),
    steps = Number(byId("steps").value),
    seed = seedValue(),
    sampled = byId("sampled").checked,
    experience = sampled && sampleExperience(problem, gamma, steps, seed);
  Object.assign(state, { problemName, problem, steps, seed, sampled });
  for (const place of ["one", "two"]) {
    const rule = pageData.rules[byId(place).value],
      linear = system(problem, rule, gamma, lam),
      spectrum = eigenvalues(linear.A),
      sizes = { alpha, beta },
      options = { ...sizes, steps, theta0: problem.theta0, inverse: problem.inverse };
    state.rules[place] = {
      rule: rule.name,
      name: ruleTitle(rule, lam),
      system: linear,
      spectrum,
      fixedPoint: solve(
        linear.A,
        linear.b.map((value) => [-value]),
      ).map((row) => row[0]),
      offline: Math.max(0, Math.min(...spectrum.map(([re, im]) => (-2 * re) / (re * re + im * im)))),
      ...update(problem, linear, rule.form, alpha, beta),
      iterates: iterate(linear, rule.form, options),
      sampled: sampled ? learnFrom(experience, problem, rule, lam, linear, sizes) : null,
      locus: locus(`${problemName} ${x} ${y}`, problem, rule, lam),
      form: rule.form,
    };
  }
}

// Weights of the features, from weights in the basis of their span.
function fullWeights(problem, theta) {
  return problem.basis.map(
    (row, i) => problem.outside[i] + row.reduce((sum, value, j) => sum + value * theta[j], 0),
  );
}

async function showCharts() {
  const results = Object.entries(state.rules);
  const points = (field) =>
    results.flatMap(([rule, result]) =>
      result[field].map(([re, im]) => ({ re, im, rule, name: result.name })),
    );
  const dots = results.flatMap(([rule, result]) =>
    result.locus.map((point) => ({ ...point, rule })),
  );
  const reals = dots.map((point) => point.re),
    low = Math.min(-0.05, ...reals),
    high = Math.max(0.05, ...reals),
    margin = 0.08 * (high - low);
  const height = Math.max(0.25 * (high - low), ...dots.map((point) => Math.abs(point.im)));
  views.spectrum
    .signal("left", low - margin)
    .signal("right", high + 3 * margin)
    .signal("height_", 1.15 * height);
  views.spectrum.data("locus", dots).data("eigenvalues", points("spectrum"));
  views.map.data("eigenvalues", points("map"));
  const shape = views.map.width() / views.map.height();
  const outside = points("map").filter(
    ({ re, im }) =>
      Math.abs(re) > 1.3 * Math.max(1, shape) || Math.abs(im) > 1.3 * Math.max(1, 1 / shape),
  ).length;
  byId("outside").textContent = outside ? `Outside the chart: ${outside}.` : "";
  showErrors(results);
  showPath(results);
  await Promise.all(Object.values(views).map((view) => view.runAsync()));
}

// Runs of both rules: the expected one, and the sampled one if there is one.
function runs(results) {
  return results.flatMap(([rule, result]) => [
    { rule, name: result.name, run: "expected", points: result.iterates },
    ...(result.sampled
      ? [{ rule, name: result.name, run: "sampled", points: result.sampled }]
      : []),
  ]);
}

function showErrors(results) {
  const rows = runs(results).flatMap(({ rule, name, run, points }) =>
    points
      .filter(({ mspbe }) => Number.isFinite(mspbe))
      .map(({ step, mspbe }) => ({ step, mspbe: Math.max(mspbe, 1e-18), rule, name, run })),
  );
  const first = rows[0].mspbe,
    values = rows.map((row) => row.mspbe);
  views.errors
    .signal("low", Math.max(1e-16 * first, Math.min(first, ...values) / 2))
    .signal("high", 2 * Math.min(1e6 * first, Math.max(...values)));
  views.errors.data("iterates", rows);
}

function showPath(results) {
  const problem = state.problem,
    [i, j] = problem.shown,
    pick = (weights) => ({ x: weights[i], y: weights[j] }),
    project = (theta) => pick(fullWeights(problem, theta)),
    { one, two } = state.rules;
  const marks = [
    { label: "start", ...pick(problem.fullTheta0) },
    { label: "fixed point", ...project(one.fixedPoint) },
    { label: "fixed point", ...project(two.fixedPoint) },
  ];
  const limits = {};
  for (const axis of ["x", "y"]) {
    const ends = marks.map((mark) => mark[axis]),
      [low, high] = [Math.min(...ends), Math.max(...ends)],
      pad = Math.max(0.5, high - low);
    limits[axis] = [low - pad, high + pad];
    views.path.signal(`${axis}0`, low - pad).signal(`${axis}1`, high + pad);
  }
  // A path ends far outside the chart: dashes of a line of a million pixels take long to draw.
  const isFar = (point) =>
    ["x", "y"].some((axis) => {
      const [low, high] = limits[axis];
      return !(Math.abs(point[axis] - (low + high) / 2) <= 20 * (high - low));
    });
  const path = runs(results).flatMap(({ rule, name, run, points }) => {
    const line = points.map(({ step, theta }) => ({
      step,
      rule,
      name,
      run,
      ...(run === "sampled" ? pick(theta) : project(theta)),
    }));
    const end = line.findIndex(isFar);
    return end < 0 ? line : line.slice(0, end);
  });
  views.path.data("path", path).data("marks", marks);
  const same = Math.hypot(marks[1].x - marks[2].x, marks[1].y - marks[2].y) < 1e-6;
  byId("path-text").textContent =
    `Weights ${i + 1} (across) and ${j + 1} (up) of ${problem.basis.length}, from the circle to ` +
    (same ? "the fixed point of both (+)." : "the fixed point of each (+).");
}

// The setting as the fragment of the address, and back.
function settingText() {
  const setting = new URLSearchParams();
  for (const name of LIST_NAMES) setting.set(name, byId(name).value);
  for (const name of SLIDER_NAMES) setting.set(name, String(sliderValue(name)));
  if (byId("sampled").checked) setting.set("seed", String(seedValue()));
  return setting.toString();
}

function applySetting(setting) {
  const choose = (name) => {
    const options = [...byId(name).options].map((option) => option.value);
    if (options.includes(setting.get(name))) byId(name).value = setting.get(name);
  };
  choose("problem");
  listRules();
  for (const name of ["one", "two", "steps"]) choose(name);
  for (const name of SLIDER_NAMES) {
    const text = setting.get(name) ?? "",
      value = LOGARITHMIC.includes(name) ? Math.log10(Number(text)) : Number(text);
    if (text.trim() !== "" && Number.isFinite(value)) byId(name).value = String(value);
  }
  byId("sampled").checked = setting.has("seed");
  if (setting.has("seed")) {
    byId("seed").value = setting.get("seed");
    byId("seed").value = String(seedValue());
  }
}

let drawing = null,
  stale = false;

async function refresh() {
  for (const name of SLIDER_NAMES) {
    const text = formatNumber(sliderValue(name), 3);
    byId(`${name}-value`).textContent = text;
    byId(name).setAttribute("aria-valuetext", text);
  }
  window.history.replaceState(null, "", `#${settingText()}`);
  if (drawing) {
    stale = true;
    return drawing;
  }
  document.body.dataset.ready = "no";
  drawing = (async () => {
    do {
      stale = false;
      compute();
      showCard("one");
      showCard("two");
      showNumbers();
      await showCharts();
    } while (stale);
    drawing = null;
    document.body.dataset.ready = "yes";
  })();
  return drawing;
}

function pressStep(step, text) {
  for (const [k, button] of document.querySelectorAll(".step").entries())
    button.setAttribute("aria-pressed", String(k === step));
  byId("tour-text").textContent = text;
}

function showStep(step) {
  const { set, text } = pageData.tour[step],
    setting = new URLSearchParams(set);
  if (byId("sampled").checked) setting.set("seed", String(seedValue()));
  applySetting(setting);
  pressStep(step, text);
  return refresh();
}

function showAddress() {
  const setting = new URLSearchParams(window.location.hash.slice(1));
  if (![...LIST_NAMES, ...SLIDER_NAMES].some((name) => setting.has(name))) return false;
  applySetting(setting);
  pressStep(-1, "Setting from the address. The buttons show the steps of the tour.");
  return true;
}

async function start() {
  for (const name of Object.keys(pageData.charts)) await draw(name, pageData.charts[name]);
  for (const [k, button] of document.querySelectorAll(".step").entries())
    button.addEventListener("click", () => showStep(k));
  byId("problem").addEventListener("input", listRules);
  for (const name of [...LIST_NAMES, ...SLIDER_NAMES, "seed", "sampled"])
    byId(name).addEventListener("input", () => {
      if (!["seed", "sampled"].includes(name))
        pressStep(-1, "Your own setting. The buttons show the steps of the tour.");
      refresh();
    });
  offerRows((name) => tables[name]());
  window.addEventListener("hashchange", () => {
    if (showAddress()) refresh();
  });
  listRules();
  applySetting(new URLSearchParams(pageData.tour[1].set)); // for what an address leaves out
  if (showAddress()) refresh();
  else showStep(1);
}

start();
