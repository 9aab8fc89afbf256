/// The C++ part of rdmawire.replaying: replay onto wires, and reactive replay against a device.

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <array>
#include <atomic>
#include <random>

#include "captures/io/interrupt.hpp"
#include "conformance/runner/live_target.hpp"
#include "dissectors/output/edit_distance.hpp"
#include "dissectors/protocol/decode.hpp"
#include "pysdk/src/bindings.hpp"
#include "pysdk/src/bytes.hpp"
#include "pysdk/src/devices.hpp"
#include "pysdk/src/errors.hpp"
#include "pysdk/src/frame.hpp"
#include "pysdk/src/interruptible.hpp"
#include "pysdk/src/interruptible_run.hpp"
#include "pysdk/src/values.hpp"
#include "pysdk/src/wires_bindings.hpp"
#include "replay/player/mapping.hpp"
#include "replay/player/player.hpp"
#include "replay/player/targets.hpp"
#include "replay/reactive/run.hpp"
#include "replay/rewrite/map_file.hpp"
#include "replay/wires/clock.hpp"
#include "replay/wires/null.hpp"

namespace rdmawire::python {
namespace {

using replay::PlayerOptions;

/// Adapts a shared wire to the player.
class BorrowedWire final : public replay::Wire {
 public:
  explicit BorrowedWire(std::shared_ptr<SharedWire> wire) : wire_(std::move(wire)) {
    if (const auto can = wire_->capabilities()) capabilities_ = *can;
  }
  [[nodiscard]] const std::string& name() const override { return wire_->name(); }
  [[nodiscard]] const replay::WireCapabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] std::int64_t now() const override {
    // now() works after the wire was closed. The player then gets the error from send().
    const auto now = wire_->now();
    if (now) last_ = *now;
    return now ? *now : capabilities_.virtual_time ? last_ : replay::wire_clock::now();
  }
  [[nodiscard]] replay::WireCounters counters() const override {
    return wire_->counters().value_or(replay::WireCounters{});
  }
  using Wire::send;
  replay::WireResult<std::size_t> send(std::span<const replay::Outgoing> frames) override {
    return wire_->send(frames);
  }
  replay::WireResult<std::optional<replay::Received>> receive(std::int64_t) override {
    return std::nullopt;  // the player does not receive
  }
  replay::WireResult<bool> writable(std::int64_t deadline) override {
    for (;;) {
      auto room = wire_->writable(deadline);
      if (!room || *room || now() >= deadline) return room;
    }
  }
  replay::WireResult<bool> flush(std::int64_t deadline) override {
    for (;;) {
      auto done = wire_->flush(deadline);
      if (!done || *done || now() >= deadline) return done;
    }
  }
  void close() override {}

 private:
  std::shared_ptr<SharedWire> wire_;
  replay::WireCapabilities capabilities_;
  mutable std::int64_t last_ = 0;
};

/// A frame before it is sent, for Python. It owns copies of its contents.
struct PlayedObject {
  std::uint64_t number = 0, loop = 1;
  py::object captured, frame;
  std::vector<std::string> changes;
  std::uint32_t connection = replay::Rewritten::none;
};

PlayedObject played(const replay::PlayedFrame& frame, LinkType link) {
  PlayedObject made;
  made.number = frame.number;
  made.loop = frame.loop;
  made.captured = make_frame(frame.captured.bytes, link);
  made.frame = make_frame(frame.frame, link);
  made.connection = frame.rewritten.connection;
  for (const replay::FieldChange& change : replay::differences(frame.captured, decode(frame.frame, link)))
    made.changes.push_back(replay::to_string(change));
  return made;
}

/// A prepared replay. Can run once.
class Player {
 public:
  Player(std::vector<std::string> captures, const py::list& wires, const py::dict& options) {
    player_.files = std::move(captures);
    if (player_.files.empty()) raise(ErrorClass::usage, "replay: expected at least one capture");
    for (const auto& wire : wires) borrowed_.push_back(std::make_unique<BorrowedWire>(wire_of(wire)));
    prepare(options);
  }

