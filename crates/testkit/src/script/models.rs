//! The list of models, in the form of the wire that asks: by its headers, as the path is the same on all.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Json, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::scenario::Listed;
use super::server::House;
use super::wire::Wire;

/// When the scripted models were released.
const RELEASED: (&str, u64) = ("2026-11-10T00:00:00Z", 1_794_268_800);

#[derive(Deserialize)]
pub(super) struct Page {
    limit: Option<usize>,
    after_id: Option<String>,
}

pub(super) async fn list(
    State(house): State<Arc<House>>,
    Query(page): Query<Page>,
    headers: HeaderMap,
) -> Response {
    let wire = match headers.contains_key("anthropic-version") {
        true => Wire::Messages,
        false => Wire::Chat,
    };
    if let Some(refused) = house.stranger(wire, &headers) {
        return refused;
    }
    let listed: Vec<Listed> = house.scenarios.iter().flat_map(|scenario| scenario.models.clone()).collect();
    let listed = if listed.is_empty() { by_default() } else { listed };
    let body = match wire {
        Wire::Messages => messages(&listed, &page),
        Wire::Responses | Wire::Chat => plain(&listed),
    };
    Json(body).into_response()
}

fn by_default() -> Vec<Listed> {
    let model = |id: &str, window| Listed {
        id: id.to_owned(),
        window: Some(window),
        max_output: Some(64_000),
        vision: Some(true),
        thinking: Some(true),
    };
    vec![model("scripted", 200_000), model("scripted-small", 16_000)]
}

/// Page by page, twenty models each unless more are asked for.
fn messages(listed: &[Listed], page: &Page) -> Value {
    let after = page.after_id.as_ref().and_then(|id| listed.iter().position(|model| model.id == *id));
    let left = listed.iter().skip(after.map_or(0, |place| place + 1));
    let rows: Vec<Value> = left.clone().take(page.limit.unwrap_or(20)).map(row).collect();
    json!({
        "has_more": left.count() > rows.len(),
        "first_id": rows.first().map(|row| row["id"].clone()),
        "last_id": rows.last().map(|row| row["id"].clone()),
        "data": rows,
    })
}

fn row(model: &Listed) -> Value {
    let able = |able: Option<bool>| json!({ "supported": able.unwrap_or(false) });
    let capabilities = match (model.vision, model.thinking) {
        (None, None) => Value::Null,
        (vision, thinking) => json!({ "image_input": able(vision), "thinking": able(thinking) }),
    };
    json!({
        "type": "model",
        "id": model.id,
        "display_name": format!("Scripted {}", model.id),
        "created_at": RELEASED.0,
        "lifecycle": "active",
        "max_input_tokens": model.window,
        "max_tokens": model.max_output,
        "capabilities": capabilities,
    })
}

/// OpenAI's form, with the window where vLLM has it: a vendor's client looks past it.
fn plain(listed: &[Listed]) -> Value {
    let rows = listed.iter().map(|model| {
        json!({
            "id": model.id,
            "object": "model",
            "created": RELEASED.1,
            "owned_by": "scripted",
            "max_model_len": model.window,
        })
    });
    json!({ "object": "list", "data": rows.collect::<Vec<_>>() })
}
