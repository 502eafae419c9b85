//! Authority as the owner handles it: what a run is granted, what is minted for others, what is taken back.
//!
//! | module | what lives there |
//! |---|---|
//! | [`view`] | the requests and answers, shared with clients |

pub mod view;

use std::sync::Arc;

use domain::fact::Denial;
use domain::lease::Decision;
use domain::{Fact, Grants, Label, Labels, Lease, LeaseId, Pattern, Principal, RunId, Timestamp, Verdict};
use kernel::machine::Order;
use kernel::port::{Journal, Records};
use trust::acts;
use trust::leases::{self, token};

use crate::act::{Moment, recorded_as};
use crate::error::{Error, Kind};
use crate::missions::{OWNER, unavailable};
use crate::runs::Charter;
use crate::{Control, api, view as shown};

/// Events read at a time.
const PAGE: usize = 2048;
/// The most decisions that are shown.
const SHOWN: usize = 200;
/// The longest life of a lease that is minted, in milliseconds.
const LONGEST: u64 = 30 * 24 * 60 * 60 * 1000;

/// What a run is to hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held {
    /// The agent's tools; all of them where nothing is said.
    pub(crate) tools: Option<Vec<String>>,
    /// The files.
    pub(crate) paths: Grants,
    /// The labels of what is taken in at most; all of them where nothing is said.
    pub(crate) labels: Option<Labels>,
}

impl Held {
    /// What is asked for, when it makes sense.
    pub(crate) fn of(wanted: &api::LeaseWanted, toolbox: &engine::Toolbox) -> Result<Self, Error> {
        if let Some(tools) = &wanted.tools {
            let unknown = tools.iter().find(|tool| toolbox.find(tool).is_none());
            if let Some(unknown) = unknown {
                let there = toolbox.names().collect::<Vec<_>>().join(", ");
                return Err(Error::new(Kind::Invalid, "lease.tool", format!("there is no tool `{unknown}`"))
                    .hint(format!("the tools are {there}")));
            }
        }
        Ok(Self { tools: wanted.tools.clone(), paths: paths(wanted)?, labels: labels(wanted)? })
    }

    /// Whether a tool of the agent is held.
    pub(crate) fn has(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.iter().any(|held| held == tool))
    }
}

fn labels(wanted: &api::LeaseWanted) -> Result<Option<Labels>, Error> {
    let Some(names) = &wanted.sees else { return Ok(None) };
    let parsed: Result<Labels, domain::label::NotALabel> =
        names.iter().map(|name| name.parse::<Label>()).collect();
    parsed.map(Some).map_err(|error| Error::new(Kind::Invalid, "lease.label", error.to_string()))
}

fn paths(wanted: &api::LeaseWanted) -> Result<Grants, Error> {
    let invalid =
        |error: &dyn std::error::Error| Error::new(Kind::Invalid, "lease.pattern", shown::with_causes(error));
    let parsed = |texts: &Option<Vec<String>>| -> Result<Option<Vec<Pattern>>, Error> {
        let Some(texts) = texts else { return Ok(None) };
        let patterns: Result<Vec<Pattern>, _> = texts.iter().map(|text| text.parse()).collect();
        patterns.map(Some).map_err(|error| {
            let error: domain::grants::NotAPattern = error;
            invalid(&error)
        })
    };
    Grants::new(parsed(&wanted.read)?, parsed(&wanted.write)?).map_err(|error| invalid(&error))
}

impl Control {
    /// Refuses what cannot be held: files without a jail that holds them.
    pub(crate) fn can_be_held(&self, held: &Held) -> Result<(), Error> {
        if held.paths.is_everything() || self.jail == sandbox::Status::Enforced {
            return Ok(());
        }
        Err(Error::new(
            Kind::Unavailable,
            "lease.unjailed",
            "a lease about some of the files needs a jail, and this machine has none",
        )
        .hint("`regie doctor` says how to mend it; or leave --read and --write out"))
    }

    /// What a run that goes on from another one holds: what is asked for, else what that one held.
    pub(crate) async fn held_as(&self, parent: LeaseId, wanted: &api::LeaseWanted) -> Result<Held, Error> {
        if !wanted.is_blank() {
            return Held::of(wanted, &self.toolbox);
        }
        let records = Arc::clone(&self.records);
        self.blocking(move || {
            let lease =
                leases::read(&*records, parent).map_err(|error| unavailable("lease.failed", &error))?;
            Ok(Held { tools: Some(lease.tools), paths: lease.paths, labels: lease.labels })
        })
        .await
    }

