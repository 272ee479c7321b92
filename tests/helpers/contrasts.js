// Contrast of every text and line of the charts, as drawn, with the background of the chart.
() => {
  const parse = (text) => {
    const numbers = text.match(/[\d.]+/g);
    if (!numbers) return null;
    const [r, g, b, a = 1] = numbers.map(Number);
    return { rgb: [r, g, b], a };
  };
  const luminance = (rgb) => {
    const linear = (x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((x) => linear(x / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, two) => {
    const [high, low] = [luminance(one), luminance(two)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const over = ({ rgb, a }, opacity, below) =>
    rgb.map((x, k) => x * a * opacity + below[k] * (1 - a * opacity));
  const background = (node) => {
    for (let element = node; element; element = element.parentElement) {
      const colour = parse(getComputedStyle(element).backgroundColor);
      if (colour && colour.a > 0) return colour.rgb;
    }
    return [255, 255, 255];
  };
  const rows = [];
  const add = (node, kind, colours) => {
    const below = background(node.closest(".chart")),
      opacity = Number(getComputedStyle(node).opacity);
    const ratios = colours
      .map(([text, own]) => [parse(text), own * opacity])
      .filter(([colour]) => colour)
      .map(([colour, own]) => ratio(over(colour, own, below), below));
    const label = node.textContent || node.parentElement.getAttribute("class") || "";
    if (ratios.length && opacity > 0)
      rows.push({ kind, ratio: Math.max(...ratios), label: label.slice(0, 60) });
  };
  for (const node of document.querySelectorAll(".chart svg text")) {
    const style = getComputedStyle(node);
    if (!node.textContent.trim() || style.display === "none" || node.closest(".on-cells")) continue;
    add(node, "text", [[style.fill, Number(style.fillOpacity)]]);
  }
  const lines = [".mark-line path", ".mark-rule line", ".mark-symbol path"];
  for (const node of document.querySelectorAll(
    lines.map((mark) => `.chart svg ${mark}`).join(", "),
  )) {
    if (node.closest(".role-axis-grid") || node.closest(".on-cells")) continue;
    const style = getComputedStyle(node),
      colours = [];
    if (style.stroke !== "none" && parseFloat(style.strokeWidth) > 0)
      colours.push([style.stroke, Number(style.strokeOpacity)]);
    if (style.fill !== "none" && !node.closest(".mark-line"))
      colours.push([style.fill, Number(style.fillOpacity)]);
    add(node, "line", colours);
  }
  return rows;
};
