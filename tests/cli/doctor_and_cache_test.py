"""doctor and cache: what they say, and that doctor never fails."""

import os

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

    def test_no_cache(self):
        self.refuses(3, "cache", "path", says="EPIFUSE_CACHE_DIR is off", EPIFUSE_CACHE_DIR="off")
        self.assertNotIn("directory", self.json("cache", "path", code=3, EPIFUSE_CACHE_DIR="off"))
        self.assertIn("0 entries", self.run_epifuse("cache", "list", EPIFUSE_CACHE_DIR="off")[0])
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
        out, err = self.run_epifuse("cache", "list")
        self.assertIn("0 entries", out)
        self.assertIn("EPIFUSE_CACHE_DIR", err)


if __name__ == "__main__":
    support.main()
