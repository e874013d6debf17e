import { expect, test } from "vitest";
import css from "../src/report.css?raw";

type Triple = [number, number, number];

/** What people with a colour deficiency see of linear RGB, at full severity (Machado, Oliveira and Fernandes 2009). */
const EYES: Record<string, Triple[]> = {
  usual: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

function linear(hex: string): Triple {
  const channel = (at: number) => {
    const value = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return [channel(1), channel(3), channel(5)];
}

const times = (matrix: Triple[], v: Triple): Triple => matrix.map((row) => row[0] * v[0] + row[1] * v[1] + row[2] * v[2]) as Triple;

const luminance = (hex: string) => times([[0.2126, 0.7152, 0.0722], [0, 0, 0], [0, 0, 0]], linear(hex))[0];

/** Contrast as WCAG 2 defines it. */
function contrast(a: string, b: string): number {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** CIE L*a*b* of linear RGB. */
function lab(rgb: Triple): Triple {
  const clamped = rgb.map((value) => Math.min(1, Math.max(0, value))) as Triple;
  const xyz = times([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]], clamped);
  const f = (t: number) => (t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116);
  const [x, y, z] = [f(xyz[0] / 0.9505), f(xyz[1]), f(xyz[2] / 1.089)];
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

/** Colours by name of the first block that sets them in this part of the style sheet. */
function colours(part: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, name, value] of part.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)) {
    if (!found.has(name!)) found.set(name!, value!);
  }
  return found;
}

const [light, dark] = css.split("@media (prefers-color-scheme: dark)") as [string, string];

for (const [name, part] of [["light", light], ["dark", dark]] as const) {
  const palette = colours(part);
  const page = palette.get("page")!;
  const series = [0, 1, 2, 3, 4, 5, 6].map((n) => palette.get(`c${n}`)!);

  test(`${name}: series stand out from the page, words more so`, () => {
    for (const colour of series) expect(contrast(colour, page), colour).toBeGreaterThanOrEqual(3);
    for (const ink of ["ink", "muted", "good-ink", "bad-ink", "link"]) {
      expect(contrast(palette.get(ink)!, page), ink).toBeGreaterThanOrEqual(4.5);
    }
  });

  for (const [eyes, matrix] of Object.entries(EYES)) {
    test(`${name}: series can be told apart by ${eyes} eyes`, () => {
      const seen = series.map((colour) => lab(times(matrix, linear(colour))));
      seen.forEach((a, i) =>
        seen.slice(i + 1).forEach((b, j) => {
          const distance = Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
          expect(distance, `${series[i]} and ${series[i + 1 + j]}`).toBeGreaterThan(10);
        }),
      );
    });
  }
}
