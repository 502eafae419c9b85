//! Anthropic's list of models, page by page; also of gateways that answer in OpenAI's form.

use serde::Deserialize;
use serde_json::Value;

use crate::Wire;
use crate::call;
use crate::catalogue::{Kind, Listing, Model, Read, Source, name_of};

/// The most pages that are read. A page has up to a thousand models.
const MOST_PAGES: usize = 10;

#[derive(Deserialize)]
struct Page {
    data: Vec<Row>,
    #[serde(default)]
    has_more: Option<bool>,
    #[serde(default)]
    last_id: Option<String>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(default)]
    display_name: Option<String>,
    #[serde(default)]
    created_at: Option<String>,
    #[serde(default)]
    max_input_tokens: Option<u64>,
    #[serde(default)]
    max_tokens: Option<u64>,
    #[serde(default)]
    capabilities: Value,
}

pub(crate) async fn list(endpoint: &dyn Read) -> Result<Listing, call::Error> {
    let mut models = Vec::new();
    let mut query = "limit=1000".to_owned();
    let mut is_whole = false;
    for _ in 0..MOST_PAGES {
        let page = endpoint.json(Source::Versioned("models"), &query, None).await?;
        let page: Page = serde_json::from_value(page)
            .map_err(|_| endpoint.unreadable("it is not the list of models of this wire"))?;
        models.extend(page.data.into_iter().map(model));
        match (page.has_more, page.last_id) {
            (Some(true), Some(last)) => query = format!("limit=1000&after_id={}", encoded(&last)),
            _ => {
                is_whole = true;
                break;
            }
        }
    }
    Ok(Listing { models, is_complete: is_whole && endpoint.is_the_vendors(), kind: Kind::Plain })
}

fn model(row: Row) -> Model {
    let able = |name: &str| row.capabilities[name]["supported"].as_bool();
    Model {
        name: name_of(Wire::Messages, &row.id),
        window: positive(row.max_input_tokens),
        max_output: positive(row.max_tokens),
        vision: able("image_input"),
        thinking: able("thinking"),
        adaptive: row.capabilities["thinking"]["types"]["adaptive"]["supported"].as_bool(),
        created: row.created_at.as_deref().and_then(seconds).filter(|at| *at > 0),
        display: row.display_name,
        ..Model::default()
    }
}

fn positive(tokens: Option<u64>) -> Option<u64> {
    tokens.filter(|tokens| *tokens > 0)
}

/// The day of an RFC 3339 time, in seconds since the Unix epoch.
fn seconds(time: &str) -> Option<u64> {
    let mut parts = time.get(..10)?.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years begin in March, so that the leap day is the last of one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    days.checked_sub(719_468)?.checked_mul(86_400)
}

/// An id as the value of a query.
fn encoded(id: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    id.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_civil() {
        assert_eq!(seconds("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(seconds("2000-02-29T12:00:00Z"), Some(951_782_400));
        assert_eq!(seconds("2026-11-10"), Some(1_794_268_800));
        for wrong in ["", "yesterday..", "2026-13-01", "0000-00-00", "2026-1é-01"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
