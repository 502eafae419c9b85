//! Who is chosen: for every combination of keys and outages, and whatever is wanted.

use models::routing::{Policy, Reach, Role, Status, Why, choose};
use models::{Effort, Wire};
use proptest::prelude::*;

fn reach(messages: &str, responses: &str) -> Reach {
    let of = |text: &str| match text {
        "" => Status::NoKey,
        "ready" => Status::Ready,
        how => Status::Out(how.to_owned()),
    };
    Reach::new(|wire| match wire {
        Wire::Messages => of(messages),
        Wire::Responses => of(responses),
        Wire::Chat => Status::Ready,
    })
}

fn wanted(model: &str, or: &[&str]) -> Policy {
    let or = or.iter().map(|&other| other.to_owned()).collect();
    Policy { model: (!model.is_empty()).then(|| model.to_owned()), effort: None, or }
}

#[track_caller]
fn check(role: Role, policy: &Policy, reach: &Reach, avoid: Option<Wire>, want: &str) {
    let found = match choose(role, policy, reach, avoid) {
        Ok(chosen) => format!("{} ({})", chosen.choice.model, chosen.why),
        Err(refused) => refused.to_string(),
    };
    assert_eq!(found, want);
}

#[test]
fn the_defaults_follow_the_keys_that_are_there() {
    let nothing = Policy::default();
    let of = |reach: &Reach| -> Vec<String> {
        let chosen = Role::ALL.map(|role| choose(role, &nothing, reach, None).unwrap().choice.model);
        chosen.into()
    };
    let anthropic =
        ["claude-fable-5-2", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-haiku-5-5"];
    assert_eq!(of(&reach("ready", "ready")), anthropic);
    assert_eq!(of(&reach("ready", "")), anthropic);
    let openai = ["gpt-6-astra", "gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-luna", "gpt-6-luna"];
    assert_eq!(of(&reach("", "ready")), openai);
    for model in anthropic.iter().chain(&openai) {
        assert!(models::catalogue::price(model).is_some(), "{model}");
    }
    check(
        Role::Worker,
        &nothing,
        &reach("", ""),
        None,
        "no key for Anthropic or OpenAI; set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) or OPENAI_API_KEY, or \
         name a model of your own server: --model local/NAME",
    );
}

#[test]
fn keys_are_read_as_the_adapters_read_them() {
    let of = |set: &'static [(&str, &str)]| {
        Reach::of_keys(move |name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    };
    assert_eq!(of(&[]), reach("", ""));
    assert_eq!(of(&[("ANTHROPIC_API_KEY", " "), ("OPENAI_API_KEY", "x")]), reach("", "ready"));
    assert_eq!(of(&[("ANTHROPIC_AUTH_TOKEN", "x")]), reach("ready", ""));
}

#[test]
fn who_judges_is_another_vendor_unless_there_is_none_or_somebody_is_named() {
    let nothing = Policy::default();
    let both = reach("ready", "ready");
    let judge = |policy: &Policy, reach: &Reach, avoid, want| {
        check(Role::Evaluator, policy, reach, Some(avoid), want);
    };
    judge(
        &nothing,
        &both,
        Wire::Messages,
        "gpt-6.1-terra (the default of OpenAI: another vendor than the worker's)",
    );
    judge(
        &nothing,
        &both,
        Wire::Responses,
        "claude-sonnet-5-5 (the default of Anthropic: another vendor than the worker's)",
    );
    judge(
        &nothing,
        &reach("ready", ""),
        Wire::Messages,
        "claude-sonnet-5-5 (the default of Anthropic, as the worker: no other can be asked)",
    );
    judge(&wanted("claude-haiku-5-5", &[]), &both, Wire::Messages, "claude-haiku-5-5 (named)");
}

#[test]
fn a_first_choice_that_cannot_be_asked_gives_way_to_the_others_in_their_order() {
    let policy = wanted("claude-opus-5-5", &["gpt-6.1-sol", "local/qwen3"]);
    let check = |messages, responses, want| {
        check(Role::Worker, &policy, &reach(messages, responses), None, want);
    };
    check("ready", "ready", "claude-opus-5-5 (named)");
    check("it answered 529", "ready", "gpt-6.1-sol (instead of claude-opus-5-5: it answered 529)");
    check("it answered 529", "down", "local/qwen3 (instead of claude-opus-5-5: it answered 529)");
    check("", "ready", "gpt-6.1-sol (instead of claude-opus-5-5: there is no key for Anthropic)");
}

#[test]
fn without_another_choice_a_vendor_that_is_out_is_asked_all_the_same() {
    let out = reach("it answered 529", "ready");
    let want = "claude-opus-5-5 (no other can be asked, though it answered 529)";
    check(Role::Worker, &wanted("claude-opus-5-5", &[]), &out, None, want);
    // Nobody said that the other vendor may be asked instead.
    check(Role::Worker, &Policy::default(), &out, None, want);
    let all = wanted("claude-opus-5-5", &["gpt-6.1-sol"]);
    check(
        Role::Worker,
        &all,
        &reach("down", "down"),
        None,
        "claude-opus-5-5 (no other can be asked, though down)",
    );
    check(
        Role::Worker,
        &all,
        &reach("", ""),
        None,
        "no key for Anthropic or OpenAI; set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN) or OPENAI_API_KEY",
    );
}

#[test]
fn an_effort_goes_with_what_it_was_meant_for() {
    let both = reach("ready", "ready");
    let effort = |role, policy: &Policy| choose(role, policy, &both, None).unwrap().choice.effort;
    assert_eq!(effort(Role::Planner, &Policy::default()), Some(Effort::High));
    // A model that somebody named may know no effort.
    assert_eq!(effort(Role::Planner, &wanted("local/x", &[])), None);
    let low = Policy { effort: Some(Effort::Low), ..Policy::default() };
    assert_eq!(effort(Role::Planner, &low), Some(Effort::Low));
    assert_eq!(effort(Role::Worker, &Policy::default()), None);
    assert_eq!(Wire::ALL.map(|wire| wire.scale(Effort::Max)), ["max", "xhigh", "high"]);
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![Just(Status::NoKey), Just(Status::Ready), "[a-z]{1,8}".prop_map(Status::Out)]
}

fn model() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("claude-opus-5-5"),
        Just("claude-haiku-5-5"),
        Just("gpt-6.1-sol"),
        Just("gpt-6-luna"),
        Just("local/a"),
        Just("mystery"),
    ]
    .prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn a_choice_can_be_asked_or_the_refusal_names_what_is_missing(
        statuses in [status(), status(), status()],
        first in proptest::option::of(model()),
        or in proptest::collection::vec(model(), 0..4),
        role in proptest::sample::select(Role::ALL.to_vec()),
        avoid in proptest::option::of(proptest::sample::select(Wire::ALL.to_vec())),
    ) {
        let mut left = statuses.into_iter();
        let reach = Reach::new(|_| left.next().unwrap());
        let policy = Policy { model: first.clone(), effort: None, or: or.clone() };
        let chosen = choose(role, &policy, &reach, avoid);
        prop_assert_eq!(&chosen, &choose(role, &policy, &reach, avoid), "the same again");
        let named: Vec<Wire> = first.iter().chain(&or).map(|model| Wire::of(model)).collect();
        match chosen {
            Ok(chosen) => {
                let wire = Wire::of(&chosen.choice.model);
                prop_assert_ne!(reach.status(wire), &Status::NoKey);
                let is_out = matches!(reach.status(wire), Status::Out(_));
                prop_assert!(!is_out || named.iter().all(|wire| *reach.status(*wire) != Status::Ready));
                let others = [Wire::Messages, Wire::Responses].into_iter();
                let mut others = others.filter(|wire| *reach.status(*wire) == Status::Ready);
                if let (None, Some(avoid)) = (&first, avoid) && others.any(|wire| wire != avoid) {
                    prop_assert_ne!(wire, avoid);
                    prop_assert!(matches!(chosen.why, Why::OtherVendor(_)));
                }
                prop_assert_eq!(chosen.instead_of().is_none() && first.is_some(), first.as_ref() == Some(&chosen.choice.model));
            }
            Err(refused) => {
                prop_assert!(!refused.lacks.is_empty());
                prop_assert!(refused.lacks.iter().all(|wire| *reach.status(*wire) == Status::NoKey));
                prop_assert!(named.iter().all(|wire| refused.lacks.contains(wire)));
            }
        }
    }
}
