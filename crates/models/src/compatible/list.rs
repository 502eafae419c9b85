//! What local servers say of their models. All list them in OpenAI's form; what a model can do, and which
//! window it has *now*, each says in a place of its own.

use futures_util::future::{join, join_all, join4};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Wire;
use crate::call;
use crate::catalogue::{Kind, Listing, Model, Read, Source, name_of};

/// The most models of Ollama that are asked about one by one.
const MOST_SHOWN: usize = 64;

#[derive(Deserialize)]
struct Page {
    data: Vec<Value>,
}

pub(crate) async fn list(endpoint: &dyn Read) -> Result<Listing, call::Error> {
    let get = |source| endpoint.json(source, "", None);
    let (plain, tags, studio, props) = join4(
        get(Source::Versioned("models")),
        get(Source::Beside("api/tags")),
        get(Source::Beside("api/v0/models")),
        get(Source::Beside("props")),
    )
    .await;
    if let Some(names) = tags.ok().and_then(|tags| names(&tags)) {
        return Ok(ollama(endpoint, names).await);
    }
    if let Some(rows) = studio.ok().and_then(|page| serde_json::from_value::<Page>(page).ok())
        && rows.data.iter().any(|row| row["max_context_length"].is_u64())
    {
        let models = rows.data.iter().filter_map(of_lm_studio).collect();
        return Ok(Listing { models, is_complete: true, kind: Kind::LmStudio });
    }
    let page: Page = serde_json::from_value(plain?)
        .map_err(|_| endpoint.unreadable("it is not the list of models of this wire"))?;
    let props = props.ok().filter(|props| props["default_generation_settings"].is_object());
    let mut models: Vec<Model> = page.data.iter().filter_map(plainly).collect();
    let is_llama = page.data.iter().any(|row| row["meta"]["n_ctx_train"].is_u64());
    if let (Some(props), [only]) = (&props, models.as_mut_slice()) {
        only.window = tokens(&props["default_generation_settings"]["n_ctx"]).or(only.window);
        only.vision = props["modalities"]["vision"].as_bool().or(only.vision);
        only.tools = props["chat_template_caps"]["supports_tools"].as_bool().or(only.tools);
    }
    match props.is_some() || is_llama {
        // It answers for any name.
        true => Ok(Listing { is_complete: models.len() > 1, models, kind: Kind::LlamaCpp }),
        false => {
            let is_complete = page.data.iter().any(|row| row["max_model_len"].is_u64());
            Ok(Listing { models, is_complete, kind: Kind::Plain })
        }
    }
}

/// vLLM says `max_model_len`, llama.cpp what the model was made for.
fn plainly(row: &Value) -> Option<Model> {
    let id = row["id"].as_str()?;
    Some(Model {
        name: name_of(Wire::Chat, id),
        window: tokens(&row["max_model_len"]).or_else(|| tokens(&row["meta"]["n_ctx"])),
        longest: tokens(&row["meta"]["n_ctx_train"]),
        created: tokens(&row["created"]),
        is_other: is_embedding(id),
        ..Model::default()
    })
}

fn of_lm_studio(row: &Value) -> Option<Model> {
    let id = row["id"].as_str()?;
    let kind = row["type"].as_str().unwrap_or_default();
    let able = |name: &str| {
        let all = row["capabilities"].as_array()?;
        Some(all.iter().any(|one| one == name))
    };
    Some(Model {
        name: name_of(Wire::Chat, id),
        window: tokens(&row["loaded_context_length"]),
        longest: tokens(&row["max_context_length"]),
        tools: able("tool_use"),
        vision: Some(kind == "vlm"),
        is_other: kind == "embeddings" || is_embedding(id),
        ..Model::default()
    })
}

/// The names of Ollama's models.
fn names(tags: &Value) -> Option<Vec<String>> {
    let name = |row: &Value| row["model"].as_str().or_else(|| row["name"].as_str()).map(str::to_owned);
    Some(tags["models"].as_array()?.iter().filter_map(name).collect())
}

/// Ollama says of each model by itself what it can do, and of those that are loaded which window they have.
async fn ollama(endpoint: &dyn Read, names: Vec<String>) -> Listing {
    let show = |name: &str| endpoint.json(Source::Beside("api/show"), "", Some(json!({ "model": name })));
    let asked = names.iter().take(MOST_SHOWN).map(|name| show(name));
    let (shown, loaded) = join(join_all(asked), endpoint.json(Source::Beside("api/ps"), "", None)).await;
    let loaded = loaded.unwrap_or_default();
    let now = |name: &str| {
        let rows = loaded["models"].as_array()?;
        let row = rows.iter().find(|row| row["model"] == name || row["name"] == name)?;
        tokens(&row["context_length"])
    };
    let mut shown = shown.into_iter().map(Result::unwrap_or_default);
    let models = names.iter().map(|name| {
        let said = shown.next().unwrap_or_default();
        let able = |what: &str| {
            let all = said["capabilities"].as_array()?;
            Some(all.iter().any(|one| one == what))
        };
        Model {
            name: name_of(Wire::Chat, name),
            window: now(name).or_else(|| num_ctx(&said)),
            longest: trained(&said),
            tools: able("tools"),
            vision: able("vision"),
            thinking: able("thinking"),
            is_other: able("completion").map_or_else(|| is_embedding(name), |completes| !completes),
            ..Model::default()
        }
    });
    Listing { models: models.collect(), is_complete: true, kind: Kind::Ollama }
}

/// What the Modelfile sets: `num_ctx   8192`, a line among others.
fn num_ctx(said: &Value) -> Option<u64> {
    let lines = said["parameters"].as_str()?.lines();
    lines
        .filter_map(|line| line.trim().strip_prefix("num_ctx"))
        .filter_map(|rest| rest.trim().parse().ok())
        .next()
}

/// What the model was made for: `llama.context_length` and the like.
fn trained(said: &Value) -> Option<u64> {
    let info = said["model_info"].as_object()?;
    info.iter().find(|(key, _)| key.ends_with(".context_length")).and_then(|(_, value)| tokens(value))
}

fn tokens(value: &Value) -> Option<u64> {
    value.as_u64().filter(|tokens| *tokens > 0)
}

fn is_embedding(id: &str) -> bool {
    let id = id.to_ascii_lowercase();
    id.contains("embed") || id.contains("rerank")
}
