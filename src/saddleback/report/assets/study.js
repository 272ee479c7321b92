// A study: controls choose rows; charts, tables and CSV show the same rows.
const shown = {};
const maps = [];
let picked = null,
  lit = "";

function withRules(spec) {
  const names = Object.keys(held.rules);
  const walk = (node) => {
    if (!node || typeof node !== "object") return;
    for (const [key, found] of Object.entries(node)) {
      if (key === "color" && found.field === "rule")
        found.scale = { domain: names, range: names.map((name) => held.rules[name].colour) };
      else if (key === "strokeDash" && found.field === "rule")
        found.scale = { domain: names, range: names.map((name) => held.rules[name].dash) };
      else walk(found);
    }
  };
  walk(spec);
  return spec;
}

// Ticks of a logarithmic axis: powers of ten, and where these are few also twice and five times.
function logTicks([low, high]) {
  const all = range(Math.ceil(Math.log10(high)) - Math.floor(Math.log10(low)) + 1).map(
    (k) => 10 ** (k + Math.floor(Math.log10(low))),
  );
  const within = (x) => x >= low * 0.999 && x <= high * 1.001,
    tens = all.filter(within);
  const step = Math.ceil(tens.length / 8);
  return tens.length > 2
    ? tens.filter((x, k) => k % step === 0)
    : all.flatMap((x) => [x, 2 * x, 5 * x]).filter(within);
}

function axis(type, domain, title) {
  const ticks = type === "log" ? { values: logTicks(domain), format: "~g" } : {};
  return { title, scale: { type, nice: false, domain }, axis: ticks };
}

// How far the axis of a metric reaches: over the best curves, and over the one that was chosen as
// far as a thousand times beyond them.
function reach(rows, log) {
  const ends = (setting) =>
    rows
      .filter((row) => row.setting === setting)
      .flatMap((row) => [row.low ?? row.middle, row.high ?? row.middle]);
  const best = ends("best"),
    chosen = ends("chosen"),
    all = [...best, ...chosen];
  if (!all.length) return null;
  const most = best.length ? 1000 * Math.max(...best) : Infinity,
    high = Math.max(...all.filter((x) => x <= most));
  if (!log) return [Math.min(0, ...all), high * 1.04 || 1];
  const low = floorOf(all);
  return high > 0 ? [low / 1.2, high * 1.2] : null;
}

// Rows as the axes show them; 0 has no logarithm, and stands below the picture.
function drawn(rows, setting, log, [low]) {
  const later = byId("x-axis").value === "log";
  const up = (x) => (log && x !== undefined ? Math.max(x, low / 10) : x);
  return rows
    .filter((row) => row.setting === setting && (!later || row.point > 0))
    .map((row) => ({ ...row, middle: up(row.middle), low: up(row.low), high: up(row.high) }));
}

async function drawCurves() {
  const metric = byId("metric").value,
    type = byId("y-axis").value,
    log = type === "log";
  const spec = withRules(structuredClone(held.charts.curves));
  shown.curves = curveRows(metric);
  const up = reach(shown.curves, log);
  byId("curves").hidden = up === null;
  if (up !== null) {
    const best = drawn(shown.curves, "best", log, up),
      chosen = drawn(shown.curves, "chosen", log, up),
      points = [...best, ...chosen].map((row) => row.point);
    spec.data.values = best;
    spec.layer[2].data.values = chosen;
    const across = [Math.min(...points), Math.max(...points)];
    for (const layer of spec.layer) {
      Object.assign(layer.encoding.y, axis(type, up, held.metrics[metric]));
      Object.assign(layer.encoding.x, axis(byId("x-axis").value, across, unit()));
    }
    spec.params[0].value = lit;
    await draw("curves", spec);
  }
  byId("curves-words").textContent = curveWords(metric, up);
}

// Colours reach from the least to where the worst fifth begins.
function colours(cells) {
  const ends = cells
    .map((row) => row.final)
    .filter(finite)
    .sort((x, y) => x - y);
  const some = ends.filter((x) => x > 0);
  if (!some.length) return { type: "linear", domain: [0, 1], none: !ends.length, less: false };
  const high = some[Math.floor(0.8 * (some.length - 1))],
    low = Math.max(some[0], 1e-16 * high);
  return {
    type: "log",
    domain: [low, Math.max(high, low * 1.01)],
    none: false,
    less: ends[0] < low,
  };
}

