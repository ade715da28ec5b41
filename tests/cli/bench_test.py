"""bench on a machine without a GPU: what it refuses; and --compare, which needs none."""

import json
import unittest

import support


def times(milliseconds, gpu="NVIDIA H200", clock=1400, **more):
    """A document of bench with one fused and one unfused time for each (kernel, E)."""
    kernels = []
    for (kernel, experts), (fused, unfused) in milliseconds.items():
        kernels.append({"kernel": kernel, "dims": {"E": experts}, "counts": [4] * experts, "without": [],
                        "plan": "pingpong 128x128", "hot": {"sm_clock_mhz": clock},
                        "forms": [{"form": "fused", "hot": {"median_ms": fused}},
                                  {"form": "unfused", "hot": {"median_ms": unfused}}], **more})
    return {"command": "bench", "gpu": {"name": gpu}, "driver": "580.1", "kernels": kernels}


class BenchTest(support.CliTest):
    @unittest.skipIf(support.has_gpu(), "there is a GPU")
    def test_it_needs_a_gpu(self):
        self.refuses(3, "bench", self.small(), says="bench times kernels on a GPU and needs one")
        self.refuses(3, "bench", self.small(), "--host", "-o", "out.json", says="needs one")
        self.assertEqual(self.files(), ["small.epi"])

    def test_mistakes_are_found_before_a_gpu_is_asked_for(self):
        self.refuses(1, "bench", self.small(), "--dims", "E=2", "--counts", "1",
                     says="1 counts are given for the 2 groups")
        self.refuses(1, "bench", self.small(), "--schedule", "none", says="none")
        self.refuses(1, "bench", self.path("missing.epi"), says="missing.epi")
        self.refuses(1, "bench", self.small(), "-o", "small.epi", says="small.epi")
        self.refuses(1, "bench", self.small(), "-o", "nowhere/out.json", says="nowhere")
        for option, value in ("--rounds", "0"), ("--warm", "-1"), ("--tolerance", "x"), ("--expected-rows", "-3"):
            self.refuses(2, "bench", self.small(), option, value, says=option)
        self.refuses(2, "bench", self.small(), "--compare", says="two files")
        self.refuses(2, "bench", self.small(), self.small(), "--compare", "--host", says="--host")


class CompareTest(support.CliTest):
    def compare(self, before, after, *options, code=0):
        paths = [self.write(name, json.dumps(document)) for name, document in (("a.json", before), ("b.json", after))]
        return self.json("bench", "--compare", *paths, *options, code=code)

    def test_a_slower_kernel_fails(self):
        before = times({("k", 8): (1.0, 5.0), ("l", 8): (2.0, 6.0)})
        after = times({("k", 8): (1.029, 5.0), ("l", 8): (2.0, 9.0)})
        document = self.compare(before, after)
        self.assertEqual([row["slower"] for row in document["compared"]], [False] * 4)  # nor an unfused one
        self.assertAlmostEqual(document["compared"][0]["change_percent"], 2.9, 6)
        self.assertEqual(document["compared"][0]["dims"], {"E": 8})
        self.assertEqual(document["compared"][0]["counts"], [4] * 8)
        document = self.compare(before, after, "--tolerance", "2", code=5)
        self.assertEqual([row["slower"] for row in document["compared"]], [True, False, False, False])
        self.assertIn("1 of 4 times", document["error"]["message"])
        self.assertEqual(document["tolerance_percent"], 2)
        faster = times({("k", 8): (0.5, 5.0), ("l", 8): (2.0, 6.0)})
        self.assertTrue(self.compare(before, faster)["ok"])

    def test_equal_sizes_are_compared(self):
        document = self.compare(times({("k", 8): (1.0, 5.0), ("k", 4): (1.0, 5.0)}),
                                times({("k", 8): (1.0, 5.0), ("k", 16): (9.0, 9.0)}))
        self.assertEqual(len(document["compared"]), 2)
        self.assertEqual(len(document["only_once"]), 4)
        self.assertIn("k (E=4, 16 rows in 4 groups) is in", document["only_once"][0])
        other = self.write("c.json", json.dumps(times({("other", 8): (1.0, 2.0)})))
        self.refuses(1, "bench", "--compare", "a.json", other, says="in common")

    def test_another_card_is_said(self):
        other = times({("k", 8): (1.0, 5.0)}, gpu="NVIDIA H20", clock=1500)
        document = self.compare(times({("k", 8): (1.0, 5.0)}), other)
        self.assertEqual(document["conditions"], ["other GPU: NVIDIA H200, then NVIDIA H20",
                                                  "k (E=8, 32 rows in 8 groups): the clock was 1400 MHz, then 1500"])

    def test_text(self):
        self.compare(times({("k", 8): (1.0, 5.0)}), times({("k", 8): (1.5, 5.0)}), code=5)
        out, err = self.run_epifuse("bench", "--compare", "a.json", "b.json", code=5)
        self.assertRegex(out, r"k +fused +1\.0000 ms -> +1\.5000 ms +\+50\.0 %  SLOWER")
        self.assertIn("1 of 2 times are more than 3 % longer in b.json", err)

    def test_files_that_bench_has_not_written(self):
        good = self.write("good.json", json.dumps(times({("k", 8): (1.0, 5.0)})))
        for name, text, says in (("no.json", "{", "it is no JSON"), ("list.json", "[1]", "bench has not written this"),
                                 ("empty.json", json.dumps(times({})), "it has no times"),
                                 ("zero.json", json.dumps(times({("k", 8): (0, 5.0)})), "is no time")):
            self.refuses(1, "bench", "--compare", good, self.write(name, text), says=says)
        self.refuses(1, "bench", "--compare", good, self.path("missing.json"), says="missing.json")


if __name__ == "__main__":
    support.main()
