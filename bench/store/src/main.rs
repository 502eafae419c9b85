//! What a tree costs beside git on 10,000 files, as ratios that come from one run on one machine.
//!
//!     cargo run --release --package bench-store [DIR]
//!
//! Both sides do the same on one file system (that of DIR, by default of the temporary directory) with a warm
//! cache, and take turns. Exits with 1 when a target is missed.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "a program whose output is a table")]

mod git;
mod table;
mod world;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use store::{Engine as _, engine};

use crate::git::git;
use crate::table::{Table, median, timed};
use crate::world::World;

/// Files in the tree.
const FILES: usize = 10_000;
/// Branches in the second half.
const BRANCHES: usize = 1_000;
/// Rounds of what writes all files, and of what writes one.
const LONG: usize = 3;
const SHORT: usize = 7;

fn main() -> Result<ExitCode> {
    let scratch = match std::env::args_os().nth(1) {
        Some(dir) => tempfile::tempdir_in(dir)?,
        None => tempfile::tempdir()?,
    };
    let mut table = Table::begin();
    let mut world = World::new(scratch.path(), FILES)?;
    measure(&mut world, &mut table, "", 100)?;
    branches(&mut world, &mut table)?;
    measure(&mut world, &mut table, ", 1,000 branches", 300)?;
    plain(scratch.path(), &mut table)?;
    Ok(table.end())
}

/// Commits change files from the round `first` on: what was committed before would be no change.
fn measure(world: &mut World, table: &mut Table, with: &str, first: usize) -> Result<()> {
    let (mut ours, mut theirs, mut refs) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..LONG {
        let name = world.next();
        refs.push(timed(|| Ok(world.tree.branch_create(&name, &world.head)?))?);
        let fork = world.dir(&name);
        let files = timed(|| Ok(world.tree.workspace_create(&name, &fork).map(|_| ())?))?;
        ours.push(files + refs.last().copied().unwrap_or_default());
        let worktree = world.dir(&format!("{name}.theirs"));
        let to = worktree.display().to_string();
        theirs.push(timed(|| git(&world.repo, &["worktree", "add", "-q", "--detach", &to, "HEAD"]))?);
    }
    let fork = median(&mut theirs);
    table.row(&format!("a fork with its files / git worktree add{with}"), median(&mut ours) / fork, 1.0);
    table.note(&format!("a fork without files / git worktree add{with}"), median(&mut refs) / fork);

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..SHORT {
        let before = world.workspace.snapshot()?.tree;
        world::change(world.workspace.dir(), round)?;
        ours.push(timed(|| {
            world.workspace.snapshot()?;
            Ok(world.workspace.restore(&before)?)
        })?);
        world::change(&world.repo, round)?;
        theirs.push(timed(|| {
            git(&world.repo, &["add", "-A"])?;
            git(&world.repo, &["write-tree"])
        })?);
        git(&world.repo, &["reset", "-q", "--hard"])?;
    }
    let what = format!("snapshot and roll-back of one file / git add -A && write-tree{with}");
    table.row(&what, median(&mut ours) / median(&mut theirs), 0.3);

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..SHORT {
        world::change(world.workspace.dir(), first + round)?;
        let (message, signature) = world::words();
        ours.push(timed(|| Ok(world.workspace.commit(&message, &signature).map(|_| ())?))?);
        world::change(&world.repo, first + round)?;
        theirs.push(timed(|| git(&world.repo, &["commit", "-qam", "Change"]))?);
    }
    let what = format!("durable commit of one file / git commit -qam{with}");
    table.row(&what, median(&mut ours) / median(&mut theirs), 0.3);
    Ok(())
}

/// Opens many branches, and looks how much room they take.
fn branches(world: &mut World, table: &mut Table) -> Result<()> {
    let before = world::room(world.tree.git_dir());
    for _ in 0..BRANCHES {
        let name = world.next();
        world.tree.branch_create(&name, &world.head)?;
    }
    let each = (world::room(world.tree.git_dir()) - before) / BRANCHES as f64;
    table.row("an untouched fork on disk, KiB", each / 1024.0, 16.0);
    Ok(())
}

/// The other engine, for those who wonder what copies cost. It has no target: it is for small data.
fn plain(scratch: &Path, table: &mut Table) -> Result<()> {
    let quota = engine::plain::Quota { bytes: 1 << 30, files: 100_000 };
    let terms = engine::plain::Terms { quota, lives: 1 << 30, binned: 1 << 30 };
    let tree = store::Plain::open_or_create(&scratch.join("plain"), terms)?;
    let (message, signature) = world::words();
    let mut head = tree.begin("lines/main", &message, &signature)?;
    tree.fork("bench/plain", &head, 0)?;
    let dir = scratch.join("plain-work");
    let at = engine::Checkout { branch: "bench/plain", dir: &dir, now: 0 };
    tree.checkout(at)?;
    world::fill(&dir, FILES)?;
    let repo = scratch.join("owner");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..LONG {
        world::change(&dir, 200 + round)?;
        let begun = std::time::Instant::now();
        head = tree.commit(at, &head, &message, &signature)?.unwrap_or(head);
        ours.push(begun.elapsed().as_secs_f64());
        world::change(&repo, 200 + round)?;
        theirs.push(timed(|| git(&repo, &["commit", "-qam", "Change"]))?);
    }
    let what = "the plain engine: durable commit of one file / git commit -qam";
    table.note(what, median(&mut ours) / median(&mut theirs));
    Ok(())
}
