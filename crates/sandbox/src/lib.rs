//! A plan becomes a confined process: launcher, namespaces, Landlock, seccomp.
#![deny(unsafe_op_in_unsafe_fn)]
