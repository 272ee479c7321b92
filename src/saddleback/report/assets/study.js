// A study: controls select rows; charts, tables and CSV show the same rows.
const tables = {};
const maps = [];
let selected = null,
  highlighted = "";

function axis(type, domain, title, options = {}) {
  const ticks = type === "log" ? logAxis(domain) : { tickCount: 6, ...options };
  return { title, scale: { type, nice: false, domain }, axis: ticks };
}

// Domain of the metric axis: all best curves, and the selected one up to 1000 times above them.
function metricDomain(rows, log) {
  const ends = (setting) =>
    rows
      .filter((row) => row.setting === setting)
      .flatMap((row) => [row.lower ?? row.median, row.upper ?? row.median]);
  const best = ends("best"),
    all = [...best, ...ends("selected")];
  if (!all.length) return null;
  const limit = best.length ? 1000 * Math.max(...best) : Infinity,
    high = Math.max(...all.filter((x) => x <= limit));
  if (!log) return [Math.min(0, ...all), high * 1.04 || 1];
  const low = logFloor(all);
  return high > 0 ? [low / 1.2, high * 1.2] : null;
}

// Rows as the axes show them: 0 has no logarithm and is drawn below the axis.
function clipped(rows, setting, log, [low]) {
  const logTime = byId("x-axis").value === "log";
  const clip = (x) => (log && x !== undefined ? Math.max(x, low / 10) : x);
  return rows
    .filter((row) => row.setting === setting && (!logTime || row.point > 0))
    .map((row) => ({
      ...row,
      median: clip(row.median),
      lower: clip(row.lower),
      upper: clip(row.upper),
    }));
}

async function drawCurves() {
  const metric = byId("metric").value,
    type = byId("y-axis").value,
    log = type === "log";
  const spec = structuredClone(pageData.charts.curves);
  tables.curves = curveRows(metric);
  const domain = metricDomain(tables.curves, log);
  let groups = [];
  byId("curves").hidden = domain === null;
  if (domain !== null) {
    const best = clipped(tables.curves, "best", log, domain),
      chosen = clipped(tables.curves, "selected", log, domain),
      points = [...best, ...chosen].map((row) => row.point);
    groups = coinciding(best, "point", "median");
    spec.data.values = withWidths(best, groups);
    spec.layer[2].data.values = chosen;
    const time = [Math.min(...points), Math.max(...points)];
    for (const layer of spec.layer) {
      Object.assign(layer.encoding.y, axis(type, domain, pageData.metrics[metric]));
      Object.assign(
        layer.encoding.x,
        axis(byId("x-axis").value, time, unit(), { format: ",d", tickMinStep: 1 }),
      );
    }
    spec.params[0].value = highlighted;
    await draw("curves", spec);
  }
  byId("curves-text").textContent = curvesText(metric, domain, groups);
}

// Colours span the values from the lowest to where the worst fifth begins.
function colourScale(cells) {
  const ends = cells
    .map((row) => row.final)
    .filter(isFiniteNumber)
    .sort((x, y) => x - y);
  const positive = ends.filter((x) => x > 0);
  if (!positive.length)
    return { type: "linear", domain: [0, 1], empty: !ends.length, truncated: false };
  const high = positive[Math.floor(0.8 * (positive.length - 1))],
    low = Math.max(positive[0], 1e-16 * high);
  return {
    type: "log",
    domain: [low, Math.max(high, low * 1.01)],
    empty: false,
    truncated: ends[0] < low,
  };
}

function showColourScale({ type, domain, empty, truncated }, own) {
  byId("scale").hidden = empty;
  byId("scale-low").textContent = own
    ? "lowest of the rule"
    : (truncated ? "≤ " : "") + formatNumber(domain[0], 3);
  byId("scale-high").textContent = own
    ? "the worst fifth of its settings"
    : `≥ ${formatNumber(domain[1], 3)} (${type === "log" ? "log" : "linear"} scale)`;
}

function mapFigure(result, k) {
  const figure = document.createElement("figure"),
    heading = document.createElement("h3"),
    chart = document.createElement("div"),
    caption = document.createElement("figcaption"),
    diverged = result.diverged.filter((x) => x > 0).length;
  heading.textContent = result.rule;
  chart.className = "chart";
  chart.id = `map-${k}`;
  caption.textContent = diverged
    ? `${diverged} of ${result.diverged.length} diverged.`
    : "None diverged.";
  figure.append(heading, chart, caption);
  figure.dataset.mapRule = result.rule;
  return figure;
}

