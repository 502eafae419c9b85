//! What the built-in tools are, as a model and the policy see them.
//!
//! Names, descriptions and schemas are constant text in a fixed order: they are part of every
//! prompt, and a changed byte would empty a vendor's prompt cache.

use domain::{Effect, Risk};

/// A typed action with an effect class and a risk class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// How a model calls it.
    pub name: String,
    /// What it does, for a model.
    pub description: String,
    /// The JSON Schema of its input, as JSON text that never varies.
    pub input_schema: String,
    /// What repeating it would do.
    pub effect: Effect,
    /// How much can go wrong.
    pub risk: Risk,
    /// Whether several calls may run at the same time.
    pub parallel: bool,
}

/// The built-in tools, in the order in which prompts name them.
pub fn builtin() -> Vec<Tool> {
    vec![read(), list(), search(), edit(), write(), shell()]
}

/// The step that sets a project up: the one that has the machine's network. No model can call it; the
/// driver plans it, and the owner approves it at a gate.
pub const SETUP: &str = "setup";

/// The names of the built-in tools, in the same order.
pub(crate) const NAMES: [&str; 6] = ["read", "list", "search", "edit", "write", "shell"];

fn looks(name: &str, description: &str, input_schema: &str) -> Tool {
    Tool {
        name: name.into(),
        description: description.into(),
        input_schema: input_schema.into(),
        effect: Effect::Read,
        risk: Risk::Read,
        parallel: true,
    }
}

fn changes(name: &str, description: &str, input_schema: &str) -> Tool {
    Tool {
        effect: Effect::WorkspaceWrite,
        risk: Risk::Workspace,
        parallel: false,
        ..looks(name, description, input_schema)
    }
}

fn read() -> Tool {
    looks(
        "read",
        "Reads a text file of the workspace. Each line comes with its number and a tab, which are not part \
         of the file. Shows up to 2000 lines and 12 KiB from `offset` on; long lines are cut. A PNG, JPEG, GIF or \
         WebP image is shown as one. Read a file before you edit or overwrite it.",
        r#"{"type":"object","properties":{"path":{"type":"string","description":"Path relative to the workspace."},"offset":{"type":"integer","minimum":1,"description":"First line to show, from 1. Default 1."},"limit":{"type":"integer","minimum":1,"maximum":2000,"description":"Number of lines to show. Default 2000."}},"required":["path"],"additionalProperties":false}"#,
    )
}

fn list() -> Tool {
    looks(
        "list",
        "Lists files and directories of the workspace, sorted; directories end in `/`, links in `@`. Leaves out `.git` and \
         what .gitignore names. Shows up to 1000 entries.",
        r#"{"type":"object","properties":{"path":{"type":"string","description":"Directory relative to the workspace. Default: the workspace itself."},"depth":{"type":"integer","minimum":1,"maximum":16,"description":"Levels to descend. Default 1."}},"required":[],"additionalProperties":false}"#,
    )
}

fn search() -> Tool {
    looks(
        "search",
        "Searches the text files of the workspace for a regular expression (Rust syntax, as in ripgrep), line \
         by line. Leaves out `.git`, binary files and what .gitignore names. Prints `path:line:text`, up to \
         200 lines.",
        r#"{"type":"object","properties":{"pattern":{"type":"string","description":"The regular expression."},"path":{"type":"string","description":"File or directory relative to the workspace. Default: the workspace itself."},"glob":{"type":"string","description":"Only files that match, as `*.rs` (the file name) or `src/**/*.ts` (the path)."},"ignore_case":{"type":"boolean","description":"Default false."}},"required":["pattern"],"additionalProperties":false}"#,
    )
}

fn edit() -> Tool {
    changes(
        "edit",
        "Replaces exact text in a file of the workspace. `old` must occur in the file exactly as given, \
         whitespace included and without line numbers, and only once unless `replace_all` is true. Refused \
         when the file was not read before or was changed by something else since it was last read.",
        r#"{"type":"object","properties":{"path":{"type":"string","description":"Path relative to the workspace."},"old":{"type":"string","description":"The exact text to replace."},"new":{"type":"string","description":"What to put there."},"replace_all":{"type":"boolean","description":"Replace every occurrence. Default false."}},"required":["path","old","new"],"additionalProperties":false}"#,
    )
}

fn write() -> Tool {
    changes(
        "write",
        "Writes a whole file of the workspace, with missing directories. To overwrite an existing file, read \
         it first; refused when it was changed by something else since then. Prefer `edit` for changes.",
        r#"{"type":"object","properties":{"path":{"type":"string","description":"Path relative to the workspace."},"content":{"type":"string","description":"The complete new content."}},"required":["path","content"],"additionalProperties":false}"#,
    )
}

fn shell() -> Tool {
    changes(
        "shell",
        "Runs a shell command in the workspace, inside a sandbox: no network, writes only in the workspace \
         and /tmp, standard input empty. Everything that it started is ended when it ends, and /tmp is \
         emptied. Gives back standard output and standard error together; of long output, the beginning \
         and the end, and the path of a file below /outputs with the whole, for `read` and `search`.",
        r#"{"type":"object","properties":{"command":{"type":"string","description":"The command line."},"timeout_seconds":{"type":"integer","minimum":1,"maximum":3600,"description":"When to end it. Default: the step's own limit."}},"required":["command"],"additionalProperties":false}"#,
    )
}
