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


def measure_starts(root, binary, rounds):
    """Seconds of each start and of each worktree, in turns; nothing is removed in between."""
    here = os.path.join(root, "start")
    project = repository(os.path.join(here, "project"))
    starts, worktrees = [], []
    with Model(0) as model, open(os.path.join(here, "log"), "ab") as log:
        env = environment(here, REGIE_HOME=os.path.join(here, "regie"), ANTHROPIC_API_KEY="scripted",
                          ANTHROPIC_BASE_URL=model.url)
        subprocess.run([binary, "runs"], env=env, check=True, stdout=log, stderr=log)
        try:
            # The first start of a project imports its history; the first worktree warms the cache.
            first = start(binary, project, model, env, log)
            worktree(here, project, "first")
            for number in range(rounds):
                turns = [lambda: starts.append(start(binary, project, model, env, log)),
                         lambda: worktrees.append(worktree(here, project, number))]
                for turn in turns if number % 2 else reversed(turns):
                    turn()
        finally:
            subprocess.run([binary, "serve", "--stop"], env=env, stdout=log, stderr=log)
    return first, starts, worktrees
