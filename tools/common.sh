# Shared by the developer scripts (sourced by setup, build_and_run and check): where the checkout is, how a step stays
# quiet until it fails, and how a preset is built.
set -euo pipefail

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.." && pwd)
cd "$root"
logs=$root/build/logs
mkdir -p "$logs"
# Where ccache is installed, a checkout in another folder shares its results.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1

# die MESSAGE: the one clear line, and the end.
die() {
  printf '%s: %s\n' "$(basename "$0")" "$1" >&2
  exit 1
}

# quietly NAME COMMAND...: runs the command with its output in build/logs/NAME.log. When it fails, the end of the log is
# printed and the status is the command's.
quietly() {
  local name=$1 status=0
  shift
  "$@" >"$logs/$name.log" 2>&1 </dev/null || status=$?
  if [ "$status" != 0 ]; then
    tail -n 60 "$logs/$name.log" >&2
    printf '%s failed; the whole log is build/logs/%s.log\n' "$*" "$name" >&2
  fi
  return "$status"
}

# build_preset PRESET [TARGET...]: configures and builds; warm, it is a look at the time stamps. A first build says where
# its log grows.
build_preset() {
  local preset=$1 targets=()
  shift
  [ $# = 0 ] || targets=(--target "$@")
  quietly "configure-$preset" cmake --preset "$preset" || return
  # A build that begins from nothing says nothing for minutes.
  if [ ! -e "build/$preset/.ninja_log" ]; then
    printf 'building %s, which takes minutes the first time; the log is build/logs/build-%s.log\n' "$preset" "$preset"
  fi
  quietly "build-$preset" cmake --build --preset "$preset" "${targets[@]}"
}
