"""explain: floors, what fusion saves, buffers and plans, on a machine without a GPU and without NVRTC."""

import re

import support

TWO = support.SMALL + """kernel other {
  dim   K = 64, N = 96
  dyn   T
  in  x : bf16[T, K]
  in  w : bf16[N, K]
  out y : bf16[T, N] = gemm(x, w)
}
"""


class ExplainTest(support.CliTest):
    def kernel(self, *arguments, **environment):
        document = self.json("explain", *arguments, EPIFUSE_NVRTC="/nonexistent", **environment)
        self.assertEqual(len(document["kernels"]), 1)
        return document["kernels"][0]

    def test_numbers_of_a_known_shape(self):
        # 8 experts of 4096 tokens, 7168 x 4096: 2 * 32768 * 7168 * 4096 operations, 132 * 4096 of them in a cycle.
        kernel = self.kernel(self.spec("moe_fc1_swiglu"), "--expected-rows", "4096")
        self.assertEqual(kernel["flop"], 2 * 32768 * 7168 * 4096)
        cycles = kernel["flop"] / 4096 / 132
        for state, megahertz in ("hot", 1400), ("full_clock", 1980):
            floor = kernel["floor"][state]
            self.assertEqual(floor["clock_mhz"], megahertz)
            self.assertAlmostEqual(floor["tensor_ms"] / (cycles / megahertz / 1e3), 1, 9)
            self.assertEqual(floor["ms"], floor["tensor_ms"])
            self.assertAlmostEqual(
                floor["product_and_pass_ms"] / (floor["tensor_ms"] + 1e3 * kernel["pass_bytes"] / 4.3e12), 1, 9)
        by_name = {row["name"]: row for row in kernel["buffers"]}
        self.assertEqual(by_name["x"]["shape"], [32768, 7168])
        self.assertEqual(by_name["x"]["read_bytes"], 32768 * 7168 * 2)
        self.assertEqual(by_name["pre"]["written_bytes"], 32768 * 4096 * 2)
        self.assertEqual(kernel["read_bytes"], sum(row["read_bytes"] for row in kernel["buffers"]))
        self.assertEqual(kernel["written_bytes"], sum(row["written_bytes"] for row in kernel["buffers"]))
        # The pass reads what the product left, and prob; it writes what the kernel writes but for that.
        left = by_name["pre"]["written_bytes"]
        self.assertEqual(kernel["product_bytes"],
                         by_name["x"]["read_bytes"] + by_name["w"]["read_bytes"] + left)
        self.assertEqual(kernel["pass_bytes"], by_name["prob"]["read_bytes"] + kernel["written_bytes"])
        self.assertEqual(kernel["dims"], {"E": 8, "K": 7168, "I": 2048})
        self.assertEqual(kernel["counts"], [4096] * 8)

    def test_the_plan_and_the_others(self):
        kernel = self.kernel(self.spec("moe_fc1_swiglu"))
        plan = kernel["plan"]
        self.assertEqual(plan["plan"], plan["plans"][0]["plan"])
        self.assertGreater(len(plan["plans"]), 3)
        costs = [row["cost"] for row in plan["plans"]]
        self.assertEqual(costs, sorted(costs))
        self.assertEqual(plan["shared_bytes"], sum(row["bytes"] for row in plan["shared"]))
        self.assertLessEqual(plan["shared_bytes"], plan["shared_bytes_limit"])
        self.assertIsNone(kernel["compiled"])
        other = plan["plans"][1]["plan"]
        asked = self.kernel(self.spec("moe_fc1_swiglu"), "--schedule", other)["plan"]
        self.assertEqual((asked["plan"], asked["why"]), (other, "asked for"))

    def test_what_leaves_plans_out(self):
        arguments = (self.spec("recipes/fp8_blocks"), "--kernel", "fc1")
        plan = self.kernel(*arguments)["plan"]
        self.assertEqual(len(plan["plans"]), 1)
        self.assertGreater(len(plan["impossible"]), 1)
        name, why = plan["impossible"][0]["plan"], plan["impossible"][0]["why"]
        self.assertNotIn(name, [row["plan"] for row in plan["plans"]])
        out, _ = self.run_epifuse("explain", *arguments)
        self.assertRegex(out, rf"not [^\n]*{re.escape(name)}[^\n]*: {re.escape(why)}\n")
        # The plan itself is refused in the same words.
        self.refuses(1, "explain", *arguments, "--schedule", name, says=why)
        self.assertNotIn("nan", self.run_epifuse("explain", self.spec("rowwise_fp8_quant"))[0])

    def test_text(self):
        out, err = self.run_epifuse("explain", self.spec("moe_fc1_swiglu"), "--counts", "5,0,0,0,0,0,0,11",
                                    EPIFUSE_NVRTC="/nonexistent")
        self.assertEqual(err, "")
        first = "moe_fc1_swiglu for sm_90a: E=8 K=7168 I=2048; M: 16 rows in 8 groups of 0 to 11\n"
        self.assertTrue(out.startswith(first), out)
        for word in ("products", "floor", "product + pass", "fusion saves", "unfused form", "plan",
                     "compiled         not yet", "yt.scale"):
            self.assertIn("\n  " + word, out)
        # The weights of two experts.
        self.assertRegex(out, r"w +input +bf16 +\[8, 4096, 7168\] +470 MB +117 MB +-\n")

    def test_all_kernels_of_a_file_or_one(self):
        path = self.write("two.epi", TWO)
        document = self.json("explain", path, "--dims", "E=3,T=100", "--counts", "1,2,3")
        self.assertEqual([kernel["kernel"] for kernel in document["kernels"]], ["small", "other"])
        self.assertEqual(document["kernels"][0]["dims"], {"E": 3, "K": 16, "N": 32})
        self.assertEqual(document["kernels"][0]["counts"], [1, 2, 3])
        self.assertEqual(document["kernels"][1]["dims"], {"K": 64, "N": 96, "T": 100})
        self.assertIsNone(document["kernels"][1]["counts"])
        self.assertEqual(self.kernel(path, "--kernel", "other", "--expected-rows", "7")["dims"]["T"], 7)
        self.refuses(1, "explain", path, "--dims", "Q=3", says="no kernel of the file has 'Q'")
        self.refuses(1, "explain", path, "--without", "nothing", says="no kernel of the file has 'nothing'")

    def test_as_many_groups_as_sizes_are_made_up_for(self):
        spec = self.write("many.epi", "kernel many {\n  dim E = 2, K = 8, N = 8\n  group M by E\n  in x : bf16[M, K]\n"
                                      "  in w : bf16[E, N, K]\n  out y : f32[M, N] = gemm(x, w)\n}\n")
        self.assertEqual(len(self.kernel(spec, "--dims", "E=1048576")["counts"]), 1 << 20)
        sized = (["explain"], ["bench"], ["bench", "--host"], ["tune", "--report"])
        made = "'M' has {} groups; sizes are made up for 1048576 at most"
        for command in (*sized, ["run", "--device", "cpu"]):
            self.refuses(1, *command, spec, "--dims", f"E={(1 << 20) + 1}", says=made.format((1 << 20) + 1))
        # What no launch can have is said in the same words by all that compile.
        for groups, says in ((10 ** 9, "kernel 'many' is too large for a launch: "),
                             (2 ** 31, "the dimension 'E' is 2147483648, and can be 2147483647 at most"),
                             (10 ** 18, f"the dimension 'E' is {10 ** 18}, and can be 2147483647 at most")):
            said = {self.run_epifuse(*command, spec, "--dims", f"E={groups}", code=1)[1]
                    for command in (*sized, ["check"], ["compile", "--emit=plan"])}
            self.assertEqual(len(said), 1, said)
            self.assertIn(says, said.pop())
            if groups < 10 ** 18:
                self.refuses(1, "run", "--device", "cpu", spec, "--dims", f"E={groups}", says=made.format(groups))
        self.refuses(1, "run", "--device", "cpu", spec, "--dims", f"E={10 ** 18}", says="larger than any memory")

    def test_plans_that_nobody_compiled_yet_may_be_left(self):
        spec = self.spec("moe_fc1_swiglu")
        says = "if the plan spills registers or waits for each wgmma when it is compiled, another is taken"
        self.assertEqual(self.kernel(spec)["plan"]["may_be_left"], says)
        self.assertIn("compiled         not yet: " + says, self.run_epifuse("explain", spec)[0])
        self.assertIsNone(self.kernel(spec, "--schedule", "pingpong 128x128")["plan"]["may_be_left"])

    def test_all_plans(self):
        tried, listed = (self.kernel(self.spec("moe_fc1_swiglu"), *options)["plan"]["plans"] for options in ([], ["--all-plans"]))
        self.assertGreater(len(listed), 4 * len(tried))
        self.assertEqual(listed[0], tried[0])
        plans = [self.kernel(self.spec("moe_fc1_swiglu"), *options)["plan"] for options in ([], ["--all-plans"])]
        self.assertEqual(*[{**plan, "plans": None} for plan in plans])
        out, _ = self.run_epifuse("explain", self.spec("moe_fc1_swiglu"), "--all-plans")
        for row in listed:
            self.assertRegex(out, rf"\n +{row['plan']} \d+\.\d+\n")
        self.refuses(1, "explain", self.spec("moe_fc1_swiglu"), "--schedule", "pingpong 7x7",
                     says=f"({len(listed)} in all: epifuse explain --all-plans lists them)")
        self.refuses(2, "explain", self.small(), "--all-plans", "--schedule", "pingpong 128x64", says="--all-plans")

    def test_what_it_refuses(self):
        self.refuses(1, "explain", self.small(), "--dims", "E=2", "--counts", "1,2,3",
                     says="3 counts are given for the 2 groups")
        self.refuses(1, "explain", self.small(), "--kernel", "none", says="none")
        self.refuses(1, "explain", self.path("missing.epi"), says="missing.epi")
        self.refuses(2, "explain", self.small(), "--expected-rows", "0", says="--expected-rows")
        self.refuses(2, "explain", self.small(), "--expected-rows", "4", "--counts", "1,2", says="--counts")
        self.refuses(1, "explain", self.write("bad.epi", "kernel k {\n  in x : bf17[4]\n}\n"), says="bf17")


if __name__ == "__main__":
    support.main()
