// One setting, chosen by mouse in a map or by the lists above them.
function fill(list, values, now) {
  list.replaceChildren(
    ...values.map((each, k) => {
      const option = document.createElement("option");
      option.value = String(k);
      option.textContent = each;
      return option;
    }),
  );
  list.value = String(Math.max(0, now));
  list.disabled = !values.length;
}

function listPicks() {
  const seen = visible();
  if (picked && !seen.some((each) => each.rule === picked.rule)) picked = null;
  const at = seen.findIndex((each) => picked && each.rule === picked.rule),
    each = seen[at];
  fill(byId("pick-rule"), ["none", ...seen.map((one) => one.rule)], at + 1);
  const columns = each ? each.seconds.length : 1;
  fill(
    byId("pick-alpha"),
    each ? each.alphas.map((x) => short(x, 3)) : [],
    each && Math.floor(picked.cell / columns),
  );
  fill(
    byId("pick-second"),
    each && each.second ? each.seconds.map((x) => short(x, 3)) : [],
    each && picked.cell % columns,
  );
  byId("pick-second-name").textContent = (each && each.second) || "β";
}

async function pick(rule, cell) {
  picked = rule === null ? null : { rule, cell };
  listPicks();
  for (const map of maps)
    map.view.signal("picked", picked && map.rule === rule ? cell : -1).runAsync();
  await drawCurves();
  drawTables();
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
  const gone = each.diverged[picked.cell],
    beside = each.second ? `, ${each.second} = ${short(second, 4)}` : "";
  byId("picked-words").textContent =
    `${each.rule}, α = ${short(alpha, 4)}${beside}: ` +
    (gone
      ? `diverged in ${gone} of ${each.runs} runs, first at update ${each.first[picked.cell].toLocaleString("en")}.`
      : `${held.metrics[metric]} at the end ${short(final)}.`);
}

// A rule is chosen with its best setting, if it has one.
function fromLists(event) {
  const each = visible()[Number(byId("pick-rule").value) - 1];
  if (!each) return pick(null);
  if (event.target.id === "pick-rule") {
    const best = each.best[byId("metric").value];
    return pick(each.rule, best ? best.cell : 0);
  }
  return pick(
    each.rule,
    Number(byId("pick-alpha").value) * each.seconds.length + Number(byId("pick-second").value),
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
