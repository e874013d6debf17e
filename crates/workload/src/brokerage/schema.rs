//! The 33 tables: nine of customers, nine of brokers, eleven of the market, and four that all of them refer to.

use std::borrow::Cow;

pub(super) use crate::schema::primary;
use crate::schema::{ColumnKind, Index, Schema, TableId, column, columns, index, nullable, row_table};

const MONEY: ColumnKind = ColumnKind::Decimal { precision: 14, scale: 2 };
const PRICE: ColumnKind = ColumnKind::Decimal { precision: 8, scale: 2 };
const RATE: ColumnKind = ColumnKind::Decimal { precision: 6, scale: 5 };

/// A security's symbol, which is a key.
const SYMBOL: ColumnKind = ColumnKind::Text(15);
const STATUS: ColumnKind = ColumnKind::Text(4);
const TAX_ID: ColumnKind = ColumnKind::Text(20);

/// The longest text of a news item, in bytes; the specification has 100,000.
pub(super) const NEWS_MAX: usize = 1_000;

columns! { ACCOUNT_PERMISSION_COLUMNS:
    AP_CA_ID column "ap_ca_id" ColumnKind::BigInt;
    AP_TAX_ID column "ap_tax_id" TAX_ID;
    AP_ACL column "ap_acl" ColumnKind::Text(4);
    AP_L_NAME column "ap_l_name" ColumnKind::Text(25);
    AP_F_NAME column "ap_f_name" ColumnKind::Text(20);
}

columns! { CUSTOMER_COLUMNS:
    C_ID column "c_id" ColumnKind::BigInt;
    C_TAX_ID column "c_tax_id" TAX_ID;
    C_ST_ID column "c_st_id" STATUS;
    C_L_NAME column "c_l_name" ColumnKind::Text(25);
    C_F_NAME column "c_f_name" ColumnKind::Text(20);
    C_M_NAME column "c_m_name" ColumnKind::Text(1);
    C_GNDR column "c_gndr" ColumnKind::Text(1);
    C_TIER column "c_tier" ColumnKind::Int;
    C_DOB column "c_dob" ColumnKind::Date;
    C_AD_ID column "c_ad_id" ColumnKind::BigInt;
    C_PHONE column "c_phone" ColumnKind::Text(20);
    C_EMAIL_1 column "c_email_1" ColumnKind::Text(50);
    C_EMAIL_2 column "c_email_2" ColumnKind::Text(50);
}

columns! { CUSTOMER_ACCOUNT_COLUMNS:
    CA_ID column "ca_id" ColumnKind::BigInt;
    CA_B_ID column "ca_b_id" ColumnKind::BigInt;
    CA_C_ID column "ca_c_id" ColumnKind::BigInt;
    CA_NAME column "ca_name" ColumnKind::Text(50);
    CA_TAX_ST column "ca_tax_st" ColumnKind::Int;
    CA_BAL column "ca_bal" MONEY;
}

columns! { CUSTOMER_TAXRATE_COLUMNS:
    CX_C_ID column "cx_c_id" ColumnKind::BigInt;
    CX_TX_ID column "cx_tx_id" ColumnKind::Int;
}

columns! { HOLDING_COLUMNS:
    H_T_ID column "h_t_id" ColumnKind::BigInt;
    H_CA_ID column "h_ca_id" ColumnKind::BigInt;
    H_S_SYMB column "h_s_symb" SYMBOL;
    H_DTS column "h_dts" ColumnKind::Timestamp;
    H_PRICE column "h_price" PRICE;
    H_QTY column "h_qty" ColumnKind::Int;
}

columns! { HOLDING_HISTORY_COLUMNS:
    HH_T_ID column "hh_t_id" ColumnKind::BigInt;
    HH_H_T_ID column "hh_h_t_id" ColumnKind::BigInt;
    HH_BEFORE_QTY column "hh_before_qty" ColumnKind::Int;
    HH_AFTER_QTY column "hh_after_qty" ColumnKind::Int;
}

