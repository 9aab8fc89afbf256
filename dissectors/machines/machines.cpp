// The machines are pure functions in headers; each must compile by itself.
#include "dissectors/machines/memory_access.hpp"
#include "dissectors/machines/message_sequence.hpp"
#include "dissectors/machines/psn_window.hpp"
#include "dissectors/machines/queue_pair_states.hpp"
#include "dissectors/machines/rc_requester.hpp"
#include "dissectors/machines/rc_responder.hpp"
