"""Who holds the techniques: nobody, Regie, and its peers."""

import json
import os
import re
import selectors
import signal
import socket
import subprocess
import time

import host

# Peers are tried in these versions.
PEERS = {"@openai/codex": "0.171.0", "@anthropic-ai/sandbox-runtime": "0.0.83"}
CODEX = "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MOST_OUTPUT = 256 << 20
MiB = 1 << 20
LIMITS = {"memory_bytes": 256 * MiB, "processes": 128, "open_files": 1024, "file_size_bytes": 64 * MiB,
          "cpu_seconds": None, "scratch_bytes": 64 * MiB, "disk_bytes": 256 * MiB, "disk_files": 20_000}


class Result:
    """What a column made of a command."""

    def __init__(self, text, code, size=0, note="", tool=""):
        self.tool = tool
        self.text, self.code, self.size, self.note = text, code, size or len(text), note

    def layer(self):
        """How it was refused, in the words of who tried."""
        said = re.findall(r"^REFUSED (\S+) (.*)$", self.text, re.M)
        if said:
            return f"{said[-1][0]} {said[-1][1]}"
        for words, errno in [("Read-only file system", "EROFS"), ("Permission denied", "EACCES"),
                             ("Operation not permitted", "EPERM"), ("Invalid cross-device link", "EXDEV"),
                             ("Function not implemented", "ENOSYS"),
                             ("No such file or directory", "ENOENT"), ("nonexistent", "ENOENT"), ("not found", "ENOENT"),
                             ("outside of the workspace", "by the tool"),
                             ("not a directory", "ENOTDIR"), ("File size limit", "EFBIG")]:
            if words.lower() in self.text.lower():
                return errno
        if self.note:
            return self.note
        if self.code is None or self.code < 0 or self.code > 128:
            number = -self.code if self.code and self.code < 0 else (self.code or 137) - 128
            return f"killed {signal.Signals(number).name}" if number in list(signal.Signals) else "killed"
        if self.code and self.tool:
            return f"by the tool: {self.text[:40]}"
        return "no effect"


class Process:
    """A column whose command is a child of ours."""

    def __init__(self, name, uid):
        self.name, self.uid = name, uid

    def words(self, world, command):
        return ["sh", "-c", command]

    def env(self, world):
        return {"PATH": PATH, "HOME": world.home, "USER": "owner", "LANG": "C.UTF-8", "TMPDIR": "/tmp"}

    def names(self, world):
        """What the placeholders of a technique mean here."""
        return {"work": world.work, "program": world.program}

    def launch(self, world, command, terminal=None, fds=()):
        return subprocess.Popen(
            self.words(world, command), cwd=world.work, env=self.env(world), pass_fds=fds,
            stdin=terminal.slave if terminal else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, user=self.uid, group=self.uid, extra_groups=[],
            preexec_fn=terminal.take if terminal else os.setsid)

    def run(self, world, row, command, terminal=None, fds=()):
        child = self.launch(world, command, terminal, fds)
        os.set_blocking(child.stdout.fileno(), False)
        begin, text, size = time.monotonic(), b"", 0
        # To the command's end, and not to that of all that holds its output.
        while True:
            ended = child.poll() is not None
            piece = child.stdout.read(1 << 20) or b""
            size += len(piece)
            text = (text + piece)[-(64 << 10):] if size > (64 << 10) else text + piece
            if ended and not piece:
                break
            if time.monotonic() - begin > row.seconds or size > MOST_OUTPUT:
                child.kill()
            if not piece:
                time.sleep(0.005)
        child.stdout.close()
        return Result(text.decode(errors="replace"), child.returncode, size)

    def background(self, world, command):
        """Starts a command that says when it is ready; gives back what ends it."""
        child = self.launch(world, command)
        for line in child.stdout:
            if b"ready" in line:
                return child.kill
        child.wait()
        return None  # the column does not let it


class Plain(Process):
    """Nothing holds it."""


class Bubblewrap(Process):
    """Debian's package, with all that its manual offers against what an agent might do."""

    def words(self, world, command):
        return ["bwrap", "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent",
                "--new-session", "--cap-drop", "ALL", "--clearenv", "--setenv", "PATH", PATH,
                "--setenv", "HOME", world.home, "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
                "--symlink", "usr/sbin", "/sbin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64",
                "/lib64", "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
                "--tmpfs", "/run", "--bind", world.work, world.work, "--chdir", world.work,
                "sh", "-c", command]


