"""python3 bench/peers/peer_ratios_test.py"""

import argparse
import json
import pathlib
import tempfile
import unittest

import body_ratios
import cpu_ratios
import equal_work
import h200_ratios
import ladder_table
import peer_ratios

MACHINE = {"cpu": "c", "kernel": "k", "allowed_cores": 2, "gpus": [{"name": "GPU"}]}


def result(applied, work_hash="w", request=None, **series):
    return {"name": ", ".join(applied), "work_hash": work_hash, "subject": {"request": request or {}},
            "configuration": {"applied": applied}, "trials": [{"what": what, "time": times} for what, times in series.items()]}


def document(*results, minute=0, **machine):
    return {"created": f"2026-01-01T00:{minute:02}:00Z", "machine": MACHINE | machine, "results": list(results)}


class Intervals(unittest.TestCase):
    def test_six_values_are_the_fewest_that_hold_the_median(self):
        self.assertIsNone(peer_ratios.exact_interval([1, 2, 3, 4, 5]))
        self.assertEqual(peer_ratios.exact_interval([6, 2, 1, 5, 4, 3]), (1, 6))  # 1 - 2 / 64 = 96.9%
        self.assertEqual(peer_ratios.exact_interval(range(8)), (0, 7))  # (1, 6) would hold it with 93.0%
        self.assertEqual(peer_ratios.exact_interval(range(9)), (1, 7))  # 96.1%

    def test_a_ratio_is_of_the_two_sides_of_a_round(self):
        # The machine slows down threefold; the ratio stays.
        rounds = [([10 * slow] * 3, [20 * slow] * 3) for slow in (1, 1, 3, 3, 3, 3)]
        self.assertEqual(peer_ratios.compare(rounds), (6, 30, 60, 2.0, (2.0, 2.0)))

    def test_few_rounds_are_bootstrapped_over_their_trials(self):
        found = peer_ratios.compare([([9, 10, 11] * 7, [18, 20, 22] * 7)])
        self.assertEqual(found.ratio, 2)
        self.assertTrue(18 / 11 <= found.interval[0] < 2 < found.interval[1] <= 22 / 9, found)
        between = peer_ratios.compare([([10] * 5, [20] * 5), ([10] * 5, [40] * 5)])
        self.assertEqual(between.interval, (2, 4))  # rounds are drawn again too


class Pairs(unittest.TestCase):
    def refuses(self, ours, theirs, why):
        with self.assertRaisesRegex(SystemExit, why):
            peer_ratios.check_same_run(ours, theirs)

    def test_sides_of_two_machines_or_runs_are_refused(self):
        peer_ratios.check_same_run(document(), document(minute=15))
        self.refuses(document(), document(minute=16), "not one run")
        self.refuses(document(minute=16), document(), "not one run")
        self.refuses(document(), document(gpus=[{"name": "another"}]), "two machines: gpus")

    def test_unequal_work_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "unequal work"):
            peer_ratios.check_equal_work(result([]), result([], work_hash="another"))

    def test_a_round_is_steady_where_the_yardstick_keeps_its_best_rate(self):
        self.assertEqual(cpu_ratios.are_steady([[10, 11, 12], [10, 12.1, 10], []]), [True, False, True])


class CpuTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write_rounds(self, match, peer, version, theirs_ms, rounds=6):
        for number in range(rounds):
            for side, of, ms in (("headroom", "0.1.0", 10), (peer, version, theirs_ms)):
                one = result(["bf16", "LATENCY"], forward=[ms]) | {"source": {"name": side, "version": of}}
                text = json.dumps(document(one, cpu_isa="amx"))
                (self.folder / f"{side}-{match}-{number}.json").write_text(text, encoding="utf-8")

    def rows(self, matches):
        return ["|".join(row) for row in equal_work.cpu_rows(self.folder, "work", matches)]

    def test_each_peer_has_rows_of_its_own(self):
        self.write_rounds("compiled-f32", "pytorch", "2.15.0+cu130", 20)
        self.assertEqual(self.rows(["compiled-f32", "latency-f32"]),
                         ["work|2 cores, AMX|PyTorch 2.15.0|all 6|10.0 ms|20.0 ms|2.00x (2.00 to 2.00)|"])
        self.write_rounds("latency-f32", "openvino", "2026.4.1", 15)
        self.assertEqual(self.rows(["compiled-f32", "latency-f32"])[1:],
                         ["work|2 cores, AMX|OpenVINO 2026.4.1, bf16|all 6|10.0 ms|15.0 ms|1.50x (1.50 to 1.50)|"])
        with self.assertRaisesRegex(SystemExit, "there are no results of both sides of vae-bf16"):
            self.rows(["vae-bf16", "latency-vae-bf16"])

    def test_a_row_of_two_versions_or_unequal_rounds_is_refused(self):
        self.write_rounds("latency-f32", "openvino", "2026.4.1", 15)
        self.write_rounds("latency-f32", "openvino", "2026.4.0", 15, rounds=1)
        with self.assertRaisesRegex(SystemExit, "one row has results of OpenVINO 2026.4.0 and OpenVINO 2026.4.1"):
            cpu_ratios.row_of("work", "", cpu_ratios.find_rounds(self.folder, "latency-f32"))
        (self.folder / "openvino-latency-f32-5.json").unlink()
        with self.assertRaisesRegex(SystemExit, "latency-f32: 6 rounds of headroom's, 5 of openvino's"):
            cpu_ratios.find_rounds(self.folder, "latency-f32")


class GpuTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, *results, **kwargs):
        (self.folder / name).write_text(json.dumps(document(*results, **kwargs)), encoding="utf-8")

    def write_round(self, number):
        request = {"steps": 4, "images": 2}
        self.write(f"headroom-forward-fp8-512-{number}.json", result(["fp8"], "forward", forward=[10]))
        self.write(f"headroom-request-fp8-512-{number}.json", result(["fp8"], "request", request, image=[500], step=[9]))
        self.write(f"pytorch-fp8-512-{number}.json",
                   result(["fp8"], "forward", forward_wall=[14]), result(["fp8", "graph"], "forward", forward_wall=[12 + number / 10]),
                   result(["fp8"], "request", image_wall=[800]), result(["bf16"], "forward", forward_wall=[1]),
                   result(["fp8"], "other work", forward_wall=[1]))

    def test_equal_work_and_precision_against_the_fastest_form(self):
        for number in range(6):
            self.write_round(number)
        self.assertEqual(h200_ratios.ratio_table(self.folder).splitlines()[2:], [
            "| 512x512, fp8 | a forward pass | 6 | 10.0 ms | 12.2 ms | 1.23x (1.20 to 1.25) | | |",
            "| 512x512, fp8 | a request of 4 steps | 6 | 1.000 s | 1.600 s | 1.60x (1.60 to 1.60) | | 9.00 ms |"])

    def test_memory_is_that_of_both_sides_over_rounds(self):
        of = lambda gib: {"memory": {"peak_bytes": gib * 2**30}}  # noqa: E731
        self.assertEqual(peer_ratios.memory([(of(8), of(5)), (of(8.5), of(5)), (of(9), of(20))]), "8.50 GiB / 5.00 GiB")
        self.assertEqual(peer_ratios.memory([(of(22), {})]), "22.0 GiB / -")
        self.assertEqual(peer_ratios.memory([({}, {}), (of(1), of(1))]), "", "not of every round")

    def test_the_memory_is_that_of_the_fastest_form(self):
        self.write_round(0)
        for name, results in (("headroom-forward", 1), ("pytorch", 4)):
            path = self.folder / f"{name}-fp8-512-0.json"
            written = json.loads(path.read_text(encoding="utf-8"))
            for i, one in enumerate(written["results"]):
                one["memory"] = {"peak_bytes": (1 + i) * 2**30}
            path.write_text(json.dumps(written), encoding="utf-8")
        self.assertIn("| 1.00 GiB / 2.00 GiB | |", h200_ratios.ratio_table(self.folder))

    def test_launches_are_those_of_the_plans(self):
        self.write_round(0)
        self.assertEqual(len(h200_ratios.launch_table(self.folder).splitlines()), 2, "no plan says how many")
        for name, launches in (("headroom-forward", 3), ("pytorch", 5)):
            path = self.folder / f"{name}-fp8-512-0.json"
            written = json.loads(path.read_text(encoding="utf-8"))
            written["plans"] = {"a plan": {"nodes": [{}] * launches}}
            written["results"][0]["plan"] = "a plan"
            path.write_text(json.dumps(written), encoding="utf-8")
        self.assertEqual(h200_ratios.launch_table(self.folder).splitlines()[2:], ["| 512x512, fp8 | 3 | 5 |"])

    def test_what_one_side_alone_has_measured_has_no_row(self):
        self.write("headroom-forward-fp8-512-0.json", result(["fp8"], forward=[10]))
        with self.assertRaisesRegex(SystemExit, "from 0 kinds of GPU"):
            h200_ratios.ratio_table(self.folder)

    def test_documents_are_held_against_the_table(self):
        self.write_round(0)
        table = h200_ratios.ratio_table(self.folder)
        path = self.folder / "document.md"
        old = table.replace("| GPU |", "| another |", 1) + "| a row | that is gone |\n"
        path.write_text(f"before\n\n| another | table |\n\n{old}\nafter\n", encoding="utf-8")
        check, update = argparse.Namespace(check=[path], update=None), argparse.Namespace(check=None, update=[path])
        with self.assertRaisesRegex(SystemExit, "another table"):
            peer_ratios.put(table, check)
        peer_ratios.put(table, update)
        self.assertEqual(path.read_text(encoding="utf-8"), f"before\n\n| another | table |\n\n{table}\nafter\n")
        peer_ratios.put(table, check)
        path.write_text("no table\n", encoding="utf-8")
        with self.assertRaisesRegex(SystemExit, "has no table"):
            peer_ratios.put(table, check)

    def test_of_tables_with_the_same_columns_that_with_the_same_first_line_is_meant(self):
        lines = ["| of A | n |\n", "|---|---|\n", "| a | 1 |\n", "\n", "| of B | n |\n", "|---|---|\n"]
        self.assertEqual(peer_ratios.find_table(lines, "| of B | n |\n"), (4, 6))
        self.assertEqual(peer_ratios.find_table(lines, "| of C | n |\n"), (0, 3))
        self.assertIsNone(peer_ratios.find_table(lines, "| of B | m |\n"))

    def test_the_chief_rows_need_both_sides(self):
        with self.assertRaisesRegex(SystemExit, "there are no results of both sides of bf16-1024"):
            equal_work.equal_work_table(self.folder)


