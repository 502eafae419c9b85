"""Runs commands and says what they, and all that they started, used.

    meter.py < plan.json > used.json

A process that loses its parent (a daemon, a runner) becomes a child of this one, so that nothing escapes:
the processor time is what the kernel accounts to all ended descendants. This process's own is not in it.
"""

import ctypes
import glob
import json
import os
import resource
import subprocess
import sys
import threading
import time

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY = 0.1


def processes():
    """For each process: its parent and its ticks, those of its ended children included."""
    found = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as stat:
                text = stat.read()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2:].split()
        pid = int(text[:text.index(" ")])
        found[pid] = (int(fields[1]), sum(map(int, fields[11:13])), sum(map(int, fields[13:15])))
    return found


def descendants(found, root):
    tree, grew = {root}, True
    while grew:
        more = {pid for pid, (parent, *_) in found.items() if parent in tree} - tree
        tree |= more
        grew = bool(more)
    return tree - {root}


def seconds_below(root):
    """Processor time that everything below `root` has used so far, in seconds."""
    found = processes()
    own = sum(sum(found[pid][1:]) for pid in descendants(found, root))
    return (own + found[root][2]) / os.sysconf("SC_CLK_TCK")


def peaks(root, program, into):
    """Keeps the highest resident size of each part of `program`, in KiB, by its first argument."""
    for pid in descendants(processes(), root):
        try:
            if os.readlink(f"/proc/{pid}/exe") != program:
                continue
            with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
                part = cmdline.read().split(b"\0")[1].decode(errors="replace")
            with open(f"/proc/{pid}/status") as status:
                high = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        except (OSError, IndexError, StopIteration):
            continue
        into[part] = max(into.get(part, 0), high)


def main():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    plan = json.load(sys.stdin)
    program = os.path.realpath(plan["program"])
    high, over = {}, threading.Event()

    def look():
        while not over.wait(LOOK_EVERY):
            peaks(os.getpid(), program, high)

    watcher = threading.Thread(target=look)
    watcher.start()
    codes, began = [], time.monotonic()
    for argv in plan["commands"]:
        with open(plan["log"], "ab") as log:
            codes.append(subprocess.run(argv, env=plan["env"], cwd=plan["cwd"], stdin=subprocess.DEVNULL,
                                        stdout=log, stderr=log).returncode)
    took = time.monotonic() - began
    over.set()
    watcher.join()
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    json.dump({"codes": codes, "seconds": used.ru_utime + used.ru_stime, "took": took, "peaks": high}, sys.stdout)


if __name__ == "__main__":
    main()
