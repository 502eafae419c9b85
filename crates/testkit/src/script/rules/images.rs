//! The vendors' rules on images: size, sides, and that the bytes are what they are said to be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Image;
use domain::image::LONGEST_SIDE;
use serde_json::Value;

/// The most bytes of base64 that Anthropic takes.
const MOST_ENCODED: usize = 5 << 20;

/// How long a request is to the vendor's counter: an image counts by its pixels. A token is four bytes.
pub(in crate::script) fn counted(request: &Value, body_bytes: usize) -> usize {
    let mut found = Vec::new();
    walk(request, &mut found);
    found.into_iter().fold(body_bytes, |bytes, data| {
        let image = STANDARD.decode(data).ok().and_then(|bytes| Image::of(&bytes));
        let tokens = image.map_or(0, |image| usize::try_from(image.tokens()).unwrap_or(0));
        bytes.saturating_sub(data.len()).saturating_add(tokens * 4)
    })
}

/// The base64 of all images, on any wire.
fn walk<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            let url = fields.get("image_url").map(|url| url.get("url").unwrap_or(url));
            let data = match fields.get("type").and_then(Value::as_str) {
                Some("image") => fields.get("source").and_then(|source| source["data"].as_str()),
                Some("input_image" | "image_url") => url.and_then(of_url).map(|(_, data)| data),
                _ => None,
            };
            found.extend(data);
            fields.values().for_each(|inner| walk(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| walk(inner, found)),
        _ => {}
    }
}

/// A block of the Messages wire.
pub(super) fn block(here: &str, block: &Value) -> Result<(), String> {
    let source = &block["source"];
    let (Some("base64"), Some(media_type), Some(data)) =
        (source["type"].as_str(), source["media_type"].as_str(), source["data"].as_str())
    else {
        return Err(format!("{here}.image.source: Field required"));
    };
    if data.len() > MOST_ENCODED {
        return Err(format!(
            "{here}.image.source.base64: image exceeds 5 MB maximum: {} bytes > {MOST_ENCODED} bytes",
            data.len()
        ));
    }
    let bytes =
        STANDARD.decode(data).map_err(|_| format!("{here}.image.source.base64: invalid base64 data"))?;
    let Some(image) = Image::of(&bytes) else { return Err("Could not process image".to_owned()) };
    if image.format.media_type() != media_type {
        return Err(format!(
            "{here}.image.source.base64: The image was specified using the {media_type} media type, but the image \
             appears to be a {} image",
            image.format.media_type()
        ));
    }
    if image.width.max(image.height) > LONGEST_SIDE {
        return Err(format!(
            "{here}.image.source.base64.data: At least one of the image dimensions exceed max allowed size: \
             {LONGEST_SIDE} pixels"
        ));
    }
    Ok(())
}

/// An image of OpenAI's wires: a text, `data:image/png;base64,…`.
pub(super) fn url(url: &Value) -> Result<(), String> {
    let (media_type, data) = of_url(url)
        .ok_or("Invalid 'image_url': expected a base64-encoded data URL with an image MIME type.")?;
    let bytes = STANDARD.decode(data).map_err(|_| "Invalid base64 image_url.")?;
    match Image::of(&bytes) {
        Some(image) if image.format.media_type() == media_type => Ok(()),
        _ => Err("You uploaded an unsupported image. Please make sure your image is valid.".to_owned()),
    }
}

fn of_url(url: &Value) -> Option<(&str, &str)> {
    url.as_str()?.strip_prefix("data:")?.split_once(";base64,")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn png(width: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(75_u32.to_be_bytes());
        bytes
    }

    #[test]
    fn the_images_that_vendors_take() {
        let of = |kind: &str, data: String| json!({ "type": "image", "source": { "type": "base64", "media_type": kind, "data": data } });
        let (good, wide) = (STANDARD.encode(png(100)), STANDARD.encode(png(8_001)));
        assert_eq!(block("m", &of("image/png", good.clone())), Ok(()));
        for (sent, refusal) in [
            (of("image/jpeg", good.clone()), "appears to be a image/png"),
            (of("image/png", wide), "exceed max allowed size"),
            (of("image/png", "?".to_owned()), "invalid base64"),
            (of("image/png", STANDARD.encode("text")), "Could not process image"),
            (of("image/png", "A".repeat(MOST_ENCODED + 1)), "exceeds 5 MB"),
            (json!({ "type": "image", "source": { "type": "artifact" } }), "Field required"),
        ] {
            let refused = block("m", &sent);
            assert!(refused.as_ref().is_err_and(|said| said.contains(refusal)), "{refused:?}");
        }
        assert_eq!(url(&json!(format!("data:image/png;base64,{good}"))), Ok(()));
        for sent in
            [format!("data:image/gif;base64,{good}"), "https://example.org/a.png".into(), "data:".into()]
        {
            assert!(url(&json!(sent)).is_err(), "{sent}");
        }
        let request = json!({ "messages": [of("image/png", good.clone())] });
        assert_eq!(counted(&request, 1_000 + good.len()), 1_000 + 10 * 4);
    }
}
