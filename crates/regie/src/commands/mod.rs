//! What each command does: mostly one request, and its answer shown.

mod archive;
mod audit;
mod bin;
mod catalogue;
mod config;
mod costs;
mod count;
mod forget;
mod fork;
mod gate;
mod goal;
mod halt;
mod keep;
mod lease;
mod log;
mod model_script;
mod notify;
mod policy;
mod read;
mod replay;
mod rest;
mod run;
mod sandbox;
mod say;
mod serve;
mod shell;
mod show;
mod undo;

use control::api;
use models::network::{CERT_DIR_ENV, CERT_FILE_ENV};

pub(crate) use config::place;
pub(crate) use count::Count;
pub(crate) use halt::Halt;
pub(crate) use lease::{Lease, Reach};
pub(crate) use policy::Policy;
pub(crate) use sandbox::Sandbox;

use crate::args::{self, Args, Command, Gate};
use crate::client::Client;
use crate::failure::{Exit, Failure};
use crate::home::Home;
use crate::{doctor, init, screen};

/// What every command is told.
#[derive(Debug)]
struct Context {
    home: Home,
    json: bool,
}

/// Does what was asked for.
///
/// # Errors
/// When it failed, with the words and the exit code.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let Args { home, json, command } = args;
    // One that needs no home.
    let command = match command {
        Command::ModelScript(script) => return model_script::run(&script),
        Command::Completions(args) => return shell::completions(&args),
        Command::Man(args) => return shell::man(&args),
        Command::Sandbox(command) => return sandbox::run(home.as_deref(), json, &command),
        Command::Replay(args) => return replay::run(json, &args),
        other => other,
    };
    let home = Home::resolve(home.as_deref()).map_err(|error| Failure::new(error.to_string()))?;
    let context = Context { home, json };
    // TLS is never spoken on a socket, and the client is built with it all the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    if let Command::Serve(args) = &command
        && !args.stop
    {
        return serve::run(&context, args);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("no runtime can be had: {error}")))?;
    let exit = runtime.block_on(async { client_command(&context, command).await });
    // A read of the keyboard may still be under way.
    runtime.shutdown_background();
    exit
}

async fn client_command(context: &Context, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Run(args) => run::run(context, args).await,
        Command::Runs(args) => show::list(context, &args).await,
        Command::Show(args) => show::one(context, &args).await,
        Command::Log(args) => log::run(context, &args).await,
        Command::Diff(one) => show::diff(context, &one.run).await,
        Command::Say(args) => say::run(context, args).await,
        Command::Costs(args) => costs::run(context, &args).await,
        Command::Cat(args) => read::cat(context, &args.artifact).await,
        Command::Search(args) => read::search(context, &args).await,
        Command::Resume(args) => rest::resume(context, &args).await,
        Command::Fork(args) => fork::run(context, args).await,
        Command::Pause(one) => rest::pause(context, &one.run).await,
        Command::Stop(one) => rest::stop(context, &one.run).await,
        Command::Cancel(one) => rest::cancel(context, &one.run).await,
        Command::Undo(args) => undo::run(context, &args).await,
        Command::Forget(args) => forget::run(context, &args).await,
        Command::Gate(Gate::List { all }) => gate::list(context, all).await,
        Command::Gate(Gate::Show(one)) => gate::show(context, &one.gate).await,
        Command::Gate(Gate::Approve(args)) => {
            let answer = if args.always { "approve_always" } else { "approve" };
            gate::answer(context, &args.one.gate, answer).await
        }
        Command::Gate(Gate::Refuse(one)) => gate::answer(context, &one.gate, "refuse").await,
        Command::Gate(Gate::WasDone(one)) => gate::answer(context, &one.gate, "was_done").await,
        Command::Gate(Gate::Repeat(one)) => gate::answer(context, &one.gate, "repeat").await,
        Command::Policy(policy) => policy::run(context, policy).await,
        Command::Audit(args::Audit::Verify) => audit::verify(context).await,
        Command::Audit(args::Audit::WhoChanged(args)) => audit::who_changed(context, &args.place).await,
        Command::Export(args) => archive::export(context, args).await,
        Command::Import(args) => archive::import(context, args).await,
        Command::Lease(command) => lease::run(context, command).await,
        Command::Roles => lease::roles(context).await,
        Command::Halt(args) => halt::run(context, args).await,
        Command::Audit(args::Audit::WhoRead(args)) => audit::reads::who(context, &args.file).await,
        Command::Audit(args::Audit::Reads(args)) => audit::reads::of_run(context, &args.run).await,
        Command::Audit(args::Audit::Acts) => audit::acts(context).await,
        Command::Du => keep::usage(context).await,
        Command::Gc(args) => keep::sweep(context, &args).await,
        Command::Bin(args) => bin::run(context, args).await,
        Command::Notify(args::Notify::Test) => notify::test(context).await,
        Command::Init(args) => init::run(&context.home, context.json, &args).await,
        Command::Config(args) => config::run(context, args),
        Command::Models(args) => catalogue::run(context, args).await,
        Command::Doctor => doctor::run(&context.home, context.json).await,
        Command::Serve(_) => serve::stop(context).await,
        // Handled before there is a runtime.
        Command::ModelScript(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Replay(_)
        | Command::Sandbox(_) => Ok(Exit::Usage),
    }
}

impl Context {
    async fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&self.home).await?)
    }
}

/// The vendors' keys and addresses as this environment names them, and how its network reaches them.
pub(crate) fn vendor() -> api::Vendor {
    let mut vendor = api::Vendor::from_lookup(|name| std::env::var(name).ok());
    // The daemon stands elsewhere.
    let absolute = |path: &std::path::Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for (name, value) in &mut vendor.network {
        let paths = match name.as_str() {
            CERT_FILE_ENV => vec![absolute(value.as_ref())],
            CERT_DIR_ENV => std::env::split_paths(value.as_str()).map(|path| absolute(&path)).collect(),
            _ => continue,
        };
        if let Some(text) = std::env::join_paths(paths).ok().and_then(|paths| paths.into_string().ok()) {
            *value = text;
        }
    }
    vendor
}

/// The label of a row, and what it says.
fn row(name: &str, value: &str) -> String {
    format!("  {} {value}\n", screen::style::dim(&format!("{name:<9}")))
}
