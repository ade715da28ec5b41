"""tune, as far as it goes without a GPU, and a tuning file in the other commands."""

import json
import unittest

import support

EMPTY = {"epifuse": "tuning", "version": 1, "kernels": []}


class TuneTest(support.CliTest):
    def test_without_a_gpu_it_says_what_is_missing_and_writes_nothing(self):
        if support.has_gpu():
            self.skipTest("there is a GPU")
        for options in (["--report"], ["-o", "tuning.json"], ["-o", "tuning.json", "--report", "--counts", "1,2"]):
            options += ["--dims", "E=2,K=64,N=64"]
            self.refuses(3, "tune", self.spec(), *options, says="tune tries plans on a GPU and needs one: no ")
        self.assertEqual(self.json("tune", self.spec(), "--report", code=3)["error"]["kind"], "machine")
        self.assertEqual(self.files(), [])

    def test_a_command_line_that_cannot_be_is_refused(self):
        for options, says in (
            ([], "-o FILE"),
            (["--report", "--expected-rows", "0"], "--expected-rows"),
            (["--report", "--expected-rows", "5", "--counts", "1,2"], "--expected-rows"),
            (["--report", "--schedule", "pingpong 128x64"], "--schedule"),
            (["--report", "--warm", "x"], "--warm"),
            (["--report", "--rounds", "0"], "--rounds"),
        ):
            self.refuses(2, "tune", self.spec(), *options, says=says)
        self.refuses(1, "tune", self.spec(), "--report", "--dims", "Q=2", says="'Q'")
        self.refuses(1, "tune", self.spec(), "--report", "--kernel", "nobody", says="nobody")

    def test_a_file_that_is_no_tuning_file_is_not_replaced(self):
        for content, says in (("{", "no tuning file"), (json.dumps({**EMPTY, "version": 99}), "version 99")):
            path = self.write("tuning.json", content)
            self.refuses(1, "tune", self.spec(), "-o", path, says=says)
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), content)
        small = self.small()
        self.refuses(1, "tune", small, "-o", small, says="small.epi")

    def test_a_tuning_file_without_the_kernel_changes_nothing(self):
        own, _ = self.run_epifuse("compile", self.spec(), "--emit=plan")
        path = self.write("tuning.json", json.dumps(EMPTY))
        plan, said = self.run_epifuse("compile", self.spec(), "--emit=plan", EPIFUSE_TUNING=path)
        self.assertEqual(plan, own)
        self.assertNotIn("tuning", said)

    def test_a_tuning_file_that_cannot_be_used_is_one_warning(self):
        own, _ = self.run_epifuse("compile", self.spec(), "--emit=cuda")
        for content in (None, "{", json.dumps({**EMPTY, "version": 99})):
            path = self.write("tuning.json", content) if content else self.path("missing.json")
            text, said = self.run_epifuse("compile", self.spec(), "--emit=cuda", EPIFUSE_TUNING=path)
            self.assertEqual(text, own)
            self.assertEqual(said.count("EPIFUSE_TUNING"), 1)
            self.assertIn(path, said)

    def test_warnings_about_a_tuning_file_are_in_the_json_document(self):
        row = {"kernel": "k", "key": "00" * 16, "schedule": "pointwise"}
        path = self.write("tuning.json", json.dumps({**EMPTY, "kernels": [row, {**row, "dims": 1}, row]}))
        for command in (["compile", "--emit=plan"], ["explain"], ["cache", "why"], ["prebuild", "--dry-run", "-o", "b.epb"]):
            if command[0] == "prebuild":  # would build other plans than were asked for
                message = self.json(*command, self.spec(), code=1, EPIFUSE_TUNING=path)["error"]["message"]
                self.assertIn("entry 2 (k) is left out: 'dims' is no object of whole numbers", message)
                continue
            _, said = self.run_epifuse(*command, self.spec(), EPIFUSE_TUNING=path)
            document = self.json(*command, self.spec(), EPIFUSE_TUNING=path)
            warnings = [row["message"] for row in document["diagnostics"] if row["severity"] == "warning"]
            self.assertEqual(len(warnings), 2)
            self.assertIn("entry 2 (k) is left out: 'dims' is no object of whole numbers", warnings[0])
            self.assertIn("entry 3 (k) has the key of entry 1 (k)", warnings[1])
            for warning in warnings:
                self.assertIn(warning, said)
        self.refuses(1, "tune", self.spec(), "-o", path, says="entry 2 (k) is left out")

    def test_names_of_plans_say_what_differs_from_the_planners_choice(self):
        for name, says in (
            ("pingpong 128x160", "schedule pingpong 128x160, stages 6, band 8"),
            ("pingpong 128x192 stages 4 band 16", "schedule pingpong 128x192 stages 4 band 16, stages 4, band 16"),
            ("cooperative 128x384 dynamic", "schedule cooperative 128x384 dynamic, stages 3"),
        ):
            plan, _ = self.run_epifuse("compile", self.spec(), "--emit=plan", "--schedule", name)
            self.assertIn(says, plan)
        for name, says in (
            ("pingpong 128x192 stages 9", "9 stages do not fit"),
            ("pingpong 128x72", "there are no such tiles"),
            ("pingpong 128x192 fast", "no plan 'pingpong 128x192 fast'"),
        ):
            self.refuses(1, "compile", self.spec(), "--emit=plan", "--schedule", name, says=says)


if __name__ == "__main__":
    support.main()
