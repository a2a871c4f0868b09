import json
import pathlib
import tempfile
import unittest

from .suites import Includes, of_ctest, sources_of


def described(name, labels):
    return {"name": name, "properties": [{"name": "LABELS", "value": labels}]}


class CtestTest(unittest.TestCase):

    def test_those_with_a_label_that_counts(self):
        description = json.dumps({"tests": [
            described("a_test", ["tsan", "unit"]), described("b_test", ["chaos", "unit"]),
            described("simulation_test", ["simulation"]), {"name": "c_test"},
            described("store_test", ["unit", "conformance"])]})
        self.assertEqual([(target, label) for target, label, _ in of_ctest(description)],
                         [("a_test", "unit"), ("simulation", "simulation"),
                          ("store_test", "unit")])

    def test_tests_end_with_the_first_that_fails(self):
        (_, _, arguments), = of_ctest(json.dumps({"tests": [described("a_test", ["unit"])]}))
        self.assertIn("--gtest_fail_fast", arguments)


class InputsTest(unittest.TestCase):

    def test_its_own_sources_and_those_of_libraries(self):
        objects = {"core/CMakeFiles/core.dir/a.cc.o": "core/a.cc",
                   "core/CMakeFiles/a_test.dir/a_test.cc.o": "core/a_test.cc",
                   "core/CMakeFiles/other.dir/b.cc.o": "core/b.cc"}
        own, every = sources_of("core/libcore.a\ncore/CMakeFiles/core.dir/a.cc.o\n"
                                "core/CMakeFiles/a_test.dir/a_test.cc.o\n", "a_test", objects)
        self.assertEqual(own, {"core/a_test.cc"})
        self.assertEqual(every, {"core/a.cc", "core/a_test.cc"})


class IncludesTest(unittest.TestCase):

    def test_also_by_way_of_others(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "a.h").write_text('#include "b.h"\n')
            (root / "b.h").write_text('#include "a.h"\n#include <vector>\n')
            (root / "c.cc").write_text('#include "a.h"\n')
            includes = Includes(root, ["a.h", "b.h", "c.cc"])
            self.assertEqual(includes.of("c.cc"), {"a.h", "b.h"})
            self.assertEqual(includes.of("b.h"), {"a.h", "b.h"})

    def test_a_public_header_is_included_without_its_first_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for file, text in (("include/product/a.h", ""), ("core/a.cc", "a.h"),
                               ("core/b.cc", "a.h")):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(f'#include "product/{text}"\n' if text else "")
            includes = Includes(root, ["include/product/a.h", "core/a.cc", "core/b.cc"])
            self.assertEqual(includes.of("core/b.cc"), {"include/product/a.h"})
            self.assertEqual(includes.own_headers("core/a.cc"), {"include/product/a.h"})
            self.assertEqual(includes.own_headers("core/b.cc"), set())
