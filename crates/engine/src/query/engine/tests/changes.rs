//! Chunks with holes, and changes laid over them, answer as a table does that is built of the same rows.

use std::collections::BTreeMap;

use arrow::array::{Date32Array, Decimal128Array, Int32Array, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;
use crate::columns::{Chunk, ChunkOverlay, Overlay, Patch, SnapshotTable};
use crate::query::printed::rows;

#[derive(Debug, Clone)]
struct Ship {
    id: i64,
    kind: Option<String>,
    /// Days of one chunk lie together, so that chunks are skipped.
    day: i32,
    tons: Option<i64>,
    price: i128,
    /// Zero in rows that must not be visible: dividing by it fails.
    draft: i32,
    note: String,
    port: i32,
}

impl Ship {
    fn new(id: i64, day: i32, random: &mut Pcg64) -> Self {
        let kind = random.random_range(0..7);
        Ship {
            id,
            kind: (kind > 0).then(|| format!("kind {kind}")),
            day: day + random.random_range(0..50),
            tons: random.random_bool(0.8).then(|| random.random_range(0..100)),
            price: random.random_range(0..10_000),
            draft: random.random_range(1..20),
            note: format!("a note that is longer than a view {}", random.random_range(0..1_000_000)),
            port: random.random_range(0..20),
        }
    }

    /// The values of a changed row, which the chunks do not have.
    fn image(id: i64, random: &mut Pcg64) -> Self {
        let day = random.random_range(-100..700);
        let kind = Some(format!("image {}", random.random_range(0..3)));
        let port = random.random_range(0..40);
        Ship { kind, port, ..Ship::new(id, day, random) }
    }

    fn hidden(self) -> Self {
        Ship { draft: 0, ..self }
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("kind", DataType::Utf8View, true),
        Field::new("day", DataType::Date32, false),
        Field::new("tons", DataType::Int64, true),
        Field::new("price", DataType::Decimal128(12, 2), false),
        Field::new("draft", DataType::Int32, false),
        Field::new("note", DataType::Utf8View, false),
        Field::new("port", DataType::Int32, false),
    ]))
}

fn arrays(ships: &[Ship]) -> Vec<ArrayRef> {
    let prices = Decimal128Array::from_iter_values(ships.iter().map(|ship| ship.price));
    vec![
        Arc::new(Int64Array::from_iter_values(ships.iter().map(|ship| ship.id))),
        Arc::new(StringViewArray::from_iter(ships.iter().map(|ship| ship.kind.as_deref()))),
        Arc::new(Date32Array::from_iter_values(ships.iter().map(|ship| ship.day))),
        Arc::new(Int64Array::from_iter(ships.iter().map(|ship| ship.tons))),
        Arc::new(prices.with_precision_and_scale(12, 2).unwrap()),
        Arc::new(Int32Array::from_iter_values(ships.iter().map(|ship| ship.draft))),
        Arc::new(StringViewArray::from_iter_values(ships.iter().map(|ship| ship.note.as_str()))),
        Arc::new(Int32Array::from_iter_values(ships.iter().map(|ship| ship.port))),
    ]
}

fn batch(ships: &[Ship]) -> RecordBatch {
    RecordBatch::try_new(schema(), arrays(ships)).unwrap()
}

fn built(ships: &[Ship]) -> SnapshotTable {
    let table = ColumnTable::build("ship", schema(), vec![vec![0]], vec![batch(ships)]).unwrap();
    SnapshotTable::from(Arc::new(table))
}

/// The same rows in chunks and changes, and by themselves.
struct World {
    table: SnapshotTable,
    rows: Vec<Ship>,
}

/// The next number of a row.
#[derive(Default)]
struct Ids(i64);

impl Ids {
    fn next(&mut self) -> i64 {
        self.0 += 1;
        self.0
    }
}

