"""The report as a table, on the screen and in the documentation."""

REGIE = ("tier 0", "tier 1, root", "tier 1, user", "tier 1, other steps")
BEGIN, END = "<!-- escape: made by `make escape` -->", "<!-- escape ends -->"


def faults(report):
    """Why the run counts as failed."""
    found = []
    for row in report["rows"]:
        for column, (word, how) in row["cells"].items():
            name = f"{row['family']}/{row['name']} in {column}"
            if word == "broken":
                found.append(f"{name}: {how}")
            elif column in REGIE and word == "REACHED":
                found.append(f"{name} is reached")
    return found


def lines(report):
    names = [name for name in report["columns"]]
    yield "| technique | " + " | ".join(names) + " |"
    yield "|---" * (len(names) + 1) + "|"
    family = None
    for row in report["rows"]:
        if row["family"] != family:
            family = row["family"]
            yield f"| **{family}** |" + " |" * len(names)
        cells = []
        for name in names:
            word, how = row["cells"].get(name, ("–", ""))
            how = how.replace("|", "/").replace("\n", " ")
            cells.append(f"{word}: {how}" if word == "absent" else
                         f"{how}" if word == "refused" else
                         how if word == "caught" else
                         f"as {how}" if word == "reached" else f"**{word}**" if word == "REACHED" else word)
        yield f"| {row['name']}: {row['what']} | " + " | ".join(cells) + " |"


def totals(report):
    yield "| reached of those that work unheld | " + " | ".join(
        str(sum(row["cells"].get(name, ("",))[0] in ("REACHED", "reached") for row in report["rows"]))
        for name in report["columns"]) + " |"


def text(report):
    worked = sum(row["cells"].get("plain", ("",))[0] == "reached" for row in report["rows"])
    absent = [row["name"] for row in report["rows"] if row["cells"].get("plain", ("",))[0] == "absent"]
    out = [*lines(report), *totals(report), "",
           f"{len(report['rows'])} techniques, {worked} work unheld on this machine."]
    if absent:
        out.append(f"This machine has nothing for {len(absent)}: {', '.join(absent)}.")
    for name, why in report["missing"].items():
        out.append(f"The column {name} is MISSING: {why}.")
    return "\n".join(out)


def write(path, report):
    """Puts the table between the markers of a document."""
    with open(path) as file:
        before, rest = file.read().split(BEGIN)
    after = rest.split(END)[1]
    with open(path, "w") as file:
        file.write(f"{before}{BEGIN}\n\n{text(report)}\n\n{END}{after}")
