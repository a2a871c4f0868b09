"""Faults of processes: one after the other."""

import time


class Turns:
    """On one thread. `groups` have `kinds`, the name and the action of each fault, and
    `impossible`, the faults that cannot be injected here and why."""

    def __init__(self, groups, random, often=()):
        """Kinds in `often` come twice in each round."""
        self._random = random
        self._often = often
        self.kinds = {name: fault for group in groups for name, fault in group.kinds.items()}
        self.impossible = {name: why for group in groups for name, why in group.impossible.items()}

    def run(self, until, pause=(0.5, 1.5), after_each=lambda: None):
        """Every kind in turn until time.monotonic() is `until`."""
        waiting = []
        while time.monotonic() < until:
            if not waiting:
                waiting = [*self.kinds, *(name for name in self._often if name in self.kinds)]
                self._random.shuffle(waiting)
            self.kinds[waiting.pop()]()
            after_each()
            time.sleep(self._random.uniform(*pause))
