#!/usr/bin/env python3
"""Writes the fuzzers' seeds into corpus/.

Former findings are not made here: they are in corpus/ as they
were found, with names that begin with "found_".

  tests/fuzz/make_seeds.py      needs protoc
"""

import pathlib
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CORPUS = HERE / "corpus"

PROTOS = {
    "idempotency.v1": ("proto", "idempotency/v1/idempotency_service.proto"),
    "idempotency.wire": ("proto", "idempotency/wire/rpc_status.proto"),
    "idempotency.testdata": ("core", "testdata/shapes.proto"),
    "envoy.service.ext_proc.v3": ("interceptors/ext_proc/protos",
                                  "envoy/service/ext_proc/v3/external_processor.proto"),
}
OPTIONS = ("proto", "idempotency/v1/options.proto")

KEY = 'namespace: "payments" scope: "tenant-1" operation: "/payments.v1.Payments/Charge" key: "%s"'
TOKEN = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
UUID7 = "018bcfe5-6800-7000-8000-00c04fd430c8"
FINGERPRINT = 'fingerprints { version: 1 digest: "%s" }' % ("a" * 32)
RESERVE = "record_key { %s } %s" % (KEY % "key-1", FINGERPRINT)
COMPLETE = 'record_key { %s } reservation_token: "%s" reply { body: "done" }' % (
    KEY % "key-1", TOKEN)


def encode(message, text, proto=None):
    """A message in protobuf's text format as its bytes."""
    folder, file = proto or PROTOS[message.rpartition(".")[0]]
    command = ["protoc", f"-I{ROOT / folder}", f"-I{ROOT / 'proto'}",
               f"--encode={message}", file]
    return subprocess.run(command, input=text.encode(), capture_output=True, check=True).stdout


def block(data):
    return struct.pack("<H", len(data)) + data


def integer(value):
    return struct.pack("<q", value)


def write(target, name, data):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def proxy_messages():
    def message(text):
        return b"\0" + block(encode("envoy.service.ext_proc.v3.ProcessingRequest", text))

    def headers(*pairs):
        return " ".join(f'headers {{ key: "{key}" raw_value: "{value}" }}' for key, value in pairs)

    asking = message("request_headers { headers { %s } }" % headers(
        (":method", "POST"), (":path", "/payments.v1.Payments/Charge"),
        ("content-type", "application/grpc"), ("idempotency-key", "key-1")))
    body = message(r'request_body { body: "\000\000\000\000\001x" end_of_stream: true }')
    reply = b"\x02" + block(encode("idempotency.v1.Reply", 'body: "done"',
                                   ("proto", "idempotency/v1/record.proto")))
    write("external_processor", "replayed", asking + body + reply + b"\x05")
    write("external_processor", "refused", asking + body + b"\x02" + block(b"\xff") + b"\x05")
    write("external_processor", "proxy_replies", asking + body + message(
        "response_headers { headers { %s } end_of_stream: true }" % headers((":status", "504"))))
    write("external_processor", "http", message("request_headers { headers { %s } }" % headers(
        (":method", "POST"), (":path", "/pay"), ("idempotency-key", '\\"key-1\\"'))) + body + reply)
    write("external_processor", "no_room", asking + b"\x03" + body + b"\x04")


