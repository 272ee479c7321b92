// Draw each figure, fill its table when it is opened, and hand its rows out as CSV.
async function drawFigure(name, change = (spec) => spec) {
  const { spec, rows } = held.figures[name];
  return draw(
    name,
    change({ ...structuredClone(spec), data: { name: "rows", values: structuredClone(rows) } }),
  );
}

// An axis of another type. Of 0 there is no logarithm: such rows are left out.
function setAxis(spec, axis, type) {
  const encoded = spec.layer[0].encoding[axis];
  if (type === "log") {
    spec.layer[0].transform = [{ filter: `datum['${encoded.field}'] > 0` }];
    encoded.scale = { type, nice: false };
  } else if (type === "symlog") {
    Object.assign(encoded.scale, { type, ...spec.usermeta });
    encoded.axis = { values: powers(encoded.scale), format: "~g" };
  }
  return spec;
}

// Ticks of an axis that is logarithmic to both sides of 0: every second power of ten.
function powers({ domain: [low, high], constant }) {
  const least = Math.ceil(Math.log10(constant)),
    most = Math.floor(Math.log10(Math.max(-low, high))),
    by = Math.max(1, Math.ceil((most - least) / 4));
  const tens = range(Math.floor((most - least) / by) + 1).map((k) => 10 ** (most - k * by));
  return [...tens.map((x) => -x), 0, ...tens].filter((x) => x >= low && x <= high);
}

async function begin() {
  await Promise.all(Object.keys(held.figures).map((name) => drawFigure(name)));
  for (const list of document.querySelectorAll("select[data-signal]")) {
    list.addEventListener("input", () =>
      views[list.dataset.chart].signal(list.dataset.signal, list.value).runAsync(),
    );
  }
  for (const list of document.querySelectorAll("select[data-axis]")) {
    list.addEventListener("input", () =>
      drawFigure(list.dataset.chart, (spec) => setAxis(spec, list.dataset.axis, list.value)),
    );
  }
  for (const table of document.querySelectorAll("table[data-rows]")) {
    table.closest("details").addEventListener("toggle", () => {
      if (!table.tBodies.length) fillTable(table, held.figures[table.dataset.rows].rows);
    });
  }
  for (const button of document.querySelectorAll("button[data-csv]")) {
    const { file, rows } = held.figures[button.dataset.csv];
    button.addEventListener("click", () => download(file, asCsv(rows)));
  }
  document.body.dataset.ready = "yes";
}

begin();
