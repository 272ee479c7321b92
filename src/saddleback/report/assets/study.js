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

async function drawCurves() {
  const metric = byId("metric").value,
    type = byId("y-axis").value,
    log = type === "log";
  const spec = withRules(structuredClone(held.charts.curves));
  shown.curves = curveRows(metric);
  const best = drawable(shown.curves, "best"),
    ends = best.flatMap((row) => [row.low, row.high]);
  const low = Math.min(...ends),
    high = Math.max(...ends);
  spec.data.values = structuredClone(best);
  spec.layer[2].data.values = structuredClone(drawable(shown.curves, "chosen"));
  const points = best.map((row) => row.point),
    none = !ends.length;
  const up = log ? [low / 1.2, high * 1.2] : [Math.min(0, low), high * 1.04 || 1];
  const across = [Math.min(...points), Math.max(...points)];
  for (const layer of spec.layer) {
    Object.assign(layer.encoding.y, axis(type, up, held.metrics[metric]));
    Object.assign(layer.encoding.x, axis(byId("x-axis").value, across, unit()));
  }
  spec.params[0].value = lit;
  byId("curves").hidden = none;
  if (!none) await draw("curves", spec);
  const order = bestRows(metric)
    .filter((row) => finite(row["at the end"]))
    .sort((x, y) => x["at the end"] - y["at the end"]);
  byId("curves-words").textContent = order.length
    ? `Least ${held.metrics[metric]} at the end: ${order[0].rule}, ${short(order[0]["at the end"], 3)}` +
      (order.length > 1
        ? `; most: ${order.at(-1).rule}, ${short(order.at(-1)["at the end"], 3)}`
        : "") +
      (none ? ": a logarithmic axis cannot show it." : ".")
    : "Every setting that is chosen diverged: there is no curve.";
}

// Colours reach from the least to where the worst fifth begins.
function colours(cells) {
  const ends = cells
    .map((row) => row.final)
    .filter(finite)
    .sort((x, y) => x - y);
  if (!ends.length) return { type: "linear", domain: [0, 1] };
  const log = ends[0] > 0,
    high = ends[Math.floor(0.8 * (ends.length - 1))];
  return {
    type: log ? "log" : "linear",
    domain: [ends[0], Math.max(high, log ? ends[0] * 1.01 : ends[0] + 1e-12)],
  };
}

async function drawMaps() {
  const metric = byId("metric").value,
    seen = visible();
  shown.cells = cellRows(metric);
  const own = byId("colours").value === "own",
    whole = colours(shown.cells);
  byId("scale-low").textContent = own ? "least of the rule" : short(whole.domain[0], 3);
  byId("scale-high").textContent = own
    ? "the worst fifth of its settings"
    : `${short(whole.domain[1], 3)} and more`;
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
    spec.data.values = shown.cells
      .filter((row) => row.rule === each.rule)
      .map((row) => ({ ...row, x: short(row.alpha), y: short(row.second) }));
    spec.encoding.x.scale = { domain: each.alphas.map((x) => short(x)) };
    spec.encoding.y.scale = { domain: [...each.seconds].reverse().map((x) => short(x)) };
    spec.encoding.y.title = each.second;
    Object.assign(spec.layer[0].encoding.color.scale, own ? colours(spec.data.values) : whole);
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
  const near = ends.length ? ends[0] / 1.2 : 1,
    far = ends.length ? Math.max(100 * ends[Math.floor(0.9 * (ends.length - 1))], ends[0] * 2) : 2;
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
  const half = visible()
    .map((each) => ({
      rule: each.rule,
      kept: each.diverged.filter((x) => !x).length,
      of: each.diverged.length,
    }))
    .sort((x, y) => x.kept - y.kept);
  byId("grid-words").textContent = half.length
    ? `Fewest settings survive with ${half[0].rule}: ${half[0].kept} of ${half[0].of}.`
    : "";
}

function drawTables() {
  const metric = byId("metric").value;
  Object.assign(shown, { best: bestRows(metric), gone: goneRows(), diverged: divergedRows() });
  for (const name of ["best", "gone"]) fillTable(byId(name), shown[name]);
  for (const table of document.querySelectorAll("table[data-rows]"))
    if (table.closest("details").open) fillTable(table, shown[table.dataset.rows]);
}

let busy = Promise.resolve();

function refresh() {
  busy = busy.then(async () => {
    document.body.dataset.ready = "no";
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
  byId("pick-none").addEventListener("click", () => pick(null));
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