  /// Runs the replay. Returns the report as JSON and as text, the error, and the number of frames that were not sent.
  py::tuple run() {
    if (ran_.exchange(true)) raise(ErrorClass::usage, "a replay can run only once");
    std::vector<replay::Wire*> wires;
    for (auto& one : borrowed_) wires.push_back(one.get());
    std::unique_ptr<replay::Wire> nowhere;
    if (wires.empty()) {
      nowhere = replay::make_null_wire();
      wires.push_back(nowhere.get());
    }
    replay::ReplayReport report;
    run_interruptible([&] { report = replay::play(player_, wires); }, [&] { stop_ = true; });
    if (error_) {
      // The traceback refers to this object, so a stored exception would be a reference cycle.
      const py::error_already_set raised = std::move(*error_);
      error_.reset();
      throw py::error_already_set(raised);
    }
    return py::make_tuple(from_json(nlohmann::json::parse(replay::to_json(report))), replay::to_text(report),
                          report.trouble, report.unable());
  }
  void stop() { stop_ = true; }

 private:
  static output::Filter filter(const char* name, const std::string& text) {
    auto compiled = output::Filter::compile(text);
    if (!compiled) raise(ErrorClass::usage, fmt::format("{}:\n{}", name, output::to_string(compiled.error(), text)));
    return std::move(*compiled);
  }
  template <class Value>
  static Value choice(const std::string& name, const std::string& word,
                      std::initializer_list<std::pair<const char*, Value>> all) {
    std::string words;
    for (const auto& [text, value] : all) {
      if (word == text) return value;
      words += (words.empty() ? "" : ", ") + std::string(text);
    }
    raise(ErrorClass::usage, fmt::format("{}=\"{}\": expected {}", name, word, words));
  }

  /// Options that other options depend on.
  struct Given {
    std::vector<std::string> map;
    std::string faults;
    bool split = false, continue_psns = false, unmapped = false;
  };

  static constexpr auto option_names = std::to_array<std::string_view>(
      {"speed",         "pps",      "bps",       "topspeed",  "burst",      "max_gap",
       "spin",          "preload",  "loops",     "pause",     "limit",      "seconds",
       "continue_psns", "ip_step",  "qp_step",   "max_bytes", "include",    "exclude",
       "split",         "unmapped", "others",    "crc",       "icrc_mask",  "hop_limit",
       "dscp",          "too_long", "truncated", "rate_cap",  "flow_label", "allow_multicast",
       "map",           "faults",   "fault_seed"});

  /// A named option and its conversions.
  struct Option {
    std::string name;
    py::handle value;

    [[nodiscard]] std::string text() const { return py::cast<std::string>(value); }
    [[nodiscard]] std::int64_t nanoseconds() const { return static_cast<std::int64_t>(py::cast<double>(value) * 1e9); }
    [[nodiscard]] double positive() const {
      const auto number = py::cast<double>(value);
      if (!(number > 0)) raise(ErrorClass::usage, fmt::format("{}={}: expected a number above 0", name, number));
      return number;
    }
    template <class Member>
    bool to(Member& member) const {
      member = py::cast<Member>(value);
      return true;
    }
  };

  // The setters return whether they know the option.

  bool set_timing(const Option& option) {
    const std::string& name = option.name;
    if (name == "speed")
      player_.pace.rate = option.positive();
    else if (name == "pps")
      player_.pace = {replay::Pace::Kind::packets, option.positive()};
    else if (name == "bps")
      player_.pace = {replay::Pace::Kind::bits, option.positive()};
    else if (name == "topspeed") {
      if (py::cast<bool>(option.value)) player_.pace = {replay::Pace::Kind::top};
    } else if (name == "max_gap")
      player_.pace.most_gap = option.nanoseconds();
    else if (name == "spin")
      player_.spin = option.nanoseconds();
    else if (name == "pause")
      player_.pause = option.nanoseconds();
    else
      return (name == "burst" && option.to(player_.pace.burst)) || (name == "loops" && option.to(player_.loops)) ||
             (name == "preload" && option.to(player_.preload)) || (name == "rate_cap" && option.to(player_.rate_cap));
    return true;
  }

