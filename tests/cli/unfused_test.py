"""--unfused and --tap: the stages of a kernel, and inner values as outputs. NVRTC runs once for each stage of a small
kernel."""

import support


class UnfusedTest(support.CliTest):
    def test_each_stage_of_the_way_for_each_operation(self):
        heads = {"ir": "# stage small_h\nkernel small_h", "plan": "# stage small_h\nplan ",
                 "cuda": "// stage small_h\n"}
        for stage, head in heads.items():
            out, err = self.run_epifuse("compile", self.small(), "--unfused", f"--emit={stage}",
                                        EPIFUSE_NVRTC="/nonexistent")
            self.assertIn(head, out)
            self.assertEqual(err, "")
            # The product, the sum, the minimum, and two outputs.
            self.assertEqual(out.count(head[:8]), 5)
            again, _ = self.run_epifuse("compile", self.small(), "--unfused", f"--emit={stage}")
            self.assertEqual(out, again)
        tokens, _ = self.run_epifuse("compile", self.small(), "--emit=tokens")
        self.assertEqual(self.run_epifuse("compile", self.small(), "--unfused", "--emit=tokens")[0], tokens)
        self.run_epifuse("compile", self.small(), "--unfused", "--emit=ir", "-o", "stages.ir")
        self.assertEqual(self.files(), ["small.epi", "stages.ir"])

    def test_what_is_left_out_has_no_stage(self):
        out, _ = self.run_epifuse("compile", self.small(), "--unfused", "--emit=ir", "--without", "b", "--without", "s")
        # The product, the sum with a number, the minimum, and y.
        self.assertEqual(out.count("# stage"), 4)

    def test_what_makes_no_sense_together(self):
        for options in (["--emit=cubin"], ["--emit=ptx"], ["--emit=sass"], ["-o", "k.cubin"]):
            self.refuses(2, "compile", self.small(), "--unfused", *options, says="--unfused makes many cubins")
        for command in (["compile"], ["run", "--device", "cpu"]):
            self.refuses(2, command[0], self.small(), *command[1:], "--unfused", "--schedule", "pingpong 128x128",
                         says="--schedule")
        self.refuses(2, "verify", self.small(), "--unfused", says="--unfused")

    def test_the_stages_are_compiled_and_found_again(self):
        first = self.json("compile", self.small(), "--unfused")
        self.assertEqual(first["unfused"], True)
        self.assertEqual(first["kernel"], "small")
        self.assertEqual([stage["kernel"] for stage in first["stages"]][1:3], ["small_h", "small_s"])
        self.assertEqual(first["toolchain_calls"], len(first["stages"]))
        self.assertEqual({stage["from"] for stage in first["stages"]}, {"toolchain"})
        again = self.json("compile", self.small(), "--unfused")
        self.assertEqual(again["toolchain_calls"], 0)
        self.assertEqual({stage["from"] for stage in again["stages"]}, {"disk"})
        self.assertEqual([stage["key"] for stage in again["stages"]], [stage["key"] for stage in first["stages"]])
        self.assertIn("small for sm_90a, unfused: 5 kernels",
                      self.run_epifuse("compile", self.small(), "--unfused")[0])


class TapTest(support.CliTest):
    def test_a_tap_is_an_output_of_the_kernel(self):
        plan, _ = self.run_epifuse("compile", self.small(), "--emit=plan", "--tap", "h")
        self.assertIn("h_tap f32", plan)
        plain, _ = self.run_epifuse("compile", self.small(), "--emit=plan")
        self.assertNotIn("h_tap", plain)
        document = self.json("run", self.small(), "--device", "cpu", "--tap", "h", "--counts", "3,4")
        tap = next(row for row in document["outputs"] if row["name"] == "h_tap")
        self.assertEqual((tap["storage"], tap["shape"]), ("f32", [7, 32]))
        # y is min(h, 7), and nothing here is as large.
        y = next(row for row in document["outputs"] if row["name"] == "y")
        self.assertEqual(y["digest"] == tap["digest"], tap["most"] <= 7)
        self.assertEqual(self.json("run", self.small(), "--device", "cpu", "--counts", "3,4")["outputs"],
                         [row for row in document["outputs"] if row["name"] != "h_tap"])

    def test_what_cannot_be_tapped(self):
        self.refuses(1, "compile", self.small(), "--emit=ir", "--tap", "g", says="no value 'g' to tap")
        self.refuses(1, "run", self.small(), "--device", "cpu", "--tap", "x", says="'x' is an input")
        self.refuses(2, "compile", self.small(), "--tap", says="--tap")


if __name__ == "__main__":
    support.main()
