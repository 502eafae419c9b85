//! The daemon's API over its socket. Every command but a few is a client of it; the daemon is started
//! when there is none.

mod error;
mod live;
mod start;

pub(crate) use error::Error;
pub(crate) use live::Item;

use std::time::Duration;

use control::api;
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::disk;
use crate::home::Home;

/// How long a daemon may take to say who it is.
const HELLO_WITHIN: Duration = Duration::from_secs(5);
/// A stream that shows no life for this long, heartbeats included, is dead.
const SILENCE: Duration = Duration::from_secs(45);
/// The host is not used: everything goes through the socket.
const BASE: &str = "http://regie/api/v1";

/// A client of one home's daemon.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    home: Home,
    calls: reqwest::Client,
    streams: reqwest::Client,
}

impl Client {
    /// A client of the running daemon, which is started when there is none.
    ///
    /// # Errors
    /// When no daemon can be started, or it is of another version.
    pub(crate) async fn connect(home: &Home) -> Result<Self, Error> {
        Self::connect_as(home, start::Begin::Going).await
    }

    /// The same, where a daemon that is not there yet halts everything before it takes any run over.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub(crate) async fn connect_to_halt(home: &Home) -> Result<Self, Error> {
        Self::connect_as(home, start::Begin::Halted).await
    }

    async fn connect_as(home: &Home, begin: start::Begin) -> Result<Self, Error> {
        let client = Self::new(home)?;
        match client.hello().await {
            Ok(hello) => client.check(&hello)?,
            // One that dies at this moment may have taken the connection along.
            Err(Error::Unreachable { .. } | Error::Broken(_)) => client.start(begin).await?,
            Err(error) => return Err(error),
        }
        Ok(client)
    }

    /// A client that starts nothing.
    ///
    /// # Errors
    /// When the socket's place is not the user's own.
    pub(crate) fn new(home: &Home) -> Result<Self, Error> {
        home.check_socket().map_err(Error::Home)?;
        let builder = || {
            reqwest::Client::builder()
                .unix_socket(home.socket())
                .no_proxy()
                .http1_only()
                .tls_certs_only([])
                .redirect(reqwest::redirect::Policy::none())
        };
        let calls = builder().build().map_err(Error::Client)?;
        let streams = builder().read_timeout(SILENCE).build().map_err(Error::Client)?;
        Ok(Self { home: home.clone(), calls, streams })
    }

    async fn start(&self, begin: start::Begin) -> Result<(), Error> {
        let hello = start::daemon(self, begin).await?;
        self.check(&hello)
    }

    fn check(&self, hello: &api::Hello) -> Result<(), Error> {
        if hello.api == api::VERSION {
            return Ok(());
        }
        Err(Error::Version {
            daemon: hello.version.clone(),
            daemon_api: hello.api,
            client_api: api::VERSION,
            pid: hello.pid,
        })
    }

    pub(crate) async fn hello(&self) -> Result<api::Hello, Error> {
        let request = self.request(Method::GET, "/version").timeout(HELLO_WITHIN);
        self.answer(request).await
    }

    pub(crate) async fn models(&self, wanted: &api::ReadModels) -> Result<api::Models, Error> {
        self.post("/models", wanted).await
    }

    pub(crate) async fn mission_start(&self, wanted: &api::StartMission) -> Result<api::Started, Error> {
        self.post("/missions", wanted).await
    }

    pub(crate) async fn run_list(&self, only_open: bool) -> Result<Vec<api::Run>, Error> {
        self.get(&format!("/runs?open={only_open}")).await
    }

    pub(crate) async fn run_fetch(&self, run: &str) -> Result<api::Run, Error> {
        self.get(&format!("/runs/{}", name(run)?)).await
    }

    /// A page of a run's events.
    pub(crate) async fn run_events(&self, run: &str, after_seq: u64) -> Result<Vec<api::Event>, Error> {
        self.get(&format!("/runs/{}/events?after={after_seq}", name(run)?)).await
    }

    pub(crate) async fn run_diff(&self, run: &str) -> Result<api::Diff, Error> {
        self.get(&format!("/runs/{}/diff", name(run)?)).await
    }

    pub(crate) async fn run_fork(&self, run: &str, wanted: &api::Fork) -> Result<api::Started, Error> {
        self.post(&format!("/runs/{}/fork", name(run)?), wanted).await
    }

    pub(crate) async fn run_pause(&self, run: &str) -> Result<(), Error> {
        self.command(&format!("/runs/{}/pause", name(run)?), &()).await
    }

    pub(crate) async fn run_stop(&self, run: &str) -> Result<(), Error> {
        self.command(&format!("/runs/{}/stop", name(run)?), &()).await
    }

    pub(crate) async fn run_cancel(&self, run: &str) -> Result<(), Error> {
        self.command(&format!("/runs/{}/cancel", name(run)?), &()).await
    }

    pub(crate) async fn run_resume(&self, run: &str, with: &api::Resume) -> Result<(), Error> {
        self.command(&format!("/runs/{}/resume", name(run)?), with).await
    }

    pub(crate) async fn run_undo(&self, run: &str) -> Result<api::Undone, Error> {
        self.post(&format!("/runs/{}/undo", name(run)?), &()).await
    }

    pub(crate) async fn run_forget(&self, run: &str, order: &api::Forget) -> Result<api::Forgotten, Error> {
        self.post(&format!("/runs/{}/forget", name(run)?), order).await
    }

    pub(crate) async fn run_say(&self, run: &str, said: &api::Say) -> Result<(), Error> {
        self.command(&format!("/runs/{}/say", name(run)?), said).await
    }

    pub(crate) async fn costs(&self, by: &str) -> Result<api::Costs, Error> {
        self.get(&format!("/costs?by={}", name(by)?)).await
    }

    pub(crate) async fn search(&self, words: &str, limit: usize) -> Result<Vec<api::Hit>, Error> {
        self.get(&format!("/search?limit={limit}&text={}", encoded(words))).await
    }

    /// The bytes of an artifact.
    pub(crate) async fn artifact(&self, digest: &str) -> Result<Vec<u8>, Error> {
        let response = self.send(self.request(Method::GET, &format!("/artifacts/{}", name(digest)?))).await?;
        Ok(response.bytes().await.map_err(|source| self.broken(source))?.into())
    }

    pub(crate) async fn gate_list(&self, only_open: bool) -> Result<Vec<api::Gate>, Error> {
        self.get(&format!("/gates?open={only_open}")).await
    }

    pub(crate) async fn gate_report(&self, within: u64) -> Result<api::GateReport, Error> {
        self.get(&format!("/reports/gates?within={within}")).await
    }

    pub(crate) async fn proposal_list(&self, only_open: bool) -> Result<Vec<api::Proposal>, Error> {
        self.get(&format!("/proposals?open={only_open}")).await
    }

    pub(crate) async fn proposal_fetch(&self, run: &str) -> Result<Vec<api::Proposal>, Error> {
        self.get(&format!("/runs/{}/proposals", name(run)?)).await
    }

    pub(crate) async fn gate_fetch(&self, gate: &str) -> Result<api::Gate, Error> {
        self.get(&format!("/gates/{}", name(gate)?)).await
    }

    pub(crate) async fn gate_answer(&self, gate: &str, answer: &api::AnswerGate) -> Result<api::Gate, Error> {
        self.post(&format!("/gates/{}/answer", name(gate)?), answer).await
    }

    pub(crate) async fn policy_list(&self, project: Option<&str>) -> Result<api::Policy, Error> {
        let query = project.map(|project| format!("?project={}", encoded(project)));
        self.get(&format!("/policy{}", query.unwrap_or_default())).await
    }

    pub(crate) async fn policy_explain(&self, asked: &api::Explain) -> Result<api::Explained, Error> {
        self.post("/policy/explain", asked).await
    }

    pub(crate) async fn policy_why(&self, asked: &api::AskWhy) -> Result<api::Why, Error> {
        self.post("/policy/why", asked).await
    }

    pub(crate) async fn usage(&self) -> Result<api::Usage, Error> {
        self.get("/usage").await
    }

    pub(crate) async fn sweep(&self, order: &api::Sweep) -> Result<api::Swept, Error> {
        self.post("/sweep", order).await
    }

    pub(crate) async fn bin_list(&self) -> Result<Vec<api::Binned>, Error> {
        self.get("/bin").await
    }

    pub(crate) async fn bin_fetch(&self, run: &str) -> Result<api::BinnedShown, Error> {
        self.get(&format!("/bin/{}", name(run)?)).await
    }

    pub(crate) async fn bin_restore(&self, run: &str) -> Result<api::Restored, Error> {
        self.post(&format!("/bin/{}/restore", name(run)?), &()).await
    }

    pub(crate) async fn bin_empty(&self, order: &api::EmptyBin) -> Result<Vec<api::Binned>, Error> {
        self.post("/bin/empty", order).await
    }

    pub(crate) async fn project_export(&self, wanted: &api::Export) -> Result<api::Carried, Error> {
        self.post("/export", wanted).await
    }

    pub(crate) async fn project_import(&self, wanted: &api::Import) -> Result<api::Carried, Error> {
        self.post("/import", wanted).await
    }

    pub(crate) async fn who_changed(&self, wanted: &api::WhoChanged) -> Result<Vec<api::Changed>, Error> {
        self.post("/audit/changed", wanted).await
    }

    pub(crate) async fn who_read(&self, wanted: &api::WhoRead) -> Result<Vec<api::Reader>, Error> {
        self.post("/audit/read", wanted).await
    }

    pub(crate) async fn run_reads(&self, run: &str) -> Result<api::Manifest, Error> {
        self.get(&format!("/runs/{}/reads", name(run)?)).await
    }

    pub(crate) async fn lease_list(&self, all: bool) -> Result<Vec<api::Lease>, Error> {
        self.get(&format!("/leases?all={all}")).await
    }

    pub(crate) async fn lease_fetch(&self, lease: &str) -> Result<api::LeaseRecord, Error> {
        self.get(&format!("/leases/{}", name(lease)?)).await
    }

    pub(crate) async fn lease_mint(&self, wanted: &api::MintLease) -> Result<api::Minted, Error> {
        self.post("/leases", wanted).await
    }

    pub(crate) async fn lease_revoke(&self, lease: &str) -> Result<api::Lease, Error> {
        self.post(&format!("/leases/{}/revoke", name(lease)?), &()).await
    }

    pub(crate) async fn role_list(&self) -> Result<Vec<api::Role>, Error> {
        self.get("/roles").await
    }

    pub(crate) async fn act_list(&self) -> Result<Vec<api::Act>, Error> {
        self.get("/acts").await
    }

    pub(crate) async fn halt_fetch(&self) -> Result<api::Halt, Error> {
        self.get("/halt").await
    }

    pub(crate) async fn halt_raise(&self, wanted: &api::RaiseHalt) -> Result<api::Halt, Error> {
        self.post("/halt", wanted).await
    }

    pub(crate) async fn halt_lift(&self) -> Result<api::Halt, Error> {
        self.post("/halt/lift", &()).await
    }

    pub(crate) async fn audit_verify(&self) -> Result<api::Audit, Error> {
        self.post("/audit/verify", &()).await
    }

    /// Asks the daemon that runs to end; none is started for it.
    pub(crate) async fn shutdown(&self) -> Result<(), Error> {
        self.command("/shutdown", &()).await
    }

    /// The live stream of a run from `after` on; it reconnects by itself and ends with an error.
    pub(crate) fn live(&self, run: &str, after: u64) -> Result<mpsc::Receiver<Result<Item, Error>>, Error> {
        Ok(live::spawn(self.clone(), name(run)?.to_owned(), after))
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        self.answer(self.request(Method::GET, path)).await
    }

    async fn post<T: DeserializeOwned>(&self, path: &str, body: &impl Serialize) -> Result<T, Error> {
        self.answer(self.request(Method::POST, path).json(body)).await
    }

    /// A request whose answer has no body.
    async fn command(&self, path: &str, body: &impl Serialize) -> Result<(), Error> {
        self.send(self.request(Method::POST, path).json(body)).await.map(|_| ())
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.calls.request(method, format!("{BASE}{path}")).header(server::HEADER, api::VERSION)
    }

    async fn stream(&self, run: &str, after: u64) -> Result<Response, Error> {
        let path = format!("{BASE}/events?run={run}&after={after}");
        self.send(self.streams.get(path).header(server::HEADER, api::VERSION)).await
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let response = self.send(request).await?;
        let bytes = response.bytes().await.map_err(|source| self.broken(source))?;
        serde_json::from_slice(&bytes).map_err(Error::Unreadable)
    }

    /// Sends, and takes a problem out of the answer.
    async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|source| self.broken(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let bytes = response.bytes().await.map_err(|source| self.broken(source))?;
        match serde_json::from_slice::<api::Problem>(&bytes) {
            Ok(problem) => Err(Error::Refused(self.laid_to_the_disk(problem))),
            Err(_) => Err(Error::Status(status.as_u16())),
        }
    }

    /// What the daemon could not do for want of room: no other hint helps before there is some.
    fn laid_to_the_disk(&self, problem: api::Problem) -> api::Problem {
        let is_full = || disk::room(self.home.root()).is_some_and(|room| room < disk::LEAST_ROOM);
        if problem.status < 500 || !is_full() {
            return problem;
        }
        let home = self.home.root().display();
        let hint = format!("the disk under {home} is full: free some space, then run this again");
        api::Problem { hint: Some(hint), ..problem }
    }

    fn broken(&self, source: reqwest::Error) -> Error {
        // The address is no news and its host is made up.
        let source = source.without_url();
        if source.is_connect() {
            Error::Unreachable { socket: self.home.socket(), source }
        } else {
            Error::Broken(source)
        }
    }
}

/// Words that a person typed, as the value of a query.
fn encoded(words: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    words.bytes().map(byte).collect()
}

/// A name that a person typed, as a part of a path.
fn name(text: &str) -> Result<&str, Error> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !text.is_empty() && text.len() <= 128 && text.bytes().all(plain) {
        Ok(text)
    } else {
        Err(Error::Name(crate::screen::text::short(&crate::screen::text::line(text), 40)))
    }
}
