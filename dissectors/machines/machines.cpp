// The machines are pure functions in headers; each must compile by itself.
#include "dissectors/machines/congestion.hpp"
#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/machines/psn_window.hpp"
#include "dissectors/machines/rc_requester.hpp"
#include "dissectors/machines/rc_responder.hpp"
#include "dissectors/machines/uc.hpp"
#include "dissectors/machines/ud.hpp"
