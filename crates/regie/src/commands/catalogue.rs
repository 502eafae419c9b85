//! `regie models`: what can be asked, as endpoints say of themselves; and whether it works.

use control::api::{Endpoint, Model, Models, ReadModels};
use models::catalogue::Origin;
use serde_json::json;

use super::{Context, place, vendor};
use crate::args;
use crate::check::{self, Check, Depth, Mark, Report};
use crate::config::{self, Flags};
use crate::failure::{Exit, Failure};
use crate::init::Ask;
use crate::screen::{self, clock, style, table, text};

/// How many columns the name of a check takes.
const WIDE: usize = 9;

pub(super) async fn run(context: &Context, args: args::Models) -> Result<Exit, Failure> {
    match args.what {
        None => list(context, args.all, args.refresh).await,
        Some(args::OfModels::Check(args)) => check(context, args).await,
        Some(args::OfModels::Count(args)) => super::count::run(context, args).await,
    }
}

async fn list(context: &Context, all: bool, refresh: bool) -> Result<Exit, Failure> {
    let marks = marks(context)?;
    let wanted = ReadModels { vendor: vendor(), refresh };
    let mut models = context.connect().await?.models(&wanted).await?;
    if !all {
        for endpoint in &mut models.endpoints {
            endpoint.models.retain(|model| !model.is_other);
        }
    }
    if context.json {
        screen::put_json(&models)?;
    } else {
        screen::put(&shown(&models, &marks, screen::width()))?;
    }
    Ok(Exit::Done)
}

/// The models that roles have with the keys that are there, with the role.
fn marks(context: &Context) -> Result<Vec<(String, &'static str)>, Failure> {
    let config = config::load(&context.home, &place(std::path::Path::new("."))?, Flags::default())?;
    let roles = config.roles().into_iter();
    Ok(roles.filter_map(|set| Some((set.chosen.ok()?.choice.model, set.role.name()))).collect())
}

