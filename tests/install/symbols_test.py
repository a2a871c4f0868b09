"""What the shared libraries export: the public interface under one version, what they need of
each other under a second one, and nothing else (docs/adr/0031-symbols-and-packages.md)."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from .installation import BUILD, built, installed, run, setting

SCRIPT = BUILD / "symbols.map"
# Before the namespace of a mangled name: nothing, or what the symbol is of it.
ENTITY = r"_Z(?:T[VTCISWH]|G[VR]|Th\w+?_|Tv\w+?_)?N[KRO]*"
ARENA = "_ZN6google8protobuf5Arena18CreateMaybeMessageIN"
PUBLIC = re.compile(
    rf"(?:{ENTITY}|{ARENA})11idempotency(?!8internal|4wire)|descriptor_table_idempotency_2fv1_")
OF_GENERATED_CODE = re.compile(
    rf"(?:{ENTITY}|{ARENA})(?:11idempotency4wire|4grpc6health|6google3rpc)"
    r"|descriptor_table_(?:idempotency_2fwire|grpc_2fhealth|google_2frpc)_")
INTERNAL = re.compile(rf"(?:{ENTITY}|{ARENA})11idempotency8internal")
STATIC_VARIABLE = re.compile(r"_Z(?:GV)?Z")

# A library in miniature, with each kind of symbol.
LIBRARY = """
#include <string>
#include <vector>
namespace foreign {
inline int& Counter() { static int counter = std::string().size(); return counter; }
template <typename T> int Twice(T value) { return 2 * value; }
}
namespace idempotency {
struct First { virtual ~First(); virtual int Get() const; };
First::~First() = default;
int First::Get() const { return foreign::Twice(1); }
namespace internal {
struct Second { virtual ~Second(); virtual int Take(std::vector<std::string> values); };
Second::~Second() = default;
int Second::Take(std::vector<std::string> values) { values.emplace_back("x"); return 0; }
struct Both : First, Second { int Take(std::vector<std::string> values) override; };
int Both::Take(std::vector<std::string>) { return 2; }
}
int* LIBRARY() { return &foreign::Counter(); }
}
"""
PROGRAM = """
namespace foreign { inline int& Counter() { static int counter = 1; return counter; } }
namespace idempotency { int* one(); int* other(); }
int main() {
  return idempotency::one() == idempotency::other() &&
                 idempotency::one() == &foreign::Counter() ? 0 : 1;
}
"""


def version():
    found = re.search(r"^(GRPC_IDEMPOTENCY_\d+\.\d+) \{$", SCRIPT.read_text(), re.MULTILINE)
    return found[1]


def exported(library):
    """{mangled name: version} of the symbols that others can link."""
    symbols = {}
    for line in run("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[1:]
        # The versions themselves are absolute symbols.
        if kind != "A":
            symbols[name.partition("@")[0]] = name.rpartition("@")[2] if "@" in name else ""
    return symbols


class VersionScriptTest(unittest.TestCase):
    """With the compiler and the linker of this build, also where it is a static one."""

    def setUp(self):
        if not SCRIPT.exists():
            self.skipTest("the linker has no symbol versions")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compile(self, source, *arguments):
        (self.folder / "source.cc").write_text(source)
        run(setting("CMAKE_CXX_COMPILER"), "-std=c++17", "-O0", "source.cc", *arguments,
            folder=self.folder)

    def library(self, name):
        self.compile(LIBRARY.replace("LIBRARY", name), "-fPIC", "-shared", "-o", f"lib{name}.so",
                     f"-Wl,--version-script={SCRIPT}")
        return self.folder / f"lib{name}.so"

    def test_what_is_exported_and_how(self):
        symbols = exported(self.library("one"))
        public = {name for name, node in symbols.items() if node == version()}
        private = {name for name, node in symbols.items() if node == version() + "_PRIVATE"}
        self.assertEqual(public | private, set(symbols))
        for name in ("_ZNK11idempotency5First3GetEv", "_ZTVN11idempotency5FirstE",
                     "_ZTIN11idempotency5FirstE", "_ZTSN11idempotency5FirstE",
                     "_ZN11idempotency3oneEv"):
            self.assertIn(name, public)
        for name in ("_ZTVN11idempotency8internal4BothE", "_ZTIN11idempotency8internal4BothE",
                     "_ZZN7foreign7CounterEvE7counter", "_ZGVZN7foreign7CounterEvE7counter"):
            self.assertIn(name, private)
        self.assertTrue(any(name.startswith("_ZThn8_N11idempotency8internal4Both4Take")
                            for name in private), sorted(private))
        self.assertEqual([name for name in public if "8internal" in name], [])
        self.assertEqual([name for name in symbols
                          if name.startswith(("_ZNSt", "_ZSt", "_ZN7foreign"))], [])

    def test_a_static_variable_of_an_inline_function_is_one_for_all(self):
        self.library("one")
        self.library("other")
        self.compile(PROGRAM, "-o", "program", "-L.", "-lone", "-lother",
                     "-Wl,-rpath,$ORIGIN", "-Wl,-z,defs")
        run(self.folder / "program")


@unittest.skipUnless(setting("BUILD_SHARED_LIBS") == "ON" and not setting("IDEMPOTENCY_SANITIZE"),
                     "not a build whose libraries have versions")
class SharedLibrariesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="idempotency-symbols.")
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name) / "usr"
        installed(cls.prefix)
        cls.libraries = sorted(path for path in cls.prefix.rglob("libidempotency_*.so*")
                               if not path.is_symlink())

    def test_there_are_libraries(self):
        self.assertGreater(len(self.libraries), 15)

    def test_every_symbol_has_one_of_the_two_versions(self):
        public = version()
        for library in self.libraries:
            symbols = exported(library)
            self.assertGreater(len(symbols), 0, library)
            for name, node in symbols.items():
                expected = None
                if PUBLIC.match(name):
                    expected = public
                elif (INTERNAL.match(name) or OF_GENERATED_CODE.match(name)
                      or STATIC_VARIABLE.match(name)):
                    expected = public + "_PRIVATE"
                self.assertEqual(node, expected, f"{library.name}: {name}")

    def test_no_variable_of_others_is_hidden(self):
        # Constants may be there once for each library. What can be written must not be.
        for library in self.libraries:
            sections = {found[1] for found in re.finditer(
                r"^ +\[ *(\d+)\] \.(?:t?data|t?bss) ", run("readelf", "-SW", library),
                re.MULTILINE)}
            for line in run("readelf", "-sW", library).splitlines():
                fields = line.split()
                if (len(fields) != 8 or fields[3] not in ("OBJECT", "TLS")
                        or fields[4] != "LOCAL" or fields[6] not in sections):
                    continue
                name = fields[7]
                if name.startswith("_ZN"):
                    # Ours, or of one file: in an unnamed namespace, or static.
                    self.assertRegex(
                        name, r"^_ZN(?:11idempotency|\w*12_GLOBAL__N_1|\w*L\d+\w+E$)",
                        f"{library.name}: {name}")

    def test_the_public_headers_need_only_the_public_version(self):
        # An example of every one.
        examples = BUILD / "examples/api/libidempotency_api_examples.so"
        if not examples.exists():
            self.skipTest("the examples have not been built")
        needs = run("nm", "-D", "--undefined-only", examples)
        self.assertIn(f"@{version()}\n", needs)
        self.assertNotIn("_PRIVATE", needs)

    def test_programs_need_only_the_public_version(self):
        for name, program in (("client", "orders_client"), ("guarded_server", "orders_server")):
            needs = run("readelf", "-VW", built(self, name, self.prefix) / program)
            self.assertIn(f"Name: {version()} ", needs)
            self.assertNotIn("_PRIVATE", needs)


if __name__ == "__main__":
    sys.exit(unittest.main())
