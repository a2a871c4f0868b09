"""Tests of the model: conservation, limits that can be computed by hand, faults, and the tables."""

import copy
import json
import math
import pathlib
import unittest
from xml.etree import ElementTree

from . import measure, report
from .chart import LINES, Scale, chart
from .figures import LARGEST_BATCH, BadFigure, Engine, Figures, load
from .model import Fleet, Lost, RollingUpgrade, closed_loop, limit, simulate, work
from .plan import PLANNED, carried, needed, per_thousand, row
from .workload import Workload, first_calls, reaching_store, replays, zipf


def figure(value):
    return {"value": value, "unit": "", "command": "measured"}


# A store with 1 ms for any batch and 10 us for each cycle in it.
BATCHES = [[1, 1010.0], [100, 2000.0], [256, 3560.0]]
DOCUMENT = {
    "figures": {name: figure(value) for name, value in {
        "cores": 2, "postgres_batch_us": BATCHES, "postgres_parallel": 1.0,
        "sqlite_batch_us": BATCHES, "sqlite_parallel": 1.0, "row_bytes": 1000, "wal_bytes": 900,
        "daemon_cpu_us": 50.0, "postgres_cpu_us": 100.0, "guarded_server_cpu_us": 200.0,
        "replay_work": 0.25, "store_connections": 2, "other_connections": 3,
        "verify_16_per_second": 12000.0, "verify_16_cpu_us": 80.0,
        "verify_64_per_second": 30000.0, "verify_64_cpu_us": 80.0}.items()},
    "run": {"at": "2026-01-02", "commit": "abc", "postgres": "15.1", "seconds": 1, "rounds": 3,
            "load_average_before": 0.1},
}
FIGURES = Figures(DOCUMENT)
STORE = FIGURES.engines["postgres"]


def fleet(shards=1, **changes):
    settings = {"engine": STORE, "shards": shards, "daemons": 2, "daemon_rate": 50_000.0,
                "store_rate": 40_000.0, "replay_work": 0.25, **changes}
    return Fleet(**settings)


def only_first(rate, **changes):
    return Workload(rate, repeats=0.0, **changes)


class Store(unittest.TestCase):

    def test_batches_take_the_time_between_the_points(self):
        self.assertEqual(STORE.cycle_us(1), 1010)
        self.assertAlmostEqual(STORE.cycle_us(50), 1500)
        self.assertAlmostEqual(STORE.cycle_us(178), 2780)

    def test_larger_batches_carry_more(self):
        self.assertAlmostEqual(STORE.rate(1), 1e6 / 1010)
        self.assertAlmostEqual(STORE.rate(256), 256e6 / 3560)

    def test_the_batch_is_the_smallest_that_keeps_up(self):
        batch = STORE.batch_for(20_000)
        self.assertGreaterEqual(STORE.rate(batch), 20_000)
        self.assertLess(STORE.rate(batch - 1), 20_000)
        self.assertEqual(STORE.batch_for(1e9), LARGEST_BATCH)

    def test_callers_who_wait_for_each_other_make_batches_of_their_number(self):
        self.assertAlmostEqual(closed_loop(STORE, 1, 1e9), 1e6 / 1010)
        self.assertAlmostEqual(closed_loop(STORE, 100, 1e9), 100e6 / 2000)
        self.assertEqual(closed_loop(STORE, 100, 5_000), 5_000)

    def test_two_batches_at_once_share_the_callers(self):
        double = Engine("double", STORE.batch_us, 2.0)
        self.assertAlmostEqual(closed_loop(double, 200, 1e9), 2 * closed_loop(STORE, 100, 1e9))
        self.assertAlmostEqual(closed_loop(double, 1, 1e9), closed_loop(STORE, 1, 1e9))


class Load(unittest.TestCase):

    def test_shares_are_a_whole_and_fall(self):
        shares = zipf(1000, 1.0)
        self.assertAlmostEqual(sum(shares), 1)
        self.assertAlmostEqual(shares[0], 10 * shares[9])

    def test_first_calls_are_even_by_key_and_skewed_by_tenant(self):
        self.assertEqual(first_calls(only_first(800), 8), [100.0] * 8)
        by_tenant = first_calls(only_first(800, placement="tenant", tenant_skew=1.2), 8)
        self.assertAlmostEqual(sum(by_tenant), 800)
        self.assertGreater(max(by_tenant), 150)

    def test_caches_answer_most_replays_of_a_hot_key(self):
        self.assertLess(reaching_store(100_000, 100, 10), 100 / 10)
        self.assertAlmostEqual(reaching_store(0.001, 100, 10), 0.001, places=6)

    def test_replays_that_reach_the_store_are_at_most_those_made(self):
        load_of = Workload(10_000, repeats=0.5)
        self.assertLess(sum(replays(load_of, 4)), 5_000)
        uncached = Workload(10_000, repeats=0.5, cache_s=0.0)
        self.assertAlmostEqual(sum(replays(uncached, 4)), 5_000)

    def test_a_replay_counts_with_its_work(self):
        load_of = Workload(1000, repeats=1.0, cache_s=0.0)
        self.assertAlmostEqual(sum(work(fleet(4), load_of)), 250)


