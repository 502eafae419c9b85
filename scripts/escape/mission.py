"""What an agent plants in its workspace, through a whole mission: daemon, run, gate, and the owner's next day.

The jail lets an agent write into its workspace; what others would execute or trust of it must not arrive at
the owner's repository unless the owner has seen it.
"""

import json
import os
import subprocess
import sys

import columns
import host

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "engine"))
import model  # noqa: E402, the scripted server of the engine's benchmark


class Planter(model.Model):
    """A model that asks for one command and then says that it is done."""

    def __init__(self, command):
        self.command = command
        super().__init__(1)

    def answer_in(self, handler, body, mark, wire):
        request = json.loads(body)
        turn = body.count(mark)
        call = ("shell", {"command": self.command}) if turn == 0 and model.names_of(request) else None
        events = list(wire(turn, call, request.get("model", "scripted")))
        if request.get("stream"):
            stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
            model.reply(handler, 200, "text/event-stream", stream.encode())
        else:
            model.reply(handler, 200, "application/json", json.dumps(model.whole(events)).encode())


class Owner:
    """A repository, a home of Regie's, and who acts in them."""

    def __init__(self, world, url):
        self.world, self.project = world, f"{world.root}/project"
        self.env = {"PATH": columns.PATH, "HOME": world.home, "LANG": "C.UTF-8", "NO_COLOR": "1",
                    "REGIE_HOME": f"{world.root}/regie-home", "ANTHROPIC_API_KEY": "scripted", "ANTHROPIC_BASE_URL": url}
        os.mkdir(self.project)
        os.chown(self.project, world.uid, world.uid)
        self.run("sh", "-c", "git init -q -b main . && echo a > README && git add -A && "
                 "git -c user.name=Owner -c user.email=owner@example.com commit -q -m First")

    def run(self, *words, cwd=None, seconds=90):
        uid = self.world.uid
        return subprocess.run(words, cwd=cwd or self.project, env=self.env, user=uid, group=uid, extra_groups=[],
                              capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)

    def regie(self, *words):
        return self.run(f"{host.BIN}/regie", *words)


def plant(world, row, names):
    """One technique as a mission: the word for its cell, and how."""
    with Planter(row.run.format_map(names) + "\ncd /workspace; echo b > made") as planter:
        owner = Owner(world, planter.url)
        try:
            done = owner.regie("run", "Plant it", "--model", "scripted", "--done", "true", "--yes")
            found = json.loads(owner.regie("gate", "list", "--json").stdout or "[]")
            paths = [finding["path"] for gate in found for finding in (gate.get("export") or {}).get("findings", [])]
            in_git = row.planted == ".git" or row.planted.startswith(".git/")
            if in_git and found:
                # The owner approves of all the rest.
                done = owner.regie("gate", "approve", found[0]["gate"])
                owner.regie("log", "last", "--follow")
            owner.run("sh", "-c", row.act.format_map(names) or "true")
            told = [done, *(owner.regie(*words) for words in [("show", "last"), ("diff", "last"), ("log", "last"),
                                                              ("gate", "list")])] if row.shown else []
        finally:
            owner.regie("serve", "--stop")
    if world.changed():
        return "REACHED", ""
    if row.shown:
        is_shown = any(row.shown in one.stdout + one.stderr for one in told)
        is_told = any("52;c;" in one.stdout + one.stderr for one in told)
        return ("REACHED", "by " + ", ".join(one.args[1] for one in told if row.shown in one.stdout + one.stderr)) if is_shown else ("refused", "shown harmless" if is_told else "not shown")
    if in_git and done.returncode == 0 and os.path.exists(f"{owner.project}/made"):
        return "refused", "left out of the proposal"
    if any(is_about(path, row.planted) for path in paths):
        return "caught", "export gate"
    arrived = os.path.lexists(f"{owner.project}/{row.planted}")
    if done.returncode == 0 and os.path.exists(f"{owner.project}/made"):
        return ("REACHED", "merged unseen") if arrived else ("refused", "left out of the proposal")
    return "broken", f"exit {done.returncode}, gates about {paths}: {(done.stderr + done.stdout)[-300:]}"


def is_about(found, planted):
    """Whether a finding names the path, or a directory that holds it."""
    return found == planted or planted.startswith(found.rstrip("/") + "/") or found.startswith(planted + "/")
