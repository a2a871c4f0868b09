"""The bytes of a hostile caller: headers to guarded servers, frames to daemons. Values only."""

import uuid

ACT = "/idempotency.testing.Twin/Act"
SESSION = "/idempotency.v1.IdempotencyService/Session"
RESERVE = "/idempotency.v1.IdempotencyService/Reserve"
COMPLETE = "/idempotency.v1.IdempotencyService/Complete"
SCOPE = "hostile"

_NOT_UTF8 = b"\xff\xfe\xc3\x28"


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, payload):
    """A length-delimited field of a protobuf message."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def number_field(number, value):
    return varint(number << 3) + varint(value)


def new_key():
    return str(uuid.uuid4()).encode()


def trace(version, rest):
    return version + b"-" + b"0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" + rest


def headers_of_a_call(random):
    """Headers of one guarded call; each draw has a fault."""
    good = {b"x-scope": SCOPE.encode(), b"idempotency-key": new_key()}
    bad = random.choice((
        {b"traceparent": trace(b"01", b"-" + _NOT_UTF8)},
        {b"traceparent": trace(b"00", _NOT_UTF8)},
        {b"traceparent": trace(b"fe", b"-" + b"x" * 4000)},
        {b"traceparent": trace(b"01", b"-two\tparts")},
        {b"x-scope": b"hostile-" + _NOT_UTF8},
        {b"x-scope": b"s" * 4000},
        {b"idempotency-key": _NOT_UTF8},
        {b"idempotency-key": b"k" * 4000},
        {b"idempotency-key": b'"unended'},
        {b"idempotency-parent-bin": b"AP//"},
        {b"grpc-timeout": b"2562047H"},
        {b"grpc-timeout": b"1n"},
        {b"x-more-bin": b"====="},
        {b"user-agent": _NOT_UTF8},
    ))
    return list({**good, **bad}.items())


def request_of_a_call(random):
    """An ActRequest, or bytes that are not one."""
    return random.choice((
        field(1, b"a"),
        field(1, _NOT_UTF8),
        field(3, field(1, _NOT_UTF8)),
        bytes(random.randrange(256) for _ in range(random.randrange(1, 200))),
        # Groups without an end.
        b"\x7b" * 90,
        field(15, b"u" * 200_000),
    ))


def record_key(key, name_space=b"raw", scope=SCOPE.encode()):
    return field(1, name_space) + field(2, scope) + field(3, b"work") + field(4, key)


def reserve_request(key, **more):
    """`more` are further fields, by their kind."""
    request = field(1, record_key(key)) + field(2, number_field(1, 1) + field(2, b"d" * 32))
    if "max_wait_s" in more:
        request += field(6, number_field(1, more["max_wait_s"]))
    if "label" in more:
        request += field(10, field(1, b"l") + field(2, more["label"]))
    return request


def complete_request(key, token, body):
    return (field(1, record_key(key)) + field(2, token)
            + field(3, field(4, body) + number_field(7, 1)))


def session_frame(*operations):
    return b"".join(field(1, number_field(1, number + 1) + field(3, operation))
                    for number, operation in enumerate(operations))


def hostile_frame(random):
    """A frame of a session that no client of the project sends."""
    key = new_key()
    return random.choice((
        # Empty operations: two bytes each, a message each once they are parsed.
        lambda: field(1, b"") * 1_900_000,
        lambda: session_frame(reserve_request(key, label=_NOT_UTF8)),
        # One waits for the other; then bytes that are not a frame.
        lambda: session_frame(reserve_request(key), reserve_request(key, max_wait_s=30)) + b"\x0f",
        lambda: session_frame(reserve_request(key))[:-7],
        lambda: bytes(random.randrange(256) for _ in range(300)),
        lambda: session_frame(*[reserve_request(new_key(), label=b"x" * 200)] * 3000),
        lambda: session_frame(field(1, record_key(key)) + field(2, number_field(1, 1)) * 500_000),
        lambda: b"",
    ))()
