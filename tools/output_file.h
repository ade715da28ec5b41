// Files that the user asked for with -o. Each appears whole or not at all, and whether it can be written is tried
// before any work is done.
#pragma once

#include <string>
#include <string_view>

#include "base/file_system.h"
#include "base/result.h"

namespace epifuse::tools {

// The file that `path` names, through a symbolic link. Errors (user): a directory or a device is in its place, its
// folder does not exist, or no file can be made there. The link's target need not exist.
Result<std::string> output_file(FileSystem& disk, const std::string& path);

// An error (user) when something else is in the directory's place, or no file can be made in it.
Status check_output_directory(const std::string& path);

// A directory for several files, made when it is missing, with its parents, as any program makes them: the umask
// decides who may look.
Status make_output_directory(const std::string& path);

// `path` is from output_file. The file gets the mode that any program's output has, not the private one of the cache.
// What a process that was killed while it wrote this file left beside it is removed.
Status write_output(FileSystem& disk, const std::string& path, std::string_view bytes);

}  // namespace epifuse::tools