impl World {
    fn random(random: &mut Pcg64) -> Self {
        let mut table = ColumnTable::build("ship", schema(), vec![vec![0]], vec![]).unwrap();
        let (mut rows, mut overlay) = (Vec::new(), BTreeMap::new());
        let (mut ids, mut previous) = (Ids::default(), None);
        let has_overlay = random.random_bool(0.8);
        let in_file = random.random_bool(0.3);
        let chunks = random.random_range(0..6);
        let chunks_with_changes = chunks + random.random_range(0..3);
        for number in 0..chunks_with_changes {
            let count = if number < chunks { random.random_range(0..300) } else { 0 };
            let positions: Vec<Ship> = (0..count).map(|_| Ship::new(ids.next(), number as i32 * 100, random)).collect();
            let holes = [0.0, 0.0, 0.3, 1.0][random.random_range(0..4)];
            let mut shown: Vec<Option<Ship>> = positions.into_iter().map(Some).collect();
            let mut kept: Vec<Ship> = shown.iter().flatten().cloned().collect();
            for position in 0..count {
                if random.random_bool(holes) {
                    kept[position] = kept[position].clone().hidden();
                    shown[position] = None;
                }
            }
            let live: Vec<bool> = shown.iter().map(Option::is_some).collect();
            if has_overlay && random.random_bool(0.7) {
                let changes = change(&mut shown, &mut kept, &mut ids, random);
                overlay.insert(number, Arc::new(changes));
            }
            rows.extend(shown.into_iter().flatten());
            if number < chunks {
                let before = previous.as_ref().filter(|_| random.random_bool(0.6));
                let chunk = Chunk::encode(&schema(), &arrays(&kept), Some(live.into()), before.map(Arc::as_ref));
                let chunk = Arc::new(chunk.unwrap());
                table = table.with_chunks(&[(number, Arc::clone(&chunk))]).unwrap();
                previous = Some(chunk);
                if in_file && number == chunks / 2 {
                    // Later chunks are in memory again.
                    table = table.into_file(&DiskFolder::open(DEFAULT_FOLDER.as_ref()).unwrap().into()).unwrap();
                }
            }
        }
        let overlay = has_overlay.then(|| Arc::new(overlay) as Arc<dyn Overlay>);
        World { table: SnapshotTable::new(Arc::new(table), overlay), rows }
    }
}

/// Columns of a ship whose new values are put over those of the chunk.
const PATCHED: [usize; 5] = [2, 3, 4, 5, 7];

/// A row of a chunk that gets other values in its place: always in `draft`, which the chunk has as zero, and in some other columns.
fn patch(ship: &Ship, random: &mut Pcg64) -> (Ship, Vec<usize>) {
    let columns: Vec<usize> = PATCHED.into_iter().filter(|&column| column == 5 || random.random_bool(0.5)).collect();
    let mut new = ship.clone();
    let image = Ship::image(ship.id, random);
    for column in &columns {
        match column {
            2 => new.day = image.day,
            3 => new.tons = image.tons,
            4 => new.price = image.price,
            5 => new.draft = image.draft,
            _ => new.port = image.port,
        }
    }
    (new, columns)
}

/// The patches of rows in ascending order of position, each with the columns that were changed.
fn patches(rows: &[(u32, Ship, Vec<usize>)]) -> Vec<Patch> {
    let patch = |column: usize| {
        let of_column: Vec<_> = rows.iter().filter(|(_, _, columns)| columns.contains(&column)).collect();
        let ships: Vec<Ship> = of_column.iter().map(|(_, ship, _)| ship.clone()).collect();
        let positions = of_column.iter().map(|(position, ..)| *position).collect();
        Patch { column, positions, values: Arc::clone(&arrays(&ships)[column]) }
    };
    PATCHED.into_iter().map(patch).filter(|patch| !patch.positions.is_empty()).collect()
}

/// Deletes, changes and adds rows of a chunk: `shown` has the visible rows, `kept` the rows of the chunk.
fn change(shown: &mut Vec<Option<Ship>>, kept: &mut [Ship], ids: &mut Ids, random: &mut Pcg64) -> ChunkOverlay {
    let mut masked = vec![false; kept.len()];
    let (mut images, mut patched) = (Vec::new(), Vec::new());
    let share = [0.02, 0.3, 1.0][random.random_range(0..3)];
    for position in 0..kept.len() {
        if !random.random_bool(share) {
            continue;
        }
        if let Some(ship) = shown[position].as_ref().filter(|_| random.random_bool(0.5)) {
            let (new, columns) = patch(ship, random);
            patched.push((position as u32, new.clone(), columns));
            kept[position] = kept[position].clone().hidden();
            shown[position] = Some(new);
            continue;
        }
        masked[position] = true;
        let image = match (&shown[position], random.random_range(0..3)) {
            (Some(_), 0) | (None, 0) => None,
            (Some(ship), _) => Some(Ship::image(ship.id, random)),
            (None, _) => Some(Ship::image(ids.next(), random)),
        };
        kept[position] = kept[position].clone().hidden();
        images.extend(image.clone());
        shown[position] = image;
    }
    for _ in 0..random.random_range(0..20) {
        masked.push(random.random_bool(0.5));
        let image = Ship::image(ids.next(), random);
        images.push(image.clone());
        shown.push(Some(image));
    }
    let entries = masked.len().max(1);
    if random.random_bool(0.2) && !masked.contains(&true) {
        masked.clear();
    }
    ChunkOverlay { masked: masked.into(), images: batch(&images).into(), patches: patches(&patched), entries }
}

