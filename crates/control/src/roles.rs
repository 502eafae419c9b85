//! Who acts here: each principal that holds or held a lease, with its leases and its latest runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::Principal;
use trust::leases;

use crate::Control;
use crate::api;
use crate::error::Error;
use crate::missions::ROLE;
use crate::runs::Charter;

/// Runs that are looked through, the latest first.
const LOOKED: usize = 1_000;
/// Runs that are shown of each.
const RECENT: usize = 5;

impl Control {
    /// Who acts here, by name. Of runs, the latest thousand are looked through.
    ///
    /// # Errors
    /// When the journal or the records cannot be read.
    pub async fn role_list(&self) -> Result<Vec<api::Role>, Error> {
        let (records, journal, now) = (Arc::clone(&self.records), self.journal(), self.clock().now());
        self.blocking(move || {
            let mut roles: BTreeMap<String, api::Role> = BTreeMap::new();
            let mut of = |principal: &str, add: &mut dyn FnMut(&mut api::Role)| {
                add(roles.entry(principal.to_owned()).or_insert_with(|| api::Role {
                    principal: principal.to_owned(),
                    ..api::Role::default()
                }));
            };
            of(&Principal::Agent(ROLE.into()).to_string(), &mut |_| {});
            for lease in leases::list(&*records)? {
                let holds = leases::holds(&lease, now);
                of(&lease.principal, &mut |role| {
                    role.leases.extend(holds.then(|| lease.id.to_string()));
                });
            }
            for row in journal.runs(false, LOOKED)? {
                // Of one that was forgotten nobody knows whose it was.
                let Ok(charter) = Charter::read(&*journal, row.run) else { continue };
                of(&charter.started.principal, &mut |role| {
                    role.runs += 1;
                    if role.recent.len() < RECENT {
                        role.recent.push(api::RecentRun {
                            run: row.run.to_string(),
                            status: if row.open_gates > 0 && row.status == "active" {
                                "waiting"
                            } else {
                                row.status
                            }
                            .into(),
                            goal: charter.mission.goal.clone(),
                            started_at: row.started_at.0,
                        });
                    }
                });
            }
            Ok(roles.into_values().collect())
        })
        .await
    }
}
