//! The batch queues of both vendors: held to the same behaviour.

use std::sync::Arc;

use domain::Timestamp;
use models::batch::{Batches, Found, Handle, Item, Progress};
use models::{Config, Provider, Response, Stop, Wire, call};
use testkit::script::{self, Options, Server};

use crate::{ask, config, provider, request_on, say};

const QUEUED: [Wire; 2] = [Wire::Messages, Wire::Responses];

struct Scene {
    wire: Wire,
    server: Server,
    provider: Arc<dyn Provider>,
}

impl Scene {
    async fn new(wire: Wire, scenario: &str) -> Self {
        let server = Server::start(script::parse(scenario).unwrap(), Options::default()).await.unwrap();
        let provider = provider(wire, server.base_url());
        Self { wire, server, provider }
    }

    fn queue(&self) -> Box<dyn Batches + '_> {
        self.provider.batches().unwrap()
    }

    fn item(&self, id: &str, words: &str) -> Item {
        let body = self.provider.compose(&request_on(self.wire, vec![say(words)])).unwrap();
        Item { id: id.into(), body }
    }

    /// What the items get once the batch has ended.
    async fn results(&self, batch: &Handle, items: &[Item]) -> Vec<(String, Result<Response, call::Error>)> {
        while self.queue().progress(batch).await.unwrap() == Progress::Waiting {}
        let mut results = self.queue().results(batch, items).await.unwrap();
        results.sort_by(|one, other| one.0.cmp(&other.0));
        results
    }

    async fn only(&self, scenario_item: &Item) -> Result<Response, call::Error> {
        let items = [scenario_item.clone()];
        let batch = self.queue().submit("label", &items).await.unwrap();
        self.results(&batch, &items).await.pop().unwrap().1
    }
}

/// Long ago, for a search.
const EVER: Timestamp = Timestamp(0);
/// Not yet.
const LATER: Timestamp = Timestamp(4_000_000_000_000);

#[tokio::test]
async fn an_answer_is_the_same_whether_it_was_streamed_or_came_whole() {
    let turns = [
        "thinking = \"Let me look at the tést.\"\ntext = \"I read. 🦀\"\n[[turn.call]]\nname = \"read\"\n\
         input = { path = \"a\", from = 1 }\n[[turn.call]]\nname = \"shell\"",
        "thinking = \"\"\ntext = \"Done.\"\nusage = { input = 900, output = 40, cache_read = 60, cache_write = 0 }",
        "text = \"I had\"\nstop = \"max_tokens\"",
        "text = \"I will not.\"\nstop = \"refusal\"",
    ];
    for wire in QUEUED {
        for turn in turns {
            let scene = Scene::new(wire, &format!("[[turn]]\n{turn}\n")).await;
            let request = request_on(wire, vec![say("Mend it.")]);
            let mut streamed = ask(&*scene.provider, &request).await.0.unwrap();
            let mut whole = scene.only(&scene.item("a", "Mend it.")).await.unwrap();
            // Its own request, and what the server makes up from the size of what it was sent.
            (streamed.request_id, whole.request_id) = (None, None);
            if !turn.contains("usage") {
                (streamed.usage.input, whole.usage.input) = (0, 0);
            }
            assert_eq!(whole, streamed, "{wire:?} {turn}");
        }
    }
}

#[tokio::test]
async fn a_cut_call_of_a_whole_answer_is_told_from_one_to_run() {
    for wire in QUEUED {
        let scene = Scene::new(
            wire,
            "[[turn]]\nstop = \"max_tokens\"\n[[turn.call]]\nname = \"read\"\njson = '{\"path\": \"a\"}'\n",
        );
        let response = scene.await;
        let response = response.only(&response.item("a", "Mend it.")).await.unwrap();
        assert_eq!(response.stop, Stop::MaxTokens, "{wire:?}");
        assert!(response.calls().all(|call| call.input.is_err()), "{wire:?}: {response:?}");
    }
}

#[tokio::test]
async fn a_batch_ends_in_part_and_each_item_gets_its_own() {
    let scenario = r#"
        [[scenario]]
        match = "first"
        [scenario.batch]
        polls = 3
        [[scenario.turn]]
        text = "One."

        [[scenario]]
        match = "second"
        [[scenario.turn]]
        text = "never said"
        [[scenario.turn.fault]]
        kind = "status"
        status = 429
        message = "slow down"
    "#;
    for wire in QUEUED {
        let scene = Scene::new(wire, scenario).await;
        let items = [scene.item("id-1", "the first"), scene.item("id-2", "the second")];
        let batch = scene.queue().submit("label", &items).await.unwrap();
        assert_eq!(scene.queue().progress(&batch).await.unwrap(), Progress::Waiting, "{wire:?}");
        let results = scene.results(&batch, &items).await;
        let ids: Vec<&str> = results.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["id-1", "id-2"], "{wire:?}");
        assert_eq!(results[0].1.as_ref().unwrap().text(), "One.", "{wire:?}");
        let error = results[1].1.as_ref().unwrap_err();
        assert!(matches!(error, call::Error::RateLimited { .. }), "{wire:?}: {error}");
        assert!(error.to_string().contains("slow down"), "{wire:?}: {error}");
        // Another run's item is none of this batch's.
        let stranger = [scene.item("id-3", "the first")];
        assert!(scene.queue().results(&batch, &stranger).await.unwrap().is_empty(), "{wire:?}");
        let asked = scene.server.served();
        assert_eq!(asked.len(), 2, "{wire:?}");
        let told = |body: &[u8]| String::from_utf8_lossy(body).contains("\"stream\"");
        assert!(asked.iter().all(|served| !told(&served.body)), "{wire:?}");
    }
}

