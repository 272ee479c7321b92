// Draw each figure, fill its table when it is opened, and hand its rows out as CSV.
async function drawFigure(name, change = (spec) => spec) {
  const { spec, rows } = held.figures[name];
  return draw(
    name,
    change({ ...structuredClone(spec), data: { name: "rows", values: structuredClone(rows) } }),
  );
}

function setAxis(spec, axis, type) {
  if (type === "log") spec.layer[0].encoding[axis].scale = { type: "log", nice: false };
  return spec;
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
