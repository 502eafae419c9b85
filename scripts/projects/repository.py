"""A package becomes the repository of an owner: laid out, committed, with its bug in it."""

import os
import shutil
import subprocess

from description import Wrong, path_of, replace_once
from layout import LAYOUTS
from registry import run

# Nothing of this machine's configuration of git has a say, and no filter of a repository runs for us.
QUIET = ["-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false",
         "-c", "protocol.file.allow=always",
         "-c", "filter.lfs.clean=", "-c", "filter.lfs.smudge=", "-c", "filter.lfs.process=", "-c", "filter.lfs.required=false",
         "-c", "user.name=Owner", "-c", "user.email=owner@example.com", "-c", "commit.gpgSign=false",
         "-c", "init.defaultBranch=main"]


class Repository:
    def __init__(self, project, cache, path):
        self.project, self.cache, self.path = project, cache, path
        self.originals = {}

    def make(self):
        project = self.project
        unpacked = self.path + ".package"
        self.cache.unpacked(project.package, unpacked)
        os.rename(os.path.join(unpacked, project.root), self.path) if project.root else os.rename(unpacked, self.path)
        shutil.rmtree(unpacked, ignore_errors=True)
        for name in (".git", ".cargo_vcs_info.json"):
            if os.path.isfile(self.at(name)):
                os.remove(self.at(name))
        for edit in project.edits:
            replace_once(self.at(edit["file"]), edit["find"], edit["replace"])
        for file in project.files:
            self.write(path_of(file["path"]), file["text"].encode())
        self.git("init", "--quiet")
        LAYOUTS[project.layout["kind"]](self)
        if project.cargo:
            run(["cargo", "fetch", "--quiet"], cwd=self.path)
        if project.python:
            copy(self.cache.venv(project.python), self.at(".venv"))
        if project.node:
            copy(self.cache.node_modules(project.node), self.at("node_modules"))
        for bug in project.bugs:
            file = path_of(bug["file"])
            before = replace_once(self.at(file), bug["find"], bug["replace"])
            self.originals.setdefault(file, before)
        self.commit("A project with a bug")

    def at(self, path):
        """A path in the checkout, as bytes."""
        return os.path.join(os.fsencode(self.path), os.fsencode(path))

    def write(self, path, content):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "wb") as file:
            file.write(content)

    def git(self, *args, data=None, env=None):
        done = subprocess.run(["git", *QUIET, "-C", self.path, *args], input=data, capture_output=True,
                              env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", **(env or {})})
        if done.returncode != 0:
            raise Wrong(f"git {args}: {done.stderr.decode(errors='replace')}")
        return done.stdout

    def ask(self, *args):
        """git's answer as text."""
        return os.fsdecode(self.git(*args)).strip()

    def commit(self, message):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def mended(self):
        """The tree of HEAD with the bugs mended: what the merge has to be, to the last byte."""
        index = {"GIT_INDEX_FILE": os.path.join(self.path, ".git", "expected.index")}
        self.git("read-tree", "HEAD", env=index)
        for file, content in self.originals.items():
            blob = self.git("hash-object", "-w", "--no-filters", "--stdin", data=content).strip()
            mode = self.git("ls-tree", "HEAD", "--", os.fsdecode(file)).split(b" ")[0]
            self.git("update-index", "-z", "--index-info", data=mode + b" " + blob + b"\t" + file + b"\0", env=index)
        tree = self.git("write-tree", env=index).decode().strip()
        os.remove(index["GIT_INDEX_FILE"])
        return tree

    def files(self):
        return self.git("ls-files", "-z").count(b"\0")


def copy(source, target):
    """A tree with its links as they are, sharing blocks where the file system can."""
    run(["cp", "-a", "--reflink=auto", source, target])
