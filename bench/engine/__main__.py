"""What Regie's engine costs, as ratios that come from one run on one machine.

    REGIE=target/release/regie python3 bench/engine [--root DIR] [--npm DIR] [--only NAME,…]

The model is scripted and on loopback; no vendor is called. The peers are the native binaries of their npm
packages in pinned versions, without a way to any network but loopback.
"""

import argparse
import ctypes
import fcntl
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import programs
from start import measure_starts

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
LONG, SHORT = 500, 100
PARTS = ["turns", "peers", "version", "start"]


class Table:
    """The rows as they come, and whether all targets are met."""

    def __init__(self):
        self.missed = []
        print(f"{'':4}{'what':<86}{'measured':>10}  target", flush=True)

    def row(self, what, value, most=None, form="{:.2f}"):
        is_met = most is None or value <= most
        if not is_met:
            self.missed.append(what)
        mark = "    " if most is None else "  ✓ " if is_met else "  ✗ "
        target = "" if most is None else "≤ " + form.format(most)
        print(f"{mark}{what:<86}{form.format(value):>10}  {target}".rstrip(), flush=True)


def isolate():
    """Leaves this process and what it starts a network of loopback alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if libc.unshare(flags) != 0:
        raise SystemExit(f"error: no network namespace can be had: {os.strerror(ctypes.get_errno())}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
    if user != 0:
        maps = [("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")]
        for name, text in maps:
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)


def install(npm):
    """The pinned peers, as their packages bring them. Nothing of them is executed here."""
    os.makedirs(npm, exist_ok=True)
    with open(os.path.join(npm, "package.json"), "w") as file:
        file.write('{"private": true}\n')
    wanted = [f"{name}@{version}" for name, version in programs.PEERS.items()]
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", *wanted],
                   cwd=npm, check=True, stdout=subprocess.DEVNULL)


def turns(table, root, binary):
    """A long run: what a turn costs at its end beside its begin, and what stays resident."""
    at = (0, 100, LONG - 100, LONG)
    used = programs.measure(root, "long", LONG, programs.regie(binary), at)
    first, last = (used.samples[b] - used.samples[a] for a, b in [(0, 100), (LONG - 100, LONG)])
    table.row(f"Regie, {LONG} turns: processor time of the last 100 / first 100", last / first, 1.2)
    parts = {part: used.peaks.get(part, 0) for part in ["run", "__runner"]}
    # The daemon is the part that the client started.
    parts["serve"] = max(used.peaks.get("serve", 0), used.peaks.get("--home", 0))
    table.row(f"Regie, {LONG} turns: peak resident MB, daemon + runner + client", sum(parts.values()) / 1024, 80,
              "{:.0f}")
    requests = used.sizes[-1] / used.sizes[0]
    table.row("  the last request / the first one, in bytes (the wire resends all)", requests)


def per_turn(root, name, make, rounds):
    """Processor seconds of one more turn: the least of the rounds, start and end taken out."""
    few, many = SHORT // 10, SHORT
    costs = []
    for number in range(rounds):
        small, large = (programs.measure(root, f"{name}-{turns}-{number}", turns, make)
                        for turns in (few, many))
        costs.append((large.seconds - small.seconds) / (many - few))
    return min(costs) - programs.command_seconds()


def peers(table, root, binary, npm, rounds):
    regie = per_turn(root, "regie", programs.regie(binary), rounds)
    for name, make, most in [
        ("Codex, workspace-write (its jail on)", programs.codex(npm, "workspace-write"), 0.25),
        ("Codex, danger-full-access (no jail)", programs.codex(npm, "danger-full-access"), None),
        ("Claude Code, permissions skipped (no jail)", programs.claude(npm), None),
    ]:
        try:
            peer = per_turn(root, "".join(filter(str.isalnum, name)), make, rounds)
        except programs.Failed as failure:
            print(f"  ? {name} could not be measured: {failure}", flush=True)
            table.missed.append(name)
            continue
        table.row(f"processor time of a turn, Regie (jail on) / {name}", regie / peer, most)


def version(table, binary, times=50):
    took = {"git": [], binary: []}
    for _ in range(times):
        for program, times_of in took.items():
            began = time.perf_counter()
            subprocess.run([program, "--version"], check=True, stdout=subprocess.DEVNULL)
            times_of.append(time.perf_counter() - began)
    ratio = statistics.median(took[binary]) / statistics.median(took["git"])
    table.row(f"regie --version / git --version, median of {times}", ratio, 3)


def start(table, root, binary, rounds):
    took = measure_starts(root, binary, rounds)
    middle = {name: statistics.median(seconds) for name, seconds in took.items()}
    least = {name: min(seconds) for name, seconds in took.items()}
    for name, what in [("known", "start of a run"), ("first", "first start of a project")]:
        table.row(f"{what}, 30,000 files / git worktree add, median of {rounds}",
                  middle[name] / middle["worktree"], 1.2)
        table.row("  the fastest of each", least[name] / least["worktree"])


def main():
    options_of = argparse.ArgumentParser(prog="bench/engine")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    options_of.add_argument("--root", default=cache, help="where the measured programs work; not a temporary directory")
    options_of.add_argument("--npm", default="target/bench/npm", help="where the peers are installed")
    options_of.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    options_of.add_argument("--rounds", type=int, default=3)
    options = options_of.parse_args()
    binary, npm = os.path.realpath(os.environ["REGIE"]), os.path.realpath(options.npm)
    only = options.only.split(",")
    if unknown := set(only) - set(PARTS):
        options_of.error(f"there is no part {', '.join(sorted(unknown))}")
    if "peers" in only:
        install(npm)
    os.makedirs(options.root, exist_ok=True)
    # Codex's jail fails without a word when its home is in the temporary directory.
    root = tempfile.mkdtemp(prefix="regie-bench-", dir=os.path.realpath(options.root))
    isolate()
    table = Table()
    try:
        if "turns" in only:
            turns(table, root, binary)
        if "peers" in only:
            peers(table, root, binary, npm, options.rounds)
        if "version" in only:
            version(table, binary)
        if "start" in only:
            start(table, root, binary, max(7, options.rounds))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if table.missed:
        raise SystemExit(f"bench: {len(table.missed)} of the targets missed: " + "; ".join(table.missed))
    print("bench: all targets met")


if __name__ == "__main__":
    sys.exit(main())
