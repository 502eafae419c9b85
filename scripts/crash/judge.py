"""Holds one round's journal against the external ledger and against an undisturbed round."""

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
    served = Counter(line["turn"] for line in ledger if "turn" in line)
    calls = [step for step in sorted(executed) if executed[step]["effect"] == "model_call"]
    for turn, step in enumerate(calls):
        must(served[turn] >= 1, f"model call {step} has a result that nobody served")
        must(served[turn] <= 1 + lost[step], f"turn {turn} was served {served[turn]} times, {lost[step]} on record as lost")
    must(set(served) <= set(range(len(calls))), "the ledger has model calls that the journal lacks")
    announced = Counter(line["key"] for line in ledger if "key" in line)
    once = [step for step in executed if executed[step]["effect"] == "non_idempotent"]
    must(len(announced) == len(once), f"{len(announced)} announcements for {len(once)} steps")
    for key, count in announced.items():
        must(count == 1 or uncertain, f"announced {count} times under {key}, and not on record as uncertain")

    audit = house.ask("POST", "/api/v1/audit/verify")
    must(audit["intact"], f"the audit found {audit['broken']}")

    verdict.tree = house.sample.git("rev-parse", "HEAD^{tree}")
    verdict.steps = [(executed[step]["kind"], executed[step]["tool"]) for step in sorted(executed)]
    must(house.sample.git("status", "--porcelain") == "", "the owner's checkout is not clean")
    merges = house.sample.git("rev-list", "--merges", "--count", f"{house.base}..HEAD")
    must(merges == "1", f"{merges} merges on the owner's branch")
    if expected:
        must(verdict.tree == expected.tree, "the final tree is another one")
        must(verdict.steps == expected.steps, "the steps are others")
    repeats = sum(intended.values()) - len(executed)
    verdict.summary = f"{len(executed)} steps, {repeats} repeated, {sum(lost.values())} model calls lost"
    return verdict
