"""The alerts and the dashboard against the metrics of a running idempotencyd: every metric and every
label that they name exists, every alert has a case in which it fires and an entry in the runbook, and
every query is valid.

usage: python3 -m unittest tests.monitoring.monitoring_test, with IDEMPOTENCY_BIN
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ["IDEMPOTENCY_BIN"])
RULES = ROOT / "deploy/prometheus/idempotencyd.rules.yaml"
CASES = ROOT / "tests/monitoring/alerts_test.yaml"
CASES_OF_DAYS = ROOT / "tests/monitoring/sweeps_test.yaml"
DASHBOARD = ROOT / "deploy/grafana/idempotencyd.json"
# What Prometheus adds to each series.
OF_PROMETHEUS = {"job", "instance", "le", "__name__"}
CONFIG = """
identities { name: "all" local: true }
rules { identity: "all" namespaces: "*" permissions: [READ, WRITE] }
namespaces { name: "payments" limits { max_records: 1000 max_reply_bytes: 1000000 } }
external_processor {
  namespace: "payments"
  scope { shared: "all" }
  on_unknown_outcome: LEASE_EXPIRY_REQUIRE_RECOVERY
  grpc_methods { name: "shop.v1.Orders/Place" }
}
"""


def scrape():
    """The metrics of a daemon with a configured namespace and an external processor; and its log."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "config.textproto")
        config.write_text(CONFIG)
        log_file = open(pathlib.Path(folder, "log"), "w", encoding="utf-8")
        daemon = subprocess.Popen(
            [BIN / "idempotencyd", "serve", f"--store=sqlite:{folder}/records.db",
             "--listen=127.0.0.1:0", "--metrics=127.0.0.1:0", "--ext_proc=127.0.0.1:0",
             f"--config={config}",
             "--log_format=json", "--log_level=debug"],
            env={**os.environ, "GRPC_VERBOSITY": "DEBUG"}, stdout=subprocess.PIPE, stderr=log_file,
            text=True)
        try:
            ready = daemon.stdout.readline()
            address = re.search(r"metrics on ([^\s,]+)", ready)[1]
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as answer:
                page = answer.read().decode()
        finally:
            daemon.terminate()
            daemon.wait(timeout=30)
            log_file.close()
        log = pathlib.Path(folder, "log").read_text()
    return page, log


def object_of(pairs):
    """A JSON object in which no name stands twice."""
    names = [name for name, _ in pairs]
    if len(names) != len(set(names)):
        raise ValueError(f"a name stands twice: {names}")
    return dict(pairs)


def labels_of(page):
    """A family without a series yet has its labels in the code alone: see FAMILIES."""
    found = {}
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            found.setdefault(line.split()[2], set())
        elif line and not line.startswith("#"):
            name, labels = re.match(r"(\w+)(?:\{(.*?)\})? ", line).groups()
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels or ""))
    return found


# The labels of families that have no series before something happens.
FAMILIES = {
    "idempotency_namespace_operations_total": {"namespace"},
    "idempotency_quota_exceeded_total": {"namespace", "limit"},
    "idempotency_namespace_records": {"namespace"},
    "idempotency_namespace_reply_bytes": {"namespace"},
    "idempotency_certificate_not_before_timestamp_seconds": {"certificate"},
    "idempotency_certificate_not_after_timestamp_seconds": {"certificate"},
    "idempotency_keyring_key_info": {"key_id"},
}


def queries():
    """Each query with where it stands."""
    for group in yaml.safe_load(RULES.read_text())["groups"]:
        for rule in group["rules"]:
            yield rule.get("alert") or rule["record"], rule["expr"]
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def alerts():
    return {rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"]
            for rule in group["rules"] if "alert" in rule}


class MonitoringTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.page, cls.log = scrape()
        cls.metrics = labels_of(cls.page)
        for name, labels in FAMILIES.items():
            cls.metrics.setdefault(name, set()).update(labels)
        cls.recorded = {rule["record"] for group in yaml.safe_load(RULES.read_text())["groups"]
                        for rule in group["rules"] if "record" in rule}

    def test_each_line_of_the_log_is_an_object(self):
        lines = [json.loads(line, object_pairs_hook=object_of) for line in self.log.splitlines()]
        self.assertIn("serving", [line["message"] for line in lines])
        self.assertTrue([line["text"] for line in lines if line["message"] == "grpc"])
        for line in lines:
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertIn(line["severity"], ("debug", "info", "warning", "error"))

    def test_every_metric_and_label_exists(self):
        for where, query in queries():
            named = re.findall(r"\b(idempotency[:_][\w:]+)(?:\{([^}]*)\})?", query)
            self.assertTrue(named or query.startswith("up{"), f"{where}: {query}")
            for name, selector in named:
                if name in self.recorded:
                    continue
                self.assertIn(name, self.metrics, f"{where}: {query}")
                used = set(re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"', selector))
                used |= {label for group in re.findall(r"by \(([^)]*)\)", query)
                         for label in group.split(", ")}
                known = OF_PROMETHEUS.union(*(self.metrics[other] for other, _ in named
                                              if other in self.metrics))
                self.assertEqual(used - known, set(), f"{where}: {query}")

    def test_alerts_on_single_errors_have_their_series_from_the_start(self):
        """increase() of a series that begins with its first error is 0."""
        expression = alerts()["IdempotencyRecordDamaged"]["expr"]
        for reason in re.search(r'reason=~"([A-Z_|]+)"', expression)[1].split("|"):
            for method in ("Reserve", "Complete", "Release", "Extend", "Get"):
                self.assertRegex(self.page, rf'(?m)^idempotency_store_errors_total{{method="{method}",'
                                            rf'reason="{reason}"}} 0$')

    def test_every_metric_of_the_code_is_in_the_scrape(self):
        """FAMILIES has no name that the daemon does not know."""
        source = "".join(path.read_text() for path in (ROOT / "server/observability").glob("*.cc"))
        for name in FAMILIES:
            self.assertIn(f'"{name}"', source)

    def test_the_rules_are_valid_and_fire_as_they_should(self):
        done = subprocess.run(["promtool", "check", "rules", RULES], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run(["promtool", "test", "rules", CASES, CASES_OF_DAYS],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_every_alert_has_a_case_each_way(self):
        fires, silent = set(), set()
        for case in yaml.safe_load(CASES.read_text())["tests"]:
            for test in case.get("alert_rule_test", []):
                (fires if test["exp_alerts"] else silent).add(test["alertname"])
        self.assertEqual(fires, set(alerts()))
        self.assertEqual(silent, set(alerts()))

    def test_every_alert_has_an_entry_in_the_runbook(self):
        headings = re.findall(r"(?m)^## (\w+)$", (ROOT / "docs/runbook.md").read_text())
        self.assertEqual(headings, list(alerts()))
        for name, rule in alerts().items():
            self.assertEqual(rule["annotations"]["runbook_url"], f"docs/runbook.md#{name.lower()}")

    def test_the_table_of_severities_has_the_critical_ones(self):
        row, = re.findall(r"(?m)^\| critical \|.*$", (ROOT / "docs/observability.md").read_text())
        self.assertEqual(re.findall(r"`(\w+)`", row),
                         [name for name, rule in alerts().items()
                          if rule["labels"]["severity"] == "critical"])

    def test_the_queries_of_the_dashboard_are_valid(self):
        rules = [{"record": f"panel:{i}:query",
                  "expr": query.replace("$__rate_interval", "5m").replace("$job", ".*")}
                 for i, (_, query) in enumerate(queries())]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}, file)
            file.flush()
            done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True,
                                  text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_dashboard_is_written_by_its_script(self):
        done = subprocess.run([ROOT / "scripts/dashboard.py", "--check"], check=False)
        self.assertEqual(done.returncode, 0)

    def test_panels_do_not_overlap(self):
        taken = set()
        for panel in json.loads(DASHBOARD.read_text())["panels"]:
            place = panel["gridPos"]
            cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                     for y in range(place["y"], place["y"] + place["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells


if __name__ == "__main__":
    unittest.main()
