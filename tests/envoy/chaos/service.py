"""The service of a chaos run: it logs each execution and each effect. It knows nothing of
idempotency, and not which attempt of a record it runs. Where nothing may run twice, each execution is
logged as attempt 1: the checker finds a second one. Where a lost attempt may run again, executions are
numbered, also across restarts, and the checker finds one that began while the lease of another was live.

usage: python3 -m tests.envoy.chaos.service ADDRESS FOLDER NUMBER
"""

import hashlib
import itertools
import os
import pathlib
import random
import sys
import threading
from concurrent import futures

import grpc

from .callers import RECOVERED
from .history import History, digest, record_of

THREADS = 64
MAX_WORK_S = 0.02


class Attempts:
    """Numbers the executions of each record, in files: a killed service leaves them."""

    def __init__(self, folder):
        self._folder = pathlib.Path(folder)
        self._folder.mkdir(exist_ok=True)

    def next(self, method, key):
        if method == RECOVERED:
            return 1
        for number in itertools.count(1):
            try:
                os.close(os.open(self._folder / f"{key}.{number}", os.O_CREAT | os.O_EXCL))
                return number
            except FileExistsError:
                pass


class Bank(grpc.GenericRpcHandler):
    def __init__(self, history, attempts, number):
        self._history, self._attempts = history, attempts
        self._server = f"service{number}"
        self._numbers = itertools.count(1)
        self._pause = threading.Event()

    def service(self, details):
        metadata = dict(details.invocation_metadata)
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._run(details.method, metadata, request, context))

    def _run(self, method, metadata, request, context):
        key, call = metadata["idempotency-key"], metadata["x-call"]
        record = record_of(method, key)
        name = f"{self._server}-{next(self._numbers)}"
        attempt = self._attempts.next(method, key)
        self._history.write("start", id=name, call=call, record=record, attempt=attempt,
                            server=self._server, ledger=False, fp=request.decode())
        # Work that takes a while; drawn from the key, so that a run can be repeated.
        draw = random.Random(hashlib.sha256(f"{key} {attempt}".encode()).digest())
        self._pause.wait(draw.random() * MAX_WORK_S)
        outcome = draw.random()
        if outcome < 0.08:
            message = f"refused {key} {name}"
            self._history.write("end", id=name, outcome="refused",
                                reply=digest("FAILED_PRECONDITION", message, b""))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, message)
        self._history.write("effect", record=record, attempt=attempt, server=self._server,
                            ledger=False)
        if outcome > 0.97:
            self._history.write("end", id=name, outcome="indefinite")
            context.abort(grpc.StatusCode.UNAVAILABLE, "the bank does not answer")
        reply = f"{key} {name} ".encode() + b"x" * draw.randrange(4096)
        self._history.write("end", id=name, outcome="ok", reply=digest("OK", "", reply))
        return reply


def main():
    address, folder, number = sys.argv[1:]
    history = History(f"{folder}/service{number}.jsonl")
    bank = Bank(history, Attempts(f"{folder}/../attempts"), number)
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), handlers=[bank],
                         options=[("grpc.so_reuseport", 0)])
    if server.add_insecure_port(address) == 0:
        raise SystemExit(f"{address} is taken")
    server.start()
    print(f"serving on {address}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
