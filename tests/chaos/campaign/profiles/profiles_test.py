"""Every profile can be loaded."""

import unittest

from tests.chaos.campaign import profiles


class ProfilesTest(unittest.TestCase):
    def test_each_is_one(self):
        self.assertLessEqual({"default", "redis", "redis-cluster", "relaxed", "single-row"}, set(profiles.names()))
        for name in profiles.names():
            self.assertIsInstance(profiles.load(name), profiles.Profile)

    def test_an_unknown_one_is_refused_with_the_known_ones(self):
        with self.assertRaisesRegex(ValueError, "no profile fast: there are default"):
            profiles.load("fast")

    def test_only_relaxed_reservations_may_be_lost(self):
        self.assertEqual({}, profiles.load("default").run_fields())
        self.assertEqual({"relaxed": ["/idempotency.testing.Probe/Act"]},
                         profiles.load("relaxed").run_fields())


if __name__ == "__main__":
    unittest.main()
