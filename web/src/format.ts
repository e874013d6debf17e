// Numbers as people read them: the same rules as crates/lab/src/units.rs.

import type { Ends, Unit } from "./chart";

export const MISSING = "–";

/** Three significant digits; whole numbers from 100 up. */
export function significant(value: number): string {
  if (!Number.isFinite(value)) return MISSING;
  const decimals = (v: number) => (v === 0 ? 0 : Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(v))))));
  // Rounding can carry into the next decade (9.996 to 10.0), which needs one decimal less.
  const unit = 10 ** decimals(value);
  const rounded = Math.round(value * unit) / unit;
  return rounded.toFixed(decimals(rounded));
}

/** Microseconds as `3.20 ns`, `820 µs`, `12.3 ms` or `4.56 s`. */
export function duration(us: number): string {
  if (us > 0 && us < 0.9995) return `${significant(us * 1e3)} ns`;
  if (us < 999.5) return `${significant(us)} µs`;
  return us < 999_500 ? `${significant(us / 1e3)} ms` : `${significant(us / 1e6)} s`;
}

/** Events per second as `0.52 /s`, `12.3 k/s` or `1.20 M/s`. */
export function rate(perSecond: number): string {
  if (perSecond < 999.5) return `${significant(perSecond)} /s`;
  return perSecond < 999_500 ? `${significant(perSecond / 1e3)} k/s` : `${significant(perSecond / 1e6)} M/s`;
}

export function percent(share: number): string {
  const value = share * 100;
  if (Math.abs(value) < 0.05) return "0 %";
  return `${value.toFixed(Math.abs(value) < 0.95 ? 1 : 0)} %`;
}

/** Bytes in powers of 1024. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.max(0, Math.min(units.length - 1, Math.floor(Math.log2(Math.max(value, 1)) / 10)));
  return `${significant(value / 1024 ** power)} ${units[power]}`;
}

/** A figure in its unit; a plain number where there is none. */
export function figure(value: number, unit: Unit | null): string {
  if (unit === null) return significant(value);
  if (unit === "share") return percent(value);
  if (unit === "times") return `${significant(value)} ×`;
  if (unit === "bytes") return bytes(value);
  if (unit === "rate") return rate(value);
  return unit === "duration" ? duration(value) : value.toFixed(2);
}

/** `95 % interval 1.20 k/s to 1.40 k/s`, or why there is none. */
export function interval(low: number | null, high: number | null, unit: Unit, ends: Ends = "interval"): string {
  if (low === null || high === null) return ends === "rounds" ? "one round" : "one run, so no interval";
  if (ends === "rounds") return `rounds from ${figure(low, unit)} to ${figure(high, unit)}`;
  return `95 % interval ${figure(low, unit)} to ${figure(high, unit)}`;
}

/** A number on an axis, without more digits than it needs: `20 k`, `0.5`, `2 ms`. */
export function tick(value: number, unit: Unit | null): string {
  const plain = (v: number) => String(Number(v.toPrecision(4)));
  if (unit === "duration") {
    if (value === 0) return "0";
    if (value < 0.9995) return `${plain(value * 1e3)} ns`;
    if (value < 1e3) return `${plain(value)} µs`;
    return value < 1e6 ? `${plain(value / 1e3)} ms` : `${plain(value / 1e6)} s`;
  }
  if (unit === "share") return percent(value);
  if (unit === "bytes") {
    const [number, name] = bytes(value).split(" ");
    return `${Number(number)} ${name}`;
  }
  if (Math.abs(value) >= 1e9) return `${plain(value / 1e9)} G`;
  if (Math.abs(value) >= 1e6) return `${plain(value / 1e6)} M`;
  return Math.abs(value) >= 1e4 ? `${plain(value / 1e3)} k` : plain(value);
}

/** `high` percentile as people name it: `p50`, `p99.9`. */
export function percentile(quantile: number): string {
  return quantile >= 1 ? "max" : `p${Number((quantile * 100).toFixed(4))}`;
}
