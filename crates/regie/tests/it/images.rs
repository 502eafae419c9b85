//! The agent looks at a picture, on each wire; and no picture brings a run to its end.

use domain::Digest;
use models::Wire;

use crate::world::{Said, World, finish, until};

/// The beginning of each image's base64, on each wire.
const PNG: &str = "iVBORw0KGgo";

/// Looks at a picture, mends the sum, and is done.
const LOOK: &str = r#"
name = "look"

[[turn]]
text = "I look at the picture first."
[[turn.call]]
name = "read"
input = { path = "shot.png" }
[[turn.call]]
name = "read"
input = { path = "sum.sh" }

[[turn]]
text = "I change the sign."
[[turn.call]]
name = "edit"
input = { path = "sum.sh", old = "$1 - $2", new = "$1 + $2" }

[[turn]]
text = "The sum is right now."
"#;

fn png(width: u32, length: usize) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(480_u32.to_be_bytes());
    bytes.resize(length, 7);
    bytes
}

/// A repository with a picture.
fn world(scenario: &str, picture: &[u8]) -> World {
    let world = World::new(scenario);
    std::fs::write(world.project().join("shot.png"), picture).unwrap();
    assert!(world.git(&["add", "."]).status.success());
    assert!(world.git(&["commit", "-q", "-m", "Picture"]).status.success());
    world
}

fn run(world: &World, wire: Wire) -> Said {
    let model = match wire {
        Wire::Messages => "scripted",
        Wire::Responses => "openai/scripted",
        Wire::Chat => "local/scripted",
    };
    let words = ["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--model", model];
    finish(world.regie_on(wire, "", &words))
}

fn counts(world: &World) -> Vec<usize> {
    world.sent().iter().map(|body| body.matches(PNG).count()).collect()
}

#[test]
fn a_picture_is_looked_at_on_each_wire_and_kept_as_an_artifact() {
    for wire in Wire::ALL {
        let picture = png(640, 12_000);
        let world = world(LOOK, &picture);
        let said = run(&world, wire);
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        assert_eq!(counts(&world), [0, 1, 1], "{wire:?}");
        let shown = world.ask(&["show", "last"]);
        assert!(shown.flat().contains("shot.png image 640×480 png 12 KB"), "{}", shown.out);
        let json = world.ask(&["show", "last", "--json"]).out;
        let digest = Digest::of(&picture).to_string();
        assert!(json.contains(&digest) && json.contains("image/png"), "{json}");
        let events = format!("{:?}", world.events("last"));
        assert!(events.contains(&digest) && !events.contains(PNG), "the record holds no bytes of it");
        world.is_whole();
    }
}

#[test]
fn case_30_a_picture_that_the_vendor_refuses_is_left_out_and_the_mission_is_done() {
    for (wire, status, message) in [
        (
            Wire::Messages,
            400,
            "messages.2.content.0: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes",
        ),
        (Wire::Responses, 400, "The image data you provided does not represent a valid image."),
        (Wire::Chat, 500, "image input is not supported - hint: you may need to provide the mmproj"),
    ] {
        let text = "text = \"I change the sign.\"";
        let fault =
            format!("{text}\n[[turn.fault]]\nkind = 'status'\nstatus = {status}\nmessage = '{message}'");
        let scenario = LOOK.replacen(text, &fault, 1);
        let world = world(&scenario, &png(640, 12_000));
        let said = run(&world, wire);
        assert_eq!(said.code, Some(0), "{wire:?}: {said:?}");
        assert_eq!(counts(&world), [0, 1, 0, 0], "{wire:?}");
        let after = &world.sent()[2];
        assert!(after.contains("the image is not shown any more"), "{wire:?}: {after}");
        world.is_whole();
    }
}

#[test]
fn case_30_a_picture_that_is_too_large_never_reaches_the_vendor() {
    let world = world(LOOK, &png(9_000, 12_000));
    let said = run(&world, Wire::Messages);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(counts(&world), [0, 0, 0]);
    assert!(world.sent()[1].contains("9000×480 pixels") && world.sent()[1].contains("Resize it first"));
    world.is_whole();
}

#[test]
fn a_model_that_is_known_to_look_at_no_images_is_told_so() {
    let world = world(&format!("{LOOK}\n[[model]]\nid = \"scripted\"\nvision = false\n"), &png(640, 12_000));
    let said = run(&world, Wire::Messages);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(counts(&world), [0, 0, 0]);
    assert!(world.sent()[1].contains("[not shown: this model cannot look at images"), "{}", world.sent()[1]);
}

#[test]
fn a_recording_has_the_picture_and_replays_without_the_home() {
    let world = world(LOOK, &png(640, 12_000));
    let record = world.scratch().join("recording");
    let words = ["run", "Make the check pass", "--done", "sh check.sh", "--yes", "--record"];
    let said = finish(world.regie(&[&words[..], &[record.to_str().unwrap()]].concat()));
    assert_eq!(said.code, Some(0), "{said:?}");
    let manifest = || std::fs::read_to_string(record.join("recording.json")).unwrap();
    until("the recording is whole", || manifest().contains("\"whole\""));
    world.end_all();
    std::fs::remove_dir_all(world.home()).unwrap();
    let replayed = world.ask(&["replay", record.to_str().unwrap()]);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    assert!(replayed.out.contains("every request and every event is the same"), "{}", replayed.out);
    // Without it, no request can be composed.
    let pictures: Vec<_> = std::fs::read_dir(record.join("images")).unwrap().collect();
    assert_eq!(pictures.len(), 1);
    std::fs::write(pictures[0].as_ref().unwrap().path(), "another one").unwrap();
    let replayed = world.ask(&["replay", record.to_str().unwrap()]);
    assert!(replayed.code != Some(0) && replayed.err.contains("damaged"), "{replayed:?}");
}
