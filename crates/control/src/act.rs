//! What the owner does outside of any run: on record before it is done, and not done where that cannot be written.

use domain::{Principal, Timestamp};
use kernel::port::Records;
use trust::acts::{self, Intent};

use crate::Control;
use crate::error::Error;
use crate::missions::unavailable;

/// When something is done, and what tells its record from all others.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) at: Timestamp,
    pub(crate) random: [u8; 8],
}

impl Control {
    /// This moment.
    pub(crate) fn moment(&self) -> Moment {
        Moment { at: self.clock().now(), random: self.random() }
    }
}

/// Puts what the owner is about to do on record.
///
/// # Errors
/// When it cannot be written: then it must not be done.
pub(crate) fn begin(
    records: &dyn Records,
    (what, of): (&str, &str),
    Moment { at, random }: Moment,
) -> Result<acts::Begun, Error> {
    let by = Principal::Human("owner".into());
    let intent = Intent { by, lease: None, what: what.into(), of: of.into(), at };
    acts::begin(records, intent, random).map_err(|error| unavailable("act.failed", &error))
}

/// Notes how an act ended.
pub(crate) fn finish(records: &dyn Records, begun: acts::Begun, outcome: Result<&str, &Error>) {
    let outcome = match outcome {
        Ok(outcome) => outcome.to_owned(),
        Err(error) => format!("failed: {}", error.detail),
    };
    if let Err(error) = acts::end(records, begun, &outcome) {
        tracing::warn!(%error, outcome, "how an act ended is not on record");
    }
}

/// Puts what is to be done on record, does it, and notes how that ended: with the word `outcome` where it was done.
pub(crate) fn recorded_as<T>(
    records: &dyn Records,
    act: (&str, &str),
    outcome: &str,
    moment: Moment,
    does: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let begun = begin(records, act, moment)?;
    let done = does();
    finish(records, begun, done.as_ref().map(|_| outcome));
    done
}

/// The same for what needs no other word than that it was done.
pub(crate) fn recorded<T>(
    records: &dyn Records,
    act: (&str, &str),
    moment: Moment,
    does: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    recorded_as(records, act, "done", moment, does)
}

#[cfg(test)]
mod tests {
    use kernel::port::{Put, Record, RecordError};

    use super::*;
    use crate::error::Kind;

    /// Records that can be written `left` times.
    #[derive(Default)]
    struct Failing {
        left: std::sync::Mutex<usize>,
        written: std::sync::Mutex<Vec<String>>,
    }

    impl Records for Failing {
        fn get(&self, _: &str, _: &str) -> Result<Option<Record>, RecordError> {
            Ok(None)
        }

        fn list(&self, _: &str) -> Result<Vec<Record>, RecordError> {
            Ok(Vec::new())
        }

        fn put_all(&self, writes: &[Put<'_>]) -> Result<(), RecordError> {
            writes.iter().try_for_each(|put| self.put(put.kind, put.key, put.expected, put.body).map(drop))
        }

        fn put(&self, _: &str, _: &str, expected: u64, body: &[u8]) -> Result<u64, RecordError> {
            let mut left = self.left.lock().unwrap();
            *left = left.checked_sub(1).ok_or_else(|| RecordError::Storage("disk full".into()))?;
            self.written.lock().unwrap().push(String::from_utf8_lossy(body).into_owned());
            Ok(expected + 1)
        }
    }

    fn does(left: usize, act: impl FnOnce() -> Result<(), Error>) -> (Result<(), Error>, Vec<String>) {
        let records = Failing { left: left.into(), ..Failing::default() };
        let moment = Moment { at: Timestamp(7), random: [1; 8] };
        let done = recorded(&records, ("project.export", "here"), moment, act);
        (done, records.written.into_inner().unwrap())
    }

    #[test]
    fn what_cannot_be_put_on_record_is_not_done() {
        let mut was_done = false;
        let (done, written) = does(0, || {
            was_done = true;
            Ok(())
        });
        assert!(done.unwrap_err().detail.contains("disk full") && !was_done && written.is_empty());
    }

    #[test]
    fn what_was_done_is_done_also_where_its_end_is_not_on_record() {
        let (done, written) = does(1, || Ok(()));
        assert!(done.is_ok() && written.len() == 1 && !written[0].contains("outcome"), "{written:?}");
        let (done, written) = does(2, || Err(Error::new(Kind::Conflict, "x.y", "no room")));
        assert!(done.is_err() && written[1].contains("failed: no room"), "{written:?}");
    }
}