async function drawMaps() {
  const metric = byId("metric").value,
    seen = visible();
  shown.cells = cellRows(metric);
  const own = byId("colours").value === "own",
    whole = colours(shown.cells);
  byId("scale").hidden = whole.none;
  byId("scale-low").textContent = own
    ? "least of the rule"
    : short(whole.domain[0], 3) + (whole.less ? " and less" : "");
  byId("scale-high").textContent = own
    ? "the worst fifth of its settings"
    : `${short(whole.domain[1], 3)} and more, ${whole.type === "log" ? "logarithmic" : "linear"}`;
  for (const map of maps.splice(0)) {
    map.view.finalize();
    delete views[map.name];
  }
  byId("maps").replaceChildren(
    ...seen.map((each, k) => {
      const figure = document.createElement("figure"),
        head = document.createElement("h3"),
        place = document.createElement("div");
      const gone = each.diverged.filter((x) => x > 0).length,
        words = document.createElement("figcaption");
      head.textContent = each.rule;
      place.className = "chart";
      place.id = `map-${k}`;
      words.textContent = gone ? `${gone} of ${each.diverged.length} diverged.` : "None diverged.";
      figure.append(head, place, words);
      figure.dataset.of = each.rule;
      return figure;
    }),
  );
  for (const [k, each] of seen.entries()) {
    const spec = structuredClone(held.charts.map),
      name = `map-${k}`;
    const mine = shown.cells.filter((row) => row.rule === each.rule),
      { type, domain } = own ? colours(mine) : whole,
      label = (x) => (each.second ? short(x) : "");
    spec.data.values = mine.map((row) => {
      const { alpha, second } = ofCell(each, row.cell);
      const shade = finite(row.final) ? Math.max(row.final, domain[0]) : null;
      return { ...row, x: short(alpha), y: label(second), shade };
    });
    spec.encoding.x.scale = { domain: each.alphas.map((x) => short(x)) };
    spec.encoding.y.scale = { domain: [...each.seconds].reverse().map(label) };
    spec.encoding.y.title = each.second || null;
    Object.assign(spec.layer[0].encoding.color.scale, { type, domain });
    spec.params[0].value = picked && picked.rule === each.rule ? picked.cell : -1;
    const view = await draw(name, spec);
    view.addEventListener("click", (event, item) => {
      if (item && item.datum && item.datum.cell !== undefined) pick(each.rule, item.datum.cell);
    });
    maps.push({ name, view, rule: each.rule });
  }
  mark();
}

async function drawGrid() {
  const metric = byId("metric").value,
    spec = withRules(structuredClone(held.charts.grid));
  shown.steps = stepRows(metric);
  const ends = shown.steps
    .map((row) => row.value)
    .filter((value) => value > 0)
    .sort((x, y) => x - y);
  const least = visible().map((each) => shown.steps.find((row) => row.rule === each.rule)),
    near = floorOf(ends) / 1.2,
    far = Math.max(
      100 * (ends[Math.floor(0.9 * (ends.length - 1))] ?? 1),
      ...least.map((row) => 2 * (row?.value ?? 0)), // so that no rule is missing
    );
  const within = shown.steps
    .filter((row) => row.value <= far)
    .map((row) => ({ ...row, value: Math.max(row.value, near) })); // 0 is left of any such axis
  const last = within
    .filter((row, k) => k + 1 === within.length || within[k + 1].rule !== row.rule)
    .map((row) => ({ ...row, value: far }));
  spec.data.values = [...structuredClone(within), ...last];
  spec.params[0].value = lit;
  Object.assign(spec.encoding.x, axis("log", [near, far], `${held.metrics[metric]} at the end`));
  byId("grid").hidden = !within.length;
  if (within.length) await draw("grid", spec);
  byId("grid-words").textContent = survivors();
}

function drawTables() {
  const metric = byId("metric").value;
  const best = bestRows(metric);
  for (const [name, rows] of [
    ["best", best],
    ["gone", goneRows()],
  ])
    fillTable(byId(name), rows);
  shown.best = best.map((row) => ({ ...about(metric), ...row }));
  shown.diverged = divergedRows();
  for (const table of document.querySelectorAll("table[data-rows]"))
    if (table.closest("details").open) fillTable(table, shown[table.dataset.rows]);
}

// The λ of the rules on the chosen problem.
function listLambdas() {
  const list = byId("lam"),
    before = list.value,
    here = held.learned.filter((each) => each.problem === byId("problem").value);
  const found = [...new Set(here.map((each) => each.lam).filter((lam) => lam !== null))].sort(
    (x, y) => x - y,
  );
  list.replaceChildren(
    ...["", ...found.map(String)].map((lam) => {
      const option = document.createElement("option");
      option.value = lam;
      option.textContent = lam === "" ? "all" : short(Number(lam), 12);
      return option;
    }),
  );
  list.value = found.map(String).includes(before) ? before : "";
  const say = (name) => byId(name).selectedOptions[0].textContent;
  byId("shown-words").textContent =
    `Shown: problem ${say("problem")}, ${say("metric")}, λ ${say("lam")}.`;
}

let busy = Promise.resolve();

function refresh() {
  busy = busy.then(async () => {
    document.body.dataset.ready = "no";
    listLambdas();
    listPicks();
    await drawCurves();
    await drawMaps();
    await drawGrid();
    drawTables();
    sayPicked();
    document.body.dataset.ready = "yes";
  });
  return busy;
}

function begin() {
  for (const label of document.querySelectorAll(".rule")) {
    const box = label.querySelector("input"),
      { colour, dash } = held.rules[box.dataset.rule],
      line = label.querySelector("line");
    line.style.stroke = colour;
    line.setAttribute("stroke-dasharray", dash[1] ? dash.join(" ") : "none");
    label.addEventListener("mouseenter", () => light(box.dataset.rule));
    label.addEventListener("mouseleave", () => light(""));
    box.addEventListener("focus", () => light(box.dataset.rule));
    box.addEventListener("blur", () => light(""));
    box.addEventListener("input", refresh);
  }
  for (const name of ["problem", "metric", "lam", "y-axis", "x-axis", "colours"])
    byId(name).addEventListener("input", refresh);
  for (const name of ["pick-rule", "pick-alpha", "pick-second"])
    byId(name).addEventListener("input", fromLists);
  for (const details of document.querySelectorAll("details")) {
    const table = details.querySelector("table[data-rows]");
    if (table)
      details.addEventListener("toggle", () => {
        if (details.open) fillTable(table, shown[table.dataset.rows]);
      });
  }
  for (const button of document.querySelectorAll("[data-csv]"))
    button.addEventListener("click", () =>
      download(`${button.dataset.csv}.csv`, asCsv(shown[button.dataset.csv])),
    );
  refresh();
}

begin();
