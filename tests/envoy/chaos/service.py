"""The service of a chaos run: it logs each execution and each effect. It knows nothing of
idempotency. Nothing may run twice, so each execution is logged as attempt 1: the checker finds a second
one.

usage: python3 -m tests.envoy.chaos.service ADDRESS FOLDER NUMBER
"""

import hashlib
import itertools
import random
import sys
import threading
from concurrent import futures

import grpc

from .history import History, digest, record_of

THREADS = 64
MAX_WORK_S = 0.02


class Bank(grpc.GenericRpcHandler):
    def __init__(self, history, number):
        self._history = history
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
        self._history.write("start", id=name, call=call, record=record, attempt=1,
                            server=self._server, ledger=False, fp=request.decode())
        # Work that takes a while; drawn from the key, so that a run can be repeated.
        draw = random.Random(hashlib.sha256(key.encode()).digest())
        self._pause.wait(draw.random() * MAX_WORK_S)
        outcome = draw.random()
        if outcome < 0.08:
            message = f"refused {key} {name}"
            self._history.write("end", id=name, outcome="refused",
                                reply=digest("FAILED_PRECONDITION", message, b""))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, message)
        self._history.write("effect", record=record, attempt=1, server=self._server,
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
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), handlers=[Bank(history, number)],
                         options=[("grpc.so_reuseport", 0)])
    if server.add_insecure_port(address) == 0:
        raise SystemExit(f"{address} is taken")
    server.start()
    print(f"serving on {address}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
