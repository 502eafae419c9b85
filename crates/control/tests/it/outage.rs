//! A vendor that is down and comes back while a run waits for it.

use control::api::{Resume, Say};
use engine::native::Patience;

use crate::world::{MODEL, World};

/// So many attempts of the first turn of the mission are answered with a 503.
fn down(attempts: u32, patience: Patience) -> World {
    let fault = format!(
        "text = \"It subtracts.\"\n[[scenario.turn.fault]]\nkind = \"status\"\nstatus = 503\nretry_after = \"0\"\n\
         times = {attempts}\n"
    );
    let mut world = World::with(&MODEL.replace("text = \"It subtracts.\"\n", &fault));
    world.patience = patience;
    world.restart();
    world
}

/// Four calls of eight attempts.
const TRIED: u32 = 32;
const HOURS: Patience = Patience { waits: &[3_600_000], lasts: 86_400_000 };

fn waits(world: &World, run: &str) -> usize {
    world.facts(run).iter().filter(|fact| **fact == "timer_set").count()
}

#[test]
fn a_run_goes_on_by_itself_when_its_vendor_is_back() {
    let world = down(TRIED + 8 + 3, Patience { waits: &[1, 20], ..HOURS });
    let (run, gate) = world.asked(world.mission());
    assert_eq!(waits(&world, &run), 2);
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
}

#[test]
fn a_run_that_waits_says_so_reads_what_is_said_and_asks_at_once_when_it_is_resumed() {
    let mut world = down(TRIED, HOURS);
    let run = world.start(world.mission()).unwrap().run;
    let waiting = world.until(&run, |run| run.reason.is_some());
    let told = waiting.reason.unwrap();
    assert_eq!(waiting.status, "active");
    assert!(told.starts_with("waiting for Anthropic since ") && told.contains("503"), "{told}");
    let lines = world.block(world.control().run_events(&run, 0, 1000)).unwrap();
    let line = lines.iter().filter_map(|event| event.line.as_ref()).next_back().unwrap();
    assert_eq!((&line.title, line.mark.as_str()), (&told, "info"));
    // The wait outlives the daemon.
    world.restart();
    world.block(world.control().run_say(&run, Say { text: "look at the sums".into(), now: false })).unwrap();
    assert_eq!(world.until(&run, |_| true).status, "active");
    let resume = || {
        let with_key = Resume { vendor: world.vendor(), record: None };
        world.block(world.control().run_resume(&run, with_key)).unwrap();
    };
    resume();
    // It has all its attempts again; the server takes what begins with other words for another conversation.
    world.until(&run, |_| waits(&world, &run) == 2);
    let asked = world.model_requests();
    assert_eq!(asked.len(), 2 * TRIED as usize);
    assert!(!asked[0]["messages"].to_string().contains("look at the sums"));
    assert!(asked[TRIED as usize]["messages"].to_string().contains("look at the sums"));
    resume();
    let gate = world.gate(&run);
    world.answer(&gate, "approve").unwrap();
    assert_eq!(world.ended(&run).0, "done");
}

#[test]
fn a_run_that_is_paused_while_it_waits_asks_when_it_is_resumed() {
    let world = down(TRIED, HOURS);
    let run = world.start(world.mission()).unwrap().run;
    world.until(&run, |run| run.reason.is_some());
    world.block(world.control().run_pause(&run)).unwrap();
    assert_eq!(world.until(&run, |run| run.status == "parked").reason.unwrap(), "stopped by the owner");
    world.block(world.control().run_resume(&run, Resume::default())).unwrap();
    world.gate(&run);
}

#[test]
fn a_run_whose_vendor_stays_out_rests_with_the_reason() {
    let world = down(0, Patience { waits: &[1], lasts: 1 });
    let run = world.start(world.mission()).unwrap().run;
    let rests = world.until(&run, |run| run.status != "active");
    assert_eq!((rests.status.as_str(), rests.code.as_deref()), ("parked", Some("model.status")));
    assert!(rests.reason.unwrap().starts_with("Anthropic has not answered since "));
    world.block(world.control().run_cancel(&run)).unwrap();
    assert_eq!(world.ended(&run).0, "cancelled");
}