fn port() -> SnapshotTable {
    let ids = 0..50;
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int32Array::from_iter_values(ids.clone()))),
        ("name", Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("port {id}"))))),
        ("region", Arc::new(StringArray::from_iter_values(ids.map(|id| format!("region {}", id % 5))))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let table = ColumnTable::build("port", batch.schema(), vec![vec![0]], vec![batch]).unwrap();
    SnapshotTable::from(Arc::new(table))
}

const QUERIES: &[&str] = &[
    "select * from ship",
    "select count(*) from ship",
    "select min(id), max(id), min(day), max(day), min(kind), max(price), min(note), max(port) from ship",
    "select count(kind), count(tons), count(distinct kind), count(distinct id), count(distinct port) from ship",
    "select id, note from ship where kind = 'kind 3'",
    "select id from ship where kind in ('kind 1', 'image 2') and day > date '1970-04-11'",
    "select id from ship where kind is null",
    "select id, kind from ship where kind <> 'kind 1' or tons is null",
    "select count(*) from ship where note like '%7'",
    "select id, day from ship where day between date '1970-07-20' and date '1970-08-20'",
    "select id from ship where day < date '1970-01-01'",
    "select id from ship where id between 100 and 400 and price > 50.00",
    "select count(*) from ship where id < 0",
    "select kind, count(*), sum(price), min(note) from ship group by kind",
    "select port, count(*), sum(price), avg(draft) from ship group by port",
    "select port, draft, sum(price * draft) from ship where day > date '1970-03-01' group by port, draft",
    "select sum(price), min(day), max(port), count(tons) from ship",
    "select id from ship where port = 35 or draft = 7",
    "select port, max(day) from ship where tons > 50 group by port having count(*) > 1",
    "select id, day from ship order by day desc, id limit 7",
    "select id, kind from ship where id % 3 = 0 order by id",
    "select id, row_number() over (order by id) from ship",
    "select s.id, p.name from ship s, port p where s.port = p.id and p.region = 'region 1'",
    "select s.id from ship s, port p where s.port = p.id and p.name = 'port 33'",
    "select count(*), sum(a.tons) from ship a, ship b where a.port = b.port and a.day < b.day",
    "select id from ship where port in (select id from port where region = 'region 2')",
    "select id from ship where not exists (select 1 from port where port.id = ship.port and region = 'region 0')",
    "select id from ship where tons = (select max(tons) from ship)",
    "select p.region, count(s.id) from port p left join ship s on s.port = p.id group by p.region",
    "select distinct kind, port from ship where day < date '1970-06-01'",
    "select id from ship where 100 / draft > 10",
    "select id, 100 / draft from ship where 100 / draft > 10 and kind like 'kind%' and tons > 10",
];

fn lines(output: &QueryOutput) -> Vec<String> {
    rows(&output.batches).into_iter().map(|row| row.join(" | ")).collect()
}

fn check(engine: &QueryEngine, world: &World, dop: usize, seed: u64) {
    let snapshot = |ship: SnapshotTable| Arc::new(ColumnSnapshot::at("changed", 7, [ship, port()]));
    let (changed, plain) = (snapshot(world.table.clone()), snapshot(built(&world.rows)));
    for sql in QUERIES {
        let ask = |snapshot| {
            let output = engine.query(snapshot, sql, Some(dop));
            let mut lines = lines(&output.unwrap_or_else(|error| panic!("seed {seed}: {error} in {sql}")));
            if !sql.contains(" order by ") || sql.contains(" over ") {
                lines.sort();
            }
            lines
        };
        let (found, expected) = (ask(&changed), ask(&plain));
        assert!(found == expected, "seed {seed}, dop {dop}: {sql}\nfound {found:#?}\nexpected {expected:#?}");
    }
}

