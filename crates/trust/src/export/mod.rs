//! The export gate: what of a proposal others would execute or trust, told before anything is merged.
//!
//! A jail ends where its files leave it: what an agent writes into its own workspace is harmless there and
//! runs with the owner's rights once it is merged. So each change is held against its path, its mode and
//! its content, and what counts is shown first, apart from the diff. Pure: the store gives the facts, the
//! owner's rules decide, and the same two trees give the same report.
//!
//! | module | what lives there |
//! |---|---|
//! | `kind` | the kinds of findings, the gravest first |
//! | `report` | findings, bounded and in order; what the request of a merge holds of them |
//! | `rules` | the owner's `[export]`: deny, ask, allow |
//! | `survey` | one change after another becomes findings |
//! | `place` | what a path is for |
//! | `key` | which keys of a manifest, which sources of a lock file have changed |
//! | `text` | what hides in a text |
//! | `name` | what hides in a name |
//! | `verdict` | what the rules say of the request of a merge |

mod key;
mod kind;
mod name;
mod place;
mod report;
mod rules;
mod survey;
mod text;
mod verdict;

pub use kind::Kind;
pub use report::{Altered, Count, Finding, Report, Standing};
pub use rules::{Malformed, Rules};
pub use survey::{Change, Content, Side, Survey};
pub use verdict::{Ruling, judge};
