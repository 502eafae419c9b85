//! A disk that forgets what was not synced, driven by the recorder's log.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::suite::history::Dice;

/// What the process did to the files, one operation after another.
#[derive(Debug)]
pub(super) struct Record {
    operation: u32,
    path: PathBuf,
    offset: u64,
    data: Vec<u8>,
}

const WRITE: u32 = 1;
const TRUNCATE: u32 = 2;
const SYNC: u32 = 3;
const UNLINK: u32 = 4;
const RENAME: u32 = 5;
const FOLDER: u32 = 6;

/// Reads the recorder's log.
pub(super) fn read_log(path: &Path) -> Vec<Record> {
    let bytes = fs::read(path).unwrap();
    let mut rest = bytes.as_slice();
    let mut records = Vec::new();
    let mut take = |count: usize| {
        let (taken, left) = rest.split_at(count);
        rest = left;
        (taken.to_vec(), left.is_empty())
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    loop {
        let (head, _) = take(24);
        let operation = u32::try_from(number(&head[..4])).unwrap();
        let length = usize::try_from(number(&head[16..])).unwrap();
        let (path, _) = take(usize::try_from(number(&head[4..8])).unwrap());
        let has_data = matches!(operation, WRITE | RENAME);
        let (data, end) = take(if has_data { length } else { 0 });
        let path = PathBuf::from(String::from_utf8(path).unwrap());
        records.push(Record { operation, path, offset: number(&head[8..16]), data });
        if end {
            return records;
        }
    }
}

/// What a power cut takes with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Loss {
    /// Every write and every name that was not synced.
    AllUnsynced,
    /// Half of those writes, whichever; the names stay. The number is the seed.
    SomeUnsynced(u64),
}

/// A file, or a folder, whatever its name.
#[derive(Debug, Default)]
struct Node {
    is_folder: bool,
    durable: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, data) => {
                let end = offset + data.len();
                bytes.resize(bytes.len().max(end), 0);
                bytes[*offset..end].copy_from_slice(data);
            }
            Self::Truncate(length) => bytes.resize(*length, 0),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Disk {
    home: PathBuf,
    nodes: Vec<Node>,
    /// As the process sees them.
    names: BTreeMap<PathBuf, usize>,
    /// As they are after a power cut.
    durable_names: BTreeMap<PathBuf, usize>,
    acknowledged: Vec<String>,
    checkpoints: usize,
}

impl Disk {
    pub(super) fn new(home: &Path) -> Self {
        Self {
            home: home.into(),
            nodes: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            acknowledged: Vec::new(),
            checkpoints: 0,
        }
    }

    /// What the process was told is durable, so far.
    pub(super) fn acknowledged(&self) -> &[String] {
        &self.acknowledged
    }

    /// How often the database itself was synced.
    pub(super) const fn checkpoints(&self) -> usize {
        self.checkpoints
    }

    pub(super) fn apply(&mut self, record: &Record) {
        let path = &record.path;
        let offset = usize::try_from(record.offset).unwrap();
        match record.operation {
            WRITE if path.ends_with("acknowledged") => {
                self.acknowledged.push(String::from_utf8(record.data.clone()).unwrap().trim_end().into());
            }
            WRITE => self.node(path).pending.push(Change::Write(offset, record.data.clone())),
            TRUNCATE => self.node(path).pending.push(Change::Truncate(offset)),
            SYNC => self.sync(path),
            UNLINK => drop(self.names.remove(path)),
            RENAME => {
                let node = self.names.remove(path).unwrap();
                self.names.insert(String::from_utf8(record.data.clone()).unwrap().into(), node);
            }
            FOLDER => self.node(path).is_folder = true,
            other => panic!("unknown operation {other}"),
        }
    }

    fn node(&mut self, path: &Path) -> &mut Node {
        let next = self.nodes.len();
        let number = *self.names.entry(path.into()).or_insert(next);
        if number == next {
            self.nodes.push(Node::default());
        }
        &mut self.nodes[number]
    }

    /// A synced file has its bytes, a synced folder has its names.
    fn sync(&mut self, path: &Path) {
        if path == self.home || self.node(path).is_folder {
            let inside = |name: &Path| name.parent() == Some(path);
            self.durable_names.retain(|name, _| !inside(name));
            let names = self.names.iter().filter(|(name, _)| inside(name));
            self.durable_names.extend(names.map(|(name, node)| (name.clone(), *node)));
            return;
        }
        self.checkpoints += usize::from(path.ends_with("regie.db"));
        let node = self.node(path);
        for change in node.pending.drain(..) {
            change.apply(&mut node.durable);
        }
    }

    /// Writes the files to `target` as a power cut would leave them.
    pub(super) fn after_power_cut(&self, target: &Path, loss: Loss) {
        let (names, mut dice) = match loss {
            Loss::AllUnsynced => (&self.durable_names, None),
            Loss::SomeUnsynced(seed) => (&self.names, Some(Dice::new(seed))),
        };
        for (name, node) in names {
            let node = &self.nodes[*node];
            let reachable = name.ancestors().skip(1).take_while(|folder| *folder != self.home);
            // The index of the log is rebuilt at every first opening.
            if node.is_folder
                || name.ends_with("regie.db-shm")
                || !reachable.clone().all(|f| names.contains_key(f))
            {
                continue;
            }
            let mut bytes = node.durable.clone();
            for change in &node.pending {
                if dice.as_mut().is_some_and(|dice| dice.below(2) == 0) {
                    change.apply(&mut bytes);
                }
            }
            let place = target.join(name.strip_prefix(&self.home).unwrap());
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, bytes).unwrap();
        }
    }
}
