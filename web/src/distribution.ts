// Latency by percentile: nines to the right, time upward, both logarithmic.

import type { DistributionChart, DistributionPanel } from "./chart";
import { duration, percentile } from "./format";
import { interact, type Tooltip } from "./interact";
import { legend, panels } from "./panels";
import { durationAxis, nines } from "./scale";
import { axes, canvas, labelWidth, path, shape, svg, type Frame } from "./svg";

export function drawDistribution(chart: DistributionChart, width: number, tooltip: Tooltip): Node[] {
  const names = new Map(chart.panels.flatMap((panel) => panel.series).map((series) => [series.name, series]));
  const drawn = panels(chart.panels, width, 300, (panel, panelWidth) => drawPanel(chart, panel, panelWidth, tooltip));
  return [legend([...names.values()]), ...drawn];
}

function drawPanel(chart: DistributionChart, panel: DistributionPanel, width: number, tooltip: Tooltip): SVGSVGElement {
  // Workloads differ by orders of magnitude, so each row has its own scale of time; within a row all share it.
  const row = chart.panels.filter((other) => other.row === panel.row);
  const points = row.flatMap((other) => other.series.flatMap((series) => series.points));
  const times = points.map(([, us]) => us).filter((us) => us > 0);
  const most = Math.max(...points.map(([quantile]) => (quantile < 1 ? quantile : 0)), 0.5);
  const height = Math.round(Math.min(330, Math.max(230, width * 0.6)));
  const frame: Frame = { width, height, left: 60, right: 26, top: 26, bottom: 44 };
  const y = durationAxis(Math.min(...times), Math.max(...times), [height - frame.bottom, frame.top]);
  frame.left = labelWidth(y);
  const x = nines(most, [frame.left, width - frame.right]);
  const root = canvas(frame, `${chart.label}, ${panel.title || panel.row}`);
  root.append(axes(frame, x, y, "percentile"), svg("text", { class: "axis-name", x: 0, y: 12 }, "latency"));
  const groups = panel.series.map((series) => {
    const group = svg("g", { class: `series c${series.colour}` });
    const placed = series.points.filter(([, us]) => us > 0);
    group.append(svg("path", { class: "curve", d: path(placed.map(([q, us]): [number, number] => [x.at(q), y.at(us)])) }));
    const marks = placed.map(([quantile, us]) => {
      const node = svg("g", { class: "mark quiet" }, shape(series.colour, x.at(quantile), y.at(us), 3));
      group.append(node);
      const title = `${series.name}, ${percentile(quantile)}: ${duration(us)}`;
      const meaning = quantile >= 1 ? "the slowest request" : `${percentile(quantile).slice(1)} % of requests took no longer`;
      return { x: x.at(quantile), y: y.at(us), node, title, lines: [meaning], target: "" };
    });
    root.append(group);
    return marks;
  });
  interact(root, groups, tooltip);
  return root;
}
