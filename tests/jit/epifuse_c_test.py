"""python/epifuse_c.py against the shared library, on a machine without a GPU. Usage: epifuse_c_test.py (EPIFUSE_LIBRARY)"""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import epifuse_c as epifuse  # noqa: E402

SPEC = """
kernel small {
  dim   E = 2, K = 64, N = 64
  group M by E
  in  x : bf16[M, K]
  in  w : bf16[E, N, K]
  out y : bf16[M, N] = gemm(x, w)
}
"""


class Test(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.engine = epifuse.Engine(cache_directory=os.path.join(self.folder.name, "cache"))

    def load(self, text=SPEC, **options):
        try:
            return self.engine.load(text=text, device=epifuse.DEVICE_NONE, **options)
        except epifuse.EpifuseError as error:
            if error.status == 3:
                self.skipTest(str(error))
            raise

    def test_imports_no_framework(self):
        self.assertNotIn("torch", sys.modules)

    def test_a_kernel_and_its_buffers(self):
        kernel = self.load(dims={"E": 3})
        self.assertEqual(kernel.info["dims"], {"E": 3, "K": 64, "N": 64})
        self.assertEqual(self.engine.toolchain_calls, kernel.info["toolchain_calls"])
        self.assertEqual(set(kernel.buffers), {"M.ends", "x", "w", "y"})
        self.assertEqual(kernel.buffers["w"]["extents"], ["E", "N", "K"])
        self.assertEqual(kernel.buffers["y"]["role"], "output")
        self.assertEqual(kernel.buffers["w"]["pointer_axes"], 0)
        self.assertEqual(kernel.info["workspace_bytes"], 0)

    def test_buffers_behind_an_array_of_pointers_look_like_one_tensor(self):
        array = epifuse.Tensor(4096, (3,))
        buffers = [epifuse.Tensor(1 << 20 | e << 16, (8, 64), (72, 1)) for e in range(3)]
        made = epifuse.Tensor.of_buffers(buffers, array)
        self.assertEqual((made.pointer, made.shape, made.strides), (4096, (3, 8, 64), (0, 72, 1)))
        self.assertEqual(epifuse.Tensor.of_buffers([epifuse.Tensor(256, (8, 64))], array).strides, None)
        with self.assertRaises(ValueError):
            epifuse.Tensor.of_buffers([*buffers, epifuse.Tensor(256, (8, 64))], array)

    def test_an_unfused_kernel_is_bound_as_the_fused_one_is(self):
        kernel, fused = self.load(unfused=True), self.load()
        self.assertIs(kernel.info["unfused"], True)
        self.assertGreater(len(kernel.info["stages"]), 1)
        self.assertEqual(kernel.info["dims"], fused.info["dims"])
        names = {name: (buffer["storage"], buffer["role"], buffer["extents"]) for name, buffer in kernel.buffers.items()}
        self.assertEqual(names, {name: (buffer["storage"], buffer["role"], buffer["extents"])
                                 for name, buffer in fused.buffers.items()})
        with self.assertRaises(epifuse.EpifuseError) as caught:
            self.load(unfused=True, schedule="pingpong 128x128")
        self.assertEqual(caught.exception.status, 1)

    def test_errors_are_exceptions(self):
        with self.assertRaises(epifuse.EpifuseError) as caught:
            self.load("kernel k {\n  dim N = 8\n  out y : bf16[N] = nothing\n}\n")
        self.assertEqual(caught.exception.status, 1)
        self.assertIn("nothing", str(caught.exception))

    def test_arguments_are_checked_before_they_are_passed_on(self):
        kernel = self.load()
        with self.assertRaises(epifuse.EpifuseError) as caught:
            kernel.bind({"x": epifuse.Tensor(4096, (10, 64))})
        self.assertEqual(caught.exception.status, 2)
        self.assertIn("onto no GPU", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
