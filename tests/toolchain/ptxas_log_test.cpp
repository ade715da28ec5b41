// Facts from the assembler's words, as versions 12.9 to 13.5 write them.
#include "compiler/toolchain/ptxas_log.h"

#include "tests/support/catch.h"

using namespace epifuse::toolchain;

namespace {

CompileOutcome read(std::string log) {
  CompileOutcome outcome;
  outcome.log = std::move(log);
  read_ptxas_log(outcome);
  return outcome;
}

}  // namespace

TEST_CASE("registers, stack and spills of each entry, and their summary") {
  const CompileOutcome outcome = read(R"(ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z2tkILi3EEvPf' for 'sm_90a'
ptxas info    : Function properties for _Z2tkILi3EEvPf
ptxas         .     320 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 320 bytes cumulative stack size
ptxas info    : Compile time = 4.832 ms
ptxas info    : Compiling entry function 'other' for 'sm_90a'
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Function properties for not_inlined
ptxas         .     0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads
)");
  REQUIRE(outcome.entries.size() == 2);
  CHECK(outcome.entries[0].name == "_Z2tkILi3EEvPf");
  CHECK(outcome.entries[0].registers == 168);
  CHECK(outcome.entries[0].stack_bytes == 320);
  CHECK(outcome.entries[0].spill_store_bytes == 12);
  CHECK(outcome.entries[0].spill_load_bytes == 16);
  CHECK(outcome.entries[1].registers == 8);
  CHECK(outcome.registers == 168);
  CHECK(outcome.spill_bytes == 32);
  CHECK(!outcome.wgmma_serialized);
  REQUIRE(outcome.notes.size() == 2);
  CHECK(outcome.notes[0] == "'_Z2tkILi3EEvPf' spills registers to memory: 12 bytes of stores, 16 of loads");
}

TEST_CASE("serialised wgmma and a setmaxnreg without effect are seen, each once") {
  const CompileOutcome outcome = read(
      R"(ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry.
ptxas info    : (C7517) warpgroup.wait is injected in around line 59 by compiler to allow use of registers defined by GMMA in function 'wg'
ptxas info    : (C7517) warpgroup.wait is injected in around line 69 by compiler to allow use of registers defined by GMMA in function 'wg'
ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in the function 'wg'
ptxas info    : Compiling entry function 'wg' for 'sm_90a'
ptxas info    : Function properties for wg
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 30 registers, used 0 barriers
ptxas info    : Compiling entry function 'fine' for 'sm_90a'
ptxas info    : Used 20 registers, used 0 barriers
)");
  CHECK(outcome.wgmma_serialized);
  CHECK(outcome.entries.at(0).wgmma_serialized);
  CHECK(!outcome.entries.at(1).wgmma_serialized);
  CHECK(outcome.spill_bytes == 0);
  CHECK(outcome.notes ==
        std::vector<std::string>{
            "setmaxnreg has no effect: ignored; unable to determine register count at entry.",
            "the assembler added a wait for wgmma in 'wg'",
            "wgmma runs one at a time in 'wg': insufficient register resources for the wgmma pipeline"});
}

TEST_CASE("a loss in any entry is the image's, also in one behind others") {
  const std::string fine =
      "ptxas info    : Compiling entry function 'fine' for 'sm_90a'\nptxas info    : Function properties for fine\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\nptxas info    : Used 40 registers\n";
  const std::string spilling =
      "ptxas info    : Compiling entry function 'last' for 'sm_90a'\nptxas info    : Function properties for last\n"
      "    8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\nptxas info    : Used 24 registers\n";
  const std::string serialized =
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call "
      "in "
      "the function 'last'\n";
  const CompileOutcome spills = read(fine + spilling);
  CHECK(spills.spill_bytes == 12);
  CHECK(spills.registers == 40);
  CHECK(spills.entries.at(0).spill_store_bytes == 0);
  const CompileOutcome waits = read(fine + serialized + spilling);
  CHECK(waits.wgmma_serialized);
  CHECK(!waits.entries.at(0).wgmma_serialized);
  CHECK(waits.entries.at(1).wgmma_serialized);
}

TEST_CASE("an empty log is no good news") {
  const CompileOutcome outcome = read("");
  REQUIRE(outcome.notes.size() == 1);
  CHECK(outcome.notes[0].find("not known") != std::string::npos);
}

TEST_CASE("words that are not the assembler's do no harm") {
  const CompileOutcome outcome = read(
      "bytes stack frame\nUsed registers\nCompiling entry function 'a\n99999999999 bytes stack frame\n"
      "Compiling entry function 'b' for\n bytes stack frame, x bytes spill stores\nUsed 99999999999 registers");
  REQUIRE(outcome.entries.size() == 1);
  CHECK(outcome.entries[0].registers == 0);
}
