//! SQLite behind the kernel's ports, and content-addressed artifacts.
#![forbid(unsafe_code)]
