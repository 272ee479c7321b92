// Draw each figure, fill its table when it is opened, and offer its rows as CSV.
async function drawFigure(id, change = (spec) => spec) {
  const { spec, rows } = structuredClone(pageData.figures[id]);
  for (const encoding of Object.values(spec.encoding ?? {}))
    if (encoding.scale?.type === "log") setLogTicks(encoding, rows);
  return draw(id, change({ ...spec, data: { name: "rows", values: rows } }));
}

function setLogTicks(encoding, rows) {
  const values = rows.map((row) => row[encoding.field]).filter((x) => x > 0);
  if (values.length) encoding.axis = logAxis([Math.min(...values), Math.max(...values)]);
}

// Change the scale of an axis. 0 has no logarithm: such rows are omitted.
function setScale(spec, axis, type, rows) {
  const encoding = spec.layer[0].encoding[axis];
  if (type === "log") {
    spec.layer[0].transform = [{ filter: `datum['${encoding.field}'] > 0` }];
    encoding.scale = { type, nice: false };
    setLogTicks(encoding, rows);
  } else if (type === "symlog") {
    const { constant } = spec.usermeta,
      right = Math.max(...rows.map((row) => row[encoding.field]));
    encoding.scale.domain[1] = right > 0 ? 2 * right : 3 * constant;
    Object.assign(encoding.scale, { type, constant });
    encoding.axis = { values: symlogTicks(encoding.scale), labelExpr: "powerOfTen(datum.value)" };
  }
  return spec;
}

// Ticks of an axis that is logarithmic on both sides of 0: a few powers of ten.
function symlogTicks({ domain: [low, high], constant }) {
  const first = Math.ceil(Math.log10(constant)),
    last = Math.floor(Math.log10(Math.max(-low, high))),
    stride = Math.max(1, Math.ceil((last - first) / 4));
  const tens = range(Math.floor((last - first) / stride) + 1).map((k) => 10 ** (last - k * stride));
  return [...tens.map((x) => -x), 0, ...tens].filter((x) => x >= low && x <= high);
}

async function start() {
  const drawWithScale = (list) => {
    const id = list.dataset.chart;
    return drawFigure(id, (spec) =>
      setScale(spec, list.dataset.axis, list.value, pageData.figures[id].rows),
    );
  };
  const scales = [...document.querySelectorAll("select[data-axis]")],
    scaled = new Set(scales.map((list) => list.dataset.chart));
  await Promise.all([
    ...Object.keys(pageData.figures)
      .filter((id) => !scaled.has(id))
      .map((id) => drawFigure(id)),
    ...scales.map(drawWithScale),
  ]);
  for (const list of scales) list.addEventListener("input", () => drawWithScale(list));
  for (const list of document.querySelectorAll("select[data-signal]")) {
    list.addEventListener("input", () =>
      views[list.dataset.chart].signal(list.dataset.signal, list.value).runAsync(),
    );
  }
  offerRows((id) => pageData.figures[id].rows);
  document.body.dataset.ready = "yes";
}

start();
