"""docs/production.md, as its reader follows it: every recipe
pasted in order into one shell of root, in a clean Debian 12 that is booted as a container.
As root; scripts/packages.sh --test runs it."""

import pathlib
import re
import tempfile
import unittest

from tests.support.recipe_page import blocks

from .chroot import Chroot
from .machine import Machine
from .packages import CTL, DAEMON, LIBRARIES, package, packaged_again

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/production.md"
INSTALLATION = re.compile(r"^apt-get install (.*)$", re.M)
MARK = "@@ the end of a recipe:"
# Reads each recipe as a shell reads what is pasted, and reports the commands that failed in it.
SHELL = f"""
cd /root
trap 'failed="$failed [$BASH_COMMAND]"' ERR
for recipe in /recipes/*; do
  failed=
  . "$recipe" < /dev/null
  printf '\\n{MARK} %s %s\\n' $? "${{failed//$'\\n'/ }}"
done
"""


def installed(recipes):
    """What the page installs with apt, options included."""
    text = "".join(recipe.text for recipe in recipes).replace("\\\n", " ")
    return " ".join(words.split(">")[0] for words in INSTALLATION.findall(text)
                    if "/new/" not in words)


class ProductionTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.recipes = [block for block in blocks(PAGE) if block.is_recipe]
        debian = Chroot()
        cls.addClassCleanup(debian.remove)
        # What a bare Debian has, and debootstrap's smallest variant does not.
        debian.install("systemd", "systemd-sysv", "dbus")
        cls.copy(debian)
        # The booted container has no network: its apt takes from here what the page installs.
        words = installed(cls.recipes)
        debian.run("sh", "-c", f"cd /root && apt-get install --download-only {words}")
        # Refused at once, so that `apt-get update` does not wait for an answer.
        debian.path("/etc/resolv.conf").write_text("nameserver 127.0.0.1\n")
        debian.path("/usr/sbin/policy-rc.d").unlink()
        cls.machine = Machine(debian)
        cls.addClassCleanup(cls.machine.power_off)

    @classmethod
    def copy(cls, debian):
        """The packages, newer ones, and the recipes, each as a file."""
        with tempfile.TemporaryDirectory() as folder:
            newer = packaged_again(pathlib.Path(folder), 2)
            for path, names, source in (("/root/packages", (DAEMON, CTL, LIBRARIES), None),
                                        ("/root/packages/new", (DAEMON, CTL), newer)):
                debian.path(path).mkdir()
                for name in names:
                    deb = package(name, source) if source else package(name)
                    debian.path(f"{path}/{deb.name}").write_bytes(deb.read_bytes())
        debian.path("/recipes").mkdir()
        for number, recipe in enumerate(cls.recipes):
            debian.path(f"/recipes/{number:02}").write_text(recipe.text)

    def test_every_recipe_does_what_the_page_says(self):
        printed = self.machine.paste(SHELL, timeout=1800)
        results = re.split(rf"\n{MARK} (\d+) (.*)\n", printed)
        self.assertEqual(len(results) // 3, len(self.recipes), f"the shell ended:\n{printed}")
        faults = []
        for recipe, output, status, failed in zip(self.recipes, results[::3], results[1::3],
                                                  results[2::3]):
            faults += recipe.faults(output, int(status))
            if failed and recipe.status == 0:
                faults.append(f"line {recipe.line}: failed:{failed}\n{output}")
        self.assertEqual(faults, [], "\n".join(faults))


if __name__ == "__main__":
    unittest.main()
