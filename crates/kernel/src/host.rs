//! Runs machines on real ports, one task a run.
