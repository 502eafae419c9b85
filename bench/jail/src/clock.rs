//! Works that take turns, and what each of them took.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Something that is measured: it starts one program and sees its end.
pub(crate) struct Work<'a> {
    /// What it is called in the table.
    pub name: &'a str,
    /// It has a turn in each round that this divides: what takes long has fewer.
    pub every: usize,
    /// Does it once.
    pub once: Box<dyn FnMut() -> Result<()> + 'a>,
    /// What it does afterwards, outside the time: Regie's runner prepares the next jail when it has answered,
    /// while a model thinks. The processor time counts it, a turn later.
    pub after: Option<Box<dyn FnMut() + 'a>>,
}

/// How long a machine has before the next turn, so that what was done afterwards is over.
const PAUSE: Duration = Duration::from_millis(10);

/// What a work took in the rounds in which it had a turn: `None` where it had none.
pub(crate) struct Took {
    pub name: String,
    /// Seconds from before its start until after its end.
    pub wall: Vec<Option<f64>>,
    /// Processor time of all that it started and that was waited for, in seconds a turn.
    pub cpu: f64,
}

/// Lets the works take turns, in another order each round, after one round that does not count.
pub(crate) fn beside(rounds: usize, mut works: Vec<Work<'_>>) -> Result<Vec<Took>> {
    let mut took: Vec<Took> = works
        .iter()
        .map(|work| Took { name: work.name.to_owned(), wall: vec![None; rounds], cpu: 0.0 })
        .collect();
    for work in &mut works {
        (work.once)().with_context(|| work.name.to_owned())?;
        if let Some(after) = &mut work.after {
            after();
        }
    }
    let count = works.len();
    for round in 0..rounds {
        for place in 0..count {
            let at = (round + place) % count;
            let (Some(work), Some(took)) = (works.get_mut(at), took.get_mut(at)) else { continue };
            if round % work.every != 0 {
                continue;
            }
            let (cpu, wall) = (children()?, Instant::now());
            (work.once)().with_context(|| work.name.to_owned())?;
            if let Some(into) = took.wall.get_mut(round) {
                *into = Some(wall.elapsed().as_secs_f64());
            }
            // What starts and ends processes may end after them, as Regie's launcher and its first process do.
            std::thread::sleep(PAUSE);
            took.cpu += (children()? - cpu) / rounds.div_ceil(work.every) as f64;
            if let Some(after) = &mut work.after {
                after();
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(took)
}

/// One number of many: its median and quartiles.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub low: f64,
    pub middle: f64,
    pub high: f64,
}

/// What `one` took of what `other` took, round by round.
pub(crate) fn ratio(one: &[Option<f64>], other: &[Option<f64>]) -> Spread {
    spread(one.iter().zip(other).filter_map(|(one, other)| Some((*one)? / (*other)?)).collect())
}

/// Median and quartiles.
pub(crate) fn spread(mut values: Vec<f64>) -> Spread {
    values.sort_by(f64::total_cmp);
    let at = |part: usize| values.get(values.len() * part / 4).copied().unwrap_or(f64::NAN);
    Spread { low: at(1), middle: at(2), high: at(3) }
}

/// Processor time of all ended descendants that were waited for, as the kernel tells it: in hundredths of a
/// second, so that only the sum over many rounds says anything.
fn children() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(") ").context("/proc/self/stat has another form")?;
    let ticks: f64 = fields.split(' ').skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / 100.0)
}
