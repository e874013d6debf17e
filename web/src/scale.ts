// Axes: where a value goes, and which values get a label.

import { scaleLinear, scaleLog } from "d3-scale";
import { tick } from "./format";
import type { Scale, Unit } from "./chart";

export interface Tick {
  at: number;
  value: number;
  /** Empty where there is no room: the grid line stays, the words go. */
  label: string;
}

export interface Axis {
  isLog: boolean;
  /** Pixels of a value, held within the axis. */
  at(value: number): number;
  /** Whether the value lies on the axis. */
  holds(value: number): boolean;
  ticks: Tick[];
}

/** About as wide as a character of a label is at the size the style sheet gives it. */
const CHARACTER = 6.4;

/**
 * Whether values ask for a logarithmic axis: they span more than twentyfold and their steps are more even in ratio, or
 * they are powers, as 1, 2, 4, 8.
 */
export function isGeometric(values: number[]): boolean {
  const sorted = [...new Set(values)].sort((a, b) => a - b);
  const [low, high] = [sorted[0], sorted[sorted.length - 1]];
  if (low === undefined || high === undefined || low <= 0 || high / low < 8) return false;
  const unevenness = (place: (value: number) => number) => {
    const steps = sorted.slice(1).map((value, i) => place(value) - place(sorted[i]!));
    return Math.max(...steps) / (steps.reduce((a, b) => a + b, 0) / steps.length);
  };
  if (high / low <= 20) return sorted.length > 3 && unevenness(Math.log) < 1.01;
  return unevenness(Math.log) <= unevenness((value) => value);
}

/** The axis of what was swept: ticks are the swept values themselves where there are not too many. */
export function sweptAxis(values: number[], range: [number, number], unit: Unit | null = null): Axis {
  const sorted = [...new Set(values)].sort((a, b) => a - b);
  const [low, high] = [sorted[0] ?? 0, sorted[sorted.length - 1] ?? 1];
  const isLog = isGeometric(sorted);
  const domain: [number, number] = low === high ? [low - 1, high + 1] : [low, high];
  const scale = isLog ? scaleLog(domain, range) : scaleLinear(domain, range);
  const rounded = () => (unit === "bytes" && isLog ? powersOfFour(low, high) : scale.ticks(8));
  const marks = sorted.length <= 16 ? sorted : rounded();
  return finish(scale, isLog, domain, marks, unit, false);
}

/** 4, 16, 64, … within the bounds: what sizes in bytes are read by. */
function powersOfFour(low: number, high: number): number[] {
  const out: number[] = [];
  for (let power = Math.ceil(Math.log(low) / Math.log(4) - 1e-9); 4 ** power <= high; power++) out.push(4 ** power);
  return out;
}

/**
 * The axis of a figure: from 0, or logarithmic for durations that span more than twentyfold. Ends of intervals may lie
 * beyond it, for two repeats that differ give an interval that would leave the figures themselves no room.
 */
export function figureAxis(figures: number[], ends: number[], unit: Unit, range: [number, number]): Axis {
  const positive = figures.filter((value) => value > 0);
  const most = Math.max(...figures, 0) || 1;
  const least = Math.min(...positive);
  const isVertical = range[0] > range[1];
  if (unit === "times") return timesAxis([...figures, ...ends], range);
  const most_end = Math.min(Math.max(most, ...ends.filter(Number.isFinite)), most * 1.35);
  if (unit === "duration" && positive.length > 1 && most / least > 20) {
    const scale = scaleLog([least * 0.8, most * 1.2], range);
    return finish(scale, true, [least * 0.8, most * 1.2], decades(least * 0.8, most * 1.2), unit, isVertical);
  }
  const scale = scaleLinear([0, most_end * 1.04], range);
  const count = Math.max(2, Math.min(6, Math.abs(range[1] - range[0]) / (isVertical ? 44 : 80)));
  return finish(scale, false, [0, most_end * 1.04], scale.ticks(count), unit, isVertical);
}

/** A logarithmic axis of durations. */
export function durationAxis(low: number, high: number, range: [number, number]): Axis {
  return logAxis(Math.max(low, 0.5), Math.max(high, 1), "duration", range);
}