  bool set_selection(const Option& option) {
    const std::string& name = option.name;
    if (name == "seconds")
      player_.most_time = option.nanoseconds();
    else if (name == "include")
      player_.include = filter("include", option.text());
    else if (name == "exclude")
      player_.exclude = filter("exclude", option.text());
    else if (name == "truncated")
      player_.snapped = choice<PlayerOptions::Snapped>(name, option.text(),
                                                       {{"skip", PlayerOptions::Snapped::skip},
                                                        {"pad", PlayerOptions::Snapped::pad},
                                                        {"shorten", PlayerOptions::Snapped::shorten},
                                                        {"send", PlayerOptions::Snapped::send}});
    else if (name == "too_long")
      player_.too_long = choice<PlayerOptions::TooLong>(name, option.text(),
                                                        {{"skip", PlayerOptions::TooLong::skip},
                                                         {"truncate", PlayerOptions::TooLong::truncate},
                                                         {"shorten", PlayerOptions::TooLong::shorten},
                                                         {"fragment", PlayerOptions::TooLong::fragment}});
    else
      return (name == "limit" && option.to(player_.most_frames)) || (name == "mtu" && option.to(player_.mtu)) ||
             (name == "max_bytes" && option.to(player_.max_bytes)) || (name == "dry_run" && option.to(player_.dry)) ||
             (name == "allow_multicast" && option.to(player_.allow_groups));
    return true;
  }

  bool set_rewriting(const Option& option, Given& given) {
    using replay::Unmapped;
    const std::string& name = option.name;
    if (name == "unmapped") {
      given.unmapped = true;
      player_.rewrite.unmapped = choice<Unmapped>(
          name, option.text(), {{"refuse", Unmapped::refuse}, {"keep", Unmapped::keep}, {"drop", Unmapped::drop}});
    } else if (name == "others")
      player_.rewrite.others = choice<Unmapped>(
          name, option.text(), {{"drop", Unmapped::drop}, {"keep", Unmapped::keep}, {"refuse", Unmapped::refuse}});
    else if (name == "crc")
      player_.rewrite.crc = choice<replay::CrcPolicy>(name, option.text(),
                                                      {{"follow", replay::CrcPolicy::follow},
                                                       {"recompute", replay::CrcPolicy::recompute},
                                                       {"keep", replay::CrcPolicy::keep}});
    else
      return (name == "map" && option.to(given.map)) || (name == "faults" && option.to(given.faults)) ||
             (name == "split" && option.to(given.split)) ||
             (name == "continue_psns" && option.to(given.continue_psns)) ||
             (name == "fault_seed" && option.to(player_.fault_seed)) ||
             (name == "ip_step" && option.to(player_.changes.ip_step)) ||
             (name == "qp_step" && option.to(player_.changes.qp_step)) ||
             (name == "icrc_mask" && option.to(player_.rewrite.icrc_mask)) ||
             (name == "hop_limit" && option.to(player_.rewrite.hop_limit)) ||
             (name == "dscp" && option.to(player_.rewrite.dscp)) ||
             (name == "flow_label" && option.to(player_.rewrite.flow_label));
    return true;
  }

  bool set_callback(const Option& option) {
    if (option.name == "on_frame")
      watch(py::reinterpret_borrow<py::object>(option.value));
    else if (option.name == "on_progress")
      set_progress(py::reinterpret_borrow<py::object>(option.value));
    else
      return false;
    return true;
  }

