// Streams, timers and captured graphs: calls, errors, and that every handle is given back.
#include "runtime/stream.h"

#include "tests/support/catch.h"
#include "tests/support/fake_driver.h"

using namespace epifuse;
using namespace epifuse::runtime;

TEST_CASE("a graph is captured once and replayed by one call") {
  test::FakeDriver fake;
  fake.current = test::FakeDriver::primary_context(0);
  {
    const auto device = *Device::open(fake.table(), 0);
    const auto stream = make_stream(device);
    REQUIRE(stream);
    int enqueued = 0;
    const auto graph = CapturedGraph::capture(device, stream->get(), [&]() -> Status {
      ++enqueued;
      return {};
    });
    REQUIRE(graph);
    CHECK(enqueued == 1);
    fake.forget();
    REQUIRE(graph->replay(stream->get()));
    REQUIRE(graph->replay(stream->get()));
    CHECK(fake.calls == std::vector<std::string>{"ctx_get_current", "graph_launch", "ctx_get_current", "graph_launch"});
    CHECK(enqueued == 1);
  }
  CHECK(fake.open_handles == 0);
}

TEST_CASE("an error inside a capture ends the capture and is the error returned") {
  test::FakeDriver fake;
  {
    const auto device = *Device::open(fake.table(), 0);
    const auto graph = CapturedGraph::capture(device, nullptr, [] { return Status(user_error("no such tensor")); });
    REQUIRE_FALSE(graph);
    CHECK(graph.error().message == "no such tensor");
    CHECK(fake.count("stream_end_capture") == 1);
    CHECK(fake.count("graph_instantiate") == 0);
    CHECK(fake.current == nullptr);

    fake.fail["graph_instantiate"] = cuda::Code::out_of_memory;
    CHECK_FALSE(CapturedGraph::capture(device, nullptr, [] { return Status(); }));
    fake.fail = {{"stream_begin_capture", cuda::Code::invalid_value}};
    CHECK(CapturedGraph::capture(device, nullptr, [] { return Status(); })
              .error()
              .message.find("starting the capture of a stream") == 0);
  }
  CHECK(fake.open_handles == 0);
}

TEST_CASE("a timer reads the time between its two points") {
  test::FakeDriver fake;
  {
    const auto device = *Device::open(fake.table(), 0);
    auto timer = Timer::make(device);
    REQUIRE(timer);
    REQUIRE(timer->start(nullptr));
    REQUIRE(timer->stop(nullptr));
    const auto ms = timer->milliseconds();
    REQUIRE(ms);
    CHECK(*ms == 1.5);
    CHECK(fake.count("event_record") == 2);
    CHECK(fake.count("event_synchronize") == 1);
  }
  CHECK(fake.open_handles == 0);
}

TEST_CASE("waiting says what was waited for") {
  test::FakeDriver fake;
  const auto device = *Device::open(fake.table(), 0);
  CHECK(synchronize(*device, nullptr, "the test"));
  fake.fail["stream_synchronize"] = cuda::Code::illegal_address;
  CHECK(synchronize(*device, nullptr, "the test").error().message.find("the test: a kernel accessed memory") == 0);
}