columns! { HOLDING_SUMMARY_COLUMNS:
    HS_CA_ID column "hs_ca_id" ColumnKind::BigInt;
    HS_S_SYMB column "hs_s_symb" SYMBOL;
    HS_QTY column "hs_qty" ColumnKind::Int;
}

columns! { WATCH_ITEM_COLUMNS:
    WI_WL_ID column "wi_wl_id" ColumnKind::BigInt;
    WI_S_SYMB column "wi_s_symb" SYMBOL;
}

columns! { WATCH_LIST_COLUMNS:
    WL_ID column "wl_id" ColumnKind::BigInt;
    WL_C_ID column "wl_c_id" ColumnKind::BigInt;
}

columns! { BROKER_COLUMNS:
    B_ID column "b_id" ColumnKind::BigInt;
    B_ST_ID column "b_st_id" STATUS;
    B_NAME column "b_name" ColumnKind::Text(49);
    B_NUM_TRADES column "b_num_trades" ColumnKind::BigInt;
    B_COMM_TOTAL column "b_comm_total" MONEY;
}

columns! { CASH_TRANSACTION_COLUMNS:
    CT_T_ID column "ct_t_id" ColumnKind::BigInt;
    CT_DTS column "ct_dts" ColumnKind::Timestamp;
    CT_AMT column "ct_amt" MONEY;
    CT_NAME column "ct_name" ColumnKind::Text(100);
}

columns! { CHARGE_COLUMNS:
    CH_TT_ID column "ch_tt_id" ColumnKind::Text(3);
    CH_C_TIER column "ch_c_tier" ColumnKind::Int;
    CH_CHRG column "ch_chrg" MONEY;
}

columns! { COMMISSION_RATE_COLUMNS:
    CR_C_TIER column "cr_c_tier" ColumnKind::Int;
    CR_TT_ID column "cr_tt_id" ColumnKind::Text(3);
    CR_EX_ID column "cr_ex_id" ColumnKind::Int;
    CR_FROM_QTY column "cr_from_qty" ColumnKind::Int;
    CR_TO_QTY column "cr_to_qty" ColumnKind::Int;
    // Percent.
    CR_RATE column "cr_rate" PRICE;
}

columns! { SETTLEMENT_COLUMNS:
    SE_T_ID column "se_t_id" ColumnKind::BigInt;
    SE_CASH_TYPE column "se_cash_type" ColumnKind::Text(40);
    SE_CASH_DUE_DATE column "se_cash_due_date" ColumnKind::Date;
    SE_AMT column "se_amt" MONEY;
}

columns! { TRADE_COLUMNS:
    T_ID column "t_id" ColumnKind::BigInt;
    // When it was ordered: an index has this column, so it does not change when the trade is completed.
    T_DTS column "t_dts" ColumnKind::Timestamp;
    T_ST_ID column "t_st_id" STATUS;
    T_TT_ID column "t_tt_id" ColumnKind::Text(3);
    T_IS_CASH column "t_is_cash" ColumnKind::Int;
    T_S_SYMB column "t_s_symb" SYMBOL;
    T_QTY column "t_qty" ColumnKind::Int;
    T_BID_PRICE column "t_bid_price" PRICE;
    T_CA_ID column "t_ca_id" ColumnKind::BigInt;
    T_EXEC_NAME column "t_exec_name" ColumnKind::Text(49);
    T_TRADE_PRICE nullable "t_trade_price" PRICE;
    T_CHRG column "t_chrg" MONEY;
    T_COMM column "t_comm" MONEY;
    T_TAX column "t_tax" MONEY;
    T_LIFO column "t_lifo" ColumnKind::Int;
}

columns! { TRADE_HISTORY_COLUMNS:
    TH_T_ID column "th_t_id" ColumnKind::BigInt;
    TH_ST_ID column "th_st_id" STATUS;
    TH_DTS column "th_dts" ColumnKind::Timestamp;
}

