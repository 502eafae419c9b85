//! The catalogue of this installation: what endpoints said of their models, kept in the home with the time at
//! which they said it. It is read again on demand, and at the start of a mission when it is old; no mission
//! waits long for it, and none fails because it cannot be had.

mod kept;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use domain::Timestamp;
use futures_util::future::join_all;
use models::catalogue::{self, Known, Listing};
use models::{Provider, Wire, call};

pub use kept::{Catalogue, Kept};
use view::{Endpoint, Model, Models, ReadModels};

use crate::api::Vendor;
use crate::error::{Error, Kind};
use crate::{Control, view::with_causes};

/// For how long a vendor's list counts as fresh, in milliseconds.
pub const DAY: u64 = 24 * 60 * 60 * 1000;
/// The same for a server of one's own, where models and windows change by the minute and asking is cheap.
const MINUTE: u64 = 60 * 1000;
/// How long a mission waits for a list.
const PATIENCE: Duration = Duration::from_secs(2);

impl Control {
    /// The catalogue as it is kept; no endpoint is asked.
    ///
    /// # Errors
    /// None today; the file is disposable.
    pub async fn model_list(&self) -> Result<Models, Error> {
        let catalogue = Arc::clone(&self.catalogue);
        let all = self.blocking(move || Ok(catalogue.all())).await?;
        let endpoints = all.into_iter().map(|(url, kept)| {
            let wire = Wire::ALL.into_iter().find(|wire| view::short(*wire) == kept.wire);
            Endpoint::of(wire.unwrap_or(Wire::Messages), url, Some(&kept), None)
        });
        Ok(Models { endpoints: endpoints.collect() })
    }

    /// Reads the lists of the endpoints that the client has keys for, those of less than a day only when it
    /// asks for that. What is wrong with an endpoint is part of the answer.
    ///
    /// # Errors
    /// None today.
    pub async fn model_read(&self, wanted: ReadModels) -> Result<Models, Error> {
        let each = Wire::ALL.map(|wire| self.endpoint(wire, &wanted.vendor, wanted.refresh));
        Ok(Models { endpoints: join_all(each).await })
    }

    async fn endpoint(&self, wire: Wire, vendor: &Vendor, refresh: bool) -> Endpoint {
        let provider = match self.vendors.connect(view::any_model(wire), vendor) {
            Ok(provider) => provider,
            Err(error) => return Endpoint::of(wire, String::new(), None, Some(error.problem())),
        };
        let url = provider.endpoint().to_owned();
        let kept = self.kept(&url).await;
        if !refresh && kept.as_ref().is_some_and(|kept| self.is_fresh(wire, kept)) {
            return Endpoint::of(wire, url, kept.as_ref(), None);
        }
        match self.read(wire, provider).await {
            Ok(kept) => Endpoint::of(wire, url, Some(&kept), None),
            Err(error) => {
                let mut failed = failed(&error);
                if wire == Wire::Chat && failed.code == "model.unreachable" {
                    failed.detail = format!("no model server answers at {}", view::base(&url, wire));
                    failed.hint = Some(
                        "start it, or name another with REGIE_LOCAL_BASE_URL or [local] base_url".into(),
                    );
                }
                Endpoint::of(wire, url, kept.as_ref(), Some(failed.problem()))
            }
        }
    }

    /// All that is known of a mission's model, and what its owner should know of it.
    ///
    /// # Errors
    /// When it is certain that the model cannot serve: it is not there, or calls no tools.
    pub(crate) async fn known(
        &self,
        model: &str,
        provider: &Arc<dyn Provider>,
    ) -> Result<(Known, Option<String>), Error> {
        let wire = Wire::of(model);
        let url = provider.endpoint().to_owned();
        let old = self.kept(&url).await;
        let serves = |kept: &Kept| self.is_fresh(wire, kept) && !kept.listing.lacks(model);
        let (kept, is_new) = match old {
            Some(kept) if serves(&kept) => (Some(kept), false),
            old => match self.read_soon(wire, provider).await {
                Some(kept) => (Some(kept), true),
                None => (old, false),
            },
        };
        let listing = kept.as_ref().map(|kept| &kept.listing);
        if let Some(listing) = listing
            && is_new
            && listing.lacks(model)
        {
            return Err(not_found(model, &view::base(&url, wire), listing));
        }
        let known = catalogue::known(model, listing);
        if known.model.tools == Some(false) {
            let detail =
                format!("the model `{model}` cannot call tools, by what {} says", view::base(&url, wire));
            return Err(Error::new(Kind::Invalid, "model.no_tools", detail)
                .hint("choose one that can with --model: `regie models` lists what each is able to"));
        }
        let warning = known.warning();
        Ok((known, warning))
    }

