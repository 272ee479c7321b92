// What every page needs: its data, a theme, charts, and tables as CSV.
const held = JSON.parse(document.getElementById("data").textContent);
const views = {};

function byId(name) {
  return document.getElementById(name);
}

// The theme: the system's, until the button says otherwise.
const root = document.documentElement;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
let chosen = null;

function showTheme(name) {
  root.dataset.theme = name;
  byId("theme").textContent = name === "dark" ? "Light theme" : "Dark theme";
}

function useTheme() {
  showTheme(chosen || (dark.matches ? "dark" : "light"));
}

byId("theme").addEventListener("click", () => {
  chosen = root.dataset.theme === "dark" ? "light" : "dark";
  useTheme();
});
dark.addEventListener("change", useTheme);
useTheme();

// Draw a chart into the element of its name.
async function draw(name, spec) {
  const options = {
    actions: false,
    renderer: "svg",
    config: held.config,
    tooltip: { theme: "custom" },
  };
  const found = await window.vegaEmbed(byId(name), spec, options);
  views[name] = found.view;
  byId(name).dataset.drawn = "yes";
  return found.view;
}

// Numbers as they are read.
function short(x, digits = 4) {
  if (x === null || !Number.isFinite(x))
    return x === -Infinity ? "−∞" : x === Infinity ? "∞" : "none";
  const text =
    Math.abs(x) >= 1e6 || (x !== 0 && Math.abs(x) < 1e-4)
      ? x.toExponential(Math.max(0, digits - 2))
      : String(Number.isInteger(x) ? x : Number(x.toPrecision(digits)));
  return text.replaceAll("-", "−").replace("e+", "e");
}

// Rows as CSV. A cell that a spreadsheet would take for a formula is quoted with an apostrophe.
function csvCell(value) {
  if (value === null || value === undefined) return "";
  let text = String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// All columns that any row has, in the order in which they come.
function columnsOf(rows) {
  return [...new Set(rows.flatMap((row) => Object.keys(row)))];
}

function asCsv(rows) {
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

// A table element of rows, by text alone, and no more of them than anybody reads.
const READ = 60;

function fillTable(table, all) {
  const rows = all.slice(0, READ),
    caption = table.querySelector("caption"),
    names = columnsOf(all);
  table.dataset.title ??= caption.textContent;
  const many = `The first ${READ} of ${all.length.toLocaleString("en")} rows; the CSV holds all.`,
    none = table.dataset.rows && !all.length ? "There are none." : "";
  caption.textContent = `${table.dataset.title} ${all.length > READ ? many : none}`.trim();
  const head = document.createElement("thead"),
    body = document.createElement("tbody");
  const add = (parent, cell, kind, number) => {
    const made = parent.appendChild(document.createElement(kind));
    if (kind === "th") made.scope = "col";
    if (number) made.className = "n";
    made.textContent = typeof cell === "number" ? short(cell) : (cell ?? "");
  };
  const isNumber = names.map((name) => all.some((row) => typeof row[name] === "number"));
  const first = head.appendChild(document.createElement("tr"));
  names.forEach((name, k) => add(first, name, "th", isNumber[k]));
  for (const row of rows) {
    const line = body.appendChild(document.createElement("tr"));
    names.forEach((name, k) => add(line, row[name], "td", isNumber[k]));
  }
  table.replaceChildren(caption, head, body);
}

function range(count) {
  return Array.from({ length: count }, (_, k) => k);
}