class LadderTable(unittest.TestCase):
    def rung(self, name, times, rounds=None, statistics=None, **more):
        series = {"what": "step", "time": times, "statistics": statistics or {"median_ms": 100, "ci_low_ms": 98.76, "ci_high_ms": 1012}}
        if rounds:
            series["round"] = rounds
        request = {"steps": 4, "images": 2, "token_rows": 8, "token_columns": 16}
        return {"name": name, "subject": {"name": "net", "request": request}, "trials": [series], "quality": [],
                "memory": {"peak_bytes": 3 * 2**20},
                "configuration": {"applied": name.split("+"), "declined": [], "device": "cpu"}} | more

    def table(self, *rungs):
        machine = {"allowed_cores": 2, "cpu_isa": "amx"}
        return ladder_table.ladder_table({"machine": machine, "results": list(rungs)}).splitlines()

    def test_times_have_one_unit_and_steps_are_the_rungs_own(self):
        header, _, baseline, half, declined = self.table(
            self.rung("baseline", [100]), self.rung("steps=2", [100]),
            self.rung("tile", [90], configuration={"applied": [], "declined": [{"switch": "tile"}], "device": "cpu"}))
        self.assertTrue(header.startswith("| net, 8x16 tokens, 4 steps, 2 images at once, 2 cores, AMX | a step"), header)
        self.assertEqual(baseline, "| `baseline` | 100 ms (99 to 1012) | 200 ms (198 to 2024) | - | 3.0 MiB |")
        self.assertEqual(half, "| `steps=2` | 100 ms (99 to 1012) | 100 ms (99 to 1012) | 2.00x | 3.0 MiB |")
        self.assertTrue(declined.startswith("| `tile` (declined) |") and " | - | " in declined, declined)

    def test_times_of_few_trials_have_no_interval(self):
        # As headroom writes them: no ci_low_ms and no ci_high_ms.
        few = {"n": 3, "median_ms": 50}
        baseline, fuse = self.table(self.rung("baseline", [100]), self.rung("fuse", [40, 50, 60], statistics=few))[2:]
        self.assertEqual(baseline, "| `baseline` | 100 ms (99 to 1012) | 200 ms (198 to 2024) | - | 3.0 MiB |")
        self.assertEqual(fuse, "| `fuse` | 50.0 ms (-) | 100 ms (-) | 2.00x | 3.0 MiB |")

    def test_what_runs_before_the_loop_counts(self):
        prologue = {"what": "prologue", "time": [40, 50, 60], "statistics": {"median_ms": 50, "ci_low_ms": 40, "ci_high_ms": 60}}
        rung = self.rung("hoist", [100])
        rung["trials"].append(prologue)
        self.assertIn("| 225 ms (219 to 2049) |", self.table(self.rung("baseline", [100]), rung)[3])

    def test_a_round_is_held_against_the_baseline_around_it(self):
        # The machine takes twice as long from one visit of the baseline to the next.
        baseline = self.rung("baseline", [100, 200, 400], [0, 1, 2])
        rung = self.rung("fuse", [200**0.5 * 10 / 2, 200**0.5 * 10], [0, 1])
        self.assertIn("| 2.00x |", self.table(baseline, rung)[3])
        self.assertIn("| unsettled |", self.table(baseline, rung | {"unsettled": "its rounds disagree"})[3])

    def test_qualities_have_their_measures(self):
        judged = [{"metric": "psnr_db", "note": "identical"}, {"metric": "frechet_distance", "value": 0.1234},
                  {"metric": "accuracy", "value": 0.975, "interval": {"low": 0.9, "high": 1}}]
        header, _, baseline, fuse = self.table(self.rung("baseline", [100]), self.rung("fuse", [50], quality=judged))
        self.assertTrue(header.endswith("| PSNR | accuracy (95% interval) | Fréchet distance |"), header)
        self.assertTrue(baseline.endswith("| - | - | - |"), baseline)
        self.assertTrue(fuse.endswith("| identical | 97.5% (90.0 to 100.0) | 0.123 |"), fuse)

    def test_what_is_no_ladder_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "expected baseline"):
            self.table(self.rung("fuse", [1]))


