#!/usr/bin/env python3
"""A payments service without idempotency: each call of Charge takes money. Envoy and
idempotencyd make its retries safe (docs/envoy.md).

Its stubs are what protoc generates from examples/payments/payments.proto; the folder with them is
in PYTHONPATH.

usage: payments_server.py --listen=HOST:PORT --database=FILE [--charge_delay=SECONDS]
"""

import argparse
import contextlib
import datetime
import sqlite3
import threading
import time
import uuid
from concurrent import futures

import grpc
import payments_pb2
import payments_pb2_grpc

ACCOUNTS = {"alice": 100_000, "bob": 5_000}
MAX_ENTRIES = 100


class Ledger:
    """Accounts and the movements on them. Thread-safe."""

    def __init__(self, path):
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL);"
            "CREATE TABLE IF NOT EXISTS entries (number INTEGER PRIMARY KEY, id TEXT, account TEXT,"
            " cents INTEGER, note TEXT, at TEXT);")
        self._database.executemany("INSERT OR IGNORE INTO accounts VALUES (?, ?)", ACCOUNTS.items())

    @contextlib.contextmanager
    def transaction(self):
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
            except BaseException:
                self._database.execute("ROLLBACK")
                raise
            self._database.execute("COMMIT")


def balance(database, account, context):
    row = database.execute("SELECT cents FROM accounts WHERE name = ?", (account,)).fetchone()
    if row is None:
        context.abort(grpc.StatusCode.NOT_FOUND, f"there is no account {account!r}")
    return row[0]


def move(database, account, cents, note):
    entry = str(uuid.uuid4())
    database.execute("UPDATE accounts SET cents = cents + ? WHERE name = ?", (cents, account))
    database.execute("INSERT INTO entries (id, account, cents, note, at) VALUES (?, ?, ?, ?, ?)",
                     (entry, account, cents, note,
                      datetime.datetime.now(datetime.timezone.utc).isoformat()))
    return entry


class Payments(payments_pb2_grpc.PaymentsServicer):
    def __init__(self, ledger, charge_delay):
        self._ledger = ledger
        self._charge_delay = charge_delay

    def Charge(self, request, context):
        print(f"charge begins: account={request.account} amount={request.amount_cents}", flush=True)
        # A bank that takes its time; for demonstrations.
        time.sleep(self._charge_delay)
        if request.amount_cents <= 0:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the amount must be more than 0")
        with self._ledger.transaction() as database:
            cents = balance(database, request.account, context)
            if cents < request.amount_cents:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION,
                              f"{request.account} has {cents} cents")
            charge = move(database, request.account, -request.amount_cents, request.note)
        return payments_pb2.ChargeReply(charge_id=charge, balance_cents=cents - request.amount_cents)

    def Refund(self, request, context):
        with self._ledger.transaction() as database:
            row = database.execute("SELECT account, cents FROM entries WHERE id = ?",
                                   (request.charge_id,)).fetchone()
            if row is None:
                context.abort(grpc.StatusCode.NOT_FOUND, "there is no such charge")
            if not 0 < request.amount_cents <= -row[1]:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "more than was charged")
            refund = move(database, row[0], request.amount_cents, request.note)
            cents = balance(database, row[0], context)
        return payments_pb2.RefundReply(refund_id=refund, balance_cents=cents)

    def GetBalance(self, request, context):
        with self._ledger.transaction() as database:
            return payments_pb2.GetBalanceReply(
                balance_cents=balance(database, request.account, context))

    def ListEntries(self, request, context):
        with self._ledger.transaction() as database:
            balance(database, request.account, context)
            rows = database.execute(
                "SELECT id, cents, note, at FROM entries WHERE account = ? ORDER BY number DESC "
                "LIMIT ?", (request.account, MAX_ENTRIES)).fetchall()
        return payments_pb2.ListEntriesReply(entries=[
            payments_pb2.Entry(id=entry, amount_cents=cents, note=note, at=at)
            for entry, cents, note, at in rows])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", default="127.0.0.1:9000")
    parser.add_argument("--database", required=True)
    parser.add_argument("--charge_delay", type=float, default=0)
    arguments = parser.parse_args()
    server = grpc.server(futures.ThreadPoolExecutor(32))
    payments_pb2_grpc.add_PaymentsServicer_to_server(
        Payments(Ledger(arguments.database), arguments.charge_delay), server)
    port = server.add_insecure_port(arguments.listen)
    server.start()
    print(f"payments: serving on {arguments.listen.rpartition(':')[0]}:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