  void prepare(const py::dict& options) {
    Given given;
    player_.fault_seed = std::random_device()();
    for (const auto& [key, value] : options) {
      const Option option{py::cast<std::string>(key), value};
      try {
        if (!set_timing(option) && !set_selection(option) && !set_rewriting(option, given) && !set_callback(option))
          raise(ErrorClass::usage,
                "replay: unknown option " + option.name + output::did_you_mean(option.name, option_names));
      } catch (const py::cast_error&) {
        raise(ErrorClass::usage,
              fmt::format("{}={}: invalid value", option.name, std::string(py::str(py::repr(value)))));
      }
    }
    choose_lanes(given.split);
    auto program = replay::FaultProgram::compile(given.faults);
    if (!program) raise(ErrorClass::usage, "faults: " + replay::to_string(program.error(), given.faults));
    player_.faults = std::move(*program);
    learn(given.map, given.split || player_.lanes == PlayerOptions::Lanes::by_end, given.continue_psns, given.unmapped);
    player_.stop = &stop_;
  }

  /// Assigns captures or endpoints to wires.
  void choose_lanes(bool split) {
    if (borrowed_.size() > 1)
      player_.lanes = split || player_.files.size() == 1 ? PlayerOptions::Lanes::by_end : PlayerOptions::Lanes::by_file;
    if (borrowed_.size() > 1 && player_.lanes == PlayerOptions::Lanes::by_file &&
        borrowed_.size() != player_.files.size())
      raise(ErrorClass::usage, fmt::format("{} captures and {} wires: expected equal numbers, or split and two wires",
                                           player_.files.size(), borrowed_.size()));
    if (player_.lanes == PlayerOptions::Lanes::by_end && borrowed_.size() != 2)
      raise(ErrorClass::usage, fmt::format("split requires two wires, got {}", borrowed_.size()));
  }

  /// Returns whether a fault rule selects a connection, or a side of a connection.
  [[nodiscard]] bool rule_with_connection() const {
    const auto is_side = [](const auto& end) { return end && end->kind == replay::FaultEndpoint::Kind::side; };
    return std::ranges::any_of(player_.faults.rules(), [&](const replay::FaultRule& rule) {
      return rule.connection || is_side(rule.from) || is_side(rule.to);
    });
  }

  void learn(const std::vector<std::string>& map, bool sides, bool continue_psns, bool unmapped_given) {
    // Fault rules need the numbers and sides of connections, which requires reading the captures first. Pipes can be
    // read only once.
    const bool faults = !player_.faults.rules().empty() && replay::FrameSource(player_.files).repeatable();
    const bool only_faults =
        map.empty() && !sides && !continue_psns && !player_.changes.ip_step && !player_.changes.qp_step;
    if (only_faults && !faults) return;
    using Kind = replay::MappingError::Kind;
    InterruptibleRun interruptible{py::none()};
    auto mapping = [&] {
      const py::gil_scoped_release released;
      const captures::InterruptScope scope(interruptible.keep_reading());
      return replay::make_mapping(player_.files, map,
                                  unmapped_given ? std::optional(player_.rewrite.unmapped) : std::nullopt);
    }();
    interruptible.rethrow();
    if (!mapping) {
      const auto& [kind, message] = mapping.error();
      // If only faults need the connections, a damaged capture is not an error here. The replay sends the frames before
      // the damage and reports it.
      if (kind == Kind::trouble && only_faults && !rule_with_connection()) return;
      if (kind == Kind::incomplete) raise(ErrorClass::usage, message + "; use unmapped=\"keep\" or unmapped=\"drop\"");
      raise(kind == Kind::trouble ? ErrorClass::capture : ErrorClass::usage, message);
    }
    player_.numbers = mapping->numbers;
    if (continue_psns) {
      player_.changes.psns = mapping->psns();
      player_.changes.msns = mapping->msns();
    }
    player_.map = std::move(mapping->map);
    if (map.empty() && !unmapped_given)
      // Without a map, frames of unknown connections are sent unchanged.
      player_.rewrite.unmapped = player_.rewrite.others = replay::Unmapped::keep;
    for (const std::string& warning : mapping->warnings)
      if (PyErr_WarnEx(PyExc_UserWarning, warning.c_str(), 2) != 0) throw py::error_already_set();
  }

