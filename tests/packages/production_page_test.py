"""docs/production.md, without a machine: what production_test
pastes is all of it, is bash, and names flags, files and settings that exist."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from tests.support.recipe_page import blocks

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/production.md"
BIN = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"]) / "bin"
PACKAGING = (ROOT / "cmake/IdempotencyPackages.cmake").read_text()
DOCUMENT = re.compile(r"cat > (\S+) <<'END'\n(.*?)^END$", re.M | re.S)
# Words of each program's command line before its flags.
COMMANDS = re.compile(r"\b(idempotency(?:d|ctl)) ((?:[a-z][a-z-]* )+)((?:[^|&;\n]|\\\n)*)")


def output(*command):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, timeout=60).stdout


class ProductionPageTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.blocks = blocks(PAGE)
        cls.text = "".join(block.text for block in cls.blocks)
        cls.documents = dict(DOCUMENT.findall(cls.text))

    def test_every_block_is_pasted_or_has_a_reason(self):
        self.assertGreater(len(self.blocks), 20)
        for block in self.blocks:
            self.assertRegex(block.opening, r'^sh (recipe( exit=\d+)?|not-run=".{10,}")$',
                             f"line {block.line}")

    def test_most_recipes_state_what_they_print(self):
        recipes = [block for block in self.blocks if block.is_recipe]
        self.assertGreater(sum(bool(block.expected) for block in recipes), len(recipes) * 3 / 4)

    def test_every_block_is_bash(self):
        for block in self.blocks:
            done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), f"line {block.line}")

    def test_every_block_of_the_restore_is_bash(self):
        shell = [block for block in blocks(ROOT / "docs/restore.md") if block.opening == "sh"]
        self.assertGreaterEqual(len(shell), 5)
        for block in shell:
            done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True,
                                  check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), f"line {block.line}")

    def test_every_flag_exists(self):
        checked = 0
        for program, words, rest in COMMANDS.findall(self.text):
            known = output(BIN / program, *words.split(), "--help")
            for flag in re.findall(r"--\w+", rest):
                self.assertRegex(known, rf"(?m)^  {flag}\b", f"{program} {words}")
                checked += 1
        self.assertGreater(checked, 8)
        known = output(BIN / "idempotencyd", "serve", "--help")
        flags = re.findall(r"--\w+", self.documents["/etc/default/idempotencyd"])
        self.assertGreater(len(flags), 3)
        for flag in flags:
            self.assertIn(f"  {flag}", known)

    def test_a_backup_that_fails_leaves_no_part_and_removes_the_old_ones(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "idempotency-backup").write_text(
                self.documents["/usr/local/sbin/idempotency-backup"])
            dumps = folder / "dumps"
            dumps.mkdir()
            for age, dump in enumerate(["2026-01-04", "2026-01-03", "2026-01-02", "2026-01-01"]):
                path = dumps / f"{dump}.dump"
                path.touch()
                then = path.stat().st_mtime - age * 86400
                os.utime(path, (then, then))
            (dumps / "killed.part").touch()

            def run(pg_dump):
                (folder / "pg_dump").write_text(f"#!/bin/sh\n{pg_dump}\n")
                (folder / "pg_dump").chmod(0o755)
                return subprocess.run(
                    ["sh", folder / "idempotency-backup", dumps], capture_output=True, text=True,
                    check=False, timeout=60, env={"PATH": f"{folder}:{os.environ['PATH']}"})

            failed = run('touch "${2#--file=}"; exit 1')
            self.assertEqual(failed.returncode, 1, failed.stderr)
            self.assertEqual(sorted(path.name for path in dumps.iterdir()),
                             ["2026-01-03.dump", "2026-01-04.dump"])
            done = run('touch "${2#--file=}"')
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(list(dumps.glob("*.dump"))), 3)
            self.assertEqual(len(list(dumps.iterdir())), 3)

    def test_the_newest_dump_stays_however_old(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            script = folder / "idempotency-backup"
            script.write_text(self.documents["/usr/local/sbin/idempotency-backup"])
            dumps = folder / "dumps"
            dumps.mkdir()
            for dump in ("2026-01-01.dump", "2026-01-02.dump"):
                (dumps / dump).touch()
                os.utime(dumps / dump, (0, 0))
            (folder / "pg_dump").write_text("#!/bin/sh\nexit 1\n")
            (folder / "pg_dump").chmod(0o755)
            subprocess.run(["sh", script, dumps], check=False, timeout=60,
                           env={"PATH": f"{folder}:{os.environ['PATH']}"})
            self.assertEqual([path.name for path in dumps.iterdir()], ["2026-01-02.dump"])

    def test_the_configuration_is_valid(self):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
            file.write(self.documents["/etc/idempotency/idempotencyd.textproto"])
            file.flush()
            done = subprocess.run([BIN / "idempotencyd", "check-config", f"--config={file.name}"],
                                  capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_restore_has_the_statement_of_its_description(self):
        """tests/integration/restore_test.cc executes that one."""
        described = (ROOT / "docs/restore.md").read_text()
        statement = re.search(r'^UPDATE :"schema"\.records$.*?;$', described, re.M | re.S)[0]
        self.assertIn(f"\n{statement}\n", self.text)

    def test_settings_are_of_the_unit(self):
        unit = (ROOT / "deploy/idempotencyd@.service").read_text()
        names = set(re.findall(r"IDEMPOTENCYD_\w+", self.text))
        self.assertGreater(len(names), 4)
        for name in names:
            self.assertRegex(unit, rf"\$\{{?{name}\b", name)

    def test_the_packages_have_the_files(self):
        files = re.findall(r"/usr/share/[\w./-]*\w", self.text)
        self.assertGreater(len(files), 1)
        for file in map(pathlib.PurePosixPath, files):
            folder = file if file.suffix == "" else file.parent
            self.assertRegex(PACKAGING, rf"{re.escape(str(folder))}(?![\w/-])")
            if file.suffix:
                self.assertIn(f"/{file.name}", PACKAGING)


if __name__ == "__main__":
    unittest.main()
