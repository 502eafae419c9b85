//! A POST of JSON to the owner's address, signed with HMAC-SHA256 where the owner names a secret.

use std::time::Duration;

use control::notify::Notification;
use reqwest::{Client, Url, header, redirect};
use ring::hmac;

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// `sha256=` and the hexadecimal HMAC of the exact body.
const SIGNATURE: &str = "regie-signature";
/// The notification's id, by which the same one is known again.
const DELIVERY: &str = "regie-delivery";

pub(super) async fn post(
    address: &str,
    secret_env: Option<&str>,
    notification: &Notification,
) -> Result<(), String> {
    let body = serde_json::to_vec(notification).map_err(|error| error.to_string())?;
    let url = Url::parse(address).map_err(|error| error.to_string())?;
    let plain = url.scheme() == "http";
    let mut request = client(plain)?
        .post(url)
        .header(header::CONTENT_TYPE, "application/json")
        .header(DELIVERY, &notification.id);
    if let Some(name) = secret_env {
        // What a receiver could not verify is better not sent.
        let secret = std::env::var(name).ok().filter(|secret| !secret.is_empty());
        let secret = secret.ok_or_else(|| format!("{name}, which is to sign it, is not set here"))?;
        request = request.header(SIGNATURE, signature(secret.as_bytes(), &body));
    }
    let answer = request.body(body).send().await.map_err(|error| words(&error.without_url()))?;
    if answer.status().is_success() { Ok(()) } else { Err(format!("it answers {}", answer.status())) }
}

/// No redirect is followed: the owner named one address. What goes to loopback passes no proxy.
fn client(is_loopback: bool) -> Result<Client, String> {
    let builder = Client::builder()
        .timeout(ANSWER_WITHIN)
        .redirect(redirect::Policy::none())
        .user_agent(concat!("regie/", env!("CARGO_PKG_VERSION")));
    let builder = if is_loopback { builder.no_proxy().tls_certs_only([]) } else { builder };
    builder.build().map_err(|error| words(&error))
}

fn words(error: &reqwest::Error) -> String {
    domain::causes::in_full(error)
}

fn signature(secret: &[u8], body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    format!("sha256={}", hex::encode(hmac::sign(&key, body).as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_rfc_4231() {
        assert_eq!(
            signature(b"Jefe", b"what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
