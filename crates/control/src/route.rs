//! Which model a new mission begins with: what its owner wants, whose keys came along, who answers.

use std::collections::HashMap;
use std::sync::Arc;

use domain::Terms;
use models::routing::{self, Policy, Reach, Role, Status, Why};
use models::{Provider, Wire, catalogue};

use crate::Control;
use crate::api::StartMission;
use crate::error::{Error, Kind};

/// The model of a mission that is about to begin.
pub(crate) struct Routed {
    pub(crate) model: String,
    pub(crate) terms: Terms,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) warnings: Vec<String>,
}

impl Control {
    /// Chooses the worker of a mission. It stays the one until the mission is over.
    ///
    /// # Errors
    /// When no vendor of what is wanted can be asked.
    pub(crate) fn route(&self, request: &StartMission) -> Result<Routed, Error> {
        let policy = Policy { model: request.model.clone(), effort: request.effort, or: request.or.clone() };
        let built_in = Wire::ALL.into_iter().filter_map(|wire| Role::Worker.model(wire));
        let named: Vec<&str> = policy.model.iter().chain(&policy.or).map(String::as_str).collect();
        let wanted: Vec<&str> = match policy.model {
            Some(_) => named,
            None => built_in.chain(named).collect(),
        };
        let now = self.clock().now();
        let mut providers: HashMap<Wire, Result<Arc<dyn Provider>, Error>> = HashMap::new();
        let reach = Reach::new(|wire| {
            let Some(model) = wanted.iter().find(|model| Wire::of(model) == wire) else {
                return Status::NoKey;
            };
            let connected = self.vendors.connect(model, &request.vendor);
            let status = match &connected {
                Ok(provider) => match self.vendors.health().out(provider.endpoint(), now) {
                    Some(how) => Status::Out(how),
                    None => Status::Ready,
                },
                Err(error) if error.code == "model.key_missing" => Status::NoKey,
                // What is wrong with a key or an address is to be said, not passed over.
                Err(_) => Status::Ready,
            };
            providers.insert(wire, connected);
            status
        });
        let chosen = routing::choose(Role::Worker, &policy, &reach, None).map_err(|refused| {
            Error::new(Kind::Invalid, "model.key_missing", refused.to_string()).mend_apart()
        })?;
        let model = chosen.choice.model.clone();
        let provider = match providers.remove(&Wire::of(&model)) {
            Some(connected) => connected?,
            None => self.vendors.connect(&model, &request.vendor)?,
        };
        let mut warnings = Vec::new();
        match &chosen.why {
            Why::Instead(instead) => warnings
                .push(format!("this mission is on `{model}`, not on `{}`: {}", instead.model, instead.why)),
            Why::OutAsWell(why) => warnings.push(format!(
                "{why}; the mission begins with it all the same, as no other model is named under `or` in \
                 [roles.worker]"
            )),
            Why::Named | Why::BuiltIn | Why::OnlyKey(_) | Why::OtherVendor(_) | Why::SameVendor(_) => {}
        }
        let terms = Terms {
            effort: chosen.choice.effort,
            batch: request.batch,
            instead_of: chosen.instead_of().cloned(),
            ..catalogue::terms(&model)
        };
        warnings.extend(unpriced(&model, &terms));
        Ok(Routed { model, terms, provider, warnings })
    }
}

/// What the owner should know where a model's price is not known.
pub(crate) fn unpriced(model: &str, terms: &Terms) -> Option<String> {
    terms.price.is_none().then(|| {
        format!("the price of `{model}` is unknown: the cap in dollars cannot hold, the one in tokens does")
    })
}