#[test]
fn changes_over_chunks_with_holes_answer_as_a_table_of_the_same_rows() {
    // Small batches, so that chunks have many; sometimes with a grant, which copies them out of their chunks; sometimes whole
    // chunks.
    let options = QueryOptions { dop: 1, workers: 2, batch_rows: 64, ..QueryOptions::default() };
    let free = QueryEngine::new(options.clone()).unwrap();
    let whole = QueryEngine::new(QueryOptions { batch_rows: BATCH_ROWS, ..options.clone() }).unwrap();
    let granted = QueryEngine::new(QueryOptions { memory_grant_mib: Some(64), ..options }).unwrap();
    // Queries take far longer where DataFusion is not optimized.
    let seeds = if cfg!(debug_assertions) { 4 } else { 40 };
    for seed in 0..seeds {
        let world = World::random(&mut Pcg64::seed_from_u64(seed));
        let engine = [&free, &granted, &whole, &granted][seed as usize % 4];
        check(engine, &world, 1 + (seed as usize / 2) % 3, seed);
    }
}

/// Ten ships of the first hundred days and one of the year after, which only the overlay has.
fn one_image(chunk: usize) -> SnapshotTable {
    let mut random = Pcg64::seed_from_u64(1);
    let ships: Vec<Ship> = (0..10).map(|id| Ship { kind: None, ..Ship::new(id, 0, &mut random) }).collect();
    let late = Ship { day: 400, kind: Some("late".to_owned()), ..Ship::image(3, &mut random) };
    let masked: Vec<bool> = (0..10).map(|id| chunk == 0 && id == 3).collect();
    let changes = ChunkOverlay { masked: masked.into(), images: batch(&[late]).into(), patches: vec![], entries: 1 };
    let overlay = BTreeMap::from([(chunk, Arc::new(changes))]);
    SnapshotTable::new(Arc::clone(built(&ships).columns()), Some(Arc::new(overlay)))
}

#[test]
fn an_image_is_found_whatever_the_minima_and_maxima_of_its_chunk_say() {
    let engine = QueryEngine::new(QueryOptions { dop: 2, workers: 2, ..QueryOptions::default() }).unwrap();
    for (chunk, rows) in [(0, 10), (1, 11), (7, 11)] {
        let snapshot = Arc::new(ColumnSnapshot::at("changed", 1, [one_image(chunk)]));
        let ask = |sql| {
            let output = engine.query(&snapshot, sql, None).unwrap();
            (number(&output), output.usage.merged_tuples)
        };
        assert_eq!(ask("select count(*) from ship where day > date '1971-01-01'"), (1, 1));
        assert_eq!(ask("select count(*) from ship where kind = 'late'"), (1, 1));
        assert_eq!(ask("select count(*) from ship"), (rows, 1));
        assert_eq!(ask("select count(*) from ship where day = (select max(day) from ship)"), (1, 2));
    }
}

/// Ten ships of the first hundred days; the fourth was given a day of the year after and no tons.
fn one_patch() -> SnapshotTable {
    let mut random = Pcg64::seed_from_u64(1);
    let ships: Vec<Ship> = (0..10).map(|id| Ship { tons: Some(1), ..Ship::new(id, 0, &mut random) }).collect();
    let late = Ship { day: 400, tons: None, ..ships[3].clone() };
    let patches = patches(&[(3, late, vec![2, 3])]);
    let images = RecordBatch::new_empty(schema()).into();
    let changes = ChunkOverlay { masked: vec![].into(), images, patches, entries: 1 };
    let overlay = BTreeMap::from([(0, Arc::new(changes))]);
    SnapshotTable::new(Arc::clone(built(&ships).columns()), Some(Arc::new(overlay)))
}

#[test]
fn a_new_value_is_found_whatever_the_minima_and_maxima_of_its_chunk_say() {
    let engine = QueryEngine::new(QueryOptions { dop: 1, workers: 1, ..QueryOptions::default() }).unwrap();
    let snapshot = Arc::new(ColumnSnapshot::at("changed", 1, [one_patch()]));
    let ask = |sql| number(&engine.query(&snapshot, sql, None).unwrap());
    assert_eq!(ask("select id from ship where day > date '1971-01-01'"), 3);
    assert_eq!(ask("select count(*) from ship where day < date '1971-01-01'"), 9);
    assert_eq!(ask("select id from ship where tons is null"), 3);
    assert_eq!(ask("select count(tons) from ship"), 9);
    assert_eq!(ask("select sum(tons) from ship"), 9);
}

