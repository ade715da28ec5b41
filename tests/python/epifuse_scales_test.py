"""python/epifuse_scales.py against the published maps of the layout, and to and fro."""

import json
import os
import random
import sys
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
import epifuse_scales as scales  # noqa: E402


def vectors(name):
    with open(os.path.join(ROOT, "tests", "vectors", name), encoding="utf-8") as file:
        return json.load(file)


def random_scales(rows, columns):
    return random.Random(rows * 1000 + columns).randbytes(rows * columns)


SHAPES = [(130, 5), (1, 1), (128, 4), (129, 4), (128, 5), (33, 90), (300, 3), (0, 4), (4, 0)]


class ScalesTest(unittest.TestCase):
    def test_b21_b23_offsets_of_the_vectors(self):
        for row in vectors("swizzle_128x4.json")["rows"]:
            with self.subTest(row["name"]):
                self.assertEqual(scales.size_128x4(row["rows"], row["scale_cols"]), row["bytes"])
                for place in row["offsets"]:
                    self.assertEqual(scales.offset_128x4(place["r"], place["c"], row["scale_cols"]), place["off"])

    def test_the_whole_tile_of_the_vectors(self):
        tile = vectors("numerics/swizzle_128x4.json")["tile_128x4_offsets"]
        self.assertEqual([" ".join(str(scales.offset_128x4(r, c, 4)) for c in range(4)) for r in range(128)], tile)

    def test_a_ragged_matrix_of_the_vectors(self):
        example = vectors("numerics/swizzle_128x4.json")["example_160x5"]
        self.assertEqual(scales.size_128x4(example["rows"], example["cols"]), example["allocated_bytes"])
        for row, column, offset in example["samples_row_col_offset"]:
            self.assertEqual(scales.offset_128x4(row, column, example["cols"]), offset)

    def test_groups_of_the_vectors(self):
        rows = vectors("numerics/swizzle_128x4.json")["m_groups_example"]["groups"]
        starts = scales.groups_along_rows([group["rows"] for group in rows], 3)
        self.assertEqual(starts[:-1], [group["byte_offset"] for group in rows])
        columns = vectors("numerics/swizzle_128x4.json")["k_groups_example"]["groups"]
        starts = scales.groups_along_columns([group["tokens"] for group in columns], 256, 32, align=32)
        self.assertEqual(starts[:-1], [group["byte_offset"] for group in columns])

    def test_groups_of_an_aligned_dimension_keep_their_gap(self):
        self.assertEqual(scales.groups_along_rows([1, 0, 300], 1, align=256), [0, 1024, 1024, 3072])

    def test_b31_to_and_fro_is_the_identity(self):
        for rows, columns in SHAPES:
            with self.subTest(rows=rows, columns=columns):
                before = random_scales(rows, columns)
                blocked = scales.to_blocked_128x4(before, rows, columns)
                self.assertEqual(scales.from_blocked_128x4(blocked, rows, columns), before)

    def test_each_byte_is_a_scale_or_zero(self):
        for rows, columns in SHAPES:
            before = random_scales(rows, columns)
            blocked = scales.to_blocked_128x4(before, rows, columns)
            self.assertEqual(len(blocked), scales.size_128x4(rows, columns))
            for offset, byte in enumerate(blocked):
                row, column = scales.place_128x4(offset, columns)
                inside = row < rows and column < columns
                self.assertEqual(byte, before[row * columns + column] if inside else 0)
                self.assertEqual(scales.offset_128x4(row, column, columns), offset)

    def test_other_sizes_are_refused_with_both(self):
        with self.assertRaisesRegex(ValueError, "12 bytes are given, and there are 512"):
            scales.from_blocked_128x4(bytes(12), 3, 4)
        with self.assertRaises(ValueError):
            scales.to_blocked_128x4(bytes(13), 3, 4)


if __name__ == "__main__":
    unittest.main()
