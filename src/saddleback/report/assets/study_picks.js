// One setting, chosen by mouse in a map or by the lists above them.
function listPicks() {
  const seen = visible(),
    list = byId("pick-rule");
  const fill = (place, values, now) => {
    place.replaceChildren(
      ...values.map((each, k) => {
        const option = document.createElement("option");
        option.value = String(k);
        option.textContent = each;
        return option;
      }),
    );
    place.value = String(Math.max(0, now));
  };
  if (picked && !seen.some((each) => each.rule === picked.rule)) picked = null;
  fill(
    list,
    seen.map((each) => each.rule),
    seen.findIndex((each) => picked && each.rule === picked.rule),
  );
  const each = seen[Number(list.value)];
  if (!each) return;
  const cell = picked ? picked.cell : 0;
  fill(
    byId("pick-alpha"),
    each.alphas.map((x) => short(x, 3)),
    Math.floor(cell / each.seconds.length),
  );
  fill(
    byId("pick-second"),
    each.seconds.map((x) => short(x, 3)),
    cell % each.seconds.length,
  );
  byId("pick-second-name").textContent = each.second;
}

async function pick(rule, cell) {
  picked = rule === null ? null : { rule, cell };
  listPicks();
  const metric = byId("metric").value;
  for (const map of maps)
    map.view.signal("picked", picked && map.rule === rule ? cell : -1).runAsync();
  shown.curves = curveRows(metric);
  if (views.curves)
    await views.curves
      .data("picked", structuredClone(drawable(shown.curves, "chosen")))
      .runAsync();
  sayPicked();
}

function sayPicked() {
  const each =
    picked &&
    held.learned.find((one) => one.problem === byId("problem").value && one.rule === picked.rule);
  if (!each) {
    byId("picked-words").textContent = "No setting is chosen.";
    return;
  }
  const { alpha, second } = ofCell(each, picked.cell),
    metric = byId("metric").value,
    final = each.final[metric][picked.cell];
  const gone = each.diverged[picked.cell];
  byId("picked-words").textContent =
    `${each.rule}, α = ${short(alpha, 4)}, ${each.second} = ${short(second, 4)}: ` +
    (gone
      ? `diverged in ${gone} of ${each.runs} runs, first at update ${each.first[picked.cell].toLocaleString("en")}.`
      : `${held.metrics[metric]} at the end ${short(final)}.`);
}

function fromLists() {
  const each = visible()[Number(byId("pick-rule").value)];
  if (!each) return;
  const column = Math.min(Number(byId("pick-second").value), each.seconds.length - 1);
  pick(
    each.rule,
    Math.min(Number(byId("pick-alpha").value), each.alphas.length - 1) * each.seconds.length +
      column,
  );
}

// Light a rule up in every chart.
function light(rule) {
  lit = rule;
  for (const name of ["curves", "grid"]) if (views[name]) views[name].signal("lit", lit).runAsync();
  mark();
}

function mark() {
  for (const figure of document.querySelectorAll("#maps figure"))
    figure.classList.toggle("lit", lit !== "" && figure.dataset.of === lit);
}
