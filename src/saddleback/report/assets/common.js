// Shared by all pages: data, theme, charts, number formats, tables and CSV.
const pageData = JSON.parse(document.getElementById("data").textContent);
const views = {};

function byId(id) {
  return document.getElementById(id);
}

// The theme follows the system until the button is used.
const root = document.documentElement;
const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
let userTheme = null;

function applyTheme() {
  const theme = userTheme || (prefersDark.matches ? "dark" : "light");
  root.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light theme" : "Dark theme";
}

byId("theme").addEventListener("click", () => {
  userTheme = root.dataset.theme === "dark" ? "light" : "dark";
  applyTheme();
});
prefersDark.addEventListener("change", applyTheme);
applyTheme();

// Draw a chart into the element with this id.
async function draw(id, spec) {
  const options = {
    actions: false,
    renderer: "svg",
    config: pageData.config,
    tooltip: { theme: "custom" },
    expressionFunctions: { powerOfTen, shortNumber: (x) => formatNumber(x, 2) },
  };
  const { view } = await window.vegaEmbed(byId(id), spec, options);
  views[id] = view;
  byId(id).dataset.drawn = "yes";
  return view;
}

// A number as mantissa and power of ten: 2·10⁻⁵, 10³, −10⁻², 0.
function powerOfTen(x, digits = 3) {
  if (x === 0) return "0";
  const [mantissa, exponent] = Math.abs(x)
    .toExponential(digits - 1)
    .split("e");
  const power = `10${[...String(Number(exponent))].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("")}`;
  const lead = Number(mantissa) === 1 ? "" : `${Number(mantissa)}·`;
  return `${x < 0 ? "−" : ""}${lead}${power}`;
}

// A number for people: a few digits, a minus sign, and a power of ten where it is long.
function formatNumber(x, digits = 4) {
  if (typeof x === "string") return x;
  if (x === null || !Number.isFinite(x))
    return x === -Infinity ? "−∞" : x === Infinity ? "∞" : "none";
  if (Math.abs(x) >= 1e6 || (x !== 0 && Math.abs(x) < 1e-4)) return powerOfTen(x, digits - 1);
  const rounded = Number.isInteger(x) ? x : Number(x.toPrecision(digits)),
    text = Math.abs(x) >= 1e4 ? rounded.toLocaleString("en") : String(rounded);
  return text.replaceAll("-", "−");
}

// Ticks of a logarithmic axis: powers of ten; where these are few, also twice and five times.
// All labels of an axis are in one notation.
function logAxis([low, high]) {
  const first = Math.floor(Math.log10(low)),
    powers = range(Math.ceil(Math.log10(high)) - first + 1).map((k) => 10 ** (k + first));
  const within = (x) => x >= low * 0.999 && x <= high * 1.001,
    tens = powers.filter(within),
    stride = Math.ceil(tens.length / 8);
  const values =
    tens.length > 2
      ? tens.filter((x, k) => k % stride === 0)
      : powers.flatMap((x) => [x, 2 * x, 5 * x]).filter(within);
  const plain = values.every((x) => x >= 1e-3 && x <= 1e3);
  return { values, ...(plain ? { format: "~g" } : { labelExpr: "powerOfTen(datum.value)" }) };
}

// Rows as CSV. A cell that a spreadsheet would take for a formula is quoted with an apostrophe.
function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// All columns of the rows, in order of appearance.
function columnsOf(rows) {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

function toCsv(rows) {
  const names = columnsOf(rows);
  const lines = [names, ...rows.map((row) => names.map((name) => row[name]))];
  return lines.map((line) => line.map(csvCell).join(",")).join("\r\n") + "\r\n";
}

function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Fill a table element with the first rows; the CSV holds all.
const MAX_ROWS = 60;

function fillTable(table, rows) {
  const caption = table.querySelector("caption"),
    names = columnsOf(rows);
  table.dataset.title ??= caption.textContent;
  const cut = `The first ${MAX_ROWS} of ${rows.length.toLocaleString("en")} rows; the CSV holds all.`,
    empty = table.dataset.rows && !rows.length ? "No rows." : "";
  caption.textContent = `${table.dataset.title} ${rows.length > MAX_ROWS ? cut : empty}`.trim();
  const head = document.createElement("thead"),
    body = document.createElement("tbody");
  const addCell = (parent, value, tag, numeric) => {
    const cell = parent.appendChild(document.createElement(tag));
    if (tag === "th") cell.scope = "col";
    if (numeric) cell.className = "n";
    cell.textContent = typeof value === "number" ? formatNumber(value) : (value ?? "");
  };
  const numeric = names.map((name) => rows.some((row) => typeof row[name] === "number"));
  const headings = head.appendChild(document.createElement("tr"));
  names.forEach((name, k) => addCell(headings, name, "th", numeric[k]));
  for (const row of rows.slice(0, MAX_ROWS)) {
    const line = body.appendChild(document.createElement("tr"));
    names.forEach((name, k) => addCell(line, row[name], "td", numeric[k]));
  }
  table.replaceChildren(caption, head, body);
}

// Fill a table when it is opened, and download its rows as CSV, given a function from the names of
// rows to the rows.
function offerRows(rowsOf) {
  for (const table of document.querySelectorAll("table[data-rows]")) {
    const details = table.closest("details");
    details.addEventListener("toggle", () => {
      if (details.open) fillTable(table, rowsOf(table.dataset.rows));
    });
  }
  for (const button of document.querySelectorAll("button[data-csv]")) {
    const name = button.dataset.csv;
    button.addEventListener("click", () => download(`${name}.csv`, toCsv(rowsOf(name))));
  }
}

function range(count) {
  return Array.from({ length: count }, (_, k) => k);
}