columns! { TRADE_REQUEST_COLUMNS:
    TR_T_ID column "tr_t_id" ColumnKind::BigInt;
    TR_TT_ID column "tr_tt_id" ColumnKind::Text(3);
    TR_S_SYMB column "tr_s_symb" SYMBOL;
    TR_QTY column "tr_qty" ColumnKind::Int;
    TR_BID_PRICE column "tr_bid_price" PRICE;
    TR_B_ID column "tr_b_id" ColumnKind::BigInt;
}

columns! { TRADE_TYPE_COLUMNS:
    TT_ID column "tt_id" ColumnKind::Text(3);
    TT_NAME column "tt_name" ColumnKind::Text(12);
    TT_IS_SELL column "tt_is_sell" ColumnKind::Int;
    TT_IS_MRKT column "tt_is_mrkt" ColumnKind::Int;
}

columns! { COMPANY_COLUMNS:
    CO_ID column "co_id" ColumnKind::BigInt;
    CO_ST_ID column "co_st_id" STATUS;
    CO_NAME column "co_name" ColumnKind::Text(40);
    CO_IN_ID column "co_in_id" ColumnKind::Int;
    CO_SP_RATE column "co_sp_rate" ColumnKind::Text(4);
    CO_CEO column "co_ceo" ColumnKind::Text(46);
    CO_AD_ID column "co_ad_id" ColumnKind::BigInt;
    CO_DESC column "co_desc" ColumnKind::Text(150);
    CO_OPEN_DATE column "co_open_date" ColumnKind::Date;
}

columns! { COMPANY_COMPETITOR_COLUMNS:
    CP_CO_ID column "cp_co_id" ColumnKind::BigInt;
    CP_COMP_CO_ID column "cp_comp_co_id" ColumnKind::BigInt;
    CP_IN_ID column "cp_in_id" ColumnKind::Int;
}

columns! { DAILY_MARKET_COLUMNS:
    DM_S_SYMB column "dm_s_symb" SYMBOL;
    DM_DATE column "dm_date" ColumnKind::Date;
    DM_CLOSE column "dm_close" PRICE;
    DM_HIGH column "dm_high" PRICE;
    DM_LOW column "dm_low" PRICE;
    DM_VOL column "dm_vol" ColumnKind::BigInt;
}

columns! { EXCHANGE_COLUMNS:
    EX_ID column "ex_id" ColumnKind::Int;
    EX_NAME column "ex_name" ColumnKind::Text(100);
    EX_NUM_SYMB column "ex_num_symb" ColumnKind::BigInt;
    // Minutes since midnight.
    EX_OPEN column "ex_open" ColumnKind::Int;
    EX_CLOSE column "ex_close" ColumnKind::Int;
    EX_DESC column "ex_desc" ColumnKind::Text(150);
    EX_AD_ID column "ex_ad_id" ColumnKind::BigInt;
}

columns! { FINANCIAL_COLUMNS:
    FI_CO_ID column "fi_co_id" ColumnKind::BigInt;
    FI_YEAR column "fi_year" ColumnKind::Int;
    FI_QTR column "fi_qtr" ColumnKind::Int;
    FI_QTR_START_DATE column "fi_qtr_start_date" ColumnKind::Date;
    FI_REVENUE column "fi_revenue" MONEY;
    FI_NET_EARN column "fi_net_earn" MONEY;
    FI_BASIC_EPS column "fi_basic_eps" MONEY;
    FI_DILUT_EPS column "fi_dilut_eps" MONEY;
    FI_MARGIN column "fi_margin" MONEY;
    FI_INVENTORY column "fi_inventory" MONEY;
    FI_ASSETS column "fi_assets" MONEY;
    FI_LIABILITY column "fi_liability" MONEY;
    FI_OUT_BASIC column "fi_out_basic" ColumnKind::BigInt;
    FI_OUT_DILUT column "fi_out_dilut" ColumnKind::BigInt;
}

