// What happens under the pointer and the keyboard, the same in every chart.
//
// One tab stop per series; arrow keys walk within it and to the next one; Enter goes to the run behind the point.

import { html } from "./svg";

/** Something a reader can point at. */
export interface Mark {
  x: number;
  y: number;
  node: SVGElement;
  title: string;
  lines: string[];
  /** The run it rests on first, `run-12`; empty if there is none. */
  target: string;
}

/** Beyond this many pixels nothing is meant. */
const REACH = 36;

/** The one tooltip of a figure. */
export class Tooltip {
  readonly node = html("div", "tip");
  private shown: Mark | null = null;

  constructor(private readonly host: HTMLElement) {
    this.node.hidden = true;
    this.node.setAttribute("role", "status");
    host.append(this.node);
  }

  show(mark: Mark, canvas: SVGSVGElement): void {
    if (this.shown === mark) return;
    this.hide();
    this.shown = mark;
    mark.node.classList.add("on");
    this.node.replaceChildren(html("strong", "", mark.title), ...mark.lines.map((line) => html("span", "", line)));
    this.node.hidden = false;
    const [plot, box] = [this.host.getBoundingClientRect(), canvas.getBoundingClientRect()];
    const scale = box.width / (canvas.viewBox?.baseVal?.width || box.width || 1);
    const x = box.left - plot.left + mark.x * scale;
    const y = box.top - plot.top + mark.y * scale;
    const half = this.node.offsetWidth / 2;
    const left = Math.min(Math.max(x, half), Math.max(half, plot.width - half));
    const above = y - this.node.offsetHeight - 14;
    this.node.style.left = `${Math.round(left - half)}px`;
    this.node.style.top = `${Math.round(above < -40 ? y + 16 : above)}px`;
  }

  hide(): void {
    this.shown?.node.classList.remove("on");
    this.shown = null;
    this.node.hidden = true;
  }
}

/** Makes marks answer. Groups are series, each in the order of its axis. */
export function interact(canvas: SVGSVGElement, groups: Mark[][], tooltip: Tooltip): void {
  const rows = groups.filter((group) => group.length > 0);
  const all = rows.flat();
  for (const mark of all) {
    mark.node.setAttribute("role", mark.target ? "link" : "img");
    mark.node.setAttribute("aria-label", [mark.title, ...mark.lines].join("; "));
    mark.node.setAttribute("tabindex", "-1");
    mark.node.addEventListener("focus", () => tooltip.show(mark, canvas));
    mark.node.addEventListener("blur", () => tooltip.hide());
  }
  for (const row of rows) row[0]!.node.setAttribute("tabindex", "0");
  canvas.addEventListener("pointermove", (event) => {
    const mark = nearest(all, canvas, event);
    if (mark) tooltip.show(mark, canvas);
    else tooltip.hide();
  });
  canvas.addEventListener("pointerleave", () => tooltip.hide());
  canvas.addEventListener("click", (event) => {
    const mark = nearest(all, canvas, event);
    if (mark && event.pointerType !== "touch") follow(mark);
    else if (mark) tooltip.show(mark, canvas);
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return tooltip.hide();
    const next = step(rows, document.activeElement, event.key);
    if (next === "follow") {
      const mark = all.find((candidate) => candidate.node === document.activeElement);
      if (mark) follow(mark);
    } else if (next) {
      for (const mark of rows.find((row) => row.includes(next))!) mark.node.setAttribute("tabindex", "-1");
      next.node.setAttribute("tabindex", "0");
      next.node.focus();
    } else {
      return;
    }
    event.preventDefault();
  });
}

/** Where a key leads from the mark that has the focus. */
export function step(rows: Mark[][], active: Element | null, key: string): Mark | "follow" | null {
  const row = rows.findIndex((group) => group.some((mark) => mark.node === active));
  const group = rows[row];
  if (!group) return null;
  const column = group.findIndex((mark) => mark.node === active);
  const mark = group[column]!;
  const across = (to: number) => {
    const others = rows[to];
    return others ? others.reduce((best, other) => (Math.abs(other.x - mark.x) < Math.abs(best.x - mark.x) ? other : best)) : null;
  };
  switch (key) {
    case "ArrowRight":
      return group[column + 1] ?? null;
    case "ArrowLeft":
      return group[column - 1] ?? null;
    case "Home":
      return group[0]!;
    case "End":
      return group[group.length - 1]!;
    case "ArrowDown":
      return across(row + 1);
    case "ArrowUp":
      return across(row - 1);
    case "Enter":
    case " ":
      return "follow";
    default:
      return null;
  }
}

function nearest(marks: Mark[], canvas: SVGSVGElement, event: MouseEvent): Mark | null {
  const box = canvas.getBoundingClientRect();
  const scale = (canvas.viewBox?.baseVal?.width || box.width) / (box.width || 1);
  const [x, y] = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
  const hit = event.target instanceof Node ? marks.find((mark) => mark.node.contains(event.target as Node)) : undefined;
  if (hit) return hit;
  let best: Mark | null = null;
  let least = REACH;
  for (const mark of marks) {
    const distance = Math.hypot(mark.x - x, mark.y - y);
    if (distance < least) [best, least] = [mark, distance];
  }
  return best;
}

/** Opens whatever hides the run, and goes there. */
function follow(mark: Mark): void {
  if (mark.target) location.hash = mark.target;
}
