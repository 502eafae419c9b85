//! The conversation of a run as it is sent. Messages are only appended; relief is a **cut**: from the
//! event that made it on, old tool results are stubs, or everything before a summary is gone but what is
//! pinned. Every cut follows from recorded events, so a request of any moment can be made again, byte
//! for byte.

use domain::Image;
use models::{Block, Message, Role};

use super::images::{self, Shown};
use crate::config::{Clearing, Images};

#[derive(Debug, Default)]
pub(super) struct Conversation {
    entries: Vec<Entry>,
    cuts: Vec<Cut>,
    /// Bytes of what is sent now.
    live: usize,
    /// What the vendor counted at the last answer, in tokens, and the bytes that came since.
    measured: Option<u64>,
    since: usize,
}

/// One message and the event that brought it.
#[derive(Debug)]
struct Entry {
    seq: u64,
    message: Message,
    weight: usize,
    /// What stands for it once it is cleared.
    stub: Option<(Message, usize)>,
    /// The images that it shows.
    shown: Option<Shown>,
    is_pinned: bool,
}

/// What is sent from an event on.
#[derive(Debug, Clone, Copy, Default)]
struct Cut {
    seq: u64,
    /// Entries before this one are sent as their stubs.
    cleared: usize,
    /// Entries before this one are sent only when they are pinned.
    start: usize,
}

impl Conversation {
    /// Appends a message; `stub` stands for it once it is cleared.
    pub(super) fn push(&mut self, seq: u64, message: Message, stub: Option<Message>) {
        self.append(seq, message, stub, false);
    }

    /// Appends a message that no compaction takes away: the goal, the owner's words, instructions.
    pub(super) fn pin(&mut self, seq: u64, message: Message) {
        self.append(seq, message, None, true);
    }

    fn append(&mut self, seq: u64, message: Message, stub: Option<Message>, is_pinned: bool) {
        let weight = weight(&message);
        self.live = self.live.saturating_add(weight);
        self.since = self.since.saturating_add(weight);
        let stub = stub.map(|stub| {
            let weight = self::weight(&stub);
            (stub, weight)
        });
        self.entries.push(Entry { seq, message, weight, stub, shown: None, is_pinned });
    }

    /// The message that was appended last shows images. Older ones give way to them.
    pub(super) fn show(&mut self, seq: u64, shown: Shown) {
        let weight = shown.weight();
        if let Some(last) = self.entries.last_mut() {
            last.weight = last.weight.saturating_add(weight);
            last.shown = Some(shown);
            self.live = self.live.saturating_add(weight);
            self.since = self.since.saturating_add(weight);
        }
        let at: Vec<usize> = self.showing(0).collect();
        let open = at.iter().filter_map(|at| self.entries.get(*at)?.shown.as_ref());
        let crowded = images::crowded(open);
        self.hide(seq, at.into_iter().take(crowded).collect());
    }

    /// The entries from a place on that are sent with images.
    fn showing(&self, from: usize) -> impl Iterator<Item = usize> {
        let Cut { cleared, start, .. } = self.cut(u64::MAX);
        let sent = self.entries.iter().enumerate().skip(from.max(start).max(cleared));
        sent.filter(|(_, entry)| entry.shown.as_ref().is_some_and(|shown| shown.open().next().is_some()))
            .map(|(at, _)| at)
    }

    /// The images that are sent now.
    pub(super) fn images(&self) -> impl Iterator<Item = &Image> {
        let entries = self.showing(0).filter_map(|at| self.entries.get(at)?.shown.as_ref());
        entries.flat_map(Shown::open)
    }

    /// Hides the images that came since the model's last answer. Gives whether there were any.
    pub(super) fn hide_unanswered(&mut self, seq: u64) -> bool {
        let is_said = |entry: &Entry| entry.message.role == Role::Assistant;
        let from = self.entries.iter().rposition(is_said).unwrap_or(0);
        let places = self.showing(from).collect();
        self.hide(seq, places)
    }

    /// Hides all images. Gives whether there were any.
    pub(super) fn hide_all(&mut self, seq: u64) -> bool {
        let places = self.showing(0).collect();
        self.hide(seq, places)
    }

    fn hide(&mut self, seq: u64, places: Vec<usize>) -> bool {
        for at in &places {
            if let Some(entry) = self.entries.get_mut(*at)
                && let Some(shown) = &mut entry.shown
            {
                entry.weight = weight(shown.hide(seq));
            }
        }
        if !places.is_empty() {
            self.recount();
        }
        !places.is_empty()
    }

    /// Takes what the vendor counted for the last request and its answer, which is appended already.
    pub(super) fn measure(&mut self, tokens: u64) {
        self.measured = (tokens > 0).then_some(tokens);
        self.since = 0;
    }