    /// All leases, the latest first; those that hold, or all.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub async fn lease_list(&self, all: bool) -> Result<Vec<api::Lease>, Error> {
        let (records, now) = (Arc::clone(&self.records), self.clock().now());
        self.blocking(move || {
            let found = leases::list(&*records)?;
            let found = found.iter().rev().filter(|lease| all || leases::holds(lease, now));
            Ok(found.map(|lease| lease_view(lease, now)).collect())
        })
        .await
    }

    /// A lease by its id, the end of it, or by its run: who granted it, what came from it, and what was decided
    /// under it.
    ///
    /// # Errors
    /// When there is none, or more than one.
    pub async fn lease_fetch(&self, name: &str) -> Result<api::LeaseRecord, Error> {
        let id = self.lease_resolve(name).await?;
        let (records, journal, now) = (Arc::clone(&self.records), self.journal(), self.clock().now());
        self.blocking(move || {
            let lease = read(&*records, id)?;
            let mut record = api::LeaseRecord { lease: lease_view(&lease, now), ..Default::default() };
            let mut above = lease.parent;
            while let Some(id) = above {
                record.above.push(id.to_string());
                above = read(&*records, id)?.parent;
            }
            let all = leases::list(&*records)?;
            record.below = all
                .iter()
                .filter(|lease| lease.parent == Some(id))
                .map(|lease| lease.id.to_string())
                .collect();
            if let Some(run) = lease.run {
                decisions(&*journal, run, id, &mut record)?;
            }
            let named = id.to_string();
            let about = |act: &acts::Act| act.of == named || act.lease == Some(id);
            record.acts = acts::list(&*records)?.iter().filter(|act| about(act)).map(act_view).collect();
            Ok(record)
        })
        .await
    }

    /// Mints a lease for a bearer, and tells its token.
    ///
    /// # Errors
    /// When it would be wider than the one that it comes from, or makes no sense.
    pub async fn lease_mint(&self, request: api::MintLease) -> Result<api::Minted, Error> {
        self.check_halt().await?;
        let now = self.clock().now();
        let holder = request
            .holder
            .parse::<Principal>()
            .map_err(|error| Error::new(Kind::Invalid, "lease.holder", error.to_string()))?;
        if request.millis == 0 || request.millis > LONGEST {
            return Err(Error::new(Kind::Invalid, "lease.time", "a lease lives for up to 30 days")
                .hint("give --for, as 2h or 1d"));
        }
        let wanted = Held::of(&request.wanted, &self.toolbox)?;
        let from = match &request.from {
            Some(name) => Some(self.lease_resolve(name).await?),
            None => None,
        };
        let (id, secret) = (self.lease_id(now), token::Token::new(self.random()));
        let (records, moment) = (Arc::clone(&self.records), Moment { at: now, random: self.random() });
        let all: Vec<String> = self.toolbox.names().map(str::to_owned).collect();
        self.blocking(move || {
            let wide = from.map(|from| read(&*records, from)).transpose()?;
            let expires_at = now.plus(request.millis);
            let lease = Lease {
                id,
                run: None,
                parent: from,
                principal: holder.to_string(),
                on_behalf_of: OWNER.into(),
                purpose: request.purpose.clone(),
                tools: wanted.tools.unwrap_or_else(|| wide.as_ref().map_or(all, |wide| wide.tools.clone())),
                paths: match &wide {
                    Some(wide) if request.wanted.read.is_none() && request.wanted.write.is_none() => {
                        wide.paths.clone()
                    }
                    _ => wanted.paths,
                },
                budget: wide.as_ref().and_then(|wide| wide.budget),
                labels: wanted.labels.or_else(|| wide.as_ref().and_then(|wide| wide.labels.clone())),
                granted_at: Some(now),
                expires_at: wide.as_ref().map_or(expires_at, |wide| expires_at.min(wide.expires_at)),
                epoch: 0,
                revoked: false,
            };
            let mint = || minted(&*records, &lease, from, &secret);
            let minted = recorded_as(&*records, ("lease.mint", &id.to_string()), "granted", moment, mint)?;
            Ok(api::Minted { lease: lease_view(&minted, now), token: secret.secret().to_owned() })
        })
        .await
    }

    /// Takes a lease back, with all that came from it.
    ///
    /// # Errors
    /// When there is none, or it cannot be written.
    pub async fn lease_revoke(&self, name: &str) -> Result<api::Lease, Error> {
        let id = self.lease_resolve(name).await?;
        let (records, moment) = (Arc::clone(&self.records), self.moment());
        let revoked = self.blocking(move || {
            let revoke = || leases::revoke(&*records, id).map_err(|error| failed(&error));
            recorded_as(&*records, ("lease.revoke", &id.to_string()), "revoked", moment, revoke)
        });
        let revoked = revoked.await?;
        // What it has under way ends too. One that does not move has nothing under way.
        if let Some(run) = revoked.run
            && let Err(error) = self.host.order(run, Order::StopNow { by: OWNER.into() }).await
        {
            tracing::debug!(%run, %error, "a run whose lease was taken back is not stopped");
        }
        Ok(lease_view(&revoked, moment.at))
    }

    /// What was done outside of any run, the latest first.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub async fn act_list(&self) -> Result<Vec<api::Act>, Error> {
        let records = Arc::clone(&self.records);
        self.blocking(move || Ok(acts::list(&*records)?.iter().rev().map(act_view).collect())).await
    }

    async fn lease_resolve(&self, name: &str) -> Result<LeaseId, Error> {
        if let Ok(lease) = name.parse() {
            return Ok(lease);
        }
        if name == "last" || name.starts_with("run_") {
            let (run, journal) = (self.resolve(name).await?, self.journal());
            return self.blocking(move || Ok(Charter::read(&*journal, run)?.started.lease)).await;
        }
        let (records, name) = (Arc::clone(&self.records), name.to_lowercase());
        self.blocking(move || {
            let part = name.strip_prefix("lease_").unwrap_or(&name).to_owned();
            let all = leases::list(&*records)?;
            let mut found =
                all.iter().filter(|lease| !part.is_empty() && lease.id.to_string().ends_with(&part));
            match (found.next(), found.next()) {
                (Some(lease), None) => Ok(lease.id),
                (None, _) => {
                    Err(Error::new(Kind::NotFound, "lease.not_found", format!("there is no lease `{name}`"))
                        .hint("`regie lease list --all` lists them; a run is named in full or `last`"))
                }
                (Some(_), Some(_)) => Err(Error::new(
                    Kind::Invalid,
                    "lease.ambiguous",
                    format!("`{name}` means more than one lease"),
                )
                .hint("give more characters of the id")),
            }
        })
        .await
    }
}

