"""Checks every promise against the logs of a chaos run.

  python3 -m tests.chaos.checker LOGDIR [--json FILE]

Exits with 0 if all were kept and the run was hard enough for a verdict, else with 1.
"""

import argparse
import json
import sys

from .checker import check
from .coverage import VERDICTS, Thresholds


def _names(text):
    return tuple(name for name in text.split(",") if name)


def main():
    defaults = Thresholds()
    parser = argparse.ArgumentParser(prog="python3 -m tests.chaos.checker",
                                     description="Every promise against the logs of a chaos run.")
    parser.add_argument("logs", help="the folder with the *.jsonl files")
    parser.add_argument("--json", metavar="FILE", help="write the report there")
    parser.add_argument("--jobs", type=int, default=1, help="processes; each takes some 0.5 GB")
    parser.add_argument("--scratch", metavar="FOLDER", help="room for a copy of the logs")
    parser.add_argument("--verdicts", type=_names, default=VERDICTS, metavar="A,B",
                        help="those that must be met (default: %(default)s)")
    parser.add_argument("--per-verdict", type=int, default=defaults.per_verdict)
    parser.add_argument("--ok-share", type=float, default=defaults.ok_share)
    parser.add_argument("--per-fault-phase", type=int, default=defaults.per_fault_phase)
    parser.add_argument("--rare-share", type=float, default=defaults.rare_share,
                        help="of the pairs of a fault and a phase, the share that may be fewer")
    parser.add_argument("--faults", type=_names, default=(), metavar="A,B",
                        help="kinds of faults that must have happened")
    arguments = parser.parse_args()
    report = check(arguments.logs,
                   Thresholds(arguments.verdicts, arguments.per_verdict, arguments.ok_share,
                              arguments.per_fault_phase, arguments.rare_share,
                              arguments.faults),
                   arguments.jobs, scratch=arguments.scratch)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report.to_json(), file, indent=1)
            file.write("\n")
    print(report.text())
    return 0 if report.passed else 1


if __name__ == "__main__":
    sys.exit(main())