/** A logarithmic axis of ratios around 1, at least from a third to three times. */
function timesAxis(values: number[], range: [number, number]): Axis {
  const positive = [1 / 3, 3, ...values.filter((value) => value > 0 && Number.isFinite(value))];
  return logAxis(Math.max(Math.min(...positive), 1 / 40), Math.min(Math.max(...positive), 40), "times", range);
}

function logAxis(low: number, high: number, unit: Unit | null, range: [number, number]): Axis {
  const domain: [number, number] = [low * 0.85, high * 1.15];
  return finish(scaleLog(domain, range), true, domain, decades(...domain), unit, range[0] > range[1]);
}

/** An axis of lines. A logarithmic one leaves out what is not above 0. */
export function spanAxis(values: number[], { unit, span }: Scale, range: [number, number]): Axis {
  const isVertical = range[0] > range[1];
  const positive = values.filter((value) => value > 0);
  if (span === "log" && positive.length > 0) return logAxis(Math.min(...positive), Math.max(...positive), unit, range);
  const [least, most] = [Math.min(...values, Infinity), Math.max(...values, -Infinity)];
  if (span === "close" && !isVertical && values.every(Number.isInteger)) return sweptAxis(values, range, unit);
  const room = Math.max((most - least) * 0.08, Math.abs(most) * 0.005);
  const close: [number, number] = [least - room, most + room];
  const whole: [number, number] = [0, span === "whole" ? 1 : most * 1.04 || 1];
  const domain = span === "close" && most >= least ? close : whole;
  const scale = scaleLinear(domain, range);
  const count = Math.max(2, Math.min(6, Math.abs(range[1] - range[0]) / (isVertical ? 44 : 80)));
  return finish(scale, false, domain, scale.ticks(count), unit, isVertical);
}

/** Percentiles by their nines: as far from p90 to p99 as from p99 to p99.9. `most` is the largest quantile below 1. */
export function nines(most: number, range: [number, number]): Axis {
  const top = Math.max(1, -Math.log10(1 - Math.min(most, 0.999999)) + 0.35);
  const scale = scaleLinear([0, top], range);
  const place = (quantile: number) => Math.min(top, -Math.log10(Math.max(1 - quantile, 1e-9)));
  const quantiles = [0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999].filter((q) => place(q) <= top && (q <= most || q === 0));
  const labels = quantiles.map((q) => (q === 0 ? "" : `p${Number((q * 100).toFixed(4))}`));
  const ticks = quantiles.map((value, i) => ({ at: scale(place(value)), value, label: labels[i]! }));
  ticks.push({ at: range[1], value: 1, label: "max" });
  return { isLog: true, at: (q) => scale(place(q)), holds: (q) => q <= most, ticks: roomFor(ticks, false) };
}

/** 1, 2, 5 of each decade, or only 1 where there are many. */
function decades(low: number, high: number): number[] {
  const steps = high / low > 1e3 ? [1] : [1, 2, 5];
  const out: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
    out.push(...steps.map((step) => step * 10 ** power).filter((value) => value >= low && value <= high));
  }
  return out;
}

function finish(
  scale: (value: number) => number,
  isLog: boolean,
  [low, high]: [number, number],
  values: number[],
  unit: Unit | null,
  isVertical: boolean,
): Axis {
  const clamp = (value: number) => Math.min(high, Math.max(low, value));
  const ticks = values.map((value) => ({ at: scale(value), value, label: tick(value, unit) }));
  return { isLog, at: (value) => scale(clamp(value)), holds: (v) => v >= low && v <= high, ticks: roomFor(ticks, isVertical) };
}

/** Drops labels that would touch the one before. The last one is kept, for it tells where the axis ends. */
function roomFor(ticks: Tick[], isVertical: boolean): Tick[] {
  const half = (t: Tick) => (isVertical ? 7 : (t.label.length * CHARACTER) / 2 + 3);
  const apart = (a: Tick, b: Tick) => Math.abs(a.at - b.at) >= half(a) + half(b);
  const last = ticks[ticks.length - 1];
  let kept: Tick | undefined;
  return ticks.map((t) => {
    const fits = t.label !== "" && (!kept || apart(kept, t)) && (t === last || !last || apart(t, last));
    if (fits) kept = t;
    return fits ? t : { ...t, label: "" };
  });
}
