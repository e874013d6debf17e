// Figures over a numeric axis: means with intervals, repeats as dots, fitted lines, flags; panels side by side.

import type { CurveChart, CurvePanel, CurvePoint, Ends, Reference, Series } from "./chart";
import { figure, interval, tick } from "./format";
import type { Mark, Tooltip } from "./interact";
import { interact } from "./interact";
import { legend, panels } from "./panels";
import type { Axis } from "./scale";
import { figureAxis, sweptAxis } from "./scale";
import { axes, canvas, labelWidth, path, shape, svg, type Frame } from "./svg";

export function drawCurve(chart: CurveChart, width: number, run: string, tooltip: Tooltip): Node[] {
  const points = chart.panels.flatMap((panel) => panel.series.flatMap((series) => series.points));
  const names = new Map(chart.panels.flatMap((panel) => panel.series).map((series) => [`${series.name} ${series.faint}`, series]));
  const least = areSmall(chart) ? 170 : 270;
  const drawn = panels(chart.panels, width, least, (panel, panelWidth) => drawPanel(chart, panel, points, panelWidth, run, tooltip));
  return names.size > 1 ? [legend([...names.values()]), ...drawn] : drawn;
}

/** Whether there are so many panels that they are for comparing, and each has little to say. */
function areSmall(chart: CurveChart): boolean {
  return chart.panels.length >= 12 && chart.panels.every((panel) => panel.series.length === 1 && panel.flags.length === 0);
}

function drawPanel(
  chart: CurveChart,
  panel: CurvePanel,
  all: CurvePoint[],
  width: number,
  run: string,
  tooltip: Tooltip,
): SVGSVGElement {
  const flagRows = Math.max(0, ...chart.panels.map((other) => other.flags.length));
  const height = Math.round(Math.min(320, Math.max(areSmall(chart) ? 150 : 220, width * 0.62))) + flagRows * 16;
  const frame: Frame = { width, height, left: 60, right: 14, top: 26 + flagRows * 16, bottom: 44 };
  const samples = all.flatMap((point) => point.samples.map(([, value]) => value));
  const ends = all.flatMap((point) => (point.high === null ? [] : [point.high]));
  const figures = [...all.map((point) => point.value), ...samples, ...(chart.reference ? [chart.reference.value] : [])];
  const makeY = () => figureAxis(figures, ends, chart.unit, [height - frame.bottom, frame.top]);
  let y = makeY();
  frame.left = Math.max(34, labelWidth(y));
  y = makeY();
  const places = [...all, ...chart.panels.flatMap((other) => other.gaps)].map(({ at }) => at);
  const x = sweptAxis(places, [frame.left + 14, width - frame.right - 10], chart.x_unit);
  const root = canvas(frame, `${chart.label}, ${panel.title}`);
  root.append(axes(frame, x, y, chart.x));
  root.append(svg("text", { class: "axis-name", x: 0, y: 12 }, chart.y));
  if (chart.reference) root.append(drawReference(chart.reference, frame, y));
  panel.flags.forEach((_, i) => root.append(drawFlag(panel, i, frame, x)));
  const groups = panel.series.map((series, i) => {
    const shift = series.faint ? 0 : (i - (panel.series.length - 1) / 2) * 3;
    const [node, marks] = drawSeries(chart, series, x, y, shift, run);
    root.append(node);
    return series.faint ? [] : marks;
  });
  const gaps = drawGaps(chart, panel, height - frame.bottom, x, run);
  root.append(...gaps.map((mark) => mark.node));
  groups.push(gaps);
  interact(root, groups, tooltip);
  return root;
}

/** A line across the plot, in the band that is noise. */
export function drawReference({ value, floor, label }: Reference, frame: Frame, y: Axis): SVGGElement {
  const group = svg("g", { class: "reference", "aria-hidden": "true" });
  const end = frame.width - frame.right;
  if (floor !== null) {
    const [top, bottom] = [y.at(value + floor), y.at(value - floor)];
    group.append(svg("rect", { class: "noise", x: frame.left, width: end - frame.left, y: top, height: Math.max(1, bottom - top) }));
  }
  group.append(svg("line", { x1: frame.left, x2: end, y1: y.at(value), y2: y.at(value) }));
  group.append(svg("text", { x: end, y: y.at(value) - 5, "text-anchor": "end" }, label));
  return group;
}

