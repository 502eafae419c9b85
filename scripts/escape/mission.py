"""What an agent plants in its workspace, through a whole mission: daemon, run, gate, and the owner's next day.

The jail lets an agent write into its workspace; what others would execute or trust of it must not arrive at
the owner's repository unless the owner has seen it.
"""

import json
import os
import pty
import re
import subprocess
import sys

import columns
import host

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "engine"))
import model  # noqa: E402, the scripted server of the engine's benchmark


class Planter(model.Model):
    """A model that makes these calls, each in a turn, and then says that it is done."""

    def __init__(self, calls):
        self.calls, self.told = calls, ""
        super().__init__(1)

    def answer_in(self, handler, body, mark, wire):
        request = json.loads(body)
        if mark in body:
            self.told = body.decode(errors="replace")
        turn = body.count(mark)
        call = self.calls[turn] if turn < len(self.calls) and model.names_of(request) else None
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
        self.run("sh", "-c", "echo a > README")
        world.private_branch(self.project)

    def run(self, *words, cwd=None, seconds=90):
        uid = self.world.uid
        return subprocess.run(words, cwd=cwd or self.project, env=self.env, user=uid, group=uid, extra_groups=[],
                              capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)

    def look(self, *words):
        """What a command shows on a terminal."""
        master, slave = pty.openpty()
        uid = self.world.uid
        child = subprocess.Popen([f"{host.BIN}/regie", *words], cwd=self.project, env=self.env, user=uid, group=uid,
                                 extra_groups=[], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave)
        os.close(slave)
        text = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:
                break  # nobody holds the other end any more
            if not piece:
                break
            text += piece
        child.wait()
        os.close(master)
        return text.decode(errors="replace")

    def regie(self, *words):
        return self.run(f"{host.BIN}/regie", *words)


def plant(world, row, names):
    """One technique as a mission: the word for its cell, and how."""
    made = "cd /workspace; echo b > made"
    calls = [("shell", {"command": row.run.format_map(names) + "\n" + made})]
    if row.calls:
        calls = [(tool, {key: value.format_map(names) for key, value in values.items()}) for tool, values in row.calls]
        calls.append(("shell", {"command": made}))
    with Planter(calls) as planter:
        owner = Owner(world, planter.url)
        try:
            words = ["run", "Plant it", "--model", "scripted", "--done", "true", "--yes"]
            live = owner.look(*words) if row.shown else ""
            done = None if row.shown else owner.regie(*words)
            found = json.loads(owner.regie("gate", "list", "--json").stdout or "[]")
            paths = [finding["path"] for gate in found for finding in (gate.get("export") or {}).get("findings", [])]
            in_git = row.planted == ".git" or row.planted.startswith(".git/")
            if in_git and found:
                # The owner approves of all the rest.
                done = owner.regie("gate", "approve", found[0]["gate"])
                owner.regie("log", "last", "--follow")
            owner.run("sh", "-c", row.act.format_map(names) or "true")
            looks = [("show", "last"), ("diff", "last"), ("log", "last"), ("gate", "list"), ("gate", "show", "last")]
            told = {words[0]: owner.look(*words) for words in looks} if row.shown else {}
            told["run"] = live
        finally:
            owner.regie("serve", "--stop")
    if row.peeks:
        if "tool_result" not in planter.told:
            return "broken", f"the agent was told nothing: {(done.stderr + done.stdout)[-300:]}"
        return ("REACHED", "") if world.secret in planter.told else ("refused", "not among what it sees")
    if world.changed():
        return "REACHED", ""
    if row.shown:
        if row.planted not in told["diff"] or "shell" not in live:
            return "broken", f"nothing was shown: {live[-200:]} {told['diff'][-200:]}"
        by = [name for name, text in told.items() if row.shown in text]
        return ("REACHED", "by " + ", ".join(by)) if by else ("refused", "shown without effect")
    if in_git and done.returncode == 0 and os.path.exists(f"{owner.project}/made"):
        return "refused", "left out of the proposal"
    if any(is_about(path, row.planted) for path in paths):
        return "caught", "export gate"
    arrived = os.path.lexists(f"{owner.project}/{row.planted}")
    if done.returncode == 0 and os.path.exists(f"{owner.project}/made"):
        return ("REACHED", "merged unseen") if arrived else ("refused", "left out of the proposal")
    return "broken", f"exit {done.returncode}, gates about {paths}: {(done.stderr + done.stdout)[-300:]}"


def is_about(found, planted):
    """Whether a finding names the path, or a directory that holds it. What hides in a name is written out."""
    found = re.sub(r"\\u\{([0-9a-f]+)\}", lambda hidden: chr(int(hidden[1], 16)), found)
    return found == planted or planted.startswith(found.rstrip("/") + "/") or found.startswith(planted + "/")