fn minted(
    records: &dyn Records,
    lease: &Lease,
    from: Option<LeaseId>,
    secret: &token::Token,
) -> Result<Lease, Error> {
    let granted = match from {
        Some(from) => {
            leases::narrow(records, from, lease).map_err(|error| failed(&error))?.map_err(|wider| {
                Error::new(Kind::Invalid, "lease.wider", shown::with_causes(&wider))
                    .hint("a lease is only ever narrowed: `regie lease show` says what the other one holds")
            })?
        }
        None => leases::grant(records, lease).map_err(|error| failed(&error))?,
    };
    token::bind(records, secret, granted.id).map_err(|error| failed(&error))?;
    Ok(granted)
}

fn read(records: &dyn Records, id: LeaseId) -> Result<Lease, Error> {
    leases::read(records, id).map_err(|error| failed(&error))
}

fn failed(error: &leases::Error) -> Error {
    let detail = shown::with_causes(error);
    match error {
        leases::Error::Missing(_) => Error::new(Kind::NotFound, "lease.not_found", detail),
        leases::Error::TooDeep(_) | leases::Error::Owners(_) => {
            Error::new(Kind::Invalid, "lease.refused", detail)
        }
        _ => Error::new(Kind::Unavailable, "lease.failed", detail),
    }
    .mend_apart()
}

/// Adds up what was decided under a lease.
fn decisions(
    journal: &dyn Journal,
    run: RunId,
    lease: LeaseId,
    record: &mut api::LeaseRecord,
) -> Result<(), Error> {
    let mut seq = 0;
    loop {
        let page = journal.history(run, seq, PAGE)?;
        let Some(last) = page.last() else { return Ok(()) };
        seq = last.header.seq;
        for event in &page {
            let Some((step, decision)) = decided(&event.header.fact).filter(|(_, one)| one.lease == lease)
            else {
                continue;
            };
            let verdict = match decision.verdict {
                Verdict::Allow => {
                    record.allowed += 1;
                    continue;
                }
                Verdict::Ask => "ask",
                Verdict::Deny => "deny",
            };
            if record.refused.len() < SHOWN {
                record.refused.push(api::Decided {
                    seq: event.header.seq,
                    at: event.header.at.0,
                    step,
                    verdict: verdict.into(),
                    rule: decision.rule.clone(),
                });
            }
        }
    }
}

fn decided(fact: &Fact) -> Option<(u64, &Decision)> {
    match fact {
        Fact::StepIntended { step, decision, .. }
        | Fact::StepDenied { step, reason: Denial::Policy { decision } } => Some((step.0, decision)),
        Fact::GateOpened { subject, decision: Some(decision), .. } => Some((subject.0, decision)),
        _ => None,
    }
}

fn lease_view(lease: &Lease, now: Timestamp) -> api::Lease {
    let state = match (lease.revoked, now >= lease.expires_at) {
        (true, _) => "revoked",
        (false, true) => "expired",
        (false, false) => "holds",
    };
    let texts = |patterns: &[Pattern]| patterns.iter().map(Pattern::to_string).collect();
    api::Lease {
        lease: lease.id.to_string(),
        state: state.into(),
        run: lease.run.map(|run| run.to_string()),
        parent: lease.parent.map(|parent| parent.to_string()),
        principal: lease.principal.clone(),
        on_behalf_of: lease.on_behalf_of.clone(),
        purpose: lease.purpose.clone(),
        tools: lease.tools.clone(),
        read: texts(&lease.paths.read),
        write: texts(&lease.paths.write),
        sees: lease.labels.as_ref().map(|labels| labels.iter().map(Label::to_string).collect()),
        granted_at: lease.granted_at.map(|at| at.0),
        expires_at: lease.expires_at.0,
    }
}

fn act_view(act: &acts::Act) -> api::Act {
    api::Act {
        by: act.by.clone(),
        lease: act.lease.map(|lease| lease.to_string()),
        what: act.what.clone(),
        of: act.of.clone(),
        at: act.at.0,
        rule: act.rule.clone(),
        outcome: act.outcome.clone(),
    }
}
