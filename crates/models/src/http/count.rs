//! Asking a vendor, or a server of one's own, how many tokens a request has.

use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderValue};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Client;
use super::read::guarded;
use crate::Wire;
use crate::count::{self, Count, How};
use crate::json::RawJson;

/// How long counting may take, all of it.
const PATIENCE: Duration = Duration::from_secs(20);
/// The most bytes of an answer: a server may list all tokens.
const MOST: usize = 16 << 20;

impl Client {
    /// The tokens of a composed request. What cannot be asked is found out in another way.
    pub(crate) async fn count(&self, body: &Bytes) -> Count {
        let asked = async {
            match self.config.wire {
                Wire::Messages => self.count_beside("count_tokens", body).await,
                Wire::Responses => self.count_beside("input_tokens", body).await,
                Wire::Chat => self.count_at_home(body).await,
            }
        };
        let counted = tokio::time::timeout(PATIENCE, asked).await.ok().flatten();
        match counted.filter(|count| count.tokens > 0) {
            Some(count) => count,
            None => count::offline(self.config.wire, body).await,
        }
    }

    /// At the vendor's own counter, which lies below the address of the calls.
    async fn count_beside(&self, name: &str, body: &[u8]) -> Option<Count> {
        #[derive(Deserialize)]
        struct Counted {
            input_tokens: u64,
        }
        let url = Url::parse(&format!("{}/{name}", self.url)).ok()?;
        let fields = count::countable(self.config.wire, body)?;
        let counted: Counted = self.ask(url, fields.to_raw().as_str().to_owned()).await?;
        Some(Count { tokens: counted.input_tokens, how: How::Vendor })
    }

    /// As vLLM counts a chat; or as llama.cpp does: first the model's template, then its tokenizer.
    async fn count_at_home(&self, body: &[u8]) -> Option<Count> {
        #[derive(Deserialize)]
        struct Chat {
            count: u64,
        }
        #[derive(Deserialize)]
        struct Prompt {
            prompt: String,
        }
        #[derive(Deserialize)]
        struct Tokens {
            tokens: Vec<Value>,
        }
        let at = |name: &str| {
            let root = self.url.path().strip_suffix("/chat/completions")?;
            let root = root.strip_suffix("/v1").unwrap_or(root);
            let mut url = self.url.clone();
            url.set_path(&format!("{root}/{name}"));
            Some(url)
        };
        let mut fields = count::countable(Wire::Chat, body)?;
        let chat = fields.to_raw().as_str().to_owned();
        fields.set("add_generation_prompt", RawJson::parse("true").ok()?);
        let counted: Option<Chat> = self.ask(at("tokenize")?, fields.to_raw().as_str().to_owned()).await;
        if let Some(Chat { count: tokens @ 1.. }) = counted {
            return Some(Count { tokens, how: How::Vendor });
        }
        let prompt: Option<Prompt> = self.ask(at("apply-template")?, chat).await;
        let (text, how) = match prompt {
            Some(Prompt { prompt }) => (prompt, How::Vendor),
            None => (count::plain(body)?, How::Tokenizer),
        };
        let request = json!({ "content": text, "add_special": true, "parse_special": true });
        let Tokens { tokens } = self.ask(at("tokenize")?, request.to_string()).await?;
        Some(Count { tokens: u64::try_from(tokens.len()).ok()?, how })
    }

    async fn ask<T: DeserializeOwned>(&self, url: Url, body: String) -> Option<T> {
        let json = HeaderValue::from_static("application/json");
        let request = self.http.post(url).header(ACCEPT, json).body(body);
        let response = request.send().await.ok().filter(|response| response.status().is_success())?;
        let mut bytes = Vec::new();
        let mut chunks = guarded(response, PATIENCE, MOST);
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk.ok()?);
        }
        serde_json::from_slice(&bytes).ok()
    }
}
