"""How long a run takes to start in a repository of 30,000 files, beside `git worktree add` of the same."""

import os
import subprocess
import time

from model import Model
from programs import Failed, commit, environment

FILES = 30_000
PER_DIRECTORY = 100
GOAL = "Do nothing"


def repository(root):
    """A repository of so many files, with its objects in one pack."""
    for directory in range(FILES // PER_DIRECTORY):
        at = os.path.join(root, f"part{directory // 20}", f"module{directory}")
        os.makedirs(at)
        for number in range(PER_DIRECTORY):
            with open(os.path.join(at, f"file{number}.txt"), "w") as file:
                file.write(f"line {directory} {number}\n" * (10 + directory * number % 90))
    commit(root)
    return root


def settled():
    """What the file system still has to write is no part of what is measured next."""
    os.sync()
    return time.monotonic()


def worktree(root, project, number):
    began = settled()
    subprocess.run(["git", "-C", project, "worktree", "add", "-q", "-b", f"bench{number}",
                    os.path.join(root, f"worktree{number}")], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def start(binary, project, model, env, log):
    """From the command to the first request that reaches the model."""
    before = len(model.arrivals)
    began = settled()
    subprocess.run([binary, "run", GOAL, "--project", project, "--model", "scripted", "--detach"], env=env,
                   check=True, stdout=log, stderr=log)
    deadline = began + 120
    while len(model.arrivals) == before:
        if time.monotonic() > deadline:
            raise Failed("a run of the large repository never asks the model")
        time.sleep(0.001)
    return model.arrivals[before][1] - began


class House:
    """A home of Regie's with its daemon running, which knows no project yet."""

    def __init__(self, binary, here, name, model, log):
        self.binary, self.model, self.log = binary, model, log
        self.env = environment(here, REGIE_HOME=os.path.join(here, name), ANTHROPIC_API_KEY="scripted",
                               ANTHROPIC_BASE_URL=model.url)
        self.run("runs", check=True)

    def run(self, *args, check=False):
        subprocess.run([self.binary, *args], env=self.env, check=check, stdout=self.log, stderr=self.log)

    def start(self, project):
        return start(self.binary, project, self.model, self.env, self.log)

    def stop(self):
        self.run("serve", "--stop")


def measure_starts(root, binary, rounds):
    """Seconds of the first start of a project, of a later one, and of a worktree.

    They take turns, each round in another order; nothing is removed in between.
    """
    here = os.path.join(root, "start")
    project = repository(os.path.join(here, "project"))
    took = {"first": [], "known": [], "worktree": []}
    with Model(0) as model, open(os.path.join(here, "log"), "ab") as log:
        known = House(binary, here, "known", model, log)
        try:
            # These two warm the cache.
            known.start(project)
            worktree(here, project, "first")
            for number in range(rounds):
                fresh = House(binary, here, f"fresh{number}", model, log)
                turns = [("first", lambda: fresh.start(project)), ("known", lambda: known.start(project)),
                         ("worktree", lambda: worktree(here, project, number))]
                try:
                    for name, turn in turns[number % 3:] + turns[:number % 3]:
                        took[name].append(turn())
                finally:
                    fresh.stop()
        finally:
            known.stop()
    return took
