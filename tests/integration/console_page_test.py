#!/usr/bin/env python3
"""The console in a headless Chromium, against a real idempotencyd with TLS and tokens, and
records whose texts attack the page. Each test fails on an error in the browser's console and on a
violation of the content security policy. Screenshots are written to SCREENSHOTS.

usage: console_page_test.py BIN_FOLDER PROJECT_ROOT SCREENSHOTS
"""

import contextlib
import hashlib
import os
import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from chromium import Chromium  # pylint: disable=wrong-import-position

BIN, ROOT, SCREENSHOTS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
OPERATION = "/payments.v1.Payments/Charge"
HOSTILE_KEY = "<img/src=x/onerror=alert(1)>"
HOSTILE_SCOPE = "tenant <b>bold</b> \u202egnp.exe \u05d0\u05d1"
HOSTILE_LABEL = "<script>document.title='taken'</script>"
HOSTILE_REASON = "\"><svg/onload=alert(2)> \u2066 \\"
RECORD_SHOWN = "return document.querySelector('#record-result .card')?.innerText"

CONFIG = """
identities {{ name: "operators" tokens {{ sha256: "{operators}" }} }}
identities {{ name: "readers" tokens {{ sha256: "{readers}" }} }}
identities {{ name: "nobody" tokens {{ sha256: "{nobody}" }} }}
identities {{ name: "payments" tokens {{ sha256: "{payments}" }} }}
rules {{ identity: "operators" namespaces: "payments" permissions: [READ, ADMIN] }}
rules {{ identity: "readers" namespaces: "payments" permissions: [READ] }}
rules {{ identity: "payments" namespaces: "payments" permissions: [WRITE, READ] }}
"""


def digest(token):
    return hashlib.sha256(token.encode()).hexdigest()


