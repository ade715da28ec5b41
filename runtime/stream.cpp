// Streams, timers and graphs over the driver table.
#include "runtime/stream.h"

namespace epifuse::runtime {

Result<OwnedStream> make_stream(const DevicePtr& device) {
  const CurrentContext scope(*device);
  cuda::Stream stream = nullptr;
  auto code = scope.code();
  if (code == cuda::Code::success) code = device->driver().stream_create(&stream, cuda::stream_non_blocking);
  if (code != cuda::Code::success) return driver_error(device->driver(), code, "making a stream");
  return OwnedStream(device, stream);
}

Status synchronize(const Device& device, cuda::Stream stream, std::string_view doing) {
  const CurrentContext scope(device);
  auto code = scope.code();
  if (code == cuda::Code::success) code = device.driver().stream_synchronize(stream);
  return check(device.driver(), code, doing);
}

Result<Timer> Timer::make(const DevicePtr& device) {
  const DriverApi& driver = device->driver();
  const CurrentContext scope(*device);
  cuda::Event events[2] = {};
  auto code = scope.code();
  if (code == cuda::Code::success) code = driver.event_create(&events[0], cuda::event_default);
  OwnedEvent start(device, events[0]);
  if (code == cuda::Code::success) code = driver.event_create(&events[1], cuda::event_default);
  OwnedEvent stop(device, events[1]);
  if (code != cuda::Code::success) return driver_error(driver, code, "making a timer");
  return Timer(std::move(start), std::move(stop));
}

Status Timer::start(cuda::Stream stream) { return record(start_, stream); }
Status Timer::stop(cuda::Stream stream) { return record(stop_, stream); }

Status Timer::record(const OwnedEvent& event, cuda::Stream stream) {
  const Device& device = *event.device();
  const CurrentContext scope(device);
  auto code = scope.code();
  if (code == cuda::Code::success) code = device.driver().event_record(event.get(), stream);
  return check(device.driver(), code, "recording the time");
}

Result<double> Timer::milliseconds() {
  const Device& device = *stop_.device();
  const DriverApi& driver = device.driver();
  const CurrentContext scope(device);
  float elapsed = 0;
  auto code = scope.code();
  if (code == cuda::Code::success) code = driver.event_synchronize(stop_.get());
  if (code == cuda::Code::success) code = driver.event_elapsed_time(&elapsed, start_.get(), stop_.get());
  if (code != cuda::Code::success) return driver_error(driver, code, "timing GPU work");
  return elapsed;
}

Result<CapturedGraph> CapturedGraph::capture(const DevicePtr& device, cuda::Stream stream,
                                             const std::function<Status()>& enqueue) {
  const DriverApi& driver = device->driver();
  const CurrentContext scope(*device);
  auto code = scope.code();
  // Thread-local: what other threads do with the driver meanwhile is no part of this capture and must not break it.
  if (code == cuda::Code::success) code = driver.stream_begin_capture(stream, cuda::CaptureMode::thread_local_);
  if (code != cuda::Code::success) return driver_error(driver, code, "starting the capture of a stream");

  const Status enqueued = enqueue();
  cuda::Graph captured = nullptr;
  code = driver.stream_end_capture(stream, &captured);
  const Owned<cuda::Graph, &DriverApi::graph_destroy> graph(device, captured);
  if (!enqueued) return enqueued.error();
  if (code != cuda::Code::success) return driver_error(driver, code, "ending the capture of a stream");

  cuda::GraphExec exec = nullptr;
  code = driver.graph_instantiate(&exec, graph.get(), 0);
  if (code != cuda::Code::success) return driver_error(driver, code, "instantiating a captured graph");
  return CapturedGraph(OwnedExec(device, exec));
}

Status CapturedGraph::replay(cuda::Stream stream) const {
  const Device& device = *exec_.device();
  const CurrentContext scope(device);
  auto code = scope.code();
  if (code == cuda::Code::success) code = device.driver().graph_launch(exec_.get(), stream);
  return check(device.driver(), code, "replaying a captured graph");
}

}  // namespace epifuse::runtime
