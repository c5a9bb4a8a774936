"""Tests of the reading and comparing of outputs: python3 -m unittest discover examples/compare"""

import json
import tempfile
import tomllib
import unittest
import zipfile
from pathlib import Path

import compare
import corpus
import report
import tools
from corpus import Object

WEB = Object.of("u", "Deployment", "shop", "web")
API = Object.of("u", "Deployment", "shop", "api")


def reports(**checks):
    found = tools.Reports()
    for check, subjects in checks.items():
        for subject in subjects:
            found[check][subject].append(f"message about {subject.name}")
    return found


class Reading(unittest.TestCase):
    def test_each_tool_names_the_same_object(self):
        kube_linter = {"Reports": [{
            "Check": "c", "Diagnostic": {"Message": "m"},
            "Object": {"K8sObject": {"Namespace": "shop", "Name": "web", "GroupVersionKind": {"Kind": "Deployment"}}},
        }]}
        failed, passed = {"Success": False, "Message": "m"}, {"Success": True, "Message": "n"}
        polaris = {"Results": [{
            "Kind": "Deployment", "Namespace": "shop", "Name": "web", "Results": {"p": passed},
            "PodResult": {"Results": {}, "ContainerResults": [{"Results": {"c": failed}}]},
        }]}
        check = {"check": {"id": "c"}, "grade": 1, "skipped": False, "comments": [{"summary": "m"}]}
        kube_score = [{
            "type_meta": {"kind": "Deployment"}, "object_meta": {"namespace": "shop", "name": "web"},
            "checks": [check, check | {"check": {"id": "p"}, "grade": 10}, check | {"check": {"id": "s"}, "skipped": True}],
        }]
        resource = {"kind": "Deployment", "namespace": "shop", "name": "web"}
        kaudit = {"results": [{"resource": resource, "result": "fail", "ruleId": "c", "message": "m"}]}
        outputs = {
            tools.read_kube_linter: kube_linter, tools.read_polaris: polaris,
            tools.read_kube_score: kube_score, tools.read_kaudit: kaudit,
        }
        for read, output in outputs.items():
            with self.subTest(read.__name__):
                self.assertEqual(read("u", json.dumps(output)), {"c": {WEB: ["m"]}})

    def test_no_results_are_no_reports(self):
        self.assertEqual(tools.read_kube_linter("u", '{"Reports": null}'), {})
        self.assertEqual(tools.read_polaris("u", '{"Results": null}'), {})
        self.assertEqual(tools.read_kube_score("u", "null"), {})

    def test_a_missing_namespace_is_default(self):
        self.assertEqual(Object.of("u", "Pod", None, "a"), Object.of("u", "Pod", "default", "a"))
        self.assertNotEqual(Object.of("u", "Pod", "b", "a"), Object.of("u", "Pod", "default", "a"))


class Comparing(unittest.TestCase):
    mapping = {
        "checks": [{"name": "Limit", "kaudit": "RES-01", "polaris": "limit memory"}],
        "left-out": [{"name": "Style", "polaris": "style", "reason": "style"}],
        "differences": [{"checks": ["Limit"], "only": "peer", "objects": ["Deployment shop/a*"], "reason": "a Job"}],
    }

    def test_objects_are_agreed_or_reported_by_one_side(self):
        ours, theirs = reports(**{"RES-01": [WEB]}), reports(limit=[WEB], memory=[API])
        [row] = compare.compare(self.mapping, ours, {"polaris": theirs}, {})
        self.assertEqual((row.agreed, row.kaudit, row.peer), ({WEB}, {}, {API: "a Job"}))

    def test_a_reason_is_for_one_side_and_some_objects(self):
        [row] = compare.compare(self.mapping, reports(**{"RES-01": [API]}), {"polaris": reports(limit=[WEB])}, {})
        self.assertEqual((row.kaudit, row.peer), ({API: None}, {WEB: None}))

    def test_a_reason_may_depend_on_the_message(self):
        entry = self.mapping["differences"][0] | {"message": "about web"}
        self.assertIsNone(compare.reason([entry], "Limit", "polaris", "peer", API, ["message about api"], set()))
        self.assertEqual(compare.reason([entry], "Limit", "polaris", "peer", API, ["about web"], set()), "a Job")

    def test_a_reason_may_depend_on_another_rule_for_the_object(self):
        entry = self.mapping["differences"][0] | {"also": "RES-02 RES-03"}
        mapping = self.mapping | {"differences": [entry]}
        for rule, expected in (("RES-03", "a Job"), ("RES-04", None)):
            [row] = compare.compare(mapping, reports(**{rule: [API]}), {"polaris": reports(limit=[API])}, {})
            self.assertEqual(row.peer, {API: expected})

    def test_rights_are_compared_by_role(self):
        role, binding = Object.of("u", "Role", "shop", "admin"), Object.of("u", "RoleBinding", "shop", "web")
        check = {"name": "Exec", "about": "roles", "kaudit": "RBAC-09", "polaris": "exec"}
        mapping = self.mapping | {"checks": [check]}
        found = reports(**{"RBAC-09": [role]}), {"polaris": reports(exec=[binding])}
        [row] = compare.compare(mapping, *found, {binding: role})
        self.assertEqual((row.agreed, row.kaudit, row.peer), ({role}, {}, {}))

    def test_a_check_that_reports_has_to_be_in_the_mapping(self):
        theirs = reports(limit=[WEB], style=[WEB], new=[WEB])
        self.assertEqual(list(compare.unmapped(self.mapping, {"polaris": theirs})), [("polaris", "new")])

    def test_the_table_counts_objects(self):
        rows = compare.compare(self.mapping, reports(**{"RES-01": [WEB]}), {"polaris": reports(memory=[API])}, {})
        self.assertIn("| Limit | RES-01 | 0 / 1 / 1 |", report.table(rows, self.mapping))


    def test_only_what_is_between_the_markers_is_replaced(self):
        page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
        self.assertEqual(report.between(page, "new"), f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n")


class Corpus(unittest.TestCase):
    def test_only_the_paths_of_a_source_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "module.zip"
            with zipfile.ZipFile(archive, "w") as written:
                for path in ("a/web.yaml", "a/web.md", "ab/other.yaml", "single.yaml", "b/left.yaml"):
                    written.writestr(f"example.com/module@v1.0.0/{path}", path)
            self.assertEqual([path for path, _ in corpus.files(archive, ["a", "single.yaml"])], ["a/web.yaml", "single.yaml"])


class Mapping(unittest.TestCase):
    def test_each_rule_of_the_mapping_has_a_page(self):
        mapping = tomllib.loads((compare.HERE / "checks.toml").read_text())
        rules = {rule for check in mapping["checks"] for rule in compare.ids(check, "kaudit")}
        pages = {page.stem for page in (compare.ROOT / "docs" / "rules").glob("*-*.md")}
        self.assertEqual(rules - pages, set())

    def test_each_reason_is_about_checks_of_the_mapping(self):
        mapping = tomllib.loads((compare.HERE / "checks.toml").read_text())
        names = {check["name"] for check in mapping["checks"]}
        self.assertEqual({name for entry in mapping["differences"] for name in entry.get("checks", [])} - names, set())


if __name__ == "__main__":
    unittest.main()
