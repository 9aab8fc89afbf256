# cmake -DOUT=scripts.cpp -DBUILD=image/build -DINIT=image/init -P embed.cmake
file(READ ${BUILD} build)
file(READ ${INIT} init)
file(WRITE ${OUT} "#include \"conformance/lab/scripts.hpp\"\n
namespace rdmawire::lab {
const std::string_view build_script = R\"script(${build})script\";
const std::string_view init_script = R\"script(${init})script\";
}  // namespace rdmawire::lab\n")
