// Who suffers beside whom: a heat map whose colour diverges around 1 and whose numbers are printed.

import type { Cell, MatrixChart } from "./chart";
import { interval } from "./format";
import { interact, type Mark, type Tooltip } from "./interact";
import { clip } from "./intervals";
import { canvas, html, svg, type Frame } from "./svg";

const WORDS = {
  faster: "faster, beyond noise",
  slower: "slower, beyond noise",
  no_difference: "no difference seen",
  not_determined: "too little was measured to tell",
};

/**
 * How strong a cell's colour is, -1 (stopped) to 1 (twice as fast or more). Logarithmic, so that half and double are
 * equally far from 1.
 */
export function strength(ratio: number): number {
  return ratio <= 0 ? -1 : Math.max(-1, Math.min(1, Math.log2(ratio) / (ratio < 1 ? 2 : 1)));
}

export function drawMatrix(chart: MatrixChart, width: number, tooltip: Tooltip): Node[] {
  const longest = Math.max(...chart.rows.map((name) => name.length), 4);
  const left = Math.min(longest * 7 + 12, width * 0.3);
  const side = Math.max(44, Math.min(88, (width - left - 4) / chart.columns.length));
  const tall = Math.max(30, Math.min(46, side * 0.7));
  const isSteep = Math.max(...chart.columns.map((name) => name.length)) * 6.8 > side - 4;
  const top = isSteep ? Math.min(110, Math.max(...chart.columns.map((name) => Math.min(name.length, 14))) * 5.2 + 34) : 44;
  const slant = isSteep ? 56 : 0;
  const frame: Frame = {
    width: left + side * chart.columns.length + slant,
    height: top + tall * chart.rows.length + 4,
    left,
    right: slant,
    top,
    bottom: 4,
  };
  const root = canvas(frame, chart.label);
  root.append(headings(chart, frame, side, tall, isSteep));
  const groups = chart.rows.map((_, row) => {
    const cells = chart.cells.filter((cell) => cell.row === row).sort((a, b) => a.column - b.column);
    return cells.map((cell) => {
      const mark = drawCell(chart, cell, left + cell.column * side, top + cell.row * tall, side, tall);
      root.append(mark.node);
      return mark;
    });
  });
  interact(root, groups, tooltip);
  const scroll = html("div", "wide", root);
  return [scroll, key()];
}

function headings(chart: MatrixChart, frame: Frame, side: number, tall: number, isSteep: boolean): SVGGElement {
  const group = svg("g", { class: "axes", "aria-hidden": "true" });
  group.append(svg("text", { class: "axis-name", x: 0, y: frame.top - 10 }, "who"));
  group.append(svg("text", { class: "axis-name", x: frame.left, y: 12 }, "beside"));
  chart.rows.forEach((name, row) => {
    group.append(svg("text", { class: "name", x: 0, y: frame.top + row * tall + tall / 2 + 4 }, clip(name, frame.left - 8)));
  });
  chart.columns.forEach((name, column) => {
    const x = frame.left + column * side + side / 2;
    const y = frame.top - 10;
    const turn = isSteep ? { transform: `rotate(-40 ${x - 4} ${y})`, "text-anchor": "start" } : { "text-anchor": "middle" };
    group.append(svg("text", { class: "name", x: isSteep ? x - 4 : x, y, ...turn }, clip(name, isSteep ? 94 : side)));
  });
  // What is not there was not run: beside itself, or in no arm.
  const measured = new Set(chart.cells.map((cell) => `${cell.row},${cell.column}`));
  chart.rows.forEach((_, row) =>
    chart.columns.forEach((_, column) => {
      if (measured.has(`${row},${column}`)) return;
      const box = { x: frame.left + column * side + 1, y: frame.top + row * tall + 1, width: side - 2, height: tall - 2, rx: 3 };
      group.append(svg("rect", { class: "void", ...box }));
    }),
  );
  return group;
}

function drawCell(chart: MatrixChart, cell: Cell, x: number, y: number, side: number, tall: number): Mark {
  const node = svg("g", { class: `mark cell ${cell.finding}` });
  const level = strength(cell.value);
  const isPlain = cell.finding === "no_difference" || cell.finding === "not_determined";
  const box = svg("rect", { class: isPlain ? "heat plain" : level < 0 ? "heat worse" : "heat better", x: x + 1, y: y + 1, width: side - 2, height: tall - 2, rx: 3 });
  box.style.setProperty("--level", `${Math.round(12 + Math.abs(level) * 58)}%`);
  const centre = { x: x + side / 2, y: y + tall / 2 + 4, "text-anchor": "middle" };
  const sign = cell.finding === "no_difference" ? "≈ " : cell.finding === "not_determined" ? "? " : "";
  node.append(box, svg("text", centre, `${side < 56 ? "" : sign}${cell.value.toFixed(2)}`));
  const title = `${chart.rows[cell.row]} beside ${chart.columns[cell.column]}: ${cell.value.toFixed(2)} of its throughput alone`;
  const lines = [WORDS[cell.finding], interval(cell.low, cell.high, "ratio")];
  return { x: x + side / 2, y: y + tall / 2, node, title, lines, target: "" };
}

function key(): HTMLElement {
  const swatch = (className: string, level: string, text: string) => {
    const box = html("span", `swatch ${className}`);
    box.style.setProperty("--level", level);
    return html("li", "", box, text);
  };
  return html(
    "ul",
    "legend",
    swatch("worse", "70%", "slower: a quarter or less"),
    swatch("worse", "41%", "half"),
    swatch("plain", "0%", "≈ no difference seen"),
    swatch("better", "70%", "faster: double or more"),
  );
}
