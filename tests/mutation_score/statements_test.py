import unittest

from .statements import pieces_of


def texts(code):
    return [" ".join(piece.text.split()) for piece in pieces_of(code)]


class PiecesTest(unittest.TestCase):

    def test_a_statement_over_lines_is_one_piece(self):
        pieces = pieces_of("int F() {\n  Call(a,\n       b);\n  return 1;\n}\n")
        self.assertEqual([(piece.first, piece.last) for piece in pieces],
                         [(1, 1), (2, 3), (4, 4), (5, 5)])
        self.assertEqual(pieces[1].text, "  Call(a,\n       b);\n")

    def test_comments_are_no_part_of_it(self):
        self.assertEqual(texts("// a < b;\nF();  // c < d;\n/* e < f; */ G();\n"),
                         ["F();", "G();"])

    def test_lines_are_counted_where_a_comment_goes_over_some(self):
        self.assertEqual(pieces_of("/* a\nb\n*/\nF();\n")[0].first, 4)

    def test_literals_are_words_and_come_back(self):
        piece, = pieces_of('F("a < 1", \'2\', 1\'000);\n')
        self.assertNotRegex(piece.text, '[<"2]')
        self.assertEqual(piece.restored(piece.text), 'F("a < 1", \'2\', 1\'000);\n')

    def test_quotes_within_a_literal(self):
        piece, = pieces_of(r'F("say \"a\"", b);' + "\n")
        self.assertEqual(piece.restored(piece.text), r'F("say \"a\"", b);' + "\n")

    def test_includes_and_macros_are_left_out(self):
        self.assertEqual(texts('#include "a.h"\n#define A(x) \\\n  (x < 1);\nF();\n'), ["F();"])

    def test_lines_of_sql_are_pieces_of_their_own(self):
        pieces = pieces_of('constexpr char k[] = R"sql(\n  WHERE a = 1\n    AND b = 2\n)sql";\n'
                           '    " AND c = 3";\nF("an AND gate", x);\n')
        self.assertEqual([(piece.first, piece.sql) for piece in pieces if piece.sql],
                         [(2, True), (3, True), (5, True), (6, True)])
        self.assertEqual(pieces[1 + [piece.first for piece in pieces].index(2)].text,
                         "    AND b = 2\n")

    def test_comments_in_sql_are_left_out(self):
        pieces = pieces_of('constexpr char k[] = R"sql(\n-- WHERE a\n  WHERE a = 1\n)sql";\n')
        self.assertEqual([piece.first for piece in pieces if piece.sql], [3])

    def test_a_table_is_no_statement(self):
        self.assertEqual(pieces_of("int k[] = {\n" + "  1,\n" * 20 + "};\n")[1:], [])
