//! The launcher alone, without Regie around it: what the jail's own tests start, and what
//! one can start by hand to look at a jail.
//!
//! Started with `__jail` and a control socket as its standard input it launches, and the tool that it
//! brings along tries what a tool must not be able to do; with `attempt` it tries the same without a jail;
//! with no argument it prints what this machine can enforce.

#[cfg(target_os = "linux")]
mod attempt;

fn main() {
    let args: Vec<_> = std::env::args_os().skip(1).collect();
    let first = args.first().map(|arg| arg.to_string_lossy().into_owned());
    match first.as_deref() {
        #[cfg(target_os = "linux")]
        Some(sandbox::LAUNCH_ARG) => sandbox::launch_resident_main(attempt::tool),
        #[cfg(target_os = "linux")]
        Some("attempt") => std::process::exit(attempt::tool(&args)),
        _ => {}
    }
    for check in sandbox::support(&sandbox::Launcher::this_binary()) {
        show(&check);
    }
}

#[expect(clippy::print_stdout, reason = "printing is all that this is for")]
fn show(check: &sandbox::Check) {
    println!("{}: {:?} ({})", check.id, check.status, check.evidence);
    if let Some(mend) = &check.mend {
        println!("  hint: {mend}");
    }
}
