//! What stands in for a driver that cannot be made, so that the run can be brought to its end.

use bytes::Bytes;
use domain::{Header, Payload, RunState, StepNo};

use crate::driver::{ComposeError, Driver, Next};

/// Asks for nothing: a cancelled run is closed by the kernel alone.
pub(super) struct Undriven;

impl Driver for Undriven {
    fn fold(&mut self, _: &Header, _: Option<&Payload>) {}

    fn inherit(&mut self, _: &Header, _: Option<&Payload>) {}

    fn next(&self, _: &RunState) -> Next {
        Next::Wait
    }

    fn compose(&self, step: StepNo, _: u64) -> Result<Bytes, ComposeError> {
        Err(ComposeError { step, reason: "the run has no driver any more".into() })
    }
}
