import json
import pathlib
import subprocess
import tempfile
import unittest

from tests.mutations.workshop import Failed

from .variant import Links, Variant

_SOURCES = {
    "core/price.h": "inline int Fee() { return 3; }\nint Price();\n",
    "core/price.cc": '#include "core/price.h"\nint Price() { return 7; }\n',
    "tests/price_test.cc": '#include "core/price.h"\n'
                           "int main() { return 10 * Price() + Fee(); }\n",
    "server/other.cc": "int main() { return 1; }\n",
    "server/unused.cc": "int Unused() { return 1; }\n",
}
# The library has the name that CMake gives to one with a version.
_MADE = {
    "core/libcore.so.0.1.0": ("core/price.o",),
    "bin/price_test": ("price_test.o", "core/libcore.so.0.1.0"),
    "bin/other": ("other.o",),
}


class FakeBuild:
    """A library, a test that is linked with it, and a program that is not."""

    def __init__(self, tree, folder):
        self.commands = {}
        for source, made in (("core/price.cc", "core/price.o"),
                             ("tests/price_test.cc", "price_test.o"),
                             ("server/other.cc", "other.o"),
                             ("server/unused.cc", "unused.o")):
            self.commands[source] = (
                made, f"g++ -I{tree} -fPIC -MD -MF {made}.d -o {made} -c {tree}/{source}",
                str(folder))

    def object_of(self, file):
        return self.commands[file][0] if file in self.commands else None

    def users(self, file):
        return {file} if file in self.commands else {"core/price.cc", "tests/price_test.cc"}


class FakeWorkshop:

    def __init__(self, folder):
        self.tree = folder / "tree"
        self.build_folder = folder / "build"


class VariantTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.workshop = FakeWorkshop(pathlib.Path(folder.name))
        for name, text in _SOURCES.items():
            (cls.workshop.tree / name).parent.mkdir(parents=True, exist_ok=True)
            (cls.workshop.tree / name).write_text(text)
        build = cls.workshop.build_folder
        for name in ("core", "bin"):
            (build / name).mkdir(parents=True)
        cls.build = FakeBuild(cls.workshop.tree, build)
        edges = []
        for made, inputs in _MADE.items():
            flags = ("-shared -Wl,-soname,libcore.so.0.1" if ".so." in made
                     else f"-Wl,-rpath,{build}/core")
            edges.append({"output": made,
                          "command": f": && g++ {flags} -o {made} {' '.join(inputs)} && :"})
        for command in [entry[1] for entry in cls.build.commands.values()] + [
                edge["command"] for edge in edges]:
            subprocess.run(["sh", "-c", command], cwd=build, check=True)
        (build / "core/libcore.so.0.1").symlink_to("libcore.so.0.1.0")
        cls.links = Links(json.dumps(edges))

    def setUp(self):
        self.variant = Variant(self.workshop, self.build, self.links)
        self.variant.__enter__()
        self.addCleanup(self.variant.__exit__, None, None, None)

    def plant(self, file, before, after):
        self.variant.replace(file, _SOURCES[file].replace(before, after))

    def ends_with(self, program="price_test"):
        return self.variant.test([program], 30)[0]

    def test_with_nothing_planted_it_is_the_build(self):
        self.variant.build(["price_test"])
        self.assertEqual(self.ends_with(), 73)
        self.assertEqual(self.variant.object_path("core/price.o"),
                         self.workshop.build_folder / "core/price.o")

    def test_a_source_is_planted_in_its_library(self):
        self.plant("core/price.cc", "7", "8")
        self.variant.build(["core/price.o"])
        self.assertNotEqual(self.variant.object_path("core/price.o").read_bytes(),
                            (self.workshop.build_folder / "core/price.o").read_bytes())
        self.variant.build(["price_test"])
        self.assertEqual(self.ends_with(), 83)

    def test_a_header_is_planted_in_all_that_include_it(self):
        self.plant("core/price.h", "3", "4")
        self.variant.build(["price_test"])
        self.assertEqual(self.ends_with(), 74)

    def test_a_program_is_planted_if_the_test_starts_it(self):
        self.plant("server/other.cc", "1", "2")
        self.variant.build(["price_test"])
        self.assertEqual(self.ends_with("other"), 1)
        (self.workshop.build_folder / "bin/price_test.programs").write_text("other\n")
        self.addCleanup((self.workshop.build_folder / "bin/price_test.programs").unlink)
        self.variant.build(["price_test"])
        self.assertEqual(self.ends_with("other"), 2)

    def test_a_source_that_nothing_links_is_an_error_of_the_tool(self):
        self.plant("server/unused.cc", "1", "2")
        with self.assertRaisesRegex(RuntimeError, "nothing links server/unused.cc"):
            self.variant.build(["price_test"])

    def test_two_at_a_time(self):
        with Variant(self.workshop, self.build, self.links) as other:
            other.replace("core/price.cc", _SOURCES["core/price.cc"].replace("7", "9"))
            self.plant("core/price.cc", "7", "8")
            for variant in (other, self.variant):
                variant.build(["price_test"])
            self.assertEqual((self.ends_with(), other.test(["price_test"], 30)[0]), (83, 93))

    def test_it_is_as_before_when_it_is_taken_out(self):
        self.plant("core/price.cc", "7", "8")
        self.variant.build(["price_test"])
        self.variant.take_out()
        self.variant.build(["price_test"])
        self.assertEqual(self.ends_with(), 73)
        self.assertEqual((self.workshop.tree / "core/price.cc").read_text(),
                         _SOURCES["core/price.cc"])

    def test_what_does_not_compile(self):
        self.plant("core/price.cc", "7", "seven")
        with self.assertRaisesRegex(Failed, "seven"):
            self.variant.build(["core/price.o"])


if __name__ == "__main__":
    unittest.main()
