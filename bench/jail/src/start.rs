//! A jailed `/bin/true` beside the peers' jails.

use std::ffi::OsString;
use std::path::Path;

use anyhow::Result;

use crate::clock::{Took, Work, beside, ratio, spread};
use crate::ground::Ground;
use crate::peers::{self, Library};
use crate::table::Table;

const ROUNDS: usize = 200;
/// The slow ones have a turn in every so many rounds.
const SELDOM: usize = 10;
const PREPARED: &str = "Regie";
const COLD: &str = "Regie, nothing prepared";
const CLI: &str = "regie sandbox run";
const PLAIN: &str = "plain";
const COARSE: &str = "bubblewrap, coarse";
/// The peers, and what a jail of Regie may take of theirs.
const TARGETS: [(&str, f64); 4] = [
    ("bubblewrap", 0.4),
    ("Codex's sandbox", 0.1),
    ("sandbox-runtime, as a library", 0.1),
    ("sandbox-runtime, as a command", 0.1),
];

pub(crate) fn measure(table: &mut Table, ground: &Ground, npm: &Path) -> Result<()> {
    let plan = ground.plan(["/bin/true"]);
    let (prepared, cold) = (ground.launcher(), ground.launcher());
    let (peers, _library) = peers(table, ground, npm);
    let command: Vec<OsString> =
        [ground.regie.clone().into(), "sandbox".into(), "run".into(), "--".into(), "/bin/true".into()].into();
    let plain = [OsString::from("/bin/true")];
    let work = |name, every, once: Box<dyn FnMut() -> Result<()>>| Work { name, every, once, after: None };
    let mut works = vec![
        Work {
            after: Some(Box::new(|| prepared.prepare(&plan.limits))),
            ..work(PREPARED, 1, Box::new(|| ground.jail(&prepared, &plan)))
        },
        work(COLD, 1, Box::new(|| ground.jail(&cold, &plan))),
        work(CLI, 1, Box::new(|| ground.run(&command))),
        work(PLAIN, 1, Box::new(|| ground.run(&plain))),
    ];
    for (name, words) in &peers {
        let every = if name.starts_with("bubblewrap") { 1 } else { SELDOM };
        works.push(work(name, every, Box::new(|| ground.run(words))));
    }
    let took = beside(ROUNDS, works)?;
    let find = |name: &str| took.iter().find(|took| took.name == name);
    let (Some(ours), Some(plain)) = (find(PREPARED), find(PLAIN)) else { return Ok(()) };
    for (name, most) in TARGETS {
        let Some(peer) = find(name) else { continue };
        table.row(
            &format!("time of a jailed /bin/true, Regie / {name}"),
            ratio(&ours.wall, &peer.wall),
            most,
        );
        let note = |table: &mut Table, what: &str, one: &Took| {
            table.note(&format!("  {what}"), ratio(&one.wall, &peer.wall));
        };
        if let (Some(cold), true) = (find(COLD), name == "bubblewrap") {
            note(table, "the same, the first one of a runner: nothing prepared", cold);
        }
        if let (Some(cli), true) = (find(CLI), name == "bubblewrap") {
            note(table, "`regie sandbox run -- /bin/true` / the same", cli);
        }
        table.note("  processor time, what Regie prepares included", spread(vec![ours.cpu / peer.cpu]));
    }
    if let Some(coarse) = find(COARSE) {
        table.note("Regie / bubblewrap with /usr and /etc as a whole", ratio(&ours.wall, &coarse.wall));
    }
    table.note("Regie / a plain start of /bin/true", ratio(&ours.wall, &plain.wall));
    for took in &took {
        let milliseconds = took.wall.iter().flatten().map(|seconds| seconds * 1000.0).collect();
        table.note(&format!("  milliseconds, on this machine: {}", took.name), spread(milliseconds));
    }
    Ok(())
}

/// The peers that are here, as command lines; what is missing fails its target.
fn peers(
    table: &mut Table,
    ground: &Ground,
    npm: &Path,
) -> (Vec<(&'static str, Vec<OsString>)>, Option<Library>) {
    let [bubblewrap, codex, library, command] = TARGETS.map(|(name, _)| name);
    let plan = ground.plan(["/bin/true"]);
    let mut wanted = vec![
        (bubblewrap, Ok(peers::bubblewrap(ground, &plan))),
        (COARSE, Ok(peers::bubblewrap_coarse(ground))),
    ];
    let mut held = None;
    match peers::install(npm) {
        Ok(npm) => {
            wanted.push((codex, Ok(peers::codex(ground, &npm))));
            wanted.push((command, peers::sandbox_runtime(ground, &npm)));
            let opened = Library::open(ground, &npm);
            wanted.push((library, opened.map(|opened| held.insert(opened).words.clone())));
        }
        Err(error) => {
            [codex, library, command].iter().for_each(|name| table.missing(name, &format!("{error:#}")))
        }
    }
    let mut found = Vec::new();
    for (name, words) in wanted {
        match words.and_then(|words| ground.run(&words).map(|()| words)) {
            Ok(words) => found.push((name, words)),
            Err(error) => table.missing(name, &format!("{error:#}")),
        }
    }
    (found, held)
}
