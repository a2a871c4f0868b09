#!/usr/bin/env python3
"""Writes deploy/grafana/idempotencyd.json, the Grafana dashboard, from the panels below.

  scripts/dashboard.py           writes it
  scripts/dashboard.py --check   exits 1 if it is not what the panels below say

tests/monitoring/monitoring_test.py holds its queries against the metrics of a running idempotencyd.
"""

import json
import pathlib
import sys

FILE = pathlib.Path(__file__).resolve().parents[1] / "deploy/grafana/idempotencyd.json"
WIDTH, HEIGHT = 12, 8
OF = '{job=~"$job"}'


def rate(metric, by, more=""):
    return f'sum by ({by}) (rate({metric}{{job=~"$job"{more}}}[$__rate_interval]))'


def quantile(share, metric, by="method"):
    return (f'histogram_quantile({share}, sum by ({by}, le) '
            f'(rate({metric}_bucket{{job=~"$job"}}[$__rate_interval])))')


# A row: its title, then panels: title, unit, what it tells, queries with their legends.
ROWS = [
    ("Is it working?", [
        ("Verdicts per second", "ops", "Answers of Reserve. A replay is a retry that was answered "
         "without running its handler.",
         [(rate("idempotency_verdicts_total", "verdict"), "{{verdict}}")]),
        ("Failed operations", "percentunit", "The part that the service could not do.",
         [(f"idempotency:errors:ratio_rate5m{OF}", "{{job}}")]),
        ("Operations per second", "ops", "By method and code.",
         [(rate("idempotency_rpc_duration_seconds_count", "method, code"), "{{method}} {{code}}")]),
        ("Store", "none", "1 if the store could commit at the last inspection, by replica.",
         [(f"idempotency_store_up{OF}", "{{instance}}")]),
    ]),
    ("How fast is it?", [
        ("Duration of operations, 99 %", "s", "From arrival to answer. Reserve includes the time "
         "for which callers wait for a running attempt.",
         [(quantile(0.99, "idempotency_rpc_duration_seconds"), "{{method}}")]),
        ("Duration of store calls, 50 % and 99 %", "s", "A call is a batch of operations and one "
         "commit.",
         [(quantile(0.5, "idempotency_store_call_duration_seconds"), "{{method}} 50 %"),
          (quantile(0.99, "idempotency_store_call_duration_seconds"), "{{method}} 99 %")]),
        ("Operations of a batch", "short", "Mean. It rises with the load.",
         [(f'{rate("idempotency_batch_operations_sum", "method")} / '
           f'{rate("idempotency_batch_operations_count", "method")}', "{{method}}")]),
        ("Waiting", "short", "Operations in the queue, and callers that wait for a running attempt.",
         [(f"sum by (instance) (idempotency_queued_operations{OF})", "queued {{instance}}"),
          (f"sum by (instance) (idempotency_waiters{OF})", "waiters {{instance}}")]),
    ]),
    ("Which operations need somebody?", [
        ("Unknown outcomes", "short", "Records whose operation may or may not have happened, up to "
         "1,000: idempotencyctl list --state=unknown.",
         [(f"max(idempotency_unknown_records{OF})", "records")]),
        ("Attempts that were lost", "ops", "Marked UNKNOWN, or run again by the next call.",
         [(rate("idempotency_marked_unknown_total", "job"), "marked UNKNOWN"),
          (rate("idempotency_take_overs_total", "job"), "taken over"),
          (rate("idempotency_lease_overruns_total", "job"), "completed after the lease")]),
        ("Refused for a caller's fault", "ops", "Keys with another request, tokens that no "
         "longer hold, and callers that are not permitted.",
         [(rate("idempotency_mismatches_total", "job"), "key reused"),
          (rate("idempotency_reservations_lost_total", "method"), "reservation lost: {{method}}"),
          (rate("idempotency_callers_refused_total", "service"), "not permitted: {{service}}")]),
        ("Oldest running reservation", "s", "Age of the oldest record under a live lease.",
         [(f"max(idempotency_oldest_reservation_age_seconds{OF})", "age")]),
    ]),
    ("Who causes the load?", [
        ("Operations of namespaces", "ops", "Of the namespaces of the configuration file.",
         [(rate("idempotency_namespace_operations_total", "namespace"), "{{namespace}}")]),
        ("Over a limit", "ops", "Refused with QUOTA_EXCEEDED.",
         [(rate("idempotency_quota_exceeded_total", "namespace, limit"),
           "{{namespace}} {{limit}}")]),
        ("Live records", "short", "Of namespaces that have a quota.",
         [(f"max by (namespace) (idempotency_namespace_records{OF})", "{{namespace}}")]),
        ("Bytes of replies", "bytes", "Of namespaces that have a quota.",
         [(f"max by (namespace) (idempotency_namespace_reply_bytes{OF})", "{{namespace}}")]),
    ]),
    ("How is the external processor? (--ext_proc)", [
        ("Exchanges per second", "ops", "By their result.",
         [(rate("idempotency_ext_proc_exchanges_total", "result"), "{{result}}")]),
        ("Misconfigured proxies", "ops", "Refused, or not recorded, until an operator corrects a proxy, "
         "or external_processor.proxies. The log has the remedy.",
         [(rate("idempotency_ext_proc_misconfigured_total", "instance"), "{{instance}}")]),
        ("Exchanges in progress", "short", "Bounded by max_exchanges: a scope "
         "that is alone takes eight ninths of it.",
         [(f"idempotency_ext_proc_exchanges{OF}", "{{instance}}")]),
        ("Memory for exchanges", "bytes", "Requests and replies. Bounded by max_held_bytes.",
         [(f"idempotency_ext_proc_held_bytes{OF}", "{{instance}}")]),
    ]),
    ("What is it holding?", [
        ("Memory for callers", "bytes", "Bounded by --queue_mib.",
         [(f"idempotency_held_bytes{OF}", "{{instance}}")]),
        ("Sessions", "short", "Open session streams of guards.",
         [(f"idempotency_sessions{OF}", "{{instance}}")]),
        ("Connections to the store", "short", "By state.",
         [(f"sum by (state) (idempotency_store_connections{OF})", "{{state}}")]),
        ("Refused", "ops", "Operations over a bound, or that came too late; connections "
         "that were closed; calls that were refused at their arrival.",
         [(rate("idempotency_operations_shed_total", "reason"), "operation: {{reason}}"),
          (rate("idempotency_operations_overdue_total", "job"), "deadline passed"),
          (rate("idempotency_connections_refused_total", "reason"), "connection: {{reason}}"),
          (rate("idempotency_calls_refused_total", "reason"), "call: {{reason}}"),
          (rate("idempotency_handshakes_failed_total", "job"), "TLS handshake")]),
        ("Sweep", "ops", "Records removed after their end, steps that were made, and sweeps that "
         "failed, or left the store to another session.",
         [(rate("idempotency_swept_records_total", "job"), "removed"),
          (rate("idempotency_sweep_step_duration_seconds_count", "job"), "steps"),
          (rate("idempotency_sweep_errors_total", "job"), "failed"),
          (rate("idempotency_sweeps_elsewhere_total", "job"), "elsewhere")]),
        ("Builds", "none", "Replicas by version.",
         [(f"count by (version) (idempotency_build_info{OF})", "{{version}}")]),
    ]),
]


