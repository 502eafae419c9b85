//! Images through `read`: told by their bytes, kept as artifacts, refused when no model would take them.

use domain::image::{Format, LARGEST};
use domain::{Digest, Outcome};
use serde_json::json;

use crate::bench::Bench;

/// The beginning of a PNG of this size, as long as it is to be.
fn png(width: u32, height: u32, length: usize) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.resize(length.max(bytes.len()), 7);
    bytes
}

#[test]
fn an_image_is_told_by_its_bytes_and_kept_as_an_artifact() {
    let mut bench = Bench::new();
    let bytes = png(640, 480, 5_000);
    bench.put("shot.txt", &bytes);
    bench.put("AGENTS.md", "root rules");
    let (outcome, told) = bench.call("read", json!({"path": "shot.txt"}));
    assert_eq!(outcome, Outcome::Succeeded);
    assert_eq!(told.text, "[`shot.txt` is an image: png, 640×480 pixels, 5000 bytes]");
    let image = told.image.unwrap();
    assert_eq!((image.format, image.width, image.height, image.bytes), (Format::Png, 640, 480, 5_000));
    assert_eq!((told.artifact, &told.path), (Some(Digest::of(&bytes)), &None));
    assert_eq!(image.digest, Digest::of(&bytes));
    assert_eq!(bench.artifact(image.digest), bytes);
    let told = serde_json::to_string(&told).unwrap();
    assert!(told.len() < 1_000, "the bytes are in the artifact alone: {told}");
}

#[test]
fn the_largest_image_passes_and_what_no_model_takes_is_refused_with_a_mend() {
    let mut bench = Bench::new();
    let largest = usize::try_from(LARGEST).unwrap();
    for (name, bytes) in [("most", png(8_000, 8_000, largest)), ("tiny", png(1, 1, 0))] {
        bench.put(name, &bytes);
        let (outcome, told) = bench.call("read", json!({"path": name}));
        assert_eq!((outcome, told.artifact), (Outcome::Succeeded, Some(Digest::of(&bytes))), "{}", told.text);
    }
    for (name, bytes) in
        [("long", png(10, 10, largest + 1)), ("wide", png(8_001, 10, 100)), ("high", png(10, 8_001, 100))]
    {
        bench.put(name, bytes);
        let (outcome, told) = bench.call("read", json!({"path": name}));
        assert_eq!((outcome, told.image, told.artifact), (Outcome::Failed, None, None), "{name}");
        assert!(told.text.contains("Resize it first"), "{}", told.text);
    }
}

#[test]
fn what_only_looks_like_an_image_is_a_text_or_a_binary_file() {
    let mut bench = Bench::new();
    bench.put("drawing.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n");
    bench.put("named.png", "no picture\n");
    bench.put("words", "GIF89a is what it begins with\n");
    bench.put("broken.png", b"\x89PNG\r\n\x1a\n\0\0");
    for (name, text) in
        [("drawing.svg", "     1\t<svg"), ("named.png", "     1\tno"), ("words", "     1\tGIF")]
    {
        let (_, told) = bench.call("read", json!({"path": name}));
        assert!(told.text.starts_with(text) && told.image.is_none(), "{}", told.text);
    }
    assert_eq!(
        bench.good("read", json!({"path": "broken.png"})),
        "[`broken.png` is a binary file of 10 bytes]"
    );
}
