"""Serves charges whose key is the id of a DBOS workflow, over gRPC. Runs in the interpreter that
has bench/peers/dbos/requirements.txt.

  python charges_server.py STORE THREADS
"""

import concurrent.futures
import itertools
import signal
import sys

import grpc
from dbos import DBOS, SetWorkflowID

_METHOD = ("charges.v1.Charges", "Charge")
_RECEIPT_BYTES = 256
_EXECUTIONS = itertools.count(1)


@DBOS.workflow()
def charge(request):
    """The handler itself, without a step: two writes for each new id, the fewest that DBOS makes.
    Receipts are numbered, so that a second execution shows."""
    assert request
    return f"{next(_EXECUTIONS)} ".encode().ljust(_RECEIPT_BYTES, b"Z")


def _reply(receipt):
    """A ChargeReply: field 1, its length as a varint, the bytes."""
    return bytes([0x0a, 0x80 | len(receipt) & 0x7f, len(receipt) >> 7]) + receipt


def answer(request, context):
    """Calls without a key run the handler and nothing else."""
    key = dict(context.invocation_metadata()).get("idempotency-key")
    if key is None:
        return _reply(b"Z" * _RECEIPT_BYTES)
    with SetWorkflowID(key):
        return _reply(charge(request))


def main():
    store, threads = sys.argv[1], int(sys.argv[2])
    DBOS(config={"name": "charges", "system_database_url": store, "log_level": "WARNING",
                 "enable_otlp": False})
    DBOS.launch()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(threads, "charges"))
    handlers = {_METHOD[1]: grpc.unary_unary_rpc_method_handler(answer)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_METHOD[0], handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"charges: serving on 127.0.0.1:{port}", flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    server.stop(None)
    DBOS.destroy()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
