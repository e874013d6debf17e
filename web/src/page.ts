// Draws every chart of the page from the JSON beside it, again whenever its column changes, and for print.

import type { Chart } from "./chart";
import { drawCurve } from "./curve";
import { drawDistribution } from "./distribution";
import { Tooltip } from "./interact";
import { drawIntervals } from "./intervals";
import { drawLines } from "./lines";
import { drawMatrix } from "./matrix";
import { drawShares } from "./shares";
import { html } from "./svg";

/** Width of a column of A4 in CSS pixels, less the margins. */
const PAPER = 690;

/** Milliseconds of drawing after which the reader may scroll. */
const BUDGET = 40;

/** The elements of a chart that is `width` pixels wide. `run` begins the id of a run's row. */
export function draw(chart: Chart, width: number, run: string, tooltip: Tooltip): Node[] {
  switch (chart.kind) {
    case "curve":
      return drawCurve(chart, width, run, tooltip);
    case "intervals":
      return drawIntervals(chart, width, run, tooltip);
    case "matrix":
      return drawMatrix(chart, width, tooltip);
    case "distribution":
      return drawDistribution(chart, width, tooltip);
    case "shares":
      return drawShares(chart, width, tooltip);
    case "lines":
      return drawLines(chart, width, run, tooltip);
  }
}

/** A chart in its figure. */
class Plot {
  private readonly host = html("div", "plot");
  private readonly tooltip = new Tooltip(this.host);
  private drawn = 0;

  constructor(
    private readonly chart: Chart,
    private readonly run: string,
    data: Element,
  ) {
    data.before(this.host);
    new ResizeObserver(() => this.fit(this.host.clientWidth)).observe(this.host);
    this.fit(this.host.clientWidth);
  }

  /** Draws for this width, unless that is how it is drawn, or nothing can be seen of it. */
  fit(width: number): void {
    if (width < 1 || width === this.drawn) return;
    const held = document.activeElement && this.host.contains(document.activeElement);
    this.drawn = width;
    this.tooltip.hide();
    this.host.replaceChildren(...draw(this.chart, width, this.run, this.tooltip), this.tooltip.node);
    if (held) this.host.querySelector<SVGElement>('[tabindex="0"]')?.focus();
  }
}

/** Opens what hides the element that the address names, and brings it into view. */
function reveal(): void {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  let details = target.closest("details");
  while (details) {
    details.open = true;
    details = details.parentElement?.closest("details") ?? null;
  }
  target.scrollIntoView({ block: "center" });
}

/** The plot of the figure around this data. */
function plot(data: Element): Plot {
  const run = data.closest("figure")?.dataset.run ?? "run-";
  return new Plot(JSON.parse(data.textContent ?? "") as Chart, run, data);
}

/** Wakes the page. The first charts are drawn at once, the others in turns, so that a large page can be read meanwhile. */
export function start(): void {
  // Without scripts the numbers stand open, since nothing draws them. Folded first, for widths are asked for below.
  for (const details of document.querySelectorAll<HTMLDetailsElement>("details.numbers")) details.open = false;
  const plots: Plot[] = [];
  const waiting = [...document.querySelectorAll('script[type="application/json"].chart')];
  const some = () => {
    const begun = performance.now();
    while (waiting.length > 0 && performance.now() - begun < BUDGET) plots.push(plot(waiting.shift()!));
    if (waiting.length > 0) setTimeout(some);
  };
  some();
  addEventListener("hashchange", reveal);
  reveal();
  let closed: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
    for (const details of closed) details.open = true;
    plots.push(...waiting.splice(0).map(plot));
    for (const each of plots) each.fit(PAPER);
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });
}
