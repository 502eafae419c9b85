"""A mission on a project, through the binary, and what has to be true afterwards."""

import ctypes
import json
import os
import signal
import subprocess
import tempfile
import time

from description import Wrong
from layout import arm
from repository import Repository

GOAL = "Make the failing test pass"
# How long one command of Regie's may take, in seconds. Nothing depends on it but a hanging test's end.
PATIENCE = 900
# What of the owner's home a step could want to write to.
HOMES = [".cargo/bin", ".cargo/config.toml", ".cargo/registry/cache", ".cargo/registry/src", ".cargo/git",
         ".rustup/toolchains", ".npm/_cacache/index-v5", ".npmrc", ".pyenv/versions", ".pyenv/shims",
         ".config", ".local/bin", ".local/lib", ".gitconfig", ".profile", ".bashrc", ".ssh"]
# How many directories below these are looked at: toolchains have a hundred thousand files.
DEEP = 3
PR_SET_CHILD_SUBREAPER = 36


class Mission:
    def __init__(self, binary, project, cache):
        self.binary, self.project, self.cache = binary, project, cache
        self.numbers = {}

    def run(self):
        """Plays it; gives the numbers for the table."""
        adopt_orphans()
        with tempfile.TemporaryDirectory(prefix=f"regie-{self.project.name}-") as root:
            self.root = os.path.realpath(root)
            self.home = os.path.join(self.root, "home")
            self.repository = Repository(self.project, self.cache, os.path.join(self.root, self.project.name))
            self.repository.make()
            self.numbers["files"] = self.repository.files()
            self.set_up()
            self.model = None
            try:
                self.play()
            finally:
                self.close()
        return self.numbers

    def set_up(self):
        """`regie init` has to find the test command by itself."""
        self.model_url = None
        found = self.regie("init", "--yes", "--json", parse=True)
        content = found["file"]["content"]
        wanted = f"done = {json.dumps(self.project.done)}"
        must(wanted in content.splitlines(), f"init does not write `{wanted}`:\n{content}")
        for said in self.project.expect.get("init", []):
            must(said in content, f"init does not say {said!r}:\n{content}")
        self.repository.commit("Add regie.toml")
        self.base = self.repository.ask("rev-parse", "HEAD")
        self.expected = self.repository.mended()
        self.mark = arm(self.repository) if self.project.layout["kind"] == "lfs" else None

    def play(self):
        before = listing()
        self.start_model()
        began = time.monotonic()
        said = self.regie("run", GOAL, "--model", "scripted", "--yes", "--json", show=True)
        self.numbers["seconds"] = time.monotonic() - began
        self.holds(said)
        changed = sorted(set(before.items()) ^ set(listing().items()))
        must(not changed, f"something was written outside: {[path for path, _ in changed[:5]]}")
        self.holds_tests()
        if self.project.layout["kind"] == "submodule":
            self.holds_without_submodule()
        self.regie("serve", "--stop")
        orphans = self.orphans(60)
        must(not orphans, f"processes were left behind: {[said_of(pid) for pid in orphans]}")

    def holds(self, said):
        lines = [json.loads(line) for line in said.splitlines() if line]
        started = next((line for line in lines if line.get("type") == "started" or "warnings" in line), {})
        run = self.regie("runs", "--json", parse=True)[0]
        must(run["end"] == "done", f"the run ended as {run['end']}: {run['reason']}\n{self.outline()}")
        self.holds_warnings(started.get("warnings", []))
        self.holds_answers()
        repository = self.repository
        must(repository.ask("rev-parse", "HEAD") != self.base, f"the owner's branch did not move:\n{self.outline()}")
        must(repository.ask("rev-parse", "HEAD^{tree}") == self.expected,
             f"the merge is not the original:\n{repository.ask('diff', '--stat', self.expected, 'HEAD')}")
        must(repository.ask("merge-base", self.base, "HEAD") == self.base, "the owner's history was rewritten")
        must(repository.ask("symbolic-ref", "HEAD") == "refs/heads/main", "the owner's branch was left")
        self.holds_bytes()
        status = repository.ask("status", "--porcelain", "--ignore-submodules=none")
        must(status == "", f"the owner's checkout is not clean:\n{status}")
        must(self.mark is None or not os.path.exists(self.mark), "a program of the repository's settings ran")
        audit = self.regie("audit", "verify", "--json", parse=True)
        must(audit["intact"] and audit["runs"] >= 1, f"the audit found something: {audit}")
        diff = self.regie("diff", "last")
        for wanted in self.project.expect.get("diff", []):
            must(wanted in diff, f"the diff does not show {wanted!r}:\n{diff}")
        must(self.regie("show", "last").strip(), "`regie show` says nothing")
        self.numbers["steps"] = sum(event["fact"]["fact"] == "step_completed" for event in self.events())

    def holds_warnings(self, warnings):
        wanted = self.project.expect.get("warnings", [])
        for part in wanted:
            must(any(part in warning for warning in warnings), f"no warning says {part!r}: {warnings}")
        must(wanted or not warnings, f"unexpected warnings: {warnings}")

    def holds_answers(self):
        """The scripted model saw what it expected: failing tests first, then passing ones."""
        with open(self.ledger) as file:
            turns = [json.loads(line) for line in file]
        odd = [turn for turn in turns if turn["outcome"] != "answer"]
        must(turns and not odd, f"the model did not see what it expected: {odd}\n{self.outline()}")

    def holds_bytes(self):
        """Each file of the checkout is its blob, to the byte."""
        entries = [entry.split(b"\t", 1) for entry in self.repository.git("ls-files", "-s", "-z").split(b"\0") if entry]
        files = [(head.split()[1], path) for head, path in entries if head.startswith(b"100")]
        paths = b"".join(path + b"\n" for _, path in files)
        found = self.repository.git("hash-object", "--no-filters", "--stdin-paths", data=paths).split()
        odd = [path for (blob, path), now in zip(files, found, strict=True) if blob != now]
        must(not odd, f"files of the checkout are not as committed: {odd[:5]}")

    def holds_tests(self):
        """The tests pass on the owner's branch, outside of any jail."""
        env = {**os.environ, "CARGO_TARGET_DIR": os.path.join(self.root, "outside"), "PYTHONDONTWRITEBYTECODE": "1"}
        for command in self.project.done:
            done = subprocess.run(["sh", "-c", command], cwd=self.repository.path, env=env, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace")
            must(done.returncode == 0, f"`{command}` fails on main:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def holds_without_submodule(self):
        """A second mission, on a checkout whose submodule is not there: it is said, and nothing breaks."""
        repository, path = self.repository, self.project.layout["path"]
        link = repository.ask("ls-tree", "HEAD", "--", path)
        repository.git("submodule", "--quiet", "deinit", "--force", path)
        said = self.regie("run", "Note what is missing", "--model", "scripted", "--yes", "--json",
                          "--done", f"test ! -e {path}/Cargo.toml", show=True)
        must(f"{path}" in said and "submodule" in said, "nothing is said about a submodule that is not there")
        run = self.regie("runs", "--json", parse=True)[0]
        must(run["end"] == "done", f"the second run ended as {run['end']}: {run['reason']}\n{self.outline()}")
        must(repository.ask("ls-tree", "HEAD", "--", path) == link, "the submodule's commit was changed")
        must(repository.ask("status", "--porcelain") == "", "the owner's checkout is not clean")

    def events(self):
        return [json.loads(line) for line in self.regie("log", "last", "--json").splitlines() if line]

    def outline(self):
        try:
            return self.regie("show", "last")
        except Wrong as error:
            return str(error)

    def start_model(self):
        port_file = os.path.join(self.root, "port")
        self.ledger = os.path.join(self.root, "ledger.jsonl")
        self.model = subprocess.Popen([self.binary, "model-script", self.project.scenario, "--port-file", port_file,
                                       "--ledger", self.ledger], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=open(os.path.join(self.root, "model.log"), "wb"))
        while not (os.path.exists(port_file) and os.path.getsize(port_file)):
            must(self.model.poll() is None, f"{self.project.scenario} is refused")
            time.sleep(0.02)
        with open(port_file) as file:
            self.model_url = f"http://127.0.0.1:{file.read().strip()}"

    def regie(self, *args, parse=False, show=False):
        env = {**os.environ, "REGIE_HOME": self.home, "NO_COLOR": "1"}
        for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "VIRTUAL_ENV", "PYTHONPATH"):
            env.pop(name, None)
        if self.model_url:
            env.update(ANTHROPIC_API_KEY="scripted", ANTHROPIC_BASE_URL=self.model_url)
        done = subprocess.run([self.binary, *args], cwd=self.repository.path, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace", timeout=PATIENCE)
        if done.returncode != 0:
            more = self.outline() if show else done.stdout[-3000:]
            raise Wrong(f"`regie {' '.join(args)}` ended with {done.returncode}:\n{done.stderr}{more}")
        return json.loads(done.stdout) if parse else done.stdout

    def close(self):
        try:
            if os.path.isdir(self.home):
                self.regie("serve", "--stop")
        except Wrong:
            pass
        if self.model and self.model.poll() is None:
            self.model.kill()
            self.model.wait()
        for pid in self.orphans(0):
            os.kill(pid, signal.SIGKILL)

    def orphans(self, patience):
        """What Regie started and left behind: processes that became ours when their parents ended."""
        until = time.monotonic() + patience
        while True:
            ours = [pid for pid in children() if (not self.model or pid != self.model.pid) and not is_over(pid)]
            if not ours or time.monotonic() > until:
                return ours
            time.sleep(0.02)


def must(holds, otherwise):
    if not holds:
        raise Wrong(otherwise)


def adopt_orphans():
    """Processes whose parent ends become children of this one, and are seen."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise Wrong("this system does not let orphans be adopted")


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def is_over(pid):
    """Whether a child has ended; it is let go then."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def said_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return f"{pid}: " + file.read().replace(b"\0", b" ").decode(errors="replace")[:200]
    except OSError:
        return str(pid)


def listing():
    """Path, size and time of what lies in the owner's homes of tools."""
    found = {}
    home = os.path.expanduser("~")
    for part in HOMES:
        stack = [(os.path.join(home, part), DEEP)]
        while stack:
            path, deep = stack.pop()
            try:
                meta = os.lstat(path)
                found[path] = (meta.st_size, meta.st_mtime_ns, meta.st_mode)
                if deep and os.path.isdir(path) and not os.path.islink(path):
                    stack += [(entry.path, deep - 1) for entry in os.scandir(path)]
            except OSError:
                continue
    return found


