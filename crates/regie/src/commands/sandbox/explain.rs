//! `regie sandbox explain`: the compiled plan, each mount with the rule that gave it, and what of it this machine
//! enforces.

use std::path::Path;

use ::sandbox::compile::{Laid, Rules, Verb, Why};
use ::sandbox::{Access, Check, HOME, Limits, Network, Status, overall, support};
use serde_json::{Value, json};

use super::plan::{self, Made};
use super::{Options, launcher};
use crate::failure::{Exit, Failure};
use crate::screen::{self, style, table, text};

pub(super) fn run(regie: Option<&Path>, json: bool, options: &Options) -> Result<Exit, Failure> {
    let made = plan::make(regie, options)?;
    let checks = support(&launcher());
    let exit = if overall(&checks) == Status::Enforced { Exit::Done } else { Exit::Failed };
    if json {
        screen::put_json(&document(&made, options, &checks))?;
    } else {
        screen::put(&page(&made, options, &checks))?;
    }
    Ok(exit)
}

/// What is in every jail, beside what the rules show.
const OWN: [(&str, &str); 4] = [
    ("/tmp", "scratch, gone with the program; so are /dev/shm and the home"),
    (HOME, "the home in there"),
    ("/proc", "of the jail's own processes, read-only"),
    ("/dev", "null, zero, full, random, urandom"),
];

fn page(made: &Made, options: &Options, checks: &[Check]) -> String {
    let plan = &made.plan;
    let command: Vec<String> = plan.argv.iter().map(|word| text::line(&word.to_string_lossy())).collect();
    let mut page = String::new();
    let mut line = |name: &str, value: &str| {
        page.push_str(&format!("{} {value}\n", style::dim(&format!("{name:<10}"))));
    };
    line("program", &command.join(" "));
    line("directory", &text::line(&plan.cwd.to_string_lossy()));
    line("tier", tier(options.tier));
    line("network", network(plan.network));
    line("limits", &limits(&plan.limits, options.time));
    line("variables", &plan.env.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(" "));
    if !made.unset.is_empty() {
        line("not set", &made.unset.join(" "));
    }
    page.push('\n');
    let mut rows: Vec<Vec<String>> =
        OWN.iter().map(|(path, what)| vec![(*path).to_owned(), "own".into(), (*what).to_owned()]).collect();
    rows.extend(made.compiled.laid.iter().map(|laid| {
        vec![
            text::line(&laid.mount.target.to_string_lossy()),
            access(laid.mount.access).to_owned(),
            text::line(&reason(laid, &made.rules)),
        ]
    }));
    // Nothing is cut: what is denied must be read whole.
    page.push_str(&table::table(&["MOUNT", "ACCESS", "WHY"], &rows, usize::MAX));
    for rule in idle(made) {
        page.push_str(&format!(
            "\n{} {} changes nothing: it means nothing that is granted\n",
            style::hint("note:"),
            text::line(rule)
        ));
    }
    for note in frozen(made) {
        page.push_str(&format!("\n{} {}\n", style::hint("note:"), text::line(&note)));
    }
    page.push('\n');
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|check| vec![check.id.clone(), state(&check.status).to_owned(), text::line(&check.evidence)])
        .collect();
    page.push_str(&table::table(&["LAYER", "STATUS", "EVIDENCE"], &rows, usize::MAX));
    for check in checks {
        if let Some(mend) = &check.mend {
            page.push_str(&format!("{} {}\n", style::hint("hint:"), text::line(mend)));
        }
    }
    page.push_str(&format!("\n{}\n", LAYERS.join("\n")));
    page
}

/// What holds a program beside the mounts.
const LAYERS: [&str; 4] = [
    "namespaces of its own: user, mount, process, network (unless --net host), IPC, host name, cgroup",
    "Landlock, as new as the kernel has it: nothing but what is writable above can be written; signals and abstract sockets stay inside from ABI 6 on",
    "seccomp: no mounts, no new namespaces, no ptrace, no keys, no BPF, no io_uring, no clone3, no raw sockets, no typing into terminals",
    "no privileges, no new ones, no inherited descriptors but the three standard ones, a session without a controlling terminal",
];

