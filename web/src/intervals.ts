// Figures of things without an order, one a row: a bar from 0, the interval, each repeat a dot.

import type { IntervalChart, IntervalPanel, IntervalRow } from "./chart";
import { aboutRuns } from "./curve";
import { figure } from "./format";
import { interact, type Mark, type Tooltip } from "./interact";
import { panels } from "./panels";
import { figureAxis, type Axis } from "./scale";
import { canvas, shape, svg, type Frame } from "./svg";

/** Height of a row, with a second line and without. */
const ROW = { detailed: 46, plain: 36 };

export function drawIntervals(chart: IntervalChart, width: number, run: string, tooltip: Tooltip): Node[] {
  return panels(chart.panels, width, 250, (panel, panelWidth) => drawPanel(chart, panel, panelWidth, run, tooltip));
}

function drawPanel(chart: IntervalChart, panel: IntervalPanel, width: number, run: string, tooltip: Tooltip): SVGSVGElement {
  const all = chart.panels.flatMap((other) => other.rows);
  const longest = Math.max(...all.flatMap((row) => [row.name.length, row.detail.length * 0.9]), 4);
  const left = Math.min(longest * 7.5 + 14, width * 0.42);
  const right = Math.max(...all.map((row) => figure(row.value, chart.unit).length)) * 7.5 + 10;
  const tall = all.some((row) => row.detail) ? ROW.detailed : ROW.plain;
  const frame: Frame = { width, height: panel.rows.length * tall + 52, left, right, top: 8, bottom: 44 };
  const figures = all.flatMap((row) => [row.value, ...row.samples.map(([, value]) => value)]);
  if (chart.reference) figures.push(chart.reference.value);
  const ends = all.flatMap((row) => (row.high === null ? [] : [row.high]));
  // A mark at the end of an axis that does not begin at 0 keeps clear of its name.
  const x = figureAxis(figures, ends, chart.unit, [left + (chart.reference ? 8 : 0), width - right]);
  const root = canvas(frame, `${chart.label}${panel.title ? `, ${panel.title}` : ""}`);
  root.append(grid(chart, frame, x));
  const marks = panel.rows.map((row, i) => {
    const [node, mark] = drawRow(chart, row, frame.top + (i + 0.5) * tall, tall, frame, x, run);
    root.append(node);
    return mark;
  });
  if (chart.reference) {
    const at = x.at(chart.reference.value);
    root.append(svg("line", { class: "reference", x1: at, x2: at, y1: frame.top, y2: frame.height - frame.bottom }));
  }
  // Each row is a series of one, so that the arrows lead up and down as the eye does.
  interact(root, marks.map((mark) => [mark]), tooltip);
  return root;
}

function grid(chart: IntervalChart, frame: Frame, x: Axis): SVGGElement {
  const group = svg("g", { class: "axes", "aria-hidden": "true" });
  const base = frame.height - frame.bottom;
  for (const tick of x.ticks) {
    group.append(svg("line", { class: "grid", x1: tick.at, x2: tick.at, y1: frame.top, y2: base }));
    if (tick.label) group.append(svg("text", { x: tick.at, y: base + 16, "text-anchor": "middle" }, tick.label));
  }
  const name = chart.reference ? `${chart.x}; ${chart.reference.label}` : chart.x;
  const middle = (frame.left + frame.width - frame.right) / 2;
  const isLong = name.length * 6 > frame.width - frame.left;
  const at = isLong ? { x: 0, "text-anchor": "start" } : { x: middle, "text-anchor": "middle" };
  group.append(svg("text", { class: "axis-name", y: base + 36, ...at }, name));
  return group;
}

function drawRow(
  chart: IntervalChart,
  row: IntervalRow,
  middle: number,
  tall: number,
  frame: Frame,
  x: Axis,
  run: string,
): [SVGGElement, Mark] {
  const group = svg("g", { class: `series c${row.colour}` });
  const [from, to] = [x.at(chart.reference?.value ?? 0), x.at(row.value)];
  const node = svg("g", { class: "mark row" });
  if (chart.reference && row.floor !== null) {
    const [low, high] = [x.at(chart.reference.value - row.floor), x.at(chart.reference.value + row.floor)];
    node.append(svg("rect", { class: "noise", x: low, width: Math.max(1, high - low), y: middle - 16, height: 32 }));
  }
  node.append(svg("rect", { class: "hit", x: 0, y: middle - tall / 2 + 2, width: frame.width, height: tall - 4, rx: 4 }));
  // A bar's length means something only from 0.
  if (!chart.reference && !x.isLog) {
    node.append(svg("rect", { class: "bar", x: Math.min(from, to), width: Math.abs(to - from), y: middle - 9, height: 18, rx: 1.5 }));
  }
  if (row.low !== null && row.high !== null) {
    node.append(svg("line", { class: "interval", x1: x.at(row.low), x2: x.at(row.high), y1: middle, y2: middle }));
    for (const end of [row.low, row.high].filter((value) => x.holds(value))) {
      node.append(svg("line", { class: "interval", x1: x.at(end), x2: x.at(end), y1: middle - 5, y2: middle + 5 }));
    }
  }
  for (const [, value, outlier] of row.samples) {
    const [cx, cy] = [x.at(value), middle + 14];
    if (outlier) node.append(svg("path", { class: "outlier", d: `M${cx - 3},${cy - 3}l6,6m0,-6l-6,6` }));
    else node.append(svg("circle", { class: "dot", cx, cy, r: 2.2 }));
  }
  node.append(shape(row.colour, to, middle, 4.5));
  node.append(svg("text", { class: "name", x: 0, y: middle + (row.detail ? -3 : 4) }, clip(row.name, frame.left)));
  if (row.detail) node.append(svg("text", { class: "detail", x: 0, y: middle + 12 }, clip(row.detail, frame.left * 1.1)));
  const value = { class: "value", x: frame.width, y: middle + 4, "text-anchor": "end" };
  node.append(svg("text", value, figure(row.value, chart.unit)));
  group.append(node);
  const lines = row.detail ? [row.detail, ...aboutRuns(row, chart.unit)] : aboutRuns(row, chart.unit);
  const target = row.samples[0] ? `${run}${row.samples[0][0]}` : "";
  const title = `${row.name}: ${figure(row.value, chart.unit)}`;
  return [group, { x: to, y: middle, node, title, lines, target }];
}

/** Cuts what would run into the plot; the whole name is in the tooltip and the table. */
export function clip(text: string, width: number): string {
  const most = Math.max(4, Math.floor(width / 6.7));
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
