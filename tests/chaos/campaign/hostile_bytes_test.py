"""The bytes are what they are meant to be."""

import random
import unittest

from tests.chaos.campaign import hostile_bytes


class Encoding(unittest.TestCase):
    def test_is_protobufs(self):
        self.assertEqual(hostile_bytes.varint(300), b"\xac\x02")
        self.assertEqual(hostile_bytes.field(2, b"testing"), b"\x12\x07testing")
        self.assertEqual(hostile_bytes.number_field(1, 150), b"\x08\x96\x01")

    def test_a_frame_numbers_its_operations(self):
        self.assertEqual(hostile_bytes.session_frame(b"a", b"b"),
                         b"\x0a\x05\x08\x01\x1a\x01a" b"\x0a\x05\x08\x02\x1a\x01b")


class Draws(unittest.TestCase):
    def test_every_call_has_a_key_and_a_scope(self):
        draws = random.Random(1)
        for _ in range(200):
            names = [name for name, _ in hostile_bytes.headers_of_a_call(draws)]
            self.assertIn(b"idempotency-key", names)
            self.assertIn(b"x-scope", names)
            self.assertEqual(len(names), len(set(names)))

    def test_some_headers_are_not_utf8(self):
        draws = random.Random(1)
        values = [value for _ in range(200)
                  for _, value in hostile_bytes.headers_of_a_call(draws)]
        self.assertTrue(any(b"\xff" in value for value in values))

    def test_frames_stay_under_what_the_service_reads(self):
        draws = random.Random(1)
        frames = [hostile_bytes.hostile_frame(draws) for _ in range(60)]
        self.assertLess(max(map(len, frames)), 4 * 1024 * 1024)
        self.assertGreater(max(map(len, frames)), 3 * 1024 * 1024)


if __name__ == "__main__":
    unittest.main()
