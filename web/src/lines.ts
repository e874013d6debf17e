// Lines and dots without intervals: what happened second by second, how figures are distributed, what bounds them.

import type { Line, LinePanel, LinesChart } from "./chart";
import { drawReference } from "./curve";
import { figure } from "./format";
import { interact, type Mark, type Tooltip } from "./interact";
import { legend, panels } from "./panels";
import { spanAxis, type Axis } from "./scale";
import { axes, canvas, labelWidth, path, shape, svg, type Frame } from "./svg";

export function drawLines(chart: LinesChart, width: number, run: string, tooltip: Tooltip): Node[] {
  const names = new Map(chart.panels.flatMap((panel) => panel.lines).map((line) => [line.name, line]));
  const drawn = panels(chart.panels, width, 250, (panel, panelWidth) => drawPanel(chart, panel, panelWidth, run, tooltip));
  return names.size > 1 ? [legend([...names.values()]), ...drawn] : drawn;
}

function drawPanel(chart: LinesChart, panel: LinePanel, width: number, run: string, tooltip: Tooltip): SVGSVGElement {
  const row = chart.panels.filter((other) => other.row === panel.row);
  const points = row.flatMap((other) => other.lines.flatMap((line) => line.points));
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  if (chart.reference) ys.push(chart.reference.value);
  const height = Math.round(Math.min(280, Math.max(190, width * 0.55)));
  const frame: Frame = { width, height, left: 60, right: 14, top: 26, bottom: 44 };
  const y = spanAxis(ys, chart.y, [height - frame.bottom, frame.top]);
  frame.left = Math.max(34, labelWidth(y));
  const x = spanAxis(xs, chart.x, [frame.left + 4, width - frame.right]);
  const root = canvas(frame, `${chart.label}, ${[panel.row, panel.title].filter(Boolean).join(", ")}`);
  root.append(axes(frame, x, y, chart.x.name), svg("text", { class: "axis-name", x: 0, y: 12 }, chart.y.name));
  if (chart.reference) root.append(drawReference(chart.reference, frame, y));
  const groups = panel.lines.map((line) => {
    const [node, marks] = drawLine(chart, line, x, y, run);
    root.append(node);
    return marks;
  });
  interact(root, groups, tooltip);
  return root;
}

function drawLine(chart: LinesChart, line: Line, x: Axis, y: Axis, run: string): [SVGGElement, Mark[]] {
  const group = svg("g", { class: `series c${line.colour} ${line.style}` });
  // What a logarithmic axis cannot show is left out.
  const shown = line.points.filter(([px, py]) => (px > 0 || chart.x.span !== "log") && (py > 0 || chart.y.span !== "log"));
  const placed = shown.map(([px, py]): [number, number] => [x.at(px), y.at(py)]);
  if (line.style !== "dots") {
    group.append(svg("path", { class: line.style === "bound" ? "fit" : "curve", d: path(placed) }));
  }
  if (line.style === "bound") return [group, []];
  const size = line.style === "dots" ? 3.5 : 2;
  const marks = shown.map(([px, py], i) => {
    const [cx, cy] = placed[i]!;
    const mark = line.style === "dots" ? shape(line.colour, cx, cy, size) : svg("circle", { cx, cy, r: size });
    const node = svg("g", { class: line.style === "dots" ? "mark" : "mark quiet" }, mark);
    group.append(node);
    const title = `${line.name}: ${figure(py, chart.y.unit)}`;
    const lines = [`${chart.x.name} ${figure(px, chart.x.unit)}`, ...(line.detail ? [line.detail] : [])];
    return { x: cx, y: cy, node, title, lines, target: line.run === null ? "" : `${run}${line.run}` };
  });
  return [group, marks];
}
