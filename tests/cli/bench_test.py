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
        for option, value in ("--rounds", "0"), ("--warm", "-1"), ("--expected-rows", "-3"):
            self.refuses(2, "bench", self.small(), option, value, says=option)
        self.refuses(2, "bench", self.small(), self.small(), "--compare", "--tolerance", "x", says="--tolerance")
        self.refuses(2, "bench", self.small(), "--compare", says="two files")
        for flag in "--compare", "--host", "--json":
            self.refuses(2, "bench", f"{flag}=a.json", "b.json", says=f"{flag}: it takes no value, and has 'a.json' behind '='")
        for option in (["--host"], ["-o", "out.json"], ["--kernel", "small"], ["--dims", "E=2"], ["--counts", "1,2"],
                       ["--schedule", "pingpong 128x64"], ["--seed", "0"], ["--rounds", "16"], ["--no-unfused"],
                       ["--bundle", "b.epb"]):
            self.refuses(2, "bench", self.small(), self.small(), "--compare", *option,
                         says=f"{option[0]}: --compare measures nothing")
        self.refuses(2, "bench", self.small(), "--tolerance", "2", says="--tolerance: it is for --compare")


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
        self.assertIn("1 of 2 fused times", document["error"]["message"])
        self.assertEqual(document["tolerance_percent"], 2)
        faster = times({("k", 8): (0.5, 5.0), ("l", 8): (2.0, 6.0)})
        self.assertTrue(self.compare(before, faster)["ok"])

    def test_exactly_the_tolerance_is_not_slower(self):
        for before, after in (1.0, 1.03), (0.7, 0.721), (2.3, 2.369), (3.1, 3.193), (100.0, 103.0):
            document = self.compare(times({("k", 8): (before, 5.0)}), times({("k", 8): (after, 5.0)}))
            self.assertFalse(document["compared"][0]["slower"])
            self.compare(times({("k", 8): (before, 5.0)}), times({("k", 8): (after * 1.000001, 5.0)}), code=5)

    def test_of_two_kernels_of_one_name_and_size_those_of_one_file_are_compared(self):
        def two(*rows):
            documents = [times({("k", 8): (ms, 5.0)}, file=file) for file, ms in rows]
            documents[0]["kernels"] = [kernel for document in documents for kernel in document["kernels"]]
            return documents[0]
        before = two(("a.epi", 1.0), ("b.epi", 2.0))
        document = self.compare(before, two(("b.epi", 2.0), ("a.epi", 1.0)))
        fused = [(row["file"], row["before_ms"], row["after_ms"]) for row in document["compared"] if row["form"] == "fused"]
        self.assertEqual(fused, [("a.epi", 1.0, 1.0), ("b.epi", 2.0, 2.0)])
        self.assertRegex(self.run_epifuse("bench", "--compare", "a.json", "b.json")[0], "of b.epi\n")
        document = self.compare(before, two(("b.epi", 2.0), ("c.epi", 1.0)))
        self.assertEqual([row["file"] for row in document["compared"]], ["b.epi", "b.epi"])
        self.assertIn("k of a.epi (E=8, 32 rows in 8 groups) is in", document["only_once"][0])
        self.assertIn("k of c.epi", document["only_once"][-1])
        # Twice in one run: one after the other.
        document = self.compare(two(("a.epi", 1.0), ("a.epi", 2.0)), two(("a.epi", 1.0), ("a.epi", 2.0)))
        self.assertTrue(all(row["before_ms"] == row["after_ms"] for row in document["compared"]))
        self.assertEqual(len(document["compared"]), 4)
        # Twice in one run and once in the other is in both.
        once, twice = two(("a.epi", 1.0), ("b.epi", 2.0)), two(("a.epi", 1.0), ("a.epi", 2.0))
        once["kernels"].pop()
        says = "k of a.epi (E=8, 32 rows in 8 groups){} is in {} more often than in {}: one of its times is left out"
        for documents, names in (((twice, once), ("a.json", "b.json")), ((once, twice), ("b.json", "a.json"))):
            document = self.compare(*documents)
            self.assertEqual(len(document["compared"]), 2)
            self.assertEqual(document["only_once"], [says.format(form, *(self.path(name) for name in names))
                                                     for form in ("", ", unfused")])
        # The only one of its kind may have moved.
        document = self.compare(times({("k", 8): (1.0, 5.0)}, file="here/k.epi"), times({("k", 8): (1.0, 5.0)}, file="there/k.epi"))
        self.assertEqual((len(document["compared"]), document["only_once"]), (2, []))
        # So may all of them: the kernel itself tells which is which, or what a spec is called.
        moved = two(("there/b.epi", 2.0), ("there/a.epi", 1.0))
        document = self.compare(two(("here/a.epi", 1.0), ("here/b.epi", 2.0)), moved)
        self.assertTrue(all(row["before_ms"] == row["after_ms"] for row in document["compared"]))
        self.assertEqual((len(document["compared"]), document["only_once"]), (4, []))
        renamed = two(("there/b.epi", 1.0), ("there/a.epi", 2.0))
        for run, requests in (before, ("01", "02")), (renamed, ("01", "02")):
            for kernel, request in zip(run["kernels"], requests):
                kernel["request"] = request
        document = self.compare(before, renamed)
        self.assertTrue(all(row["before_ms"] == row["after_ms"] for row in document["compared"]))
        self.assertEqual((len(document["compared"]), document["only_once"]), (4, []))

    def test_equal_sizes_are_compared(self):
        document = self.compare(times({("k", 8): (1.0, 5.0), ("k", 4): (1.0, 5.0)}),
                                times({("k", 8): (1.0, 5.0), ("k", 16): (9.0, 9.0)}))
        self.assertEqual(len(document["compared"]), 2)
        self.assertEqual(len(document["only_once"]), 4)
        self.assertIn("k (E=4, 16 rows in 4 groups) is in", document["only_once"][0])
        other = self.write("c.json", json.dumps(times({("other", 8): (1.0, 2.0)})))
        self.refuses(1, "bench", "--compare", "a.json", other, says="in common")

    def test_rows_that_no_launch_has_were_not_written_by_bench(self):
        good = times({("k", 8): (1.0, 5.0)})
        for counts in [2 ** 62] * 8, [2 ** 31], [2 ** 30] * 2, [-1, 5], [2 ** 64 - 1, 1]:
            odd = json.loads(json.dumps(good))
            odd["kernels"][0]["counts"] = counts
            self.write("good.json", json.dumps(good))
            self.write("odd.json", json.dumps(odd))
            self.refuses(1, "bench", "--compare", "good.json", "odd.json",
                         says="odd.json: bench has not written this: 'counts' is no list of rows that a launch can have")

    def test_a_driver_that_is_not_known_is_called_that(self):
        known, unknown = times({("k", 8): (1.0, 5.0)}), times({("k", 8): (1.0, 5.0)})
        unknown["driver"] = None
        self.assertEqual(self.compare(unknown, known)["conditions"], ["other driver: unknown, then 580.1"])
        self.assertEqual(self.compare(known, unknown)["conditions"], ["other driver: 580.1, then unknown"])
        self.assertEqual(self.compare(unknown, unknown)["conditions"], [])

    def test_another_card_is_said(self):
        other = times({("k", 8): (1.0, 5.0)}, gpu="NVIDIA H20", clock=1500)
        document = self.compare(times({("k", 8): (1.0, 5.0)}), other)
        self.assertEqual(document["conditions"], ["other GPU: NVIDIA H200, then NVIDIA H20",
                                                  "k (E=8, 32 rows in 8 groups): the clock was 1400 MHz, then 1500"])

    def test_a_card_that_was_not_hot_is_said(self):
        hot, cold = (times({("k", 8): (1.0, 5.0)}) for _ in range(2))
        hot["kernels"][0]["hot"]["is_hot"], cold["kernels"][0]["hot"]["is_hot"] = True, False
        says = "k (E=8, 32 rows in 8 groups): the card was not hot {}, and the time counts for nothing"
        self.assertEqual(self.compare(hot, hot)["conditions"], [])
        self.assertEqual(self.compare(hot, cold)["conditions"], [says.format("after")])
        self.assertEqual(self.compare(cold, hot)["conditions"], [says.format("before")])
        self.assertEqual(self.compare(cold, cold)["conditions"], [says.format("before and after")])
        # Nor is its time held against anybody.
        cold["kernels"][0]["forms"][0]["hot"]["median_ms"] = 9.0
        self.compare(hot, cold)

    def test_text(self):
        self.compare(times({("k", 8): (1.0, 5.0)}), times({("k", 8): (1.5, 5.0)}), code=5)
        out, err = self.run_epifuse("bench", "--compare", "a.json", "b.json", code=5)
        self.assertRegex(out, r"k +fused +1\.0000 ms -> +1\.5000 ms +\+50\.0 %  SLOWER")
        self.assertIn("1 of 1 fused times are more than 3 % longer in b.json", err)

    def test_files_that_bench_has_not_written(self):
        good = self.write("good.json", json.dumps(times({("k", 8): (1.0, 5.0)})))

        def changed(**more):
            document = times({("k", 8): (1.0, 5.0)})
            for key, value in more.items():
                (document if key in ("command", "ok", "gpu", "kernels") else document["kernels"][0])[key] = value
            return json.dumps(document)
        no = "bench has not written this: "
        for name, text, says in (("no.json", "{", "it is no JSON"), ("list.json", "[1]", no + "it is no JSON object"),
                                 ("null.json", "null", no + "it is no JSON object"),
                                 ("other.json", changed(command="explain"), no + "its 'command' is another"),
                                 ("failed.json", changed(ok=False), "this run of bench failed"),
                                 ("gpu.json", changed(gpu=None), no + "'name' is missing"),
                                 ("kernels.json", changed(kernels={}), no + "'kernels' is no list"),
                                 ("name.json", changed(kernel=1), no + "'kernel' is no text"),
                                 ("dims.json", changed(dims={"E": "8"}), no + "'dims'"),
                                 ("counts.json", changed(counts=[1, None]), no + "'counts'"),
                                 ("forms.json", changed(forms=None), no + "a kernel has no list of 'forms'"),
                                 ("row.json", changed(forms=[{"form": "fused", "hot": None}]), no + "'median_ms'"),
                                 ("null_row.json", changed(kernels=[None]), no + "a kernel has no list of 'forms'"),
                                 ("empty.json", json.dumps(times({})), "it has no times"),
                                 ("zero.json", json.dumps(times({("k", 8): (0, 5.0)})), "is no time")):
            self.refuses(1, "bench", "--compare", good, self.write(name, text), says=says)
        self.refuses(1, "bench", "--compare", good, self.path("missing.json"), says="missing.json")


if __name__ == "__main__":
    support.main()
