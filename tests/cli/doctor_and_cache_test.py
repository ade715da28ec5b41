"""doctor and cache: what they say, that doctor never fails, and how little a warm start asks of the system."""

import json
import os
import re
import shutil
import subprocess

import support


class DoctorTest(support.CliTest):
    def test_text(self):
        out, err = self.run_epifuse("doctor")
        for word in ("machine", "NVRTC", "cache", "EPIFUSE_CACHE_DIR", "This machine can", "yes  check specs"):
            self.assertIn(word, out)
        self.assertEqual(err, "")
        self.assertEqual(self.files(), [])
        self.assertFalse(os.path.exists(self.path("cache")))

    def test_json(self):
        document = self.json("doctor")
        for key in ("version", "commit", "language", "system", "architecture", "cores", "driver", "gpus", "gpu_problem",
                    "nvrtc", "cache", "settings", "settings_problem", "can"):
            self.assertIn(key, document)
        self.assertEqual(set(document["can"]), {"check", "compile", "cache", "run_gpu", "sass"})
        self.assertTrue(document["can"]["check"])
        self.assertEqual(document["can"]["run_gpu"], bool(document["gpus"]) and bool(document["gpus"][0]["target"]))
        self.assertEqual(document["can"]["compile"], document["nvrtc"]["found"])
        names = {row["name"]: row for row in document["settings"]}
        with open(os.path.join(support.ROOT, "docs", "command_line.md"), encoding="utf-8") as page:
            settings = page.read().split("## Settings")[1]
        for name in names:
            self.assertIn(f"| `{name}` |", settings)
        self.assertEqual(names["EPIFUSE_CACHE_DIR"]["value"], self.path("cache"))
        self.assertTrue(names["EPIFUSE_CACHE_DIR"]["set"])
        self.assertFalse(names["EPIFUSE_LOG"]["set"])

    def test_the_tuning_file(self):
        self.assertIsNone(self.json("doctor")["tuning"])
        self.assertNotIn("tuning  ", self.run_epifuse("doctor")[0])
        row = {"kernel": "k", "key": "00" * 16, "schedule": "pointwise"}
        good = {"epifuse": "tuning", "version": 1, "kernels": [row, {**row, "key": "01" * 16}]}
        for content, count, says in (
                (json.dumps(good), 2, ": 2 plans\n"),
                (json.dumps({**good, "kernels": [row, 7, row]}), 1, ": 1 plan\n            entry 2 is left out: it is no object\n"
                 "            entry 3 (k) has the key of entry 1 (k)"),
                ("garbage", 0, "this is no tuning file"), (None, 0, ": not used: ")):
            path = self.write("tuning.json", content) if content else self.path("missing.json")
            state = self.json("doctor", EPIFUSE_TUNING=path)["tuning"]
            self.assertEqual((state["file"], state["count"]), (path, count))
            self.assertEqual(bool(state["problems"]), count < 2)
            self.assertIn(says, self.run_epifuse("doctor", EPIFUSE_TUNING=path)[0].split("tuning      ")[1])

    def test_nothing_makes_it_fail(self):
        self.write("file", "")
        os.mkdir(self.path("open"))
        os.chmod(self.path("open"), 0o777)
        cases = [
            ({"EPIFUSE_NVRTC": "/nonexistent"}, "NVRTC       none"),
            ({"EPIFUSE_NVRTC": self.path("file")}, "not used"),
            ({"EPIFUSE_LOG": "loud"}, "problem     EPIFUSE_LOG is 'loud'"),
            ({"EPIFUSE_JIT": "off"}, "EPIFUSE_JIT is off"),
            ({"EPIFUSE_CACHE_DIR": "off"}, "off: kernels are kept in memory only"),
            ({"EPIFUSE_CACHE_DIR": self.path("file")}, "is not a directory"),
            ({"EPIFUSE_CACHE_DIR": self.path("open")}, "others can write"),
            ({"EPIFUSE_CACHE_DIR": "", "HOME": ""}, "no place for one"),
            ({"NVRTC_APPEND_FLAGS": "-G"}, "NVRTC_APPEND_FLAGS=-G"),
        ]
        for settings, says in cases:
            with self.subTest(settings=settings):
                self.assertIn(says, self.run_epifuse("doctor", **settings)[0])
                self.json("doctor", **settings)


