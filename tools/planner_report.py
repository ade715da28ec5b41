#!/usr/bin/env python3
"""How good the cost model's choice of a plan is: `epifuse tune --report` for the shapes that its constants were fitted to
and for others, each with at least 24 legal plans measured hot in turn. Prints the time of the choice over that of the best.

    tools/planner_report.py build/release/tools/epifuse [-o planner.json] [--seconds N] [--only fitted|others]

Some minutes; with --seconds it begins with no further kernel behind so many.
"""
import argparse
import json
import subprocess
import time

PLAIN = ("specs/grouped_gemm.epi", "grouped_gemm", lambda k, n: {"K": k, "N": n})
FUSED = ("specs/moe_fc1_swiglu.epi", "moe_fc1_swiglu", lambda k, n: {"K": k, "I": n // 2})
BACKWARD = ("specs/swiglu_mlp.epi", "fc2_dgrad_mxfp8", lambda k, n: {"H": k, "I": n // 2})
WEIGHT = ("specs/swiglu_mlp.epi", "fc1_wgrad", lambda k, n: {"H": k, "I": n // 2})

# (experts, tokens of each, K, N), as in tools/bench_peers.py.
FITTED = [(8, 4096, 8192, 4096), (8, 4096, 7168, 4096), (8, 4096, 2048, 7168), (32, 1024, 7168, 4096),
          (16, 2048, 2880, 5760), (16, 2048, 2880, 2880), (128, 128, 2880, 5760)]
# Those that say where tiles are dealt out, or worked on in pairs.
ORDERED = [(FUSED, (128, 256, 2048, 1536)), (BACKWARD, (128, 256, 4096, 3072)), (BACKWARD, (16, 2048, 2880, 2880))]
# Of other models, and of none.
OTHERS = [(PLAIN, (8, 2048, 4096, 14336)), (PLAIN, (64, 512, 2048, 2816)), (PLAIN, (16, 1024, 5120, 3072)),
          (PLAIN, (4, 8192, 3072, 8192)), (FUSED, (8, 2048, 4096, 7168)), (FUSED, (96, 320, 3072, 2560)),
          (FUSED, (16, 2048, 6144, 5120)), (FUSED, (64, 512, 3584, 2560)), (BACKWARD, (8, 2048, 4096, 7168)),
          (BACKWARD, (32, 1024, 4096, 2880)), (BACKWARD, (24, 1536, 2560, 1856)), (WEIGHT, (8, 2048, 4096, 7168)),
          (WEIGHT, (64, 512, 5120, 3072))]


def report(epifuse, kernel, shape):
    spec, name, dims = kernel
    experts, tokens, depth, columns = shape
    named = {"E": experts, **dims(depth, columns)}
    command = [epifuse, "tune", spec, "--kernel", name, "--dims", ",".join(f"{n}={size}" for n, size in named.items()),
               "--expected-rows", str(tokens), "--warm", "1", "--rounds", "8", "--report", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return json.loads(done.stdout)["kernels"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("epifuse")
    parser.add_argument("-o", dest="result")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--only", choices=("fitted", "others"))
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.seconds
    wanted = []
    if arguments.only != "others":
        wanted += [("fitted", kernel, shape) for shape in FITTED for kernel in (PLAIN, FUSED)]
        wanted += [("fitted", kernel, shape) for kernel, shape in ORDERED]
    if arguments.only != "fitted":
        wanted += [("others", kernel, shape) for kernel, shape in OTHERS]
    rows = []
    for kind, kernel, shape in wanted:
        if time.monotonic() > end:
            break
        told = report(arguments.epifuse, kernel, shape)
        rows.append({"kind": kind, "kernel": kernel[1], "shape": "x".join(map(str, shape)),
                     **{key: told[key] for key in ("legal_plans", "best", "choice_of_model", "choice_over_best",
                                                   "sm_clock_mhz", "hot")},
                     "measured": sum("ms" in plan for plan in told["plans"]),
                     "plans": {plan["plan"]: round(plan["ms"], 4) for plan in told["plans"] if "ms" in plan}})
        row = rows[-1]
        print(f"{kind:6s} {row['kernel']:16s} {row['shape']:20s} {row['choice_over_best']:.3f}  {row['choice_of_model']:28s} "
              f"best {row['best']:34s} of {row['measured']} of {row['legal_plans']}  {row['sm_clock_mhz']:.0f} MHz", flush=True)
    ratios = sorted(row["choice_over_best"] for row in rows)
    within = sum(ratio <= 1.03 for ratio in ratios)
    print(f"{within} of {len(ratios)} within 3 %, the largest {ratios[-1]:.3f}")
    if arguments.result:
        with open(arguments.result, "w", encoding="utf-8") as file:
            json.dump({"rows": rows, "within_3_percent": within, "of": len(rows), "left_out": len(wanted) - len(rows)}, file,
                      indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
