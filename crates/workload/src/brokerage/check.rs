//! Whether work was lost: totals compared with their parts, trades with their traces, and the data with the clients'
//! work.

use super::Brokerage;
use super::request::Kind;
use super::schema::*;
use crate::benchmark::CheckLine;
use crate::condition::{Condition, judge};
use crate::database::{Database, DatabaseError};
use crate::inquiry::{first_integer, row_count_line, work_line};
use crate::schema::TableId;

/// Checks the tables' rows, the invariants, the clients' work and the mix.
pub(super) fn check(brokerage: &Brokerage, database: &dyn Database) -> Result<Vec<CheckLine>, DatabaseError> {
    database.refresh(&SCHEMA)?;
    let mut session = database.session(&SCHEMA)?;
    let session = session.as_mut();
    let mut lines = Vec::new();
    for table in FIXED {
        let (units, rows_per_unit) = brokerage.sizes.units(table);
        let rows = units as u64 * rows_per_unit as u64;
        lines.push(row_count_line(session, SCHEMA.tables[table].name, rows));
    }
    for condition in conditions() {
        lines.push(judge(session, &condition)?);
    }
    let done = |kind| brokerage.audit.done(kind) as i64;
    for (what, sql, by_clients) in [
        ("trades ordered", "SELECT count(*) FROM trade", done(Kind::TradeOrder)),
        ("trades completed", "SELECT count(*) FROM trade WHERE t_st_id = 'CMPT'", done(Kind::TradeResult)),
        ("trades of brokers", "SELECT CAST(sum(b_num_trades) AS bigint) FROM broker", done(Kind::TradeResult)),
    ] {
        lines.push(work_line(
            format!("the data tell of {by_clients} {what} since loading"),
            first_integer(session, sql).map(|found| found - brokerage.sizes.trades()),
            by_clients,
            |missing| format!("{missing} are missing"),
            |more| format!("others have run too, or {more} were done twice"),
        ));
    }
    lines.extend(brokerage.audit.judge_mix());
    Ok(lines)
}

/// Tables to which transactions add no rows.
const FIXED: [TableId; 24] = [
    ACCOUNT_PERMISSION,
    CUSTOMER,
    CUSTOMER_ACCOUNT,
    CUSTOMER_TAXRATE,
    WATCH_ITEM,
    WATCH_LIST,
    BROKER,
    CHARGE,
    COMMISSION_RATE,
    TRADE_TYPE,
    COMPANY,
    COMPANY_COMPETITOR,
    DAILY_MARKET,
    EXCHANGE,
    FINANCIAL,
    INDUSTRY,
    LAST_TRADE,
    NEWS_ITEM,
    SECTOR,
    SECURITY,
    ADDRESS,
    STATUS_TYPE,
    TAXRATE,
    ZIP_CODE,
];

/// Conditions that hold at any time. The first three are those of the specification.
fn conditions() -> Vec<Condition> {
    let condition = |what, violations: &str| Condition { what, violations: violations.to_owned() };
    let mut all = totals();
    all.extend([
        condition(
            "every trade under a limit that waits has a request, and no other has one",
            "SELECT t_id, t_st_id, tr_t_id FROM trade FULL JOIN trade_request ON tr_t_id = t_id \
             WHERE t_id IS NULL OR (t_st_id = 'PNDG' AND tr_t_id IS NULL) OR (t_st_id <> 'PNDG' AND tr_t_id IS NOT NULL)",
        ),
        condition(
            "every trade's history has the trade's state",
            "SELECT t_id, t_st_id FROM trade LEFT JOIN trade_history ON th_t_id = t_id AND th_st_id = t_st_id \
             WHERE th_t_id IS NULL",
        ),
        condition(
            "a trade's history has as many states as it went through",
            "SELECT t_id, t_st_id, t_tt_id, states FROM trade JOIN trade_type ON tt_id = t_tt_id \
             JOIN (SELECT th_t_id, count(*) AS states FROM trade_history GROUP BY th_t_id) AS h ON th_t_id = t_id \
             WHERE t_st_id <> 'CNCL' AND states <> CASE t_st_id WHEN 'CMPT' THEN 3 - tt_is_mrkt \
             WHEN 'SBMT' THEN 2 - tt_is_mrkt ELSE 1 END",
        ),
        condition(
            "completed trades have a price and a settlement, and no others have",
            "SELECT t_id, t_st_id, t_trade_price, se_amt FROM trade LEFT JOIN settlement ON se_t_id = t_id \
             WHERE (t_st_id = 'CMPT' AND (se_t_id IS NULL OR t_trade_price IS NULL)) \
             OR (t_st_id <> 'CMPT' AND (se_t_id IS NOT NULL OR t_trade_price IS NOT NULL))",
        ),
        condition(
            "trades that are paid in cash have a cash transaction of the settlement's amount, and no others have one",
            "SELECT t_id, t_is_cash, se_amt, ct_amt FROM trade JOIN settlement ON se_t_id = t_id \
             LEFT JOIN cash_transaction ON ct_t_id = t_id WHERE (t_is_cash = 1 AND (ct_amt IS NULL OR ct_amt <> se_amt)) \
             OR (t_is_cash = 0 AND ct_amt IS NOT NULL)",
        ),
        condition(
            "SE_AMT = what was bought or sold and the costs",
            "SELECT t_id, t_tt_id, t_qty, t_trade_price, t_chrg, t_comm, t_tax, se_amt FROM trade \
             JOIN settlement ON se_t_id = t_id JOIN trade_type ON tt_id = t_tt_id WHERE se_amt <> \
             CASE WHEN tt_is_sell = 1 THEN t_qty * t_trade_price - t_chrg - t_comm - t_tax \
             ELSE 0 - t_qty * t_trade_price - t_chrg - t_comm END",
        ),
    ]);
    all
}

