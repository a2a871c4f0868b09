"""The callers of a chaos run: threads that repeat calls with the same keys, also at the same time,
sometimes with another request, and sometimes leave."""

import itertools
import random
import threading
from concurrent import futures

from ..grpc_call import channel, reply_to, start
from .history import digest, record_of

# By what an unknown outcome leads to: nothing runs again, or the next call does once the lease is
# over.
RECOVERED = "/payments.v1.Payments/Charge"
TAKEN_OVER = "/payments.v1.Payments/Notify"
METHODS = (RECOVERED, TAKEN_OVER)
CALL_TIMEOUT_S = 20
# Keys that are in use at a time: small, so that duplicates meet.
WINDOW = 16
SHARE_OTHER_REQUEST = 0.04
SHARE_LEAVES = 0.04
MAX_STAY_S = 0.02
# As a caller's backoff: a part that is away takes about so long to return.
AWAY_S = 0.5
# Reasons in an error's details, and what the history calls them.
REASONS = {b"IN_FLIGHT": "in_flight", b"KEY_REUSED": "mismatch", b"OUTCOME_UNKNOWN": "outcome_unknown",
           b"KEY_EXPIRED": "expired", b"KEY_MISSING": "key_missing", b"KEY_INVALID": "key_invalid",
           b"REQUEST_INVALID": "invalid", b"OVERLOADED": "overloaded", b"RESERVATION_LOST": "lost",
           b"STORE_UNAVAILABLE": "unavailable"}
COMPLETED = ("reserved", "replay")
SETTLED = {RECOVERED: (*COMPLETED, "outcome_unknown"), TAKEN_OVER: COMPLETED}
# Codes of the service that are recorded.
RECORDED = ("OK", "FAILED_PRECONDITION")


def method_of(key):
    """Keys take turns with the methods."""
    return METHODS[int(key.rpartition("-")[2]) % len(METHODS)]


def answer_of(reply, key):
    """The event and the fields of a reply. It does not have the number of the attempt: the service
    does not know it."""
    for reason, verdict in REASONS.items():
        if reason in reply.details:
            return "fail", {"verdict": verdict, "code": reply.code, "reason": reason.decode()}
    if reply.code not in RECORDED or b"OUTCOME_NOT_RECORDED" in reply.details:
        return "unknown", {"verdict": "none", "code": reply.code}
    words = (reply.body.decode() if reply.code == "OK" else reply.message.removeprefix("refused ")).split()
    named = words[0] if words else key
    return "ok", {"verdict": "replay" if reply.replayed else "reserved", "code": reply.code,
                  "reply": digest(reply.code, reply.message, reply.body),
                  "replayed": reply.replayed, "seen": record_of(method_of(key), named)}


class Callers:
    """At least `calls` calls of `threads` threads, then a call for each key until its outcome is certain."""

    def __init__(self, address, history, seed, calls, threads=24):
        self._address, self._history, self._seed = address, history, seed
        self._calls = calls
        self._next = itertools.count()
        self._keys, self._certain = set(), set()
        self._lock = threading.Lock()
        self._paused = threading.Event()
        # Set once there have been enough faults: a short run goes on until then.
        self.enough_faults = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n,), name=f"caller-{n}")
                         for n in range(threads)]
        self.done = 0

    def start(self):
        for thread in self._threads:
            thread.start()

    def join(self):
        for thread in self._threads:
            thread.join()

    def is_running(self):
        return any(thread.is_alive() for thread in self._threads)

    def _run(self, number):
        draw = random.Random(f"{self._seed} {number}")
        with channel(self._address) as on:
            while ((index := next(self._next)) < self._calls
                   or not self.enough_faults.is_set()):
                # Each key is drawn about four times, while it is in the window.
                key = f"key-{self._seed}-{index // 4 + draw.randrange(WINDOW)}"
                other = draw.random() < SHARE_OTHER_REQUEST
                stay = draw.random() * MAX_STAY_S if draw.random() < SHARE_LEAVES else None
                answer = self.call(on, f"c{number}", f"{number}-{index}", key,
                                   "other" if other else "one", stay)
                with self._lock:
                    self._keys.add(key)
                    if answer in COMPLETED:
                        self._certain.add(key)
                    self.done += 1
                if answer == "none":
                    self._paused.wait(AWAY_S)  # Envoy or the service is away

    def call(self, on, client, name, key, request, stay=None):
        """Makes a call, logs it, and returns its verdict."""
        body, method = f"{key} {request}", method_of(key)
        self._history.write("invoke", id=name, client=client, kind="call",
                            record=record_of(method, key), fp=body)
        running = start(on, method, key, body.encode(), CALL_TIMEOUT_S,
                        (("x-tenant", "shop"), ("x-call", name)))
        if stay is not None:
            self._paused.wait(stay)
            running.cancel()
        event, fields = answer_of(reply_to(running), key)
        self._history.write(event, id=name, **fields)
        return fields["verdict"]

    def settle(self, within_s=120):
        """Calls each key whose outcome is not certain until it is; the keys without a certain
        outcome in this time. As many at a time as before: the checker gives the system ten seconds."""
        end = threading.Event()
        timer = threading.Timer(within_s, end.set)
        timer.start()
        try:
            with channel(self._address) as on, futures.ThreadPoolExecutor(
                    len(self._threads), "settler") as pool:
                keys = sorted(self._keys - self._certain)
                return [key for key, settled in
                        zip(keys, pool.map(lambda key: self._settle(on, key, end), keys))
                        if not settled]
        finally:
            timer.cancel()

    def _settle(self, on, key, end):
        turn = 0
        while not end.is_set():
            # Another caller may have been the first one with a key, with the other request.
            for request in ("one", "other"):
                name = f"settle-{turn}-{key}-{request}"
                if self.call(on, "settler", name, key, request) in SETTLED[method_of(key)]:
                    return True
            turn += 1
            end.wait(0.1)
        return False