    /// Reads a list in the background, and waits for it a moment.
    async fn read_soon(&self, wire: Wire, provider: &Arc<dyn Provider>) -> Option<Kept> {
        let reading = self.reading(wire, Arc::clone(provider));
        match tokio::time::timeout(PATIENCE, tokio::spawn(reading)).await {
            Ok(Ok(Ok(kept))) => Some(kept),
            Ok(Ok(Err(error))) => {
                tracing::info!(error = with_causes(&error), "the list of models could not be read");
                None
            }
            // It goes on in the background, for the next mission.
            Ok(Err(_)) | Err(_) => None,
        }
    }

    async fn read(&self, wire: Wire, provider: Arc<dyn Provider>) -> Result<Kept, call::Error> {
        self.reading(wire, provider).await
    }

    fn reading(
        &self,
        wire: Wire,
        provider: Arc<dyn Provider>,
    ) -> impl Future<Output = Result<Kept, call::Error>> + Send + 'static {
        let (catalogue, now) = (Arc::clone(&self.catalogue), self.clock().now());
        async move {
            let listing = provider.list().await?;
            let kept = Kept { wire: view::short(wire).to_owned(), at: now.0, listing };
            let (url, copy) = (provider.endpoint().to_owned(), kept.clone());
            if !copy.listing.models.is_empty() {
                // A list that cannot be written is a list all the same.
                let _ = tokio::task::spawn_blocking(move || catalogue.keep(url, copy)).await;
            }
            Ok(kept)
        }
    }

    async fn kept(&self, url: &str) -> Option<Kept> {
        let (catalogue, url) = (Arc::clone(&self.catalogue), url.to_owned());
        self.blocking(move || Ok(catalogue.of(&url))).await.ok().flatten()
    }

    fn is_fresh(&self, wire: Wire, kept: &Kept) -> bool {
        let age = self.clock().now().since(Timestamp(kept.at));
        age < if wire == Wire::Chat { MINUTE } else { DAY }
    }
}

fn not_found(model: &str, url: &str, listing: &Listing) -> Error {
    let near: Vec<String> = listing.nearest(model).iter().map(|name| format!("`{name}`")).collect();
    let near = match near.is_empty() {
        true => "it lists none".to_owned(),
        false => format!("the nearest are {}", near.join(", ")),
    };
    Error::new(Kind::Invalid, "model.not_found", format!("{url} has no model `{model}`; {near}"))
        .hint("choose another with --model: `regie models` lists them")
}

/// Why a list could not be read.
fn failed(error: &call::Error) -> Error {
    let code = match error {
        call::Error::Unauthorized(_) => "model.unauthorized",
        call::Error::Connect { .. } => "model.unreachable",
        _ => "model.no_list",
    };
    let mut failed = Error::new(Kind::Unavailable, code, error.to_string()).mend_apart();
    if let Some(cause) = std::error::Error::source(error) {
        failed.detail = format!("{}: {}", failed.detail, with_causes(cause));
    }
    failed
}

impl Endpoint {
    fn of(wire: Wire, url: String, kept: Option<&Kept>, problem: Option<crate::api::Problem>) -> Self {
        let listing = kept.map(|kept| &kept.listing);
        let models = listing.into_iter().flat_map(|listing| {
            listing.models.iter().map(|model| Model::of(catalogue::known(&model.name, Some(listing))))
        });
        Self {
            wire: view::short(wire).to_owned(),
            url: Some(view::base(&url, wire)).filter(|url| !url.is_empty()),
            as_of: kept.map(|kept| kept.at),
            is_complete: listing.is_some_and(|listing| listing.is_complete),
            models: models.collect(),
            problem,
        }
    }
}

impl Model {
    fn of(known: Known) -> Self {
        let Known { model, window, price, price_holds, .. } = known;
        Self {
            name: model.name,
            display: model.display,
            window: window.tokens,
            window_from: window.from,
            longest: model.longest,
            max_output: model.max_output,
            tools: model.tools,
            vision: model.vision,
            thinking: model.thinking,
            created: model.created.map(|seconds| seconds.saturating_mul(1_000)),
            is_other: model.is_other,
            price,
            price_holds,
        }
    }
}