async function drawMaps() {
  const metric = byId("metric").value,
    visible = visibleResults();
  tables.cells = cellRows(metric);
  const own = byId("colours").value === "own",
    shared = colourScale(tables.cells);
  showColourScale(shared, own);
  for (const map of maps.splice(0)) {
    map.view.finalize();
    delete views[map.id];
  }
  byId("maps").replaceChildren(...visible.map(mapFigure));
  for (const [k, result] of visible.entries()) {
    const spec = structuredClone(pageData.charts.map),
      id = `map-${k}`,
      cells = tables.cells.filter((row) => row.rule === result.rule),
      { type, domain } = own ? colourScale(cells) : shared,
      rowOf = (omega) => (result.omegaName ? omega : "");
    spec.data.values = cells.map((row) => {
      const { alpha, omega } = stepSizes(result, row.cell),
        shade = isFiniteNumber(row.final) ? Math.max(row.final, domain[0]) : null;
      return { ...row, x: alpha, y: rowOf(omega), shade };
    });
    spec.height = Math.min(230, Math.max(44, 21 * result.omegaSteps.length));
    spec.encoding.x.scale = { domain: result.alphas };
    spec.encoding.y.scale = { domain: [...result.omegaSteps].reverse().map(rowOf) };
    spec.encoding.y.title = result.omegaName || null;
    for (const channel of ["x", "y"])
      spec.encoding[channel].axis.labelExpr = "shortNumber(datum.value)";
    Object.assign(spec.layer[0].encoding.color.scale, { type, domain });
    spec.params[0].value = selected && selected.rule === result.rule ? selected.cell : -1;
    const view = await draw(id, spec);
    view.addEventListener("click", (event, item) => {
      if (item && item.datum && item.datum.cell !== undefined)
        select(result.rule, item.datum.cell);
    });
    maps.push({ id, view, rule: result.rule });
  }
  outlineMap();
}

async function drawDistribution() {
  const metric = byId("metric").value,
    spec = structuredClone(pageData.charts.distribution);
  tables.distribution = distributionRows(metric);
  const ends = tables.distribution
    .map((row) => row.value)
    .filter((value) => value > 0)
    .sort((x, y) => x - y);
  const lowest = visibleResults().map((result) =>
      tables.distribution.find((row) => row.rule === result.rule),
    ),
    low = logFloor(ends) / 1.2,
    high = Math.max(
      100 * (ends[Math.floor(0.9 * (ends.length - 1))] ?? 1),
      ...lowest.map((row) => 2 * (row?.value ?? 0)), // every rule is visible
    );
  const within = tables.distribution
    .filter((row) => row.value <= high)
    .map((row) => ({ ...row, value: Math.max(row.value, low) })); // 0 is drawn at the left edge
  const last = within
    .filter((row, k) => k + 1 === within.length || within[k + 1].rule !== row.rule)
    .map((row) => ({ ...row, value: high }));
  const groups = coinciding(within, "value", "share");
  spec.data.values = withWidths([...structuredClone(within), ...last], groups);
  spec.params[0].value = highlighted;
  Object.assign(spec.encoding.x, axis("log", [low, high], `final ${pageData.metrics[metric]}`));
  byId("distribution").hidden = !within.length;
  if (within.length) await draw("distribution", spec);
  byId("distribution-text").textContent = distributionText(groups);
}

function drawTables() {
  const metric = byId("metric").value,
    best = bestRows(metric);
  fillTable(byId("best"), best);
  fillTable(byId("divergence"), divergenceRows());
  tables.best = best.map((row) => ({ ...context(metric), ...row }));
  tables.diverged = divergedRows();
  for (const table of document.querySelectorAll("table[data-rows]"))
    if (table.closest("details").open) fillTable(table, tables[table.dataset.rows]);
}

let busy = Promise.resolve();

function refresh() {
  busy = busy.then(async () => {
    document.body.dataset.ready = "no";
    listLambdas();
    const label = (id) => byId(id).selectedOptions[0].textContent;
    byId("print-text").textContent =
      `Shown: ${label("problem")}; ${label("metric")}; λ: ${label("lam")}.`;
    listSettings();
    await drawCurves();
    await drawMaps();
    await drawDistribution();
    drawTables();
    byId("selected-text").textContent = selectedText();
    document.body.dataset.ready = "yes";
  });
  return busy;
}

function start() {
  for (const label of document.querySelectorAll(".rule")) {
    const box = label.querySelector("input"),
      { colour, dash } = pageData.rules[box.dataset.rule],
      line = label.querySelector("line");
    line.style.stroke = colour;
    line.setAttribute("stroke-dasharray", dash[1] ? dash.join(" ") : "none");
    label.addEventListener("mouseenter", () => highlight(box.dataset.rule));
    label.addEventListener("mouseleave", () => highlight(""));
    box.addEventListener("focus", () => highlight(box.dataset.rule));
    box.addEventListener("blur", () => highlight(""));
    box.addEventListener("input", refresh);
  }
  for (const id of ["problem", "metric", "lam", "y-axis", "x-axis", "colours"])
    byId(id).addEventListener("input", refresh);
  for (const id of ["selected-rule", "selected-alpha", "selected-omega"])
    byId(id).addEventListener("input", selectFromLists);
  offerRows((name) => tables[name]);
  refresh();
}

start();
