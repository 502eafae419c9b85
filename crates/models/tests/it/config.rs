//! Keys and addresses: read as the vendor's SDKs read them, never shown.

use std::time::Duration;

use models::Adapter;
use models::config::{Config, Credential, Error as ConfigError, IDLE_ENV};
use models::{Provider, Secret, Wire};

fn from(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::from_lookup(Wire::Messages, |name| {
        pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    })
}

fn endpoint(base_url: &str) -> Result<String, ConfigError> {
    let config = Config::new(Wire::Messages, Credential::Key(Secret::new("k")), base_url);
    Adapter::new(config).map(|anthropic| anthropic.endpoint().to_owned())
}

#[test]
fn the_key_wins_over_the_token_and_empty_counts_as_unset() {
    let credential = |pairs: &[(&str, &str)]| from(pairs).unwrap().credential;
    let key = ("ANTHROPIC_API_KEY", "k1\n");
    let token = ("ANTHROPIC_AUTH_TOKEN", "t1");
    assert_eq!(credential(&[key, token]), Credential::Key(Secret::new("k1")));
    assert_eq!(credential(&[token]), Credential::Token(Secret::new("t1")));
    assert_eq!(credential(&[("ANTHROPIC_API_KEY", " "), token]), Credential::Token(Secret::new("t1")));
}

#[test]
fn a_missing_key_says_what_to_set() {
    let error = from(&[("ANTHROPIC_API_KEY", "")]).unwrap_err();
    assert!(matches!(error, ConfigError::NoKey(Wire::Messages)));
    assert!(error.to_string().contains("ANTHROPIC_API_KEY"));
}

#[test]
fn the_idle_timeout_is_whole_seconds() {
    let key = ("ANTHROPIC_API_KEY", "k");
    assert_eq!(from(&[key]).unwrap().idle_timeout, Duration::from_secs(180));
    assert_eq!(from(&[key, (IDLE_ENV, "7")]).unwrap().idle_timeout, Duration::from_secs(7));
    for wrong in ["0", "-1", "1.5", "soon"] {
        let error = from(&[key, (IDLE_ENV, wrong)]).unwrap_err();
        assert!(matches!(error, ConfigError::BadIdle), "{wrong}: {error:?}");
    }
}

#[test]
fn the_base_url_may_have_a_slash_a_version_or_a_path() {
    let default = from(&[("ANTHROPIC_API_KEY", "k")]).unwrap();
    let messages = "https://api.anthropic.com/v1/messages";
    assert_eq!(Adapter::new(default).unwrap().endpoint(), messages);
    for base in [
        "https://api.anthropic.com",
        "https://api.anthropic.com/",
        "https://api.anthropic.com/v1",
        "https://api.anthropic.com/v1/",
    ] {
        assert_eq!(endpoint(base).unwrap(), messages, "{base}");
    }
    assert_eq!(endpoint("http://[::1]:8080/llm/").unwrap(), "http://[::1]:8080/llm/v1/messages");
}

#[test]
fn addresses_that_cannot_be_used_are_refused_without_being_shown() {
    for base in ["", "api.anthropic.com", "ftp://x", "https://user:hunter2@x", "https://x/?key=hunter2"] {
        let error = endpoint(base).unwrap_err();
        assert!(matches!(error, ConfigError::BadUrl { .. }), "{base}: {error:?}");
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}

#[test]
fn a_key_is_never_shown() {
    let config = Config::new(Wire::Messages, Credential::Key(Secret::new("sk-secret")), "https://x");
    assert!(!format!("{config:?}").contains("sk-secret"));
    let anthropic = Adapter::new(config).unwrap();
    assert!(!format!("{anthropic:?}").contains("sk-secret"));
    let broken = Config::new(Wire::Messages, Credential::Key(Secret::new("sk-\nsecret")), "https://x");
    let error = Adapter::new(broken).unwrap_err();
    assert!(matches!(error, ConfigError::BadKey(_)) && !format!("{error:?} {error}").contains("secret\""));
}

#[test]
fn the_name_of_a_model_says_its_wire() {
    for (model, wire, bare) in [
        ("claude-opus-5-5", Wire::Messages, "claude-opus-5-5"),
        ("scripted", Wire::Messages, "scripted"),
        ("mystery", Wire::Messages, "mystery"),
        ("anthropic/gpt-x", Wire::Messages, "gpt-x"),
        ("gpt-6.1-sol", Wire::Responses, "gpt-6.1-sol"),
        ("o3-mini", Wire::Responses, "o3-mini"),
        ("opus", Wire::Messages, "opus"),
        ("openai/gpt-oss-20b", Wire::Responses, "gpt-oss-20b"),
        ("local/qwen/qwen3:8b", Wire::Chat, "qwen/qwen3:8b"),
        ("local/claude-opus-5-5", Wire::Chat, "claude-opus-5-5"),
    ] {
        assert_eq!((Wire::of(model), models::wire::bare(model)), (wire, bare), "{model}");
    }
}

#[test]
fn a_key_of_another_vendor_is_one_clear_line() {
    let read = |wire: Wire, pairs: &[(&str, &str)]| {
        Config::from_lookup(wire, |name| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    };
    let error = read(Wire::Responses, &[("OPENAI_API_KEY", "sk-ant-api03-x")]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "OPENAI_API_KEY holds a key that looks like one of Anthropic; set it to a key of OpenAI, or choose a \
         model of Anthropic"
    );
    let error = read(Wire::Messages, &[("ANTHROPIC_API_KEY", "sk-proj-x")]).unwrap_err();
    assert!(matches!(error, ConfigError::WrongVendor { theirs: Wire::Responses, .. }), "{error}");
    // A gateway may want any.
    let gateway = [("OPENAI_API_KEY", "sk-ant-x"), ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")];
    assert!(read(Wire::Responses, &gateway).is_ok());
    let error = read(Wire::Responses, &[("ANTHROPIC_API_KEY", "sk-ant-x")]).unwrap_err();
    assert_eq!(error.to_string(), "no key for OpenAI; set OPENAI_API_KEY");
    let local = read(Wire::Chat, &[]).unwrap();
    assert_eq!(local.idle_timeout, Duration::from_secs(600));
    assert_eq!((local.credential, local.base_url.as_str()), (Credential::Nobody, "http://127.0.0.1:11434"));
}
