// What a study page shows: the controls that select it, and the rows of charts and tables.

// The λ of the rules on the selected problem.
function listLambdas() {
  const list = byId("lam"),
    before = list.value,
    problem = byId("problem").value;
  const lambdas = pageData.results
    .filter((result) => result.problem === problem && result.lam !== null)
    .map((result) => result.lam);
  const values = [...new Set(lambdas)].sort((x, y) => x - y).map(String);
  list.replaceChildren(
    ...["", ...values].map((lam) => {
      const option = document.createElement("option");
      option.value = lam;
      option.textContent = lam === "" ? "all" : formatNumber(Number(lam), 12);
      return option;
    }),
  );
  list.value = values.includes(before) ? before : "";
}

function listSettings() {
  const visible = visibleResults();
  if (selected && !visible.some((result) => result.rule === selected.rule)) selected = null;
  const index = visible.findIndex((result) => selected && result.rule === selected.rule),
    result = visible[index];
  fillList(byId("selected-rule"), ["none", ...visible.map((other) => other.rule)], index + 1);
  const columns = result ? result.omegaSteps.length : 1;
  fillList(
    byId("selected-alpha"),
    result ? result.alphas.map((x) => formatNumber(x, 3)) : [],
    result && Math.floor(selected.cell / columns),
  );
  fillList(
    byId("selected-omega"),
    result && result.omegaName ? result.omegaSteps.map((x) => formatNumber(x, 3)) : [],
    result && selected.cell % columns,
  );
  byId("selected-omega-name").textContent = (result && result.omegaName) || "β";
}

function fillList(list, labels, index) {
  list.replaceChildren(
    ...labels.map((label, k) => {
      const option = document.createElement("option");
      option.value = String(k);
      option.textContent = label;
      return option;
    }),
  );
  list.value = String(Math.max(0, index));
  list.disabled = !labels.length;
}

// A rule is selected with its best setting, if it has one.
function selectFromLists(event) {
  const result = visibleResults()[Number(byId("selected-rule").value) - 1];
  if (!result) return select(null);
  if (event.target.id === "selected-rule") {
    const best = result.best[byId("metric").value];
    return select(result.rule, best ? best.cell : 0);
  }
  const row = Number(byId("selected-alpha").value),
    column = Number(byId("selected-omega").value);
  return select(result.rule, row * result.omegaSteps.length + column);
}

// Select one setting, or none, by mouse in a map or by the lists above the maps.
async function select(rule, cell) {
  selected = rule === null ? null : { rule, cell };
  listSettings();
  for (const map of maps)
    map.view.signal("selected", selected && map.rule === rule ? cell : -1).runAsync();
  await drawCurves();
  drawTables();
  byId("selected-text").textContent = selectedText();
}

function highlight(rule) {
  highlighted = rule;
  for (const id of ["curves", "distribution"])
    if (views[id]) views[id].signal("highlighted", rule).runAsync();
  outlineMap();
}

function outlineMap() {
  for (const figure of document.querySelectorAll("#maps figure"))
    figure.classList.toggle(
      "highlighted",
      highlighted !== "" && figure.dataset.mapRule === highlighted,
    );
}

// Results of the rules that are checked, on the selected problem, with the selected λ.
function visibleResults() {
  const lam = byId("lam").value,
    problem = byId("problem").value;
  const checked = new Set(
    [...document.querySelectorAll("[data-rule]")]
      .filter((box) => box.checked)
      .map((box) => box.dataset.rule),
  );
  return pageData.results.filter(
    (result) =>
      result.problem === problem &&
      checked.has(result.rule) &&
      (lam === "" || result.lam === Number(lam)),
  );
}

function selectedResult() {
  const problem = byId("problem").value;
  return (
    selected &&
    pageData.results.find((result) => result.problem === problem && result.rule === selected.rule)
  );
}

function stepSizes(result, cell) {
  return {
    alpha: result.alphas[Math.floor(cell / result.omegaSteps.length)],
    omega: result.omegaSteps[cell % result.omegaSteps.length],
  };
}

// The step sizes of a cell as columns: α, β and β/α as far as visible rules have them.
function stepColumns(result, cell) {
  const { alpha, omega } = cell === null ? {} : stepSizes(result, cell),
    names = [...new Set(visibleResults().map((other) => other.omegaName))].filter(Boolean);
  return {
    α: alpha ?? null,
    ...Object.fromEntries(
      names.map((name) => [name, name === result.omegaName ? (omega ?? null) : null]),
    ),
  };
}

function context(metric) {
  return { problem: byId("problem").value, ...(metric ? { metric } : {}) };
}

function unit() {
  return pageData.units[byId("problem").value];
}

function isFiniteNumber(x) {
  return x !== null && Number.isFinite(x);
}

function curveRows(metric) {
  return [...bestCurves(metric), ...selectedCurve(metric)];
}

