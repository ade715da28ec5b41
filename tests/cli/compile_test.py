"""compile: the stages, and kernels through NVRTC and the cache. NVRTC runs three times in all: it is the dear part."""

import os
import pty
import shutil
import subprocess

import support

TEXT_STAGES = ("tokens", "ast", "ir", "plan", "cuda")


class StagesTest(support.CliTest):
    def test_each_stage_is_printed(self):
        heads = {"tokens": "key_kernel", "ast": "kernel grouped_gemm", "ir": "# resolved",
                 "plan": "plan 2 grouped_gemm", "cuda": "__global__"}
        for stage in TEXT_STAGES:
            out, err = self.run_epifuse("compile", self.spec(), f"--emit={stage}", EPIFUSE_NVRTC="/nonexistent")
            self.assertIn(heads[stage], out)
            self.assertEqual("not compiled yet" in err, stage in ("plan", "cuda"))
            self.assertLessEqual(err.count("\n"), 1)
            self.assertEqual(self.json("compile", self.spec(), f"--emit={stage}")["text"], out)

    def test_two_processes_print_the_same_bytes(self):
        for stage in TEXT_STAGES:
            first, second = (self.run_epifuse("compile", self.spec("moe_fc1_swiglu"), f"--emit={stage}", raw=True)[0]
                             for _ in range(2))
            self.assertEqual(first, second)

    def test_a_stage_into_a_file(self):
        out, _ = self.run_epifuse("compile", self.spec(), "--emit=cuda", "-o", "kernel.cu")
        self.assertEqual(out, "")
        with open(self.path("kernel.cu"), encoding="utf-8") as file:
            self.assertIn("__global__", file.read())
        self.assertEqual(self.json("compile", self.spec(), "--emit=ir", "-o", "k.ir")["output"], "k.ir")
        self.assertEqual(self.files(), ["k.ir", "kernel.cu"])

    def test_the_tree_is_a_spec_again(self):
        once, _ = self.run_epifuse("compile", self.small(), "--emit=ast")
        twice, _ = self.run_epifuse("compile", self.write("again.epi", once), "--emit=ast")
        self.assertEqual(once, twice)

    def test_options_reach_the_kernel(self):
        ir, _ = self.run_epifuse("compile", self.small(), "--emit=ir", "--dims", "E=4,K=32", "--dims", "N=64")
        for line in ("dim E = 4", "dim K = 32", "dim N = 64"):
            self.assertIn(line, ir)
        plan, _ = self.run_epifuse("compile", self.spec(), "--emit=plan", "--schedule", "cooperative 128x256")
        self.assertIn("schedule cooperative 128x256", plan)
        cuda, _ = self.run_epifuse("compile", self.small(), "--emit=cuda", "--without", "s", "--without", "b")
        self.assertNotIn("out_s", cuda)
        self.assertNotIn("in_b", cuda)

    def test_one_kernel_of_several(self):
        spec = self.write("two.epi", support.SMALL + support.SMALL.split("\n", 1)[1].replace("small", "other"))
        self.refuses(1, "compile", spec, "--emit=ir", says=["small", "other"])
        self.assertIn("kernel other", self.run_epifuse("compile", spec, "--emit=ir", "--kernel", "other")[0])
        self.refuses(1, "compile", spec, "--emit=ir", "--kernel", "third", says="'third'")

    def test_what_cannot_be_compiled(self):
        unbound = self.write("unbound.epi", support.SMALL.replace("K = 16", "K"))
        self.refuses(1, "compile", unbound, "--emit=ir", says="'K'")
        self.run_epifuse("compile", unbound, "--emit=ir", "--dims", "K=16")
        cases = [
            (["--dims", "Q=3"], "'Q'"),
            (["--without", "x"], "'x'"),
            (["--without", "nothing"], "'nothing'"),
            (["--kernel", "large"], "'large'"),
            (["--schedule", "pingpong 7x9"], "no plan 'pingpong 7x9'"),
            (["--dims", "K=12"], "K"),
        ]
        for options, says in cases:
            self.refuses(1, "compile", self.small(), "--emit=cuda", *options, says=says)
            document = self.json("compile", self.small(), "--emit=cuda", *options, code=1)
            self.assertEqual(document["error"]["kind"], "user")
        self.refuses(1, "compile", self.small(), "--schedule", "x", says="epifuse: error: no plan 'x'")
        self.refuses(1, "compile", self.path("missing.epi"), says="there is no file")
        self.refuses(1, "compile", self.write("bad.epi", "kernel {"), "-o", "out.cubin", says="bad.epi:1:8")
        self.assertNotIn("out.cubin", self.files())


