// Select one setting, by mouse in a map or by the lists above the maps; highlight a rule.
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

async function select(rule, cell) {
  selected = rule === null ? null : { rule, cell };
  listSettings();
  for (const map of maps)
    map.view.signal("selected", selected && map.rule === rule ? cell : -1).runAsync();
  await drawCurves();
  drawTables();
  byId("selected-text").textContent = selectedText();
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
