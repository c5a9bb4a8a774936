"""Runs each tool on a unit, and reads what it reports as {check: {Object: [message]}}."""

import json
import os
import subprocess
import zipfile
from collections import defaultdict
from pathlib import Path

from corpus import Object, download

PEERS = ["kube-linter", "polaris", "kube-score", "trivy", "kubescape"]


class Reports(defaultdict):
    """What one tool reports: the objects of each check, with messages."""

    def __init__(self):
        super().__init__(lambda: defaultdict(list))

    def add(self, check, unit, kind, namespace, name, message):
        self[check][Object.of(unit, kind, namespace, name)].append(message)

    def merge(self, other):
        for check, objects in other.items():
            for found, messages in objects.items():
                self[check][found] += messages


def read_kube_linter(unit, text):
    reports = Reports()
    for report in json.loads(text)["Reports"] or []:
        found = report["Object"]["K8sObject"]
        kind = found["GroupVersionKind"]["Kind"]
        message = report["Diagnostic"]["Message"]
        reports.add(report["Check"], unit, kind, found["Namespace"], found["Name"], message)
    return reports


def read_polaris(unit, text):
    reports = Reports()
    for audited in json.loads(text)["Results"] or []:
        pod = audited.get("PodResult") or {}
        parts = [audited, pod] + (pod.get("ContainerResults") or [])
        for check, result in ((c, r) for part in parts for c, r in (part.get("Results") or {}).items()):
            if not result["Success"]:
                key = (audited["Kind"], audited["Namespace"], audited["Name"])
                reports.add(check, unit, *key, result["Message"])
    return reports


def read_kube_score(unit, text):
    reports = Reports()
    for scored in json.loads(text) or []:
        metadata = scored["object_meta"]
        key = (scored["type_meta"]["kind"], metadata.get("namespace"), metadata["name"])
        for check in scored["checks"]:
            # 1 is critical, 5 a warning; 7 and 10 are good.
            if not check["skipped"] and check["grade"] <= 5:
                summary = "; ".join(comment["summary"] for comment in check["comments"] or [])
                reports.add(check["check"]["id"], unit, *key, summary)
    return reports


def read_kaudit(unit, text):
    """Reads the results of the library, or of a peer's."""
    reports = Reports()
    for result in json.loads(text)["results"]:
        found = result["resource"]
        key = (found["kind"], found.get("namespace"), found["name"])
        check = "error" if result["result"] == "error" else result["ruleId"]
        reports.add(check, unit, *key, result["message"])
    return reports


READERS = {"kube-linter": read_kube_linter, "polaris": read_polaris, "kube-score": read_kube_score}


def read(tool, unit, text):
    return READERS.get(tool, read_kaudit)(unit, text)


def command(tool, path, kaudit, folder, ids):
    """Returns the command that checks the files of a folder with all checks of a tool, and writes JSON."""
    if tool == "kube-linter":
        config = folder.parent / "kube-linter.yaml"
        # The check downloads schemas, and waits for minutes where it cannot.
        config.write_text("checks: {addAllBuiltIn: true, exclude: [schema-validation]}\n")
        return [path, "lint", "--config", config, "--format", "json", folder]
    if tool == "polaris":
        config = folder.parent / "polaris.json"
        config.write_text(json.dumps({"checks": {check: "warning" for check in ids}}))
        return [path, "audit", "--config", config, "--audit-path", folder, "--format", "json"]
    if tool == "kube-score":
        options = ["--output-format", "json", "--all-default-optional", "--kubernetes-version", "v1.36"]
        return [path, "score", *options, *sorted(folder.iterdir())]
    # The library of kaudit, or one that kaudit evaluates.
    policies = ["-p", path] if path else ["-p", "builtin", "-p", "builtin:practices", "--profile", "strict"]
    options = ["--files-are-complete", "--quiet", "--output", "json", "--fail-on", "none"]
    return [kaudit, "check", "-f", folder, *policies, *options]


def output(words, file, keep):
    """Runs a command, keeps its output in `file`, and returns it."""
    if not (keep and file.exists()):
        run = subprocess.run([str(word) for word in words], capture_output=True, text=True)
        if not run.stdout.lstrip().startswith(("{", "[", "null")):
            raise RuntimeError(run.stderr.strip()[-300:] or f"exit code {run.returncode} without output")
        file.write_text(run.stdout)
    return file.read_text()


def install(target, package):
    """Builds `PACKAGE@VERSION` with Go and returns the program."""
    folder = target / "tools" / "compare"
    environment = os.environ | {"GOBIN": str(folder), "GOFLAGS": "-buildvcs=false"}
    run = subprocess.run(["go", "install", package], env=environment, capture_output=True, text=True, cwd="/")
    if run.returncode:
        raise RuntimeError(run.stderr.strip().splitlines()[0])
    return folder / package.split("@")[0].rsplit("/", 1)[1]


def unpack(target, module):
    """Unpacks a module and returns its folder."""
    folder = target / "tools" / "compare" / module.replace("/", "_")
    if not folder.exists():
        with zipfile.ZipFile(download(module)) as opened:
            opened.extractall(folder)
    return min((path.parent for path in folder.rglob("go.mod")), key=lambda found: len(found.parts))


def find(sources, target, given):
    """Returns the path of each tool and library, and why others cannot be run."""
    found, missing = {name: Path(path) for name, path in given.items()}, {}
    for group, get in (("tools", install), ("libraries", unpack)):
        for name, module in sources[group].items():
            try:
                found.setdefault(name, None)
                found[name] = found[name] or get(target, module)
            except (RuntimeError, OSError) as error:
                del found[name]
                missing[name] = str(error).splitlines()[0]
    return found, missing
