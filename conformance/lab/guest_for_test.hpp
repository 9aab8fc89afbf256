#pragma once
/// A guest with rxe or siw, for tests.

#include <cstdio>
#include <filesystem>
#include <string>

#include "conformance/lab/guest.hpp"
#include "conformance/lab/process.hpp"
#include "conformance/lab/run_directory.hpp"

namespace rdmawire::lab {

/// A guest with one device and a temporary directory.
class TestGuest {
 public:
  /// `agent`: path of the agent program ("": none).
  static Result<TestGuest> boot(bool siw, const std::filesystem::path& agent = {}) {
    const auto tell = [](std::string_view line) {
      std::fprintf(stderr, "  %.*s\n", static_cast<int>(line.size()), line.data());
    };
    if (find_program("qemu-system-x86_64").empty())
      return failure(LabError::Kind::missing, "requires qemu-system-x86_64 (package qemu-system-x86)");
    ImageOptions wanted;
    wanted.siw = siw;
    wanted.progress = tell;
    const auto image = provide_image(wanted);
    if (!image) return tl::unexpected(image.error());
    auto directory = RunDirectory::create("");
    if (!directory) return tl::unexpected(directory.error());
    GuestOptions options;
    options.rxe = !siw;
    options.siw = siw;
    options.agent = agent;
    options.progress = tell;
    auto guest = Guest::boot(*image, directory->path(), options);
    if (!guest) return tl::unexpected(guest.error());
    return TestGuest(std::move(*directory), std::move(*guest));
  }

  [[nodiscard]] std::string agent() const { return guest.agents().at(0); }
  [[nodiscard]] std::string address() const {
    const std::string& first = guest.ports().at(0).addresses.at(0);
    return first.substr(0, first.find('/'));
  }

 private:
  TestGuest(RunDirectory directory, Guest booted) : directory_(std::move(directory)), guest(std::move(booted)) {}
  RunDirectory directory_;

 public:
  Guest guest;
};

}  // namespace rdmawire::lab
