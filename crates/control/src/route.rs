//! Which model a new mission begins with: what its owner wants, whose keys came along, who answers.

use std::collections::HashMap;
use std::sync::Arc;

use domain::Terms;
use models::routing::{self, Policy, Reach, Role, Status, Why};
use models::{Provider, Wire};

use crate::Control;
use crate::api::{StartMission, Vendor};
use crate::error::{Error, Kind};

/// The model of a mission that is about to begin.
pub(crate) struct Routed {
    pub(crate) model: String,
    pub(crate) terms: Terms,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) warnings: Vec<String>,
}

impl Control {
    /// How a vendor that is asked all the same did not answer lately.
    pub(crate) fn out(&self, provider: &dyn Provider) -> Option<String> {
        self.vendors.health().out(provider.endpoint(), self.clock().now())
    }

    fn look(&self, model: &str, vendor: &Vendor) -> Looked {
        let connected = self.vendors.connect(model, vendor);
        let status = match &connected {
            Ok(provider) => self.out(&**provider).map_or(Status::Ready, Status::Out),
            Err(error) if error.code == "model.key_missing" => Status::NoKey,
            // What is wrong with a key or an address is to be said, not passed over.
            Err(_) => Status::Ready,
        };
        Looked { status, connected }
    }

    /// Chooses the worker of a mission. It stays the one until the mission is over.
    ///
    /// # Errors
    /// When no vendor of what is wanted can be asked.
    pub(crate) async fn route(&self, request: &StartMission) -> Result<Routed, Error> {
        let policy = Policy { model: request.model.clone(), effort: request.effort, or: request.or.clone() };
        // A connection takes its time: who is asked only after another one is looked at after it.
        let mut known: HashMap<Wire, Looked> = HashMap::new();
        let mut look = |model: &str| -> Status {
            let known = known.entry(Wire::of(model)).or_insert_with(|| self.look(model, &request.vendor));
            known.status.clone()
        };
        let built_in = || Wire::ALL.into_iter().filter_map(|wire| Role::Worker.model(wire));
        let first = match &policy.model {
            Some(model) => look(model),
            None => built_in().map(&mut look).find(|status| *status != Status::NoKey).unwrap_or_default(),
        };
        if first != Status::Ready {
            let mut others = policy.or.iter().map(|model| look(model));
            let _ = others.find(|status| *status == Status::Ready);
        }
        let reach = Reach::new(|wire| known.get(&wire).map(|known| known.status.clone()).unwrap_or_default());
        let chosen = routing::choose(Role::Worker, &policy, &reach, None).map_err(|refused| {
            Error::new(Kind::Invalid, "model.key_missing", refused.to_string()).mend_apart()
        })?;
        let model = chosen.choice.model.clone();
        let provider = match known.remove(&Wire::of(&model)) {
            Some(known) => known.connected?,
            None => self.vendors.connect(&model, &request.vendor)?,
        };
        let mut warnings = Vec::new();
        match &chosen.why {
            Why::Instead(instead) => warnings
                .push(format!("this mission is on `{model}`, not on `{}`: {}", instead.model, instead.why)),
            Why::OutAsWell(why) => warnings.push(format!(
                "{why}; the mission begins with `{model}` all the same, as no other may be asked"
            )),
            Why::Named | Why::BuiltIn | Why::OnlyKey(_) | Why::OtherVendor(_) | Why::SameVendor(_) => {}
        }
        let (listed, warning) = self.known(&model, &provider).await?;
        warnings.extend(warning);
        let terms = Terms {
            effort: chosen.choice.effort,
            batch: request.batch,
            instead_of: chosen.instead_of().cloned(),
            ..listed.terms()
        };
        let terms = queued(terms, &model, &*provider)?;
        warnings.extend(unpriced(&model, &terms));
        Ok(Routed { model, terms, provider, warnings })
    }
}

/// A vendor that was looked at.
struct Looked {
    status: Status,
    connected: Result<Arc<dyn Provider>, Error>,
}

/// What the owner should know where a model's price is not known.
pub(crate) fn unpriced(model: &str, terms: &Terms) -> Option<String> {
    terms.price.is_none().then(|| {
        format!("the price of `{model}` is unknown: the cap in dollars cannot hold, the one in tokens does")
    })
}

/// The terms of a mission that asks by batch, if it wants to.
///
/// # Errors
/// When there is no queue to ask by.
pub(crate) fn queued(terms: Terms, model: &str, provider: &dyn Provider) -> Result<Terms, Error> {
    if !terms.batch {
        return Ok(terms);
    }
    match provider.batches() {
        Some(_) => Ok(models::batch::terms(terms)),
        None => {
            Err(Error::new(Kind::Invalid, "model.no_batch", crate::executor::no_queue(model)).mend_apart())
        }
    }
}
