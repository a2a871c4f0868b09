"""Calls of a gRPC method with bytes."""

import dataclasses

import grpc

# What Envoy adds to replies; it differs from one to the next.
_OF_ENVOY = ("x-envoy-upstream-service-time", "date", "server")
# What the processor adds to replies.
_OF_THE_GUARD = ("idempotency-record", "idempotency-expires", "idempotency-replayed",
                 "idempotency-content", "idempotency-traceparent")
_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0),
            ("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1), ("grpc.initial_reconnect_backoff_ms", 50)]


CONNECTED_WITHIN_S = 20


@dataclasses.dataclass(frozen=True)
class Reply:
    code: str
    message: str
    body: bytes
    initial: tuple
    trailing: tuple

    @property
    def replayed(self):
        return ("idempotency-replayed", "true") in self.trailing

    @property
    def details(self):
        return dict(self.trailing).get("grpc-status-details-bin", b"")

    def has_reason(self, reason):
        """True for an error of the guard with this reason."""
        return reason.encode() in self.details

    def first_reply(self):
        """What a replay must have unchanged."""
        return dataclasses.replace(self, initial=_without_ours(self.initial),
                                   trailing=_without_ours(self.trailing))


def _without_ours(metadata):
    return tuple(sorted(pair for pair in metadata if pair[0] not in _OF_ENVOY + _OF_THE_GUARD))


def channel(target, credentials=None):
    if credentials:
        return grpc.secure_channel(target, credentials, options=_OPTIONS)
    return grpc.insecure_channel(target, options=_OPTIONS)


def connected(on):
    """The same channel, with a connection. For threads that start calls together: gRPC 1.51 reads
    `errno` after other work, so one of several connections that begin at a time can be given up
    ("No such file or directory"), and a call on it fails without having left."""
    grpc.channel_ready_future(on).result(CONNECTED_WITHIN_S)
    return on


def reply_to(call):
    """The reply of a call that was started with start()."""
    code, message, body = "OK", "", b""
    try:
        body = call.result()
    except grpc.FutureCancelledError:
        code = "CANCELLED"
    except grpc.RpcError as error:
        code, message = error.code().name, error.details()
    return Reply(code, message, body, tuple(map(tuple, call.initial_metadata() or ())),
                 tuple(map(tuple, call.trailing_metadata() or ())))


def start(on, method, key, body, timeout=20, metadata=(("x-tenant", "shop"),)):
    """Starts a call; `key` None: without one."""
    keys = (("idempotency-key", key),) if key is not None else ()
    return on.unary_unary(method).future(body, timeout=timeout, metadata=keys + tuple(metadata))


def call(target, method, key, body=b"", timeout=20, metadata=(("x-tenant", "shop"),),
         credentials=None):
    """The reply to one call, on a connection of its own."""
    with channel(target, credentials) as on:
        return reply_to(start(on, method, key, body, timeout, metadata))