class TakenPlanTest(support.CliTest):
    def test_what_is_printed_is_what_runs_or_said_to_be_open(self):
        says = ("(pingpong 128x64) is not compiled yet: if the plan spills registers or waits for each wgmma when it is "
                "compiled, another is taken")
        for stage in "plan", "cuda":
            text, said = self.run_epifuse("compile", self.small(), "--emit=" + stage)
            self.assertIn(says, said)
            document = self.json("compile", self.small(), "--emit=" + stage)
            self.assertEqual((document["text"], document["plan"]), (text, "pingpong 128x64"))
            self.assertIn(document["may_be_left"], said)
        asked = self.json("compile", self.small(), "--emit=plan", "--schedule", "pingpong 128x64")
        self.assertIsNone(asked["may_be_left"])
        self.assertEqual(self.run_epifuse("compile", self.small(), "--emit=plan", "--schedule", "pingpong 128x64")[1], "")
        self.json("compile", self.small())
        self.assertEqual(self.run_epifuse("compile", self.small(), "--emit=cuda"), (text, ""))
        self.assertIsNone(self.json("compile", self.small(), "--emit=cuda")["may_be_left"])


class TerminalTest(support.CliTest):
    def test_a_cubin_is_not_for_a_terminal(self):
        try:
            ours, theirs = pty.openpty()
        except OSError as error:  # a bare chroot or container has none
            self.skipTest(f"no terminal can be made here: {error}")
        try:
            done = subprocess.run([support.EPIFUSE, "compile", self.spec(), "--emit=cubin"], stdout=theirs,
                                  stderr=subprocess.PIPE, env=self.environment, check=False)
        finally:
            os.close(theirs)
            os.close(ours)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"-o FILE", done.stderr)