class Simulation(unittest.TestCase):

    def test_below_the_limit_all_is_answered_at_once(self):
        result = simulate(fleet(4), only_first(40_000), seconds=5)
        self.assertAlmostEqual(result.answered, result.offered)
        self.assertAlmostEqual(result.offered, 5 * 40_000)
        self.assertLess(result.delay_s(0.99), 0.01)
        self.assertEqual(result.late, 0)

    def test_over_the_limit_the_queue_grows(self):
        result = simulate(fleet(1), only_first(80_000), seconds=5)
        self.assertAlmostEqual(result.answered / result.offered, 0.5, places=2)
        self.assertGreater(result.delay_s(0.99), 2)

    def test_the_least_of_the_parts_is_the_limit(self):
        self.assertEqual(limit(fleet(), 2), 40_000)
        self.assertEqual(limit(fleet(store_rate=1e9), 2), STORE.rate(LARGEST_BATCH))
        self.assertEqual(limit(fleet(), 0), 0)

    def test_a_lost_store_holds_its_own_calls_only(self):
        result = simulate(fleet(10), only_first(200_000), [Lost(1, 5, shard=3)], seconds=30)
        # At half its limit a shard needs as long to drain as it was away: 1 to 6 to 11 s.
        self.assertAlmostEqual(result.queued_until_s, 11, delta=0.2)
        self.assertAlmostEqual(result.answered, result.offered, delta=1)
        waited = sum(served for delay, served in result._delays if delay > 0.05)
        self.assertAlmostEqual(waited / (10 * 20_000), 1, delta=0.1)
        self.assertEqual(result.late, 0)

    def test_the_longest_wait_of_a_lost_store_is_its_absence(self):
        result = simulate(fleet(1), only_first(20_000), [Lost(0, 20)], seconds=60)
        self.assertAlmostEqual(result.delay_s(1), 20, delta=0.2)
        # Those of the first 10 s wait longer than 10 s, and of the others the part that is
        # drained late: the queue is at 10 s of delay half way.
        self.assertAlmostEqual(result.late / 20_000, 20, delta=0.5)

    def test_a_store_that_does_not_return_answers_nothing_in_time(self):
        result = simulate(fleet(1), only_first(1_000), [Lost(0, 100)], seconds=60)
        self.assertEqual(result.answered, 0)
        self.assertAlmostEqual(result.late, 50_000, delta=100)

    def test_an_upgrade_takes_one_daemon_at_a_time(self):
        upgrade = RollingUpgrade(10, 5)
        self.assertEqual([upgrade.daemons(now, 3) for now in (9, 10, 24, 25)], [3, 2, 2, 3])

    def test_an_upgrade_at_half_load_makes_no_queue_and_at_full_load_one(self):
        slow = fleet(2, daemon_rate=10_000.0)
        calm = simulate(slow, only_first(18_000), [RollingUpgrade(1, 2)], seconds=10)
        self.assertEqual(calm.queued_until_s, 0)
        full = simulate(slow, only_first(36_000), [RollingUpgrade(1, 2)], seconds=60)
        self.assertGreater(full.queued_until_s, 5)