fn document(made: &Made, options: &Options, checks: &[Check]) -> Value {
    let plan = &made.plan;
    let mounts: Vec<Value> = made
        .compiled
        .laid
        .iter()
        .map(|laid| {
            json!({
                "target": laid.mount.target, "source": laid.mount.source, "access": laid.mount.access,
                "why": laid.why, "rule": laid.rule.and_then(|rule| made.rules.paths.get(rule)).map(|rule| &rule.origin),
            })
        })
        .collect();
    let argv: Vec<String> = plan.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    json!({
        "argv": argv, "cwd": plan.cwd, "tier": options.tier, "exec": plan.exec, "network": plan.network,
        "limits": plan.limits, "time_millis": options.time,
        "variables": plan.env.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        "unset": made.unset, "mounts": mounts, "idle": idle(made).collect::<Vec<_>>(),
        "status": overall(checks), "checks": checks,
    })
}

/// The rules that somebody wrote and that change nothing.
fn idle(made: &Made) -> impl Iterator<Item = &str> {
    let rules = made.compiled.idle.iter().filter_map(|rule| made.rules.paths.get(*rule));
    rules.map(|rule| rule.origin.as_str()).filter(|origin| origin.starts_with("--deny"))
}

/// What a rule costs that has no directory for a boundary.
fn frozen(made: &Made) -> impl Iterator<Item = String> {
    made.compiled.laid.iter().filter(|laid| laid.why == Why::Frozen).filter_map(|laid| {
        let rule = made.rules.paths.get(laid.rule?)?;
        Some(format!(
            "{} is read-only, as a new file in it could be one that `{}` means; a rule that names the file or a \
             directory leaves it writable",
            laid.mount.target.display(),
            rule.origin
        ))
    })
}

fn reason(laid: &Laid, rules: &Rules) -> String {
    let rule = laid.rule.and_then(|rule| rules.paths.get(rule));
    let origin = rule.map_or("the system", |rule| rule.origin.as_str());
    match laid.why {
        Why::System => "the system".into(),
        Why::Granted => origin.into(),
        Why::Denied if rule.is_none_or(|rule| rule.verb == Verb::Deny) => {
            format!("{origin}: covered by something empty")
        }
        Why::Denied => origin.into(),
        Why::Absent => format!("{origin}: not there, and cannot be made"),
        Why::Unreadable => format!("{origin}: cannot be looked into, so it is covered"),
        Why::Frozen => format!("{origin}: nothing new can be made in it"),
        Why::Reopened => "the directory around it; the rules that keep that do not reach here".into(),
        Why::Held => "leads to what is protected: can be neither renamed nor removed".into(),
    }
}

const fn access(access: Access) -> &'static str {
    match access {
        Access::Read => "read, execute",
        Access::ReadNoExec => "read",
        Access::Write => "read, write, execute",
        Access::WriteNoExec => "read, write",
        Access::Private => "scratch",
        Access::Link => "link",
        Access::Cover => "denied",
        Access::Hold => "held",
    }
}

const fn state(status: &Status) -> &'static str {
    match status {
        Status::Enforced => "enforced",
        Status::Unsupported(_) => "unsupported",
        Status::Degraded(_) => "degraded",
    }
}

const fn tier(tier: u8) -> &'static str {
    match tier {
        0 => {
            "0: nothing is written but scratch, and no program executed but this one, once, with what starts it"
        }
        _ => "1: confined by the operating system",
    }
}

const fn network(network: Network) -> &'static str {
    match network {
        Network::None => "none but a loopback of its own",
        Network::Host => "what this machine reaches, its loopback included",
    }
}

fn limits(limits: &Limits, time: Option<u64>) -> String {
    let time = time.map_or("no bound on time".to_owned(), text::span);
    format!(
        "{} of memory in all and a process, {} and {} files written in all, {} processes, {} open files a process, {} \
         a file, {} of scratch each, {time}",
        text::bytes(limits.memory_bytes),
        text::bytes(limits.disk_bytes),
        text::count(limits.disk_files),
        limits.processes,
        limits.open_files,
        text::bytes(limits.file_size_bytes),
        text::bytes(limits.scratch_bytes),
    )
}
