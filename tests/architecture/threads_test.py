"""docs/threads.md has the name of every thread of the product, as `top -H` shows it."""

import pathlib
import re
import unittest

from .includes_test import sources

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/threads.md"
# Of the system, without the terminating zero.
MAX_NAME = 15

# A call, with its last argument.
NAMED = re.compile(r"\bpthread_setname_np\([^;]*?,\s*([^;]*)\);")
LITERAL = re.compile(r'"([^"]+)"$')
NUMBERED = re.compile(r'absl::StrCat\("([^"]+-)", [\w.]+\)\.c_str\(\)$')


def text_of(file):
    return (ROOT / file).read_text(encoding="utf-8")


def given_names(file):
    """The names that the users of a file's class give to its threads: as a member or a pointer."""
    name_of_class = "".join(word.title() for word in pathlib.Path(file).stem.split("_"))
    texts = [text_of(source) for source in sources()]
    members = {member for text in texts
               for member in re.findall(rf"\b{name_of_class}>? (\w+)(?: ABSL_\w+\(\w+\))?;", text)}
    patterns = [rf'\b{member}(?:\.emplace)?\("([^"]+)"' for member in members]
    patterns.append(rf'\bmake_(?:shared|unique)<{name_of_class}>\([^;]*?"([^"]+)"')
    names = {name for text in texts for pattern in patterns for name in re.findall(pattern, text)}
    if not names:
        raise AssertionError(f"{file}: this test cannot find the names that it is given")
    ending = "-" if '"-" + std::to_string' in text_of(file) else ""
    return {name + ending for name in names}


def names_of(file):
    """The names of the threads that a file starts."""
    names = set()
    for argument in NAMED.findall(text_of(file)):
        if literal := LITERAL.match(argument):
            names.add(literal[1])
        elif numbered := NUMBERED.match(argument):
            names.add(numbered[1])
        else:
            names |= given_names(file)
    return {name + "N" if name.endswith("-") else name for name in names}


def named_in_code():
    return {name: file for file in sources() for name in names_of(file)}


def named_on_the_page():
    return set(re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.M))


class ThreadsTest(unittest.TestCase):

    def test_the_page_has_each_thread_and_no_other(self):
        code = named_in_code()
        self.assertGreater(len(code), 20)
        for name, file in code.items():
            self.assertIn(name, named_on_the_page(), f"docs/threads.md lacks the thread of {file}")
        self.assertEqual(named_on_the_page() - set(code), set(), "threads that no code starts")

    def test_each_file_that_starts_a_thread_names_it(self):
        for file in sources():
            text = text_of(file)
            if re.search(r"\bstd::thread\(\[|\bthread_\(\[|\bthreads_?\.emplace_back\(\[", text):
                self.assertIn("pthread_setname_np(", text, f"{file} starts a thread without a name")

    def test_the_system_keeps_the_whole_name(self):
        for name in named_in_code():
            self.assertLessEqual(len(name), MAX_NAME, name)


if __name__ == "__main__":
    unittest.main()
