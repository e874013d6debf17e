//! A piece is read once, stays within the bound, and is not taken from those that hold it.

use std::sync::Barrier;
use std::sync::mpsc::channel;

use arrow::array::UInt8Array;
use arrow::buffer::ScalarBuffer;
use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

const PIECE: PieceSize = PieceSize { read: 90, held: 100 };

/// Memory of a piece, as pages of a file are.
struct TestMemory {
    bytes: Vec<u8>,
    _reserved: Reservation,
}

impl AsRef<[u8]> for TestMemory {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn key(number: u64) -> PieceKey {
    PieceKey { file: number / 100, offset: number % 100 }
}

/// The piece of that number: its values all are that number.
fn piece(number: u64, reserved: Reservation) -> Result<ReadPiece, String> {
    let bytes = vec![number as u8; PIECE.read as usize];
    let memory = Buffer::from(Bytes::from_owner(TestMemory { bytes, _reserved: reserved }));
    let values = UInt8Array::new(ScalarBuffer::new(memory.clone(), 0, PIECE.read as usize), None);
    Ok(ReadPiece { values: Arc::new(values), memory })
}

/// The values, and whether they were read.
fn load(cache: &ColumnCache, number: u64) -> (ArrayRef, bool) {
    cache.load(key(number), PIECE, |reserved| piece(number, reserved)).unwrap()
}

fn is_read(cache: &ColumnCache, number: u64) -> bool {
    load(cache, number).1
}

#[test]
fn what_fits_is_read_once_and_the_clock_evicts_the_rest() {
    let cache = ColumnCache::new(3 * PIECE.held);
    assert_eq!([0, 1, 2].map(|number| is_read(&cache, number)), [true; 3]);
    assert_eq!([0, 1, 2].map(|number| is_read(&cache, number)), [false; 3]);
    assert_eq!(cache.reads(), ColumnReads { read_bytes: 270, found_bytes: Some(270), held_bytes_peak: 300 });
    assert!(is_read(&cache, 3), "all others have had their second chance: the first one goes");
    assert_eq!([1, 2, 3, 0].map(|number| is_read(&cache, number)), [false, false, false, true]);
    assert!(cache.find(key(0)).is_some() && cache.find(key(9)).is_none());
}

#[test]
fn pinned_pieces_stay_and_exceed_the_bound_as_long_as_they_are_pinned() {
    let cache = ColumnCache::new(2 * PIECE.held);
    // One is held as it is, one as a part of it, as a batch would.
    let (whole, part) = (load(&cache, 0).0, load(&cache, 1).0.slice(3, 5));
    let beyond: Vec<ArrayRef> = (2..5).map(|number| load(&cache, number).0).collect();
    assert_eq!([0, 1].map(|number| is_read(&cache, number)), [false; 2]);
    assert_eq!(cache.reads().held_bytes_peak, 500, "the figure shows by how much");
    assert!(
        beyond.iter().zip(2u8..).all(|(values, number)| values.to_data().buffers()[0].iter().all(|&b| b == number))
    );
    drop(beyond);
    assert_eq!(cache.memory.held(), 200, "what had no room is free with its last user");
    assert!(is_read(&cache, 5), "there is no room for it either");
    drop((whole, part));
    assert_eq!((is_read(&cache, 5), is_read(&cache, 5)), (true, false), "now there is");
    assert_eq!(cache.memory.held(), 200);
}

#[test]
fn a_smaller_bound_evicts_at_once_and_none_keeps_nothing() {
    let cache = ColumnCache::new(4 * PIECE.held);
    let pinned = load(&cache, 0);
    (1..4).for_each(|number| drop(load(&cache, number)));
    cache.set_bytes_max(0);
    assert_eq!(cache.memory.held(), 100, "the pinned one is left");
    drop(pinned);
    assert_eq!((cache.memory.held(), is_read(&cache, 0), is_read(&cache, 0)), (0, true, true));
    assert_eq!(cache.reads().found_bytes, None);
}

#[test]
fn concurrent_misses_of_a_piece_read_it_once() {
    // Even if there is no room to keep it.
    for bytes_max in [1, 10 * PIECE.held] {
        let cache = ColumnCache::new(bytes_max);
        let (begun, wait_until_begun) = channel();
        let (finish, wait_to_finish) = channel();
        std::thread::scope(|scope| {
            let read = move |reserved| {
                begun.send(()).unwrap();
                wait_to_finish.recv().unwrap();
                piece(7, reserved)
            };
            let reader = scope.spawn(|| cache.load(key(7), PIECE, read).unwrap());
            wait_until_begun.recv().unwrap();
            let state = cache.state.lock();
            let Some(Piece::Coming(coming)) = state.pieces.get(&key(7)) else { panic!("it is being read") };
            let coming = Arc::clone(coming);
            drop(state);
            let others: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| cache.load(key(7), PIECE, |_| Err("it was read twice".to_owned())).unwrap()))
                .collect();
            // The cache, the reader and this test know the announced piece, and each of the others once it waits.
            plimsoll_testing::until("the others wait", || Arc::strong_count(&coming) == 6);
            finish.send(()).unwrap();
            let expect = reader.join().unwrap();
            assert!(expect.1);
            others.into_iter().for_each(|other| assert_eq!(other.join().unwrap(), (Arc::clone(&expect.0), false)));
        });
    }
}

