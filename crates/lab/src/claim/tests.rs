//! Claims on plans and figures made up for the purpose.
