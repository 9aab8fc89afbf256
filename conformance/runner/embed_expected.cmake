# cmake -DOUT=expected_files.cpp -DFILES=a.json;b.json -P embed_expected.cmake
set(rows "")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE "\\.json$" "" name ${name})
  file(READ ${file} text)
  string(APPEND rows "    {\"${name}\", R\"file(${text})file\"},\n")
endforeach()
file(WRITE ${OUT} "#include \"conformance/runner/expected_files.hpp\"\n
namespace rdmawire::conformance {
namespace {
constexpr ExpectedFile files[] = {
${rows}};
}  // namespace
const std::span<const ExpectedFile> expected_files(files);
}  // namespace rdmawire::conformance\n")
