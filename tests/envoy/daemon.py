"""An idempotencyd that is the external processor of a test's Envoy."""

import os
import pathlib
import re

from .child import Child
from .held_port import HeldPort

# The caller's scope is a header that the test sends; Envoy is the only proxy.
CONFIG = """
external_processor {{
  namespace: "shop"
  on_unknown_outcome: {on_unknown_outcome}
  scope {{ header: "x-tenant" }}
  {methods}
}}
"""


class Daemon:
    """`methods` are the grpc_methods and http_routes of its configuration. Its ports are the same
    after a restart."""

    def __init__(self, folder, methods, on_unknown_outcome="LEASE_EXPIRY_REQUIRE_RECOVERY",
                 config=None, store=None, flags=()):
        self._folder = pathlib.Path(folder)
        self._held = (HeldPort(), HeldPort())
        self.address, self.processor = (one.address for one in self._held)
        (self._folder / "idempotencyd.textproto").write_text(
            config or CONFIG.format(methods=methods, on_unknown_outcome=on_unknown_outcome))
        self._flags = flags
        self._store = store or f"sqlite:{self._folder}/records.db"
        self.child = None
        self.start()

    def start(self):
        program = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"]) / "bin/idempotencyd"
        with open(self._folder / "idempotencyd.log", "ab") as log:
            self.child = self._child(program, log)
        self.metrics = re.search(r"metrics on (\S+?)(,|\s|$)", self.child.ready)[1]

    def _child(self, program, log):
        return Child(
            [program, "serve", f"--listen={self.address}", "--metrics=127.0.0.1:0",
             f"--ext_proc={self.processor}", f"--store={self._store}",
             f"--config={self._folder}/idempotencyd.textproto", *self._flags], "serving on ",
            stderr=log)

    def log(self):
        return (self._folder / "idempotencyd.log").read_text()

    def kill(self):
        self.child.kill()

    def close(self):
        self.child.close()
        for one in self._held:
            one.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
