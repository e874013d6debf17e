// What the page carries for each chart, as JSON. Field for field this is crates/lab/src/report/chart.rs; the fixture
// test/charts.json is written by Rust's tests and read by ours, so that the two cannot part.

/** What a number is, and so how it is written. */
export type Unit = "rate" | "duration" | "ratio" | "bytes" | "share" | "times";

/** What `low` and `high` of a figure are: its 95 % interval over runs, or the lowest and highest of several rounds. */
export type Ends = "interval" | "rounds";

/** One run: its position among the results' points, its figure, and whether it lies far from its siblings. */
export type Sample = [run: number, value: number, outlier: boolean];

/** A figure with its 95 % interval and the runs it rests on. */
export interface Figure {
  value: number;
  low: number | null;
  high: number | null;
  samples: Sample[];
}

/** A figure at a place on the numeric x axis. */
export interface CurvePoint extends Figure {
  at: number;
}

export interface Series {
  name: string;
  /** Position in the palette: 0 is the grey of whoever runs alone. */
  colour: number;
  /** Context drawn behind, which takes no part in interaction. */
  faint: boolean;
  points: CurvePoint[];
  /** A fitted line through `[x, y]`, empty if there is none. */
  fit: [number, number][];
  /** What the line is: "monotone fit". */
  fit_name: string;
}

/** A place on the x axis worth a flag: a knee, a peak. */
export interface Flag {
  at: number;
  low: number | null;
  high: number | null;
  label: string;
}

/** A value on the y axis to compare with, and the band around it that is noise. */
export interface Reference {
  value: number;
  floor: number | null;
  label: string;
}

/** A place on the x axis where every run was invalid: the first of them, and why. */
export interface Gap {
  at: number;
  run: number;
  why: string;
}

export interface CurvePanel {
  /** Panels with equal `row` stand side by side under it. */
  row: string;
  title: string;
  note: string;
  series: Series[];
  flags: Flag[];
  gaps: Gap[];
}

/** Figures over a numeric axis. All panels share both scales. */
export interface CurveChart {
  kind: "curve";
  label: string;
  x: string;
  /** `null` where the values of x are plain numbers. */
  x_unit: Unit | null;
  y: string;
  unit: Unit;
  ends: Ends;
  reference: Reference | null;
  panels: CurvePanel[];
}

export interface IntervalRow extends Figure {
  name: string;
  /** A second line: what came of the comparison, how many runs. */
  detail: string;
  colour: number;
  /** Half width of the band of noise around the reference; `null` if unknown. */
  floor: number | null;
}

/** Figures side by side, one a row. */
export interface IntervalPanel {
  row: string;
  title: string;
  rows: IntervalRow[];
}

/** Figures of things that have no order: arms, policies. All panels share the scale, which begins at 0. */
export interface IntervalChart {
  kind: "intervals";
  label: string;
  x: string;
  unit: Unit;
  reference: Reference | null;
  panels: IntervalPanel[];
}

export type Finding = "faster" | "slower" | "no_difference" | "not_determined";

export interface Cell {
  row: number;
  column: number;
  value: number;
  low: number | null;
  high: number | null;
  finding: Finding;
}

/** Who suffers (row) beside whom (column). */
export interface MatrixChart {
  kind: "matrix";
  label: string;
  rows: string[];
  columns: string[];
  cells: Cell[];
}

export interface DistributionPanel {
  row: string;
  title: string;
  /** `points` are `[quantile, microseconds]`, ascending. */
  series: { name: string; colour: number; points: [number, number][] }[];
}

/** Latency by percentile; both axes logarithmic, percentiles by their nines. */
export interface DistributionChart {
  kind: "distribution";
  label: string;
  panels: DistributionPanel[];
}

/** Parts of a whole, stacked. `null`: not measured and within the last part. */
export interface ShareChart {
  kind: "shares";
  label: string;
  /** What they are parts of: "response time". */
  whole: string;
  parts: string[];
  /** Of each part, its position among the style sheet's colours for parts. */
  tones: number[];
  bars: { group: string; name: string; values: (number | null)[] }[];
}

/** From 0; from 0 to 1; around the values; logarithmic. */
export type Span = "zero" | "whole" | "close" | "log";

/** An axis of lines. */
export interface Scale {
  name: string;
  /** `null` where values are plain numbers. */
  unit: Unit | null;
  span: Span;
}

export interface Line {
  /** Its name in the legend; lines of one name have one colour. */
  name: string;
  /** What tells it from others of its name, may be empty. */
  detail: string;
  colour: number;
  /** "bound" is a dashed line without marks. */
  style: "straight" | "dots" | "bound";
  /** The run it is of; `null` if it is of several. */
  run: number | null;
  /** `[x, y]` in the order of x. */
  points: [number, number][];
}

export interface LinePanel {
  row: string;
  title: string;
  note: string;
  lines: Line[];
}

/** Lines and dots without intervals: seconds of a run, a distribution function, a roofline. Panels of a row share scales. */
export interface LinesChart {
  kind: "lines";
  label: string;
  x: Scale;
  y: Scale;
  reference: Reference | null;
  panels: LinePanel[];
}

export type Chart = CurveChart | IntervalChart | MatrixChart | DistributionChart | ShareChart | LinesChart;
