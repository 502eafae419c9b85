//! Images in results of tools: how each wire is sent one, and how a refusal of one is told apart.

use domain::Image;
use domain::image::Format;
use models::{Block, Message, Parameter, Response, Wire, call};
use serde_json::{Value, json};
use testkit::script::{self, Options, Server};

use crate::canned::{self, Canned};
use crate::{ask, provider, request_on, say};

const LOOK: &str = "[[turn]]\n[[turn.call]]\nname = 'read'\n[[turn.call]]\nname = 'shell'\n\n\
                    [[turn]]\ntext = 'I see it.'\n\n[[turn]]\ntext = 'Bye.'";

/// The beginning of a PNG, which is all that is looked at.
fn png() -> (Image, Vec<u8>) {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x02\x80\0\0\x01\xe0".to_vec();
    bytes.resize(300, 7);
    (Image::of(&bytes).unwrap(), bytes)
}

/// The results of two calls, of which the first gave an image.
fn results(calling: &Response, image: &Image, bytes: &[u8]) -> Message {
    let ids: Vec<&str> = calling.calls().map(|call| call.id).collect();
    let shown = Block::tool_result(ids[0], Ok("[`a.png` is an image]")).showing(image, bytes);
    Message::user(vec![shown, Block::tool_result(ids[1], Ok("fine"))])
}

async fn scene(wire: Wire) -> (Server, std::sync::Arc<dyn models::Provider>) {
    let server = Server::start(script::parse(LOOK).unwrap(), Options::default()).await.unwrap();
    let provider = provider(wire, server.base_url());
    (server, provider)
}

