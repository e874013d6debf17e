//! A running array aggregation: threads that add up rows, and the results of all of them.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::buffer::BooleanBuffer;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::{BaselineMetrics, Time};

use crate::columns::encode::ChunkColumn;
use crate::query::array_aggregate::layout::Layout;
use crate::query::array_aggregate::narrow::Registers;
use crate::query::array_aggregate::totals::Totals;
use crate::query::array_aggregate::values::Values;
use crate::query::morsel::Picked;
use crate::query::scan::stream::morsels::{Morsels, NextRows};

/// Below this share of selected rows they are gathered first: computing on the others would cost more.
const SPARSE: f64 = 0.5;

/// Adds up the rows of one partition.
pub async fn add_up(layout: Arc<Layout>, mut morsels: Morsels, metrics: BaselineMetrics) -> Result<Totals> {
    let mut totals = Totals::new(layout.groups, &layout.sums);
    let mut adder = Adder {
        places: vec![0; Totals::ROWS_MAX],
        registers: Registers::new(&layout.program, Totals::ROWS_MAX),
        layout,
    };
    while let Some(next) = poll_fn(|context| morsels.poll_next(context)).await? {
        {
            let _timer = metrics.elapsed_compute().timer();
            let started = next.are_images.then(Instant::now);
            let selected = morsels.select(&next)?;
            metrics.output_rows().add(adder.add(&next, selected, &mut totals)?);
            morsels.spent_on_changes(started.map_or_else(|| next.patch_time(), |started| started.elapsed()));
        }
        // So that a cancelled query ends, and others have their turn, between chunks that are in memory.
        tokio::task::yield_now().await;
    }
    Ok(totals)
}

struct Adder {
    layout: Arc<Layout>,
    /// The groups of some rows.
    places: Vec<u32>,
    registers: Registers,
}

impl Adder {
    /// Adds the selected rows, all if it is `None`; returns how many these are.
    fn add(&mut self, next: &NextRows, selected: Option<BooleanBuffer>, totals: &mut Totals) -> Result<usize> {
        let morsel = next.morsel();
        let count = selected.as_ref().map_or(morsel.rows, BooleanBuffer::count_set_bits);
        if count == 0 {
            return Ok(0);
        }
        let selected = selected.filter(|_| count < morsel.rows);
        let layout = Arc::clone(&self.layout);
        let columns = layout.columns.iter();
        match selected {
            Some(selected) if (count as f64) < SPARSE * morsel.rows as f64 => {
                let picked = Picked::new(selected, layout.columns.len());
                let pick = |&column: &usize| Ok(layout.coded(column, morsel.pick(column, &picked)?));
                self.add_columns(&columns.map(pick).collect::<Result<Vec<_>>>()?, count, None, totals);
            }
            selected => {
                let columns = columns.map(|&column| layout.coded(column, morsel.column(column)));
                self.add_columns(&columns.collect::<Vec<_>>(), morsel.rows, selected.as_ref(), totals);
            }
        }
        Ok(count)
    }

    fn add_columns(
        &mut self,
        columns: &[ChunkColumn],
        rows: usize,
        selected: Option<&BooleanBuffer>,
        totals: &mut Totals,
    ) {
        let layout = Arc::clone(&self.layout);
        let values = columns.iter().map(|column| Values::of_column(column).expect("the layout has only such columns"));
        let values: Vec<Values<'_>> = values.collect();
        let place_of = |column: usize| layout.columns.binary_search(&column).expect("every column used is in the list");
        for start in (0..rows).step_by(Totals::ROWS_MAX) {
            let block = start..rows.min(start + Totals::ROWS_MAX);
            let places = &mut self.places[..block.len()];
            places.fill(0);
            for key in &layout.keys {
                let column = place_of(key.column);
                key.refine(&values[column].slice(block.clone()), columns[column].dictionary(), places);
            }
            if let Some(selected) = selected {
                set_aside(places, selected, &block, totals.unselected());
            }
            self.registers.run(&layout.program, block.len(), |column| values[place_of(column)].slice(block.clone()));
            totals.add(places, &self.registers);
        }
    }
}

/// Gives the rows of a block that are not selected a separate place.
fn set_aside(places: &mut [u32], selected: &BooleanBuffer, block: &Range<usize>, unselected: u32) {
    let bits = selected.slice(block.start, block.len());
    for (word, chunk) in bits.bit_chunks().iter_padded().zip(places.chunks_mut(64)) {
        let mut missing = !word;
        while missing != 0 {
            let row = missing.trailing_zeros() as usize;
            match chunk.get_mut(row) {
                Some(place) => *place = unselected,
                None => break,
            }
            missing &= missing - 1;
        }
    }
}

#[derive(Debug)]
pub struct Added {
    totals: Vec<Totals>,
    /// Held as long as the totals exist.
    _memory: MemoryReservation,
}

pub async fn all_of(threads: Vec<SpawnedTask<Result<Totals>>>, memory: MemoryReservation) -> Result<Added> {
    let mut totals = Vec::with_capacity(threads.len());
    for thread in threads {
        let added = thread.join_unwind().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        totals.push(added?);
    }
    Ok(Added { totals, _memory: memory })
}

/// The results of the groups that have rows, a batch at a time.
pub struct Results {
    pub layout: Arc<Layout>,
    pub schema: SchemaRef,
    /// The totals from which they are read.
    pub added: Arc<Added>,
    /// The groups that are still to be looked at.
    pub groups: Range<usize>,
    pub batch_rows: usize,
    /// Where the time is added that reading takes.
    pub time: Time,
}

impl Iterator for Results {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let _timer = self.time.timer();
        let totals = &self.added.totals;
        let mut groups = Vec::new();
        let mut is_used = vec![false; totals.len()];
        while !self.groups.is_empty() && groups.len() < self.batch_rows {
            let Range { start, end } = self.groups;
            let block = start / Totals::BLOCK;
            let end = end.min((block + 1) * Totals::BLOCK);
            let mut have_rows = [false; Totals::BLOCK];
            for (totals, is_used) in totals.iter().zip(&mut is_used).filter(|(totals, _)| totals.touches(block)) {
                totals.mark(start..end, &mut have_rows[..end - start]);
                *is_used = true;
            }
            let with_rows = (start..end).zip(have_rows).filter_map(|(group, has_rows)| has_rows.then_some(group));
            groups.extend(with_rows.take(self.batch_rows - groups.len()));
            let is_full = groups.len() == self.batch_rows;
            self.groups.start = groups.last().filter(|_| is_full).map_or(end, |last| last + 1);
        }
        let used = totals.iter().zip(is_used).filter_map(|(totals, is_used)| is_used.then_some(totals));
        let used: Vec<&Totals> = used.collect();
        (!groups.is_empty()).then(|| self.layout.results(&self.schema, &groups, &used))
    }
}