class ToolchainTest(support.CliTest):
    def test_without_nvrtc(self):
        self.refuses(3, "compile", self.spec(), "-o", "k.cubin", says="NVRTC", EPIFUSE_NVRTC="/nonexistent")
        document = self.json("compile", self.spec(), code=3, EPIFUSE_NVRTC="/nonexistent")
        self.assertEqual(document["error"]["kind"], "machine")
        self.refuses(3, "compile", self.spec(), says="EPIFUSE_JIT", EPIFUSE_JIT="off")
        self.assertEqual(self.files(), [])

    def test_sass_needs_nvdisasm(self):
        if shutil.which("nvdisasm") or os.path.exists("/usr/local/cuda/bin/nvdisasm"):
            self.skipTest("nvdisasm is here")
        self.refuses(3, "compile", self.spec(), "--emit=sass", says="nvdisasm")

    def test_every_kernel_of_a_file(self):
        spec = self.write("two.epi", support.SMALL + support.SMALL.split("\n", 1)[1].replace("small", "other"))
        bad = self.write("bad.epi", support.SMALL + support.SMALL.split("\n", 1)[1].replace("small", "other")
                         .replace("K = 16", "K"))
        self.refuses(1, "compile", bad, says="'K'")
        document = self.json("compile", spec)
        self.assertEqual([kernel["kernel"] for kernel in document["kernels"]], ["small", "other"])
        self.assertEqual(document["toolchain_calls"], sum(1 + len(k["refused"]) for k in document["kernels"]))
        for kernel in document["kernels"]:
            self.assertTrue(kernel["compiled"])
            self.assertGreater(kernel["phases_ms"]["toolchain"], 0)
        again = self.json("compile", spec)
        self.assertEqual(again["toolchain_calls"], 0)
        self.assertEqual([kernel["key"] for kernel in again["kernels"]],
                         [kernel["key"] for kernel in document["kernels"]])
        text, _ = self.run_epifuse("compile", spec)
        self.assertIn("small for sm_90a: from disk", text)
        self.assertIn("other for sm_90a: from disk", text)

    def test_cold_warm_and_elsewhere(self):
        cold = self.json("compile", self.spec(), "--emit=ptx", "-o", "k.ptx")
        self.assertEqual((cold["kernel"], cold["target"], cold["output"]), ("grouped_gemm", "sm_90a", "k.ptx"))
        self.assertEqual((cold["compiled"], cold["from"], cold["toolchain_calls"]), (True, "toolchain", 1))
        self.assertEqual((cold["spill_bytes"], cold["wgmma_serialized"], cold["refused"]), (0, False, []))
        self.assertGreater(cold["ms"], 0)
        self.assertEqual(cold["workspace_bytes"], 0)
        with open(self.path("k.ptx"), encoding="utf-8") as file:
            self.assertIn(".target sm_90a", file.read())

        out, _ = self.run_epifuse("compile", self.spec(), "-o", "k.cubin")
        self.assertIn("from disk", out)
        self.assertIn("written to k.cubin", out)
        with open(self.path("k.cubin"), "rb") as file:
            cubin = file.read()
        self.assertEqual(cubin[:4], b"\x7fELF")
        self.assertEqual(len(cubin), cold["cubin_bytes"])

        # A second process takes it from the disk, also for other sizes, without a compiler, or into stdout.
        for options, settings in (([], {}), (["--dims", "E=16"], {}),
                                  ([], {"EPIFUSE_NVRTC": "/nonexistent"}), ([], {"EPIFUSE_JIT": "off"})):
            with self.subTest(options=options, settings=settings):
                warm = self.json("compile", self.spec(), *options, **settings)
                self.assertEqual((warm["compiled"], warm["from"], warm["toolchain_calls"]), (False, "disk", 0))
                self.assertEqual(warm["cubin_bytes"], cold["cubin_bytes"])
        out, _ = self.run_epifuse("compile", self.spec(), "--emit=cubin", raw=True)
        self.assertEqual(out, cubin)

        # sass comes from whatever nvdisasm is found first.
        fake = self.write("bin/nvdisasm", '#!/bin/sh\nhead -c 4 "$1" | tail -c 3\nprintf " disassembled"\n')
        os.chmod(fake, 0o755)
        tools = {"CUDA_HOME": "", "PATH": os.path.dirname(fake) + ":" + self.environment["PATH"]}
        self.assertEqual(self.run_epifuse("compile", self.spec(), "--emit=sass", **tools)[0], "ELF disassembled")
        self.write("bin/nvdisasm", "#!/bin/sh\nexit 1\n")
        self.refuses(3, "compile", self.spec(), "--emit=sass", says="could not read the cubin", **tools)

        entries = self.json("cache", "list")["entries"]
        self.assertEqual([entry["key"] for entry in entries], [cold["key"]])
        self.assertEqual((entries[0]["state"], entries[0]["kind"]), ("good", "artifact"))
        self.assertEqual(entries[0]["metadata"]["kernel"], "grouped_gemm")
        self.assertIn("grouped_gemm", self.run_epifuse("cache", "list")[0])

        # Damage is a miss; without a compiler it is an error, and nothing is written.
        with open(entries[0]["path"], "r+b") as file:
            file.seek(200)
            file.write(b"????")
        self.assertEqual(self.json("cache", "list")["entries"][0]["state"], "damaged")
        self.refuses(3, "compile", self.spec(), "-o", "again.cubin", says="NVRTC", EPIFUSE_NVRTC="/nonexistent")
        self.assertEqual(self.files(), ["bin/nvdisasm", "k.cubin", "k.ptx"])

    def test_two_at_once_compile_once(self):
        runs = [self.start("compile", self.spec("grouped_gemm"), "--json") for _ in range(2)]
        documents = [support.json.loads(run.communicate(timeout=300)[0]) for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0])
        self.assertEqual(sorted(document["toolchain_calls"] for document in documents), [0, 1])
        self.assertEqual(documents[0]["key"], documents[1]["key"])
        self.assertEqual(len(self.json("cache", "list")["entries"]), 1)

    def test_a_cache_that_cannot_be_used_is_one_warning(self):
        self.write("file", "no directory")
        out, err = self.run_epifuse("compile", self.spec(), EPIFUSE_CACHE_DIR=self.path("file", "cache"))
        self.assertIn("compiled in", out)
        self.assertEqual(err.count("warning"), 1)
        self.assertIn("EPIFUSE_CACHE_DIR", err)

    def test_the_error_of_a_document_says_what_is_wrong(self):
        document = self.json("compile", self.small(), "--schedule", "nonsense", code=1)
        self.assertTrue(document["error"]["message"].startswith("no plan 'nonsense' for kernel small, because "))
        self.assertEqual(document["error"]["message"], document["diagnostics"][0]["message"])
        bad = self.write("bad.epi", support.SMALL.replace("gemm(x, w)", "gemm(x, z)"))
        (one,) = self.json("compile", bad, "--emit=ir", code=1)["diagnostics"]
        self.assertEqual(self.json("compile", bad, "--emit=ir", code=1)["error"]["message"],
                         f"{bad}:{one['line']}:{one['column']}: {one['message']}")
        bad = self.write("bad.epi", support.SMALL.replace("gemm(x, w)", "gemm(x, z)").replace("h, limit", "h, limt"))
        document = self.json("compile", bad, "--emit=ir", code=1)
        self.assertEqual(len(document["diagnostics"]), 2)
        self.assertTrue(document["error"]["message"].endswith("; and 1 more mistake"), document["error"])


if __name__ == "__main__":
    support.main()
