//! The launcher alone, without Regie around it: what the jail's own tests start, and what
//! one can start by hand to look at a jail.
//!
//! Started with `__jail` and a control socket as its standard input it launches; with no
//! argument it prints what this machine can enforce.

fn main() {
    if std::env::args_os().nth(1).is_some_and(|arg| arg == sandbox::LAUNCH_ARG) {
        sandbox::launch_main();
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
