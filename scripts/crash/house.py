"""One round's world: a sample repository, a scripted model, a home, and its daemon."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLE = os.path.join(HERE, "..", "..", "examples", "first-mission", "sample")
# How long a mission may take to come to its end, crashes included, in seconds.
PATIENCE = 90


class Night:
    """A kind of mission."""

    def __init__(self, name, goal, scenario, model="scripted", dirty=False, word=None):
        self.name, self.goal, self.scenario, self.model = name, goal, scenario, model
        self.dirty, self.word = dirty, word


PLAIN = Night("plain", "Survive the night", "scenario.toml")
ANNOUNCE = Night("announce", "Survive the night and tell", "scenario-announce.toml")
# It starts from the working tree, is spoken to on its way, and is compacted twice.
LONG = Night("long", "Survive a long night", "scenario-long.toml", model="scripted-small", dirty=True,
             word="Leave the tests alone: \u201cthey are right\u201d.")


class Gone(Exception):
    """The daemon does not answer."""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("regie", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Sample:
    """A git repository with a bug."""

    def __init__(self, root):
        self.path = os.path.join(root, "cart")
        shutil.copytree(SAMPLE, self.path)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        self.git("-c", "user.name=Owner", "-c", "user.email=owner@example.com", "commit", "--quiet",
                 "--message", "Add the cart")

    def dirty(self):
        """What the owner has not committed: a file that git knows, and one that it does not."""
        with open(os.path.join(self.path, "src", "cart.js"), "a") as file:
            file.write("// The owner was here.\n")
        with open(os.path.join(self.path, "notes.txt"), "w") as file:
            file.write("prices are in cents\n")

    def git(self, *args):
        done = subprocess.run(["git", "-C", self.path, *args], check=True, capture_output=True, text=True)
        return done.stdout.strip()


class House:
    def __init__(self, binary, root, name, night):
        self.binary, self.night, self.name = binary, night, name
        self.root = os.path.join(root, name)
        os.makedirs(self.root)
        self.home = os.path.join(self.root, "home")
        self.ledger_path = os.path.join(self.root, "ledger.jsonl")
        self.requests = os.path.join(self.root, "requests")
        os.makedirs(self.requests)
        self.daemon = None
        self.model = None
        self.run = None
        self.deaths = 0
        self.runner_deaths = 0

    def __enter__(self):
        self.sample = Sample(self.root)
        self.base = self.sample.git("rev-parse", "HEAD")
        if self.night.dirty:
            self.sample.dirty()
        port_file = os.path.join(self.root, "port")
        self.model = subprocess.Popen(
            [self.binary, "model-script", os.path.join(HERE, self.night.scenario), "--port-file", port_file,
             "--ledger", self.ledger_path, "--record", self.requests], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.model_url = "http://127.0.0.1:" + self.wait(lambda: read(port_file), "the scripted model")
        return self

    def __exit__(self, kind, error, trace):
        keep = kind is not None
        for process in (self.daemon, self.model):
            if process and process.poll() is None:
                process.kill()
                process.wait()
        for pid in self.runners():
            end(pid)
        if keep:
            kept = f"/tmp/regie-crash-kept-{self.name}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(self.root, kept, symlinks=True, ignore=lambda d, names: [n for n in names if n.endswith(".sock")])
            print(f"  kept for a look: {kept}")
        else:
            shutil.rmtree(self.root, ignore_errors=True)

    def start(self, fault=None):
        """Starts a daemon and waits until it answers, or is dead."""
        env = {**os.environ, "REGIE_HOME": self.home, "REGIE_TESTKIT_LEDGER": self.model_url}
        env.pop("REGIE_FAULT", None)
        if fault:
            env["REGIE_FAULT"] = fault
        log = open(os.path.join(self.root, "daemon.log"), "ab")
        self.daemon = subprocess.Popen([self.binary, "serve"], env=env, stdin=subprocess.DEVNULL,
                                       stdout=log, stderr=log)
        log.close()
        self.wait(lambda: self.is_dead() or self.answers(), "the daemon")

    def answers(self):
        try:
            return self.call("GET", "/api/v1/version")
        except Gone:
            return None

    def is_dead(self):
        return self.daemon.poll() is not None

    def call(self, method, path, body=None):
        connection = UnixConnection(os.path.join(self.home, "regie.sock"))
        try:
            text = json.dumps(body) if body is not None else None
            headers = {"regie-api": "1", "content-type": "application/json"}
            connection.request(method, path, text, headers)
            answer = connection.getresponse()
            data = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise Gone(str(error)) from error
        finally:
            connection.close()
        if answer.status >= 400:
            problem = json.loads(data)
            raise Problem(problem)
        return json.loads(data) if data else None

    def ask(self, method, path):
        """A call that outlives the daemon: what it asks for is on record."""
        while True:
            try:
                return self.call(method, path)
            except Gone:
                self.revive()

    def vendor(self):
        return {"api_key": "scripted", "base_url": self.model_url}

    def begin(self):
        """Starts the mission; when the daemon dies over it, a new one is started first."""
        wanted = {"goal": self.night.goal, "project": self.sample.path, "done": ["node --test"],
                  "model": self.night.model, "dirty": self.night.dirty, "vendor": self.vendor()}
        for _ in range(5):
            try:
                started = self.call("POST", "/api/v1/missions", wanted)
                self.run = started["run"]
                return
            except Gone:
                self.revive()
                runs = self.call("GET", "/api/v1/runs")
                if runs:
                    self.run = runs[0]["run"]
                    return
        raise SystemExit("error: the mission could not be started")

    def say(self):
        """Steers the mission, once: an answer that the daemon's death took is looked up in the record."""
        if self.night.word is None:
            return
        while not self.was_told():
            try:
                self.call("POST", f"/api/v1/runs/{self.run}/say", {"text": self.night.word, "now": False})
            except Gone:
                self.revive()

    def was_told(self):
        return any(event["fact"]["fact"] == "said" for event in self.events())

    def run_for(self, seconds):
        """Lets the mission go on for a while, gates answered."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.turn():
                return
            time.sleep(0.01)

    def kill(self, victim):
        if victim in ("daemon", "both") and not self.is_dead():
            self.daemon.send_signal(signal.SIGKILL)
        if victim in ("runner", "both"):
            for pid in self.runners():
                end(pid)
                self.runner_deaths += 1
        self.daemon.poll()

    def runners(self):
        """Runner processes of this round's home, found by what they were started with."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if len(words) > 2 and words[1] == b"__runner" and self.home.encode() in words[2]:
                found.append(int(pid))
        return found

    def revive(self):
        """A new daemon for the dead one; the owner hands the key over again."""
        if self.wait(self.is_dead_or_back, "the daemon's death or its answer") == "back":
            return
        self.deaths += 1
        self.start()
        self.hand_key_over()

    def is_dead_or_back(self):
        if self.is_dead():
            return "dead"
        return "back" if self.answers() else None

    def hand_key_over(self):
        if self.run is None:
            return
        try:
            self.call("POST", f"/api/v1/runs/{self.run}/resume", {"vendor": self.vendor()})
        except Problem as problem:
            # Ended in the meantime, or moving on its own.
            if problem.body["status"] not in (409, 422):
                raise
        except Gone:
            pass

    def turn(self):
        """Answers what waits; true once the run has ended."""
        try:
            row = self.call("GET", f"/api/v1/runs/{self.run}")
            if row["status"] == "ended":
                return True
            if row["status"] == "parked":
                self.hand_key_over()
            for gate in row["gates"]:
                self.answer(gate)
        except Gone:
            self.revive()
        return False

    def answer(self, name):
        gate = self.call("GET", f"/api/v1/gates/{name}")
        answer = "approve"
        if gate["question"] == "was_it_done":
            answer = "was_done" if self.announced() else "repeat"
        try:
            self.call("POST", f"/api/v1/gates/{name}/answer",
                      {"answer": answer, "action": gate["action"], "vendor": self.vendor()})
        except Problem as problem:
            if problem.body["status"] != 409:
                raise

    def announced(self):
        return sum(1 for line in self.ledger() if "key" in line)

    def see_it_through(self):
        self.wait(self.turn, f"the end of run {self.run}", PATIENCE)

    def line(self, *args, command="rev-parse"):
        """Asks git about the only tree of the home."""
        trees = os.path.join(self.home, "trees")
        tree = os.path.join(trees, os.listdir(trees)[0])
        done = subprocess.run(["git", "--git-dir", tree, command, *args], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def last_request(self):
        """The last request for a turn that was recorded."""
        names = sorted(name for name in os.listdir(self.requests) if name.endswith(".json"))
        with open(os.path.join(self.requests, names[-1])) as file:
            return json.load(file)

    def ledger(self):
        text = read(self.ledger_path) or ""
        return [json.loads(line) for line in text.splitlines()]

    def events(self):
        events, after = [], 0
        while True:
            page = self.ask("GET", f"/api/v1/runs/{self.run}/events?after={after}")
            if not page:
                return events
            events += page
            after = page[-1]["seq"]

    def wait(self, ready, what, seconds=20):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found = ready()
            if found:
                return found
            time.sleep(0.01)
        raise SystemExit(f"error: {self.name}: waited {seconds} s for {what}")


class Problem(Exception):
    def __init__(self, body):
        super().__init__(f"{body.get('code')}: {body.get('detail')}")
        self.body = body


def read(path):
    try:
        with open(path) as file:
            return file.read().strip() or None
    except OSError:
        return None


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
