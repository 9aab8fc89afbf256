#include "captures/io/record.hpp"

namespace rdmawire::captures {

namespace {
template <class T>
std::optional<T> number_option(const Record& record, std::uint16_t code) {
  BlockOptions options(record.options, record.options_swapped);
  BlockOptions::Option option{};
  while (options.next(option))
    if (option.code == code && option.value.size() == sizeof(T))
      return load<T>(option.value.data(), record.options_swapped);
  return std::nullopt;
}
}  // namespace

std::optional<std::uint32_t> Record::flags() const { return number_option<std::uint32_t>(*this, pcapng::epb_flags); }
std::optional<std::uint64_t> Record::drops() const {
  return number_option<std::uint64_t>(*this, pcapng::epb_dropcount);
}

}  // namespace rdmawire::captures