class Daemon:
    """An idempotencyd with TLS, in an empty folder, until close()."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-keyout", "server.key", "-out", "server.pem", "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
                       cwd=self.folder, check=True, capture_output=True)
        names = ("operators", "readers", "nobody", "payments")
        (self.folder / "config.textproto").write_text(
            CONFIG.format(**{name: digest(f"token-of-{name}") for name in names}), encoding="utf-8")
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            [BIN / "idempotencyd", "serve", "--listen=127.0.0.1:0", "--metrics=", "--console=127.0.0.1:0",
             f"--store=sqlite:{self.folder}/records.db", "--config=config.textproto",
             "--tls_cert=server.pem", "--tls_key=server.key"],
            cwd=self.folder, stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline()
        self.address = re.search(r"serving on ([\d.:]+\d)", ready)[1]
        self.console = f"https://{re.search(r'console on ([0-9.:]+)', ready)[1]}/"

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.process.stdout.close()


class Caller:
    """What a guard does with records, over gRPC."""

    def __init__(self, daemon):
        protos = daemon.folder / "protos"
        protos.mkdir()
        files = [str(path) for path in (ROOT / "proto/idempotency/v1").glob("*.proto")]
        subprocess.run(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={protos}", *files], check=True)
        sys.path.insert(0, str(protos))
        # pylint: disable=import-error, import-outside-toplevel
        from google.protobuf import duration_pb2
        from idempotency.v1 import idempotency_service_pb2, record_pb2
        self.pb, self.records, self.duration = idempotency_service_pb2, record_pb2, duration_pb2.Duration
        credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials((daemon.folder / "server.pem").read_bytes()),
            grpc.access_token_call_credentials("token-of-payments"))
        self.channel = grpc.secure_channel(daemon.address, credentials)

    def call(self, method, request, response):
        stub = self.channel.unary_unary(f"/idempotency.v1.IdempotencyService/{method}",
                                        request_serializer=type(request).SerializeToString,
                                        response_deserializer=response.FromString)
        return stub(request, timeout=60)

    def reserve(self, key, scope="tenant-1", **labels):
        record_key = self.records.RecordKey(namespace="payments", scope=scope, operation=OPERATION, key=key)
        request = self.pb.ReserveRequest(
            record_key=record_key, lease=self.duration(seconds=3600), labels=labels,
            fingerprints=[self.records.Fingerprint(version=1, digest=b"f" * 32)])
        return record_key, self.call("Reserve", request, self.pb.ReserveResponse)

    def unknown(self, key, scope="tenant-1", reason="", **labels):
        record_key, answer = self.reserve(key, scope, **labels)
        self.call("Release", self.pb.ReleaseRequest(
            record_key=record_key, reservation_token=answer.reserved.reservation_token, reason=reason,
            outcome=self.pb.RELEASE_OUTCOME_OUTCOME_UNKNOWN), self.pb.ReleaseResponse)
        return self.id_of(record_key)

    def completed(self, key, scope="tenant-1"):
        record_key, answer = self.reserve(key, scope)
        self.call("Complete", self.pb.CompleteRequest(
            record_key=record_key, reservation_token=answer.reserved.reservation_token,
            reply=self.records.Reply(code=0, body=b"paid")), self.pb.CompleteResponse)
        return self.id_of(record_key)

    def get(self, record_key):
        return self.call("Get", self.pb.GetRequest(record_key=record_key), self.pb.GetResponse).record

    def id_of(self, record_key):
        return self.get(record_key).record_id

    def by_id(self, record_id):
        return self.call("Get", self.pb.GetRequest(record_id=record_id, view=self.pb.RECORD_VIEW_BASIC),
                         self.pb.GetResponse).record


class ConsolePageTest(unittest.TestCase):

    @classmethod
    def temporary(cls, name):
        """A folder that is removed after the processes that start from now on."""
        # Processes of a browser end after it.
        # pylint: disable=consider-using-with
        folder = tempfile.TemporaryDirectory(prefix=f"idempotency-{name}.", ignore_cleanup_errors=True)
        cls.addClassCleanup(folder.cleanup)
        return folder.name

    @classmethod
    def setUpClass(cls):
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        cls.daemon = Daemon(cls.temporary("console"))
        cls.addClassCleanup(cls.daemon.close)
        cls.caller = Caller(cls.daemon)
        cls.addClassCleanup(cls.caller.channel.close)
        # The certificate is the server's own.
        cls.browser = Chromium(cls.temporary("chromium"), insecure=True)
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.resize(1280, 860)
        self.browser.prefer("light")
        self.browser.open("about:blank")
        self.browser.complaints()
        self.expected = []

    def tearDown(self):
        complaints = [text for text in self.browser.complaints()
                      if not any(expected in text for expected in self.expected)]
        self.assertEqual(complaints, [])

    def enter(self, who="operators", path=""):
        """Opens the page, and pastes a token."""
        # The first Overview has no token.
        self.expected.append("api/Overview - Failed to load resource: the server responded with a status of 401")
        self.browser.open(self.daemon.console + path)
        self.browser.wait_for("return document.querySelector('#banner').innerText", "the refusal")
        self.browser.click("#token-open")
        self.browser.type("#token-form input", f"token-of-{who}")
        self.browser.click("#token-form button.primary")

    def ready(self):
        self.browser.wait_for("return document.querySelector('#status-text').textContent === 'Serving'", "serving")

    def look_up(self, record_id):
        self.browser.run("location.hash = 'record/' + arguments[0]", record_id)
        return self.browser.wait_for(
            f"const text = (() => {{ {RECORD_SHOWN} }})(); return text?.includes('{record_id}') && text", "the record")

    def test_a_token_opens_it_and_is_kept_nowhere(self):
        self.enter()
        self.ready()
        browser = self.browser
        self.assertEqual(browser.text("#caller"), "as operators")
        self.assertEqual(browser.run(
            "return [localStorage.length, sessionStorage.length, document.cookie, "
            "document.documentElement.outerHTML.includes('token-of-'), "
            "document.querySelector('#token-form input').value]"), [0, 0, "", False, ""])
        # Namespaces are offered, and nothing that the caller may not read.
        self.assertEqual(browser.run(
            "return [...document.querySelectorAll('#namespaces option')].map((o) => o.value)"), ["payments"])
        browser.click("#token-open")
        browser.click("#token-forget")
        browser.wait_for("return document.querySelector('#banner').innerText.includes('does not know you')",
                         "the refusal")

    def test_refusals_have_words(self):
        self.enter("nobody")
        self.expected.append("status of 403")
        self.browser.wait_for("return document.querySelector('#banner').innerText.includes('You may not do this')",
                              "the refusal")
        self.browser.screenshot(SCREENSHOTS / "refused.png")

    def test_a_reader_settles_nothing(self):
        record_id = self.caller.unknown("reader-1")
        self.enter("readers")
        self.ready()
        self.look_up(record_id)
        self.expected.append("status of 403")
        self.browser.click("#record-result .actions button")
        self.browser.click("#resolve-form [value=RESOLVE_OUTCOME_RELEASED]")
        self.browser.type("#resolve-form [name=reason]", "ticket 42")
        self.browser.click("#resolve-check")
        self.browser.wait_for(
            "return document.querySelector('#resolve-outcome').innerText.includes('You may not do this')",
            "the refusal")
        self.assertTrue(self.browser.run("return document.querySelector('#resolve-write').disabled"))

    def test_charts_are_drawn_from_what_happens(self):
        self.enter()
        self.ready()
        for number in range(20):
            self.caller.completed(f"charted-{number}")
        drawn = ("return ['rate', 'latency'].every((name) => document.querySelector(`#${name}-plot path.line`)"
                 "?.getAttribute('d').includes('L')) && Number(document.querySelector"
                 "('#tiles .figure').innerText) >= 0 && document.querySelector('#latency-legend .value')"
                 ".innerText !== '–'")
        self.browser.wait_for(drawn, "lines in both charts")
        for scheme in ("light", "dark"):
            self.browser.prefer(scheme)
            self.browser.screenshot(SCREENSHOTS / f"overview-{scheme}.png")
        self.browser.resize(390, 844)
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), 390)
        self.browser.screenshot(SCREENSHOTS / "overview-narrow.png")

    def test_hostile_texts_stay_texts(self):
        record_id = self.caller.unknown(HOSTILE_KEY, HOSTILE_SCOPE, HOSTILE_REASON, hint=HOSTILE_LABEL)
        self.enter()
        self.ready()
        browser = self.browser
        browser.run("location.hash = 'records'")
        browser.click("#records-form button.primary")
        browser.wait_for(f"return document.querySelector('#records-result').innerText.includes('{record_id}')",
                         "the list")
        browser.screenshot(SCREENSHOTS / "records-light.png")
        shown = browser.text("#records-result")
        self.assertIn(HOSTILE_KEY, shown)
        self.assertIn("\\u{202e}gnp.exe", shown)
        self.assertNotIn("\u202e", shown)

        shown = self.look_up(record_id)
        for text in (HOSTILE_KEY, HOSTILE_LABEL, "tenant <b>bold</b> \\u{202e}gnp.exe",
                     "\"><svg/onload=alert(2)> \\u{2066} \\\\"):
            self.assertIn(text, shown)
        self.assertNotRegex(shown, "[\u202a-\u202e\u2066-\u2069]")
        self.assertEqual(browser.run(
            "return document.querySelectorAll('main img, main b, main script, [onload], [onerror]').length"), 0)
        self.assertNotEqual(browser.run("return document.title"), "taken")
        # Letters of the other direction do not move the text around them.
        self.assertEqual(browser.run(
            "return [...document.querySelectorAll('main .foreign')].every("
            "(e) => e.tagName === 'BDI' && getComputedStyle(e).unicodeBidi.startsWith('isolate'))"), True)
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.screenshot(SCREENSHOTS / f"record-{scheme}.png")
        browser.resize(390, 844)
        self.assertLessEqual(browser.run("return document.documentElement.scrollWidth"), 390)
        browser.screenshot(SCREENSHOTS / "record-narrow.png")

    def test_records_that_cannot_be_read_are_counted(self):
        self.caller.unknown("damaged", scope="of-damaged")
        with contextlib.closing(sqlite3.connect(self.daemon.folder / "records.db", timeout=60)) as database:
            database.execute("PRAGMA ignore_check_constraints = ON")
            database.execute("UPDATE records SET fingerprints = x'ff' WHERE scope = 'of-damaged'")
            database.commit()
        self.enter()
        self.ready()
        self.browser.run("location.hash = 'records'")
        self.browser.type("#records-form input[name=scope]", "of-damaged")
        self.browser.click("#records-form button.primary")
        self.browser.wait_for("return document.querySelector('#records-result').innerText.includes("
                              "'1 record is not listed')", "the note")

    def test_a_record_is_looked_up_by_its_key_and_settled(self):
        record_id = self.caller.unknown("order-1")
        self.enter(path="#record")
        self.ready()
        browser = self.browser
        browser.click("#by-key-details summary")
        for name, value in (("scope", "tenant-1"), ("operation", OPERATION), ("key", "order-1")):
            browser.type(f"#by-key [name={name}]", value)
        browser.click("#by-key button")
        shown = browser.wait_for(RECORD_SHOWN, "the record")
        self.assertIn(record_id, shown)
        self.assertIn("OUTCOME_UNKNOWN", shown)
        self.assertIn("What to do", shown)

        browser.click("#record-result .actions button")
        # Nothing without an outcome and a reason.
        browser.click("#resolve-check")
        self.assertEqual(browser.text("#resolve-outcome"), "")
        browser.click("#resolve-form [value=RESOLVE_OUTCOME_COMPLETED]")
        browser.type("#resolve-form [name=reason]", "found in the statement")
        browser.click("#resolve-check")
        browser.wait_for("return document.querySelector('#resolve-outcome').innerText.includes('choose the file')",
                         "the body is missing")
        reply = self.daemon.folder / "reply.bin"
        reply.write_bytes(b"\x0a\x05pay_1\xff")
        browser.choose_file("#resolve-form [name=body]", reply)
        browser.click("#resolve-check")
        browser.wait_for("return !document.querySelector('#resolve-write').disabled", "the check")
        browser.screenshot(SCREENSHOTS / "resolve-light.png")
        # What was checked changes: it must be checked again.
        browser.type("#resolve-form [name=reason]", "found in the bank statement")
        self.assertTrue(browser.run("return document.querySelector('#resolve-write').disabled"))
        browser.click("#resolve-check")
        browser.wait_for("return !document.querySelector('#resolve-write').disabled", "the check")
        self.assertEqual(self.caller.by_id(record_id).state, self.caller.records.RECORD_STATE_UNKNOWN)
        browser.click("#resolve-write")
        browser.wait_for("return document.querySelector('#record-result .state')?.dataset.state === 'Completed'",
                         "the settled record")
        self.assertEqual(self.caller.by_id(record_id).state, self.caller.records.RECORD_STATE_COMPLETED)
        replay = self.caller.reserve("order-1")[1]
        self.assertEqual(replay.replay.reply.body, b"\x0a\x05pay_1\xff")

        browser.run("location.hash = 'audit'")
        browser.click("#audit-end")
        browser.wait_for("return document.querySelector('#audit-result').innerText.includes("
                         "'found in the bank statement')", "the audit log")
        self.assertIn("settled as completed", browser.text("#audit-result"))
        browser.screenshot(SCREENSHOTS / "audit-light.png")

    def test_a_record_that_changed_is_not_settled(self):
        record_id = self.caller.unknown("order-2")
        self.enter()
        self.ready()
        self.look_up(record_id)
        browser = self.browser
        browser.click("#record-result .actions button")
        browser.click("#resolve-form [value=RESOLVE_OUTCOME_RELEASED]")
        browser.type("#resolve-form [name=reason]", "ticket 42")
        browser.click("#resolve-check")
        browser.wait_for("return !document.querySelector('#resolve-write').disabled", "the check")
        # Another operator was first.
        status = browser.run(
            "return import('/calls.js').then((calls) => calls.call('Resolve', {record_id: arguments[0], "
            "outcome: 'RESOLVE_OUTCOME_COMPLETED', reply: {code: 9, message: 'no funds'}, reason: 'first', "
            "expected_attempt: 1})).then((answer) => answer.state)", record_id)
        self.assertEqual(status, "RECORD_STATE_COMPLETED")
        self.expected.append("status of 409")
        browser.click("#resolve-write")
        browser.wait_for("return document.querySelector('#resolve-outcome').innerText.includes('Nothing was changed')",
                         "the refusal")
        self.assertEqual(self.caller.by_id(record_id).reply.message, "no funds")

    def test_one_record_is_purged(self):
        record_id = self.caller.completed("purged-1")
        self.enter()
        self.ready()
        self.look_up(record_id)
        browser = self.browser
        browser.click("#record-result .actions button")
        browser.type("#purge-dialog-form [name=reason]", "a customer left")
        browser.click("#purge-check")
        browser.wait_for("return !document.querySelector('#purge-write').disabled", "the count")
        self.caller.by_id(record_id)
        browser.click("#purge-write")
        browser.wait_for("return document.querySelector('#record-result').innerText.includes('was purged')",
                         "the purge")
        with self.assertRaises(grpc.RpcError) as gone:
            self.caller.by_id(record_id)
        self.assertEqual(gone.exception.code(), grpc.StatusCode.NOT_FOUND)
        # Its key is refused, which is the default here.
        self.assertEqual(self.caller.reserve("purged-1")[1].WhichOneof("verdict"), "expired")

    def test_a_scope_is_purged_after_its_namespace_was_typed(self):
        for number in range(3):
            self.caller.completed(f"left-{number}", "leaver")
        unknown = self.caller.unknown("left-unknown", "leaver")
        self.enter(path="#purge")
        self.ready()
        browser = self.browser
        browser.type("#purge-form [name=scope]", "leaver")
        browser.click("#purge-form button")
        browser.type("#purge-dialog-form [name=reason]", "the tenant left")
        browser.click("#purge-check")
        counted = browser.wait_for("return document.querySelector('#purge-outcome').innerText", "the count")
        counted = browser.wait_for(
            "const t = document.querySelector('#purge-outcome').innerText; return t.includes('forgotten') && t",
            "the count")
        self.assertIn("3 records would be forgotten", counted)
        self.assertIn("1 record would stay", counted)
        self.assertTrue(browser.run("return document.querySelector('#purge-write').disabled"))
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            browser.screenshot(SCREENSHOTS / f"purge-{scheme}.png")
        browser.type("#purge-confirm input", "payments")
        browser.click("#purge-write")
        browser.wait_for("return document.querySelector('#purge-done')?.innerText.includes('3 records are forgotten')",
                         "the purge")
        self.assertEqual(self.caller.by_id(unknown).record_id, unknown)

    def test_the_keyboard_suffices(self):
        record_id = self.caller.unknown("keys-1")
        self.expected.append("status of 401")
        browser = self.browser
        browser.open(self.daemon.console)
        browser.wait_for("return document.querySelector('#banner').innerText", "the refusal")

        def tab_to(wanted, shift=False):
            for _ in range(40):
                if browser.focused() == wanted:
                    # It can be seen.
                    self.assertNotEqual(browser.run(
                        "return getComputedStyle(document.activeElement).outlineStyle"), "none")
                    return
                browser.press("TAB")
            self.fail(f"no way to {wanted}")

        browser.press("TAB")
        self.assertEqual(browser.focused(), "Skip to the content")
        tab_to("token-open")
        browser.press("ENTER")
        self.assertEqual(browser.focused(), "token")
        # The focus stays in the dialog, and returns to the button.
        for _ in range(12):
            browser.press("TAB")
            self.assertTrue(browser.run("return document.activeElement === document.body || "
                                        "document.querySelector('#token-dialog').contains(document.activeElement)"))
        browser.press("ESCAPE")
        self.assertEqual(browser.focused(), "token-open")
        browser.press("ENTER")
        browser.wait_for("return document.activeElement.name === 'token'", "the dialog")
        browser.press("token-of-operators", "ENTER")
        self.ready()
        self.assertEqual(browser.focused(), "token-open")

        tab_to("Record")
        browser.press("ENTER")
        tab_to("record_id")
        browser.press(record_id, "ENTER")
        browser.wait_for(RECORD_SHOWN, "the record")
        self.assertIn("Unknown", browser.text("#announcement"))
        tab_to("Settle…")
        browser.press("SPACE")
        tab_to("outcome")
        browser.press("DOWN")
        self.assertEqual(browser.run("return document.activeElement.value"), "RESOLVE_OUTCOME_RELEASED")
        tab_to("reason")
        browser.press("ticket 42", "ENTER")
        browser.wait_for("return document.activeElement.id === 'resolve-write'", "the check")
        browser.press("SPACE")
        browser.wait_for("return document.querySelector('#record-result .state')?.dataset.state === 'Released'",
                         "the settled record")
        self.assertEqual(self.caller.by_id(record_id).state, self.caller.records.RECORD_STATE_RELEASED)

    def test_every_field_has_a_name(self):
        self.enter()
        self.ready()
        unnamed = self.browser.run(
            "return [...document.querySelectorAll('input, select, button, dialog, section')].filter((e) => "
            "!(e.labels?.length || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || "
            "e.textContent.trim())).map((e) => e.outerHTML)")
        self.assertEqual(unnamed, [])

    def test_the_policy_holds(self):
        self.enter()
        self.ready()
        # Planted: what an attacker would add to the page does nothing, and is reported.
        self.expected += ["Content Security Policy", "TrustedHTML", "This document requires"]
        taken = self.browser.run(
            "const script = document.createElement('script'); try { script.textContent = \"document.title='taken'\"; "
            "document.body.append(script); } catch {} try { document.body.innerHTML = '<b>x</b>'; } catch {} "
            "const image = new Image(); image.src = 'https://localhost:1/x.png'; document.body.append(image); "
            "return document.title === 'taken' || !document.querySelector('#main')")
        self.assertFalse(taken)
        self.browser.wait_for("return true", "the violations")
        end = time.monotonic() + 30
        while not any("Content Security Policy" in text for text in self.browser.complaints()):
            self.assertLess(time.monotonic(), end, "the policy is not in force")

    def test_an_end_of_the_daemon_is_shown(self):
        daemon = Daemon(self.temporary("console"))
        try:
            self.expected += ["ERR_CONNECTION", "status of 401", "net::ERR_"]
            self.browser.open(daemon.console)
            self.browser.wait_for("return document.querySelector('#banner').innerText.includes('does not know you')",
                                  "the refusal")
            self.browser.click("#token-open")
            self.browser.type("#token-form input", "token-of-operators")
            self.browser.click("#token-form button.primary")
            self.ready()
        finally:
            daemon.close()
        self.browser.wait_for("return document.querySelector('#banner').innerText.includes('does not answer')",
                              "the end")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
