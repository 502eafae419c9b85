//! What `read` gives of an image. Its bytes leave the jail as text beside the answer; the runner, which
//! trusts no jail, looks at them again before it keeps them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Image;
use domain::image::{LARGEST, LONGEST_SIDE};

use super::Answer;
use super::place::Place;

/// The bytes of an image in base64, as an answer carries them.
pub(crate) const LONGEST_ENCODED: usize = 5_242_880;

/// What is said of a file that is an image, with its bytes when models take it; `None` for any other file.
pub(super) fn read(place: &Place, bytes: &[u8]) -> Option<Answer> {
    let image = Image::of(bytes)?;
    let Image { format, width, height, bytes: size, .. } = image;
    let shown = &place.shown;
    let what = format!("`{shown}` is an image: {format}, {width}×{height} pixels, {size} bytes");
    if image.fits() {
        let answer = Answer::seen(format!("[{what}]"), shown.clone(), bytes);
        return Some(Answer { image: Some(STANDARD.encode(bytes)), ..answer });
    }
    let refusal = format!(
        "{what}; models look at images of up to {LONGEST_SIDE} pixels a side and {LARGEST} bytes. Resize it first, \
         for instance with `magick {shown} -resize '2000x2000>' /tmp/small.jpg` or Python's Pillow into a file of \
         the workspace, and read that"
    );
    Some(Answer { is_error: true, ..Answer::seen(refusal, shown.clone(), bytes) })
}

/// The bytes of an image that an answer from a jail carries, and what they are; `None` unless they are an
/// image that fits.
pub(crate) fn received(encoded: &str) -> Option<(Vec<u8>, Image)> {
    let bytes = STANDARD.decode(encoded).ok()?;
    let image = Image::of(&bytes).filter(Image::fits)?;
    Some((bytes, image))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_jail_calls_an_image_is_looked_at_again() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x03";
        let (bytes, image) = received(&STANDARD.encode(png)).unwrap();
        assert_eq!((bytes.as_slice(), image.width, image.height), (png.as_slice(), 2, 3));
        let wide = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x40\0\0\0\0\x03";
        for encoded in ["", "no base64!", &STANDARD.encode("a text"), &STANDARD.encode(wide)] {
            assert_eq!(received(encoded), None, "{encoded}");
        }
    }

    #[test]
    fn the_largest_image_has_room_in_an_answer() {
        assert_eq!(LARGEST.div_ceil(3) * 4, LONGEST_ENCODED as u64);
    }
}