function bestCurves(metric) {
  return visibleResults().flatMap((result) => {
    const best = result.best[metric];
    if (!best) return [];
    return best.points
      .map((point, k) => ({
        ...context(metric),
        rule: result.rule,
        setting: "best",
        ...stepColumns(result, best.cell),
        point,
        median: best.medianCurve[k],
        lower: best.lowerCurve[k],
        upper: best.upperCurve[k],
      }))
      .filter((row) => isFiniteNumber(row.median) && isFiniteNumber(row.upper));
  });
}

function selectedCurve(metric) {
  const result = selectedResult();
  if (!result) return [];
  const values = unpack(result.curves[metric]),
    size = result.diverged.length;
  return result.points
    .map((point, k) => ({
      ...context(metric),
      rule: result.rule,
      setting: "selected",
      ...stepColumns(result, selected.cell),
      point,
      median: values[k * size + selected.cell],
    }))
    .filter((row) => isFiniteNumber(row.median));
}

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

// The smallest value on a logarithmic axis; smaller ones, and 0, are drawn below it.
function logFloor(values) {
  const positive = values.filter((x) => isFiniteNumber(x) && x > 0);
  return positive.length
    ? Math.max(Math.min(...positive), 1e-16 * Math.max(...positive))
    : 1;
}

// Rules whose lines coincide within 1%, as lists of names.
function coinciding(rows, x, y) {
  const byRule = new Map(),
    groups = [];
  for (const row of rows) byRule.set(row.rule, [...(byRule.get(row.rule) ?? []), row]);
  const same = (one, two) =>
    one.length === two.length &&
    one.every((row, k) =>
      [x, y].every((field) => {
        const size = Math.abs(row[field]) + Math.abs(two[k][field]);
        return Math.abs(row[field] - two[k][field]) <= 0.5e-2 * size;
      }),
    );
  for (const [rule, line] of byRule) {
    const group = groups.find((other) => same(byRule.get(other[0]), line));
    if (group) group.push(rule);
    else groups.push([rule]);
  }
  return groups;
}

// Of lines that coincide, each is narrower than the one below it, so that all colours are visible.
function withWidths(rows, groups) {
  const widths = Object.fromEntries(
    groups.flatMap((group) =>
      group.map((rule, k) => [rule, 2.2 + 3 * (group.length - 1 - k)]),
    ),
  );
  return rows
    .map((row) => ({ ...row, width: widths[row.rule] }))
    .sort((one, two) => two.width - one.width);
}

function cellRows(metric) {
  return visibleResults().flatMap((result) =>
    result.diverged.map((diverged, cell) => {
      const final = diverged ? null : result.final[metric][cell];
      return {
        ...context(metric),
        rule: result.rule,
        cell,
        ...stepColumns(result, cell),
        final,
        diverged,
        label: diverged ? "diverged" : formatNumber(final),
      };
    }),
  );
}

function distributionRows(metric) {
  return visibleResults().flatMap((result) => {
    const ends = result.final[metric]
      .filter((x, cell) => isFiniteNumber(x) && !result.diverged[cell])
      .sort((x, y) => x - y);
    return ends.map((value, k) => ({
      ...context(metric),
      rule: result.rule,
      value,
      count: k + 1,
      of: result.diverged.length,
      share: (k + 1) / result.diverged.length,
    }));
  });
}

function bestRows(metric) {
  return visibleResults().map((result) => {
    const best = result.best[metric],
      several = best && result.runs > 1;
    return {
      rule: result.rule,
      "final mean": best ? best.mean : null,
      median: several ? best.median : null,
      "lower quartile": several ? best.lower : null,
      "upper quartile": several ? best.upper : null,
      ...stepColumns(result, best ? best.cell : null),
      runs: result.runs,
      settings: result.diverged.length,
      diverged: result.diverged.filter((x) => x > 0).length,
    };
  });
}

function divergenceRows() {
  return visibleResults().map((result) => {
    const cells = range(result.diverged.length),
      unstable = cells.filter((cell) => result.diverged[cell] > 0);
    const alphas = unstable.map((cell) => stepSizes(result, cell).alpha);
    const stable = result.alphas.filter((alpha) => !alphas.includes(alpha));
    return {
      rule: result.rule,
      diverged: unstable.length,
      settings: cells.length,
      "smallest diverging α": unstable.length ? Math.min(...alphas) : null,
      "largest stable α": stable.length ? Math.max(...stable) : null,
      "first update": unstable.length
        ? Math.min(...unstable.map((cell) => result.firstDivergence[cell]))
        : null,
    };
  });
}

function divergedRows() {
  return visibleResults().flatMap((result) =>
    range(result.diverged.length)
      .filter((cell) => result.diverged[cell] > 0)
      .map((cell) => ({
        ...context(),
        rule: result.rule,
        ...stepColumns(result, cell),
        "diverged runs": result.diverged[cell],
        runs: result.runs,
        "first update": result.firstDivergence[cell],
      })),
  );
}
