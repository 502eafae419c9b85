//! What is masked, and what is not.

use proptest::prelude::*;

use super::*;

fn scrubber() -> Scrubber {
    let owner = Owner { home: Some("/home/alice".into()), user: Some("alice".into()) };
    let given =
        [("DB_PASSWORD", "pa\"ss\\w/örd\n1"), ("MODE", "production"), ("URL", "tcp://x9"), ("N", "1")];
    Scrubber::new(["sk-scripted"], given, &owner)
}

#[track_caller]
fn check(text: &str, want: &str) {
    assert_eq!(scrubber().line(text), want);
    assert_eq!(scrubber().line(want), want, "twice is once");
}

#[test]
fn keys_are_masked_and_their_kind_stays() {
    check("a sk-scripted b", "a *********** b");
    check("sk-ant-api03-AAAAbbbbCCCC_dddd-1", "sk-ant-*************************");
    check("key=ghp_0123456789abcdefABCDEF0123456789abcd;", "key=ghp_************************************;");
    check("AKIAIOSFODNN7EXAMPLE", "AKIA****************");
    check("xoxb-1234567890-abc", "xoxb-**************");
    check("glpat-abcdefghij0123456789", "glpat-********************");
    check("AIzaSyA0123456789abcdefghijklmnopqrstuv", "AIza***********************************");
    check("Bearer eyJhbGciOi.eyJzdWIiOiIx.abc-_9 x", "Bearer eyJ*******.eyJ*********.****** x");
    check("postgres://me:s3cret@db/x", "postgres://me:******@db/x");
    check(r#"{"u":"https:\/\/me:s3cret@db"}"#, r#"{"u":"https:\/\/me:******@db"}"#);
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\nabc\n-----END RSA PRIVATE KEY-----";
    check(pem, "-----BEGIN RSA PRIVATE KEY-----\n*****/*\n***\n-----END RSA PRIVATE KEY-----");
    check(
        &serde_json::to_string(pem).unwrap(),
        r#""-----BEGIN RSA PRIVATE KEY-----\n*****/*\n***\n-----END RSA PRIVATE KEY-----""#,
    );
}

#[test]
fn what_only_looks_like_a_key_stays() {
    for text in [
        "the task-force-of-the-owner-2026-has-long-names",
        "sk-ant-short and ghp_short",
        "http://127.0.0.1:8080/x?a=b@c",
        "production is a word",
        "/rooted/alicea malice@x",
        "A -----BEGIN CERTIFICATE----- stays",
    ] {
        check(text, text);
    }
}

#[test]
fn the_owner_is_masked() {
    check("in /home/alice/code and /home/alicex", "in /~~~~/~~~~~/code and /home/alicex");
    check("/Users/alice, alice@host", "/Users/~~~~~, ~~~~~~host");
    check(r#"{"text":"\nalice@host"}"#, r#"{"text":"\n~~~~~~host"}"#);
}

#[test]
fn a_value_is_found_however_often_it_is_escaped() {
    let value = "pa\"ss\\w/örd\n1";
    let mut text = value.to_owned();
    for depth in 0..4 {
        let mut masked = text.clone().into_bytes();
        assert!(scrubber().mask(&mut masked), "{depth}");
        assert_eq!(masked.len(), text.len(), "{depth}");
        let mut back = String::from_utf8(masked).unwrap();
        for _ in 0..depth {
            back = serde_json::from_str(&back).unwrap();
        }
        assert_eq!(back, "**\"**\\*/ö**\n*", "{depth}");
        text = serde_json::to_string(&text).unwrap();
    }
    let mut other = br#""pa\u0022ss\\w\/\u00f6rd\u000a1""#.to_vec();
    assert!(scrubber().text(&mut other));
    assert_eq!(serde_json::from_slice::<String>(&other).unwrap(), "**\"**\\*/ö**\n*");
}

#[test]
fn a_stream_is_masked_across_its_pieces() {
    let piece = |index: u8, text: &str| {
        let data = serde_json::json!({"type": "delta", "index": index, "delta": {"text": text}});
        format!("event: delta\ndata: {data}\n\n")
    };
    let stream = [
        piece(0, "key: sk-sc"),
        piece(1, "sk-"),
        ": ping\n\n".to_owned(),
        piece(0, "rip"),
        piece(1, "scripte"),
        piece(0, "ted."),
        "data: [DONE] sk-scripted\n\n".to_owned(),
    ]
    .concat();
    let mut masked = stream.clone().into_bytes();
    assert!(scrubber().body(&mut masked));
    let want = [
        piece(0, "key: *****"),
        piece(1, "sk-"),
        ": ping\n\n".to_owned(),
        piece(0, "***"),
        piece(1, "scripte"),
        piece(0, "***."),
        "data: [DONE] ***********\n\n".to_owned(),
    ]
    .concat();
    assert_eq!(String::from_utf8(masked).unwrap(), want);
}

proptest! {
    #[test]
    fn no_secret_survives_json_stays_json_and_twice_is_once(
        secret in "[a-zA-Z0-9!#$%&+=?@_.~\"\\\\/\n\té🦀-]{8,40}",
        before in "[ -~é\n]{0,20}",
        after in "[ -~é\n]{0,20}",
    ) {
        prop_assume!(secret.chars().filter(char::is_ascii_alphanumeric).count() >= 4);
        let scrubber = Scrubber::new([secret.as_str()], [], &Owner::default());
        let document = serde_json::json!({"a": [format!("{before} {secret} {after}")], "n": 12_345_678});
        let inner = document.to_string();
        for text in [inner.clone(), serde_json::json!({"inner": inner}).to_string()] {
            let mut masked = text.clone().into_bytes();
            prop_assert!(scrubber.text(&mut masked));
            prop_assert_eq!(masked.len(), text.len());
            let value: serde_json::Value = serde_json::from_slice(&masked).unwrap();
            let shown = value["a"][0].as_str().or(value["inner"].as_str()).unwrap();
            prop_assert!(!shown.contains(&secret));
            let mut twice = masked.clone();
            scrubber.text(&mut twice);
            prop_assert_eq!(twice, masked);
        }
    }

    #[test]
    fn masking_and_escaping_may_come_in_any_order(
        secret in "[a-zA-Z0-9!#$%&+=?_.\"\\\\/\n\té🦀-]{8,40}",
        around in "[a-z \n\"\\\\]{0,20}",
    ) {
        prop_assume!(secret.chars().filter(char::is_ascii_alphanumeric).count() >= 4);
        let scrubber = Scrubber::new([secret.as_str()], [], &Owner::default());
        let text = format!("{around} {secret} {around}");
        let mut first = text.clone().into_bytes();
        scrubber.mask(&mut first);
        let escaped = serde_json::to_string(&String::from_utf8(first).unwrap()).unwrap();
        let mut then = serde_json::to_string(&text).unwrap().into_bytes();
        scrubber.text(&mut then);
        prop_assert_eq!(String::from_utf8(then).unwrap(), escaped);
    }
}

proptest! {
    #[test]
    fn anything_at_all_keeps_its_length_and_is_masked_once(bytes: Vec<u8>, stream in "(data: [ -~]{0,60}\n){0,6}") {
        for bytes in [bytes, stream.into_bytes()] {
            let mut once = bytes.clone();
            scrubber().body(&mut once);
            prop_assert_eq!(once.len(), bytes.len());
            let mut twice = once.clone();
            scrubber().body(&mut twice);
            prop_assert_eq!(twice, once);
        }
    }

    #[test]
    fn what_a_stream_says_in_pieces_is_masked_as_what_it_says_at_once(
        cuts in prop::collection::vec(0_usize..60, 0..8),
    ) {
        let whole = "the key \"sk-scripted\"\nin /home/alice/x is sk-ant-api03-AAAAbbbbCCCC_dddd-1.";
        let mut cuts: Vec<usize> = cuts.into_iter().chain([0, whole.len()]).collect();
        cuts.sort_unstable();
        let data = |text: &str| format!("data: {}\n\n", serde_json::json!({"index": 0, "text": text}));
        let stream: String = cuts.windows(2).map(|cut| data(&whole[cut[0]..cut[1]])).collect();
        let mut stream = stream.into_bytes();
        scrubber().body(&mut stream);
        let lines = String::from_utf8(stream).unwrap();
        let pieces = lines.lines().filter_map(|line| line.strip_prefix("data: "));
        let said: String = pieces
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["text"].as_str().unwrap().to_owned())
            .collect();
        prop_assert_eq!(said, scrubber().line(whole));
    }
}