  /// Link type of the frames. Frames of other link types are not sent.
  [[nodiscard]] LinkType link() const {
    return borrowed_.empty() ? LinkType::ethernet : borrowed_.front()->capabilities().link;
  }

  /// Calls Python from the player's thread. An exception ends the replay.
  template <class Call>
  bool calls(const Call& call) {
    const py::gil_scoped_acquire lock;
    if (error_) return false;
    try {
      call();
      return true;
    } catch (py::error_already_set& error) {
      error_.emplace(error);
    } catch (const py::builtin_exception& error) {
      error.set_error();
      error_.emplace();
    }
    stop_ = true;
    return false;
  }

  void watch(const py::object& callback) {
    if (callback.is_none()) return;
    if (!PyCallable_Check(callback.ptr())) throw py::type_error("on_frame: expected a function of a PlayedFrame");
    on_frame_ = callback;
    player_.edit = [this](const replay::PlayedFrame& frame) -> std::optional<std::vector<std::uint8_t>> {
      std::optional<std::vector<std::uint8_t>> leaves(std::in_place, frame.frame.begin(), frame.frame.end());
      const bool done = calls([&] {
        const py::object result = on_frame_(played(frame, link()));
        if (result.is_none() || result.is(py::bool_(true))) return;
        if (result.is(py::bool_(false))) return leaves.reset();
        const BytesView bytes(result);
        leaves->assign(bytes.bytes().begin(), bytes.bytes().end());
      });
      if (!done) leaves.reset();
      return leaves;
    };
  }

  void set_progress(const py::object& callback) {
    if (callback.is_none()) return;
    if (!PyCallable_Check(callback.ptr())) throw py::type_error("on_progress: expected a function of a dictionary");
    on_progress_ = callback;
    player_.progress_every = 250'000'000;
    player_.progress = [this](const replay::PlayProgress& p) {
      calls([&] {
        py::dict d;
        d["sent"] = p.sent;
        d["bytes"] = p.bytes;
        d["loop"] = p.loop;
        d["position"] = p.position;
        d["total"] = p.whole;
        d["frames_per_second"] = p.frames_per_second;
        d["bits_per_second"] = p.bits_per_second;
        static_cast<void>(on_progress_(d));
      });
    };
  }

  PlayerOptions player_;
  std::vector<std::unique_ptr<BorrowedWire>> borrowed_;
  std::atomic<bool> stop_ = false, ran_ = false;
  py::object on_frame_, on_progress_;
  std::optional<py::error_already_set> error_;
};

py::dict classify_target(const std::string& name) {
  py::dict d;
  const auto spec = replay::WireSpec::parse(name);
  const replay::Target target = spec ? replay::judge_target(*spec) : replay::Target{};
  d["name"] = target.name;
  d["about"] = target.about;
  d["safe"] = spec ? target.safe : true;  // open_wire() reports invalid names
  return d;
}

py::dict play_reactively(const std::string& capture, const std::shared_ptr<SharedDevice>& device,
                         std::uint32_t connection, const std::string& side, const std::string& faults,
                         std::uint64_t seed, const std::string& output, double retry_after, double step_timeout) {
  namespace reactive = replay::reactive;
  reactive::ExchangeOptions which{.connection = connection};
  if (!side.empty()) which.side = side == "a" ? tracking::Side::a : tracking::Side::b;
  auto program = replay::FaultProgram::compile(faults);
  if (!program) raise(ErrorClass::usage, "faults: " + replay::to_string(program.error(), faults));
  const auto target = device->use();
  InterruptibleRun interruptible{py::none()};
  const auto read = [&] {
    auto exchange = [&] {
      const py::gil_scoped_release released;
      const captures::InterruptScope scope(interruptible.keep_reading());
      return reactive::read_exchange(capture, which);
    }();
    interruptible.rethrow();
    return exchange;
  };
  const auto whole = [](auto exchange) {
    if (!exchange) raise(exchange.error().usage ? ErrorClass::usage : ErrorClass::capture, exchange.error().message);
    return std::move(*exchange);
  };
  auto exchange = whole(read());
  const bool iwarp = exchange.connection.service == tracking::Service::iwarp;
  if (iwarp != target->device().is_iwarp())
    raise(ErrorClass::usage, fmt::format("the connection is {}, and the device is {}", iwarp ? "iWARP" : "RoCE",
                                         to_string(target->device().family())));
  if (const std::uint32_t mtu = target->device().device->port().active_mtu; !iwarp && mtu != 0 && mtu < exchange.mtu) {
    which.mtu = mtu;
    exchange = whole(read());
  }
  std::atomic<bool> stop = false;
  reactive::RunOptions how;
  how.faults = std::move(*program);
  how.machine.retry_after = static_cast<std::int64_t>(retry_after * 1e9);
  how.machine.step_timeout = static_cast<std::int64_t>(step_timeout * 1e9);
  how.seed = seed;
  how.output = output;
  how.stop = &stop;
  reactive::Report report;
  run_interruptible([&] { report = reactive::play(exchange, conformance::live_device(*target), how); },
                    [&] { stop = true; });
  py::dict made;
  made["json"] = from_json(json_of(report));
  made["text"] = text_of(report);
  made["good"] = report.good();
  made["failure"] = report.failure;
  return made;
}

}  // namespace

