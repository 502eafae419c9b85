//! Images in the results of tools: how a conversation holds one, and what a request's bytes weigh without.
//!
//! A result with an image has an array as its content: the text, then the image as the Messages wire has it,
//! which the other wires render in their own way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Image;
use domain::image::MOST_TOKENS;
use serde::{Deserialize, Serialize};

use crate::RawJson;

/// A part of a result with an image.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Part {
    Text {
        text: String,
    },
    Image {
        source: Source,
    },
    /// What Regie does not write itself.
    #[serde(other)]
    Other,
}

/// The bytes of an image.
#[derive(Serialize, Deserialize)]
pub(crate) struct Source {
    r#type: String,
    media_type: String,
    data: String,
}

impl Source {
    /// As browsers have it: what OpenAI's wires take.
    pub(crate) fn url(&self) -> String {
        format!("data:{};base64,{}", self.media_type, self.data)
    }
}

/// The content of a result that shows an image.
pub(crate) fn content(text: String, image: &Image, bytes: &[u8]) -> RawJson {
    let media_type = image.format.media_type().to_owned();
    let source = Source { r#type: "base64".to_owned(), media_type, data: STANDARD.encode(bytes) };
    // Plain structs, which JSON can always hold.
    RawJson::encode(&[Part::Text { text }, Part::Image { source }]).unwrap_or_else(|_| RawJson::string(""))
}

/// The images of a result's content, as other wires name them.
pub(crate) fn urls(content: Option<&RawJson>) -> Vec<String> {
    let Some(content) = content.filter(|content| content.as_str().trim_start().starts_with('[')) else {
        return Vec::new();
    };
    let parts: Vec<Part> = content.decode().unwrap_or_default();
    let url = |part: Part| match part {
        Part::Image { source } => Some(source.url()),
        Part::Text { .. } | Part::Other => None,
    };
    parts.into_iter().filter_map(url).collect()
}

/// How a request's image begins on each wire. The quotes are a request's own: in a text they are escaped.
const BEGINS: [&[u8]; 3] =
    [br#""type":"base64","media_type":""#, br#""image_url":"data:"#, br#""url":"data:"#];

/// The size of a request as text: each image counts as its tokens would, and not as what it takes in base64.
#[must_use]
pub fn weight(body: &[u8]) -> usize {
    let (mut images, mut encoded, mut at) = (0_usize, 0_usize, 0_usize);
    while let Some(rest) = body.get(at..) {
        let Some((begin, length)) = next(rest) else { break };
        images += 1;
        encoded = encoded.saturating_add(length);
        at = at.saturating_add(begin).saturating_add(length).max(at + 1);
    }
    // A token for every three bytes, as everywhere.
    let counted = usize::try_from(MOST_TOKENS).unwrap_or(usize::MAX).saturating_mul(3).saturating_mul(images);
    body.len().saturating_sub(encoded).saturating_add(counted)
}

/// Where the next image's base64 begins, and how long it is.
fn next(body: &[u8]) -> Option<(usize, usize)> {
    let quote = body.iter().enumerate().filter(|(_, byte)| **byte == b'"');
    quote.map(|(at, _)| at).find_map(|at| {
        let rest = body.get(at..)?;
        let head = BEGINS.iter().find(|head| rest.starts_with(head))?.len();
        let after = rest.get(head..)?;
        // The name of a media type is short, and then the data begins.
        let data = [br#""data":""#.as_slice(), b";base64,"].iter().find_map(|mark| {
            let near = after.get(..after.len().min(64))?;
            near.windows(mark.len()).position(|window| window == *mark).map(|found| found + mark.len())
        })?;
        let length = after.get(data..)?.iter().take_while(|byte| **byte != b'"').count();
        Some((at + head + data, length))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png() -> (Vec<u8>, Image) {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0".to_vec();
        bytes.resize(30_000, 7);
        let image = Image::of(&bytes).unwrap();
        (bytes, image)
    }

    #[test]
    fn an_image_weighs_what_its_tokens_do_on_each_form() {
        let (bytes, image) = png();
        let raw = content("a picture".to_owned(), &image, &bytes);
        let url = urls(Some(&raw)).remove(0);
        let most = usize::try_from(MOST_TOKENS).unwrap() * 3;
        for body in [
            format!(r#"{{"messages":[{{"content":{}}}]}}"#, raw.as_str()),
            format!(r#"{{"output":[{{"type":"input_image","image_url":"{url}"}}]}}"#),
            format!(r#"{{"content":[{{"type":"image_url","image_url":{{"url":"{url}"}}}}]}}"#),
        ] {
            let text = body.len() - 40_000;
            assert_eq!(weight(body.as_bytes()), text + most, "{}", &body[..80]);
            let twice = format!("[{body},{body}]");
            assert_eq!(weight(twice.as_bytes()), 2 * (text + most) + 3);
        }
    }

    #[test]
    fn a_text_about_an_image_weighs_what_it_is_long() {
        let (bytes, image) = png();
        let raw = content("a picture".to_owned(), &image, &bytes);
        let quoted = serde_json::to_string(&format!("I read {}", raw.as_str())).unwrap();
        assert_eq!(weight(quoted.as_bytes()), quoted.len());
        for plain in ["", "\"", r#""url":"data:"#, r#""url":"https://example.org/a.png""#] {
            assert_eq!(weight(plain.as_bytes()), plain.len());
        }
    }
}
