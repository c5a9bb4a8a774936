#!/usr/bin/env python3
"""Compares the results of kaudit's library with those of other tools on public manifests; README.md explains it."""

import argparse
import csv
import fnmatch
import json
import random
import re
import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import corpus
import report
import tools

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@dataclass
class Row:
    """What kaudit and one tool report for one check."""

    check: str
    tool: str
    agreed: set
    # What only one of both reports, with the reason of each difference, or None.
    kaudit: dict = field(default_factory=dict)
    peer: dict = field(default_factory=dict)

    def differences(self):
        return [("kaudit", *pair) for pair in self.kaudit.items()] + [("peer", *pair) for pair in self.peer.items()]


def ids(check, tool):
    return check.get(tool, "").split()


def collect(reports, check, tool, roles):
    """Returns the messages for each object that a check reports; for rights those for the role, not for its bindings."""
    found = {}
    for name in ids(check, tool):
        for subject, messages in reports.get(name, {}).items():
            subject = roles.get(subject, subject) if check.get("about") == "roles" else subject
            found.setdefault(subject, []).extend(messages)
    return found


def reason(known, check, tool, side, subject, messages, also):
    """Returns the first reason that applies to a difference; `also` are the rules of kaudit that report the object."""
    for entry in known:
        globs = entry.get("objects", ["*"])
        if (
            check in entry.get("checks", [check])
            and tool in entry.get("tools", tools.PEERS)
            and side == entry["only"]
            and any(fnmatch.fnmatchcase(str(subject), glob) for glob in globs)
            and ("also" not in entry or also & set(entry["also"].split()))
            and any(re.search(entry.get("message", ""), message) for message in messages)
        ):
            return entry["reason"]
    return None


def compare(mapping, ours, peers, roles):
    """Returns a row for each check and each tool that has it."""
    rows, rules = [], {}
    for rule, subjects in ours.items():
        for subject in subjects:
            rules.setdefault(subject, set()).add(rule)
            rules.setdefault(roles.get(subject, subject), set()).add(rule)
    for check in mapping["checks"]:
        mine = collect(ours, check, "kaudit", roles)
        for tool, reports in peers.items():
            if not ids(check, tool):
                continue
            theirs = collect(reports, check, tool, roles)
            row = Row(check["name"], tool, mine.keys() & theirs.keys())
            for side, all_, other, found in (("kaudit", mine, theirs, row.kaudit), ("peer", theirs, mine, row.peer)):
                for subject in sorted(all_.keys() - other.keys()):
                    known, also = mapping["differences"], rules.get(subject, set())
                    found[subject] = reason(known, check["name"], tool, side, subject, all_[subject], also)
            rows.append(row)
    return rows


def unmapped(mapping, peers):
    """Yields the checks that report something, but that the mapping does not have."""
    for tool, reports in peers.items():
        known = {name for check in mapping["checks"] + mapping["left-out"] for name in ids(check, tool)}
        yield from ((tool, name) for name in sorted(reports.keys() - known))


