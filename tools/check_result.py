#!/usr/bin/env python3
"""Checks a result of specs/moe_fc1_swiglu.epi on sampled elements, from the definition, sharing nothing with Epifuse.

For sampled rows and columns the products are summed exactly; every stored number must be one that the exact value,
give or take the error of f32 arithmetic, rounds to: bf16 of `pre`, and scale and codes of whole MXFP8 blocks of `y` and
`yt`. All gaps between groups of `yt` must be zero. Usage: check_result.py INPUTS RESULTS [--samples N] [--seed N]
"""

import argparse
import bisect
import math
import os
import random
import struct
import sys

sys.dont_write_bytecode = True  # nothing but what is asked for is left in the tree
import npy_files  # noqa: E402

BLOCK = 32
ALIGN = 128


def bf16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def e4m3_value(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)
    return -magnitude if code & 0x80 else magnitude


MAGNITUDES = [e4m3_value(code) for code in range(0x7F)]  # 0x7F is NaN; the largest is 448


def round_e4m3(value):
    """The number that e4m3 holds for the value: nearest, ties to the even code, 448 beyond."""
    magnitude = min(abs(value), MAGNITUDES[-1])
    above = bisect.bisect_left(MAGNITUDES, magnitude)
    if MAGNITUDES[above] != magnitude:
        below, middle = above - 1, (MAGNITUDES[above - 1] + MAGNITUDES[above]) / 2
        if magnitude < middle or (magnitude == middle and below % 2 == 0):
            above = below
    return math.copysign(MAGNITUDES[above], value)


def round_bf16(value):
    """Nearest even; the double is rounded once."""
    if value == 0:
        return 0.0
    step = 2.0 ** (math.frexp(value)[1] - 8)
    return round(value / step) * step


def scale_exponent(largest):
    """The smallest power of two that brings the magnitude to 448 or less, 448 being 0.875 * 2**9."""
    fraction, exponent = math.frexp(largest)
    return max(exponent - (9 if fraction <= 0.875 else 8), -127)


class Layer:
    def __init__(self, inputs):
        (self.rows, self.depth), self.x = npy_files.read(os.path.join(inputs, "x.npy"))
        (self.experts, double_width, _), self.w = npy_files.read(os.path.join(inputs, "w.npy"))
        self.width = double_width // 2
        _, self.prob = npy_files.read(os.path.join(inputs, "prob.npy"))
        _, self.ends = npy_files.read(os.path.join(inputs, "M.ends.npy"))
        self.decoded = {}

    def line(self, values, index):
        key = (id(values), index)
        if key not in self.decoded:
            if len(self.decoded) > 4096:
                self.decoded.clear()
            self.decoded[key] = [bf16_value(b) for b in values[index * self.depth : (index + 1) * self.depth]]
        return self.decoded[key]

    def start(self, expert):
        return self.ends[expert - 1] if expert else 0

    def expert_of(self, row):
        return bisect.bisect_right(self.ends, row)

    def product(self, row, column):
        """h[row, column] exactly, and how far a sum in f32 may be from it."""
        x = self.line(self.x, row)
        w = self.line(self.w, self.expert_of(row) * 2 * self.width + column)
        terms = [a * b for a, b in zip(x, w)]
        return math.fsum(terms), 2.0**-21 * math.fsum(map(abs, terms))

    def activation(self, row, column):
        gate, gate_error = self.product(row, column)
        up, up_error = self.product(row, self.width + column)
        silu = gate / (1 + math.exp(-gate)) if gate > -700 else 0.0
        value = silu * up * self.prob[row]
        # The slope of silu is at most 1.1.
        error = (1.1 * gate_error * abs(up) + abs(silu) * up_error + gate_error * up_error) * self.prob[row]
        return value, error + 2.0**-18 * abs(value)


