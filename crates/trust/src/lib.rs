//! The one authorisation point: policy, leases, gates, governors.
#![forbid(unsafe_code)]
