// Elements, and the frame that charts with two axes share.

import type { Axis } from "./scale";

const NAMESPACE = "http://www.w3.org/2000/svg";

type Attributes = Record<string, string | number | undefined>;

/** An SVG element. Text is only ever put in as text, so no name of a workload can become markup. */
export function svg<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Attributes = {},
  ...children: (Node | string)[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(NAMESPACE, name) as SVGElementTagNameMap[K];
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== undefined) element.setAttribute(key, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  }
  element.append(...children);
  return element;
}

/** An HTML element. */
export function html<K extends keyof HTMLElementTagNameMap>(
  name: K,
  className: string,
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(name);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

/** The room of a plot: its outer size and the space left for labels on each side. */
export interface Frame {
  width: number;
  height: number;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** A drawing of the frame's size, scaled down with its column where that is narrower. */
export function canvas(frame: Frame, label: string): SVGSVGElement {
  const { width, height } = frame;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": label });
}

/** Grid lines and labels of both axes. */
export function axes(frame: Frame, x: Axis, y: Axis, xLabel: string): SVGGElement {
  const group = svg("g", { class: "axes", "aria-hidden": "true" });
  const [base, end] = [frame.height - frame.bottom, frame.width - frame.right];
  for (const tick of y.ticks) {
    group.append(svg("line", { class: "grid", x1: frame.left, x2: end, y1: tick.at, y2: tick.at }));
    group.append(svg("text", { x: frame.left - 8, y: tick.at + 4, "text-anchor": "end" }, tick.label));
  }
  for (const tick of x.ticks) {
    group.append(svg("line", { class: "tick", x1: tick.at, x2: tick.at, y1: base, y2: base + 4 }));
    if (tick.label) group.append(svg("text", { x: tick.at, y: base + 18, "text-anchor": "middle" }, tick.label));
  }
  group.append(svg("line", { class: "base", x1: frame.left, x2: end, y1: base, y2: base }));
  group.append(svg("text", { class: "axis-name", x: (frame.left + end) / 2, y: base + 36, "text-anchor": "middle" }, xLabel));
  return group;
}

/** A path through points; it breaks nowhere. */
export function path(points: [number, number][]): string {
  return points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}

/** How wide the widest label of an axis is, so that the frame leaves room for it. */
export function labelWidth(axis: Axis): number {
  return Math.max(...axis.ticks.map((tick) => tick.label.length), 1) * 6.6 + 10;
}

/** The shape that stands for a palette position, so that colour is never the only difference. */
export function shape(colour: number, x: number, y: number, size: number): SVGElement {
  const s = size * 0.95;
  switch (colour) {
    case 1:
      return svg("rect", { x: x - s, y: y - s, width: 2 * s, height: 2 * s, rx: 1 });
    case 2:
      return svg("path", { d: `M${x},${y - 1.35 * s}L${x + 1.35 * s},${y}L${x},${y + 1.35 * s}L${x - 1.35 * s},${y}Z` });
    case 3:
      return svg("path", { d: `M${x},${y - 1.3 * s}L${x + 1.2 * s},${y + s}L${x - 1.2 * s},${y + s}Z` });
    case 4:
      return svg("path", { d: `M${x},${y + 1.3 * s}L${x + 1.2 * s},${y - s}L${x - 1.2 * s},${y - s}Z` });
    case 5: {
      const [a, b] = [0.45 * s, 1.35 * s];
      const arms = `h${b - a}v${2 * a}h${a - b}v${b - a}h${-2 * a}v${a - b}h${a - b}v${-2 * a}h${b - a}v${a - b}h${2 * a}Z`;
      return svg("path", { d: `M${x + a},${y - a}${arms}` });
    }
    case 6:
      return svg("path", { d: `M${x - 1.2 * s},${y - 1.2 * s}h${2.4 * s}L${x - 1.2 * s},${y + 1.2 * s}h${2.4 * s}Z` });
    default:
      return svg("circle", { cx: x, cy: y, r: size });
  }
}
