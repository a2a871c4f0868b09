import pathlib
import re
import tempfile
import unittest

from .candidates import (PRODUCT, RULES, Mutant, NoTool, candidates_of, expanded, operators,
                         product_files, squeezed)
from .statements import pieces_of

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def mutated(code, file="cpp.rules"):
    """The mutants of a statement by the rules, by operator. The tool that a run uses is not in
    every build; this does the same: it applies each rule at each place where it matches."""
    rules = (RULES / file).read_text()
    found = {}
    for piece in pieces_of(code):
        if piece.sql != (file == "sql.rules"):
            continue
        made, ignored = [], False
        for number, line in enumerate(expanded(rules).splitlines(), 1):
            if line.startswith("#") or " ==>" not in line:
                continue
            left, _, right = line.partition(" ==> ") if " ==> " in line else \
                line.partition(" ==>")
            if right == "DO_NOT_MUTATE":
                ignored = ignored or re.search(left, piece.text)
                continue
            place = re.search(left, piece.text)
            while place:
                made.append((operators(rules)[number], piece.text[:place.start()]
                             + re.sub(left, right, piece.text[place.start():], count=1)))
                place = re.compile(left).search(piece.text, place.start() + 1)
        for operator, text in made:
            if not ignored:
                found.setdefault(operator, set()).add(squeezed(piece.restored(text)))
    return found


class RulesTest(unittest.TestCase):

    def test_comparisons(self):
        self.assertEqual(mutated("return a < b;\n")["comparison"],
                         {"return a <= b;", "return a >= b;"})

    def test_brackets_of_templates_are_no_comparison(self):
        self.assertNotIn("comparison", mutated("std::vector<int> a;\n"))

    def test_a_call_is_dropped(self):
        self.assertEqual(mutated("queue_->Push(std::move(a),\n  b);\n")["dropped statement"],
                         {";"})

    def test_a_declaration_is_not_dropped(self):
        for code in ("Foo bar(baz);\n", "const int a = 1;\n", "auto a = F();\n", "return F();\n",
                     "A& operator=(const A&) = delete;\n"):
            with self.subTest(code):
                self.assertNotIn("dropped statement", mutated(code))

    def test_arguments_are_swapped(self):
        self.assertEqual(mutated("F(a, b.c(), d);\n")["swapped arguments"],
                         {"F(b.c(), a, d);", "F(a, d, b.c());"})

    def test_arguments_whose_order_does_not_count_stay(self):
        for call in ("std::min(a, b)", "std::max(a, b.c())", "CompareFingerprints(a, b)"):
            with self.subTest(call):
                self.assertNotIn("swapped arguments", mutated(f"F({call});\n"))

    def test_a_condition_holds_always_or_never(self):
        made = mutated("if (A(b(c)) < d) return F(e);\n")["removed condition"]
        self.assertLessEqual({"if ((A(b(c)) < d) || true) return F(e);",
                              "if ((A(b(c)) < d) && false) return F(e);"}, made)

    def test_a_condition_after_a_declaration(self):
        self.assertIn("if (auto a = F(); (!a.ok()) || true) return a;",
                      mutated("if (auto a = F(); !a.ok()) return a;\n")["removed condition"])

    def test_one_side_of_a_condition_is_dropped(self):
        made = mutated("if (a && !b(c)) {\n")["removed condition"]
        self.assertLessEqual({"if (a) {", "if (!b(c)) {", "if (a || !b(c)) {",
                              "if (a && b(c)) {"}, made)

    def test_constants(self):
        self.assertEqual(mutated("F(0, 12, true);\n")["constant"],
                         {"F(1, 12, true);", "F(0, (12 + 1), true);", "F(0, (12 * 10), true);",
                          "F(0, 12, false);"})

    def test_what_is_only_logged_or_asserted_is_left_alone(self):
        for code in ("log_->Warn(a < b, 1);\n", "spdlog::info(a < b);\n", "assert(a < b);\n",
                     "static_assert(a < b);\n", "using A = B<1>;\n"):
            with self.subTest(code):
                self.assertEqual(mutated(code), {})

    def test_predicates_of_sql(self):
        made = mutated('R"sql(\n  WHERE a = $1 AND t.state = 4 AND b > f(c)\n)sql";\n',
                       "sql.rules")
        self.assertLessEqual({"WHERE a = $1 AND b > f(c)", "WHERE a = $1 AND t.state = 4",
                              "WHERE t.state = 4 AND b > f(c)"}, made["dropped predicate"])
        self.assertIn("WHERE a = $1 AND t.state = 9 AND b > f(c)", made["constant"])

    def test_every_rule_is_one(self):
        for path in sorted(RULES.glob("*.rules")):
            text = path.read_text()
            for number, line in enumerate(expanded(text).splitlines(), 1):
                if line and not line.startswith("#"):
                    with self.subTest(f"{path.name}:{number}"):
                        self.assertIn(" ==>", line)
                        re.compile(line.partition(" ==>")[0])
                        self.assertTrue(operators(text)[number] or "DO_NOT_MUTATE" in line)


class MutantTest(unittest.TestCase):

    def test_it_changes_its_lines_and_no_number_of_others(self):
        mutant = Mutant("a.cc", 2, 3, "constant", "b,\nc;\n", "d;\n")
        self.assertEqual(mutant.within("a;\nb,\nc;\ne;\n"), "a;\nd;\n\ne;\n")

    def test_it_fits_only_the_text_that_it_was_made_of(self):
        with self.assertRaises(ValueError):
            Mutant("a.cc", 1, 1, "constant", "a;\n", "d;\n").within("b;\n")


class FilesTest(unittest.TestCase):

    def test_the_product_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for file in ("core/a.cc", "core/a_test.cc", "core/b.h", "core/notes.md",
                         "server/testing/fake.cc", "tests/c.cc", "server/store/d.cc",
                         "include/product/e.h"):
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).touch()
            self.assertEqual(list(product_files(root)),
                             ["include/product/e.h", "core/a.cc", "core/b.h", "server/store/d.cc"])

    def test_each_folder_of_the_product_has_files(self):
        files = list(product_files(_ROOT))
        for folder in PRODUCT:
            self.assertTrue(any(file.startswith(f"{folder}/") for file in files), folder)

    def test_without_the_tool_the_error_has_the_remedy(self):
        try:
            found = candidates_of(_ROOT, ["server/queue/batcher.cc"])
        except NoTool as why:
            self.assertIn("scripts/mutation_score.sh", str(why))
            return
        self.assertGreater(len(found), 100)
        self.assertEqual(found, candidates_of(_ROOT, ["server/queue/batcher.cc"]))
