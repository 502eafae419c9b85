//! `regie cat` and `regie search`: reading what was recorded.

use control::api::Hit;

use super::Context;
use crate::args;
use crate::failure::{Exit, Failure};
use crate::screen::{self, style, text};

/// The widest kind of a hit.
const KIND: usize = 10;

pub(super) async fn cat(context: &Context, artifact: &str) -> Result<Exit, Failure> {
    let bytes = context.connect().await?.artifact(artifact).await?;
    match std::str::from_utf8(&bytes) {
        // On a terminal agents' words must not steer it; a pipe or a file gets every byte as it is.
        Ok(words) if screen::is_read() => screen::put(&text::lines(words))?,
        Err(_) if screen::is_read() => {
            return Err(Failure::new(format!("{} of binary data are not for a terminal", size(&bytes)))
                .hint(format!("regie cat {} > FILE", text::line(artifact))));
        }
        _ => screen::put_raw(&bytes)?,
    }
    Ok(Exit::Done)
}

fn size(bytes: &[u8]) -> String {
    text::of(u64::try_from(bytes.len()).unwrap_or(u64::MAX), "byte", "bytes")
}

pub(super) async fn search(context: &Context, args: &args::Search) -> Result<Exit, Failure> {
    let hits = context.connect().await?.search(&args.text.join(" "), args.limit).await?;
    if context.json {
        screen::put_json(&hits)?;
    } else if hits.is_empty() {
        screen::say("nothing was found\n")?;
    } else {
        let shown: String = hits.iter().map(|hit| line(hit, screen::width())).collect();
        screen::put(&shown)?;
        screen::hint("regie show RUN --full")?;
    }
    Ok(if hits.is_empty() { Exit::Failed } else { Exit::Done })
}

/// `3f9a1c2b  step 4   output      … thread 'main' panicked at …`
fn line(hit: &Hit, width: usize) -> String {
    let step = hit.step.map(|step| format!("step {step}")).unwrap_or_default();
    let head = format!("{:<8}  {step:<9} {:<KIND$}  ", text::short_id(&hit.run), text::line(&hit.kind));
    let mut left = width.saturating_sub(head.chars().count()).max(20);
    let mut shown = style::dim(&head);
    for piece in &hit.excerpt {
        // A space at either end of a piece stands between words.
        let words: String = spaced(&piece.text).chars().take(left).collect();
        left -= words.chars().count();
        shown.push_str(&if piece.is_match { style::bold(&words) } else { words });
    }
    format!("{}\n", shown.trim_end())
}

/// One line, with a space where the text begins or ends in one.
fn spaced(words: &str) -> String {
    let at = |edge: Option<char>| if edge.is_some_and(char::is_whitespace) { " " } else { "" };
    match text::line(words) {
        line if line.is_empty() => at(words.chars().next()).to_owned(),
        line => format!("{}{line}{}", at(words.chars().next()), at(words.chars().next_back())),
    }
}

#[cfg(test)]
mod tests {
    use control::api::Piece;

    use super::*;

    #[test]
    fn a_hit_is_one_line_that_cannot_steer_the_terminal() {
        let piece = |text: &str, is_match| Piece { text: text.into(), is_match };
        let hit = Hit {
            run: "run_01jd0000000000000012345678".into(),
            seq: 9,
            at: 0,
            step: Some(4),
            kind: "output".into(),
            excerpt: vec![piece("…\x1b[2J the\n", false), piece("needle", true), piece(" in  hay", false)],
        };
        let shown = anstream::adapter::strip_str(&line(&hit, 80)).to_string();
        assert_eq!(shown, "12345678  step 4    output      …\u{fffd}[2J the needle in hay\n");
        assert!(anstream::adapter::strip_str(&line(&hit, 10)).to_string().chars().count() < 60);
    }
}
