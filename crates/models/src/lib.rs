//! The provider port and its adapters; catalogue and prices.
#![forbid(unsafe_code)]
