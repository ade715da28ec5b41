// Result<T>: a value or the reason why there is none. The reason tells whose fault it is, because the exit code of the
// command line and the reaction of a caller depend on that and on nothing else.
//
// Mistakes inside a spec are Diagnostics (base/diagnostics.h), which carry locations; a fault of ours is an exception
// thrown by ensure() (base/ensure.h) and caught only in main and at the C functions.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace epifuse {

enum class ErrorKind {
  user,         // what the caller gave cannot work: exit code 1
  environment,  // this machine lacks something: no NVRTC, no GPU, no memory: exit code 3
  wrong,        // the thing that was checked is wrong: exit code 5
};

struct Error {
  ErrorKind kind = ErrorKind::user;
  std::string message;
};

inline Error user_error(std::string message) { return {ErrorKind::user, std::move(message)}; }
inline Error environment_error(std::string message) { return {ErrorKind::environment, std::move(message)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}
  Result(Error error) : state_(std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace epifuse
