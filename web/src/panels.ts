// Small multiples: panels in rows, and the legend above them.

import { html, shape, svg } from "./svg";

interface Panel {
  row: string;
  title: string;
  note?: string;
}

/** Space between panels, pixels. */
const GAP = 24;

/**
 * Lays panels out in as many columns as fit at `least` pixels each. Panels of one `row` stand under its name; where rows
 * are short, columns are as many as the longest row needs.
 */
export function panels<P extends Panel>(
  all: P[],
  width: number,
  least: number,
  draw: (panel: P, width: number) => SVGSVGElement,
): Node[] {
  const rows = new Map<string, P[]>();
  for (const panel of all) rows.set(panel.row, [...(rows.get(panel.row) ?? []), panel]);
  const longest = Math.max(...[...rows.values()].map((row) => row.length), 1);
  const columns = Math.max(1, Math.min(longest, Math.floor((width + GAP) / (least + GAP))));
  const each = Math.min(columns === 1 ? 720 : 560, Math.floor((width - GAP * (columns - 1)) / columns));
  return [...rows].map(([name, row]) => {
    const grid = html("div", "panels");
    grid.style.gridTemplateColumns = `repeat(${columns}, ${each}px)`;
    for (const panel of row) {
      const box = html("div", "panel");
      if (panel.title) box.append(html("p", "panel-title", panel.title));
      box.append(draw(panel, each));
      if (panel.note) box.append(html("p", "panel-note", panel.note));
      grid.append(box);
    }
    return name ? html("div", "panel-row", html("p", "row-name", name), grid) : grid;
  });
}

/** Names with their mark, in the order of the series. */
export function legend(series: { name: string; colour: number; faint?: boolean }[]): HTMLElement {
  const items = series.map(({ name, colour, faint }) => {
    const mark = svg("svg", { viewBox: "0 0 22 12", width: 22, height: 12, "aria-hidden": "true" });
    const group = svg("g", { class: `series c${colour}${faint ? " faint" : ""}` });
    group.append(svg("path", { class: "curve", d: "M0,6L22,6" }));
    if (!faint) group.append(shape(colour, 11, 6, 4));
    mark.append(group);
    return html("li", "", mark, name);
  });
  return html("ul", "legend", ...items);
}