def panel(number, x, y, title, unit, description, queries):
    return {
        "id": number, "type": "timeseries", "title": title, "description": description,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + i), "expr": expr, "legendFormat": legend}
                    for i, (expr, legend) in enumerate(queries)],
    }


def panels():
    made, y = [], 0
    for title, row in ROWS:
        made.append({"id": len(made) + 1, "type": "row", "title": title, "collapsed": False,
                     "gridPos": {"h": 1, "w": 2 * WIDTH, "x": 0, "y": y}, "panels": []})
        y += 1
        for i, one in enumerate(row):
            made.append(panel(len(made) + 1, WIDTH * (i % 2), y + HEIGHT * (i // 2), *one))
        y += HEIGHT * ((len(row) + 1) // 2)
    return made


def dashboard():
    return {
        "title": "idempotencyd", "uid": "idempotencyd", "schemaVersion": 38, "editable": True,
        "tags": ["grpc-idempotency"], "time": {"from": "now-3h", "to": "now"}, "refresh": "30s",
        "templating": {"list": [
            {"name": "datasource", "type": "datasource", "query": "prometheus",
             "label": "Data source"},
            {"name": "job", "type": "query", "label": "Job", "multi": True, "includeAll": True,
             "datasource": {"type": "prometheus", "uid": "$datasource"}, "refresh": 2,
             "query": {"query": "label_values(idempotency_build_info, job)", "refId": "job"}},
        ]},
        "panels": panels(),
    }


def main():
    text = json.dumps(dashboard(), indent=1) + "\n"
    if sys.argv[1:] == ["--check"]:
        if FILE.read_text(encoding="utf-8") == text:
            return 0
        print(f"{FILE} is out of date: run scripts/dashboard.py", file=sys.stderr)
        return 1
    FILE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