class Codex(Process):
    """`codex sandbox` with its built-in profile for a workspace."""

    def words(self, world, command):
        return [f"{host.SRV}/npm/{CODEX}", "sandbox", "-P", ":workspace", "-C", world.work, "--", "sh", "-c", command]

    def env(self, world):
        place = f"{world.home}/.codex"
        os.makedirs(place, exist_ok=True)
        os.chown(place, self.uid, self.uid)
        return {**super().env(world), "CODEX_HOME": place}


class SandboxRuntime(Process):
    """`srt` with no domains, the owner's home hidden and writes to the workspace alone."""

    def words(self, world, command):
        settings = {"filesystem": {"denyRead": [world.home], "allowWrite": ["."], "denyWrite": []},
                    "network": {"allowedDomains": [], "deniedDomains": []}}
        path = f"{world.home}/.srt-settings.json"
        with open(path, "w") as file:
            json.dump(settings, file)
        os.chown(path, self.uid, self.uid)
        return ["node", f"{host.SRV}/npm/node_modules/.bin/srt", "--settings", path, "--", "sh", "-c", command]


class Tier0(Process):
    """`regie sandbox run --tier 0`, in which no program of the agent's runs."""

    def words(self, world, command):
        return [f"{host.BIN}/regie", "sandbox", "run", "--tier", "0", "--write", world.work, "--",
                "sh", "-c", command]


class Regie:
    """The runner, as the daemon starts it, in the plan that it makes for a shell step."""

    def __init__(self, name, uid):
        self.name, self.uid = name, uid

    def names(self, world):
        return {"work": "/workspace", "program": "/.regie/regie"}

    def run(self, world, row, command, terminal=None, fds=()):
        with Runner(world, self.uid, row.limits, terminal, fds) as runner:
            if row.calls:
                return self.tools(runner, row, command)
            return runner.call("shell", {"command": command}, row.seconds)

    def tools(self, runner, row, names):
        """The technique as calls of the file tools, after or beside a command where there is one."""
        if row.first:
            runner.call("shell", {"command": row.first.format_map(names)}, row.seconds)
        beside = row.beside and runner.start("shell", {"command": row.beside.format_map(names)}, 20)
        result = None
        for _ in range(row.times):
            texts = []
            for tool, values in row.calls:
                values = {key: value.format_map(names) if isinstance(value, str) else value
                          for key, value in values.items()}
                result = runner.call(tool, values, row.seconds)
                texts.append(result.text)
            result = Result("\n".join(texts), result.code, tool=tool)
        if beside:
            runner.kill(beside)
        return result

    def background(self, world, command):
        runner = Runner(world, self.uid, {}, None, ())
        runner.start("shell", {"command": command}, 60)
        said = runner.wait_for(lambda said: said["type"] == "finished" or
                               said["type"] == "progress" and "ready" in said["text"])
        if said["type"] == "progress":
            return runner.close
        runner.close()
        return None  # the jail does not let it


class Others(Regie):
    """The same runner, for the other steps that run a command: criteria, the setup, services."""

    kinds = ("criteria", "setup", "service")
    kind = "criteria"
    # What the owner has approved of, with the setup.
    network = {"loopback", "loopback-ipv6", "internet", "udp", "dns"}

    def kinds_for(self, row):
        """The steps in which a technique is tried; each in a world of its own."""
        if row.planted or row.peeks or row.shown or row.calls:
            return ()
        if row.bomb:
            return ("criteria",)
        return [kind for kind in self.kinds if kind != "setup" or row.name not in self.network]

    def run(self, world, row, command, terminal=None, fds=()):
        services = []
        if self.kind == "service":
            services = [{"name": "hostile", "command": f"( {command}\n); code=$?; echo; echo ended $code", "ready_timeout": 1000}]
        with Runner(world, self.uid, row.limits, terminal, fds, services) as runner:
            if self.kind == "criteria":
                return runner.verdict(command, row.seconds)
            if self.kind == "setup":
                return runner.call("setup", {"command": command, "from": "the owner", "sees": []}, row.seconds)
            runner.call("shell", {"command": "true"}, row.seconds)
            return runner.service("hostile", row.seconds)


