"""One name, one class: a program may link every part (an embedded service beside a guard), and two
definitions of one qualified name in it are undefined behaviour that no linker reports."""

import collections
import re
import unittest

from tests.architecture.includes_test import PUBLIC, ROOT, public_headers, sources

# In this order: a quote in a comment begins no literal, and two slashes in a literal no comment.
NOT_CODE = re.compile(
    r'R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"'      # a raw literal
    r'|"(?:\\.|[^"\\\n])*"'                      # a literal
    r"|(?<![0-9A-Za-z])'(?:\\.|[^'\\\n])+'"      # a character; the quote in 1'000 is none
    r"|//[^\n]*|/\*.*?\*/"                       # comments
    r"|^[ \t]*#(?:\\\n|[^\n])*",                 # the preprocessor's lines
    re.DOTALL | re.MULTILINE)

# What stands between the end of a statement and a brace.
NAMESPACE = re.compile(r"\bnamespace(?P<name>(?:\s+[\w:]+)?)\s*$")
# Not in a template's own list (`template <class T>`), and not in a parameter's or result's type.
TYPE = re.compile(
    r"^\s*(?:template\s*<.*>\s*)?(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+"
    r"(?:\[\[.*?\]\]\s*|alignas\s*\([^()]*\)\s*|[A-Z_]{4,}(?:\([^()]*\))?\s+)*"
    r"(?P<name>\w[\w:]*(?:\s*<[^;{}]*?>)?)\s*(?:final\b\s*)?(?::(?!:).*)?$",
    re.DOTALL)
ACCESS = re.compile(r"^\s*(?:public|private|protected)\s*:")


def code_of(text):
    return NOT_CODE.sub(lambda found: '""' if found[0].startswith(('"', "R")) else " ", text)


def types_in(text):
    """The qualified names of the types that `text` defines outside of functions and of anonymous
    namespaces, whose names are of one file."""
    scopes = []  # A name; None: an anonymous namespace, a function, an initializer.
    begin = 0
    code = code_of(text)
    for found in re.finditer(r"[{};]", code):
        if found[0] == "{":
            head = ACCESS.sub("", code[begin:found.start()])
            namespace, defined = NAMESPACE.search(head), TYPE.match(head)
            scope = (namespace or defined or {"name": ""})["name"].strip() or None
            if defined and scope and None not in scopes:
                yield "::".join([*scopes, re.sub(r"\s+", "", scope)])
            scopes.append(scope)
        elif found[0] == "}":
            scopes.pop()
        begin = found.end()
    assert not scopes, f"braces are left open: {scopes}"


class OneDefinitionTest(unittest.TestCase):

    def test_each_name_has_one_definition(self):
        # One file has a name twice only in branches of its preprocessor: the compiler sees one.
        definitions = collections.defaultdict(set)
        for file in [*sources(), *(PUBLIC + header for header in sorted(public_headers()))]:
            for name in types_in((ROOT / file).read_text(encoding="utf-8")):
                definitions[name].add(file)
        self.assertIn("idempotency::internal::MemoryStore", definitions)
        self.assertIn("idempotency::ServerGuard", definitions)
        self.assertEqual(
            {name: sorted(files) for name, files in definitions.items() if len(files) > 1}, {},
            "one qualified name, two types: rename one, or put that of a .cc file in an "
            "anonymous namespace")

    def test_the_scanner_finds_types_where_they_stand(self):
        self.assertEqual(list(types_in("""
            #define OPEN {
            namespace a::b {
            // struct InAComment {
            class Declared;
            template <class T> struct Template : Base<T> { int x = {1'000}; };
            template <> struct Template<int> {};
            class ABSL_LOCKABLE Locked final : public Declared {
             public:
              enum class Nested : int { kOne };
              void F() { struct Local {}; const char* text = "{"; char c = '{'; }
            };
            struct Outer::Inner {};
            namespace { struct Hidden { struct InHidden {}; }; }
            namespace c { struct Seen {}; }
            }
        """)), ["a::b::Template", "a::b::Template<int>", "a::b::Locked", "a::b::Locked::Nested",
                "a::b::Outer::Inner", "a::b::c::Seen"])


if __name__ == "__main__":
    unittest.main()
