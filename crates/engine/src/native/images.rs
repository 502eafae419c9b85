//! The images that the agent looks at. The bytes are artifacts; the conversation holds what they are, and in
//! which block. No image can bring a run to its end: what a vendor refuses is hidden, from the event of the
//! refusal on, and the model is told so.

use bytes::Bytes;
use domain::{Image, Payload, StepKind};
use models::{Block, Message};

use super::view::{Stage, View};
use crate::config::Images;
use crate::{output, prompt};

/// How many images one request shows: Anthropic takes larger ones up to twenty, and each costs tokens again
/// in each turn that is not read from the cache.
const MOST: usize = 8;
/// How many bytes they have together: 20 MiB in base64, where Anthropic takes 32 MB a request.
const MOST_BYTES: u64 = 15 << 20;

/// Whether the model is shown images.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Eyes {
    /// Runs of earlier drivers know of none.
    #[default]
    Closed,
    /// It is.
    Open,
    /// It cannot look at any.
    Blind,
    /// Its vendor has refused them all, which holds for a fork as well.
    Refused,
}

/// The images of one message, by the block that shows each, and what stands for the message without them.
#[derive(Debug)]
pub(super) struct Shown {
    images: Vec<(usize, Image)>,
    hidden: Message,
    /// The event from which on they are hidden.
    since: Option<u64>,
}

impl Shown {
    pub(super) fn new(images: Vec<(usize, Image)>, hidden: Message) -> Self {
        Self { images, hidden, since: None }
    }

    /// What is known of those that are shown now.
    pub(super) fn open(&self) -> impl Iterator<Item = &Image> {
        self.images.iter().filter(|_| self.since.is_none()).map(|(_, image)| image)
    }

    /// What they weigh: a token for every three bytes, as everywhere.
    pub(super) fn weight(&self) -> usize {
        let tokens: u64 = self.open().map(Image::tokens).sum();
        usize::try_from(tokens).unwrap_or(usize::MAX).saturating_mul(3)
    }

    /// Hides them from this event on. Gives what is sent instead.
    pub(super) fn hide(&mut self, seq: u64) -> &Message {
        self.since.get_or_insert(seq);
        &self.hidden
    }

    /// The message as it was sent after the event `upto`.
    pub(super) fn message(&self, plain: &Message, upto: u64, images: &Images) -> Result<Message, String> {
        if self.since.is_some_and(|since| since <= upto) {
            return Ok(self.hidden.clone());
        }
        let mut message = plain.clone();
        for (at, image) in &self.images {
            let bytes = images(image.digest)?;
            if let Some(block) = message.blocks.get_mut(*at) {
                *block = Block::showing(block, image, &bytes);
            }
        }
        Ok(message)
    }
}

/// How many of the oldest messages have to hide their images for the newest to have room; the newest of all
/// never does. Half of the room is made at once, because each time the vendor's cache is written anew.
pub(super) fn crowded<'a>(messages: impl DoubleEndedIterator<Item = &'a Shown> + Clone) -> usize {
    let (count, bytes) = sum(messages.clone().flat_map(Shown::open));
    if count <= MOST && bytes <= MOST_BYTES {
        return 0;
    }
    let (mut count, mut bytes, mut kept) = (0, 0, 0);
    for shown in messages.clone().rev() {
        let (more, larger) = sum(shown.open());
        (count, bytes) = (count + more, bytes + larger);
        if kept > 0 && (count > MOST / 2 || bytes > MOST_BYTES / 2) {
            break;
        }
        kept += 1;
    }
    messages.count().saturating_sub(kept)
}

fn sum<'a>(images: impl Iterator<Item = &'a Image>) -> (usize, u64) {
    images.fold((0, 0), |(count, bytes), image| (count + 1, bytes.saturating_add(image.bytes)))
}

/// Whether a turn that shows these images can show this one too.
pub(super) fn has_room<'a>(images: impl Iterator<Item = &'a Image>, more: &Image) -> bool {
    let (count, bytes) = sum(images);
    count < MOST && bytes.saturating_add(more.bytes) <= MOST_BYTES
}

impl View {
    /// The bytes of the request of a step that was planned right after the event `upto`.
    pub(super) fn composed(&self, kind: StepKind, upto: u64) -> Result<Bytes, String> {
        let request = self.request_at(kind, upto)?;
        (self.config.compose)(&request).map_err(|error| error.to_string())
    }

    /// How long the next request is, with each image as its tokens and not in base64.
    pub(super) fn size_as_text(&self, bytes: usize) -> usize {
        let of = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let encoded: u64 = self.conversation.images().map(Image::encoded).sum();
        let tokens: u64 = self.conversation.images().map(Image::tokens).sum();
        bytes.saturating_sub(of(encoded)).saturating_add(of(tokens.saturating_mul(3)))
    }

    /// Whether images are shown, from the start of a run on.
    pub(super) fn open_eyes(&mut self, driver: &str, is_blind: bool) {
        self.eyes = match (self.eyes, driver == super::NAME) {
            (Eyes::Refused, _) => Eyes::Refused,
            (_, false) => Eyes::Closed,
            (_, true) if is_blind => Eyes::Blind,
            (_, true) => Eyes::Open,
        };
        // What a run of another model has looked at is of no use to this one.
        if self.eyes == Eyes::Blind {
            self.conversation.hide_all(self.position);
        }
    }

    /// Takes up the image that a call gave.
    pub(super) fn look(&mut self, at: usize, payload: Option<&Payload>) {
        let Some(image) = output::image_of(payload).filter(Image::fits) else { return };
        match self.eyes {
            Eyes::Closed => {}
            Eyes::Open => self.turn.show(at, image),
            Eyes::Blind | Eyes::Refused => self.turn.note(at, prompt::BLIND),
        }
    }

    /// The vendor does not take an image. Those that it has not answered yet are hidden, else all.
    pub(super) fn hide_images(&mut self, seq: u64, code: String, message: &str) {
        if self.conversation.hide_unanswered(seq) || self.conversation.hide_all(seq) {
            self.say(seq, prompt::hidden(message));
            self.stage = Stage::Asking;
        } else {
            self.stage = Stage::Refused { code, message: message.to_owned() };
        }
    }

    /// The vendor takes no images at all. Gives whether any was sent.
    pub(super) fn close_eyes(&mut self, seq: u64) -> bool {
        let is_hidden = self.conversation.hide_all(seq);
        if is_hidden {
            self.eyes = Eyes::Refused;
            self.say(seq, prompt::NO_IMAGES.to_owned());
        }
        is_hidden
    }
}
