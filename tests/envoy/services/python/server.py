"""The health service of grpcio-health-checking, and a counter in front of it: a line "executed METHOD
KEY" for each execution, whose number is a trailer."""

import itertools
from concurrent import futures

import grpc
from grpc_health.v1 import health, health_pb2_grpc


class Counter(grpc.ServerInterceptor):
    def __init__(self):
        self._numbers = itertools.count(1)

    def intercept_service(self, continuation, details):
        handler = continuation(details)
        if handler is None or not handler.unary_unary:
            return handler
        key = dict(details.invocation_metadata).get("idempotency-key", "-")

        def counted(request, context):
            print("executed", details.method, key, flush=True)
            context.set_trailing_metadata((("x-execution", str(next(self._numbers))),))
            return handler.unary_unary(request, context)
        return grpc.unary_unary_rpc_method_handler(counted, handler.request_deserializer,
                                                   handler.response_serializer)


def main():
    server = grpc.server(futures.ThreadPoolExecutor(16), interceptors=[Counter()])
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"serving on 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
