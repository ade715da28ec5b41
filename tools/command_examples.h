// What --help says below the options: examples of each command.
#pragma once

namespace epifuse::tools {

inline constexpr const char* main_footer = R"(Examples:
  epifuse check specs/moe_fc1_swiglu.epi
  epifuse compile specs/moe_fc1_swiglu.epi --dims E=8,K=4096,I=1792 -o fc1.cubin
  epifuse compile specs/moe_fc1_swiglu.epi --emit=cuda
  epifuse run specs/moe_fc1_swiglu.epi --dims K=256,I=128 --counts 0,1,127,3,0,9,40,2 -o results
  epifuse verify specs/moe_fc1_swiglu.epi --counts 0,1,127,129,1000,0,4096,5
  epifuse prebuild specs/moe_fc1_swiglu.epi --dims E=8,K=7168,I=2048 -o kernels.epb
  epifuse doctor

Exit codes: 0 good; 1 the input; 2 the command line; 3 this machine (no NVRTC, no GPU); 4 a bug of Epifuse; 5 the thing
checked is wrong. `epifuse COMMAND --help` tells a command's options; docs/command_line.md has all of it.)";

inline constexpr const char* check_footer = R"(Examples:
  epifuse check specs/*.epi
  epifuse check my.epi --json)";

inline constexpr const char* compile_footer = R"(Examples:
  epifuse compile specs/grouped_gemm.epi                         from the cache, or with NVRTC
  epifuse compile specs/grouped_gemm.epi -o gemm.cubin           and write the cubin
  epifuse compile specs/grouped_gemm.epi --emit=plan             any stage: tokens ast ir plan cuda ptx cubin sass
  epifuse compile specs/grouped_gemm.epi --dims E=8,K=4096,N=1792 --schedule "pingpong 128x192"
  epifuse compile specs/moe_fc1_swiglu.epi --unfused --emit=cuda  a kernel for each operation)";

inline constexpr const char* run_footer =
    R"(Buffers have the names of the spec: x, y and y.scale, M.ends or M.counts. bf16 is read and written as uint16 bits; fp8,
e8m0 and fp4 as uint8; f32 and f64 files are rounded once to what the spec says. Inputs that are not given are random.

Examples:
  epifuse run specs/moe_fc1_swiglu.epi --dims K=256,I=128 -o results
  epifuse run specs/moe_fc1_swiglu.epi x=x.npy w=w.npy prob=prob.npy M.ends=ends.npy -o results.npz
  epifuse run specs/moe_fc1_swiglu.epi --inputs data/ --device cpu)";

inline constexpr const char* verify_footer = R"(Examples:
  epifuse verify specs/moe_fc1_swiglu.epi
  epifuse verify specs/grouped_gemm.epi --counts 0,1,127,129,1000,0,4096,5 --seed 7
  epifuse verify specs/moe_fc1_swiglu.epi --tap act        and the value in front of the quantiser)";

inline constexpr const char* explain_footer = R"(Examples:
  epifuse explain specs/moe_fc1_swiglu.epi
  epifuse explain specs/grouped_gemm.epi --dims E=16,K=2880,N=5760 --expected-rows 2048
  epifuse explain specs/swiglu_mlp.epi --kernel fc1_wgrad --counts 512,0,4096,1,1000,1000,1000,1000 --json)";

inline constexpr const char* bench_footer = R"(Examples:
  epifuse bench specs/moe_fc1_swiglu.epi --expected-rows 4096 -o today.json
  epifuse bench specs/swiglu_mlp.epi --no-unfused              every kernel of a file
  epifuse bench specs/grouped_gemm.epi --host                  host time of a launch
  epifuse bench --compare before.json today.json --tolerance 2)";

inline constexpr const char* tune_footer = R"(Examples:
  epifuse tune specs/moe_fc1_swiglu.epi --expected-rows 4096 -o tuning.json
  EPIFUSE_TUNING=tuning.json epifuse compile specs/moe_fc1_swiglu.epi      takes the plan that was found
  epifuse tune specs/grouped_gemm.epi --dims E=16,K=2880,N=5760 --report   only says what is fast, and how good the
                                                                           cost model's choice is)";

inline constexpr const char* fmt_footer = R"(Examples:
  epifuse fmt specs/*.epi              writes each anew that is not formatted
  epifuse fmt specs/*.epi --check      names those, exit code 1, and writes nothing
  epifuse fmt my.epi -o formatted.epi)";

inline constexpr const char* grad_footer = R"(Examples:
  epifuse grad specs/swiglu_mlp.epi --chain fc1,fc2 -o backward.epi
  epifuse grad specs/moe_fc1_swiglu.epi --chain moe_fc1_swiglu     of one layer)";

inline constexpr const char* doctor_footer = R"(Examples:
  epifuse doctor            the GPU, the driver, NVRTC, the cache, and the settings
  epifuse doctor --json)";

inline constexpr const char* cache_footer = R"(Examples:
  epifuse cache list                    last use, size, target and kernel of every entry
  epifuse cache show 3f9a               one entry, named by the beginning of its key: what it was made from
  epifuse cache why my.epi --dims K=64  whether a kernel is there, and if not, what differs from the nearest entry
  epifuse cache verify                  reads every entry; exit code 5 when one is damaged
  epifuse cache prune --size 500M       removes what was used least recently, and what killed processes left
  epifuse cache clear                   removes all
  epifuse cache path                    its directory)";

inline constexpr const char* prebuild_footer = R"(Examples:
  epifuse prebuild specs/moe_fc1_swiglu.epi --dims E=8,K=7168,I=2048 --dims E=16,K=2880,I=2880 -o kernels.epb
  epifuse prebuild --manifest kernels.json -o kernels.epb --jobs 8
  epifuse prebuild --manifest kernels.json -o kernels.epb --check   missing, extra, stale? exit code 5; compiles nothing
  EPIFUSE_RECORD=run.jsonl python train.py; epifuse prebuild --from-record run.jsonl -o kernels.epb)";

inline constexpr const char* bundle_footer = R"(Examples:
  epifuse bundle list kernels.epb
  epifuse bundle verify kernels.epb                     exit code 5 when it is damaged
  epifuse bundle extract kernels.epb --kernel fc1 -o directory
  epifuse bundle merge a.epb b.epb -o both.epb
  epifuse bundle diff old.epb new.epb                   exit code 5 when they differ
  epifuse bundle embed kernels.epb -o kernels.S         or kernels.c: to link into a program)";

}  // namespace epifuse::tools