def texts():
    write("key_metadata", "bare", "\nkey-1\n")
    write("key_metadata", "quoted", '\n"key \\"1\\""\n')
    write("key_metadata", "quoted_with_comma", '\n"a,b"\n')
    write("key_metadata", "uuid_in_capitals", f"\n{UUID7.upper()}\n")
    write("key_metadata", "several_equal", "\nkey-1\n\"key-1\"\n")
    write("key_metadata", "several_different", "\nkey-1\nkey-2\n")
    write("key_metadata", "field", "key-1\n")
    write("key_metadata", "field_and_metadata", "key-1\nkey-1\n")
    write("key_metadata", "unclosed", '\n"key-1\\\n')

    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    write("parent_and_trace", "traceparent", trace)
    write("parent_and_trace", "traceparent_of_later_version", "cc" + trace[2:] + "-more")
    write("parent_and_trace", "traceparent_without_id", trace[:3] + "0" * 32 + trace[35:])
    write("parent_and_trace", "parent", encode("idempotency.v1.RecordKey", KEY % UUID7))
    write("parent_and_trace", "parent_with_opaque_key",
          encode("idempotency.v1.RecordKey", KEY % "key-1"))

    claims = ('{"iss":"https://issuer.example","aud":"idempotencyd","sub":"payments",'
              '"exp":1700000600,"nbf":1700000000}')
    write("access_tokens", "claims", claims)
    write("access_tokens", "claims_several_audiences",
          claims.replace('"idempotencyd"', '["a","idempotencyd"]'))
    write("access_tokens", "header", '{"alg":"EdDSA","kid":"key-1"}\n' + claims)
    write("access_tokens", "header_none", '{"alg":"none"}\n' + claims)
    write("access_tokens", "header_critical", '{"alg":"EdDSA","crit":["exp"]}\n' + claims)
    write("access_tokens", "keys", '{"keys":[{"kid":"a","kty":"OKP","crv":"Ed25519","x":"'
          + "A" * 43 + '"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},'
          '{"kty":"RSA","n":"' + "w" * 342 + '","e":"AQAB"},{"kty":"oct"}]}')
    write("access_tokens", "token", "eyJhbGciOiJub25lIn0.e30.")

    write("addresses", "ipv4", "127.0.0.1:7411")
    write("addresses", "ipv6", "[::1]:7411")
    write("addresses", "unix", "unix:/run/idempotencyd.sock")
    write("addresses", "sqlite", "sqlite:/var/lib/idempotencyd/records.db")
    write("addresses", "postgres_rest", "db:5432/idempotency?sslmode=require")
    write("addresses", "postgres_parameters", "port=5432,5433&dbname=%69")

    serve = "serve\n--store=sqlite:/tmp/r.db\n"
    write("command_line", "serve", serve)
    write("command_line", "serve_with_everything", serve +
          "--listen\n[::1]:0\n--metrics=\n--store_connections=8\n--sweep_interval=1m\n"
          "--queue_mib=64\n--drain_timeout=25s\n--tls_cert=a\n--tls_key=b\n--tls_client_ca=c\n"
          "--log_level=debug\n--config=c\n--allow_plaintext\n")
    write("command_line", "check_config", "check-config\n--config\nc\n--print_config\n")
    write("command_line", "migrate", "migrate\n--store=postgres://h/d\n--to\n1\n")
    write("command_line", "migrate_status", "migrate\n--store=postgres://h/d\n--status\n")
    write("command_line", "health", "health\n--address=unix:/s\n--service=a\n--timeout=1s\n")
    write("command_line", "help", "serve\n--help\n")
    write("command_line", "version", "--version\n")

    write("record_keys", "uuid", UUID7)
    write("record_keys", "uuid_in_capitals", TOKEN.upper())
    write("record_keys", "key", "payments\ntenant-1\n/payments.v1.Payments/Charge\nkey-1")
    write("record_keys", "key_of_uuid7", f"payments\ntenant-1\n/p.v1.P/C\n{UUID7}")
    write("record_keys", "not_utf8", b"payments\n\xff\xc3\n\xe2\x82\xac\nkey-1")


