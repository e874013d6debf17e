//! The nine kinds of transaction, how often each is drawn, and the input of each.

use rand::RngExt;
use rand_pcg::Pcg64;

use super::population::Sizes;
use super::schema::*;

/// The kinds of transaction, in the order of [`MIX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionKind {
    ReadLite,
    ReadMedium,
    ReadHeavy,
    UpdateLite,
    UpdateHeavy,
    InsertLite,
    InsertHeavy,
    Delete,
    CpuHeavy,
}

/// Each kind with its name and its share of the mix in percent, in order.
pub(super) const MIX: [(TransactionKind, &str, u32); 9] = [
    (TransactionKind::ReadLite, "read_lite", 35),
    (TransactionKind::ReadMedium, "read_medium", 20),
    (TransactionKind::ReadHeavy, "read_heavy", 5),
    (TransactionKind::UpdateLite, "update_lite", 20),
    (TransactionKind::UpdateHeavy, "update_heavy", 3),
    (TransactionKind::InsertLite, "insert_lite", 3),
    (TransactionKind::InsertHeavy, "insert_heavy", 2),
    (TransactionKind::Delete, "delete", 2),
    (TransactionKind::CpuHeavy, "cpu_heavy", 10),
];

/// Entries that an Insert Lite adds, all to one hot account.
pub(super) const LITE_ENTRIES: usize = 2;

/// Entries that an Insert Heavy adds, each to any account.
pub(super) const HEAVY_ENTRIES: usize = 12;

/// Entries that a Delete takes from a hot account …
pub(super) const HOT_DELETED: i64 = 3;

/// … and the number of accounts from which it takes one entry each.
pub(super) const COLD_DELETED: usize = 12;

// Of a hundred transactions, inserts and deletes are in balance, among hot accounts and among all.
const _: () = assert!(3 * LITE_ENTRIES as i64 == 2 * HOT_DELETED && 2 * HEAVY_ENTRIES == 2 * COLD_DELETED);

/// Documents that an Update Heavy revises.
pub(super) const REVISED: usize = 10;

/// A share of Read Mediums is about a hot branch; the others are of any.
const READ_MEDIUM_HOT_PERCENT: u32 = 90;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NewEntry {
    pub(super) account: i64,
    pub(super) product: i64,
    pub(super) quantity: i64,
}

/// A transaction with all of its input. Accounts and documents that are written are in ascending order, so that two
/// transactions never wait for each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    ReadLite {
        account: i64,
    },
    /// `place` says which of the branch's accounts shows its newest entries.
    ReadMedium {
        branch: i64,
        place: usize,
    },
    ReadHeavy {
        topic: i64,
    },
    /// `amount` is in hundredths.
    UpdateLite {
        account: i64,
        amount: i64,
    },
    UpdateHeavy {
        documents: [i64; REVISED],
    },
    InsertLite([NewEntry; LITE_ENTRIES]),
    InsertHeavy([NewEntry; HEAVY_ENTRIES]),
    /// Accounts, each with the number of entries that it loses.
    Delete([(i64, i64); COLD_DELETED + 1]),
    CpuHeavy {
        addend: i64,
    },
}

impl Request {
    /// Draws a kind by its share, then its input.
    pub(super) fn draw(random: &mut Pcg64, sizes: Sizes) -> (TransactionKind, Request) {
        let kind = draw_kind(random);
        let request = match kind {
            TransactionKind::ReadLite => Request::ReadLite { account: hot(random, sizes.accounts()) },
            TransactionKind::ReadMedium => Request::ReadMedium {
                branch: match random.random_range(0..100) < READ_MEDIUM_HOT_PERCENT {
                    true => hot(random, sizes.branches()),
                    false => any(random, sizes.branches()),
                },
                place: random.random_range(0..ACCOUNTS_PER_BRANCH as usize),
            },
            TransactionKind::ReadHeavy => Request::ReadHeavy { topic: any(random, sizes.topics()) },
            TransactionKind::UpdateLite => Request::UpdateLite {
                account: hot(random, sizes.accounts()),
                amount: random.random_range(-10_000..=10_000),
            },
            TransactionKind::UpdateHeavy => {
                let mut documents = std::array::from_fn(|_| any(random, sizes.documents()));
                documents.sort_unstable();
                Request::UpdateHeavy { documents }
            }
            TransactionKind::InsertLite => {
                let account = hot(random, sizes.accounts());
                Request::InsertLite(std::array::from_fn(|_| {
                    new_entry(random, account, |random| hot(random, sizes.products()))
                }))
            }
            TransactionKind::InsertHeavy => {
                let mut entries = std::array::from_fn(|_| {
                    let account = any(random, sizes.accounts());
                    new_entry(random, account, |random| any(random, sizes.products()))
                });
                entries.sort_unstable_by_key(|entry| entry.account);
                Request::InsertHeavy(entries)
            }
            TransactionKind::Delete => {
                let mut accounts = std::array::from_fn(|place| match place {
                    0 => (hot(random, sizes.accounts()), HOT_DELETED),
                    _ => (any(random, sizes.accounts()), 1),
                });
                accounts.sort_unstable();
                Request::Delete(accounts)
            }
            TransactionKind::CpuHeavy => Request::CpuHeavy { addend: random.random_range(0..10_000) },
        };
        (kind, request)
    }
}

fn draw_kind(random: &mut Pcg64) -> TransactionKind {
    let mut left = random.random_range(0..100);
    for (kind, _, percent) in MIX {
        if left < percent {
            return kind;
        }
        left -= percent;
    }
    unreachable!("the shares add up to 100")
}

fn new_entry(random: &mut Pcg64, account: i64, product: impl FnOnce(&mut Pcg64) -> i64) -> NewEntry {
    NewEntry { account, product: product(random), quantity: random.random_range(1..=10) }
}

/// Any number from 1 to that.
fn any(random: &mut Pcg64, highest: i64) -> i64 {
    random.random_range(1..=highest)
}

/// A number among the first hundredth.
fn hot(random: &mut Pcg64, highest: i64) -> i64 {
    random.random_range(1..=highest / ROWS_PER_HOT_ONE)
}