#[test]
fn who_waits_for_a_read_that_fails_or_panics_reads_again() {
    for panics in [false, true] {
        let cache = ColumnCache::new(10 * PIECE.held);
        let both_want_it = Barrier::new(2);
        std::thread::scope(|scope| {
            let failing = scope.spawn(|| {
                cache.load(key(1), PIECE, |_| {
                    both_want_it.wait();
                    assert!(!panics, "a read that panics");
                    Err("the disk is gone".to_owned())
                })
            });
            both_want_it.wait();
            assert_eq!(load(&cache, 1).0.len(), 90);
            match failing.join() {
                Ok(failed) => assert_eq!(failed.unwrap_err(), "the disk is gone"),
                Err(_) => assert!(panics),
            }
        });
        assert_eq!((is_read(&cache, 1), cache.memory.held()), (false, 100), "nothing is held for the failed read");
    }
}

#[test]
fn a_file_takes_its_pieces_with_it() {
    let cache = ColumnCache::new(10 * PIECE.held);
    [1, 2, 101].into_iter().for_each(|number| drop(load(&cache, number)));
    cache.forget_file(0);
    assert_eq!((cache.memory.held(), is_read(&cache, 101)), (100, false));
}

/// Threads load, hold and drop pieces by chance.
fn at_random(seed: u64) {
    const KEYS: u64 = 40;
    let cache = ColumnCache::new(12 * PIECE.held);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let cache = &cache;
            scope.spawn(move || {
                let mut random = Pcg64::seed_from_u64(seed * 10 + thread);
                let mut pinned: Vec<(u64, ArrayRef)> = Vec::new();
                for _ in 0..500 {
                    let number = random.random_range(0..KEYS) * random.random_range(1..4);
                    match random.random_range(0..20) {
                        0..12 => pinned.push((number, load(cache, number).0)),
                        12 => drop(cache.load(key(number), PIECE, |_| Err::<ReadPiece, _>("a fault"))),
                        13 => cache.set_bytes_max(random.random_range(0..20) * PIECE.held),
                        _ => pinned.truncate(random.random_range(0..=pinned.len())),
                    }
                    let is_own =
                        |(number, values): &(u64, ArrayRef)| values.to_data().buffers()[0][17] == *number as u8;
                    assert!(pinned.iter().all(is_own), "seed {seed}: another piece's values");
                }
            });
        }
    });
    cache.set_bytes_max(5 * PIECE.held);
    let state = cache.state.lock();
    assert_eq!(state.order.bytes(), cache.memory.held(), "seed {seed}: exactly the pieces of the cache are held");
    assert!(state.order.bytes() <= state.bytes_max, "seed {seed}: nothing is pinned any more");
    assert_eq!(state.order.bytes(), state.pieces.len() as u64 * PIECE.held, "seed {seed}: no read was left announced");
}

#[test]
fn whatever_threads_do_the_memory_is_that_of_the_pieces() {
    (0..20).for_each(at_random);
}