def requests():
    write("unary_requests", "reserve", b"\0" + encode("idempotency.v1.ReserveRequest", RESERVE))
    write("unary_requests", "reserve_with_everything", b"\0" + encode(
        "idempotency.v1.ReserveRequest", RESERVE + """
        request_token: "%s" lease { seconds: 5 } retention { seconds: 3600 } max_wait { seconds: 1 }
        on_lease_expiry: LEASE_EXPIRY_REQUIRE_RECOVERY recover: true parent { %s }
        labels { key: "build" value: "41" } reply_retention { seconds: 60 }
        tombstone { seconds: 86400 nanos: 1 } relaxed: true""" % (TOKEN, KEY % UUID7)))
    write("unary_requests", "version_with_and_without_key", b"\0" + encode(
        "idempotency.v1.ReserveRequest", RESERVE +
        ' fingerprints { version: 0x80000001 digest: "\\000\\000\\000\\007%s" }' % ("b" * 32)))
    write("unary_requests", "complete", b"\1" + encode("idempotency.v1.CompleteRequest", COMPLETE))
    write("unary_requests", "complete_with_everything", b"\1" + encode(
        "idempotency.v1.CompleteRequest", 'record_key { %s } reservation_token: "%s" reply { '
        'code: 5 message: "none" details: "\\010\\005" initial_metadata { key: "a" value: "b" } '
        'trailing_metadata { key: "c-bin" value: "\\000" } content: REPLY_CONTENT_FULL '
        'compression_level: 1 stream: "one" stream: "two" }' % (KEY % "key-1", TOKEN)))
    write("unary_requests", "release", b"\2" + encode(
        "idempotency.v1.ReleaseRequest", 'record_key { %s } reservation_token: "%s" '
        'reason: "gone" outcome: RELEASE_OUTCOME_OUTCOME_UNKNOWN' % (KEY % "key-1", TOKEN)))
    write("unary_requests", "extend", b"\3" + encode(
        "idempotency.v1.ExtendRequest", 'record_key { %s } reservation_token: "%s" '
        'lease { nanos: 10000000 } checkpoint: "step"' % (KEY % "key-1", TOKEN)))
    write("unary_requests", "get", b"\4" + encode(
        "idempotency.v1.GetRequest", 'record_id: "%s" view: RECORD_VIEW_FULL' % UUID7))
    write("unary_requests", "get_by_key", b"\4" + encode(
        "idempotency.v1.GetRequest", "record_key { %s }" % (KEY % UUID7)))
    # Two bytes on the wire, a few dozen in memory.
    write("unary_requests", "too_many_fingerprints", b"\0" + b"\x12\0" * 100)
    write("unary_requests", "too_many_messages", b"\1" + b"\x1a\xc8\1" + b"\x4a\0" * 100)
    write("unary_requests", "too_many_unknown", b"\2" + b"\x78\1" * 100)
    write("unary_requests", "too_many_groups", b"\3" + b"\x7b\x7c" * 100)
    write("unary_requests", "nested_groups", b"\4" + b"\x7b" * 200 + b"\x7c" * 200)
    write("unary_requests", "open_group", b"\4" + b"\x7b\x78\1" * 60)
    write("unary_requests", "timeout", b"\5" + encode(
        "idempotency.v1.SessionOperation", "id: 1 timeout { seconds: 1 } cancel { }"))
    write("unary_requests", "max_wait", b"\5" + encode(
        "idempotency.v1.ReserveRequest", "max_wait { seconds: 61 }"))