class Plan(unittest.TestCase):

    def test_the_busiest_shard_is_at_its_planned_share(self):
        one = fleet(16)
        for load_of in (only_first(1), only_first(1, placement="tenant", tenant_skew=1.1)):
            rate = carried(one, load_of)
            busiest = max(work(one, Workload(**{**load_of.__dict__, "calls_per_s": rate})))
            self.assertAlmostEqual(busiest / limit(one, 2), PLANNED, places=6)

    def test_more_shards_help_by_key_and_not_against_a_hot_tenant(self):
        few, many = row(FIGURES, 4), row(FIGURES, 64)
        self.assertAlmostEqual(many.by_key / few.by_key, 16, delta=0.1)
        self.assertLess(many.hot_tenants / few.hot_tenants, 4)
        self.assertLess(many.late_share, few.late_share)

    def test_the_shards_for_a_rate_are_enough_and_not_many_more(self):
        count = needed(FIGURES, 1_000_000)
        from .plan import fleet_of
        self.assertGreaterEqual(carried(fleet_of(FIGURES, count), Workload(1)), 1_000_000)
        self.assertLess(carried(fleet_of(FIGURES, count - count // 20 - 1), Workload(1)), 1_000_000)

    def test_a_thousand_calls_take_what_their_figures_say(self):
        plan = per_thousand(FIGURES, repeats=0.1)
        self.assertEqual(plan["rows in a day"], 900 * 86400)
        self.assertEqual(plan["bytes in a day"], 900 * 86400 * 1000)
        self.assertEqual(plan["WAL bytes a second"], 900 * 900)
        self.assertAlmostEqual(plan["daemon cores"], 0.05)
        self.assertEqual(plan["connections"], 10)


class TheFigures(unittest.TestCase):

    def changed(self, name, **changes):
        document = copy.deepcopy(DOCUMENT)
        document["figures"][name].update(changes)
        return document

    def test_every_figure_of_the_project_has_a_command(self):
        figures = load()
        self.assertTrue(all(one["command"] for _, one in figures.rows()))

    def test_a_figure_without_a_command_is_refused(self):
        with self.assertRaisesRegex(BadFigure, "wal_bytes names no command"):
            Figures(self.changed("wal_bytes", command=""))

    def test_figures_that_cannot_be_are_refused(self):
        for name, value in (("row_bytes", 0), ("row_bytes", math.nan),
                            ("postgres_batch_us", [[1, 5.0]]),
                            ("postgres_batch_us", [[1, 5.0], [2, 4.0]]),
                            ("postgres_batch_us", [[2, 5.0], [1, 6.0]])):
            with self.assertRaises(BadFigure):
                Figures(self.changed(name, value=value))

    def test_a_missing_figure_is_named(self):
        document = copy.deepcopy(DOCUMENT)
        del document["figures"]["wal_bytes"]
        with self.assertRaisesRegex(BadFigure, "no figure wal_bytes"):
            per_thousand(Figures(document))

    def test_the_output_of_store_load_is_read(self):
        self.assertEqual(
            measure.parse_output("812 cycles/s, own CPU 21.0 us a cycle (user 9.1), log 990 bytes a"
                                 " cycle\n"), (812, 990))
        self.assertEqual(measure.parse_output("5 cycles/s, own CPU 21.0 us a cycle (user 9.1)\n"),
                         (5, None))
        for text in ("", "0 cycles/s, own CPU", "no such database"):
            with self.assertRaises(ValueError):
                measure.parse_output(text)

    def test_times_of_larger_batches_never_fall(self):
        self.assertEqual(measure.rising([[4, 9.0], [1, 10.0], [16, 30.0]]),
                         [[1, 10.0], [4, 10.0], [16, 30.0]])


class Report(unittest.TestCase):

    def test_the_difference_to_the_measured_point_is_shown(self):
        by_crowd = {crowd: off for crowd, _, _, off in report.differences(FIGURES)}
        # 16 in flight: 1.16 ms for a batch of 16. 64: the processors, 80 us a cycle.
        self.assertAlmostEqual(by_crowd[16], 16e6 / 1160 / 12000 - 1, places=3)
        self.assertAlmostEqual(by_crowd[64], 25_000 / 30_000 - 1)
        self.assertIn("| 64 | 25,000/s | 30,000/s | -17 % |", report.verification(FIGURES))

    def test_the_model_is_near_the_measured_points_of_the_project(self):
        for crowd, _, _, off in report.differences(load()):
            self.assertLess(abs(off), 0.5, crowd)

    def test_numbers_have_two_digits(self):
        self.assertEqual([report.rounded(number) for number in (1234567, 512, 0.1234, 3)],
                         ["1,200,000", "510", "0.12", "3"])

    def test_what_was_not_measured_has_no_number(self):
        text, _ = report.page(FIGURES)
        self.assertIn("| one Redis | not measured |", text)
        self.assertIn("| Redis Cluster | not measured", text)

    def test_figures_of_a_busy_machine_say_so(self):
        document = copy.deepcopy(DOCUMENT)
        document["run"]["load_average_before"] = 9
        self.assertIn("load average 9", report.caption(Figures(document)))
        self.assertNotIn("load average", report.caption(FIGURES))

    def test_the_page_is_of_the_figures_in_the_tree(self):
        docs = pathlib.Path(__file__).parent.parent.parent / "docs"
        self.assertIn(report.page(load())[0], (docs / "scaling.md").read_text(),
                      "run python3 -m bench.capacity")

    def test_the_figures_are_json_with_the_run(self):
        document = json.loads((pathlib.Path(__file__).parent / "figures.json").read_text())
        self.assertIn("commit", document["run"])


class Picture(unittest.TestCase):

    def test_the_lines_rise_with_what_is_carried(self):
        rows = [row(FIGURES, shards) for shards in (1, 8, 64)]
        svg = ElementTree.fromstring(chart(rows, "a <caption>"))
        lines = list(svg.iter("{http://www.w3.org/2000/svg}polyline"))
        self.assertEqual([line.get("class") for line in lines], list(LINES))
        heights = [float(point.split(",")[1]) for point in lines[0].get("points").split()]
        self.assertEqual(heights, sorted(heights, reverse=True))

    def test_decades_are_as_far_apart(self):
        scale = Scale([1, 100], 0, 10)
        self.assertEqual([scale(value) for value in (1, 10, 100)], [0, 5, 10])
        self.assertEqual(scale.decades(), [1, 10, 100])


if __name__ == "__main__":
    unittest.main()
