//! The data that the page carries for each chart, as JSON beside it. The script in `web/` draws it; field for field
//! this is `web/src/chart.ts`, and `web/test/charts.json` is written by a test here and read by the tests there.

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use crate::results::{Finding, Interval};

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum Chart {
    /// Figures over a numeric axis. All panels share both scales.
    Curve {
        label: String,
        x: String,
        /// `None` if the values of x are plain numbers.
        x_unit: Option<Unit>,
        y: String,
        unit: Unit,
        ends: Ends,
        reference: Option<Reference>,
        panels: Vec<CurvePanel>,
    },
    /// Figures of items without order, one per row. All panels share the scale.
    Intervals { label: String, x: String, unit: Unit, reference: Option<Reference>, panels: Vec<IntervalPanel> },
    /// The slowdown of one workload (row) beside another (column).
    Matrix { label: String, rows: Vec<String>, columns: Vec<String>, cells: Vec<Cell> },
    /// Latency by percentile.
    Distribution { label: String, panels: Vec<DistributionPanel> },
    /// Parts of a whole; a part that is `None` was not measured and is included in the last part. `whole` names the
    /// whole; `tones` are the parts' positions among the style sheet's colours for parts.
    Shares { label: String, whole: String, parts: Vec<String>, tones: Vec<usize>, bars: Vec<ShareBar> },
    /// Lines and dots over a numeric axis, without intervals: seconds of a run, a distribution function, a roofline. Panels of
    /// one row share both scales.
    Lines { label: String, x: Scale, y: Scale, reference: Option<Reference>, panels: Vec<LinePanel> },
}

/// The kind of a number, which determines how it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Unit {
    /// Per second.
    Rate,
    /// Microseconds.
    Duration,
    /// A ratio to something else.
    Ratio,
    Bytes,
    /// A ratio on a logarithmic axis, where half is as far from 1 as double.
    Times,
    /// A part of a whole, written as a percentage.
    Share,
}

/// The meaning of `low` and `high` of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ends {
    /// Its 95 % interval over runs.
    Interval,
    /// The lowest and the highest of several rounds.
    Rounds,
}

/// An axis of [`Chart::Lines`].
#[derive(Debug, Clone, Serialize)]
pub(super) struct Scale {
    pub name: String,
    /// `None` if values are plain numbers.
    pub unit: Option<Unit>,
    pub span: Span,
}

/// Where an axis begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Span {
    /// From 0.
    Zero,
    /// From 0 to 1.
    Whole,
    /// Around the values, for differences that are small beside them.
    Close,
    Log,
}

/// As [`CurvePanel`], of lines.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct LinePanel {
    pub row: String,
    pub title: String,
    pub note: String,
    pub lines: Vec<Line>,
}

/// Points in the order of x.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Line {
    /// Its name in the legend; lines of one name have one colour.
    pub name: String,
    /// Distinguishes it from other lines of its name; may be empty: `run 3`.
    pub detail: String,
    /// Position in the palette.
    pub colour: usize,
    pub style: LineStyle,
    /// The run it is of, by its position among the points; `None` if it is of several.
    pub run: Option<usize>,
    pub points: Vec<(f64, f64)>,
}

/// How points are joined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LineStyle {
    #[default]
    Straight,
    /// Not at all.
    Dots,
    /// By a dashed line without marks, which bounds the possible values.
    Bound,
}

/// A value on the figures' axis to compare with, and half the width of the band around it that is noise.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Reference {
    pub value: f64,
    pub floor: Option<f64>,
    pub label: String,
}

/// A run by its position among the points, its figure, and whether it lies far from its siblings.
pub(super) type Sample = (usize, f64, bool);

/// A figure with its interval and the runs it rests on.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Figure {
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub samples: Vec<Sample>,
}

impl Figure {
    /// `None` if the figure is not a number, which no chart can place.
    pub(super) fn new(interval: Interval, samples: Vec<Sample>) -> Option<Self> {
        let finite = |value: f64| value.is_finite().then(|| short(value));
        Some(Self {
            value: finite(interval.value)?,
            low: interval.low.and_then(finite),
            high: interval.high.and_then(finite),
            samples: samples.into_iter().filter_map(|(run, value, far)| Some((run, finite(value)?, far))).collect(),
        })
    }
}

/// A figure at a place on the x axis.
#[derive(Debug, Clone, Serialize)]
pub(super) struct CurvePoint {
    pub at: f64,
    #[serde(flatten)]
    pub figure: Figure,
}

/// A line through points.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Series {
    pub name: String,
    /// Position in the palette.
    pub colour: usize,
    /// Context drawn behind.
    pub faint: bool,
    pub points: Vec<CurvePoint>,
    /// The points of a fitted line, empty if there is none, and its name.
    pub fit: Vec<(f64, f64)>,
    pub fit_name: String,
}

/// A marked place on the x axis: a knee, a peak.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Flag {
    pub at: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub label: String,
}

/// A place on the x axis where every run was invalid.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Gap {
    pub at: f64,
    /// The first of the runs.
    pub run: usize,
    pub why: String,
}

/// One of several plots side by side: panels with equal `row` share a row.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct CurvePanel {
    pub row: String,
    pub title: String,
    pub note: String,
    pub series: Vec<Series>,
    pub flags: Vec<Flag>,
    pub gaps: Vec<Gap>,
}

/// As [`CurvePanel`], of rows.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct IntervalPanel {
    pub row: String,
    pub title: String,
    pub rows: Vec<IntervalRow>,
}

/// A figure under a name.
#[derive(Debug, Clone, Serialize)]
pub(super) struct IntervalRow {
    pub name: String,
    /// A second line, may be empty.
    pub detail: String,
    pub colour: usize,
    /// Half the width of the band of noise around the reference.
    pub floor: Option<f64>,
    #[serde(flatten)]
    pub figure: Figure,
}

/// One pair in a matrix.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Cell {
    pub row: usize,
    pub column: usize,
    pub value: f64,
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub finding: Finding,
}

/// As [`CurvePanel`], of distributions.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DistributionPanel {
    pub row: String,
    pub title: String,
    pub series: Vec<DistributionSeries>,
}

/// One distribution: `[quantile, microseconds]`, ascending.
#[derive(Debug, Clone, Serialize)]
pub(super) struct DistributionSeries {
    pub name: String,
    pub colour: usize,
    pub points: Vec<(f64, u64)>,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct ShareBar {
    pub group: String,
    pub name: String,
    pub values: Vec<Option<f64>>,
}

/// Five significant digits: a chart cannot show more, and they would double the page.
pub(super) fn short(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// A chart under its title, with the numbers in words beside it. `run` begins the ids of the rows of runs.
pub(super) fn figure(run: &str, title: &str, note: &str, chart: &Chart, numbers: Markup) -> Markup {
    html! {
        figure data-run=(run) {
            figcaption { strong { (title) } @if !note.is_empty() { span { (note) } } }
            script type="application/json" class="chart" { (PreEscaped(inert(chart))) }
            (numbers)
        }
    }
}

/// Numbers beside a chart. They are unfolded until a script has drawn it.
pub(super) fn numbers(summary: &str, table: Markup) -> Markup {
    html! { details class="numbers" open { summary { (summary) } (table) } }
}

/// JSON that cannot end its element. Within JSON `<` and `&` occur in strings only, where they may be written as escapes;
/// without them no text can end the element, open a comment or name an entity.
pub(super) fn inert(chart: &Chart) -> String {
    let json = serde_json::to_string(chart).expect("charts are structs of numbers and strings, which JSON can write");
    json.replace('<', "\\u003c").replace('&', "\\u0026")
}