def sessions():
    def frame(text):
        return b"\0" + block(encode("idempotency.v1.SessionRequest", text))

    def response(text):
        return block(encode("idempotency.v1.SessionResponse", text))

    reserve = "operations { id: %d reserve { %s } }"
    write("server_session", "reserve_twice", frame(reserve % (1, RESERVE)) +
          frame(reserve % (2, RESERVE)))
    write("server_session", "waits_until_the_end", frame(
        reserve % (1, RESERVE) + reserve % (2, RESERVE + " max_wait { seconds: 9 }")))
    write("server_session", "waits_and_is_given_up", frame(
        reserve % (1, RESERVE) + reserve % (2, RESERVE + " max_wait { seconds: 9 }")) +
        frame("operations { id: 2 cancel { } }"))
    write("server_session", "same_id_twice", frame(
        reserve % (1, RESERVE) + reserve % (1, RESERVE)))
    write("server_session", "id_of_an_unknown_operation", b"\4" + frame(
        "operations { id: 1 } " + reserve % (1, RESERVE)) + b"\4")
    write("server_session", "store_is_slow", b"\4" + frame(reserve % (1, RESERVE)) +
          frame(reserve % (2, RESERVE)) + b"\4" + frame(reserve % (3, RESERVE)))
    write("server_session", "over_the_limit", frame("".join(
        reserve % (i, "record_key { %s } %s" % (KEY % f"key-{i}", FINGERPRINT))
        for i in range(9))))
    write("server_session", "every_kind", frame(
        "operations { id: 1 complete { %s } } operations { id: 2 release { } } "
        "operations { id: 3 extend { } } operations { id: 4 get { record_id: '%s' } } "
        "operations { id: 5 timeout { nanos: -1 } get { } } operations { id: 6 }"
        % (COMPLETE, UUID7)) + b"\6")
    write("server_session", "no_frame", b"\0" + block(b"\xff"))
    write("server_session", "empty_frame", b"\0" + block(b""))
    write("server_session", "drains", b"\5" + frame(reserve % (1, RESERVE)) + b"\6")
    write("server_session", "caller_leaves", frame(
        reserve % (1, RESERVE) + reserve % (2, RESERVE + " max_wait { seconds: 9 }")) + b"\7")

    ask = [bytes([0, kind]) for kind in range(5)]
    write("client_session", "answered", b"\6" + ask[0] + b"\5" +
          response('answers { id: 1 reserve { record_id: "r" reserved { attempt: 1 } } }'))
    write("client_session", "every_kind", b"\x20" + b"".join(ask) + b"\5" + response(
        "answers { id: 1 reserve { } } answers { id: 2 complete { } } answers { id: 3 release { } }"
        "answers { id: 4 extend { } } answers { id: 5 get { record { attempt: 1 } } }"))
    write("client_session", "wrong_kind", b"\x20" + ask[0] + b"\5" +
          response("answers { id: 1 complete { } }"))
    write("client_session", "never_asked", b"\x20" + ask[0] + b"\5" +
          response("answers { id: 9 reserve { } }"))
    write("client_session", "refused", b"\x20" + ask[1] + b"\5" +
          response('answers { id: 1 error { code: 9 message: "no" } }'))
    write("client_session", "error_that_is_none", b"\x20" + ask[1] + b"\5" +
          response("answers { id: 1 error { } }"))
    write("client_session", "error_of_no_code", b"\x20" + ask[1] + b"\5" +
          response('answers { id: 1 error { code: 96 } }'))
    write("client_session", "drains", b"\x20" + ask[2] + b"\5" + response("draining: true") +
          ask[0] + b"\5" + response("answers { id: 1 release { } }"))
    write("client_session", "breaks", b"\x20" + ask[0] + bytes([2, 14]) + block(b"") + ask[1])
    write("client_session", "has_no_sessions", b"\x01" + ask[0] + bytes([2, 12]) + block(b"") +
          ask[1] + b"\5" + response("limits { max_in_flight: 1 max_frame_bytes: 1 }"))
    write("client_session", "no_limits", b"\x01" + ask[0] + b"\5" + response("answers { id: 1 }"))
    write("client_session", "no_frame", b"\x20" + ask[0] + b"\5" + block(b"\xff"))
    write("client_session", "writes_held", b"\x20" + ask[0] + bytes([3, 1]) + ask[1] + ask[2] +
          bytes([3, 0]))


def policies():
    def option(name, text, method=0):
        write("policy_option", name, bytes([method]) +
              encode("idempotency.v1.Policy", text, OPTIONS))

    option("nothing", "")
    option("everything", """
        key: KEY_OPTIONAL retention { seconds: 3600 } lease { seconds: 5 } max_lease { seconds: 60 }
        in_flight: IN_FLIGHT_WAIT max_wait { seconds: 2 }
        on_lease_expiry: LEASE_EXPIRY_REQUIRE_RECOVERY recorded: STATUS_CODE_NOT_FOUND
        released: STATUS_CODE_RESOURCE_EXHAUSTED indefinite: STATUS_CODE_ABORTED fail_open: true
        key_field: "header.request_id" fingerprint_metadata: "x-api-version"
        reply: REPLY_STATUS_ONLY cancel_when_lost: true reply_retention { seconds: 60 }
        tombstone { seconds: 86400 } relaxed_reservation: true""")
    option("stream", "stream: STREAM_PASS_ON stream_limit_bytes: 4096", 9)
    option("durations_out_of_range", "lease { nanos: 1 } retention { seconds: -1 nanos: 1 }")
    option("code_in_two_lists", "recorded: STATUS_CODE_ABORTED released: STATUS_CODE_ABORTED")


