//! `regie costs`: what was spent. A price that is not known is shown as unknown, never as nothing.

use control::api::{Cost, Costs};

use super::Context;
use crate::args::{self, By};
use crate::failure::{Exit, Failure};
use crate::screen::{self, table, text};

pub(super) async fn run(context: &Context, args: &args::Costs) -> Result<Exit, Failure> {
    let (by, heading) = match args.by {
        By::Run => ("run", "RUN"),
        By::Mission => ("mission", "MISSION"),
        By::Day => ("day", "DAY"),
        By::Model => ("model", "MODEL"),
    };
    let costs = context.connect().await?.costs(by).await?;
    if context.json {
        screen::put_json(&costs)?;
        return Ok(Exit::Done);
    }
    if costs.rows.is_empty() {
        screen::say("nothing was spent yet\n")?;
        return Ok(Exit::Done);
    }
    screen::put(&shown(args.by, heading, &costs, screen::width()))?;
    Ok(Exit::Done)
}

fn shown(by: By, heading: &str, costs: &Costs, width: usize) -> String {
    let is_id = matches!(by, By::Run | By::Mission);
    let mut rows: Vec<Vec<String>> = costs
        .rows
        .iter()
        .map(|row| {
            let key = if is_id { text::short_id(&row.key) } else { text::line(&row.key) };
            line(key, row)
        })
        .collect();
    rows.push(line("total".into(), &costs.total));
    let last = if is_id { "GOAL" } else { "" };
    let mut shown = table::table(&[heading, "CALLS", "TOKENS", "CACHED", "COST", last], &rows, width);
    if matches!(by, By::Mission) {
        shown.push_str(&format!("\n{}\n", per_finished(costs)));
    }
    shown
}

/// What a mission that is done cost, with all that was spent on those that are not.
fn per_finished(costs: &Costs) -> String {
    let missions = text::of(costs.finished, "mission is done", "missions are done");
    let cost = match (costs.finished, costs.total.nanodollars, costs.total.unpriced) {
        (0, ..) => return "cost per finished mission: none is done".into(),
        (_, None, _) | (_, _, 1..) => "unknown".into(),
        (finished, Some(all), 0) => text::dollars(all.div_ceil(finished)),
    };
    format!("cost per finished mission: {cost} ({missions}; what was spent on others counts too)")
}

fn line(key: String, row: &Cost) -> Vec<String> {
    let cached = row.told.map_or_else(|| "unknown".into(), |told| text::count(told.cache_read));
    vec![
        key,
        text::count(row.calls),
        text::count(row.tokens),
        cached,
        money(row),
        row.title.as_deref().map(text::line).unwrap_or_default(),
    ]
}

fn money(row: &Cost) -> String {
    match (row.nanodollars, row.unpriced) {
        (None, _) => "unknown".into(),
        (Some(known), 0) => text::dollars(known),
        (Some(known), unpriced) => {
            format!("{} + {} unknown", text::dollars(known), text::of(unpriced, "call", "calls"))
        }
    }
}

#[cfg(test)]
mod tests {
    use control::api::Tokens;

    use super::*;

    fn cost(key: &str, nanodollars: Option<u64>, unpriced: u64) -> Cost {
        let told = nanodollars.map(|_| Tokens { cache_read: 1_234, ..Tokens::default() });
        Cost { key: key.into(), calls: 2, tokens: 5_678, nanodollars, unpriced, told, title: None }
    }

    #[test]
    fn what_is_not_known_is_not_nothing() {
        let rows = vec![
            cost("claude-opus-5-5", Some(12_300_000), 0),
            cost("house", None, 2),
            cost("mixed", Some(4_000_000), 1),
        ];
        let costs = Costs {
            by: control::api::By::Model,
            rows,
            total: cost("total", Some(16_300_000), 3),
            finished: 0,
        };
        let shown = shown(By::Model, "MODEL", &costs, 100);
        insta::assert_snapshot!(anstream::adapter::strip_str(&shown).to_string());
    }

    #[test]
    fn what_others_cost_was_paid_for_those_that_are_done() {
        let of = |finished, nanodollars, unpriced| {
            let total = cost("total", nanodollars, unpriced);
            per_finished(&Costs { by: control::api::By::Mission, rows: Vec::new(), total, finished })
        };
        assert!(of(2, Some(3_000_000_000), 0).contains("mission: $1.50 (2 missions are done;"));
        assert!(of(1, Some(3_000_000_000), 1).contains("mission: unknown (1 mission is done;"));
        assert!(of(1, None, 2).contains("mission: unknown"));
        assert!(of(0, Some(1), 0).ends_with("none is done"));
    }
}
