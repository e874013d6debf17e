import { expect, test } from "vitest";
import { bytes, duration, figure, interval, percent, percentile, rate, significant, tick } from "../src/format";

test("figures read as in the tables that Rust writes", () => {
  const cases: [string, string][] = [
    [significant(0), "0"],
    [significant(9.996), "10.0"],
    [significant(0.01234), "0.0123"],
    [significant(1234.6), "1235"],
    [significant(Number.NaN), "–"],
    [duration(0), "0 µs"],
    [duration(0.0032), "3.20 ns"],
    [duration(0.9997), "1.00 µs"],
    [duration(820), "820 µs"],
    [duration(999.7), "1.00 ms"],
    [duration(12_345), "12.3 ms"],
    [duration(4_560_000), "4.56 s"],
    [rate(0.0213), "0.0213 /s"],
    [rate(12_345), "12.3 k/s"],
    [rate(1_200_000), "1.20 M/s"],
    [percent(0.412), "41 %"],
    [percent(0.004), "0.4 %"],
    [percent(0), "0 %"],
    [bytes(0), "0 B"],
    [bytes(32 * 1024), "32.0 KiB"],
    [bytes(270_582_939_648), "252 GiB"],
    [figure(0.987, "ratio"), "0.99"],
    [interval(1, 2, "ratio"), "95 % interval 1.00 to 2.00"],
    [interval(0.1, 0.12, "duration", "rounds"), "rounds from 100 ns to 120 ns"],
    [interval(null, 2, "ratio"), "one run, so no interval"],
    [percentile(0.999), "p99.9"],
    [percentile(1), "max"],
  ];
  for (const [got, expected] of cases) expect(got).toBe(expected);
});

test("ticks have no digits they do not need", () => {
  expect([0, 0.5, 2, 2000, 20_000, 3e6].map((value) => tick(value, "rate"))).toEqual(["0", "0.5", "2", "2000", "20 k", "3 M"]);
  expect([0, 500, 2e3, 2e6].map((value) => tick(value, "duration"))).toEqual(["0", "500 µs", "2 ms", "2 s"]);
});