class CacheTest(support.CliTest):
    def test_an_empty_cache(self):
        self.assertEqual(self.run_epifuse("cache", "path")[0], self.path("cache") + "\n")
        self.assertEqual(self.json("cache", "path")["directory"], self.path("cache"))
        self.assertIn("0 entries", self.run_epifuse("cache", "list")[0])
        document = self.json("cache", "list")
        self.assertEqual((document["directory"], document["entries"], document["bytes"]), (self.path("cache"), [], 0))
        for command in ("list", "verify", "prune", "clear"):
            self.assertIn("0 entries", self.run_epifuse("cache", command)[0])
        self.run_epifuse("cache", "why", self.small())
        self.assertFalse(os.path.exists(self.path("cache")), "looking made a directory")

    def test_no_cache(self):
        self.refuses(3, "cache", "path", says="EPIFUSE_CACHE_DIR is off", EPIFUSE_CACHE_DIR="off")
        self.assertNotIn("directory", self.json("cache", "path", code=3, EPIFUSE_CACHE_DIR="off"))
        for command in ("list", "verify", "prune", "clear"):
            out, _ = self.run_epifuse("cache", command, EPIFUSE_CACHE_DIR="off")
            self.assertIn("0 entries, 0 bytes, in no directory: EPIFUSE_CACHE_DIR is off", out)
        why = self.json("cache", "why", self.small(), EPIFUSE_CACHE_DIR="off")
        self.assertEqual((why["hit"], why["no_cache"]), (False, "EPIFUSE_CACHE_DIR is off"))
        out, _ = self.run_epifuse("cache", "why", self.small(), EPIFUSE_CACHE_DIR="off", EPIFUSE_JIT="off")
        self.assertIn("cannot be compiled: EPIFUSE_JIT is off", out)
        self.assertIn("there is no own directory: EPIFUSE_CACHE_DIR is off", out)
        self.assertEqual(self.json("cache", "list", EPIFUSE_CACHE_DIR="off")["directory"], "")

    def test_foreign_files_are_no_entries(self):
        os.mkdir(self.path("cache"), 0o700)
        self.write("cache/readme", "mine")
        self.write("cache/" + "0" * 32 + "." + "1" * 32, "no entry")
        entries = self.json("cache", "list")["entries"]
        self.assertEqual([entry["state"] for entry in entries], ["damaged"])
        self.assertIn("damaged", self.run_epifuse("cache", "list")[0])

    def test_a_cache_that_others_can_write_is_not_read(self):
        os.mkdir(self.path("cache"))
        os.chmod(self.path("cache"), 0o777)
        for command in ("list", "verify", "prune", "clear", "show"):
            key = ["0"] if command == "show" else []
            self.refuses(3, "cache", command, *key, says=["others can write", "chmod go-w"])
        self.assertIn("others can write", self.json("cache", "why", self.small())["no_cache"])
        # The advice is none that would break the machine.
        os.chmod(self.path("cache"), 0o1777)
        self.refuses(3, "cache", "list", says="name a directory of one's own, such as")
        _, err = self.run_epifuse("cache", "list", code=3)
        self.assertNotIn("chmod", err)

    def test_each_directory_is_counted_by_itself(self):
        entry = "0" * 32 + "." + "1" * 32
        for name in ("cache", "tier"):
            os.mkdir(self.path(name), 0o700)
        self.write("tier/" + entry, "no entry")
        settings = {"EPIFUSE_CACHE_READ": self.path("tier")}
        document = self.json("cache", "list", **settings)
        self.assertEqual([(row["directory"], row["own"], row["count"]) for row in document["directories"]],
                         [(self.path("tier"), False, 1), (self.path("cache"), True, 0)])
        self.assertEqual((document["bytes"], document["entries"][0]["own"]), (0, False))
        out, _ = self.run_epifuse("cache", "list", **settings)
        self.assertIn(f"1 entry, 8 bytes, in {self.path('tier')}, which is only read\n"
                      f"0 entries, 0 bytes, in {self.path('cache')}\n", out)
        self.assertIn(self.path("tier"), self.run_epifuse("cache", "path", **settings)[0])
        # What is only read is not removed.
        self.assertEqual(self.json("cache", "clear", **settings)["removed_entries"], 0)
        self.assertTrue(os.path.exists(self.path("tier", entry)))

    def test_what_cannot_be_removed_is_an_error(self):
        entry = "0" * 32 + "." + "1" * 32
        os.makedirs(self.path("cache", entry, "full"))
        os.chmod(self.path("cache"), 0o700)
        document = self.json("cache", "clear", code=3)
        self.assertEqual((document["not_removed"], document["kept_entries"]), (1, 1))
        self.assertIn("1 file could not be removed", self.run_epifuse("cache", "prune", code=3)[1])


