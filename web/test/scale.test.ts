import { expect, test } from "vitest";
import { durationAxis, figureAxis, isGeometric, nines, sweptAxis } from "../src/scale";

test("an axis is logarithmic where values span more than twentyfold by ratios", () => {
  expect(isGeometric([1, 2, 4, 8, 16, 32, 64])).toBe(true);
  expect(isGeometric([1, 10, 100])).toBe(true);
  expect(isGeometric([1, 2, 4, 8, 16])).toBe(true);
  expect(isGeometric([1, 2, 4])).toBe(false);
  expect(isGeometric([1, 2, 4, 8, 12, 16])).toBe(false);
  expect(isGeometric([1, 20, 40, 60, 80, 100])).toBe(false);
  expect(isGeometric([0, 1, 10, 100])).toBe(false);
  expect(isGeometric([5])).toBe(false);
  expect(isGeometric([])).toBe(false);
});

test("a swept axis marks the values that were swept", () => {
  const axis = sweptAxis([64, 1, 8, 8], [0, 300]);
  expect(axis.isLog).toBe(true);
  expect(axis.ticks.map((t) => t.label)).toEqual(["1", "8", "64"]);
  expect(axis.at(8)).toBeCloseTo(150);
  expect(axis.at(1000)).toBe(300);
  const sizes = sweptAxis(Array.from({ length: 40 }, (_, step) => 4096 * 2 ** (step / 2)), [0, 2000], "bytes");
  expect(sizes.ticks.slice(0, 3).map((t) => t.label)).toEqual(["4 KiB", "16 KiB", "64 KiB"]);
  const one = sweptAxis([4], [0, 300]);
  expect(one.at(4)).toBe(150);
});

test("labels never touch, and the last one stays", () => {
  const axis = sweptAxis([10_001, 10_002, 10_003, 10_004, 10_005, 10_016], [0, 120]);
  const shown = axis.ticks.filter((t) => t.label !== "");
  expect(shown[shown.length - 1]!.value).toBe(10_016);
  for (const [i, t] of shown.slice(1).entries()) expect(t.at - shown[i]!.at).toBeGreaterThan(t.label.length * 5);
});

test("figures begin at 0, and a wild interval does not squeeze them", () => {
  const axis = figureAxis([80, 100], [5000], "rate", [200, 0]);
  expect(axis.at(0)).toBe(200);
  expect(axis.at(100)).toBeLessThan(70);
  expect(axis.holds(5000)).toBe(false);
  expect(axis.at(5000)).toBe(0);
  expect(axis.at(-3)).toBe(200);
});

test("durations that span decades get a logarithmic axis, others and zeros do not fail", () => {
  expect(figureAxis([100, 90_000], [], "duration", [200, 0]).isLog).toBe(true);
  expect(figureAxis([100, 900], [], "duration", [200, 0]).isLog).toBe(false);
  expect(Number.isFinite(figureAxis([0], [], "rate", [200, 0]).at(0))).toBe(true);
  expect(Number.isFinite(figureAxis([], [], "duration", [200, 0]).at(1))).toBe(true);
  expect(durationAxis(0, 0, [200, 0]).ticks.length).toBeGreaterThan(0);
});

test("percentiles stand by their nines", () => {
  const axis = nines(0.999, [0, 335]);
  const [p90, p99, p999] = [0.9, 0.99, 0.999].map((q) => axis.at(q)) as [number, number, number];
  expect(p99 - p90).toBeCloseTo(p999 - p99, 6);
  expect(axis.at(1)).toBe(335);
  expect(axis.ticks[axis.ticks.length - 1]!.label).toBe("max");
});
