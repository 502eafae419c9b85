//! Amounts, caps and reservations: reserved before a step, settled after it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// One dollar in nanodollars, the unit in which Regie counts money.
pub const DOLLAR: u64 = 1_000_000_000;

/// What a step may use or has used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode, Serialize, Deserialize)]
#[cbor(map)]
pub struct Amount {
    /// Model tokens, input and output together, cached ones included.
    #[n(0)]
    pub tokens: u64,
    /// Money in nanodollars. A model without a known price counts 0 here and sets `unpriced`.
    #[n(1)]
    pub nanodollars: u64,
    /// Steps that call a model or a tool.
    #[n(2)]
    pub calls: u64,
    /// Calls whose price is unknown: their money is not in `nanodollars`.
    #[n(3)]
    pub unpriced: u64,
    /// Model turns.
    #[n(4)]
    pub turns: u64,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self { tokens: 0, nanodollars: 0, calls: 0, unpriced: 0, turns: 0 };

    /// One call that costs nothing.
    pub const CALL: Self = Self { calls: 1, ..Self::ZERO };

    /// The sum, saturating.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_add(other.tokens),
            nanodollars: self.nanodollars.saturating_add(other.nanodollars),
            calls: self.calls.saturating_add(other.calls),
            unpriced: self.unpriced.saturating_add(other.unpriced),
            turns: self.turns.saturating_add(other.turns),
        }
    }

    /// The difference, never below zero.
    pub const fn minus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            nanodollars: self.nanodollars.saturating_sub(other.nanodollars),
            calls: self.calls.saturating_sub(other.calls),
            unpriced: self.unpriced.saturating_sub(other.unpriced),
            turns: self.turns.saturating_sub(other.turns),
        }
    }
}

/// Upper bounds of a run. Caps are mandatory: there is no "unlimited".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(map)]
pub struct Caps {
    /// Model tokens.
    #[n(0)]
    pub tokens: u64,
    /// Money in nanodollars.
    #[n(1)]
    pub nanodollars: u64,
    /// Steps that call a model or a tool.
    #[n(2)]
    pub calls: u64,
    /// Model turns.
    #[n(3)]
    pub turns: u64,
    /// Time from the start of the run, waiting at gates left out, in milliseconds.
    #[n(4)]
    pub millis: Millis,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            tokens: 5_000_000,
            nanodollars: 2 * DOLLAR,
            calls: 1_000,
            turns: 200,
            millis: 2 * 60 * 60 * 1000,
        }
    }
}

/// The cap that a reservation would pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Exhausted {
    /// [`Caps::tokens`].
    #[n(0)]
    Tokens,
    /// [`Caps::nanodollars`].
    #[n(1)]
    Dollars,
    /// [`Caps::calls`].
    #[n(2)]
    Calls,
    /// [`Caps::turns`].
    #[n(3)]
    Turns,
    /// [`Caps::millis`].
    #[n(4)]
    Time,
    /// The installation's cap for one day.
    #[n(5)]
    Day,
}

impl Exhausted {
    /// The cap in words, as in "the cap on … is reached".
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Tokens => "tokens",
            Self::Dollars => "dollars",
            Self::Calls => "calls",
            Self::Turns => "turns",
            Self::Time => "time",
            Self::Day => "dollars per day",
        }
    }
}

/// Caps with what is reserved by running steps and what is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// The bounds.
    pub caps: Caps,
    /// Held by steps whose result is not yet on record.
    pub reserved: Amount,
    /// Settled.
    pub spent: Amount,
}

impl Budget {
    /// Nothing reserved, nothing spent.
    pub const fn new(caps: Caps) -> Self {
        Self { caps, reserved: Amount::ZERO, spent: Amount::ZERO }
    }

    /// Whether `more` fits on top of what is reserved and spent; `elapsed` is the run's active time.
    ///
    /// # Errors
    /// The first cap that would be passed.
    pub fn check(&self, more: Amount, elapsed: Millis) -> Result<(), Exhausted> {
        let total = self.reserved.plus(self.spent).plus(more);
        let caps = &self.caps;
        let passed = [
            (total.tokens > caps.tokens, Exhausted::Tokens),
            (total.nanodollars > caps.nanodollars, Exhausted::Dollars),
            (total.calls > caps.calls, Exhausted::Calls),
            (total.turns > caps.turns, Exhausted::Turns),
            (elapsed > caps.millis, Exhausted::Time),
        ];
        passed.iter().find(|(passed, _)| *passed).map_or(Ok(()), |(_, cap)| Err(*cap))
    }

    /// Holds an amount for a step that is about to start.
    pub fn reserve(&mut self, amount: Amount) {
        self.reserved = self.reserved.plus(amount);
    }

    /// Gives a reservation back and books what was really used.
    pub fn settle(&mut self, reserved: Amount, spent: Amount) {
        self.reserved = self.reserved.minus(reserved);
        self.spent = self.spent.plus(spent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// What was admitted and settled at no more than its reservation never passes the cap.
        #[test]
        fn admitted_steps_stay_under_the_cap(steps in proptest::collection::vec((0u64..50, 0u64..50), 0..60)) {
            let mut budget = Budget::new(Caps { tokens: 200, ..Caps::default() });
            for (reserve, used) in steps {
                let amount = Amount { tokens: reserve, ..Amount::CALL };
                if budget.check(amount, 0).is_ok() {
                    budget.reserve(amount);
                    budget.settle(amount, Amount { tokens: used.min(reserve), ..Amount::CALL });
                }
                prop_assert!(budget.spent.tokens <= 200);
                prop_assert_eq!(budget.reserved, Amount::default());
            }
        }
    }

    #[test]
    fn names_the_cap_that_is_passed() {
        let budget = Budget::new(Caps { calls: 0, ..Caps::default() });
        assert_eq!(budget.check(Amount::CALL, 0), Err(Exhausted::Calls));
        let budget = Budget::new(Caps::default());
        assert_eq!(budget.check(Amount::default(), Caps::default().millis + 1), Err(Exhausted::Time));
    }
}
