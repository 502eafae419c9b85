//! Durable execution: ports, steps, claims, waits, timers, budgets, cancellation, chain.
#![forbid(unsafe_code)]