def write_differences(file, rows, ours, peers, mapping, places, roles):
    """Writes each difference with the object, its file, the message and the reason."""
    checks = {check["name"]: check for check in mapping["checks"]}
    with open(file, "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["check", "tool", "only", "object", "file", "message", "reason"])
        for row in rows:
            for side, subject, why in row.differences():
                reports, name = (ours, "kaudit") if side == "kaudit" else (peers[row.tool], row.tool)
                messages = collect(reports, checks[row.check], name, roles)[subject]
                text = f"{subject.unit}: {places.get(subject, '?')}"
                writer.writerow([row.check, row.tool, side, subject, text, messages[0], why or ""])


def run(options, sources, mapping, target):
    """Runs all tools; returns kaudit's reports, those of each peer, what was checked, and what could not be."""
    found, missing = tools.find(sources, target, dict(given.split("=", 1) for given in options.tool))
    units, places, roles = corpus.write(sources["corpus"], target / "corpus")
    ours, peers, refused = tools.Reports(), {tool: tools.Reports() for tool in tools.PEERS if tool in found}, []
    for unit, folder in units.items():
        for tool in ["kaudit", *peers]:
            names = [name for check in mapping["checks"] + mapping["left-out"] for name in ids(check, tool)]
            words = tools.command(tool, found.get(tool), options.kaudit, folder, names)
            file = target / "output" / f"{folder.name}.{tool}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                text = tools.output(words, file, options.keep)
                (ours if tool == "kaudit" else peers[tool]).merge(tools.read(tool, unit, text))
            except RuntimeError as error:
                refused.append((tool, unit, str(error)))
        print(".", end="", file=sys.stderr, flush=True)
    return ours, peers, (places, roles), (missing, refused)


def sample(folder, count, seed):
    """Yields results of the library that are drawn at random, with the lines around their field."""
    results = [
        result
        for file in sorted(folder.glob("*.kaudit.json"))
        for result in json.loads(file.read_text())["results"]
    ]
    drawn = random.Random(seed).sample(results, min(count, len(results)))
    for number, result in enumerate(drawn, 1):
        found, line = result["resource"], result.get("fieldLine", result["location"]["line"])
        lines = Path(result["location"]["file"]).read_text().splitlines()
        name = f"{found['kind']} {found.get('namespace', '')}/{found['name']}"
        yield f"## {number}. {result['ruleId']} {result['severity']}: {name}\n{result['message']}"
        yield f"{result['location']['file']}:{line}\n"
        shown = range(max(1, line - 8), min(len(lines), line + 8) + 1)
        yield "\n".join(f"{'>' if n == line else ' '} {lines[n - 1]}" for n in shown) + "\n"


def main():
    options = arguments()
    target = ROOT / "target" / "compare"
    if options.sample:
        print("\n".join(sample(target / "output", options.sample, options.seed)))
        return 0
    sources = tomllib.loads((HERE / "sources.toml").read_text())
    mapping = tomllib.loads((HERE / "checks.toml").read_text())
    ours, peers, (places, roles), (missing, refused) = run(options, sources, mapping, target)
    rows = compare(mapping, ours, peers, roles)
    write_differences(target / "differences.csv", rows, ours, peers, mapping, places, roles)
    for tool, why in missing.items():
        print(f"not run: {tool}: {why}")
    for tool, unit, why in refused:
        print(f"refused: {tool}: {unit}: {why}")
    unexplained = [(row, d) for row in rows for d in row.differences() if d[2] is None]
    for row, (side, subject, _) in unexplained[:50]:
        print(f"no reason: {row.check}, {row.tool}: only {side}: {subject} ({subject.unit})")
    unknown = list(unmapped(mapping, peers))
    for tool, name in unknown:
        print(f"not in checks.toml: {tool} {name}")
    print(f"{len(unexplained)} differences without a reason; all are in {target / 'differences.csv'}")
    if options.write:
        ran = {tool: version(sources, tool) for tool in peers}
        report.write(ROOT / "docs" / "compare", rows, mapping, ran, len(places), sources["corpus"])
    else:
        print(report.table(rows, mapping))
    return 1 if unexplained or unknown else 0


def version(sources, tool):
    return (sources["tools"] | sources["libraries"])[tool].split("@")[1]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kaudit", default=ROOT / "target/release/kaudit", help="program to compare")
    parser.add_argument("--tool", action="append", default=[], metavar="NAME=PATH",
                        help="use this program, or this folder with a library, instead of the Go module; repeatable")
    parser.add_argument("--keep", action="store_true", help="use the outputs of the previous run where they exist")
    parser.add_argument("--write", action="store_true", help="write the results into docs/compare")
    parser.add_argument("--sample", type=int, default=0, metavar="N",
                        help="print N results of the previous run, drawn at random, with the lines around their field")
    parser.add_argument("--seed", type=int, default=1, help="for --sample")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
