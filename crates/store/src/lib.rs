//! The tree with history: branches, workspaces, snapshots, proposals, merges.
#![forbid(unsafe_code)]