void bind_replay(py::module_& module) {
  py::class_<PlayedObject>(module, "PlayedFrame", "A frame of a capture before it is sent to a wire.")
      .def_readonly("number", &PlayedObject::number, "Number in the captures, from 1.")
      .def_readonly("loop", &PlayedObject::loop, "Number of the loop, from 1.")
      .def_readonly("captured", &PlayedObject::captured, "The captured Frame.")
      .def_readonly("frame", &PlayedObject::frame, "The rewritten Frame, before faults.")
      .def_readonly("changes", &PlayedObject::changes, "Rewritten fields, one line each: \"bth.psn 5 → 77\".")
      .def_property_readonly(
          "connection",
          [](const PlayedObject& self) {
            return self.connection == replay::Rewritten::none ? py::object(py::none()) : py::int_(self.connection);
          },
          "Index of the connection in the mapping, or None.")
      .def("__repr__", [](const PlayedObject& self) {
        return fmt::format("<PlayedFrame {}: {} changes>", self.number, self.changes.size());
      });
  py::class_<Player, std::shared_ptr<Player>>(module, "_Player", "A prepared replay.")
      .def(py::init<std::vector<std::string>, py::list, py::dict>(), py::arg("captures"), py::arg("wires"),
           py::arg("options"))
      .def("run", &Player::run)
      .def("stop", &Player::stop);
  module.def("_classify_target", &classify_target, py::arg("name"));
  module.def(
      "_learn_map",
      [](const std::vector<std::string>& captures, const std::vector<std::string>& entries) {
        InterruptibleRun interruptible{py::none()};
        auto mapping = [&] {
          const py::gil_scoped_release released;
          const captures::InterruptScope scope(interruptible.keep_reading());
          return replay::make_mapping(captures, entries, replay::Unmapped::keep);
        }();
        interruptible.rethrow();
        if (!mapping)
          raise(
              mapping.error().kind == replay::MappingError::Kind::assignment ? ErrorClass::usage : ErrorClass::capture,
              mapping.error().message);
        return replay::write_flow_map(mapping->map);
      },
      py::arg("captures"), py::arg("entries"));
  module.def("_replay_reactive", &play_reactively, py::arg("capture"), py::arg("device"), py::arg("connection"),
             py::arg("side"), py::arg("faults"), py::arg("seed"), py::arg("output"), py::arg("retry_after"),
             py::arg("step_timeout"));
}

}  // namespace rdmawire::python
