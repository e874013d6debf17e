//! Every table of an engine by its number, and the sets that tables belong to.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::log::Log;
use crate::log::record::Unit;
use crate::table::layout::TableSpec;
use crate::table::{IndexKind, RowTable, TableError};

#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tables: RwLock<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// `None` where a table was dropped: numbers are never reused, because locks and the log name tables by them.
    list: Vec<Option<Arc<RowTable>>>,
    /// The number of indexes made so far, which is the next index's number.
    indexes: u32,
    /// The tables of each set that was filled.
    sets: BTreeMap<String, Vec<u32>>,
}

/// The tables and sets at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Contents {
    pub(crate) tables: Vec<Arc<RowTable>>,
    pub(crate) sets: BTreeMap<String, Vec<u32>>,
    pub(crate) next_table: u32,
}

impl Catalog {
    /// Adds an empty table, and logs it if the engine has a log.
    pub(crate) fn create(
        &self,
        spec: TableSpec,
        primary: IndexKind,
        log: Option<&Log>,
    ) -> Result<Arc<RowTable>, TableError> {
        let mut tables = self.tables.write();
        let number = tables.list.len() as u32;
        let table = Arc::new(RowTable::new(number, tables.indexes, spec, primary)?);
        if let Some(log) = log {
            let mut unit = Unit::default();
            unit.create_table(number, &table.spec);
            // Before any other thread knows the number, and so before any unit that names it.
            log.append_catalog_change(&mut unit)
                .map_err(|error| TableError::Log { table: table.spec.name.clone(), why: error.to_string() })?;
        }
        tables.add(Arc::clone(&table));
        Ok(table)
    }

    /// Adds an empty table with this number, which must be higher than all earlier ones.
    pub(crate) fn restore(&self, number: u32, spec: TableSpec) -> Result<Arc<RowTable>, TableError> {
        let mut tables = self.tables.write();
        // The log does not have the kinds of indexes; trees serve all reads.
        let table = Arc::new(RowTable::new(number, tables.indexes, spec, IndexKind::Tree)?);
        tables.skip_to(number);
        tables.add(Arc::clone(&table));
        Ok(table)
    }

    /// New tables get this number or a higher one.
    pub(crate) fn skip_to(&self, number: u32) {
        self.tables.write().skip_to(number);
    }

    /// Removes a table, and the set that it is in.
    pub(crate) fn remove(&self, number: u32, log: Option<&Log>) {
        let mut tables = self.tables.write();
        if let Some(log) = log {
            let mut unit = Unit::default();
            unit.drop_table(number);
            // A log that has failed takes no more changes; the table then reappears when the database is opened again.
            let _ = log.append_catalog_change(&mut unit);
        }
        if let Some(table) = tables.list.get_mut(number as usize) {
            *table = None;
        }
        tables.sets.retain(|_, members| !members.contains(&number));
    }

    /// The table with this number, if it exists.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<RowTable>> {
        self.tables.read().list.get(number as usize)?.clone()
    }

    pub(crate) fn keep_set(&self, name: &str, members: Vec<u32>) {
        self.tables.write().sets.insert(name.to_owned(), members);
    }

    /// Removes a set of tables; the tables stay.
    pub(crate) fn forget_set(&self, name: &str) {
        self.tables.write().sets.remove(name);
    }

    pub(crate) fn set(&self, name: &str) -> Option<Vec<u32>> {
        self.tables.read().sets.get(name).cloned()
    }

    /// The contents, and the result of `at`, which is called while no table can be added or removed.
    pub(crate) fn contents<T>(&self, at: impl FnOnce() -> T) -> (Contents, T) {
        let tables = self.tables.read();
        let contents = Contents {
            tables: tables.list.iter().flatten().map(Arc::clone).collect(),
            sets: tables.sets.clone(),
            next_table: tables.list.len() as u32,
        };
        (contents, at())
    }
}

impl Tables {
    fn add(&mut self, table: Arc<RowTable>) {
        self.indexes += table.indexes.len() as u32;
        self.list.push(Some(table));
    }

    fn skip_to(&mut self, number: u32) {
        let length = self.list.len().max(number as usize);
        self.list.resize(length, None);
    }
}
