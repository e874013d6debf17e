//! Columns of whatever width, packed or not, against the same values as Arrow keeps them: conditions, picked rows, positions, new values.

use arrow::array::{Decimal128Array, UInt32Array};
use arrow::compute::{concat, filter, take};
use proptest::prelude::*;
use proptest::sample::Index;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::columns::encode::join_values;
use crate::columns::packed::Packed;
use crate::columns::table::CHUNK_ROWS;

/// A column of numbers.
#[derive(Debug, Clone)]
struct Case {
    kind: DataType,
    /// What the distance of the largest number from the smallest takes.
    bits: usize,
    /// Whether half of the numbers are negative.
    is_signed: bool,
    rows: usize,
    has_nulls: bool,
    has_holes: bool,
    seed: u64,
    /// The part of each chunk that is looked at.
    part: [Index; 2],
    changed: Vec<(Index, i32)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let kinds = prop_oneof![Just(DataType::Int32), Just(DataType::Int64), Just(DataType::Decimal128(15, 2))];
    // Widths that are packed come more often, and so do sizes that fill blocks or chunks or nearly do.
    let bits = prop_oneof![17..=22usize, 1..=31usize];
    let rows = prop_oneof![3..5000usize, 1020..1030usize, CHUNK_ROWS - 2..CHUNK_ROWS + 1500];
    let flags = (any::<bool>(), prop::bool::weighted(0.2), any::<bool>());
    let changed = prop::collection::vec(any::<(Index, i32)>(), 0..30);
    (kinds, bits, rows, flags, any::<u64>(), any::<[Index; 2]>(), changed).prop_map(
        |(kind, bits, rows, (is_signed, has_nulls, has_holes), seed, part, changed)| Case {
            kind,
            bits,
            is_signed,
            rows,
            has_nulls,
            has_holes,
            seed,
            part,
            changed,
        },
    )
}

impl Case {
    fn least(&self) -> i64 {
        if self.is_signed { -1 << (self.bits - 1) } else { 0 }
    }

    fn array(&self, numbers: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        match &self.kind {
            DataType::Int32 => {
                Arc::new(numbers.map(|number| number.map(|number| number as i32)).collect::<Int32Array>())
            }
            DataType::Int64 => Arc::new(numbers.collect::<Int64Array>()),
            kind => {
                let numbers: Decimal128Array = numbers.map(|number| number.map(i128::from)).collect();
                Arc::new(numbers.with_data_type(kind.clone()))
            }
        }
    }

    fn literal(&self, number: i64) -> Expr {
        lit(ScalarValue::try_from_array(&self.array([Some(number)].into_iter()), 0).unwrap())
    }

    /// All values, and which of them there are. The first two of each chunk are the least and the largest.
    fn values(&self, random: &mut Pcg64) -> (ArrayRef, BooleanBuffer) {
        let live = BooleanBuffer::collect_bool(self.rows, |row| {
            row % CHUNK_ROWS < 3 || !self.has_holes || random.random_bool(0.9)
        });
        let numbers: Vec<Option<i64>> = (0..self.rows)
            .map(|row| match row % CHUNK_ROWS {
                0 => Some(self.least()),
                1 => Some(self.least() + (1 << self.bits) - 1),
                _ if !live.value(row) => Some(i64::from(i32::MIN) + 77),
                2 if self.has_nulls => None,
                _ => Some(self.least() + random.random_range(0..1 << self.bits)),
            })
            .collect();
        (self.array(numbers.into_iter()), live)
    }

    fn is_packed(&self, rows: usize) -> bool {
        let saves = Packed::bytes(rows, self.bits) < rows * size_of::<u32>();
        (17..=22).contains(&self.bits) && !(self.has_nulls && rows > 2) && saves
    }

    /// Conditions with constants at both ends, beyond, and in between.
    fn conditions(&self, random: &mut Pcg64) -> Vec<Expr> {
        let (least, largest) = (self.least(), self.least() + (1 << self.bits) - 1);
        let inner = [(); 2].map(|()| random.random_range(least..=largest));
        let beyond =
            [least.saturating_sub(1), largest + 1].map(|number| number.clamp(i32::MIN.into(), i32::MAX.into()));
        let column = || col("n");
        let mut conditions: Vec<Expr> = [least, largest, beyond[0], beyond[1], inner[0]]
            .iter()
            .map(|&number| self.literal(number))
            .flat_map(|number| {
                [
                    column().eq(number.clone()),
                    column().not_eq(number.clone()),
                    column().lt(number.clone()),
                    column().lt_eq(number.clone()),
                    column().gt(number.clone()),
                    number.lt_eq(column()),
                ]
            })
            .collect();
        let few = [inner[0], inner[1], least, beyond[1]].map(|number| self.literal(number)).to_vec();
        conditions.push(column().between(self.literal(inner[0].min(inner[1])), self.literal(inner[0].max(inner[1]))));
        conditions.push(column().in_list(few.clone(), false));
        conditions.push(column().in_list(few, true));
        conditions.push(column().is_null());
        conditions
    }
}

