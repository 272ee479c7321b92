// Sentences of a study page.
function listed(names) {
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names[0];
}

function coincidenceText(groups) {
  const several = groups.filter((group) => group.length > 1);
  return several.length ? ` Lines that coincide (within 1%): ${several.map(listed).join("; ")}.` : "";
}

function curvesText(metric, domain, groups) {
  if (!visibleResults().length) return "No rule is selected.";
  const order = bestRows(metric)
    .filter((row) => isFiniteNumber(row["final mean"]))
    .sort((x, y) => x["final mean"] - y["final mean"]);
  if (!order.length) return "Every setting of these rules diverged.";
  const describe = (row) => `${row.rule}, ${formatNumber(row["final mean"], 3)}`,
    highest = order.length > 1 ? `; highest: ${describe(order.at(-1))}` : "",
    own = metric === "mspbe" && order.length > 1,
    below =
      domain &&
      byId("y-axis").value === "log" &&
      tables.curves.some((row) => row.median < domain[0])
        ? " A curve that leaves the chart at the bottom goes to 0."
        : "";
  const invisible = domain === null ? " (not visible on a logarithmic axis)" : "",
    title = pageData.metrics[metric];
  return (
    (own
      ? "Each rule has its own MSPBE: values of different rules are not comparable."
      : `Lowest final ${title}: ${describe(order[0])}${highest}${invisible}.`) +
    coincidenceText(groups) +
    below
  );
}

function distributionText(groups) {
  const survivors = visibleResults()
    .map((result) => ({
      rule: result.rule,
      stable: result.diverged.filter((x) => !x).length,
      of: result.diverged.length,
    }))
    .sort((x, y) => x.stable / x.of - y.stable / y.of);
  if (!survivors.length) return "No rule is selected.";
  const { rule, stable, of } = survivors[0];
  return (
    (stable < of
      ? `Fewest stable settings: ${rule}, ${stable} of ${of}.`
      : "No setting diverged.") + coincidenceText(groups)
  );
}

function selectedText() {
  const result = selectedResult();
  if (!result) return "No setting is selected.";
  const { alpha, omega } = stepSizes(result, selected.cell),
    metric = byId("metric").value,
    diverged = result.diverged[selected.cell],
    second = result.omegaName ? `, ${result.omegaName} = ${formatNumber(omega)}` : "";
  return (
    `${result.rule}, α = ${formatNumber(alpha)}${second}: ` +
    (diverged
      ? `diverged in ${diverged} of ${result.runs} runs, first at update ${result.firstDivergence[selected.cell].toLocaleString("en")}.`
      : `final ${pageData.metrics[metric]} ${formatNumber(result.final[metric][selected.cell])}.`)
  );
}
