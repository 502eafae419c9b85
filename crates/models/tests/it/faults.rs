//! What vendors refuse with, on every wire: a conversation that is too long in each one's own words, waits in
//! every form in which they are asked for, and every status once.

use std::time::Duration;

use models::{Adapter, Config, Wire, call};
use testkit::script::{self, Options, Server};

use crate::{ask, config, request_on, say};

async fn serve(scenario: &str) -> Server {
    Server::start(script::parse(scenario).unwrap(), Options::default()).await.unwrap()
}

async fn asked(wire: Wire, server: &Server, words: &str) -> Result<models::Response, call::Error> {
    let config = Config { wire, max_attempts: 2, ..config(server.base_url()) };
    ask(&*Adapter::connect(config).unwrap(), &request_on(wire, vec![say(words)])).await.0
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_told_in_each_vendors_words_and_understood() {
    let words = [
        (Wire::Messages, " tokens > "),
        (Wire::Responses, "exceeds the context window"),
        (Wire::Chat, "exceeds the available context size"),
    ];
    for (wire, words) in words {
        let server = serve("[[turn]]\n[[turn.fault]]\nkind = 'overflow'\ntimes = 0").await;
        let error = asked(wire, &server, "Go.").await.unwrap_err();
        let call::Error::ContextTooLong(answer) = &error else { panic!("{wire:?}: {error:?}") };
        assert!(answer.status == 400 && answer.message.contains(words), "{wire:?}: {answer:?}");
        assert_eq!(server.served().len(), 1, "{wire:?}: it is not asked again");
    }
}

#[tokio::test]
async fn a_wait_is_understood_wherever_and_however_it_is_asked_for() {
    let forms = [
        ("retry_after = '3600'", 3_600_000),
        ("retry_after = '7200.5'", 7_200_500),
        ("retry_after = '3600000'\nsaid = 'millis'", 3_600_000),
        ("retry_after = '3600'\nsaid = 'in_body'", 3_600_000),
        ("retry_after = '3600.25'\nsaid = 'in_body'", 3_600_250),
        // Whatever is asked for, a day is believed.
        ("retry_after = '31536000'", 86_400_000),
        ("retry_after = 'Tue, 10 Nov 2099 10:00:00 GMT'", 86_400_000),
    ];
    for wire in Wire::ALL {
        for (form, millis) in forms {
            let fault = format!("[[turn]]\n[[turn.fault]]\nkind = 'status'\nstatus = 429\ntimes = 0\n{form}");
            let server = serve(&fault).await;
            let error = asked(wire, &server, "Go.").await.unwrap_err();
            let call::Error::RateLimited { retry_after, .. } = error else {
                panic!("{wire:?} {form}: {error:?}")
            };
            assert_eq!(retry_after, Some(Duration::from_millis(millis)), "{wire:?} {form}");
            assert_eq!(server.served().len(), 1, "{wire:?} {form}");
        }
        // What is over, or makes no sense, is no wait.
        for form in ["'Tue, 10 Nov 2020 10:00:00 GMT'", "'0'", "'soon'", "'-1'", "'nan'"] {
            let fault =
                "[[turn]]\ntext = 'ok'\n[[turn.fault]]\nkind = 'status'\nstatus = 429\nretry_after = ";
            let server = serve(&format!("{fault}{form}")).await;
            assert_eq!(asked(wire, &server, "Go.").await.unwrap().attempts, 2, "{wire:?} {form}");
        }
    }
}

#[tokio::test]
async fn every_status_is_typed() {
    let scenario = |status: u16| {
        format!(
            "[[scenario]]\nmatch = 'Status {status}.'\n[[scenario.turn]]\n[[scenario.turn.fault]]\nkind = 'status'\n\
             status = {status}\ntimes = 0\n"
        )
    };
    let all: String = (400..600).map(scenario).collect();
    for wire in Wire::ALL {
        let server = serve(&all).await;
        let config = Config { wire, max_attempts: 2, ..config(server.base_url()) };
        let provider = Adapter::connect(config).unwrap();
        for status in 400..600_u16 {
            let before = server.served().len();
            let request = request_on(wire, vec![say(&format!("Status {status}."))]);
            let body = provider.compose(&request).unwrap();
            let error = provider.call(body, &mut |_| {}).await.unwrap_err();
            let kind = match status {
                400 | 422 => "BadRequest",
                401 | 403 => "Unauthorized",
                402 => "NoCredit",
                404 => "NotFound",
                405 | 501 => "NoSuchPath",
                413 => "ContextTooLong",
                429 => "RateLimited",
                529 => "Overloaded",
                _ => "Status",
            };
            let is_passing = matches!(status, 408 | 409 | 429 | 500 | 502..=599);
            assert!(format!("{error:?}").starts_with(kind), "{wire:?} {status}: {error:?}");
            assert!(error.to_string().contains(&format!("answered {status}")), "{wire:?}: {error}");
            assert_eq!(error.is_retryable(), is_passing, "{wire:?} {status}");
            assert_eq!(server.served().len() - before, 1 + usize::from(is_passing), "{wire:?} {status}");
        }
    }
}
