"""docs/envoy.md: its blocks, pasted into one shell.

With the grpcurl of this machine, or of Go."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from tests.support.recipe_page import blocks

from . import envoy
from .held_port import HeldPort
from .services import GRPCURL, Toolbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTIONS = ("Five minutes", "For production", "Istio and Envoy Gateway")
PASTED_WITHIN_S = 240
MARK = "@@ the end of a recipe:"
PORTS = ("PAYMENTS", "PROCESSOR", "DAEMON", "ENVOY", "ADMIN")


class DocumentTest(unittest.TestCase):

    def test_every_block_does_what_it_says(self):
        build = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"])
        recipes = [block for section in SECTIONS
                   for block in blocks(ROOT / "docs/envoy.md", section)]
        self.assertGreaterEqual(len(recipes), 12)
        self.assertEqual([block.text for block in recipes if not block.is_recipe], [])
        script = "".join(f"{one.text}\nprintf '\\n{MARK} %s\\n' $?\n" for one in recipes)
        ports = {name: HeldPort() for name in PORTS}
        for port in ports.values():
            self.addCleanup(port.close)
        with tempfile.TemporaryDirectory() as folder:
            tools = pathlib.Path(folder) / "tools"
            tools.mkdir()
            grpcurl = shutil.which("grpcurl") or Toolbox(build).program(GRPCURL)
            for program in (build / "bin/idempotencyd", build / "bin/idempotencyctl", grpcurl,
                            envoy.binary()):
                (tools / pathlib.Path(program).name).symlink_to(program)
            done = subprocess.run(
                ["bash", "--norc", "-s"], input=script, cwd=folder, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PASTED_WITHIN_S,
                env={**os.environ, "SOURCE": str(ROOT), "PATH": f"{tools}:{os.environ['PATH']}",
                     "no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1",
                     **{name: port.address for name, port in ports.items()}})
        printed = re.split(rf"\n{MARK} (\d+)\n", done.stdout)
        self.assertEqual(len(printed) // 2, len(recipes), done.stdout)
        faults = [fault for recipe, output, status in zip(recipes, printed[::2], printed[1::2])
                  for fault in recipe.faults(output, int(status))]
        self.assertEqual(faults, [], "\n".join(faults))


if __name__ == "__main__":
    unittest.main()
