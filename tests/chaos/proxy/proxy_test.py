"""Every fault of chaos-proxy, with real sockets.

  python3 -m tests.chaos.proxy.proxy_test CHAOS_PROXY
"""

import hashlib
import os
import random
import select
import socket
import struct
import sys
import tempfile
import threading
import time
import unittest

from tests.support.subreaper import run_under_subreaper

from .chaos_proxy_process import ChaosProxy

BINARY = None
# For events that must happen, and for events that must not.
SOON, NEVER = 10, 0.2


def connect(address):
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(SOON)
        try:
            sock.connect(address[5:])
        except OSError:
            sock.close()
            raise
        return sock
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=SOON)


def read(sock, count):
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise EOFError(data)
        data += piece
    return data


def read_all(sock):
    """To the end; (bytes, whether it was a reset)."""
    data = b""
    try:
        while piece := sock.recv(65536):
            data += piece
    except ConnectionResetError:
        return data, True
    return data, False


def silent(sock):
    return not select.select([sock], [], [], NEVER)[0]


class ProxyTest(unittest.TestCase):
    """One link from `self.address` to a listening socket of the test's own."""

    listen = "127.0.0.1:0"
    seed = 1

    def setUp(self):
        self.target, address = self.new_target()
        proxy = self.proxy = ChaosProxy(BINARY, {"a": (self.listen, address)}, self.seed)
        self.addCleanup(lambda: self.assertEqual(proxy.close(), 0))
        self.address = self.proxy.addresses["a"]

    def new_target(self):
        target = socket.create_server(("127.0.0.1", 0))
        target.settimeout(SOON)
        self.addCleanup(target.close)
        return target, "127.0.0.1:%d" % target.getsockname()[1]

    def pair(self, target=None):
        """(the caller's socket, the target's)."""
        client = connect(self.address)
        server, _ = (target or self.target).accept()
        server.settimeout(SOON)
        self.addCleanup(client.close)
        self.addCleanup(server.close)
        return client, server

    def works(self, client, server):
        for one, other in ((client, server), (server, client)):
            one.sendall(b"ping")
            self.assertEqual(read(other, 4), b"ping")

    def wait_for(self, field, value):
        deadline = time.monotonic() + SOON
        while (got := self.proxy.stats("a")[field]) != value:
            self.assertLess(time.monotonic(), deadline, f"{field} is {got}")


class NoFault(ProxyTest):

    def exact(self, one, other, size):
        sent, received = hashlib.sha256(), hashlib.sha256()
        rng = random.Random(size)

        def send():
            left = size
            while left:
                piece = rng.randbytes(min(left, rng.randrange(1, 200_000)))
                sent.update(piece)
                one.sendall(piece)
                left -= len(piece)
            one.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=send)
        thread.start()
        count = 0
        while piece := other.recv(rng.randrange(1, 100_000)):
            received.update(piece)
            count += len(piece)
        thread.join()
        self.assertEqual(count, size)
        self.assertEqual(sent.digest(), received.digest())

    def test_byte_exact_up_then_down(self):
        client, server = self.pair()
        self.exact(client, server, 20_000_000)
        # The other direction is still open.
        self.exact(server, client, 20_000_000)
        self.wait_for("open", 0)
        stats = self.proxy.stats("a")
        self.assertEqual((stats["bytes_up"], stats["bytes_down"]), (20_000_000, 20_000_000))
        self.assertEqual((stats["accepted"], stats["cut"]), (1, 0))

    def test_many_connections(self):
        pairs = [self.pair() for _ in range(100)]
        for number, (client, server) in enumerate(pairs):
            client.sendall(b"%03d" % number)
            server.sendall(b"%03d" % (number + 500))
        for number, (client, server) in enumerate(pairs):
            self.assertEqual(read(server, 3), b"%03d" % number)
            self.assertEqual(read(client, 3), b"%03d" % (number + 500))

    def test_a_reader_that_is_slow_holds_the_writer(self):
        client, server = self.pair()
        client.setblocking(False)
        sent = 0
        while select.select([], [client], [], 1)[1]:
            sent += client.send(bytes(1_000_000))
            self.assertLess(sent, 100_000_000)
        with open(f"/proc/{self.proxy.pid}/status", encoding="ascii") as status:
            resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        self.assertLess(resident, 60_000)
        client.settimeout(SOON)
        threading.Thread(target=client.shutdown, args=(socket.SHUT_WR,)).start()
        self.assertEqual(len(read_all(server)[0]), sent)

    def test_a_target_that_is_not_there(self):
        self.target.close()
        try:
            with connect(self.address) as client:
                self.assertEqual(read_all(client), (b"", True))
        except ConnectionResetError:
            pass  # It arrived before connect() had returned.
        self.wait_for("unreachable", 1)

    def test_a_reset_goes_through(self):
        client, server = self.pair()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        self.assertEqual(read_all(server), (b"", True))

    def test_it_rests_when_nothing_moves(self):
        resting = [self.pair()[0] for _ in range(3)]

        def ticks():
            with open(f"/proc/{self.proxy.pid}/stat", encoding="ascii") as stat:
                fields = stat.read().split()
            return int(fields[13]) + int(fields[14])
        self.proxy.command("stall a")
        client, _ = self.pair()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        before = ticks()
        self.assertTrue(all(silent(client) for client in resting))
        self.assertLess(ticks() - before, 10)


