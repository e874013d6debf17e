//! Security-Detail: all about a security and its company.

use super::schema::*;
use super::size::symbol;
use super::transaction::*;
use crate::database::DatabaseError;
use crate::keyed;
use crate::lookup::{find_all, referred, show};
use crate::schema::ColumnId;
use crate::statement::{Intent, RowAccess, Rows, Statement, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SecurityDetail {
    pub(super) security: i64,
    /// The days of the market's history that are shown, both ends included, since 1970-01-01.
    pub(super) first: i64,
    pub(super) last: i64,
    /// Whether news are shown with their articles.
    pub(super) has_articles: bool,
}

impl SecurityDetail {
    pub(super) fn run(&self, transaction: &mut Transaction<'_>) -> Result<(), DatabaseError> {
        let symbol = symbol(self.security);
        let symbol = Value::Text(&symbol);
        let company = [Value::Int(transaction.number(&PROFILE, &[symbol])?)];
        transaction.execute_one(&COMPETITION, &company)?;
        transaction.execute_one(&QUARTERLY, &company)?;
        transaction.execute_one(&DAILY, &[symbol, Value::Int(self.first), Value::Int(self.last)])?;
        transaction.execute_one(&LAST_PRICE, &[symbol])?;
        transaction.execute_one(if self.has_articles { &ARTICLES } else { &HEADLINES }, &company)
    }
}

/// (symbol) → (company; about the security; about the company, its address and the exchange).
static PROFILE: Statement = Statement {
    name: "profile",
    sql: "SELECT s_co_id, s_name, s_num_out, s_start_date, s_exch_date, (s_pe * 100)::bigint, \
          (s_52wk_high * 100)::bigint, s_52wk_high_date, (s_52wk_low * 100)::bigint, s_52wk_low_date, \
          (s_dividend * 100)::bigint, (s_yield * 100)::bigint, co_name, co_sp_rate, co_ceo, co_desc, co_open_date, \
          co_st_id, ad_line1, ad_line2, zc_town, zc_div, ex_name, ex_num_symb, ex_open, ex_close, ex_desc \
          FROM security JOIN company ON co_id = s_co_id JOIN address ON ad_id = co_ad_id \
          JOIN zip_code ON zc_code = ad_zc_code JOIN exchange ON ex_id = s_ex_id WHERE s_symb = $1",
    native: &profile,
};

fn profile(access: &mut dyn RowAccess, parameters: &[Value<'_>], rows: &mut Rows) -> Result<(), DatabaseError> {
    const OF_SECURITY: &[ColumnId] = &[
        S_CO_ID,
        S_NAME,
        S_NUM_OUT,
        S_START_DATE,
        S_EXCH_DATE,
        S_PE,
        S_52WK_HIGH,
        S_52WK_HIGH_DATE,
        S_52WK_LOW,
        S_52WK_LOW_DATE,
        S_DIVIDEND,
        S_YIELD,
    ];
    const OF_COMPANY: &[ColumnId] = &[CO_NAME, CO_SP_RATE, CO_CEO, CO_DESC, CO_OPEN_DATE, CO_ST_ID];
    const OF_EXCHANGE: &[ColumnId] = &[EX_NAME, EX_NUM_SYMB, EX_OPEN, EX_CLOSE, EX_DESC];
    let Some(security) = access.find(primary(SECURITY), parameters, Intent::Read)? else { return Ok(()) };
    let Some(company) = referred(access, security, S_CO_ID, COMPANY, Intent::Read)? else { return Ok(()) };
    let Some(address) = referred(access, company, CO_AD_ID, ADDRESS, Intent::Read)? else { return Ok(()) };
    let Some(town) = referred(access, address, AD_ZC_CODE, ZIP_CODE, Intent::Read)? else { return Ok(()) };
    let Some(exchange) = referred(access, security, S_EX_ID, EXCHANGE, Intent::Read)? else { return Ok(()) };
    let parts = [
        (security, OF_SECURITY),
        (company, OF_COMPANY),
        (address, &[AD_LINE1, AD_LINE2]),
        (town, &[ZC_TOWN, ZC_DIV]),
        (exchange, OF_EXCHANGE),
    ];
    show(access, &SCHEMA, rows, &parts);
    Ok(())
}

/// (company) → (name, industry) of each competitor.
static COMPETITION: Statement = Statement {
    name: "competition",
    sql: "SELECT co_name, in_name FROM company_competitor JOIN company ON co_id = cp_comp_co_id \
          JOIN industry ON in_id = cp_in_id WHERE cp_co_id = $1 ORDER BY cp_comp_co_id LIMIT 3",
    native: &|access, parameters, rows| {
        for competitor in find_all(access, primary(COMPANY_COMPETITOR), parameters, parameters)?.into_iter().take(3) {
            let company = referred(access, competitor, CP_COMP_CO_ID, COMPANY, Intent::Read)?;
            let industry = referred(access, competitor, CP_IN_ID, INDUSTRY, Intent::Read)?;
            if let (Some(company), Some(industry)) = (company, industry) {
                show(access, &SCHEMA, rows, &[(company, &[CO_NAME]), (industry, &[IN_NAME])]);
            }
        }
        Ok(())
    },
};

/// (company) → (year, quarter, first day and figures) of each quarter, the oldest first.
static QUARTERLY: Statement = keyed::statement!(
    SCHEMA,
    "quarterly",
    "SELECT fi_year, fi_qtr, fi_qtr_start_date, (fi_revenue * 100)::bigint, (fi_net_earn * 100)::bigint, \
     (fi_basic_eps * 100)::bigint, (fi_dilut_eps * 100)::bigint, (fi_margin * 100)::bigint, \
     (fi_inventory * 100)::bigint, (fi_assets * 100)::bigint, (fi_liability * 100)::bigint, fi_out_basic, \
     fi_out_dilut FROM financial WHERE fi_co_id = $1 ORDER BY fi_year, fi_qtr LIMIT 20"
);

/// (symbol, first day, last day) → (day, closing, highest and lowest price, volume) of each day.
static DAILY: Statement = keyed::statement!(
    SCHEMA,
    "daily",
    "SELECT dm_date, (dm_close * 100)::bigint, (dm_high * 100)::bigint, (dm_low * 100)::bigint, dm_vol \
     FROM daily_market WHERE dm_s_symb = $1 AND dm_date >= $2 AND dm_date <= $3 ORDER BY dm_date"
);

/// (company) → (time, source, author, headline, summary) of each of its two news.
static HEADLINES: Statement = Statement {
    name: "headlines",
    sql: "SELECT ni_dts, ni_source, ni_author, ni_headline, ni_summary FROM news_xref \
          JOIN news_item ON ni_id = nx_ni_id WHERE nx_co_id = $1 ORDER BY ni_id LIMIT 2",
    native: &|access, parameters, rows| {
        news(access, parameters, &[NI_DTS, NI_SOURCE, NI_AUTHOR, NI_HEADLINE, NI_SUMMARY], rows)
    },
};

/// The same with the article instead of headline and summary.
static ARTICLES: Statement = Statement {
    name: "articles",
    sql: "SELECT ni_dts, ni_source, ni_author, ni_item FROM news_xref JOIN news_item ON ni_id = nx_ni_id \
          WHERE nx_co_id = $1 ORDER BY ni_id LIMIT 2",
    native: &|access, parameters, rows| news(access, parameters, &[NI_DTS, NI_SOURCE, NI_AUTHOR, NI_ITEM], rows),
};

fn news(
    access: &mut dyn RowAccess,
    company: &[Value<'_>],
    columns: &[ColumnId],
    rows: &mut Rows,
) -> Result<(), DatabaseError> {
    for reference in find_all(access, primary(NEWS_XREF), company, company)?.into_iter().take(2) {
        if let Some(item) = referred(access, reference, NX_NI_ID, NEWS_ITEM, Intent::Read)? {
            show(access, &SCHEMA, rows, &[(item, columns)]);
        }
    }
    Ok(())
}

pub(super) static STATEMENTS: [&Statement; 6] = [&PROFILE, &COMPETITION, &QUARTERLY, &DAILY, &HEADLINES, &ARTICLES];