fn some(values: &ArrayRef, rows: &BooleanBuffer) -> ArrayRef {
    filter(values, &BooleanArray::new(rows.clone(), None)).unwrap()
}

/// The values of one chunk, as Arrow keeps them and as the chunk does.
struct Both {
    plain: ArrayRef,
    live: BooleanBuffer,
    columns: [LoadedColumns; 2],
    overlay: Arc<ChunkOverlay>,
}

impl Both {
    /// What a question about some rows is answered for each form.
    fn ask<T>(&self, rows: std::ops::Range<usize>, mut question: impl FnMut(&Morsel<'_>) -> T) -> [T; 2] {
        self.columns.each_ref().map(|columns| {
            let patched = PatchedColumn::within(&self.overlay, rows.clone());
            let (offset, rows) = (rows.start, rows.len());
            question(&Morsel { columns, offset, rows, are_images: false, patched: &patched })
        })
    }
}

fn check_chunk(table: &ColumnTable, case: &Case, both: &Both, random: &mut Pcg64) {
    let [start, end] = case.part.map(|index| index.index(both.plain.len() + 1));
    let rows = start.min(end)..start.max(end);
    let live = both.live.slice(rows.start, rows.len());
    let selections: [BooleanBuffer; 3] =
        [1.0, 0.5, 0.02].map(|share| &BooleanBuffer::collect_bool(rows.len(), |_| random.random_bool(share)) & &live);

    for condition in case.conditions(random) {
        let mut predicate = predicate(table, &condition);
        for (number, selected) in selections.iter().enumerate() {
            let selected = (number > 0).then_some(selected);
            let [plain, kept] = both.ask(rows.clone(), |morsel| &predicate.select(morsel, selected).unwrap() & &live);
            assert_eq!(plain, kept, "{condition} after selection {number}");
        }
    }
    if case.kind.is_integer() {
        // One that states no range, which would be compared instead.
        let condition = predicate(table, &col("n").not_eq(case.literal(0))).expression;
        let (first, count) = (case.least() - 5, (1usize << case.bits.min(12)) + 10);
        let bits = BooleanBuffer::collect_bool(count, |_| random.random_bool(0.5));
        let mut predicate = Predicate::of_numbers(table, &condition, first, bits).unwrap();
        let [plain, kept] = both.ask(rows.clone(), |morsel| &predicate.select(morsel, None).unwrap() & &live);
        assert_eq!(plain, kept, "numbers that were looked up");
    }
    for selected in selections {
        let picked = Picked::new(selected, 2);
        let [plain, kept] = both.ask(rows.clone(), |morsel| morsel.pick(0, &picked).unwrap().values().unwrap());
        assert_eq!(&plain, &kept);
    }
    let [plain, kept] = both.ask(rows.clone(), |morsel| morsel.column(0).values().unwrap());
    assert_eq!(&some(&plain, &live), &some(&kept, &live));

    let positions = both.live.set_indices().filter(|row| row % 97 < 2).map(|row| row as u32);
    let positions = UInt32Array::from_iter_values(positions);
    let taken = both.columns[1].column(0).take(&positions).unwrap();
    let expect = take(&both.plain, &positions, None).unwrap();
    assert_eq!(&taken.values().unwrap(), &expect);
    let slice = both.columns[1].column(0).slice(rows.start, rows.len());
    let joined = join_values(&[&slice, &taken, &slice]).unwrap();
    let shown: BooleanBuffer = [&live, &BooleanBuffer::new_set(positions.len()), &live].into_iter().flatten().collect();
    let plain = both.plain.slice(rows.start, rows.len());
    let expect = concat(&[plain.as_ref(), &expect, &plain]).unwrap();
    assert_eq!(&some(&joined, &shown), &some(&expect, &shown));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn packed_columns_read_as_plain_ones(case in cases()) {
        let mut random = Pcg64::seed_from_u64(case.seed);
        let (values, live) = case.values(&mut random);
        let schema = Arc::new(Schema::new(vec![Field::new("n", case.kind.clone(), true)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&values)]).unwrap();
        let table = ColumnTable::build_with_holes("t", Arc::clone(&schema), vec![], vec![batch], Some(&live)).unwrap();
        for (number, chunk) in table.chunks().iter().enumerate() {
            let plain = values.slice(number * CHUNK_ROWS, chunk.rows());
            let loaded = table.load(number, &[0]).unwrap();
            prop_assert_eq!(loaded.column(0).packed().is_some(), case.is_packed(chunk.rows()));
            let mut new: Vec<(u32, i64)> = case.changed.iter()
                .map(|(row, value)| (row.index(chunk.rows()) as u32, i64::from(*value))).collect();
            new.sort_unstable();
            new.dedup_by_key(|(position, _)| *position);
            new.retain(|(position, _)| chunk.live().is_none_or(|live| live.value(*position as usize)));
            let images = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::clone(&plain)]).unwrap();
            let both = Both {
                live: live.slice(number * CHUNK_ROWS, chunk.rows()),
                columns: [LoadedColumns::of_images(&images.into()), loaded],
                overlay: overlay(&new, &case.kind),
                plain,
            };
            check_chunk(&table, &case, &both, &mut random);
        }
    }
}