columns! { INDUSTRY_COLUMNS:
    IN_ID column "in_id" ColumnKind::Int;
    IN_NAME column "in_name" ColumnKind::Text(50);
    IN_SC_ID column "in_sc_id" ColumnKind::Int;
}

columns! { LAST_TRADE_COLUMNS:
    LT_S_SYMB column "lt_s_symb" SYMBOL;
    LT_DTS column "lt_dts" ColumnKind::Timestamp;
    LT_PRICE column "lt_price" PRICE;
    LT_OPEN_PRICE column "lt_open_price" PRICE;
    LT_VOL column "lt_vol" ColumnKind::BigInt;
}

columns! { NEWS_ITEM_COLUMNS:
    NI_ID column "ni_id" ColumnKind::BigInt;
    NI_HEADLINE column "ni_headline" ColumnKind::Text(80);
    NI_SUMMARY column "ni_summary" ColumnKind::Text(255);
    NI_ITEM column "ni_item" ColumnKind::Text(NEWS_MAX);
    NI_DTS column "ni_dts" ColumnKind::Timestamp;
    NI_SOURCE column "ni_source" ColumnKind::Text(30);
    NI_AUTHOR column "ni_author" ColumnKind::Text(30);
}

columns! { NEWS_XREF_COLUMNS:
    NX_CO_ID column "nx_co_id" ColumnKind::BigInt;
    NX_NI_ID column "nx_ni_id" ColumnKind::BigInt;
}

columns! { SECTOR_COLUMNS:
    SC_ID column "sc_id" ColumnKind::Int;
    SC_NAME column "sc_name" ColumnKind::Text(30);
}

columns! { SECURITY_COLUMNS:
    S_SYMB column "s_symb" SYMBOL;
    S_ISSUE column "s_issue" ColumnKind::Text(6);
    S_ST_ID column "s_st_id" STATUS;
    S_NAME column "s_name" ColumnKind::Text(70);
    S_EX_ID column "s_ex_id" ColumnKind::Int;
    S_CO_ID column "s_co_id" ColumnKind::BigInt;
    S_NUM_OUT column "s_num_out" ColumnKind::BigInt;
    S_START_DATE column "s_start_date" ColumnKind::Date;
    S_EXCH_DATE column "s_exch_date" ColumnKind::Date;
    S_PE column "s_pe" PRICE;
    S_52WK_HIGH column "s_52wk_high" PRICE;
    S_52WK_HIGH_DATE column "s_52wk_high_date" ColumnKind::Date;
    S_52WK_LOW column "s_52wk_low" PRICE;
    S_52WK_LOW_DATE column "s_52wk_low_date" ColumnKind::Date;
    S_DIVIDEND column "s_dividend" PRICE;
    S_YIELD column "s_yield" PRICE;
}

columns! { ADDRESS_COLUMNS:
    AD_ID column "ad_id" ColumnKind::BigInt;
    AD_LINE1 column "ad_line1" ColumnKind::Text(80);
    AD_LINE2 column "ad_line2" ColumnKind::Text(80);
    AD_ZC_CODE column "ad_zc_code" ColumnKind::Int;
    AD_CTRY column "ad_ctry" ColumnKind::Text(80);
}

columns! { STATUS_TYPE_COLUMNS:
    ST_ID column "st_id" STATUS;
    ST_NAME column "st_name" ColumnKind::Text(10);
}

columns! { TAXRATE_COLUMNS:
    TX_ID column "tx_id" ColumnKind::Int;
    TX_NAME column "tx_name" ColumnKind::Text(50);
    TX_RATE column "tx_rate" RATE;
}

columns! { ZIP_CODE_COLUMNS:
    ZC_CODE column "zc_code" ColumnKind::Int;
    ZC_TOWN column "zc_town" ColumnKind::Text(80);
    ZC_DIV column "zc_div" ColumnKind::Text(80);
}

