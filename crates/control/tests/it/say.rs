//! Steering, and what is read afterwards: costs and words.

use control::api::{By, Say};

use crate::world::World;

fn say(world: &World, run: &str, text: &str, now: bool) -> Result<(), control::Error> {
    world.block(world.control().run_say(run, Say { text: text.into(), now }))
}

/// The texts of the user's side in the last request that the model was sent.
fn read(world: &World) -> String {
    world.model_requests().last().unwrap()["messages"].to_string()
}

#[test]
fn a_word_is_read_when_the_running_call_has_ended() {
    let world = World::new();
    world.daemon().bare.hold();
    let run = world.start(world.mission()).unwrap().run;
    world.block(world.daemon().bare.started(1));
    say(&world, &run, "mind the tabs", false).unwrap();
    assert!(!read(&world).contains("mind the tabs"));
    world.daemon().bare.release();
    world.gate(&run);
    let requests = world.model_requests();
    let first = requests.iter().position(|request| request.to_string().contains("mind the tabs"));
    assert_eq!(first, Some(1), "in the turn of the call that ran");
    let last = requests[1]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
    assert_eq!((&last[0]["type"], &last[1]["type"]), (&"tool_result".into(), &"text".into()));
}

#[test]
fn a_word_at_the_gate_is_read_when_the_gate_is_refused() {
    let world = World::new();
    let (run, gate) = world.asked(world.note());
    say(&world, &run, "in capitals, please", false).unwrap();
    assert!(!read(&world).contains("in capitals"));
    let before = world.model_requests().len();
    world.answer(&gate, "refuse").unwrap();
    world.until(&run, |_| world.model_requests().len() > before);
    assert!(read(&world).contains("in capitals, please"));
    assert!(read(&world).contains("Your proposal was not merged"));
}

#[test]
fn a_word_survives_the_daemon() {
    let mut world = World::new();
    let (run, _) = world.asked(world.note());
    say(&world, &run, "remember this", false).unwrap();
    world.restart();
    let gate = world.gate(&run);
    let events = world.block(world.control().run_events(&run, 0, 1000)).unwrap();
    let said = events.iter().find(|event| event.fact["fact"] == "said").unwrap();
    assert_eq!((said.content.as_str(), said.source.as_str()), (Some("remember this"), "owner"));
    let line = said.line.as_ref().unwrap();
    assert_eq!((line.kind.as_str(), line.title.as_str()), ("said", "said: remember this"));
    assert_eq!(gate.answer, None);
}

#[test]
fn nothing_too_much_and_too_late_are_refused() {
    let world = World::new();
    let (run, gate) = world.asked(world.note());
    assert_eq!(say(&world, &run, " \n", false).unwrap_err().code, "say.empty");
    assert_eq!(say(&world, &run, &"x".repeat(70_000), true).unwrap_err().code, "say.too_long");
    assert_eq!(say(&world, "zzzz", "hello", false).unwrap_err().code, "run.not_found");
    world.answer(&gate, "approve").unwrap();
    world.ended(&run);
    let late = say(&world, &run, "hello", false).unwrap_err();
    assert_eq!((late.status(), late.detail.as_str()), (409, "the run has ended"));
    assert_eq!(late.hint.as_deref(), Some(crate::world::ENDED_HINT));
}

#[test]
fn costs_add_up_to_what_the_runs_have_spent() {
    let world = World::new();
    let nothing = world.block(world.control().costs(By::Run)).unwrap();
    assert_eq!((nothing.rows.len(), nothing.total.nanodollars), (0, Some(0)));
    let (first, _) = world.asked(world.mission());
    let (second, _) = world.asked(world.note());
    let spent: u64 = [&first, &second]
        .iter()
        .map(|run| world.block(world.control().run_fetch(run)).unwrap().spent.nanodollars)
        .sum();
    for (by, rows) in [(By::Run, 2), (By::Mission, 2), (By::Day, 1), (By::Model, 1)] {
        let costs = world.block(world.control().costs(by)).unwrap();
        assert_eq!(costs.rows.len(), rows, "{by:?}");
        assert_eq!(costs.total.nanodollars, Some(spent));
        assert_eq!(costs.rows.iter().map(|row| row.calls).sum::<u64>(), costs.total.calls);
        let told = costs.total.told.unwrap();
        assert_eq!(told.input + told.output + told.cache_read + told.cache_write, costs.total.tokens);
    }
    let costs = world.block(world.control().costs(By::Run)).unwrap();
    assert_eq!((&costs.rows[0].key, costs.rows[0].title.as_deref()), (&second, Some("Write a note")));
}

#[test]
fn words_are_found_in_all_runs_also_those_recorded_since() {
    let world = World::new();
    let search = |words: &str| world.block(world.control().search(words, 50)).unwrap();
    assert_eq!(search("check").len(), 0);
    let (first, _) = world.asked(world.mission());
    let kinds = |words: &str| search(words).into_iter().map(|hit| (hit.run, hit.kind)).collect::<Vec<_>>();
    assert!(kinds("the check pass").contains(&(first.clone(), "goal".into())));
    let (second, _) = world.asked(world.note());
    say(&world, &second, "the word is xylophone", false).unwrap();
    assert_eq!(kinds("xylophone"), [(second, "said".to_owned())]);
    assert_eq!(world.block(world.control().search(" ?", 5)).unwrap_err().code, "search.empty");
}

#[test]
fn an_index_of_another_journal_is_made_again() {
    let mut world = World::new();
    let (run, _) = world.asked(world.note());
    let found = world.block(world.control().search("note", 50)).unwrap();
    assert!(!found.is_empty());
    world.kill();
    let index = world.layout().home.join("index.db");
    let foreign = journal::SearchIndex::new(&index);
    let mark = kernel::port::Mark { position: 3, hash: domain::Digest::of(b"another") };
    kernel::port::Index::add(&foreign, &[], mark).unwrap();
    drop(foreign);
    world.restart();
    let again = world.block(world.control().search("note", 50)).unwrap();
    assert_eq!(again, found);
    std::fs::remove_file(&index).unwrap();
    world.restart();
    assert_eq!(world.block(world.control().search("note", 50)).unwrap(), found);
    world.gate(&run);
}

#[test]
fn an_artifact_is_fetched_by_the_beginning_of_its_digest() {
    let world = World::new();
    let (_, gate) = world.asked(world.mission());
    let patch = gate.request["patch"].as_str().unwrap();
    let fetch = |name: &str| world.block(world.control().artifact_fetch(name));
    let whole = fetch(patch).unwrap();
    assert!(whole.starts_with(b"diff --git "));
    assert_eq!(fetch(&patch[..12].to_uppercase()).unwrap(), whole);
    assert_eq!(fetch("0000000000").unwrap_err().code, "artifact.not_found");
    for wrong in ["", "abc", "../../regie.db", "xyzw"] {
        assert_eq!(fetch(wrong).unwrap_err().code, "artifact.digest", "`{wrong}`");
    }
}
