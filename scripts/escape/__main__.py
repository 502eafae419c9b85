"""Every technique in every column: what is reached, and what refuses it.

Usage: REGIE=BINARY python3 scripts/escape [--npm DIR] [--quick] [--only WORD…] [--columns WORD…] [--docs FILE]
It runs as root, in namespaces of its own that end with it. The exit code is 0 when each technique works
unheld and none is reached in a column of Regie's; a column that is missing is said, and so is what this machine
has nothing for. --docs puts the table between the markers of a document.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import traceback

import columns
import host
import mission
import rows
import table
import world as worlds
from world import say

HERE = os.path.dirname(os.path.abspath(__file__))


class Names(dict):
    """What the placeholders of a command mean."""


class Seen:
    """What the host sees of one try."""

    def __init__(self, world, names, terminal):
        self.world, self.names, self.terminal = world, names, terminal
        self.result = columns.Result("", None)
        self.most_processes, self.most_memory = 0, 0
        self.bound = True

    def lingers(self, name="regie-linger"):
        for _ in range(10):
            if name in host.names().values():
                return True
            time.sleep(0.02)
        return False

    def sample(self, over):
        while not over.wait(0.1):
            self.most_processes = max(self.most_processes, list(host.names().values()).count("regie-bomb"))
            self.most_memory = max(self.most_memory, host.memory_of("regie-bomb"))

    def size_of(self, *paths):
        sizes = subprocess.run(["du", "-sk", *paths], capture_output=True, text=True).stdout.split("\n")
        return sum(int(line.split()[0]) for line in sizes if line) << 10

    def largest(self):
        return max(os.lstat(os.path.join(self.world.work, name)).st_size for name in os.listdir(self.world.work))

    def count(self):
        many = f"{self.world.work}/many"
        return len(os.listdir(many)) if os.path.isdir(many) else 0

    def has_address(self, address):
        return address in subprocess.run(["ip", "addr"], capture_output=True, text=True).stdout


def names_of(world, column):
    disk, disk_path = worlds.disk()
    handle = subprocess.run([f"{host.BIN}/probe", "give-handle", f"{world.outside}/secret"], capture_output=True,
                            text=True).stdout.strip()
    return Names(outside=world.outside, home=world.home, other=world.other, spool=world.spool, root=world.root,
                 host_work=world.work, secret=world.secret, secret_start=world.secret[:8] + ".*",
                 pid=world.held.pid, held_fd=world.held_fd, held_at=world.held_at, port=host.PORT,
                 internet=host.INTERNET, disk=disk, disk_path=disk_path, handle=handle or "0 00",
                 cgroup=worlds.cgroup(), release_agent=worlds.release_agent(), blob=getattr(world, "blob", ""),
                 **column.names(world))


class Bench:
    """Runs techniques, one after the other."""

    def __init__(self):
        self.services = host.Services()
        self.number = 0

    def world(self, uid):
        self.number += 1
        return worlds.World(self.number, uid)

    def attempt(self, row, column, uid):
        """One technique in one column: whether it was reached, and what refused it."""
        before = host.processes()
        world = self.world(uid)
        self.services.secret_file = f"{world.outside}/secret"
        terminal = worlds.Terminal() if row.terminal else None
        others, fds = [], ()
        try:
            if row.prepare:
                row.prepare(world)
                world.fingerprint = world.look()
            names = names_of(world, column)
            if row.seed:
                other = self.world(uid)
                end = column.background(other, row.seed.format_map(names))
                others.append((end or (lambda: None), other))
                if end is None:
                    return False, columns.Result("", 1, note="the other run cannot offer it")
            if row.inherits:
                fds = (os.open(world.outside, os.O_RDONLY | os.O_DIRECTORY), os.open(f"{world.outside}/secret", os.O_RDONLY))
            seen = Seen(world, names, terminal)
            is_regie = isinstance(column, columns.Regie)
            if row.family == "git" and not is_regie:
                # The owner's repository, as the peers work in it.
                self.act(world, rows.Row("", "", "", act="git init -q -b main ."), names)
            heard = dict(self.services.heard)
            over = threading.Event()
            if row.bomb:
                sampler = threading.Thread(target=seen.sample, args=(over,))
                sampler.start()
            is_tools = row.calls and isinstance(column, columns.Regie)
            seen.result = column.run(world, row, names if is_tools else row.run.format_map(names), terminal, fds)
            over.set()
            if row.bomb:
                sampler.join()
            if row.act and not is_regie:
                self.act(world, row, names)
            if row.network:
                time.sleep(0.02)
            is_reached = self.is_reached(row, seen, heard)
            # Whatever it was that it tried: none of this may ever be.
            if is_regie and not row.planted and row.held == "jail":
                is_reached = is_reached or world.changed() or not world.is_held() or \
                    (world.secret in seen.result.text and "{secret" not in row.run)
            return is_reached, seen.result
        finally:
            for end, other in others:
                end()
            for fd in fds:
                os.close(fd)
            self.sweep(before | {world.held.pid})
            if terminal:
                terminal.close()
            world.end()
            for _, other in others:
                other.end()
            worlds.clean()

    def plant(self, row, column):
        before, world = host.processes(), self.world(column.uid)
        try:
            return mission.plant(world, row, names_of(world, column))
        finally:
            self.sweep(before | {world.held.pid})
            world.end()

    @staticmethod
    def sweep(kept):
        """Ends every process that was not there before."""
        for pid in host.processes() - kept:
            try:
                os.kill(pid, 9)
            except OSError:
                pass  # it has ended by itself

    def is_reached(self, row, seen, heard):
        if row.network:
            return self.services.heard[row.network] > heard[row.network]
        if row.reached:
            return bool(row.reached(seen))
        return "REACHED" in seen.result.text

    @staticmethod
    def act(world, row, names):
        """The owner works on in the workspace, as every day."""
        uid = world.uid
        subprocess.run(["sh", "-c", row.act.format_map(names)], cwd=world.work, user=uid, group=uid, extra_groups=[],
                       env={"PATH": columns.PATH, "HOME": world.home}, capture_output=True, timeout=60)


def unheld(bench, row, column):
    """Unheld it must work: as an ordinary user, or at least as root."""
    result = None
    for uid in ([0] if row.root else [host.USER, 0]):
        column.uid = uid
        is_reached, result = bench.attempt(row, column, uid)
        if is_reached:
            return "reached", "root" if uid == 0 else "user"
    needed = row.needs.format_map({"disk_path": worlds.disk()[1], "release_agent": worlds.release_agent()})
    if needed and not os.path.exists(needed):
        return "absent", f"this machine has no {needed}"
    for absent in ("ENOSYS", "EAFNOSUPPORT", "ENODEV", "ENXIO"):
        if f"REFUSED {absent}" in result.text:
            return "absent", f"this kernel has none of it ({absent})"
    return "broken", result.layer() + ": " + result.text[-300:]


def others(bench, row, column):
    """One technique in each of the other steps that run commands: the first in which it is reached, or none."""
    layers = []
    for column.kind in column.kinds_for(row):
        is_reached, result = bench.attempt(row, column, column.uid)
        if is_reached and row.held != "tier 0":
            return "REACHED", f"by {column.kind}"
        layers.append("allowed" if is_reached else result.layer())
    if not layers:
        return "–", ""
    if set(layers) == {"allowed"}:
        return "allowed", "commands may run any program"
    return "refused", "; ".join(dict.fromkeys(layers))


def cell(bench, row, column):
    if isinstance(column, columns.Others):
        return others(bench, row, column)
    if (row.planted or row.peeks) and isinstance(column, columns.Regie):
        return bench.plant(row, column)
    if row.shown:
        return "allowed", "the outputs are the caller's"
    if row.peeks and column.name == "tier 0":
        return "allowed", "the directory was given"
    is_reached, result = bench.attempt(row, column, column.uid)
    if is_reached and row.held == "tier 0" and column.name != "tier 0":
        return "allowed", "commands may run any program"
    return ("REACHED", "") if is_reached else ("refused", result.layer())


def works(bench, column):
    """Whether a column runs what an agent has to run: otherwise its refusals mean nothing."""
    world = bench.world(column.uid or 0)
    try:
        honest = rows.Row("", "", "", "./probe say && echo done > made && ls -l /proc/self/fd | wc -l")
        result = column.run(world, honest, honest.run)
        is_made = os.path.exists(f"{world.work}/made") and "REACHED" in result.text
        wanted = not is_made if column.name == "tier 0" else is_made
        return None if wanted else f"it does not run honest commands: {result.text[-300:]}"
    finally:
        world.end()


def inside(options):
    host.prepare(options.regie, options.npm, HERE)
    found, missing = columns.every(f"{host.SRV}/npm" if options.npm else None, options.columns)
    for name, why in missing.items():
        say(f"MISSING column {name}: {why}")
    bench = Bench()
    for column in list(found):
        fault = works(bench, column)
        if fault:
            say(f"MISSING column {column.name}: {fault}")
            missing[column.name] = fault
            found.remove(column)
    report = {"columns": [column.name for column in found], "missing": missing, "rows": []}
    for row in rows.ROWS:
        if options.quick and not row.quick:
            continue
        if options.only and not any(word in f"{row.family}/{row.name}" for word in options.only):
            continue
        cells = {}
        for column in found:
            try:
                if column.name == "plain":
                    cells["plain"] = unheld(bench, row, column)
                    if cells["plain"][0] in ("absent", "broken"):
                        break
                else:
                    cells[column.name] = cell(bench, row, column)
            except Exception as error:  # a defect of the harness is a failure of the row, and said
                traceback.print_exc()
                cells[column.name] = ("broken", f"{type(error).__name__}: {error}"[:200])
        report["rows"].append({"family": row.family, "name": row.name, "what": row.what, "planted": row.planted,
                               "cells": cells})
        say(f"{row.family}/{row.name}: " + "; ".join(f"{name}: {word} {how}" for name, (word, how) in cells.items()))
    print(json.dumps(report))


def install(npm):
    """The pinned peers, as their packages bring them. Nothing of them is executed here."""
    os.makedirs(npm, exist_ok=True)
    with open(os.path.join(npm, "package.json"), "w") as file:
        file.write('{"private": true}\n')
    wanted = [f"{name}@{version}" for name, version in columns.PEERS.items()]
    done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--silent", *wanted],
                          cwd=npm, stdout=subprocess.DEVNULL)
    if done.returncode != 0:
        say("escape: npm did not bring the peers; their columns are missing")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--npm", help="where the peers of npm are, or are put")
    parser.add_argument("--quick", action="store_true", help="some of each family, in Regie's columns alone")
    parser.add_argument("--only", nargs="*", help="parts of `family/name`")
    parser.add_argument("--columns", nargs="*", help="parts of the names of columns")
    parser.add_argument("--docs", help="a document that takes the table")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.regie = os.path.realpath(os.environ["REGIE"])
    options.npm = options.npm and os.path.realpath(options.npm)
    if options.quick:
        options.columns = options.columns or ["tier"]
    if options.inside:
        host.enter()
        return inside(options)
    if not host.can_be_made():
        if options.quick:
            return say("escape: SKIPPED, as only root can make the host on which techniques are shown to work; "
                       "run `make escape-quick` as root, best in a virtual machine")
        sys.exit("error: the techniques are shown to work on a host of their own, which only root can make\n"
                 "hint: run `make escape` as root, best in a virtual machine")
    if options.npm and not options.columns:
        install(options.npm)
    words = [sys.executable, os.path.abspath(sys.argv[0]), "--inside", *sys.argv[1:]]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit("error: the harness itself failed")
    report = json.loads(done.stdout.splitlines()[-1])
    print(table.text(report))
    if options.docs:
        table.write(options.docs, report)
    faults = table.faults(report)
    for fault in faults:
        say(f"FAULT {fault}")
    sys.exit(1 if faults else 0)


main()
