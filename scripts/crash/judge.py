"""Holds one round's journal against the external ledger and against an undisturbed round."""

import json
from collections import Counter


class Verdict:
    def __init__(self):
        self.faults = []
        self.tree = None
        self.steps = None
        self.summary = ""

    def must(self, holds, what):
        if not holds:
            self.faults.append(what)

    def raise_if_broken(self, name):
        if self.faults:
            raise SystemExit(f"error: {name}:\n  " + "\n  ".join(self.faults))


def judge(house, expected):
    verdict = Verdict()
    must = verdict.must
    events = house.events()
    facts = [event["fact"] for event in events]
    named = lambda name: [fact for fact in facts if fact["fact"] == name]

    ended = named("ended")
    must(len(ended) == 1 and ended[0]["end"] == "done", f"the run ended as {ended}")
    must(facts[-1]["fact"] == "ended", "something was recorded after the end")
    must([event["seq"] for event in events] == list(range(1, len(events) + 1)), "event numbers have holes")

    planned = {fact["step"]: fact for fact in named("step_planned")}
    executed = {step: fact for step, fact in planned.items() if fact["kind"] not in ("wait_human", "timer")}
    must(sorted(planned) == list(range(1, len(planned) + 1)), "step numbers have holes")
    completed = Counter(fact["step"] for fact in named("step_completed"))
    intended = Counter(fact["step"] for fact in named("step_intended"))
    for step, fact in executed.items():
        must(completed[step] == 1, f"step {step} has {completed[step]} results")
        must(intended[step] >= 1, f"step {step} has a result without an intention")
    order = {}
    for number, fact in enumerate(facts):
        if fact["fact"] == "step_intended":
            order.setdefault(fact["step"], number)
        if fact["fact"] == "step_completed":
            must(fact["step"] in order and order[fact["step"]] < number, f"result of {fact['step']} came first")

    lost = Counter(fact["step"] for fact in named("model_call_lost"))
    restored = Counter(fact["step"] for fact in named("workspace_restored"))
    returned = Counter(fact["step"] for fact in named("step_returned"))
    uncertain = {fact["step"] for fact in named("step_uncertain")}
    for step, fact in executed.items():
        again = intended[step] - 1 - returned[step]
        if fact["effect"] == "model_call":
            must(again == lost[step], f"model call {step}: {again} repeats, {lost[step]} recorded as lost")
        if fact["effect"] == "workspace_write":
            must(again == restored[step], f"step {step}: {again} repeats, {restored[step]} roll-backs")
        if fact["effect"] == "non_idempotent":
            must(again <= 0 or step in uncertain, f"step {step} must not be repeated and was")

    # The external ledger: a line for each request served, and for each announcement.
    ledger = house.ledger()
    for kind, place in ("model_call", "turn"), ("compaction", "summary"):
        asked = [line for line in ledger if "turn" in line and ("summary" in line) == (place == "summary")]
        served = Counter(line[place] for line in asked)
        calls = [step for step in sorted(executed) if executed[step]["kind"] == kind]
        for number, step in enumerate(calls):
            must(served[number] >= 1, f"{kind} {step} has a result that nobody served")
            must(served[number] <= 1 + lost[step],
                 f"{place} {number} was served {served[number]} times, {lost[step]} on record as lost")
        must(set(served) <= set(range(len(calls))), f"the ledger has calls for a {place} that the journal lacks")
    announced = Counter(line["key"] for line in ledger if "key" in line)
    once = [step for step in executed if executed[step]["effect"] == "non_idempotent"]
    must(len(announced) == len(once), f"{len(announced)} announcements for {len(once)} steps")
    for key, count in announced.items():
        must(count == 1 or uncertain, f"announced {count} times under {key}, and not on record as uncertain")

    if house.night.word is not None:
        must(len(named("said")) == 1, f"one word was said, {len(named('said'))} are on record")
        heard = json.dumps(house.last_request(), ensure_ascii=False).count(house.night.word)
        must(heard == 1, f"the owner's word stands {heard} times in the last request")

    audit = house.ask("POST", "/api/v1/audit/verify")
    must(audit["intact"], f"the audit found {audit['broken']}")

    verdict.steps = [(executed[step]["kind"], executed[step]["tool"]) for step in sorted(executed)]
    judge_delivery(house, verdict)
    if expected:
        must(verdict.tree == expected.tree, "the final tree is another one")
        must(verdict.steps == expected.steps, "the steps are others")
    repeats = sum(intended.values()) - len(executed)
    verdict.summary = f"{len(executed)} steps, {repeats} repeated, {sum(lost.values())} model calls lost"
    return verdict


def judge_delivery(house, verdict):
    """What has to be on the owner's branch; or beside it, when the owner's own changes are in the way."""
    sample, must = house.sample, verdict.must
    if not house.night.dirty:
        verdict.tree = sample.git("rev-parse", "HEAD^{tree}")
        must(sample.git("status", "--porcelain") == "", "the owner's checkout is not clean")
        merges = sample.git("rev-list", "--merges", "--count", f"{house.base}..HEAD")
        must(merges == "1", f"{merges} merges on the owner's branch")
        return
    must(sample.git("rev-parse", "HEAD") == house.base, "the branch was moved under the owner's changes")
    left = sample.git("status", "--porcelain")
    must(left.splitlines() == ["M src/cart.js", "?? notes.txt"], f"the owner's changes are now {left!r}")
    verdict.tree = house.line("lines/main^{tree}")
    merges = house.line("--merges", "--count", f"{house.base}..lines/main", command="rev-list")
    must(merges == "1", f"{merges} merges on Regie's line")