class FilledCacheTest(support.CliTest):
    """Commands on entries that a compile made. NVRTC runs three times in all."""

    def setUp(self):
        super().setUp()
        if not self.json("doctor")["can"]["compile"]:
            self.skipTest("no NVRTC on this machine")

    def compile(self, *arguments, **settings):
        return self.json("compile", self.spec(), *arguments, **settings)

    def entry(self, key):
        return self.path("cache", key)

    def test_the_life_of_an_entry(self):
        made = self.compile()
        key = made["key"]
        self.assertTrue(made["compiled"])
        os.rename(self.path("cache"), self.path("kept"))
        os.mkdir(self.path("cache"), 0o700)

        why = self.json("cache", "why", self.spec())
        self.assertEqual((why["hit"], why["state"], why["nearest"], why["key"]), (False, "absent", None, key))
        self.assertIn("is not in the cache (absent), and would be compiled", self.run_epifuse("cache", "why", self.spec())[0])
        shutil.rmtree(self.path("cache"))
        os.rename(self.path("kept"), self.path("cache"))
        why = self.json("cache", "why", self.spec())
        self.assertEqual((why["hit"], why["state"], why["kernel"], why["target"], why["plan"]),
                         (True, "good", "grouped_gemm", "sm_90a", made["plan"]))
        self.assertEqual(why["lookups"][0]["path"], self.entry(key))

        # Another plan: the recipe differs, and a line of the text.
        other = "pingpong 128x192" if made["plan"] != "pingpong 128x192" else "pingpong 128x128"
        why = self.json("cache", "why", self.spec(), "--schedule", other)
        self.assertFalse(why["hit"])
        self.assertEqual(why["nearest"]["path"], self.entry(key))
        parts = [one["part"] for one in why["nearest"]["differences"]]
        self.assertTrue(any(re.fullmatch(r"CUDA text, line \d+", part) for part in parts), parts)
        text = self.run_epifuse("cache", "why", self.spec(), "--schedule", other)[0]
        self.assertIn("the nearest entry is", text)
        # No compiler here: what another one made is used.
        why = self.json("cache", "why", self.spec(), EPIFUSE_NVRTC="/nonexistent")
        self.assertTrue(why["hit"])

        shown = self.json("cache", "show", key[:8])
        self.assertEqual((shown["key"], shown["state"], shown["kind"]), (key, "good", "artifact"))
        parts = {row["part"]: row["value"] for row in shown["request"]}
        self.assertEqual(parts["arch"], "sm_90a")
        self.assertIn("__global__", parts["source"])
        self.assertIn("ptxas", shown["metadata"]["compile_ms"])
        self.assertIn("nvrtc", shown["toolchain"])
        text = self.run_epifuse("cache", "show", key)[0]
        for word in ("toolchain", "compile_ms", "made from", "sha256"):
            self.assertIn(word, text)
        self.assertEqual(self.json("cache", "show", self.entry(key))["key"], key)
        self.refuses(1, "cache", "show", self.path("elsewhere", key), says="is no entry of the cache's directories")
        self.assertIn("K=", self.run_epifuse("cache", "list")[0])
        self.refuses(1, "cache", "show", "xyz", says="no entry of the cache begins with 'xyz'")

        self.assertEqual(self.json("cache", "list")["entries"][0]["state"], "good")
        self.assertEqual(self.json("cache", "verify")["checked"], 1)
        self.assertIn("0 bad", self.run_epifuse("cache", "verify")[0])

        # A whole entry under another's name, and a damaged one.
        with open(self.entry(key), "rb") as file:
            bytes_of_entry = bytearray(file.read())
        renamed = "0" * 32 + "." + "1" * 32
        self.write("cache/" + renamed, bytes(bytes_of_entry))
        os.chmod(self.entry(renamed), 0o600)
        bytes_of_entry[5000] ^= 1
        self.write("cache/" + key, bytes(bytes_of_entry))
        checked = self.json("cache", "verify", code=5)
        self.assertEqual({row["key"]: row["problem"] for row in checked["bad"]},
                         {renamed: "its name is not that of its request", key: "its checksum does not fit"})
        self.assertIn("`epifuse cache prune` removes", self.run_epifuse("cache", "verify", code=5)[1])
        why = self.json("cache", "why", self.spec())
        self.assertEqual((why["hit"], why["state"]), (False, "damaged"))
        os.chmod(self.entry(key), 0o666)
        self.assertEqual(self.json("cache", "why", self.spec())["state"], "untrusted")

        # Leftovers of killed processes; what others left stays.
        for name in (key + ".lock", key + ".tmp-1-0", key + ".bad", "mine"):
            self.write("cache/" + name, "")
        pruned = self.json("cache", "prune")
        self.assertEqual((pruned["removed_leftovers"], pruned["removed_bad"], pruned["removed_entries"]), (2, 2, 0))
        self.assertEqual(pruned["kept_entries"], 0)
        self.refuses(2, "cache", "prune", "--size", "much", says="--size: 'much'")
        self.assertEqual(self.json("cache", "clear")["kept_entries"], 0)
        self.assertEqual(os.listdir(self.path("cache")), ["mine"])

    def test_the_log_says_what_the_cache_does(self):
        err = self.run_epifuse("compile", self.spec(), EPIFUSE_LOG="info")[1]
        self.assertRegex(err, r"info: kernel 'grouped_gemm': cache miss in [\d.]+ ms, absent")
        self.assertRegex(err, r"info: compiled 'grouped_gemm' .* in \d+ ms")
        err = self.run_epifuse("compile", self.spec(), EPIFUSE_LOG="info")[1]
        self.assertRegex(err, r"info: kernel 'grouped_gemm': cache hit in [\d.]+ ms, .*cache/")
        self.assertEqual(self.run_epifuse("compile", self.spec())[1], "")

    def test_a_warm_start_makes_few_system_calls(self):
        strace = shutil.which("strace")
        if not strace:
            self.skipTest("strace is not installed: system calls are not counted")
        for spec in (self.spec(), self.spec("moe_fc1_swiglu")):
            self.run_epifuse("compile", spec)
            self.run_epifuse("compile", spec)
            trace = self.path("trace")
            traced = subprocess.run([strace, "-o", trace, support.EPIFUSE, "compile", spec], cwd=self.folder,
                                    env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            if traced.returncode != 0:
                self.skipTest("strace cannot trace here")
            self.assertIn(b"from disk", traced.stdout)
            with open(trace, encoding="utf-8") as file:
                calls = file.read().splitlines()
            opened = next(i for i, call in enumerate(calls) if call.startswith("openat") and f'"{spec}"' in call)
            told = next(i for i, call in enumerate(calls) if "write(1" in call)
            # What stdout is, is asked when it is written to for the first time.
            between = [call for call in calls[opened + 1:told] if not re.match(r"(newfstatat|fstat|ioctl)\(1,", call)]
            self.assertLessEqual(len(between), 15, "\n".join(between))


if __name__ == "__main__":
    support.main()
