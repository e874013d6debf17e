// Where response time went: one bar a row, its parts add up to the whole.

import type { ShareChart } from "./chart";
import { percent } from "./format";
import { interact, type Mark, type Tooltip } from "./interact";
import { clip } from "./intervals";
import { canvas, html, svg, type Frame } from "./svg";

const ROW = 30;
const HEAD = 26;

export function drawShares(chart: ShareChart, width: number, tooltip: Tooltip): Node[] {
  const longest = Math.max(...chart.bars.map((bar) => bar.name.length), 4);
  const left = Math.min(longest * 7 + 14, width * 0.36);
  const heads = chart.bars.filter((bar, i) => bar.group && bar.group !== chart.bars[i - 1]?.group).length;
  const inner = Math.min(width, 1080);
  const frame: Frame = { width: inner, height: chart.bars.length * ROW + heads * HEAD + 26, left, right: 10, top: 2, bottom: 24 };
  const root = canvas(frame, chart.label);
  const span = inner - left - frame.right;
  let y = frame.top;
  const groups: Mark[][] = [];
  chart.bars.forEach((bar, i) => {
    if (bar.group && bar.group !== chart.bars[i - 1]?.group) {
      root.append(svg("text", { class: "name group", x: 0, y: y + 18 }, bar.group));
      y += HEAD;
    }
    root.append(svg("text", { class: "name", x: 0, y: y + ROW / 2 + 4 }, clip(bar.name, left - 6)));
    groups.push(drawBar(root, chart, bar, left, span, y + 4));
    y += ROW;
  });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const x = left + share * span;
    const anchor = share === 1 ? "end" : "middle";
    root.append(svg("text", { class: "scale", x, y: y + 16, "text-anchor": anchor, "aria-hidden": "true" }, percent(share)));
  }
  interact(root, groups, tooltip);
  const items = chart.parts.map((name, part) => html("li", "", html("span", `swatch part${chart.tones[part]}`), name));
  return [html("ul", "legend", ...items), root];
}

function drawBar(root: SVGElement, chart: ShareChart, bar: ShareChart["bars"][number], left: number, span: number, y: number): Mark[] {
  let x = left;
  return bar.values.flatMap((share, part) => {
    if (share === null || share <= 0) return [];
    const width = share * span;
    const tone = chart.tones[part];
    const node = svg("g", { class: "mark segment" });
    node.append(svg("rect", { class: `part${tone}`, x, y, width, height: ROW - 8 }));
    const text = percent(share);
    if (width > text.length * 7 + 4) {
      node.append(svg("text", { class: `on${tone}`, x: x + width / 2, y: y + ROW / 2, "text-anchor": "middle" }, text));
    }
    root.append(node);
    const missing = chart.parts.filter((_, other) => bar.values[other] === null);
    const isRest = part === chart.parts.length - 1 && missing.length > 0;
    const lines = isRest ? [`holds what was not measured: ${missing.join(", ")}`] : [`of ${chart.whole}`];
    const mark = { x: x + width / 2, y, node, title: `${[bar.group, bar.name].filter(Boolean).join(", ")}: ${chart.parts[part]} ${text}`, lines, target: "" };
    x += width;
    return [mark];
  });
}