class Unix(NoFault):
    """The same through unix sockets, on both sides."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="chaos-proxy-test.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.listen = f"unix:{self.folder}/link.sock"
        super().setUp()

    def new_target(self):
        path = os.path.join(self.folder, "target.sock")
        target = socket.socket(socket.AF_UNIX)
        target.settimeout(SOON)
        target.bind(path)
        target.listen(200)
        self.addCleanup(target.close)
        return target, f"unix:{path}"

    def test_a_target_that_is_not_there(self):
        self.target.close()
        with connect(self.address) as client:
            self.assertEqual(read_all(client)[0], b"")
        self.wait_for("unreachable", 1)

    def test_a_reset_goes_through(self):
        self.skipTest("a unix socket knows no reset of that kind")

    def test_refuse(self):
        pair = self.pair()
        self.proxy.command("refuse a")
        with self.assertRaises(ConnectionRefusedError):
            connect(self.address)
        self.works(*pair)
        self.proxy.command("heal a")
        self.works(*self.pair())


class Faults(ProxyTest):

    def test_cut(self):
        pairs = [self.pair(), self.pair()]
        self.proxy.command("cut a")
        for client, server in pairs:
            self.assertEqual(read_all(client), (b"", True))
            self.assertEqual(read_all(server), (b"", True))
        self.assertEqual(self.proxy.stats("a")["cut"], 2)
        self.works(*self.pair())

    def test_refuse(self):
        pair = self.pair()
        self.proxy.command("refuse a")
        self.proxy.command("refuse a")
        for _ in range(3):
            with self.assertRaises(ConnectionRefusedError):
                connect(self.address)
        self.works(*pair)
        self.proxy.command("heal a")
        self.works(*self.pair())

    def test_stall(self):
        for directions, stalled in (("up", (True, False)), ("down", (False, True)),
                                    ("both", (True, True)), ("", (True, True))):
            with self.subTest(directions):
                client, server = self.pair()
                self.proxy.command(f"stall a {directions}")
                client.sendall(b"question")
                server.sendall(b"answer")
                for sock, data, quiet in ((server, b"question", stalled[0]),
                                          (client, b"answer", stalled[1])):
                    self.assertEqual(silent(sock), quiet)
                    if not quiet:
                        self.assertEqual(read(sock, len(data)), data)
                self.proxy.command("heal a")
                if stalled[0]:
                    self.assertEqual(read(server, 8), b"question")
                if stalled[1]:
                    self.assertEqual(read(client, 6), b"answer")
                self.works(client, server)

    def test_stall_hides_an_end(self):
        client, server = self.pair()
        self.proxy.command("stall a up")
        client.sendall(b"last")
        client.close()
        self.assertTrue(silent(server))
        self.proxy.command("heal a")
        self.assertEqual(read_all(server)[0], b"last")

    def test_delay(self):
        client, server = self.pair()
        self.proxy.command("delay a 150 50")
        began = time.monotonic()
        client.sendall(b"late")
        self.assertEqual(read(server, 4), b"late")
        self.assertGreaterEqual(time.monotonic() - began, 0.15)
        for n in range(50):
            client.sendall(b"%02d" % n)
        self.assertEqual(read(server, 100), b"".join(b"%02d" % n for n in range(50)))
        delayed = self.proxy.stats("a")["delayed_ms"]
        self.assertGreaterEqual(delayed, 300)
        self.proxy.command("heal a")
        self.works(client, server)
        self.assertEqual(self.proxy.stats("a")["delayed_ms"], delayed)

    def test_drop_up_after_bytes(self):
        client, server = self.pair()
        self.proxy.command("drop a up bytes=10")
        client.sendall(b"0123456789abcdef")
        self.assertEqual(read_all(server), (b"0123456789", False))
        self.assertEqual(read_all(client), (b"", True))
        self.assertEqual(self.proxy.stats("a")["fired"], 1)
        # Once, by default.
        self.works(*self.pair())

    def test_drop_down_after_text(self):
        client, server = self.pair()
        self.proxy.command("drop a down match=END")
        server.sendall(b"some E")
        self.assertEqual(read(client, 6), b"some E")
        server.sendall(b"ND and more")
        self.assertEqual(read_all(client), (b"ND", False))
        self.assertEqual(read_all(server), (b"", True))

    def test_drop_as_often_as_commanded(self):
        self.proxy.command("drop a up bytes=1 times=2")
        for _ in range(2):
            client, server = self.pair()
            client.sendall(b"xy")
            self.assertEqual(read_all(server)[0], b"x")
        self.works(*self.pair())

    def test_forward_then_cut(self):
        """The target does the work, and the caller gets a failure."""
        client, server = self.pair()
        self.works(client, server)
        self.proxy.command("forward-then-cut a match=COMMIT")
        client.sendall(b"BEGIN")
        self.assertEqual(read(server, 5), b"BEGIN")
        server.sendall(b"began")
        self.assertEqual(read(client, 5), b"began")
        client.sendall(b"COMMIT;and all that follows")
        self.assertEqual(read(server, 27), b"COMMIT;and all that follows")
        # It stays until the target has answered.
        self.assertTrue(silent(client))
        server.sendall(b"committed")
        self.assertEqual(read_all(client), (b"", True))
        self.assertEqual(read_all(server), (b"", True))
        stats = self.proxy.stats("a")
        self.assertEqual((stats["fired"], stats["armed"], stats["lost_down"]), (1, 0, 9))
        self.works(*self.pair())

    def test_forward_then_cut_at_an_answer(self):
        client, server = self.pair()
        self.proxy.command("forward-then-cut a bytes=1 answer=DONE")
        client.sendall(b"do it")
        self.assertEqual(read(server, 5), b"do it")
        server.sendall(b"window updated; DO")
        self.assertTrue(silent(client))
        server.sendall(b"NE")
        self.assertEqual(read_all(client), (b"", True))

    def test_forward_then_cut_after_a_time(self):
        client, server = self.pair()
        self.proxy.command("forward-then-cut a hold=100")
        began = time.monotonic()
        client.sendall(b"do it")
        self.assertEqual(read(server, 5), b"do it")
        server.sendall(b"done")
        self.assertEqual(read_all(client), (b"", True))
        self.assertGreaterEqual(time.monotonic() - began, 0.1)

    def test_forward_then_cut_takes_one_connection(self):
        other = self.pair()
        client, server = self.pair()
        self.proxy.command("forward-then-cut a match=COMMIT")
        self.works(*other)
        client.sendall(b"COMMIT")
        self.assertEqual(read(server, 6), b"COMMIT")
        other[0].sendall(b"COMMIT")
        self.assertEqual(read(other[1], 6), b"COMMIT")
        server.sendall(b"committed")
        self.assertEqual(read_all(client), (b"", True))
        self.works(*other)

    def test_one_way(self):
        for direction in ("up", "down"):
            with self.subTest(direction):
                client, server = self.pair()
                idle = self.pair()
                self.proxy.command(f"one-way a {direction}")
                one, other = (client, server) if direction == "up" else (server, client)
                one.sendall(b"lost")
                self.assertTrue(silent(other))
                other.sendall(b"kept")
                self.assertEqual(read(one, 4), b"kept")
                self.assertEqual(self.proxy.stats("a")[f"lost_{direction}"], 4)
                # A connection that has lost bytes is never used again; one that has not, is.
                self.proxy.command("heal a")
                self.assertEqual(read_all(client), (b"", True))
                self.assertEqual(read_all(server), (b"", True))
                self.works(*idle)

    def test_target(self):
        old = self.pair()
        target, address = self.new_target()
        self.proxy.command(f"target a {address}")
        self.works(*self.pair(target))
        self.works(*old)
        self.assertEqual(self.proxy.stats("a")["target"], address)

    def test_heal_disarms(self):
        client, server = self.pair()
        self.proxy.command("drop a up bytes=1")
        self.assertEqual(self.proxy.stats("a")["armed"], 1)
        self.proxy.command("heal a")
        self.works(client, server)


class Control(ProxyTest):

    def test_lines_that_are_wrong(self):
        for line in ("", "cut", "cut b", "cut a now", "surprise a", "stall a sideways",
                     "stall a up down", "one-way a", "one-way a both", "delay a", "delay a x",
                     "delay a 1 2 3", "drop a", "drop a up bytes=0", "drop a up hold=5",
                     "drop a up answer=x", "forward-then-cut a match=", "target a", "target a x:y",
                     "target a 127.0.0.1:99999"):
            with self.subTest(line):
                self.assertRegex(self.proxy.query(line), "^error: ")
        self.works(*self.pair())

    def test_all_links(self):
        pair = self.pair()
        self.proxy.command("cut *")
        self.assertEqual(read_all(pair[0]), (b"", True))

    def test_several_links(self):
        _, address = self.new_target()
        target, other = self.new_target()
        proxy = ChaosProxy(BINARY, {"one": ("127.0.0.1:0", address),
                                    "two": ("127.0.0.1:0", other)})
        self.addCleanup(proxy.close)
        proxy.command("refuse one")
        with self.assertRaises(ConnectionRefusedError):
            connect(proxy.addresses["one"])
        client = connect(proxy.addresses["two"])
        self.addCleanup(client.close)
        server, _ = target.accept()
        self.addCleanup(server.close)
        self.works(client, server)

    def test_a_link_that_cannot_be(self):
        for listen, target in (("127.0.0.1:0", "nowhere"), ("localhost:1", "127.0.0.1:1"),
                               (self.address, "127.0.0.1:1")):
            with self.subTest(listen), self.assertRaises(RuntimeError):
                ChaosProxy(BINARY, {"x": (listen, target)})


class Seeds(ProxyTest):

    def delays(self, seed):
        """The draws for a few pieces, as a sum."""
        self.seed = seed
        self.setUp()
        client, server = self.pair()
        self.proxy.command("delay a 0 100")
        for _ in range(5):
            client.sendall(b"x")
            read(server, 1)
        return self.proxy.stats("a")["delayed_ms"]

    def test_a_seed_draws_the_same_delays(self):
        drawn = [self.delays(seed) for seed in (5, 5, 6, 7)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertGreater(len(set(drawn)), 1)


if __name__ == "__main__":
    run_under_subreaper()
    BINARY = sys.argv.pop(1)
    unittest.main()
