#include "dissectors/protocol/mad.hpp"

namespace rdmawire {

Step decode_mad(Cursor& c) {
  c.payload();
  return done;
}

}  // namespace rdmawire
