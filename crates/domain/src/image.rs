//! Images that a model can look at: what is known of one without decoding it, and how large one may be.
//!
//! Only the first bytes are read, by hand: a decoder of four formats would be the largest attack surface of
//! the house, and all that is needed is the kind, the width and the height.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Digest;

/// The most bytes of one image. Anthropic takes 5 MiB of base64, OpenAI more ("image exceeds 5 MB maximum:
/// … bytes > 5242880 bytes").
pub const LARGEST: u64 = 5_242_880 / 4 * 3;

/// The most pixels of one side. Anthropic's limit; OpenAI scales down what is larger.
pub const LONGEST_SIDE: u32 = 8_000;

/// Anthropic's scale: a token for so many pixels, after larger images were scaled down to the most tokens.
/// OpenAI's tiles and patches come to less.
const PIXELS_PER_TOKEN: u64 = 750;

/// The most tokens that one image counts.
pub const MOST_TOKENS: u64 = 4_784;

/// What is on record of an image; its bytes are an artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// How it is encoded.
    pub format: Format,
    /// Its width in pixels.
    pub width: u32,
    /// Its height in pixels.
    pub height: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// The digest of its bytes.
    pub digest: Digest,
}

/// How an image is encoded: what all vendors take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names of the formats")]
pub enum Format {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl Format {
    /// The format that bytes begin like, whatever their file is called.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some(Self::Png),
            [0xff, 0xd8, 0xff, ..] => Some(Self::Jpeg),
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some(Self::Gif),
            [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some(Self::Webp),
            _ => None,
        }
    }

    /// Its media type, as `image/png`.
    #[must_use]
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// Width and height, as the first bytes say.
    fn size(self, bytes: &[u8]) -> Option<(u32, u32)> {
        match self {
            Self::Png => match bytes.get(12..16)? {
                b"IHDR" => Some((big(bytes, 16, 4)?, big(bytes, 20, 4)?)),
                _ => None,
            },
            Self::Gif => Some((little(bytes, 6, 2)?, little(bytes, 8, 2)?)),
            Self::Jpeg => jpeg(bytes),
            Self::Webp => webp(bytes),
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Png => "png",
            Self::Jpeg => "jpeg",
            Self::Gif => "gif",
            Self::Webp => "webp",
        })
    }
}

impl Image {
    /// What the bytes of a file are, when they are an image whose size can be read.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let format = Format::of(bytes)?;
        let (width, height) = format.size(bytes).filter(|(width, height)| *width > 0 && *height > 0)?;
        let length = u64::try_from(bytes.len()).ok()?;
        Some(Self { format, width, height, bytes: length, digest: Digest::of(bytes) })
    }

    /// Whether a vendor takes one of its size.
    #[must_use]
    pub const fn fits(&self) -> bool {
        self.bytes <= LARGEST && self.width <= LONGEST_SIDE && self.height <= LONGEST_SIDE
    }

    /// The tokens that it counts as, rather too many than too few.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let pixels = u64::from(self.width).saturating_mul(u64::from(self.height));
        pixels.div_ceil(PIXELS_PER_TOKEN).min(MOST_TOKENS)
    }

    /// How many bytes it takes in base64.
    #[must_use]
    pub const fn encoded(&self) -> u64 {
        self.bytes.div_ceil(3).saturating_mul(4)
    }
}

/// The frame header comes after segments of any kind: each says how long it is.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        while *bytes.get(at)? == 0xff {
            at += 1;
        }
        let marker = *bytes.get(at)?;
        at += 1;
        match marker {
            0x01 | 0xd0..=0xd8 => {}
            // Start of frame, but for the tables that have numbers of the same row.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => {
                return Some((big(bytes, at + 5, 2)?, big(bytes, at + 3, 2)?));
            }
            // The picture itself, or the end: no frame header came before.
            0x00 | 0xd9 | 0xda => return None,
            _ => at += usize::try_from(big(bytes, at, 2)?).ok().filter(|length| *length >= 2)?,
        }
    }
}

/// The three kinds of first chunks: lossy, lossless, extended.
fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8 " if bytes.get(23..26)? == [0x9d, 0x01, 0x2a] => {
            Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff))
        }
        b"VP8L" if *bytes.get(20)? == 0x2f => {
            let packed = little(bytes, 21, 4)?;
            Some(((packed & 0x3fff) + 1, ((packed >> 14) & 0x3fff) + 1))
        }
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        _ => None,
    }
}

fn big(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let digits = bytes.get(at..at.checked_add(length)?)?;
    Some(digits.iter().fold(0, |number, digit| number << 8 | u32::from(*digit)))
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let digits = bytes.get(at..at.checked_add(length)?)?;
    Some(digits.iter().rev().fold(0, |number, digit| number << 8 | u32::from(*digit)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    fn riff(chunk: &[u8]) -> Vec<u8> {
        [b"RIFF\x10\0\0\0WEBP".as_slice(), chunk].concat()
    }

    #[test]
    fn the_size_of_each_format_is_read() {
        // An application segment, padding, a table of the frame headers' row, then the frame.
        let jpeg = b"\xff\xd8\xff\xe0\0\x04JF\xff\xff\xc4\0\x03\0\xff\xc2\0\x11\x08\x01\xe0\x02\x80\x03";
        let lossy = riff(b"VP8 \x0a\0\0\0\x10\x20\x30\x9d\x01\x2a\x80\x42\xe0\x81");
        let packed: u32 = 639 | 479 << 14;
        let lossless = riff(&[b"VP8L\x0a\0\0\0\x2f".as_slice(), &packed.to_le_bytes()].concat());
        let extended = riff(b"VP8X\x0a\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0");
        for (format, bytes) in [
            (Format::Png, png(640, 480)),
            (Format::Gif, b"GIF89a\x80\x02\xe0\x01\0\0\0".to_vec()),
            (Format::Jpeg, jpeg.to_vec()),
            (Format::Webp, lossy),
            (Format::Webp, lossless),
            (Format::Webp, extended),
        ] {
            let image = Image::of(&bytes).unwrap_or_else(|| panic!("{format}: {bytes:?}"));
            assert_eq!((image.format, image.width, image.height), (format, 640, 480));
            assert_eq!(image.bytes, bytes.len() as u64);
        }
    }

    #[test]
    fn what_is_no_image_or_says_no_size_is_none() {
        for bytes in [
            b"".as_slice(),
            b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>",
            b"GIF89a",
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff\xd9",
            b"\xff\xd8\xff\xe0\0\0\0\0",
            b"RIFF\0\0\0\0WAVEfmt ",
            b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            &png(0, 10),
        ] {
            assert_eq!(Image::of(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn what_fits_and_what_it_counts() {
        let of = |width, height| Image::of(&png(width, height)).unwrap();
        assert!(of(8_000, 8_000).fits() && !of(8_001, 1).fits() && !of(1, 8_001).fits());
        assert!(!Image { bytes: LARGEST + 1, ..of(1, 1) }.fits());
        assert_eq!(Image { bytes: LARGEST, ..of(1, 1) }.encoded(), 5_242_880);
        assert_eq!(
            (of(1, 1).tokens(), of(750, 100).tokens(), of(8_000, 8_000).tokens()),
            (1, 100, MOST_TOKENS)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_panic(head in 0_usize..4, tail in prop::collection::vec(any::<u8>(), 0..80)) {
            let heads = [png(1, 1), b"\xff\xd8\xff".to_vec(), b"GIF87a".to_vec(), riff(b"VP8X")];
            let bytes = [heads[head].as_slice(), &tail].concat();
            let _ = Image::of(&bytes);
        }
    }
}
