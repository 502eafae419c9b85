//! `regie init`: it shows what it finds, writes once, and spends nothing unasked.

use crate::world::{MEND, Said, World, finish};

fn with_key(world: &World, args: &[&str]) -> Said {
    let mut command = world.regie(args);
    command.env("ANTHROPIC_API_KEY", "sk-secret-1").env("OPENAI_API_KEY", "sk-secret-2");
    finish(command)
}

fn written(world: &World) -> Option<String> {
    std::fs::read_to_string(world.project().join("regie.toml")).ok()
}

#[test]
fn a_project_is_set_up_and_its_file_is_honoured() {
    let world = World::new(MEND);
    std::fs::write(world.project().join("Makefile"), "test:\n\tsh check.sh\n").unwrap();
    let said = with_key(&world, &["init", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    for found in ["Make", "Makefile · make test", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
        assert!(said.out.contains(found), "no {found}: {}", said.out);
    }
    assert!(!said.out.contains("sk-secret") && !said.err.contains("sk-secret"), "{said:?}");
    assert!(written(&world).unwrap().contains("\ndone = [\"make test\"]\n"), "{said:?}");
    assert!(world.asked().is_empty(), "no call was made");
    let explained = world.ask(&["config", "explain"]);
    assert!(explained.flat().contains("mission.done make test regie.toml:"), "{}", explained.out);
    // The owner's file says nothing yet: all of it is comments.
    let owners = std::fs::read_to_string(world.home().join("config.toml")).unwrap();
    assert!(owners.lines().all(|line| line.is_empty() || line.starts_with(['#', '['])), "{owners}");
}

#[test]
fn a_file_is_never_overwritten_unasked() {
    let world = World::new(MEND);
    std::fs::write(world.project().join("regie.toml"), "# mine\n").unwrap();
    let said = world.ask(&["init", "--yes"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("is there already, and is left as it is"), "{}", said.err);
    let said = world.ask(&["init", "--force"]);
    assert_eq!(said.code, Some(2), "nobody was asked: {said:?}");
    assert_eq!(written(&world).as_deref(), Some("# mine\n"));
    let said = world.ask(&["init", "--force", "--yes"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(written(&world).unwrap().contains("[mission]"));
    assert!(!world.project().join("regie.toml.new").exists());
}

#[test]
fn without_anybody_to_ask_nothing_is_written_or_spent() {
    let world = World::new(MEND);
    let said = world.ask(&["init", "--check-key"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("hint: pass --yes to write it"), "{}", said.err);
    assert_eq!((written(&world), world.home().exists()), (None, false));
    assert!(world.asked().is_empty(), "no call was made");
}

#[test]
fn a_key_is_checked_by_one_call_whose_cost_is_said_before() {
    let world = World::new("name = \"ok\"\n[[turn]]\ntext = \"ok\"\n");
    let said = world.ask(&["init", "--yes", "--check-key"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let (cost, works) = (said.err.find("at most $0.00"), said.err.find("the key works"));
    assert!(cost.is_some() && cost < works, "{}", said.err);
    let asked = world.asked();
    assert_eq!((asked.len(), &asked[0]["max_tokens"]), (1, &1.into()), "{asked:?}");
}

#[test]
fn a_key_that_does_not_work_is_said_and_the_file_is_written_all_the_same() {
    let world =
        World::with(MEND, testkit::script::Options { key: Some("sk-other".into()), ..Default::default() });
    let said = world.ask(&["init", "--yes", "--check-key"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("the key does not work") && said.err.contains("401"), "{}", said.err);
    assert!(written(&world).is_some() && !said.err.contains("sk-scripted"), "{said:?}");
}

#[test]
fn outside_of_a_repository_there_is_nothing_to_write() {
    let world = World::empty();
    let said = world.ask(&["init", "--yes"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("is not in a git repository") && said.err.contains("git init"), "{}", said.err);
}

#[test]
fn one_document_for_programs() {
    let world = World::new(MEND);
    let said = with_key(&world, &["init", "--yes", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let document = said.json();
    assert_eq!(document["file"]["outcome"], "written");
    assert_eq!(document["keys"][0]["name"], "ANTHROPIC_API_KEY");
    assert!(!said.out.contains("sk-secret"));
    assert_eq!(document["file"]["content"].as_str(), written(&world).as_deref());
}