class Runner:
    """One runner, spoken to as its daemon does."""

    def __init__(self, world, uid, limits, terminal, fds, services=()):
        self.world, self.step = world, 0
        self.run = "run_0" + "".join("0123456789abcdefghjkmnpqrstvwxyz"[byte % 32] for byte in os.urandom(25))
        config = {"run": self.run, "spool": world.spool, "workspace": world.work, "program": f"{host.BIN}/regie",
                  "posture": "deny", "mounts": [], "env": [], "limits": {**LIMITS, **limits}, "idle": 60000,
                  "services": list(services)}
        env = {"PATH": PATH, "HOME": world.home, "LANG": "C.UTF-8", "TMPDIR": "/tmp"}
        self.log = open(f"{world.root}/runner.log", "w+b")
        self.child = subprocess.Popen(
            [f"{host.BIN}/regie", "__runner", json.dumps(config)], cwd=world.outside, env=env, pass_fds=fds,
            stdin=terminal.slave if terminal else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log,
            user=uid, group=uid, extra_groups=[], preexec_fn=terminal.take if terminal else os.setsid)
        if self.child.stdout.readline() != b"ready\n":
            self.log.seek(0)
            raise RuntimeError("the runner did not start: " + self.log.read().decode(errors="replace"))
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(90)
        self.socket.connect(f"{world.spool}/runner.sock")
        self.lines = self.socket.makefile("rb")
        self.say({"type": "hello", "version": 1})
        self.wait_for(lambda said: said["type"] == "hello")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def say(self, value):
        self.socket.sendall(json.dumps(value).encode() + b"\n")

    def wait_for(self, is_it):
        for line in self.lines:
            said = json.loads(line)
            if is_it(said):
                return said
        raise RuntimeError("the runner has gone")

    def start(self, tool, values, seconds):
        self.step += 1
        looks = tool in ("read", "list", "search")
        self.say({"type": "start", "work": {
            "run": self.run, "step": self.step, "attempt": 1, "key": os.urandom(32).hex(), "fence": 1,
            "kind": "verdict" if tool == "verdict" else "tool_call",
            "effect": "read" if looks else "workspace_write", "tool": tool,
            "request": json.dumps(values if tool == "verdict" else {"tool": tool, "input": values}),
            "timeout": int(seconds * 1000)}})
        return self.step

    def call(self, tool, values, seconds):
        return self.end_of(self.start(tool, values, seconds), tool)

    def verdict(self, command, seconds):
        return self.end_of(self.start("verdict", {"command": command}, seconds), "shell")

    def service(self, name, seconds):
        """What a service has said by its end, or until its time is over."""
        path, until = f"{self.world.spool}/outputs/services/{name}.log", time.monotonic() + min(seconds, 20)
        while True:
            with open(path, errors="replace") as file:
                text = file.read()
            ended = re.search(r"^ended (\d+)$", text, re.M)
            if ended or time.monotonic() > until:
                return Result(text, int(ended[1]) if ended else None, note="" if ended else "it went on until the runner's end")
            time.sleep(0.02)

    def end_of(self, step, tool):
        def is_end(said):
            return said["type"] in ("refused", "lost") and said["step"] == step or \
                said["type"] == "finished" and said["result"]["step"] == step
        said = self.wait_for(is_end)
        if said["type"] != "finished":
            raise RuntimeError(f"the runner did not run the step: {said}")
        output = said["result"]["output"]
        jail = output["jail"]
        if jail.get("state") != "enforced":
            raise RuntimeError(f"the step was not held: {jail}")
        text = output["text"]
        note = next((line for line in text.splitlines() if "limit" in line or "time" in line), "")
        return Result(text, output["exit_code"] if tool in ("shell", "setup") else int(output["is_error"]), note=note.split(":")[0].lstrip("[")[:64])

    def kill(self, step):
        self.say({"type": "kill", "step": step, "fence": 1})
        self.wait_for(lambda said: said["type"] == "killed" and said["step"] == step)

    def close(self):
        self.socket.close()
        self.child.kill()
        self.child.wait()
        self.log.close()


def every(npm, only):
    """The columns, and what is said of those that are missing."""
    columns, missing = [Plain("plain", None)], {}
    user = host.USER

    def has(path):
        return path and os.path.exists(path)
    tier0 = subprocess.run([f"{host.BIN}/regie", "sandbox", "run", "--help"], capture_output=True).returncode == 0
    candidates = [
        (Tier0("tier 0", user), tier0 or "this build has no `regie sandbox run`"),
        (Regie("tier 1, root", 0), True), (Regie("tier 1, user", user), True),
        (Others("tier 1, other steps", user), True),
        (Bubblewrap("bubblewrap", user), has("/usr/bin/bwrap") or "install Debian's `bubblewrap`"),
        (Codex("Codex", user), has(f"{npm}/{CODEX}") or "npm did not bring @openai/codex"),
        (SandboxRuntime("sandbox-runtime", user),
         has(f"{npm}/node_modules/.bin/srt") or "npm did not bring @anthropic-ai/sandbox-runtime"),
    ]
    for column, is_there in candidates:
        if only and not any(word in column.name for word in only):
            continue
        if is_there is True:
            columns.append(column)
        else:
            missing[column.name] = is_there
    return columns, missing
