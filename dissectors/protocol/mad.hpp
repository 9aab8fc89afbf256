#pragma once
/// Management datagrams. IBTA vol 1, chapter 13.

#include "dissectors/protocol/cursor.hpp"
#include "dissectors/protocol/header.hpp"

namespace rdmawire {

Step decode_mad(Cursor& c);

}  // namespace rdmawire
