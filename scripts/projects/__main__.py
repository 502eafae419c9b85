"""Real projects: public packages, each with a seeded bug, are mended by a scripted model through the
real binary.

For each: `regie init` finds the test command; the model runs the project's own tests in the jail, sees
them fail, reads, mends, sees them pass; the merge is the original to the last byte; the tests pass outside;
nothing else of the owner's was touched, and no process is left.

`REGIE` is the binary. Exit code 0: all held.
"""

import argparse
import os
import sys
import time

from description import Wrong, everything
from mission import Mission
from registry import Cache


def main():
    options = argparse.ArgumentParser(prog="projects")
    options.add_argument("--cache", required=True, help="where archives and dependencies are kept")
    options.add_argument("--only", action="append", default=[], metavar="NAME", help="may be repeated")
    options.add_argument("--quick", action="store_true", help="the three quick ones")
    options = options.parse_args()
    binary, cache = os.path.abspath(os.environ["REGIE"]), Cache(options.cache)
    projects = [project for project in everything() if not options.quick or project.is_quick]
    unknown = set(options.only) - {project.name for project in projects}
    if unknown:
        raise SystemExit(f"error: there is no project {', '.join(sorted(unknown))}")
    projects = [project for project in projects if not options.only or project.name in options.only]
    rows, failures = [], []
    for project in projects:
        began = time.monotonic()
        try:
            numbers, result = Mission(binary, project, cache).run(), "ok"
        except Wrong as wrong:
            numbers, result = {}, "FAILED"
            failures.append(f"{project.name}: {wrong}")
        rows.append((project, numbers, time.monotonic() - began, result))
        print(f"  {project.name}: {result}, {rows[-1][2]:.1f} s", file=sys.stderr, flush=True)
    print(table(rows))
    for failure in failures:
        print(f"\nerror: {failure}", file=sys.stderr)
    return 1 if failures else 0


def table(rows):
    lines = [("project", "language", "files", "tests", "steps", "run s", "all s", "result")]
    for project, numbers, seconds, result in rows:
        tests = "failing → passing" if result == "ok" else "-"
        run = f"{numbers['seconds']:.1f}" if "seconds" in numbers else "-"
        lines.append((f"{project.name} {project.package['version']}", project.language, str(numbers.get("files", "-")),
                      tests, str(numbers.get("steps", "-")), run, f"{seconds:.1f}", result))
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines)


if __name__ == "__main__":
    sys.exit(main())
