"""python3 -B bench/peers/report_test.py"""

import unittest

import report


def line(logprobs, **more):
    n = len(logprobs)
    return {
        "doc_ids": list(range(n)),
        "ids_sha256": [["x"] * len(p) for p in logprobs],
        "logprobs": logprobs,
        "chars": [[1] * len(p) for p in logprobs],
        "gold": [0] * n,
        "normalization": "none",
        "task": "t",
        "formulation": "mcf",
        "dtype": "f32",
        "instances": n,
        "seconds": 1.0,
        **more,
    }


class Decisions(unittest.TestCase):
    def compare(self, peer):
        by = {
            ("olmes", "f32", ("t", "mcf")): line([[-1.0, -2.0], [-1.0, -1.01]]),
            ("vllm", "f32", ("t", "mcf")): line(peer),
        }
        rows, listed = report.decisions(by, ["vllm"])
        return rows[0], [r[-1] for r in listed]

    def test_equal(self):
        row, listed = self.compare([[-1.0, -2.0], [-1.0, -1.01]])
        self.assertEqual((row[-2:], listed), (["0", "0"], []))

    def test_near_tie(self):
        # The first instance moved by 0.05, so a margin of 0.01 can turn.
        row, listed = self.compare([[-1.0, -2.05], [-1.02, -1.01]])
        self.assertEqual((row[-2:], listed), (["1", "0"], ["near-tie"]))

    def test_not_explained(self):
        row, listed = self.compare([[-1.0, -2.001], [-1.02, -1.01]])
        self.assertEqual((row[-2:], listed), (["1", "1"], ["not explained"]))

    def test_first_of_equals(self):
        self.assertEqual(report.best([-1.0, -1.0]), 0)

    def test_characters(self):
        self.assertEqual(report.scores([-4.0, -9.0], [2, 3], "character"), [-2.0, -3.0])

    def test_choices_must_match(self):
        with self.assertRaises(ValueError):
            self.compare([[-1.0], [-1.0]])

    def test_ratio(self):
        # 60 instances in 2 s beside 15 in 10 s: 30 a second beside 1.5.
        self.assertEqual(report.ratio({"instances": 60, "seconds": 2}, {"instances": 15, "seconds": 10}), 20)


if __name__ == "__main__":
    unittest.main()