class Checker:
    def __init__(self, layer, results):
        self.layer, self.results = layer, results
        self.checked, self.wrong = 0, 0

    def read(self, name, shape):
        found, values = npy_files.read(os.path.join(self.results, name + ".npy"))
        if tuple(found) != tuple(shape):
            raise ValueError(f"{name} has the shape {found}, {tuple(shape)} is expected")
        return values

    def expect(self, holds, what):
        self.checked += 1
        if not holds:
            self.wrong += 1
            if self.wrong <= 10:
                print(f"wrong: {what}", file=sys.stderr)

    def pre(self, samples):
        layer = self.layer
        pre = self.read("pre", (layer.rows, 2 * layer.width))
        for row, column in samples:
            value, error = layer.product(row, column)
            stored = bf16_value(pre[row * 2 * layer.width + column])
            self.expect(round_bf16(value - error) <= stored <= round_bf16(value + error),
                        f"pre[{row}, {column}] is {stored}, {value} is expected")

    def block(self, name, values, codes, scale):
        """Values with their errors, the codes and the scale stored for them."""
        largest = [max(abs(value) + sign * error for value, error in values) for sign in (-1, 1)]
        low, high = (scale_exponent(max(bound, 0.0)) + 127 if bound > 0 else 0 for bound in largest)
        self.expect(low <= scale <= high, f"{name}: the scale is {scale}, {low} to {high} is expected")
        unit = 2.0 ** (scale - 127)
        for (value, error), code in zip(values, codes):
            low, high = round_e4m3((value - error) / unit), round_e4m3((value + error) / unit)
            self.expect(low <= e4m3_value(code) <= high,
                        f"{name}: {e4m3_value(code) * unit} is stored for {value}")

    def y(self, samples):
        layer = self.layer
        blocks = -(-layer.width // BLOCK)
        codes = self.read("y", (layer.rows, layer.width))
        scales = self.read("y.scale", (layer.rows, blocks))
        for row, column in samples:
            block = column // BLOCK
            columns = range(block * BLOCK, min((block + 1) * BLOCK, layer.width))
            self.block(f"y[{row}, block {block}]", [layer.activation(row, c) for c in columns],
                       [codes[row * layer.width + c] for c in columns], scales[row * blocks + block])

    def yt(self, samples):
        layer = self.layer
        room = (layer.rows + layer.experts * (ALIGN - 1)) // ALIGN * ALIGN
        codes = self.read("yt", (layer.width, room))
        scales = self.read("yt.scale", (layer.width, room // BLOCK))
        starts = [0]  # of the groups in the aligned dimension
        for expert in range(layer.experts):
            size = layer.ends[expert] - layer.start(expert)
            starts.append(starts[-1] + -(-size // ALIGN) * ALIGN)
        for row, column in samples:
            expert = layer.expert_of(row)
            first = (row - layer.start(expert)) // BLOCK * BLOCK
            tokens = range(layer.start(expert) + first, min(layer.start(expert) + first + BLOCK, layer.ends[expert]))
            place = column * room + starts[expert] + first
            self.block(f"yt[{column}, tokens {tokens.start} to {tokens.stop - 1}]",
                       [layer.activation(token, column) for token in tokens],
                       codes[place : place + len(tokens)], scales[place // BLOCK])
        for expert in range(layer.experts):
            end = starts[expert] + layer.ends[expert] - layer.start(expert)
            for column in range(layer.width):
                line = column * room
                gap = codes[line + end : line + starts[expert + 1]]
                gap += scales[(line + end + BLOCK - 1) // BLOCK : (line + starts[expert + 1]) // BLOCK]
                self.expect(not any(gap), f"the gap behind group {expert} of yt[{column}] is not zero")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("inputs", help="directory of x.npy, w.npy, prob.npy, M.ends.npy")
    parser.add_argument("results", help="directory of pre.npy, y.npy, y.scale.npy, yt.npy, yt.scale.npy")
    parser.add_argument("--samples", type=int, default=64, help="of each output")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    layer = Layer(arguments.inputs)
    if layer.rows == 0:
        parser.error("there are no rows to check")
    generator = random.Random(arguments.seed)

    def samples(columns):
        return [(generator.randrange(layer.rows), generator.randrange(columns)) for _ in range(arguments.samples)]

    checker = Checker(layer, arguments.results)
    checker.pre(samples(2 * layer.width))
    checker.y(samples(layer.width))
    checker.yt(samples(layer.width))
    verdict = f"{checker.wrong} WRONG" if checker.wrong else "all right"
    print(f"checked {checker.checked} numbers of {arguments.results} from the definition: {verdict}")
    return 1 if checker.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