#[tokio::test]
async fn each_wire_is_sent_an_image_as_it_has_them_and_the_vendor_takes_it() {
    let (image, bytes) = png();
    for wire in Wire::ALL {
        let (server, provider) = scene(wire).await;
        let mut messages = vec![say("Look.")];
        let first = ask(&*provider, &request_on(wire, messages.clone())).await.0.unwrap();
        messages.extend([Message::assistant(&first), results(&first, &image, &bytes), say("And?")]);
        let request = request_on(wire, messages.clone());
        let body: Value = serde_json::from_slice(&provider.compose(&request).unwrap()).unwrap();
        let second = ask(&*provider, &request).await.0.unwrap();
        assert_eq!(second.text(), "I see it.", "{wire:?}");
        let text = "[`a.png` is an image]";
        match wire {
            Wire::Messages => {
                let content = &body["messages"][2]["content"];
                assert_eq!(content[0]["content"][0], json!({"type": "text", "text": text}));
                let source = &content[0]["content"][1]["source"];
                assert_eq!((&source["type"], &source["media_type"]), (&json!("base64"), &json!("image/png")));
                assert_eq!(content[1]["content"], "fine");
            }
            Wire::Responses => {
                let output = &body["input"].as_array().unwrap()[3]["output"];
                assert_eq!(output[0], json!({"type": "input_text", "text": text}));
                assert_eq!(output[1]["type"], "input_image");
                assert!(output[1]["image_url"].as_str().unwrap().starts_with("data:image/png;base64,iVBOR"));
                assert_eq!(body["input"][4]["output"], "fine");
            }
            Wire::Chat => {
                let messages = body["messages"].as_array().unwrap();
                assert_eq!(
                    (&messages[3]["content"], &messages[4]["content"]),
                    (&json!(text), &json!("fine"))
                );
                let parts = &messages[5]["content"];
                let id = messages[3]["tool_call_id"].as_str().unwrap();
                assert_eq!(parts[0]["text"], format!("The image that call {id} gave:"));
                let url = parts[1]["image_url"]["url"].as_str().unwrap();
                assert!(url.starts_with("data:image/png;base64,iVBOR"));
                assert_eq!(parts[2], json!({"type": "text", "text": "And?"}));
            }
        }
        // The next turn repeats it byte for byte.
        messages.extend([Message::assistant(&second), say("Thanks.")]);
        let next = provider.compose(&request_on(wire, messages)).unwrap();
        let plain = |bytes: &[u8]| {
            String::from_utf8_lossy(bytes).replace(r#","cache_control":{"type":"ephemeral"}"#, "")
        };
        let before = plain(&server.served()[1].body);
        assert!(plain(&next).starts_with(before.trim_end_matches(['}', ']'])), "{wire:?}");
    }
}

#[tokio::test]
async fn case_30_an_image_that_the_vendor_does_not_take_is_told_apart() {
    let (image, bytes) = png();
    for wire in Wire::ALL {
        let (server, provider) = scene(wire).await;
        let first = ask(&*provider, &request_on(wire, vec![say("Look.")])).await.0.unwrap();
        let lying = Image { format: Format::Jpeg, ..image };
        let messages = vec![say("Look."), Message::assistant(&first), results(&first, &lying, &bytes)];
        let refused = ask(&*provider, &request_on(wire, messages)).await.0;
        assert!(matches!(&refused, Err(call::Error::Image(answer)) if answer.status == 400), "{refused:?}");
        assert_eq!(server.served().len(), 2, "{wire:?}: it is not sent again unchanged");
    }
}

enum Expected {
    One,
    All,
    Other,
}

/// What vendors and servers have answered, word for word, or nearly.
#[tokio::test]
async fn case_30_refusals_of_images_in_the_words_of_the_vendors() {
    use Expected::{All, One, Other};
    let said = |message: &str, code: &str| {
        json!({"error": {"type": "invalid_request_error", "message": message, "code": code}}).to_string()
    };
    for (wire, status, message, code, expected) in [
        (
            Wire::Messages,
            400,
            "messages.169.content.0.tool_result.content.1.image.source.base64: image exceeds 5 MB maximum: 6507076 \
             bytes > 5242880 bytes",
            "",
            One,
        ),
        (Wire::Messages, 400, "Could not process image", "", One),
        (
            Wire::Messages,
            400,
            "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
            "",
            One,
        ),
        (Wire::Messages, 400, "this model does not support image input (ref: b8bd630e)", "", All),
        (Wire::Messages, 400, "messages.0.content: Field required", "", Other),
        (Wire::Messages, 400, "prompt is too long: 210000 tokens > 200000 maximum", "", Other),
        (
            Wire::Responses,
            400,
            "The image data you provided does not represent a valid image.",
            "invalid_image",
            One,
        ),
        (Wire::Responses, 400, "Your input was flagged.", "image_content_policy_violation", One),
        (
            Wire::Responses,
            400,
            "Invalid content type. image_url is only supported by certain models.",
            "invalid_value",
            All,
        ),
        (Wire::Responses, 500, "The image service is down.", "server_error", Other),
        (
            Wire::Chat,
            500,
            "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
            "",
            All,
        ),
        (Wire::Chat, 500, "Failed to parse messages: Unsupported content part type: \"image_url\"", "", All),
        (Wire::Chat, 400, "facebook/opt-125m is not a multimodal model None", "", All),
        (Wire::Chat, 400, "Failed to load image or audio file", "", One),
    ] {
        let head = format!("{status} Refused");
        let answer = canned::answer(&head, "content-type: application/json\r\n", &said(message, code));
        let server = Canned::start(vec![answer; 3]).await;
        let provider = provider(wire, &server.base_url);
        let error = ask(&*provider, &request_on(wire, vec![say("Go.")])).await.0.unwrap_err();
        let is_right = match expected {
            One => matches!(error, call::Error::Image(_)) && !error.is_retryable(),
            All => matches!(error, call::Error::Unsupported { parameter: Parameter::Images, .. }),
            Other => !matches!(
                error,
                call::Error::Image(_) | call::Error::Unsupported { parameter: Parameter::Images, .. }
            ),
        };
        assert!(is_right, "{message}: {error:?}");
    }
}
