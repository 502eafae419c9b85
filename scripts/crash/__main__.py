"""The crash campaign: a mission is killed at every step boundary, and at random, and each time it has
to come to the same end.

Two binaries are tried. `CHAOS` has fault points: `REGIE_FAULT=<point>:<n>:<mark>` makes the daemon or
the runner kill itself with SIGKILL when it reaches that point for the n-th time. `REGIE` is the release
binary, and its daemon and runners are killed from outside at random moments.

After each round an *external* ledger, appended by the scripted model server and by a tool that must not
be repeated, is held against the journal. Exit code 0: every round agreed.
"""

import argparse
import os
import random
import sys
import tempfile
import time

from house import ANNOUNCE, LONG, PLAIN, House
from judge import Verdict, judge

DAEMON_POINTS = [
    "before_intent", "intent_submitted", "intent_committed", "before_effect", "after_effect",
    "result_received", "result_submitted", "result_committed", "journal_before_commit",
    "journal_after_commit", "merge_before_ref", "merge_after_ref", "deliver_before_ref",
    "deliver_after_ref", "gate_answered",
]
RUNNER_POINTS = [
    "runner_received", "runner_before_spawn", "runner_running", "runner_before_spool",
    "runner_after_spool",
]
# No point is passed more often than this in one mission.
MOST_PASSES = 60


def fault_rounds(binary, root, limit):
    """A round for each point and each time that the mission passes it."""
    expected = None
    for point in DAEMON_POINTS + RUNNER_POINTS:
        passes = 0
        for count in range(1, MOST_PASSES):
            if limit and count > limit:
                break
            mark = os.path.join(root, f"{point}-{count}.mark")
            with House(binary, root, f"{point}-{count}", ANNOUNCE) as house:
                house.start(fault=f"{point}:{count}:{mark}")
                house.begin()
                house.see_it_through()
                verdict = judge(house, expected)
                expected = expected or verdict
                # The last passes come after the end of the run, when its claim is given back.
                hit = os.path.exists(mark)
                if hit and point in DAEMON_POINTS and not house.deaths:
                    house.wait(house.is_dead, "the daemon's death")
                    house.deaths += 1
                verdict.must(house.deaths == (1 if hit and point in DAEMON_POINTS else 0),
                             f"the daemon died {house.deaths} times")
            verdict.raise_if_broken(f"{point}:{count}")
            if not hit:
                break
            passes += 1
        print(f"  {point:<24} {passes:>3} crashes, each recovered", flush=True)
        yield passes
        if passes == 0:
            raise SystemExit(f"error: no mission passed the point {point}: the campaign proves nothing there")


def random_rounds(binary, root, rounds, seed, night):
    """Kills at random moments: the daemon, the runner, or both, up to three times a round."""
    dice = random.Random(seed)
    expected = None
    for number in range(rounds):
        with House(binary, root, f"{night.name}-{number}", night) as house:
            house.start()
            house.begin()
            house.say()
            for _ in range(0 if number == 0 else dice.randint(1, 3)):
                house.run_for(dice.uniform(0.0, 1.2))
                victim = dice.choice(["daemon", "daemon", "runner", "both"])
                house.kill(victim)
            house.see_it_through()
            verdict = judge(house, expected)
            expected = expected or verdict
        verdict.raise_if_broken(f"random round {number} of seed {seed}")
        print(f"  round {number:>3}: {house.deaths} daemon and {house.runner_deaths} runner kills, "
              f"{verdict.summary}", flush=True)
        yield house.deaths + house.runner_deaths


def main():
    options = argparse.ArgumentParser(prog="crash")
    options.add_argument("--rounds", type=int, default=50, help="random rounds on the release binary")
    options.add_argument("--passes", type=int, default=0, help="at most so many passes of each point; 0: all")
    options.add_argument("--seed", type=int, default=None)
    options = options.parse_args()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big")
    regie, chaos = os.environ["REGIE"], os.environ["CHAOS"]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="regie-crash-") as root:
        print(f"fault points, in {os.path.basename(chaos)} with the feature `testkit`:", flush=True)
        crashes = sum(fault_rounds(chaos, root, options.passes))
        print(f"random kills of the release binary, seed {seed}:", flush=True)
        kills = sum(random_rounds(regie, root, options.rounds, seed, PLAIN))
        print("random kills with the tool that must not be repeated:", flush=True)
        kills += sum(random_rounds(chaos, root, max(1, options.rounds // 5), seed + 1, ANNOUNCE))
        print("random kills of missions from a dirty tree, that are spoken to and outgrow their model's window:", flush=True)
        kills += sum(random_rounds(regie, root, max(1, options.rounds // 2), seed + 2, LONG))
    print(f"crash: {crashes} crashes at fault points and {kills} random kills; same final tree each time, "
          f"ledger and journal agree, every chain intact ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    sys.exit(main())