/// Conditions on totals.
fn totals() -> Vec<Condition> {
    let condition = |what, violations: &str| Condition { what, violations: violations.to_owned() };
    vec![
        condition(
            "B_NUM_TRADES = the completed trades of the broker's accounts",
            "SELECT b_id, b_num_trades, trades FROM broker LEFT JOIN (SELECT ca_b_id, count(*) AS trades FROM trade \
             JOIN customer_account ON ca_id = t_ca_id WHERE t_st_id = 'CMPT' GROUP BY ca_b_id) AS t ON ca_b_id = b_id \
             WHERE b_num_trades <> COALESCE(trades, 0)",
        ),
        condition(
            "B_COMM_TOTAL = the commissions on them",
            "SELECT b_id, b_comm_total, commissions FROM broker LEFT JOIN (SELECT ca_b_id, sum(t_comm) AS commissions \
             FROM trade JOIN customer_account ON ca_id = t_ca_id WHERE t_st_id = 'CMPT' GROUP BY ca_b_id) AS t \
             ON ca_b_id = b_id WHERE b_comm_total <> COALESCE(commissions, 0)",
        ),
        condition(
            "HS_QTY = the sum of the account's holdings of the security",
            "SELECT hs_ca_id, hs_s_symb, hs_qty, h_ca_id, h_s_symb, held FROM holding_summary FULL JOIN \
             (SELECT h_ca_id, h_s_symb, sum(h_qty) AS held FROM holding GROUP BY h_ca_id, h_s_symb) AS h \
             ON h_ca_id = hs_ca_id AND h_s_symb = hs_s_symb WHERE hs_ca_id IS NULL OR h_ca_id IS NULL OR hs_qty <> held",
        ),
        condition(
            "H_QTY = the sum of the lot's changes",
            "SELECT h_t_id, h_qty, hh_h_t_id, changes FROM holding FULL JOIN \
             (SELECT hh_h_t_id, sum(hh_after_qty - hh_before_qty) AS changes FROM holding_history GROUP BY hh_h_t_id) \
             AS c ON hh_h_t_id = h_t_id WHERE COALESCE(h_qty, 0) <> COALESCE(changes, 0)",
        ),
        condition(
            "every trade's lots have changed by its shares",
            "SELECT t_id, t_qty, changes FROM trade JOIN trade_type ON tt_id = t_tt_id LEFT JOIN \
             (SELECT hh_t_id, sum(hh_after_qty - hh_before_qty) AS changes FROM holding_history GROUP BY hh_t_id) AS c \
             ON hh_t_id = t_id WHERE COALESCE(changes, 0) <> \
             CASE WHEN t_st_id = 'CMPT' THEN t_qty * (1 - 2 * tt_is_sell) ELSE 0 END",
        ),
        condition(
            "CA_BAL = 100,000 and the account's cash transactions",
            "SELECT ca_id, ca_bal, cash FROM customer_account LEFT JOIN (SELECT t_ca_id, sum(ct_amt) AS cash FROM trade \
             JOIN cash_transaction ON ct_t_id = t_id GROUP BY t_ca_id) AS c ON t_ca_id = ca_id \
             WHERE ca_bal <> 100000 + COALESCE(cash, 0)",
        ),
    ]
}
