//! `[services]`: a test database and a web service beside the commands, from declaration to the end.

use std::fs;
use std::path::Path;

use serde_json::json;

use crate::world::{World, alive, until};

#[expect(clippy::print_stderr, reason = "a test that proved nothing has to say so")]
fn skipped(why: &str) {
    eprintln!("SKIPPED: {why}");
}

fn shell(command: &str) -> String {
    let input = json!({ "command": command }).to_string();
    format!("[[turn]]\n[[turn.call]]\nname = \"shell\"\njson = {}\n", json!(input))
}

fn done() -> String {
    "[[turn]]\ntext = \"It is there.\"\n".into()
}

fn commit(world: &World, config: &str) {
    fs::write(world.project().join("regie.toml"), config).unwrap();
    for args in [&["add", "."][..], &["commit", "-q", "-m", "A project"]] {
        assert!(world.git(args).status.success());
    }
}

fn seen(world: &World) -> String {
    world.asked().last().map(|request| request["messages"].to_string()).unwrap_or_default()
}

#[test]
fn a_real_postgres_serves_the_steps_and_the_criteria() {
    if !Path::new("/usr/lib/postgresql").exists() {
        skipped("this machine has no PostgreSQL");
        return;
    }
    let path = "export PATH=\"$(ls -d /usr/lib/postgresql/*/bin | tail -1):$PATH\"";
    let sql = |text: &str| format!("{path}; psql -h 127.0.0.1 -U owner -Atc \"{text}\" postgres");
    let write =
        format!("{}; touch made", sql("create table cart (item text); insert into cart values ('apple')"));
    let world = World::new(&[shell(&write), done()].concat());
    let serve = format!(
        "{path}; initdb -D /tmp/db -U owner -A trust > /dev/null && exec postgres -D /tmp/db -k /tmp -c listen_addresses=127.0.0.1"
    );
    let check = format!("test \"$({})\" = apple", sql("select item from cart"));
    commit(
        &world,
        &format!(
            "[mission]\ndone = [{}]\n[services.db]\ncommand = {}\nready = {}\nready_timeout = \"80s\"\n",
            json!(check),
            json!(serve),
            json!(format!("{path}; pg_isready -q -h 127.0.0.1"))
        ),
    );
    let said = world.ask(&["run", "Fill the cart", "--yes"]);
    let log = || {
        fs::read_dir(world.home().join("spool"))
            .unwrap()
            .flatten()
            .map(|spool| fs::read_to_string(spool.path().join("outputs/services/db.log")).unwrap_or_default())
            .collect::<String>()
    };
    assert_eq!(said.code, Some(0), "{said:?}\n{}\n{}", seen(&world), log());
    assert!(said.err.contains("services"), "{}", said.err);
    assert!(
        world.asked()[0].to_string().contains("Services that Regie runs beside"),
        "the agent knows of it"
    );
    assert!(log().contains("ready to accept connections"), "{}", log());
    until("the database is gone with its run", || alive("postgres -D /tmp/db").is_empty());
    world.is_whole();
}

#[test]
fn a_stop_ends_a_service_and_a_resume_starts_it_again() {
    let ready = "true < /dev/tcp/127.0.0.1/4713";
    let look = format!("{ready} && echo it answers");
    let wait = "touch began; exec sleep 1000";
    // What services say goes with the spool soon after the end, so the run waits until it was read.
    let hold = "touch again; until [ -e seen ]; do sleep 0.05; done; rm again seen";
    let world = World::new(&[shell(&look), shell(wait), shell(&look), shell(hold), done()].concat());
    let serve = format!(
        "echo started; exec python3 -m http.server 4713 --bind 127.0.0.1 --directory {}",
        "/workspace"
    );
    commit(&world, &format!("[services.web]\ncommand = {}\nready = {}\n", json!(serve), json!(ready)));
    let run = world.ask(&["run", "Look", "--done", "true", "--yes", "--detach"]).out.trim().to_owned();
    until("the waiting step runs", || world.workspace(&run).join("began").exists());
    let log = world.home().join("spool").join(&run).join("outputs/services/web.log");
    let starts = || fs::read_to_string(&log).unwrap_or_default().matches("started").count();
    assert_eq!(starts(), 1);
    assert_eq!(world.ask(&["stop", &run]).code, Some(0));
    until("the run rests", || world.ask(&["runs", "--json"]).json()[0]["status"] == "parked");
    until("the service is gone", || alive("http.server 4713").is_empty());
    let said = world.ask(&["resume", &run, "--detach"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    until("the last step waits", || world.workspace(&run).join("again").exists());
    assert_eq!(starts(), 2);
    fs::write(world.workspace(&run).join("seen"), "").unwrap();
    let ended = world.ended(&run);
    let told = seen(&world);
    assert_eq!(told.matches("it answers\\n").count(), 2, "{ended:?} {told}");
}
