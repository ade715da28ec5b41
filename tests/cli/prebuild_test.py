"""prebuild and bundle: kernels built ahead of time, and a machine that has nothing but them. NVRTC runs some ten times in
all: kernels that differ in dims alone are one compile."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import time
import unittest

import support

# A second kernel, without the first's groups.
SPEC = support.SMALL + """
kernel dense {
  dim K = 64, N = 64
  dyn M
  in  x : bf16[M, K]
  in  w : bf16[N, K]
  out y : bf16[M, N] = gemm(x, w)
}
"""
DIMS = ("--dims", "K=64,N=32", "--dims", "K=128,N=64", "--dims", "K=128,N=64,E=4")
BUNDLES = {}  # built once, for all tests


class PrebuildTest(support.CliTest):
    def setUp(self):
        super().setUp()
        self.two = self.write("two.epi", SPEC)
        # No compiler: whatever reaches for one fails.
        self.sealed = {"EPIFUSE_NVRTC": "/nonexistent", "EPIFUSE_JIT": "off", "EPIFUSE_CACHE_DIR": "off"}

    def bundle(self, name="b.epb"):
        """Five kernels: small with three sets of dims, dense with two."""
        if not BUNDLES:
            shared = self.path("shared")
            document = self.json("prebuild", self.two, *DIMS, "-o", "first.epb", "--jobs", "1",
                                 EPIFUSE_CACHE_DIR=shared)
            self.assertEqual(len(document["kernels"]), 5)
            self.assertEqual(document["failures"], [])
            BUNDLES["compiled"] = document["compiled"]
            BUNDLES["cache"] = shutil.copytree(shared, support.tempfile.mkdtemp(prefix="epifuse-cli-") + "/cache")
            unittest.addModuleCleanup(shutil.rmtree, os.path.dirname(BUNDLES["cache"]), ignore_errors=True)
            with open(self.path("first.epb"), "rb") as file:
                BUNDLES["bytes"] = file.read()
            os.remove(self.path("first.epb"))
        if not os.path.exists(self.path("cache")):
            shutil.copytree(BUNDLES["cache"], self.path("cache"))
        return self.write(name, BUNDLES["bytes"])

    def read(self, *names):
        with open(self.path(*names), "rb") as file:
            return file.read()

    def entries(self, cache):
        """The kernels in the directory of a cache."""
        names = os.listdir(cache) if os.path.isdir(cache) else []
        return [name for name in names if re.fullmatch(r"[0-9a-f]{32}\.[0-9a-f]{32}", name)]

    def test_folders_caches_and_jobs_do_not_show(self):
        self.bundle()
        spec = self.write("elsewhere/deep/renamed.epi", "# another comment\n" + SPEC)
        document = self.json("prebuild", spec, *DIMS, "-o", "second.epb", "--jobs", "2",
                             EPIFUSE_CACHE_DIR=self.path("other"))
        self.assertEqual(document["jobs"], 2)
        self.assertGreater(document["compiled"], 0)
        self.assertEqual(self.read("second.epb"), BUNDLES["bytes"])
        # What was cut off goes on: nothing is compiled twice.
        document = self.json("prebuild", spec, *DIMS, "-o", "third.epb", "--jobs", "2")
        self.assertEqual(document["compiled"], 0)
        self.assertEqual(self.read("third.epb"), BUNDLES["bytes"])

    def test_a_machine_with_a_bundle_needs_no_compiler_and_writes_nothing(self):
        bundle = self.bundle()
        arguments = ("compile", self.two, "--kernel", "small", "--dims", "K=64")
        document = self.json(*arguments, "--bundle", bundle, **self.sealed)
        self.assertEqual((document["from"], document["compiled"], document["toolchain_calls"]), ("bundle", False, 0))
        self.assertEqual(document["bundle"], bundle)
        # By the setting, too.
        document = self.json("compile", self.two, "--kernel", "dense", "--dims", "K=128", EPIFUSE_BUNDLES=bundle,
                             **self.sealed)
        self.assertEqual(document["from"], "bundle")

    def test_jit_and_aot_give_the_same_cubin(self):
        bundle = self.bundle()
        for kernel, dims in (("small", "K=64"), ("dense", "K=128")):
            arguments = ("compile", self.two, "--kernel", kernel, "--dims", dims)
            aot = self.json(*arguments, "-o", "aot.cubin", "--bundle", bundle, **self.sealed)
            # Not from the cache that prebuild has filled.
            jit = self.json(*arguments, "-o", "jit.cubin", EPIFUSE_CACHE_DIR=self.path("fresh"))
            self.assertEqual((jit["from"], jit["compiled"], aot["from"]), ("toolchain", True, "bundle"))
            self.assertTrue(self.read("jit.cubin").startswith(b"\x7fELF"))
            self.assertEqual(self.read("aot.cubin"), self.read("jit.cubin"))
            self.assertEqual(jit["key"], aot["key"])

    def test_a_build_that_was_killed_goes_on_where_it_was(self):
        self.bundle()
        cache, whole = self.path("cut"), BUNDLES["compiled"]
        arguments = ("prebuild", self.two, *DIMS, "-o", "cut.epb", "--jobs", "1")
        build = self.start(*arguments, EPIFUSE_CACHE_DIR=cache, start_new_session=True)
        try:
            deadline = time.monotonic() + 120
            while not self.entries(cache):
                self.assertIsNone(build.poll(), "it ended before it could be killed")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.005)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(build.pid, signal.SIGKILL)  # with its workers
            build.communicate()
        self.assertFalse(os.path.exists(self.path("cut.epb")))
        there = len(self.entries(cache))
        self.assertTrue(1 <= there < whole, f"{there} of {whole}")
        document = self.json(*arguments, EPIFUSE_CACHE_DIR=cache)
        self.assertEqual(document["compiled"], whole - there)
        self.assertEqual(self.read("cut.epb"), BUNDLES["bytes"])

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_with_a_complete_bundle_no_nvrtc_is_opened_and_no_file_is_written(self):
        bundle = self.bundle()
        trace = self.path("trace")
        environment = {**self.environment, "EPIFUSE_JIT": "off", "EPIFUSE_CACHE_DIR": self.path("never")}
        traced = subprocess.run(
            ["strace", "-f", "-o", trace, "-e", "trace=file,desc", support.EPIFUSE, "compile", self.two, "--kernel",
             "small", "--dims", "K=64", "--bundle", bundle], cwd=self.folder, env=environment, capture_output=True)
        if b"ptrace" in traced.stderr or not os.path.exists(trace):
            self.skipTest("nothing can be traced here")
        self.assertEqual(traced.returncode, 0, traced.stderr)
        calls = self.read("trace").decode(errors="replace")
        self.assertIn("two.epi", calls)
        self.assertNotIn("nvrtc", calls)
        self.assertNotRegex(calls, r"O_(WRONLY|RDWR|CREAT)|mkdir|rename\(|unlink")
        self.assertFalse(os.path.exists(self.path("never")))

    def test_a_kernel_that_the_bundle_lacks_is_said_with_what_differs_and_the_command_that_builds_it(self):
        bundle = self.bundle()
        says = ["EPIFUSE_JIT is off", f"nearest: {bundle} has kernel 'small' for sm_90a with E=2,K=64,N=32",
                "what differs: the dim K", "epifuse prebuild", "--kernel small --dims E=2,K=96,N=32 --target sm_90a"]
        self.refuses(3, "compile", self.two, "--kernel", "small", "--dims", "K=96", "--bundle", bundle, says=says,
                     **self.sealed)
        self.refuses(3, "compile", self.two, "--kernel", "small", "--jit", "off", says="there is no bundle",
                     EPIFUSE_CACHE_DIR="off")
        self.refuses(2, "compile", self.two, "--jit", "maybe", says="--jit: 'maybe' is not on or off")

        # The command that is said builds what was missing.
        _, err = self.run_epifuse("compile", self.two, "--kernel", "small", "--dims", "K=96", "--bundle", bundle,
                                  code=3, **self.sealed)
        words = re.search(r"epifuse (prebuild .*) -o FILE", err).group(1).split()
        self.run_epifuse(*words, "-o", "more.epb")
        document = self.json("compile", self.two, "--kernel", "small", "--dims", "K=96", "--bundle", bundle,
                             "--bundle", self.path("more.epb"), **self.sealed)
        self.assertEqual(document["bundle"], self.path("more.epb"))

    def test_cache_why_looks_into_bundles_first(self):
        bundle = self.bundle()
        why = ["cache", "why", self.two, "--kernel", "small"]
        there = ["--dims", "K=64"]
        found = self.json(*why, *there, "--bundle", bundle, **self.sealed)
        made = self.json("compile", self.two, "--kernel", "small", *there, "--bundle", bundle, **self.sealed)
        self.assertEqual((found["hit"], found["state"], found["bundle"], found["key"], found["plan"], found["lookups"]),
                         (True, "good", bundle, made["key"], made["plan"], []))
        self.assertEqual(found["bundles"], {"searched": [bundle], "problems": [], "why_not": None, "nearest": None,
                                            "build": None})
        text, _ = self.run_epifuse(*why, *there, EPIFUSE_BUNDLES=bundle, **self.sealed)
        self.assertEqual(text, f"kernel 'small' for sm_90a with E=2,K=64,N=32 ({made['plan']}) is in the bundle {bundle}\n")

        # In no bundle: the nearest one, the command, and then the cache, which has it: K is a parameter of the kernel.
        missed = self.json(*why, "--dims", "K=96", "--bundle", bundle)
        self.assertEqual((missed["hit"], missed["bundle"], missed["key"]), (True, None, made["key"]))
        self.assertEqual(missed["bundles"]["nearest"],
                         {"kernel": "small", "target": "sm_90a", "dims": {"E": 2, "K": 64, "N": 32}, "without": [],
                          "schedule": None, "bundle": bundle, "differs": "the dim K"})
        command = missed["bundles"]["build"]
        self.assertEqual(command, f"epifuse prebuild {self.two} --kernel small --dims E=2,K=96,N=32 --target sm_90a "
                                  "-o FILE")
        text, _ = self.run_epifuse(*why, "--dims", "K=96", "--bundle", bundle)
        for part in ("kernel 'small' for sm_90a with E=2,K=96,N=32 is in no bundle\n",
                     f"  nearest: {bundle} has kernel 'small' for sm_90a with E=2,K=64,N=32\n",
                     "  what differs: the dim K\n", f"  to build it: {command}\n", "is in the cache"):
            self.assertIn(part, text)
        neither, _ = self.run_epifuse(*why, *there, "--without", "b", "--bundle", bundle)
        for part in ("what differs: what is left out\n", "is not in the cache", "the nearest entry is"):
            self.assertIn(part, neither)
        # What the run itself would say is the same.
        _, err = self.run_epifuse("compile", self.two, "--kernel", "small", "--dims", "K=96", "--bundle", bundle,
                                  code=3, **self.sealed)
        self.assertIn(text.split("  to build it")[0], err)

        # Bundles that cannot be used are told, and the others are asked.
        damaged = self.write("damaged.epb", BUNDLES["bytes"][:-1])
        both = self.json(*why, *there, "--bundle", damaged, "--bundle", bundle, **self.sealed)
        self.assertEqual((both["bundle"], both["bundles"]["searched"]), (bundle, [bundle]))
        self.assertIn(damaged, both["bundles"]["problems"][0])
        self.assertIn(damaged, self.run_epifuse(*why, "--bundle", damaged)[0])
        self.assertIsNone(self.json(*why)["bundles"])

        # A tuning file that names another plan goes first while compiling is allowed.
        dense = ["cache", "why", self.two, "--kernel", "dense", "--dims", "K=64,N=32", "--bundle", bundle]
        plan = self.json(*dense)["plan"]
        tuning = self.tuning(next(name for name in ("pingpong 128x64", "pingpong 128x128") if name != plan), bundle)
        passed = self.json(*dense, EPIFUSE_TUNING=tuning)
        self.assertIsNone(passed["bundle"])
        self.assertIn("the tuning file names", passed["bundles"]["why_not"])
        self.assertIn("the tuning file names", self.run_epifuse(*dense, EPIFUSE_TUNING=tuning)[0])
        self.assertEqual(self.json(*dense, EPIFUSE_TUNING=tuning, **self.sealed)["bundle"], bundle)

    def test_the_plan_that_is_shown_is_the_one_that_a_compile_takes(self):
        bundle = self.bundle()
        of_kernel = [self.two, "--kernel", "dense", "--dims", "K=64,N=32"]
        plan = self.json("bundle", "list", bundle)["kernels"][0]["plan"]
        other = next(name for name in ("pingpong 128x64", "pingpong 128x128") if name != plan)
        tuning = self.tuning(other, bundle)
        first = self.json("explain", *of_kernel)["kernels"][0]["plan"]
        # Only looking compiles nothing; whether the kernel has been compiled does not change the answer.
        for _ in range(2):
            for settings, taken, why in (({"EPIFUSE_TUNING": tuning}, other, "from the tuning file"),
                                         ({}, plan, "from the bundle " + bundle),
                                         ({"EPIFUSE_TUNING": tuning, **self.sealed}, plan, "from the bundle " + bundle)):
                settings = {"EPIFUSE_BUNDLES": bundle, **settings}
                with self.subTest(settings=settings):
                    shown = self.json("explain", *of_kernel, **settings)["kernels"][0]["plan"]
                    self.assertEqual((shown["plan"], shown["why"]), (taken, why))
                    self.assertEqual(self.json("compile", *of_kernel, "--emit=plan", **settings)["plan"], taken)
            self.assertEqual(self.json("compile", *of_kernel, EPIFUSE_BUNDLES=bundle, EPIFUSE_TUNING=tuning)["plan"], other)
        self.assertEqual(self.json("explain", *of_kernel)["kernels"][0]["plan"]["why"], first["why"])

    def test_whoever_shows_a_plan_warns_of_bundles_as_a_compile_does(self):
        good = self.bundle()
        of_kernel = [self.two, "--kernel", "dense", "--dims", "K=64,N=32"]
        newer, index, part = (bytearray(BUNDLES["bytes"]) for _ in range(3))
        newer[8] ^= 1
        index[70] ^= 1
        for request in re.finditer(rb"request 1\n", BUNDLES["bytes"]):
            part[request.start()] ^= 1
        os.mkdir(self.path("folder.epb"))
        bundles = [self.write("newer.epb", bytes(newer)), self.write("index.epb", bytes(index)),
                   self.write("part.epb", bytes(part)), self.path("missing.epb"), self.path("folder.epb")]
        for bundle in bundles:
            said = "a kernel of a bundle is not used: " if bundle == bundles[2] else "a bundle is not used: "
            for command in ("compile",), ("compile", "--emit=plan"), ("compile", "--emit=cuda"), ("explain",):
                with self.subTest(bundle=bundle, command=command):
                    document = self.json(*command, *of_kernel, EPIFUSE_BUNDLES=bundle)
                    (warning,) = document["diagnostics"]
                    self.assertIn(said, warning["message"])
                    self.assertIn(bundle, warning["message"])
            # Of several kernels once.
            _, err = self.run_epifuse("explain", self.two, "--dims", "K=64,N=32", EPIFUSE_BUNDLES=bundle)
            self.assertEqual(err.count(bundles[3]), int(bundle == bundles[3]))
        self.assertEqual(self.json("compile", *of_kernel, "--emit=plan", "--bundle", bundles[2])["diagnostics"][0]["severity"],
                         "warning")
        self.assertEqual(self.json("explain", *of_kernel, EPIFUSE_BUNDLES=good)["diagnostics"], [])

    def test_check_compiles_nothing_and_tells_missing_extra_and_stale(self):
        self.bundle()
        document = self.json("prebuild", self.two, *DIMS, "-o", "b.epb", "--check", **self.sealed)
        self.assertEqual([document[key] for key in ("missing", "extra", "stale")], [[], [], []])
        document = self.json("prebuild", self.two, "--dims", "K=64,N=32", "--dims", "K=256,N=32", "-o", "b.epb",
                             "--check", code=5, **self.sealed)
        self.assertEqual([(row["kernel"], row["dims"]["K"]) for row in document["missing"]],
                         [("small", 256), ("dense", 256)])
        self.assertEqual(len(document["extra"]), 3)
        self.assertEqual(document["stale"], [])
        self.refuses(1, "prebuild", self.two, "-o", "none.epb", "--check", says="there is no bundle 'none.epb'")
        out, _ = self.run_epifuse("prebuild", self.two, *DIMS, "-o", "b.epb", "--check")
        self.assertIn("0 missing, 0 changed, 0 stale, 0 extra, of 5 kernels", out)

    def test_a_spec_that_was_edited_has_changed_kernels(self):
        bundle = self.bundle()
        edited = self.write("two.epi", SPEC.replace("= gemm(x, w)\n}", "= gemm(x, w) * 2\n}"))
        document = self.json("prebuild", edited, *DIMS, "-o", "b.epb", "--check", code=5, **self.sealed)
        self.assertEqual([document[key] for key in ("missing", "extra", "stale")], [[], [], []])
        self.assertEqual([(row["kernel"], row["dims"]["K"]) for row in document["changed"]],
                         [("dense", 64), ("dense", 128)])
        self.assertIn("the kernel's text: '", document["changed"][0]["why"])
        out, _ = self.run_epifuse("prebuild", edited, *DIMS, "-o", "b.epb", "--check", code=5, **self.sealed)
        self.assertRegex(out, r"changed  kernel 'dense' for sm_90a with K=64,N=32: the kernel's text: '.*' there, '.*' here")
        self.assertIn("0 missing, 2 changed, 0 stale, 0 extra", out)
        # Both in one bundle are an ambiguous label, and of two bundles a change.
        self.run_epifuse("prebuild", edited, "--kernel", "dense", *DIMS[:2], "-o", "edited.epb")
        document = self.json("bundle", "diff", bundle, "edited.epb", code=5)
        self.assertEqual([(row["kernel"], row["dims"]["K"]) for row in document["changed"]], [("dense", 64)])
        self.assertEqual((len(document["only_in_first"]), document["only_in_second"]), (4, []))
        document = self.json("bundle", "merge", bundle, "edited.epb", "-o", "merged.epb")
        self.assertEqual([row["dims"]["K"] for row in document["ambiguous"]], [64])
        _, err = self.run_epifuse("bundle", "merge", bundle, "edited.epb", "-o", "merged.epb")
        self.assertIn("warning: merged.epb has several kernels that differ only in their text: kernel 'dense'", err)
        rows = [row for row in self.json("bundle", "list", "merged.epb")["kernels"] if row["kernel"] == "dense"]
        out, _ = self.run_epifuse("bundle", "list", "merged.epb")
        for row in rows:
            self.assertIn("request " + row["request"], out)

    def test_control_characters_are_shown_and_not_sent_to_a_terminal(self):
        name = self.write("a\x1b[31mred.epi", "kernel {")
        _, err = self.run_epifuse("check", name, code=1)
        self.assertIn("a\\x1b[31mred.epi", err)
        self.assertNotIn("\x1b", err)
        manifest = self.write("m.json", json.dumps({"manifest": 1, "spec\x1b]0;title\x07": 1}))
        _, err = self.run_epifuse("prebuild", "--manifest", manifest, "-o", "x.epb", code=1)
        self.assertIn("spec\\x1b]0;title\\x07", err)
        self.assertNotIn("\x1b", err)
        # A file's content is not touched.
        spec = self.write("raw.epi", SPEC)
        out, _ = self.run_epifuse("compile", spec, "--kernel", "dense", "--emit=cuda")
        self.assertEqual(out, self.json("compile", spec, "--kernel", "dense", "--emit=cuda")["text"])

    def test_what_is_read_is_not_replaced(self):
        self.bundle()
        tuning = self.write("tuning.json", json.dumps({"epifuse": "tuning", "version": 1, "kernels": []}))
        manifest = self.write("kernels.json", json.dumps({"manifest": 1, "targets": ["sm_90a"],
                                                          "plans": "plans.json", "specs": [{"spec": "two.epi"}]}))
        shutil.copy(tuning, self.path("plans.json"))
        self.run_epifuse("compile", self.two, "--kernel", "dense", "--record", "run.jsonl")
        self.write("lib.epi", "fn twice(v) = v * 2\n")
        uses = self.write("uses.epi", 'use "lib.epi"\n' + SPEC)
        before = {name: self.read(name) for name in self.files()}
        for arguments, output, what in (([self.two], "two.epi", "the spec"), ([uses], "lib.epi", "a file of a spec"),
                                        ([self.two, uses], "two.epi", "a spec"),
                                        (["--manifest", manifest], "kernels.json", "the manifest"),
                                        (["--manifest", manifest], "two.epi", "a spec"),
                                        (["--manifest", manifest], "plans.json", "the tuning file"),
                                        (["--from-record", "run.jsonl"], "run.jsonl", "the record"),
                                        ([self.two, "--plans", tuning], "tuning.json", "the tuning file")):
            self.refuses(1, "prebuild", *arguments, "-o", output, says=f"it is {what} that is read")
        self.refuses(1, "prebuild", self.two, "-o", "tuning.json", says="the tuning file", EPIFUSE_TUNING=tuning)
        self.assertEqual({name: self.read(name) for name in self.files()}, before)

    def test_standard_streams_that_are_closed_are_not_the_workers(self):
        self.bundle()
        ended = subprocess.run(["/bin/sh", "-c", 'exec "$0" prebuild "$@" --jobs 2 --json <&- 2>&-', support.EPIFUSE,
                                self.two, *DIMS, "-o", "c.epb"], cwd=self.folder, env=self.environment, check=False,
                               stdout=subprocess.PIPE)
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(json.loads(ended.stdout)["failures"], [])
        self.assertEqual(self.read("c.epb"), BUNDLES["bytes"])

    def test_a_long_list_says_how_far_it_is(self):
        sets = [{"K": 64 * k} for k in range(1, 1002)]
        manifest = self.write("many.json", json.dumps(
            {"manifest": 1, "targets": ["sm_90a"], "specs": [{"spec": "two.epi", "kernels": ["dense"], "dims": sets}]}))
        out, err = self.run_epifuse("prebuild", "--manifest", manifest, "-o", "b.epb", "--dry-run", **self.sealed)
        self.assertIn("1001 kernels\n", out)
        self.assertEqual(err, "epifuse: 1000 kernels listed so far\n")

    def test_a_bundle_that_is_named_must_be_there(self):
        self.write("text.epb", "none")
        for name, code, says in (("none.epb", 1, "there is no file"), (".", 1, "is a directory"),
                                 ("/dev/null", 1, "no regular file"), ("text.epb", 5, "is no bundle")):
            self.refuses(code, "compile", self.two, "--kernel", "dense", "--bundle", name, says=says)
            self.refuses(code, "bundle", "list", name, says=says)
        self.refuses(1, "cache", "why", self.two, "--kernel", "dense", "--bundle", "none.epb", says="there is no file")
        self.assertEqual(self.files(), ["text.epb", "two.epi"])

    def test_a_dry_run_lists_and_writes_nothing(self):
        out, _ = self.run_epifuse("prebuild", self.two, *DIMS, "-o", "b.epb", "--dry-run", **self.sealed)
        self.assertEqual(out, "kernel 'small' for sm_90a with E=2,K=64,N=32\n"
                              "kernel 'small' for sm_90a with E=2,K=128,N=64\n"
                              "kernel 'small' for sm_90a with E=4,K=128,N=64\n"
                              "kernel 'dense' for sm_90a with K=64,N=32\n"
                              "kernel 'dense' for sm_90a with K=128,N=64\n5 kernels\n")
        self.assertEqual(self.files(), ["two.epi"])

    def test_a_dry_run_says_which_dimensions_lie_in_groups_and_which_are_dynamic(self):
        kernels = self.json("prebuild", self.two, *DIMS, "-o", "b.epb", "--dry-run", **self.sealed)["kernels"]
        groups = {kernel["kernel"]: kernel["groups"] for kernel in kernels}
        self.assertEqual(groups, {"small": [{"dim": "M", "by": "E"}], "dense": []})
        self.assertEqual({kernel["kernel"]: kernel["dyns"] for kernel in kernels}, {"small": [], "dense": ["M"]})

    def test_a_tuned_plan_that_spills_is_said_to_be_left(self):
        spec, spills = self.spec("moe_fc2_dgrad_dswiglu"), "pingpong 128x192"
        first = self.json("prebuild", spec, "-o", "own.epb")["kernels"][0]
        self.assertFalse(first["tuned"])
        key = self.json("bundle", "list", "own.epb")["kernels"][0]["request"]
        tuning = self.write("tuning.json", json.dumps({"epifuse": "tuning", "version": 1, "kernels": [
            {"key": key, "schedule": spills}]}))
        document = self.json("prebuild", spec, "-o", "tuned.epb", "--plans", tuning)
        built = document["kernels"][0]
        self.assertEqual((built["plan"], built["tuned"]), (first["plan"], False))
        self.assertEqual(built["refused"][0]["plan"], spills)
        self.assertRegex(built["refused"][0]["reason"], r"^spills \d+ bytes$")
        says = f"the plan '{spills}' of the tuning file is left, because it {built['refused'][0]['reason']}"
        self.assertIn(says, [row["message"] for row in document["diagnostics"]][0])
        self.assertIn(says, self.run_epifuse("prebuild", spec, "-o", "tuned.epb", "--plans", tuning)[1])
        # What is printed of a kernel that was compiled is what was taken, and why it is not the tuning file's is said.
        own, _ = self.run_epifuse("compile", spec, "--emit=plan")
        taken, said = self.run_epifuse("compile", spec, "--emit=plan", EPIFUSE_TUNING=tuning)
        self.assertEqual(taken, own)
        self.assertEqual(said.count("\n"), 1)
        self.assertIn(says, said)
        self.assertEqual(self.json("explain", spec, EPIFUSE_TUNING=tuning)["kernels"][0]["plan"]["plan"], first["plan"])

    def test_a_manifest_says_the_same_as_a_command_line(self):
        self.bundle()
        sets = [{"K": 64, "N": 32}, {"K": 128, "N": 64}, {"K": 128, "N": 64, "E": 4}]
        manifest = self.write("m/kernels.json", json.dumps(
            {"manifest": 1, "targets": ["sm_90a"], "specs": [{"spec": "../two.epi", "dims": sets}]}))
        self.run_epifuse("prebuild", "--manifest", manifest, "-o", "b2.epb")
        self.assertEqual(self.read("b2.epb"), BUNDLES["bytes"])
        broken = self.write("broken.json", '{"manifest": 1, "specs": [{"spec": "a.epi", "dim": []}]}')
        self.refuses(1, "prebuild", "--manifest", broken, "-o", "c.epb", says="specs[0].dim: there is no such key")
        self.refuses(2, "prebuild", "--manifest", manifest, "--dims", "K=1", "-o", "c.epb", says="--manifest says what")
        self.refuses(2, "prebuild", "-o", "c.epb", says="there is nothing to build")
        self.refuses(2, "prebuild", self.two, says="-o is required")

    def test_doctor_says_which_bundles_can_be_used(self):
        good = self.bundle()
        damaged = self.write("damaged.epb", BUNDLES["bytes"][:-1] + bytes([BUNDLES["bytes"][-1] ^ 1]))
        cut = self.write("cut.epb", BUNDLES["bytes"][:-100])
        files = [good, damaged, cut, self.path("missing.epb")]
        rows = self.json("doctor", EPIFUSE_BUNDLES=":".join(files))["bundles"]
        self.assertEqual([row["file"] for row in rows], files)
        self.assertEqual([row["count"] for row in rows], [5, 5, 0, 0])
        self.assertIsNone(rows[0]["problem"])
        for row in rows[1:]:
            self.assertIn(row["file"], row["problem"])
        text, _ = self.run_epifuse("doctor", EPIFUSE_BUNDLES=":".join(files))
        self.assertIn(f"bundle      {good}: 5 kernels\n", text)
        self.assertIn(f"bundle      {damaged}: 5 kernels, but for what is damaged: {rows[1]['problem']}\n", text)
        self.assertIn(f"bundle      {cut}: not used: {rows[2]['problem']}\n", text)
        self.assertEqual(self.json("doctor")["bundles"], [])
        self.assertNotIn("bundle  ", self.run_epifuse("doctor")[0])

    def test_check_refuses_a_bundle_of_which_any_byte_is_another(self):
        self.bundle()
        good = BUNDLES["bytes"]
        entries, parts = struct.unpack_from("<2Q", good, 24)
        table = 64 + 40 * entries + (4 * entries + 7) // 8 * 8
        used = sorted(struct.unpack_from("<2Q", good, table + 32 * part) for part in range(parts))
        between = [end + size for (end, size), (start, _) in zip(used, used[1:]) if end + size < start]
        for place in len(good) - 1, len(good) - 16, between[0], between[-1], used[-1][0]:
            damaged = bytearray(good)
            damaged[place] ^= 0x10
            self.write("b.epb", bytes(damaged))
            with self.subTest(place=place):
                says = self.json("bundle", "verify", "b.epb", code=5)["error"]["message"]
                document = self.json("prebuild", self.two, *DIMS, "-o", "b.epb", "--check", code=5, **self.sealed)
                self.assertEqual(document["error"], {"kind": "wrong", "message": says})

    def test_one_kernel_that_fails_does_not_stop_the_others(self):
        self.bundle()
        bad = self.write("bad.epi", support.SMALL.replace("gemm(x, w)", "gemm(x, z)"))
        document = self.json("prebuild", bad, self.two, "--dims", "K=64,N=32", "-o", "c.epb", code=1)
        self.assertEqual(len(document["failures"]), 1)
        self.assertIn("bad.epi", document["failures"][0]["what"])
        self.assertIn("'z'", document["failures"][0]["error"])
        self.assertEqual(len(document["kernels"]), 2)
        self.assertIsNone(document["output"])
        self.assertFalse(os.path.exists(self.path("c.epb")))
        _, err = self.run_epifuse("prebuild", bad, self.two, "--dims", "K=64,N=32", "-o", "c.epb", "--partial", code=1)
        self.assertIn("1 could not be built", err)
        self.assertEqual(self.json("bundle", "list", "c.epb")["cubins"], 2)
        for arguments, says in (((self.two, "--dims", "Q=3"), "no kernel of it has a dimension 'Q'"),
                                ((self.two, "--kernel", "smal"), "did you mean 'small'?"),
                                ((self.two, "--without", "v"), "no kernel of it has an input or output 'v'"),
                                ((self.path("none.epi"),), "none.epi"),
                                ((self.two, "--plans", self.two), "two.epi: this is no tuning file"),
                                ((self.two, "--schedule", "huge"), "huge")):
            self.refuses(1, "prebuild", *arguments, "-o", "d.epb", says=says)
        self.refuses(3, "prebuild", self.two, "-o", "d.epb", says="nvrtc", EPIFUSE_NVRTC="/nonexistent")
        # A set with a name that nobody has is not built without the name.
        document = self.json("prebuild", self.two, "--dims", "K=64,N=32", "--dims", "K=128,N=64,Q=3", "-o", "d.epb",
                             "--partial", code=1)
        self.assertEqual([row["dims"]["K"] for row in document["kernels"]], [64, 64])

    def test_a_bundle_is_not_written_over_by_nothing_or_by_what_reads_it(self):
        bundle = self.bundle()
        before = self.read(bundle)
        _, err = self.run_epifuse("prebuild", self.two, "--dims", "K=0", "--partial", "-o", bundle, code=1)
        self.assertIn("is not written", err)
        self.assertNotIn("--partial", err)
        compiles = ("compile", self.two, "--kernel", "small", "--dims", "K=64,N=32", "-o", bundle)
        self.refuses(1, *compiles, "--bundle", bundle, says="it is a bundle that is read")
        self.refuses(1, *compiles, says="it is a bundle that is read", EPIFUSE_BUNDLES=bundle)
        self.refuses(1, "bundle", "merge", bundle, bundle, "-o", bundle, says="it is a bundle that is read")
        self.assertEqual(self.read(bundle), before)

    def test_a_machine_without_descriptors_is_no_bug(self):
        command = 'ulimit -n 6; exec "$0" prebuild "$1" --dims K=64,N=32 -o x.epb'
        ended = subprocess.run(["/bin/sh", "-c", command, support.EPIFUSE, self.two], cwd=self.folder,
                               env=self.environment, capture_output=True, text=True, check=False)
        self.assertEqual(ended.returncode, 3, ended.stderr)
        self.assertIn("no pipe for a process that compiles", ended.stderr)
        self.assertNotIn("bug", ended.stderr)

    def test_the_requests_of_a_run_are_built_again_from_their_record(self):
        self.bundle()
        for dims in ("K=64,N=32", "K=128,N=64"):
            for kernel in ("small", "dense"):
                self.run_epifuse("compile", self.two, "--kernel", kernel, "--dims", dims, "--record", "run.jsonl")
        self.run_epifuse("compile", self.two, "--kernel", "small", "--dims", "K=128,N=64,E=4",
                         EPIFUSE_RECORD=self.path("run.jsonl"))
        self.assertEqual(self.read("run.jsonl").count(b"\n"), 5)
        os.remove(self.two)
        document = self.json("prebuild", "--from-record", "run.jsonl", "-o", "c.epb")
        self.assertEqual(document["compiled"], 0)
        self.assertEqual(self.read("c.epb"), BUNDLES["bytes"])
        self.refuses(1, "prebuild", "--from-record", self.write("bad.jsonl", "{}\n"), "-o", "d.epb",
                     says="line 1: this is no recorded request")
        self.refuses(1, "prebuild", "--from-record", self.write("empty.jsonl", "\n"), "-o", "d.epb",
                     says="empty.jsonl: it has no requests")
        # A line that was cut short is told, and costs no other.
        lines = self.read("run.jsonl").splitlines(keepends=True)
        self.write("torn.jsonl", lines[0][:99] + b"".join(lines))
        _, err = self.run_epifuse("prebuild", "--from-record", "torn.jsonl", "-o", "c.epb")
        self.assertIn("torn.jsonl: line 1 was cut short", err)
        self.assertEqual(self.read("c.epb"), BUNDLES["bytes"])

    def test_every_kernel_of_a_file_is_recorded_and_an_interpreted_one_is_not(self):
        self.bundle()
        self.run_epifuse("compile", self.two, "--dims", "K=64,N=32", "--record", "run.jsonl")
        self.assertEqual({json.loads(line)["kernel"] for line in self.read("run.jsonl").splitlines()},
                         {"small", "dense"})
        _, err = self.run_epifuse("run", self.two, "--kernel", "small", "--device", "cpu", "--record", "none.jsonl")
        self.assertIn("nothing is recorded", err)
        self.assertFalse(os.path.exists(self.path("none.jsonl")))

    def test_the_unfused_form_is_built_too_when_it_is_asked_for(self):
        document = self.json("prebuild", self.two, "--kernel", "dense", "--unfused", "-o", "d.epb")
        self.assertGreater(len(document["kernels"]), 1)
        document = self.json("compile", self.two, "--kernel", "dense", "--unfused", "--bundle", "d.epb", **self.sealed)
        self.assertEqual({stage["from"] for stage in document["stages"]}, {"bundle"})
        self.assertEqual(document["toolchain_calls"], 0)

    def test_list_and_verify(self):
        bundle = self.bundle()
        document = self.json("bundle", "list", bundle)
        self.assertEqual([(row["kernel"], row["dims"]) for row in document["kernels"]],
                         [("dense", {"K": 128, "N": 64}), ("dense", {"K": 64, "N": 32}),
                          ("small", {"E": 2, "K": 128, "N": 64}), ("small", {"E": 2, "K": 64, "N": 32}),
                          ("small", {"E": 4, "K": 128, "N": 64})])
        self.assertLess(document["cubins"], 5)
        self.assertEqual(len(self.json("bundle", "list", bundle, "--kernel", "small")["kernels"]), 3)
        self.refuses(1, "bundle", "list", bundle, "--kernel", "none", says="has no kernel 'none'")
        self.assertTrue(self.json("bundle", "verify", bundle)["good"])
        for at in (0, 9, 40, 100, len(BUNDLES["bytes"]) // 2, len(BUNDLES["bytes"]) - 1):
            damaged = bytearray(BUNDLES["bytes"])
            damaged[at] ^= 4
            self.refuses(5, "bundle", "verify", self.write("damaged.epb", bytes(damaged)), says="damaged.epb")
        self.refuses(5, "bundle", "verify", self.write("short.epb", BUNDLES["bytes"][:-1]), says="cut short")
        self.refuses(5, "bundle", "verify", self.two, says="is no bundle")
        self.refuses(1, "bundle", "list", "none.epb", says="there is no file 'none.epb'")
        self.refuses(2, "bundle", "lst", bundle, says="did you mean 'bundle list'?")

    def test_extract_merge_and_diff(self):
        bundle = self.bundle()
        self.run_epifuse("bundle", "extract", bundle, "--kernel", "dense", "-o", "out")
        names = ["dense.sm_90a.K=128,N=64", "dense.sm_90a.K=64,N=32"]
        endings = (".cubin", ".info.json", ".recipe.json", ".request.txt")
        self.assertEqual(sorted(os.listdir(self.path("out"))), sorted(n + e for n in names for e in endings))
        self.assertTrue(self.read("out", names[0] + ".cubin").startswith(b"\x7fELF"))
        self.assertTrue(self.read("out", names[0] + ".request.txt").startswith(b"request 1\nkernel dense\n"))
        self.assertEqual(json.loads(self.read("out", names[0] + ".recipe.json"))["kernel"], "dense")

        for name in ("small", "dense"):
            self.run_epifuse("prebuild", self.two, "--kernel", name, *(DIMS if name == "small" else DIMS[:4]), "-o",
                             name + ".epb")
        document = self.json("bundle", "merge", "dense.epb", "small.epb", "small.epb", "-o", "both.epb")
        self.assertEqual((document["kernels"], document["twice"], document["ambiguous"]), (5, 3, []))
        document = self.json("bundle", "merge", "small.epb", "small.epb", "small.epb", "-o", "thrice.epb")
        self.assertEqual((document["kernels"], document["twice"]), (3, 3))
        self.assertEqual(self.read("both.epb"), BUNDLES["bytes"])
        self.assertTrue(self.json("bundle", "diff", "both.epb", bundle)["same"])
        document = self.json("bundle", "diff", "small.epb", bundle, code=5)
        self.assertEqual((document["equal"], len(document["only_in_second"]), document["only_in_first"]), (3, 2, []))

        # Another plan for the same request, as a tuning file would have it: a conflict.
        plan = self.json("bundle", "list", "dense.epb")["kernels"][1]["plan"]
        other = "pingpong 128x128" if plan != "pingpong 128x128" else "pingpong 128x64"
        tuned = self.tuning(other)
        self.run_epifuse("prebuild", self.two, "--kernel", "dense", *DIMS[:2], "--plans", tuned, "-o", "tuned.epb")
        self.assertEqual(self.json("bundle", "list", "tuned.epb")["kernels"][0]["plan"], other)
        self.refuses(1, "bundle", "merge", "dense.epb", "tuned.epb", "-o", "c.epb",
                     says=["kernel 'dense' for sm_90a with K=64,N=32, and not the same: plan", "--prefer-first"])
        self.run_epifuse("bundle", "merge", "tuned.epb", "dense.epb", "-o", "c.epb", "--prefer-first")
        plans = {row["dims"]["K"]: row["plan"] for row in self.json("bundle", "list", "c.epb")["kernels"]}
        self.assertEqual(plans[64], other)
        out, _ = self.run_epifuse("bundle", "diff", "dense.epb", "c.epb", code=5)
        self.assertIn(f"plan {plan}, {other}", out)
        # A tuning file that names the plan that is there anyway makes nothing stale.
        self.run_epifuse("prebuild", self.two, "--kernel", "dense", *DIMS[:4], "-o", "dense.epb", "--check", "--plans",
                         self.tuning(plan))
        # --check knows it as well.
        out, _ = self.run_epifuse("prebuild", self.two, "--kernel", "dense", *DIMS[:2], "-o", "tuned.epb", "--check",
                                  code=5)
        self.assertIn(f"the tuning file names no plan, not {other}", out)

    def tuning(self, plan, bundle="dense.epb"):
        """A tuning file with one plan for dense of K=64, N=32. A plan is found by the digest of its request."""
        row = next(row for row in self.json("bundle", "list", bundle, "--kernel", "dense")["kernels"]
                   if row["dims"]["K"] == 64)
        return self.write("tuning.json", json.dumps({"epifuse": "tuning", "version": 1, "kernels": [
            {"key": row["request"], "schedule": plan, "kernel": "dense", "target": "sm_90a", "dims": row["dims"],
             "milliseconds": 1.0, "gpu": "none", "commit": "none"}]}))

    @unittest.skipUnless(shutil.which("cc"), "there is no C compiler")
    def test_embed_makes_sources_that_hold_the_bytes(self):
        bundle = self.bundle()
        for ending in ("c", "S"):
            self.run_epifuse("bundle", "embed", bundle, "-o", f"kernels.{ending}", "--symbol", "my_kernels")
            library = self.path(f"lib{ending}.so")
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, self.path(f"kernels.{ending}")], check=True)
            linked = ctypes.CDLL(library)
            size = ctypes.c_ulonglong.in_dll(linked, "my_kernels_size").value
            start = ctypes.addressof(ctypes.c_ubyte.in_dll(linked, "my_kernels"))
            self.assertEqual(ctypes.string_at(start, size), BUNDLES["bytes"])
            self.assertEqual(start % 256, 0)
        self.refuses(1, "bundle", "embed", bundle, "-o", "kernels.o", says="neither NAME.S nor NAME.c")
        self.refuses(1, "bundle", "embed", bundle, "-o", "kernels.c", "--symbol", "1st", says="no name that C")
        self.refuses(1, "bundle", "embed", bundle, "-o", "kernels.c", "--symbol", "int", says="no name that C")
        self.assertIn(b"epifuse_runtime_add_bundle_memory(runtime, my_kernels", self.read("kernels.S"))


if __name__ == "__main__":
    support.main()