#[tokio::test]
async fn how_a_batch_fares_badly_is_told() {
    for wire in QUEUED {
        for kind in ["expired", "canceled", "failed"] {
            let scenario = format!("[[turn]]\ntext = \"x\"\n[batch]\n[[batch.fault]]\nkind = \"{kind}\"\n");
            let scene = Scene::new(wire, &scenario).await;
            let error = scene.only(&scene.item("a", "Mend it.")).await.unwrap_err();
            let fits = match (kind, wire) {
                ("expired", _) => matches!(error, call::Error::Expired { .. }) && error.is_retryable(),
                ("failed", Wire::Responses) => {
                    matches!(error, call::Error::BadRequest(_)) && error.to_string().contains("not taken")
                }
                _ => matches!(error, call::Error::Withdrawn { .. }) && !error.is_retryable(),
            };
            assert!(fits, "{wire:?} {kind}: {error}");
        }
    }
}

#[tokio::test]
async fn a_batch_is_cancelled_at_the_vendor_and_that_twice_is_harmless() {
    for wire in QUEUED {
        let scene = Scene::new(wire, "[[turn]]\ntext = \"x\"\n[batch]\npolls = 1000000\n").await;
        let items = [scene.item("a", "Mend it.")];
        let batch = scene.queue().submit("label", &items).await.unwrap();
        scene.queue().cancel(&batch).await.unwrap();
        scene.queue().cancel(&batch).await.unwrap();
        assert!(scene.server.queued()[0].cancelled, "{wire:?}");
        let results = scene.results(&batch, &items).await;
        assert!(matches!(results[0].1, Err(call::Error::Withdrawn { .. })), "{wire:?}: {results:?}");
    }
}

#[tokio::test]
async fn a_submission_without_acknowledgement_is_found_again_or_known_not_to_be_there() {
    for wire in QUEUED {
        let scenario = "[[turn]]\ntext = \"x\"\n[batch]\n[[batch.fault]]\nkind = \"unacknowledged\"\n";
        let scene = Scene::new(wire, scenario).await;
        assert_eq!(scene.queue().find("label", 1, EVER).await.unwrap(), Found::Nowhere, "{wire:?}");
        let items = [scene.item("a", "Mend it.")];
        let unsent = scene.queue().submit("label", &items).await.unwrap_err();
        assert!(unsent.may_have_arrived, "{wire:?}: {unsent:?}");
        let batch = match scene.queue().find("label", 1, EVER).await.unwrap() {
            Found::Here(batch) => batch,
            Found::Perhaps(mut all) => all.pop().unwrap(),
            Found::Nowhere => panic!("{wire:?}: it is there"),
        };
        assert_eq!(scene.results(&batch, &items).await[0].1.as_ref().unwrap().text(), "x", "{wire:?}");
        // A batch of before, or of another size, or of another name is another.
        let earlier = scene.queue().find("other", 2, LATER).await.unwrap();
        assert_eq!(earlier, Found::Nowhere, "{wire:?}");
        assert_eq!(scene.server.queued().len(), 1, "{wire:?}");
    }
}

#[tokio::test]
async fn what_the_vendor_never_took_is_known() {
    for wire in QUEUED {
        let server = Server::start(
            script::parse("[[turn]]\ntext = \"x\"").unwrap(),
            Options { key: Some("sk-other".into()), ..Options::default() },
        );
        let server = server.await.unwrap();
        let provider = provider(wire, server.base_url());
        let body = provider.compose(&request_on(wire, vec![say("Mend it.")])).unwrap();
        let queue = provider.batches().unwrap();
        let unsent = queue.submit("label", &[Item { id: "a".into(), body: body.clone() }]).await.unwrap_err();
        assert!(!unsent.may_have_arrived, "{wire:?}");
        assert!(matches!(unsent.error, call::Error::Unauthorized(_)), "{wire:?}: {}", unsent.error);
        assert!(!unsent.error.to_string().contains(crate::KEY), "{wire:?}");
        let nobody = models::Adapter::connect(Config { wire, ..config("http://127.0.0.1:1") }).unwrap();
        let unsent = nobody.batches().unwrap().submit("label", &[Item { id: "a".into(), body }]).await;
        let unsent = unsent.unwrap_err();
        assert!(!unsent.may_have_arrived && unsent.error.is_retryable(), "{wire:?}: {}", unsent.error);
        let bad = Handle("../../v1/elsewhere".into());
        let error = queue.progress(&bad).await.unwrap_err();
        assert!(error.to_string().contains("cannot be asked for"), "{wire:?}: {error}");
        let gone = Handle("batch_99".into());
        assert!(queue.progress(&gone).await.is_err(), "{wire:?}");
    }
}

#[test]
fn a_local_server_has_no_batch_queue() {
    assert!(provider(Wire::Chat, "http://127.0.0.1:1").batches().is_none());
}
