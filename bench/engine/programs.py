"""How each measured program is made to work on one goal against the scripted model."""

import json
import os
import subprocess
import sys

from meter import seconds_below
from model import Model

HERE = os.path.dirname(os.path.abspath(__file__))
GOAL = "Run the command until you are told to stop"
# Peers are measured in these versions.
PEERS = {"@openai/codex": "0.171.0", "@anthropic-ai/claude-code": "2.1.332"}


class Failed(Exception):
    """A program did not do what is measured."""


class Used:
    """What one run of a program used."""

    def __init__(self, report, model, samples):
        self.seconds = report["seconds"]
        self.peaks = report["peaks"]
        self.arrivals = model.arrivals
        self.sizes = model.sizes
        self.samples = samples


def sample(root, files=20):
    """A small repository to work on."""
    os.makedirs(root)
    for number in range(files):
        with open(os.path.join(root, f"file{number}.txt"), "w") as file:
            file.write(f"line {number}\n" * 20)
    commit(root)
    return root


def commit(root):
    git = ["git", "-C", root, "-c", "user.name=Owner", "-c", "user.email=owner@example.com"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "-c", "gc.auto=0", "commit", "-q", "-m", "Sample"], check=True)
    subprocess.run([*git, "repack", "-q", "-a", "-d"], check=True)


def measure(root, name, turns, make, at=()):
    """Runs a program for `turns` turns. `make(model)` gives the program, its commands and environment.

    At the turns `at` the processor time used so far is sampled.
    """
    here = os.path.join(root, name)
    os.makedirs(here)
    project = sample(os.path.join(here, "project"))
    samples, meter = {}, None

    def seen(turn):
        if turn in at:
            samples[turn] = seconds_below(meter.pid)

    with Model(turns, seen) as model:
        program, commands, env = make(model, here, project)
        plan = {"program": program, "commands": commands, "cwd": project, "env": env,
                "log": os.path.join(here, "log")}
        meter = subprocess.Popen([sys.executable, os.path.join(HERE, "meter.py")], stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE)
        said, _ = meter.communicate(json.dumps(plan).encode())
        asked = {turn for turn, _ in model.arrivals}
        report = json.loads(said or "{}")
        if asked != set(range(turns + 1)) or any(report["codes"]):
            with open(plan["log"], errors="replace") as log:
                tail = log.read()[-2000:]
            raise Failed(f"{name}: {len(asked)} of {turns + 1} requests, exit codes {report.get('codes')}, "
                         f"tools {model.tools}; it said:\n{tail}")
        return Used(report, model, samples)


def environment(here, **more):
    """An environment without the owner's keys and homes."""
    home = os.path.join(here, "home")
    os.makedirs(home, exist_ok=True)
    return {"PATH": os.environ["PATH"], "HOME": home, "LC_ALL": "C.UTF-8", "USER": "owner", **more}


def regie(binary):
    def make(model, here, project):
        env = environment(here, REGIE_HOME=os.path.join(here, "regie"), ANTHROPIC_API_KEY="scripted",
                          ANTHROPIC_BASE_URL=model.url)
        run = [binary, "run", GOAL, "--project", project, "--model", "scripted", "--done", "true",
               "--max-turns", "2000", "--max-tokens", "100000000", "--max-time", "2h", "--yes"]
        return binary, [run, [binary, "serve", "--stop"]], env
    return make


def codex(npm, sandbox):
    found = os.path.join(npm, "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex")
    program = next((path for path in [found, found.replace("x64", "arm64").replace("x86_64", "aarch64")]
                    if os.path.exists(path)), None)
    if program is None:
        raise Failed("the native binary of Codex is not where its package had it")

    def make(model, here, project):
        env = environment(here, CODEX_HOME=os.path.join(here, "codex"), SCRIPTED_KEY="scripted")
        os.makedirs(env["CODEX_HOME"])
        with open(os.path.join(env["CODEX_HOME"], "config.toml"), "w") as file:
            file.write(f"""
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "{sandbox}"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{model.url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
[analytics]
enabled = false
""")
        run = [program, "exec", "--json", "--skip-git-repo-check", "-c", f"sandbox_mode={sandbox}", GOAL]
        return program, [run], env
    return make


def claude(npm):
    program = os.path.join(npm, "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
    if not os.path.exists(program):
        raise Failed("the native binary of Claude Code is not where its package had it")

    def make(model, here, project):
        env = environment(here, ANTHROPIC_API_KEY="scripted", ANTHROPIC_BASE_URL=model.url, IS_SANDBOX="1",
                          CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1")
        run = [program, "-p", GOAL, "--output-format", "stream-json", "--verbose", "--max-turns", "2000",
               "--dangerously-skip-permissions"]
        return program, [run], env
    return make


def command_seconds(times=200):
    """The processor time of the command alone, started as both programs start it: by a shell."""
    before = os.times()
    for _ in range(times):
        subprocess.run(["/bin/sh", "-c", "true"], check=True)
    after = os.times()
    return (after.children_user + after.children_system
            - before.children_user - before.children_system) / times
