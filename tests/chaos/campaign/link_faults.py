"""Breaks links in every way that the proxy supports."""

import contextlib
import queue
import threading
import time

# The links, and the guarded servers with calls that a fault of one reaches (None: all).
_CLASSES = {
    "call": (lambda name: name.startswith("client") and "-bank" in name, lambda a, b: b),
    "raw": (lambda name: name.startswith("client") and "-daemon" in name, lambda a, b: None),
    "store": (lambda name: name.startswith("bank") and "-daemon" in name, lambda a, b: a),
    "ledger": (lambda name: name.startswith("bank") and "-pg" in name, lambda a, b: a),
    "replication": (lambda name: name.startswith("replication"), lambda a, b: None),
}
# The two ends of these links use HTTP/2.
_HTTP2 = ("call", "raw", "store")
# The ways; each is a method.
_WAYS = ("cut", "refuse", "stall", "delay", "one_way", "drop", "forward_then_cut")
# The longest time that a rule may wait for its bytes.
_FIRES_WITHIN = 1.5


class LinkFaults:
    """Two at a time at most. start(), then stop(); whole() while links have to be whole."""

    def __init__(self, system, journal, random, pause=(0.1, 0.5)):
        self._system = system
        self._links = system.links
        self._classes = {**_CLASSES, system.records.link_class:
                         (system.records.is_link, lambda a, b: None)}
        self._journal = journal
        self._random = random
        self._pause = pause
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        self._broken_links = set()
        self._held = False
        self._next = queue.SimpleQueue()
        self._errors = []
        self._threads = [threading.Thread(target=self._run, name=f"link-faults-{n}")
                         for n in range(2)]

    def start(self):
        for thread in self._threads:
            thread.start()

    def stop(self):
        """Returns once every fault is over; raises an error of one."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        if self._errors:
            raise self._errors[0]

    @contextlib.contextmanager
    def whole(self):
        with self._changed:
            self._held = True
            self._changed.wait_for(lambda: not self._broken_links)
        try:
            yield
        finally:
            with self._changed:
                self._held = False
                self._changed.notify_all()

    def _run(self):
        try:
            while not self._stopping.wait(self._random.uniform(*self._pause)):
                self._draw()()
        except (OSError, RuntimeError, ValueError) as error:
            self._errors.append(error)

    def _draw(self):
        with self._changed:
            if self._next.empty():
                for fault in self._round():
                    self._next.put(fault)
            return self._next.get()

    @property
    def kinds(self):
        """Every way on every class of links."""
        return {f"{way}_{kind}": lambda way=way, kind=kind: getattr(self, f"_{way}")(kind)
                for way in _WAYS for kind in self._classes}

    def _round(self):
        """All kinds, in another order each time."""
        faults = list(self.kinds.values())
        self._random.shuffle(faults)
        return faults

    @contextlib.contextmanager
    def _link(self, kind):
        """A link of the class that is whole, and the servers whose calls it carries."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held and self._candidates(kind))
            name = self._random.choice(self._candidates(kind))
            self._broken_links.add(name)
        try:
            yield name, self._servers(kind, name)
        finally:
            with self._changed:
                self._broken_links.discard(name)
                self._changed.notify_all()

    def _candidates(self, kind):
        matches, _ = self._classes[kind]
        primary, standby = (node.number for node in
                            (self._system.postgres.primary, self._system.postgres.standby))
        return [name for name in self._links.names
                if matches(name) and name not in self._broken_links
                and not name.endswith(f"-pg{standby}") and name != f"replication{primary}"
                and not self._system.records.is_idle(name)]

    def _servers(self, kind, name):
        server = self._classes[kind][1](*name.partition("-")[::2])
        return None if server is None else [server]

    def _broken(self, kind, way, lines, shortest, longest):
        with self._link(kind) as (name, servers):
            began = time.monotonic_ns()
            for line in lines:
                self._links.command(line.format(name))
            self._stopping.wait(self._random.uniform(shortest, longest))
            self._links.command(f"heal {name}")
            self._journal.fault(f"{way}_{kind}", name, began, time.monotonic_ns(), servers)

    def _cut(self, kind):
        with self._link(kind) as (name, servers):
            began = time.monotonic_ns()
            self._links.command(f"cut {name}")
            self._journal.fault(f"cut_{kind}", name, began, None, servers)

    def _refuse(self, kind):
        self._broken(kind, "refuse", ["refuse {}", "cut {}"], 0.2, 1.2)

    def _stall(self, kind):
        side = self._random.choice(("up", "down", "both"))
        self._broken(kind, "stall", ["stall {} " + side], 0.2, 1.8)

    def _delay(self, kind):
        milliseconds = self._random.randint(20, 150)
        self._broken(kind, "delay", [f"delay {{}} {milliseconds} {milliseconds}"], 0.3, 1.5)

    def _one_way(self, kind):
        side = self._random.choice(("up", "down"))
        self._broken(kind, "one_way", ["one-way {} " + side], 0.2, 1.5)

    def _drop(self, kind):
        side = self._random.choice(("up", "down"))
        self._ruled(kind, "drop", f"drop {{}} {side} bytes={self._random.randint(1, 3000)}")

    def _forward_then_cut(self, kind):
        # HTTP/2 answers with window updates before it answers with a reply.
        hold = " hold=50" if kind in _HTTP2 else ""
        self._ruled(kind, "forward_then_cut",
                    f"forward-then-cut {{}} bytes={self._random.randint(1, 3000)}{hold}")

    def _ruled(self, kind, way, line):
        """A rule that waits for bytes; it was no fault if they did not arrive."""
        with self._link(kind) as (name, servers):
            before = self._links.fired(name)
            began = time.monotonic_ns()
            self._links.command(line.format(name))
            deadline = time.monotonic() + _FIRES_WITHIN
            while (self._links.fired(name) == before and time.monotonic() < deadline
                   and not self._stopping.wait(0.005)):
                pass
            fired = self._links.fired(name) > before
            self._links.command(f"heal {name}")
            if fired:
                self._journal.fault(f"{way}_{kind}", name, began, time.monotonic_ns(), servers)
