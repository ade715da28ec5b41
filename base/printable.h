// Text that may be anyone's (names in files, paths, messages with either in them) as a terminal may have it.
#pragma once

#include <string>
#include <string_view>

namespace epifuse {

// The text with control characters spelled out, "\x1b" for an escape, but for ends of lines and tabs: none moves a
// cursor, changes a colour or a title. What is no UTF-8 stays as it is.
std::string printable(std::string_view text);

}  // namespace epifuse
