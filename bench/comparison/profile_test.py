"""Tests of the purposes of a profile's samples."""

import unittest

from .profile import samples, spent_for

SCRIPT = """\
 4242
            7f1c finish_task_switch.isra.0 ([kernel.kallsyms])
            7f2c [unknown] (/usr/lib/x86_64-linux-gnu/libgrpc.so.29.1.0)
            55aa idempotency::internal::Batcher::Push(absl::Span<int>) (/x/idempotencyd)

 17
            7f1c memcpy (/usr/lib/x86_64-linux-gnu/libc.so.6)
            55ab idempotency::internal::Batcher::Take() (/x/idempotencyd)
"""


class Samples(unittest.TestCase):

    def test_a_frame_is_its_function_or_its_library(self):
        self.assertEqual(list(samples(SCRIPT)), [
            (4242, ["finish_task_switch.isra.0", "/usr/lib/x86_64-linux-gnu/libgrpc.so.29.1.0",
                    "idempotency::internal::Batcher::Push(absl::Span<int>)"]),
            (17, ["memcpy", "idempotency::internal::Batcher::Take()"])])

    def test_the_innermost_frame_that_is_known_decides(self):
        spent = [spent_for("idempotencyd", frames) for _, frames in samples(SCRIPT)]
        self.assertEqual(spent, ["gRPC", "batching"])
        self.assertEqual(spent_for("charges", ["idempotency::internal::Admission::Admit"]), "guard")
        self.assertEqual(spent_for("load", ["malloc", "idempotency::internal::bench::ClosedLoop::Run"]),
                         "load")
        self.assertEqual(spent_for("idempotencyd", ["idempotency::internal::Session::Pump"]), "framing")
        self.assertEqual(spent_for("idempotencyd", ["poll", "PQgetResult", "pqxx::x"]),
                         "SQL, our side")
        self.assertEqual(spent_for("idempotencyd", ["clone3"]), "other")

    def test_what_postgres_does_for_its_log_is_apart(self):
        self.assertEqual(spent_for("postgres", ["memcpy", "XLogInsert", "heap_insert"]), "WAL")
        self.assertEqual(spent_for("postgres", ["heap_insert", "ExecModifyTable"]), "SQL")


if __name__ == "__main__":
    unittest.main()
