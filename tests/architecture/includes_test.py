"""Includes go one way, as in docs/architecture.md: between the parts of the
product, and between the folders of the guard."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)

# The headers for users. Beside these a public header includes only files that are generated
# from proto/.
PUBLIC = "include/"

# The parts that a part may use beside itself, public headers and files generated from proto/.
# The longest name that fits a file is its part.
PARTS = {
    "core": set(),
    "client": {"core"},
    "command_line": set(),
    "ctl": {"client", "command_line", "core", "explanation", "server"},
    "embedded": {"client", "core", "server", "server/store"},
    "explanation": {"core"},
    "idempotencyd": {"core", "embedded", "interceptors/ext_proc", "server"},
    "interceptors/client": {"client", "core"},
    "interceptors/ext_proc": {"client", "core", "interceptors/server", "interceptors/server/log"},
    "interceptors/server": {"client", "core", "interceptors/server/ledger",
                            "interceptors/server/log", "tracing"},
    "interceptors/server/ledger": {"core", "interceptors/server/log", "postgres"},
    "interceptors/server/log": {"core"},
    "interceptors/server/otlp": {"core", "tracing"},
    "postgres": {"core"},
    "server": {"command_line", "core", "explanation", "server/store", "tracing"},
    "server/store": {"core", "postgres"},
    "tracing": {"core"},
}

# A folder uses those further down, and none beside it. What users of the guard include stands
# beside its folders, and all of them know it.
ORDERS = {
    "interceptors/server/": [
        ("grpc_internals",), ("call",), ("admission",), ("execution",), ("reservation",), ("connection",),
        ("policy",), ("request",), ("wire", "threads"), ("ledger", "otlp"), ("log",),
    ],
    "interceptors/ext_proc/": [("service",), ("policy",), ("front", "request"), ("exchange",)],
    "server/": [
        ("process",), ("config",), ("service", "worlds"), ("rpc", "console"), ("operation",), ("access", "tenants"),
        ("queue",),
        ("observability", "files"), ("sealing",), ("store",),
    ],
    "server/store/": [("memory", "postgres", "redis", "sqlite")],
    "server/store/postgres/": [
        ("schema",), ("batched", "single_row"), ("records",), ("statements",), ("connection",),
    ],
    "client/": [("connection", "retries", "key_store", "downstream")],
}
RANKS = {part: {folder: rank for rank, folders in enumerate(order) for folder in folders}
         for part, order in ORDERS.items()}


def all_sources():
    """The files of the parts, with their tests and the files that only tests link."""
    listed = subprocess.run(["git", "ls-files", "*.h", "*.cc"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    return [file for file in listed if part_of(file)]


def of_tests(file):
    return file.endswith("_test.cc") or "/testing/" in file


def sources():
    """The product's own files."""
    return [file for file in all_sources() if not of_tests(file)]


def part_of(path):
    """The part of a file or of an included header; None if it belongs to none."""
    fitting = [part for part in PARTS if path.startswith(part + "/")]
    return max(fitting, key=len, default=None)


def public_headers():
    """By the name in an #include."""
    listed = subprocess.run(["git", "ls-files", PUBLIC], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split()
    return {file.removeprefix(PUBLIC) for file in listed}


def folder_of(path, part):
    """The folder of a part that has an order of folders; None for what stands beside them, and
    for files of other parts."""
    if not path.startswith(part):
        return None
    folder, slash, _ = path.removeprefix(part).partition("/")
    return folder if slash else None


def includes(file):
    return INCLUDE.findall((ROOT / file).read_text(encoding="utf-8"))


class IncludesTest(unittest.TestCase):

    def test_parts_use_only_those_below(self):
        seen = set()
        for file in all_sources():
            part = part_of(file)
            seen.add(part)
            for header in includes(file):
                used = part_of(header)
                self.assertTrue(used in (None, part) or used in PARTS[part],
                                f"{file} includes {header}: {part} may not use {used}")
        self.assertEqual(seen, set(PARTS), "a part has no files: is it still called so?")

    def test_tests_of_a_part_use_the_support_of_all_tests_only(self):
        """Tests of a part may also use tests/support/, and no other folder above the parts."""
        for file in filter(of_tests, all_sources()):
            for header in includes(file):
                self.assertFalse(header.startswith(("tests/", "examples/", "bench/"))
                                 and not header.startswith("tests/support/"),
                                 f"{file} includes {header}")

    def test_public_headers_use_only_public_ones(self):
        public = public_headers()
        self.assertTrue(public)
        for header in public:
            for used in includes(PUBLIC + header):
                self.assertTrue(used in public or part_of(used) is None,
                                f"{PUBLIC}{header} includes {used}, which is not installed")

    def test_each_public_header_has_an_example(self):
        listed = subprocess.run(["git", "ls-files", "examples/*.cc", "examples/*.h"], cwd=ROOT,
                                check=True, capture_output=True, text=True).stdout.split()
        shown = {header for file in listed for header in includes(file)}
        self.assertEqual(sorted(public_headers() - shown), [])

    def test_what_is_not_public_is_in_internal(self):
        for file in sources():
            text = (ROOT / file).read_text(encoding="utf-8")
            if file.endswith(".h"):
                self.assertIsNone(re.search(r"^namespace idempotency \{", text, re.MULTILINE),
                                  f"{file} is no public header: its namespace is internal")

    def test_folders_use_only_those_below(self):
        for part, ranks in RANKS.items():
            seen = set()
            for file in all_sources():
                folder = folder_of(file, part)
                if folder in (None, "testing", "testdata"):
                    continue
                seen.add(folder)
                for header in includes(file):
                    used = folder_of(header, part)
                    if used == "testing" and of_tests(file):
                        continue
                    self.assertTrue(used in (None, folder) or ranks[folder] < ranks[used],
                                    f"{file} includes {header}: {folder}/ may not use {used}/")
            self.assertEqual(seen, set(ranks),
                             f"a folder of {part} has no place in the order, or no files")

    def test_the_interface_of_stores_uses_no_store(self):
        """What stands beside the stores' folders is the interface, and what all stores share."""
        for file in sources():
            if part_of(file) == "server/store" and folder_of(file, "server/store/") is None:
                for header in includes(file):
                    self.assertIsNone(folder_of(header, "server/store/"),
                                      f"{file} includes {header}")

    def test_applications_give_the_logger(self):
        """Code in an application's process logs through the application's function."""
        for file in sources():
            if not file.startswith("server/") and file != "core/application_log.cc":
                self.assertNotIn("spdlog/", (ROOT / file).read_text(encoding="utf-8"),
                                 f"{file} logs past core/application_log.h")

    def test_the_page_has_each(self):
        page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
        for part in PARTS:
            self.assertTrue(f"| `{part}/`" in page, f"no row for {part}/")
        for part, ranks in RANKS.items():
            for folder in ranks:
                self.assertTrue(f"`{folder}/`" in page, f"nothing about {part}{folder}/")


if __name__ == "__main__":
    unittest.main()
