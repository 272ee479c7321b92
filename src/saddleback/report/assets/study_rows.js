// What a study shows, as rows: those that the controls choose.
function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float64Array(bytes.buffer);
}

function visible() {
  const lam = byId("lam").value,
    problem = byId("problem").value;
  const on = new Set(
    [...document.querySelectorAll("[data-rule]")]
      .filter((box) => box.checked)
      .map((box) => box.dataset.rule),
  );
  return held.learned.filter(
    (each) =>
      each.problem === problem && on.has(each.rule) && (lam === "" || each.lam === Number(lam)),
  );
}

function ofCell(each, cell) {
  return {
    alpha: each.alphas[Math.floor(cell / each.seconds.length)],
    second: each.seconds[cell % each.seconds.length],
  };
}

// The step sizes of a cell as columns: those of all rules that are seen, empty where a rule has none.
function steps(each, cell) {
  const { alpha, second } = cell === null ? {} : ofCell(each, cell),
    names = [...new Set(visible().map((one) => one.second))].filter(Boolean);
  return {
    α: alpha ?? null,
    ...Object.fromEntries(
      names.map((name) => [name, name === each.second ? (second ?? null) : null]),
    ),
  };
}

function about(metric) {
  return { problem: byId("problem").value, ...(metric ? { metric } : {}) };
}

function unit() {
  return held.units[byId("problem").value];
}

function finite(x) {
  return x !== null && Number.isFinite(x);
}

// Curves as rows: of the best setting of each rule, then of the one that was chosen.
function curveRows(metric) {
  return [...bestCurves(metric), ...pickedCurve(metric)];
}

function bestCurves(metric) {
  return visible().flatMap((each) => {
    const best = each.best[metric];
    if (!best) return [];
    return best.points
      .map((point, k) => ({
        ...about(metric),
        rule: each.rule,
        setting: "best",
        ...steps(each, best.cell),
        point,
        middle: best.middle[k],
        low: best.low[k],
        high: best.high[k],
      }))
      .filter((row) => finite(row.middle) && finite(row.high));
  });
}

function pickedCurve(metric) {
  if (!picked) return [];
  const each = held.learned.find(
    (one) => one.problem === byId("problem").value && one.rule === picked.rule,
  );
  if (!each) return [];
  const values = unpack(each.curves[metric]),
    size = each.diverged.length;
  return each.points
    .map((point, k) => ({
      ...about(metric),
      rule: each.rule,
      setting: "chosen",
      ...steps(each, picked.cell),
      point,
      middle: values[k * size + picked.cell],
    }))
    .filter((row) => finite(row.middle));
}

// The least that a logarithmic axis shows: what is smaller, or 0, leaves the picture below.
function floorOf(values) {
  const some = values.filter((x) => finite(x) && x > 0);
  return some.length ? Math.max(Math.min(...some), 1e-16 * Math.max(...some)) : 1;
}

function cellRows(metric) {
  return visible().flatMap((each) =>
    each.diverged.map((diverged, cell) => {
      const final = diverged ? null : each.final[metric][cell];
      return {
        ...about(metric),
        rule: each.rule,
        cell,
        ...steps(each, cell),
        final,
        diverged,
        said: diverged ? "diverged" : short(final),
      };
    }),
  );
}

function stepRows(metric) {
  return visible().flatMap((each) => {
    const ends = each.final[metric]
      .filter((x, cell) => finite(x) && !each.diverged[cell])
      .sort((x, y) => x - y);
    return ends.map((value, k) => ({
      ...about(metric),
      rule: each.rule,
      value,
      count: k + 1,
      of: each.diverged.length,
      share: (k + 1) / each.diverged.length,
    }));
  });
}

function bestRows(metric) {
  return visible().map((each) => {
    const best = each.best[metric],
      gone = each.diverged.filter((x) => x > 0).length;
    return {
      rule: each.rule,
      "at the end": best ? best.mean : null,
      from: best && best.half !== null ? best.mean - best.half : null,
      to: best && best.half !== null ? best.mean + best.half : null,
      ...steps(each, best ? best.cell : null),
      runs: each.runs,
      settings: each.diverged.length,
      diverged: gone,
    };
  });
}

function goneRows() {
  return visible().map((each) => {
    const cells = range(each.diverged.length),
      bad = cells.filter((cell) => each.diverged[cell] > 0);
    const alphas = bad.map((cell) => ofCell(each, cell).alpha);
    const safe = each.alphas.filter((alpha) => !alphas.includes(alpha));
    return {
      rule: each.rule,
      diverged: bad.length,
      settings: cells.length,
      "least α that did": bad.length ? Math.min(...alphas) : null,
      "largest α that never did": safe.length ? Math.max(...safe) : null,
      "first at update": bad.length ? Math.min(...bad.map((cell) => each.first[cell])) : null,
    };
  });
}

function divergedRows() {
  return visible().flatMap((each) =>
    range(each.diverged.length)
      .filter((cell) => each.diverged[cell] > 0)
      .map((cell) => ({
        ...about(),
        rule: each.rule,
        ...steps(each, cell),
        "runs that diverged": each.diverged[cell],
        runs: each.runs,
        "first at update": each.first[cell],
      })),
  );
}
