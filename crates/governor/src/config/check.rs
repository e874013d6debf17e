//! --check
