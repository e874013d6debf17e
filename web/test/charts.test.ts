import { beforeEach, expect, test, vi } from "vitest";
import type { Chart } from "../src/chart";
import { step, Tooltip, type Mark } from "../src/interact";
import { strength } from "../src/matrix";
import { draw, start } from "../src/page";
import { svg } from "../src/svg";
import charts from "./charts.json";

const all = charts as unknown as Record<string, Chart>;

beforeEach(() => {
  document.body.innerHTML = "";
});

function drawn(chart: Chart, width: number): HTMLElement {
  const host = document.createElement("div");
  host.append(...draw(chart, width, "run-", new Tooltip(host)));
  return host;
}

test("every kind of chart is there", () => {
  const kinds = new Set(Object.values(all).map((chart) => chart.kind));
  expect([...kinds].sort()).toEqual(["curve", "distribution", "intervals", "lines", "matrix", "shares"]);
});

for (const [name, chart] of Object.entries(all)) {
  for (const width of [280, 900, 1600]) {
    test(`${name} at ${width} px: all coordinates are numbers within the drawing`, () => {
      const host = drawn(chart, width);
      expect(host.querySelectorAll("svg .mark").length).toBeGreaterThan(0);
      expect(host.innerHTML).not.toMatch(/NaN|Infinity|undefined|null/);
      for (const canvas of host.querySelectorAll<SVGElement>("svg[role=group]")) {
        const limit = Number(canvas.getAttribute("width"));
        if (chart.kind !== "matrix") expect(limit).toBeLessThanOrEqual(width);
        for (const shape of canvas.querySelectorAll("circle, rect")) {
          const x = Number(shape.getAttribute("cx") ?? shape.getAttribute("x"));
          expect(x).toBeGreaterThanOrEqual(-1);
          expect(x).toBeLessThanOrEqual(limit + 1);
          expect(Number(shape.getAttribute("width") ?? 0)).toBeGreaterThanOrEqual(0);
        }
      }
    });
  }

  test(`${name}: every mark speaks, and each series is one tab stop`, () => {
    const host = drawn(chart, 900);
    const marks = [...host.querySelectorAll("svg .mark")];
    for (const mark of marks) {
      expect(mark.getAttribute("aria-label")).toBeTruthy();
      expect(["img", "link"]).toContain(mark.getAttribute("role"));
    }
    const stops = marks.filter((mark) => mark.getAttribute("tabindex") === "0").length;
    expect(stops).toBeGreaterThan(0);
    expect(stops).toBeLessThanOrEqual(marks.length);
    for (const canvas of host.querySelectorAll("svg[role=group]")) expect(canvas.getAttribute("aria-label")).toBeTruthy();
  });
}

test("a curve shows intervals, repeats, outliers, fit, knees and the curve alone", () => {
  const host = drawn(all["cores throughput"]!, 900);
  for (const what of [".interval", ".dot", ".outlier", ".fit", ".flag", ".foot", ".series.faint", ".legend"]) {
    expect(host.querySelector(what), what).not.toBeNull();
  }
  const told = [...host.querySelectorAll(".mark")].map((mark) => mark.getAttribute("aria-label"));
  expect(told.some((label) => /95 % interval .* to .*; n = 3, runs \d+, \d+, \d+/.test(label ?? ""))).toBe(true);
});

test("a setting without a valid run is a cross on the axis that says why", () => {
  const gap = drawn(all["cores reports"]!, 900).querySelector(".mark.gap");
  expect(gap?.getAttribute("aria-label")).toBe("cores 3: no valid run; interrupted");
  expect(gap?.getAttribute("role")).toBe("link");
});

test("figures of memory have sizes below them and rounds around them", () => {
  const host = drawn(all["memory latency"]!, 900);
  expect(host.textContent).toContain("4 KiB");
  const told = [...host.querySelectorAll(".mark")].map((mark) => mark.getAttribute("aria-label") ?? "");
  expect(told.every((label) => / ns; rounds from .* ns to .* ns$/.test(label))).toBe(true);
});

test("names are text, whatever they contain", () => {
  const hostile = '</script><img src=x onerror="alert(1)">';
  const chart = structuredClone(all["study throughput"]!);
  if (chart.kind !== "intervals") throw new Error("the fixture has another shape");
  chart.panels[0]!.title = hostile;
  chart.panels[0]!.rows[0]!.name = hostile;
  const host = drawn(chart, 600);
  expect(host.querySelector("img")).toBeNull();
  expect(host.textContent).toContain(hostile);
});

test("colour of a matrix is as far from 1 at half as at double speed", () => {
  expect(strength(1)).toBe(0);
  expect(strength(2)).toBe(1);
  expect(strength(0.5)).toBe(-0.5);
  expect(strength(0.25)).toBe(-1);
  expect(strength(0)).toBe(-1);
  expect(strength(9)).toBe(1);
});

test("arrow keys walk within a series and across", () => {
  const mark = (x: number): Mark => ({ x, y: 0, node: svg("g"), title: "", lines: [], target: "" });
  const [a, b, c, d] = [mark(0), mark(10), mark(1), mark(11)] as [Mark, Mark, Mark, Mark];
  const rows = [[a, b], [c, d]];
  expect(step(rows, a.node, "ArrowRight")).toBe(b);
  expect(step(rows, b.node, "ArrowRight")).toBeNull();
  expect(step(rows, b.node, "ArrowDown")).toBe(d);
  expect(step(rows, c.node, "ArrowUp")).toBe(a);
  expect(step(rows, c.node, "End")).toBe(d);
  expect(step(rows, c.node, "Enter")).toBe("follow");
  expect(step(rows, c.node, "x")).toBeNull();
  expect(step(rows, null, "Enter")).toBeNull();
});

test("the page draws what is visible, folds the numbers, and opens the way to a run", () => {
  vi.stubGlobal("ResizeObserver", class { observe() {} });
  Object.defineProperty(HTMLElement.prototype, "clientWidth", { configurable: true, get: () => 640 });
  const figure = document.createElement("figure");
  figure.dataset.run = "r2-run-";
  const data = document.createElement("script");
  data.type = "application/json";
  data.className = "chart";
  data.textContent = JSON.stringify(all["study throughput"]);
  figure.append(data);
  document.body.append(figure);
  document.body.insertAdjacentHTML(
    "beforeend",
    '<details class="numbers" open></details><details id="runs"><table><tr id="r2-run-0"></tr></table></details>',
  );
  start();
  expect(figure.querySelector("svg .mark")).not.toBeNull();
  expect(document.querySelector<HTMLDetailsElement>(".numbers")!.open).toBe(false);
  const runs = document.querySelector<HTMLDetailsElement>("#runs")!;
  document.querySelector("tr")!.scrollIntoView = () => {};
  expect(runs.open).toBe(false);
  location.hash = "r2-run-0";
  dispatchEvent(new Event("hashchange"));
  expect(runs.open).toBe(true);
  dispatchEvent(new Event("beforeprint"));
  expect([...document.querySelectorAll("details")].every((details) => details.open)).toBe(true);
});