fn shown(models: &Models, marks: &[(String, &'static str)], width: usize) -> String {
    let mut all = String::new();
    for endpoint in &models.endpoints {
        if !all.is_empty() {
            all.push('\n');
        }
        all.push_str(&heading(endpoint));
        if !endpoint.models.is_empty() {
            let rows: Vec<Vec<String>> = endpoint.models.iter().map(|model| row(model, marks)).collect();
            all.push_str(&table::table(
                &["MODEL", "WINDOW", "OUTPUT", "$ IN", "$ OUT", "ABLE TO"],
                &rows,
                width,
            ));
        }
        if let Some(problem) = &endpoint.problem {
            all.push_str(&format!("{} {}\n", style::waiting("!"), text::line(&problem.detail)));
            if let Some(hint) = &problem.hint {
                all.push_str(&format!("  {} {}\n", style::hint("mend:"), text::line(hint)));
            }
        }
    }
    all
}

fn heading(endpoint: &Endpoint) -> String {
    let name = match endpoint.wire.as_str() {
        "anthropic" => "Anthropic",
        "openai" => "OpenAI",
        _ => "your own server",
    };
    let mut said = Vec::new();
    said.extend(endpoint.url.as_deref().map(text::line));
    if let Some(at) = endpoint.as_of {
        // The day as well, when it was another one.
        let moment = clock::moment(at);
        let (day, time) = moment.split_once(' ').unwrap_or(("", &moment));
        let day = if clock::moment(clock::now()).starts_with(day) { "" } else { day };
        let time = time.get(..5).unwrap_or(time);
        said.push(format!("as of {} UTC", format!("{day} {time}").trim_start()));
    }
    if endpoint.as_of.is_some() && endpoint.models.is_empty() {
        said.push("no model".into());
    }
    let said = if said.is_empty() { String::new() } else { format!(" {}", style::dim(&said.join(" · "))) };
    format!("{}{said}\n", style::bold(name))
}

fn row(model: &Model, marks: &[(String, &'static str)]) -> Vec<String> {
    let number = |tokens: Option<u64>| tokens.map_or_else(|| "—".into(), text::count);
    let price = |each: Option<u64>| each.map_or_else(|| "—".into(), check::per_million);
    let able = [(model.tools, "tools"), (model.vision, "images"), (model.thinking, "thinking")];
    let mut able: Vec<&str> =
        able.iter().filter(|(able, _)| *able == Some(true)).map(|(_, what)| *what).collect();
    if model.tools == Some(false) {
        able.push("no tools");
    }
    if model.is_other {
        able.push("no conversation");
    }
    let roles: Vec<&str> =
        marks.iter().filter(|(name, _)| *name == model.name).map(|(_, role)| *role).collect();
    let marks = (!roles.is_empty()).then(|| format!("← {}", roles.join(", ")));
    let notes: Vec<String> =
        [able.join(", ")].into_iter().filter(|able| !able.is_empty()).chain(marks).collect();
    vec![
        text::line(&model.name),
        number(Some(model.window).filter(|_| model.window_from != Origin::Default)),
        number(model.max_output),
        price(model.price.as_ref().map(|price| price.input)),
        price(model.price.as_ref().map(|price| price.output)),
        notes.join(" "),
    ]
}

async fn check(context: &Context, args: args::CheckModels) -> Result<Exit, Failure> {
    let vendor = vendor();
    let wanted = match args.models.is_empty() {
        true => by_default(context)?,
        false => args.models,
    };
    let prepared: Vec<_> = wanted
        .iter()
        .map(|model| {
            Check::prepare(&context.home, model, &vendor, Depth::Whole).map_err(|error| (model, error))
        })
        .collect();
    for check in prepared.iter().flatten() {
        screen::say(&format!("  {}\n", check.announcement()))?;
    }
    let ask = Ask::of(args.yes, context.json);
    if prepared.iter().any(Result::is_ok) && !ask.is_agreed("Make these calls?")? {
        return Err(match ask {
            Ask::Nobody => {
                Failure::usage("no call was made: nobody is here to be asked").hint("pass --yes to agree")
            }
            _ => Failure::new("no call was made"),
        });
    }
    let mut reports = Vec::new();
    for prepared in prepared {
        let report = match prepared {
            Ok(check) => check.make().await,
            Err((model, error)) => Report::refused(model, error),
        };
        if !context.json {
            screen::put(&told(&report))?;
        }
        reports.push(report);
    }
    let ok = reports.iter().all(|report| report.ok);
    if context.json {
        screen::put_json(&json!({ "ok": ok, "models": reports }))?;
    }
    Ok(if ok { Exit::Done } else { Exit::Failed })
}

/// What is checked when nothing is named: the models of the roles, or what they would be.
fn by_default(context: &Context) -> Result<Vec<String>, Failure> {
    let mut all: Vec<String> = Vec::new();
    for (model, _) in marks(context)? {
        if !all.contains(&model) {
            all.push(model);
        }
    }
    if all.is_empty() {
        // What is missing is said.
        all.push(models::catalogue::DEFAULT_MODEL.to_owned());
    }
    Ok(all)
}

fn told(report: &Report) -> String {
    let mut all = format!("\n{}", style::bold(&text::line(&report.model)));
    all.push_str(
        &report
            .endpoint
            .as_deref()
            .map_or_else(String::new, |at| style::dim(&format!(" {}", text::line(at)))),
    );
    all.push('\n');
    for line in &report.lines {
        let mark = match line.mark {
            Mark::Ok => style::ok("✓"),
            Mark::Info => style::dim("·"),
            Mark::Failed => style::failed("✗"),
        };
        all.push_str(&format!("  {mark} {:<WIDE$}  {}\n", line.id, text::line(&line.said)));
        if let Some(mend) = &line.mend {
            all.push_str(&format!("    {:<WIDE$}  {} {}\n", "", style::hint("mend:"), text::line(mend)));
        }
    }
    let cost = report
        .nanodollars
        .map_or("at a price that is unknown".into(), |cost| format!("for {}", check::precise(cost)));
    let verdict = match report.ok {
        true => style::ok("it works"),
        false => style::failed("it does not work like this"),
    };
    all.push_str(&format!("  {verdict}, {cost}\n"));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> Model {
        Model {
            name: name.into(),
            display: None,
            window: 1_000_000,
            window_from: Origin::Endpoint,
            longest: None,
            max_output: Some(64_000),
            tools: None,
            vision: Some(true),
            thinking: Some(true),
            created: None,
            is_other: false,
            price: models::catalogue::price(name),
            price_holds: None,
        }
    }

    #[test]
    fn what_is_not_known_is_a_dash_and_an_endpoint_without_key_a_line() {
        let unknown = Model {
            window_from: Origin::Default,
            max_output: None,
            vision: None,
            thinking: None,
            ..model("claude-of-tomorrow")
        };
        let endpoint = |wire: &str, models, problem| Endpoint {
            wire: wire.into(),
            url: Some("https://api.anthropic.com".into()).filter(|_| wire == "anthropic"),
            as_of: None,
            is_complete: true,
            models,
            problem,
        };
        let no_key =
            control::Error::new(control::error::Kind::Invalid, "model.key_missing", "no key for OpenAI");
        let models = Models {
            endpoints: vec![
                endpoint("anthropic", vec![model("claude-opus-5-5"), unknown], None),
                endpoint("openai", Vec::new(), Some(no_key.hint("set OPENAI_API_KEY").problem())),
            ],
        };
        let shown = shown(&models, &[("claude-opus-5-5".into(), "worker")], 100);
        insta::assert_snapshot!(anstream::adapter::strip_str(&shown).to_string(), @r"
        Anthropic https://api.anthropic.com
        MODEL               WINDOW     OUTPUT  $ IN  $ OUT  ABLE TO
        claude-opus-5-5     1,000,000  64,000  4     20     images, thinking ← worker
        claude-of-tomorrow  —          —       —     —

        OpenAI
        ! no key for OpenAI
          mend: set OPENAI_API_KEY
        ");
    }
}