#[test]
fn a_chunk_is_not_read_for_new_values_that_no_condition_tests() {
    let engine = QueryEngine::new(QueryOptions { dop: 1, workers: 1, ..QueryOptions::default() }).unwrap();
    let on_disk = ColumnTable::clone(one_patch().columns());
    let on_disk = on_disk.into_file(&DiskFolder::open(DEFAULT_FOLDER.as_ref()).unwrap().into()).unwrap();
    let version = SnapshotTable::new(Arc::new(on_disk), one_patch().overlay().cloned());
    let snapshot = Arc::new(ColumnSnapshot::at("changed", 1, [version]));
    let ask = |sql| {
        let output = engine.query(&snapshot, sql, None).unwrap();
        (lines(&output).len(), output.usage.column_bytes_read > 0)
    };
    assert_eq!(ask("select day from ship where id > 50"), (0, false));
    assert_eq!(ask("select id from ship where day > date '1971-01-01'"), (1, true));
    assert_eq!(ask("select id from ship where day > date '1975-01-01'"), (0, true));
}

#[test]
fn rows_of_chunks_with_holes_come_in_the_order_that_spares_a_sort() {
    let mut random = Pcg64::seed_from_u64(2);
    let ships = |ids: std::ops::Range<i64>| ids.map(|id| Ship::new(id, 0, &mut Pcg64::seed_from_u64(3))).collect();
    let (sparse, full): (Vec<Ship>, Vec<Ship>) = (ships(0..200), ships(200..400));
    let live: Vec<bool> = sparse.iter().map(|_| random.random_bool(0.1)).collect();
    let rows = live.iter().filter(|live| **live).count() + full.len();
    let chunk = |ships: &[Ship], live: Option<Vec<bool>>| {
        Arc::new(Chunk::encode(&schema(), &arrays(ships), live.map(Into::into), None).unwrap())
    };
    let table = ColumnTable::build("ship", schema(), vec![vec![0]], vec![]).unwrap();
    let table = table.with_chunks(&[(0, chunk(&sparse, Some(live))), (1, chunk(&full, None))]).unwrap();
    let snapshot = Arc::new(ColumnSnapshot::new("folded", [Arc::new(table)]));
    let options = QueryOptions { dop: 1, workers: 1, batch_rows: 64, ..QueryOptions::default() };
    let engine = QueryEngine::new(options).unwrap();
    let sql = "select id from ship order by id";
    assert!(!engine.explain(&snapshot, sql, None).unwrap().contains("Sort"));
    let output = engine.query(&snapshot, sql, None).unwrap();
    let ids = output.batches.iter().flat_map(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap());
    let ids: Vec<i64> = ids.flatten().collect();
    assert!(ids.is_sorted() && ids.len() == rows, "{ids:?}");
}

#[test]
fn merging_is_counted_and_a_table_without_changes_needs_none() {
    let engine = QueryEngine::new(QueryOptions { dop: 1, workers: 1, ..QueryOptions::default() }).unwrap();
    let snapshot = Arc::new(ColumnSnapshot::at("changed", 1, [one_image(0)]));
    let explained = engine.query(&snapshot, "explain analyze select sum(id) from ship", None).unwrap();
    let text = lines(&explained).join("\n");
    assert!(text.contains("merged_tuples=1") && text.contains("merge_time="), "{text}");
    assert!(engine.usage().merge_time > std::time::Duration::ZERO);

    let folded = Arc::new(ColumnSnapshot::new("folded", [Arc::clone(one_image(0).columns())]));
    let empty: Arc<dyn Overlay> = Arc::new(BTreeMap::new());
    let unchanged = SnapshotTable::new(Arc::clone(one_image(0).columns()), Some(empty));
    let unchanged = Arc::new(ColumnSnapshot::at("unchanged", 1, [unchanged]));
    for snapshot in [folded, unchanged] {
        let plan = engine.explain(&snapshot, "select count(*), min(day) from ship", None).unwrap();
        assert!(!plan.contains("DataSourceExec"), "answered from statistics: {plan}");
        let explained = engine.query(&snapshot, "explain analyze select sum(id) from ship", None).unwrap();
        assert!(!lines(&explained).join("\n").contains("merge_time"));
        assert_eq!(explained.usage.merged_tuples, 0);
    }
}

#[test]
fn planners_keep_no_snapshot_and_serve_any() {
    let engine = QueryEngine::new(QueryOptions { dop: 1, workers: 1, ..QueryOptions::default() }).unwrap();
    for count in 1..5 {
        let snapshot = Arc::new(ColumnSnapshot::new(format!("state {count}"), [table(count)]));
        assert_eq!(number(&engine.query(&snapshot, "select count(*) from ship", None).unwrap()), count);
        assert!(engine.query(&snapshot, "select nothing from ship", None).is_err());
        assert_eq!(Arc::strong_count(snapshot.table("ship").unwrap()), 1, "nobody else holds the table");
        assert_eq!(Arc::strong_count(&snapshot), 1);
    }
    assert_eq!(engine.idle.lock().len(), 1);
}