    /// The tokens of a request now, `fixed` bytes of system and tools included: as the vendor counted
    /// them at the last answer, else a token for every three bytes.
    pub(super) fn tokens(&self, fixed: usize) -> u64 {
        let of = |bytes: usize| u64::try_from(bytes / 3).unwrap_or(u64::MAX);
        match self.measured {
            Some(tokens) => tokens.saturating_add(of(self.since)),
            None => of(self.live.saturating_add(fixed)),
        }
    }

    pub(super) fn last_role(&self) -> Option<Role> {
        self.entries.last().map(|entry| entry.message.role)
    }

    /// The messages as they were sent after the event `upto`; reasoning from before the position `forgotten`
    /// is left out. Fails when the bytes of an image that was sent are not there.
    pub(super) fn messages(
        &self,
        upto: u64,
        forgotten: u64,
        images: &Images,
    ) -> Result<Vec<Message>, String> {
        let length = self.entries.partition_point(|entry| entry.seq <= upto);
        let Cut { cleared, start, .. } = self.cut(upto);
        let sent = self.entries.iter().take(length).enumerate();
        sent.filter(|(at, entry)| *at >= start || entry.is_pinned)
            .map(|(at, entry)| match &entry.stub {
                Some((stub, _)) if at < cleared => Ok(stub.clone()),
                _ if entry.seq < forgotten && entry.shown.is_none() => Ok(without_reasoning(&entry.message)),
                _ => match &entry.shown {
                    Some(shown) => shown.message(&entry.message, upto, images),
                    None => Ok(entry.message.clone()),
                },
            })
            .collect()
    }

    /// Whether reasoning from this position on goes back.
    pub(super) fn reasons_since(&self, position: u64) -> bool {
        let start = self.cut(u64::MAX).start;
        let sent = self.entries.iter().skip(start).filter(|entry| entry.seq >= position);
        sent.flat_map(|entry| &entry.message.blocks).any(Block::is_reasoning)
    }

    fn cut(&self, upto: u64) -> Cut {
        let count = self.cuts.partition_point(|cut| cut.seq <= upto);
        count.checked_sub(1).and_then(|last| self.cuts.get(last)).copied().unwrap_or_default()
    }

    /// Clears old tool results when enough of them have come together.
    pub(super) fn clear(&mut self, seq: u64, clearing: Clearing) {
        let now = self.cut(u64::MAX);
        let from = now.start.max(now.cleared);
        let (mut kept, mut results, mut upto) = (0_usize, 0_usize, self.entries.len());
        while upto > from && (kept < clearing.keep_bytes || results < clearing.keep_results) {
            upto -= 1;
            if let Some(entry) = self.entries.get(upto) {
                kept = kept.saturating_add(entry.weight);
                results += usize::from(entry.stub.is_some());
            }
        }
        let old = self.entries.get(from..upto).unwrap_or_default();
        let saved: usize = old.iter().map(Entry::saved).sum();
        if saved >= clearing.batch_bytes.max(1) {
            self.add(Cut { seq, cleared: upto, ..now });
        }
    }

    /// Clears every tool result: the vendor says that the whole is too long.
    pub(super) fn clear_all(&mut self, seq: u64) {
        let now = self.cut(u64::MAX);
        self.add(Cut { seq, cleared: self.entries.len(), ..now });
    }

    /// Goes on from a summary.
    pub(super) fn compact(&mut self, seq: u64, summary: Message) {
        let start = self.entries.len();
        self.push(seq, summary, None);
        self.add(Cut { seq, cleared: start, start });
    }

    fn add(&mut self, cut: Cut) {
        self.cuts.push(cut);
        self.recount();
    }

    /// What is sent is no longer what the vendor counted.
    fn recount(&mut self) {
        let cut = self.cut(u64::MAX);
        let sent = self.entries.iter().enumerate();
        let sent = sent.filter(|(at, entry)| *at >= cut.start || entry.is_pinned);
        self.live =
            sent.map(|(at, entry)| entry.weight - if at < cut.cleared { entry.saved() } else { 0 }).sum();
        self.measured = None;
        self.since = 0;
    }
}

impl Entry {
    /// Bytes that its stub saves.
    fn saved(&self) -> usize {
        self.stub.as_ref().map_or(0, |(_, stub)| self.weight.saturating_sub(*stub))
    }
}

fn without_reasoning(message: &Message) -> Message {
    let kept = message.blocks.iter().filter(|block| !block.is_reasoning());
    Message { blocks: kept.cloned().collect(), ..message.clone() }
}

fn weight(message: &Message) -> usize {
    message.blocks.iter().map(|block| block.raw().as_str().len()).sum()
}