class BodyTable(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, side, number, *bodies):
        """Of (name, operand, plan's nodes, series of the trials by round with the copy)."""
        results, plans = [], {}
        for name, operand, nodes, series in bodies:
            one = result([], work_hash=name, request={"inputs": [operand], "outputs": [operand]})
            one |= {"name": name, "plan": name, "trials": [
                {"what": what, "time": [time for times in rounds for time in times],
                 "process": [i for i, times in enumerate(rounds) for _ in times]} for what, rounds in series.items()]}
            plans[name] = {"nodes": [{}] * nodes}
            results.append(one)
        text = json.dumps(document(*results) | {"plans": plans})
        (self.folder / f"{side}-bodies-{number}.json").write_text(text, encoding="utf-8")

    def write_rounds(self):
        large, small = "bf16[1024, 65536]", "f32[64, 8]"
        for number in range(6):
            # The second round with the copy met a machine of half the speed.
            self.write("headroom", number, ("silu_mul bf16 large 1024x65536", large, 1, {"launch": [[1.0], [2.0]], "floor": [[0.8], [1.6]]}),
                       ("adamw f32 small 64x8", small, 1, {"launch": [[0.002]], "floor": [[0.001]]}),
                       ("adamw f32 medium 64x8", small, 1, {"launch": [[0.002]], "floor": [[0.001]]}))
            self.write("pytorch", number, ("silu_mul bf16 large 1024x65536", large, 2, {"launch": [[3.0]]}),
                       ("adamw f32 small 64x8", small, 1, {"launch": [[0.001]]}))

    def test_bodies_of_both_sides_have_rows(self):
        self.write_rounds()
        gpu, bodies, alone = body_ratios.find_bodies(self.folder)
        self.assertEqual(body_ratios.body_table(gpu, bodies).splitlines()[2:], [
            "| `silu_mul` | bf16 | large, 1024x65536 | 1500.0 us | 3000.0 us | 2.00x (2.00 to 2.00) | 1 / 2 | 0.80 |",
            "| `adamw` | f32 | small, 64x8 | 2.0 us | 1.0 us | 0.50x (0.50 to 0.50) | 1 / 1 | 0.50 |"])
        self.assertEqual(alone, ["adamw f32 medium 64x8"])

    def test_bars_tell_what_misses_them(self):
        self.write_rounds()
        mean, slow, low = body_ratios.bar_lines(body_ratios.find_bodies(self.folder)[1])
        self.assertIn("of the 1 for which PyTorch launches two kernels or more: 2.000x", mean)
        self.assertTrue(slow.endswith("of 2: adamw f32 small 64x8 0.500x"), slow)
        self.assertTrue(low.endswith("of 1 from 256 MB on: silu_mul bf16 large 1024x65536 0.800"), low)

    def test_sides_of_unequal_rounds_are_refused(self):
        self.write_rounds()
        (self.folder / "pytorch-bodies-5.json").unlink()
        with self.assertRaisesRegex(SystemExit, "6 rounds of ours and 5 of PyTorch's"):
            body_ratios.find_bodies(self.folder)

    def test_bytes_of_operands(self):
        self.assertEqual(body_ratios.bytes_of("bf16[4, 8]"), 64)
        self.assertEqual(body_ratios.bytes_of("f32[3]"), 12)


if __name__ == "__main__":
    unittest.main()
