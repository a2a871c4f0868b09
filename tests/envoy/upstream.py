"""A gRPC service for tests behind Envoy: every method, with bytes as request and reply. It prints
"executed METHOD KEY" before it answers. The request is what it does:

  hold ...   waits until /test.Control/Release is called, then answers
  refuse ... FAILED_PRECONDITION, with details
  fail ...   UNAVAILABLE: nobody knows what happened
  size N     a reply of N bytes
  other      a reply with its number

usage: upstream.py
"""

import itertools
import threading
from concurrent import futures

import grpc

# Calls that hold occupy a thread each.
THREADS = 256
UNLIMITED = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Anything(grpc.GenericRpcHandler):
    def __init__(self):
        self._numbers = itertools.count(1)
        self._released = threading.Event()

    def service(self, details):
        if details.method == "/test.Control/Release":
            return grpc.unary_unary_rpc_method_handler(self._release)
        key = dict(details.invocation_metadata).get("idempotency-key", "-")
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._run(details.method, key, request, context))

    def _release(self, _request, _context):
        self._released.set()
        return b""

    def _run(self, method, key, request, context):
        number = next(self._numbers)
        print("executed", method, key, flush=True)
        context.send_initial_metadata((("x-initial", f"initial {number}"),))
        context.set_trailing_metadata((("x-execution", str(number)), ("x-bytes-bin", b"\0\1\xff")))
        command, _, rest = request.decode(errors="replace").partition(" ")
        if command == "hold":
            self._released.wait()
        elif command == "refuse":
            context.set_trailing_metadata((("x-execution", str(number)),
                                           ("grpc-status-details-bin", b"\x08\x09\x12\x03no!")))
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "kein Geld: 1 €, 50 %\n")
        elif command == "fail":
            context.abort(grpc.StatusCode.UNAVAILABLE, "the bank does not answer")
        elif command == "size":
            return b"x" * int(rest)
        return f"reply {number}".encode()


def main():
    server = grpc.server(futures.ThreadPoolExecutor(THREADS), handlers=[Anything()],
                         options=UNLIMITED)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"serving on 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
