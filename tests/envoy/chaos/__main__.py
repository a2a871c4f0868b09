"""10,000 calls through a real Envoy with faults between all parts; then the checker of tests/chaos
decides from the histories alone whether each promise was kept. Half of the keys are of a method with
REQUIRE_RECOVERY: nothing runs twice. The others are of one with TAKE_OVER: an execution whose outcome is
unknown may be followed by another one, but not before its lease is over.

  python3 -m tests.envoy.chaos [--calls=N] [--seed=N] [--envoy=VERSION] [--json=FILE]
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import sys
import tempfile
import threading
import time

from tests.chaos.checker.checker import check
from tests.chaos.checker.coverage import Thresholds
from tests.support.subreaper import run_under_subreaper

from .. import envoy
from ..child import Child
from ..daemon import Daemon
from ..held_port import HeldPort
from .callers import METHODS, RECOVERED, TAKEN_OVER, Callers
from .history import History

LEASE_MS = 2000
# Before a method whose outcome was indefinite runs again (docs/policies.md).
PAUSE_MS = 60_000
POLICIES = "".join(f"""grpc_methods {{
    name: "{method[1:]}"
    policy {{
      on_lease_expiry: LEASE_EXPIRY_{choice}
      lease {{ seconds: {LEASE_MS // 1000} }}
    }}
  }}
  """ for method, choice in ((RECOVERED, "REQUIRE_RECOVERY"), (TAKEN_OVER, "TAKE_OVER")))
# Of each kind, also in a short run: not every fault meets a call.
MIN_OF_EACH_KIND = 4
# Between two faults, and the time for which a process is frozen.
MAX_QUIET_S = 3.0
FREEZE_S = (0.2, 3.0)


class System:
    """A service, an idempotencyd, an Envoy between. Each returns at its own address."""

    def __init__(self, folder, version):
        self._folder, self._version = folder, version
        self._ports = [HeldPort() for _ in range(2)]
        self._service_port, self._envoy_port = self._ports
        self._services = 0
        self.service = None
        self.start_service()
        self.daemon = Daemon(folder, POLICIES)
        self._config = envoy.ctl_text(
            f"--listen={self._envoy_port.address}", "--admin=127.0.0.1:0",
            f"--methods={','.join(method[1:] for method in METHODS)}",
            f"--upstream={self._service_port.address}", f"--processor={self.daemon.processor}",
            f"--envoy_version={envoy.minor(version)}", "--deadline=10s")
        self.start_envoy()
        self.address = self._envoy_port.address

    def start_service(self):
        self._services += 1
        self.service = Child([sys.executable, "-m", "tests.envoy.chaos.service",
                              self._service_port.address, f"{self._folder}/logs", self._services],
                             "serving on ")

    def start_envoy(self):
        self.envoy = envoy.Envoy(self._config, self._version)

    def close(self):
        self.envoy.close()
        self.daemon.close()
        self.service.close()
        for port in self._ports:
            port.close()


class Faults:
    """One after the other, until stop()."""

    def __init__(self, system, history, seed):
        self._system, self._history = system, history
        self._draw = random.Random(f"faults {seed}")
        self._stopped = threading.Event()
        self.counts = {}
        self.kinds = {"kill_envoy": self._kill_envoy, "kill_processor": self._kill_processor,
                      "shut_down_processor": self._shut_down_processor,
                      "stop_processor": self._stop_processor, "kill_upstream": self._kill_upstream}

    def _kill_envoy(self):
        self._system.envoy.kill()
        self._system.start_envoy()

    def _kill_processor(self):
        self._system.daemon.kill()
        self._system.daemon.start()

    def _shut_down_processor(self):
        self._system.daemon.child.close()
        self._system.daemon.start()

    def _stop_processor(self):
        self._system.daemon.child.stop()
        self._stopped.wait(self._draw.uniform(*FREEZE_S))
        self._system.daemon.child.resume()

    def _kill_upstream(self):
        self._system.service.kill()
        self._system.start_service()

    def run(self, is_running, enough):
        """Each kind in turn, in an order that the seed draws; sets `enough`."""
        while is_running():
            kinds = list(self.kinds)
            self._draw.shuffle(kinds)
            for kind in kinds:
                self._stopped.wait(self._draw.random() * MAX_QUIET_S)
                if not is_running():
                    return
                since = time.monotonic_ns()
                self.kinds[kind]()
                self.counts[kind] = self.counts.get(kind, 0) + 1
                if min(self.counts.get(one, 0) for one in self.kinds) >= MIN_OF_EACH_KIND:
                    enough.set()
                self._history.write("fault", kind=kind, target=kind.partition("_")[2],
                                    **{"t": since, "until": time.monotonic_ns()})


def campaign(folder, arguments):
    """Runs it; the faults by kind, and the keys that did not settle."""
    history = History(f"{folder}/logs/campaign.jsonl")
    history.write("run", seed=arguments.seed, lease_ms=LEASE_MS, retention_ms=86_400_000,
                  slack_ms=50, pause_ms=PAUSE_MS)
    system = System(folder, arguments.envoy)
    try:
        callers = Callers(system.address, History(f"{folder}/logs/callers.jsonl"), arguments.seed,
                          arguments.calls)
        faults = Faults(system, history, arguments.seed)
        began = time.monotonic()
        callers.start()
        faults.run(callers.is_running, callers.enough_faults)
        callers.join()
        history.write("phase", phase="faults_ended")
        print(f"{callers.done} calls and {sum(faults.counts.values())} faults "
              f"in {time.monotonic() - began:.0f} s: {faults.counts}", flush=True)
        return faults, callers.settle()
    finally:
        system.close()


def run(folder, arguments):
    """The campaign and its report; whether it passed."""
    (folder / "logs").mkdir()
    faults, unsettled = campaign(folder, arguments)
    # A short run meets less.
    share = min(1.0, arguments.calls / 10_000)
    report = check(str(folder / "logs"), Thresholds(
        verdicts=("reserved", "replay", "in_flight", "mismatch", "outcome_unknown"),
        per_verdict=max(1, int(50 * share)), ok_share=0.5, per_fault_phase=1,
        rare_share=0.2 if share == 1.0 else 0.7,
        faults=tuple(faults.kinds) if share == 1.0 else ()))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(report.to_json(), indent=1) + "\n")
    print(report.text())
    if unsettled:
        print(f"{len(unsettled)} keys have no certain outcome: {unsettled[:5]}")
    again = len(list((folder / "attempts").glob("*.2")))
    print(f"{again} keys of {TAKEN_OVER} ran again")
    return report.passed and not unsettled and again > 0


def main():
    run_under_subreaper()
    parser = argparse.ArgumentParser(prog="python3 -m tests.envoy.chaos")
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--envoy", choices=envoy.VERSIONS, default=envoy.NEWEST)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, Envoy {arguments.envoy}", flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="envoy-chaos-"))
    passed = False
    try:
        passed = run(folder, arguments)
    finally:
        if passed and "IDEMPOTENCY_KEEP" not in os.environ:
            shutil.rmtree(folder)
        else:
            print(f"kept: {folder}", flush=True)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
