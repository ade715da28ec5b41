// Streams, timing between two points of a stream, and graphs captured from a stream.
#pragma once

#include <functional>

#include "runtime/owned.h"

namespace epifuse::runtime {

// A stream of our own. It does not wait for the legacy default stream.
using OwnedStream = Owned<cuda::Stream, &DriverApi::stream_destroy>;
Result<OwnedStream> make_stream(const DevicePtr& device);

// Waits until all work of the stream is done. An error is that of any earlier work on the device; `doing` says what the
// caller waits for.
Status synchronize(const Device& device, cuda::Stream stream, std::string_view doing);

// GPU time between start and stop, both recorded on a stream.
class Timer {
 public:
  static Result<Timer> make(const DevicePtr& device);

  Status start(cuda::Stream stream);
  Status stop(cuda::Stream stream);
  Result<double> milliseconds();  // waits for the stop

 private:
  using OwnedEvent = Owned<cuda::Event, &DriverApi::event_destroy>;
  Timer(OwnedEvent start, OwnedEvent stop) : start_(std::move(start)), stop_(std::move(stop)) {}
  Status record(const OwnedEvent& event, cuda::Stream stream);

  OwnedEvent start_, stop_;
};

// Work captured from a stream, replayed by one driver call. Replays may run on any stream of the device.
class CapturedGraph {
 public:
  // Captures what `enqueue` puts on `stream`, which must not be the legacy default stream. An error of `enqueue` ends
  // the capture and is returned. Buffers and bound calls used in it must outlive the graph.
  static Result<CapturedGraph> capture(const DevicePtr& device, cuda::Stream stream,
                                       const std::function<Status()>& enqueue);

  Status replay(cuda::Stream stream) const;

 private:
  using OwnedExec = Owned<cuda::GraphExec, &DriverApi::graph_exec_destroy>;
  explicit CapturedGraph(OwnedExec exec) : exec_(std::move(exec)) {}

  OwnedExec exec_;
};

}  // namespace epifuse::runtime