/// Numbers the tables in the order of [`SCHEMA`].
macro_rules! tables {
    ($($name:ident)*) => { tables!(@number 0usize; $($name)*); };
    (@number $number:expr; $head:ident $($tail:ident)*) => {
        pub(super) const $head: TableId = $number;
        tables!(@number $number + 1; $($tail)*);
    };
    (@number $number:expr;) => {};
}

tables! {
    ACCOUNT_PERMISSION CUSTOMER CUSTOMER_ACCOUNT CUSTOMER_TAXRATE HOLDING HOLDING_HISTORY HOLDING_SUMMARY WATCH_ITEM
    WATCH_LIST BROKER CASH_TRANSACTION CHARGE COMMISSION_RATE SETTLEMENT TRADE TRADE_HISTORY TRADE_REQUEST TRADE_TYPE
    COMPANY COMPANY_COMPETITOR DAILY_MARKET EXCHANGE FINANCIAL INDUSTRY LAST_TRADE NEWS_ITEM NEWS_XREF SECTOR SECURITY
    ADDRESS STATUS_TYPE TAXRATE ZIP_CODE
}

/// Secondary indexes that statements written by hand use.
pub(super) const ACCOUNT_BY_CUSTOMER: Index = Index { table: CUSTOMER_ACCOUNT, number: 1 };
pub(super) const WATCH_LIST_BY_CUSTOMER: Index = Index { table: WATCH_LIST, number: 1 };
pub(super) const TRADE_BY_ACCOUNT: Index = Index { table: TRADE, number: 1 };
pub(super) const REQUEST_BY_BROKER: Index = Index { table: TRADE_REQUEST, number: 2 };
pub(super) const COMPANY_BY_INDUSTRY: Index = Index { table: COMPANY, number: 2 };
pub(super) const SECURITY_BY_COMPANY: Index = Index { table: SECURITY, number: 1 };

