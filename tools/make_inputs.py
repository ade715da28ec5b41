#!/usr/bin/env python3
"""Makes inputs for specs/moe_fc1_swiglu.epi: a published model's expert layer, scaled down, with real routing.

Tokens are random; a router (softmax over experts, the best few taken, as in the model) decides which experts a token
goes to, and its experts are unevenly loved, as trained ones are. The rows of x are the tokens packed expert by expert,
each with the probability that the router gave it. Equal arguments give equal bytes.

Writes x.npy, w.npy (bf16 as uint16 bits), prob.npy (float32) and M.ends.npy (int32) into a directory, and prints the
dimensions for --dims. Only the standard library is used.
"""

import argparse
import array
import math
import operator
import os
import random
import statistics
import struct
import sys

sys.dont_write_bytecode = True  # nothing but what is asked for is left in the tree
import npy_files  # noqa: E402

# Experts, hidden size, expert width, experts for each token: config.json of the published checkpoints.
MODELS = {
    "mixtral-8x7b": (8, 4096, 14336, 2),
    "qwen3-30b-a3b": (128, 2048, 768, 8),
}


def bf16_bits(value):
    """Nearest even; values are finite."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def bf16_value(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


class Normal:
    """Normally distributed bf16 numbers, quickly: 16 random bits choose one of 65536 equally likely values."""

    def __init__(self, deviation):
        normal = statistics.NormalDist(0, deviation)
        self.table = [bf16_bits(normal.inv_cdf((i + 0.5) / 65536)) for i in range(65536)]

    def bits(self, generator, count):
        return array.array("H", map(self.table.__getitem__, array.array("H", generator.randbytes(2 * count))))


def route(generator, tokens, experts, chosen, scores_of):
    """(token, probability) of every row, expert by expert."""
    love = [generator.gauss(0, 0.7) for _ in range(experts)]
    rows = [[] for _ in range(experts)]
    for token in range(tokens):
        scores = [score + bias for score, bias in zip(scores_of(token), love)]
        best = sorted(range(experts), key=scores.__getitem__, reverse=True)[:chosen]
        weights = [math.exp(scores[e] - scores[best[0]]) for e in best]
        for expert, weight in zip(best, weights):
            rows[expert].append((token, weight / sum(weights)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("-o", required=True, metavar="DIR", help="directory for the files")
    parser.add_argument("--model", choices=sorted(MODELS), default="mixtral-8x7b")
    parser.add_argument("--scale", type=int, default=8, help="hidden size and width are divided by this")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    experts, hidden, width, chosen = MODELS[arguments.model]
    if arguments.scale < 1 or hidden % (8 * arguments.scale) or width % (8 * arguments.scale):
        parser.error(f"--scale must leave {hidden} and {width} multiples of 8")
    if not 1 <= arguments.tokens <= 1 << 20:
        parser.error("--tokens must be from 1 to 1048576")
    hidden, width = hidden // arguments.scale, width // arguments.scale

    generator = random.Random(arguments.seed)
    token_bits = Normal(1).bits(generator, arguments.tokens * hidden)
    router = [[generator.gauss(0, 1 / math.sqrt(hidden)) for _ in range(hidden)] for _ in range(experts)]

    def scores_of(token):
        x = [bf16_value(bits) for bits in token_bits[token * hidden : (token + 1) * hidden]]
        return [sum(map(operator.mul, x, column)) for column in router]

    rows = route(generator, arguments.tokens, experts, chosen, scores_of)
    x, prob, ends = array.array("H"), array.array("f"), array.array("i")
    for group in rows:
        for token, probability in group:
            x.extend(token_bits[token * hidden : (token + 1) * hidden])
            prob.append(probability)
        ends.append(len(prob))
    w = Normal(1 / math.sqrt(hidden)).bits(generator, experts * 2 * width * hidden)

    os.makedirs(arguments.o, exist_ok=True)
    npy_files.write(os.path.join(arguments.o, "x.npy"), "<u2", (len(prob), hidden), x)
    npy_files.write(os.path.join(arguments.o, "w.npy"), "<u2", (experts, 2 * width, hidden), w)
    npy_files.write(os.path.join(arguments.o, "prob.npy"), "<f4", (len(prob),), prob)
    npy_files.write(os.path.join(arguments.o, "M.ends.npy"), "<i4", (experts,), ends)
    print(f"{arguments.model} / {arguments.scale}: {arguments.tokens} tokens to {chosen} of {experts} experts, "
          f"rows of each: {' '.join(str(len(group)) for group in rows)}", file=sys.stderr)
    print(f"E={experts},K={hidden},I={width}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
