"""The command line itself: help, version, and everything that is a usage error (exit code 2)."""

import json
import os
import re
import subprocess

import support


class CommandLineTest(support.CliTest):
    def test_help(self):
        out, err = self.run_epifuse("--help")
        for command in ("check", "compile", "run", "verify", "fmt", "grad", "doctor", "cache"):
            self.assertIn(command, out)
        self.assertIn("Examples:", out)
        self.assertIn("Exit codes", out)
        self.assertEqual(err, "")

    def test_help_of_a_command(self):
        for command in ("check", "compile", "run", "verify", "fmt", "grad", "doctor"):
            out, _ = self.run_epifuse(command, "--help")
            self.assertIn(f"epifuse {command}", out)
        self.assertIn("--emit", self.run_epifuse("compile", "--help")[0])
        self.assertIn("Examples:", self.run_epifuse("run", "--help")[0])
        self.assertIn("list", self.run_epifuse("cache", "--help")[0])
        for command in (["doctor"], ["cache"], ["cache", "list"], ["cache", "path"]):
            examples = self.run_epifuse(*command, "--help")[0].split("Examples:\n")[1].splitlines()
            self.assertTrue(all(line.startswith("  epifuse " + command[0]) for line in examples), examples)

    def test_files_named_in_the_help_exist(self):
        for command in ([], ["check"], ["compile"], ["run"], ["verify"], ["fmt"], ["grad"]):
            out = self.run_epifuse(*command, "--help")[0]
            for name in re.findall(r"[\w/]+\.epi", out):
                if name not in ("my.epi", "formatted.epi", "backward.epi"):
                    self.assertTrue(os.path.exists(os.path.join(support.ROOT, name)), name)

    def test_version(self):
        lines = self.run_epifuse("--version")[0].splitlines()
        self.assertRegex(lines[0], r"^epifuse \d+\.\d+\.\d+$")
        self.assertRegex(lines[1], r"^commit \S+$")
        self.assertRegex(lines[2], r"^NVRTC (1[23]\.\d+ at /.*|not found.*)$")

    def test_version_without_nvrtc(self):
        out, _ = self.run_epifuse("--version", EPIFUSE_NVRTC="/nonexistent")
        self.assertIn("NVRTC not found", out)

    def test_usage_errors(self):
        spec = self.small()
        cases = [
            ([], "subcommand is required"),
            (["chek", spec], "did you mean 'check'?"),
            (["frobnicate"], "there is no command 'frobnicate'"),
            (["check"], "FILE is required"),
            (["compile"], "FILE is required"),
            (["fmt"], "FILE is required"),
            (["fmt", spec, spec, "-o", "one.epi"], "-o: it is one file"),
            (["fmt", spec, "--check", "-o", "one.epi"], "excludes"),
            (["grad", spec], "--chain is required"),
            (["grad", spec, "--chain", "small,"], "--chain: a part between commas is empty"),
            (["compile", spec, "second.epi"], "not expected"),
            (["compile", spec, "--emitt=ir"], "--emitt"),
            (["compile", spec, "--emit=asm"], "'asm' is no stage"),
            (["compile", spec, "--emit="], "--emit"),
            (["compile", spec, "--target", "sm_20"], "'sm_20' is not supported"),
            (["compile", spec, "--dims"], "--dims"),
            (["compile", spec, "--dims", "E"], "'E' is not of the form NAME=VALUE"),
            (["compile", spec, "--dims", "E="], "'E=' has nothing behind '='"),
            (["compile", spec, "--dims", "=3"], "'' in '=3' is no name"),
            (["compile", spec, "--dims", "8=E"], "'8' in '8=E' is no name"),
            (["compile", spec, "--dims", "E=8,,K=2"], "a part between commas is empty"),
            (["compile", spec, "--dims", "E=8,"], "a part between commas is empty"),
            (["compile", spec, "--dims", "E=eight"], "'E=eight': 'eight' is no whole number"),
            (["compile", spec, "--dims", "E=8.5"], "'E=8.5': '8.5' is no whole number"),
            (["compile", spec, "--dims", "E=-1"], "-1 is not from 0"),
            (["compile", spec, "--dims", "E=99999999999999999999"], "is not from 0 to 9223372036854775807"),
            (["compile", spec, "--dims", "E=1,E=2"], "'E' is given twice"),
            (["compile", spec, "--dims", "E=1", "--dims", "E=2"], "'E' is given twice"),
            (["compile", spec, "-o", ""], "-o: the value is empty"),
            (["compile", spec, "-o"], "-o"),
            (["compile", spec, "-o", "--emit=ir"], "-o: '--emit=ir' is an option and no value"),
            (["compile", spec, "--kernel="], "--kernel: there is nothing behind '='"),
            (["compile", spec, "--kernel", ""], "--kernel: the value is empty"),
            (["compile", spec, "--kernel", "--emit=ir"], "--kernel: '--emit=ir' is an option and no value"),
            (["compile", spec, "--schedule="], "--schedule: there is nothing behind '='"),
            (["compile", spec, "--without="], "--without: there is nothing behind '='"),
            (["compile", spec, "--target="], "--target: there is nothing behind '='"),
            (["compile", "--emit=", spec], "--emit: there is nothing behind '='"),
            (["compile", spec, "--emit=cubin", "--json"], "needs -o"),
            (["compile", spec, "--counts", "1"], "--counts"),
            (["run", spec, "--counts", "1,x"], "'x' is no whole number"),
            (["run", spec, "--counts", ""], "--counts"),
            (["run", spec, "--counts", "1,-2"], "-2 is not from 0"),
            (["run", spec, "--seed", "abc"], "'abc' is no whole number"),
            (["run", spec, "--jobs", "0"], "0 is not from 1"),
            (["run", spec, "--device", "tpu"], "'tpu' is not cpu, gpu or auto"),
            (["run", spec, "--data", "zeros"], "'zeros' is not normal"),
            (["run", spec, "--slack", "-5"], "-5 is not from 0"),
            (["run", spec, "--param", "limit"], "'limit' is not of the form"),
            (["run", spec, "--param", "limit=high"], "'high' is no number"),
            (["run", spec, "--param", "limit=inf"], "'inf' is no number"),
            (["run", spec, "x"], "an input is NAME=FILE.npy"),
            (["run", spec, "x=a.npy", "x=b.npy"], "'x' is given twice"),
            (["run", spec, "--inputs", ""], "--inputs: the value is empty"),
            (["run", spec, "--data="], "--data: there is nothing behind '='"),
            (["run", spec, "-o", "--device", "cpu"], "-o: '--device' is an option and no value"),
            (["verify", spec, "--inputs="], "--inputs: there is nothing behind '='"),
            (["check", "--dims=", spec], "--dims: there is nothing behind '='"),
            (["cache"], "subcommand is required"),
            (["cache", "lst"], "there is no command 'cache lst'; did you mean 'cache list'?"),
            (["doctor", "now"], "not expected"),
        ]
        for arguments, says in cases:
            if "--json" not in arguments:
                self.refuses(2, *arguments, says=says)
            with self.subTest(arguments=arguments, json=True):
                document = json.loads(self.run_epifuse(*arguments, "--json", code=2)[0])
                self.assertEqual(document["error"]["kind"], "usage")
                self.assertIn(says, document["error"]["message"])
        self.assertEqual(self.files(), ["small.epi"])

    def commands(self, *above):
        """Every command, with the text of its help."""
        out = self.run_epifuse(*above, "--help")[0]
        below = re.search(r"^Subcommands:\n((?:  .*\n)+)", out, re.MULTILINE)
        if not below:
            return {" ".join(above): out}
        found = {}
        for name in re.findall(r"^  ([a-z]+)", below[1], re.MULTILINE):
            found.update(self.commands(*above, name))
        return found

    def test_the_table_of_options_is_the_commands_own(self):
        commands = self.commands()
        self.assertGreater(len(commands), 20)
        taken = {(option, command) for command, out in commands.items()
                 for option in re.findall(r"^  (--?[a-z][a-z-]*)", out.split("\nOptions:\n")[1], re.MULTILINE)
                 if option != "-h"}
        with open(os.path.join(support.ROOT, "docs", "command_line.md"), encoding="utf-8") as page:
            table = page.read().split("\n## Options\n")[1].split("\n## ")[0]
        documented = set()
        for row in re.findall(r"^\| (`.*?) \| (.*?) \|", table.replace("\\|", "/"), re.MULTILINE):
            options = re.findall(r"`(--?[a-z][a-z-]*)", row[0])
            of = list(commands) if row[1] == "all" else row[1].split(", ")
            documented |= {(option, command) for option in options for command in of}
        self.assertEqual(sorted(documented - taken), [], "options that docs/command_line.md alone has")
        self.assertEqual(sorted(taken - documented), [], "options that docs/command_line.md lacks")

    def test_settings_that_cannot_be_understood(self):
        spec = self.small()
        self.refuses(1, "check", spec, says="EPIFUSE_LOG", EPIFUSE_LOG="loud")
        self.refuses(1, "check", spec, says="EPIFUSE_JIT", EPIFUSE_JIT="maybe")
        self.assertEqual(self.json("check", spec, code=1, EPIFUSE_LOG="loud")["error"]["kind"], "user")

    def test_a_full_standard_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            code = subprocess.run([support.EPIFUSE, "check", self.small()], stdout=full, stderr=subprocess.PIPE,
                                  env=self.environment, check=False)
        self.assertEqual(code.returncode, 3)
        self.assertIn(b"cannot write to the standard output", code.stderr)
        self.assertEqual(os.listdir(self.folder), ["small.epi"])


if __name__ == "__main__":
    support.main()
