"""Fetches Go modules, and copies the manifests in them into units: folders that are checked as a cluster."""

import json
import os
import re
import shutil
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, order=True)
class Object:
    """The identity of an object in a unit. Tools disagree on whether a missing namespace is `default`."""

    unit: str
    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, unit, kind, namespace, name):
        return cls(unit, kind, "" if namespace in (None, "default") else namespace, name)

    def __str__(self):
        return f"{self.kind} {self.namespace + '/' if self.namespace else ''}{self.name}"


def download(module):
    """Returns the zip file of `PATH@VERSION`."""
    # Outside of a module, or Go would change its go.mod.
    run = subprocess.run(["go", "mod", "download", "-json", module], capture_output=True, text=True, cwd="/")
    answer = json.loads(run.stdout) if run.stdout.startswith("{") else {"Error": run.stderr}
    # Manifests do not need the Go version that the module requires, which is an error too.
    if "Zip" not in answer:
        raise RuntimeError(answer["Error"].strip())
    return Path(answer["Zip"])


def files(archive, paths):
    """Yields the path below the module and the text of each YAML file in or below one of `paths`."""
    with zipfile.ZipFile(archive) as opened:
        for name in sorted(opened.namelist()):
            path = re.sub(r"^.*?@[^/]*/", "", name)
            if re.search(r"\.ya?ml$", path) and any(path == p or path.startswith(p + "/") for p in paths):
                yield path, opened.read(name).decode()


def objects(text):
    """Yields the text, the (kind, namespace, name), and for bindings that of the role, of each object for a cluster."""
    import yaml  # Only the corpus needs it, not the tests.

    for document in re.split(r"(?m)^---.*\n", text):
        try:
            value = yaml.load(document, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            metadata = value["metadata"]
            namespace = metadata.get("namespace")
            key = (value["kind"], namespace, metadata["name"])
            role = value.get("roleRef")
            if role:
                role = (role["kind"], namespace if role["kind"] == "Role" else None, role["name"])
        except (yaml.YAMLError, AttributeError, KeyError, TypeError):
            continue
        if "kustomize" not in value.get("apiVersion", "kustomize"):
            yield document.rstrip() + "\n", key, role


def first_free(clusters, known):
    """Returns the first of some clusters without any of these objects, or a new one."""
    for cluster in clusters:
        if not known.keys() & cluster[1].keys():
            return cluster
    clusters.append(({}, {}))
    return clusters[-1]


def units(archive, paths):
    """Returns the files of a project in units, each as ({file: text}, {key of an object: (file, role)}).

    A unit is checked as if it were a cluster, so it contains each object once. Variants of an object are in others,
    with the files of their folder where that is possible.
    """
    folders, found = {}, []
    for path, text in files(archive, paths):
        known = list(objects(text))
        cluster = folders.setdefault(path if path in paths else os.path.dirname(path), [])
        if known:
            texts, keys = first_free(cluster, {key: None for _, key, _ in known})
            texts[path] = "---\n".join(document for document, _, _ in known)
            keys.update((key, (path, role)) for _, key, role in known)
    for texts, keys in (part for parts in folders.values() for part in parts):
        unit = first_free(found, keys)
        unit[0].update(texts)
        unit[1].update(keys)
    return found


def write(sources, root):
    """Writes the corpus below `root`; returns {unit: folder}, the file of each object, and the role of each binding."""
    written, places, roles = {}, {}, {}
    shutil.rmtree(root, ignore_errors=True)
    for source in sources:
        for number, (texts, keys) in enumerate(units(download(source["module"]), source["paths"]), 1):
            title = f"{source['name']}-{number}"
            (root / title).mkdir(parents=True)
            for path, text in texts.items():
                (root / title / path.replace("/", "_")).write_text(text)
            written[title] = root / title
            for key, (path, role) in keys.items():
                places[Object.of(title, *key)] = path
                if role:
                    roles[Object.of(title, *key)] = Object.of(title, *role)
    return written, places, roles
