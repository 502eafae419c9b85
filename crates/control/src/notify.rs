//! What the owner is told of when nobody is watching. A notification follows from one event, and its id
//! from the event's place, so that the same one may be told twice and be known for the same.

use domain::fact::{End, Parking};
use domain::{Fact, Mission, Recorded};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::runs::Charter;
use crate::{Control, view};

/// The longest goal that is told, in characters.
const GOAL: usize = 200;

/// Something that the owner wants to know. It holds the owner's own words and Regie's, and nothing that
/// an agent or a program wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// The same for the same event, however often it is told.
    pub id: String,
    /// `gate`, `ended`, `parked` or `test`.
    pub event: String,
    /// The run.
    pub run: String,
    /// The mission.
    pub mission: String,
    /// The beginning of the goal.
    pub goal: String,
    /// What has happened, in a few words.
    pub title: String,
    /// How to go on.
    pub body: String,
    /// Where to look at it, where there is such a place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// When it happened, in milliseconds since the Unix epoch.
    pub at: u64,
}

/// Notifications with the positions of their events.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// In the order of the events.
    pub notifications: Vec<(u64, Notification)>,
    /// Up to where events were looked at.
    pub position: u64,
}

/// What an event tells the owner; mostly nothing. `asked` is the question of its gate.
pub fn derive(event: &Recorded, mission: &Mission, asked: Option<&str>) -> Option<Notification> {
    let run = event.header.run;
    let (name, title, body) = match &event.header.fact {
        Fact::GateOpened { gate, .. } => (
            "gate",
            asked.unwrap_or("The run waits for your answer").to_owned(),
            format!("regie gate show {gate}, then approve or refuse it"),
        ),
        Fact::Ended { end } => ("ended", ended(*end).to_owned(), format!("regie show {run}")),
        // What is repeated are calls of the agent: its words go nowhere.
        Fact::Parked { reason: Parking::Blocked { code, .. } } if code == engine::native::STALLED => (
            "parked",
            "The run rests: the agent repeats itself".to_owned(),
            format!("regie show {run}; then regie say {run} \"…\", and regie resume {run}"),
        ),
        Fact::Parked { reason: Parking::Blocked { hint, .. } } => {
            ("parked", "The run rests".to_owned(), format!("{hint}; then: regie resume {run}"))
        }
        Fact::Parked { reason: Parking::Stopped } => {
            ("parked", "The run rests".to_owned(), format!("it was stopped; go on with: regie resume {run}"))
        }
        _ => return None,
    };
    let goal = mission.goal.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(Notification {
        id: format!("{run}.{}", event.header.seq),
        event: name.into(),
        run: run.to_string(),
        mission: mission.id.to_string(),
        goal: goal.chars().take(GOAL).collect(),
        title,
        body,
        link: None,
        at: event.header.at.0,
    })
}

const fn ended(end: End) -> &'static str {
    match end {
        End::Done => "Done",
        End::Partial => "Ended with a part of the work on its branch",
        End::Blocked => "Ended: the agent cannot go on by itself",
        End::Failed => "Failed",
        End::Cancelled => "Cancelled",
        End::BudgetExhausted => "Ended: its budget is exhausted",
    }
}

impl Control {
    /// What the events after a position tell the owner, looking at `limit` of them at most.
    ///
    /// # Errors
    /// When the journal cannot be read.
    pub async fn notifications_after(&self, position: u64, limit: usize) -> Result<Told, Error> {
        let journal = self.journal();
        self.blocking(move || {
            let events = journal.stream(position, limit)?;
            let mut told = Told { notifications: Vec::new(), position };
            for event in &events {
                told.position = event.position;
                let fact = &event.header.fact;
                if !matches!(fact, Fact::GateOpened { .. } | Fact::Ended { .. } | Fact::Parked { .. }) {
                    continue;
                }
                let mission = match Charter::read(&*journal, event.header.run) {
                    Ok(charter) => charter.mission,
                    Err(error) => {
                        let why = view::with_causes(&error);
                        tracing::warn!(run = %event.header.run, why, "nobody is told of an event");
                        continue;
                    }
                };
                let asked = match fact {
                    Fact::GateOpened { gate, .. } => crate::gates::question(&*journal, *gate),
                    _ => None,
                };
                let notification = derive(event, &mission, asked.as_deref());
                told.notifications.extend(notification.map(|one| (event.position, one)));
            }
            Ok(told)
        })
        .await
    }
}
