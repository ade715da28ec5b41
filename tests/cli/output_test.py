"""Files that commands write: they appear whole or not at all, where they were asked for, and never in place of anything
that is no file."""

import json
import os
import signal
import stat
import subprocess
import time
import zipfile

import support
from support import npy_files


class OutputTest(support.CliTest):
    def test_places_that_cannot_be_written(self):
        spec = self.small()
        os.mkdir(self.path("folder"))
        os.mkfifo(self.path("pipe"))
        self.write("file", "old")
        before = self.files()
        emit = ["compile", spec, "--emit=cuda", "-o"]
        self.refuses(1, *emit, "folder", says="it is a directory")
        self.refuses(1, *emit, "folder/", says="directory")
        self.refuses(1, *emit, "missing/k.cu", says="there is no directory 'missing'")
        self.refuses(1, *emit, "file/k.cu", says="there is no directory 'file'")
        self.refuses(1, *emit, "pipe", says="not a regular file")
        self.refuses(1, *emit, "/dev/null", says="not a regular file")
        # The system alone knows: /proc takes no files from anybody.
        self.refuses(1, *emit, "/proc/k.cu", says="cannot write '/proc/k.cu'")
        self.refuses(1, *emit, "n" * 256, says="File name too long")
        run = ["run", spec, "--device", "cpu", "-o"]
        self.refuses(1, *run, "file", says="it is not a directory")
        self.refuses(1, *run, "pipe", says="it is not a directory")
        self.refuses(1, *run, "missing/out.npz", says="there is no directory 'missing'")
        os.mkdir(self.path("folder.npz"))
        self.refuses(1, *run, "folder.npz", says="it is a directory")
        self.refuses(1, *run, "file/out", says="file")
        self.refuses(1, *run, "/proc/deep/out", says="cannot write '/proc/deep/out'")
        self.assertEqual(self.files(), before)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_a_stderr_that_is_full_or_closed_changes_no_ending(self):
        """Whatever would be said there: warnings, notes, lines of the log."""
        os.mkdir(self.path("open"))
        os.chmod(self.path("open"), 0o777)
        for settings in ({"EPIFUSE_CACHE_DIR": self.path("open")}, {"EPIFUSE_LOG": "debug"}):
            environment = {**self.environment, **settings}
            for streams in ("2>/dev/full", "2>&-", "<&- 2>&-"):
                with self.subTest(settings=settings, streams=streams):
                    ended = subprocess.run(["/bin/sh", "-c", f'exec "$0" cache why "$1" --json {streams}', support.EPIFUSE,
                                            self.small()], cwd=self.folder, env=environment, check=False,
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
                    self.assertEqual(ended.returncode, 0)
                    self.assertTrue(json.loads(ended.stdout)["ok"])

    def test_a_limit_on_the_size_of_files_is_an_error(self):
        before = self.files() + [os.path.basename(self.small())]
        for arguments, code in (("-o big.cu", 3), ("> out", 3)):
            ended = subprocess.run(["/bin/sh", "-c", f'ulimit -f 1; exec "$0" compile "$1" --emit=cuda {arguments}',
                                    support.EPIFUSE, self.small()], cwd=self.folder, env=self.environment, check=False,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
            self.assertEqual(ended.returncode, code)
            self.assertIn(b"cannot write", ended.stderr)
        self.assertEqual([name for name in self.files() if name != "out"], before)

    def test_names_as_long_as_the_disk_takes(self):
        self.run_epifuse("compile", self.small(), "--emit=ir", "-o", "n" * 255)
        self.assertTrue(os.path.exists(self.path("n" * 255)))

    def test_what_a_killed_writer_left_goes_with_the_next_write(self):
        for name in ("k.ir.tmp-17-0", "k.ir.tmp-mine", "other.tmp-17-0"):
            self.write(name, "")
        self.run_epifuse("compile", self.small(), "--emit=ir", "-o", "k.ir")
        self.assertEqual(self.files(), ["k.ir", "k.ir.tmp-mine", "other.tmp-17-0", "small.epi"])

    def test_a_file_that_the_spec_uses_is_not_replaced(self):
        self.write("lib.epi", "fn twice(v) = v * 2\n")
        spec = self.write("main.epi", 'use "lib.epi"\n' + support.SMALL)
        os.symlink("lib.epi", self.path("out.npz"))
        for command in (["compile", spec, "--emit=ir"], ["grad", spec, "--chain", "small"], ["bench", spec], ["tune", spec],
                        ["run", spec, "--device", "cpu"]):
            for name in ("out.npz",) if command[0] == "run" else ("lib.epi", "out.npz"):
                self.refuses(1, *command, "-o", name, says=f"cannot write '{name}': it is a file of the spec that is read")
        # The one list holds for every command.
        os.symlink("main.epi", self.path("spec.npz"))
        for command in (["bench", spec], ["tune", spec], ["run", spec, "--device", "cpu"], ["prebuild", spec]):
            self.refuses(1, *command, "-o", "spec.npz", says="cannot write 'spec.npz': it is the spec that is read")

    def test_an_old_file_stays_when_the_command_fails(self):
        self.write("k.cu", "old")
        bad = self.write("bad.epi", "kernel {")
        self.refuses(1, "compile", bad, "--emit=cuda", "-o", "k.cu", says="bad.epi")
        with open(self.path("k.cu"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "old")
        self.run_epifuse("compile", self.small(), "--emit=cuda", "-o", "k.cu")
        self.assertGreater(os.path.getsize(self.path("k.cu")), 100)

    def test_modes_are_those_of_any_output(self):
        mask = os.umask(0o027)
        try:
            self.run_epifuse("compile", self.small(), "--emit=ir", "-o", "new.ir")
            self.run_epifuse("run", self.small(), "--device", "cpu", "-o", "out")
            self.run_epifuse("run", self.small(), "--device", "cpu", "-o", "a/../a/b//c/")
        finally:
            os.umask(mask)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("new.ir")).st_mode), 0o640)
        for folder in "a", "a/b", "a/b/c":
            self.assertEqual(stat.S_IMODE(os.stat(self.path(folder)).st_mode), 0o750, folder)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("out")).st_mode), 0o750)
        self.assertEqual(stat.S_IMODE(os.stat(self.path("out", "y.npy")).st_mode), 0o640)
        os.chmod(self.path("new.ir"), 0o604)
        self.run_epifuse("compile", self.small(), "--emit=ir", "-o", "new.ir")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("new.ir")).st_mode), 0o604)

    def test_a_link_is_written_through(self):
        self.write("real.ir", "old")
        os.symlink("real.ir", self.path("link.ir"))
        self.run_epifuse("compile", self.small(), "--emit=ir", "-o", "link.ir")
        self.assertTrue(os.path.islink(self.path("link.ir")))
        with open(self.path("real.ir"), encoding="utf-8") as file:
            self.assertIn("# resolved", file.read())

    def test_a_link_to_nothing_is_written_through(self):
        os.mkdir(self.path("far"))
        os.symlink("far/middle.ir", self.path("link.ir"))
        os.symlink("real.ir", self.path("far", "middle.ir"))
        os.symlink("missing/k.ir", self.path("lost.ir"))
        os.symlink("loop.ir", self.path("loop.ir"))
        mask = os.umask(0o027)
        try:
            self.run_epifuse("compile", self.small(), "--emit=ir", "-o", "link.ir")
        finally:
            os.umask(mask)
        self.assertTrue(os.path.islink(self.path("link.ir")) and os.path.islink(self.path("far", "middle.ir")))
        self.assertEqual(stat.S_IMODE(os.lstat(self.path("far", "real.ir")).st_mode), 0o640)
        self.refuses(1, "compile", self.small(), "--emit=ir", "-o", "lost.ir", says="there is no directory 'missing'")
        self.refuses(1, "compile", self.small(), "--emit=ir", "-o", "loop.ir", says="too many symbolic links")

    def test_links_in_a_directory_are_written_through(self):
        os.mkdir(self.path("out"))
        self.write("old.npy", "old")
        os.chmod(self.path("old.npy"), 0o604)
        os.symlink("../old.npy", self.path("out", "y.npy"))
        os.symlink("../new.npy", self.path("out", "s.npy"))
        run = ["run", self.small(), "--device", "cpu", "-o", "out"]
        mask = os.umask(0o027)
        try:
            self.run_epifuse(*run)
        finally:
            os.umask(mask)
        for link, file, mode in (("y.npy", "old.npy", 0o604), ("s.npy", "new.npy", 0o640)):
            self.assertTrue(os.path.islink(self.path("out", link)))
            self.assertEqual(stat.S_IMODE(os.lstat(self.path(file)).st_mode), mode)
            npy_files.read(self.path(file))
        os.remove(self.path("out", "y.npy"))
        os.remove(self.path("new.npy"))
        os.mkdir(self.path("out", "y.npy"))
        self.refuses(1, *run, says="it is a directory")
        self.assertNotIn("new.npy", self.files())

    def test_a_spec_is_not_written_over(self):
        spec = self.small()
        os.symlink("small.epi", self.path("link.epi"))
        os.link(spec, self.path("hard.epi"))
        for name in ("small.epi", "./small.epi", "link.epi", "hard.epi"):
            for source in (spec, "link.epi"):
                self.refuses(1, "compile", source, "--emit=ast", "-o", name, says="it is the spec that is read")
        with open(spec, encoding="utf-8") as file:
            self.assertEqual(file.read(), support.SMALL)

    def test_what_the_surroundings_have_read_is_not_written_over(self):
        spec = self.small()
        tuning, record = self.write("t.json", "{}"), self.write("r.jsonl", '{"record":1}\n')
        emit = ("compile", spec, "--emit=ast")
        self.refuses(1, *emit, "-o", tuning, says="it is the tuning file that is read", EPIFUSE_TUNING=tuning)
        self.refuses(1, *emit, "-o", record, "--record", record, says="it is the record that is read")
        self.refuses(1, *emit, "-o", record, says="it is the record that is read", EPIFUSE_RECORD=record)
        self.refuses(1, *emit, "-o", "out.ast", "--record", spec, says="is no record of requests")
        for path, text in ((spec, support.SMALL), (tuning, "{}"), (record, '{"record":1}\n')):
            with open(path, encoding="utf-8") as file:
                self.assertEqual(file.read(), text)

    def test_odd_output_paths(self):
        for name in ("sp ace.ir", "日本.ir", "quote'.ir"):
            self.run_epifuse("compile", self.small(), "--emit=ir", "-o", name)
            self.assertIn(name, self.files())
        self.run_epifuse("run", self.small(), "--device", "cpu", "-o", "日本 out/deep")
        self.assertIn("日本 out/deep/y.npy", self.files())

    def test_results_and_archive_agree(self):
        self.run_epifuse("run", self.small(), "--device", "cpu", "-o", "out")
        self.run_epifuse("run", self.small(), "--device", "cpu", "-o", "out.npz")
        with zipfile.ZipFile(self.path("out.npz")) as archive:
            self.assertIsNone(archive.testzip())
            for name in ("y", "s", "s.scale"):
                with open(self.path("out", name + ".npy"), "rb") as file:
                    self.assertEqual(archive.read(name + ".npy"), file.read())

    def test_a_killed_run_leaves_nothing_half_written(self):
        spec = self.small()
        whole = {"y": (2000, 1024), "s": (2000, 1024), "s.scale": (2000, 32)}
        arguments = ["run", spec, "--device", "cpu", "--counts", "1000,1000", "--dims", "N=1024,K=8"]
        start = time.monotonic()
        self.run_epifuse(*arguments, "-o", "good")
        duration = time.monotonic() - start
        for kill in range(8):
            folder = f"out{kill}"
            process = self.start(*arguments, "-o", folder)
            time.sleep(duration * (kill + 1) / 9)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            for name, shape in whole.items():
                path = self.path(folder, name + ".npy")
                if os.path.exists(path):
                    self.assertEqual(npy_files.read(path)[0], shape)
                    with open(path, "rb") as file, open(self.path("good", name + ".npy"), "rb") as good:
                        self.assertEqual(file.read(), good.read())

    def test_two_runs_into_one_place(self):
        spec = self.small()
        runs = [self.start("run", spec, "--device", "cpu", "-o", "out") for _ in range(4)]
        for run in runs:
            run.communicate(timeout=300)
        self.assertEqual([run.returncode for run in runs], [0] * 4)
        self.assertEqual(self.files(), ["out/s.npy", "out/s.scale.npy", "out/y.npy", "small.epi"])


if __name__ == "__main__":
    support.main()
