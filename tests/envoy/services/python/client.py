"""A unary call of grpcio with bytes: client.py TARGET METHOD KEY REQUEST_HEX. Prints the reply as
JSON."""

import json
import sys

import grpc


def main():
    target, method, key, request = sys.argv[1:]
    with grpc.insecure_channel(target, options=[("grpc.enable_http_proxy", 0)]) as channel:
        call = channel.unary_unary(method)
        code, message, reply = grpc.StatusCode.OK, "", b""
        try:
            reply, done = call.with_call(bytes.fromhex(request), timeout=20, metadata=(
                ("idempotency-key", key), ("x-tenant", "shop")))
        except grpc.RpcError as error:
            done, code, message = error, error.code(), error.details()
        trailers = dict(done.trailing_metadata() or ())
    print(json.dumps({"code": code.value[0], "message": message, "reply": reply.hex(),
                      "execution": trailers.get("x-execution", ""),
                      "replayed": "idempotency-replayed" in trailers}))


if __name__ == "__main__":
    main()