pub(super) static SCHEMA: Schema = Schema {
    name: Cow::Borrowed("brokerage"),
    tables: &[
        row_table("account_permission", ACCOUNT_PERMISSION_COLUMNS, &[AP_CA_ID, AP_TAX_ID]),
        row_table("customer", CUSTOMER_COLUMNS, &[C_ID]).with_indexes(&[index("customer_by_tax_id", &[C_TAX_ID])]),
        row_table("customer_account", CUSTOMER_ACCOUNT_COLUMNS, &[CA_ID])
            .with_indexes(&[index("account_by_customer", &[CA_C_ID, CA_ID])]),
        row_table("customer_taxrate", CUSTOMER_TAXRATE_COLUMNS, &[CX_C_ID, CX_TX_ID]).with_key_ranges(),
        row_table("holding", HOLDING_COLUMNS, &[H_T_ID])
            .with_indexes(&[index("holding_by_account", &[H_CA_ID, H_S_SYMB, H_DTS, H_T_ID])]),
        row_table("holding_history", HOLDING_HISTORY_COLUMNS, &[HH_T_ID, HH_H_T_ID]).with_key_ranges(),
        row_table("holding_summary", HOLDING_SUMMARY_COLUMNS, &[HS_CA_ID, HS_S_SYMB]).with_key_ranges(),
        row_table("watch_item", WATCH_ITEM_COLUMNS, &[WI_WL_ID, WI_S_SYMB]).with_key_ranges(),
        row_table("watch_list", WATCH_LIST_COLUMNS, &[WL_ID])
            .with_indexes(&[index("watch_list_by_customer", &[WL_C_ID])]),
        row_table("broker", BROKER_COLUMNS, &[B_ID]),
        row_table("cash_transaction", CASH_TRANSACTION_COLUMNS, &[CT_T_ID]),
        row_table("charge", CHARGE_COLUMNS, &[CH_TT_ID, CH_C_TIER]),
        row_table("commission_rate", COMMISSION_RATE_COLUMNS, &[CR_C_TIER, CR_TT_ID, CR_EX_ID, CR_FROM_QTY])
            .with_key_ranges(),
        row_table("settlement", SETTLEMENT_COLUMNS, &[SE_T_ID]),
        row_table("trade", TRADE_COLUMNS, &[T_ID]).with_key_ranges().with_indexes(&[
            index("trade_by_account", &[T_CA_ID, T_DTS, T_ID]),
            index("trade_by_security", &[T_S_SYMB, T_DTS, T_ID]),
        ]),
        row_table("trade_history", TRADE_HISTORY_COLUMNS, &[TH_T_ID, TH_ST_ID]).with_key_ranges(),
        row_table("trade_request", TRADE_REQUEST_COLUMNS, &[TR_T_ID]).with_indexes(&[
            index("trade_request_by_security", &[TR_S_SYMB, TR_T_ID]),
            index("trade_request_by_broker", &[TR_B_ID, TR_T_ID]),
        ]),
        row_table("trade_type", TRADE_TYPE_COLUMNS, &[TT_ID]),
        row_table("company", COMPANY_COLUMNS, &[CO_ID])
            .with_indexes(&[index("company_by_name", &[CO_NAME]), index("company_by_industry", &[CO_IN_ID, CO_ID])]),
        row_table("company_competitor", COMPANY_COMPETITOR_COLUMNS, &[CP_CO_ID, CP_COMP_CO_ID]).with_key_ranges(),
        row_table("daily_market", DAILY_MARKET_COLUMNS, &[DM_S_SYMB, DM_DATE]).with_key_ranges(),
        row_table("exchange", EXCHANGE_COLUMNS, &[EX_ID]),
        row_table("financial", FINANCIAL_COLUMNS, &[FI_CO_ID, FI_YEAR, FI_QTR]).with_key_ranges(),
        row_table("industry", INDUSTRY_COLUMNS, &[IN_ID]),
        row_table("last_trade", LAST_TRADE_COLUMNS, &[LT_S_SYMB]),
        row_table("news_item", NEWS_ITEM_COLUMNS, &[NI_ID]),
        row_table("news_xref", NEWS_XREF_COLUMNS, &[NX_CO_ID, NX_NI_ID]).with_key_ranges(),
        row_table("sector", SECTOR_COLUMNS, &[SC_ID]),
        row_table("security", SECURITY_COLUMNS, &[S_SYMB])
            .with_indexes(&[index("security_by_company", &[S_CO_ID, S_ISSUE])]),
        row_table("address", ADDRESS_COLUMNS, &[AD_ID]),
        row_table("status_type", STATUS_TYPE_COLUMNS, &[ST_ID]),
        row_table("taxrate", TAXRATE_COLUMNS, &[TX_ID]),
        row_table("zip_code", ZIP_CODE_COLUMNS, &[ZC_CODE]),
    ],
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_name_the_tables_they_say() {
        assert_eq!(SCHEMA.tables.len(), 33);
        for (table, name) in [(HOLDING_SUMMARY, "holding_summary"), (TRADE, "trade"), (ZIP_CODE, "zip_code")] {
            assert_eq!(SCHEMA.tables[table].name, name);
        }
        for (index, name) in [
            (ACCOUNT_BY_CUSTOMER, "account_by_customer"),
            (WATCH_LIST_BY_CUSTOMER, "watch_list_by_customer"),
            (TRADE_BY_ACCOUNT, "trade_by_account"),
            (REQUEST_BY_BROKER, "trade_request_by_broker"),
            (COMPANY_BY_INDUSTRY, "company_by_industry"),
            (SECURITY_BY_COMPANY, "security_by_company"),
        ] {
            assert_eq!(SCHEMA.tables[index.table].secondary[index.number - 1].name, name);
        }
    }
}
