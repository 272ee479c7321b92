// What a study says of what it shows.
function curveWords(metric, up) {
  if (!visible().length) return "No rule is chosen.";
  const order = bestRows(metric)
    .filter((row) => finite(row["at the end"]))
    .sort((x, y) => x["at the end"] - y["at the end"]);
  if (!order.length) return "Every setting of these rules diverged: there is no best one.";
  const say = (row) => `${row.rule}, ${short(row["at the end"], 3)}`,
    most = order.length > 1 ? `; most: ${say(order.at(-1))}` : "",
    own = metric === "mspbe" && order.length > 1 ? " Each rule's MSPBE is that of its own system." : "",
    below =
      up && byId("y-axis").value === "log" && shown.curves.some((row) => row.middle < up[0])
        ? " A curve that leaves the picture below goes to 0."
        : "";
  const none = up === null ? ": a logarithmic axis cannot show it" : "";
  return `Least ${held.metrics[metric]} at the end: ${say(order[0])}${most}${none}.${own}${below}`;
}

function survivors() {
  const kept = visible()
    .map((each) => ({
      rule: each.rule,
      kept: each.diverged.filter((x) => !x).length,
      of: each.diverged.length,
    }))
    .sort((x, y) => x.kept / x.of - y.kept / y.of);
  if (!kept.length) return "No rule is chosen.";
  return kept[0].kept < kept[0].of
    ? `The smallest share of settings survives with ${kept[0].rule}: ${kept[0].kept} of ${kept[0].of}.`
    : "No setting diverged.";
}