/** A flag stands on its line; its interval is the shaded foot. */
function drawFlag(panel: CurvePanel, position: number, frame: Frame, x: Axis): SVGGElement {
  const flag = panel.flags[position]!;
  const [at, top, base] = [x.at(flag.at), frame.top - 6 - position * 16, frame.height - frame.bottom];
  const group = svg("g", { class: "flag" });
  if (flag.low !== null && flag.high !== null && flag.high > flag.low) {
    const [low, high] = [x.at(flag.low), x.at(flag.high)];
    group.append(svg("rect", { class: "foot", x: low, width: high - low, y: base - 5 - position * 7, height: 5 }));
  }
  group.append(svg("line", { x1: at, x2: at, y1: top, y2: base }));
  const isRight = at > frame.left + (frame.width - frame.left) * 0.55;
  const label = { x: at + (isRight ? -5 : 5), y: top + 4, "text-anchor": isRight ? "end" : "start" };
  group.append(svg("text", label, flag.label));
  return group;
}

/** A cross on the axis where no run is valid. */
function drawGaps(chart: CurveChart, panel: CurvePanel, base: number, x: Axis, run: string): Mark[] {
  return panel.gaps.map((gap) => {
    const at = x.at(gap.at);
    const node = svg("g", { class: "mark gap" }, svg("path", { d: `M${at - 5},${base - 5}l10,10m0,-10l-10,10` }));
    const title = `${chart.x} ${tick(gap.at, chart.x_unit)}: no valid run`;
    return { x: at, y: base, node, title, lines: [gap.why], target: `${run}${gap.run}` };
  });
}

function drawSeries(
  chart: CurveChart,
  series: Series,
  x: Axis,
  y: Axis,
  shift: number,
  run: string,
): [SVGGElement, Mark[]] {
  const group = svg("g", { class: `series c${series.colour}${series.faint ? " faint" : ""}` });
  const place = (point: { at: number; value: number }): [number, number] => [x.at(point.at) + shift, y.at(point.value)];
  if (series.fit.length > 1) {
    const fit = series.fit.filter(([at]) => x.holds(at)).map(([at, value]): [number, number] => [x.at(at) + shift, y.at(value)]);
    group.append(svg("path", { class: "fit", d: path(fit) }, svg("title", {}, series.fit_name)));
  }
  group.append(svg("path", { class: "curve", d: path(series.points.map(place)) }));
  if (series.faint) return [group, []];
  const marks = series.points.map((point) => {
    const [px, py] = place(point);
    const node = svg("g", { class: "mark" });
    node.append(...intervalBar(point, px, y), ...dots(point, px, y), shape(series.colour, px, py, 4));
    group.append(node);
    const target = point.samples[0] ? `${run}${point.samples[0][0]}` : "";
    const name = series.name ? `${series.name}, ` : "";
    const title = `${name}${chart.x} ${tick(point.at, chart.x_unit)}: ${figure(point.value, chart.unit)}`;
    return { x: px, y: py, node, title, lines: aboutRuns(point, chart.unit, chart.ends), target };
  });
  return [group, marks];
}

/** What a tooltip says below the figure itself. */
export function aboutRuns(
  point: Pick<CurvePoint, "low" | "high" | "samples">,
  unit: CurveChart["unit"],
  ends: Ends = "interval",
): string[] {
  const outliers = point.samples.filter(([, , outlier]) => outlier).length;
  const isMerged = point.low === null && point.samples.length > 1;
  const lines = [isMerged ? "of the requests of all repeats together" : interval(point.low, point.high, unit, ends)];
  if (point.samples.length > 0) {
    const runs = point.samples.map(([run]) => run).join(", ");
    lines.push(`n = ${point.samples.length}, run${point.samples.length === 1 ? "" : "s"} ${runs}`);
  }
  if (outliers > 0) lines.push(`${outliers} far from the others`);
  return lines;
}

/** A bar with caps; an end beyond the axis has no cap. */
function intervalBar(point: CurvePoint, px: number, y: Axis): SVGElement[] {
  if (point.low === null || point.high === null) return [];
  const out = [svg("line", { class: "interval", x1: px, x2: px, y1: y.at(point.high), y2: y.at(point.low) })];
  for (const end of [point.low, point.high]) {
    if (y.holds(end)) out.push(svg("line", { class: "interval", x1: px - 4, x2: px + 4, y1: y.at(end), y2: y.at(end) }));
  }
  return out;
}

function dots(point: CurvePoint, px: number, y: Axis): SVGElement[] {
  return point.samples.map(([, value, outlier]) => {
    const cx = px + 8;
    const cy = y.at(value);
    if (!outlier) return svg("circle", { class: "dot", cx, cy, r: 2 });
    return svg("path", { class: "outlier", d: `M${cx - 3},${cy - 3}l6,6m0,-6l-6,6` });
  });
}
