//! The memory of all processes of the jail, as its `/proc` has it.

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::bound::Memory;

/// Exact counts of processes take this long at most; what is left then counts roughly.
const PATIENCE: Duration = Duration::from_millis(200);

/// What each process of the jail holds, at most.
pub(super) struct Processes(Vec<Process>);

struct Process {
    id: u32,
    /// What it holds, shared pages in full.
    rough: Memory,
    /// What of that is its own in any case: page tables and huge pages, in bytes.
    tables: u64,
}

/// Reads the counters of each process: shared pages count for each that has them.
pub(super) fn processes() -> Processes {
    Processes(ids().filter_map(process).collect())
}

fn process(id: u32) -> Option<Process> {
    let text = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    Some(Process { id, rough: status(&text), tables: tables(&text) })
}

/// The ids of the jail's processes.
pub(super) fn ids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

impl Processes {
    /// At most what they hold together.
    pub(super) fn rough(&self) -> Memory {
        self.0.iter().map(|process| process.rough).fold(Memory::default(), plus)
    }

    /// What they hold together, shared pages counted once.
    pub(super) fn exact(&self) -> Memory {
        let begin = Instant::now();
        let of = |process: &Process| {
            if begin.elapsed() > PATIENCE { process.rough } else { process.exact() }
        };
        self.0.iter().map(of).fold(Memory::default(), plus)
    }
}

impl Process {
    fn exact(&self) -> Memory {
        let read = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.id));
        let found = read.ok().and_then(|text| rollup(&text, self.tables));
        // It has ended, and holds nothing by now; or it is a program that cannot be looked into.
        found.unwrap_or_else(|| process(self.id).map(|now| now.rough).unwrap_or_default())
    }
}

fn plus(one: Memory, other: Memory) -> Memory {
    Memory {
        own: one.own.saturating_add(other.own),
        mapped: one.mapped.saturating_add(other.mapped),
        held: one.held.saturating_add(other.held),
    }
}

/// What `status` of a process says.
fn status(text: &str) -> Memory {
    let of = |name| kibibytes(text, name);
    Memory {
        own: of("RssAnon:").saturating_add(of("VmSwap:")).saturating_add(tables(text)),
        mapped: of("RssShmem:"),
        held: 0,
    }
}

fn tables(text: &str) -> u64 {
    kibibytes(text, "VmPTE:").saturating_add(kibibytes(text, "HugetlbPages:"))
}

/// What `smaps_rollup` of a process says; nothing when it says nothing, as of one that ends just now.
fn rollup(text: &str, tables: u64) -> Option<Memory> {
    let of = |name| kibibytes(text, name);
    let own = of("Pss_Anon:").saturating_add(of("SwapPss:")).saturating_add(tables);
    text.contains("Pss_Anon:").then_some(Memory { own, mapped: of("Pss_Shmem:"), held: 0 })
}

/// A line of such a file, in bytes.
fn kibibytes(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or_default().saturating_mul(1024)
}

/// Shared memory of the whole machine, in bytes.
pub(super) fn machine_shared() -> u64 {
    let found = rustix::system::sysinfo();
    found.sharedram.saturating_mul(found.mem_unit.into())
}

/// What System V segments and messages of the jail take, in bytes, whether anybody is attached or not.
pub(super) fn system_v() -> u64 {
    let read = |name: &str| fs::read_to_string(format!("/proc/sysvipc/{name}")).unwrap_or_default();
    columns(&read("shm"), &["rss", "swap"]).saturating_add(columns(&read("msg"), &["cbytes"]))
}

/// The sum of the named columns of a table.
fn columns(table: &str, names: &[&str]) -> u64 {
    let mut lines = table.lines();
    let heads: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
    let is_wanted = |at: usize| heads.get(at).is_some_and(|head| names.contains(head));
    lines
        .flat_map(|line| line.split_whitespace().enumerate())
        .filter(|(at, _)| is_wanted(*at))
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_process_are_read() {
        let text = "Name:\tx\nVmPTE:\t 4 kB\nRssAnon:\t   100 kB\nRssFile:\t 900 kB\nRssShmem:\t 20 kB\n\
                    VmSwap:\t 8 kB\nHugetlbPages:\t 0 kB\n";
        assert_eq!(status(text), Memory { own: 112 << 10, mapped: 20 << 10, held: 0 });
        // A kernel thread, or one that has ended, has none of them.
        assert_eq!(status("Name:\tx\nState:\tZ (zombie)\n"), Memory::default());
    }

    #[test]
    fn exact_counts_have_shares_of_what_is_shared() {
        let text = "00400000-7fff ---p 00000000 00:00 0 [rollup]\nPss_Anon:  40 kB\nPss_Shmem: 9 kB\nSwapPss: 1 kB\n";
        assert_eq!(rollup(text, 2 << 10), Some(Memory { own: 43 << 10, mapped: 9 << 10, held: 0 }));
        assert_eq!(rollup("", 2 << 10), None, "then it is looked whether it is still there");
    }

    #[test]
    fn segments_count_by_their_column() {
        let table = "       key      shmid perms    size  cpid  rss  swap\n 0 1 600 99999 7 4096 8192\n 0 2 600 9 7 1 2\n";
        assert_eq!(columns(table, &["rss", "swap"]), 4096 + 8192 + 3);
        assert_eq!(columns("", &["rss"]), 0);
    }
}
