//! Gates as they are shown, and answers that are taken or not.

use control::api::{AnswerGate, Vendor};

use crate::world::{CHECK, World};

#[test]
fn a_gate_shows_the_exact_action_with_files_and_checks() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    assert_eq!((gate.run.as_str(), gate.goal.as_str()), (run.as_str(), "Make the check pass"));
    assert_eq!((gate.question.as_str(), gate.tool.as_str()), ("approve", "merge"));
    assert_eq!((gate.effect.as_str(), gate.risk.as_str()), ("idempotent_write", "external"));
    assert_eq!(gate.title, "Merge this proposal into main?");
    let files: Vec<_> = gate.files.iter().map(|file| (file.path.as_str(), file.status.as_str())).collect();
    assert_eq!(files, [("sum.sh", "modified")]);
    assert_eq!((gate.files[0].added, gate.files[0].removed), (Some(1), Some(1)));
    assert_eq!(gate.checks, [CHECK]);
    assert_eq!(gate.request["goal"], "Make the check pass");
    assert_eq!(gate.request["run"], run);
    assert!(gate.reason.is_some() && gate.expires_at > gate.opened_at);
    assert_eq!((gate.answer.as_deref(), gate.by.as_deref()), (None, None));
    // The hash that an answer names is that of the request's own bytes.
    let journal = &world.daemon().journal;
    let events = kernel::port::Journal::history(&**journal, run.parse().unwrap(), 0, 1000).unwrap();
    let planned = events.iter().find_map(|event| match &event.header.fact {
        domain::Fact::StepPlanned(planned) if planned.tool == "merge" => event.payload.as_ref(),
        _ => None,
    });
    assert_eq!(gate.action, domain::Digest::of(&planned.unwrap().0).to_string());

    let patch = gate.request["patch"].as_str().unwrap();
    let patch = world.block(world.control().artifact_fetch(patch)).unwrap();
    assert!(String::from_utf8(patch).unwrap().contains("+echo $(($1 + $2))"));
}

#[test]
fn without_criteria_the_gate_says_so() {
    let world = World::new();
    let (_, gate) = world.asked(world.note());
    assert_eq!(
        gate.checks,
        [
            "nothing was checked: the mission has no definition of done, and the agent proposed none when asked"
        ]
    );
}

#[test]
fn answers_that_do_not_fit_change_nothing() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    let before = world.control().hello().position;
    let send = |name: &str, answer: &str, action: &str| {
        let request = AnswerGate { answer: answer.into(), action: action.into(), vendor: Vendor::default() };
        let error = world.block(world.control().gate_answer(name, request)).unwrap_err();
        (error.status(), error.code, error.detail, error.hint.unwrap_or_default())
    };
    assert_eq!(send(&gate.gate, "yes", &gate.action).1, "gate.answer");
    assert_eq!(send(&gate.gate, "approve", "abc").1, "gate.action");
    let other = domain::Digest::of(b"another").to_string();
    let (status, code, detail, hint) = send(&gate.gate, "approve", &other);
    assert_eq!((status, code), (409, "run.refused"));
    assert!(detail.contains("another action") && hint.contains("regie gate show"), "{detail}; {hint}");
    assert_eq!(send(&gate.gate, "was_done", &gate.action).1, "run.refused");
    let nobody = domain::GateId::from_bytes([0; 16]).to_string();
    for unknown in [nobody.as_str(), "gate_zzz", "gate_", ""] {
        assert_eq!(send(unknown, "approve", &gate.action).0, 404, "`{unknown}`");
    }
    assert_eq!(world.control().hello().position, before);
    assert_eq!(world.gate(&run).answer, None);
}

#[test]
fn a_gate_is_answered_once_by_any_end_of_its_id() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    let end = gate.gate.split_at(gate.gate.len() - 6).1.to_uppercase();
    let request =
        AnswerGate { answer: "refuse".into(), action: gate.action.clone(), vendor: Vendor::default() };
    let answered = world.block(world.control().gate_answer(&end, request)).unwrap();
    assert_eq!((answered.answer.as_deref(), answered.by.as_deref()), (Some("refused"), Some("human:owner")));
    let (end, reason) = world.ended(&run);
    assert_eq!(end, "partial");
    assert!(reason.contains("the owner refused it"), "{reason}");
    let again = world.answer(&gate, "approve").unwrap_err();
    assert_eq!((again.status(), again.code), (409, "run.refused"));
    assert_eq!(again.hint.as_deref(), Some(crate::world::ENDED_HINT));
    assert_eq!(world.git(&["show", "HEAD:sum.sh"]), "echo $(($1 - $2))");
    assert_eq!(world.block(world.control().gate_list(true)).unwrap(), []);
    assert_eq!(world.block(world.control().gate_list(false)).unwrap(), [answered]);
}

#[test]
fn two_answers_at_once_are_one() {
    let world = World::new();
    let (run, gate) = world.asked(world.mission());
    let request = |answer: &str| AnswerGate {
        answer: answer.into(),
        action: gate.action.clone(),
        vendor: Vendor::default(),
    };
    let (yes, no) = world.block(async {
        let control = world.control();
        tokio::join!(
            control.gate_answer(&gate.gate, request("approve")),
            control.gate_answer(&gate.gate, request("refuse"))
        )
    });
    assert_eq!(usize::from(yes.is_ok()) + usize::from(no.is_ok()), 1, "{yes:?} {no:?}");
    let (end, _) = world.ended(&run);
    assert_eq!(end, if yes.is_ok() { "done" } else { "partial" });
    assert_eq!(world.facts(&run).iter().filter(|fact| **fact == "gate_answered").count(), 1);
}