def values():
    shapes = {
        "payment": 'string_value: "payer-1" int64_value: 1250 strings: "EUR"',
        "everything": """
            double_value: nan float_value: -0.0 int32_value: -1 sint64_value: -2 fixed32_value: 3
            sfixed64_value: -4 bool_value: true bytes_value: "\\000" colour: COLOUR_NEGATIVE
            child { string_value: "x" } optional_int32: 0 choice_string: "" packed_int32: [1, -1]
            unpacked_int32: [2, 3] children { } doubles: [1, inf] colours: [COLOUR_RED]
            any { type_url: "a" value: "b" }""",
        "maps": """
            children_by_name { key: "b" value { } } children_by_name { key: "a" value { } }
            names_by_sint32 { key: -1 value: "x" } uint64_by_bool { key: true value: 0 }
            colour_by_int64 { key: 1 value: COLOUR_RED } bytes_by_uint32 { key: 2 value: "" }
            bool_by_fixed64 { key: 3 value: false }""",
    }
    for name, text in shapes.items():
        write("fingerprint", name, encode("idempotency.testdata.Shapes", text))
    write("fingerprint", "unknown_field", b"\x98\xb5\x02\x01")
    write("fingerprint", "unknown_group", b"\xab\xb5\x02\x08\x01\xac\xb5\x02")
    write("fingerprint", "choice_twice", b"\x98\x01\x05\xa2\x01\x01x")

    write("stored_values", "fingerprint", struct.pack(">IB", 1, 32) + b"a" * 32)
    write("stored_values", "fingerprints", struct.pack(">IB", 1, 32) + b"a" * 32 +
          struct.pack(">IB", 1000, 16) + b"b" * 16)
    write("stored_values", "fingerprints_of_one_version", struct.pack(">IB", 1, 32) + b"a" * 32 +
          struct.pack(">IBI", 1, 0x80 | 32, 7) + b"b" * 32)
    write("stored_values", "fingerprint_cut", struct.pack(">IB", 1, 32) + b"a" * 31)
    write("stored_values", "reply", encode(
        "idempotency.v1.Reply", 'code: 9 message: "no" details: "x" body: ""'))
    write("stored_values", "reply_with_long_message", encode(
        "idempotency.v1.Reply", 'code: 9 message: "%s"' % ("\\342\\202\\254" * 400)))

    info = ('details { type_url: "type.googleapis.com/google.rpc.%s" value: "%s" }')

    def detail(kind, text):
        data = encode(f"idempotency.wire.{kind}", text)
        return info % (kind, "".join(f"\\{byte:03o}" for byte in data))

    def error(name, code, *details):
        write("error_details", name, bytes([code]) + block(b"message") + encode(
            "idempotency.wire.Status", f"code: {code} " + " ".join(details)))

    ours = detail("ErrorInfo", 'reason: "KEY_REUSED" domain: "grpc-idempotency.dev" '
                  'metadata { key: "attempt" value: "2" }')
    error("ours", 9, ours)
    error("with_delay", 10, ours, detail("RetryInfo", "retry_delay { seconds: 1 nanos: 5 }"))
    error("with_endless_delay", 10, ours, detail(
        "RetryInfo", "retry_delay { seconds: 9223372036854775807 nanos: 2147483647 }"))
    error("with_negative_delay", 10, ours, detail(
        "RetryInfo", "retry_delay { seconds: -9223372036854775808 nanos: -2147483648 }"))
    error("with_violation", 3, ours, detail(
        "BadRequest", 'field_violations { field: "a" description: "b" }'))
    error("of_others", 5, detail("ErrorInfo", 'reason: "X" domain: "example.com"'))


