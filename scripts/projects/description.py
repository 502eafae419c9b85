"""What `projects/<name>/project.toml` says. A key that is not known is an error: a misspelt one would
prove nothing."""

import os
import tomllib

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "projects"))

TOP = {"name", "language", "quick", "root", "done", "package", "edit", "file", "bug", "python", "node", "cargo",
       "layout", "expect"}
KEYS = {
    "package": {"registry", "name", "version", "sha256"},
    "edit": {"file", "find", "replace"},
    "file": {"path", "text"},
    "bug": {"file", "find", "replace"},
    "python": {"packages"},
    "node": {"packages"},
    "cargo": {"fetch"},
    "layout": {"kind", "path", "packages", "files", "package"},
    "expect": {"init", "warnings", "diff"},
}


class Wrong(Exception):
    """A description or a project is not as it has to be."""


class Project:
    def __init__(self, folder):
        self.folder = folder
        with open(os.path.join(folder, "project.toml"), "rb") as file:
            said = tomllib.load(file)
        check(folder, said)
        self.name = os.path.basename(folder)
        self.language = said["language"]
        self.is_quick = said.get("quick", False)
        self.package = said["package"]
        # The directory of the archive that is the project.
        self.root = said.get("root", "")
        self.edits = said.get("edit", [])
        self.files = said.get("file", [])
        self.bugs = said["bug"]
        self.python = said.get("python", {}).get("packages", [])
        self.node = said.get("node", {}).get("packages", [])
        self.cargo = said.get("cargo", {}).get("fetch", False)
        self.layout = said.get("layout", {"kind": "plain"})
        self.expect = said.get("expect", {})
        # What `regie init` has to find by itself.
        self.done = said["done"]
        self.scenario = os.path.join(folder, "scenario.toml")


def check(folder, said):
    for table, keys in [("", TOP), *KEYS.items()]:
        values = said.get(table, {}) if table else said
        for value in values if isinstance(values, list) else [values]:
            unknown = set(value) - keys
            if unknown:
                raise Wrong(f"{folder}/project.toml: unknown {table} {', '.join(sorted(unknown))}")
    for found in [*said.get("edit", []), *said["bug"]]:
        if "\n" in found["find"]:
            raise Wrong(f"{folder}/project.toml: `find` is longer than a line")


def everything():
    """All projects, by name."""
    names = sorted(name for name in os.listdir(ROOT) if os.path.isfile(os.path.join(ROOT, name, "project.toml")))
    return [Project(os.path.join(ROOT, name)) for name in names]


def path_of(text):
    r"""A path as bytes; `\xe9` stands for the byte."""
    return text.encode("ascii").decode("unicode_escape").encode("latin-1")


def replace_once(path, find, replace):
    """Replaces what has to be there exactly once; gives the bytes before."""
    with open(path, "rb") as file:
        before = file.read()
    old, new = find.encode(), replace.encode()
    if before.count(old) != 1:
        raise Wrong(f"{path!r} holds {find!r} {before.count(old)} times, not once")
    with open(path, "wb") as file:
        file.write(before.replace(old, new))
    return before
