//! Tool specs and built-in tools; supervises jails and spools their results.
#![forbid(unsafe_code)]
