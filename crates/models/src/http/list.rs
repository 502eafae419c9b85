//! Reading an endpoint's lists: one request, one JSON document, no second attempt.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderValue};
use serde_json::Value;

use super::Client;
use super::read::guarded;
use crate::call;
use crate::catalogue::{Read, Source};

/// How long a list may take to come.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most bytes of a list.
const MOST_BYTES: usize = 8 << 20;

impl Read for Client {
    fn json(
        &self,
        source: Source,
        query: &str,
        body: Option<Value>,
    ) -> BoxFuture<'_, Result<Value, call::Error>> {
        let query = query.to_owned();
        async move {
            let mut url = self.address(source).ok_or_else(|| self.unreadable("it has no address"))?;
            url.set_query(Some(query.as_str()).filter(|query| !query.is_empty()));
            match tokio::time::timeout(PATIENCE, self.fetch(url.clone(), body)).await {
                Ok(read) => read.map_err(|error| at(error, &url)),
                Err(_) => Err(at(call::Error::Idle { at: self.at.clone(), after: PATIENCE }, &url)),
            }
        }
        .boxed()
    }

    fn unreadable(&self, what: &'static str) -> call::Error {
        call::Error::NotAList { at: self.at.clone(), what }
    }

    fn is_the_vendors(&self) -> bool {
        Url::parse(self.config.wire.default_url()).is_ok_and(|own| own.host_str() == self.url.host_str())
    }
}

impl Client {
    fn address(&self, source: Source) -> Option<Url> {
        match source {
            Source::Versioned(path) => self.config.below(path).ok(),
            Source::Beside(path) => {
                let base = self.config.base_url.trim().trim_end_matches('/');
                let root = base.strip_suffix("/v1").unwrap_or(base);
                Url::parse(&format!("{root}/{path}")).ok()
            }
        }
    }

    async fn fetch(&self, url: Url, body: Option<Value>) -> Result<Value, call::Error> {
        let request = match body {
            Some(body) => self.http.post(url).body(body.to_string()),
            None => self.http.get(url),
        };
        let request = request.header(ACCEPT, HeaderValue::from_static("application/json"));
        let response = request.send().await.map_err(|error| self.network(error))?;
        if !response.status().is_success() {
            let refused = self.turned_away(response).await;
            // No model was asked for.
            return Err(match refused {
                call::Error::NotFound { answer, .. } => call::Error::Status(answer),
                other => other,
            });
        }
        let mut chunks = guarded(response, PATIENCE, MOST_BYTES);
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let chunk: Bytes = chunk.map_err(|_| self.unreadable("it ended early, or has no end"))?;
            bytes.extend_from_slice(&chunk);
        }
        serde_json::from_slice(&bytes).map_err(|_| self.unreadable("it is not JSON"))
    }
}

/// The same failure with the address that was asked, without the query.
fn at(mut error: call::Error, url: &Url) -> call::Error {
    let mut shown = url.clone();
    shown.set_query(None);
    error.place().url = shown.as_str().into();
    error
}