def rows():
    columns = ["namespace", "scope", "operation", "key", "state", "attempt", "token",
               "request_token", "recovering", "on_lease_expiry", "created_at", "lease_expires_at",
               "expires_at", "completed_at", "fingerprints", "release_reason", "annotations",
               "reply_digest", "reply", "reply_until", "tombstone_until", "status_digest",
               "checkpoint"]
    paid, forgotten, unknown = range(3)

    def change(row, column, how, value=b""):
        return bytes([row, columns.index(column), how]) + value

    null, whole, text, blob, flip = 0, 1, 3, 4, 5
    write("sqlite_rows", "untouched", b"\0")
    write("sqlite_rows", "untouched_and_swept", b"\1")
    write("sqlite_rows", "reply_flipped", b"\0" + change(paid, "reply", flip, block(b"\0\1")))
    write("sqlite_rows", "digest_flipped", b"\0" + change(paid, "reply_digest", flip, block(b"\1")))
    write("sqlite_rows", "digest_cut", b"\0" + change(paid, "reply_digest", blob, block(b"\1")))
    write("sqlite_rows", "state_unknown_number", b"\0" + change(paid, "state", whole, integer(9)))
    write("sqlite_rows", "state_reserved", b"\0" + change(paid, "state", whole, integer(1)))
    write("sqlite_rows", "fingerprints_cut", b"\0" +
          change(paid, "fingerprints", blob, block(b"\0\0\0\1\x20a")))
    write("sqlite_rows", "annotations_damaged", b"\0" +
          change(unknown, "annotations", blob, block(b"\xff\xff")))
    write("sqlite_rows", "key_of_another", b"\0" + change(unknown, "key", text, block(b"other")))
    write("sqlite_rows", "token_gone", b"\0" + change(unknown, "token", null))
    write("sqlite_rows", "lease_far_away", b"\0" +
          change(unknown, "lease_expires_at", whole, integer(2**63 - 1)))
    write("sqlite_rows", "expired_long_ago", b"\1" +
          change(paid, "expires_at", whole, integer(-2**63)))
    write("sqlite_rows", "several", b"\1" + change(paid, "state", whole, integer(1)) +
          change(paid, "completed_at", null) + change(paid, "reply_digest", null) +
          change(forgotten, "reply", null))


def calls():
    request = encode("idempotency.testing.ActRequest", 'account: "alice" amount: 1',
                     ("", "tests/support/probe.proto"))
    key, trace, parent, scope, entry = 1, 2, 4, 8, 16

    def call(*parts, message=request):
        """The parts of a call, as (bit, bytes ...)."""
        carries = sum(part[0] for part in parts)
        return bytes([carries]) + b"".join(
            block(text) for part in parts for text in part[1:]) + block(message)

    first = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    later = b"01" + first[2:] + b"-"
    mine = (scope, b"tenant-1")
    write("guarded_calls", "call", call((key, b"key-1"), mine))
    write("guarded_calls", "with_everything", call(
        (key, UUID7.encode()), (trace, first),
        (parent, encode("idempotency.v1.RecordKey", KEY % UUID7,
                        ("proto", "idempotency/v1/record.proto"))),
        mine, (entry, b"note", b"text")))
    write("guarded_calls", "traceparent_of_a_later_version", call(
        (key, b"key-1"), (trace, later + b"more"), mine))
    write("guarded_calls", "traceparent_that_is_not_utf8", call(
        (key, b"key-1"), (trace, later + b"\xff"), mine) * 3)
    write("guarded_calls", "scope_that_is_not_utf8", call((key, b"key-1"), (scope, b"\xff")))
    write("guarded_calls", "key_that_is_not_utf8", call((key, b"\xff"), mine))
    write("guarded_calls", "parent_that_is_none", call((key, b"key-1"), (parent, b"\xff"), mine))
    write("guarded_calls", "message_that_is_none", call((key, b"key-1"), mine, message=b"\xff"))
    write("guarded_calls", "nothing", call())
    write("guarded_calls", "the_same_key_with_another_request",
          call((key, b"key-1"), mine) + call((key, b"key-1"), mine, message=b""))


def main():
    proxy_messages()
    texts()
    requests()
    sessions()
    policies()
    values()
    rows()
    calls()


if __name__ == "__main__":
    main()
