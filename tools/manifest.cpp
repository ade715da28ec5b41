#include "tools/manifest.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/diagnostics.h"
#include "base/json.h"
#include "base/version.h"
#include "tools/values.h"

namespace epifuse::tools {
namespace {

using Json = nlohmann::ordered_json;

Error wrong(const std::string& place, std::string_view what) {
  return user_error(place.empty() ? std::string(what) : fmt::format("{}: {}", place, what));
}

Status read_text(const Json& json, const std::string& place, std::string& into) {
  if (!json.is_string() || json.get_ref<const std::string&>().empty()) return wrong(place, "this must be a text");
  into = json.get<std::string>();
  return {};
}

Status for_each(const Json& json, const std::string& place,
                const std::function<Status(const Json&, const std::string&)>& read) {
  if (!json.is_array() || json.empty()) return wrong(place, "this must be a list of one or more");
  for (size_t i = 0; i < json.size(); ++i)
    if (Status good = read(json[i], fmt::format("{}[{}]", place, i)); !good) return good;
  return {};
}

Status read_dims(const Json& json, const std::string& place, std::map<std::string, int64_t>& into) {
  if (!json.is_object()) return wrong(place, "a set of dims is an object: {\"E\": 8, \"K\": 7168}");
  for (const auto& [name, value] : json.items()) {
    const auto number = json_integer(value);
    if (!number || *number < 1) return wrong(place + "." + name, "this must be a whole number above 0");
    into[name] = *number;
  }
  return {};
}

Status read_names(const Json& json, const std::string& place, std::set<std::string>& into) {
  if (!json.is_array()) return wrong(place, "this must be a list of names");
  for (size_t i = 0; i < json.size(); ++i) {
    std::string name;
    if (Status good = read_text(json[i], fmt::format("{}[{}]", place, i), name); !good) return good;
    into.insert(std::move(name));
  }
  return {};
}

Status read_targets(const Json& json, const std::string& place, std::vector<Target>& into) {
  return for_each(json, place, [&](const Json& item, const std::string& at) -> Status {
    std::string name;
    if (Status good = read_text(item, at, name); !good) return good;
    const Result<Target> target = parse_target(name);
    if (!target) return wrong(at, target.error().message);
    into.push_back(*target);
    return {};
  });
}

Status read_flag(const Json& json, const std::string& place, bool& into) {
  if (!json.is_boolean()) return wrong(place, "this must be true or false");
  into = json.get<bool>();
  return {};
}

// Reads one field of T.
template <class T>
using Reader = std::function<Status(const Json&, const std::string& place, T&)>;
template <class T>
using Fields = std::map<std::string, Reader<T>>;

// Each key of an object by its reader, in the order of the file; a key that has none is an error.
template <class T>
Status read_object(const Json& json, const std::string& place, const Fields<T>& fields, T& into) {
  if (!json.is_object()) return wrong(place, "this must be an object");
  for (const auto& [key, value] : json.items()) {
    const std::string at = place.empty() ? key : place + "." + key;
    const auto field = fields.find(key);
    if (field == fields.end()) {
      std::vector<std::string> names;
      for (const auto& [name, reader] : fields) names.push_back(name);
      const std::string near = nearest(key, names);
      return wrong(at, near.empty() ? fmt::format("there is no such key; there are {}", fmt::join(names, ", "))
                                    : fmt::format("there is no such key; did you mean '{}'?", near));
    }
    if (Status good = field->second(value, at, into); !good) return good;
  }
  return {};
}

const Fields<ManifestSpec>& spec_fields() {
  static const Fields<ManifestSpec> fields = {
      {"spec",
       [](const Json& json, const std::string& at, ManifestSpec& spec) { return read_text(json, at, spec.spec); }},
      {"kernels",
       [](const Json& json, const std::string& at, ManifestSpec& spec) {
         return for_each(json, at, [&](const Json& item, const std::string& place) {
           return read_text(item, place, spec.kernels.emplace_back());
         });
       }},
      {"dims",
       [](const Json& json, const std::string& at, ManifestSpec& spec) {
         return for_each(json, at, [&](const Json& item, const std::string& place) {
           return read_dims(item, place, spec.dims.emplace_back());
         });
       }},
      {"without",
       [](const Json& json, const std::string& at, ManifestSpec& spec) {
         return for_each(json, at, [&](const Json& item, const std::string& place) {
           return read_names(item, place, spec.without.emplace_back());
         });
       }},
      {"targets", [](const Json& json, const std::string& at,
                     ManifestSpec& spec) { return read_targets(json, at, spec.targets); }},
      {"schedule",
       [](const Json& json, const std::string& at, ManifestSpec& spec) { return read_text(json, at, spec.schedule); }},
      {"unfused",
       [](const Json& json, const std::string& at, ManifestSpec& spec) { return read_flag(json, at, spec.unfused); }},
  };
  return fields;
}

// The manifest while it is read: what all specs have in common is put into each at the end.
struct Reading {
  Manifest manifest;
  std::vector<Target> targets;
  bool unfused = false;
};

const Fields<Reading>& manifest_fields() {
  static const Fields<Reading> fields = {
      {"manifest",
       [](const Json& json, const std::string& at, Reading&) -> Status {
         if (json == manifest_version) return {};
         return wrong(at, fmt::format("the version of the manifest is {}, and this Epifuse reads {}", json.dump(),
                                      manifest_version));
       }},
      {"specs",
       [](const Json& json, const std::string& at, Reading& reading) {
         return for_each(json, at, [&](const Json& item, const std::string& place) -> Status {
           ManifestSpec& spec = reading.manifest.specs.emplace_back();
           if (Status good = read_object(item, place, spec_fields(), spec); !good) return good;
           return spec.spec.empty() ? Status(wrong(place, "'spec' is missing: the path of a spec")) : Status();
         });
       }},
      {"targets", [](const Json& json, const std::string& at,
                     Reading& reading) { return read_targets(json, at, reading.targets); }},
      {"plans", [](const Json& json, const std::string& at,
                   Reading& reading) { return read_text(json, at, reading.manifest.plans); }},
      {"unfused",
       [](const Json& json, const std::string& at, Reading& reading) { return read_flag(json, at, reading.unfused); }},
  };
  return fields;
}

template <class T>
std::vector<std::string> keys_of(const Fields<T>& fields) {
  std::vector<std::string> names;
  for (const auto& [name, reader] : fields) names.push_back(name);
  return names;
}

std::string from_folder(const std::string& folder, const std::string& path) {
  return path.starts_with("/") || folder.empty() ? path : folder + "/" + path;
}

}  // namespace

Result<Manifest> parse_manifest(std::string_view text, const std::string& folder) {
  const Result<Json> read = read_json(text);
  if (!read) return user_error(fmt::format("this is {}", read.error().message));
  const Json& json = *read;
  Reading reading;
  if (Status good = read_object(json, "", manifest_fields(), reading); !good) return good.error();
  for (const char* key : {"manifest", "specs"})
    if (!json.contains(key)) return user_error(fmt::format("'{}' is missing", key));
  Manifest& manifest = reading.manifest;
  if (!manifest.plans.empty()) manifest.plans = from_folder(folder, manifest.plans);
  for (ManifestSpec& spec : manifest.specs) {
    spec.spec = from_folder(folder, spec.spec);
    if (spec.targets.empty()) spec.targets = reading.targets;
    if (spec.targets.empty()) spec.targets = {Target{}};
    spec.unfused = spec.unfused || reading.unfused;
  }
  return manifest;
}

Manifest manifest_of(const CommandLine& line) {
  Manifest manifest;
  for (const std::string& path : line.specs) {
    ManifestSpec& spec = manifest.specs.emplace_back();
    spec.spec = path;
    if (!line.kernel.empty()) spec.kernels = {line.kernel};
    spec.dims = line.dim_sets;
    if (!line.left_out.empty()) spec.without = {line.left_out};
    spec.targets = line.targets.empty() ? std::vector<Target>{Target{}} : line.targets;
    spec.schedule = line.schedule;
    spec.unfused = line.unfused;
  }
  return manifest;
}

std::vector<std::string> manifest_keys() { return keys_of(manifest_fields()); }
std::vector<std::string> manifest_spec_keys() { return keys_of(spec_fields()); }

}  // namespace epifuse::tools
