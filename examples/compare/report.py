"""Writes the results of the comparison as Markdown."""

import datetime

import tools

BEGIN, END = "<!-- compare.py: begin -->", "<!-- compare.py: end -->"
MADE = "<!-- Made by examples/compare/compare.py; do not edit. -->\n"


def between(page, text):
    """Replaces what is between the markers of a page."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}"


def cells(values):
    return "| " + " | ".join(values) + " |"


def by_check(rows):
    """Returns {check: {tool: row}}."""
    found = {}
    for row in rows:
        found.setdefault(row.check, {})[row.tool] = row
    return found


def table(rows, mapping):
    """Returns the table of all checks: objects that both, only kaudit, and only the tool report."""
    found, rules = by_check(rows), {check["name"]: check["kaudit"] for check in mapping["checks"]}
    used = [tool for tool in tools.PEERS if any(tool in compared for compared in found.values())]
    lines = [cells(["check", "kaudit", *used]), "|---" * (len(used) + 2) + "|"]
    silent = []
    for check, compared in found.items():
        if not any(row.agreed or row.differences() for row in compared.values()):
            silent.append(check)
            continue
        counts = {tool: f"{len(row.agreed)} / {len(row.kaudit)} / {len(row.peer)}" for tool, row in compared.items()}
        names = rules[check].replace(" ", ", ")
        lines.append(cells([check, names, *(counts.get(tool, "–") for tool in used)]))
    silence = f"\n\nThese checks report no object of the manifests: {', '.join(silent)}." if silent else ""
    return "\n".join(lines) + silence


def short(version):
    """Returns a tag, or the beginning of the commit of a version without one."""
    return version.rsplit("-", 1)[-1][:12]


def totals(rows, mapping, ran):
    """Returns the table of the tools: their version, their checks, and how many differences there are."""
    lines = [cells(["tool", "version", "checks", "with a rule of kaudit", "agreed", "only kaudit", "only the tool"])]
    lines.append("|---" * 7 + "|")
    for tool, version in ran.items():
        mine = [row for row in rows if row.tool == tool]
        mapped, left = ({name for entry in mapping[key] for name in entry.get(tool, "").split()}
                        for key in ("checks", "left-out"))
        sums = [sum(len(part(row)) for row in mine) for part in (lambda r: r.agreed, lambda r: r.kaudit, lambda r: r.peer)]
        counts = [len(mapped | left), len(mapped), *sums]
        lines.append(cells([tool, short(version), *(f"{count:,}" for count in counts)]))
    return "\n".join(lines)


def reasons(rows):
    """Returns the table of the reasons, by check, each with the tools and the number of objects."""
    found = {}
    for row in rows:
        for side, _, why in row.differences():
            tool = found.setdefault((why or "**no reason**", side), {}).setdefault(row.check, {})
            tool[row.tool] = tool.get(row.tool, 0) + 1
    lines = [cells(["checks", "only", "reason"]), "|---" * 3 + "|"]
    for (why, side), checks in found.items():
        shown = []
        for check, counts in checks.items():
            shown.append(f"{check} ({', '.join(f'{tool} {count}' for tool, count in counts.items())})")
        lines.append(cells(["; ".join(shown), "kaudit" if side == "kaudit" else "the tool", why]))
    return "\n".join(lines)


def left_out(mapping):
    """Returns the table of the checks that the library does not have on purpose."""
    lines = [cells(["checks", "of", "reason"]), "|---" * 3 + "|"]
    for entry in mapping["left-out"]:
        lines.append(cells([entry["name"], ", ".join(tool for tool in tools.PEERS if tool in entry), entry["reason"]]))
    return "\n".join(lines)


def write(folder, rows, mapping, ran, objects, projects):
    """Writes the pages of the documents."""
    names = ", ".join(f"{project['name']} {short(project['module'].split('@')[1])}" for project in projects)
    day = datetime.date.today().strftime("%d %B %Y").lstrip("0")
    ran_on = f"Compared on {day}, on {objects:,} objects of {names}:"
    page = folder / "library.md"
    text = "\n".join(["", ran_on, "", totals(rows, mapping, ran), "", table(rows, mapping), ""])
    page.write_text(between(page.read_text(), text))
    pages = {
        "library-differences.md": ["# Differences of the library from other checkers", "",
            "Why some objects are reported [only by kaudit or only by another tool](library.md), with their number.", "",
            reasons(rows)],
        "library-left-out.md": ["# Checks that the library leaves out", "",
            "Checks of [other tools](library.md) that have no rule, on purpose; their ids are in",
            "[`checks.toml`](../../examples/compare/checks.toml).", "", left_out(mapping)],
    }
    for name, lines in pages.items():
        (folder / name).write_text("\n".join([MADE, *lines, ""]))
