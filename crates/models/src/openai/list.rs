//! OpenAI's list of models: ids, and nothing of what they can do.

use serde::Deserialize;

use crate::Wire;
use crate::call;
use crate::catalogue::{Kind, Listing, Model, Read, Source, name_of};

/// Parts of ids of models that are there for something else than conversations in text.
const OTHERS: [&str; 17] = [
    "audio",
    "babbage",
    "computer-use",
    "dall-e",
    "davinci",
    "embedding",
    "image",
    "instruct",
    "live",
    "moderation",
    "realtime",
    "search",
    "sora",
    "speech",
    "transcribe",
    "tts",
    "whisper",
];

#[derive(Deserialize)]
struct Page {
    data: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    #[serde(default)]
    created: Option<u64>,
}

pub(crate) async fn list(endpoint: &dyn Read) -> Result<Listing, call::Error> {
    let page = endpoint.json(Source::Versioned("models"), "", None).await?;
    let page: Page = serde_json::from_value(page)
        .map_err(|_| endpoint.unreadable("it is not the list of models of this wire"))?;
    let models = page.data.into_iter().map(|row| Model {
        name: name_of(Wire::Responses, &row.id),
        created: row.created.filter(|at| *at > 0),
        is_other: OTHERS.iter().any(|other| row.id.contains(other)),
        ..Model::default()
    });
    Ok(Listing { models: models.collect(), is_complete: endpoint.is_the_vendors(), kind: Kind::Plain })
}
