// The text form of schedules: what is printed is read back, and nothing else is a name.
#include "compiler/lowering/schedule_name.h"

#include <utility>

#include "tests/support/catch.h"

using namespace epifuse::lowering;

namespace {

// A schedule of a tile, with all combinations of what a name may add.
std::vector<Schedule> schedules() {
  std::vector<Schedule> list;
  for (const bool cooperative : {false, true})
    for (const int columns : {32, 96, 160, 192})
      for (const bool separate : {false, true})
        for (const int stages : {2, 5, 12})
          for (const int band : {1, usual_band, 16})
            for (const auto& [dynamic, pairs] : {std::pair(false, false), {true, false}, {false, true}, {true, true}}) {
              Schedule s;
              s.cooperative = cooperative;
              s.tile_columns = columns;
              s.separate = separate;
              s.stages = stages;
              s.usual_stages = 5;
              s.band = band;
              s.dynamic = dynamic;
              s.pairs = pairs;
              list.push_back(s);
            }
  return list;
}

}  // namespace

TEST_CASE("names of schedules are read back as what they were made of") {
  for (const Schedule& s : schedules()) {
    const std::string name = schedule_name(s);
    INFO(name);
    ScheduleName wanted;
    wanted.cooperative = s.cooperative;
    wanted.tile_columns = s.tile_columns;
    wanted.separate = s.separate;
    wanted.dynamic = s.dynamic;
    wanted.pairs = s.pairs;
    if (s.stages != s.usual_stages) wanted.stages = s.stages;
    if (s.band != usual_band) wanted.band = s.band;
    CHECK(parse_schedule_name(name) == wanted);
  }
  Schedule pass;
  pass.family = Family::pass;
  pass.tile_columns = 64;
  pass.band = 4;
  CHECK(schedule_name(pass) == "pass 128x64");
  CHECK(parse_schedule_name("pass 128x64") == ScheduleName{Family::pass, false, 64});
  Schedule pointwise;
  pointwise.family = Family::pointwise;
  CHECK(schedule_name(pointwise) == "pointwise");
  CHECK(parse_schedule_name("pointwise") == ScheduleName{Family::pointwise});
}

TEST_CASE("plain names are those of the planner's choice") {
  Schedule s;
  s.tile_columns = 192;
  s.stages = s.usual_stages = 5;
  CHECK(schedule_name(s) == "pingpong 128x192");
  s.stages = 4;
  s.band = 16;
  s.dynamic = s.separate = true;
  CHECK(schedule_name(s) == "pingpong 128x192 separate stages 4 band 16 dynamic");
  s.pairs = true;
  CHECK(schedule_name(s) == "pingpong 128x192 separate stages 4 band 16 dynamic pairs");
  s.pairs = false;
  s.cooperative = true;
  CHECK(schedule_name(s) == "cooperative 128x384 separate stages 4 band 16 dynamic");
}

TEST_CASE("words behind the tile may come in any order") {
  const ScheduleName wanted{Family::gemm, false, 128, false, 4, 2, true};
  for (const char* text : {"pingpong 128x128 stages 4 band 2 dynamic", "pingpong 128x128 dynamic band 2 stages 4",
                           "pingpong 128x128 band 2 dynamic stages 4"})
    CHECK(parse_schedule_name(text) == wanted);
}

TEST_CASE("what is no name is refused") {
  for (const char* text : {"",
                           " ",
                           "pingpong",
                           "pingpong ",
                           "pingpong 128x",
                           "pingpong 128x0",
                           "pingpong 128x-64",
                           "pingpong 128x064",
                           "pingpong 128x64 ",
                           " pingpong 128x64",
                           "pingpong  128x64",
                           "pingpong 64x64",
                           "pingpong 128x64x2",
                           "pingpong 128x99999999999",
                           "Pingpong 128x64",
                           "pong 128x64",
                           "cooperative 128x65",
                           "pingpong 128x64 stages",
                           "pingpong 128x64 stages x",
                           "pingpong 128x64 stages 4 stages 4",
                           "pingpong 128x64 band 8 band 8",
                           "pingpong 128x64 dynamic dynamic",
                           "pingpong 128x64 pairs pairs",
                           "pingpong 128x64 separate separate",
                           "pingpong 128x64 quick",
                           "pingpong 128x64 4",
                           "pass 128x64 stages 4",
                           "pass",
                           "pointwise 1",
                           "pointwise "}) {
    INFO("'" << text << "'");
    CHECK(!parse_schedule_name(text));
  }
}
